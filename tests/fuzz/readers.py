"""All readers under test, by name; a module is imported when one of its readers is asked for."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.engine import Reader

_ROOMS = {
    "vocabularies": (
        *("codebook-safetensors", "codebook-npy", "codebook-npz"),
        *("codebook-opencv-yml", "codebook-opencv-xml", "codebook-opencv-json"),
        *("codebook-opencv-gz", "codebook-faiss", "codebook-skops", "codebook-mat", "classifier"),
    ),
    "stores": (
        *("store", "histograms", "histograms-partial"),
        *("checkpoint-kmeans", "checkpoint-search", "checkpoint-trail"),
    ),
    "runs": ("evaluation", "run-records", "run-page"),
    "pictures": (
        *("picture-headers", "picture-png", "picture-jpeg", "picture-tiff"),
        *("picture-bmp", "picture-webp", "picture-gif"),
    ),
    "commands": ("command-line",),
}
NAMES = tuple(name for names in _ROOMS.values() for name in names)


def reader_named(name: str) -> Reader:
    """Return a reader."""
    room = next(room for room, names in _ROOMS.items() if name in names)
    readers = import_module(f"tests.fuzz.subjects.{room}").READERS
    return next(reader for reader in readers if reader.name == name)


def readers_in_all_rooms() -> list[str]:
    """Return the names of the readers that the modules have."""
    rooms = [import_module(f"tests.fuzz.subjects.{room}").READERS for room in _ROOMS]
    return [reader.name for readers in rooms for reader in readers]
