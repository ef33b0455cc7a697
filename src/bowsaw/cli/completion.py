"""``bowsaw completion``: a script that lets the Tab key finish commands, in three shells.

The script is made from the parsers themselves, so it knows each verb, option and choice that there
is, and it is plain data to the shell: pressing Tab starts no Python. What a word may be is seen
from how the parser reads it: one of its choices, a path where it is taken as it stands, and
otherwise, as for numbers, nothing.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten

from bowsaw.cli.command import Command, Verb
from bowsaw.cli.main import VERBS, parser

_LONGEST = 90
"""Letters of a description; shells show it in one line beside what it describes."""


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the whole parser of each verb."""
    found = {}
    for name in VERBS:
        for action in parser(name)._actions:
            if isinstance(action, argparse._SubParsersAction):
                found[name] = action.choices[name]
    return found


def _names(sub: argparse.ArgumentParser) -> list[str]:
    return [name for action in sub._actions for name in action.option_strings]


def _is_path(action: argparse.Action) -> bool:
    return action.nargs != 0 and action.choices is None and action.type in (None, str, Path)


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _text(sub: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": sub.prog}
    return shorten(text, _LONGEST, placeholder=" …")


# -- bash ------------------------------------------------------------------------------------------

# Names with blanks, quotes or a tilde are left to the shell's own completion of paths, which knows
# how to write them; it steps in where nothing else fits, unless it is told not to.
_BASH = """\
# Tab completion of bowsaw for bash, made by: bowsaw completion bash
_bowsaw() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= paths=
    # Bash takes --name=value apart.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        before=first
    fi
    case ${COMP_WORDS[1]}:$before:$word in
    *:first:*) words="@FIRST@" ;;
@CASES@
    esac
    local IFS=$' \\t\\n'
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ $paths ]] || compopt +o default 2>/dev/null
}
complete -o default -F _bowsaw bowsaw"""


def _bash(parsers: dict[str, argparse.ArgumentParser]) -> str:
    cases = []
    for verb, sub in parsers.items():
        offers: dict[str, list[str]] = {}
        for action in sub._actions:
            if action.option_strings and action.nargs != 0:
                names = [f"{verb}:{name}:*" for name in action.option_strings]
                offers.setdefault(_bash_offer([action]), []).extend(names)
        cases += [f"    {'|'.join(names)}) {offer};;" for offer, names in offers.items()]
        cases.append(f'    {verb}:*:-*) words="{" ".join(_names(sub))}" ;;')
        free = [action for action in sub._actions if not action.option_strings]
        cases.append(f"    {verb}:*) {_bash_offer(free)};;")
    first = " ".join([*parsers, *_names(parser())])
    return _BASH.replace("@FIRST@", first).replace("@CASES@", "\n".join(cases))


def _bash_offer(actions: list[argparse.Action]) -> str:
    choices = " ".join(map(_choices, actions)).strip()
    paths = "paths=yes " if any(map(_is_path, actions)) else ""
    return (f'words="{choices}" ' if choices else "") + paths


# -- zsh -------------------------------------------------------------------------------------------

_ZSH = """\
#compdef bowsaw
# Tab completion of bowsaw for zsh, made by: bowsaw completion zsh
_bowsaw() {
    if ((CURRENT == 2)); then
        local -a verbs=(
            @VERBS@
        )
        _describe -t commands command verbs
        _arguments \\
            @TOP@
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
@CASES@
    esac
}
# In a folder of fpath this file is the function itself; elsewhere it is read once.
if [[ $funcstack[1] == _bowsaw ]]; then
    _bowsaw "$@"
else
    compdef _bowsaw bowsaw
fi"""


def _zsh(parsers: dict[str, argparse.ArgumentParser]) -> str:
    verbs = [shlex.quote(f"{verb}:{VERBS[verb]}") for verb in parsers]
    cases = [
        f"    {verb}) _arguments \\\n            {_zsh_specs(sub)} ;;"
        for verb, sub in parsers.items()
    ]
    script = _ZSH.replace("@VERBS@", "\n            ".join(verbs))
    return script.replace("@TOP@", _zsh_specs(parser())).replace("@CASES@", "\n".join(cases))


def _zsh_specs(sub: argparse.ArgumentParser) -> str:
    specs = []
    for action in sub._actions:
        names, value = action.option_strings, ""
        if action.nargs != 0:
            # One blank says what the word is, and offers nothing.
            offer = f"({_choices(action)})" if action.choices else " "
            label = _zsh_text(str(action.metavar or action.dest))
            value = f":{label}:{'_files' if _is_path(action) else offer}"
        for name in names:
            # With this sign, a value may also follow an equals sign.
            sign = "=" if value and name.startswith("--") else ""
            text = _zsh_text(_text(sub, action))
            specs.append(f"({' '.join(names)}){name}{sign}[{text}]{value}")
        if not names and not isinstance(action, argparse._SubParsersAction):
            specs.append(value)
    return " \\\n            ".join(map(shlex.quote, specs))


def _zsh_text(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\[]:" else letter for letter in text)


# -- fish ------------------------------------------------------------------------------------------

_FISH = """\
# Tab completion of bowsaw for fish, made by: bowsaw completion fish
function __bowsaw_verb
    set -l words (commandline -opc)
    test "$words[2]" = "$argv"
end
complete -c bowsaw -e
complete -c bowsaw -f"""


def _fish(parsers: dict[str, argparse.ArgumentParser]) -> str:
    lines = [_FISH]
    for verb in parsers:
        lines.append(f"complete -c bowsaw -n __bowsaw_verb -a {verb} -d {_fish_text(VERBS[verb])}")
    for condition, sub in [
        ("__bowsaw_verb", parser()),
        *((f"'__bowsaw_verb {verb}'", sub) for verb, sub in parsers.items()),
    ]:
        for action in sub._actions:
            if not isinstance(action, argparse._SubParsersAction):
                lines.append(f"complete -c bowsaw -n {condition} {_fish_rule(sub, action)}")
    return "\n".join(lines)


def _fish_rule(sub: argparse.ArgumentParser, action: argparse.Action) -> str:
    rule = [f"-l {name[2:]}" for name in action.option_strings if name.startswith("--")]
    rule += [f"-s {name[1:]}" for name in action.option_strings if not name.startswith("--")]
    if rule and action.nargs != 0:
        rule.append("-r")
    rule.append("-F" if _is_path(action) else "-f")
    if action.choices:
        rule.append(f"-a {_fish_text(_choices(action))}")
    return " ".join([*rule, "-d", _fish_text(_text(sub, action))])


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# -- the verb --------------------------------------------------------------------------------------

_SHELLS: dict[str, Callable[[dict[str, argparse.ArgumentParser]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}

_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/bowsaw",
    "zsh": "~/.zfunc/_bowsaw",
    "fish": "~/.config/fish/completions/bowsaw.fish",
}
"""Where each shell looks for the script; zsh where it is told to."""


def _add_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("shell", choices=tuple(_SHELLS), help="the shell that the script is for")
    sub.add_argument_group(
        "where it belongs",
        "\n".join(f"bowsaw completion {shell} > {place}" for shell, place in _PLACES.items())
        + "\nFor zsh, .zshrc needs «fpath+=~/.zfunc» above «autoload -U compinit; compinit».\n"
        "After an update of bowsaw, write the script again.",
    )


def _run(command: Command) -> None:
    for line in _SHELLS[command.options.shell](_parsers()).splitlines():
        command.show(line)


VERB = Verb(
    example="bowsaw completion bash",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Run the same command again.",
)
