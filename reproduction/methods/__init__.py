"""Selectors that the paper cites, written against the public base of ``bowsaw.selection``."""

from reproduction.methods.boosting import BoostedStumps
from reproduction.methods.ridge import RidgeReconstruction
from reproduction.methods.separability import SeparabilityMerging
from reproduction.methods.svm import SvmRanking
from reproduction.methods.winn import WinnMerging

__all__ = [
    "BoostedStumps",
    "RidgeReconstruction",
    "SeparabilityMerging",
    "SvmRanking",
    "WinnMerging",
]
