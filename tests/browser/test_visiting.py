"""The watch itself: each kind of fault, on a page that has it, is seen."""

from __future__ import annotations

import pytest
from tests.browser.visiting import DESK, PHONE, visit

SOUND = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sound</title>
<style>body { color: black; background: white }
@media (prefers-color-scheme: dark) { body { color: white; background: black } }</style>"""
POLICY = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
# Nobody listens at the discard port of this machine.
OUTSIDE = "http://127.0.0.1:9/a.png"


@pytest.fixture
def write(tmp_path):
    def write(body: str, head: str = SOUND):
        path = tmp_path / "page.html"
        path.write_text(f"{head}<main><h1>A page</h1>{body}</main>", encoding="utf-8")
        return path

    return write


def test_a_sound_page_has_nothing_to_complain_of(browser, write):
    path = write("<p>Words</p><img alt='' src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    with visit(browser, path) as seen:
        assert seen.complaints == []
        assert seen.overflow() == []
        assert seen.barriers() == []
        assert seen.outside() == []


def test_complaints_are_heard(browser, write):
    path = write(
        "<script>console.error('one')</script><script>throw Error('two')</script>"
        "<script>Promise.reject(Error('three'))</script><script>alert('four')</script>"
    )
    with visit(browser, path) as seen:
        seen.page.wait_for_function("true")
        for said in ("one", "two", "three", "four"):
            assert len([complaint for complaint in seen.complaints if said in complaint]) == 1


def test_requests_are_seen_and_forbidden_ones_are_complaints(browser, write):
    with visit(browser, write(f"<img alt='' src='{OUTSIDE}'>")) as seen:
        assert seen.outside() == [OUTSIDE]
    with visit(browser, write(f"<img alt='' src='{OUTSIDE}'>", SOUND + POLICY)) as seen:
        assert any("Content Security Policy" in complaint for complaint in seen.complaints)


@pytest.mark.parametrize("screen", [PHONE, DESK])
def test_overflow_names_what_sticks_out(browser, write, screen):
    wide = f"<div id='wide' style='width: {screen[0] + 20}px'>wide</div>"
    scrolling = f"<div style='overflow-x: auto'>{wide.replace('wide', 'inside')}</div>"
    with visit(browser, write(wide + scrolling), screen=screen) as seen:
        excess, *elements = seen.overflow()
        assert excess.endswith("px too wide")
        assert elements == ["div#wide"]
        seen.page.evaluate("document.querySelector('#wide').remove()")
        assert seen.overflow() == []


def test_barriers_are_named_light_and_dark(browser, write):
    path = write(
        "<style>@media (prefers-color-scheme: dark) { #dark { color: #333 } }</style>"
        "<p id='dark'>Unseen</p><input type='range'>"
    )
    with visit(browser, path) as seen:
        assert seen.barriers() == ["label: input"]
    with visit(browser, path, dark=True) as seen:
        assert seen.barriers() == ["color-contrast: #dark", "label: input"]


def test_without_scripts_nothing_runs(browser, write):
    path = write("<p>written</p><script>document.querySelector('p').textContent = 'run'</script>")
    with visit(browser, path) as seen:
        assert seen.text("p") == "run"
    with visit(browser, path, scripts=False) as seen:
        assert seen.text("p") == "written"


def test_only_what_takes_up_room_is_seen(browser, write):
    path = write(
        "<svg><g class='curve' data-method='shown'><path d='M0 0H9'/></g>"
        "<g class='curve' data-method='hidden' style='display: none'><path d='M0 0H9'/></g></svg>"
    )
    with visit(browser, path) as seen:
        assert seen.seen(".curve") == ["shown"]
