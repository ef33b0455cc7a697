"""``voronoi``: the paper's Eq. 3 exactly, for descriptors of up to three dimensions.

**The problem.** Descriptors of word l are N(c_l, σ²I). Pruning words S hands those in l's cell to
their first survivors, so

    Λ_kl = P(k is the nearest survivor | l is the nearest of all words),

a ratio of Gaussian masses of convex bodies: the cell of l, cut into the parts that lie nearest to
each survivor. The paper writes it for one word (Eq. 3) and calls it intractable, which it is in
128 dimensions. In three it is not, and then it is the yardstick that Proposition 1 is tested with.

**The method.** Put c_l at the origin and let σ = 1. The field F(x) = x G(r) / (4π r³), where G is
the distribution function of the norm of a Gaussian vector, has the Gaussian density as divergence,
so a body's mass is the flux of F through its faces. On a face whose plane has distance h, in polar
coordinates around the plane's nearest point, the radial integral has a closed form: with
B(r) = erf(r/√2) / r,

    ∫ h G(r) / (4π r³) ρ dρ = (h / 4π) (B(h) − B(r)).

What is left is an integral over the angle, edge by edge. Along the line of an edge at distance q
from that point it is ∫ q (B(h) − B(r)) / ρ² du with ρ² = q² + u², r² = h² + ρ². The integrand is an
entire function of u: Gauss and Legendre's rule is exact to rounding on pieces of length 4. Near the
origin, where B(h) − B(r) would cancel, its power series is divided by ρ² term by term.

A line or a plane is a part of space: words get zeros for the missing coordinates, and what the
Gaussian does in the other directions cancels in the ratio. A box of 10 σ closes open cells; the
mass beyond it is below 10⁻²¹.

**Accuracy.** About 10⁻¹³ for words as float32 holds them. Planes that differ by less than 10⁻¹⁰ σ
are taken for one, as those of lattices are up to rounding.

**Cost.** For a pruned word, some microseconds for each pair of the survivors that could reach its
cell; all pairs for words at the rim, whose cells are open. Rows that a move cannot change are kept.
Memory: 8 bytes a pair of words. Meant for tests and pictures, not for large codebooks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.inference import _voronoi_kernel as kernel
from bowsaw.inference.residual_covariance import check_sigma
from bowsaw.inference.state import Positions
from bowsaw.inference.transfer import Givers, TransferState
from bowsaw.parallel import ordered_map

BOX = 10.0
"""Half the width of the box that closes open cells, in σ."""
_PIECE = 4.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_N_TERMS = 20
_CLOSE = 1e-6
_ROOT = np.sqrt(2 / np.pi)
_NOTHING = 1e-13
_LEAST_RADIUS = 1e-4


class VoronoiState(TransferState):
    """Histograms in which Gaussian cells go to their first survivors, computed exactly.

    Parameters
    ----------
    codebook : Codebook
        The full codebook, of words of one, two or three dimensions.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance``; those of ``bags`` by default.
    bags : Bags, optional
        The corpus itself, for ``fidelity`` and to estimate ``sigma``.
    sigma : float or None, default=None
        Standard deviation of a word's descriptors in each direction, in unit-norm units; None for
        that of ``bags``.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[-1.3], [0.0], [0.8]])
    >>> state = VoronoiState(book, [[0.0, 1.0, 0.0]], sigma=0.7)
    >>> state.without([1]).histograms.round(4).tolist()
    [[0.3409..., 0.6590...]]
    """

    _own = ("_shares", "_reach")

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        sigma: float | None = None,
        n_jobs: int | None = -1,
    ) -> None:
        if codebook.n_dims > 3:
            raise ParameterError(
                f"transfer='voronoi' integrates over cells of at most 3 dimensions; the words have "
                f"{codebook.n_dims}. Use 'gaussian' for the same model by samples, 'empirical' for "
                "shares from training descriptors, or 'exact'."
            )
        super().__init__(codebook, full, n_descriptors=n_descriptors, bags=bags, n_jobs=n_jobs)
        self.sigma = check_sigma(sigma, codebook, bags, n_jobs)
        self._points = in_space(codebook.words / codebook.scale / self.sigma)
        n_words = codebook.n_words
        cells = ordered_map(self._cell, range(n_words), n_jobs, ahead=8)
        self._cells = list(cells)
        least = int(np.argmin([radius for _, radius in self._cells]))
        if self._cells[least][1] < _LEAST_RADIUS:
            raise ParameterError(
                f"sigma must be below {1 / _LEAST_RADIUS:g} times the size of every cell; got "
                f"{self.sigma:g}, and word {int(codebook.ids[least])} has a smaller one. Give a "
                "smaller sigma: shares have stopped changing long before."
            )
        # What each survivor (row) takes of each pruned word (column).
        self._shares = np.zeros((n_words, n_words))
        # No survivor farther from a pruned word than this has a part in its cell.
        self._reach = np.zeros(n_words)
        self.reset()

    def _cell(self, word: int) -> tuple[NDArray[np.float64], float]:
        return cell_of(self._points, word, self._book.n_dims)

    def _restart_transfer(self, kept: NDArray[np.bool_]) -> None:
        self._shares[:] = 0
        self._renew(np.flatnonzero(~kept), kept)

    def _follow_transfer(
        self, out: Positions, in_: Positions, kept: NDArray[np.bool_]
    ) -> Positions:
        moved = self._points[np.concatenate([out, in_])]
        away = np.sqrt(((moved - self._points[:, None]) ** 2).sum(axis=2))
        away = away.min(axis=1, initial=np.inf)
        stale = ~kept & (away <= self._reach)
        stale[out] = True
        words = np.flatnonzero(stale)
        renewed = np.concatenate([words, in_])
        touched: NDArray[np.bool_] = np.any(self._shares[:, renewed], axis=1)
        self._shares[:, renewed] = 0
        self._renew(words, kept)
        touched |= np.any(self._shares[:, words], axis=1)
        touched[in_] = True
        return np.flatnonzero(touched & kept)

    def _renew(self, words: Positions, kept: NDArray[np.bool_]) -> None:
        """Compute the shares of these pruned words."""
        survivors = np.flatnonzero(kept)

        def one(word: int) -> tuple[NDArray[np.float64], float]:
            return cell_shares(self._points, word, survivors, *self._cells[word])

        found = ordered_map(one, words.tolist(), self._n_jobs, ahead=8)
        for word, (shares, reach) in zip(words.tolist(), found, strict=True):
            self._shares[survivors, word] = shares
            self._reach[word] = reach

    def _givers(self, words: Positions) -> Givers:
        row, sources = np.nonzero(self._shares[words])
        starts = np.searchsorted(row, np.arange(len(words) + 1))
        return Givers(starts, sources, self._shares[words[row], sources])


def in_space(words: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return words of up to three dimensions with zeros for the missing ones, ``(n_words, 3)``."""
    points = np.zeros((len(words), 3))
    points[:, : words.shape[1]] = words
    return points


def cell_of(
    points: NDArray[np.float64], word: int, n_dims: int
) -> tuple[NDArray[np.float64], float]:
    """Return the cell of a word around itself, cut off at the box, and its radius.

    ``points`` are in units of σ. In the directions that the words do not have, the box is as wide
    as the cell is likely to be: bodies that are long in one direction only round more.
    """
    away = np.delete(points - points[word], word, axis=0)
    squares = (away**2).sum(axis=1)
    order = np.argsort(squares, kind="stable")
    half = np.full(3, BOX)
    half[n_dims:] = min(BOX, float(np.sqrt(squares[squares > 0].min(initial=np.inf))) / 2)
    box = np.zeros((6, 4))
    box[:3, :3], box[3:, :3] = np.eye(3), -np.eye(3)
    box[:, 3] = np.tile(half, 2)
    others = np.ascontiguousarray(away[order])
    body, radius = kernel.cell_of_origin(others, box, float(np.linalg.norm(half)))
    return body, float(radius)


def cell_shares(
    points: NDArray[np.float64],
    word: int,
    survivors: NDArray[np.int64],
    cell: NDArray[np.float64],
    radius: float,
) -> tuple[NDArray[np.float64], float]:
    """Return what each survivor takes of a pruned word, ``(len(survivors),)``, and a distance.

    No survivor farther from the word than that distance takes a part: a point of the cell is within
    ``radius`` of the word, so its nearest survivor is no farther from the word than the word's own
    nearest survivor and twice the radius.
    """
    away = points[survivors] - points[word]
    distances = np.sqrt((away**2).sum(axis=1))
    reach = float(distances.min() + 2 * radius) * (1 + 1e-12)
    near = np.flatnonzero(distances <= reach)
    # The nearest first: they leave little for the others. Equally near ones keep their order.
    near = near[np.argsort(distances[near], kind="stable")]
    chosen = np.ascontiguousarray(away[near])
    masses = np.zeros(len(survivors))
    for k in range(len(near)):
        body = kernel.part_of(k, chosen, cell, radius)
        if len(body):
            masses[near[k]] = max(gaussian_mass(kernel.edges_of(body, radius)), 0)
    shares = masses / masses.sum()
    shares[shares < _NOTHING] = 0
    return shares / shares.sum(), reach


def gaussian_mass(edges: NDArray[np.float64]) -> float:
    """Return the standard Gaussian's mass of a body, given the edges of its faces."""
    if not len(edges):
        return 0.0
    h, q, begin, end = edges.T
    n_pieces = np.maximum(np.ceil((end - begin) / _PIECE), 1).astype(np.int64)
    of = np.repeat(np.arange(len(edges)), n_pieces)
    piece = np.arange(len(of)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    half = (end - begin)[of] / (2 * n_pieces[of])
    middle = begin[of] + (2 * piece + 1) * half
    u = middle[:, None] + half[:, None] * _NODES
    values = _fall(h[of, None] ** 2, q[of, None] ** 2 + u**2) @ _WEIGHTS
    return float((h[of] * q[of] * half * values).sum() / (4 * np.pi))


def _fall(start: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (B(√z) − B(√(z + w))) / w for z = ``start``, w = ``by``, B(r) = erf(r/√2) / r."""
    start = np.broadcast_to(start, by.shape)
    out = np.empty_like(by)
    small = start + by < 1
    close = ~small & (by < _CLOSE)
    plain = ~(small | close)
    out[small] = _fall_by_series(start[small], by[small])
    z, w = start[close], by[close]
    # B satisfies 2 z B′ = √(2/π) e^(−z/2) − B, which gives its derivatives.
    density = _ROOT * np.exp(-z / 2)
    slope = (density - _ball(z)) / (2 * z)
    out[close] = -slope + (density / 2 + 3 * slope) / (4 * z) * w
    z, w = start[plain], by[plain]
    out[plain] = (_ball(z) - _ball(z + w)) / w
    return out


def _ball(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return B(r) = erf(r/√2) / r for r² = ``square``."""
    r = np.sqrt(np.maximum(square, 1e-300))
    ball: NDArray[np.float64] = erf(r / np.sqrt(2)) / r
    return ball


def _fall_by_series(start: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    # B = √(2/π) Σ c_k zᵏ with c_k = (−1/2)ᵏ / (k! (2k + 1)), and ((z + w)ᵏ − zᵏ) / w by recursion.
    power, slope, total = np.ones_like(by), np.zeros_like(by), np.zeros_like(by)
    coefficient = 1.0
    for k in range(1, _N_TERMS):
        slope = (start + by) * slope + power
        power = power * start
        coefficient *= -0.5 / k
        total -= coefficient / (2 * k + 1) * slope
    fall: NDArray[np.float64] = _ROOT * total
    return fall
