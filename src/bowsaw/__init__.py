"""bowsaw prunes visual vocabularies: a bow saw prunes trees, this one prunes Bags of Words.

Names are imported when they are first used, so ``import bowsaw`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bowsaw._version import __version__ as __version__

if TYPE_CHECKING:
    from bowsaw.bags import Bags as Bags
    from bowsaw.clustering.kmeans import KMeansCodebook as KMeansCodebook
    from bowsaw.codebook import Codebook as Codebook
    from bowsaw.coding.bag_of_words import BagOfWords as BagOfWords
    from bowsaw.comparison.collection import Collection as Collection
    from bowsaw.comparison.compare import compare as compare
    from bowsaw.comparison.compare import evaluate as evaluate
    from bowsaw.comparison.records import read_run as read_run
    from bowsaw.descriptors.dense_sift import DenseSift as DenseSift
    from bowsaw.descriptors.opencv import OpenCvFeatures as OpenCvFeatures
    from bowsaw.displays import CodebookDisplay as CodebookDisplay
    from bowsaw.displays import PruningPathDisplay as PruningPathDisplay
    from bowsaw.evaluation.classifier import HistogramClassifier as HistogramClassifier
    from bowsaw.evaluation.path import PruningPath as PruningPath
    from bowsaw.formats.classifier import LinearModel as LinearModel
    from bowsaw.formats.registry import load as load
    from bowsaw.formats.registry import save as save
    from bowsaw.images.folder import ImageFolder as ImageFolder
    from bowsaw.images.split import Split as Split
    from bowsaw.inference.whatif import whatif as whatif
    from bowsaw.projection import Projection as Projection
    from bowsaw.recogniser import Recogniser as Recogniser
    from bowsaw.recogniser import shrink as shrink
    from bowsaw.report.page import Section as Section
    from bowsaw.report.page import write_page as write_page
    from bowsaw.selection.annealing import Annealing as Annealing
    from bowsaw.selection.base import Selection as Selection
    from bowsaw.selection.base import Selector as Selector
    from bowsaw.selection.baselines import FarthestPoint as FarthestPoint
    from bowsaw.selection.baselines import KMeansAtSize as KMeansAtSize
    from bowsaw.selection.baselines import RandomSubset as RandomSubset
    from bowsaw.selection.coverage import Coverage as Coverage
    from bowsaw.selection.merging import Bottleneck as Bottleneck
    from bowsaw.selection.ranking import PresenceRanking as PresenceRanking
    from bowsaw.selection.refinement import Refinement as Refinement
    from bowsaw.store import Store as Store
    from bowsaw.store import extract as extract

_MODULES = {
    "Annealing": "bowsaw.selection.annealing",
    "BagOfWords": "bowsaw.coding.bag_of_words",
    "Bags": "bowsaw.bags",
    "Bottleneck": "bowsaw.selection.merging",
    "Codebook": "bowsaw.codebook",
    "CodebookDisplay": "bowsaw.displays",
    "Collection": "bowsaw.comparison.collection",
    "Coverage": "bowsaw.selection.coverage",
    "DenseSift": "bowsaw.descriptors.dense_sift",
    "FarthestPoint": "bowsaw.selection.baselines",
    "HistogramClassifier": "bowsaw.evaluation.classifier",
    "ImageFolder": "bowsaw.images.folder",
    "KMeansAtSize": "bowsaw.selection.baselines",
    "KMeansCodebook": "bowsaw.clustering.kmeans",
    "LinearModel": "bowsaw.formats.classifier",
    "OpenCvFeatures": "bowsaw.descriptors.opencv",
    "PresenceRanking": "bowsaw.selection.ranking",
    "Projection": "bowsaw.projection",
    "PruningPath": "bowsaw.evaluation.path",
    "PruningPathDisplay": "bowsaw.displays",
    "RandomSubset": "bowsaw.selection.baselines",
    "Recogniser": "bowsaw.recogniser",
    "Refinement": "bowsaw.selection.refinement",
    "Section": "bowsaw.report.page",
    "Selection": "bowsaw.selection.base",
    "Selector": "bowsaw.selection.base",
    "Split": "bowsaw.images.split",
    "Store": "bowsaw.store",
    "compare": "bowsaw.comparison.compare",
    "evaluate": "bowsaw.comparison.compare",
    "extract": "bowsaw.store",
    "load": "bowsaw.formats.registry",
    "read_run": "bowsaw.comparison.records",
    "save": "bowsaw.formats.registry",
    "shrink": "bowsaw.recogniser",
    "whatif": "bowsaw.inference.whatif",
    "write_page": "bowsaw.report.page",
}
"""The public names, and the modules that define them."""

__all__ = sorted(["__version__", *_MODULES])


_PACKAGES = ("formats", "inference", "scores", "selection")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"bowsaw.{name}")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'bowsaw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
