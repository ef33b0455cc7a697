"""Vocabulary trees of DBoW2, DBoW3 and FBoW: known, so that they can be refused with the reason.

These libraries cluster descriptors again and again into a tree, and the words are its leaves. A
descriptor goes down the branches of the nearest child, which need not lead to the nearest leaf; and
the trees that people have are of bits (ORB, BRIEF) compared by their Hamming distance. Both code
otherwise than a codebook does, whose word is the nearest by Euclidean distance. A tree comes as

- OpenCV's FileStorage with a mapping of ``k``, ``L``, ``scoringType``, ``weightingType``, ``nodes``
  and ``words`` (DBoW2 and DBoW3);
- text, a line «k L scoring weighting» and then a node a line (the ``.txt`` of ORB-SLAM);
- bytes, after a number of 64 bits that names the library (DBoW3 and FBoW).
"""

from __future__ import annotations

import re
from typing import BinaryIO, NoReturn

from bowsaw.formats.bounded import RefusedError

_MARKS = {88877711233: "DBoW3", 55824124: "FBoW"}
_FIRST_LINE = re.compile(rb"(1?\d|20) ([1-9]|10) [0-5] [0-3]\s*?\n")
"""Branches, levels, scoring and weighting, within the limits of those who read such a file."""
_FIELDS = ("scoringType", "weightingType", "nodes")


def is_tree(head: bytes) -> bool:
    r"""Return whether a file of bytes or of text begins as a tree does.

    Examples
    --------
    >>> is_tree(b"10 6 0 0 \n0 0 252 188"), is_tree((55824124).to_bytes(8, "little"))
    (True, True)
    """
    return int.from_bytes(head[:8], "little") in _MARKS or _FIRST_LINE.match(head) is not None


def is_stored_tree(text: str) -> bool:
    """Return whether the beginning of a FileStorage file is that of a tree."""
    return all(field in text for field in _FIELDS)


def read_tree(file: BinaryIO) -> NoReturn:
    """Refuse a tree of bytes or of text."""
    refuse_tree(_MARKS.get(int.from_bytes(file.read(8), "little"), "DBoW2"))


def refuse_tree(library: str) -> NoReturn:
    """Say why the tree of a library is not read, and what to do instead."""
    raise RefusedError(
        f"it is a vocabulary tree of {library}; such trees are mostly of bits (ORB, BRIEF), and "
        "words here are the nearest by Euclidean distance",
        "Describe the images by SIFT and train words with «bowsaw train»; of a tree of floats, "
        "bowsaw.Codebook(leaves) takes the descriptors of its leaves, one a row.",
    )
