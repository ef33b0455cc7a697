"""From pixels, or from descriptors, to a class as one ONNX graph.

**From pixels.** ``image`` is uint8 ``(batch, height, width)``, grey, of any size that is the same
within a batch. The graph follows the definitions of :mod:`bowsaw.images.decode` (reduction) and
:mod:`bowsaw.descriptors.dense_sift`, for every parameter of these:

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
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.coding.soft import WordScores, score_factor
from bowsaw.descriptors.dense_sift import CLIP, N_CELLS, DenseSift
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

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


def _reduced(graph: _Graph, max_side: int | None) -> str:
    """Add the reduction of the images, ``(batch, height, width)`` in float32."""
    add, integers = graph.add, graph.integers
    if max_side is None:
        return add("Cast", "image", to=graph.float)
    sides = [add("Shape", "image", start=axis, end=axis + 1) for axis in (1, 2)]
    longest, two, one = add("Max", *sides), integers(2), integers(1)
    twice, final = add("Mul", longest, two), add("Min", longest, integers(max_side))
    values = add("Cast", "image", to=graph.double)
    for axis, side in enumerate(sides, 1):
        size = add("Add", add("Mul", add("Mul", side, two), final), longest)
        size = add("Max", add("Div", size, twice), one)
        # An edge of a new pixel is at a whole number of `size`-ths of a pixel; up to there, the
        # sum is that of all pixels before it and of a part of the one that it cuts.
        edges = add("Mul", _range(graph, add("Add", size, one)), side)
        pixel, part = add("Div", edges, size), add("Mod", edges, size)
        part = add("Unsqueeze", part, one) if axis == 1 else part
        values = add("Pad", values, integers(0, 0, 0, 0, 2 - axis, axis - 1))
        before = add("CumSum", values, graph.constant(np.int64(axis)), exclusive=1)
        before = add("Gather", before, pixel, axis=axis)
        whole = add("Mul", before, add("Cast", size, to=graph.double))
        cut = add("Gather", values, pixel, axis=axis)
        sums = add("Add", whole, add("Mul", cut, add("Cast", part, to=graph.double)))
        above = add("Slice", sums, one, integers(2**31), integers(axis))
        values = add("Sub", above, add("Slice", sums, integers(0), integers(-1), integers(axis)))
    area = add("Cast", add("Mul", *sides), to=graph.double)
    rounded = add("Floor", add("Add", add("Div", values, area), graph.constant(np.float64(0.5))))
    return add("Cast", rounded, to=graph.float)


def _describe(graph: _Graph, sift: DenseSift) -> str:
    """Add the descriptors of all images, one after the other, ``(batch · n, 128)``."""
    add, number, integers = graph.add, graph.number, graph.integers
    grey = _reduced(graph, sift.max_side)
    patch, step = sift.patch, sift.step
    cell = patch // N_CELLS
    stride, one = gcd(step, cell), integers(1)
    margins, cells = [], []
    for axis in (1, 2):
        length = add("Shape", grey, start=axis, end=axis + 1)
        spare = add("Sub", length, integers(patch))
        begin = add("Div", add("Mod", spare, integers(step)), integers(2))
        n_steps = add("Max", add("Div", spare, integers(step)), integers(0))
        used = add("Add", add("Mul", n_steps, integers(step)), integers(patch + cell - cell // 2))
        ends = add("Sub", add("Add", begin, used), length)
        margins.append((add("Sub", integers(cell // 2), begin), ends))
        first = add("Mul", _range(graph, add("Add", n_steps, one)), integers(step // stride))
        # Where no patch fits, indices that `Gather` refuses.
        first = add("Add", first, add("Mul", add("Min", spare, integers(0)), integers(2**20)))
        offsets = integers(*(i * cell // stride for i in range(N_CELLS)))
        cells.append(add("Add", add("Unsqueeze", first, one), offsets))

    kernel = np.zeros((2, 1, 3, 3), np.float32)
    kernel[0, 0, 1], kernel[1, 0, :, 1] = (-0.5, 0, 0.5), (-0.5, 0, 0.5)
    framed = add("Pad", add("Unsqueeze", grey, one), integers(0, 0, 1, 1, 0, 0, 1, 1), mode="edge")
    gradient = add("Conv", framed, graph.constant(kernel))
    (top, bottom), (left, right) = margins
    none = integers(0, 0)
    cut = add("Pad", gradient, add("Concat", none, top, left, none, bottom, right, axis=0))
    size = add("ReduceL2", cut, one, keepdims=1)
    dx, dy = (add("Gather", cut, integers(i), axis=1) for i in (0, 1))
    x, y, zero = add("Abs", dx), add("Abs", dy), number(0)
    ratio = add("Div", add("Min", x, y), add("Max", x, y, number(1e-30)))
    angle = add("Mul", add("Atan", ratio), number(4 / np.pi))
    for mirrored, turn in ((add("Greater", y, x), 2), (("Less", dx), 4), (("Less", dy), 8)):
        where = mirrored if isinstance(mirrored, str) else add(*mirrored, zero)
        angle = add("Where", where, add("Sub", number(turn), angle), angle)
    bins = graph.constant(np.arange(8, dtype=np.float32).reshape(8, 1, 1))
    away = add("Abs", add("Sub", angle, bins))
    away = add("Min", away, add("Sub", number(8), away))
    maps = add("Mul", add("Relu", add("Sub", number(1), away)), size)

    middle = (cell - 1) / 2 + cell // 2
    triangle = np.maximum(0, 1 - np.abs(np.arange(2 * cell) - middle) / cell).astype(np.float32)
    for shape, strides in (((-1, 1), (stride, 1)), ((1, -1), (1, stride))):
        weights = np.broadcast_to(triangle.reshape(shape), (8, 1, *triangle.reshape(shape).shape))
        maps = add("Conv", maps, graph.constant(weights), group=8, strides=strides)
    maps = add("Gather", add("Gather", maps, cells[0], axis=2), cells[1], axis=4)
    rows = add("Transpose", maps, perm=[0, 2, 4, 3, 5, 1])
    rows = add("Reshape", rows, integers(-1, sift.n_dims))

    least = number(1e-30)
    norm = add("Max", add("ReduceL2", rows, one, keepdims=1), least)
    rows = add("Min", add("Div", rows, norm), number(CLIP))
    factor = add("Max", add("ReduceL2", rows, one, keepdims=1), least)
    factor = add("Div", number(sift.scale), factor)
    if sift.min_contrast:
        share = add("Div", norm, number(sift.min_contrast * 255 * cell * cell / 16))
        factor = add("Mul", factor, add("Min", share, number(1)))
    if sift.dtype == "float32":
        return add("Mul", rows, factor, name="descriptors")
    rows = add("Add", add("Mul", rows, factor), number(0.5))
    return add("Floor", add("Min", rows, number(255)), name="descriptors")


def _range(graph: _Graph, count: str) -> str:
    """Add 0 to ``count`` - 1; ``count`` has one entry."""
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    return graph.add("Range", zero, graph.add("Squeeze", count), one)


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
        by_image = add("Concat", n_images, graph.integers(-1), axis=0)
        add("Reshape", codes, by_image, name="codes")
        n_rows = add("Div", n_rows, n_images)
        first = add("Mul", add("Div", _range(graph, add("Size", codes)), n_rows), none)
        codes = add("Add", codes, first)
        empty = add("Expand", number(0), add("Mul", n_images, none))
    else:
        empty = graph.constant(np.zeros(n_words, np.float32))
    totals = add("ScatterElements", empty, codes, ones, axis=0, reduction="add")
    shares = add("Div", totals, _at_least_one(graph, n_rows))
    add("Reshape", shares, graph.integers(-1, n_words), name="histogram")


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
        n_words = graph.integers(len(found.half_norms))
        weights = add("Reshape", weights, add("Concat", n_images, n_rows, n_words, axis=0))
        shares = add("Reshape", shares, add("Concat", n_images, graph.integers(1), n_rows, axis=0))
        total = add("Squeeze", add("MatMul", shares, weights), graph.integers(1))
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
