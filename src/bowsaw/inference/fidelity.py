"""The certificate: inferred histograms against re-encoding on sampled bags."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.random_streams import seed_from, stream
from bowsaw.validation import check_int

if TYPE_CHECKING:
    from bowsaw.inference.state import HistogramState


@dataclass(frozen=True)
class Fidelity:
    """How far inferred histograms are from re-encoded ones, as L1 distances (0 to 2).

    ``mean`` and ``worst`` are those of the ``n_bags`` bags re-encoded. ``allowed`` is the most that
    rounding and the state's stated bound can cause in any of them, None where the state is
    approximate. ``holds`` is whether each bag is within what is allowed for it.
    """

    n_bags: int
    mean: float
    worst: float
    allowed: float | None
    holds: bool | None

    def record(self) -> dict[str, Any]:
        """Return plain data, as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"L1 error {self.mean:.2g} on average, {self.worst:.2g} at worst, {self.n_bags} bags"
        if self.allowed is None:
            return f"{text}; an approximation"
        verdict = "each within" if self.holds else "some BEYOND"
        return f"{text}; {verdict} what rounding may cause, at most {self.allowed:.2g}"


def compare(state: HistogramState, bags: Bags, sample: int, random_state: Any) -> Fidelity:
    """Re-encode ``sample`` bags with the kept words and compare with what the state infers."""
    n_bags = check_int(sample, "sample", 1)
    full = np.flatnonzero(bags.counts > 0)
    if not len(full):
        raise DataError("fidelity needs bags with descriptors; all are empty.")
    rng = stream(seed_from(random_state), "fidelity")
    chosen = np.sort(rng.choice(full, min(n_bags, len(full)), replace=False))
    some = bags[chosen]
    inferred = state.histograms[chosen].astype(np.float64)
    errors = np.abs(inferred - state.recode(some)).sum(axis=1)
    found = (len(chosen), float(errors.mean()), float(errors.max()))
    bound = state.bound()
    if bound is None:
        return Fidelity(*found, None, None)
    allowed = bound[chosen] + state.recoding_error(some)
    return Fidelity(*found, float(allowed.max()), bool((errors <= allowed).all()))
