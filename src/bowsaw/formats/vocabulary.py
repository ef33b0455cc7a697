"""Vocabularies of any tool: which reader a file needs, and which writer a name asks for.

=====================  ==========================================  =====================
file                   read                                        written
=====================  ==========================================  =====================
``.safetensors``       ours whole; the matrix of another's         all of a codebook
``.npz``               ours whole; the matrix of another's         all of a codebook
``.npy``               a matrix                                    words
``.yml .xml .json``    OpenCV's FileStorage, also ``.gz``          words
``.faiss .index``      flat indexes, the quantiser of IVF indexes  words, IndexFlatL2
``.skops``             k-means of scikit-learn's                   words, a KMeans
``.mat``               MATLAB 4 to 7                               words, one a column
=====================  ==========================================  =====================

**The first bytes decide** how a file is read, and its name only where they say nothing (MATLAB 4):
a ``.yml`` that is XML inside is read as XML, as OpenCV does. A pickle is refused by its bytes and
by its name. Names decide how a file is written.

A foreign file gives words and nothing else: ids count from 0, what made the descriptors and which
images taught the words is unknown, and so is the scale unless it is given. ``provenance`` says
where the words were read, and a codebook of unknown scale refuses bags of another scale than 1.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.bounded import Archive, RefusedError
from bowsaw.formats.faiss import read_faiss, write_faiss
from bowsaw.formats.matlab import HDF5, read_matlab, write_matlab
from bowsaw.formats.matrices import Matrices
from bowsaw.formats.numpy_files import MAGIC, read_npy, read_npz, write_npy, write_npz
from bowsaw.formats.opencv import GZIP, read_opencv, write_opencv
from bowsaw.formats.safetensors import read_safetensors, write_safetensors
from bowsaw.formats.scikit_learn import SCHEMA, read_skops, write_skops
from bowsaw.formats.trees import is_tree, read_tree

Reader = Callable[[BinaryIO], Codebook | Matrices]
Writer = Callable[[Codebook, str | PathLike[str]], None]

PICKLES = (".pkl", ".pickle", ".pk", ".joblib", ".jl", ".sav")
WRITERS: dict[str, Writer] = {
    ".safetensors": write_safetensors,
    ".npz": write_npz,
    ".npy": write_npy,
    ".yml": write_opencv,
    ".yaml": write_opencv,
    ".xml": write_opencv,
    ".json": write_opencv,
    ".yml.gz": write_opencv,
    ".yaml.gz": write_opencv,
    ".xml.gz": write_opencv,
    ".json.gz": write_opencv,
    ".faiss": write_faiss,
    ".index": write_faiss,
    ".skops": write_skops,
    ".mat": write_matlab,
}
"""How a file name may end, and what writes it."""

WHOLE = (".safetensors", ".npz")
"""The files that keep all of a codebook."""

_REMEDY = "Write it anew with the tool that it came from; ours is «bowsaw train»."
_N_HEAD = 64
_TEXTS = (b"%YAML", b"<?xml", b"{")
_READERS: dict[str, Reader] = {
    ".safetensors": read_safetensors,
    ".npz": read_npz,
    ".npy": read_npy,
    ".skops": read_skops,
    ".mat": read_matlab,
    ".faiss": read_faiss,
    ".index": read_faiss,
    **{end: read_opencv for end, writer in WRITERS.items() if writer is write_opencv},
}


def load(
    path: str | PathLike[str],
    *,
    variable: str | None = None,
    layout: str | None = None,
    scale: float | None = None,
) -> Codebook:
    """Read a codebook of ours, or the words in a file of another tool's.

    Parameters
    ----------
    path : path-like
        safetensors, NumPy, OpenCV, faiss, skops or MATLAB; the content decides.
    variable : str, optional
        The matrix that holds the words, where a file holds several.
    layout : {"rows", "columns"}, optional
        Whether a word is a row or a column of the matrix. By default as the tool has it; where that
        is doubtful, as in a square matrix of MATLAB's, an error asks for it.
    scale : float, optional
        The unit of the words of a foreign file, or of one of ours that came from such a file and
        does not know it: stored value / scale is in unit-norm units.

    Returns
    -------
    Codebook
        Of a foreign file, with what ``provenance["read_from"]`` tells, and no more.

    Raises
    ------
    FormatError
        The file is none of these, is damaged, or holds no words.
    ParameterError
        The file holds several matrices or a doubtful one, and a parameter must tell.

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
        raise FormatError(f"{source} is not a file. Make a codebook with «bowsaw train».")
    with opened(source) as file:
        return read(file, fspath(source), variable=variable, layout=layout, scale=scale)


def opened(path: Path) -> BinaryIO:
    """Open a file to read it, or raise a FormatError that says why it cannot be."""
    try:
        return path.open("rb")
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read: {error.strerror}. Ask for the right to read it, or copy it to "
            "a folder of your own."
        ) from error


def read(
    file: BinaryIO,
    name: str,
    *,
    variable: str | None = None,
    layout: str | None = None,
    scale: float | None = None,
) -> Codebook:
    """Read as ``load`` does from an open file that can be sought; ``name`` is what it is called."""
    reader = reader_of(file, name)
    if reader is None:
        raise FormatError(
            f"{name} is not a vocabulary of a known kind. Known are {', '.join(_READERS)}."
        )
    try:
        found = reader(file)
    except FormatError as error:
        raise _unreadable(name, error) from error
    if isinstance(found, Matrices):
        return found.codebook(name, variable, layout, scale)
    if scale is not None and found.scale_is_unknown:
        found, scale = _of_scale(found, scale), None
    given = {"variable": variable, "layout": layout, "scale": scale}
    for parameter, value in given.items():
        if value is not None:
            raise ParameterError(
                f"{parameter} is for files of other tools, and {name} is a codebook of bowsaw's, "
                f"which says all of it; got {value!r}. Leave it out."
            )
    return found


def _of_scale(codebook: Codebook, scale: float) -> Codebook:
    """Return a codebook that was read from a foreign file with the scale that was not told then."""
    provenance = codebook.provenance
    provenance["read_from"]["scale"] = scale
    return Codebook(
        codebook.words,
        codebook.ids,
        scale=scale,
        metric=codebook.metric,
        description=codebook.description,
        provenance=provenance,
        trained_on=codebook.trained_on,
    )


def reader_of(file: BinaryIO, name: str) -> Reader | None:
    """Return the reader that the first bytes ask for, or else the name; None when neither does.

    A pickle is refused. The file is left at its start.

    Examples
    --------
    >>> import io
    >>> reader_of(io.BytesIO(b"IxF2"), "words").__name__
    'read_faiss'
    """
    end = _end(name)
    head = file.read(_N_HEAD)
    file.seek(0)
    n_header = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and n_header < 2**32 and end not in PICKLES:
        # Before pickles: a header of 640 bytes begins as a pickle does.
        return read_safetensors
    if end in PICKLES or (head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and head[1:2]):
        raise FormatError(
            f"{name} is a pickle, and opening one may run any code, so it is never done here. If "
            "you trust it, open it yourself and hand over what it holds: "
            f"bowsaw.from_sklearn(joblib.load({Path(name).name!r}))."
        )
    if head.startswith(b"PK\x03\x04"):
        return read_skops if _has_schema(file, name) else read_npz
    for begins, reader in (
        (head.startswith(MAGIC), read_npy),
        (head.startswith((b"MATLAB", HDF5)), read_matlab),
        (head.startswith(GZIP), read_opencv),
        (is_tree(head), read_tree),
        (head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_TEXTS), read_opencv),
        (head[:2] in (b"Ix", b"Iw", b"IB", b"IH", b"IN") and head[:4].isalnum(), read_faiss),
    ):
        if begins:
            return reader
    return _READERS.get(end)


def save(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write a codebook in the format that the name's end asks for; whole or not at all.

    ``.safetensors`` and ``.npz`` keep everything; files for other tools keep the words in their
    stored units and order.

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
    writer_of(path)(codebook, path)


def writer_of(path: str | PathLike[str]) -> Writer:
    """Return what writes a file of this name, or say which names are known."""
    end = _end(fspath(path))
    if end in PICKLES:
        raise ParameterError(
            f"{fspath(path)} would be a pickle, which nobody should have to open. Save as .skops, "
            "or pickle bowsaw.to_sklearn(codebook) yourself."
        )
    if end not in WRITERS:
        raise ParameterError(
            f"a vocabulary's file name must end in one of {', '.join(WRITERS)}; got {fspath(path)}."
        )
    return WRITERS[end]


def lost_in(codebook: Codebook, path: str | PathLike[str]) -> list[str]:
    """Return what the codebook knows and a file of this name does not keep.

    Examples
    --------
    >>> lost_in(Codebook([[1.0]], ids=[7]), "words.npy")
    ['ids']
    """
    if _end(fspath(path)) in WHOLE:
        return []
    counted = codebook.ids.tolist() == list(range(codebook.n_words))
    unknown = codebook.scale_is_unknown or codebook.scale == 1
    own = {key: value for key, value in codebook.provenance.items() if key != "read_from"}
    knows = {
        "ids": not counted,
        "scale": not unknown,
        "description": codebook.description is not None,
        "provenance": bool(own),
        "trained_on": codebook.trained_on is not None,
    }
    return [name for name, known in knows.items() if known]


def _end(name: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _has_schema(file: BinaryIO, name: str) -> bool:
    try:
        return SCHEMA in Archive(file).names
    except FormatError as error:
        raise _unreadable(name, error) from error
    finally:
        file.seek(0)


def _unreadable(name: str, error: FormatError) -> FormatError:
    """Return a reader's reason with the file's name, and its remedy or that for damage."""
    remedy = "" if isinstance(error, RefusedError) else f". {_REMEDY}"
    return FormatError(f"{name} cannot be read as a codebook: {error}{remedy}")
