"""bowsaw prunes visual vocabularies: a bow saw prunes trees, this one prunes Bags of Words.

Names are imported when they are first used, so ``import bowsaw`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bowsaw._version import __version__

if TYPE_CHECKING:
    from bowsaw.bags import Bags
    from bowsaw.clustering.kmeans import KMeansCodebook
    from bowsaw.codebook import Codebook
    from bowsaw.coding.bag_of_words import BagOfWords
    from bowsaw.comparison.collection import Collection
    from bowsaw.comparison.records import read_run
    from bowsaw.comparison.run import arena
    from bowsaw.descriptors.dense_sift import DenseSift
    from bowsaw.descriptors.opencv import OpenCvFeatures
    from bowsaw.evaluation.classify import HistogramClassifier
    from bowsaw.evaluation.path import PruningPath
    from bowsaw.evaluation.protocol import evaluate
    from bowsaw.evaluation.recommendation import Recommendation
    from bowsaw.formats.c_header import write_c_header
    from bowsaw.formats.classifier import load_classifier, save_classifier
    from bowsaw.formats.linear_model import LinearModel
    from bowsaw.formats.onnx import write_onnx
    from bowsaw.formats.scikit_learn import from_sklearn, to_sklearn
    from bowsaw.formats.vocabulary import load, save
    from bowsaw.images.folder import ImageFolder
    from bowsaw.images.split import Split
    from bowsaw.inference.whatif import whatif
    from bowsaw.report.page import Section, write_page
    from bowsaw.selection.annealing import Annealing
    from bowsaw.selection.base import Selection
    from bowsaw.selection.baselines import FarthestPoint, KMeansAtSize, RandomSubset
    from bowsaw.selection.coverage import Coverage
    from bowsaw.selection.merging import Bottleneck
    from bowsaw.selection.ranking import PresenceRanking
    from bowsaw.selection.refinement import Refinement
    from bowsaw.store import Store, extract

_HOMES = {
    "Annealing": "bowsaw.selection.annealing",
    "BagOfWords": "bowsaw.coding.bag_of_words",
    "Bags": "bowsaw.bags",
    "Bottleneck": "bowsaw.selection.merging",
    "Codebook": "bowsaw.codebook",
    "Collection": "bowsaw.comparison.collection",
    "Coverage": "bowsaw.selection.coverage",
    "DenseSift": "bowsaw.descriptors.dense_sift",
    "FarthestPoint": "bowsaw.selection.baselines",
    "HistogramClassifier": "bowsaw.evaluation.classify",
    "ImageFolder": "bowsaw.images.folder",
    "KMeansCodebook": "bowsaw.clustering.kmeans",
    "KMeansAtSize": "bowsaw.selection.baselines",
    "LinearModel": "bowsaw.formats.linear_model",
    "OpenCvFeatures": "bowsaw.descriptors.opencv",
    "PresenceRanking": "bowsaw.selection.ranking",
    "PruningPath": "bowsaw.evaluation.path",
    "RandomSubset": "bowsaw.selection.baselines",
    "Recommendation": "bowsaw.evaluation.recommendation",
    "Refinement": "bowsaw.selection.refinement",
    "Section": "bowsaw.report.page",
    "Selection": "bowsaw.selection.base",
    "Split": "bowsaw.images.split",
    "Store": "bowsaw.store",
    "arena": "bowsaw.comparison.run",
    "evaluate": "bowsaw.evaluation.protocol",
    "extract": "bowsaw.store",
    "from_sklearn": "bowsaw.formats.scikit_learn",
    "load": "bowsaw.formats.vocabulary",
    "load_classifier": "bowsaw.formats.classifier",
    "read_run": "bowsaw.comparison.records",
    "save": "bowsaw.formats.vocabulary",
    "save_classifier": "bowsaw.formats.classifier",
    "to_sklearn": "bowsaw.formats.scikit_learn",
    "whatif": "bowsaw.inference.whatif",
    "write_c_header": "bowsaw.formats.c_header",
    "write_onnx": "bowsaw.formats.onnx",
    "write_page": "bowsaw.report.page",
}

__all__ = [
    "Annealing",
    "BagOfWords",
    "Bags",
    "Bottleneck",
    "Codebook",
    "Collection",
    "Coverage",
    "DenseSift",
    "FarthestPoint",
    "HistogramClassifier",
    "ImageFolder",
    "KMeansAtSize",
    "KMeansCodebook",
    "LinearModel",
    "OpenCvFeatures",
    "PresenceRanking",
    "PruningPath",
    "RandomSubset",
    "Recommendation",
    "Refinement",
    "Section",
    "Selection",
    "Split",
    "Store",
    "__version__",
    "arena",
    "evaluate",
    "extract",
    "from_sklearn",
    "load",
    "load_classifier",
    "read_run",
    "save",
    "save_classifier",
    "to_sklearn",
    "whatif",
    "write_c_header",
    "write_onnx",
    "write_page",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bowsaw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
