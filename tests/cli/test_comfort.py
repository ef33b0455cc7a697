"""What a person meets who has a terminal, no colours, one class, a shut door, a full disk."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.terminal import (
    COLOUR,
    Terminal,
    bowsaw_at_a_terminal,
    no_file_larger_than,
    surroundings,
)

from bowsaw.cli.main import VERBS
from bowsaw.errors import DataError, FormatError, ParameterError, SpaceError, StoreError

# -- colours ---------------------------------------------------------------------------------------

EVERY_HELP = f"""
from bowsaw.cli.main import main
for words in [], *([name] for name in {list(VERBS)!r}):
    try:
        main([*words, "--help"])
    except SystemExit:
        pass
"""

if sys.platform != "win32":

    @pytest.mark.parametrize(
        ("variables", "coloured"),
        [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)],
    )
    def test_colours_are_left_out_where_they_are_not_wanted(
        made, parts, tmp_path, variables, coloured
    ):
        for words, shown in (
            (("extract", made.images, "-o", tmp_path / "x.store"), "files"),
            (("evaluate", made.store, "--words", 9, "--splits", 1, *parts), "square-rooted"),
        ):
            with bowsaw_at_a_terminal(*words, **variables) as terminal:
                assert terminal.finish() == 0
            assert shown in terminal.shown
            # A bar is drawn in either case, and is put away again.
            assert "━" in terminal.shown
            assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") > 0
            assert bool(COLOUR.search(terminal.shown)) == coloured

    def test_a_terminal_that_can_do_nothing_gets_plain_lines(made, parts, tmp_path):
        words = ("evaluate", made.store, "--words", 9, "--splits", 1, *parts)
        with bowsaw_at_a_terminal(*words, TERM="dumb") as terminal:
            assert terminal.finish() == 0
        assert "square-rooted" in terminal.shown
        assert "\x1b" not in terminal.shown

    @pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
    def test_help_has_colours_only_where_they_are_wanted(variables):
        with Terminal(sys.executable, "-c", EVERY_HELP, env=surroundings(**variables)) as terminal:
            assert terminal.finish() == 0
        assert terminal.shown.count("usage: ") == 1 + len(VERBS)
        assert terminal.shown.count("example:") == len(VERBS)
        # Python has coloured help since 3.14.
        expected = not variables and sys.version_info >= (3, 14)
        assert bool(COLOUR.search(terminal.shown)) == expected


# -- a person who stops it -------------------------------------------------------------------------


if sys.platform != "win32":

    @pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM"])
    def test_a_stopped_command_leaves_the_terminal_as_it_was(made, parts, tmp_path, way):
        words = ("evaluate", made.store, "--words", 9, "--splits", 10_000, *parts)
        with bowsaw_at_a_terminal(*words, "-o", tmp_path / "x.json") as terminal:
            terminal.wait_for("split 0: ")
            if way == "Ctrl-C":
                terminal.type("\x03")
            else:
                terminal.send(signal.SIGTERM)
            code = terminal.finish()
        word = "interrupted" if way == "Ctrl-C" else "terminated"
        assert code == (130 if way == "Ctrl-C" else 143), terminal.shown
        assert f"bowsaw: {word}. With -o FILE, finished splits are kept" in terminal.shown
        assert "Traceback" not in terminal.shown
        assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h")
        assert json.loads((tmp_path / "x.json").read_text("utf-8"))["records"]


# The signal comes while a bar appears, or while it is put away.
AT_THE_WRONG_MOMENT = """
import dataclasses, os, signal, sys
from rich.live import _RefreshThread
import bowsaw.cli.inspect as verb
from bowsaw.cli.main import main
from bowsaw.progress import Progress

def disturbed(self, whole=_RefreshThread.MOMENT):
    os.kill(os.getpid(), signal.SIGTERM)
    whole(self)

def work(command):
    with Progress("working", 3) as bar:
        bar.step()
    raise AssertionError("nobody stopped")

_RefreshThread.MOMENT = disturbed
verb.VERB = dataclasses.replace(verb.VERB, run=work)
sys.exit(main(["inspect", "x"]))
"""

if sys.platform != "win32":

    @pytest.mark.parametrize("moment", ["start", "stop"])
    def test_a_signal_never_tears_a_bar(moment):
        code = AT_THE_WRONG_MOMENT.replace("MOMENT", moment)
        with Terminal(sys.executable, "-c", code, env=surroundings()) as terminal:
            assert terminal.finish() == 143, terminal.shown
        assert terminal.shown.endswith(
            "bowsaw: terminated. Run the same command again to go on.\r\n"
        )
        assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1


# -- one class -------------------------------------------------------------------------------------


@pytest.fixture
def lonely(bowsaw, made, tmp_path):
    """A store of one class, and a codebook of it."""
    shutil.copytree(made.images / "gravel", tmp_path / "one" / "gravel")
    bowsaw("extract", "one", "-o", "one.store").lines()
    bowsaw("train", "one.store", "--words", 12, "-o", "one.safetensors").lines()
    bowsaw("encode", "one.safetensors", "one.store", "-o", "one.npz").lines()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("evaluate one.store --words 4", "at least 2 classes; got 1"),
        ("prune one.safetensors one.store --keep 4 -o x.safetensors", "have 1 ('gravel')"),
        (
            "prune one.safetensors one.store --keep 4 --method annealing -o x.safetensors",
            "choose without classes by --method coverage",
        ),
        ("prune one.safetensors one.store --max-loss 0 -o x.safetensors", "have 1 ('gravel')"),
        (
            "encode one.safetensors one.store --coding soft --sharpness auto -o x.npz",
            "two classes or more",
        ),
    ],
)
def test_one_class_is_refused_only_where_classes_are_needed(bowsaw, lonely, parts, words, told):
    found = bowsaw(*words.split(), *parts, "-q")
    assert (found.code, found.out) == (DataError.exit_code, "")
    assert len(found.err.splitlines()) == 1
    assert told in found.err
    assert not list(Path().glob("x.*"))


def test_one_class_can_be_covered(bowsaw, lonely):
    words = "prune one.safetensors one.store --keep 4 --method coverage -o x.safetensors"
    assert "4 of 12 words" in bowsaw(*words.split()).lines()[0]


# -- shut doors ------------------------------------------------------------------------------------

# The superuser may open everything; without these two abilities, it is a user like others.
AS_A_USER = """
import ctypes, os, sys
if os.geteuid() == 0:
    system = ctypes.CDLL(None, use_errno=True)
    drop, override_access, search_anything = 24, 1, 2
    for ability in (override_access, search_anything):
        assert system.prctl(drop, ability, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
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

SHUT = [
    ("extract shut -o x.store", DataError.exit_code, "shut cannot be listed (Permission denied)"),
    ("extract half -o x.store", DataError.exit_code, "half/grass cannot be listed"),
    ("extract torn -o x.store --strict", DataError.exit_code, "001.png: no permission to read it"),
    ("extract torn -o sealed/x.store", StoreError.exit_code, "sealed/x.store cannot become a st"),
    ("train sealed/shut.store -o x.safetensors", 5, "Ask for the right to read it"),
    ("train scenes.store -o sealed/x.safetensors", ParameterError.exit_code, "nothing can be wri"),
    ("encode book.safetensors scenes.store -o sealed/x.npz", ParameterError.exit_code, "nothing"),
    ("encode book.safetensors sealed/shut.store -o x.npz", 5, "Ask for the right to read it"),
    ("encode shut.safetensors scenes.store -o x.npz", FormatError.exit_code, "Permission denied"),
    ("evaluate scenes.store -o sealed/x.json", ParameterError.exit_code, "nothing can be written"),
    ("evaluate sealed/shut.store", 5, "Ask for the right to read it"),
    (
        "prune book.safetensors scenes.store --keep 3 -o sealed/x.safetensors",
        ParameterError.exit_code,
        "nothing can be written in the folder sealed (Permission denied). Choose another output.",
    ),
    (
        "prune book.safetensors sealed/shut.store --keep 3 -o x.safetensors",
        5,
        "Ask for the right to read it",
    ),
]


@contextmanager
def locked(modes: dict[Path, int]):
    """Take rights away for a while."""
    for path, mode in modes.items():
        path.chmod(mode)
    try:
        yield
    finally:
        for path in modes:
            path.chmod(0o700)


if sys.platform != "win32":

    def test_what_may_not_be_read_or_written_is_told_before_the_work(made, tmp_path):
        for name in ("shut", "half", "torn"):
            for kind in ("brick", "grass"):
                (tmp_path / name / kind).mkdir(parents=True)
                for number in ("000", "001"):
                    picture = f"{kind}/{number}.png"
                    shutil.copy(made.images / picture, tmp_path / name / picture)
        (tmp_path / "sealed").mkdir()
        shutil.copytree(made.store, tmp_path / "sealed" / "shut.store")
        shutil.copytree(made.store, tmp_path / "scenes.store")
        for name in ("book", "shut"):
            shutil.copy(made.book, tmp_path / f"{name}.safetensors")
        modes = {
            tmp_path / "shut.safetensors": 0,
            tmp_path / "shut": 0,
            tmp_path / "half" / "grass": 0,
            tmp_path / "torn" / "grass" / "001.png": 0,
            tmp_path / "sealed" / "shut.store": 0,
            tmp_path / "sealed": 0o500,
        }
        before = sorted(path.name for path in tmp_path.iterdir())
        with locked(modes):
            done = subprocess.run(
                [sys.executable, "-c", AS_A_USER, EACH, *(line for line, _, _ in SHUT)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (0, "")
        answers = map(json.loads, done.stdout.splitlines())
        for (line, code, told), (found, out, err) in zip(SHUT, answers, strict=True):
            assert (line, found, out) == (line, code, "")
            assert len(err.splitlines()) == 1
            assert told in err
        left = sorted(path.name for path in tmp_path.iterdir() if path.name != "x.store")
        assert left == before


# -- a full disk -----------------------------------------------------------------------------------


TRAIN = "--part train --train-codebook 10 --train 10"

FILLING = {
    "extract": "extract {images} -o {output}.store",
    "train": "train {store} --words 30 -o {output}.safetensors",
    "encode": "encode {book} {store} -o {output}.npz",
    "evaluate": "evaluate {store} --words 12 --splits 2 --train-codebook 10 --train 10 "
    "-o {output}.json",
    "prune": f"prune {{book}} {{store}} --keep 6 --steps 8 {TRAIN} -o {{output}}.safetensors",
    "prune by annealing": f"prune {{book}} {{store}} --keep 6 {TRAIN} --method annealing "
    "--steps 60 -o {output}.safetensors",
}

if sys.platform != "win32":

    @pytest.mark.parametrize("words", FILLING.values(), ids=FILLING)
    def test_a_full_disk_is_told_and_the_same_command_goes_on(
        bowsaw, made, content, tmp_path, words
    ):
        def typed(output: str):
            return bowsaw(*(w.format(**vars(made), output=output) for w in words.split()), "-q")

        assert typed("whole").code == 0
        [whole] = tmp_path.iterdir()
        files = [whole] if whole.is_file() else list(whole.rglob("*.npy"))
        with no_file_larger_than(int(0.9 * max(file.stat().st_size for file in files))):
            torn = typed("torn")
        assert (torn.code, torn.out) == (SpaceError.exit_code, "")
        assert re.fullmatch(
            r"bowsaw: the disk is full while writing torn\.\S+\. Free some space and run the same "
            r"command again; what was done is kept\.\n",
            torn.err,
        )
        assert typed("torn").code == 0
        assert content(next(tmp_path.glob("torn.*"))) == content(whole)
        assert len(list(tmp_path.iterdir())) == 2
