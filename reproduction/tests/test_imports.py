"""The study uses public names of the library alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bowsaw

STUDY = Path(__file__).parents[1]
FILES = [path for path in sorted(STUDY.rglob("*.py")) if path.parent != STUDY / "tests"]
# Packages, whose public names are in their ``__init__``, and single modules.
PUBLIC = {path.parent.name for path in Path(bowsaw.__file__).parent.glob("*/__init__.py")}
PUBLIC |= {"errors", "formatting", "validation"}


def imported(path):
    """Every module of bowsaw that a file imports, with each name that it takes from there."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(STUDY).as_posix())
def test_imports_are_public(path):
    for module, name in imported(path):
        top, *inner = module.split(".")
        if top != "bowsaw":
            continue
        assert not inner or (len(inner) == 1 and inner[0] in PUBLIC), module
        assert name is None or not name.startswith("_"), f"{module}.{name}"
        assert inner or name is None or name in bowsaw.__all__, f"{module}.{name}"
