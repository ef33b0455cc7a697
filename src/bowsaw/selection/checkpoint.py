"""The state of an interrupted search, in a file of its own.

The file is JSON: texts, whole numbers, and floats in the shortest form that gives the same bits
back. It carries a fingerprint of everything that the search depends on. A file with another
fingerprint, a damaged one, or one of something else is not used and is written over; the work is
then done again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from bowsaw.checkpoint import atomic_write, regular_bytes
from bowsaw.errors import ParameterError
from bowsaw.validation import parse_json

SECONDS = 3.0


class SearchCheckpoint:
    """Saves and loads the record of a search under a fingerprint.

    Parameters
    ----------
    path : path-like or None
        Where; None for a checkpoint that is never written.
    fingerprint : mapping
        What the search depends on, as JSON holds it.

    Attributes
    ----------
    seconds : float
        How often it is worth writing.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "search.json"
    >>> SearchCheckpoint(path, {"seed": 0}).save({"step": 25})
    >>> SearchCheckpoint(path, {"seed": 0}).load(), SearchCheckpoint(path, {"seed": 1}).load()
    ({'step': 25}, None)
    """

    def __init__(self, path: str | PathLike[str] | None, fingerprint: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None and not self._path.parent.is_dir():
            raise ParameterError(
                f"checkpoint must lie in a folder that exists; got {self._path}. Make the folder "
                f"{self._path.parent} first."
            )
        text = json.dumps(fingerprint, sort_keys=True)
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.seconds = SECONDS if path is not None else float("inf")

    def load(self) -> dict[str, Any] | None:
        """Return the saved record, or None where there is none of this search."""
        if self._path is None:
            return None
        try:
            found = parse_json(regular_bytes(self._path))
            record = found["record"] if found["fingerprint"] == self._fingerprint else None
            return record if isinstance(record, dict) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, record: Mapping[str, Any]) -> None:
        """Write the record so that it is there whole or not at all."""
        if self._path is None:
            return
        whole = {"fingerprint": self._fingerprint, "record": record}
        text = json.dumps(whole, allow_nan=False)
        with atomic_write(self._path) as file:
            file.write(text.encode())

    def remove(self) -> None:
        """Remove the file: the work is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
