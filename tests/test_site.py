"""The site builds without a warning, its links lead somewhere, and it requests no other host."""

import ast
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from docs.assets import hooks, measured

import bowsaw
from bowsaw.cli.main import COMMANDS

TOP = Path(__file__).resolve().parents[1]


class Page(HTMLParser):
    """The anchors of a page, its links, and what a browser fetches to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.words: list[str] = []
        self.is_source = False
        self.feed(path.read_text("utf-8"))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.fetched.append(given.get("href", ""))
        if "src" in given:
            self.fetched.append(given["src"])
        self.is_source |= given.get("class") == "mkdocstrings-source"

    def handle_endtag(self, tag):
        self.is_source &= tag != "details"

    def handle_data(self, data):
        if not self.is_source:
            self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    built = subprocess.run(
        # Not --quiet: it would silence the warnings before --strict can count them.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=TOP,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(TOP / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    ours = (path for path in site.rglob("*.html") if path.name not in {"404.html", "page.html"})
    return {path: Page(path) for path in sorted(ours)}


def test_every_page_is_in_the_navigation_and_the_search_index(pages, site):
    home = site / "index.html"
    linked = {(site / urlsplit(link).path).resolve() for link in pages[home].links}
    assert [path.name for path in pages if path not in linked and path != home] == []
    index = (site / "search" / "search_index.js").read_text("utf-8")
    for path in pages:
        assert f'"location":"{path.relative_to(site).as_posix()}' in index or path.stem == "index"


def test_every_link_and_anchor_leads_somewhere(pages, site):
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchors = pages[target].ids if target in pages else None
            if not target.is_file() or (
                parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors
            ):
                lost.append((path.relative_to(site).as_posix(), link))
    assert lost == []


def test_no_page_asks_another_host(pages, site):
    asked = [urlsplit(address) for page in pages.values() for address in page.fetched]
    assert [parts for parts in asked if parts.netloc or parts.scheme not in {"", "data"}] == []
    outside = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
    for sheet in site.rglob("*.css"):
        assert outside.findall(sheet.read_text("utf-8")) == []
    text = (TOP / "mkdocs.yml").read_text("utf-8")
    assert yaml.safe_load(text)["theme"]["font"] is False
    assert "http" not in text


def test_the_reference_has_every_public_name_and_no_role_as_it_is_written(pages):
    known = set().union(*(page.ids for path, page in pages.items() if "reference" in path.parts))
    names = {f"bowsaw.{name}" for name in bowsaw.__all__ if name != "__version__"}
    assert names - known == set()
    for path, page in pages.items():
        assert re.findall(r":(?:class|func|mod|meth|math):", page.text) == [], path.name


def test_the_page_of_errors_has_every_class_and_every_place_that_raises(pages, site):
    document = (TOP / "docs" / "errors.md").read_text("utf-8")
    for name, kind in hooks.error_classes().items():
        assert name == "BowsawError" or f"| `{name}` | {kind.exit_code} |" in document
    # Counted in another way than the page is made: every `raise X(` of the source.
    listed = {(name, where) for name, found in hooks.messages().items() for _, where in found}
    source = TOP / "src" / "bowsaw"
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                name = ast.unparse(node.exc.func)
                if name in hooks.error_classes():
                    assert (name, path.relative_to(source).as_posix()) in listed
    shown = pages[site / "errors.html"].text
    for found_here in hooks.messages().values():
        for message, where in found_here:
            assert where in shown
            assert " ".join(message.split()) in shown, message
    text = pages[site / "commands.html"].text
    for name in COMMANDS:
        assert f"usage: bowsaw {name}" in text


def test_measured_numbers_are_those_of_the_records():
    places = set()
    for path in (TOP / "docs").rglob("*.md"):
        text = path.read_text("utf-8")
        assert text == measured.filled(text), f"run python -m docs.assets.measured: {path.name}"
        places |= set(re.findall(r"<!-- measured: (\S+) -->", text))
    assert places >= measured.BLOCKS.keys()
    overview = (TOP / "docs" / "methods" / "index.md").read_text("utf-8")
    assert [name for name in measured.METHODS if f"`{name}`" not in overview] == []


def test_names_and_tests_in_the_table_of_paper_and_code_exist():
    text = (TOP / "docs" / "paper-to-code.md").read_text("utf-8")
    for path, _, name in re.findall(r"`(tests/[\w/]+\.py)(::(\w+))?`", text):
        assert (TOP / path).is_file(), path
        assert not name or f"def {name}(" in (TOP / path).read_text("utf-8"), name
    names = set(re.findall(r"`(bowsaw\.[\w.]+)`", text))
    assert len(names) > 20
    for name in names:
        assert pkgutil.resolve_name(name) is not None
