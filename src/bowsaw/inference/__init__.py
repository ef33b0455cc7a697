"""Histograms of a corpus under any subset of the words, without re-encoding.

``whatif`` is the entry point; the classes are what it returns.
"""

from __future__ import annotations

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
