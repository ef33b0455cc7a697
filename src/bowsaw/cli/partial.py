"""Work that was interrupted, and whether it may go on.

Estimators keep their state in a checkpoint and go on from it when the same is asked again; anything
else they would silently do anew. A person who types ``--resume`` means to go on, and should be told
what differs. So beside the checkpoint, ``OUTPUT.partial``, lies ``OUTPUT.partial.json``, which says
what was asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bowsaw.checkpoint import atomic_write, regular_bytes
from bowsaw.cli.command import Command
from bowsaw.errors import MismatchError
from bowsaw.validation import parse_json

_LEGIBLE = 30
"""Characters; what is longer is a digest, or a list that says nothing to people."""


class PartialFiles:
    """The checkpoint of the search, and beside it what was asked."""

    def __init__(self, output: str, asked: dict[str, Any]) -> None:
        self.search = Path(f"{output}.partial")
        self._about = Path(f"{output}.partial.json")
        self._asked = asked

    @property
    def there(self) -> bool:
        """Whether there is something to go on with."""
        return self.search.exists() or bool(self._folds())

    def begin(self, command: Command) -> None:
        """Go on, or clear the place."""
        there = self.there
        if there and command.options.resume:
            self._check()
            return
        if there:
            command.note(
                f"an interrupted search was in {self.search}; without --resume it is dropped, and "
                "all begins anew"
            )
        elif command.options.resume:
            command.note(f"there is no {self.search} to go on with, so all begins anew")
        self.remove()
        with atomic_write(self._about) as file:
            file.write(json.dumps(self._asked).encode())

    def _check(self) -> None:
        """Raise unless the same was asked then as now."""
        try:
            before = dict(parse_json(regular_bytes(self._about)))
        except (OSError, ValueError, TypeError):
            before = {}
        others = [name for name, value in self._asked.items() if before.get(name) != value]
        if others:
            raise MismatchError(
                f"{self.search} cannot go on: {self._difference(others[0], before)}. Give the "
                "options that it was begun with, or leave out --resume to begin anew."
            )

    def _difference(self, name: str, before: dict[str, Any]) -> str:
        if name not in before:
            return "what it was begun with is not known"
        texts = [str(asked[name]) for asked in (before, self._asked)]
        if max(map(len, texts)) > _LEGIBLE:
            return f"its {name} was another"
        return f"its {name} was {texts[0]} and is {texts[1]}"

    def remove(self) -> None:
        """Remove all of them: the work is done, or begins anew."""
        for file in (self.search, self._about, *self._folds()):
            file.unlink(missing_ok=True)

    def _folds(self) -> list[Path]:
        """Return the files of stages other than the last."""
        begins = f"{self.search.name}.fold"
        folder = self.search.absolute().parent
        return [file for file in folder.iterdir() if file.name.startswith(begins)]
