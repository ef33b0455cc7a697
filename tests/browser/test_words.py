"""The size slider: words, image, search and mistakes are those of the chosen size."""

import base64
import re

import numpy as np
import pytest
from tests.browser.visiting import Panel, Records, Visit, visit

from bowsaw.glyphs import LARGEST, sift_strokes

PANEL: Panel = ("scenes", "hard", 200)
ROWS = "all => all.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"


@pytest.fixture
def seen(browser, page_of):
    with visit(browser, page_of("small")) as seen:
        yield seen
        assert seen.complaints == []


@pytest.fixture(scope="module")
def records(records_of):
    return records_of("small")


def assert_size(seen: Visit, records: Records, size: int) -> None:
    means = records.means(PANEL, "sqrt")
    text = seen.text("#size-text")
    assert text.startswith(f"{size} of 200 words")
    found = [float(number) for number in re.findall(r"0\.\d{3}", text)]
    assert found == pytest.approx([means["refinement", size], means["full", 200]], abs=5.1e-4)
    assert sorted(map(int, seen.seen("#mosaic [data-word]"))) == list(range(size))
    for role, method, words in (("after", "refinement", size), ("before", "full", 200)):
        rows = seen.at(f"#confusion table[data-role={role}]:visible tbody tr").evaluate_all(ROWS)
        assert rows == records.percentages(PANEL, "sqrt", method, words)
    line = records.detail(kind="image")
    coded = seen.text("#image-after-text")
    assert f"{len(set(line['after'][str(size)]))} different words" in coded
    assert f"recognised as {line['guess'][str(size)]}." in coded


def test_the_slider_moves_by_keyboard_and_by_mouse(seen, records):
    slider = seen.at("#size")
    for key, size in [("Home", 10), ("ArrowRight", 20), ("End", 50), ("ArrowLeft", 20)]:
        slider.press(key)
        assert_size(seen, records, size)
        assert str(size) in slider.get_attribute("aria-valuetext")
    box = slider.bounding_box()
    slider.click(position={"x": box["width"] - 3, "y": box["height"] / 2})
    assert_size(seen, records, 50)


def test_each_word_has_its_own_glyph_or_its_own_patches_where_pixels_are_known(seen, records):
    seen.at("#size").press("Home")
    paths = "all => all.map(p => p.getAttribute('d'))"
    drawn = seen.at("#mosaic [data-word] path").evaluate_all(paths)
    assert len(set(drawn)) == len(drawn) == 10
    assert all(len(path) > 100 for path in drawn)
    # The same strokes as those of a notebook, of values that the page packs into 4 bits.
    line = records.detail(kind="words", coding="hard", size=10)
    values = np.frombuffer(base64.b64decode(line["values"]), np.uint8).reshape(10, 128)
    steps = np.rint(15 * np.sqrt(values / 255))
    strokes = sift_strokes((steps / 15) ** 2 * LARGEST)
    for path, expected in zip(drawn, strokes, strict=True):
        found = [float(number) for number in re.findall(r"-?\d+(?:\.\d)?", path)]
        begin, way = np.split(np.reshape(found, (-1, 4)), 2, axis=1)
        assert np.abs(np.stack([begin, begin + way], axis=1) - expected).max() < 0.051
    seen.at("#panel").select_option(label=seen.at("#panel option").all_text_contents()[1])
    seen.at("#size").press("Home")
    assert "the patches nearest to it" in seen.text("#words-text")
    style = "all => all.map(p => getComputedStyle(p))"
    style += ".map(s => [s.backgroundImage, s.backgroundPosition])"
    drawn = seen.at("#mosaic [data-word] .face").evaluate_all(style)
    (image,) = {image for image, _ in drawn}
    assert image.startswith('url("data:image/png;base64,')
    assert [where for _, where in drawn] == [f"0% {100 * word / 9:.6g}%" for word in range(10)]


def test_a_chosen_word_shows_its_mass_and_what_it_inherits(seen, records):
    seen.at("#size").press("End")
    line = records.detail(kind="words", coding="hard", size=50)

    def assert_shown(word: int) -> None:
        text = seen.text("#word").replace("\u202f", " ")
        assert f"Word {line['ids'][word]} " in text
        # 1/200 of the patches before, 1/50 of them now.
        assert "0.5 %" in text
        assert "2 %" in text
        for source, share in line["from"][word]:
            assert f"word {source}: {100 * share:.0f} %" in text

    seen.at("#mosaic [data-word='7']").click()
    assert_shown(7)
    assert seen.at("#mosaic [aria-pressed=true]").get_attribute("data-word") == "7"
    seen.at("#mosaic [data-word='7']").press("ArrowRight")
    assert_shown(8)
    assert seen.page.evaluate("document.activeElement.dataset.word") == "8"
    assert f"{line['n_pruned']} words were pruned" in seen.text("#words")
    text = seen.text("#pruned > :first-child").replace("\u202f", " ")
    _, mass, _, share = line["pruned"][0]
    assert f"{100 * mass:.1g} %" in text
    assert f"{100 * share:.0f} %" in text


def test_the_image_is_painted_for_each_size(seen):
    slider, painted = seen.at("#size"), "document.querySelector('#image-after').toDataURL()"
    slider.press("Home")
    images = [seen.page.evaluate(painted)]
    for _ in range(2):
        slider.press("ArrowRight")
        # The photograph beneath is drawn when it has been decoded.
        seen.page.wait_for_function(f"was => {painted} !== was", arg=images[-1])
        images.append(seen.page.evaluate(painted))
    before = seen.page.evaluate("document.querySelector('#image-before').toDataURL()")
    assert len({before, *images}) == 4


def test_searches_can_be_chosen(seen):
    options = seen.at("#trace option").all_text_contents()
    assert [option.split(",")[0] for option in options] == ["refinement", "annealing"]
    for option in options:
        seen.at("#trace").select_option(label=option)
        figure = seen.at("#search figure > div:visible")
        assert figure.count() == 1
        assert option.split(",")[0] in figure.locator("svg").first.locator("title").text_content()
