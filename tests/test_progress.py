import io
import sys
from contextlib import contextmanager

import pytest

from bowsaw.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal():
    """A terminal for standard error; not a fixture, since pytest puts its own back after set-up."""
    made = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", made)
        patch.setenv("TERM", "xterm")
        yield made


def count(label="counting", total=3, **options):
    with Progress(label, total, **options) as bar:
        for i in range(3):
            bar.step(note=f"note {i}")
        assert list(bar.track("")) == []


@pytest.mark.parametrize("total", [3, None])
def test_a_terminal_sees_a_bar(capfd, total):
    with terminal() as screen:
        count(total=total)
    drawn = screen.getvalue()
    assert "counting" in drawn
    assert "note 2" in drawn
    assert ("3/3" if total else "3/?") in drawn
    assert capfd.readouterr() == ("", "")


def test_exceptions_pass_and_the_bar_is_put_away():
    with terminal() as screen:
        with pytest.raises(KeyError), Progress("failing", 2):
            raise KeyError
        assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h")
        count()
    assert "failing" in screen.getvalue()
    assert "counting" in screen.getvalue()


def test_nothing_is_drawn_unless_standard_error_is_a_terminal(monkeypatch, capfd):
    count()
    assert capfd.readouterr() == ("", "")
    with terminal() as screen:
        count(show=False)
    assert screen.getvalue() == ""
    monkeypatch.setattr(sys, "stdout", Terminal())
    count()
    assert sys.stdout.getvalue() == ""
    assert capfd.readouterr().err == ""
