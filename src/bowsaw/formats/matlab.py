"""MATLAB's files: versions 5 to 7 (``save`` without ``-v7.3``) and 4.

Version 5 is a header of 128 bytes and then elements, each a tag (type, length) and data; a variable
is an element of elements (flags, sizes, name, numbers), and may be packed by zlib. Numbers lie
column by column, in the smallest type that holds them. Version 4 is five numbers, a name and the
values, for each variable. Cells, structures, objects, sparse, complex and text variables are not
read; they are named when nothing else is there. Nothing here calls itself: a variable inside of a
variable is skipped whole.

Files from here hold ``vocabulary``, single, a word a **column** as VLFeat keeps words, and say so
in the text that begins the header, so that reading them again asks nothing.
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
from bowsaw.formats.bounded import RefusedError, Source, allowance, inflated, shown
from bowsaw.formats.matrices import Axes, Matrices

OURS = b"MATLAB 5.0 MAT-file, written by bowsaw: one word a column"
HDF5 = b"\x89HDF\r\n\x1a\n"

_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_MATRIX, _COMPRESSED, _UTF8 = 14, 15, 16
_NUMERIC = range(6, 16)
_SINGLE = 7
_COMPLEX = 0x0800
_CLASSES = {
    1: "a cell array",
    2: "a structure",
    3: "an object",
    4: "a text",
    5: "sparse",
    16: "a function",
    17: "an object",
}
_OLD_TYPES = ("f8", "f4", "i4", "i2", "u2", "u1")
_MOST_VARIABLES = 10_000
_MOST_BYTES = 2**31
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}")


def read_matlab(file: BinaryIO) -> Matrices:
    """Return the full real matrices of a file of version 4, 5, 6 or 7."""
    source = Source(file)
    n_bytes = source.left
    begin = source.take(min(n_bytes, 8), "the header")
    if begin == HDF5:
        raise RefusedError(
            "it is HDF5, which is not read",
            "Save it again in MATLAB with save('words.mat', 'words', '-v7'), or take the matrix "
            "out with h5py and write it with numpy.save.",
        )
    if len(begin) == 8 and 0 in begin[:4]:
        file.seek(0)
        return _collected("MATLAB 4", Axes.UNKNOWN, _variables_of_4(Source(file)))
    header = begin + source.take(120, "the header")
    if header[124:126] in (b"\x00\x02", b"\x02\x00"):
        raise RefusedError(
            "it is of MATLAB's version 7.3, which is HDF5 and is not read",
            "Save it again in MATLAB with save('words.mat', 'words', '-v7').",
        )
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
    if order is None or header[124:126] != (b"\x00\x01" if order == "<" else b"\x01\x00"):
        raise FormatError("it does not begin as a MATLAB file of version 5 does")
    axes = Axes.COLUMNS if header.startswith(OURS) else Axes.UNKNOWN
    return _collected("MATLAB 5", axes, _variables_of_5(source, order, allowance(n_bytes)))


def write_matlab(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words as ``vocabulary``, single, ``(n_dims, n_words)``: a word a column."""
    # Row after row here is column after column there.
    values = codebook.words.astype("<f4", copy=False)
    if values.nbytes >= _MOST_BYTES:
        raise FormatError(
            f"{fspath(path)} would hold {values.nbytes:,} bytes of words, and a MATLAB file holds "
            f"less than {_MOST_BYTES:,} a variable. Save as .safetensors or .npy."
        )
    padding = -values.nbytes % 8
    before = b"".join(
        (
            _element(6, np.array([_SINGLE, 0], "<u4").tobytes()),
            _element(5, np.array([codebook.n_dims, codebook.n_words], "<i4").tobytes()),
            _element(1, b"vocabulary"),
            _tag(7, values.nbytes),
        )
    )
    with atomic_write(path) as file:
        file.write(OURS.ljust(116) + bytes(8) + b"\x00\x01IM")
        file.write(_tag(_MATRIX, len(before) + values.nbytes + padding) + before)
        file.write(values.data)
        file.write(bytes(padding))


def _element(kind: int, data: bytes) -> bytes:
    return _tag(kind, len(data)) + data + bytes(-len(data) % 8)


def _tag(kind: int, n_bytes: int) -> bytes:
    return np.array([kind, n_bytes], "<u4").tobytes()


def _collected(
    title: str, axes: Axes, variables: Iterator[tuple[str, NDArray[Any] | str]]
) -> Matrices:
    found: dict[str, NDArray[Any]] = {}
    refused: dict[str, str] = {}
    for number, (name, value) in enumerate(variables):
        if number >= _MOST_VARIABLES:
            raise FormatError(f"it holds more than {_MOST_VARIABLES:,} variables")
        if name in found or name in refused:
            raise FormatError(f"it holds two variables {name!r}")
        if isinstance(value, str):
            refused[name] = value
        elif value.ndim != 2 or not value.size:
            refused[name] = f"of size {' × '.join(map(str, value.shape))}, not a matrix"
        else:
            found[name] = value
    return Matrices(title, axes, found, refused)


# -- version 5 -------------------------------------------------------------------------------------


def _variables_of_5(
    source: Source, order: str, limit: int
) -> Iterator[tuple[str, NDArray[Any] | str]]:
    while source.left:
        kind, length = source.array(order + "u4", (2,), "a tag").tolist()
        data = source.take(length, "a variable")
        if kind == _COMPRESSED:
            unpacked = inflated([data], limit)
            limit -= len(unpacked)
            inner = Source(io.BytesIO(unpacked))
            kind, length = inner.array(order + "u4", (2,), "a tag").tolist()
            data = inner.take(length, "a variable")
        if kind == _MATRIX:
            yield from _variable(Source(io.BytesIO(data)), order)


def _variable(source: Source, order: str) -> Iterator[tuple[str, NDArray[Any] | str]]:
    flags = _part(source, order, "flags", "u4")
    if len(flags) < 1:
        raise FormatError("a variable has no flags")
    kind, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & _COMPLEX)
    if kind == 17:
        # An object's name comes where others have their sizes.
        yield _name(_part(source, order, "a name", "i1").tobytes()), _CLASSES[kind]
        return
    sizes = _part(source, order, "sizes", "i4").tolist()
    name = _name(_part(source, order, "a name", "i1").tobytes())
    if not name:
        # What MATLAB keeps beside the variables, such as the functions of a workspace.
        return
    if kind not in _NUMERIC:
        yield name, _CLASSES.get(kind, f"of MATLAB's class {kind}")
    elif is_complex:
        yield name, "complex"
    elif len(sizes) < 2 or min(sizes) < 0:
        raise FormatError(f"{name} has sizes {sizes}: it is damaged")
    elif len(sizes) > 2:
        yield name, f"of size {' × '.join(map(str, sizes[:9]))}, not a matrix"
    else:
        values = _part(source, order, f"the numbers of {name}")
        if len(values) != math.prod(sizes):
            raise FormatError(f"{name} has {len(values):,} numbers for the sizes {sizes}")
        yield name, values.reshape(sizes, order="F")


def _part(source: Source, order: str, what: str, dtype: str = "") -> NDArray[Any]:
    """Return an element of a variable; short ones lie inside of their tag."""
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
        raise FormatError(f"a variable is called {shown(name)!r}: it is damaged")
    return name


# -- version 4 -------------------------------------------------------------------------------------


def _variables_of_4(source: Source) -> Iterator[tuple[str, NDArray[Any] | str]]:
    while source.left:
        head = source.take(20, "the head of a variable")
        order = "<"
        mark, rows, columns, imaginary, n_name = np.frombuffer(head, "<i4").tolist()
        if not 0 <= mark < 5000:
            order = ">"
            mark, rows, columns, imaginary, n_name = np.frombuffer(head, ">i4").tolist()
        machine, zero, kind, form = (mark // 10**i % 10 for i in (3, 2, 1, 0))
        if not 0 <= mark < 5000 or machine != (order == ">") or zero or kind > 5 or form > 2:
            raise FormatError("it does not begin as a MATLAB file does")
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
