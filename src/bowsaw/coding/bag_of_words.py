"""The transformer from bags to histograms: coding and average pooling."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifierCV

from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.chunks import CHUNK_BAGS, Coder, code_on
from bowsaw.coding.soft import sharpness_for
from bowsaw.coding.words import learns, words_from
from bowsaw.errors import DataError, ParameterError
from bowsaw.parallel.cluster import connected
from bowsaw.parallel.estimator import OnCluster
from bowsaw.progress import CallbackSupport, Progress, fit_task, with_callbacks
from bowsaw.random_streams import seed_from

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
        Hard: a descriptor counts for its nearest word. Soft: it is shared among all words.
    sharpness : float or "auto", default=40.0
        For soft coding, in units of unit-norm descriptors: the larger, the nearer to hard coding.
        ``"auto"`` lets ``fit`` choose from 10, 20, 40, 80, 160 by the leave-one-out error of a
        ridge classifier on the square-rooted histograms of the training bags.
    perplexity : float or None, default=None
        Instead of a sharpness: how many words should share a descriptor on average; ``fit`` finds
        the sharpness. Between 1 and n_words.
    random_state : int, RandomState or None, default=0
        Draws the sample that ``perplexity`` is measured on.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    parallel : distributed.Client, str or None, default=None
        A client of Dask, or the address of its scheduler: workers read and code the bags, instead
        of threads. The bags must be those of a store that workers see under the same path. The
        histograms are the same.
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
    ``fit`` is needed only where something is learned: an estimator as codebook, ``"auto"`` or
    ``perplexity``. A bag without descriptors gives a row of zeros and a warning.

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
        random_state: Any = 0,
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
        """Learn what is to be learned: the words, the sharpness.

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
            words = self.codebook_.words_for(bags)
            if self.coding == "soft" and self.perplexity is not None:
                seed = seed_from(self.random_state)
                self.sharpness_ = sharpness_for(bags, words, float(self.perplexity), seed)
            elif self.coding == "soft" and self.sharpness == "auto":
                self.sharpness_ = self._best_sharpness(bags, words, y)
            elif self.sharpness != "auto":
                self.sharpness_ = float(self.sharpness)
            self.n_features_in_, self.n_features_out_ = bags.n_dims, self.codebook_.n_words
        return self

    def transform(self, X: Bags | Iterable[ArrayLike]) -> NDArray[np.float32]:
        """Return the histograms.

        Parameters
        ----------
        X : Bags or list of arrays
            One bag a row of the result.

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
        coder = self._coder(bags)
        _warn_of_empty(bags)
        return self._code(bags, coder, out, bool(self.verbose))

    def transform_chunks(
        self, bags: Bags
    ) -> Generator[tuple[int, NDArray[np.float32]], None, None]:
        """Yield ``(first bag, histograms)`` of some consecutive bags at a time.

        All together are what ``transform`` returns, and never more than a few are in memory.

        Examples
        --------
        >>> import bowsaw as bs
        >>> bow = bs.BagOfWords(codebook=[[0.0], [1.0]])
        >>> [(i, rows.tolist()) for i, rows in bow.transform_chunks(bs.Bags([[0.1]]))]
        [(0, [[1.0, 0.0]])]
        """
        self._validate()
        coder = self._coder(bags)
        _warn_of_empty(bags)
        with connected(self.parallel) as cluster:
            if cluster is not None:
                yield from code_on(cluster, bags, coder)
                return
            for start in range(0, len(bags), CHUNK_BAGS):
                yield start, coder.code(bags[start : start + CHUNK_BAGS], n_jobs=self.n_jobs)

    def _coder(self, bags: Bags) -> Coder:
        words = self.words_in_use().words_for(bags)
        return Coder(words, None if self.coding == "hard" else self.sharpness_in_use())

    def _code(
        self, bags: Bags, coder: Coder, out: NDArray[np.float32], verbose: bool = False
    ) -> NDArray[np.float32]:
        """Write the histograms to ``out``, by threads or by the workers of a cluster."""
        with connected(self.parallel) as cluster:
            if cluster is None:
                return coder.code(bags, out, self.n_jobs, verbose)
            with (
                Progress("coding", len(bags), show=verbose) as bar,
                closing(code_on(cluster, bags, coder)) as chunks,
            ):
                for start, rows in chunks:
                    out[start : start + len(rows)] = rows
                    bar.step(len(rows))
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return ``word0042`` and so on: the words' stable ids, the same after pruning."""
        return self.words_in_use().names()

    def words_in_use(self) -> Codebook:
        """Return the fitted codebook, or the given one where nothing has to be learned."""
        if hasattr(self, "codebook_"):
            fitted: Codebook = self.codebook_
            return fitted
        if learns(self.codebook):
            raise NotFittedError(
                "this BagOfWords learns its codebook: call fit with training bags first."
            )
        return as_codebook(self.codebook)

    def sharpness_in_use(self) -> float:
        """Return the fitted sharpness, or the given one where nothing has to be learned."""
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
        if self.coding not in ("hard", "soft"):
            raise ParameterError(f"coding must be 'hard' or 'soft'; got {self.coding!r}.")
        given = self.sharpness
        is_number = isinstance(given, numbers.Real) and 0 < float(given) < np.inf
        if not is_number and not (isinstance(given, str) and given == "auto"):
            raise ParameterError(
                f"sharpness must be a finite number above 0 or 'auto'; got {given!r}."
            )
        if self.perplexity is not None and not isinstance(self.perplexity, numbers.Real):
            raise ParameterError(f"perplexity must be a number or None; got {self.perplexity!r}.")

    def _best_sharpness(self, bags: Bags, words: NDArray[np.float32], y: ArrayLike | None) -> float:
        if y is None:
            raise ParameterError("sharpness='auto' needs labels: call fit(bags, y).")
        labels = np.asarray(y)
        if labels.shape != (len(bags),):
            raise DataError(f"y must have one label a bag ({len(bags)}); got {labels.shape}.")
        if len(np.unique(labels)) < 2:
            raise DataError(
                f"sharpness='auto' needs bags of two classes or more; got {len(bags)} bags of "
                f"{len(np.unique(labels))}. Give a number instead."
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


def _warn_of_empty(bags: Bags) -> None:
    empty = int((bags.counts == 0).sum())
    if empty:
        warnings.warn(
            f"{empty} of {len(bags)} bags have no descriptors; their rows are zero.",
            UserWarning,
            stacklevel=4,
        )
