"""``bowsaw inspect``: what a store, a codebook or a histogram file holds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.cli.options import Command, Verb, megabytes
from bowsaw.errors import FormatError
from bowsaw.formats.safetensors import load
from bowsaw.store import Store
from bowsaw.store.histograms import read_histograms


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a store, a codebook or a histogram file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _run(command: Command) -> None:
    path = Path(command.options.path)
    if not path.exists():
        raise FormatError(f"{path} does not exist. Name a store, a codebook or a histogram file.")
    if path.is_dir():
        facts = _store(path)
    elif path.suffix == ".safetensors":
        facts = _codebook(path)
    elif path.suffix == ".npz":
        facts = _histograms(path)
    else:
        raise FormatError(
            f"{path} is not a store (a folder), a codebook (.safetensors) or histograms (.npz)."
        )
    if command.options.json:
        command.json(facts)
        return
    command.table([(name, _text(value)) for name, value in facts.items() if value not in ({}, [])])


def _store(path: Path) -> dict[str, Any]:
    return {"kind": "store", **Store(path).summary()}


def _codebook(path: Path) -> dict[str, Any]:
    book = load(path)
    return {
        "kind": "codebook",
        "path": str(path),
        "n_words": book.n_words,
        "n_dims": book.n_dims,
        "bytes": megabytes(book.words.nbytes),
        "ids": f"{int(book.ids.min())} to {int(book.ids.max())}",
        "scale": book.scale,
        "metric": book.metric,
        "trained_on": "unknown" if book.trained_on is None else f"{len(book.trained_on)} images",
        "description": book.description or "unknown",
        "provenance": book.provenance,
    }


def _histograms(path: Path) -> dict[str, Any]:
    found = read_histograms(path)
    sums = found.histograms.sum(axis=1)
    used = float((found.histograms > 0).mean()) if found.histograms.size else 0.0
    return {
        "kind": "histograms",
        "path": str(path),
        "n_images": len(found.histograms),
        "n_words": found.histograms.shape[1],
        "empty rows": int((sums == 0).sum()),
        "words an image": round(used * found.histograms.shape[1], 1),
        "unused words": int((found.histograms.max(axis=0, initial=0) == 0).sum()),
        "classes": dict(
            zip(
                found.classes,
                np.bincount(found.y, minlength=len(found.classes)).tolist(),
                strict=True,
            )
        ),
        "metadata": found.metadata,
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(
            f"{k}: {json.dumps(v, ensure_ascii=False) if isinstance(v, (dict, list)) else v}"
            for k, v in value.items()
        )
    if isinstance(value, list):
        return "\n".join(
            ": ".join(str(v) for v in item.values()) if isinstance(item, dict) else str(item)
            for item in value
        )
    return str(value)


VERB = Verb(
    help="tell what a store, a codebook or a histogram file holds",
    example="bowsaw inspect scenes.store",
    add_arguments=_add_arguments,
    run=_run,
)
