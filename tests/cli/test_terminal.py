"""Commands at a terminal: colours, bars and Ctrl-C."""

import signal
import sys

import pytest
from tests.cli.terminal import COLOUR, Terminal, bowsaw_at_a_terminal, surroundings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals"),
]

COMPARED = "--words=12 --sizes=4,6 --methods=random --splits=2"


def cursor_is_back(shown: str) -> bool:
    return shown.count("\x1b[?25l") == shown.count("\x1b[?25h")


@pytest.mark.parametrize("name", ["extract", "compare"])
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": ""}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(made, tmp_path, name, variables):
    words = (made.images,)
    if name == "compare":
        words = (made.store, *COMPARED.split(), "-j", 1)
    with bowsaw_at_a_terminal(name, *words, "-o", tmp_path / "out", **variables) as terminal:
        assert terminal.finish() == 0
    # A bar or a live table is drawn where the terminal can, and removed again.
    live = "TERM" not in variables
    assert (("━" if name == "extract" else "accuracy so far") in terminal.shown) == live
    assert ("\x1b" in terminal.shown) == live
    assert cursor_is_back(terminal.shown)
    assert bool(COLOUR.search(terminal.shown)) == (variables in ({}, {"NO_COLOR": ""}))


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_help_has_colours_only_where_they_are_wanted(variables):
    with bowsaw_at_a_terminal("prune", "--help", **variables) as terminal:
        assert terminal.finish() == 0
    assert "usage: " in COLOUR.sub("", terminal.shown)
    assert bool(COLOUR.search(terminal.shown)) == (not variables)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_stopped_command_restores_the_terminal(made, tmp_path, number, code, word):
    words = ("compare", made.store, *COMPARED.split(), "--splits", 10_000, "-o", tmp_path / "run")
    with bowsaw_at_a_terminal(*words, "-j", 1) as terminal:
        terminal.wait_for("accuracy so far")
        if number == signal.SIGINT:
            terminal.type("\x03")  # Ctrl-C
        else:
            terminal.send(number)
        assert terminal.finish() == code, terminal.shown
    assert f"bowsaw: {word}. Finished cells are kept" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert cursor_is_back(terminal.shown)
    assert (tmp_path / "run" / "cells.jsonl").read_text("utf-8").count("\n") > 0


# The signal comes while a bar appears, or while it is removed.
SIGNAL_WHILE_DRAWING = """
import os, signal, sys
from rich.live import _RefreshThread
import bowsaw.cli.inspect as command
from bowsaw.cli.main import main
from bowsaw.progress import Progress

def disturbed(self, original=_RefreshThread.MOMENT):
    os.kill(os.getpid(), signal.SIGTERM)
    original(self)

def work(_):
    with Progress("working", 3) as bar:
        bar.step()
    raise AssertionError("not stopped")

_RefreshThread.MOMENT = disturbed
command.run = work
sys.exit(main(["inspect", "x"]))
"""


@pytest.mark.parametrize("moment", ["start", "stop"])
def test_a_signal_never_tears_a_bar(moment):
    code = SIGNAL_WHILE_DRAWING.replace("MOMENT", moment)
    with Terminal(sys.executable, "-c", code, env=surroundings()) as terminal:
        assert terminal.finish() == 143, terminal.shown
    assert terminal.shown.endswith(
        "bowsaw: terminated. Run the same command again to continue.\r\n"
    )
    assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1
