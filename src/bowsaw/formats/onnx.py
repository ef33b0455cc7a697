"""From pixels, or from descriptors, to a class as one ONNX graph.

**From pixels.** ``image`` is uint8 ``(batch, height, width)``, grey, of any size that is the same
within a batch. ``templates/dense_sift.onnx.txt`` follows the definitions of
:mod:`bowsaw.images.decode` (reduction) and :mod:`bowsaw.descriptors.dense_sift`, for every
parameter of these:

1. the reduction by prefix sums along each side, whole numbers in float64, hence exact; an image
   that is small enough stays as it is;
2. gradients as a 3×3 convolution, exact in float32; ``Pad`` cuts them to the grid's margins and
   adds zeros outside of the image; ``Atan`` and comparisons give the direction;
3. cells as two convolutions of one channel, of the cells' triangle along y and along x, with the
   common divisor of step and cell as stride;
4. patches by ``Gather``, then the norms.

Descriptors are computed in float32 like ours, in another order: of 2,000 real images, 2.5 bytes in
a million differed, by 1. An image smaller than a patch ends in an error of the runtime.

**Hard coding without an error.** The nearest word is the arg-min of Σ_d (x_d − c_d)² summed in
float64 in the order of the dimensions, the first word where sums are equal; a runtime sums in any
order. The graph follows ``bowsaw.nearest.search``, with its bounds:

1. scores x·c − ‖c‖²/2 in float32, everything centred on the mean word (``Gemm``);
2. all words whose score is within twice the rounding error of the best one, for any order of
   summation (``NonZero``: one word per descriptor, rarely a second);
3. where that leaves several words, their distances in float64 by ``CumSum``, which adds in the
   order of the dimensions, and the first word with the smallest one.

A code differs from ours only on a runtime whose float64 is not IEEE, or whose ``CumSum`` sums in
another order and two sums are then equal to 16 digits. With a projection, which runtimes sum in
any order, it may also differ where two words are equally near to 6 digits. Soft codes, in float32
on both sides, differed by 1.5e-7 at most in 200 real histograms. The classifier is computed in
float64.

**Inputs and outputs.** ``image`` as above, or ``descriptors`` ``(n, n_dims)``, float32 or uint8,
*in the codebook's stored units* (dense SIFT: 512 × unit norm); n may be 0. ``histogram``
``(batch, n_words)`` float32, where descriptors are a batch of 1; for hard coding also ``codes``
``(n,)`` or ``(batch, n)`` int64, the position of each descriptor's word; with a classifier
``scores`` ``(batch, n_classes)`` float32 and ``label`` ``(batch,)`` int64, a position in the list
of classes. NaN descriptors end hard coding in an error of the runtime, and make a soft histogram
NaN.

The file needs opset 18 (onnxruntime 1.14; the reduced ``onnxruntime-mobile`` lacks some operators).
Its metadata are text: ``classes``, ``description`` and ``word_ids`` as JSON, ``coding``,
``sharpness`` and ``scale`` (null where there is none), ``mapping``, ``codebook`` (a digest). The
same model gives the same bytes. Cost: 2 · n_dims · n_words operations per descriptor, and one
float32 score per descriptor and word of memory.
"""

from __future__ import annotations

import json
from math import gcd
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any, Literal

import numpy as np
import onnx
import onnx.parser
from numpy.typing import ArrayLike, NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.coding.soft import WordScores, score_factor
from bowsaw.descriptors.dense_sift import CLIP, N_CELLS, N_ORIENTATIONS, DenseSift
from bowsaw.formats.classifier import (
    DESCRIPTORS,
    LinearModel,
    about,
    as_recogniser,
    sift_of,
    unit_of,
)
from bowsaw.nearest.search import WordSearch
from bowsaw.validation import check_choice

_OPSET, _IR_VERSION = 18, 8
_LEAST = 1e-30
"""In place of a norm of 0."""


def write_onnx(
    coder: BagOfWords | Codebook | ArrayLike,
    path: str | PathLike[str],
    classifier: Any = None,
    *,
    descriptors: Literal["float32", "uint8"] | None = None,
) -> None:
    """Write image → descriptors → histogram → scores as one ONNX graph.

    Parameters
    ----------
    coder : BagOfWords or Codebook
        The coding. A codebook means hard coding, or the coding of ``classifier``.
    path : path-like
        The file, usually ``.onnx``; written atomically.
    classifier : LinearModel or estimator, optional
        From `load_classifier`, or a fitted estimator as `save_classifier` takes it. Without it,
        the graph ends with the histogram.
    descriptors : {"float32", "uint8"} or None, default=None
        Begin at descriptors of this type, in the unit of the codebook's words. None begins at a
        grey image if the words were learned from dense SIFT, else at float32 descriptors.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import onnxruntime
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "histogram.onnx"
    >>> write_onnx(bs.Codebook([[0.0], [1.0]]), file)
    >>> session = onnxruntime.InferenceSession(file)
    >>> session.run(["histogram"], {"descriptors": np.float32([[0.2], [0.7], [3], [9]])})
    [array([[0.25, 0.75]], dtype=float32)]
    """
    with atomic_write(path) as file:
        file.write(onnx_bytes(coder, classifier, descriptors=descriptors))


def onnx_bytes(
    coder: BagOfWords | Codebook | ArrayLike,
    classifier: Any = None,
    *,
    descriptors: str | None = None,
) -> bytes:
    """Return the content of the file that :func:`write_onnx` writes."""
    if descriptors is not None:
        check_choice(descriptors, "descriptors", DESCRIPTORS)
    bow, model = as_recogniser(coder, classifier)
    book = bow.words_in_use()
    sift = sift_of(book) if descriptors is None else None
    projection, graph, types = book.projection, _Graph(), onnx.TensorProto
    if sift is None:
        kind = types.UINT8 if descriptors == "uint8" else types.FLOAT
        text = f"one descriptor per row, {unit_of(book)}"
        n_dims = book.n_dims if projection is None else len(projection.mean)
        taken: list[Any] = ["descriptors", kind, ["n", n_dims], text]
        rows, n_images = "descriptors", ""
        batch: str | int = 1
        if descriptors == "uint8":
            rows = graph.add("Cast", rows, to=types.FLOAT)
    else:
        text = f"grey, black 0 to white 255; no side below {sift.patch} pixels after the reduction"
        if sift.max_side is not None:
            text += f", which makes the longest side {sift.max_side} at most"
        taken = ["image", types.UINT8, ["batch", "height", "width"], text]
        batch, n_images = "batch", graph.add("Shape", "image", end=1)
        rows = _describe(graph, sift)
    n_rows = graph.add("Shape", rows, end=1)
    if projection is not None:
        rows = graph.add("Sub", rows, graph.constant(projection.mean, "mean"))
        rows = graph.add("MatMul", rows, graph.constant(projection.matrix, "projection"))
    words = graph.constant(book.words, "words")
    text = "the share of each word, in the order of the metadata's word_ids"
    outputs: list[Any] = [("histogram", types.FLOAT, [batch, book.n_words], text)]
    if bow.coding == "hard":
        _hard(graph, rows, n_rows, words, WordSearch(book.words, skip=False), n_images)
        text = "the position of each descriptor's nearest word"
        outputs.append(("codes", types.INT64, ["n"] if sift is None else ["batch", "n"], text))
    else:
        factor = score_factor(bow.sharpness_in_use(), book.scale)
        _soft(graph, rows, n_rows, words, WordScores(book.words), factor, n_images)
    if model is not None:
        _classify(graph, model)
        text = "one score per class; the largest wins"
        outputs.append(("scores", types.FLOAT, [batch, len(model.classes)], text))
        text = "the position of the largest score, in the metadata's classes"
        outputs.append(("label", types.INT64, [batch], text))
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "bag of words",
            [onnx.helper.make_tensor_value_info(*taken)],
            [onnx.helper.make_tensor_value_info(*output) for output in outputs],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="bowsaw",
        producer_version=__version__,
        doc_string=f"descriptors {unit_of(book)}",
    )
    metadata = about(bow) | {"word_ids": book.ids.tolist()}
    metadata["scale"] = None if book.scale_is_unknown else book.scale
    if model is not None:
        metadata |= {"classes": list(model.classes), "mapping": model.mapping}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in metadata.items()
    }
    onnx.helper.set_model_props(made, texts)
    return bytes(made.SerializeToString(deterministic=True))


class _Graph:
    """Nodes and constants in the order in which they were added, with names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._titles: dict[Any, str] = {}
        self.float = onnx.TensorProto.FLOAT
        self.double = onnx.TensorProto.DOUBLE

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        number = len(self.nodes)
        output, title = name or f"v{number}", f"{operator}_{number}"
        node = onnx.helper.make_node(operator, inputs, [output], title, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """Add a constant, unless there is an equal one, and return its name."""
        array: NDArray[Any] = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        key = (name, array.dtype.str, array.shape, array.tobytes())
        if key not in self._titles:
            self._titles[key] = name or f"c{len(self.constants)}"
            self.constants.append(onnx.numpy_helper.from_array(array, self._titles[key]))
        return self._titles[key]

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integer(self, value: int) -> str:
        return self.constant(np.array([value]))


def _describe(graph: _Graph, sift: DenseSift) -> str:
    """Add the descriptors of all images, one after the other, ``(batch · n, 128)``."""
    cell, as_bytes = sift.patch // N_CELLS, sift.dtype == "uint8"
    stride, reach = gcd(sift.step, cell), np.arange(2 * cell) - cell // 2 - (cell - 1) / 2
    triangle = np.maximum(0, 1 - np.abs(reach) / cell).astype(np.float32)
    marks = {
        "max_side": sift.max_side or 2**31,
        "patch": sift.patch,
        "step": sift.step,
        "reach": sift.patch + cell - cell // 2,
        "before": cell // 2,
        "stride": stride,
        "cells_per_step": sift.step // stride,
        "offsets": ", ".join(str(i * cell // stride) for i in range(N_CELLS)),
        "width": 2 * cell,
        "triangles": ", ".join(map(repr, np.tile(triangle, N_ORIENTATIONS).tolist())),
        "contrast": max(sift.min_contrast * 255.0 * (cell * cell / 16.0), _LEAST),
        "least": _LEAST,
        "clip": CLIP,
        "scale": sift.scale,
        "rounding": 0.5 if as_bytes else 0.0,
        "most": 255.0 if as_bytes else sift.scale,
        "stored": "Floor" if as_bytes else "Identity",
    }
    text = (Path(__file__).parent / "templates" / "dense_sift.onnx.txt").read_text("ascii")
    found = onnx.parser.parse_graph(Template(text).substitute(marks))
    graph.nodes += found.node
    graph.constants += found.initializer
    return "descriptors"


def _hard(
    graph: _Graph, rows: str, n_rows: str, words: str, search: WordSearch, n_images: str
) -> None:
    """Add the codes and their shares; the error bounds are those of ``search``."""
    add, number = graph.add, graph.number
    n_words = len(search.exact_words)
    across = graph.constant(np.array([1]))
    centred, scores = _scores(graph, rows, words, search)

    # How far rounding may have moved a score: see bowsaw.nearest.search.
    norms = add("ReduceSumSquare", centred, across, keepdims=1)
    bound = search.error
    best = add("ReduceMax", scores, across, keepdims=1)
    length = add("Sqrt", norms)
    away = add("Sqrt", add("Relu", add("Sub", norms, add("Mul", best, number(2)))))
    longest = add("Mul", add("Add", length, away), number(min(bound.reach, 1e30)))
    longest = add("Add", longest, number(4 * np.sqrt(bound.least)))
    longest = add("Min", longest, number(bound.largest))
    size = add("Mul", add("Add", length, longest), longest)
    error = add("Add", add("Mul", size, number(bound.relative)), number(bound.least))
    error = add("Add", error, add("Mul", norms, number(bound.far)))
    limit = add("Sub", best, add("Mul", error, number(2)))

    pairs = add("NonZero", add("GreaterOrEqual", scores, limit))
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    row, word = add("Gather", pairs, zero, axis=0), add("Gather", pairs, one, axis=0)
    counts = add("Expand", zero, n_rows)
    ones = add("Expand", one, add("Shape", row))
    counts = add("ScatterElements", counts, row, ones, axis=0, reduction="add")
    doubtful = add("Greater", add("Gather", counts, row, axis=0), one)
    certain = add("Not", doubtful)
    none = graph.constant(np.array([n_words]))
    codes, at = add("Expand", none, n_rows), add("Compress", row, certain, axis=0)
    codes = add("ScatterElements", codes, at, add("Compress", word, certain, axis=0), axis=0)

    row, word = add("Compress", row, doubtful, axis=0), add("Compress", word, doubtful, axis=0)
    distance = _distances(graph, rows, row, words, word, search.exact_words.shape[1])
    far = add("Expand", graph.constant(np.array([np.inf])), n_rows)
    nearest = add("ScatterElements", far, row, distance, axis=0, reduction="min")
    is_nearest = add("Equal", distance, add("Gather", nearest, row, axis=0))
    word = add("Where", is_nearest, word, none)
    name = "" if n_images else "codes"
    codes = add("ScatterElements", codes, row, word, name=name, axis=0, reduction="min")
    ones = add("Expand", number(1), n_rows)
    if n_images:
        by_image = add("Concat", n_images, graph.integer(-1), axis=0)
        add("Reshape", codes, by_image, name="codes")
        n_rows = add("Div", n_rows, n_images)
        rows_of_all = add("Range", zero, add("Size", codes), one)
        first = add("Mul", add("Div", rows_of_all, n_rows), none)
        codes = add("Add", codes, first)
        empty = add("Expand", number(0), add("Mul", n_images, none))
    else:
        empty = graph.constant(np.zeros(n_words, np.float32))
    totals = add("ScatterElements", empty, codes, ones, axis=0, reduction="add")
    shares = add("Div", totals, _at_least_one(graph, n_rows))
    add("Reshape", shares, graph.constant(np.array([-1, n_words])), name="histogram")


def _distances(graph: _Graph, rows: str, row: str, words: str, word: str, n_dims: int) -> str:
    """Add the squared distances of some pairs in float64, summed in the order of dimensions."""
    add = graph.add
    ours = add("Cast", add("Gather", rows, row, axis=0), to=graph.double)
    theirs = add("Cast", add("Gather", words, word, axis=0), to=graph.double)
    difference = add("Sub", ours, theirs)
    sums = add("CumSum", add("Mul", difference, difference), graph.constant(np.int64(1)))
    return add("Gather", sums, graph.constant(np.int64(n_dims - 1)), axis=1)


def _soft(
    graph: _Graph,
    rows: str,
    n_rows: str,
    words: str,
    found: WordScores,
    factor: float,
    n_images: str,
) -> None:
    """Add the mean of the soft codes."""
    add = graph.add
    across = graph.constant(np.array([1]))
    _, scores = _scores(graph, rows, words, found)
    behind = add("Sub", scores, add("ReduceMax", scores, across, keepdims=1))
    weights = add("Exp", add("Mul", behind, graph.number(factor)))
    # Dividing each row by its total and adding the rows up is one product.
    shares = add("Reciprocal", add("ReduceSum", weights, across, keepdims=1))
    if n_images:
        n_rows = add("Div", n_rows, n_images)
        n_words = graph.integer(len(found.half_norms))
        weights = add("Reshape", weights, add("Concat", n_images, n_rows, n_words, axis=0))
        shares = add("Reshape", shares, add("Concat", n_images, graph.integer(1), n_rows, axis=0))
        total = add("Squeeze", add("MatMul", shares, weights), graph.integer(1))
    else:
        total = add("MatMul", add("Transpose", shares, perm=[1, 0]), weights)
    mean = add("Div", total, _at_least_one(graph, n_rows))
    # Runtimes disagree on a product over no rows.
    some = add("Greater", n_rows, graph.constant(np.int64(0)))
    add("Where", some, mean, graph.number(0), name="histogram")


def _scores(
    graph: _Graph, rows: str, words: str, found: WordScores | WordSearch
) -> tuple[str, str]:
    """Add the centred rows and their scores, ``(n, n_words)``."""
    middle = graph.constant(found.centre, "centre")
    # The runtime folds this difference of constants; the file holds the words once.
    centred_words = graph.add("Sub", words, middle)
    centred = graph.add("Sub", rows, middle)
    half = graph.constant(-found.half_norms, "minus_half_norms")
    return centred, graph.add("Gemm", centred, centred_words, half, transB=1)


def _classify(graph: _Graph, model: LinearModel) -> None:
    """Add the scores and the label, in float64."""
    add = graph.add
    mapped = add("Cast", "histogram", to=graph.double)
    if model.mapping == "sqrt":
        mapped = add("Sqrt", mapped)
    mapped = add("Mul", mapped, graph.constant(np.float64(model.scale)))
    scores = add("MatMul", mapped, graph.constant(model.weights.T, "weights"))
    scores = add("Add", scores, graph.constant(model.intercepts, "intercepts"))
    if len(model.classes) == 2:
        scores = add("Concat", add("Neg", scores), scores, axis=1)
    add("ArgMax", scores, name="label", axis=1, keepdims=0)
    add("Cast", scores, name="scores", to=graph.float)


def _at_least_one(graph: _Graph, n_rows: str) -> str:
    """Add the number of rows as float32, 1 where there are none."""
    return graph.add("Max", graph.add("Cast", n_rows, to=graph.float), graph.number(1))
