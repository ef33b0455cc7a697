"""Controls and toggles of the curves: what is drawn belongs to what was chosen."""

import math
import re
from itertools import product

import pytest
from tests.browser.visiting import Key, Panel, Records, Visit, visit

PLACES = {"coding": "n_coding_words", "columns": "n_columns"}


def choose_panel(seen: Visit, panel: Panel) -> None:
    label = f"{panel[0]}, {panel[1]} coding, {panel[2]:,} words"
    seen.at("#panel").select_option(label=label)


def choose(seen: Visit, chooser: str, value: str) -> None:
    seen.at(f"#{chooser} label:has(input[value={value}])").click()


def points(seen: Visit) -> dict[Key, tuple[str, float, float]]:
    """Return the label of each visible point of the curves, and its place on the screen."""
    found = seen.at("#curves .curve .point").evaluate_all(
        """all => all.filter(one => one.getClientRects().length).map(one => {
            const { e, f } = one.getScreenCTM();
            const { dataset } = one.closest('.curve');
            return [dataset.method, Number(one.dataset.size), one.getAttribute('aria-label'), e, f];
        })"""
    )
    return {(method, size): (label, x, y) for method, size, label, x, y in found}


def assert_on_a_line(places: list[tuple[float, float]]) -> None:
    """Check that pixels follow records as on a scale: all on the line through the outermost two."""
    (low, start), (high, end) = min(places), max(places)
    assert high > low
    assert abs(end - start) > 50
    for number, pixel in places:
        assert pixel == pytest.approx(start + (end - start) * (number - low) / (high - low), abs=1)


def assert_shown(seen: Visit, records: Records, panel: Panel, view: str, axis: str) -> None:
    means, places = records.means(panel, view), records.places(panel, PLACES[axis])
    shown = points(seen)
    assert shown.keys() == {key for key in means if key[0] != "full"}
    for key, (label, _, _) in shown.items():
        mean = float(re.search(r"accuracy (0\.\d{3})", label)[1])
        assert mean == pytest.approx(means[key], abs=5.1e-4)
    heights = [(means[key], y) for key, (_, _, y) in shown.items()]
    assert_on_a_line(heights)
    assert_on_a_line([(math.log(places[key]), x) for key, (_, x, _) in shown.items()])
    # The level of all words is on the same scale.
    level = seen.at("#curves .curve.whole:visible")
    [whole] = [mean for (method, _), mean in means.items() if method == "full"]
    assert f"{whole:.3f}" in level.text_content()
    box = level.locator("line").bounding_box()
    assert_on_a_line([(whole, box["y"] + box["height"] / 2), *heights])


def test_curves_and_table_follow_panel_map_and_axis(browser, page_of, records_of):
    records = records_of("small")
    with visit(browser, page_of("small")) as seen:
        places = records.places(records.panels()[0], "n_coding_words")
        choose(seen, "scale", "linear")
        assert_on_a_line([(places[key], x) for key, (_, x, _) in points(seen).items()])
        choose(seen, "scale", "log")
        for panel, view in product(records.panels(), ("raw", "sqrt")):
            choose_panel(seen, panel)
            choose(seen, "map", view)
            for axis in PLACES:
                choose(seen, "axis", axis)
                assert_shown(seen, records, panel, view, axis)
            means = records.means(panel, view)
            table = seen.at("#numbers table:visible").first
            sizes = table.locator("thead th").all_text_contents()[2:]
            for row in table.locator("tbody tr").all()[:-1]:
                method, _, *cells = row.locator("th, td").all_text_contents()
                for size, cell in zip(sizes, cells, strict=True):
                    mean = means[method, int(size)]
                    assert float(cell.split(" ")[0]) == pytest.approx(mean, abs=5.1e-4)


def test_every_panel_can_be_chosen(browser, page_of, records_of):
    records = records_of("large")
    with visit(browser, page_of("large")) as seen:
        assert len(records.panels()) == 8
        for panel in records.panels():
            choose_panel(seen, panel)
            assert_shown(seen, records, panel, "sqrt", "coding")
            means = records.means(panel, "sqrt")
            label = seen.text("#answer .headline:visible")
            size, mean = re.match(r"(\d+) words (?:keep|reach) (0\.\d+)", label).groups()
            assert float(mean) == pytest.approx(means["refinement", int(size)], abs=5.1e-4)
            assert f"{means['full', panel[2]]:.3f}" in label
            costs = seen.text("#costs table:visible caption")
            assert panel[0] in costs
            assert f"{panel[1]} coding" in costs


def test_toggles_hide_and_show_curves_by_mouse_and_keyboard(browser, page_of, records_of):
    methods = {method for method, _ in records_of("small").means(("scenes", "hard", 200), "sqrt")}
    pruned = methods - {"full"}
    with visit(browser, page_of("small")) as seen:
        assert set(seen.seen("#curves .curve")) == methods
        for method in pruned:
            box = seen.at(f"input[type=checkbox][data-toggle={method}]")
            box.click()
            assert set(seen.seen("#curves .curve")) == methods - {method}
            box.press("Space")
            assert set(seen.seen("#curves .curve")) == methods
            assert box.is_checked()
        # What is hidden stays hidden in another panel and is not reached by the keyboard.
        seen.at("input[data-toggle=random]").press("Space")
        choose_panel(seen, ("scenes", "soft", 200))
        assert set(seen.seen("#curves .curve")) == methods - {"random"}
        assert "random" not in {method for method, _ in points(seen)}


def test_points_have_tips_under_the_mouse_and_the_focus(browser, page_of):
    with visit(browser, page_of("small")) as seen:
        points = seen.at("#curves .curve[data-method=refinement] .point:visible").all()[:2]
        first, second = (" ".join(p.get_attribute("aria-label").split()) for p in points)
        assert not seen.at(".tip").is_visible()
        points[1].hover()
        assert seen.text(".tip") == second
        seen.page.mouse.move(0, 0)
        assert not seen.at(".tip").is_visible()
        points[0].focus()
        assert seen.text(".tip") == first
        points[0].press("ArrowRight")
        assert seen.text(".tip") == second
        points[1].press("Escape")
        assert not seen.at(".tip").is_visible()


def test_the_theme_button_changes_the_page_and_is_not_remembered(browser, page_of):
    with visit(browser, page_of("without details")) as seen:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = seen.page.evaluate(paper)
        seen.at("#theme").press("Enter")
        dark = seen.page.evaluate(paper)
        assert dark != light
        seen.at("#theme").click()
        assert seen.page.evaluate(paper) == light
        seen.page.emulate_media(color_scheme="dark")
        seen.page.reload()
        assert seen.page.evaluate(paper) == dark
        assert seen.page.evaluate("localStorage.length + document.cookie.length") == 0
