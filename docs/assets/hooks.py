"""What the site adds to the documents: pages of other folders, and pages made from the source.

The documents are Markdown that reads well as it is. Building the site

- brings in documents that lie outside ``docs/`` (``BORROWED``), and turns every link that leaves a
  document's folder into one that works on the site; a link to a file that the site does not have
  becomes plain text;
- draws every SVG figure twice, for the light and the dark scheme, on a transparent background;
- fills three places: ``<!-- messages -->`` with every message that the code can raise, by class,
  ``<!-- commands -->`` with the help of every command, and ``<!-- names -->`` with every public
  name, the first line of its docstring and its source.
"""

from __future__ import annotations

import argparse
import ast
import colorsys
import inspect
import os
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from bowsaw import errors
from bowsaw.cli.main import GROUPS, parser

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
SOURCE = TOP / "src" / "bowsaw"

BORROWED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "results/index.html": "results/page.html",
    "results/accuracy.svg": "results/accuracy.svg",
}
"""Files outside ``docs/`` by their place in the project, and where the site has them."""

INSTEAD = {
    "README.md": "index.md",
    "results/README.md": "experiments.md",
    "reproduction/README.md": "experiments.md",
    "results/": "experiments.md",
}
"""Documents outside ``docs/`` that the site does not have, and the page with the same content."""

BOOSTS = {"tutorial.md": 4, "size.md": 4, "choosing.md": 4, "device.md": 2}
LOOKED_UP = ("reference/", "changelog.md", "errors.md", "benchmarks.md", "paper-to-code.md")
"""Pages that the search shows first, and pages that it shows last: guides before reference."""

SCHEMES = ("light", "dark")
DARK_PAPER = "#1e2926"
"""The background of the dark scheme."""

_LINK = re.compile(r"(!?)\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: Any) -> Files:
    """Bring in the documents that lie outside ``docs/``."""
    for source, place in BORROWED.items():
        files.append(File.generated(config, place, abs_src_path=str(TOP / source)))
    for file in [file for file in files if _is_drawn_twice(file.src_uri)]:
        for scheme in SCHEMES:
            place = file.src_uri.replace(".svg", f".{scheme}.svg")
            svg = Path(str(file.abs_src_path)).read_text("utf-8")
            files.append(File.generated(config, place, content=recoloured(svg, scheme)))
        files.remove(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Make links work on the site, and fill what is made from the source."""
    place = page.file.src_uri
    boost = 0.1 if place.startswith(LOOKED_UP) else BOOSTS.get(place, 1)
    page.meta.setdefault("search", {"boost": boost})
    homes = {site: Path(source) for source, site in BORROWED.items()}
    home = homes.get(place, Path("docs", place))
    pieces = _FENCE.split(markdown)
    for i in range(0, len(pieces), 2):
        pieces[i] = _LINK.sub(lambda link: _relinked(link, home, place), pieces[i])
    markdown = "".join(pieces)
    if "<!-- messages -->" in markdown:
        markdown = markdown.replace("<!-- messages -->", "\n".join(message_lines()))
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", "\n".join(command_lines()))
    if "<!-- names -->" in markdown:
        markdown = markdown.replace("<!-- names -->", "\n".join(name_lines()))
    return markdown


def on_page_content(html: str, page: Page, config: Any, files: Files) -> str:
    """Let long names in tables break, and give every source an address."""
    if page.file.src_uri.startswith("reference/"):
        html = _with_addresses(html)

    def breakable(code: re.Match[str]) -> str:
        return re.sub(r"(?<=[\w:])(\.|/|_|::)(?=\w)", r"\1<wbr>", code[0])

    return re.sub(
        r"<td.*?</td>",
        lambda cell: re.sub(r"(?<=<code>)[^<]{16,}(?=</code>)", breakable, cell[0]),
        html,
        flags=re.S,
    )


def on_post_page(output: str, page: Page, config: Any) -> str:
    """Name the search dialog of the theme, for readers who cannot see it."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def _relinked(link: re.Match[str], home: Path, place: str) -> str:
    """Return a link of the document ``home`` as the page at ``place`` must have it."""
    image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    # The text of a link may be an image.
    text = _LINK.sub(lambda inner: _relinked(inner, home, place), text)
    wanted = Path(os.path.normpath(home.parent / target)).as_posix()
    if wanted in BORROWED:
        wanted = BORROWED[wanted]
    elif wanted.startswith("docs/"):
        wanted = wanted.removeprefix("docs/")
    elif wanted in INSTEAD:
        wanted = INSTEAD[wanted]
    else:
        return text
    there = os.path.relpath(wanted, Path(place).parent)
    if image and _is_drawn_twice(wanted):
        return "".join(
            f"![{text}]({there.removesuffix('.svg')}.{scheme}.svg#only-{scheme})"
            for scheme in SCHEMES
        )
    return f"{image}[{text}]({there}{anchor})"


# -- figures for both schemes ----------------------------------------------------------------------


def _is_drawn_twice(place: str) -> bool:
    drawn_so = place.removesuffix(".svg").endswith(SCHEMES)
    return place.endswith(".svg") and not place.startswith("assets/") and not drawn_so


def recoloured(svg: str, scheme: str) -> str:
    """Return a figure for one scheme.

    A figure of bowsaw's own page has both sets of colours, and an attribute chooses one. Of other
    figures the dark version has every lightness turned over: white becomes the background of the
    page. Photographs inside a figure stay as they are.
    """
    if "data-theme" in svg:
        svg = svg.replace("<svg ", f'<svg data-theme="{scheme}" ', 1)
        return svg.replace("</style>", ".chart > .paper { fill: none; }</style>", 1)
    if scheme == "light":
        return svg
    svg = re.sub(r"#([0-9a-fA-F]{6})\b", lambda colour: _turned_over(colour[1]), svg)
    return svg.replace("<svg ", f'<svg fill="{_turned_over("000000")}" ', 1)


def _turned_over(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    if lightness == 1:
        return DARK_PAPER
    turned = colorsys.hls_to_rgb(hue, 0.92 - 0.76 * lightness, 0.9 * saturation)
    return "#" + "".join(f"{round(255 * value):02x}" for value in turned)


# -- every message ---------------------------------------------------------------------------------


def error_classes() -> dict[str, type[errors.BowsawError]]:
    """Return the classes of ``errors.py`` by name, in the order of the source."""
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.BowsawError)
    }


@cache
def messages() -> dict[str, list[tuple[str, str]]]:
    """Return each class's messages, each with the module that raises it."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    trees = {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    names = {name: name for name in error_classes()}
    for tree in trees.values():
        for node in ast.walk(tree):  # a class that a module makes for itself counts as its base
            if isinstance(node, ast.ClassDef) and node.name not in names:
                for base in map(_name, node.bases):
                    if base in names:
                        names[node.name] = names[base]
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or _name(node.func) not in names or not node.args:
                continue
            name = names[_name(node.func)]
            entry = (_message(name, node), module)
            if entry[0] and entry not in found[name]:
                found[name].append(entry)
    return {
        name: sorted(found[name], key=lambda entry: entry[1])
        for name in error_classes()
        if found[name]
    }


def message_lines() -> Iterator[str]:
    """Yield the Markdown of the messages."""
    for name, entries in messages().items():
        yield f"### {name}, exit code {error_classes()[name].exit_code}\n"
        module = ""
        for message, where in entries:
            if where != module:
                module = where
                yield f"\n`{module}`\n"
            yield f"- {_escaped(message)}"
        yield ""


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _message(name: str, call: ast.Call) -> str:
    if name != "ImageError":
        # A message, or a reason and its remedy.
        return ". ".join(map(_text, call.args)) if name == "FormatError" else _text(call.args[0])
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    reason, remedy = [*call.args[1:], *[None] * 2][:2]
    reason, remedy = reason or keywords.get("reason"), remedy or keywords.get("remedy")
    return "‹file›: " + ". ".join(_text(part) for part in (reason, remedy) if part is not None)


def _text(node: ast.expr) -> str:
    """Return what a message says, with ‹names› where values come."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"‹{_spoken(node.value)}›"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        parts = [_text(node.body), _text(node.orelse)]
        return f"[{' | '.join(part.strip() for part in parts if part.strip())}]"
    return f"‹{_spoken(node)}›"


def _spoken(node: ast.expr) -> str:
    """Return a short name of a value."""
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, ast.Subscript):
        return _spoken(node.value)
    if isinstance(node, ast.Call):
        if _name(node.func) in {"len", "type", "str", "repr", "sorted", "list", "shown"}:
            return _spoken(node.args[0])
        if isinstance(node.func, ast.Attribute) and _name(node.func) == "join" and node.args:
            return _spoken(node.args[0])
        return _name(node.func).strip("_").replace("_", " ") or "value"
    if isinstance(node, ast.IfExp):
        return f"{_spoken(node.body)} or {_spoken(node.orelse)}"
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return _spoken(node.generators[0].iter)
    return "value"


def _escaped(message: str) -> str:
    message = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_[]#{}":
        message = message.replace(sign, "\\" + sign)
    return " ".join(message.split())


# -- every command ---------------------------------------------------------------------------------


def command_lines() -> Iterator[str]:
    """Yield the Markdown of the help of every command."""
    # argparse wraps by the terminal; the page has one width.
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "82"
    try:
        for title, names in GROUPS.items():
            yield f"## {title.capitalize()}\n"
            for name in names:
                commands = next(
                    action
                    for action in parser(name)._actions
                    if isinstance(action, argparse._SubParsersAction)
                )
                yield f"### {name}\n\n```text\n{commands.choices[name].format_help()}```\n"
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


# -- every public name -----------------------------------------------------------------------------


def reference_names() -> dict[str, list[str]]:
    """Return the names that each page of the reference describes, in its order."""
    navigation = (TOP / "mkdocs.yml").read_text("utf-8")
    return {
        page: re.findall(r"^::: (\S+)$", (DOCS / "reference" / page).read_text("utf-8"), re.M)
        for page in re.findall(r": reference/(\w+\.md)$", navigation, re.M)
    }


def name_lines() -> Iterator[str]:
    """Yield the Markdown of a table per page of the reference."""
    for page, names in reference_names().items():
        title = (DOCS / "reference" / page).read_text("utf-8").splitlines()[0].removeprefix("# ")
        yield f"## {title}\n"
        yield "| name | what it is | source |"
        yield "|---|---|---|"
        for name in names:
            thing = pkgutil.resolve_name(name)
            line = (inspect.getdoc(thing) or "").splitlines()[0].replace("|", "\\|")
            line = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", line).replace("``", "`")
            module = thing.__module__.removeprefix("bowsaw.").replace(".", "/")
            shown = name.removeprefix("bowsaw.").removeprefix("compat.opencv.").rsplit(".", 1)[-1]
            # The address is given when the page is rendered, too late for MkDocs to check a link.
            source = f"{page.replace('.md', '.html')}#{name}--source"
            yield f'| [`{shown}`]({page}#{name}) | {line} | <a href="{source}">{module}.py</a> |'
        yield ""


def _with_addresses(html: str) -> str:
    """Give each folded source the id of its name and ``--source``; keep it out of the search."""
    name = ""

    def addressed(found: re.Match[str]) -> str:
        nonlocal name
        if found[1]:
            name = found[1]
            return found[0]
        return f'<details class="mkdocstrings-source" data-search-exclude id="{name}--source">'

    pattern = r'<h[2-6] id="([\w.]+)"|<details class="mkdocstrings-source">'
    html = re.sub(pattern, addressed, html)
    # mkdocstrings shows the source of __init__; a class without one has no source yet.
    for name in re.findall(r'<h2 id="(bowsaw[\w.]+)"', html):
        if f'id="{name}--source"' not in html:
            html = re.sub(rf'(<h2 id="{name}".*?</h2>)', rf"\1{_folded(name)}", html, flags=re.S)
    return html


def _folded(name: str) -> str:
    thing = pkgutil.resolve_name(name)
    code = highlight(inspect.getsource(thing), PythonLexer(), HtmlFormatter(cssclass="highlight"))
    path = f"src/{thing.__module__.replace('.', '/')}.py"
    folded = (
        f'<details class="mkdocstrings-source" data-search-exclude id="{name}--source">'
        f"<summary>Source code in <code>{path}</code></summary>{code}</details>"
    )
    return folded.replace("\\", "\\\\")
