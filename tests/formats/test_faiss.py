from __future__ import annotations

import io
import re
import struct

import faiss
import numpy as np
import pytest

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.faiss import read_faiss, write_faiss
from bowsaw.formats.registry import load

# Its threads wait for each other where other processes use the cores.
faiss.omp_set_num_threads(1)

ROWS = np.random.default_rng(0).normal(size=(256, 8)).astype(np.float32)


def written(index):
    return io.BytesIO(faiss.serialize_index(index).tobytes())


def flat(kind=faiss.IndexFlatL2, rows=ROWS[:20]):
    index = kind(rows.shape[1])
    index.add(rows)
    return index


def made(description):
    index = faiss.index_factory(8, description)
    index.train(ROWS)
    index.add(ROWS)
    return index


def words_of(file):
    [words] = read_faiss(file).found.values()
    return words


def test_a_flat_index_and_the_centroids_of_kmeans_are_read(capfd):
    np.testing.assert_array_equal(words_of(written(flat())), ROWS[:20])
    kmeans = faiss.Kmeans(8, 4, seed=1, min_points_per_centroid=1)
    kmeans.train(ROWS)
    np.testing.assert_array_equal(words_of(written(kmeans.index)), kmeans.centroids)


@pytest.mark.parametrize("kind", ["Flat", "PQ2x4", "PQ2x4fs", "SQ8", "RQ2x4", "RaBitQ"])
def test_the_quantiser_of_an_inverted_file_is_read(kind):
    index = made(f"IVF5,{kind}")
    quantiser = faiss.downcast_index(index.quantizer)
    np.testing.assert_array_equal(words_of(written(index)), quantiser.reconstruct_n(0, 5))


def test_the_lists_behind_the_quantiser_are_not_read():
    whole = written(made("IVF5,Flat")).getvalue()
    lists = len(whole) - ROWS.nbytes
    np.testing.assert_array_equal(words_of(io.BytesIO(whole[:lists])), words_of(io.BytesIO(whole)))
    with pytest.raises(FormatError):
        read_faiss(io.BytesIO(whole[:160]))


def test_ids_are_read():
    for kind in ("IDMap", "IDMap2"):
        index = faiss.index_factory(8, f"{kind},Flat")
        index.add_with_ids(ROWS[:3], np.array([7, 2, 9]))
        book = read_faiss(written(index)).codebook("x.faiss")
        assert book.ids.tolist() == [7, 2, 9]
        np.testing.assert_array_equal(book.words, ROWS[:3])


def test_an_inner_product_needs_words_of_one_length():
    unit = ROWS[:20] / np.linalg.norm(ROWS[:20], axis=1, keepdims=True)
    np.testing.assert_array_equal(words_of(written(flat(faiss.IndexFlatIP, unit))), unit)
    with pytest.raises(FormatError, match="compares by inner product and its words have lengths"):
        read_faiss(written(flat(faiss.IndexFlatIP)))
    unit[3, 3] = np.nan
    with pytest.raises(FormatError, match="inner product"):
        read_faiss(written(flat(faiss.IndexFlatIP, unit)))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("PCA4,Flat", "transform in front"),
        ("HNSW8", "a graph"),
        ("PQ2x4", "product codes"),
        ("SQ8", "scalar codes"),
        ("Flat,RFlat", "refines"),
        ("NSG8,Flat", "not read here"),
        ("IVF5_HNSW8,Flat", "a graph"),
        ("IDMap,HNSW8", "a graph"),
    ],
)
def test_other_indexes_are_refused_with_the_reason_and_advice_that_works(
    description, message, tmp_path
):
    index = faiss.index_factory(8, description)
    index.train(ROWS)
    index.add_with_ids(ROWS, np.arange(len(ROWS))) if "IDMap" in description else index.add(ROWS)
    path = tmp_path / "x.faiss"
    faiss.write_index(index, str(path))
    with pytest.raises(FormatError, match=message) as caught:
        load(path)
    if "HNSW" in description:
        # The code of the message is run.
        code = re.search(r"bowsaw\.(Codebook\(.*\)) takes its vectors", str(caught.value))[1]
        words = eval(code, {"Codebook": Codebook, "index": faiss.read_index(str(path))}).words
        # Of an IVF index, not the database, which the index itself holds.
        ivf = "IVF" in description
        expected = (
            faiss.downcast_index(index.quantizer).storage.reconstruct_n(0, 5) if ivf else ROWS
        )
        np.testing.assert_array_equal(words, expected)


def test_indexes_without_words_of_bits_and_of_other_metrics_are_refused():
    with pytest.raises(FormatError, match="no word was added"):
        read_faiss(written(faiss.IndexFlatL2(4)))
    bits = faiss.serialize_index_binary(faiss.IndexBinaryFlat(8)).tobytes()
    with pytest.raises(FormatError, match=r"Hamming.* 'bowsaw train'"):
        read_faiss(io.BytesIO(bits))
    other = faiss.IndexFlat(8, faiss.METRIC_L1)
    other.add(ROWS[:3])
    with pytest.raises(FormatError, match=f"number {faiss.METRIC_L1} of faiss"):
        read_faiss(written(other))


def test_faiss_reads_what_we_write(tmp_path):
    book = Codebook(ROWS[:20], np.arange(20)[::-1])
    path = tmp_path / "b.faiss"
    write_faiss(book, path)
    index = faiss.read_index(str(path))
    assert type(index) is faiss.IndexFlatL2
    assert (index.d, index.ntotal, index.is_trained) == (8, 20, True)
    np.testing.assert_array_equal(index.reconstruct_n(0, 20), book.words)
    np.testing.assert_array_equal(index.search(ROWS[:20], 1)[1][:, 0], np.arange(20))
    # To the byte as faiss would.
    assert path.read_bytes() == written(flat()).getvalue()


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (4, struct.pack("<i", -8), "damaged"),
        (4, struct.pack("<i", 2**31 - 1), "damaged"),
        (8, struct.pack("<q", -1), "damaged"),
        (8, struct.pack("<q", 2**62), "damaged"),
        (37, struct.pack("<Q", 2**63), "damaged"),
        (0, b"IxXX", "not read here"),
    ],
)
def test_wrong_heads_are_refused(at, value, message):
    whole = bytearray(written(flat()).getvalue())
    whole[at : at + len(value)] = value
    with pytest.raises(FormatError, match=message):
        read_faiss(io.BytesIO(bytes(whole)))


def test_counts_that_agree_and_are_too_large_allocate_nothing():
    head = struct.pack("<iqqqBi", 2**20, 2**40, 0, 0, 1, 1)
    with pytest.raises(FormatError, match="cut off"):
        read_faiss(io.BytesIO(b"IxF2" + head + struct.pack("<Q", 2**60)))
    with pytest.raises(FormatError, match="3 bytes follow"):
        read_faiss(io.BytesIO(written(flat()).getvalue() + b"abc"))
