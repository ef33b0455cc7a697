"""Vocabularies and classifiers in files of many tools.

``load`` and ``save`` choose the format; the other functions export to devices and scikit-learn.
Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowsaw.formats.c_header import write_c_header
    from bowsaw.formats.classifier import LinearModel, load_classifier, save_classifier
    from bowsaw.formats.onnx import write_onnx
    from bowsaw.formats.registry import load, save
    from bowsaw.formats.scikit_learn import from_sklearn, to_sklearn

_MODULES = {
    "LinearModel": "classifier",
    "from_sklearn": "scikit_learn",
    "load": "registry",
    "load_classifier": "classifier",
    "save": "registry",
    "save_classifier": "classifier",
    "to_sklearn": "scikit_learn",
    "write_c_header": "c_header",
    "write_onnx": "onnx",
}

__all__ = [
    "LinearModel",
    "from_sklearn",
    "load",
    "load_classifier",
    "save",
    "save_classifier",
    "to_sklearn",
    "write_c_header",
    "write_onnx",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"bowsaw.formats.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.formats' has no attribute {name!r}")
