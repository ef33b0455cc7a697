"""From the grey pixels of 1,000 real images to Python's class, by the graph and the header."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.formats.c_compiler import PIXELS, compiled, compiler_of, describe, recognise
from tests.real.pixels import EACH_SET, assert_agrees, benchmark_of

import bowsaw as bs
from bowsaw.formats.c_header import quantize_words, write_c_header
from bowsaw.formats.onnx import write_onnx


@pytest.mark.parametrize("coding", ["hard", "soft"])
@EACH_SET
def test_the_graph_gives_the_class_of_python(tmp_path: Path, variable: str, coding: str) -> None:
    _, greys, descriptors, made = benchmark_of(variable)
    recogniser = made[coding]
    write_onnx(recogniser.codebook_, tmp_path / "g.onnx", recogniser.model_)
    model = onnx.load(tmp_path / "g.onnx")
    kind = onnx.helper.make_tensor_value_info("descriptors", onnx.TensorProto.FLOAT, ["rows", 128])
    model.graph.output.append(kind)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = []
    for grey in greys:
        rows, scores = session.run(["descriptors", "scores"], {"image": grey[None]})
        found.append((rows.astype(np.uint8), scores[0]))
    assert_agrees(found, descriptors, recogniser.decision_function(greys))


@pytest.mark.skipif(compiler_of() is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("coding", "words"),
    [("hard", "float32"), ("soft", "float32"), ("hard", "uint8"), ("soft", "uint8")],
)
@EACH_SET
def test_the_header_gives_the_class_of_python(
    tmp_path: Path, variable: str, coding: Any, words: Any
) -> None:
    _, greys, descriptors, made = benchmark_of(variable)
    book, model = made[coding].codebook_, made[coding].model_
    write_c_header(book, tmp_path / "words.h", model, words=words)
    library = compiled(tmp_path, PIXELS, "-O3")
    if words == "uint8":
        # Python with the words as they are stored.
        moved = quantize_words(book.words, words, "uint8").restored()
        book = bs.Codebook(moved, scale=512, description=book.description)
    sharpness = {} if coding == "hard" else {"sharpness": model.sharpness}
    coder = bs.BagOfWords(book, coding=coding, **sharpness)
    bags = bs.Bags.from_list(descriptors, scale=512, description=book.description)
    expected = model.scores(coder.transform(bags))
    answers = [recognise(library, grey, len(model.classes), 50) for grey in greys]
    assert [label for label, _, _ in answers] == [int(np.argmax(s)) for _, s, _ in answers]
    found = [(describe(library, g), a[1]) for g, a in zip(greys, answers, strict=True)]
    assert_agrees(found, descriptors, expected)
    assert np.abs([a[1] for a in answers] - expected).max() <= 0.02
