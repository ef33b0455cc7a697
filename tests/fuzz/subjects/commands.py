"""The command line: mutated options on mutated files.

An input is a list of words, and two files that lie beside valid ones in the working folder. Paths
are kept inside that folder, and numbers of steps small: asking for much work is no mistake.
"""

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
from tests.fuzz.structures import change_npy, change_safetensors, change_zip, in_files, pack, unpack
from tests.fuzz.subjects.codebooks import classifier
from tests.fuzz.subjects.runs import run_seeds
from tests.fuzz.subjects.stores import files_in, fill, write_images

from bowsaw.cli.main import COMMANDS, INTERRUPTED, TERMINATED, main, parser
from bowsaw.errors import BowsawError

_COMMANDS = (
    "inspect a.store --json",
    "inspect in.safetensors",
    "inspect in.npz",
    "extract pets -o new.store --patch-step 16",
    "train a.store -o new.safetensors --words 3 --max-iter 3",
    "encode book.safetensors a.store -o new.npz",
    "encode in.safetensors a.store -o new.npz --coding soft --sharpness 40 --part test",
    "convert book.safetensors new.yml",
    "convert in.npz new.npy --variable words --layout rows --scale 512",
    "convert in.safetensors new.mat",
    "predict book.safetensors --classifier model.safetensors pets/cats/0.png --json",
    "export book.safetensors -o new.h --word-dtype uint8",
    "report run -o new.html -q",
    "completion bash",
    # What takes long ends where its files are read: it asks for more than there is.
    "train in.safetensors -o new.safetensors --words 2 --part codebook -q",
    "split a.store 1/1/rest --seed 3",
    "split a.store",
    "whatif in.safetensors a.store --keep 9 --transfer uniform --checked 3 --repeats 1 --json",
    "fit in.safetensors a.store --C 1 -o new.safetensors --part codebook",
    "export in.safetensors -o new.onnx --sharpness 3",
    "evaluate a.store --codebook in.safetensors --splits 1 --confusion",
    "prune in.safetensors a.store --keep 9 --method coverage -o new.safetensors",
    "compare pets --words 4 --sizes 2 --splits 1 -o",
    "--version",
    "train --help",
)
_FILES = """a.store pets book.safetensors model.safetensors in.safetensors in.npz run new.store
    new.safetensors new.npz new.h new.yml . pets/cats/none.png no"""
_OPTIONS = """-o --output -q --json --debug --help -j --part --seed --split --words --keep --coding
    --sharpness --perplexity --overwrite --strict"""
_VALUES = """0 1 2 3 -1 1.5 nan inf 1e999 - -- = ٣ 1_0 0x3 999999999999999999999 all auto soft
    codebook test 1/1/rest %s {} @a rows columns"""
_WORDS = (
    *(*COMMANDS, *_FILES.split(), *_OPTIONS.split(), *_VALUES.split()),
    *("", " ", "\ud800", "\ud800", "a\nb", "a" * 300, "\x1b[2J"),
)
_WORK = {"--steps", "--splits", "--folds", "--max-iter", "--repeats", "--sample", "--checked"}
_WORK |= {"-j", "--jobs"}


@cache
def _base() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_images(folder / "pets", n_each=4)
        lines = (
            f"extract {folder}/pets -o {folder}/a.store -j 1",
            f"train {folder}/a.store --words 4 -o {folder}/book.safetensors -j 1",
            f"encode {folder}/book.safetensors {folder}/a.store -o {folder}/in.npz -j 1",
        )
        for line in lines:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert main([*line.split(), "-q"]) == 0
        fill(unpack(run_seeds(details=False)[0]), folder / "run")
        (folder / "model.safetensors").write_bytes(classifier())
        (folder / "in.safetensors").write_bytes((folder / "book.safetensors").read_bytes())
        return files_in(folder)


@cache
def _seeds() -> list[bytes]:
    files = {name: _base()[name] for name in ("in.npz", "in.safetensors")}
    return [pack({"argv": json.dumps(line.split()).encode(), **files}) for line in _COMMANDS]


def _change_words(data: bytes, rng: Random) -> bytes:
    try:
        words = json.loads(data)
        assert isinstance(words, list)
    except (ValueError, AssertionError, RecursionError):
        return b"[]"
    at = rng.randrange(len(words) + 1)
    what = rng.randrange(5)
    if what == 0:
        words.insert(at, rng.choice(_WORDS))
    elif what == 1:
        words += rng.choice(_COMMANDS).split()[1:][: rng.randrange(1, 5)]
    elif at < len(words):
        if what == 2:
            del words[at]
        elif what == 3:
            words.insert(rng.randrange(len(words)), words[at])
        else:
            words[at] = rng.choice(_WORDS)
    return json.dumps(words).encode()


def _bounded(words: list[str]) -> list[str]:
    """Keep paths in the folder and work small."""
    found: list[str] = []
    for word in words:
        if "\0" in word or word.startswith("/") or ".." in word or word == "--scheduler":
            continue
        digits = word.lstrip("+-").replace("_", "")
        many = digits.isdecimal() and int(digits) > 3
        found.append("3" if many and found and found[-1] in _WORK else word)
    return found


_parser_of = cache(parser)


def _parser(*chosen: str) -> argparse.ArgumentParser:
    """The parser of a command, made once: making it takes longer than most commands."""
    return _parser_of(*(name for name in chosen if name in COMMANDS))


def _read(data: bytes, folder: Path) -> tuple[int, str] | None:
    place = folder / "working"
    shutil.rmtree(place, ignore_errors=True)
    files = unpack(data)
    inputs = {name: files.get(name, b"") for name in ("in.npz", "in.safetensors")}
    for name, content in {**_base(), **inputs}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    try:
        words = _bounded([str(word) for word in json.loads(files.get("argv", b"[]"))])
    except (ValueError, TypeError, RecursionError):
        words = []
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(place)
    try:
        with redirect_stdout(out), redirect_stderr(err), patch("bowsaw.cli.main.parser", _parser):
            code = main(words)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except (BowsawError, OSError):
        # With --debug Python shows where the error was raised.
        if "--debug" not in words:
            raise
        return None
    finally:
        os.chdir(before)
    if code in (INTERRUPTED, TERMINATED):
        # The signal was for the search; the command has caught it.
        raise KeyboardInterrupt
    text = err.getvalue()
    assert "Traceback" not in text + out.getvalue(), text[-500:]
    if code:
        lines = text.strip().splitlines()
        assert 1 <= code <= 9, f"exit code {code}"
        assert not words or (lines and lines[-1].startswith("bowsaw: ")), text
        return None
    return code, out.getvalue()


_WAYS = {
    "argv": _change_words,
    ".safetensors": mixed(change_safetensors),
    ".npz": mixed(change_zip(mixed(change_npy, change_json)), share=0.8),
}
READERS = [Reader("command-line", _seeds, _read, in_files(_WAYS), (), spliced=False)]
