"""The voice of the code and the documents: plain technical English, conventional names.

Each pattern is a habit that the style forbids in the text and names of ``src``, ``reproduction``,
``docs``, ``README.md`` and ``CONTRIBUTING.md``. A line that needs the word all the same is listed
in ``ALLOWED`` with its reason.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PATTERNS = {
    "typographic quotes: write straight ones": r"[«»“”„]",
    "write again, or re-encode": r"\banew\b",
    "write shows, reports, returns": r"\b(?<!\.)(tells?|telling|told|foretells?)\b",
    "write random": r"\bby lot\b",
    "no personification": r"\b(nobody|somebody|whoever|who goes|who comes|newcomers?|strangers?)\b",
    "no metaphors as terms": (
        r"\b(arena|shelf|shelves|crew|heirs?|guests?|front doors?|at the door|"
        r"(this|the|a|each|every|own) (room|house)s?|journal(s|ed)? of the|the ground)\b"
    ),
    "write per class, per word, per image": (
        r"\b(labels?|images?|words?|bytes?|seconds?|ms|ns|times|descriptors?|rows?|columns?|"
        r"entr(y|ies)|lines?|files?|threads?|one|steps?|splits?|values?|scores?|items?|results?|"
        r"cells?|points?|blocks?|numbers?|ranks?|errors?|digests?|samples?|records?|bits|"
        r"folders?|machines?|weights?|moments?|tiles?|nats|tokens?|rounds?|process(es)?) an? "
        r"(bag|class|word|image|picture|descriptor|row|column|line|split|fold|step|size|cell|"
        r"thread|worker|process|method|file|dimension|place|segment|block|move|swap|second|core|"
        r"machine|point|round|byte|node)\b"
    ),
    "write 0.719, not .719": r"(?<![\w.)\]\"'%}/…:\*-])\.\d+(?![\w.%])",
    "write image": r"(?<![</])\bpictures?\b",
    "no old names": (
        r"\b(disk_full_is_clear|leaves_traces|let_go|warmth|in_=|Known\(|Trail\b|TrailFile|"
        r"Painter|Ledger|Bench\(|Gathering)\b"
    ),
    "names that say nothing": r"\b(utils?|helpers?|misc)\.py\b",
}

ALLOWED: dict[str, str] = {
    "src/bowsaw/formats/matlab.py: one word a column": "bytes of files that exist",
    "README.md: picture>": "an element of HTML",
}


def source_files() -> list[Path]:
    found = []
    for folder in ("src", "reproduction", "docs"):
        for suffix in ("py", "js", "css", "html", "md"):
            found += sorted((ROOT / folder).rglob(f"*.{suffix}"))
    return [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


STYLE_SHEETS = (".css", ".js")


def violations(pattern: str) -> list[str]:
    regex = re.compile(pattern, re.IGNORECASE)
    found = []
    for path in source_files():
        if path.suffix in STYLE_SHEETS and pattern == PATTERNS["write 0.719, not .719"]:
            continue
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            allowed = any(
                name == where.partition(": ")[0] and where.partition(": ")[2] in line
                for where in ALLOWED
            )
            if regex.search(line) and not allowed:
                found.append(f"{name}:{number}: {line.strip()}")
    return found


@pytest.mark.parametrize("habit", PATTERNS)
def test_the_code_speaks_plainly(habit):
    found = violations(PATTERNS[habit])
    assert not found, f"{habit}:\n" + "\n".join(found[:40])


def test_every_exception_is_still_needed():
    lines = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8").splitlines()
        for path in source_files()
    }
    for where, reason in ALLOWED.items():
        name, _, part = where.partition(": ")
        assert any(part in line for line in lines.get(name, [])), f"{where} ({reason}) is gone"


@pytest.mark.parametrize(
    ("habit", "line"),
    [
        ("write again, or re-encode", "it is coded anew"),
        ("write per class, per word, per image", "one label a bag"),
        ("write per class, per word, per image", "50 images a class for the codebook"),
        ("write 0.719, not .719", "an accuracy of .719"),
    ],
)
def test_the_patterns_find_what_they_are_for(habit, line):
    assert re.search(PATTERNS[habit], line)


@pytest.mark.parametrize("line", ["has a class", "converts a block at a time", "is a file"])
def test_the_patterns_leave_other_text_alone(line):
    assert not re.search(PATTERNS["write per class, per word, per image"], line)
