"""Completion scripts know every command and option, and bash itself offers them."""

from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from bowsaw.cli.main import COMMANDS, parser

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def script(bowsaw, tmp_path):
    """Write the script of a shell and return its path."""

    def write(shell: str):
        path = tmp_path / f"script.{shell}"
        path.write_text("\n".join(bowsaw("completion", shell).lines()) + "\n", "utf-8")
        return path

    return write


def actions(name: str) -> list[argparse.Action]:
    [commands] = [action for action in parser(name)._actions if action.dest == "name"]
    return commands.choices[name]._actions


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_command_option_and_choice(script, shell):
    path = script(shell)
    text = path.read_text("utf-8")
    for name in COMMANDS:
        assert name in text
        for action in actions(name):
            for option in action.option_strings:
                # fish has options without their dashes.
                assert (option.lstrip("-") if shell == "fish" else option) in text
            assert all(str(choice) in text for choice in action.choices or ())
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n", path], capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


ASK = """
source "$1"
shift
for line in "$@"; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
    _shtab_bowsaw bowsaw "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_offers_what_fits(script, tmp_path):
    (tmp_path / "z.store").mkdir()
    asked = {
        "bowsaw insp": "inspect",
        "bowsaw train --max-it": "--max-iter",
        "bowsaw prune --method ann": "annealing",
        "bowsaw completion z": "zsh",
        "bowsaw inspect z": "z.store",
        "bowsaw train --words z": "",
    }
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", script("bash"), *asked],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.strip().rstrip("/") for line in done.stdout.splitlines()]
    assert dict(zip(asked, found, strict=True)) == asked
