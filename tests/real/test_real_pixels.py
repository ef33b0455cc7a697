"""From the grey pixels of 1,000 real images to Python's class, by the graph."""

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.real.pixels import SETS, assert_agrees, benchmark_of

from bowsaw.formats.onnx import write_onnx


@pytest.mark.parametrize("coding", ["hard", "soft"])
@pytest.mark.parametrize("variable", SETS)
def test_the_graph_gives_the_class_of_python(tmp_path: Path, variable: str, coding: str) -> None:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no folder")
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
