"""What a page draws of a vocabulary: its words, who inherits from whom, the way of a search.

A page is built from the records of a run alone, so what it draws must be among them. Each function
here makes one line of ``details.jsonl``, as JSON holds it, out of codebooks and codes;
:mod:`~bowsaw.report.pictures` makes those that come from pictures. A line begins
with what it is (``kind``) and what it belongs to (``key``: set, split, coding, full_words, method,
size, those that apply).

**Who inherits.** Let n_kc be the number of training descriptors whose nearest word was word k of
the full codebook and is word c of the small one. Then Σ_c n_kc / n is the mass that k had, Σ_k n_kc
/ n the mass that c has, n_kc over c's own sum is the share of c that came from k, and of a pruned
k the heir is the c with the largest n_kc. Words that moved are treated alike: descriptors may then
leave a word whose id was kept. Codes are nearest words for soft coding, too: there a descriptor
belongs to all words a little, and no picture shows that.

**Values as bytes.** SIFT is 512 times its unit-norm value, at most 255, whatever unit the codebook
is stored in, so glyphs of all codebooks compare. For other descriptors 0 (or the smallest value of
the full codebook, if that is negative) becomes 0, and the largest of the full codebook 255; the
line says so in ``units``, with both ends in unit-norm units. Words that moved beyond are clipped.

Shares have four significant digits. Ties go to the lower position. Cost: one sort of the training
descriptors' pairs of codes; memory: a few numbers a descriptor, never n_words × n_kept.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.codebook import Codebook
from bowsaw.comparison.records import Line
from bowsaw.errors import DataError, MismatchError
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selector
from bowsaw.selection.refinement import Refinement
from bowsaw.validation import as_integers

SIFT_BYTES = 512.0
"""A unit-norm SIFT value times this is its byte."""
N_SOURCES = 4
"""Words of the full codebook that a word is said to have its descriptors from."""
N_PRUNED = 200
"""Pruned words that a line names."""
N_POINTS = 600
"""Points of a search's path that a line has at most."""


def codebook_line(
    key: Mapping[str, Any], codebook: Codebook, codes: ArrayLike, *, only: ArrayLike | None = None
) -> Line:
    """Return the line of a full codebook: its words as bytes, and how much each is used.

    Parameters
    ----------
    key : mapping
        Set, split and full_words.
    codebook : Codebook
        All words.
    codes : array-like of int, shape (n_descriptors,)
        The position of the nearest word of each training descriptor.
    only : array-like of int, optional
        Ids of the words to write, in this order; all by default. A page needs just those that
        other lines name (:func:`named_words`), and 5000 words of SIFT are 640 000 bytes.

    Returns
    -------
    dict
        ``n_dims``, ``ids``, ``values`` (base64 of uint8, ``(n_words, n_dims)``), ``units``,
        ``mass`` (shares of the training descriptors).

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> line = codebook_line({"set": "toys"}, bs.Codebook([[0.0], [1.0], [4.0]]), [0, 1, 1, 2])
    >>> line["kind"], line["ids"], line["mass"], list(base64.b64decode(line["values"]))
    ('codebook', [0, 1, 2], [0.25, 0.5, 0.25], [0, 64, 255])
    """
    shown = np.arange(codebook.n_words) if only is None else codebook.positions(only)
    positions = checked_codes(codes, codebook, "codes")
    counts = np.bincount(positions, minlength=codebook.n_words)
    return {
        "kind": "codebook",
        **key,
        "n_dims": codebook.n_dims,
        "ids": codebook.ids[shown].tolist(),
        **_values(codebook.words[shown], codebook.scale, codebook),
        "mass": [share(count, len(positions)) for count in counts[shown].tolist()],
    }


def words_line(
    key: Mapping[str, Any],
    full: Codebook,
    small: Codebook,
    before: ArrayLike,
    after: ArrayLike,
    moved: bool,
) -> Line:
    """Return the line of a small codebook: its words, and whom they inherit from.

    Parameters
    ----------
    key : mapping
        Set, split, coding, full_words, method and size.
    full, small : Codebook
        All words, and those that are left; an id of the small codebook is the full word that its
        word is, or began as.
    before, after : array-like of int, shape (n_descriptors,)
        The position of each training descriptor's nearest word in ``full`` and in ``small``.
    moved : bool
        Whether the words were moved after they were chosen.

    Returns
    -------
    dict
        ``n_dims``, ``ids``, ``values``, ``units`` as in :func:`codebook_line`; ``moved``; ``mass``
        that each word has and ``kept_mass`` that the full word of its id had; ``from``, up to 4
        ``[id, share of this word's descriptors]`` a word, the largest first; ``pruned``, up to 200
        ``[id, mass it had, column of its heir, share that the heir got]``, the heaviest first, of
        those that had any descriptor; ``n_pruned``, of all that are gone.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> full = bs.Codebook([[0.0], [1.0], [4.0]])
    >>> line = words_line({}, full, full.without([1]), [0, 0, 1, 1, 2], [0, 0, 0, 1, 1], False)
    >>> line["ids"], line["mass"], line["kept_mass"]
    ([0, 2], [0.6, 0.4], [0.4, 0.2])
    >>> line["from"], line["pruned"]
    ([[[0, 0.6667], [1, 0.3333]], [[1, 0.5], [2, 0.5]]], [[1, 0.4, 0, 0.5]])
    """
    rows, columns = checked_codes(before, full, "before"), checked_codes(after, small, "after")
    if len(rows) != len(columns):
        raise DataError(
            f"before and after must tell of the same descriptors; got {len(rows)} and "
            f"{len(columns)}."
        )
    kept = full.positions(small.ids)
    n = len(rows)
    had = np.bincount(rows, minlength=full.n_words)
    has = np.bincount(columns, minlength=small.n_words)
    pairs, counts = np.unique(rows * small.n_words + columns, return_counts=True)
    giver, taker = np.divmod(pairs, small.n_words)
    is_gone = np.ones(full.n_words, dtype=bool)
    is_gone[kept] = False
    return {
        "kind": "words",
        **key,
        "n_dims": small.n_dims,
        "ids": small.ids.tolist(),
        **_values(small.words, small.scale, full),
        "moved": bool(moved),
        "mass": [share(count, n) for count in has.tolist()],
        "kept_mass": [share(count, n) for count in had[kept].tolist()],
        "from": _sources(full, giver, taker, counts, has),
        "pruned": _heirs(full, giver, taker, counts, had, is_gone),
        "n_pruned": int(is_gone.sum()),
    }


def named_words(lines: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the ids of the full codebook that ``words`` lines name, ascending.

    Examples
    --------
    >>> named_words([{"kind": "words", "ids": [7], "from": [[[3, 1.0]]], "pruned": [[5, 0.1]]}])
    [3, 5, 7]
    """
    named: set[int] = set()
    for line in lines:
        if line["kind"] == "words":
            named.update(line["ids"])
            named.update(pair[0] for sources in line["from"] for pair in sources)
            named.update(entry[0] for entry in line["pruned"])
    return sorted(named)


def trace_line(key: Mapping[str, Any], selector: Selector) -> Line | None:
    """Return the line of a search's way, or None for a method that has none to show.

    Parameters
    ----------
    key : mapping
        Set, split, coding, full_words, method and size.
    selector : Selector
        Fitted. :class:`~bowsaw.selection.annealing.Annealing` tells score, acceptance and
        temperature, :class:`~bowsaw.selection.refinement.Refinement` the score alone.

    Returns
    -------
    dict or None
        ``step`` and ``score``, of at most 600 points spread evenly over the steps, the first and
        the last among them. Of annealing, point 0 is the start, before any move, so ``accepted``
        and ``temperature`` have one entry fewer: entry i tells of the moves from point i to point
        i + 1, the share of them that was accepted and the temperature of the last. For refinement
        both are None. ``score_name`` says what the score is.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> y = np.arange(12) % 2
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(30, 2)) for label in y]
    >>> book = bs.KMeansCodebook(8, random_state=0).fit(bags).codebook_
    >>> line = trace_line({"size": 3}, Annealing(book, 3, n_steps=20).fit(bags, y))
    >>> line["score_name"], line["step"][-1], len(line["score"]), len(line["accepted"])
    ('leave-one-out', 20, 21, 20)
    """
    if not isinstance(selector, (Annealing, Refinement)):
        return None
    path = selector.selection_.scores
    if not path:
        return None
    points = _thinned(len(path))
    line: Line = {
        "kind": "trace",
        **key,
        "step": points.tolist(),
        "score": [_plain(path[point], 7) for point in points],
        "accepted": None,
        "temperature": None,
    }
    if isinstance(selector, Annealing):
        score = selector.score
        line["score_name"] = score if isinstance(score, str) else score.name
        if len(points) > 1:
            taken = np.concatenate(([0], np.cumsum(selector.accepted_)))[points]
            shares = np.diff(taken) / np.diff(points)
            line["accepted"] = [_plain(value, 4) for value in shares]
            line["temperature"] = [_plain(selector.temperatures_[p - 1], 5) for p in points[1:]]
        return line
    if len(selector.errors_):
        line["score_name"] = "leave-one-out, of the sample that each step looks at"
    else:
        start = selector.selection_.parameters["start"]
        line["score_name"] = f"of {start}, which chose the words; no step moved them"
    return line


def share(part: float, whole: float) -> float:
    """Return part / whole to four significant digits; 0 of nothing."""
    return float(f"{part / whole:.4g}") if whole else 0.0


def _plain(value: float, digits: int) -> float | None:
    """Return a number as JSON can hold it: None where it is none."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _thinned(n: int) -> NDArray[np.int64]:
    """Return at most N_POINTS of the numbers from 0 to n - 1, evenly, with both ends."""
    if n <= N_POINTS:
        return np.arange(n)
    return np.rint(np.linspace(0, n - 1, N_POINTS)).astype(np.int64)


def checked_codes(codes: ArrayLike, codebook: Codebook, name: str) -> NDArray[np.int64]:
    """Return codes as whole numbers, or refuse those that are no positions in the codebook."""
    positions = as_integers(codes, name, np.int64)
    if positions.ndim != 1 or (
        len(positions) and not 0 <= positions.min() <= positions.max() < codebook.n_words
    ):
        raise DataError(
            f"{name} must be one position from 0 to {codebook.n_words - 1} a descriptor; got shape "
            f"{positions.shape}, {positions.min(initial=0)} to {positions.max(initial=0)}. Code "
            "with this codebook."
        )
    return positions


def _values(words: NDArray[np.float32], scale: float, full: Codebook) -> dict[str, Any]:
    """Return the words as bytes that compare with those of ``full``, and what a byte means."""
    if words.shape[1] != full.n_dims:
        raise MismatchError(
            f"the full codebook has words of {full.n_dims} dimensions, the small one of "
            f"{words.shape[1]}. Give the codebook that it was pruned from."
        )
    wide = words.astype(np.float64) / scale
    if is_sift(full):
        low, high, name = 0.0, 255.0 / SIFT_BYTES, "sift"
    else:
        whole = full.words.astype(np.float64) / full.scale
        low, high, name = min(0.0, float(whole.min())), float(whole.max()), "range"
    spread = high - low if high > low else 1.0
    values = np.clip(np.rint((wide - low) / spread * 255.0), 0, 255).astype(np.uint8)
    return {
        "values": base64.b64encode(values.tobytes()).decode("ascii"),
        "units": {"name": name, "low": low, "high": low + spread},
    }


def is_sift(codebook: Codebook) -> bool:
    """Return whether a word is 4 × 4 cells of 8 orientations, and not just as long as one."""
    about = codebook.description or {}
    named = about.get("name") == "dense-sift" or about.get("feature") == "SIFT"
    return named and codebook.n_dims == 128


def _leading(
    group: NDArray[np.int64], other: NDArray[np.int64], counts: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Return the pairs with the ``n`` largest counts of each group, by group, largest first."""
    order = np.lexsort((other, -counts, group))
    _, first, size = np.unique(group[order], return_index=True, return_counts=True)
    return order[np.arange(len(order)) - np.repeat(first, size) < n]


def _sources(
    full: Codebook,
    giver: NDArray[np.int64],
    taker: NDArray[np.int64],
    counts: NDArray[np.int64],
    has: NDArray[np.int64],
) -> list[list[list[Any]]]:
    """Return for each small word the full words that most of its descriptors come from."""
    sources: list[list[list[Any]]] = [[] for _ in has]
    for pair in _leading(taker, giver, counts, N_SOURCES):
        column = taker[pair]
        sources[column].append([int(full.ids[giver[pair]]), share(counts[pair], has[column])])
    return sources


def _heirs(
    full: Codebook,
    giver: NDArray[np.int64],
    taker: NDArray[np.int64],
    counts: NDArray[np.int64],
    had: NDArray[np.int64],
    is_gone: NDArray[np.bool_],
) -> list[list[Any]]:
    """Return the heaviest pruned words, each with who takes most of its descriptors."""
    heir = _leading(giver, taker, counts, 1)
    heir = heir[is_gone[giver[heir]]]
    heaviest = heir[np.argsort(-had[giver[heir]], kind="stable")][:N_PRUNED]
    found: list[list[Any]] = []
    for pair in heaviest:
        word = giver[pair]
        mass, got = share(had[word], had.sum()), share(counts[pair], had[word])
        found.append([int(full.ids[word]), mass, int(taker[pair]), got])
    return found
