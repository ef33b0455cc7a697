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
    rounding and the state's stated bound can cause, None where the state is approximate.
    """

    n_bags: int
    mean: float
    worst: float
    allowed: float | None

    @property
    def holds(self) -> bool | None:
        """Whether every bag is within ``allowed``; None for an approximation."""
        return None if self.allowed is None else self.worst <= self.allowed

    def record(self) -> dict[str, Any]:
        """Return plain data, as JSON holds it."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        text = f"L1 error {self.mean:.2g} on average, {self.worst:.2g} at worst, {self.n_bags} bags"
        if self.allowed is None:
            return f"{text}; an approximation"
        verdict = "within" if self.holds else "BEYOND"
        return f"{text}; {verdict} the {self.allowed:.2g} that rounding may cause"


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
    bound = state.bound()
    allowed = None if bound is None else float((bound[chosen] + state.recoding_error(some)).max())
    return Fidelity(len(chosen), float(errors.mean()), float(errors.max()), allowed)
