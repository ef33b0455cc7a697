"""The documentation's search works from a folder on disk, without a server or a network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser.visiting import visit

TOP = Path(__file__).resolve().parents[2]

# The site's theme, scripts and search, with two short pages in place of all documents.
SMALL = f"""
INHERIT: {(TOP / "mkdocs.yml").as_posix()}
docs_dir: documents
hooks: []
nav: [index.md, other.md]
plugins: [search, offline]
"""


@pytest.fixture(scope="module")
def small_site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    shutil.copytree(TOP / "docs" / "assets", folder / "documents" / "assets")
    (folder / "mkdocs.yml").write_text(SMALL, "utf-8")
    (folder / "documents" / "index.md").write_text("# Home\n\nNothing to find.\n", "utf-8")
    (folder / "documents" / "other.md").write_text("# Saws\n\nA rosewood handle.\n", "utf-8")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-d", folder / "site"],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        check=True,
    )
    return folder / "site"


def test_a_word_is_found_from_disk(browser, small_site):
    with visit(browser, small_site / "index.html") as seen:
        seen.page.click(".md-search__input")
        seen.page.keyboard.type("rosewood", delay=20)
        link = seen.page.wait_for_selector(".md-search-result__link[href*='other.html']")
        assert "Saws" in link.inner_text()
        assert seen.outside() == []
        assert seen.complaints == []
