"""Small labelled collections."""

import numpy as np

import bowsaw as bs
from bowsaw.comparison.collection import Collection


def toys(name="toys", n_each=14, shift=1.5, seed=0):
    """Three classes of bags in four dimensions, each around a corner of its own."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n_each)
    bags = [rng.normal(shift * np.eye(4)[label], 1.0, size=(25, 4)) for label in y]
    digests = np.arange(len(y), dtype=np.uint64) + 1
    many = bs.Bags.from_list(bags)
    described = bs.Bags(many.read(0, many.n_descriptors, many.dtype), many.offsets, digests=digests)
    return Collection(name, described, y, ("ash", "elm", "oak"), codebook_images=5, train=5)


def timeless(cells):
    """Cells without what differs from run to run."""
    return [{k: v for k, v in cell.items() if k != "costs"} for cell in cells]
