"""Which reader a vocabulary's file needs, and which writer a file name selects.

=====================  ==========================================  =====================
file                   read                                        written
=====================  ==========================================  =====================
``.safetensors``       ours completely; the matrix of another      all of a codebook
``.npz``               ours completely; the matrix of another      all of a codebook
``.npy``               a matrix                                    words
``.yml .xml .json``    OpenCV's FileStorage, also ``.gz``          words
``.faiss .index``      flat indexes, the quantiser of IVF indexes  words, IndexFlatL2
``.skops``             k-means of scikit-learn                     words, a KMeans
``.mat``               MATLAB 4 to 7                               words, one per column
=====================  ==========================================  =====================

The first bytes decide how a file is read, and its name only where they do not (MATLAB 4). Pickles
and vocabulary trees (DBoW2, DBoW3, FBoW) are refused. The name decides how a file is written.

A foreign file gives words only: ids count from 0; description, training images and, unless it is
given, the scale are unknown. A codebook of unknown scale refuses bags of a scale other than 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO, NoReturn

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.faiss import read_faiss, write_faiss
from bowsaw.formats.matlab import HDF5, read_matlab, write_matlab
from bowsaw.formats.numpy_files import MAGIC, read_npy, read_npz, write_npy, write_npz
from bowsaw.formats.opencv import GZIP, read_opencv, refuse_tree, write_opencv
from bowsaw.formats.reader import Matrices, UnsupportedError, open_archive
from bowsaw.formats.safetensors import read_safetensors, write_safetensors
from bowsaw.formats.scikit_learn import SCHEMA, read_skops, write_skops

Reader = Callable[[BinaryIO], Codebook | Matrices]
Writer = Callable[[Codebook, str | PathLike[str]], None]

PICKLES = (".pkl", ".pickle", ".pk", ".joblib", ".jl", ".sav")
_OPENCV = [f"{suffix}{gz}" for gz in ("", ".gz") for suffix in (".yml", ".yaml", ".xml", ".json")]
_FORMATS: dict[str, tuple[Reader, Writer]] = {
    ".safetensors": (read_safetensors, write_safetensors),
    ".npz": (read_npz, write_npz),
    ".npy": (read_npy, write_npy),
    **dict.fromkeys(_OPENCV, (read_opencv, write_opencv)),
    ".faiss": (read_faiss, write_faiss),
    ".index": (read_faiss, write_faiss),
    ".skops": (read_skops, write_skops),
    ".mat": (read_matlab, write_matlab),
}
WRITERS = {suffix: writer for suffix, (_, writer) in _FORMATS.items()}
COMPLETE = (".safetensors", ".npz")
"""Suffixes of the files that keep all of a codebook."""

_N_HEAD = 64
_TEXTS = (b"%YAML", b"<?xml", b"{")
# The number of 64 bits that begins a tree; for trees in text (ORB-SLAM), the first line: branches,
# levels, scoring, weighting.
_TREES = {88877711233: "DBoW3", 55824124: "FBoW"}
_TREE_TEXT = re.compile(rb"(1?\d|20) ([1-9]|10) [0-5] [0-3]\s*?\n")


def load(
    path: str | PathLike[str],
    *,
    variable: str | None = None,
    layout: str | None = None,
    scale: float | None = None,
) -> Codebook:
    """Read a codebook of ours, or the words in a file of another tool.

    Parameters
    ----------
    path : path-like
        safetensors, NumPy, OpenCV, faiss, skops or MATLAB; the content decides.
    variable : str, optional
        The matrix that holds the words, where a file holds several.
    layout : {"rows", "columns"}, optional
        Whether a word is a row or a column of the matrix. By default the tool's convention; where
        that is ambiguous, as in a square matrix of MATLAB, an error asks for it.
    scale : float, optional
        The unit of the words of a foreign file, or of one of ours that came from such a file
        without it: stored value / scale is in unit-norm units.

    Returns
    -------
    Codebook
        From a foreign file, with ``provenance["read_from"]`` and no more.

    Raises
    ------
    FormatError
        The file is none of these, is damaged, or holds no words.
    ParameterError
        The file holds several matrices or an ambiguous one, and a parameter must decide.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "words.npy"
    >>> np.save(file, np.eye(3))
    >>> bs.load(file)
    Codebook(3 words of 3, scale 1)
    """
    source = Path(path)
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make a codebook with 'bowsaw train'.")
    with open_file(source) as file:
        return read(file, fspath(source), variable, layout, scale)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, or raise a FormatError that says why it cannot be opened."""
    try:
        return path.open("rb")
    except OSError as error:
        remedy = "Get permission to read it, or copy it to a folder of your own."
        raise FormatError(f"{path} cannot be read: {error.strerror}. {remedy}") from error


def read(
    file: BinaryIO,
    name: str,
    variable: str | None = None,
    layout: str | None = None,
    scale: float | None = None,
) -> Codebook:
    """Read as ``load`` does, from an open seekable file; ``name`` is used in messages."""
    reader = reader_of(file, name)
    if reader is None:
        raise FormatError(
            f"{name} is not a vocabulary of a known format. Known are {', '.join(_FORMATS)}."
        )
    try:
        found = reader(file)
    except FormatError as error:
        raise _unreadable(name, error) from error
    if isinstance(found, Matrices):
        return found.codebook(name, variable, layout, scale)
    if scale is not None and found.scale_is_unknown:
        provenance = found.provenance
        provenance["read_from"]["scale"] = scale
        fields = {key: getattr(found, key) for key in ("metric", "description", "trained_on")}
        found = Codebook(found.words, found.ids, scale=scale, provenance=provenance, **fields)
        scale = None
    for parameter, value in {"variable": variable, "layout": layout, "scale": scale}.items():
        if value is not None:
            raise ParameterError(
                f"{parameter} is for files of other tools; {name} is a codebook of bowsaw and "
                f"states it itself; got {value!r}. Leave it out."
            )
    return found


def reader_of(file: BinaryIO, name: str) -> Reader | None:
    """Return the reader for the first bytes, or else for the name; refuse a pickle."""
    suffix = _suffix(name)
    head = file.read(_N_HEAD)
    file.seek(0)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32 and suffix not in PICKLES:
        # Before pickles: a header of 640 bytes begins as a pickle does.
        return read_safetensors
    is_pickle = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if suffix in PICKLES or is_pickle:
        raise FormatError(
            f"{name} is a pickle. Opening one can run any code, so bowsaw never does. If you trust "
            "it, open it yourself and convert what it holds: "
            f"bowsaw.formats.from_sklearn(joblib.load({Path(name).name!r}))."
        )
    if head.startswith(b"PK\x03\x04"):
        return read_skops if _has_schema(file, name) else read_npz
    is_tree = int.from_bytes(head[:8], "little") in _TREES or _TREE_TEXT.match(head) is not None
    for begins, reader in (
        (head.startswith(MAGIC), read_npy),
        (head.startswith((b"MATLAB", HDF5)), read_matlab),
        (head.startswith(GZIP), read_opencv),
        (is_tree, _read_tree),
        (head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_TEXTS), read_opencv),
        (head[:2] in (b"Ix", b"Iw", b"IB", b"IH", b"IN") and head[:4].isalnum(), read_faiss),
    ):
        if begins:
            return reader
    return _FORMATS[suffix][0] if suffix in _FORMATS else None


def save(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write a codebook, atomically, in the format that the suffix selects.

    ``.safetensors`` and ``.npz`` keep everything; files for other tools keep the words in their
    stored units and order, and are refused for a codebook with a projection.

    Parameters
    ----------
    codebook : Codebook
        What to write.
    path : path-like
        A name that ends in ``.safetensors``, ``.npz``, ``.npy``, ``.yml``, ``.xml``, ``.json``
        (these three also with ``.gz``), ``.faiss``, ``.skops`` or ``.mat``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "book.safetensors"
    >>> bs.save(bs.Codebook([[0.0], [1.0]], ids=[7, 2]), file)
    >>> bs.load(file).ids.tolist()
    [7, 2]
    """
    writer = writer_of(path)
    if codebook.projection is not None and _suffix(fspath(path)) not in COMPLETE:
        raise ParameterError(
            f"{fspath(path)} would lose the codebook's projection, without which its words are of "
            f"no use. Save as {' or '.join(COMPLETE)}."
        )
    writer(codebook, path)


def writer_of(path: str | PathLike[str]) -> Writer:
    """Return the writer for a file name, or raise a ParameterError that lists the known ones."""
    suffix = _suffix(fspath(path))
    if suffix in PICKLES:
        raise ParameterError(
            f"{fspath(path)} would be a pickle, which is not safe to open. Save as .skops, or "
            "pickle bowsaw.formats.to_sklearn(codebook) yourself."
        )
    if suffix not in WRITERS:
        raise ParameterError(
            f"a vocabulary's file name must end in one of {', '.join(WRITERS)}; got {fspath(path)}."
        )
    return WRITERS[suffix]


def lost_in(codebook: Codebook, path: str | PathLike[str]) -> list[str]:
    """Return the fields of the codebook that a file of this name does not keep."""
    if _suffix(fspath(path)) in COMPLETE:
        return []
    present = {
        "ids": codebook.ids.tolist() != list(range(codebook.n_words)),
        "scale": not codebook.scale_is_unknown and codebook.scale != 1,
        "description": codebook.description is not None,
        "provenance": bool(codebook.provenance.keys() - {"read_from"}),
        "trained_on": codebook.trained_on is not None,
    }
    return [name for name, known in present.items() if known]


def _read_tree(file: BinaryIO) -> NoReturn:
    refuse_tree(_TREES.get(int.from_bytes(file.read(8), "little"), "DBoW2"))


def _suffix(name: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _has_schema(file: BinaryIO, name: str) -> bool:
    try:
        return SCHEMA in open_archive(file).members
    except FormatError as error:
        raise _unreadable(name, error) from error
    finally:
        file.seek(0)


def _unreadable(name: str, error: FormatError) -> FormatError:
    """Return a reader's reason with the file's name, and its remedy or that for damage."""
    remedy = ". Write it again with the tool that it came from; for bowsaw, 'bowsaw train'."
    known = isinstance(error, UnsupportedError)
    return FormatError(f"{name} cannot be read as a codebook: {error}{'' if known else remedy}")
