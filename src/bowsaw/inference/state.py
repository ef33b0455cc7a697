"""One interface for every way of inferring histograms: a state, not a function.

A state holds, for a corpus of bags, the histograms of some kept words of a codebook, and changes
with the kept words: from scratch by ``reset``, or by ``swap``, which costs what it touches; a
search that does not like what a swap gave takes it back by ``undo``. Scores and searches know this
interface alone; each implementation is a subclass that fills in ``_begin`` and ``_follow``.

Columns live in *slots*. A word that comes in takes the column of a word that goes out, so
``histograms`` is a view that costs nothing to read and columns never shift. Where more words go
than come, the last columns move into the holes; where more come than go, columns are added at the
end. Memory is column-major, ``(n_kept, n_bags)`` transposed: a column is one run of memory.

Ties. A descriptor equally near to several kept words counts for the one that comes first in the
full codebook, whatever its column. So the truth that a state is held to is re-coding with the kept
words in the codebook's order.

Bits. A hard state is a function of its words and columns, whatever the moves before. Soft states
add and subtract weights, so moves leave traces in their last bits (``leaves_traces``). ``undo``
restores every bit of either: a hard state goes the way back, a soft one keeps a copy of what the
last swap changed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.fidelity import Fidelity, compare

Positions = NDArray[np.int64]
"""Positions of words in the full codebook; users name words by id."""


@dataclass(frozen=True)
class Past:
    """The last swap: who went, who came, the words by column before, and copies of arrays."""

    out: Positions
    in_: Positions
    kept: Positions
    copies: Mapping[str, NDArray[Any]]


class HistogramState(ABC):
    """The histograms of a corpus under the words that are kept at the moment.

    Made by :func:`bowsaw.whatif`. All words are kept at first.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    n_bags : int
        Bags in the corpus.
    bags : Bags or None
        The corpus, for ``fidelity``.
    dtype : dtype
        Of the histograms.
    """

    is_exact: ClassVar[bool] = False
    """Whether the histograms are those of re-coding, up to rounding and a stated bound."""

    leaves_traces: ClassVar[bool] = False
    """Whether the histograms' last bits depend on the moves before; ``reset`` forgets them."""

    _by_column: tuple[str, ...] = ("_table",)
    """Attributes whose first axis is the column; each state has its own, and they move together."""
    _own: tuple[str, ...] = ()
    """Other arrays that moves change; a copy of the state has copies of them, and shares the rest.
    """

    def __init__(
        self,
        codebook: Codebook,
        n_bags: int,
        *,
        bags: Bags | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self._book = codebook
        self._bags = bags
        self._n_bags = n_bags
        self._table: NDArray[Any] = np.zeros((codebook.n_words, n_bags), dtype=dtype)
        self._kept: Positions = np.arange(codebook.n_words)
        # The column of each word, -1 for a pruned one; one entry more, as lists are padded with
        # n_words.
        self._column = np.arange(codebook.n_words + 1, dtype=np.int32)
        self._column[-1] = -1
        self._changed: NDArray[np.int64] = np.arange(codebook.n_words)
        self._past: Past | None = None

    # -- what it is ------------------------------------------------------------------------------

    @property
    def codebook(self) -> Codebook:
        """The full codebook."""
        return self._book

    @property
    def n_bags(self) -> int:
        """Bags in the corpus."""
        return self._n_bags

    @property
    def n_kept(self) -> int:
        """How many words are kept."""
        return len(self._kept)

    @property
    def kept(self) -> NDArray[np.int64]:
        """The ids of the kept words, in the order of the columns, ``(n_kept,)``."""
        return self._book.ids[self._kept]

    @property
    def histograms(self) -> NDArray[Any]:
        """The histograms, ``(n_bags, n_kept)``: a live, read-only view; column j is ``kept[j]``.

        The next move changes what it shows; copy it to keep it.
        """
        view = self._table[: self.n_kept].T
        view.setflags(write=False)
        return view

    @property
    def changed(self) -> NDArray[np.int64]:
        """The columns that the last ``reset``, ``swap`` or ``undo`` touched, ascending."""
        return self._changed

    @property
    def n_bytes(self) -> int:
        """Memory that the state holds in arrays, memory-mapped ones not included."""
        return sum(_size(value) for value in self.__dict__.values())

    def pruned_codebook(self) -> Codebook:
        """Return the codebook of the kept words alone, in the order of the full codebook."""
        return self._book.only(self._book.ids[np.sort(self._kept)])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_kept} of {self._book.n_words} words kept, "
            f"{self.n_bags} bags)"
        )

    # -- moves -----------------------------------------------------------------------------------

    def reset(self, kept: ArrayLike | None = None) -> Self:
        """Keep just these words (ids), in this order of columns; None keeps every word."""
        chosen = np.arange(self._book.n_words) if kept is None else self._book.positions(kept)
        if not len(chosen):
            raise ParameterError("kept names no word, and a codebook needs at least one.")
        before = self._kept
        try:
            self._restart(chosen)
        except BaseException:
            self._restart(before)
            raise
        return self

    def swap(self, remove: ArrayLike = (), add: ArrayLike = ()) -> Self:
        """Remove the kept words ``remove`` and add the pruned words ``add`` (ids), in place.

        ``add[j]`` takes the column of ``remove[j]``. The numbers may differ: the module's chapter
        says what happens to the columns then. On an error the state is as before.
        """
        gone, come = self._book.positions(remove), self._book.positions(add)
        self._refuse(gone, kept=False, problem="is not kept, so it cannot be removed")
        self._refuse(come, kept=True, problem="is kept already, so it cannot be added")
        if len(gone) == self.n_kept and not len(come):
            raise ParameterError(
                f"remove names all {self.n_kept} kept words, and a codebook needs at least one. "
                "Keep a word."
            )
        before, copies = self._kept, self._copies()
        try:
            self._swap(gone, come)
        except BaseException:
            self._restart(before)
            raise
        self._past = Past(gone, come, before, copies)
        return self

    def undo(self) -> Self:
        """Take the last swap back: the same words, columns and bits as before it.

        Possible once after a swap, until the next move; a copy of a state starts without a past.
        """
        past = self._past
        if past is None:
            raise ParameterError(
                f"there is no swap to undo ({self.n_kept} of {self._book.n_words} words are kept): "
                "the state is new, a copy, or its last move was a reset or an undo. Swap first."
            )
        n_after, changed = self.n_kept, self._changed
        try:
            self._past = None
            self._take_back(past)
        except BaseException:
            self._restart(past.kept)
            raise
        n_before = self.n_kept
        removed = np.arange(n_after, n_before)
        self._changed = np.concatenate([changed[changed < min(n_before, n_after)], removed])
        return self

    def without(self, words: ArrayLike) -> Self:
        """Return a copy of the state in which these kept words (ids) are pruned as well."""
        gone = self._book.positions(words)
        self._refuse(gone, kept=False, problem="is not kept, so it cannot be pruned")
        left = self._kept[~np.isin(self._kept, gone)]
        return self.copy().reset(self._book.ids[left])

    def only(self, words: ArrayLike) -> Self:
        """Return a copy of the state that keeps just these words (ids)."""
        chosen = self._book.positions(words)
        return self.copy().reset(self._book.ids[chosen])

    def copy(self) -> Self:
        """Return a state that moves by itself; what no move changes is shared."""
        other = copy.copy(self)
        for name in (*self._by_column, *self._own, "_kept", "_column", "_changed"):
            setattr(other, name, getattr(self, name).copy())
        other._past = None
        return other

    def _refuse(self, words: Positions, *, kept: bool, problem: str) -> None:
        wrong = words[(self._column[words] >= 0) == kept]
        if len(wrong):
            raise ParameterError(
                f"word {int(self._book.ids[wrong[0]])} {problem} ({self.n_kept} of "
                f"{self._book.n_words} words are kept)."
            )

    def _restart(self, kept: Positions) -> None:
        self._kept = np.array(kept, dtype=np.int64)
        self._column[:] = -1
        self._column[self._kept] = np.arange(len(kept))
        self._past = None
        self._begin()
        self._changed = np.arange(len(kept))

    def _copies(self) -> dict[str, NDArray[Any]]:
        """Return copies of what a swap changes, where that cannot be had back otherwise."""
        if not self.leaves_traces:
            return {}
        columns = {name: getattr(self, name)[: self.n_kept].copy() for name in self._by_column}
        return columns | {name: getattr(self, name).copy() for name in self._own}

    def _take_back(self, past: Past) -> None:
        """Undo a swap: put copies back, or go the way back and put columns into their order."""
        if past.copies:
            for name, array in past.copies.items():
                getattr(self, name)[: len(array)] = array
        else:
            self._swap(past.in_, past.out)
            order = self._column[past.kept]
            for name in self._by_column:
                array = getattr(self, name)
                array[: len(order)] = array[order]
        self._name_columns(past)

    def _name_columns(self, past: Past) -> None:
        """Say that the words are those of before a swap, in their columns."""
        self._kept = past.kept
        self._column[past.in_] = -1
        self._column[past.kept] = np.arange(len(past.kept))

    def _swap(self, out: Positions, in_: Positions) -> None:
        n_before, n_same = self.n_kept, min(len(out), len(in_))
        n_after = n_before - len(out) + len(in_)
        from_columns = self._column[out].astype(np.int64)
        to_columns = np.concatenate(
            [from_columns[:n_same], np.arange(n_before, n_before + len(in_) - n_same)]
        )
        if n_after > n_before:
            for name in self._by_column:
                getattr(self, name)[n_before:n_after] = 0
            self._kept = np.concatenate([self._kept, np.zeros(n_after - n_before, dtype=np.int64)])
        else:
            self._kept = self._kept.copy()
        self._column[out] = -1
        self._column[in_] = to_columns
        self._kept[to_columns] = in_
        holes = np.sort(from_columns[n_same:])
        touched = self._follow(out, from_columns, in_, to_columns)
        self._changed = self._close(holes, n_after, touched)

    def _close(
        self, holes: NDArray[np.int64], n_after: int, touched: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Move the last columns into the holes; return the touched columns by their new names."""
        if not len(holes):
            return touched
        n_before = self.n_kept
        last = np.setdiff1d(np.arange(n_after, n_before), holes)
        free = holes[holes < n_after]
        for name in self._by_column:
            array = getattr(self, name)
            array[free] = array[last]
        self._kept[free] = self._kept[last]
        self._kept = self._kept[:n_after].copy()
        self._column[self._kept] = np.arange(n_after)
        return np.union1d(touched[touched < n_after], free)

    @abstractmethod
    def _begin(self) -> None:
        """Fill the first ``n_kept`` columns from scratch; ``_kept`` and ``_column`` are set."""

    @abstractmethod
    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Follow a move; ``_column`` is that after it, -1 for the outgoing words.

        ``in_[j]`` has the column of ``out[j]``. Columns of outgoing words that nobody took over are
        removed afterwards, whatever they hold; until then ``_kept`` still names those words.
        Returns the touched columns, ascending.
        """

    # -- how far to trust it ---------------------------------------------------------------------

    def variance(self) -> NDArray[np.float64]:
        """Return the variance of each inferred entry by Proposition 1, ``(n_bags, n_kept)``.

        Zero for states that are exact: nothing about them is random.
        """
        return np.zeros((self.n_bags, self.n_kept))

    def bound(self) -> NDArray[np.float64] | None:
        """Return a proven bound of each bag's L1 error against re-coding, ``(n_bags,)``.

        Re-coding in exact arithmetic, that is. None where nothing is proven: approximate transfers.
        """
        return np.zeros(self.n_bags) if self.is_exact else None

    def fidelity(self, sample: int = 50, *, random_state: Any = 0) -> Fidelity:
        """Re-code some bags and compare: the certificate that a pruning result carries.

        Parameters
        ----------
        sample : int, default=50
            Bags to re-code, drawn without repetition among those with descriptors.
        random_state : int, RandomState or None, default=0
            Draws them.
        """
        if self._bags is None:
            raise DataError(
                "fidelity re-codes descriptors, and this state was made from histograms alone. "
                "Make it with whatif(codebook, bags, histograms=…) to have a certificate."
            )
        return compare(self, self._bags, sample, random_state)

    def recode(self, bags: Bags) -> NDArray[np.float32]:
        """Code ``bags`` anew with the kept words alone: the truth, columns as in ``kept``."""
        order = np.argsort(self._kept)
        words = self._book.words_for(bags)[self._kept[order]]
        truth = np.empty((len(bags), self.n_kept), dtype=np.float32)
        truth[:, order] = self._code(bags, words)
        return truth

    @abstractmethod
    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        """Code and pool with just these words."""

    def recoding_error(self, chosen: Bags) -> NDArray[np.float64]:
        """Return a bound of what rounding does to ``recode`` itself, ``(n_bags,)``."""
        return np.zeros(len(chosen))


def _size(value: Any) -> int:
    if isinstance(value, np.memmap):
        return 0
    if isinstance(value, HistogramState):
        return value.n_bytes
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None or value.base.nbytes <= value.nbytes else 0
    return 0
