"""OpenCV's FileStorage: YAML, XML and JSON, each also packed by gzip.

A small reader of our own, because OpenCV's is native code without limits. It knows what OpenCV
writes and no more: at the top level, matrices (``rows``, ``cols``, ``dt``, ``data``) among whatever
else, which is skipped. The text is walked once, by searches for the next sign that matters; nothing
calls itself, there are no anchors, aliases, entities or document types, and numbers are turned into
an array piece by piece after their count was compared with the length of the text.

``dt`` is the type: u, c, w, s, i, f, d, h; more channels have a number before it and are refused,
as are sparse matrices and those of more axes. ``data`` are numbers, or base64 of 24 bytes of type
(again) and the little-endian values.

Files from here hold one matrix ``vocabulary``, the name in OpenCV's own example, a word a row.
"""

from __future__ import annotations

import binascii
import gzip
import re
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.bounded import RefusedError, Source, allowance, inflated, pieces, shown
from bowsaw.formats.matrices import Axes, Matrices
from bowsaw.formats.opencv_nodes import BASE64, Node, json_nodes, xml_nodes, yaml_nodes
from bowsaw.formats.trees import is_stored_tree, refuse_tree

GZIP = b"\x1f\x8b"
NAME = "vocabulary"

_TYPES = {
    "u": "<u1", "c": "<i1", "w": "<u2", "s": "<i2", "i": "<i4", "f": "<f4", "d": "<f8", "h": "<f2",
}  # fmt: skip
_N_HEAD = 24
_N_BEGIN = 1000
_MOST_NODES = 10_000
_PIECE = 2**20
_LONGEST_NUMBER = 400
_GZIP_LEVEL = 4
"""Of digits, the highest level takes six times as long and saves a twentieth."""

_DIGITS = re.compile(r"[-+0-9.eE,\s]*")
_NOT_FINITE = re.compile(r"[.]?(?:nan|inf)", re.IGNORECASE)


def read_opencv(file: BinaryIO) -> Matrices:
    """Return the matrices of a FileStorage file; the first bytes tell YAML, XML or JSON."""
    source = Source(file)
    n_bytes = source.left
    head = source.take(min(n_bytes, 2), "the beginning")
    file.seek(-len(head), 1)
    packed = head == GZIP
    data = inflated(pieces(file), allowance(n_bytes), gzip=True) if packed else file.read()
    if data[:1] == b"\x80":
        raise RefusedError(
            "it is a packed pickle, which may run any code when it is opened",
            "If you trust it, open it yourself: bowsaw.from_sklearn(joblib.load(…)).",
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FormatError("it is not text in UTF-8") from error
    del data
    begin = text[:200].lstrip()
    if begin.startswith("%YAML"):
        title, nodes = "YAML", yaml_nodes(text)
    elif begin.startswith("<?xml"):
        title, nodes = "XML", xml_nodes(text)
    elif begin.startswith("{"):
        title, nodes = "JSON", json_nodes(text)
    else:
        raise FormatError("it begins neither with %YAML, nor <?xml, nor {, as OpenCV's files do")
    found = _collected(f"OpenCV {title}", nodes)
    if not found.found and is_stored_tree(text[:_N_BEGIN]):
        refuse_tree("DBoW2 or DBoW3")
    return found


def write_opencv(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words as ``vocabulary``; the name's end tells YAML, XML or JSON, and gzip."""
    name = fspath(path).lower()
    packed = name.endswith(".gz")
    kind = name.removesuffix(".gz").rpartition(".")[2]
    rows = [" ".join(map(_digits, row)) for row in codebook.words.tolist()]
    n_words, n_dims = codebook.words.shape
    if kind == "xml":
        text = (
            f'<?xml version="1.0"?>\n<opencv_storage>\n<{NAME} type_id="opencv-matrix">\n'
            f"  <rows>{n_words}</rows>\n  <cols>{n_dims}</cols>\n  <dt>f</dt>\n  <data>\n    "
            + "\n    ".join(rows)
            + f"</data></{NAME}>\n</opencv_storage>\n"
        )
    elif kind == "json":
        text = (
            f'{{\n    "{NAME}": {{\n        "type_id": "opencv-matrix",\n'
            f'        "rows": {n_words},\n        "cols": {n_dims},\n        "dt": "f",\n'
            '        "data": [ ' + ",\n            ".join(r.replace(" ", ", ") for r in rows)
        ) + " ]\n    }\n}\n"
    else:
        # The version as OpenCV 3 and 4 write it, which they ask for; 5 reads it as well.
        text = (
            f"%YAML:1.0\n---\n{NAME}: !!opencv-matrix\n   rows: {n_words}\n   cols: {n_dims}\n"
            "   dt: f\n   data: [ " + ",\n       ".join(r.replace(" ", ", ") for r in rows) + " ]\n"
        )
    data = text.encode("ascii")
    with atomic_write(path) as file:
        file.write(gzip.compress(data, _GZIP_LEVEL, mtime=0) if packed else data)


def _digits(value: float) -> str:
    """Return a float32 in nine digits, which give it back to the bit, never as a whole number."""
    text = f"{value:.9g}"
    return text if "." in text or "e" in text else text + ".0"


# -- what a matrix is ------------------------------------------------------------------------------


def _collected(title: str, nodes: Iterator[Node]) -> Matrices:
    found: dict[str, NDArray[Any]] = {}
    refused: dict[str, str] = {}
    for number, (name, kind, fields) in enumerate(nodes):
        if number >= _MOST_NODES:
            raise FormatError(f"it holds more than {_MOST_NODES:,} things")
        if name in found or name in refused:
            raise FormatError(f"it holds two things called {shown(name)!r}")
        if kind == "opencv-matrix":
            value = _matrix(shown(name), fields)
            if isinstance(value, str):
                refused[name] = value
            else:
                found[name] = value
        elif kind in ("opencv-sparse-matrix", "opencv-nd-matrix"):
            refused[name] = "sparse" if "sparse" in kind else "a matrix of more than two axes"
        else:
            refused[name] = "not a matrix"
    return Matrices(title, Axes.ROWS, found, refused)


def _matrix(name: str, fields: dict[str, str]) -> NDArray[Any] | str:
    missing = {"rows", "cols", "dt", "data"} - set(fields)
    if missing:
        raise FormatError(f"the matrix {name} has no {', '.join(sorted(missing))}")
    kind = fields["dt"].strip().strip('"').removeprefix("1")
    if kind not in _TYPES:
        return f"of OpenCV's type {shown(kind, 20)!r}: one channel of numbers is read"
    sizes = [fields[field].strip() for field in ("rows", "cols")]
    if not all(size.isdecimal() and len(size) <= 10 for size in sizes):
        raise FormatError(
            f"the matrix {name} has sizes {shown(sizes[0], 20)} × {shown(sizes[1], 20)}"
        )
    n_rows, n_cols = map(int, sizes)
    data = fields["data"].strip()
    if not n_rows * n_cols:
        return f"empty ({n_rows} × {n_cols})"
    if data.startswith(BASE64):
        values = _unpacked(name, data.removeprefix(BASE64), kind, n_rows * n_cols)
    else:
        values = _numbers(name, data, kind, n_rows * n_cols)
    return values.reshape(n_rows, n_cols)


def _unpacked(name: str, text: str, kind: str, count: int) -> NDArray[Any]:
    try:
        data = binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError as error:
        raise FormatError(f"the base64 of the matrix {name} is damaged ({error})") from error
    head = data[:_N_HEAD].decode("latin-1").strip(" \0")
    if head.removeprefix("1") != kind:
        raise FormatError(
            f"the base64 of the matrix {name} is of type {shown(head)!r}, not {kind!r}"
        )
    dtype = np.dtype(_TYPES[kind])
    if len(data) - _N_HEAD != count * dtype.itemsize:
        raise FormatError(
            f"the matrix {name} should have {count:,} numbers and has {len(data) - _N_HEAD:,} bytes"
        )
    return np.frombuffer(data, dtype, offset=_N_HEAD)


def _numbers(name: str, text: str, kind: str, count: int) -> NDArray[Any]:
    # A number takes a digit and a sign that ends it.
    if count > (len(text) + 1) // 2:
        raise FormatError(f"the matrix {name} should have {count:,} numbers and is shorter")
    values = np.empty(count, np.float64)
    done = begin = 0
    while begin < len(text):
        end = begin + _PIECE
        while end < len(text) and text[end] not in ", \n\t":
            end += 1
            if end > begin + _PIECE + _LONGEST_NUMBER:
                raise FormatError(f"the matrix {name} holds a number of too many digits")
        piece = text[begin:end]
        if not _DIGITS.fullmatch(piece):
            not_finite = _NOT_FINITE.search(piece)
            told = "holds NaN or infinite numbers" if not_finite else "holds what is not a number"
            raise FormatError(f"the matrix {name} {told}")
        digits = piece.replace(",", " ").split()
        if done + len(digits) > count:
            break
        try:
            values[done : done + len(digits)] = list(map(float, digits))
        except ValueError as error:
            raise FormatError(f"the matrix {name} holds what is not a number") from error
        done += len(digits)
        begin = end
    if done != count or begin < len(text):
        raise FormatError(f"the matrix {name} has other than its {count:,} numbers")
    with np.errstate(over="ignore"):
        return values.astype(_TYPES[kind]) if kind in "fh" else values
