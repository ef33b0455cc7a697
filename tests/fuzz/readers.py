"""All readers under test, by name; their modules are imported on first use."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.engine import Reader

_MODULES = {
    "vocabularies": (
        *("codebook-safetensors", "codebook-npy", "codebook-npz"),
        *("codebook-opencv-yml", "codebook-opencv-xml", "codebook-opencv-json"),
        *("codebook-opencv-gz", "codebook-faiss", "codebook-skops", "codebook-mat", "classifier"),
    ),
    "stores": (*("store", "histograms", "histograms-partial", "checkpoint-kmeans"),),
    "runs": ("evaluation", "run-records", "run-page"),
    "pictures": (
        *("picture-headers", "picture-png", "picture-jpeg", "picture-tiff"),
        *("picture-bmp", "picture-webp", "picture-gif"),
    ),
    "commands": ("command-line",),
}
NAMES = tuple(name for names in _MODULES.values() for name in names)


def reader_named(name: str) -> Reader:
    """Return a reader."""
    module = next(module for module, names in _MODULES.items() if name in names)
    readers = import_module(f"tests.fuzz.subjects.{module}").READERS
    return next(reader for reader in readers if reader.name == name)


def all_readers() -> list[str]:
    """Return the names of the readers that the modules have."""
    found = [import_module(f"tests.fuzz.subjects.{module}").READERS for module in _MODULES]
    return [reader.name for readers in found for reader in readers]
