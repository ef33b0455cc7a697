"""OpenCV's FileStorage: YAML, XML and JSON, each also compressed by gzip.

The reader is our own, because OpenCV's is native code without limits. It knows what OpenCV writes
and no more: matrices (``rows``, ``cols``, ``dt``, ``data``) at the top level, among other values,
which are skipped. The text is scanned once, without recursion, anchors, entities or document types;
numbers are parsed in chunks after their count was compared with the length of the text.

``dt`` is the type: u, c, w, s, i, f, d, h. Several channels (a number before it), sparse matrices
and more than two axes are refused. ``data`` are numbers, or base64 of 24 bytes of type (again) and
the little-endian values.

Files are written by ``cv2.FileStorage``: one matrix ``vocabulary``, the name in OpenCV's own
example, one word per row.
"""

from __future__ import annotations

import binascii
import gzip
import re
from collections.abc import Iterator
from itertools import islice
from os import PathLike, fspath
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.reader import (
    Axes,
    Matrices,
    UnsupportedError,
    inflate,
    inflation_limit,
    printable,
)

GZIP = b"\x1f\x8b"
NAME = "vocabulary"

_TYPES = {
    "u": "<u1", "c": "<i1", "w": "<u2", "s": "<i2", "i": "<i4", "f": "<f4", "d": "<f8", "h": "<f2",
}  # fmt: skip
_N_HEAD = 24
_N_START = 1000
_CHUNK = 2**20
_MAX_DIGITS = 400
_TREE_FIELDS = ("scoringType", "weightingType", "nodes")
# The highest level takes six times as long and saves a twentieth.
_GZIP_LEVEL = 4
_DIGITS = re.compile(r"[-+0-9.eE,\s]*")
_NOT_FINITE = re.compile(r"[.]?(?:nan|inf)", re.IGNORECASE)
# A name, OpenCV's name of its type, and its fields as text.
_Node = tuple[str, str, dict[str, str]]
_BASE64 = "$base64$"
_FIELDS = ("rows", "cols", "dt", "data", "sizes")
_YAML_NODE = re.compile(r"^([^\s#%.\-:][^:\n]*):[ \t]*(?:!!([\w-]+))?", re.MULTILINE)
_YAML_FIELD = re.compile(r"^[ \t]+(" + "|".join(_FIELDS) + r"):", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
_JSON_TOKEN = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[][{}:,]|[^][{}:,"\s]+)')
_XML_TAG = re.compile(r"<!--.*?-->|<\?.*?\?>|<([^!?>][^>]*)>", re.DOTALL)
_XML_TYPE = re.compile(r"\btype_id\s*=\s*[\"']([^\"']*)[\"']")


def read_opencv(file: BinaryIO) -> Matrices:
    """Return the matrices of a FileStorage file; the first bytes select YAML, XML or JSON."""
    data = file.read()
    if data.startswith(GZIP):
        data = inflate([data], inflation_limit(len(data)), gzip=True)
    if data[:1] == b"\x80":
        raise UnsupportedError(
            "it is a compressed pickle, which can run any code when it is opened",
            "If you trust it, open it yourself: bowsaw.formats.from_sklearn(joblib.load(…)).",
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FormatError("it is not text in UTF-8") from error
    del data
    begin = text[:200].lstrip()
    if begin.startswith("%YAML"):
        title, nodes = "YAML", _yaml_nodes(text)
    elif begin.startswith("<?xml"):
        title, nodes = "XML", _xml_nodes(text)
    elif begin.startswith("{"):
        title, nodes = "JSON", _json_nodes(text)
    else:
        raise FormatError("it does not begin with %YAML, <?xml or {, as files of OpenCV do")
    values = ((name, _value(name, kind, fields)) for name, kind, fields in nodes)
    found = Matrices.collect(f"OpenCV {title}", Axes.ROWS, values, "nodes")
    if not found.found and all(name in text[:_N_START] for name in _TREE_FIELDS):
        refuse_tree("DBoW2 or DBoW3")
    return found


def refuse_tree(library: str) -> NoReturn:
    """Refuse the vocabulary tree of a library (DBoW2, DBoW3, FBoW), with the reason."""
    # Descending a tree need not end at the nearest leaf, so it codes differently from a codebook.
    raise UnsupportedError(
        f"it is a vocabulary tree of {library}; such trees are mostly of bits (ORB, BRIEF), and "
        "bowsaw compares words by Euclidean distance",
        "Describe the images by SIFT and train words with 'bowsaw train'; for a tree of floats, "
        "pass the descriptors of its leaves, one per row, to bowsaw.Codebook.",
    )


def write_opencv(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words as ``vocabulary``; the suffix selects YAML, XML or JSON, and gzip."""
    import cv2

    name = fspath(path).lower()
    suffix = name.removesuffix(".gz").rpartition(".")[2]
    storage = cv2.FileStorage(f".{suffix}", cv2.FileStorage_WRITE | cv2.FileStorage_MEMORY)
    storage.write(NAME, codebook.words)
    # The version that OpenCV 3 and 4 require; 5 reads it as well.
    data = storage.releaseAndGetString().replace("%YAML 1.2", "%YAML:1.0", 1).encode("ascii")
    with atomic_write(path) as file:
        file.write(gzip.compress(data, _GZIP_LEVEL, mtime=0) if name.endswith(".gz") else data)


def _value(name: str, kind: str, fields: dict[str, str]) -> NDArray[Any] | str:
    if kind == "opencv-matrix":
        return _matrix(printable(name), fields)
    others = {
        "opencv-sparse-matrix": "sparse",
        "opencv-nd-matrix": "a matrix of more than two axes",
    }
    return others.get(kind, "not a matrix")


def _matrix(name: str, fields: dict[str, str]) -> NDArray[Any] | str:
    missing = {"rows", "cols", "dt", "data"} - set(fields)
    if missing:
        raise FormatError(f"the matrix {name} has no {', '.join(sorted(missing))}")
    kind = fields["dt"].strip().strip('"').removeprefix("1")
    if kind not in _TYPES:
        return f"of OpenCV's type {printable(kind, 20)!r}: one channel of numbers is read"
    sizes = [fields[field].strip() for field in ("rows", "cols")]
    if not all(size.isdecimal() and len(size) <= 10 for size in sizes):
        raise FormatError(
            f"the matrix {name} has sizes {printable(sizes[0], 20)} × {printable(sizes[1], 20)}"
        )
    n_rows, n_cols = map(int, sizes)
    data = fields["data"].strip()
    if not n_rows * n_cols:
        return f"empty ({n_rows} × {n_cols})"
    if data.startswith(_BASE64):
        values = _unpacked(name, data.removeprefix(_BASE64), kind, n_rows * n_cols)
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
            f"the base64 of the matrix {name} is of type {printable(head)!r}, not {kind!r}"
        )
    dtype = np.dtype(_TYPES[kind])
    if len(data) - _N_HEAD != count * dtype.itemsize:
        raise FormatError(
            f"the matrix {name} should have {count:,} numbers and has {len(data) - _N_HEAD:,} bytes"
        )
    return np.frombuffer(data, dtype, offset=_N_HEAD)


def _numbers(name: str, text: str, kind: str, count: int) -> NDArray[Any]:
    # A number takes a digit and a separator.
    if count > (len(text) + 1) // 2:
        raise FormatError(f"the matrix {name} should have {count:,} numbers and is shorter")
    values = np.empty(count, np.float64)
    done = begin = 0
    while begin < len(text):
        end = begin + _CHUNK
        while end < len(text) and text[end] not in ", \n\t":
            end += 1
            if end > begin + _CHUNK + _MAX_DIGITS:
                raise FormatError(f"the matrix {name} holds a number with too many digits")
        chunk = text[begin:end]
        if not _DIGITS.fullmatch(chunk):
            not_finite = _NOT_FINITE.search(chunk)
            reason = "holds NaN or infinity" if not_finite else "holds what is not a number"
            raise FormatError(f"the matrix {name} {reason}")
        digits = chunk.replace(",", " ").split()
        if done + len(digits) > count:
            break
        try:
            values[done : done + len(digits)] = list(map(float, digits))
        except ValueError as error:
            raise FormatError(f"the matrix {name} holds what is not a number") from error
        done += len(digits)
        begin = end
    if done != count or begin < len(text):
        raise FormatError(f"the matrix {name} does not have its {count:,} numbers")
    with np.errstate(over="ignore"):
        return values.astype(_TYPES[kind]) if kind in "fh" else values


def _yaml_nodes(text: str) -> Iterator[_Node]:
    """Scan by line: what begins without a space is a node of the file."""
    name = kind = ""
    begin = -1
    for match in _YAML_NODE.finditer(text):
        if begin >= 0:
            yield name, kind, _yaml_fields(text, begin, match.start(), kind)
        name, kind, begin = match[1].strip().strip('"'), match[2] or "", match.end()
    if begin >= 0:
        yield name, kind, _yaml_fields(text, begin, len(text), kind)


def _yaml_fields(text: str, begin: int, end: int, kind: str) -> dict[str, str]:
    if kind != "opencv-matrix":
        return {}
    fields: dict[str, str] = {}
    marks = list(islice(_YAML_FIELD.finditer(text, begin, end), len(_FIELDS) + 1))
    for mark, following in zip(marks, [*[mark.start() for mark in marks[1:]], end], strict=False):
        if mark[1] in fields:
            raise FormatError(f"a matrix has two fields {mark[1]!r}")
        # OpenCV ends a document with three dots when it appends another.
        value = text[mark.end() : following].partition("\n...")[0].strip()
        if value.startswith("["):
            inside, close, rest = value[1:].partition("]")
            if not close or _COMMENT.sub("", rest).strip():
                raise FormatError("a list of numbers does not end")
            value = inside
        else:
            value = _COMMENT.sub("", value)
            if value.startswith("!!binary"):
                value = _BASE64 + value.removeprefix("!!binary").strip().removeprefix("|")
        fields[mark[1]] = value
    return fields


def _xml_nodes(text: str) -> Iterator[_Node]:
    """Scan by tag: depth 1 is a node of the file, depth 2 one of its fields."""
    open_tags: list[str] = []
    name = kind = ""
    fields: dict[str, str] = {}
    begin, binary = 0, False
    at = text.find("<")
    while at >= 0:
        found = _XML_TAG.match(text, at)
        if found is None:
            raise FormatError("a tag does not end, or is a document type or CDATA")
        tag, end = found[1] or "", found.end()
        if tag.startswith("/"):
            if not open_tags or open_tags.pop() != tag[1:].strip():
                raise FormatError(f"the tag </{printable(tag[1:], 40)}> closes nothing")
            if len(open_tags) == 2:
                field = tag[1:].strip()
                if field in fields:
                    raise FormatError(f"{printable(name)} has two fields {printable(field)!r}")
                if kind == "opencv-matrix":
                    fields[field] = (_BASE64 if binary else "") + text[begin:at]
            elif len(open_tags) == 1:
                yield name, kind, fields
        elif tag and not tag.endswith("/"):
            title = tag.split(None, 1)[0] if tag.strip() else ""
            typed = _XML_TYPE.search(tag)
            open_tags.append(title)
            if len(open_tags) == 1 and title != "opencv_storage":
                raise FormatError(
                    f"it begins with <{printable(title, 40)}>, not with <opencv_storage>"
                )
            if len(open_tags) == 2:
                name, kind, fields = title, typed[1] if typed else "", {}
            elif len(open_tags) == 3:
                begin, binary = end, typed is not None and typed[1] == "binary"
        at = text.find("<", end)
    if open_tags:
        raise FormatError(f"the tag <{printable(open_tags[-1], 40)}> is never closed")


def _json_nodes(text: str) -> Iterator[_Node]:
    """Scan by token: depth 1 is the file's object, depth 2 that of a matrix."""
    text = text.rstrip()
    at = depth = 0
    names = ["", "", ""]
    fields: dict[str, str] = {}
    last, is_value = "", False
    while at < len(text):
        match = _JSON_TOKEN.match(text, at)
        if match is None:
            raise FormatError("a string does not end")
        token, at = match[1], match.end()
        if token.startswith("//"):
            # A comment, to the end of its line.
            line_end = text.find("\n", match.start(1))
            at = len(text) if line_end < 0 else line_end
            continue
        if token in "{[":
            depth += 1
            if token == "[" and depth == 3 and names[2] == "data":
                # All numbers at once.
                end = text.find("]", at)
                if end < 0:
                    raise FormatError("a list of numbers does not end")
                fields["data"], at, depth = text[at:end], end + 1, 2
            elif depth == 2:
                fields, names[2] = {}, ""
        elif token in "}]":
            depth -= 1
            if depth < 0:
                raise FormatError(f"a {token} closes nothing")
            if depth == 1:
                yield names[1], fields.get("type_id", ""), fields
        elif token == ":" and depth < 3:
            names[depth] = last
        elif is_value and depth == 2:
            fields[names[2]] = token.strip('"')
        last, is_value = token.strip('"'), token == ":"
    if depth:
        raise FormatError("it ends before its last }")
