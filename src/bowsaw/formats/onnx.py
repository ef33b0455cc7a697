"""From descriptors to a class as one ONNX graph.

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

**Inputs and outputs.** ``descriptors`` ``(n, n_dims)``, float32 or uint8, *in the codebook's stored
units* (dense SIFT: 512 × unit norm); n may be 0. ``histogram`` ``(1, n_words)`` float32; for hard
coding also ``codes`` ``(n,)`` int64, the position of each descriptor's word; with a classifier
``scores`` ``(1, n_classes)`` float32 and ``label`` ``(1,)`` int64, a position in the list of
classes. NaN descriptors end hard coding in an error of the runtime, and make a soft histogram NaN.

The file needs opset 18 (onnxruntime 1.14; the reduced ``onnxruntime-mobile`` lacks some operators).
Its metadata are text: ``classes``, ``description`` and ``word_ids`` as JSON, ``coding``,
``sharpness`` and ``scale`` (null where there is none), ``mapping``, ``codebook`` (a digest). The
same model gives the same bytes. Cost: 2 · n_dims · n_words operations per descriptor, and one
float32 score per descriptor and word of memory.
"""

from __future__ import annotations

import json
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
from bowsaw.formats.classifier import DESCRIPTORS, LinearModel, about, as_recogniser, unit_of
from bowsaw.nearest.search import WordSearch
from bowsaw.validation import check_choice

_OPSET, _IR_VERSION = 18, 8


def write_onnx(
    coder: BagOfWords | Codebook | ArrayLike,
    path: str | PathLike[str],
    classifier: Any = None,
    *,
    descriptors: Literal["float32", "uint8"] = "float32",
) -> None:
    """Write descriptors → histogram → scores as one ONNX graph.

    Parameters
    ----------
    coder : BagOfWords or Codebook
        The coding. A codebook means hard coding, or the coding of ``classifier``.
    path : path-like
        The file, usually ``.onnx``; written atomically.
    classifier : LinearModel or estimator, optional
        From `load_classifier`, or a fitted estimator as `save_classifier` takes it. Without it,
        the graph ends with the histogram.
    descriptors : {"float32", "uint8"}, default="float32"
        The type of the input; the unit is that of the codebook's words either way.

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
    descriptors: str = "float32",
) -> bytes:
    """Return the content of the file that :func:`write_onnx` writes."""
    check_choice(descriptors, "descriptors", DESCRIPTORS)
    bow, model = as_recogniser(coder, classifier)
    book = bow.words_in_use()
    graph = _Graph()
    rows = "descriptors"
    if descriptors == "uint8":
        rows = graph.add("Cast", rows, to=onnx.TensorProto.FLOAT)
    n_rows = graph.add("Shape", "descriptors", end=1)
    n_dims = book.n_dims
    if book.projection is not None:
        n_dims = len(book.projection.mean)
        rows = graph.add("Sub", rows, graph.constant(book.projection.mean, "mean"))
        rows = graph.add("MatMul", rows, graph.constant(book.projection.matrix, "projection"))
    words = graph.constant(book.words, "words")
    types = onnx.TensorProto
    text = "the share of each word, in the order of the metadata's word_ids"
    outputs: list[Any] = [("histogram", types.FLOAT, [1, book.n_words], text)]
    if bow.coding == "hard":
        _hard(graph, rows, n_rows, words, WordSearch(book.words, skip=False))
        text = "the position of each descriptor's nearest word"
        outputs.append(("codes", types.INT64, ["n"], text))
    else:
        factor = score_factor(bow.sharpness_in_use(), book.scale)
        _soft(graph, rows, n_rows, words, WordScores(book.words), factor)
    if model is not None:
        _classify(graph, model)
        text = "one score per class; the largest wins"
        outputs.append(("scores", types.FLOAT, [1, len(model.classes)], text))
        text = "the position of the largest score, in the metadata's classes"
        outputs.append(("label", types.INT64, [1], text))
    text = f"one descriptor per row, {unit_of(book)}"
    kind = types.UINT8 if descriptors == "uint8" else types.FLOAT
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "bag of words",
            [onnx.helper.make_tensor_value_info("descriptors", kind, ["n", n_dims], text)],
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
        self.float = onnx.TensorProto.FLOAT
        self.double = onnx.TensorProto.DOUBLE

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        output = name or f"{operator}_{len(self.nodes)}"
        node = onnx.helper.make_node(operator, inputs, [output], output, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """Add a constant and return its name."""
        title = name or f"constant_{len(self.constants)}"
        array: NDArray[Any] = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        self.constants.append(onnx.numpy_helper.from_array(array, title))
        return title

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))


def _hard(graph: _Graph, rows: str, n_rows: str, words: str, search: WordSearch) -> None:
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
    add("ScatterElements", codes, row, word, name="codes", axis=0, reduction="min")

    empty = graph.constant(np.zeros(n_words, np.float32))
    ones = add("Expand", number(1), n_rows)
    totals = add("ScatterElements", empty, "codes", ones, axis=0, reduction="add")
    shares = add("Div", totals, _at_least_one(graph, n_rows))
    add("Reshape", shares, graph.constant(np.array([1, n_words])), name="histogram")


def _distances(graph: _Graph, rows: str, row: str, words: str, word: str, n_dims: int) -> str:
    """Add the squared distances of some pairs in float64, summed in the order of dimensions."""
    add = graph.add
    ours = add("Cast", add("Gather", rows, row, axis=0), to=graph.double)
    theirs = add("Cast", add("Gather", words, word, axis=0), to=graph.double)
    difference = add("Sub", ours, theirs)
    sums = add("CumSum", add("Mul", difference, difference), graph.constant(np.int64(1)))
    return add("Gather", sums, graph.constant(np.int64(n_dims - 1)), axis=1)


def _soft(
    graph: _Graph, rows: str, n_rows: str, words: str, found: WordScores, factor: float
) -> None:
    """Add the mean of the soft codes."""
    add = graph.add
    across = graph.constant(np.array([1]))
    _, scores = _scores(graph, rows, words, found)
    behind = add("Sub", scores, add("ReduceMax", scores, across, keepdims=1))
    weights = add("Exp", add("Mul", behind, graph.number(factor)))
    # Dividing each row by its total and adding the rows up is one product.
    shares = add("Reciprocal", add("ReduceSum", weights, across, keepdims=1))
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
