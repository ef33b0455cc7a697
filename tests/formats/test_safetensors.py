import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors import safe_open

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.registry import load, save

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MAPPING = st.dictionaries(st.text(), JSON, max_size=3)
WORDS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@pytest.fixture
def path(full_book, tmp_path):
    save(full_book, tmp_path / "book.safetensors")
    return tmp_path / "book.safetensors"


@settings(max_examples=40)
@given(
    WORDS,
    st.lists(st.integers(0, 2**62), min_size=5, max_size=5, unique=True),
    st.floats(1.2e-38, 8.5e37),
    st.none() | MAPPING,
    MAPPING,
    st.none() | st.lists(st.integers(0, 2**64 - 1), max_size=4),
)
def test_what_was_saved_is_loaded(tmp_path_factory, words, ids, scale, about, made, seen):
    fields = {"scale": scale, "description": about, "provenance": made, "trained_on": seen}
    book = Codebook(words, ids[: len(words)], **fields)
    path = tmp_path_factory.mktemp("books") / "b.safetensors"
    save(book, path)
    again = load(path)
    assert again == book
    assert again.words.tobytes() == book.words.tobytes()
    assert not again.words.flags.writeable
    first = path.read_bytes()
    save(again, path)
    assert path.read_bytes() == first


def test_any_reader_of_safetensors_reads_it(full_book, path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    types = {name: (tensor.dtype.str, tensor.shape) for name, tensor in tensors.items()}
    assert types == {"words": ("<f4", (5, 4)), "ids": ("<i8", (5,)), "trained_on": ("<u8", (2,))}
    np.testing.assert_array_equal(tensors["words"], full_book.words)
    assert json.loads(metadata.pop("description")) == full_book.description
    assert json.loads(metadata.pop("provenance")) == full_book.provenance
    assert metadata.pop("digest")
    expected = {"format": "bowsaw-codebook", "format_version": "1"}
    assert metadata == expected | {"scale": "512.0", "metric": "euclidean"}


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"words": np.full((5, 4), np.nan, np.float32)}, {}, "finite"),
        ({"words": np.ones((4, 4), np.float32)}, {}, "ids"),
        ({"words": np.ones(5, np.float32)}, {}, "words"),
        ({"ids": np.zeros(5, np.int64)}, {}, "distinct"),
        ({"ids": np.arange(5.0)}, {}, "ids"),
        ({"trained_on": np.array([-1])}, {}, "trained_on"),
        ({"more": np.zeros(1)}, {}, "holds the arrays"),
        ({}, {"format_version": "2"}, "codebook format 2, and this version of bowsaw reads 1"),
        ({}, {"scale": "-1.0"}, "scale"),
        ({}, {"scale": "wide"}, "could not convert"),
        ({}, {"metric": "cosine"}, "metric"),
        ({}, {"description": "[1]"}, "description is not a mapping"),
        ({}, {"provenance": "[" * 100_000}, "damaged"),
        ({}, {"metric": None}, "damaged"),
    ],
)
def test_a_file_of_wrong_content_is_refused(full_book, path, forge, tensors, metadata, message):
    forge(path, tensors, signed=False, **metadata)
    with pytest.raises(FormatError, match=r"checksum|holds the arrays|codebook format"):
        load(path)
    save(full_book, path)
    forge(path, tensors, **metadata)
    with pytest.raises(FormatError, match=message):
        load(path)


def test_other_files_are_refused(path, forge):
    # A flipped bit in "format" must not make it a foreign file of unknown ids and scale.
    forge(path, format="cowsaw-codebook")
    with pytest.raises(FormatError, match="it is a damaged codebook"):
        load(path)
    twice = b'{"__metadata__": {}, "__metadata__": {}}'
    for length, text in ((2**63, b"{}"), (2, b"[]"), (5, b"{nope"), (8, b"\xff" * 8), (40, twice)):
        path.write_bytes(struct.pack("<Q", length) + text)
        with pytest.raises(FormatError, match=r"cannot be read as a codebook: .* 'bowsaw train'"):
            load(path)
