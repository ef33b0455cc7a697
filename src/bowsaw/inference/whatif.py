"""The front door: it asks what the histograms would be with other words.

================  ==================  =============================================================
coding            transfer            state
================  ==================  =============================================================
``"hard"``        ``"exact"``         re-coding itself, by ranked lists; the default
``"hard"``        ``"uniform"``       the paper's Eq. 6, needs histograms alone; three policies
``"hard"``        ``"voronoi"``       the paper's Eq. 3 exactly, up to three dimensions
``"hard"``        ``"gaussian"``      Eq. 3 by samples of Gaussians
``"hard"``        ``"empirical"``     Eq. 3 by the descriptors of training bags
``"soft"``        ``"exact"``         the paper's Claim 2: renormalised codes
``"soft"``        ``"truncated"``     the same with a few words a descriptor and a certified bound
================  ==================  =============================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike

from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.exact import ExactState
from bowsaw.inference.sampled import EmpiricalState, GaussianState
from bowsaw.inference.soft import SoftState
from bowsaw.inference.state import HistogramState
from bowsaw.inference.truncated import TruncatedSoftState
from bowsaw.inference.uniform import UniformState
from bowsaw.inference.voronoi import VoronoiState
from bowsaw.validation import check_options

TRANSFERS = {
    "hard": ("exact", "uniform", "voronoi", "gaussian", "empirical"),
    "soft": ("exact", "truncated"),
}
"""The ways of inferring, for each coding."""

_GIVEN = ("codebook", "bags", "full", "n_descriptors", "n_jobs", "verbose")
_FROM_HISTOGRAMS = ("uniform", "voronoi", "gaussian", "empirical")


def whatif(
    codebook: Codebook | ArrayLike,
    bags: Bags | Iterable[ArrayLike] | None = None,
    *,
    coding: Literal["hard", "soft"] = "hard",
    transfer: str = "exact",
    histograms: ArrayLike | None = None,
    n_descriptors: ArrayLike | None = None,
    n_jobs: int | None = -1,
    verbose: bool = False,
    **options: Any,
) -> HistogramState:
    """Return a state that tells the histograms of a corpus under any subset of the words.

    Parameters
    ----------
    codebook : Codebook or array-like of shape (n_words, n_dims)
        The full codebook.
    bags : Bags or list of arrays, optional
        The corpus. May be left out where ``histograms`` are given and the transfer needs no more.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    transfer : str, default="exact"
        The way of inferring: see the table above.
    histograms : array-like of shape (n_bags, n_words), optional
        Hard histograms of the full codebook, for transfers that infer from them; made from the
        bags when not given.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance`` where there are no bags.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.
    **options
        Of the state: ``n_ranked``, ``max_bytes`` (exact); ``policy``, ``neighbours`` (uniform);
        ``sigma`` (voronoi, gaussian); ``covariance`` (gaussian); ``n_samples``, ``smoothing``,
        ``neighbours``, ``learn_from``, ``random_state`` (gaussian, empirical); ``sharpness``,
        ``storage``, ``max_bytes``, ``folder`` (soft); ``sharpness``, ``n_ranked``, ``tolerance``
        (truncated).

    Returns
    -------
    HistogramState
        All words are kept at first.

    Examples
    --------
    >>> import bowsaw as bs
    >>> state = bs.whatif([[0.0], [1.0], [2.5]], [[[0.1], [0.9], [1.2], [3.0]]])
    >>> state.without([1]).histograms.tolist()
    [[0.75, 0.25]]
    >>> state.swap(remove=[1]).kept.tolist(), state.histograms.tolist()
    ([0, 2], [[0.75, 0.25]])
    >>> guess = bs.whatif([[0.0], [1.0], [2.5]], histograms=[[0.25, 0.5, 0.25]],
    ...                   transfer="uniform")
    >>> guess.without([1]).histograms.tolist()
    [[0.5, 0.5]]
    """
    if coding not in TRANSFERS:
        raise ParameterError(f"coding must be 'hard' or 'soft'; got {coding!r}.")
    if transfer not in TRANSFERS[coding]:
        raise ParameterError(
            f"transfer must be one of {', '.join(TRANSFERS[coding])} for {coding} coding; got "
            f"{transfer!r}."
        )
    book = as_codebook(codebook)
    corpus = None if bags is None else as_bags(bags)
    make = _state_of(coding, transfer)
    check_options(make, options, f"transfer={transfer!r}", _GIVEN)
    if options.get("learn_from") is not None:
        options["learn_from"] = as_bags(options["learn_from"])
    if coding == "hard" and transfer in _FROM_HISTOGRAMS:
        if histograms is None:
            if corpus is None:
                raise DataError(
                    "whatif needs a corpus: give bags, or the histograms of the full codebook."
                )
            words = book.words_for(corpus)
            histograms = hard_histograms(corpus, words, n_jobs=n_jobs, verbose=verbose)
        state: HistogramState = make(
            book, histograms, n_descriptors=n_descriptors, bags=corpus, n_jobs=n_jobs, **options
        )
        return state
    if corpus is None or histograms is not None:
        raise DataError(
            f"{coding} coding with transfer={transfer!r} infers from descriptors: give bags and no "
            "histograms. transfer='uniform' infers hard histograms from histograms alone."
        )
    exact: HistogramState = make(book, corpus, n_jobs=n_jobs, verbose=verbose, **options)
    return exact


def _state_of(coding: str, transfer: str) -> Any:
    if coding == "soft":
        return SoftState if transfer == "exact" else TruncatedSoftState
    return {
        "exact": ExactState,
        "uniform": UniformState,
        "voronoi": VoronoiState,
        "gaussian": GaussianState,
        "empirical": EmpiricalState,
    }[transfer]
