"""The Tab key: what the scripts offer is what the parsers read, in the shells themselves."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.terminal import Terminal

from bowsaw.cli.command import Verb
from bowsaw.cli.main import VERBS, parser

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def script(bowsaw, tmp_path):
    """Write the script of a shell and return its path."""

    def write(shell: str):
        path = tmp_path / f"script.{shell}"
        path.write_text("\n".join(bowsaw("completion", shell).lines()) + "\n", "utf-8")
        return path

    return write


def options(verb: str) -> list[argparse.Action]:
    [verbs] = [action for action in parser(verb)._actions if action.dest == "name"]
    return verbs.choices[verb]._actions


def names(verb: str) -> list[str]:
    return [name for action in options(verb) for name in action.option_strings]


CHOICES = {
    (verb, name): list(action.choices)
    for verb in VERBS
    for action in options(verb)
    if action.choices
    for name in action.option_strings
}


def run(*words: object) -> list[str]:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# -- the scripts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_verb_option_and_choice(script, shell):
    text = script(shell).read_text("utf-8")
    for verb in VERBS:
        lines = [line for line in text.splitlines() if verb in line] if shell != "zsh" else [text]
        for name in names(verb):
            dashes = {"fish": f"-l {name[2:]} " if name[:2] == "--" else f"-s {name[1:]} "}
            assert any(dashes.get(shell, name) in line for line in lines)
    assert all(" ".join(choices) in text for choices in CHOICES.values())
    if shutil.which(shell):
        assert run(shell, "-n", script(shell)) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_verb_is_in_the_script(script, monkeypatch, shell):
    def add_arguments(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("tree", choices=("oak", "elm"), help="it's [a] tree: 100%% of it \\")
        sub.add_argument("--saw", choices=("bow", "chain"), help="what with; $HOME, `date`")

    verb = Verb("bowsaw chop oak", add_arguments, lambda _: None)
    monkeypatch.setitem(VERBS, "chop", 'cut "it" down, or don\'t')
    monkeypatch.setitem(sys.modules, "bowsaw.cli.chop", SimpleNamespace(VERB=verb))
    path = script(shell)
    text = path.read_text("utf-8")
    assert all(word in text for word in ("chop", "oak elm", "saw", "bow chain"))
    if shutil.which(shell):
        assert run(shell, "-n", path) == []


def test_a_script_is_for_a_shell_that_is_known(bowsaw):
    found = bowsaw("completion", "tcsh")
    assert (found.code, found.out) == (2, "")
    assert "invalid choice: 'tcsh'" in found.err


def test_help_tells_where_each_script_belongs(bowsaw):
    text = bowsaw("completion", "--help").out
    places = re.findall(r"^  bowsaw completion (\w+) > (~/\S+)$", text, re.MULTILINE)
    assert [shell for shell, _ in places] == list(SHELLS)
    assert [Path(place).name for _, place in places] == ["bowsaw", "_bowsaw", "bowsaw.fish"]


# -- bash ------------------------------------------------------------------------------------------

# Each line that is read is a command line, its last word the one that Tab is pressed in.
ASK_BASH = r"""
source "$1"
while IFS= read -r line; do
    IFS=' ' read -ra COMP_WORDS <<< "$line"
    [[ $line == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _bowsaw
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def offered(script):
    """Return what bash offers at the end of each command line."""

    def ask(lines: list[str]) -> list[list[str]]:
        done = subprocess.run(
            ["bash", "--norc", "-c", ASK_BASH, "bash", str(script("bash"))],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return [line.split() for line in done.stdout.splitlines()]

    return ask


if sys.platform != "win32":

    def test_bash_offers_verbs(offered):
        assert offered(["bowsaw ", "bowsaw e", "bowsaw --v", "bowsaw x"]) == [
            [*VERBS, "-h", "--help", "--version"],
            [verb for verb in VERBS if verb.startswith("e")],
            ["--version"],
            [],
        ]

    def test_bash_offers_the_options_of_a_verb(offered):
        found = offered([f"bowsaw {verb} --" for verb in VERBS])
        for verb, offer in zip(VERBS, found, strict=True):
            assert offer == [name for name in names(verb) if name.startswith("--")]

    def test_bash_offers_choices(offered):
        lines = [f"bowsaw {verb} x {name} " for verb, name in CHOICES]
        assert offered(lines) == list(CHOICES.values())
        # Bash hands on the equals sign as a word of its own.
        assert offered([f"{line}= " for line in lines]) == list(CHOICES.values())
        assert offered([f"{line}=" for line in lines]) == list(CHOICES.values())
        assert offered(["bowsaw completion "]) == [list(SHELLS)]

    def test_bash_offers_no_words_for_numbers_and_paths(offered):
        lines = [
            f"bowsaw {verb} {name} -"
            for verb in VERBS
            for action in options(verb)
            if action.nargs != 0 and not action.choices
            for name in action.option_strings
        ]
        assert len(lines) > 50
        assert offered([*lines, "bowsaw train "]) == [[] for _ in [*lines, 0]]


# -- a person at a keyboard ------------------------------------------------------------------------

# «bowsaw» only shows the words that it got.
BASH_START = r"""
bowsaw() { printf '<%s>' "$@"; echo; }
bind 'set bell-style none' 'set enable-bracketed-paste off' 2>/dev/null
PS1='ready> '
source "$SCRIPT"
"""

ZSH_START = r"""
bowsaw() { printf '<%s>' "$@"; echo }
unsetopt beep
PS1='ready> '
fpath+=~/functions
autoload -Uz compinit
compinit -u -D
"""

TYPED = [
    ("bowsaw insp\tx", "<inspect><x>"),
    ("bowsaw train --max-it\t7", "<train><--max-iter><7>"),
    ("bowsaw prune --method ann\t", "<prune><--method><annealing>"),
    ("bowsaw extract my\t", "<extract><my folder/>"),
    ("bowsaw extract my\tit\t", '<extract><my folder/it\'s "odd"/>'),
    ("bowsaw inspect --json z\t", "<inspect><--json><z.store/>"),
    ("bowsaw train z\t -o boo\t", "<train><z.store/><-o><book of words.safetensors>"),
    ("bowsaw evaluate --codebook=boo\tx", "<evaluate><--codebook=book of words.safetensors><x>"),
    # There is no number to offer, nor a file in the place of one, nor anything but a shell.
    ("bowsaw train --words z\t", "<train><--words><z>"),
    ("bowsaw completion z\t", "<completion><zsh>"),
    ("bowsaw completion b\tx", "<completion><bash><x>"),
]
"""What is typed, and the words that the command gets."""


@pytest.fixture
def place(tmp_path):
    """A folder of odd names."""
    folder = tmp_path / "place"
    for name in ('my folder/it\'s "odd"', "z.store"):
        (folder / name).mkdir(parents=True)
    (folder / "book of words.safetensors").touch()
    return folder


INSTALLED = [shell for shell in ("bash", "zsh") if shutil.which(shell)]

if sys.platform != "win32":

    @pytest.mark.parametrize("shell", INSTALLED)
    def test_keys_become_the_words_that_were_meant(script, place, tmp_path, shell):
        (tmp_path / ".bashrc").write_text(BASH_START)
        (tmp_path / ".zshrc").write_text(ZSH_START)
        path = script(shell)
        (tmp_path / "functions").mkdir()
        shutil.copy(path, tmp_path / "functions" / "_bowsaw")
        words = {
            "bash": ("bash", "--noprofile", "--rcfile", tmp_path / ".bashrc", "-i"),
            "zsh": ("zsh", "-d", "-i"),
        }
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ZDOTDIR": str(tmp_path),
            "SCRIPT": str(path),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        }
        with Terminal(*words[shell], env=env, cwd=place) as terminal:
            terminal.wait_for("ready> ")
            for keys, got in TYPED:
                begin = len(terminal.shown)
                terminal.type(f"{keys}\n")
                terminal.wait_for(">\r\n", begin)
                terminal.wait_for("ready> ", begin)
                # Zsh takes the last slash of a folder away, and puts the sign before a value.
                [line] = [x for x in terminal.shown[begin:].split("\r\n") if x.startswith("<")]
                assert line.replace("/>", ">").replace("=7>", "><7>") == got.replace("/>", ">")
            terminal.type("exit\n")
            assert terminal.finish() == 0


def test_fish_offers_what_fits(script, place):
    path = script("fish")
    asked = {
        "bowsaw ": list(VERBS),
        "bowsaw insp": ["inspect"],
        "bowsaw --v": ["--version"],
        "bowsaw train --max-it": ["--max-iter"],
        "bowsaw prune --method a": ["annealing"],
        "bowsaw prune --method=a": ["--method=annealing"],
        "bowsaw train --words z": [],
        "bowsaw train z": ["z.store/"],
        # A folder that is called like a verb changes nothing.
        "bowsaw extract train --pre": ["--preset"],
        "bowsaw extract train --max-it": [],
        "bowsaw extract my": ["my folder/"],
        "bowsaw train x -o boo": ["book of words.safetensors"],
        "bowsaw completion ": list(SHELLS),
        "bowsaw completion z": ["zsh"],
    }
    text = path.read_text("utf-8")
    assert text.count("complete -c bowsaw") > 100
    if shutil.which("fish"):
        for line, offers in asked.items():
            lines = run("fish", "-N", "-c", f"source '{path}'; cd '{place}'; complete -C '{line}'")
            # Words that fit elsewhere in the name come after those that begin with it.
            found = [line.split("\t")[0] for line in lines]
            assert sorted(found) == sorted(offers)
