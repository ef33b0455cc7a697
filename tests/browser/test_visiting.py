"""Each kind of fault, on a page that has it, is found by the test tools."""

import pytest
from tests.browser.visiting import visit

SOUND = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sound</title>
<style>body { color: black; background: white }
@media (prefers-color-scheme: dark) { body { color: white; background: black } }</style>"""
# Nothing listens at the discard port of this machine.
OUTSIDE = "http://127.0.0.1:9/a.png"


@pytest.fixture
def write(tmp_path):
    def write(body: str, head: str = SOUND):
        path = tmp_path / "page.html"
        path.write_text(f"{head}<main><h1>A page</h1>{body}</main>", encoding="utf-8")
        return path

    return write


def test_a_sound_page_has_no_faults_and_errors_and_requests_are_found(browser, write):
    with visit(browser, write("<p>Words</p>")) as seen:
        assert seen.complaints == seen.overflow() == seen.barriers() == seen.outside() == []
    path = write(
        "<script>console.error('one')</script><script>throw Error('two')</script>"
        f"<script>alert('three')</script><img alt='' src='{OUTSIDE}'>"
    )
    with visit(browser, path) as seen:
        seen.page.wait_for_function("true")
        for text in ("one", "two", "three"):
            assert len([complaint for complaint in seen.complaints if text in complaint]) == 1
        assert seen.outside() == [OUTSIDE]


def test_overflow_barriers_and_hidden_parts_are_found(browser, write):
    path = write(
        "<style>@media (prefers-color-scheme: dark) { #dark { color: #333 } }</style>"
        "<div id='wide' style='width: 2000px'>wide</div><p id='dark'>Unseen</p>"
        "<p id='gone' style='display: none'>Gone</p><input type='range'>"
    )
    with visit(browser, path) as seen:
        assert seen.overflow()[1:] == ["div#wide"]
        assert seen.seen("p") == ["dark"]
        assert "label: input" in seen.barriers()
        assert "color-contrast: #dark" not in seen.barriers()
    with visit(browser, path, dark=True) as seen:
        assert "color-contrast: #dark" in seen.barriers()
