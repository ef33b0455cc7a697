"""README.md as GitHub shows it: figure and number on the first screen, and no barriers."""

from pathlib import Path

import markdown
import pytest
from tests.browser.visiting import AXE, DESK, PHONE, visit

TOP = Path(__file__).resolve().parents[2]

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>bowsaw</title>
<meta name="viewport" content="width=device-width"><base href="{base}"><style>
:root {{ color-scheme: light dark; --ink: #1f2328; --paper: #fff; --rule: #d1d9e0; --code: #f6f8fa;
  --link: #0969da; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #f0f6fc; --paper: #0d1117; --rule: #3d444d;
  --code: #151b23; --link: #4493f8; }} }}
body {{ color: var(--ink); background: var(--paper); font: 16px/1.5 -apple-system, "Segoe UI",
  "Noto Sans", Helvetica, Arial, sans-serif; margin: 0; }}
main {{ box-sizing: border-box; max-width: 896px; margin: auto; padding: 32px; }}
@media (max-width: 600px) {{ main {{ padding: 16px; }} }}
h1, h2 {{ border-bottom: 1px solid var(--rule); padding-bottom: .3em; line-height: 1.25;
  margin: 24px 0 16px; }}
h1 {{ font-size: 2em; margin-top: 0; }} h2 {{ font-size: 1.5em; }}
p, pre, ul, table {{ margin: 0 0 16px; }}
img {{ max-width: 100%; box-sizing: content-box; }}
a {{ color: var(--link); text-decoration: underline; }}
code, pre {{ font: 85%/1.45 ui-monospace, "Liberation Mono", monospace; background: var(--code);
  border-radius: 6px; }}
code {{ padding: .2em .4em; }} pre {{ padding: 16px; overflow: auto; }}
pre code {{ padding: 0; font-size: 100%; }}
table {{ display: block; width: max-content; max-width: 100%; overflow: auto;
  border-collapse: collapse; }}
th, td {{ border: 1px solid var(--rule); padding: 6px 13px; }}
</style></head><body><main>{body}</main></body></html>
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Path:
    source = (TOP / "README.md").read_text("utf-8")
    body = markdown.markdown(source, extensions=["fenced_code", "tables"])
    # A box that scrolls must be reachable by keyboard, as on GitHub.
    body = body.replace("<pre>", '<pre tabindex="0">').replace("<table>", '<table tabindex="0">')
    path = tmp_path_factory.mktemp("readme") / "index.html"
    path.write_text(PAGE.format(base=f"{TOP.as_uri()}/", body=body), "utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
def test_the_first_screen_has_figure_and_number(browser, rendered, screen, dark):
    with visit(browser, rendered, screen=screen, dark=dark) as seen:
        shown = seen.at("picture img")
        assert shown.count() == 1
        assert shown.evaluate("one => one.naturalWidth") > 0
        theme = "dark" if dark else "light"
        assert shown.evaluate("one => one.currentSrc").endswith(f"readme-{theme}.svg")
        number = seen.at("p:has(strong):below(picture)").first
        assert "0.719" in number.locator("strong").text_content()
        for part in (seen.at("h1"), seen.at("h1 + p"), shown, number):
            box = part.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= screen[0]
            assert box["y"] + box["height"] <= screen[1], part
        # Text of the figure stays legible: 17 units of the drawing's width of 560.
        assert 17 * shown.bounding_box()["width"] / 560 >= 10
        assert seen.overflow() == []
        seen.page.evaluate(AXE)
        found = seen.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        assert [(violation["id"], violation["nodes"]) for violation in found] == []
        assert seen.outside() == []
        assert seen.complaints == []


def test_every_image_loads_and_has_a_description(browser, rendered):
    with visit(browser, rendered) as seen:
        for image in seen.at("img").all():
            assert image.evaluate("one => one.complete && one.naturalWidth > 0")
            assert len(image.get_attribute("alt")) > 20
