"""Wrong input is answered by one line that names it, and the right exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bowsaw.checkpoint import exclusive
from bowsaw.errors import (
    BusyError,
    DataError,
    FormatError,
    ImageError,
    MismatchError,
    ParameterError,
    StoreError,
)


@pytest.fixture
def place(made, tmp_path):
    """A folder of wrong files beside right ones."""
    for name in ("empty", "hollow/brick", "junk/brick", "tiny/brick", "occupied", "broken"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("occupied/notes.txt", "a-file"):
        (tmp_path / name).write_text("something")
    (tmp_path / "junk" / "brick" / "1.png").write_bytes(b"not an image")
    shutil.copy(made.images / "brick" / "000.png", tmp_path / "tiny" / "brick")
    for name in ("scenes.store", "cut.store"):
        shutil.copytree(made.store, tmp_path / name)
    (tmp_path / "cut.store" / "shards" / "00000.npy").unlink()
    (tmp_path / "bad.store").mkdir()
    (tmp_path / "bad.store" / "catalog.sqlite").write_bytes(b"no database at all")
    for name, book in (("book", made.book), ("all", made.book_of_all), ("other", made.other_book)):
        shutil.copy(book, tmp_path / f"{name}.safetensors")
    damaged = made.book.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(damaged[:-100])
    (tmp_path / "bad.safetensors").write_bytes(b"something else")
    (tmp_path / "bad.npz").write_bytes(b"something else")
    for name in ("bad.json", "broken/run.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


SMALL = "--train-codebook 10 --train 10"

CASES = [
    # extract
    ("extract missing -o x.store", DataError, "missing does not exist"),
    ("extract empty -o x.store", DataError, "no class folders"),
    ("extract hollow -o x.store", DataError, "class 'brick' has no files"),
    ("extract a-file -o x.store", DataError, "a-file is a file"),
    ("extract junk -o x.store", DataError, "none of the files in junk could be used"),
    ("extract junk -o x.store --strict", ImageError, "1.png: not an image"),
    ("extract tiny -o tiny/x.store", ParameterError, "would lie among the images"),
    ("extract tiny -o a-file", StoreError, "a-file cannot become a store"),
    ("extract tiny -o occupied", StoreError, "occupied is not a store"),
    ("extract tiny -o bad.store", StoreError, "damaged"),
    ("extract tiny -o scenes.store --step 4", StoreError, "step was 8 and is 4"),
    ("extract tiny -o x.store --patch 15", ParameterError, "patch must be"),
    ("extract tiny -o x.store --min-contrast nan", ParameterError, "min_contrast must be"),
    ("extract tiny -o x.store --preset caltech10", DataError, "at least 10 categories"),
    # train
    ("train missing.store -o x.safetensors", StoreError, "missing.store is not there"),
    ("train empty -o x.safetensors", StoreError, "empty is not a store"),
    ("train cut.store -o x.safetensors", StoreError, "damaged"),
    ("train scenes.store -o x.npz", ParameterError, "ends in .safetensors"),
    ("train scenes.store -o .safetensors", ParameterError, "ends in .safetensors"),
    ("train scenes.store -o missing/x.safetensors", ParameterError, "missing is not a folder"),
    ("train scenes.store -o x.safetensors --words 9999", DataError, "distinct descriptors"),
    ("train scenes.store -o x.safetensors --tol -1", ParameterError, "tol must"),
    ("train scenes.store -o x.safetensors --words 9 --sample 8", ParameterError, "sample must be"),
    (
        "train scenes.store -o x.safetensors --part train --train 140 --train-codebook 4",
        DataError,
        "class 'brick' has 144 images",
    ),
    # prune
    *(
        (f"prune {files} --keep 3 -o {output}.safetensors", kind, message)
        for files, output, kind, message in (
            ("missing.safetensors scenes.store", "x", FormatError, "is not a file"),
            ("bad.safetensors scenes.store", "x", FormatError, "bad.safetensors"),
            ("book.safetensors missing.store", "x", StoreError, "missing.store is not there"),
            ("other.safetensors scenes.store", "x", MismatchError, "was trained on"),
            ("book.safetensors scenes.store", "book", ParameterError, "is the codebook itself"),
            ("book.safetensors scenes.store", "missing/x", ParameterError, "is not a folder"),
        )
    ),
    ("prune book.safetensors scenes.store --keep 3 -o x.npz", ParameterError, "ends in .safe"),
    *(
        (f"prune book.safetensors scenes.store -o x.safetensors {SMALL} {more}", kind, message)
        for more, kind, message in (
            ("--keep 13", ParameterError, "--keep must be from 1 to 12 (the words of book.safe"),
            ("--max-bytes 1k", ParameterError, "(one word, and"),
            ("--keep 3 --part train --train 140", DataError, "class 'brick' has 144 images"),
            ("--keep 3 --part train --train 1", DataError, "class 'brick' has 1 image to choose"),
            ("--keep 3 --sharpness 3", ParameterError, "belongs to soft coding"),
            ("--keep 3 --coding soft --sharpness 0", ParameterError, "sharpness must be"),
            ("--keep 3 --score presence", ParameterError, "--score is not an option of --method r"),
            ("--keep 3 --refine 9", ParameterError, "--refine is not an option of --method refin"),
            ("--keep 3 --method paper --steps 9", ParameterError, "it takes no such option"),
            ("--max-loss 0 --coding soft --sharpness auto", ParameterError, "Give a number"),
            (
                "--max-loss 0 --method coverage",
                ParameterError,
                "--method is not an option of --max-loss",
            ),
            ("--max-loss 0 --steps 9", ParameterError, "--steps is not an option of --max-loss"),
        )
    ),
    # encode
    ("encode missing.safetensors scenes.store -o x.npz", FormatError, "is not a file"),
    ("encode cut.safetensors scenes.store -o x.npz", FormatError, "cut.safetensors"),
    ("encode scenes.store book.safetensors -o x.npz", FormatError, "scenes.store is not a file"),
    ("encode other.safetensors scenes.store -o x.npz", MismatchError, "was trained on"),
    ("encode book.safetensors scenes.store -o x.npy", ParameterError, "ends in .npz"),
    ("encode book.safetensors scenes.store -o missing/x.npz", ParameterError, "missing is not"),
    ("encode book.safetensors scenes.store -o x.npz --sharpness 3", ParameterError, "soft coding"),
    *(
        (
            f"encode book.safetensors scenes.store -o x.npz {SMALL} --coding soft {more}",
            kind,
            message,
        )
        for more, kind, message in (
            ("--sharpness 3 --perplexity 3", ParameterError, "Give one of them"),
            ("--sharpness 0", ParameterError, "sharpness must be"),
            ("--perplexity 0", ParameterError, "perplexity must"),
            ("--sharpness auto --train 140", DataError, "class 'brick' has 144 images"),
        )
    ),
    # evaluate
    ("evaluate missing.store", StoreError, "missing.store is not there"),
    ("evaluate scenes.store --train 140", DataError, "class 'brick' has 144 images"),
    ("evaluate scenes.store --words 9999", DataError, "distinct descriptors"),
    ("evaluate scenes.store -o x.txt", ParameterError, "ends in .json"),
    ("evaluate scenes.store -o missing/x.json", ParameterError, "missing is not a folder"),
    ("evaluate scenes.store -o bad.json", FormatError, "bad.json is not an evaluation"),
    ("evaluate scenes.store --words 9 --codebook book.safetensors", ParameterError, "one of them"),
    ("evaluate scenes.store --codebook missing.safetensors", FormatError, "is not a file"),
    (f"evaluate scenes.store --codebook other.safetensors {SMALL}", MismatchError, "was trained"),
    ("evaluate scenes.store --perplexity 3", ParameterError, "soft coding"),
    (
        f"evaluate scenes.store {SMALL} --words 9 --coding soft --perplexity 10",
        ParameterError,
        "perplexity must",
    ),
    # compare and report
    ("compare empty -o run", DataError, "no class folders"),
    ("compare missing -o run", DataError, "missing does not exist"),
    ("compare junk -o run", DataError, "images of 1 class, and a comparison needs at least 2"),
    ("compare scenes.store -o a-file", ParameterError, "the output a-file is a file"),
    ("compare tiny -o tiny/run", ParameterError, "would lie among the images of tiny"),
    ("compare scenes.store -o occupied", ParameterError, "holds notes.txt and no run"),
    ("compare scenes.store -o run --words 9 --sizes 9", ParameterError, "below that of every full"),
    ("compare scenes.store -o run --sizes ten", ParameterError, "an integer of at least 1; got 't"),
    ("compare scenes.store -o run --sizes 5,", ParameterError, "must be values between commas"),
    ("compare scenes.store -o run --coding firm", ParameterError, "codings are hard and soft"),
    ("compare scenes.store -o run --methods magic", ParameterError, "magic"),
    ("compare scenes.store -o run --train 140", DataError, "class 'brick' has 144 images"),
    ("report missing", FormatError, "missing is not a run"),
    ("report broken", FormatError, "not the record of a run"),
    ("report broken -o x.txt", ParameterError, "ends in .html"),
    # inspect
    ("inspect missing", FormatError, "missing does not exist"),
    ("inspect a-file", FormatError, "a-file is not a store"),
    ("inspect empty", StoreError, "empty is not a store"),
    ("inspect cut.store", StoreError, "damaged"),
    ("inspect cut.safetensors", FormatError, "cut.safetensors"),
    ("inspect bad.npz", FormatError, "bad.npz"),
    ("inspect book.safetensors/x", FormatError, "does not exist"),
]


@pytest.mark.parametrize(("words", "kind", "message"), CASES, ids=[case[0] for case in CASES])
def test_bad_input_is_one_line(bowsaw, place, words, kind, message):
    before = {path.name for path in place.iterdir()}
    found = bowsaw(*words.split(), "-q")
    assert (found.code, found.out) == (kind.exit_code, "")
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith("bowsaw: ")
    assert message in found.err
    assert {path.name for path in place.iterdir()} - before <= {"x.store", "run"}


def test_an_unfinished_store_is_not_used(bowsaw, place, made, monkeypatch):
    monkeypatch.setattr("bowsaw.store.extraction.SHARD_IMAGES", 60)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    commit = "bowsaw.store.catalog.Catalog.commit"
    with monkeypatch.context() as patch:
        patch.setattr(commit, stop)
        assert bowsaw("extract", made.images, "-o", "x.store").code == 130
    found = bowsaw("train", "x.store", "-o", "x.safetensors")
    assert found.code == StoreError.exit_code
    assert "is unfinished: 0 of 434 images are done" in found.err


def test_a_store_without_images_is_not_used(bowsaw, place):
    assert bowsaw("extract", "junk", "-o", "x.store").code == DataError.exit_code
    for words in (
        "train x.store -o x.safetensors",
        "prune book.safetensors x.store --keep 3 -o x.safetensors",
        "encode book.safetensors x.store -o x.npz",
        "evaluate x.store",
    ):
        found = bowsaw(*words.split())
        assert found.code == DataError.exit_code
        assert found.err == (
            'bowsaw: the store x.store has no usable image. See why with "bowsaw inspect '
            'x.store".\n'
        )
    assert "1.png: not an image" in bowsaw("inspect", "x.store").out


def test_a_store_has_one_writer(bowsaw, place, made):
    with exclusive(place / "scenes.store"):
        found = bowsaw("extract", made.images, "-o", "scenes.store")
    assert found.code == BusyError.exit_code
    assert "another process is writing" in found.complaint


def test_overwrite_replaces_a_store_of_other_parameters(bowsaw, place, made):
    words = ("extract", made.images, "-o", "scenes.store", "--step", 16)
    assert bowsaw(*words).code == StoreError.exit_code
    assert "1,728 descriptors" in bowsaw(*words, "--overwrite").out


# -- one class -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate one.store --words 4", "at least 2 classes; got 1"),
        ("prune one.safetensors one.store --keep 4 -o x.safetensors", "have 1 ('gravel')"),
        ("prune one.safetensors one.store --max-loss 0 -o x.safetensors", "have 1 ('gravel')"),
        ("fit one.safetensors one.store -o x.safetensors", "of 2 classes or more"),
        (
            "encode one.safetensors one.store --coding soft --sharpness auto -o x.npz",
            "at least 2 classes",
        ),
    ],
)
def test_one_class_is_refused_where_classes_are_needed(
    bowsaw, made, one_class, parts, words, message
):
    shutil.copy(made.book, "one.safetensors")
    found = bowsaw(*words.split(), *parts, "-q")
    assert (found.code, found.out) == (DataError.exit_code, "")
    assert len(found.err.splitlines()) == 1
    assert message in found.err
    assert not list(Path().glob("x.*"))


# -- permissions ---------------------------------------------------------------------------------

# The superuser may open everything; without these two capabilities, it is a user like others.
AS_A_USER = """
import ctypes, os, sys
if os.geteuid() == 0:
    system = ctypes.CDLL(None, use_errno=True)
    drop, override_access, search_anything = 24, 1, 2
    for capability in (override_access, search_anything):
        assert system.prctl(drop, capability, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""

EACH = """
import contextlib, io, json, shlex, sys
from bowsaw.cli.main import main
for line in sys.argv[1:]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*shlex.split(line), "-q"])
    print(json.dumps([code, *(stream.buffer.getvalue().decode() for stream in (out, err))]))
"""

FORBIDDEN = [
    ("extract shut -o x.store", DataError, "shut cannot be listed (Permission denied)"),
    ("extract half -o x.store", DataError, "half/grass cannot be listed"),
    ("extract torn -o x.store --strict", DataError, "001.png: no permission to read it"),
    ("extract torn -o sealed/x.store", StoreError, "sealed/x.store cannot become a st"),
    ("train sealed/shut.store -o x.safetensors", StoreError, "Ask for the right to read it"),
    ("train scenes.store -o sealed/x.safetensors", ParameterError, "nothing can be written"),
    ("encode shut.safetensors scenes.store -o x.npz", FormatError, "Permission denied"),
    ("compare scenes.store -o sealed/run", ParameterError, "Permission denied"),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_what_may_not_be_read_or_written_is_reported_before_the_work(made, tmp_path):
    for name in ("shut", "half", "torn"):
        for kind in ("brick", "grass"):
            (tmp_path / name / kind).mkdir(parents=True)
            for number in ("000", "001"):
                image = f"{kind}/{number}.png"
                shutil.copy(made.images / image, tmp_path / name / image)
    (tmp_path / "sealed").mkdir()
    shutil.copytree(made.store, tmp_path / "sealed" / "shut.store")
    shutil.copytree(made.store, tmp_path / "scenes.store")
    shutil.copy(made.book, tmp_path / "shut.safetensors")
    before = sorted(path.name for path in tmp_path.iterdir())
    closed = ("shut.safetensors", "shut", "half/grass", "torn/grass/001.png", "sealed/shut.store")
    modes = {**dict.fromkeys(closed, 0), "sealed": 0o500}
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_A_USER, EACH, *(line for line, _, _ in FORBIDDEN)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for name in reversed(modes):
            (tmp_path / name).chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    answers = map(json.loads, done.stdout.splitlines())
    for (line, kind, message), (code, out, err) in zip(FORBIDDEN, answers, strict=True):
        assert (line, code, out) == (line, kind.exit_code, "")
        assert len(err.splitlines()) == 1
        assert message in err
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "x.store") == before
