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
UNIT = ROWS[:20] / np.linalg.norm(ROWS[:20], axis=1, keepdims=True)


def written(index):
    return faiss.serialize_index(index).tobytes()


def flat(*arguments, rows=ROWS[:20]):
    index = faiss.IndexFlat(8, *arguments) if arguments else faiss.IndexFlatL2(8)
    index.add(rows)
    return index


def made(description):
    index = faiss.index_factory(8, description)
    index.train(ROWS)
    index.add_with_ids(ROWS, np.arange(256) * 3) if "IDMap" in description else index.add(ROWS)
    return index


def read(content):
    return read_faiss(io.BytesIO(content)).codebook("x.faiss")


def test_flat_indexes_kmeans_and_ids_are_read(capfd):
    kmeans = faiss.Kmeans(8, 4, seed=1, min_points_per_centroid=1)
    kmeans.train(ROWS)
    np.testing.assert_array_equal(read(written(kmeans.index)).words, kmeans.centroids)
    # Words of one length are compared alike by the inner product.
    unit = flat(faiss.METRIC_INNER_PRODUCT, rows=UNIT)
    np.testing.assert_array_equal(read(written(unit)).words, UNIT)
    for kind in ("IDMap", "IDMap2"):
        book = read(written(made(f"{kind},Flat")))
        assert book.ids.tolist() == list(range(0, 768, 3))
        np.testing.assert_array_equal(book.words, ROWS)


@pytest.mark.parametrize("kind", ["Flat", "PQ2x4", "PQ2x4fs", "SQ8", "RQ2x4", "RaBitQ"])
def test_the_quantiser_of_an_inverted_file_is_read(kind):
    index = made(f"IVF5,{kind}")
    whole, words = written(index), faiss.downcast_index(index.quantizer).reconstruct_n(0, 5)
    np.testing.assert_array_equal(read(whole).words, words)
    if kind == "Flat":
        # The lists behind it are not read.
        np.testing.assert_array_equal(read(whole[: -ROWS.nbytes]).words, words)


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
def test_other_indexes_are_refused_with_advice_that_works(description, message, tmp_path):
    index, path = made(description), tmp_path / "x.faiss"
    faiss.write_index(index, str(path))
    with pytest.raises(FormatError, match=message) as caught:
        load(path)
    if "HNSW" in description:
        # The code of the message is run.
        code = re.search(r"bowsaw\.(Codebook\(.*\)) takes its vectors", str(caught.value))[1]
        words = eval(code, {"Codebook": Codebook, "index": faiss.read_index(str(path))}).words
        # Of an IVF index, not the database, which the index itself holds.
        quantiser = faiss.downcast_index(index.quantizer) if "IVF" in description else None
        expected = quantiser.storage.reconstruct_n(0, 5) if quantiser else ROWS
        np.testing.assert_array_equal(words, expected)


def test_faiss_reads_what_we_write(tmp_path):
    book, path = Codebook(ROWS[:20], np.arange(20)[::-1]), tmp_path / "b.faiss"
    write_faiss(book, path)
    index = faiss.read_index(str(path))
    np.testing.assert_array_equal(index.search(ROWS[:20], 1)[1][:, 0], np.arange(20))
    np.testing.assert_array_equal(read(path.read_bytes()).words, book.words)
    # To the byte as faiss would.
    assert path.read_bytes() == written(flat())


def changed(at, form, value):
    whole = bytearray(written(flat()))
    struct.pack_into(form, whole, at, value)
    return bytes(whole)


LARGE = b"IxF2" + struct.pack("<iqqqBiQ", 2**20, 2**40, 0, 0, 1, 1, 2**60)
BITS = faiss.serialize_index_binary(faiss.IndexBinaryFlat(8)).tobytes()
PRODUCT = faiss.METRIC_INNER_PRODUCT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(4, "<i", -8), "damaged"),
        (changed(4, "<i", 2**31 - 1), "damaged"),
        (changed(8, "<q", -1), "damaged"),
        (changed(37, "<Q", 2**63), "damaged"),
        (changed(0, "4s", b"IxXX"), "not read here"),
        (LARGE, "cut off"),
        (written(flat()) + b"abc", "3 bytes follow"),
        (written(made("IVF5,Flat"))[:160], "cut off"),
        (written(faiss.IndexFlatL2(4)), "no word was added"),
        (BITS, r"Hamming.* 'bowsaw train'"),
        (written(flat(faiss.METRIC_L1)), f"number {faiss.METRIC_L1} of faiss"),
        (written(flat(PRODUCT)), "compares by inner product and its words have lengths"),
        (written(flat(PRODUCT, rows=UNIT * np.float32(np.nan))), "inner product"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_damaged_empty_and_foreign_indexes_are_refused(content, message):
    with pytest.raises(FormatError, match=message):
        read_faiss(io.BytesIO(content))
