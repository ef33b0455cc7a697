"""The command line: options that nobody meant, on files that nobody should have.

An input is a list of words, and files that stand beside right ones in the folder where they are
typed. Paths are kept inside that folder, and numbers of steps small: asking for much work is no
mistake.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

from tests.fuzz.engine import Reader
from tests.fuzz.mutations import change_json, mixed
from tests.fuzz.structures import (
    change_npy,
    change_safetensors,
    change_zip,
    in_files,
    pack,
    unpack,
)
from tests.fuzz.subjects.runs import run_seeds
from tests.fuzz.subjects.stores import fill, write_pictures
from tests.fuzz.subjects.vocabularies import classifier

from bowsaw.cli.main import COMMANDS, INTERRUPTED, TERMINATED, main, parser
from bowsaw.errors import BowsawError

_SPLIT = "--train-codebook 1 --train 1"
_COMMANDS = (
    "inspect a.store --json",
    "inspect in.safetensors",
    "inspect in.npz",
    "extract pets -o new.store --step 16",
    "train a.store -o new.safetensors --words 3 --max-iter 3",
    "encode book.safetensors a.store -o new.npz",
    f"encode in.safetensors a.store -o new.npz --coding soft --sharpness 40 --part test {_SPLIT}",
    "convert book.safetensors new.yml",
    "convert in.npz new.npy --variable words --layout rows --scale 512",
    "convert in.safetensors new.mat",
    "predict book.safetensors model.safetensors pets/cats/0.png --json",
    "export book.safetensors -o new.h --type float",
    "report run -o new.html -q",
    "completion bash",
    # What takes long ends where its files are read: it asks for more than there is.
    f"train in.safetensors -o new.safetensors --words 2 --part codebook {_SPLIT} -q",
    "whatif in.safetensors a.store --keep 9 --transfer uniform --sample 3 --moves 1 --json",
    "fit in.safetensors a.store --C 1 -o new.safetensors --train-codebook 9 --part train",
    "export in.safetensors -o new.onnx --sharpness 3",
    "evaluate a.store --codebook in.safetensors --splits 1 --train 9 --confusion",
    f"prune in.safetensors a.store --keep 9 --method coverage -o new.safetensors {_SPLIT}",
    "compare pets --words 4 --sizes 2 --splits 1 -o",
    "--version",
    "train --help",
)
_WORDS = (
    *COMMANDS,
    *(
        "a.store",
        "pets",
        "book.safetensors",
        "model.safetensors",
        "in.safetensors",
        "in.npz",
        "run",
    ),
    *(
        "new.store",
        "new.safetensors",
        "new.npz",
        "new.h",
        "new.yml",
        ".",
        "pets/cats/none.png",
        "no",
    ),
    *("-o", "--output", "-q", "--json", "--debug", "--help", "-j", "--part", "--seed", "--split"),
    *("--words", "--keep", "--coding", "--sharpness", "--perplexity", "--train", "--overwrite"),
    *(
        "0",
        "1",
        "2",
        "3",
        "-1",
        "1.5",
        "nan",
        "inf",
        "1e999",
        "",
        " ",
        "-",
        "--",
        "=",
        "٣",
        "\ud800",
    ),
    *("\ud800", "1_0", "0x3", "999999999999999999999", "all", "auto", "soft", "codebook", "test"),
    *("a\nb", "a" * 300, "\x1b[2J", "%s", "{}", "@a", "rows", "columns", "--strict", "--overwrite"),
)
_WORK = {"--steps", "--splits", "--folds", "--refine", "--max-iter", "--moves", "--sample"}
_WORK |= {"-j", "--jobs", "--effort"}


@cache
def _base() -> dict[str, bytes]:
    """The right files."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pictures(folder / "pets", n_each=4)
        typed = (
            f"extract {folder}/pets -o {folder}/a.store -j 1",
            f"train {folder}/a.store --words 4 -o {folder}/book.safetensors -j 1",
            f"encode {folder}/book.safetensors {folder}/a.store -o {folder}/in.npz -j 1",
        )
        for line in typed:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert main([*line.split(), "-q"]) == 0
        (folder / "run").mkdir()
        fill(unpack(run_seeds(details=False)[0]), folder / "run")
        (folder / "model.safetensors").write_bytes(classifier())
        (folder / "in.safetensors").write_bytes((folder / "book.safetensors").read_bytes())
        found = sorted(p for p in folder.rglob("*") if p.is_file())
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}


@cache
def _seeds() -> list[bytes]:
    files = {name: _base()[name] for name in ("in.npz", "in.safetensors")}
    return [pack({"argv": json.dumps(line.split()).encode(), **files}) for line in _COMMANDS]


def _change_words(data: bytes, rng: Random) -> bytes:
    """Replace, leave out, repeat or add a word."""
    try:
        typed = json.loads(data)
        assert isinstance(typed, list)
    except (ValueError, AssertionError, RecursionError):
        return b"[]"
    at = rng.randrange(len(typed) + 1)
    what = rng.randrange(5)
    if what == 0:
        typed.insert(at, rng.choice(_WORDS))
    elif what == 1:
        typed += rng.choice(_COMMANDS).split()[1:][: rng.randrange(1, 5)]
    elif at < len(typed):
        if what == 2:
            del typed[at]
        elif what == 3:
            typed.insert(rng.randrange(len(typed)), typed[at])
        else:
            typed[at] = rng.choice(_WORDS)
    return json.dumps(typed).encode()


def _tamed(typed: list[str]) -> list[str]:
    """Keep paths in the folder and work small."""
    words = []
    for word in typed:
        before = words[-1] if words else ""
        if "\0" in word or word.startswith("/") or ".." in word or word == "--scheduler":
            continue
        digits = word.lstrip("+-").replace("_", "")
        many = digits.isdecimal() and int(digits) > 3
        words.append("3" if many and before in _WORK else word)
    return words


_state: dict[Path, dict[str, tuple[int, int]]] = {}


def _restore(folder: Path) -> None:
    """Put right whatever the last command has changed in the folder."""
    known = _state.setdefault(folder, {})
    base = _base()
    there = _kept(str(folder), "", known)
    for name in base.keys() - there:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base[name])
        info = path.stat()
        known[name] = (info.st_size, info.st_mtime_ns)


def _kept(folder: str, within: str, known: dict[str, tuple[int, int]]) -> set[str]:
    """Remove what does not belong there, and return the names of the files that are as they were.

    Folders go, too: one that a command has left would change what the next one does.
    """
    there = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = within + entry.name
            if entry.is_dir(follow_symlinks=False):
                if name in _folders():
                    there |= _kept(entry.path, f"{name}/", known)
                else:
                    shutil.rmtree(entry.path)
            elif name not in _base():
                os.unlink(entry.path)  # noqa: PTH108 - half the time of Path
            else:
                info = entry.stat()
                if known.get(name) == (info.st_size, info.st_mtime_ns):
                    there.add(name)
    return there


@cache
def _folders() -> set[str]:
    return {parent.as_posix() for name in _base() for parent in Path(name).parents}


_parser_of = cache(parser)


def _parser(*chosen: str) -> argparse.ArgumentParser:
    """The parser of a command, made once: making it takes longer than most commands."""
    return _parser_of(*(name for name in chosen if name in COMMANDS))


def _read(data: bytes, folder: Path) -> tuple[int, str] | None:
    place = folder / "typing"
    place.mkdir(exist_ok=True)
    _restore(place)
    files = unpack(data)
    for name in ("in.npz", "in.safetensors"):
        if files.get(name) != _base()[name]:
            (place / name).write_bytes(files.get(name, b""))
    try:
        typed = [str(word) for word in json.loads(files.get("argv", b"[]"))]
    except (ValueError, TypeError, RecursionError):
        typed = []
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(place)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch("bowsaw.cli.main.parser", _parser),
        ):
            code = main(_tamed(typed))
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except (BowsawError, OSError):
        # What is asked for with --debug: Python then shows where the error was raised.
        if "--debug" not in typed:
            raise
        return None
    finally:
        os.chdir(before)
    if code in (INTERRUPTED, TERMINATED):
        # The signal was for the search; the command had caught it.
        raise KeyboardInterrupt
    said = err.getvalue()
    assert "Traceback" not in said + out.getvalue(), said[-500:]
    if code:
        lines = said.strip().splitlines()
        assert 1 <= code <= 9, f"exit code {code}"
        assert not typed or not _tamed(typed) or (lines and lines[-1].startswith("bowsaw: ")), said
        return None
    return code, out.getvalue()


READERS = [
    Reader(
        "command-line",
        _seeds,
        _read,
        in_files(
            {
                "argv": _change_words,
                ".safetensors": mixed(change_safetensors),
                ".npz": mixed(change_zip(mixed(change_npy, change_json)), share=0.8),
            }
        ),
        (),
        spliced=False,
        watched=4,
    )
]
