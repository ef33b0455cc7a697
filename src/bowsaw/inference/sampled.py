"""``gaussian`` and ``empirical``: who takes over a pruned word, by samples of its descriptors.

**The problem.** Λ_kl, the share of pruned word l's mass that survivor k takes, is the probability
that a descriptor with nearest word l has k as its nearest survivor (paper, Eq. 3, for one pruned
word; for a set, read «first survivor» for «second nearest»). Given descriptors of word l, it is the
share of them whose first survivor is k: no geometry, any number of dimensions, and no policy for
sets.

``gaussian``
    The paper's model by Monte Carlo: points of N(c_l, σ²I) truncated to the cell of l, with σ given
    or estimated; or of N(c_l, Σ) with one shrunk covariance for all words, the Mahalanobis case
    (``spread``, ``samples``).
``empirical``
    Training descriptors themselves. Words share what the corpus says, and no model is needed.

**Thin cells.** Shares from few samples are coarse, from none undefined. With n_l samples and
``smoothing`` a, row l is (n_l Λ + a U) / (n_l + a) where U is ``uniform`` (nearest-surviving): a
prior worth a samples. Under ``gaussian`` it is for the cells alone that got fewer samples than
were asked for.

**The method.** The samples of word l are a bag, and their histogram under the survivors is row l of
Λ. So Λ is an exact state of n_words bags (``exact``): it follows moves by touching the samples that
change hands, says which columns changed, and these columns are mixed anew. Samples of kept words
stay with their word, so Λ is the identity there by itself.

**Cost.** Of a move: that of an exact state of all samples, and a multiply-add a bag for each
nonzero of Λ in the changed columns. Memory: the samples with their ranked lists, and 8 bytes a pair
of words.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference._transfer_kernel import weigh_samples
from bowsaw.inference.exact import ExactState
from bowsaw.inference.nearest_survivors import Heirs
from bowsaw.inference.residual_covariance import check_sigma, estimate_covariance
from bowsaw.inference.samples import empirical_samples, gaussian_samples
from bowsaw.inference.state import Positions
from bowsaw.inference.transfer import Givers, TransferState
from bowsaw.random_streams import seed_from

COVARIANCES = ("isotropic", "shared")
MOST_SAMPLES = 2**23
"""Shares of more samples could not be told apart in float32."""


class SampledState(TransferState):
    """Histograms in which pruned words give as samples of their descriptors do.

    Parameters
    ----------
    codebook, full, n_descriptors, bags, n_jobs
        As of every transfer.
    neighbours : int, default=5
        Of the ``uniform`` that thin cells are smoothed toward.
    """

    _own = ("_samples", "_heirs")

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        neighbours: int = 5,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, full, n_descriptors=n_descriptors, bags=bags, n_jobs=n_jobs)
        self._heirs = Heirs(codebook.words, neighbours, n_jobs=n_jobs)

    def _learn(self, samples: Bags, priors: NDArray[np.float64]) -> None:
        """Start with a bag of samples a word, and how many samples ``uniform`` is worth there."""
        self._n_samples = samples.counts
        self._priors = np.where(self._n_samples == 0, 1.0, priors)
        self._samples = ExactState(self._book, samples, n_jobs=self._n_jobs)
        self.reset()

    @property
    def n_samples(self) -> NDArray[np.int64]:
        """How many samples each word of the full codebook has, ``(n_words,)``."""
        return self._n_samples.copy()

    @property
    def n_bytes(self) -> int:
        """Memory that the state holds in arrays, that of its samples' state included."""
        return super().n_bytes + self._heirs.n_bytes

    def _restart_transfer(self, kept: NDArray[np.bool_]) -> None:
        self._heirs.begin(kept)
        self._samples.reset(self._book.ids[kept])

    def _follow_transfer(
        self, out: Positions, in_: Positions, kept: NDArray[np.bool_]
    ) -> Positions:
        ids = self._book.ids
        self._samples.swap(ids[out], ids[in_])
        touched = np.zeros(len(kept), dtype=bool)
        smoothed = self._heirs.follow(out, in_, kept)
        touched[smoothed] = self._priors.any()
        touched[self._samples._kept[self._samples.changed]] = True
        touched[in_] = True
        return np.flatnonzero(touched)

    def _givers(self, words: Positions) -> Givers:
        starts, sources = self._heirs.givers(words)
        return Givers(
            *weigh_samples(
                words,
                self._samples._column[words],
                self._samples.histograms.T,
                self._n_samples,
                self._priors,
                starts,
                sources,
                self._heirs.n_heirs,
            )
        )


class GaussianState(SampledState):
    """Histograms in which pruned words give as Gaussians around them do.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance``; those of ``bags`` by default.
    bags : Bags, optional
        The corpus itself, for ``fidelity``.
    n_samples : int, default=200
        Points drawn for each word.
    sigma : float or None, default=None
        Standard deviation of a word's descriptors in each direction, in unit-norm units; None for
        that of ``learn_from``.
    covariance : {"isotropic", "shared"}, default="isotropic"
        σ²I, or one covariance for all words, estimated from ``learn_from``.
    learn_from : Bags, optional
        Training bags for ``sigma`` or the covariance; ``bags`` by default.
    smoothing : float, default=1.0
        How many samples ``uniform`` is worth in cells that got fewer than ``n_samples``.
    neighbours : int, default=5
        Of that ``uniform``.
    random_state : int, RandomState or None, default=0
        Draws the samples.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[-1.3], [0.0], [0.8]])
    >>> state = GaussianState(book, [[0.0, 1.0, 0.0]], sigma=0.7, n_samples=10_000)
    >>> state.without([1]).histograms.tolist()
    [[0.34..., 0.66...]]
    """

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        n_samples: int = 200,
        sigma: float | None = None,
        covariance: str = "isotropic",
        learn_from: Bags | None = None,
        smoothing: float = 1.0,
        neighbours: int = 5,
        random_state: Any = 0,
        n_jobs: int | None = -1,
    ) -> None:
        prior, n_drawn = _check_smoothing(smoothing), _check_n_samples(n_samples)
        super().__init__(
            codebook,
            full,
            n_descriptors=n_descriptors,
            bags=bags,
            neighbours=neighbours,
            n_jobs=n_jobs,
        )
        source = bags if learn_from is None else learn_from
        root = _root_of(codebook, source, sigma, covariance, n_jobs)
        seed = seed_from(random_state)
        samples = gaussian_samples(codebook, root, n_drawn, seed, n_jobs=n_jobs)
        self._learn(samples, np.where(samples.counts < n_drawn, prior, 0.0))


class EmpiricalState(SampledState):
    """Histograms in which pruned words give as training descriptors do.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance``; those of ``bags`` by default.
    bags : Bags, optional
        The corpus itself, for ``fidelity``.
    n_samples : int or None, default=None
        Descriptors of a word at most, drawn without repetition; None for all.
    learn_from : Bags, optional
        The training bags; ``bags`` by default.
    smoothing : float, default=1.0
        How many descriptors ``uniform`` is worth; 0 for nothing, but in cells without any.
    neighbours : int, default=5
        Of that ``uniform``.
    random_state : int, RandomState or None, default=0
        Draws the descriptors.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book, bags = bs.Codebook([[0.0], [1.0], [2.5]]), bs.Bags([[0.1], [0.9], [1.2], [3.0]])
    >>> state = EmpiricalState(book, [[0.25, 0.5, 0.25]], bags=bags, smoothing=0)
    >>> state.without([1]).histograms.tolist()
    [[0.75, 0.25]]
    """

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        n_samples: int | None = None,
        learn_from: Bags | None = None,
        smoothing: float = 1.0,
        neighbours: int = 5,
        random_state: Any = 0,
        n_jobs: int | None = -1,
    ) -> None:
        prior = _check_smoothing(smoothing)
        most = None if n_samples is None else _check_n_samples(n_samples)
        super().__init__(
            codebook,
            full,
            n_descriptors=n_descriptors,
            bags=bags,
            neighbours=neighbours,
            n_jobs=n_jobs,
        )
        source = bags if learn_from is None else learn_from
        if source is None:
            raise DataError(
                "transfer='empirical' learns from descriptors, and there are none. Give bags or "
                "learn_from, or use transfer='uniform'."
            )
        samples = empirical_samples(codebook, source, most, seed_from(random_state), n_jobs=n_jobs)
        self._learn(samples, np.full(codebook.n_words, prior))


def _root_of(
    codebook: Codebook,
    bags: Bags | None,
    sigma: float | None,
    covariance: str,
    n_jobs: int | None,
) -> NDArray[np.float64]:
    """Return the symmetric root of the covariance of a word's descriptors, in unit-norm units."""
    if covariance not in COVARIANCES:
        raise ParameterError(
            f"covariance must be one of {', '.join(COVARIANCES)}; got {covariance!r}."
        )
    if covariance == "isotropic":
        return check_sigma(sigma, codebook, bags, n_jobs) * np.eye(codebook.n_dims)
    if sigma is not None:
        raise ParameterError(
            f"sigma = {sigma!r} has no use with covariance='shared', which is estimated from bags. "
            "Leave it out."
        )
    if bags is None:
        raise DataError(
            "covariance='shared' is estimated from descriptors, and there are none. Give bags or "
            "learn_from."
        )
    # Its eigenvectors are known up to their signs only; the symmetric root does not depend on them.
    energy, axes = np.linalg.eigh(estimate_covariance(codebook, bags, n_jobs=n_jobs))
    root: NDArray[np.float64] = (axes * np.sqrt(np.maximum(energy, 0))) @ axes.T
    return root


def _check_smoothing(smoothing: object) -> float:
    if isinstance(smoothing, numbers.Real) and 0 <= float(smoothing) < np.inf:
        return float(smoothing)
    raise ParameterError(f"smoothing must be a finite number from 0 up; got {smoothing!r}.")


def _check_n_samples(n_samples: object) -> int:
    if (
        isinstance(n_samples, bool)
        or not isinstance(n_samples, numbers.Integral)
        or not 1 <= int(n_samples) < MOST_SAMPLES
    ):
        raise ParameterError(
            f"n_samples must be a whole number from 1 to {MOST_SAMPLES - 1}; got {n_samples!r}."
        )
    return int(n_samples)
