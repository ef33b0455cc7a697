"""Every script of the gallery is run once: what its page prints and draws, and what it claims."""

import importlib
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

TOP = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (TOP / "examples" / "gallery").glob("*.py"))
PAGES = TOP / "docs" / "gallery"
NUMBER = re.compile(r"\d+(?:\.\d+)?")

CHANCE = {
    "patch_embeddings": 1 / 10,
    "scenes": 1 / 10,
    "sounds": 1 / 8,
    "textures": 1 / 6,
    "time_series": 1 / 6,
}


def shown(name: str) -> str:
    """Return the output that a page shows."""
    return re.search(r"^```text\n(.*?)^```$", (PAGES / f"{name}.md").read_text(), re.M | re.S)[1]


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_prints_what_its_page_shows_and_its_claim_holds(name, capsys, tmp_path):
    script = importlib.import_module(f"examples.gallery.{name}")
    accuracies = script.main(tmp_path)
    everything, chosen, random, retrained = (np.mean(found) for found in accuracies.values())
    # The tables of the pages lead by 0.05 and by 0.03 at least.
    assert everything > chosen > random + 0.02
    assert chosen > retrained
    assert chosen > 3 * CHANCE[name]

    # Words are compared as they stand, numbers to three points: other processors round otherwise.
    printed, page = capsys.readouterr().out, shown(name)
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", page).split()
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(page), strict=True)
    assert [(a, b) for a, b in pairs if abs(float(a) - float(b)) > 3] == []

    drawn = tmp_path / f"{name}.svg"
    assert [path.name for path in tmp_path.iterdir()] == [drawn.name]
    texts = [
        [node.text for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        for path in (drawn, PAGES / drawn.name)
    ]
    assert texts[0]
    assert NUMBER.sub("#", str(texts[0])) == NUMBER.sub("#", str(texts[1]))


def test_every_script_has_its_page_and_its_figure():
    assert len(SCRIPTS) == 5
    contents = (PAGES / "index.md").read_text("utf-8")
    for name in SCRIPTS:
        page = (PAGES / f"{name}.md").read_text("utf-8")
        assert f'--8<-- "examples/gallery/{name}.py"' in page
        assert f"]({name}.svg)" in page
        assert f"]({name}.md)" in contents
        assert (PAGES / f"{name}.svg").stat().st_size < 60_000


@pytest.mark.parametrize("name", ["scenes", "textures"])
def test_no_tile_shares_a_pixel_with_another(name):
    # Tiles are views of their photographs, so what is written into one shows in any other
    # that overlaps it.
    tiles, _ = importlib.import_module(f"examples.gallery.{name}").load_tiles()
    for tile in tiles:
        tile[:] = 0
    for tile in tiles:
        tile += 1
    assert all((tile == 1).all() for tile in tiles)
