"""The state of an interrupted k-means, in a file of its own.

The state is that after a round which another follows, so a run that goes on from it does at least
one round and ends with everything that an uninterrupted run ends with.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import NpzReader, atomic_write


class Checkpoint:
    """Saves and loads ``(words, objectives)`` under a fingerprint.

    Parameters
    ----------
    path : path-like or None
        Where; None for a checkpoint that is never written.
    fingerprint : mapping
        What the state depends on. A file with another fingerprint is not used.
    seconds : float, default=5.0
        How often it is worth writing.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        fingerprint: Mapping[str, Any],
        seconds: float = 5.0,
    ) -> None:
        self._path = None if path is None else Path(path)
        text = json.dumps(fingerprint, sort_keys=True)
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.seconds = seconds if path is not None else float("inf")

    def load(self, max_rounds: int) -> tuple[NDArray[np.float32], list[float]] | None:
        """Return a saved state of fewer than ``max_rounds``, or None where there is none."""
        if self._path is None:
            return None
        try:
            with NpzReader(self._path) as state:
                if str(state["fingerprint"]) != self._fingerprint:
                    return None
                words, told = np.ascontiguousarray(state["words"]), state["objectives"]
            if words.dtype != np.float32 or words.ndim != 2 or not np.isfinite(words).all():
                return None
            objectives = [float(value) for value in told]
        except Exception:
            # No file, one of something else, or a damaged one (which makes NumPy and zipfile
            # raise a dozen kinds of exception): the work is done again.
            return None
        return (words, objectives) if len(objectives) < max_rounds else None

    def save(self, words: NDArray[np.float32], objectives: list[float]) -> None:
        """Write the state so that it is there whole or not at all."""
        if self._path is None:
            return
        buffer = io.BytesIO()
        np.savez(
            buffer,
            words=words,
            objectives=np.array(objectives),
            fingerprint=np.array(self._fingerprint),
        )
        with atomic_write(self._path) as file:
            file.write(buffer.getvalue())

    def remove(self) -> None:
        """Remove the file: the work is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
