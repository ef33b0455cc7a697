"""MATLAB's files: versions 5 to 7 (``save`` without ``-v7.3``) and 4.

Version 5 is a header of 128 bytes and then elements, each a tag (type, length) and data; a variable
is an element of elements (flags, sizes, name, numbers), and may be compressed by zlib. Numbers are
stored by column, in the smallest type that holds them. Version 4 is five numbers, a name and the
values, per variable. Only full real matrices are read. Nothing recurses.

The reader is our own because ``scipy.io.loadmat`` is not safe on damaged files: it uses the type in
a tag as an index into a C array (one changed byte ends the process with a segmentation fault) and
inflates without a limit. Checking the tags first would take all of this reader. Files are written
by ``scipy.io.savemat``: ``vocabulary``, single, one word per **column** as in VLFeat. The header
states this, so reading them back needs no ``layout``.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.reader import (
    Axes,
    ByteReader,
    Matrices,
    UnsupportedError,
    inflate,
    inflation_limit,
    printable,
)

OURS = b"MATLAB 5.0 MAT-file, written by bowsaw: one word a column"
"""The mark in the header; files with it are read without asking for the layout."""
HDF5 = b"\x89HDF\r\n\x1a\n"

_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_MATRIX, _COMPRESSED, _UTF8 = 14, 15, 16
_NUMERIC = range(6, 16)
_COMPLEX = 0x0800
_CLASSES = {
    1: "a cell array", 2: "a structure", 3: "an object", 4: "a text", 5: "sparse",
    16: "a function", 17: "an object",
}  # fmt: skip
_OLD_TYPES = ("f8", "f4", "i4", "i2", "u2", "u1")
_MAX_BYTES = 2**31
_N_TEXT = 116
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}")


def read_matlab(file: BinaryIO) -> Matrices:
    """Return the full real matrices of a file of version 4, 5, 6 or 7."""
    source = ByteReader(file)
    n_bytes = source.left
    begin = source.take(min(n_bytes, 8), "the header")
    if begin == HDF5:
        raise UnsupportedError(
            "it is HDF5, which is not read",
            "Save it again in MATLAB with save('words.mat', 'words', '-v7'), or read the matrix "
            "with h5py and write it with numpy.save.",
        )
    if len(begin) == 8 and 0 in begin[:4]:
        file.seek(0)
        old = _variables_of_4(ByteReader(file))
        return Matrices.collect("MATLAB 4", Axes.UNKNOWN, old, "variables")
    header = begin + source.take(120, "the header")
    if header[124:126] in (b"\x00\x02", b"\x02\x00"):
        raise UnsupportedError(
            "it is of MATLAB's version 7.3, which is HDF5 and is not read",
            "Save it again in MATLAB with save('words.mat', 'words', '-v7').",
        )
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
    if order is None or header[124:126] != (b"\x00\x01" if order == "<" else b"\x01\x00"):
        raise FormatError("its header is not that of a MATLAB file of version 5")
    axes = Axes.COLUMNS if header.startswith(OURS) else Axes.UNKNOWN
    variables = _variables_of_5(source, order, inflation_limit(n_bytes))
    return Matrices.collect("MATLAB 5", axes, variables, "variables")


def write_matlab(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words as ``vocabulary``, single, ``(n_dims, n_words)``: one word per column."""
    from scipy.io import savemat

    if codebook.words.nbytes >= _MAX_BYTES:
        raise FormatError(
            f"{fspath(path)} would hold {codebook.words.nbytes:,} bytes of words, and a MATLAB "
            f"variable holds less than {_MAX_BYTES:,}. Save as .safetensors or .npy."
        )
    content = io.BytesIO()
    savemat(content, {"vocabulary": codebook.words.T})
    with atomic_write(path) as file:
        # SciPy's own text has the date in it: equal codebooks give equal bytes.
        file.write(OURS.ljust(_N_TEXT))
        file.write(content.getbuffer()[_N_TEXT:])


def _variables_of_5(
    source: ByteReader, order: str, limit: int
) -> Iterator[tuple[str, NDArray[Any] | str]]:
    while source.left:
        kind, length = source.array(order + "u4", (2,), "a tag").tolist()
        data = source.take(length, "a variable")
        if kind == _COMPRESSED:
            unpacked = inflate([data], limit)
            limit -= len(unpacked)
            inner = ByteReader(io.BytesIO(unpacked))
            kind, length = inner.array(order + "u4", (2,), "a tag").tolist()
            data = inner.take(length, "a variable")
        if kind == _MATRIX:
            yield from _variable(ByteReader(io.BytesIO(data)), order)


def _variable(source: ByteReader, order: str) -> Iterator[tuple[str, NDArray[Any] | str]]:
    flags = _part(source, order, "flags", "u4")
    if len(flags) < 1:
        raise FormatError("a variable has no flags")
    kind, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & _COMPLEX)
    if kind == 17:
        # An object's name is where others have their sizes.
        yield _name(_part(source, order, "a name", "i1").tobytes()), _CLASSES[kind]
        return
    sizes = _part(source, order, "sizes", "i4").tolist()
    name = _name(_part(source, order, "a name", "i1").tobytes())
    if not name:
        # MATLAB's own data beside the variables, such as the functions of a workspace.
        return
    if kind not in _NUMERIC:
        yield name, _CLASSES.get(kind, f"of MATLAB's class {kind}")
    elif is_complex:
        yield name, "complex"
    elif len(sizes) < 2 or min(sizes) < 0:
        raise FormatError(f"{name} has sizes {sizes}: it is damaged")
    elif len(sizes) > 2:
        yield name, f"of shape {' × '.join(map(str, sizes[:9]))}, not a matrix"
    else:
        values = _part(source, order, f"the numbers of {name}")
        if len(values) != math.prod(sizes):
            raise FormatError(f"{name} has {len(values):,} numbers for the sizes {sizes}")
        yield name, values.reshape(sizes, order="F")


def _part(source: ByteReader, order: str, what: str, dtype: str = "") -> NDArray[Any]:
    """Return an element of a variable; short ones are inside their tag."""
    [tag] = source.array(order + "u4", (1,), f"the tag of {what}").tolist()
    kind, length = tag & 0xFFFF, tag >> 16
    padding = 4 - length
    if not length:
        [length] = source.array(order + "u4", (1,), f"the length of {what}").tolist()
        padding = -length % 8
    kind = 1 if kind == _UTF8 and dtype == "i1" else kind
    if kind not in _TYPES or (dtype and _TYPES[kind][1:] != dtype[1:]) or padding < 0:
        raise FormatError(f"MATLAB's type {kind} is not read for {what}, or it is damaged")
    numbers = np.dtype(order + (dtype or _TYPES[kind]))
    if length % numbers.itemsize:
        raise FormatError(f"{what} end within a number")
    found = source.array(numbers, (length // numbers.itemsize,), what)
    source.take(min(padding, source.left), "padding")
    return found


def _name(characters: bytes) -> str:
    name = characters.decode("latin-1").rstrip("\0")
    if name and not _NAME.fullmatch(name):
        raise FormatError(f"a variable is called {printable(name)!r}: it is damaged")
    return name


def _variables_of_4(source: ByteReader) -> Iterator[tuple[str, NDArray[Any] | str]]:
    while source.left:
        head = source.take(20, "the head of a variable")
        order = "<"
        mark, rows, columns, imaginary, n_name = np.frombuffer(head, "<i4").tolist()
        if not 0 <= mark < 5000:
            order = ">"
            mark, rows, columns, imaginary, n_name = np.frombuffer(head, ">i4").tolist()
        machine, zero, kind, form = (mark // 10**i % 10 for i in (3, 2, 1, 0))
        if not 0 <= mark < 5000 or machine != (order == ">") or zero or kind > 5 or form > 2:
            raise FormatError("its header is not that of a MATLAB file")
        if min(rows, columns) < 0 or imaginary not in (0, 1):
            raise FormatError(f"a variable has the sizes {rows} × {columns}: it is damaged")
        name = _name(source.take(n_name, "a name"))
        numbers = np.dtype(order + _OLD_TYPES[kind])
        shape = (rows * columns * (1 + imaginary),)
        values = source.array(numbers, shape, f"the numbers of {name}")
        if form or imaginary:
            yield name, ("complex", "a text", "sparse")[form]
        else:
            yield name, values.reshape((rows, columns), order="F")
