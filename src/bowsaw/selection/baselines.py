r"""Baselines: codebooks of the small size that ignore the classes.

All three code with the small codebook alone.

- **RandomSubset**: any ``n_kept`` words are as likely as any other. Where words are many this is a
  strong baseline.
- **FarthestPoint**: the k-centre heuristic of Gonzalez (1985). With kept words T, the next one is

  .. math:: \arg\max_{k \notin T}\ \min_{t \in T} \|c_k - c_t\|,

  the lowest position on a tie. The largest distance of a word to the nearest kept one is at most
  twice the smallest possible. It starts at the word nearest to the mean, so nothing is random.
- **KMeansAtSize**: no selection, but k-means at the small size. Its words are new, with ids from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags, as_bags
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.random_streams import seed_from, stream
from bowsaw.selection.base import Coding, Labels, Selection, Selector


class RandomSubset(Selector):
    """Keep a random subset of the words, each subset as likely as any other.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, random_state, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> book = bs.Codebook(np.eye(6), ids=[3, 5, 7, 9, 11, 13])
    >>> subset = bs.RandomSubset(book, n_kept=2, random_state=0).fit([np.eye(6)])
    >>> subset.selection_.codes_with, subset.codebook_.n_words, subset.transform([np.eye(6)]).shape
    ('pruned', 2, (1, 2))
    """

    name = "random"
    _needs_labels = False
    _uses_bags = False

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.random_state = random_state

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        seed = seed_from(self.random_state)
        drawn = stream(seed, "random subset").choice(codebook.n_words, n_kept, replace=False)
        parameters = {"n_kept": n_kept, "coding": self.coding}
        return self._subset(codebook, drawn, seed=seed, parameters=parameters)


class FarthestPoint(Selector):
    """Keep words that lie far from each other, by the greedy k-centre heuristic.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`.

    Attributes
    ----------
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids) as they were taken. ``selection_.scores`` are minus the distance of the
        farthest word to its nearest kept one after each, in unit-norm units.

    Examples
    --------
    >>> import bowsaw as bs
    >>> far = bs.FarthestPoint([[0.0], [4.0], [5.0], [10.0]], n_kept=3).fit([[[1.0]]])
    >>> far.order_.tolist(), far.selection_.kept.tolist(), far.selection_.scores
    ([2, 0, 3], [0, 2, 3], (-5.0, -5.0, -1.0))
    """

    name = "farthest"
    _needs_labels = False
    _uses_bags = False

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        taken, radii = _farthest_first(codebook.words.astype(np.float64), n_kept)
        self.order_ = codebook.ids[taken]
        scores = tuple((-radii / codebook.scale).tolist())
        parameters = {"n_kept": n_kept, "coding": self.coding}
        return self._subset(codebook, taken, scores=scores, parameters=parameters)


def _farthest_first(
    words: NDArray[np.float64], n_kept: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return positions in the order taken and, after each, the largest distance left."""

    def squares_to(point: NDArray[np.float64]) -> Any:
        # Differences first: the product form would lose the distances of words that lie close.
        return np.square(words - point).sum(axis=1)

    taken, radii = np.empty(n_kept, dtype=np.int64), np.empty(n_kept)
    gap = np.full(len(words), np.inf)
    following = int(np.argmin(squares_to(words.mean(axis=0))))
    for step in range(n_kept):
        taken[step] = following
        np.minimum(gap, squares_to(words[following]), out=gap)
        # Words that lie on a kept one have distance 0 and may still be taken; kept ones may not.
        gap[following] = -1.0
        following = int(np.argmax(gap))
        radii[step] = np.sqrt(max(gap[following], 0.0))
    return taken, radii


class KMeansAtSize(Selector):
    """Train a codebook of the small size by k-means instead of pruning a large one.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, random_state, n_jobs, verbose
        As in :class:`~bowsaw.selection.base.Selector`; the codebook is the one to replace.
    bags : Bags or list of arrays, optional
        The images to train on, such as those of the large codebook; those of ``fit`` by default.
    max_iter, tol, sample, init_sample
        As in :class:`~bowsaw.clustering.kmeans.KMeansCodebook`, with its defaults.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.0], [1.0]]), np.array([[8.0], [9.0]])]
    >>> small = bs.KMeansAtSize([[0.0], [1.0], [8.0], [9.0]], n_kept=2, random_state=0).fit(bags)
    >>> sorted(small.codebook_.words[:, 0].tolist()), small.selection_.kept.tolist()
    ([0.5, 8.5], [0, 1])
    """

    name = "kmeans"
    _needs_labels = False
    _uses_bags = False
    _n_parts = 1

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        bags: Bags | Iterable[ArrayLike] | None = None,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        max_iter: int = 25,
        tol: float = 1e-4,
        sample: int | None = None,
        init_sample: int = 32,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool | int = False,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.bags = bags
        self.max_iter = max_iter
        self.tol = tol
        self.sample = sample
        self.init_sample = init_sample
        self.random_state = random_state
        self.verbose = verbose

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        images = bags if self.bags is None else codebook.project(as_bags(self.bags))
        seed = seed_from(self.random_state)
        names = ("max_iter", "tol", "sample", "init_sample")
        how = {name: getattr(self, name) for name in names}
        more: Any = {"random_state": seed, "n_jobs": self.n_jobs, "verbose": self._shows()}
        trainer = KMeansCodebook(n_kept, **how, **more)
        with self._task.delegate("k-means", trainer):
            trainer.fit(images)
        trained = trainer.codebook_.with_projection(codebook.projection)
        return Selection(
            method=self.name,
            codes_with="pruned",
            codebook=trained,
            kept=trained.ids,
            scores=tuple(-value for value in trainer.objectives_),
            seed=seed,
            parameters={"n_kept": n_kept, "coding": self.coding, **how, "n_bags": len(images)},
        )
