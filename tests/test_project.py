"""The project's promises about itself: its public names, its code, its files."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import bowsaw as bs
from bowsaw import _version

TOP = Path(__file__).resolve().parents[1]
MODULES = sorted((TOP / "src").rglob("*.py"))
TESTS = sorted((TOP / "tests").rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(TOP).as_posix()


def tracked_texts() -> Iterator[tuple[str, str]]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=TOP, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listing.split("\0")):
        path = TOP / name
        if path.is_file() and path != Path(__file__).resolve():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_public_names_are_documented():
    for name in set(bs.__all__) - {"__version__"}:
        thing = getattr(bs, name)
        assert thing.__doc__, name
        assert thing.__module__.startswith("bowsaw."), name


def test_importing_bowsaw_loads_nothing_heavy():
    heavy = {"cv2", "numba", "rich", "safetensors", "scipy", "sklearn"}
    code = f"import sys, bowsaw; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_version_is_written_once():
    version = _version.__version__
    assert bs.__version__ == version == importlib.metadata.version("bowsaw")
    places = [relative(path) for path in MODULES if f'"{version}"' in path.read_text("utf-8")]
    assert places == ["src/bowsaw/_version.py"]
    assert f"## [{version}]" in (TOP / "CHANGELOG.md").read_text("utf-8")
    assert f"version: {version}\n" in (TOP / "CITATION.cff").read_text("utf-8")


def test_every_module_has_a_docstring_and_packages_have_no_packages_inside():
    without = [p for p in MODULES if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert without == []
    inside = [p for p in (TOP / "src" / "bowsaw").glob("*/*/") if (p / "__init__.py").exists()]
    assert inside == []


def imported_packages(path: Path) -> tuple[set[str], set[str]]:
    """Return what is imported together with the module, and what only when a function needs it."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    # What only a type checker imports is never loaded.
    late = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, functions)
        or (isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test))
        for node in ast.walk(block)
    }
    first: set[str] = set()
    when_needed: set[str] = set()
    for node in ast.walk(tree):
        names = when_needed if id(node) in late else first
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} has a relative import"
            names.add(str(node.module).partition(".")[0])
    return first - sys.stdlib_module_names, when_needed - sys.stdlib_module_names


def test_the_package_imports_only_what_it_declares():
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    base, optional = (
        {re.match(r"[\w-]+", line)[0] for line in lines}
        for lines in (
            project["dependencies"],
            [*extras["dask"], *extras["plots"], *extras["skops"]],
        )
    )
    distributions = importlib.metadata.packages_distributions()
    undeclared = set()
    for path in MODULES:
        first, when_needed = imported_packages(path)
        for names, allowed in ((first, base), (when_needed, base | optional)):
            undeclared |= {
                (relative(path), name)
                for name in names - {"bowsaw"}
                if not allowed & set(distributions.get(name, ()))
            }
    assert undeclared == set()


def ways_out(path: Path) -> Iterator[str]:
    """Yield the statements of a test module that skip or expect a failure, with their reasons."""
    source = path.read_text("utf-8")
    names = {"skip", "skipif", "skipIf", "skipUnless", "xfail", "importorskip", "SkipTest"}
    for statement in ast.parse(source).body:
        used = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
        if used & names:
            marks = [ast.unparse(mark) for mark in getattr(statement, "decorator_list", [])]
            yield "\n".join([*marks, str(ast.get_source_segment(source, statement, padded=True))])


def test_tests_are_skipped_only_without_an_image_set_or_a_compiler_or_on_windows():
    # CI requires the compilers (BOWSAW_COMPILERS), and fails without them.
    allowed = (
        *("BOWSAW_SCENE15", "BOWSAW_CALTECH101", "skipif(sys.platform == 'win32'"),
        *("skipif(compiler_of() is None", "skipif(missing() and "),
    )
    found = [
        (relative(path), reason)
        for path in TESTS
        for reason in ways_out(path)
        if not any(word in reason.replace('"', "'") for word in allowed)
    ]
    assert found == []


def test_no_tracked_file_names_a_machine_or_a_registry():
    private = re.compile(
        r"(?<![\w.])/(work|root|home|Users|tmp)/|pythonhosted|registry\.npmjs"
        r"|https?://\S*/simple\b|index-url"
    )
    found = [(name, match[0]) for name, text in tracked_texts() for match in private.finditer(text)]
    assert found == []
    # And the layers are kept.
    assert "lint-imports" in (TOP / "Makefile").read_text("utf-8")
