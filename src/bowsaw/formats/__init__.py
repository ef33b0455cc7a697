"""Vocabularies and classifiers in files of many tools.

``load`` and ``save`` choose the format; the other functions export to devices and scikit-learn.
Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowsaw.formats.c_header import write_c_header as write_c_header
    from bowsaw.formats.classifier import LinearModel as LinearModel
    from bowsaw.formats.classifier import load_classifier as load_classifier
    from bowsaw.formats.classifier import save_classifier as save_classifier
    from bowsaw.formats.onnx import write_onnx as write_onnx
    from bowsaw.formats.registry import load as load
    from bowsaw.formats.registry import save as save
    from bowsaw.formats.scikit_learn import from_sklearn as from_sklearn
    from bowsaw.formats.scikit_learn import to_sklearn as to_sklearn

_NAMES = {
    "c_header": ("write_c_header",),
    "classifier": ("LinearModel", "load_classifier", "save_classifier"),
    "onnx": ("write_onnx",),
    "registry": ("load", "save"),
    "scikit_learn": ("from_sklearn", "to_sklearn"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"bowsaw.formats.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.formats' has no attribute {name!r}")
