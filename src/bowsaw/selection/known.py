"""What is known already of a corpus under a codebook, so that selectors need not find it again.

Comparing methods means asking many selectors about the same bags and the same large codebook. Most
of them begin alike: with all histograms, or with a state to ask what-if questions of. ``Known``
makes each of these once. A selector that is handed none makes its own, so one that is fitted alone
and one that shares give the same words.

Each item remembers the seconds that making it took. ``charged`` adds them up for every time that
an item is asked for, ``spent`` only when it is made: a fit that shared takes
``elapsed - spent + charged`` seconds for somebody who fits it alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded
from bowsaw.inference.state import HistogramState
from bowsaw.inference.whatif import whatif


class Known:
    """Histograms and states of one corpus under one codebook, each made once.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus.
    max_bytes : int or None
        The most memory that a state of soft codes may take before it goes to disk; None for the
        state's own limit.

    Attributes
    ----------
    spent, charged : float
        Seconds that items took to make, and would have taken were none shared.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = bs.Bags.from_list([np.array([[0.1], [0.9], [1.0]]), np.array([[0.0]])])
    >>> book = bs.Codebook([[0.0], [1.0]])
    >>> known = Known(book, bags)
    >>> known.histograms("hard", 40.0) is known.histograms("hard", 40.0)
    True
    >>> saw = bs.RankedRecoded(book, 1).fit(bags, [0, 1], known=known)
    """

    def __init__(self, codebook: Codebook, bags: Bags, max_bytes: int | None = None) -> None:
        self.codebook = codebook
        self.bags = bags
        self.max_bytes = max_bytes
        self.spent = 0.0
        self.charged = 0.0
        self._items: dict[tuple[Any, ...], tuple[Any, float]] = {}

    def is_of(self, codebook: Codebook, bags: Bags) -> bool:
        """Return whether it is about these words and these bags."""
        return self.bags is bags and self.codebook == codebook

    def histograms(
        self, coding: Literal["hard", "soft"], sharpness: float, n_jobs: int | None = -1
    ) -> NDArray[np.float32]:
        """Return the histograms of all words, ``(n_bags, n_words)``; not to be written to."""

        def make() -> NDArray[np.float32]:
            found = coded(self.bags, self.codebook, coding, sharpness, n_jobs)
            found.setflags(write=False)
            return found

        found: NDArray[np.float32] = self._item(("histograms", *_told(coding, sharpness)), make)
        return found

    def state(
        self,
        coding: Literal["hard", "soft"],
        transfer: str,
        sharpness: float,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> HistogramState:
        """Return a state; whoever asks resets it to the words that it begins with."""

        def make() -> HistogramState:
            options: dict[str, Any] = {}
            if coding == "soft":
                options["sharpness"] = sharpness
                if self.max_bytes is not None and transfer == "exact":
                    options["max_bytes"] = self.max_bytes
            return whatif(
                self.codebook,
                self.bags,
                coding=coding,
                transfer=transfer,
                n_jobs=n_jobs,
                verbose=verbose,
                **options,
            )

        found: HistogramState = self._item((transfer, *_told(coding, sharpness)), make)
        return found

    def _item(self, name: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if name not in self._items:
            begin = time.perf_counter()
            item = make()
            seconds = time.perf_counter() - begin
            self._items[name] = item, seconds
            self.spent += seconds
        item, seconds = self._items[name]
        self.charged += seconds
        return item


def _told(coding: str, sharpness: float) -> tuple[Any, ...]:
    return (coding, float(sharpness)) if coding == "soft" else (coding,)
