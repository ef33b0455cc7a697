"""README.md: every number is that of the records, and so is the figure."""

import json
import math
import re
from pathlib import Path

import pytest
from docs.assets import readme_figure

import bowsaw as bs
from bowsaw.report.summary import panels_of

TOP = Path(__file__).resolve().parents[1]
README = (TOP / "README.md").read_text("utf-8")
FLAT = " ".join(README.split())
NAMES = ("ICCV 2013", "BSD-3-Clause", "to 50 words, and trains")
"""Digits that nothing measured: names, and the size that the examples ask for."""

Panel = tuple[str, str, int]
Rows = dict[tuple[str, str, int, str, int], dict]


@pytest.fixture(scope="module")
def run():
    return bs.read_run(TOP / "results")


@pytest.fixture(scope="module")
def rows(run) -> Rows:
    key = ("set", "coding", "full_words", "method", "size")
    return {tuple(r[k] for k in key): r for r in run.table() if r["mapping"] == "sqrt"}


def panels(rows: Rows) -> list[Panel]:
    return list(dict.fromkeys(key[:3] for key in rows))


def points_lost(rows: Rows, panel: Panel, n_words: int) -> float:
    """Return by how many points of accuracy refinement is below all words."""
    full, kept = rows[*panel, "full", panel[2]], rows[*panel, "refinement", n_words]
    return 100 * (full["mean"] - kept["mean"])


def headline(rows: Rows) -> str:
    tenth = max(points_lost(rows, panel, panel[2] // 10) for panel in panels(rows))
    hundred = max(points_lost(rows, panel, 100) for panel in panels(rows))
    return (
        f"**Make a Bag-of-Visual-Words codebook 10 × smaller and lose less than {math.ceil(tenth)} "
        "point of accuracy, or cut 5000 words to 100 and lose at most "
        f"{math.ceil(10 * hundred) / 10} points.**"
    )


def numbers(run, rows: Rows) -> str:
    panel = ("15-Scenes", "hard", 5000)

    def accuracy(method, size):
        row = rows[*panel, method, size]
        return f"{row['mean']:.3f}", f"± {row['margin']:.3f}"

    def coded(method, size):
        cells = [
            cell
            for cell in run.cells
            if (*panel, method, size)
            == tuple(cell[k] for k in ("set", "coding", "full_words", "method", "size"))
        ]
        # The time depends on the number of words alone; the page has it once per number.
        (about,) = (p for p in panels_of(run.about, run.cells) if p.key == panel)
        return cells[0]["codebook_bytes"], about.code_ms[size]

    (kept, margin), (full, full_margin) = accuracy("refinement", 100), accuracy("full", 5000)
    (n_bytes, ms), (full_bytes, full_ms) = coded("refinement", 100), coded("full", 5000)
    return (
        f"100 of 5000 words reach an accuracy of **{kept}** {margin} (all words: {full} "
        f"{full_margin}) with {n_bytes / 1e3:.0f} kB instead of {full_bytes / 1e6:.1f} MB and "
        f"{ms:.2f} ms per image instead of {full_ms:.0f} ms."
    )


def benchmarked() -> list[str]:
    measured = json.loads((TOP / "benchmarks" / "results.json").read_text("utf-8"))["measured"]
    wanted = {"state": "hard, exact", "kept": 500, "of": 5000, "replaced": 10}
    (move,) = (r for r in measured["whatif_hard"]["rows"] if wanted.items() <= r.items())
    assert move["answer"] == "identical histograms"
    n_images = measured["whatif_hard"]["size"].split(" images")[0]
    (device,) = (
        r for r in measured["device"]["rows"] if (r["coding"], r["n_words"]) == ("hard", 50)
    )
    assert device["same"]
    n_classes = re.search(r"(\d+) classes", measured["device"]["size"])[1]
    return [
        f"Replacing 10 words of 500 kept, of 5000, takes {1e3 * move['ours']:.1f} ms for "
        f"{n_images} images, {move['peer'] / move['ours']:.0f} × less than encoding them again.",
        f"A recogniser of 50 words and {n_classes} classes is an ONNX graph of "
        f"{device['bytes']['onnx'] / 1e3:.0f} kB, or {device['bytes']['c_uint8'] / 1e3:.1f} kB of "
        "tables in a C header.",
    ]


def statements(run, rows: Rows) -> list[str]:
    """Return everything that the first page claims with a number."""
    about = panels(rows)
    return [
        headline(rows),
        numbers(run, rows),
        f"the {len(about)} panels",
        "from {} and from {} words".format(*sorted({panel[2] for panel in about})),
        f'alt="{readme_figure.described(readme_figure.measured())}"',
        *benchmarked(),
    ]


def test_every_number_is_that_of_the_records(run, rows):
    text = FLAT
    for statement in statements(run, rows):
        assert statement in text
        text = text.replace(statement, "")
    # No other number is in the text. Programs and addresses are not text.
    text = re.sub(r"```.*?```|\]\([^)]*\)|(?:src|srcset|width)=\"[^\"]*\"|`[^`]*`", "", text)
    for name in NAMES:
        assert name in text
        text = text.replace(name, "")
    assert re.findall(r"\S*\d\S*", text) == []


def test_the_first_sentence_is_about_every_panel(rows):
    assert {panel[:2] for panel in panels(rows)} == {
        (name, coding) for name in ("15-Scenes", "Caltech-10") for coding in ("hard", "soft")
    }
    assert len(panels(rows)) == 8
    for panel in panels(rows):
        assert points_lost(rows, panel, panel[2] // 10) < 1
        assert points_lost(rows, panel, 100) <= 2.2


@pytest.mark.parametrize("theme", readme_figure.THEMES)
def test_the_figure_is_that_of_the_records(theme, tmp_path):
    readme_figure.main(tmp_path)
    name = f"readme-{theme}.svg"
    assert (tmp_path / name).read_bytes() == (readme_figure.FIGURES / name).read_bytes()
    assert f"docs/figures/{name}" in README


def test_a_change_of_the_records_changes_the_page(run, rows):
    def moved(panel, method, size):
        key = (*panel, method, size)
        return {**rows, key: {**rows[key], "mean": rows[key]["mean"] - 0.05}}

    for panel in panels(rows):
        changed = moved(panel, "refinement", panel[2] // 10)
        assert headline(changed) not in FLAT
    changed = moved(("15-Scenes", "hard", 5000), "refinement", 100)
    assert numbers(run, changed) not in FLAT


def test_the_screenshot_is_small():
    (name,) = re.findall(r'src="(\S+\.png)"', README)
    assert 10_000 < (TOP / name).stat().st_size <= 120_000
