"""The figures of README.md.

``python -m docs.assets.readme_figure`` draws accuracy against words kept (15-Scenes, hard coding,
from 5000 words) from ``results/``, in light and dark; a test holds both files to the records. The
text is set in fonts that every system has, because an SVG file inside a page loads none.

``python -m docs.assets.readme_figure demo/recogniser/index.html`` takes a screenshot of the page
that ``make demo`` has written.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import bowsaw as bs

TOP = Path(__file__).resolve().parents[2]
FIGURES = TOP / "docs" / "figures"
PANEL = {"set": "15-Scenes", "coding": "hard", "full_words": 5000, "mapping": "sqrt"}
SIZES = (10, 20, 50, 100, 500)
MARKED = 100
"""The size whose accuracy is written at the curve."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP_EDGE, BOTTOM = 560, 340, 58, 538, 34, 284
LOW, HIGH = 0.5, 0.75
_ROLES = ("ink", "muted", "grey", "rule", "bold")
THEMES = {
    "light": dict(
        zip(_ROLES, ("#1f2328", "#59636e", "#848d97", "#e3e7ec", "#0069ad"), strict=True)
    ),
    "dark": dict(zip(_ROLES, ("#f0f6fc", "#9ba4ae", "#747d87", "#262c34", "#62b9f4"), strict=True)),
}
"""Colours that stand out from GitHub's white and its #0d1117."""


def measured() -> dict[tuple[str, int], float]:
    """Return mean accuracies of the records by method and size."""
    rows = bs.read_run(TOP / "results").table()
    return {(r["method"], r["size"]): r["mean"] for r in rows if PANEL.items() <= r.items()}


def described(means: Mapping[tuple[str, int], float]) -> str:
    """Return what the figure shows, for those who do not see it."""
    return (
        f"Accuracy on {PANEL['set']} against words kept of {PANEL['full_words']}: with {MARKED} "
        f"words refinement reaches {means['refinement', MARKED]:.3f}, all words "
        f"{means['full', 5000]:.3f}, k-means {means['kmeans', MARKED]:.3f}, a random subset "
        f"{means['random', MARKED]:.3f}."
    )


def draw(means: Mapping[tuple[str, int], float], colours: Mapping[str, str]) -> str:
    """Return the figure as SVG."""
    ink, muted, grey, bold = (colours[name] for name in ("ink", "muted", "grey", "bold"))
    curves = {
        method: [(_x(size), _y(means[method, size])) for size in SIZES]
        for method in ("random", "kmeans", "refinement")
    }
    full, marked = _y(means["full", 5000]), curves["refinement"][SIZES.index(MARKED)]
    parts = [
        *(_y_tick(tick / 100, colours["rule"], muted) for tick in range(50, 76, 5)),
        *(_text(_x(size), BOTTOM + 23, str(size), muted, "middle") for size in SIZES),
        _text((LEFT + RIGHT) / 2, HEIGHT - 8, "words kept, of 5000", muted, "middle"),
        _text(10, 18, "accuracy on 15-Scenes, mean of 5 splits", muted),
        _line(curves["random"], grey, 2),
        _line(curves["kmeans"], grey, 2),
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{full}" y2="{full}" stroke="{ink}" '
        'stroke-width="1.6" stroke-dasharray="7 5"/>',
        _line(curves["refinement"], bold, 4.5),
        *(f'<circle cx="{x}" cy="{y}" r="5.5" fill="{bold}"/>' for x, y in curves["refinement"]),
        f'<circle cx="{marked[0]}" cy="{marked[1]}" r="10" fill="none" stroke="{ink}" '
        'stroke-width="2"/>',
        _text(LEFT + 4, full - 8, "all 5000 words", ink),
        _text(
            *(marked[0], marked[1] - 19, f"{MARKED} words: {means['refinement', MARKED]:.3f}"),
            *(ink, "middle", 700),
        ),
        _text(_x(24), _y(0.648), "refinement", bold, weight=700),
        _text(_x(118), _y(means["kmeans", MARKED]) - 14, "k-means", muted, "end"),
        _text(_x(112), _y(means["random", MARKED]) + 18, "random", muted),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" font-size="17" '
        "font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
        f"<title>{described(means)}</title>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _x(size: float) -> float:
    share = math.log(size / SIZES[0]) / math.log(SIZES[-1] / SIZES[0])
    return round(LEFT + share * (RIGHT - LEFT), 1)


def _y(accuracy: float) -> float:
    return round(BOTTOM - (accuracy - LOW) / (HIGH - LOW) * (BOTTOM - TOP_EDGE), 1)


def _y_tick(value: float, rule: str, muted: str) -> str:
    line = f'<line x1="{LEFT}" x2="{RIGHT}" y1="{_y(value)}" y2="{_y(value)}" stroke="{rule}"/>'
    return line + _text(LEFT - 8, _y(value) + 6, f"{value:.2f}", muted, "end")


def _text(
    x: float, y: float, content: str, colour: str, anchor: str = "start", weight: int = 400
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}">{content}</text>'


def _line(points: Sequence[tuple[float, float]], colour: str, width: float) -> str:
    through = " ".join(f"{x},{y}" for x, y in points)
    style = f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<polyline points="{through}" {style}/>'


def main(folder: Path = FIGURES) -> None:
    """Write ``readme-light.svg`` and ``readme-dark.svg``."""
    means = measured()
    for theme, colours in THEMES.items():
        (folder / f"readme-{theme}.svg").write_text(draw(means, colours), "utf-8", newline="\n")


def take_screenshot(page: Path) -> None:
    """Write ``shrink-page.png``: the first screen of a page, twice as large as it is shown."""
    from PIL import Image
    from playwright.sync_api import sync_playwright
    from tests.browser.chromium import find_chromium

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), chromium_sandbox=False
        )
        opened = chromium.new_page(viewport={"width": 1120, "height": 720})
        opened.goto(page.resolve().as_uri())
        shown = Image.open(io.BytesIO(opened.screenshot()))
        chromium.close()
    # A page has few colours; a palette makes the file four times smaller.
    shown.convert("RGB").quantize(64).save(FIGURES / "shrink-page.png", optimize=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        take_screenshot(Path(sys.argv[1]))
    else:
        main()
