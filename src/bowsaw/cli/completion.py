"""``bowsaw completion``: a script for Tab completion, made from the parsers by shtab."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from bowsaw.cli.command import Command
from bowsaw.cli.main import COMMANDS, parser

EXAMPLE = "bowsaw completion bash"
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/bowsaw",
    "zsh": "~/.zfunc/_bowsaw",
    "fish": "~/.config/fish/completions/bowsaw.fish",
}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("shell", choices=tuple(_PLACES), help="the shell that the script is for")
    sub.add_argument_group(
        "where it belongs",
        "\n".join(f"bowsaw completion {shell} > {place}" for shell, place in _PLACES.items())
        + '\nFor zsh, .zshrc needs "fpath+=~/.zfunc" above "autoload -U compinit; compinit".\n'
        "After an update of bowsaw, write the script again.",
    )


def run(command: Command) -> None:
    top = parser(*COMMANDS)
    (commands,) = [a for a in top._actions if isinstance(a, argparse._SubParsersAction)]
    for sub in commands.choices.values():
        for action in sub._actions:
            # Text that is taken as it is names a file; numbers and names have a reader.
            if action.nargs != 0 and action.choices is None and action.type in (None, str, Path):
                action.complete = shtab.FILE
    for line in shtab.complete(top, command.options.shell).splitlines():
        command.raw(line)
