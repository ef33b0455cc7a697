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
order. ``templates/hard.onnx.txt`` follows ``bowsaw.nearest.search``, with its bounds:

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
from bowsaw.descriptors._dense_sift_kernel import N_ORIENTATIONS
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
    batch: str | int = 1
    if sift is None:
        kind = types.UINT8 if descriptors == "uint8" else types.FLOAT
        text = f"one descriptor per row, {unit_of(book)}"
        n_dims = book.n_dims if projection is None else len(projection.mean)
        taken: list[Any] = ["descriptors", kind, ["n", n_dims], text]
        graph.constant(np.array([1]), "n_images")
    else:
        text = f"grey, black 0 to white 255; no side below {sift.patch} pixels after the reduction"
        if sift.max_side is not None:
            text += f", which makes the longest side {sift.max_side} at most"
        taken, batch = ["image", types.UINT8, ["batch", "height", "width"], text], "batch"
        graph.add("Shape", "image", name="n_images", end=1)
        _describe(graph, sift)
    rows = graph.add("Cast", "descriptors", name="rows" * (projection is None), to=types.FLOAT)
    graph.add("Shape", rows, name="n_rows", end=1)
    if projection is not None:
        rows = graph.add("Sub", rows, graph.constant(projection.mean, "mean"))
        graph.add("MatMul", rows, graph.constant(projection.matrix, "projection"), name="rows")
    text = "the share of each word, in the order of the metadata's word_ids"
    outputs: list[Any] = [("histogram", types.FLOAT, [batch, book.n_words], text)]
    if bow.coding == "hard":
        found: Any = WordSearch(book.words, skip=False)
        _hard(graph, found, "n_rows" if sift is None else "n_images, n_each")
        text = "the position of each descriptor's nearest word"
        outputs.append(("codes", types.INT64, ["n"] if sift is None else ["batch", "n"], text))
    else:
        found, factor = WordScores(book.words), score_factor(bow.sharpness_in_use(), book.scale)
        graph.parse("soft", factor=_text(factor), n_words=book.n_words)
    # The runtime folds the difference of words and centre; the file holds the words once.
    graph.constant(book.words, "words")
    graph.constant(found.centre, "centre")
    graph.constant(-found.half_norms, "minus_half_norms")
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

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        output = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def constant(self, value: ArrayLike, name: str) -> str:
        """Add a constant and return its name."""
        array: NDArray[Any] = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def parse(self, name: str, **marks: Any) -> None:
        """Add a template; its constants are shared with other templates by their names."""
        text = (Path(__file__).parent / "templates" / f"{name}.onnx.txt").read_text("ascii")
        found = onnx.parser.parse_graph(Template(text).substitute(marks))
        for node in found.node:
            node.name = node.output[0]
        self.nodes += found.node
        known = {constant.name for constant in self.constants}
        self.constants += [one for one in found.initializer if one.name not in known]


def _describe(graph: _Graph, sift: DenseSift) -> None:
    """Add the descriptors of all images, one after the other, ``(batch · n, 128)``."""
    cell, as_bytes = sift.patch // N_CELLS, sift.dtype == "uint8"
    stride, reach = gcd(sift.step, cell), np.arange(2 * cell) - cell // 2 - (cell - 1) / 2
    triangle = np.maximum(0, 1 - np.abs(reach) / cell).astype(np.float32)
    graph.parse(
        "dense_sift",
        max_side=sift.max_side or 2**31,
        patch=sift.patch,
        step=sift.step,
        reach=sift.patch + cell - cell // 2,
        before=cell // 2,
        stride=stride,
        cells_per_step=sift.step // stride,
        offsets=", ".join(str(i * cell // stride) for i in range(N_CELLS)),
        width=2 * cell,
        triangles=", ".join(map(_text, np.tile(triangle, N_ORIENTATIONS))),
        contrast=_text(max(sift.min_contrast * 255.0 * (cell * cell / 16.0), _LEAST)),
        least=_text(_LEAST),
        clip=_text(CLIP),
        scale=_text(sift.scale),
        rounding=0.5 if as_bytes else 0.0,
        most=255.0 if as_bytes else sift.scale,
        stored="Floor" if as_bytes else "Identity",
    )


def _hard(graph: _Graph, search: WordSearch, shape_of_codes: str) -> None:
    """Add the codes and their shares; the error bounds are those of ``search``."""
    bound, (n_words, n_dims) = search.error, search.exact_words.shape
    graph.parse(
        "hard",
        reach=_text(min(bound.reach, 1e30)),
        least_length=_text(4 * np.sqrt(bound.least)),
        largest=_text(bound.largest),
        relative=_text(bound.relative),
        least=_text(bound.least),
        far=_text(bound.far),
        n_words=n_words,
        last_dim=n_dims - 1,
        shape_of_codes=shape_of_codes,
    )


def _classify(graph: _Graph, model: LinearModel) -> None:
    """Add the scores and the label, in float64."""
    add = graph.add
    mapped = add("Cast", "histogram", to=onnx.TensorProto.DOUBLE)
    if model.mapping == "sqrt":
        mapped = add("Sqrt", mapped)
    mapped = add("Mul", mapped, graph.constant(np.float64(model.scale), "scale_of_weights"))
    scores = add("MatMul", mapped, graph.constant(model.weights.T, "weights"))
    scores = add("Add", scores, graph.constant(model.intercepts, "intercepts"))
    if len(model.classes) == 2:
        scores = add("Concat", add("Neg", scores), scores, axis=1)
    add("ArgMax", scores, name="label", axis=1, keepdims=0)
    add("Cast", scores, name="scores", to=onnx.TensorProto.FLOAT)


def _text(value: Any) -> str:
    """Return a float32 as the text that is read as the same number."""
    return repr(float(np.float32(value)))
