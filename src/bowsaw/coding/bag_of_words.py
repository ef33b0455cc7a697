"""The transformer from bags to histograms: coding and average pooling.

Bags are coded in chunks: by threads of this process, or on a cluster. There the words are sent to
the workers once, and for each chunk the places of its bags; workers read them from the store.

Wherever a codebook is a parameter, an estimator that learns one is accepted: anything with ``fit``
that has a ``codebook_`` afterwards. It is cloned, so that the parameter stays as given and a grid
search reaches its parameters (``annealing__codebook__n_words``).
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifierCV

from bowsaw._arrays import Float32
from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import check_sharpness, sharpness_for, soft_histograms
from bowsaw.errors import DataError, ParameterError
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel.dask import Cluster, OnCluster, block_size, connected
from bowsaw.progress import CallbackSupport, Progress, Task, fit_task, with_callbacks
from bowsaw.random_streams import seed_from
from bowsaw.store.shards import ShardRefs
from bowsaw.validation import check_choice, check_length, check_real

CHUNK_BAGS = 128
"""Bags per chunk that this process codes."""
SHARPNESS_GRID = (10.0, 20.0, 40.0, 80.0, 160.0)
_RIDGES = tuple(float(10.0**e) for e in range(-5, 2))


class BagOfWords(OnCluster, CallbackSupport, TransformerMixin, BaseEstimator):
    """Code the descriptors of each bag with a codebook and pool the codes into a histogram.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words. An estimator with ``codebook_`` (such as ``KMeansCodebook``) is fitted by
        ``fit``.
    coding : {"hard", "soft"}, default="hard"
        Hard: a descriptor counts for its nearest word. Soft: it is distributed over all words.
    sharpness : float or "auto", default=40.0
        For soft coding, in units of unit-norm descriptors: the larger, the nearer to hard coding.
        With ``"auto"``, ``fit`` chooses from 10, 20, 40, 80, 160 by the leave-one-out error of a
        ridge classifier on the square-rooted histograms of the training bags.
    perplexity : float or None, default=None
        Instead of a sharpness: the mean number of words per descriptor, between 1 and n_words;
        ``fit`` finds the sharpness.
    random_state : int, RandomState or None, default=None
        Draws the sample that ``perplexity`` is measured on.
    n_jobs : int or None, default=-1
        Threads; the result does not depend on it.
    parallel : distributed.Client, str or None, default=None
        A Dask client, or the address of a scheduler: its workers read and code the bags instead of
        threads. The bags must come from a store that workers see under the same path.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    codebook_ : Codebook
        The words in use.
    sharpness_ : float
        The sharpness in use.

    Notes
    -----
    ``fit`` is needed only with an estimator as codebook, ``"auto"`` or ``perplexity``. An empty bag
    gives a row of zeros and a warning.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.1], [0.9], [1.0]]), np.array([[0.0]])]
    >>> bow = bs.BagOfWords(codebook=[[0.0], [1.0]])
    >>> bow.transform(bags).round(2)
    array([[0.33, 0.67],
           [1.  , 0.  ]], dtype=float32)
    >>> bow.get_feature_names_out().tolist()
    ['word0000', 'word0001']
    """

    def __init__(
        self,
        codebook: Codebook | ArrayLike | Any,
        *,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float | Literal["auto"] = 40.0,
        perplexity: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        parallel: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.codebook = codebook
        self.coding = coding
        self.sharpness = sharpness
        self.perplexity = perplexity
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.parallel = parallel
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Bags | Iterable[ArrayLike], y: ArrayLike | None = None) -> Self:
        """Learn the words and the sharpness, where they are not given.

        Parameters
        ----------
        X : Bags or list of arrays
            Training bags.
        y : array-like of shape (n_bags,), optional
            Labels; needed for ``sharpness="auto"``.
        """
        self._validate()
        bags = as_bags(X)
        with fit_task(self, int(learns(self.codebook)), X=bags, y=y) as task:
            self.codebook_ = words_from(self.codebook, bags, y, task)
            self.n_features_in_, self.n_features_out_ = bags.n_dims, self.codebook_.n_words
            bags = self.codebook_.project(bags)
            words = self.codebook_.words_for(bags)
            if self.coding == "soft" and self.perplexity is not None:
                seed = seed_from(self.random_state)
                self.sharpness_ = sharpness_for(bags, words, float(self.perplexity), seed)
            elif self.coding == "soft" and self.sharpness == "auto":
                self.sharpness_ = self._best_sharpness(bags, words, y)
            elif self.sharpness != "auto":
                self.sharpness_ = float(self.sharpness)
        return self

    def transform(self, X: Bags | Iterable[ArrayLike]) -> NDArray[np.float32]:
        """Return the histograms.

        Parameters
        ----------
        X : Bags or list of arrays
            One bag per row of the result.

        Returns
        -------
        ndarray of shape (n_bags, n_words), float32
            Rows sum to 1 (to 0 for an empty bag).
        """
        bags = as_bags(X)
        out = np.empty((len(bags), self.words_in_use().n_words), dtype=np.float32)
        return self.transform_into(bags, out)

    def transform_into(self, bags: Bags, out: NDArray[np.float32]) -> NDArray[np.float32]:
        """Write the histograms to ``out``, ``(n_bags, n_words)``, which may be memory-mapped."""
        self._validate()
        book = self.words_in_use()
        # The kernels trust the shape: a smaller array would be written past its end.
        if out.shape != (len(bags), book.n_words) or out.dtype != np.float32:
            raise ParameterError(
                f"out must be float32 of shape {(len(bags), book.n_words)} (bags, words); got "
                f"{out.dtype} of shape {out.shape}."
            )
        if not len(bags):
            return out
        bags, coder = self._coder(bags)
        _warn_of_empty(bags)
        return self._code(bags, coder, out, bool(self.verbose))

    def transform_chunks(self, bags: Bags) -> Generator[tuple[int, Float32], None, None]:
        """Yield ``(first bag, histograms)`` of some consecutive bags at a time.

        Together they equal what ``transform`` returns; only a few are in memory at a time.

        Examples
        --------
        >>> import bowsaw as bs
        >>> bow = bs.BagOfWords(codebook=[[0.0], [1.0]])
        >>> [(i, rows.tolist()) for i, rows in bow.transform_chunks(bs.Bags([[0.1]]))]
        [(0, [[1.0, 0.0]])]
        """
        self._validate()
        bags, coder = self._coder(bags)
        _warn_of_empty(bags)
        with connected(self.parallel) as cluster:
            if cluster is not None:
                yield from _code_on_cluster(cluster, bags, coder)
                return
            for start in range(0, len(bags), CHUNK_BAGS):
                yield start, coder.code(bags[start : start + CHUNK_BAGS], n_jobs=self.n_jobs)

    def _coder(self, bags: Bags) -> tuple[Bags, Coder]:
        """Return the bags in the space of the words, and what codes them."""
        bags = self.words_in_use().project(bags)
        words = self.words_in_use().words_for(bags)
        return bags, Coder(words, None if self.coding == "hard" else self.sharpness_in_use())

    def _code(self, bags: Bags, coder: Coder, out: Float32, verbose: bool = False) -> Float32:
        """Write the histograms to ``out``, by threads or by the workers of a cluster."""
        with connected(self.parallel) as cluster:
            if cluster is None:
                return coder.code(bags, out, self.n_jobs, verbose)
            with (
                Progress("coding", len(bags), show=verbose) as bar,
                closing(_code_on_cluster(cluster, bags, coder)) as chunks,
            ):
                for start, rows in chunks:
                    out[start : start + len(rows)] = rows
                    bar.step(len(rows))
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return names such as ``word0042`` from the words' ids, which pruning keeps."""
        return self.words_in_use().names()

    def words_in_use(self) -> Codebook:
        """Return the fitted codebook, or the given one."""
        if not hasattr(self, "codebook_") and learns(self.codebook):
            raise NotFittedError(
                "this BagOfWords learns its codebook: call fit with training bags first."
            )
        return as_codebook(getattr(self, "codebook_", self.codebook))

    def sharpness_in_use(self) -> float:
        """Return the fitted sharpness, or the given one."""
        if hasattr(self, "sharpness_"):
            return float(self.sharpness_)
        if self.sharpness == "auto" or self.perplexity is not None:
            raise NotFittedError(
                "this BagOfWords chooses its sharpness: call fit with training bags first."
            )
        return float(self.sharpness)

    def _learns(self) -> bool:
        learns_sharpness = self.sharpness == "auto" or self.perplexity is not None
        return learns(self.codebook) or (self.coding == "soft" and learns_sharpness)

    def _validate(self) -> None:
        check_choice(self.coding, "coding", ("hard", "soft"))
        if not (isinstance(self.sharpness, str) and self.sharpness == "auto"):
            check_sharpness(self.sharpness, remedy="Or pass 'auto'.")
        if self.perplexity is not None:
            check_real(self.perplexity, "perplexity", 1, open_low=True)

    def _best_sharpness(self, bags: Bags, words: Float32, y: ArrayLike | None) -> float:
        if y is None:
            raise ParameterError("sharpness='auto' needs labels: call fit(bags, y).")
        labels = np.asarray(y)
        check_length(labels, len(bags))
        if len(np.unique(labels)) < 2:
            raise DataError(
                f"sharpness='auto' needs at least 2 classes; got {len(bags)} bags of "
                f"{len(np.unique(labels))}. Pass a number instead."
            )
        best, chosen = -np.inf, SHARPNESS_GRID[0]
        for sharpness in SHARPNESS_GRID:
            out = np.empty((len(bags), len(words)), dtype=np.float32)
            rooted = np.sqrt(self._code(bags, Coder(words, sharpness), out))
            ridge = RidgeClassifierCV(alphas=_RIDGES).fit(rooted, labels)
            if ridge.best_score_ > best:
                best, chosen = float(ridge.best_score_), sharpness
        return chosen

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "codebook_") or not self._learns()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self._learns()
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags


def learns(codebook: Any) -> bool:
    """Return whether a parameter ``codebook`` is an estimator that learns one."""
    return hasattr(codebook, "fit")


def words_from(
    codebook: Any, bags: Bags, y: ArrayLike | None = None, task: Task | None = None
) -> Codebook:
    """Return the given codebook, or the one that its estimator learns, as a part of ``task``."""
    if not learns(codebook):
        return as_codebook(codebook)
    if isinstance(codebook, ClusterMixin):
        raise ParameterError(
            f"codebook must be words, or an estimator that learns them from bags; got "
            f"{type(codebook).__name__}, which learns from an array. Pass KMeansCodebook(…), or a "
            "fitted KMeans by from_sklearn(…)."
        )
    learner = clone(codebook)
    with (task or Task()).delegate("words", learner):
        learner.fit(bags, y)
    return as_codebook(learner.codebook_)


@dataclass(frozen=True, eq=False)
class Coder:
    """Words in the bags' stored units, and the sharpness; None for hard coding."""

    words: Float32
    sharpness: float | None = None

    def code(
        self, bags: Bags, out: Float32 | None = None, n_jobs: int | None = 1, verbose: bool = False
    ) -> Float32:
        """Return the histograms, ``(n_bags, n_words)``, in ``out`` where it is given."""
        if self.sharpness is None:
            return hard_histograms(bags, self._search, out=out, n_jobs=n_jobs, verbose=verbose)
        return soft_histograms(
            bags, self.words, self.sharpness, out=out, n_jobs=n_jobs, verbose=verbose
        )

    @cached_property
    def _search(self) -> WordSearch:
        # Once for all chunks of a process.
        return WordSearch(self.words)


def coded(
    bags: Bags,
    codebook: Codebook,
    coding: Literal["hard", "soft"],
    sharpness: float,
    n_jobs: int | None = -1,
) -> Float32:
    """Return the histograms as an array, also under ``set_config(transform_output="pandas")``."""
    coder = BagOfWords(codebook, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
    histograms: Float32 = coder.set_output(transform="default").transform(bags)
    return histograms


def _code_on_cluster(
    cluster: Cluster, bags: Bags, coder: Coder
) -> Generator[tuple[int, Float32], None, None]:
    """Yield ``(first bag, histograms)`` of consecutive chunks, coded by the workers."""
    located = ShardRefs.of(bags)
    cluster.check(located.landmarks())
    size = block_size(len(bags))
    starts = range(0, len(bags), size)
    chunks = (located.bags(start, start + size) for start in starts)
    with (
        cluster.shared(Coder, coder.words, coder.sharpness) as shared,
        closing(cluster.ordered_map(_code_chunk, chunks, shared)) as histograms,
    ):
        yield from zip(starts, histograms, strict=True)


def _code_chunk(located: ShardRefs, coder: Coder) -> Float32:
    return coder.code(located.open())


def _warn_of_empty(bags: Bags) -> None:
    empty = int((bags.counts == 0).sum())
    if empty:
        warnings.warn(
            f"{empty} of {len(bags)} bags have no descriptors; their rows are zero.",
            UserWarning,
            stacklevel=4,
        )
