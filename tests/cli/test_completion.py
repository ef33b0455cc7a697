"""Completion scripts know every command and option, and bash itself offers them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bowsaw.cli.main import COMMANDS, parser


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_command_option_and_choice(bowsaw, shell):
    text = "\n".join(bowsaw("completion", shell).lines()) + "\n"
    [commands] = [action for action in parser(*COMMANDS)._actions if action.dest == "name"]
    for name, sub in commands.choices.items():
        assert name in text
        for action in sub._actions:
            for option in action.option_strings:
                # fish has options without their dashes.
                assert (option.lstrip("-") if shell == "fish" else option) in text
            assert all(str(choice) in text for choice in action.choices or ())
    if shutil.which(shell):
        Path("script").write_text(text, "utf-8")
        checked = subprocess.run([shell, "-n", "script"], capture_output=True, check=False)
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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no bash")
def test_bash_offers_what_fits(bowsaw):
    Path("z.store").mkdir()
    Path("script").write_text(bowsaw("completion", "bash").out, "utf-8")
    asked = {
        "bowsaw insp": "inspect",
        "bowsaw train --max-it": "--max-iter",
        "bowsaw prune --method ann": "annealing",
        "bowsaw completion z": "zsh",
        "bowsaw inspect z": "z.store",
        "bowsaw train --words z": "",
    }
    shown = subprocess.check_output(["bash", "-c", ASK, "bash", "./script", *asked], text=True)
    found = [line.strip().rstrip("/") for line in shown.splitlines()]
    assert dict(zip(asked, found, strict=True)) == asked
