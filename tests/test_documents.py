"""Everything that the documents show is run, link by link and command by command.

A block that only includes another file (``--8<--``, as in the gallery) is not run here: the
included script has a test of its own. That the file is there is checked.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bowsaw.cli.main import main

TOP = Path(__file__).resolve().parents[1]
DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]

each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(TOP).as_posix()
)

INCLUDED = re.compile(r"^[ \t]*--8<-- \"([^\":]+)[^\"]*\"$", re.M)


def code_blocks(path: Path) -> Iterator[tuple[str, str]]:
    for block in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", path.read_text("utf-8"), re.M | re.S):
        yield block[1], block[2]


def commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


@each_document
def test_python_and_commands_run(path, scenes, tmp_path, monkeypatch):
    shutil.copytree(scenes, tmp_path / "scenes")
    for image in sorted(scenes.glob("*/00*.png")):
        (tmp_path / "photos" / image.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(image, tmp_path / "photos" / image.parent.name)
    shutil.copy(scenes / "brick" / "143.png", tmp_path / "new.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, code in code_blocks(path):
        assert language in {"python", "sh", "text"}
        if INCLUDED.search(code):
            continue
        if language == "python":
            exec(compile(code, path.name, "exec"), names)
        elif language == "sh":
            for program, *arguments in commands(code):
                assert program in {
                    *("bowsaw", "make", "pip", "git", "cd"),
                    *("python", "source", ".venv/bin/pre-commit"),
                }
                if program == "bowsaw":
                    assert main(arguments) == 0, arguments


@each_document
def test_included_files_exist(path):
    included = INCLUDED.findall(path.read_text("utf-8"))
    assert [name for name in included if not (TOP / name).is_file()] == []


@each_document
def test_make_targets_exist(path):
    targets = set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text("utf-8"), re.M))
    mentioned = set(re.findall(r"(?:^|`)make ([a-z]+)", path.read_text("utf-8"), re.M))
    assert mentioned <= targets


@each_document
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_files_that_contributors_touch_exist():
    rows = re.findall(
        r"^\| (`[^|]+`) \| (.*) \|$", (TOP / "CONTRIBUTING.md").read_text("utf-8"), re.M
    )
    assert len(rows) > 20
    for files, what in rows:
        paths = [TOP / name for name in re.findall(r"`([^`]+)`", files) if "NAME" not in name]
        assert all(path.is_file() for path in paths), files
        texts = [path.read_text("utf-8") for path in paths]
        for name in re.findall(r"`(_?[A-Z][A-Z_]+)`", what) if texts else ():
            assert any(re.search(rf"^{name}\b", text, re.M) for text in texts), (files, name)
