"""Entry point: infer histograms under any subset of words.

================  ==================  =============================================================
coding            transfer            state
================  ==================  =============================================================
``"hard"``        ``"exact"``         re-encoding itself, by ranked lists; the default
``"hard"``        ``"uniform"``       the paper's Eq. 6, from histograms alone; three policies
``"hard"``        ``"voronoi"``       the paper's Eq. 3 by quadrature, up to three dimensions
``"hard"``        ``"gaussian"``      Eq. 3 by samples of Gaussians
``"hard"``        ``"empirical"``     Eq. 3 by the descriptors of training bags
``"soft"``        ``"exact"``         the paper's Claim 2: renormalised codes
================  ==================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, Literal

from numpy.typing import ArrayLike

from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import check_sharpness
from bowsaw.errors import DataError
from bowsaw.inference.exact import LIMIT_RANKED, ExactState
from bowsaw.inference.sampled import COVARIANCES, MOST_SAMPLES, EmpiricalState, GaussianState
from bowsaw.inference.soft import STORAGES, SoftState
from bowsaw.inference.state import HistogramState
from bowsaw.inference.transfer import TransferState
from bowsaw.inference.uniform import POLICIES, UniformState
from bowsaw.inference.voronoi import VoronoiState
from bowsaw.random_streams import seed_from
from bowsaw.validation import check_choice, check_int, check_options, check_real

_STATES: dict[str, dict[str, type[HistogramState]]] = {
    "hard": {
        "exact": ExactState,
        "uniform": UniformState,
        "voronoi": VoronoiState,
        "gaussian": GaussianState,
        "empirical": EmpiricalState,
    },
    "soft": {"exact": SoftState},
}

TRANSFERS = {coding: tuple(states) for coding, states in _STATES.items()}
"""The ways of inferring, for each coding."""

_GIVEN = ("codebook", "bags", "full", "given", "n_jobs", "verbose")

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "n_ranked": lambda value: check_int(value, "n_ranked", 1, LIMIT_RANKED),
    "max_bytes": lambda value: check_real(value, "max_bytes", 0),
    "neighbours": lambda value: check_int(value, "neighbours", 1),
    "policy": lambda value: check_choice(value, "policy", POLICIES),
    "sigma": lambda value: check_real(value, "sigma", 0, open_low=True),
    "covariance": lambda value: check_choice(value, "covariance", COVARIANCES),
    "n_samples": lambda value: check_int(value, "n_samples", 1, MOST_SAMPLES - 1),
    "smoothing": lambda value: check_real(value, "smoothing", 0),
    "learn_from": as_bags,
    "random_state": seed_from,
    "sharpness": check_sharpness,
    "storage": lambda value: check_choice(value, "storage", STORAGES),
}


def check_transfer(coding: str, transfer: str, **options: Any) -> dict[str, Any]:
    """Return the options of a way of inferring as plain values, or raise a ParameterError."""
    check_choice(coding, "coding", tuple(_STATES))
    remedy = f"These are the ways of inferring for {coding} coding."
    check_choice(transfer, "transfer", TRANSFERS[coding], remedy=remedy)
    make = _STATES[coding][transfer]
    check_options(make, options, f"{coding} coding with transfer={transfer!r}", _GIVEN)
    defaults = {name: item.default for name, item in signature(make).parameters.items()}
    return {
        name: value
        if name not in _CHECKS or (value is None and defaults[name] is None)
        else _CHECKS[name](value)
        for name, value in options.items()
    }


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
    """Return a state of the histograms of a corpus under any words; all are kept at first.

    Parameters
    ----------
    codebook : Codebook or array-like of shape (n_words, n_dims)
        The full codebook.
    bags : Bags or list of arrays, optional
        The corpus. May be left out where ``histograms`` are given and the transfer needs no more.
    coding, transfer : str, default="hard", "exact"
        How descriptors are encoded, and the way of inferring: see the table above.
    histograms : array-like of shape (n_bags, n_words), optional
        Hard histograms of the full codebook, for transfers that infer from them; made from the
        bags when not given.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors per bag, for ``variance`` where there are no bags.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.
    **options
        Of the state: ``n_ranked``, ``max_bytes`` (exact); ``policy``, ``neighbours`` (uniform);
        ``sigma`` (voronoi, gaussian); ``covariance`` (gaussian); ``n_samples``, ``smoothing``,
        ``neighbours``, ``learn_from``, ``random_state`` (gaussian, empirical); ``sharpness``,
        ``storage``, ``max_bytes``, ``folder`` (soft).

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
    options = check_transfer(coding, transfer, **options)
    make: Any = _STATES[coding][transfer]
    book = as_codebook(codebook)
    corpus = None if bags is None else book.project(as_bags(bags))
    if options.get("learn_from") is not None:
        options["learn_from"] = book.project(as_bags(options["learn_from"]))
    if issubclass(make, TransferState):
        if histograms is None:
            if corpus is None:
                raise DataError(
                    "whatif needs a corpus: give bags, or the histograms of the full codebook."
                )
            words = book.words_for(corpus)
            histograms = hard_histograms(corpus, words, n_jobs=n_jobs, verbose=verbose)
        options |= {"n_descriptors": n_descriptors, "bags": corpus, "n_jobs": n_jobs}
        inferred: HistogramState = make(book, histograms, **options)
        return inferred
    if corpus is None or histograms is not None:
        raise DataError(
            f"{coding} coding with transfer={transfer!r} infers from descriptors: give bags and no "
            "histograms. transfer='uniform' infers hard histograms from histograms alone."
        )
    exact: HistogramState = make(book, corpus, n_jobs=n_jobs, verbose=verbose, **options)
    return exact
