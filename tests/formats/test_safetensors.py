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

import bowsaw as bs
from bowsaw.checkpoint import os as files_os
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, SpaceError
from bowsaw.formats import safetensors
from bowsaw.formats.registry import load, save

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
WORDS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@pytest.fixture
def book():
    return Codebook(
        np.random.default_rng(0).normal(size=(5, 4)),
        [4, 8, 2, 1, 0],
        scale=512,
        description={"name": "dense-sift", "sizes": [4, 8]},
        provenance={"seed": 0, "objective": 0.1 + 0.2, "place": "Küche «☃»"},
        trained_on=[3, 2**64 - 1],
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book.safetensors"


def parts(path):
    """The tensors and the metadata of a file."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


# -- there and back --------------------------------------------------------------------------------


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
    ids = data.draw(
        st.lists(st.integers(0, 2**62), min_size=len(words), max_size=len(words), unique=True)
    )
    book = Codebook(
        words, ids, scale=scale, description=about, provenance=provenance, trained_on=seen
    )
    path = tmp_path_factory.mktemp("books") / "b.safetensors"
    save(book, path)
    again = load(path)
    assert again == book
    assert again.words.tobytes() == book.words.tobytes()
    assert again.scale == scale
    assert not again.words.flags.writeable
    first = path.read_bytes()
    save(again, path)
    assert path.read_bytes() == first


def test_the_front_door_saves_and_loads(book, path):
    bs.save(book.only([2, 8]), path)
    assert bs.load(str(path)) == book.only([2, 8])


def test_any_reader_of_safetensors_reads_it(book, path):
    save(book, path)
    tensors, metadata = parts(path)
    assert {name: (t.dtype.str, t.shape) for name, t in tensors.items()} == {
        "words": ("<f4", (5, 4)),
        "ids": ("<i8", (5,)),
        "trained_on": ("<u8", (2,)),
    }
    np.testing.assert_array_equal(tensors["words"], book.words)
    assert set(metadata) == {
        "format",
        "format_version",
        "scale",
        "metric",
        "description",
        "provenance",
        "digest",
    }
    assert (metadata["format"], metadata["format_version"]) == ("bowsaw-codebook", "1")
    assert (float(metadata["scale"]), metadata["metric"]) == (512, "euclidean")
    assert json.loads(metadata["description"]) == book.description
    assert json.loads(metadata["provenance"]) == book.provenance


def test_what_is_unknown_is_left_out(path):
    save(Codebook([[1.0]]), path)
    tensors, metadata = parts(path)
    assert set(tensors) == {"words", "ids"}
    assert metadata["description"] == "null"
    assert load(path).trained_on is None
    assert load(path).description is None


# -- whole or not at all ---------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(book, path, monkeypatch):
    save(book, path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "no room")

    monkeypatch.setattr(files_os, "fsync", full)
    with pytest.raises(SpaceError, match="disk is full"):
        save(book.only([4]), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# -- what is not one -------------------------------------------------------------------------------


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    for missing in (tmp_path / "no.safetensors", tmp_path, "no\0pe"):
        with pytest.raises(
            FormatError, match=r"is not a file. Make a codebook with 'bowsaw train'"
        ):
            load(missing)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"words",
        b"PK\x03\x04" + bytes(100),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 5) + b"{nope",
        struct.pack("<Q", 8) + b"\xff" * 8,
    ],
)
def test_other_files_are_told(path, content):
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"cannot be read as a codebook: .* 'bowsaw train'"):
        load(path)


def test_another_version_is_told(book, path):
    save(book, path)
    tensors, metadata = parts(path)
    path.write_bytes(to_bytes(tensors, metadata | {"format_version": "2"}))
    with pytest.raises(
        FormatError, match="has codebook format 2, and this version of bowsaw reads 1"
    ):
        load(path)


def write(path, tensors, metadata):
    """Write a file whose checksum is right, whatever else is not."""
    del metadata["digest"]
    metadata["digest"] = safetensors.tensors_digest(tensors, metadata)
    path.write_bytes(to_bytes(tensors, metadata))


@pytest.mark.parametrize(
    ("tensors", "metadata"),
    [
        ({"words": np.full((5, 4), np.nan, np.float32)}, {}),
        ({"words": np.ones((5, 4), np.float16)}, {"scale": "-1.0"}),
        ({"words": np.ones((4, 4), np.float32)}, {}),
        ({"words": np.ones(5, np.float32)}, {}),
        ({"ids": np.zeros(5, np.int64)}, {}),
        ({"ids": np.arange(5.0)}, {}),
        ({"ids": np.arange(5) - 1}, {}),
        ({"trained_on": np.array([np.nan])}, {}),
        ({"trained_on": np.array([-1])}, {}),
        ({"more": np.zeros(1)}, {}),
        ({}, {"scale": "nan"}),
        ({}, {"scale": "wide"}),
        ({}, {"metric": "cosine"}),
        ({}, {"description": "[1]"}),
        ({}, {"description": "{"}),
        ({}, {"provenance": "[" * 100_000}),
        ({}, {"provenance": "3"}),
    ],
)
def test_a_well_made_file_with_wrong_content_is_told(book, path, tensors, metadata):
    save(book, path)
    good_tensors, good_metadata = parts(path)
    write(path, good_tensors | tensors, good_metadata | metadata)
    with pytest.raises(FormatError, match=r"book\.safetensors"):
        load(path)


@pytest.mark.parametrize("name", ["scale", "metric", "description", "provenance", "digest"])
def test_missing_metadata_are_told(book, path, name):
    save(book, path)
    tensors, metadata = parts(path)
    del metadata[name]
    path.write_bytes(to_bytes(tensors, metadata))
    with pytest.raises(FormatError):
        load(path)


def test_every_truncation_is_told(book, path):
    save(book, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            load(path)


def test_one_bit_turned_over_is_told(book, path):
    save(book, path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for place in random.choice(len(whole) * 8, 300, replace=False):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            again = load(path)
        except FormatError:
            continue
        # Space between the parts of the header may be any space.
        assert again == book


def test_damage_of_any_kind_is_told(book, path):
    save(book, path)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    n_told = 0
    for _ in range(300):
        a, b = sorted(random.integers(0, len(whole), 2))
        filling = random.integers(0, 256, random.integers(0, 40)).astype(np.uint8).tobytes()
        damaged = random.choice(
            [whole[:a] + whole[b:], whole[:a] + filling + whole[b:], whole[:b] + whole[a:]]
        )
        path.write_bytes(damaged)
        try:
            assert load(path) == book
        except FormatError:
            n_told += 1
    assert n_told > 250
