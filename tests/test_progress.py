import io
import sys
from contextlib import contextmanager

import pytest

from bowsaw.progress import Progress, announce_compiling, shown_console, watch_compiling


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


def test_a_bar_inside_another_is_drawn_below_it_and_notes_above():
    with terminal() as screen:
        with Progress("outer"), Progress("inner", 4) as inner, Progress("stage"):
            inner.step()
            shown_console().print("a note")
            lines = screen.getvalue().splitlines()
        last_note = max(i for i, line in enumerate(lines) if "a note" in line)
        below = [i for i, line in enumerate(lines) if "outer" in line or "inner" in line]
        assert max(below) > last_note
        assert shown_console() is None
    assert "0/4" in screen.getvalue()
    assert "stage" not in screen.getvalue()
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1


def test_the_time_left_follows_the_pace_of_this_run(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bowsaw.progress.time.monotonic", lambda: now[0])
    with Progress("working", 100) as bar:
        bar.begin_at(40)
        assert bar.seconds_left() is None
        for _ in range(6):
            now[0] += 2.0
            bar.step()
        # 54 steps of 2 s, one second of which has gone by; earlier runs do not count.
        now[0] += 1.0
        assert bar.seconds_left() == 54 * 2.0 - 1.0
        bar.step(54)
        assert bar.seconds_left() is None


def test_compiling_is_announced_once_and_not_for_a_cached_kernel():
    from numba import njit

    said = []

    def twice(x):
        return 2 * x

    with watch_compiling(lambda: said.append("compiling")):
        assert said == []
        assert njit(twice)(1) == 2
        assert njit(twice)(2.5) == 5.0
    assert said == ["compiling"]
    announce_compiling()
    assert njit(twice)(1) == 2
    assert said == ["compiling"]
