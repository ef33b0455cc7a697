"""``bowsaw split``: the parts of a store that learn words, learn classes and test."""

from __future__ import annotations

import argparse
import shlex

import numpy as np

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command

EXAMPLE = "bowsaw split scenes.store 50/50/rest --seed 0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "store")
    text = (
        "images per class for the codebook, to train, and the rest to test, or auto; the split "
        "that the store has is shown without it"
    )
    parser.add_argument("sizes", metavar="A/B/rest", nargs="?", type=opt.read_sizes, help=text)
    opt.add_seed(parser, "the split", "0")


def run(command: Command) -> None:
    options = command.options
    store = opt.open_store(options.store)
    if options.sizes is None:
        opt.refuse_options(options, ["seed"], "it draws a new split. Give the sizes too")
        found = opt.split_of(store, "there is nothing to show")
    else:
        codebook, train = (None, None) if options.sizes == "auto" else options.sizes
        found = store.set_split(codebook=codebook, train=train, seed=options.seed or 0)
    command.result(f"{options.store}: split {found.sizes}, seed {found.seed}")
    rows = []
    for name, use in (("codebook", "train"), ("train", "prune, fit"), ("test", "evaluate")):
        counts = np.bincount(store.y[found.part(name)], minlength=len(store.classes))
        few, many = f"{counts.min():,}", f"{counts.max():,}"
        per_class = few if few == many else f"{few} to {many}"
        rows.append((f"{name} (bowsaw {use})", f"{counts.sum():,}", per_class))
    command.table(rows, ("part", "images", "per class"))
    if options.sizes is not None:
        words = ["bowsaw", "train", options.store, "-o", "book.safetensors"]
        command.hint(f"next: {shlex.join(words)}")
