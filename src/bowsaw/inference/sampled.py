"""``gaussian`` and ``empirical``: which survivors take over a pruned word, by samples.

**The problem.** Λ_kl, the share of pruned word l's mass that survivor k takes, is the probability
that a descriptor with nearest word l has k as its nearest survivor (paper, Eq. 3, for one pruned
word; for a set, read "first survivor" for "second nearest"). Given descriptors of word l, it is the
share of them whose first survivor is k: no geometry, any number of dimensions, no policy for sets.

``gaussian``
    The paper's model by Monte Carlo: points of N(c_l, Σ), truncated to the cell of l by rejection.
    Σ is σ²I, or one shrunk covariance for all words, the Mahalanobis case. Cells are those of
    Euclidean distance, by which descriptors are encoded.
``empirical``
    Training descriptors by their nearest word, all or a sample of each word's.

Every word has a random stream named after its id: its samples depend on nothing else.

**Spread of descriptors.** From the residuals r = x − c of descriptors from their nearest words:
σ² = mean ‖r‖² / n_dims, and Σ by Ledoit and Wolf's shrinkage toward σ²I, without a correction for
the truncation of the cells.

**Thin cells.** With n_l samples and ``smoothing`` a, row l is (n_l Λ + a U) / (n_l + a) where U is
``uniform`` (nearest-surviving): a prior worth a samples. Under ``gaussian`` it applies only to
cells with fewer samples than asked for.

**The method.** The samples of word l are a bag, and their histogram under the survivors is row l of
Λ. So Λ is an exact state of n_words bags (``exact``), which follows moves and reports the columns
that changed. Samples of kept words stay with their word, so Λ is the identity there.

**Cost.** Of a move: that of an exact state of all samples, and a multiply-add per bag for each
nonzero of Λ in the changed columns. Memory: the samples with their ranked lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import ledoit_wolf

from bowsaw._arrays import Bools, Float64, Int64
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference._transfer_kernel import weigh_samples
from bowsaw.inference.exact import ExactState
from bowsaw.inference.state import Positions
from bowsaw.inference.transfer import NearestSurvivors, Sources, TransferState
from bowsaw.nearest.search import WordSearch, find_blocks, nearest_words
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.random_streams import seed_from, stream

COVARIANCES = ("isotropic", "shared")
MOST_SAMPLES, MOST_RESIDUALS = 2**23, 2**17
"""float32 shares of more samples are ambiguous; residuals that the covariance is estimated from."""
ATTEMPTS, TASK_WORDS, BLOCK_ROWS = 20, 4, 2**14
"""Points drawn for each one wanted before a cell is left with fewer; sizes of tasks."""


class SampledState(TransferState):
    """Histograms in which pruned words give as samples of their descriptors do."""

    _own = ("_samples", "_survivors")

    def _learn(
        self, samples: Bags, priors: Float64, neighbours: int, max_bytes: int = 2**30
    ) -> None:
        """Start with one bag of samples per word, and the samples that the prior is worth."""
        self._survivors = NearestSurvivors(self._book.words, neighbours, self._n_jobs)
        self._n_samples = samples.counts
        self._priors = np.where(self._n_samples == 0, 1.0, priors)
        self._samples = ExactState(self._book, samples, n_jobs=self._n_jobs, max_bytes=max_bytes)
        self.reset()

    @property
    def n_samples(self) -> Int64:
        """Number of samples per word of the full codebook, ``(n_words,)``."""
        return self._n_samples.copy()

    def _restart_transfer(self, kept: Bools) -> None:
        self._survivors.begin(kept)
        self._samples.reset(self._book.ids[kept])

    def _follow_transfer(self, removed: Positions, added: Positions, kept: Bools) -> Positions:
        ids = self._book.ids
        self._on_undo(self._survivors.restorer())
        self._samples.swap(ids[removed], ids[added])
        self._on_undo(self._samples.undo)
        touched = np.zeros(len(kept), dtype=bool)
        touched[self._survivors.follow(removed, added, kept)] = self._priors.any()
        touched[self._samples._kept[self._samples.changed]] = True
        touched[added] = True
        return np.flatnonzero(touched)

    def _sources(self, words: Positions) -> Sources:
        starts, sources = self._survivors.sources(words)
        samples, n_nearest = self._samples, self._survivors.n_nearest
        taken = (samples._column[words], samples.histograms.T, self._n_samples, self._priors)
        return Sources(*weigh_samples(words, *taken, starts, sources, n_nearest))


class GaussianState(SampledState):
    """Histograms in which pruned words give as Gaussians around them do.

    Parameters
    ----------
    codebook, full, **given
        As for :class:`TransferState`.
    n_samples : int, default=200
        Points drawn per word.
    sigma : float or None, default=None
        Standard deviation in each direction, in unit-norm units; None for that of ``learn_from``.
    covariance : {"isotropic", "shared"}, default="isotropic"
        σ²I, or one covariance for all words, estimated from ``learn_from``.
    learn_from : Bags, optional
        Training bags for ``sigma`` or the covariance; ``bags`` by default.
    smoothing, neighbours : float, default=1.0, and int, default=5
        Samples that ``uniform`` is worth in cells that got too few, and its neighbours.
    random_state : int, RandomState or None, default=0
        Draws the samples.
    max_bytes : int, default=1 GiB
        The most memory for samples, their histograms and ranked lists; more samples are refused.

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
        n_samples: int = 200,
        sigma: float | None = None,
        covariance: str = "isotropic",
        learn_from: Bags | None = None,
        smoothing: float = 1.0,
        neighbours: int = 5,
        random_state: Any = 0,
        max_bytes: int = 2**30,
        **given: Any,
    ) -> None:
        # The samples, and their histograms, which are made twice; lists get the rest.
        n_bytes = 4 * codebook.n_words * (n_samples * codebook.n_dims + 2 * codebook.n_words)
        if n_bytes > max_bytes:
            raise ParameterError(
                f"{n_samples} samples of each of {codebook.n_words} words take {n_bytes} bytes, "
                f"and max_bytes is {max_bytes}. Ask for fewer n_samples, or allow more."
            )
        super().__init__(codebook, full, **given)
        source, n_jobs = self._bags if learn_from is None else learn_from, self._n_jobs
        if covariance == "isotropic":
            root = sigma_or_estimate(sigma, codebook, source, n_jobs) * np.eye(codebook.n_dims)
        else:
            if sigma is not None:
                raise ParameterError("sigma has no use with covariance='shared'. Leave it out.")
            # The signs of eigenvectors are arbitrary; the symmetric root does not depend on them.
            energy, axes = np.linalg.eigh(residual_covariance(codebook, source, n_jobs))
            root = (axes * np.sqrt(np.maximum(energy, 0))) @ axes.T
        seed = seed_from(random_state)
        samples = gaussian_samples(codebook, root, n_samples, seed, n_jobs=n_jobs)
        priors = np.where(samples.counts < n_samples, smoothing, 0.0)
        self._learn(samples, priors, neighbours, max_bytes - n_bytes)


class EmpiricalState(SampledState):
    """Histograms in which pruned words give as training descriptors do.

    Parameters
    ----------
    codebook, full, **given
        As for :class:`TransferState`.
    n_samples : int or None, default=None
        Most descriptors per word, drawn without repetition; None for all.
    learn_from : Bags, optional
        The training bags; ``bags`` by default.
    smoothing, neighbours : float, default=1.0, and int, default=5
        Descriptors that ``uniform`` is worth, and its neighbours; 0 for none, except in cells
        without descriptors.
    random_state : int, RandomState or None, default=0
        Draws the descriptors.

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
        n_samples: int | None = None,
        learn_from: Bags | None = None,
        smoothing: float = 1.0,
        neighbours: int = 5,
        random_state: Any = 0,
        **given: Any,
    ) -> None:
        super().__init__(codebook, full, **given)
        source = self._bags if learn_from is None else learn_from
        if source is None:
            raise DataError(
                "transfer='empirical' learns from descriptors. Give bags or learn_from, or use "
                "transfer='uniform'."
            )
        seed = seed_from(random_state)
        samples = empirical_samples(codebook, source, n_samples, seed, n_jobs=self._n_jobs)
        self._learn(samples, np.full(codebook.n_words, smoothing), neighbours)


def gaussian_samples(
    codebook: Codebook, root: Float64, n_samples: int, seed: int, *, n_jobs: int | None = -1
) -> Bags:
    """Return samples of each word's truncated Gaussian, one bag per word; ``root`` is √Σ."""
    words, search = codebook.words, WordSearch(codebook.words)
    stored_root = root * codebook.scale

    values = np.empty((len(words) * n_samples, codebook.n_dims), dtype=np.float32)

    def draw(word: int) -> int:
        random = stream(seed, "gaussian transfer", int(codebook.ids[word]))
        at = word * n_samples
        n_missing, n_left = n_samples, ATTEMPTS * n_samples
        while n_missing and n_left:
            # A few more than are missing, or the last of them would take many rounds.
            n = min(n_missing + n_missing // 4 + 8, n_left)
            n_left -= n
            noise = random.standard_normal((n, codebook.n_dims)) @ stored_root
            rows = (words[word] + noise).astype(np.float32)
            own = rows[search.find(rows) == word][:n_missing]
            values[at : at + len(own)] = own
            n_missing, at = n_missing - len(own), at + len(own)
        return n_samples - n_missing

    def some(first: int) -> list[int]:
        return [draw(word) for word in range(first, min(first + TASK_WORDS, len(words)))]

    with single_threaded_blas():
        blocks = ordered_map(some, range(0, len(words), TASK_WORDS), n_jobs, ahead=8)
        offsets = np.cumsum([0, *(count for block in blocks for count in block)])
    for word, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if start != word * n_samples:
            values[start:stop] = values[word * n_samples :][: stop - start]
    found = values[: offsets[-1]]
    return Bags(found, offsets, scale=codebook.scale, description=codebook.bags_description)


def empirical_samples(
    codebook: Codebook, bags: Bags, n_samples: int | None, seed: int, *, n_jobs: int | None = -1
) -> Bags:
    """Return the descriptors of each word, one bag per word: all, or a sample; in their order."""
    codes = nearest_words(bags, codebook.words_for(bags), n_jobs=n_jobs)
    order = np.argsort(codes, kind="stable")
    limits = np.searchsorted(codes[order], np.arange(codebook.n_words + 1))
    if n_samples is not None:
        kept = np.ones(len(order), dtype=bool)
        for word in np.flatnonzero(np.diff(limits) > n_samples):
            random = stream(seed, "empirical transfer", int(codebook.ids[word]))
            own = np.arange(limits[word], limits[word + 1])
            kept[own] = False
            kept[random.choice(own, n_samples, replace=False)] = True
        order = order[kept]
        limits = np.concatenate([[0], np.cumsum(kept)])[limits]
    values = np.empty((len(order), codebook.n_dims), dtype=bags.dtype)
    by_row = np.argsort(order)
    rows = order[by_row]
    for start, stop in bags.blocks(BLOCK_ROWS):
        begin, end = np.searchsorted(rows, [start, stop])
        block = bags.read(start, stop, dtype=bags.dtype)
        values[by_row[begin:end]] = block[rows[begin:end] - start]
    return Bags(values, limits, scale=bags.scale, description=bags.description)


def _residuals(codebook: Codebook, bags: Bags | None, n_jobs: int | None) -> Iterator[Float64]:
    """Yield what descriptors differ from their nearest words, in unit-norm units, by blocks."""
    if bags is None:
        raise DataError("the spread of descriptors is unknown. Give sigma, bags or learn_from.")
    words = codebook.words_for(bags)
    for start, found in find_blocks(bags, WordSearch(words), n_jobs=n_jobs):
        rows = bags.read(start, start + len(found)).astype(np.float64)
        yield (rows - words[found]) / bags.scale


def sigma_or_estimate(
    sigma: float | None, codebook: Codebook, bags: Bags | None, n_jobs: int | None
) -> float:
    """Return ``sigma``, or the root mean square of residuals per dimension."""
    if sigma is not None:
        return sigma
    total, n = 0.0, 0
    for residuals in _residuals(codebook, bags, n_jobs):
        total, n = total + float((residuals**2).sum()), n + residuals.size
    _check_spread(total)
    return float(np.sqrt(total / n))


def residual_covariance(codebook: Codebook, bags: Bags | None, n_jobs: int | None = -1) -> Float64:
    """Return the shrunk covariance of residuals, ``(n_dims, n_dims)``, in unit-norm units."""
    n_all = 0 if bags is None else bags.n_descriptors
    step = max(1, -(-n_all // MOST_RESIDUALS))
    blocks = [residuals[::step] for residuals in _residuals(codebook, bags, n_jobs)]
    _check_spread(sum(float((block**2).sum()) for block in blocks))
    return np.asarray(ledoit_wolf(np.concatenate(blocks), assume_centered=True)[0])


def _check_spread(total: float) -> None:
    if not total > 0:
        raise DataError("no descriptor differs from its nearest word. Give sigma.")
