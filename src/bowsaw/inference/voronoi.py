"""``voronoi``: the paper's Eq. 3 by quadrature, for descriptors of up to three dimensions.

**The problem.** Descriptors of word l are N(c_l, σ²I). Pruning words S hands those in l's cell to
their first survivors, so

    Λ_kl = P(k is the nearest survivor | l is the nearest of all words),

a ratio of Gaussian masses of convex bodies. The paper writes it for one word (Eq. 3) and calls it
intractable; up to three dimensions it is the reference for Proposition 1.

**The method.** With c_l at the origin and σ = 1, the cell ends along a ray t·u where another word
becomes nearer. The squared distances to the survivors differ by linear functions of t, so the
nearest survivor changes at the corners of their lower envelope. A piece of the ray has as mass a
difference of the chi distribution function. What is left is the mean over directions u: equally
spaced angles in the plane, a Fibonacci lattice on the sphere.

**Accuracy.** To rounding on a line, about 10⁻⁴ in the plane and 10⁻³ in space. **Cost.** Some
milliseconds per pruned word for a few dozen survivors; a move computes all again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from bowsaw._arrays import Bools, Float64, Int64
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.inference.sampled import sigma_or_estimate
from bowsaw.inference.state import Positions
from bowsaw.inference.transfer import Sources, TransferState

N_ANGLES, N_POINTS = 12288, 16384
"""The angles are a multiple of 12, so that lattices are shared equally."""


class VoronoiState(TransferState):
    """Histograms in which Gaussian cells go to their first survivors, by quadrature.

    Parameters
    ----------
    codebook, full, **given
        As for :class:`TransferState`.
    sigma : float or None, default=None
        Standard deviation in each direction, in unit-norm units; None for that of ``bags``.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[-1.3], [0.0], [0.8]])
    >>> state = VoronoiState(book, [[0.0, 1.0, 0.0]], sigma=0.7)
    >>> state.without([1]).histograms.round(4).tolist()
    [[0.3409..., 0.6590...]]
    """

    def __init__(
        self, codebook: Codebook, full: ArrayLike, *, sigma: float | None = None, **given: Any
    ) -> None:
        if codebook.n_dims > 3:
            raise ParameterError(
                f"transfer='voronoi' integrates over cells of at most 3 dimensions; the words have "
                f"{codebook.n_dims}. Use 'gaussian' for the same model by samples, 'empirical' for "
                "shares from training descriptors, or 'exact'."
            )
        super().__init__(codebook, full, **given)
        self.sigma = sigma_or_estimate(sigma, codebook, self._bags, self._n_jobs)
        self._points = codebook.words.astype(np.float64) / codebook.scale / self.sigma
        # The share of each pruned word (column) that each survivor (row) takes.
        self._shares = np.zeros((codebook.n_words, codebook.n_words))
        self.reset()

    def _restart_transfer(self, kept: Bools) -> None:
        survivors = np.flatnonzero(kept)
        self._shares = np.zeros_like(self._shares)
        for word in np.flatnonzero(~kept).tolist():
            self._shares[survivors, word] = cell_shares(self._points, word, survivors)

    def _follow_transfer(self, removed: Positions, added: Positions, kept: Bools) -> Positions:
        before = self._shares
        self._on_undo(lambda: setattr(self, "_shares", before))
        self._restart_transfer(kept)
        touched = (self._shares != before).any(axis=1)
        touched[added] = True
        return np.flatnonzero(touched & kept)

    def _sources(self, words: Positions) -> Sources:
        row, sources = np.nonzero(self._shares[words])
        starts = np.searchsorted(row, np.arange(len(words) + 1))
        return Sources(starts, sources, self._shares[words[row], sources])


def directions(n_dims: int) -> Float64:
    """Return unit vectors of equal weight, ``(n, n_dims)``."""
    if n_dims == 1:
        return np.array([[-1.0], [1.0]])
    if n_dims == 2:
        angles = 2 * np.pi * (np.arange(N_ANGLES) + 0.5) / N_ANGLES
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    z = 1 - (2 * np.arange(N_POINTS) + 1) / N_POINTS
    turns = np.pi * (1 + 5**0.5) * np.arange(N_POINTS)
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(turns), flat * np.sin(turns), z], axis=1)


def cell_shares(points: Float64, word: int, survivors: Int64) -> Float64:
    """Return what each survivor takes of a pruned word; ``points`` are in units of σ."""
    n_dims = points.shape[1]
    away = points - points[word]
    squares, along = (away**2).sum(axis=1), directions(n_dims) @ away.T
    with np.errstate(divide="ignore", invalid="ignore"):
        end = np.where(along > 0, squares / (2 * along), np.inf).min(axis=1)
        squares, along = squares[survivors], along[:, survivors]
        rays = np.arange(len(end))
        nearest = np.full(len(end), np.argmin(squares))
        begin, masses = np.zeros(len(end)), np.zeros(len(survivors))
        while len(rays):
            # Where the next survivor becomes nearer than the present one.
            faster = along[rays] - along[rays, nearest][:, None]
            turns = (squares - squares[nearest][:, None]) / (2 * faster)
            turns = np.where(faster > 0, np.maximum(turns, begin[:, None]), np.inf)
            following = turns.argmin(axis=1)
            stop = np.minimum(turns[np.arange(len(rays)), following], end[rays])
            mass = gammainc(n_dims / 2, stop**2 / 2) - gammainc(n_dims / 2, begin**2 / 2)
            masses += np.bincount(nearest, mass, minlength=len(survivors))
            goes_on = stop < end[rays]
            rays, nearest, begin = rays[goes_on], following[goes_on], stop[goes_on]
    if not masses.sum() > 0:
        raise ParameterError("sigma is too large: the cells have no mass. Give a smaller sigma.")
    return np.asarray(masses / masses.sum())
