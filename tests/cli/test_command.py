"""How a command prints: at a terminal, into a pipe, and where the reader has gone."""

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


MATRIX = [("a class of images", *(str(100 * i) for i in range(12)))]
HEADER = ("class", *map(str, range(12)))


def test_quiet_keeps_the_results(capsys):
    for quiet in (False, True):
        printer = command(quiet)
        printer.result("done")
        printer.note("by the way")
    printer.hint("next")
    assert tuple(capsys.readouterr()) == ("done\ndone\n", "by the way\n")
    printer.result("an answer")
    printer.table([("a", "1")], ("name", "n"))
    printer.facts([("kind", "store")])
    printer.json([1])
    shown = "an answer\nname  n\na     1\nkind  store\n[\n 1\n]\n"
    assert tuple(capsys.readouterr()) == (shown, "")


def test_a_pipe_gets_plain_text_without_limits(capsys):
    printer = command()
    printer.result("x" * 500)
    printer.table(MATRIX * 2, HEADER)
    printer.facts([("name", "word " * 50)])
    printer.note("y" * 500)
    printer.hint("only at a terminal")
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out.splitlines()[0] == "x" * 500
    assert len(out.splitlines()[1:4]) == 3
    assert all(line.rstrip() == line for line in out.splitlines())
    assert max(map(len, out.splitlines()[4:])) <= 100
    assert err == "y" * 500 + "\n"


def test_a_terminal_gets_tables_and_facts_that_fit_and_hints(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    command().table(MATRIX, HEADER)
    lines = capsys.readouterr().out.splitlines()
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert max(map(len, plain)) <= 40
    numbers = [int(word) for line in plain[1::3] for word in line.split()[4:]]
    titles = [int(word) for line in plain[::3] for word in line.split()[1:]]
    assert (numbers, titles) == ([100 * i for i in range(12)], list(range(12)))
    command().hint("next: bowsaw train")
    assert "next: bowsaw train" in capsys.readouterr().err
    command().facts([("a", "one two three four five six seven"), ("long name", "1\n2"), ("", "3")])
    assert capsys.readouterr().out.splitlines() == [
        "a          one two three four five six",
        "             seven",
        r"long name  1\n2",
        "           3",
    ]


def test_long_lines_break_at_spaces_and_commands_stay_whole(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/folder/" + "name/" * 10
    command().result(f"the split of {path} holds 12 images and no more")
    assert capsys.readouterr().out.splitlines() == [
        "the split of",
        path,
        "holds 12 images and no more",
    ]
    advice = f"bowsaw split {path} 10/10/rest --seed 3"
    command().note(f"another split was kept with the store. Go back: {advice}")
    shown = capsys.readouterr().err
    assert advice in shown
    assert shown.count("\n") == 3
    command().raw('{"a": ' + "1" * 50 + "}")
    assert capsys.readouterr().out.count("\n") == 1


def test_names_are_printed_as_they_are(capsys):
    for text in (":dog: [bold]x[/bold]", "[/]", "a\\[b", "café 猫"):
        printer = command()
        printer.result(text)
        printer.table([(text, "1")], ("name", "n"))
        printer.facts([("name", text)])
        lines = capsys.readouterr().out.splitlines()
        assert [text in line for line in lines] == [True, False, True, True]


@given(st.text())
def test_any_text_becomes_one_printable_line(text):
    for encoding in ("utf-8", "ascii", "cp1252"):
        shown = printable(text, encoding)
        assert shown.isprintable()
        assert shown.encode(encoding).decode(encoding) == shown
    if text.isprintable():
        assert printable(text) == text


def test_closed_notes_do_not_stop_the_work(monkeypatch, tmp_path, capsys):
    def write(self, text=""):
        raise BrokenPipeError

    with (tmp_path / "stand-in").open("w") as file:
        parts = {"encoding": "utf-8", "fileno": file.fileno, "write": write, "flush": write}
        closed = type("ClosedPipe", (), {**parts, "isatty": lambda self: False})()
        monkeypatch.setattr(sys, "stderr", closed)
        command().note("not read")
    command().result("done")
    assert capsys.readouterr().out == "done\n"


def test_a_reader_may_leave_after_the_first_lines(made):
    # More than a pipe holds, so that the command meets the closed end.
    code = (
        "import sys\n"
        "import bowsaw.cli.inspect as command\n"
        "from bowsaw.cli.main import main\n"
        "command._short_lines = lambda facts: [('line', 'x')] * 50_000\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", code, "inspect", str(made.book)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline().split() == [b"line", b"x"]
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0


def test_a_warning_is_shown_once_in_one_line(capsys):
    with command().warnings_as_notes():
        for _ in range(2):
            warnings.warn("this bag\nis empty.", UserWarning, stacklevel=1)
    assert tuple(capsys.readouterr()) == ("", "warning: this bag is empty.\n")
    # Warnings for developers stay as they are.
    with pytest.raises(DeprecationWarning), command().warnings_as_notes():
        warnings.warn("will change", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == ""
