"""Histograms of a corpus under any subset of the words, without re-encoding.

``whatif`` is the entry point; the classes are what it returns. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowsaw.inference.exact import ExactState
    from bowsaw.inference.fidelity import Fidelity
    from bowsaw.inference.sampled import EmpiricalState, GaussianState
    from bowsaw.inference.soft import SoftState
    from bowsaw.inference.state import HistogramState
    from bowsaw.inference.survey import Survey, draw_words, ways_of
    from bowsaw.inference.transfer import TransferState
    from bowsaw.inference.uniform import POLICIES, UniformState
    from bowsaw.inference.voronoi import VoronoiState
    from bowsaw.inference.whatif import TRANSFERS, check_transfer, whatif

_MODULES = {
    "EmpiricalState": "sampled",
    "ExactState": "exact",
    "Fidelity": "fidelity",
    "GaussianState": "sampled",
    "HistogramState": "state",
    "POLICIES": "uniform",
    "SoftState": "soft",
    "Survey": "survey",
    "TRANSFERS": "whatif",
    "TransferState": "transfer",
    "UniformState": "uniform",
    "VoronoiState": "voronoi",
    "check_transfer": "whatif",
    "draw_words": "survey",
    "ways_of": "survey",
    "whatif": "whatif",
}

__all__ = [
    "POLICIES",
    "TRANSFERS",
    "EmpiricalState",
    "ExactState",
    "Fidelity",
    "GaussianState",
    "HistogramState",
    "SoftState",
    "Survey",
    "TransferState",
    "UniformState",
    "VoronoiState",
    "check_transfer",
    "draw_words",
    "ways_of",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"bowsaw.inference.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.inference' has no attribute {name!r}")
