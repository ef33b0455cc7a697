"""The notebook of the gallery runs from top to bottom, and each of its results shows itself.

Its code cells run as a kernel runs them: one after another with the same names, and the value of an
expression at the end is what the notebook shows.
"""

import ast
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

TOP = Path(__file__).resolve().parents[2]
NOTEBOOK = TOP / "examples" / "gallery" / "notebook.ipynb"
PAGE = TOP / "docs" / "gallery" / "notebook.md"
SVG = {"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9, "backend": "Agg"}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def run_cells() -> tuple[dict[str, object], list[object]]:
    """Run the code cells; return their names, and the values that the notebook shows."""
    names: dict[str, object] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        source = "".join(cell["source"])
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, NOTEBOOK.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
            # A semicolon at the end hides the value.
            if value is not None and not source.endswith(";"):
                shown.append(value)
    return names, shown


def texts(path: Path) -> str:
    nodes = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return " ".join(sorted({NUMBER.sub("#", node.text) for node in nodes}))


def test_it_runs_and_its_results_show_themselves(capsys, tmp_path):
    with mpl.rc_context(SVG):
        names, shown = run_cells()
        names["figure"].savefig(tmp_path / "notebook.svg")
        plt.close("all")
    kinds = [type(value).__name__ for value in shown]
    assert kinds == ["Recogniser", "Codebook", "Recommendation", "Run"]
    for value in shown:
        assert "<table>" in value._repr_html_()
    assert "<path" in shown[1]._repr_html_()

    true, predicted = (line.split()[1:] for line in capsys.readouterr().out.splitlines())
    n_right = sum(a == b for a, b in zip(true, predicted, strict=True))
    assert n_right >= 8
    assert shown[0].score_ > 0.6
    assert texts(tmp_path / "notebook.svg") == texts(PAGE.with_suffix(".svg"))


def test_its_page_shows_its_figure_and_links_to_it():
    page = PAGE.read_text("utf-8")
    assert "](notebook.svg)" in page
    assert "](../../examples/gallery/notebook.ipynb)" in page
    assert PAGE.with_suffix(".svg").stat().st_size < 150_000
