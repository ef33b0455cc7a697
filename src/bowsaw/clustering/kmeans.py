"""k-means codebooks: Lloyd's algorithm on every descriptor.

**The problem.** Choose n_words points that minimise the mean squared distance of the descriptors to
their nearest point. Lloyd's algorithm: assign each descriptor to its nearest word, move each word
to the mean of its descriptors, repeat.

**Specifics.**

- Every descriptor is used unless the user asks for a ``sample``.
- The start is k-means++ on a sample of ``init_sample`` descriptors per word.
- The assignment is exact (``bowsaw.nearest``) and starts from what is known from the round before,
  which rules out most words.
- A word without descriptors moves to the descriptor that is farthest from its own word.
- It stops after ``max_iter`` rounds, when nothing changes, or when the objective falls by less than
  ``tol`` of itself.

**Cost** of a round: at most 2 · n_dims · n_words operations per descriptor. **Memory**: the sums of
one part per thread (8 · n_words · n_dims bytes), and per descriptor 4 bytes for the word of the
round before and n_words / 24 for bounds, up to 256 MiB. The start holds two float32 copies of its
sample and 64 distances per row: about 200 MB for 5000 words of 128 dimensions. Descriptors are read
a block at a time.

**Invariants.** The words do not depend on the number of threads or machines (``rounds``), nor on
interruptions: a checkpoint is the state after a round that another follows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import closing
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.checkpoint import Checkpoint, estimator_settings
from bowsaw.clustering.rounds import LocalRows, RemoteRows, draw_numbers
from bowsaw.clustering.seeding import kmeans_plus_plus
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError
from bowsaw.parallel import single_threaded_blas
from bowsaw.parallel.dask import Cluster, OnCluster, connected
from bowsaw.progress import CallbackSupport, Progress, Task, fit_task, with_callbacks
from bowsaw.projection import Projection
from bowsaw.random_streams import seed_from, stream
from bowsaw.validation import check_int, check_real


class KMeansCodebook(  # type: ignore[call-arg]  # a keyword of scikit-learn
    OnCluster,
    CallbackSupport,
    OneToOneFeatureMixin,
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # Bags are not a table
):
    """Learn a codebook by k-means.

    Parameters
    ----------
    n_words : int, default=1000
        Number of words.
    n_components : int or None, default=None
        Project descriptors to so many principal directions, and learn words there: the codebook
        has a ``projection``. None leaves descriptors as they are.
    max_iter : int, default=25
        Maximum number of rounds.
    tol : float, default=1e-4
        Stop when the objective falls by less than this share of itself.
    sample : int or None, default=None
        Learn from this many descriptors, drawn at random; None uses every descriptor.
    init_sample : int, default=32
        The start is drawn from this many descriptors per word.
    random_state : int, RandomState or None, default=None
        The same seed gives the same words, on any number of threads.
    checkpoint : path-like or None, default=None
        A file for the state, written every few seconds. An interrupted fit with the same
        parameters, bags and seed continues from it and gives the same words; anything else is
        refused. ``fit`` does not remove it: do so once the words are saved.
    n_jobs : int or None, default=-1
        Threads.
    parallel : distributed.Client, str or None, default=None
        A Dask client, or the address of a scheduler: its workers read and assign the descriptors
        instead of threads. The bags must come from a store that workers see under the same path.
    verbose : bool, default=False
        Show progress and the objective on a terminal.

    Attributes
    ----------
    codebook_ : Codebook
        The words, with their provenance.
    objective_ : float
        Mean squared distance of a descriptor to its nearest word, in unit-norm units, before the
        last move of the words.
    objectives_ : list of float
        The objective of each round.
    n_iter_ : int
        Number of rounds.
    counts_ : ndarray of shape (n_words,), int64
        Descriptors of each word in the last round.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.0], [1.0]]), np.array([[8.0], [9.0]])]
    >>> book = bs.KMeansCodebook(n_words=2, random_state=0).fit(bags).codebook_
    >>> sorted(book.words[:, 0].tolist())
    [0.5, 8.5]
    """

    def __init__(
        self,
        n_words: int = 1000,
        *,
        n_components: int | None = None,
        max_iter: int = 25,
        tol: float = 1e-4,
        sample: int | None = None,
        init_sample: int = 32,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = -1,
        parallel: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_words = n_words
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.sample = sample
        self.init_sample = init_sample
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.parallel = parallel
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Bags | Iterable[ArrayLike], y: Any = None) -> Self:
        """Learn the words.

        Parameters
        ----------
        X : Bags or list of arrays
            Training bags; may be on disk.
        y : ignored
        """
        self._validate()
        bags = as_bags(X)
        with fit_task(self, int(self.max_iter), X=bags, y=y) as task:
            self._learn(bags, task)
            self.n_features_in_ = bags.n_dims
        return self

    def _learn(self, bags: Bags, task: Task) -> None:
        seed = seed_from(self.random_state)
        given, projection = bags, self._projection(bags, seed)
        bags = bags if projection is None else bags.projected(projection)
        with (
            connected(self.parallel) as cluster,
            single_threaded_blas(),
            closing(self._training_rows(bags, seed, cluster)) as data,
        ):
            n_distinct = _distinct_up_to(data, self.n_words)
            if n_distinct < self.n_words:
                raise DataError(
                    f"n_words must be at most the number of distinct descriptors ({n_distinct}); "
                    f"got {self.n_words}. Use more images or ask for fewer words."
                )
            saved = Checkpoint(self.checkpoint, self._fingerprint(given, seed))
            show = bool(self.verbose) and not task.observed
            with Progress("k-means", self.max_iter, show=show) as bar:
                words, objectives, counts = self._lloyd(data, bags.scale, seed, saved, bar, task)
        self.objectives_ = [value / bags.scale**2 for value in objectives]
        self.objective_ = self.objectives_[-1]
        self.n_iter_ = len(objectives)
        self.counts_ = counts
        self.codebook_ = Codebook(
            words,
            scale=bags.scale,
            description=given.description,
            provenance=self._provenance(bags, data.n_descriptors, seed),
            trained_on=bags.digests,
            projection=projection,
        )

    def transform(self, X: Bags | Iterable[ArrayLike]) -> Bags:
        """Return the bags unchanged, so that a pipeline can contain the training of its words."""
        return as_bags(X)

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: Bags are not a table. A pipeline may still ask for tables at its end."""
        return self

    def _lloyd(
        self,
        data: LocalRows | RemoteRows,
        scale: float,
        seed: int,
        saved: Checkpoint,
        bar: Progress,
        task: Task,
    ) -> tuple[NDArray[np.float32], list[float], NDArray[np.int64]]:
        before = saved.load()
        if before is None:
            words, objectives = self._start(data, seed), []
        else:
            words, objectives = before[1]["words"], list(before[0]["objectives"])
        bar.begin_at(len(objectives))
        while True:
            with task.part("round"):
                round_ = data.assign(words)
            previous = objectives[-1] if objectives else np.inf
            objectives.append(round_.objective)
            bar.step(note=f"objective {round_.objective / scale**2:.5f}")
            moved = round_.words(words)
            settled = round_.objective >= previous * (1 - self.tol) and round_.counts.all()
            still = np.array_equal(moved, words)
            words = moved
            if settled or still or task.stopped or len(objectives) >= self.max_iter:
                return words, objectives, round_.counts
            if saved.due:
                saved.save({"objectives": objectives}, {"words": words})

    def _projection(self, bags: Bags, seed: int) -> Projection | None:
        """Learn the projection from the descriptors that the words are learned from."""
        if self.n_components is None or not bags.n_descriptors:
            return None
        blocks = LocalRows(bags, self.n_jobs, self._chosen(bags, seed)).blocks()
        n_jobs = self.n_jobs
        return Projection.pca(blocks, int(self.n_components), scale=bags.scale, n_jobs=n_jobs)

    def _chosen(self, bags: Bags, seed: int) -> NDArray[np.int64] | None:
        """Return the rows of the sample, rising; None for all."""
        if self.sample is None or self.sample >= bags.n_descriptors:
            return None
        return draw_numbers(bags.n_descriptors, int(self.sample), stream(seed, "kmeans", "sample"))

    def _training_rows(
        self, bags: Bags, seed: int, cluster: Cluster | None
    ) -> LocalRows | RemoteRows:
        chosen = self._chosen(bags, seed)
        if cluster is None:
            return LocalRows(bags, self.n_jobs, chosen)
        return RemoteRows(bags, cluster, chosen)

    def _start(self, data: LocalRows | RemoteRows, seed: int) -> NDArray[np.float32]:
        rng = stream(seed, "kmeans", "start")
        n_rows = min(data.n_descriptors, self.init_sample * self.n_words)
        rows = data.draw(n_rows, rng).astype(np.float32)
        drawn = rows[kmeans_plus_plus(rows, self.n_words, rng, self.n_jobs)]
        if len(drawn) < self.n_words:
            warnings.warn(
                f"the start of k-means found {len(drawn)} distinct descriptors in a sample of "
                f"{n_rows}, for {self.n_words} words; the others start at the first distinct "
                "descriptors. Raise init_sample, or ask for fewer words.",
                UserWarning,
                stacklevel=2,
            )
            drawn = _fill_up(data, drawn, self.n_words)
        return np.ascontiguousarray(drawn)

    def _validate(self) -> None:
        for name in ("n_words", "max_iter", "init_sample"):
            check_int(getattr(self, name), name, 1)
        if self.n_components is not None:
            check_int(self.n_components, "n_components", 1)
        if self.sample is not None:
            remedy = "It must be at least n_words, or None for every descriptor."
            check_int(self.sample, "sample", int(self.n_words), remedy=remedy)
        check_real(self.tol, "tol", 0)

    def _fingerprint(self, bags: Bags, seed: int) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        settings = estimator_settings(self)
        return {**settings, "seed": seed, "bags": bags.digest(), "version": __version__}

    def _provenance(self, bags: Bags, n_descriptors: int, seed: int) -> dict[str, Any]:
        parts = {} if self.n_components is None else {"n_components": int(self.n_components)}
        return {
            "method": "k-means",
            "n_words": int(self.n_words),
            **parts,
            "max_iter": int(self.max_iter),
            "tol": float(self.tol),
            "sample": None if self.sample is None else int(self.sample),
            "init_sample": int(self.init_sample),
            "seed": seed,
            "n_iter": self.n_iter_,
            "objective": self.objective_,
            "n_images": len(bags),
            "n_descriptors": n_descriptors,
            "version": __version__,
        }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "codebook_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags


def _distinct_up_to(data: LocalRows | RemoteRows, limit: int) -> int:
    """Count distinct descriptors, no further than ``limit``."""
    seen: set[bytes] = set()
    for rows in data.blocks():
        seen.update(row.tobytes() for row in np.unique(_without_signed_zero(rows), axis=0))
        if len(seen) >= limit:
            return limit
    return len(seen)


def _fill_up(
    data: LocalRows | RemoteRows, drawn: NDArray[np.float32], n_words: int
) -> NDArray[np.float32]:
    """Add distinct descriptors, in their order, until there are ``n_words``."""
    seen = {row.tobytes() for row in drawn}
    more: list[NDArray[np.float32]] = []
    for rows in data.blocks():
        for row in _without_signed_zero(rows).astype(np.float32):
            if len(drawn) + len(more) == n_words:
                break
            if row.tobytes() not in seen:
                seen.add(row.tobytes())
                more.append(row)
    return np.concatenate([drawn, np.array(more, dtype=np.float32).reshape(-1, drawn.shape[1])])


def _without_signed_zero(rows: NDArray[Any]) -> NDArray[Any]:
    # Adding zero turns -0.0 into 0.0: the same descriptor, other bytes.
    return np.asarray(rows + rows.dtype.type(0))
