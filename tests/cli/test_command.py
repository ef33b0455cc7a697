"""How a verb speaks: to a person at a terminal, to a pipe, to nobody."""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowsaw.cli.command import Command, printable


def command(quiet: bool = False) -> Command:
    return Command(argparse.Namespace(quiet=quiet))


@pytest.fixture
def terminal(monkeypatch):
    """Pretend that both streams lead to a terminal of 40 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")


MATRIX = [("a class of pictures", *(str(100 * i) for i in range(12)))]
HEADER = ("class", *map(str, range(12)))


def test_results_and_notes_go_apart(capsys):
    speaker = command()
    speaker.status("done")
    speaker.note("by the way")
    assert tuple(capsys.readouterr()) == ("done\n", "by the way\n")


def test_quiet_keeps_what_was_asked_for(capsys):
    speaker = command(quiet=True)
    speaker.status("done")
    speaker.note("by the way")
    speaker.hint("next")
    speaker.result("an answer")
    speaker.table([("a", "1")], ("name", "n"))
    speaker.facts([("kind", "store")])
    speaker.json([1])
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == "an answer\nname  n\na     1\nkind  store\n[\n 1\n]\n"


def test_a_pipe_gets_plain_text_without_limits(capsys):
    speaker = command()
    speaker.status("x" * 500)
    speaker.table(MATRIX * 2, HEADER)
    speaker.facts([("name", "word " * 50)])
    speaker.note("y" * 500)
    speaker.hint("only for a person")
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out.splitlines()[0] == "x" * 500
    assert len(out.splitlines()[1:4]) == 3
    assert all(line.rstrip() == line for line in out.splitlines())
    assert max(map(len, out.splitlines()[4:])) <= 100
    assert err == "y" * 500 + "\n"


def test_a_terminal_gets_tables_that_fit(capsys, terminal):
    command().table(MATRIX, HEADER)
    lines = capsys.readouterr().out.splitlines()
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert max(map(len, plain)) <= 40
    numbers = [int(word) for line in plain[1::3] for word in line.split()[4:]]
    assert numbers == [100 * i for i in range(12)]
    titles = [int(word) for line in plain[::3] for word in line.split()[1:]]
    assert titles == list(range(12))


def test_a_column_wider_than_the_terminal_is_still_shown(capsys, terminal):
    command().table([("a", "9" * 60)], ("class", "n"))
    assert "9" * 60 in capsys.readouterr().out


def test_facts_are_aligned_and_wrapped(capsys, terminal):
    command().facts(
        [("a", "one two three four five six seven eight"), ("long name", "1\n2"), ("", "3")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "a          one two three four five six",
        "             seven eight",
        r"long name  1\n2",
        "           3",
    ]


def test_a_person_gets_hints(capsys, terminal):
    command().hint("next: bowsaw train")
    assert "next: bowsaw train" in capsys.readouterr().err


@pytest.mark.parametrize("text", [":dog: [bold]x[/bold]", "[/]", "a\\[b", "café 猫"])
def test_names_are_printed_as_they_are(capsys, text):
    speaker = command()
    speaker.status(text)
    speaker.table([(text, "1")], ("name", "n"))
    speaker.facts([("name", text)])
    lines = capsys.readouterr().out.splitlines()
    assert [text in line for line in lines] == [True, False, True, True]


@given(st.text())
def test_printable_text_says_it_all_in_one_line(text):
    for encoding in ("utf-8", "ascii", "cp1252"):
        shown = printable(text, encoding)
        assert shown.isprintable()
        assert shown.encode(encoding).decode(encoding) == shown


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"])))
def test_printable_text_stays_as_it_is(text):
    assert printable(text) == text


# -- readers that go -------------------------------------------------------------------------------


class Gone:
    """A pipe whose reader has gone."""

    encoding = "utf-8"

    def __init__(self, file: object) -> None:
        self.fileno = file.fileno

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


def test_nobody_reads_the_notes_and_work_goes_on(monkeypatch, tmp_path, capsys):
    speaker = command()
    with (tmp_path / "stand-in").open("w") as file:
        monkeypatch.setattr(sys, "stderr", Gone(file))
        speaker.note("nobody hears")
    speaker.status("done")
    assert capsys.readouterr().out == "done\n"


def test_a_reader_may_leave_after_the_first_lines(made):
    # More than a pipe holds, so that the command meets the closed end.
    code = (
        "import sys\n"
        "import bowsaw.cli.inspect as command\n"
        "from bowsaw.cli.main import main\n"
        "command._lines = lambda facts: [('line', 'x')] * 50_000\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, "inspect", str(made.book)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout.readline().split() == [b"line", b"x"]
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


# -- warnings --------------------------------------------------------------------------------------


def test_a_warning_is_told_once_in_one_line(capsys):
    with command().warnings_as_notes():
        for _ in range(2):
            warnings.warn("this bag\nis empty.", UserWarning, stacklevel=1)
    assert tuple(capsys.readouterr()) == ("", "warning: this bag is empty.\n")


def test_warnings_for_developers_stay_theirs(capsys):
    with pytest.raises(DeprecationWarning), command().warnings_as_notes():
        warnings.warn("will change", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == ""
