"""``bowsaw inspect``: what a store, a codebook, a classifier or a histogram file holds.

The facts are collected once, as JSON has them; the text shortens digests and long numbers.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.cli.command import Command
from bowsaw.errors import FormatError
from bowsaw.evaluation.classify import CALLED
from bowsaw.formats.classifier import is_classifier, load_classifier
from bowsaw.formats.reader import open_archive
from bowsaw.formats.registry import load, open_file, reader_of
from bowsaw.formatting import format_bytes
from bowsaw.store import Store
from bowsaw.store.histograms import read_histograms

EXAMPLE = "bowsaw inspect scenes.store"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "path", metavar="PATH", help="a store, a codebook, a classifier or histograms"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with nothing shortened")


def run(command: Command) -> None:
    """Print what a path holds."""
    path = Path(command.options.path)
    if not path.exists():
        raise FormatError(
            f"{path} does not exist. Name a store, a codebook, a classifier or histograms."
        )
    if path.is_file():
        # A file that may not be read is refused here, whatever it is.
        open_file(path).close()
    if path.is_dir():
        facts = _store(path)
    elif not path.is_file():
        raise FormatError(f"{path} is neither a file nor a folder. Name one that holds something.")
    elif path.suffix == ".npz" and not _holds_words(path):
        facts = _histograms(path)
    elif is_classifier(path):
        facts = _classifier(path)
    elif _is_vocabulary(path):
        facts = _codebook(path)
    else:
        raise FormatError(
            f"{path} is not a store (a folder), a codebook (.safetensors, or another tool's), a "
            "classifier (.safetensors) or histograms (.npz)."
        )
    if command.options.json:
        command.json(facts)
    else:
        command.facts(_lines(facts))


def _holds_words(path: Path) -> bool:
    with open_file(path) as file:
        try:
            return "histograms.npy" not in open_archive(file).members
        except FormatError:
            # Reading its content reports what is wrong.
            return False


def _is_vocabulary(path: Path) -> bool:
    with open_file(path) as file:
        return reader_of(file, str(path)) is not None


def _store(path: Path) -> dict[str, Any]:
    summary = Store(path).summary()
    size = summary["n_descriptors"] * summary["n_dims"] * np.dtype(summary["dtype"]).itemsize
    return {"kind": "store", "n_bytes": size, **summary}


def _codebook(path: Path) -> dict[str, Any]:
    book = load(path)
    return {
        "kind": "codebook",
        "path": str(path),
        "n_words": book.n_words,
        "n_dims": book.n_dims,
        "n_bytes": book.words.nbytes,
        "first_id": int(book.ids.min()),
        "last_id": int(book.ids.max()),
        "scale": None if book.scale_is_unknown else book.scale,
        "metric": book.metric,
        "n_trained_on": None if book.trained_on is None else len(book.trained_on),
        "description": book.description,
        "provenance": book.provenance,
    }


def _classifier(path: Path) -> dict[str, Any]:
    model = load_classifier(path)
    return {
        "kind": "classifier",
        "path": str(path),
        "n_words": model.weights.shape[1],
        "n_bytes": model.weights.nbytes + model.intercepts.nbytes,
        "labels": [str(name) for name in model.classes],
        "mapping": model.mapping,
        "coding": model.coding,
        "sharpness": model.sharpness,
        "codebook": model.codebook,
        "description": model.description,
        "provenance": model.provenance,
    }


def _histograms(path: Path) -> dict[str, Any]:
    found = read_histograms(path)
    used = found.histograms > 0
    per_class = np.bincount(found.y, minlength=len(found.classes)).tolist()
    return {
        "kind": "histograms",
        "path": str(path),
        "n_images": len(used),
        "n_words": used.shape[1],
        "n_bytes": found.histograms.nbytes,
        "n_empty": int((~used.any(axis=1)).sum()),
        "n_unused_words": int((~used.any(axis=0)).sum()),
        "words_per_image": round(float(used.sum() / max(len(used), 1)), 1),
        "classes": dict(zip(found.classes, per_class, strict=True)),
        "metadata": found.metadata,
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts as lines of text, the long lists last."""
    shown = {"kind": facts["kind"], "path": facts["path"]}
    if facts["kind"] == "store":
        shown |= {
            "images": f"{facts['n_usable']:,} of {facts['n_images']:,} files are usable",
            "descriptors": f"{facts['n_descriptors']:,} of {facts['n_dims']} {facts['dtype']} "
            f"({format_bytes(facts['n_bytes'])}, scale {facts['scale']:g})",
            "made with": _made_with(facts["description"]),
            "digest": facts["digest"],
            "bowsaw": facts["bowsaw_version"],
        }
    elif facts["kind"] == "codebook":
        n_images = facts["n_trained_on"]
        scale = "unknown" if facts["scale"] is None else f"{facts['scale']:g}"
        shown |= {
            "words": f"{facts['n_words']:,} of {facts['n_dims']} dimensions "
            f"({format_bytes(facts['n_bytes'])}, scale {scale})",
            "word ids": f"{facts['first_id']} to {facts['last_id']}",
            "distance": facts["metric"],
            "trained on": "unknown images" if n_images is None else f"{n_images:,} images",
            "descriptors": _made_with(facts["description"]),
            "provenance": _mapping(facts["provenance"]) or "unknown",
        }
    elif facts["kind"] == "classifier":
        shown |= {
            "weights": f"{facts['n_words']:,} words per class ({format_bytes(facts['n_bytes'])})",
            "histograms": f"{facts['coding']} coding"
            + ("" if facts["sharpness"] is None else f" of sharpness {facts['sharpness']:.4g}")
            + f", {CALLED[facts['mapping']]}",
            "codebook": facts["codebook"],
            "descriptors": _made_with(facts["description"]),
            "provenance": _mapping(facts["provenance"]) or "unknown",
            "labels": f"{len(facts['labels']):,}: {', '.join(facts['labels'])}",
        }
    else:
        shown |= {
            "histograms": f"{facts['n_images']:,} images by {facts['n_words']:,} words "
            f"({format_bytes(facts['n_bytes'])})",
            "words per image": f"{facts['words_per_image']:g} are in use on average",
            "words unused": f"{facts['n_unused_words']:,} are in no image",
            "images empty": f"{facts['n_empty']:,} have no descriptors",
            **{name.replace("_", " "): _value(value) for name, value in facts["metadata"].items()},
        }
    if "classes" in facts:
        shown["classes"] = f"{len(facts['classes']):,}: {_mapping(facts['classes'])}"
    set_aside = [f"{entry['path']}: {entry['reason']}" for entry in facts.get("set_aside", ())]
    copies = [", ".join(paths) for paths in facts.get("copies", ())]
    return [
        *((name, _value(text)) for name, text in shown.items()),
        *_list_lines("set aside", set_aside),
        *_list_lines("more than once", copies),
    ]


def _list_lines(title: str, lines: list[str]) -> list[tuple[str, str]]:
    return list(zip([title] + [""] * len(lines), lines, strict=False))


def _made_with(description: dict[str, Any] | None) -> str:
    if description is None:
        return "unknown"
    others = {name: value for name, value in description.items() if name != "name"}
    return f"{description.get('name', 'unnamed')}: {_mapping(others)}"


def _mapping(values: dict[str, Any]) -> str:
    # Without spaces inside, a name and its value stay together where lines are wrapped.
    return ", ".join(
        f"{name}=({_mapping(value)})" if isinstance(value, dict) else f"{name}={_value(value)}"
        for name, value in values.items()
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "none"
    return _DIGEST.sub(lambda match: match[0][:12], str(value))
