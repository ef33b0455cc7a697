"""How descriptors spread around their words: what the Gaussian transfers need to know.

The paper's model of a word's descriptors is N(c, σ²I) or N(c, Σ) with one Σ for all words. Both are
estimated from the residuals r = x − c of descriptors from their nearest words c:

- σ² = mean ‖r‖² / n_dims;
- S = mean r rᵀ, shrunk toward σ²I: Σ = (1 − w) S + w σ²I with Ledoit and Wolf's weight
  w = min(1, b / d), d = ‖S − σ²I‖² and b = (mean ‖r‖⁴ − ‖S‖²) / n, Frobenius norms, n descriptors.

Residuals are of truncated Gaussians, since a descriptor far from its word has another one; the
paper says nothing of it, and neither estimate corrects for it. Cost: one nearest-word search, and
2 · n_dims² operations a descriptor for S. Sums run over blocks in their order.
"""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.nearest.search import WordSearch, find_blocks


def estimate_sigma(codebook: Codebook, bags: Bags, *, n_jobs: int | None = -1) -> float:
    """Return σ in unit-norm units: the root mean square of residuals a dimension.

    Examples
    --------
    >>> import bowsaw as bs
    >>> estimate_sigma(bs.Codebook([[0.0], [10.0]]), bs.Bags([[-1.0], [1.0], [10.5], [9.5]]))
    0.79...
    """
    total = 0.0
    words = codebook.words_for(bags)
    for start, found in find_blocks(bags, WordSearch(words), n_jobs=n_jobs):
        rows = bags.read(start, start + len(found.code))
        residuals = rows.astype(np.float64) - words[found.code]
        total += float((residuals**2).sum())
    return _root(total / max(bags.n_descriptors * codebook.n_dims, 1)) / bags.scale


def estimate_covariance(
    codebook: Codebook, bags: Bags, *, n_jobs: int | None = -1
) -> NDArray[np.float64]:
    """Return the shrunk covariance, ``(n_dims, n_dims)``, in squared unit-norm units."""
    words = codebook.words_for(bags)
    n_dims, n = codebook.n_dims, max(bags.n_descriptors, 1)
    second, fourth = np.zeros((n_dims, n_dims)), 0.0
    for start, found in find_blocks(bags, WordSearch(words), n_jobs=n_jobs):
        rows = bags.read(start, start + len(found.code))
        residuals = (rows.astype(np.float64) - words[found.code]) / bags.scale
        second += residuals.T @ residuals
        fourth += float(((residuals**2).sum(axis=1) ** 2).sum())
    second /= n
    round_one = _root(float(np.trace(second)) / n_dims) ** 2 * np.eye(n_dims)
    far = float(((second - round_one) ** 2).sum())
    noise = (fourth / n - float((second**2).sum())) / n
    weight = 1.0 if far <= 0 else min(1.0, noise / far)
    shrunk: NDArray[np.float64] = (1 - weight) * second + weight * round_one
    return shrunk


def check_sigma(sigma: object, codebook: Codebook, bags: Bags | None, n_jobs: int | None) -> float:
    """Return a given sigma as a float above 0, or that of the bags."""
    if sigma is None:
        if bags is None:
            raise DataError(
                "sigma is estimated from descriptors, and there are none. Give sigma or bags."
            )
        return estimate_sigma(codebook, bags, n_jobs=n_jobs)
    if isinstance(sigma, numbers.Real) and 0 < float(sigma) < np.inf:
        return float(sigma)
    raise ParameterError(f"sigma must be a finite number above 0 or None; got {sigma!r}.")


def _root(square: float) -> float:
    if not square > 0:
        raise DataError(
            "sigma cannot be estimated: no descriptor differs from its nearest word. Give sigma."
        )
    return float(np.sqrt(square))
