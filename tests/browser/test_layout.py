"""No overflow and no barriers, on a phone and a desk, light and dark."""

import pytest
from tests.browser.conftest import RUNS
from tests.browser.visiting import DESK, PHONE, visit

UNFOLD = "document.querySelectorAll('details').forEach(d => d.open = true)"


@pytest.mark.parametrize("name", RUNS)
def test_nothing_overflows(browser, page_of, name):
    with visit(browser, page_of(name), screen=PHONE) as seen:
        faults = {}
        for screen in (PHONE, DESK):
            seen.page.set_viewport_size({"width": screen[0], "height": screen[1]})
            faults[screen, "folded"] = seen.overflow()
            seen.page.evaluate(UNFOLD)
            faults[screen, "unfolded"] = seen.overflow()
        assert {where: found for where, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("small", [(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")]),
        ("large", [(PHONE, "dark"), (DESK, "light")]),
    ],
)
def test_there_are_no_barriers(browser, page_of, name, views):
    with visit(browser, page_of(name), screen=PHONE) as seen:
        faults = {}
        for screen, scheme in views:
            seen.page.set_viewport_size({"width": screen[0], "height": screen[1]})
            seen.page.emulate_media(color_scheme=scheme)
            faults[screen, scheme] = seen.barriers()
        assert {where: found for where, found in faults.items() if found} == {}


def test_there_are_no_barriers_in_folded_parts_and_in_the_chosen_theme(browser, page_of):
    with visit(browser, page_of("one split"), screen=PHONE) as seen:
        seen.page.evaluate(UNFOLD)
        seen.at("#theme").click()
        assert seen.barriers() == []
