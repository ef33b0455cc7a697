"""The page opens without errors, whatever is chosen and whatever names it holds."""

import json

import pytest
from tests.browser.visiting import Visit, visit
from tests.report.made_run import made_run

from bowsaw.report import write_page

ALWAYS = {"answer", "curves", "panels", "confusion", "costs", "certificate", "provenance"}
DRAWN = {"words", "image", "search"}
HOSTILE = [
    "</script><img src=x onerror=\"window.hostile='class'\">",
    "<img src=x onerror=window.hostile=1>",
    "\"><svg onload='window.hostile=2'>",
    "{{data}} ${hostile} &lt;b&gt;",
]


def choose_everything(seen: Visit) -> int:
    """Use every option of every control, by script for speed; return how often."""
    return seen.page.evaluate(
        """() => {
            let used = 0;
            const send = (one, ...kinds) => {
                kinds.forEach(kind => one.dispatchEvent(new Event(kind, { bubbles: true })));
                used += 1;
            };
            for (const menu of document.querySelectorAll('select')) {
                for (const { value } of [...menu.options]) {
                    menu.value = value;
                    send(menu, 'input', 'change');
                }
            }
            for (const slider of document.querySelectorAll('input[type=range]')) {
                for (let place = slider.min; place <= slider.max; place++) {
                    slider.value = place;
                    send(slider, 'input', 'change');
                }
            }
            for (const one of document.querySelectorAll('[type=radio], [type=checkbox], button')) {
                one.click();
                used += 1;
            }
            for (const point of document.querySelectorAll('#curves .curve .point')) {
                send(point, 'pointerenter', 'focus', 'blur', 'pointerleave');
            }
            return used;
        }"""
    )


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("small", ALWAYS | DRAWN),
        ("large", ALWAYS | DRAWN | {"claims"}),
        ("without details", ALWAYS),
        ("one split", ALWAYS | DRAWN),
        ("recogniser", ALWAYS | DRAWN | {"recogniser"}),
    ],
)
def test_it_has_its_sections_and_works_without_errors_or_network(browser, page_of, name, sections):
    with visit(browser, page_of(name)) as seen:
        assert set(seen.seen("main section")) == sections
        links = seen.at("nav a").evaluate_all("all => all.map(one => one.hash.slice(1))")
        assert {"answer", *links} == sections
        assert choose_everything(seen) > 20
        assert seen.page.evaluate("document.fonts.status") == "loaded"
        assert seen.complaints == []
        assert seen.outside() == []
        assert [url for url in seen.requests if url.startswith("file:")] == [page_of(name).as_uri()]


def test_it_forbids_itself_the_network(browser, page_of):
    with visit(browser, page_of("without details")) as seen:
        forbidden = seen.page.evaluate(
            """async () => {
                const found = new Set(), outside = 'http://127.0.0.1:9/';
                addEventListener('securitypolicyviolation', (e) => found.add(e.effectiveDirective));
                const image = new Image();
                const ended = new Promise((done) => { image.onerror = image.onload = done });
                image.src = outside;
                await fetch(outside).catch(() => {});
                await import(outside).catch(() => {});
                await ended;
                return [...found].sort();
            }"""
        )
        assert forbidden == ["connect-src", "img-src", "script-src-elem"]


def test_names_do_nothing(browser, tmp_path):
    folder = made_run(tmp_path, classes=HOSTILE, sizes=[10, 20], splits=1)
    # The set, a method's name and the command are a user's words, too.
    hostile = json.dumps(HOSTILE[0])
    for path in folder.glob("*.json*"):
        text = path.read_text("utf-8")
        for plain in ('"scenes"', '"random"', '"bowsaw compare'):
            text = text.replace(plain, hostile if plain.endswith('"') else hostile[:-1])
        path.write_text(text, encoding="utf-8")
    with visit(browser, write_page(folder)) as seen:
        choose_everything(seen)
        assert seen.page.evaluate("window.hostile") is None
        assert seen.at("[onerror], [onload]").count() == 0
        assert seen.complaints == []
        # They are shown as text.
        found = seen.at("#confusion .classes tbody th").all_text_contents()
        assert sorted(found) == sorted(HOSTILE)
        for place in ("#panel", "#curves .legend", "#provenance pre", "#image-before-text"):
            assert HOSTILE[0] in seen.at(place).text_content()


@pytest.mark.parametrize("name", ["large", "without details"])
def test_without_scripts_there_are_figures_and_tables(browser, page_of, records_of, name):
    with visit(browser, page_of(name), scripts=False) as seen:
        methods = {cell["method"] for cell in records_of(name).cells}
        assert set(seen.seen("#curves .curve")) == methods
        assert seen.at("#answer svg:visible").count() == 1
        for place in ("#confusion", "#costs"):
            assert seen.at(f"{place} table:visible").count() >= 1
        assert seen.at("#numbers table:visible").count() >= 1
        for place in ("#certificate details", "#provenance details"):
            seen.at(f"{place} summary:visible").first.click()
            assert seen.at(f"{place} table:visible").count() >= 1
        # Nothing that does not work is offered.
        assert seen.at("select:visible, input:visible, button:visible").count() == 0
        assert "Without JavaScript" in seen.text("body")


def test_print_shows_every_section_unfolded_and_no_control(browser, page_of):
    with visit(browser, page_of("large")) as seen:
        sections = seen.seen("main section")
        folded = seen.at("details:visible").count()
        assert folded > 10
        # Counted when Chromium is about to lay the page out for paper.
        seen.page.evaluate(
            """addEventListener('beforeprint', () => {
                window.unfolded = [...document.querySelectorAll('details table')]
                    .filter(one => one.checkVisibility()).length })"""
        )
        assert seen.page.pdf().startswith(b"%PDF")
        assert seen.page.evaluate("window.unfolded") >= folded
        assert seen.at("details[open]").count() == 0
        seen.page.emulate_media(media="print")
        assert seen.seen("main section") == sections
        assert seen.at("#mosaic [data-word]:visible").count() > 0
        assert seen.at("select:visible, input:visible, #theme:visible, nav:visible").count() == 0
