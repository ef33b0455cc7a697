"""Words, coding and classifier as one C header, for microcontrollers.

**The problem.** A small device has a C compiler, some kilobytes, and no runtime. What is left of a
recogniser there is a table of words, a loop over them and a few sums, so the header has just these:
``static const`` tables, which lie in flash, and ``static inline`` functions in plain C99 that use
no heap.

**Equal codes.** ``bowsaw_code`` adds the squared differences in double, in the order of the
dimensions, and keeps the first of equal words: our definition of the nearest word. It leaves a word
as soon as its sum reaches the best one, which changes nothing, since sums never fall. The codes are
those of Python, unless the compiler fuses products and sums (``-ffp-contract=off`` forbids it) and
two words are equally near to 16 digits. On a processor without double,
``#define BOWSAW_REAL float`` before the include is quicker and a little less exact.

**Smaller words.** ``words="uint8"`` or ``"int8"`` stores q with c = step · (q − zero): a quarter of
the bytes. Each entry moves by step / 2 at most; the largest move of a word, in unit-norm units, is
written into the header as ``BOWSAW_WORD_ERROR``. By the triangle inequality a descriptor's distance
to a word changes by no more, and its code only where its two nearest words differ in distance by
less than twice that. The codes are those of Python with the moved words, as `small_words` restores
them. Where descriptors are uint8 and the words lie in 0…255, as those of dense SIFT do, uint8 has
the step 1 and all arithmetic is that of 32-bit integers.

Weights are float32, with the classifier's scale multiplied in; sums are ``BOWSAW_REAL``. Where a
program has two headers, ``name`` tells them apart (:mod:`bowsaw.formats.c_names`).

Cost of a code: n_words · n_dims multiplications at most. Memory: the tables; soft coding needs
n_words floats of stack beside them, and scores n_classes numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.c_literals import c_number, c_numbers, c_row, c_text, float_above
from bowsaw.formats.c_names import USUAL, check_name, named
from bowsaw.formats.linear_model import (
    DESCRIPTORS,
    LinearModel,
    as_recogniser,
    unit_of,
)
from bowsaw.formats.small_words import small_words

WORDS = ("float32", "uint8", "int8")

_C_TYPES = {"float32": "float", "uint8": "uint8_t", "int8": "int8_t"}
_MOST_BYTE_DIMS = 2**31 // 255**2
"""With so many dimensions, a sum of squared differences of bytes still fits into 32 bits."""


def write_c_header(
    coder: BagOfWords | Codebook | ArrayLike,
    path: str | PathLike[str],
    classifier: Any = None,
    *,
    words: Literal["float32", "uint8", "int8"] = "float32",
    descriptors: Literal["float32", "uint8"] = "float32",
    name: str = USUAL,
) -> None:
    """Write words, coding and classifier as a C99 header.

    Parameters
    ----------
    coder : BagOfWords or Codebook
        The coding. A codebook stands for hard coding, or for the coding of ``classifier``.
    path : path-like
        The file, by custom ``.h``; it appears whole or not at all.
    classifier : LinearModel or estimator, optional
        What `load_classifier` returns, or a fitted estimator as `save_classifier` takes it.
    words : {"float32", "uint8", "int8"}, default="float32"
        How words are stored; the small types move them a little, see the module's chapter.
    descriptors : {"float32", "uint8"}, default="float32"
        The type of the descriptors; the unit is that of the codebook's words either way.
    name : str, default="bowsaw"
        What all that the header defines begins with: ``bowsaw_code``, ``BOWSAW_N_WORDS``. Headers
        of different names fit into one program.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "words.h"
    >>> write_c_header(bs.Codebook([[0.0, 1.5]], ids=[42]), file)
    >>> print(file.read_text().partition("bowsaw_words")[2].splitlines()[1])
    {0.0f, 1.5f},
    """
    for what, value, known in (("words", words, WORDS), ("descriptors", descriptors, DESCRIPTORS)):
        if value not in known:
            raise ParameterError(f"{what} must be one of {', '.join(known)}; got {value!r}.")
    check_name(name)
    bow, model = as_recogniser(coder, classifier)
    book = bow.words_in_use()
    parts = [
        _head(bow, book, words, descriptors, model),
        _words(book, words, descriptors),
        _HARD if bow.coding == "hard" else _soft(bow, book),
    ]
    if model is not None:
        parts.append(_classifier(model))
    parts.append("#endif\n")
    text = named("\n".join(parts), name)
    # Last, so that a name is put in front of nothing that others have written.
    told = {"ABOUT": _about(bow, book), "CLASSES": _classes(model)}
    told["SELF"] = hashlib.sha256(repr((text, told)).encode()).hexdigest()[:12]
    text = re.sub("@(ABOUT|CLASSES|SELF)@", lambda mark: told[mark[1]], text)
    with atomic_write(path) as file:
        file.write(text.encode("ascii"))


# -- the text --------------------------------------------------------------------------------------


def _head(
    bow: BagOfWords,
    book: Codebook,
    words: str,
    descriptors: str,
    model: LinearModel | None,
) -> str:
    uses_maths = bow.coding == "soft" or (model is not None and model.mapping == "sqrt")
    integers = words == "uint8" and _are_bytes(book, descriptors)
    distance = "int32_t" if integers else "BOWSAW_REAL"
    return f"""\
/* {book.n_words} visual words of {book.n_dims} dimensions, written by bowsaw {__version__}.
   @ABOUT@

   A descriptor is {book.n_dims} numbers of type bowsaw_input, {unit_of(book)}
   (BOWSAW_SCALE). */
#if defined(BOWSAW_WORDS_H) && !defined(BOWSAW_WORDS_H_@SELF@)
#error "another header of this name is in use already: write one of them with another --name"
#endif
#ifndef BOWSAW_WORDS_H
#define BOWSAW_WORDS_H
#define BOWSAW_WORDS_H_@SELF@

#include <stddef.h>
#include <stdint.h>
{"#include <math.h>" + chr(10) if uses_maths else ""}
#define BOWSAW_N_WORDS {book.n_words}
#define BOWSAW_N_DIMS {book.n_dims}
#define BOWSAW_SCALE {c_number(book.scale)}

/* What sums are computed in; float is quicker where there is no double, and less exact. */
#ifndef BOWSAW_REAL
#define BOWSAW_REAL double
#endif

typedef {_C_TYPES[descriptors]} bowsaw_input;
typedef {distance} bowsaw_distance;
"""


def _about(bow: BagOfWords, book: Codebook) -> str:
    about = {
        "coding": bow.coding,
        "sharpness": None if bow.coding == "hard" else bow.sharpness_in_use(),
        "description": book.description,
        "codebook": book.digest,
    }
    # A comment must not end early, whatever a description holds.
    return json.dumps(about, sort_keys=True).replace("*/", "* /").replace("/*", "/ *")


def _are_bytes(book: Codebook, descriptors: str) -> bool:
    within = book.words.min() >= 0 and book.words.max() <= 255
    return bool(descriptors == "uint8" and within and book.n_dims <= _MOST_BYTE_DIMS)


def _words(
    book: Codebook,
    kind: Literal["float32", "uint8", "int8"],
    descriptors: Literal["float32", "uint8"],
) -> str:
    lines, entry = [], "bowsaw_words[k][d]"
    if kind == "float32":
        table: NDArray[Any] = book.words
    else:
        found = small_words(book.words, kind, descriptors)
        table = found.values
        lines += [
            "/* No word lies farther from what is stored of it than this; 1 is a norm of 1. */",
            f"#define BOWSAW_WORD_ERROR {c_number(float_above(found.error / book.scale))}",
        ]
        if (found.step, found.zero) != (1.0, 0):
            entry = "BOWSAW_STEP * (float)(bowsaw_words[k][d] - BOWSAW_ZERO)"
            lines += [
                f"#define BOWSAW_STEP {c_number(found.step)}",
                f"#define BOWSAW_ZERO {found.zero}",
            ]
    ids = "uint32_t" if int(book.ids.max()) < 2**32 else "uint64_t"
    names = c_row(map(str, book.ids.tolist()), "u")
    lines += [
        "/* The ids of the words, which are the same before and after pruning. */",
        f"static const {ids} bowsaw_ids[BOWSAW_N_WORDS] = {names};",
        "",
        f"static const {_C_TYPES[kind]} bowsaw_words[BOWSAW_N_WORDS][BOWSAW_N_DIMS] = {{",
        *(f"{c_row(c_numbers(word))}," for word in table),
        "};",
    ]
    return "\n".join(lines) + _DISTANCE.replace("ENTRY", entry)


_DISTANCE = """

/* The squared distance to word k, or any number from `enough` up if it is not below that. */
static inline bowsaw_distance bowsaw_squared_distance(
    const bowsaw_input *descriptor, size_t k, bowsaw_distance enough, int all)
{
    bowsaw_distance total = 0;
    size_t d = 0, stop;
    while (d < BOWSAW_N_DIMS && (all || total < enough)) {
        stop = BOWSAW_N_DIMS - d > 16 ? d + 16 : BOWSAW_N_DIMS;
        for (; d < stop; ++d) {
            const bowsaw_distance difference =
                (bowsaw_distance)descriptor[d] - (bowsaw_distance)(ENTRY);
            total += difference * difference;
        }
    }
    return total;
}
"""

_HARD = """\
/* The position of the nearest word, the first of equally near ones. */
static inline size_t bowsaw_code(const bowsaw_input *descriptor)
{
    size_t code = 0, k;
    bowsaw_distance nearest = bowsaw_squared_distance(descriptor, 0, 0, 1);
    for (k = 1; k < BOWSAW_N_WORDS; ++k) {
        const bowsaw_distance distance = bowsaw_squared_distance(descriptor, k, nearest, 0);
        if (distance < nearest) {
            nearest = distance;
            code = k;
        }
    }
    return code;
}

/* The share of each word among the codes of n descriptors, which lie one behind the other. */
static inline void bowsaw_histogram(
    const bowsaw_input *descriptors, size_t n, float histogram[BOWSAW_N_WORDS])
{
    size_t i, k;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        histogram[k] = 0.0f;
    for (i = 0; i < n; ++i)
        histogram[bowsaw_code(descriptors + i * BOWSAW_N_DIMS)] += 1.0f;
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        histogram[k] /= (float)n;
}
"""

_SOFT = """\
/* What a squared distance is multiplied with in the exponent. */
#define BOWSAW_SHARPNESS SHARPNESS

/* The share of each word in one descriptor: 1 in all. Returns the position of the largest. */
static inline size_t bowsaw_code(const bowsaw_input *descriptor, float shares[BOWSAW_N_WORDS])
{
    size_t code = 0, k;
    float total = 0.0f, nearest;
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        shares[k] = (float)bowsaw_squared_distance(descriptor, k, 0, 1);
        if (shares[k] < shares[code])
            code = k;
    }
    nearest = shares[code];
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        shares[k] = expf(-BOWSAW_SHARPNESS * (shares[k] - nearest));
        total += shares[k];
    }
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        shares[k] /= total;
    return code;
}

/* The mean share of each word in n descriptors, which lie one behind the other. */
static inline void bowsaw_histogram(
    const bowsaw_input *descriptors, size_t n, float histogram[BOWSAW_N_WORDS])
{
    float shares[BOWSAW_N_WORDS];
    size_t i, k;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        histogram[k] = 0.0f;
    for (i = 0; i < n; ++i) {
        bowsaw_code(descriptors + i * BOWSAW_N_DIMS, shares);
        for (k = 0; k < BOWSAW_N_WORDS; ++k)
            histogram[k] += shares[k];
    }
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        histogram[k] /= (float)n;
}
"""


def _soft(bow: BagOfWords, book: Codebook) -> str:
    # Sharper than float32 can tell is as sharp as it can be.
    factor = min(bow.sharpness_in_use() / book.scale**2, 1e38)
    return _SOFT.replace("SHARPNESS SHARPNESS", f"SHARPNESS {c_number(factor)}")


def _classifier(model: LinearModel) -> str:
    weights = (model.weights * model.scale).T.astype(np.float32)
    mapped = "(BOWSAW_REAL)sqrt(histogram[k])" if model.mapping == "sqrt" else "histogram[k]"
    return "\n".join(
        [
            f"#define BOWSAW_N_CLASSES {len(model.classes)}",
            f"#define BOWSAW_N_MACHINES {len(model.weights)}",
            "",
            "static const char *const bowsaw_classes[BOWSAW_N_CLASSES] = {@CLASSES@};",
            "",
            "static const float bowsaw_intercepts[BOWSAW_N_MACHINES] = "
            f"{c_row(c_numbers(model.intercepts.astype(np.float32)))};",
            "",
            "static const float bowsaw_weights[BOWSAW_N_WORDS][BOWSAW_N_MACHINES] = {",
            *(f"{c_row(c_numbers(row))}," for row in weights),
            "};",
            _SCORES.replace("MAPPED", mapped),
        ]
    )


def _classes(model: LinearModel | None) -> str:
    return "" if model is None else ", ".join(c_text(str(name)) for name in model.classes)


_SCORES = """
/* One score a class; the largest wins. */
static inline void bowsaw_scores(
    const float histogram[BOWSAW_N_WORDS], float scores[BOWSAW_N_CLASSES])
{
    BOWSAW_REAL totals[BOWSAW_N_MACHINES];
    size_t k, c;
    for (c = 0; c < BOWSAW_N_MACHINES; ++c)
        totals[c] = bowsaw_intercepts[c];
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        const BOWSAW_REAL entry = MAPPED;
        for (c = 0; c < BOWSAW_N_MACHINES; ++c)
            totals[c] += entry * (BOWSAW_REAL)bowsaw_weights[k][c];
    }
    for (c = 0; c < BOWSAW_N_MACHINES; ++c)
        scores[c] = (float)totals[c];
    if (BOWSAW_N_MACHINES == 1) {
        scores[BOWSAW_N_CLASSES - 1] = (float)totals[0];
        scores[0] = (float)-totals[0];
    }
}

/* The place of the largest score in bowsaw_classes, the first of equal ones. */
static inline size_t bowsaw_label(const float scores[BOWSAW_N_CLASSES])
{
    size_t label = 0, c;
    for (c = 1; c < BOWSAW_N_CLASSES; ++c)
        if (scores[c] > scores[label])
            label = c;
    return label;
}
"""
