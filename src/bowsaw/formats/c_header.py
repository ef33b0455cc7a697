"""From pixels, or from descriptors, to a class as one C99 header, for small devices.

The header has ``static const`` tables, which stay in flash, and ``static inline`` functions; it
needs ``math.h``, ``stdint.h`` and ``string.h``, no heap and no runtime.

**From pixels.** ``bowsaw_recognise`` takes a grey image with its stride, and memory from the
caller. It follows the definitions of :mod:`bowsaw.images.decode`, exactly, and of
:mod:`bowsaw.descriptors.dense_sift`. Lines of pixels pass once: each is reduced when it is needed,
pooled into the rows of cells that it belongs to (2 with the usual parameters), and 4 rows of cells
make a row of patches. The memory so depends on ``max_side``, not on the image: 67 kB for 300
pixels. Sums of fixed length run side by side, so a compiler may vectorise them without reordering.

**Equal codes.** Descriptors are compared with words by products in float32, 32 descriptors at a
time. Where the lead of the best word may be an error of rounding, at most
(n_dims + 4) · 2⁻²³ · ‖w‖ · (‖x‖ + ‖w‖), squared differences are added in double, in the order of
the dimensions, and the first of equal words is kept: our definition of the nearest word. Codes of
equal descriptors so equal those of Python, unless the compiler fuses products and sums
(``-ffp-contract=off`` forbids it) and two words are equally near to 16 digits, or there is a
projection, which is in float32. ``#define BOWSAW_REAL float`` before the include avoids double.

**Words in 8 bits.** ``words="uint8"`` or ``"int8"`` stores an integer q with c ≈ step · (q − zero).
The largest move of a word, √n_dims · step / 2 at most, is ``BOWSAW_WORD_ERROR``, in unit-norm
units; a code changes only where the two nearest words differ in distance by less than twice that.
The step has at most 12 binary digits, so that products are exact in float32 on every compiler.
Where descriptors are uint8 and the words are within 0 and 255, as those of dense SIFT, uint8 has
step 1, products are in 16 and sums in 32 bits. A projection then has 8 bits per entry and a factor
per column, and weights of classes have 16 bits.

**Names.** All that a header defines begins with one name, so several fit into one program. Names
are lower case: two that differ in case would share their macros. C++ reserves two underscores.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.descriptors.dense_sift import N_CELLS, DenseSift
from bowsaw.errors import ParameterError
from bowsaw.formats.classifier import (
    DESCRIPTORS,
    LinearModel,
    about,
    as_recogniser,
    sift_of,
    unit_of,
)
from bowsaw.validation import check_choice

WORDS = ("float32", "uint8", "int8")
DEFAULT_NAME = "bowsaw"

_C_TYPES = {"float32": "float", "uint8": "uint8_t", "int8": "int8_t"}
_MAX_BYTE_DIMS = 2**29 // 255**2 - 1
"""Up to this many dimensions, differences of the scores of bytes fit into 32 bits."""
BYTES = "(uint8_t)(value < 254.5f ? value + 0.5f : 255.0f)"
_STEP_DIGITS = 12
_MIN_STEP = 2.0**-126
"""Smaller steps have fewer digits in float32."""
_MAX_NAME = 40
"""With the longest ending, all characters count: 63 do in C99."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_WITH_NAME = re.compile(rf"\b({DEFAULT_NAME}|{DEFAULT_NAME.upper()})(?=_)")
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
    bool break case catch char char8_t char16_t char32_t class co_await co_return co_yield compl
    concept const const_cast consteval constexpr constinit continue contract_assert decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public reflexpr register reinterpret_cast requires restrict return short signed sizeof
    static static_assert static_cast struct switch synchronized template this thread_local throw
    true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    """.split()  # noqa: SIM905 (a list of quoted words is harder to read)
)


def write_c_header(
    coder: BagOfWords | Codebook | ArrayLike,
    path: str | PathLike[str],
    classifier: Any = None,
    *,
    words: Literal["float32", "uint8", "int8"] = "float32",
    descriptors: Literal["float32", "uint8"] | None = None,
    name: str = DEFAULT_NAME,
) -> None:
    """Write words, coding and classifier as a C99 header.

    Parameters
    ----------
    coder : BagOfWords or Codebook
        The coding. A codebook means hard coding, or the coding of ``classifier``.
    path : path-like
        The file, usually ``.h``; written atomically.
    classifier : LinearModel or estimator, optional
        From `load_classifier`, or a fitted estimator as `save_classifier` takes it.
    words : {"float32", "uint8", "int8"}, default="float32"
        How words are stored; 8 bits move them a little, see the module.
    descriptors : {"float32", "uint8"} or None, default=None
        Begin at descriptors of this type, in the unit of the codebook's words. None begins at
        pixels if the words were learned from dense SIFT, else at float32 descriptors.
    name : str, default="bowsaw"
        Prefix of everything that the header defines: ``bowsaw_code``, ``BOWSAW_N_WORDS``.
        Headers of different names fit into one program.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "words.h"
    >>> write_c_header(bs.Codebook([[0.0, 1.5]], ids=[42]), file)
    >>> print(next(line.strip() for line in file.read_text().splitlines() if "{0.0f" in line))
    {0.0f, 1.5f},
    """
    check_choice(words, "words", WORDS)
    if descriptors is not None:
        check_choice(descriptors, "descriptors", DESCRIPTORS)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ParameterError(
            f"name must be 1 to {_MAX_NAME} lower-case letters, digits and single underscores, "
            f"beginning with a letter and not ending with an underscore; got {name!r}. Try 'rooms'."
        )
    if name in _KEYWORDS:
        raise ParameterError(
            f"name must not be a keyword of C or C++; got {name!r}. Try '{name[:20]}_words'."
        )
    bow, model = as_recogniser(coder, classifier)
    book = bow.words_in_use()
    sift = sift_of(book) if descriptors is None else None
    if sift is not None and sift.max_side is not None and sift.max_side < sift.patch:
        sift = None
    kind = descriptors or (sift.dtype if sift else "float32")
    parts = [_head(bow, book, kind), _words(bow, book, words, kind)]
    parts.append(_template("hard") if bow.coding == "hard" else _template("soft"))
    parts.append(_template("histogram"))
    if sift is not None:
        parts.append(_pixels(sift))
    if model is not None:
        parts.append(_classifier(model, words))
        if sift is not None:
            parts.append(_template("recognise"))
    parts.append("#endif\n")
    text = _WITH_NAME.sub(
        lambda found: name if found[1] == DEFAULT_NAME else name.upper(), "\n".join(parts)
    )
    # Last, so that the name does not change text of the user.
    classes = () if model is None else model.classes
    # A comment must not end early, whatever a description contains.
    comment = json.dumps(about(bow), sort_keys=True).replace("*/", "* /").replace("/*", "/ *")
    filled = {"ABOUT": comment, "CLASSES": ", ".join(_c_text(str(c)) for c in classes)}
    filled["SELF"] = hashlib.sha256(repr((text, filled)).encode()).hexdigest()[:12]
    text = re.sub("@(ABOUT|CLASSES|SELF)@", lambda mark: filled[mark[1]], text)
    with atomic_write(path) as file:
        file.write(text.encode("ascii"))


def _template(name: str, **marks: str) -> str:
    text = (Path(__file__).parent / "templates" / f"{name}.h").read_text("ascii")
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


def _table(kind: str, name: str, rows: NDArray[Any]) -> str:
    """Return a table of one or two dimensions, with the literals of its numbers."""
    sizes = "".join(f"[{n}]" for n in rows.shape)
    if rows.ndim == 1:
        return f"static const {kind} bowsaw_{name}{sizes} = {_c_row(_c_numbers(rows))};"
    lines = "".join(f"{_c_row(_c_numbers(row))},\n" for row in rows)
    return f"static const {kind} bowsaw_{name}{sizes} = {{\n{lines}}};"


def _head(bow: BagOfWords, book: Codebook, descriptors: str) -> str:
    n_inputs = book.n_dims if book.projection is None else len(book.projection.mean)
    return f"""\
/* {book.n_words} visual words of {book.n_dims} dimensions, written by bowsaw {__version__}.
   @ABOUT@

   A descriptor is {n_inputs} numbers of type bowsaw_input, {unit_of(book)}
   (BOWSAW_SCALE). */
#if defined(BOWSAW_WORDS_H) && !defined(BOWSAW_WORDS_H_@SELF@)
#error "another header of this name is in use: write one of them with another --name"
#endif
#ifndef BOWSAW_WORDS_H
#define BOWSAW_WORDS_H
#define BOWSAW_WORDS_H_@SELF@

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BOWSAW_N_WORDS {book.n_words}
#define BOWSAW_N_DIMS {book.n_dims}
#define BOWSAW_N_INPUTS {n_inputs}
#define BOWSAW_SCALE {_c_number(book.scale)}

/* What close distances and scores are computed in; float where there is no double, less exact. */
#ifndef BOWSAW_REAL
#define BOWSAW_REAL double
#endif

typedef {_C_TYPES[descriptors]} bowsaw_input;
"""


def _words(bow: BagOfWords, book: Codebook, kind: str, descriptors: str) -> str:
    """Return the words, what descriptors go through before, and how they are compared."""
    lines, entry, known = [], "bowsaw_words[k][d]", book.projection
    table: NDArray[Any] = book.words
    compared, step, zero = book.words, 1.0, 0
    if kind != "float32":
        found = quantize_words(book.words, kind, "float32" if known else descriptors)
        table, compared = found.values, found.restored()
        step, zero = found.step, found.zero
        error = _c_number(_float_above(found.error / book.scale))
        lines.append("/* No word is farther from its stored form than this; 1 is a norm of 1. */")
        lines.append(f"#define BOWSAW_WORD_ERROR {error}")
        entry = f"{_c_number(step)} * (float)(bowsaw_words[k][d] - {zero})"
    integers = kind == descriptors == "uint8" and known is None and (step, zero) == (1.0, 0)
    integers = integers and book.n_dims <= _MAX_BYTE_DIMS
    exact = np.einsum("kd,kd->k", *[compared.astype(np.float64)] * 2)
    # The largest float32 stands for what is beyond: such distances are always computed exactly.
    highest = float(np.finfo(np.float32).max)
    longest = min(float(np.sqrt(exact.max())), highest)
    if integers:
        norms = exact.astype(np.int32)
        lines.append("#define BOWSAW_LOWEST (-1073741824)")
    else:
        norms = np.minimum(exact / 2, highest).astype(np.float32)
        rounding = min((2 * book.n_dims + 8) * 2.0**-24 * longest, highest)
        lines.append("#define BOWSAW_LOWEST (-HUGE_VALF)")
        lines.append(f"#define BOWSAW_ENTRY(k, d) ({entry})")
        lines.append(f"#define BOWSAW_LONGEST {_c_number(longest)}")
        lines.append(f"#define BOWSAW_ROUNDING {_c_number(_float_above(rounding))}")
    if bow.coding == "soft":
        # A score is half a difference of squares, or a whole one; no larger factor is needed.
        factor = min((1 if integers else 2) * bow.sharpness_in_use() / book.scale**2, 1e38)
        lines.append("/* Factor of a difference of scores in the exponent. */")
        lines.append(f"#define BOWSAW_SHARPNESS {_c_number(factor)}")
    lines += [
        "/* The ids of the words, the same before and after pruning. */",
        _table(_unsigned(book.ids), "ids", book.ids.astype(np.uint64)),
        _table(_C_TYPES[kind], "words", table),
        _table("int32_t" if integers else "float", "norms", norms),
    ]
    load = "load"
    if known is not None:
        load, matrix = "project", known.matrix
        units = np.ones(book.n_dims, np.float32)
        if kind != "float32":
            units = np.maximum(np.abs(matrix).max(axis=0), np.float32(_MIN_STEP)) / np.float32(127)
            matrix = np.rint(matrix / units).astype(np.int8)
        lines.append(_table("float", "mean", known.mean))
        lines.append(_table("float" if kind == "float32" else "int8_t", "projection", matrix))
        lines.append(_table("float", "units", units))
    search = _template("search_bytes") if integers else _template("search", LOAD=_template(load))
    return "\n".join(lines) + search


def _unsigned(ids: NDArray[np.int64]) -> str:
    n_bits = next(n for n in (16, 32, 64) if int(ids.max()) < 2**n)
    return f"uint{n_bits}_t"


def _pixels(sift: DenseSift) -> str:
    cell = sift.patch // N_CELLS
    pitch = math.gcd(cell, sift.step)
    side = sift.max_side or 1024
    largest = "BOWSAW_MAX_SIDE" if sift.max_side is None else "16000000"
    away = np.abs(np.arange(2 * cell) - cell // 2 - (cell - 1) / 2)
    triangle = np.maximum(0.0, 1.0 - away / cell).astype(np.float32)
    contrast = sift.min_contrast * 255.0 * (cell * cell / 16.0)
    stored = "value" if sift.dtype == "float32" else BYTES
    lines = [
        "",
        "/* Longer sides are refused, or reduced where BOWSAW_REDUCES is defined. */",
        "#ifndef BOWSAW_MAX_SIDE" if sift.max_side is None else "#define BOWSAW_REDUCES",
        f"#define BOWSAW_MAX_SIDE {side}",
        *(["#endif"] if sift.max_side is None else []),
        f"#define BOWSAW_LARGEST {largest}",
        f"#define BOWSAW_PATCH {sift.patch}",
        f"#define BOWSAW_EVERY {sift.step}",
        f"#define BOWSAW_PITCH {pitch}",
        f"#define BOWSAW_CONTRAST {_c_number(contrast)}",
        "/* The weights of pixels in a cell, from half a cell before it. */",
        _table("float", "triangle", triangle),
    ]
    return "\n".join(lines) + _template("pixels", STORED=stored)


def _classifier(model: LinearModel, words: str) -> str:
    weights = (model.weights * model.scale).T
    kind, total = "float", "totals[c] + (BOWSAW_REAL)bowsaw_intercepts[c]"
    more = []
    if words != "float32":
        # 16 bits per weight: sizes count here.
        units = np.maximum(np.abs(weights).max(axis=0), _MIN_STEP) / 32767
        weights, kind = np.rint(weights / units), "int16_t"
        total = f"(BOWSAW_REAL)bowsaw_weight_units[c] * {total}"
        more = [_table("float", "weight_units", units.astype(np.float32))]
    mapped = (
        "(BOWSAW_REAL)sqrt((double)histogram[k])" if model.mapping == "sqrt" else "histogram[k]"
    )
    lines = [
        "",
        f"#define BOWSAW_N_CLASSES {len(model.classes)}",
        f"#define BOWSAW_N_MACHINES {len(model.weights)}",
        "static const char *const bowsaw_classes[BOWSAW_N_CLASSES] = {@CLASSES@};",
        _table("float", "intercepts", model.intercepts.astype(np.float32)),
        _table(kind, "weights", weights.astype(np.float32 if kind == "float" else np.int16)),
        *more,
    ]
    return "\n".join(lines) + _template("scores", MAPPED=mapped, TOTAL=total)


def _c_row(entries: Iterable[str], ending: str = "") -> str:
    return "{" + ", ".join(entry + ending for entry in entries) + "}"


def _c_numbers(row: NDArray[Any]) -> Iterable[str]:
    """Return the literals of integers, or of float32."""
    if row.dtype.kind in "iu":
        return map(str, row.tolist())
    return (_c_number(float(value)) for value in row)


def _c_number(value: float) -> str:
    """Return the shortest literal that a compiler reads as this float32."""
    text = np.format_float_scientific(np.float32(value), trim="0", exp_digits=1)
    plain = str(np.float32(value))
    return f"{plain if len(plain) <= len(text) and '.' in plain else text}f"


def _float_above(value: float) -> float:
    """Return the smallest float32 of at least ``value``."""
    rounded = np.float32(value)
    # NumPy would compare in float32, where the two are equal.
    return float(rounded if float(rounded) >= value else np.nextafter(rounded, np.float32(np.inf)))


def _c_text(value: str) -> str:
    """Return a C string of ASCII characters, whatever a class name contains."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode("utf-8", "surrogateescape")
    )
    return f'"{escaped}"'


class QuantizedWords(NamedTuple):
    """Words in 8 bits, ``step · (values − zero)``; no word is moved farther than ``error``."""

    values: NDArray[Any]
    step: float
    zero: int
    error: float

    def restored(self) -> NDArray[np.float32]:
        """Return the words as the header restores them."""
        wide = self.values.astype(np.float64) - self.zero
        return (self.step * wide).astype(np.float32)


def quantize_words(
    words: NDArray[np.float32], kind: str, descriptors: str = "float32"
) -> QuantizedWords:
    """Return words rounded to 8 bits, as they are compared with these descriptors.

    int8 is symmetric about 0; uint8 spans the smallest entry (or 0) to the largest, and rounds to
    bytes where the descriptors are bytes and the words within 0 and 255.
    """
    wide = words.astype(np.float64)
    low, high = min(float(wide.min()), 0.0), max(float(wide.max()), 0.0)
    if kind == "uint8" and descriptors == "uint8" and low >= 0 and high <= 255:
        step, zero = 1.0, 0
    elif kind == "uint8":
        # A zero in between is an integer number of steps from both ends, which takes one more.
        step = _rounded_up((high - low) / (254 if low < 0 < high else 255))
        zero = min(math.ceil(-low / step), 255)
    else:
        step, zero = _rounded_up(max(-low, high) / 127), 0
    limits = np.iinfo(kind)
    places = np.clip(np.rint(wide / step) + zero, limits.min, limits.max)
    moved = step * (places - zero) - wide
    error = float(np.sqrt(np.einsum("kd,kd->k", moved, moved)).max())
    return QuantizedWords(places.astype(kind), step, zero, error)


def _rounded_up(step: float) -> float:
    """Return the next number of few binary digits, so that products with bytes are exact."""
    if step == 0:
        return 1.0
    step = max(step, _MIN_STEP)
    exponent = math.frexp(step)[1] - _STEP_DIGITS
    return math.ldexp(math.ceil(math.ldexp(step, -exponent)), exponent)
