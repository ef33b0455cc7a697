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
    from bowsaw.descriptors.dense_sift import DenseSift
    from bowsaw.descriptors.opencv import OpenCvFeatures
    from bowsaw.evaluation.classify import HistogramClassifier
    from bowsaw.evaluation.protocol import evaluate
    from bowsaw.formats.safetensors import load, save
    from bowsaw.images.folder import ImageFolder
    from bowsaw.images.split import Split
    from bowsaw.inference.whatif import whatif
    from bowsaw.store import Store, extract

_HOMES = {
    "BagOfWords": "bowsaw.coding.bag_of_words",
    "Bags": "bowsaw.bags",
    "Codebook": "bowsaw.codebook",
    "DenseSift": "bowsaw.descriptors.dense_sift",
    "HistogramClassifier": "bowsaw.evaluation.classify",
    "ImageFolder": "bowsaw.images.folder",
    "KMeansCodebook": "bowsaw.clustering.kmeans",
    "OpenCvFeatures": "bowsaw.descriptors.opencv",
    "Split": "bowsaw.images.split",
    "Store": "bowsaw.store",
    "evaluate": "bowsaw.evaluation.protocol",
    "extract": "bowsaw.store",
    "load": "bowsaw.formats.safetensors",
    "save": "bowsaw.formats.safetensors",
    "whatif": "bowsaw.inference.whatif",
}

__all__ = [
    "BagOfWords",
    "Bags",
    "Codebook",
    "DenseSift",
    "HistogramClassifier",
    "ImageFolder",
    "KMeansCodebook",
    "OpenCvFeatures",
    "Split",
    "Store",
    "__version__",
    "evaluate",
    "extract",
    "load",
    "save",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bowsaw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
