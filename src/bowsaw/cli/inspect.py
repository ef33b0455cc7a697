"""``bowsaw inspect``: what a store, a codebook, a classifier or a histogram file holds."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.cli.command import Command
from bowsaw.errors import FormatError
from bowsaw.evaluation.classifier import CALLED
from bowsaw.formats.classifier import is_classifier, load_classifier
from bowsaw.formats.reader import open_archive
from bowsaw.formats.registry import load, open_file, reader_of
from bowsaw.formatting import format_bytes, format_count
from bowsaw.recogniser import SUMMARY, Recogniser
from bowsaw.store import Store
from bowsaw.store.histograms import read_histograms

EXAMPLE = "bowsaw inspect scenes.store"
_MAX_LISTED = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a recogniser's folder, a store, a codebook, a classifier or histograms"
    parser.add_argument("path", metavar="PATH", help=text)
    shape = parser.add_mutually_exclusive_group()
    text = "show every class, file and parameter, and how it was made"
    shape.add_argument("--details", action="store_true", help=text)
    shape.add_argument("--json", action="store_true", help="print JSON, with nothing shortened")


def run(command: Command) -> None:
    path = Path(command.options.path)
    if not (path.is_dir() or path.is_file()):
        # Opening a pipe would wait for its other end.
        raise FormatError(
            f"{path} does not exist, or is neither a file nor a folder. Name a store, a codebook, "
            "a classifier or histograms."
        )
    if (path / SUMMARY).is_file():
        made = Recogniser.load(path)
        command.json(made.summary_) if command.options.json else command.facts(made.facts())
        return
    facts = _store(path) if path.is_dir() else _file(path)
    if command.options.json:
        command.json(facts)
    elif command.options.details:
        command.facts(_lines(facts))
    else:
        command.facts(_short_lines(facts))
        command.hint("more: the same command with --details")


def _file(path: Path) -> dict[str, Any]:
    # A file that may not be read is refused here.
    open_file(path).close()
    if path.suffix == ".npz" and not _holds_words(path):
        return _histograms(path)
    if is_classifier(path):
        return _classifier(path)
    with open_file(path) as file:
        is_vocabulary = reader_of(file, str(path)) is not None
    if is_vocabulary:
        return _codebook(path)
    raise FormatError(
        f"{path} is not a store (a folder), a codebook (.safetensors, or another tool's), a "
        "classifier (.safetensors) or histograms (.npz)."
    )


def _holds_words(path: Path) -> bool:
    # Reading the content of a damaged file reports what is wrong.
    with open_file(path) as file, suppress(FormatError):
        return "histograms.npy" not in open_archive(file).members
    return False


def _store(path: Path) -> dict[str, Any]:
    summary = Store(path).summary()
    size = summary["n_descriptors"] * summary["n_dims"] * np.dtype(summary["dtype"]).itemsize
    return {"kind": "store", "n_bytes": size, **summary}


def _codebook(path: Path) -> dict[str, Any]:
    book = load(path)
    names = ("n_words", "n_dims", "metric", "description", "provenance")
    return {
        "kind": "codebook",
        "path": str(path),
        "n_bytes": book.words.nbytes,
        "first_id": int(book.ids.min()),
        "n_dims_in": None if book.projection is None else len(book.projection.mean),
        "last_id": int(book.ids.max()),
        "scale": None if book.scale_is_unknown else book.scale,
        "n_trained_on": None if book.trained_on is None else len(book.trained_on),
        **{name: getattr(book, name) for name in names},
    }


def _classifier(path: Path) -> dict[str, Any]:
    model = load_classifier(path)
    names = ("mapping", "coding", "sharpness", "codebook", "description", "provenance")
    return {
        "kind": "classifier",
        "path": str(path),
        "n_words": model.weights.shape[1],
        "n_bytes": model.weights.nbytes + model.intercepts.nbytes,
        "labels": [str(name) for name in model.classes],
        **{name: getattr(model, name) for name in names},
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


_TEXTS = {
    "store": {
        "images": "{n_usable:,} of {n_images:,} files are usable",
        "descriptors": "{n_descriptors:,} of {n_dims} {dtype} ({size}, scale {unit})",
        "made with": "{made_with}",
        "digest": "{digest}",
        "bowsaw": "{bowsaw_version}",
    },
    "codebook": {
        "words": "{n_words:,} of {n_dims} dimensions{projected} ({size}, scale {unit})",
        "word ids": "{first_id} to {last_id}",
        "distance": "{metric}",
        "trained on": "{seen} images",
        "descriptors": "{made_with}",
        "provenance": "{origin}",
    },
    "classifier": {
        "weights": "{n_words:,} words per class ({size})",
        "histograms": "{coding} coding{sharp}, {mapped}",
        "codebook": "{codebook}",
        "descriptors": "{made_with}",
        "provenance": "{origin}",
    },
    "histograms": {
        "histograms": "{n_images:,} images by {n_words:,} words ({size})",
        "words per image": "{words_per_image:g} are in use on average",
        "words unused": "{n_unused_words:,} are in no image",
        "images empty": "{n_empty:,} have no descriptors",
    },
}
"""The lines of each kind of file, made from its facts."""


def _short_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts that most people look for."""
    size, provenance = format_bytes(facts["n_bytes"]), facts.get("provenance") or {}
    made_with = facts.get("description") or {}
    descriptor = ", ".join(
        str(value) if name == "name" else f"{name.replace('_', ' ')} {value:g}"
        for name, value in sorted(made_with.items(), key=lambda item: item[0] != "name")
        if name in ("name", "patch", "step", "max_side") and value is not None
    )
    lines = {facts["kind"]: facts["path"]}
    if facts["kind"] == "store":
        split, aside, copies = facts["split"], facts["set_aside"], facts["copies"]
        few, many = (f(facts["classes"].values(), default=0) for f in (min, max))
        each = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        usable = f"{facts['n_usable']:,} of {facts['n_images']:,} files are usable"
        lines["images"] = f"{usable}, {each} per class"
        lines["classes"] = _listed(list(facts["classes"]))
        lines["descriptors"] = (
            f"{facts['n_descriptors']:,} of {facts['n_dims']} {facts['dtype']} ({size}): "
            f"{descriptor or 'unknown'}"
        )
        lines["split"] = "none: commands use all images" if split is None else _split(split)
        if aside:
            example = f"{aside[0]['path']}: {aside[0]['reason']}"
            lines["set aside"] = f"{format_count(len(aside), 'file')}, such as {example}"
        if copies:
            lines["more than once"] = (
                f"{format_count(len(copies), 'image')}, such as {' and '.join(copies[0][:2])}"
            )
    elif facts["kind"] == "codebook":
        seen, pruned = facts["n_trained_on"], provenance.get("pruned")
        unit = ", scale unknown" if facts["scale"] is None else ""
        dims = f"{facts['n_dims']} dimensions{_projected(facts)}"
        lines["words"] = f"{facts['n_words']:,} of {dims} ({size}{unit})"
        lines["learned from"] = "unknown images" if seen is None else format_count(seen, "image")
        if isinstance(provenance.get("split"), dict):
            lines["split"] = _split(provenance["split"])
        if isinstance(pruned, dict):
            method = (pruned.get("selection") or {}).get("method", "an unknown method")
            lines["pruned"] = f"from {pruned.get('n_words', '?')} words by {method}"
        lines["descriptors"] = descriptor or "unknown"
    elif facts["kind"] == "classifier":
        accuracy = provenance.get("accuracy")
        lines["classes"] = _listed(facts["labels"])
        lines["words"] = f"{facts['n_words']:,} per class ({size})"
        sharpness = facts["sharpness"]
        soft = "" if sharpness is None else f" of sharpness {sharpness:.4g}"
        lines["histograms"] = f"{facts['coding']} coding{soft}, {CALLED.get(facts['mapping'], '')}"
        if isinstance(provenance.get("split"), dict):
            lines["split"] = _split(provenance["split"])
        if isinstance(accuracy, dict):
            lines["accuracy"] = "{mean:.3f} ± {margin:.3f} by folds".format(**accuracy)
    else:
        lines["histograms"] = f"{facts['n_images']:,} images by {facts['n_words']:,} words ({size})"
        lines["classes"] = _listed(list(facts["classes"]))
        lines["in use"] = (
            f"{facts['words_per_image']:g} words per image on average; {facts['n_unused_words']:,} "
            f"words are in no image, {facts['n_empty']:,} images are empty"
        )
        lines["coding"] = str(facts["metadata"].get("coding", "unknown"))
    return list(lines.items())


def _projected(facts: dict[str, Any]) -> str:
    n_dims = facts.get("n_dims_in")
    return "" if n_dims is None else f" projected from {n_dims}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return f"{len(names):,}: {', '.join(names[:_MAX_LISTED])}{more}"


def _split(record: dict[str, Any]) -> str:
    return f"{record.get('codebook')}/{record.get('train')}/rest, seed {record.get('seed')}"


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts as lines of text, the long lists last."""
    scale, seen = facts.get("scale"), facts.get("n_trained_on")
    sharpness = facts.get("sharpness")
    texts = {
        "size": format_bytes(facts["n_bytes"]),
        "unit": "unknown" if scale is None else f"{scale:g}",
        "seen": "unknown" if seen is None else f"{seen:,}",
        "sharp": "" if sharpness is None else f" of sharpness {sharpness:.4g}",
        "mapped": CALLED.get(facts.get("mapping", ""), ""),
        "projected": _projected(facts),
        "made_with": _text(facts.get("description") or "unknown"),
        "origin": _text(facts.get("provenance") or "unknown"),
    }
    shown = {"kind": facts["kind"], "path": facts["path"]}
    for name, text in _TEXTS[facts["kind"]].items():
        shown[name] = text.format(**facts, **texts)
    for name, value in facts.get("metadata", {}).items():
        shown[name.replace("_", " ")] = _text(value)
    if "labels" in facts:
        shown["labels"] = f"{len(facts['labels']):,}: {', '.join(facts['labels'])}"
    if "classes" in facts:
        shown["classes"] = f"{len(facts['classes']):,}: {_text(facts['classes'])}"
    lines = [(name, _text(text)) for name, text in shown.items()]
    aside = [f"{entry['path']}: {entry['reason']}" for entry in facts.get("set_aside", ())]
    copies = [", ".join(paths) for paths in facts.get("copies", ())]
    for title, found in (("set aside", aside), ("more than once", copies)):
        lines += zip([title] + [""] * len(found), found, strict=False)
    return lines


def _text(value: Any) -> str:
    if isinstance(value, dict):
        # Without spaces inside, a name and its value stay together where lines are wrapped.
        return ", ".join(
            f"{name}=({_text(one)})" if isinstance(one, dict) else f"{name}={_text(one)}"
            for name, one in value.items()
        )
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else _DIGEST.sub(lambda match: match[0][:12], str(value))
