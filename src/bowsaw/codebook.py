"""Codebook: the words of a visual vocabulary, immutable.

``only`` and ``without`` return a new codebook. Each word has an *id* that survives pruning, so a
column ``word0042`` is the same word in every codebook from the same training. Words are always
named by their ids, never by their position.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import PROJECTED, Bags
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.formatting import format_bytes
from bowsaw.glyphs import SIDE, sift_strokes
from bowsaw.markup import table, tag
from bowsaw.projection import Projection
from bowsaw.validation import (
    Description,
    as_integers,
    as_numbers,
    canonical_json,
    check_scale,
    json_mapping,
)

METRICS = ("euclidean",)
N_GLYPHS = 24
"""Words that a notebook shows."""
_FACE = {"viewBox": f"-2 -2 {SIDE + 4} {SIDE + 4}", "width": SIDE, "height": SIDE, "role": "img"}
_FIELDS: tuple[str, ...] = ("words", "ids", "scale", "metric", "description", "provenance")
_FIELDS += ("trained_on", "projection")


class Codebook:
    """Words, their stable ids, their scale and their provenance.

    Parameters
    ----------
    words : array-like of shape (n_words, n_dims)
        One word per row, in stored units (see ``scale``); kept as float32.
    ids : array-like of shape (n_words,), optional
        Stable, distinct, not negative; 0, 1, 2 … by default.
    scale : float, default=1.0
        Stored value / scale is in unit-norm units.
    metric : {"euclidean"}
        The distance by which a word is the nearest.
    description : mapping, optional
        What made the descriptors (as in ``Bags``); bags of another description are refused.
    provenance : mapping, optional
        How the words were made; JSON-able.
    trained_on : array-like of uint64, optional
        The digests of the images that the words were learned from.
    projection : Projection, optional
        What descriptors are projected by before they are compared with the words; of the same
        scale. ``description`` is that of the descriptors before.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> book = bs.Codebook(np.eye(4))
    >>> book.without([1]).ids.tolist()
    [0, 2, 3]
    >>> book.without([1]).only([3, 0]).ids.tolist()
    [3, 0]
    """

    __slots__ = ("_by_id", *(f"_{name}" for name in _FIELDS))

    def __init__(
        self,
        words: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        scale: float = 1.0,
        metric: str = "euclidean",
        description: Description | None = None,
        provenance: Mapping[str, Any] | None = None,
        trained_on: ArrayLike | None = None,
        projection: Projection | None = None,
    ) -> None:
        with np.errstate(over="ignore"):
            array = np.array(as_numbers(words, "words"), dtype=np.float32, order="C")
        if array.ndim != 2 or 0 in array.shape:
            raise DataError(
                "words must be two-dimensional (words, dimensions) with at least one word; got "
                f"shape {array.shape}."
            )
        if not np.isfinite(array).all():
            raise DataError("words must be finite in float32; some are NaN or infinite.")
        if metric not in METRICS:
            raise ParameterError(f"metric must be one of {list(METRICS)}; got {metric!r}.")
        names = np.arange(len(array)) if ids is None else as_integers(ids, "ids", np.int64)
        if names.shape != (len(array),):
            raise DataError(f"ids must be {len(array)}, one per word; got shape {names.shape}.")
        if len(np.unique(names)) != len(names) or names.min() < 0:
            raise DataError("ids must be distinct and not negative.")
        self._words = array
        self._ids = names.copy()
        # Positions in the order of the ids, and the sorted ids: searches look them up often.
        order = np.argsort(self._ids, kind="stable")
        self._by_id = (order, self._ids[order])
        self._scale = check_scale(scale)
        self._metric = metric
        self._description = json_mapping(description, "description")
        self._provenance = json_mapping(provenance, "provenance") or {}
        seen = None if trained_on is None else as_integers(trained_on, "trained_on", np.uint64)
        self._trained_on = None if seen is None else np.unique(seen)
        self._projection = projection
        if projection is not None:
            if (self.n_dims, self._scale) != (projection.n_dims, projection.scale):
                raise DataError(
                    f"the projection makes {projection.n_dims} dimensions of scale "
                    f"{projection.scale:g}, and the words have {self.n_dims} of scale "
                    f"{self._scale:g}. Give the projection that the words were learned with."
                )
            (self._description or {}).pop(PROJECTED, None)
            self._description = self._description or None
        for value in (self._words, self._ids, self._trained_on):
            if value is not None:
                value.setflags(write=False)

    @property
    def words(self) -> NDArray[np.float32]:
        """The words in stored units, ``(n_words, n_dims)``, read-only."""
        return self._words

    @property
    def ids(self) -> NDArray[np.int64]:
        """The stable id of each word, ``(n_words,)``, read-only."""
        return self._ids

    @property
    def scale(self) -> float:
        """Stored value / scale is in unit-norm units."""
        return self._scale

    @property
    def scale_is_unknown(self) -> bool:
        """Whether the words came from a file without their unit; ``scale`` is then 1."""
        source = self._provenance.get("read_from")
        return isinstance(source, dict) and self._scale == 1 and source.get("scale", 0) is None

    @property
    def metric(self) -> str:
        """The distance by which a word is the nearest."""
        return self._metric

    @property
    def description(self) -> dict[str, Any] | None:
        """What made the descriptors, or None when unknown."""
        return copy.deepcopy(self._description)

    @property
    def provenance(self) -> dict[str, Any]:
        """How the words were made."""
        return copy.deepcopy(self._provenance)

    @property
    def trained_on(self) -> NDArray[np.uint64] | None:
        """Digests of the training images, sorted; None when unknown."""
        return self._trained_on

    @property
    def projection(self) -> Projection | None:
        """What descriptors are projected by before they are compared with the words, or None."""
        return self._projection

    @property
    def bags_description(self) -> dict[str, Any] | None:
        """The description of bags in the space of the words (see ``project``)."""
        mark = {} if self._projection is None else {PROJECTED: self._projection.digest}
        return {**(self.description or {}), **mark} or None

    @property
    def unprojected_words(self) -> NDArray[np.float32]:
        """The words in the space of unprojected descriptors, ``(n_words, n_dims_in)``."""
        return self._words if self._projection is None else self._projection.undo(self._words)

    @property
    def n_words(self) -> int:
        """The number of words."""
        return len(self._words)

    @property
    def n_dims(self) -> int:
        """Dimensions of a word."""
        return int(self._words.shape[1])

    @property
    def is_sift(self) -> bool:
        """Whether a word is 4 × 4 cells of 8 orientations, and not just as long."""
        about = self._description or {}
        name = about.get("name") or about.get("feature", "")
        return self._n_dims_in() == 128 and "sift" in name.lower()

    def _n_dims_in(self) -> int:
        return self.n_dims if self._projection is None else len(self._projection.mean)

    @property
    def digest(self) -> str:
        """SHA-256 of what histograms depend on: words, their order and scale, the projection.

        Examples
        --------
        >>> book = Codebook([[0.0], [1.0]])
        >>> book.digest == book.with_provenance(seed=3).digest
        True
        >>> book.digest == book.only([1, 0]).digest
        False
        """
        about = [self._words.shape, self._scale, self._metric]
        found = hashlib.sha256(json.dumps(about).encode())
        found.update(self._words.astype("<f4").tobytes())
        if self._projection is not None:
            found.update(self._projection.digest.encode())
        return found.hexdigest()

    def __len__(self) -> int:
        return self.n_words

    def __repr__(self) -> str:
        return f"Codebook({self.n_words} words of {self._dims()}, scale {self.scale:g})"

    def _dims(self) -> str:
        """Return the dimensions of words as a text, with those that they are projected from."""
        return f"{self.n_dims}" + f" projected from {self._n_dims_in()}" * bool(self._projection)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a table, and glyphs of the first words of SIFT."""
        header = ("words", "dimensions", "size", "descriptors", "selected by")
        about = self._description or {}
        made_by = about.get("name") or about.get("feature", "unknown")
        chosen = self._provenance.get("selected_by", "no method")
        row = (self.n_words, self._dims(), format_bytes(self._words.nbytes), made_by, chosen)
        shown = self.unprojected_words[:N_GLYPHS] / np.float64(self._scale)
        drawn = sift_strokes(shown) if self.is_sift else []
        stroke = "M{:.1f} {:.1f}L{:.1f} {:.1f}"
        lines = ["".join(stroke.format(*s.flat) for s in word) for word in drawn]
        faces = [
            tag("svg", tag("title", name), tag("path", d=line, stroke="currentColor"), **_FACE)
            for name, line in zip(self.names(), lines, strict=False)
        ]
        return table("Codebook", header, [row]) + tag("div", faces)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codebook):
            return NotImplemented
        theirs = other._state()
        return all(np.array_equal(value, theirs[name]) for name, value in self._state().items())

    def __hash__(self) -> int:
        # Adding zero turns -0.0 into 0.0, which is equal and must hash alike.
        return hash(((self._words + 0).tobytes(), self._ids.tobytes(), self._scale))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild by the constructor, since pickled arrays forget that they are read-only."""
        return partial(Codebook, **self._state()), ()

    def __sklearn_clone__(self) -> Codebook:
        """Return the codebook itself: it cannot change, so clones may share it."""
        return self

    def only(self, words: ArrayLike) -> Codebook:
        """Return the codebook of only these words (ids), in the order given."""
        kept = self.positions(words)
        if not len(kept):
            raise ParameterError("words is empty, and a codebook needs at least one. Keep a word.")
        return self._at(kept)

    def without(self, words: ArrayLike) -> Codebook:
        """Return the codebook without these words (ids), the others in their order."""
        gone = self.positions(words)
        if len(gone) == self.n_words:
            raise ParameterError(
                f"words has all {self.n_words} words, and a codebook needs one. Keep a word."
            )
        return self._at(np.delete(np.arange(self.n_words), gone))

    def learned_from(self, bags: Bags, selected_by: str | None = None) -> Codebook:
        """Return the codebook with these bags' images in ``trained_on``, None where unknown.

        Where only the images before are unknown, provenance has ``trained_on_others``.
        ``selected_by`` names the method that chose the words by the labels of images.
        """
        if selected_by is not None:
            return self.with_provenance(selected_by=selected_by).learned_from(bags)
        book, seen = self.with_description(bags.description), bags.digests
        if seen is not None and self._trained_on is not None:
            seen = np.union1d(self._trained_on, seen)
        elif seen is not None:
            book = book.with_provenance(trained_on_others=True)
        return book._replace(trained_on=seen)

    def with_description(self, description: Mapping[str, Any] | None) -> Codebook:
        """Return the codebook with a description, unless it has one."""
        if self._description is not None or description is None:
            return self
        return self._replace(description=description)

    def with_provenance(self, **more: Any) -> Codebook:
        """Return the codebook with more entries of provenance."""
        return self._replace(provenance={**self._provenance, **more})

    def with_projection(self, projection: Projection | None) -> Codebook:
        """Return the codebook of words that were learned from bags projected by this."""
        return self._replace(projection=projection)

    def _at(self, positions: NDArray[np.int64]) -> Codebook:
        return self._replace(words=self._words[positions], ids=self._ids[positions])

    def _replace(self, **changes: Any) -> Codebook:
        return Codebook(**{**self._state(), **changes})

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, f"_{name}") for name in _FIELDS}

    def positions(self, words: ArrayLike) -> NDArray[np.int64]:
        """Return the position of each word (id), or raise for an unknown or repeated one."""
        names = np.asarray(words)
        if names.size == 0:
            names = names.astype(np.int64)
        if names.ndim != 1 or names.dtype.kind not in "iu":
            raise ParameterError(
                f"words must be a list of integers (word ids); got {names.dtype} of shape "
                f"{names.shape}."
            )
        order, ascending = self._by_id
        place = np.minimum(np.searchsorted(ascending, names), self.n_words - 1)
        found: NDArray[np.int64] = order[place]
        unknown = self._ids[found] != names
        if unknown.any():
            raise ParameterError(
                f"word {int(names[unknown][0])} is not in the codebook (it has {self.n_words} "
                f"words, ids {int(self._ids.min())} to {int(self._ids.max())})."
            )
        if len(np.unique(found)) != len(found):
            raise ParameterError("words names a word twice; give each word once.")
        return found

    def names(self) -> NDArray[np.object_]:
        """Return the column name of each word, such as ``word0042``, stable through pruning."""
        return np.array([f"word{i:04d}" for i in self._ids.tolist()], dtype=object)

    def project(self, bags: Bags) -> Bags:
        """Return the bags in the space of the words, or raise when they do not match.

        Without a projection, or where the bags are projected by it already, these are the bags.
        """
        known = self._projection
        if known is not None and (bags.description or {}).get(PROJECTED) == known.digest:
            return bags
        self._match(bags)
        return bags if known is None else bags.projected(known)

    def words_for(self, bags: Bags) -> NDArray[np.float32]:
        """Return the words in the units of ``bags``, or raise when the bags do not match.

        Bags for a codebook with a projection must be projected before (see ``project``).
        """
        if self._projection is None:
            self._match(bags)
        elif (bags.description or {}).get(PROJECTED) != self._projection.digest:
            raise MismatchError(
                "the codebook has a projection, and the bags are not projected by it. Pass them "
                "through codebook.project(bags)."
            )
        if bags.scale == self._scale:
            return self._words
        return self._words * np.float32(bags.scale / self._scale)

    def _match(self, bags: Bags) -> None:
        """Raise for bags whose descriptors, before a projection, are not those of the codebook."""
        if bags.n_dims != self._n_dims_in() and bags.n_descriptors:
            raise MismatchError(
                f"the codebook has words of {self._dims()} dimensions, the bags descriptors of "
                f"{bags.n_dims}. Train a codebook on these descriptors."
            )
        ours, theirs = self._description, bags.description
        if ours is not None and theirs is not None and ours != theirs:
            raise MismatchError(
                f"the codebook was trained on descriptors {canonical_json(ours)}, the bags hold "
                f"{canonical_json(theirs)}. Extract "
                "the images with the codebook's parameters, or train a codebook on these bags."
            )
        if bags.scale != self._scale and self.scale_is_unknown:
            longest = float(np.sqrt(np.square(self._words, dtype=np.float64).sum(axis=1).max()))
            raise MismatchError(
                f"the bags have scale {bags.scale:g}, and the codebook's is unknown: its file does "
                f"not have one; its longest word is {longest:.4g}. Read it with "
                f"scale={bags.scale:g} if it was trained on such descriptors, or with its own: "
                "`bowsaw convert --scale`."
            )


def as_codebook(codebook: Codebook | ArrayLike) -> Codebook:
    """Return ``codebook`` as a Codebook; a bare array is one without provenance."""
    return codebook if isinstance(codebook, Codebook) else Codebook(codebook)
