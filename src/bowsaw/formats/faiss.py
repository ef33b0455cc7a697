"""faiss's index files: flat indexes, and the coarse quantiser of IVF indexes.

A k-means of faiss keeps its centroids in a flat index, and so does an IVF index: the coarse
quantiser, which comes first in the file. The inverted lists after it are not read. The reader is
our own, because that of faiss has no limits. All numbers are little-endian:

.. code-block:: text

    flat      "IxF2" | "IxFI" | "IxFl"  head  n_values u64  values float32
    IVF       "IwFl" | "IwPQ" | …       head  n_lists u64  n_probe u64  [an index]  …
    with ids  "IxMp" | "IxM2"           head  [an index]  n_ids u64  ids i64
    head      n_dims i32  n_rows i64  unused i64 ×2  is_trained u8  metric i32  [argument float32]

where metrics 0 and 1 are the inner product and L2, and others have an argument. Words of an index
by inner product are read only if all have the same length: the largest product is then the nearest
word. Otherwise a Euclidean codebook would code differently from the index.
"""

from __future__ import annotations

from os import PathLike
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.reader import Axes, ByteReader, Matrices, UnsupportedError

FLAT = (b"IxF2", b"IxFI", b"IxFl")
IVF = (b"IwFl", b"IwFd", b"IwPQ", b"IwPf", b"IwSq", b"IwRQ", b"Iwrq")
WITH_IDS = (b"IxMp", b"IxM2")

_INNER_PRODUCT, _L2 = 0, 1
_ONE_LENGTH = 1e-3
_BITS = b"IB"
_OTHERS = {
    b"IxPT": "with a transform in front (its words and the descriptors have different axes)",
    b"IHNf": "that is a graph (HNSW)",
    b"IxPq": "of product codes, which are not words",
    b"IxSQ": "of scalar codes, which are rounded words",
    b"IxRF": "with a second stage that refines",
    b"IBxF": "of bits, compared by their Hamming distance",
}


def read_faiss(file: BinaryIO) -> Matrices:
    """Return the words of a flat index, or of the quantiser of an IVF index."""
    source = ByteReader(file)
    kinds = [source.take(4, "the class of index")]
    if kinds[0] in WITH_IDS:
        _head(source)
        kinds.append(source.take(4, "the index inside"))
    elif kinds[0] in IVF:
        _head(source)
        n_lists = source.number("<u8", "the number of lists")
        source.take(8, "the number of probes")
        kinds.append(source.take(4, "the quantiser"))
    words = _flat(source, kinds)
    ids = None
    if kinds[0] in IVF and len(words) != n_lists:
        raise FormatError(f"its quantiser has {len(words):,} words for {n_lists:,} lists")
    if kinds[0] in WITH_IDS:
        if source.number("<u8", "the number of ids") != len(words):
            raise FormatError(f"it does not have {len(words):,} ids, one per word")
        ids = source.array("<i8", (len(words),), "the ids")
    elif len(kinds) == 1 and source.left:
        raise FormatError(f"{source.left:,} bytes follow its end")
    title = "faiss " + " ".join(kind.decode() for kind in kinds)
    return Matrices(title, Axes.ROWS, {"index": words}, ids=ids)


def write_faiss(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words as an IndexFlatL2, word after word; ``faiss.read_index`` reads it."""
    head = np.array([(codebook.n_dims, codebook.n_words, 2**20, 2**20, 1, _L2)], _HEAD)
    with atomic_write(path) as file:
        file.write(b"IxF2" + head.tobytes())
        file.write(np.array(codebook.words.size, "<u8").tobytes())
        file.write(codebook.words.astype("<f4", copy=False).data)


_HEAD = np.dtype(
    [("dims", "<i4"), ("rows", "<i8"), ("a", "<i8"), ("b", "<i8"), ("trained", "u1"), ("by", "<i4")]
)


def _head(source: ByteReader) -> tuple[int, int, int]:
    """Return n_dims, n_rows and the metric."""
    [found] = source.array(_HEAD, (1,), "the head of an index").tolist()
    n_dims, n_rows, _, _, _, metric = found
    if metric not in (_INNER_PRODUCT, _L2):
        source.take(4, "the argument of the metric")
    if n_dims < 1 or n_rows < 0:
        raise FormatError(f"its head states {n_rows} rows of {n_dims}: it is damaged")
    return n_dims, n_rows, metric


def _flat(source: ByteReader, kinds: list[bytes]) -> NDArray[np.float32]:
    if kinds[-1] not in FLAT:
        reason = _OTHERS.get(kinds[-1], "of a class that is not read here")
        within = "is" if len(kinds) == 1 else "contains"
        raise UnsupportedError(f"it {within} an index {reason} ({kinds[-1]!r})", _by_hand(kinds))
    n_dims, n_rows, metric = _head(source)
    if metric not in (_INNER_PRODUCT, _L2):
        raise UnsupportedError(
            f"its metric is number {metric} of faiss, neither L2 nor the inner product, and bowsaw "
            "compares words by Euclidean distance",
            _by_hand(kinds),
        )
    if source.number("<u8", "the number of values") != n_rows * n_dims:
        raise FormatError(f"it does not have {n_rows:,} × {n_dims:,} values: it is damaged")
    if not n_rows:
        raise FormatError("it is empty: no word was added")
    words: NDArray[np.float32] = source.array("<f4", (n_rows, n_dims), "the words")
    if metric == _INNER_PRODUCT:
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", words, words, dtype=np.float64))
        # Written so that NaN is refused as well.
        if not np.ptp(lengths) <= _ONE_LENGTH * lengths.max():
            raise UnsupportedError(
                f"it compares by inner product and its words have lengths {lengths.min():.4g} to "
                f"{lengths.max():.4g}: the nearest word would differ",
                _by_hand(kinds),
            )
    return words


def _by_hand(kinds: list[bytes]) -> str:
    """Return how to get the vectors of the index that holds the words from faiss."""
    if kinds[0].startswith(_BITS):
        return "Use float descriptors such as SIFT, and train words with 'bowsaw train'."
    # The vectors of an IVF index itself are its database, not its words.
    part = ".quantizer" if kinds[0] in IVF else ".index" if kinds[0] in WITH_IDS else ""
    return (
        "In Python, index = faiss.read_index(…), and bowsaw.Codebook("
        f"index{part}.reconstruct_n(0, index{part}.ntotal)) takes its vectors as words."
    )
