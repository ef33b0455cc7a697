"""One interface for every way of inferring histograms: a state, not a function.

A state follows moves: ``reset`` starts from scratch, ``swap`` costs what it touches, ``undo`` takes
the last swap back. A subclass fills in ``_begin``, ``_follow`` and ``_code``.

**Columns** live in slots. An added word takes the column of a removed word, so ``histograms`` is a
view that costs nothing to read. If more words are removed than added, the last columns move into
the holes; if more are added, columns are appended. A column is contiguous.

**Ties.** A descriptor equally near to several kept words counts for the first of them in the full
codebook, whatever its column. The reference is re-encoding with the kept words in codebook order.

**Bits.** A hard state is a function of its words and columns, whatever the moves before. Soft
states add and subtract weights, so their last bits depend on the moves (``history_dependent``).

**Undo** reads a log of what the swap changed, in reverse: every bit is as before.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.fidelity import Fidelity, compare

Positions = NDArray[np.int64]
"""Positions of words in the full codebook; users name words by id."""


class Swap(NamedTuple):
    """A move and its columns: ``added[j]`` takes the column of ``removed[j]``."""

    removed: Positions
    removed_columns: Positions
    added: Positions
    added_columns: Positions


class HistogramState(ABC):
    """The histograms of a corpus under the words that are kept at the moment.

    Made by :func:`bowsaw.whatif`. All words are kept at first.

    ``bags`` are for ``fidelity``; ``dtype`` is that of the histograms.
    """

    is_exact: ClassVar[bool] = False
    """Whether the histograms equal re-encoding, up to rounding and a stated bound."""
    history_dependent: ClassVar[bool] = False
    """Whether the last bits of the histograms depend on earlier moves; ``reset`` clears them."""
    _own: tuple[str, ...] = ()
    """Attributes that moves change; a copy of the state copies them and shares the rest."""

    def __init__(
        self, codebook: Codebook, n_bags: int, bags: Bags | None = None, dtype: Any = np.float32
    ) -> None:
        self._book = codebook
        self._bags = bags
        self._n_bags = n_bags
        self._table: NDArray[Any] = np.zeros((codebook.n_words, n_bags), dtype=dtype)
        self._kept: Positions = np.arange(codebook.n_words)
        # The column of each word, -1 for a pruned one; one entry more, for the padding of lists.
        self._column = np.arange(codebook.n_words + 1, dtype=np.int32)
        self._column[-1] = -1
        self._changed: NDArray[np.int64] = np.arange(codebook.n_words)
        self._undo_log: list[Callable[[], Any]] | None = None

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
        """Number of kept words."""
        return len(self._kept)

    @property
    def kept(self) -> NDArray[np.int64]:
        """The ids of the kept words, in the order of the columns, ``(n_kept,)``."""
        return self._book.ids[self._kept]

    @property
    def histograms(self) -> NDArray[Any]:
        """The histograms, ``(n_bags, n_kept)``: a live view; column j is ``kept[j]``."""
        view = self._table[: self.n_kept].T
        view.setflags(write=False)
        return view

    @property
    def changed(self) -> NDArray[np.int64]:
        """The columns that the last ``reset``, ``swap`` or ``undo`` touched, ascending."""
        return self._changed

    @property
    def n_bytes(self) -> int:
        """Memory of the state's arrays, without memory-mapped ones."""
        return sum(_size(value) for value in self.__dict__.values())

    def pruned_codebook(self) -> Codebook:
        """Return the codebook of the kept words, in the order of the full codebook."""
        return self._book.only(self._book.ids[np.sort(self._kept)])

    def __repr__(self) -> str:
        words = f"{self.n_kept} of {self._book.n_words} words kept"
        return f"{type(self).__name__}({words}, {self.n_bags} bags)"

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds: the last swap cannot be undone there."""
        return {**vars(self), "_undo_log": None}

    def reset(self, kept: ArrayLike | None = None) -> Self:
        """Keep these words (ids), in this order of columns; None keeps every word."""
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

        ``add[j]`` takes the column of ``remove[j]``; the numbers may differ. On an error the state
        is as before.
        """
        removed, added = self._book.positions(remove), self._book.positions(add)
        self._refuse(removed, kept=False, problem="is not kept, so it cannot be removed")
        self._refuse(added, kept=True, problem="is kept already, so it cannot be added")
        if len(removed) == self.n_kept and not len(added):
            raise ParameterError(
                f"remove names all {self.n_kept} kept words, and a codebook needs at least one. "
                "Keep a word."
            )
        before = self._kept
        self._undo_log = [lambda: self._name_columns(before)]
        try:
            self._swap(removed, added)
        except BaseException:
            self._restart(before)
            raise
        return self

    def undo(self) -> Self:
        """Take the last swap back, to the bit: possible once, until the next move or a copy."""
        log, n_after, changed = self._undo_log, self.n_kept, self._changed
        if log is None:
            raise ParameterError(
                f"there is no swap to undo ({self.n_kept} of {self._book.n_words} words are kept): "
                "the state is new, a copy, or its last move was a reset or an undo. Swap first."
            )
        self._undo_log = None
        try:
            for step in reversed(log):
                step()
        except BaseException:
            log[0]()
            self._restart(self._kept)
            raise
        n_before = self.n_kept
        restored = np.arange(n_after, n_before)
        self._changed = np.concatenate([changed[changed < min(n_before, n_after)], restored])
        return self

    def without(self, words: ArrayLike) -> Self:
        """Return a copy of the state in which these kept words (ids) are pruned as well."""
        removed = self._book.positions(words)
        self._refuse(removed, kept=False, problem="is not kept, so it cannot be pruned")
        left = self._kept[~np.isin(self._kept, removed)]
        return self.copy().reset(self._book.ids[left])

    def only(self, words: ArrayLike) -> Self:
        """Return a copy of the state that keeps only these words (ids)."""
        return self.copy().reset(self._book.ids[self._book.positions(words)])

    def copy(self) -> Self:
        """Return an independent state; arrays that no move changes are shared."""
        other = copy.copy(self)
        for name in (*self._own, "_table", "_kept", "_column", "_changed"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def _refuse(self, words: Positions, *, kept: bool, problem: str) -> None:
        wrong = words[(self._column[words] >= 0) == kept]
        if len(wrong):
            raise ParameterError(
                f"word {int(self._book.ids[wrong[0]])} {problem} ({self.n_kept} of "
                f"{self._book.n_words} words are kept)."
            )

    def _restart(self, kept: Positions) -> None:
        self._name_columns(np.array(kept, dtype=np.int64))
        self._undo_log = None
        self._begin()
        self._changed = np.arange(len(kept))

    def _name_columns(self, kept: Positions) -> None:
        self._kept = kept
        self._column[:] = -1
        self._column[kept] = np.arange(len(kept))

    def _on_undo(self, step: Callable[[], Any]) -> None:
        """Have ``undo`` run this step, after those that later parts of the swap append."""
        if self._undo_log is not None:
            self._undo_log.append(step)

    def _save(self, array: NDArray[Any], index: Any = slice(None)) -> None:
        """Have ``undo`` restore these entries of an array that the swap is about to change."""
        values = array[index].copy()
        self._on_undo(lambda: array.__setitem__(index, values))

    def _swap(self, removed: Positions, added: Positions) -> None:
        n_before, n_same = self.n_kept, min(len(removed), len(added))
        n_after = n_before - len(removed) + len(added)
        from_columns = self._column[removed].astype(np.int64)
        to_columns = np.concatenate(
            [from_columns[:n_same], np.arange(n_before, n_before + len(added) - n_same)]
        )
        self._table[n_before:n_after] = 0
        more = np.zeros(max(n_after - n_before, 0), dtype=np.int64)
        self._kept = np.concatenate([self._kept, more])
        self._column[removed] = -1
        self._column[added] = to_columns
        self._kept[to_columns] = added
        holes = np.sort(from_columns[n_same:])
        touched = self._follow(Swap(removed, from_columns, added, to_columns))
        self._changed = self._close(holes, n_after, touched)

    def _close(
        self, holes: NDArray[np.int64], n_after: int, touched: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Move the last columns into the holes; return the touched columns by their new places."""
        if not len(holes):
            return touched
        last = np.setdiff1d(np.arange(n_after, self.n_kept), holes)
        free = holes[holes < n_after]
        self._save(self._table, free)
        self._table[free] = self._table[last]
        self._kept[free] = self._kept[last]
        self._kept = self._kept[:n_after].copy()
        self._column[self._kept] = np.arange(n_after)
        return np.union1d(touched[touched < n_after], free)

    @abstractmethod
    def _begin(self) -> None:
        """Fill the first ``n_kept`` columns from scratch; ``_kept`` and ``_column`` are set."""

    @abstractmethod
    def _follow(self, swap: Swap) -> NDArray[np.int64]:
        """Follow a move; ``_column`` is that after it, -1 for the removed words.

        Columns of removed words that no word took over are dropped afterwards; until then ``_kept``
        still names them. What it changes it saves first (``_save``, ``_on_undo``). Returns the
        touched columns, ascending.
        """

    def variance(self) -> NDArray[np.float64]:
        """Return the variance of each entry by Proposition 1, ``(n_bags, n_kept)``; 0 if exact."""
        return np.zeros((self.n_bags, self.n_kept))

    def bound(self) -> NDArray[np.float64] | None:
        """Return a proven bound of each bag's L1 error, ``(n_bags,)``; None for approximations."""
        return np.zeros(self.n_bags) if self.is_exact else None

    def fidelity(self, sample: int = 50, *, random_state: Any = 0) -> Fidelity:
        """Re-encode some bags and compare: the certificate that a pruning result carries.

        ``sample`` bags are drawn without repetition from those with descriptors.
        """
        if self._bags is None:
            raise DataError(
                "fidelity re-encodes descriptors, and this state was made from histograms alone. "
                "Make it with whatif(codebook, bags, histograms=...) to have a certificate."
            )
        return compare(self, self._bags, sample, random_state)

    def recode(self, bags: Bags) -> NDArray[np.float32]:
        """Encode ``bags`` with the kept words: the reference, columns as in ``kept``."""
        order = np.argsort(self._kept)
        words = self._book.words_for(bags)[self._kept[order]]
        truth = np.empty((len(bags), self.n_kept), dtype=np.float32)
        truth[:, order] = self._code(bags, words)
        return truth

    @abstractmethod
    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encode and pool with these words."""

    def recoding_error(self, chosen: Bags) -> NDArray[np.float64]:
        """Return a bound of the rounding error of ``recode`` itself, ``(n_bags,)``."""
        return np.zeros(len(chosen))


def _size(value: Any) -> int:
    if isinstance(value, np.memmap):
        return 0
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None or value.base.nbytes <= value.nbytes else 0
    # A named tuple of arrays; other parts of a state count themselves.
    return sum(map(_size, value)) if isinstance(value, tuple) else getattr(value, "n_bytes", 0)
