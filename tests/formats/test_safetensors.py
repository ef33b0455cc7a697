from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from bowsaw.checkpoint import os as files_os
from bowsaw.checkpoint import tensors_digest
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, SpaceError
from bowsaw.formats.registry import load, save

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
WORDS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@pytest.fixture
def path(full_book, tmp_path):
    save(full_book, tmp_path / "book.safetensors")
    return tmp_path / "book.safetensors"


def parts(path):
    """The tensors and the metadata of a file."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@settings(max_examples=40)
@given(
    WORDS,
    st.data(),
    st.floats(1e-300, 1e300),
    st.none() | st.dictionaries(st.text(), JSON, max_size=3),
    st.dictionaries(st.text(), JSON, max_size=3),
    st.none() | st.lists(st.integers(0, 2**64 - 1), max_size=4),
)
def test_what_was_saved_is_loaded(tmp_path_factory, words, data, scale, about, provenance, seen):
    n_words = len(words)
    ids = data.draw(
        st.lists(st.integers(0, 2**62), min_size=n_words, max_size=n_words, unique=True)
    )
    book = Codebook(
        words, ids, scale=scale, description=about, provenance=provenance, trained_on=seen
    )
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
    tensors, metadata = parts(path)
    assert {name: (t.dtype.str, t.shape) for name, t in tensors.items()} == {
        "words": ("<f4", (5, 4)),
        "ids": ("<i8", (5,)),
        "trained_on": ("<u8", (2,)),
    }
    np.testing.assert_array_equal(tensors["words"], full_book.words)
    assert json.loads(metadata.pop("description")) == full_book.description
    assert json.loads(metadata.pop("provenance")) == full_book.provenance
    assert metadata.pop("digest")
    expected = {"format": "bowsaw-codebook", "format_version": "1"}
    assert metadata == expected | {"scale": "512.0", "metric": "euclidean"}
    save(Codebook([[1.0]]), path)
    assert set(parts(path)[0]) == {"words", "ids"}


def test_a_failed_save_leaves_the_old_file(full_book, path, monkeypatch):
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "no space")

    monkeypatch.setattr(files_os, "fsync", full)
    with pytest.raises(SpaceError, match="disk is full"):
        save(full_book.only([4]), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"words",
        b"PK\x03\x04" + bytes(100),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 5) + b"{nope",
        struct.pack("<Q", 8) + b"\xff" * 8,
        struct.pack("<Q", 40) + b'{"__metadata__": {}, "__metadata__": {}}',
    ],
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"cannot be read as a codebook: .* 'bowsaw train'"):
        load(path)


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"words": np.full((5, 4), np.nan, np.float32)}, {}, "finite"),
        ({"words": np.ones((4, 4), np.float32)}, {}, "ids"),
        ({"words": np.ones(5, np.float32)}, {}, "words"),
        ({"ids": np.zeros(5, np.int64)}, {}, "distinct"),
        ({"ids": np.arange(5.0)}, {}, "ids"),
        ({"ids": np.arange(5) - 1}, {}, "ids"),
        ({"trained_on": np.array([np.nan])}, {}, "trained_on"),
        ({"trained_on": np.array([-1])}, {}, "trained_on"),
        ({"more": np.zeros(1)}, {}, "holds the arrays"),
        ({}, {"format_version": "2"}, "codebook format 2, and this version of bowsaw reads 1"),
        ({}, {"scale": "-1.0"}, "scale"),
        ({}, {"scale": "wide"}, "could not convert"),
        ({}, {"metric": "cosine"}, "metric"),
        ({}, {"description": "[1]"}, "description is not a mapping"),
        ({}, {"description": "{"}, "damaged"),
        ({}, {"provenance": "[" * 100_000}, "damaged"),
        *(({}, {name: None}, "damaged") for name in ("scale", "metric", "provenance")),
    ],
)
def test_a_file_with_a_right_digest_and_wrong_content_is_refused(path, tensors, metadata, message):
    found, texts = parts(path)
    found |= tensors
    texts = {name: text for name, text in (texts | metadata).items() if text is not None}
    del texts["digest"]
    path.write_bytes(to_bytes(found, texts))
    with pytest.raises(FormatError, match=r"checksum|holds the arrays|codebook format"):
        load(path)
    texts["digest"] = tensors_digest(found, texts)
    path.write_bytes(to_bytes(found, texts))
    with pytest.raises(FormatError, match=message):
        load(path)


def test_a_turned_bit_is_refused_or_changes_nothing(full_book, path):
    whole = path.read_bytes()
    for place in np.random.default_rng(0).choice(len(whole) * 8, 200, replace=False):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            # Space between the parts of the header may be any space.
            assert load(path) == full_book
        except FormatError:
            continue
