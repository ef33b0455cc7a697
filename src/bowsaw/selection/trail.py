"""The trail of an elimination: what was kept at each stop, and what fell on the way to the next.

A trail can be written after every stop, so that an elimination that was killed goes on from the
last one. A stop is all that the rest depends on: whoever begins there, with the state and the score
made anew, comes to the same words as whoever never stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import NpzReader, atomic_write
from bowsaw.errors import ParameterError
from bowsaw.validation import parse_json


@dataclass(frozen=True)
class Stop:
    """A size at which an elimination stopped.

    Attributes
    ----------
    kept : ndarray of int64, shape (n_kept,)
        Positions of the kept words, ascending.
    fell : ndarray of int64, shape (n_fell,)
        Positions of the words that went on the way here from the stop before, first gone first.
        Words that came back by a swap at this stop are among them.
    score : float
        Of the kept words, swaps included.
    n_tried, n_swapped : int
        Swaps that were tried here, and those that were accepted.
    certificate : mapping
        The record of the state's fidelity here.
    """

    kept: NDArray[np.int64]
    fell: NDArray[np.int64]
    score: float
    n_tried: int
    n_swapped: int
    certificate: Mapping[str, Any]

    @property
    def n_kept(self) -> int:
        """How many words are kept."""
        return len(self.kept)


class Trail:
    """The stops of an elimination, from all words down.

    Parameters
    ----------
    stops : sequence of Stop
        The largest first.
    """

    def __init__(self, stops: Sequence[Stop]) -> None:
        self.stops = tuple(stops)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the stops, falling."""
        return [stop.n_kept for stop in self.stops]

    def at(self, n_kept: int) -> NDArray[np.int64]:
        """Return the positions of ``n_kept`` words, ascending.

        Between two stops they are those of the larger one but for the words that fell first on the
        way to the smaller.

        Examples
        --------
        >>> import numpy as np
        >>> first = Stop(np.arange(5), np.empty(0, np.int64), -0.5, 0, 0, {})
        >>> second = Stop(np.array([1, 4]), np.array([3, 1, 0]), -0.6, 1, 1, {})
        >>> Trail([first, second]).at(3).tolist(), Trail([first, second]).at(2).tolist()
        ([0, 2, 4], [1, 4])
        """
        largest, smallest = self.stops[0].n_kept, self.stops[-1].n_kept
        whole = isinstance(n_kept, numbers.Integral) and not isinstance(n_kept, bool)
        if not whole or not smallest <= n_kept <= largest:
            raise ParameterError(
                f"n_words must be a whole number from {smallest} to {largest} (the sizes of this "
                f"path); got {n_kept!r}. Fit with smaller sizes to go further down."
            )
        below = next(number for number, stop in enumerate(self.stops) if stop.n_kept <= n_kept)
        if self.stops[below].n_kept == n_kept:
            return self.stops[below].kept
        above = self.stops[below - 1]
        gone = self.stops[below].fell[: above.n_kept - n_kept]
        return np.setdiff1d(above.kept, gone)


class TrailFile:
    """Saves and loads stops under a fingerprint.

    Parameters
    ----------
    path : path-like or None
        Where; None for a file that is never written.
    fingerprint : mapping
        What the stops depend on, JSON-able. A file with another fingerprint is not used.
    """

    def __init__(
        self, path: str | PathLike[str] | None, fingerprint: Mapping[str, Any] | None = None
    ) -> None:
        self._path = None if path is None else Path(path)
        text = json.dumps(dict(fingerprint or {}), sort_keys=True)
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()

    def load(self) -> list[Stop]:
        """Return the stops of an earlier run of the same work; none where there are none."""
        if self._path is None:
            return []
        try:
            with NpzReader(self._path) as held:
                if str(held["fingerprint"]) != self._fingerprint:
                    return []
                return [
                    Stop(held[f"kept{number}"], held[f"fell{number}"], **record)
                    for number, record in enumerate(parse_json(str(held["records"])))
                ]
        except Exception:
            # No file, one of something else, or a damaged one (which makes NumPy, zipfile and
            # JSON raise a dozen kinds of exception): the work is done again.
            return []

    def save(self, stops: Sequence[Stop]) -> None:
        """Write the stops so that they are there whole or not at all."""
        if self._path is None:
            return
        arrays = {f"kept{number}": stop.kept for number, stop in enumerate(stops)}
        arrays |= {f"fell{number}": stop.fell for number, stop in enumerate(stops)}
        names = ("score", "n_tried", "n_swapped", "certificate")
        records = [{name: getattr(stop, name) for name in names} for stop in stops]
        buffer = io.BytesIO()
        np.savez(
            buffer,
            allow_pickle=False,
            fingerprint=np.array(self._fingerprint),
            records=np.array(json.dumps(records)),
            **arrays,
        )
        with atomic_write(self._path) as file:
            file.write(buffer.getvalue())

    def remove(self) -> None:
        """Remove the file: the work is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
