"""The size slider: words, image, search and mistakes are those of the size it stands at."""

from __future__ import annotations

import base64
import re

import cv2
import numpy as np
import pytest
from tests.browser.recomputing import Panel, Recomputed
from tests.browser.visiting import Visit, visit

PANEL: Panel = ("scenes", "hard", 200)
SIZES = [10, 20, 50]


@pytest.fixture
def seen(browser, page_of):
    with visit(browser, page_of("compare")) as seen:
        yield seen
        assert seen.complaints == []


def sprite(numbers: Recomputed, size: int, tile: int = 24) -> np.ndarray:
    """Return the patches of the kept words, one flat row a word, of mean 0 and length 1."""
    line = numbers.detail(kind="patches", method="refinement", size=size)
    coded = np.frombuffer(base64.b64decode(line["png"]), np.uint8)
    sheet = cv2.imdecode(coded, cv2.IMREAD_GRAYSCALE).astype(float)
    rows, columns = sheet.shape[0] // tile, sheet.shape[1] // tile
    tiles = sheet.reshape(rows, tile, columns, tile).swapaxes(1, 2).reshape(-1, tile * tile)
    return normed(tiles[:size])


def normed(rows: np.ndarray) -> np.ndarray:
    rows = rows - rows.mean(axis=-1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def seen_patch(seen: Visit, word: int, tile: int = 24) -> np.ndarray:
    """Return what is on the screen for a word, as a row of a sprite."""
    shot = seen.at(f"#mosaic [data-word='{word}'] > *").screenshot()
    grey = cv2.imdecode(np.frombuffer(shot, np.uint8), cv2.IMREAD_GRAYSCALE)
    return normed(
        cv2.resize(grey, (tile, tile), interpolation=cv2.INTER_AREA).astype(float).ravel()
    )


def assert_size(seen: Visit, numbers: Recomputed, size: int) -> None:
    means = numbers.means(PANEL, "sqrt")
    said = seen.text("#size-text")
    assert said.startswith(f"{size} of 200 words")
    told = [float(number) for number in re.findall(r"0\.\d{3}", said)]
    assert told == pytest.approx([means["refinement", size], means["full", 200]], abs=5.1e-4)
    shown = seen.seen("#mosaic [data-word]")
    assert sorted(map(int, shown)) == list(range(size))
    grid = seen.at("#confusion table[data-role=after]:visible")
    cells = grid.locator("tbody tr").evaluate_all(
        "all => all.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    assert cells == numbers.percentages(PANEL, "sqrt", "refinement", size)
    line = numbers.detail(kind="image")
    coded = seen.text("#image-after-said")
    assert f"{len(set(line['after'][str(size)]))} different words" in coded
    assert f"taken for {line['guess'][str(size)]}." in coded


def test_the_slider_moves_by_keyboard_and_by_hand(seen, numbers_of):
    numbers = numbers_of("compare")
    slider = seen.at("#size")
    for key, size in [("Home", 10), ("ArrowRight", 20), ("End", 50), ("ArrowLeft", 20)]:
        slider.press(key)
        assert_size(seen, numbers, size)
        assert str(size) in slider.get_attribute("aria-valuetext")
    box = slider.bounding_box()
    slider.click(position={"x": box["width"] - 3, "y": box["height"] / 2})
    assert_size(seen, numbers, 50)
    # All words stay beside it for comparison.
    whole = seen.at("#confusion table[data-role=before]:visible tbody tr").evaluate_all(
        "all => all.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    assert whole == numbers.percentages(PANEL, "sqrt", "full", 200)


def test_each_word_shows_its_own_patch(seen, numbers_of):
    seen.at("#size").press("End")
    tiles = sprite(numbers_of("compare"), 50)
    # Over the edges of the sheet: 20 tiles a row, so these stand in all of its three rows.
    for word in (0, 19, 20, 45, 49):
        alike = tiles @ seen_patch(seen, word)
        # Some made patterns are near twins; the screen must be as near as the best of them.
        assert alike[word] > 0.9
        assert alike[word] > alike.max() - 0.02


def test_words_without_pictures_are_drawn_each_in_its_own_way(browser, page_of):
    with visit(browser, page_of("reproduce")) as seen:
        seen.at("#size").press("Home")
        drawn = seen.at("#mosaic [data-word] path").evaluate_all(
            "all => all.map(p => p.getAttribute('d'))"
        )
        assert len(set(drawn)) == len(drawn) == 10
        assert all(len(path) > 100 for path in drawn)


def test_a_word_tells_its_mass_and_whom_it_inherits_from(seen, numbers_of):
    numbers = numbers_of("compare")
    seen.at("#size").press("End")
    line = numbers.detail(kind="words", coding="hard", size=50)

    def assert_told(word: int) -> None:
        said = seen.text("#word")
        assert f"Word {line['ids'][word]} " in said
        # 1/200 of the patches before, 1/50 of them now.
        assert "0.5 %" in said.replace("\u202f", " ")
        assert "2 %" in said.replace("\u202f", " ")
        for source, share in line["from"][word]:
            assert f"word {source}: {100 * share:.0f} %" in said.replace("\u202f", " ")

    seen.at("#mosaic [data-word='7']").click()
    assert_told(7)
    assert seen.at("#mosaic [aria-pressed=true]").get_attribute("data-word") == "7"
    seen.at("#mosaic [data-word='7']").press("ArrowRight")
    assert_told(8)
    assert seen.page.evaluate("document.activeElement.dataset.word") == "8"


def test_pruned_words_stand_with_their_heirs(seen, numbers_of):
    for key, size in [("Home", 10), ("End", 50)]:
        seen.at("#size").press(key)
        line = numbers_of("compare").detail(kind="words", coding="hard", size=size)
        assert f"{line['n_pruned']} words were pruned" in seen.text("#words")
        said = seen.text("#pruned > :first-child").replace("\u202f", " ")
        _, mass, _, share = line["pruned"][0]
        assert f"{100 * mass:.1g} %" in said
        assert f"{100 * share:.0f} %" in said


def test_the_image_is_painted_anew_for_each_size(seen):
    slider, painted = seen.at("#size"), "document.querySelector('#image-after').toDataURL()"
    slider.press("Home")
    pictures = [seen.page.evaluate(painted)]
    for _ in SIZES[1:]:
        slider.press("ArrowRight")
        # The photograph beneath is drawn when it has been decoded.
        seen.page.wait_for_function(f"was => {painted} !== was", arg=pictures[-1])
        pictures.append(seen.page.evaluate(painted))
    before = seen.page.evaluate("document.querySelector('#image-before').toDataURL()")
    assert len({before, *pictures}) == 1 + len(SIZES)
    colours = seen.at("#image-after").evaluate(
        """canvas => new Set(new Uint32Array(canvas.getContext('2d')
            .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    )
    assert colours > 10


def test_searches_can_be_chosen(seen, numbers_of):
    titles = {d["method"] for d in numbers_of("compare").details if d["kind"] == "trace"}
    assert titles == {"refinement", "annealing"}
    shown = set()
    for option in seen.at("#trace option").all_text_contents():
        seen.at("#trace").select_option(label=option)
        figure = seen.at("#search figure > div:visible")
        assert figure.count() == 1
        assert option.split(",")[0] in figure.locator("svg").first.locator("title").text_content()
        shown.add(figure.locator("svg").first.inner_html())
    assert len(shown) == 2
