"""The entry point: help, exit codes, errors and signals."""

import errno
import json
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bowsaw import __version__
from bowsaw.cli import main as command_line
from bowsaw.cli.main import COMMANDS, GROUPS, main, parser
from bowsaw.errors import BowsawError, SpaceError

HEAVY = {"cv2", "numba", "numpy", "rich", "scipy", "sklearn"}


def test_help_imports_nothing_heavy():
    shown = subprocess.check_output([sys.executable, "-m", "bowsaw", "--version"], text=True)
    assert shown == f"bowsaw {__version__}\n"
    code = (
        "import sys\n"
        "from bowsaw.cli.main import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        f"    print(sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.splitlines()[-1] == "[]"
    assert all(text.split(";")[0][:30] in shown for text in COMMANDS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_an_example_that_parses(name):
    [commands] = [action for action in parser(name)._actions if action.dest == "name"]
    sub = commands.choices[name]
    assert [option.dest for option in sub._actions if not option.help] == []
    text = sub.format_help()
    assert COMMANDS[name][1:] in " ".join(text.split())
    words = shlex.split(text.rstrip().splitlines()[-1])
    assert words[:2] == ["bowsaw", name]
    assert shlex.join(words) == parser(name).parse_args(words[1:]).module.EXAMPLE


def test_the_help_has_examples_that_parse(bowsaw):
    found = bowsaw()
    assert (found.code, found.out) == (2, "")
    lines = [line.strip() for line in found.err.splitlines() if "  bowsaw " in line]
    examples = [line.partition("   ")[0].split()[1:] for line in lines]
    assert [words[0] for words in examples] == ["shrink", "predict", "compare"]
    assert all(parser(words[0]).parse_args(words).name == words[0] for words in examples)


def test_names_that_are_nearly_right_are_recognised(bowsaw):
    for words, message in (
        ("prun b.safetensors", "there is no command 'prun'. Did you mean prune? See"),
        ("prune --keeep 3", "there is no option --keeep. Did you mean --keep? See"),
        (
            "prune b s --method=refinment",
            "there is no --method 'refinment'. Did you mean refinement?",
        ),
        ("evaluate s --split 3", "there is no option --split. Did you mean --splits?"),
        ("compare s -o r --methods anealing", "got anealing. Did you mean annealing?"),
        ("whatif b s --keep 3 --transfer unform", "got 'unform'. Did you mean uniform?"),
        ("chop", "there is no command 'chop'. Choose from shrink, predict, compare"),
    ):
        found = bowsaw(*words.split())
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
        assert message in found.err


def test_the_help_shows_every_command_in_its_group(bowsaw):
    shown = bowsaw("--help").lines()
    for title, commands in GROUPS.items():
        at = shown.index(f"{title}:")
        names = [line.split()[0] for line in shown[at + 1 :] if line[2:3].strip()]
        assert names[: len(commands)] == list(commands)


@pytest.fixture
def failing(monkeypatch):
    """Let every command fail with a given exception."""

    def fail_with(error):
        def run(_):
            raise error

        monkeypatch.setattr(command_line, "_run", run)

    return fail_with


def every_error(kind=BowsawError):
    return [kind, *(error for child in kind.__subclasses__() for error in every_error(child))]


def test_every_error_is_one_line_and_an_exit_code(bowsaw, failing):
    for kind in every_error():
        error = kind.__new__(kind)
        Exception.__init__(error, "it is\nnot there.")
        failing(error)
        found = bowsaw("inspect", "x")
        assert found.code == kind.exit_code > 0
        assert found.err == "bowsaw: it is not there.\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.npz"), "a.npz: Permission denied."),
        (OSError("odd"), "odd"),
        (SpaceError(errno.ENOSPC, "the disk is full. Free some."), "the disk is full. Free some."),
        (MemoryError("Unable to allocate 9 GiB"), "out of memory. Unable to allocate 9 GiB"),
        (FileNotFoundError(errno.ENOENT, "Gone", "\x1b[2J\udcff"), r"\x1b[2J\udcff: Gone."),
    ],
)
def test_errors_of_the_system_are_one_line_too(bowsaw, failing, error, line):
    failing(error)
    found = bowsaw("inspect", "x")
    assert (found.code, found.err) == (getattr(error, "exit_code", 1), f"bowsaw: {line}\n")


def test_debug_and_bugs_of_ours_show_the_traceback(bowsaw, failing):
    with pytest.raises(BowsawError, match="does not exist"):
        bowsaw("inspect", "nothing", "--debug")
    failing(ZeroDivisionError("our fault"))
    with pytest.raises(ZeroDivisionError, match="our fault"):
        bowsaw("inspect", "x")


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_the_work_in_one_line(bowsaw, monkeypatch, number, code, word):
    monkeypatch.setattr(command_line, "_run", lambda _: signal.raise_signal(number))
    before = signal.getsignal(number)
    found = bowsaw("inspect", "x")
    assert (found.code, found.out) == (code, "")
    assert found.err == f"bowsaw: {word}. Run the same command again to continue.\n"
    assert signal.getsignal(number) == before


def interrupt():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_swallowed_signal_is_not_lost_and_only_our_errors_come_before_it(bowsaw, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(command_line, "parser", lambda *words: [interrupt(), parser(*words)][1])
        assert bowsaw("inspect", "x").code == 130
    for error, code in ((ImportError("half"), 130), (SpaceError(errno.ENOSPC, "full"), 9)):

        def broken(*_, error=error):
            interrupt()
            raise error

        monkeypatch.setattr(command_line, "_run", broken)
        assert bowsaw("inspect", "x").code == code


def test_an_ignored_signal_stays_ignored(bowsaw, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(command_line, "_run", lambda _: signal.raise_signal(signal.SIGINT))
        assert bowsaw("inspect", "x").code == 0
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_command_works_in_any_thread(made, capsys):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(main, ["inspect", str(made.book), "--json"]).result() == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "codebook"
