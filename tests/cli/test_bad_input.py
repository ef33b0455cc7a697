"""Wrong input is answered by one line that names it, and the right exit code."""

import json
import shutil
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from bowsaw import Codebook, errors, load, save
from bowsaw.cli.main import main
from bowsaw.errors import DataError, StoreError


@pytest.fixture(scope="module")
def place(made, model, tmp_path_factory):
    """A folder of wrong files beside right ones; the cases leave it as it is."""
    place = tmp_path_factory.mktemp("place")
    for name in ("empty", "junk/brick", "tiny/brick", "full", "bad.run"):
        (place / name).mkdir(parents=True)
    for name in ("full/notes.txt", "file", "bad.npz", "bad.sft"):
        (place / name).write_bytes(b"something else")
    for name in ("bad.json", "bad.run/run.json"):
        (place / name).write_text("{}")
    (place / "junk" / "brick" / "1.png").write_bytes(b"not an image")
    shutil.copy(made.images / "brick" / "000.png", place / "tiny" / "brick")
    for name in ("s", "cut", "few", "odd"):
        shutil.copytree(made.store, place / name)
    (place / "few" / "split.json").write_text('{"codebook": 0, "train": 1, "seed": 0}')
    (place / "odd" / "split.json").write_text('{"codebook": 10, "train": "10", "seed": 0}')
    assert main(["extract", str(place / "tiny"), "-o", str(place / "one.image"), "-q"]) == 0
    (place / "cut" / "shards" / "00000.npy").unlink()
    shutil.copytree(made.images / "gravel", place / "class" / "gravel")
    assert main(["extract", str(place / "class"), "-o", str(place / "one"), "-q"]) == 0
    book, other = load(made.book), load(made.other_book)
    for name in ("b.safetensors", "same.sft"):
        shutil.copy(made.book, place / name)
    shutil.copy(made.book_of_all, place / "all.sft")
    shutil.copy(model, place / "model.sft")
    (place / "cut.sft").write_bytes(made.book.read_bytes()[:-100])
    for name, words in (
        ("other", other),
        ("ids", other.only([1, 2])),
        ("more", Codebook(book.words[:2], [11, 12], scale=book.scale)),
    ):
        save(words, place / f"{name}.safetensors")
    save(Codebook(book.words, scale=book.scale), place / "bare.safetensors")
    (place / "bare.safetensors").rename(place / "bare.sft")
    for name in ("v.npz", "v.npy"):
        save(Codebook(np.eye(3)), place / name)
    return place


CASES = """
chop                                             | Parameter | command 'chop' & bowsaw --help
train                                            | Parameter | : STORE, -o & bowsaw train --help
inspect x --colour                               | Parameter | there is no option --colour
evaluate x --split 3                             | Parameter | --splits & bowsaw evaluate --help
extract s -o x.store --split 50                  | Parameter | such as 50/50/rest, or auto; got '50'
extract tiny -o x.store --split 1/1/rest         | Data      | --split 1/1/rest needs at least 3 per
split s 72/72/rest                               | Data      | class 'brick' has 144 images, and
split odd                                        | Store     | the store's split odd/split.json
split one.image auto                             | Data      | fewer than 3 images, and a split
train odd -o x.safetensors                       | Store     | the store's split odd/split.json
extract missing -o x.store                       | Data      | missing does not exist
extract empty -o x.store                         | Data      | no class folders
extract junk -o x.store                          | Data      | none of the files in junk could be
extract junk -o x.store --strict                 | Image     | 1.png: not an image
extract tiny -o tiny/x.store                     | Parameter | would lie among the images
extract tiny -o full                             | Store     | full is not a store
extract tiny -o s --patch-step 4                 | Store     | step was 8 and is 4
extract tiny -o x.store --preset caltech10       | Data      | at least 10 categories
train missing -o x.safetensors                   | Store     | missing is not there
train cut -o x.safetensors                       | Store     | damaged
train s -o x.npz                                 | Parameter | ends in .safetensors
train one.image -o x.safetensors --part test     | Data      | has no split, and --part test is one
prune bad.sft s --keep 3 -o x.safetensors        | Format    | bad.sft
prune other.safetensors s --keep 3 -o x.safetensors | Mismatch | was trained on
prune BOOK s --keep 3 -o BOOK                    | Parameter | is the codebook itself
PRUNE --keep 13                                  | Parameter | --keep must be from 1 to 12 (the
PRUNE --max-bytes 1k                             | Parameter | (one word, and
prune bare.sft few --keep 3 -o x.safetensors     | Data      | class 'brick' has 1 image to choose
PRUNE --keep 3 --score presence                  | Parameter | --score does not apply: --method ref
PRUNE --keep 3 --method paper --steps 9          | Parameter | --method paper takes no such option
PRUNE --keep 3 --method bottleneck               | Parameter | no smaller codebook to write. Choose
PRUNE --max-loss 0 --coding soft --sharpness auto | Parameter | Give a number
PRUNE --max-loss 0 --method coverage             | Parameter | --method does not apply: --max-loss
encode cut.sft s -o x.npz                        | Format    | cut.sft
encode other.safetensors s -o x.npz              | Mismatch  | was trained on
encode BOOK s -o x.npz --sharpness 3             | Parameter | belongs to soft coding
SOFT --sharpness 3 --perplexity 3                | Parameter | Give one of them
fit other.safetensors s -o x.safetensors         | Mismatch  | was trained on
fit BOOK s -o ./BOOK                             | Parameter | is the codebook itself
fit BOOK s -o x.safetensors --C much             | Parameter | must be a number or auto
fit bare.sft few -o x.safetensors --part codebook | Data     | 2 classes or more
predict BOOK no.png FITTED                       | Data      | no image could be used: no.png
predict BOOK no.png not.png --json FITTED        | Data      | and 1 more
predict BOOK empty FITTED                        | Data      | the folder empty has no files
predict BOOK a.png --classifier BOOK             | Format    | it is a bowsaw-codebook
predict model.sft a.png FITTED                   | Format    | bowsaw-classifier
predict all.sft a.png FITTED                     | Mismatch  | other words
export BOOK -o x.txt                             | Parameter | ends in .onnx, .h or .html
export BOOK -o x.onnx --word-dtype int8          | Parameter | it is for C headers
export BOOK -o x.html                            | Parameter | Give one of 'bowsaw fit'
export BOOK -o x.html --dtype uint8              | Parameter | a page begins at images
export BOOK -o x.h --coding soft --perplexity 3  | Parameter | Add --store STORE, or give a number
export BOOK -o x.h --store s                     | Parameter | --store does not apply: the sharp
compare s -o run --coding soft --perplexity 0    | Parameter | perplexity must be
export BOOK -o x.h --name Rooms                  | Parameter | lower-case letters, digits and
export BOOK -o x.h --name class                  | Parameter | must not be a keyword of C or C++
export BOOK -o x.h --classifier model.sft --coding soft | Parameter | Leave one of them out
export all.sft -o x.onnx --classifier model.sft  | Mismatch  | other words
convert full/notes.txt x.npz                     | Format    | is not a vocabulary of a known
convert v.npz ./v.npz                            | Parameter | is the input itself
convert v.npy x.npz --scale -3                   | Parameter | scale must be a finite number of at
whatif BOOK s --keep 12                          | Parameter | --keep must be from 1 to 11 (the
whatif BOOK s --keep 5 --transfer best           | Parameter | got 'best'
whatif BOOK s --keep 5 --coding soft --sharpness 0 --transfer all | Parameter | sharpness must
whatif BOOK s --subset same.sft                  | Mismatch  | has all 12 words
whatif BOOK s --subset ids.safetensors           | Mismatch  | its words have other values
whatif BOOK s --subset more.safetensors          | Mismatch  | its word 12 is not there
whatif other.safetensors s --keep 5              | Mismatch  | was trained on
whatif BOOK s                                    | Parameter | --keep --subset is required
whatif BOOK s --keep 5 --subset x                | Parameter | not allowed with argument --keep
evaluate one --words 4                           | Data      | needs at least 2
prune BOOK one --keep 4 -o x.safetensors         | Data      | have 1 ('gravel')
fit BOOK one -o x.safetensors                    | Data      | of 2 classes or more
encode BOOK one --coding soft --sharpness auto -o x.npz      | Data | at least 2 classes
evaluate s -o bad.json                           | Parameter | bad.json is a file
evaluate s --words 9 --codebook BOOK             | Parameter | Give one of them
evaluate s --codebook other.safetensors          | Mismatch  | was trained
compare junk -o run                              | Data      | has 1 class, and a comparison needs
compare s -o file                                | Parameter | the output file is a file
compare s -o s/run                               | Parameter | would lie among the images of s
compare s -o full                                | Parameter | holds notes.txt and no run
compare s -o run --split 5/5/rest                | Parameter | the store has its split. Change it
compare s -o run --sizes ten                     | Parameter | an integer of at least 1; got 'ten'
report missing                                   | Format    | missing is not a run
report bad.run                                   | Format    | not the record of a run
inspect missing                                  | Format    | missing does not exist
inspect file                                     | Format    | file is not a store
inspect cut.sft                                  | Format    | cut.sft
inspect bad.npz                                  | Format    | bad.npz
"""
SHORT = {
    "PRUNE": "prune BOOK s -o x.safetensors",
    "SOFT": "encode BOOK s -o x.npz --coding soft",
    "BOOK": "b.safetensors",
    "FITTED": "--classifier model.sft",
}
"""Words of the cases that stand for others."""


def split_case(case: str) -> tuple[str, int, str]:
    """Return the words, the exit code and the message of a line; " & " joins parts of it."""
    words, kind, message = (part.strip() for part in case.split("|"))
    return words, getattr(errors, f"{kind}Error").exit_code, message


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_bad_input_is_one_line(bowsaw, place, monkeypatch, case):
    words, code, message = split_case(case)
    for name, text in SHORT.items():
        words = words.replace(name, text)
    monkeypatch.chdir(place)
    before = {path.name for path in place.iterdir()}
    found = bowsaw(*words.split(), "-q")
    assert (found.code, found.out) == (code, "")
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith("bowsaw: ")
    assert all(part in found.err for part in message.split(" & "))
    left = {path.name for path in place.iterdir()} - before
    assert left <= {"x.store", "run"}
    for name in left:
        shutil.rmtree(name)


def test_a_store_without_finished_images_is_not_used(bowsaw, made, place, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bowsaw.store.catalog.Catalog.commit", stop)
        assert bowsaw("extract", made.images, "-o", "y.store").code == 130
    found = bowsaw("train", "y.store", "-o", "x.safetensors")
    assert found.code == StoreError.exit_code
    assert "is unfinished: 0 of 434 images are done" in found.err
    assert bowsaw("extract", place / "junk", "-o", "x.store").code == DataError.exit_code
    for words in (("train", "x.store"), ("prune", made.book, "x.store", "--keep", 3)):
        found = bowsaw(*words, "-o", "x.safetensors")
        assert found.code == DataError.exit_code
        assert 'has no usable image: see "bowsaw inspect x.store".' in found.complaint
    assert "1.png: not an image" in bowsaw("inspect", "x.store").out


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

FORBIDDEN = """
extract shut -o x.store                       | Data      | shut cannot be listed (Permission
extract half -o x.store                       | Data      | half/grass cannot be listed
extract torn -o x.store --strict              | Data      | 001.png: no permission to read it
extract torn -o sealed/x.store                | Store     | sealed/x.store cannot be
train sealed/shut.store -o x.safetensors      | Store     | Ask for permission to read it
train s.store -o sealed/x.safetensors         | Store     | sealed cannot be written
encode shut.safetensors s.store -o x.npz      | Format    | Permission denied
compare s.store -o sealed/run                 | Store     | Permission denied
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_what_may_not_be_read_or_written_is_reported_before_the_work(made, tmp_path):
    for name, kind in product(("shut", "half", "torn"), ("brick", "grass")):
        (tmp_path / name / kind).mkdir(parents=True)
        for image in (f"{kind}/000.png", f"{kind}/001.png"):
            shutil.copy(made.images / image, tmp_path / name / image)
    (tmp_path / "sealed").mkdir()
    for name in ("sealed/shut.store", "s.store"):
        shutil.copytree(made.store, tmp_path / name)
    shutil.copy(made.book, tmp_path / "shut.safetensors")
    before = sorted(path.name for path in tmp_path.iterdir())
    closed = ("shut.safetensors", "shut", "half/grass", "torn/grass/001.png", "sealed/shut.store")
    modes = {**dict.fromkeys(closed, 0), "sealed": 0o500}
    cases = [split_case(line) for line in FORBIDDEN.strip().splitlines()]
    words = [sys.executable, "-c", AS_A_USER, EACH, *(line for line, _, _ in cases)]
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    try:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        for name in reversed(modes):
            (tmp_path / name).chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    answers = map(json.loads, done.stdout.splitlines())
    for (line, exit_code, message), (code, out, err) in zip(cases, answers, strict=True):
        assert (line, code, out) == (line, exit_code, "")
        assert len(err.splitlines()) == 1
        assert message in err
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "x.store") == before
