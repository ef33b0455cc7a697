"""The bytes select a reader, the name a writer; pickles and vocabulary trees are refused."""

import gzip
import io
import pickle
import shutil
import struct

import cv2
import joblib
import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.cluster import KMeans

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, MismatchError, ParameterError
from bowsaw.formats.registry import COMPLETE, WRITERS, load, lost_in, read, reader_of, save


@pytest.fixture(scope="module")
def book():
    random = np.random.default_rng(0)
    words = random.normal(size=(20, 16)) * 10.0 ** random.integers(-9, 9, (20, 16))
    fields = {"description": {"name": "dense-sift"}, "provenance": {"seed": 0}}
    return Codebook(words, random.permutation(50)[:20], scale=512, trained_on=[3], **fields)


@pytest.fixture(scope="module")
def files(book, tmp_path_factory):
    """The same words in each format."""
    folder = tmp_path_factory.mktemp("vocabularies")
    found = {end: folder / f"book{end}" for end in WRITERS}
    for path in found.values():
        save(book, path)
    return found


@pytest.mark.parametrize("end", WRITERS)
def test_words_come_back_to_the_bit_whatever_the_name(book, files, end, tmp_path):
    again = load(files[end])
    assert again.words.tobytes() == book.words.tobytes()
    assert (again == book) == (end in COMPLETE)
    everything = ["ids", "scale", "description", "provenance", "trained_on"]
    assert lost_in(book, f"x{end}") == ([] if end in COMPLETE else everything)
    assert lost_in(Codebook([[1.0]]), f"x{end}") == []
    if end not in COMPLETE:
        assert again.ids.tolist() == list(range(20))
        assert (again.description, again.trained_on) == (None, None)
        assert again.scale_is_unknown
        known = load(files[end], scale=512)
        assert (known.scale, known.scale_is_unknown) == (512, False)
    save(book, tmp_path / f"a.b{end.upper()}")
    shutil.copy(files[end], tmp_path / "plain")
    shutil.copy(files[end], tmp_path / "other.yml")
    for path in tmp_path.iterdir():
        assert load(path).words.tobytes() == book.words.tobytes()


def test_a_name_decides_where_bytes_say_nothing():
    old = np.array([0, 2, 2, 0, 2], "<i4").tobytes() + b"w\0" + np.eye(2).tobytes()
    assert read(io.BytesIO(old), "old.mat", layout="rows").words.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(FormatError, match=r"vocabulary of a known format\. Known are \.safe"):
        read(io.BytesIO(old), "old")
    assert reader_of(io.BytesIO(old), "old") is None


def test_the_matrix_of_a_foreign_safetensors_file_is_read(tmp_path):
    path = tmp_path / "x.safetensors"
    words = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    save_file({"centroids": words, "counts": np.arange(9)}, path)
    again = load(path)
    np.testing.assert_array_equal(again.words, words)
    assert again.provenance["read_from"]["variable"] == "centroids"
    save_file({"a": words, "b": words + 1}, path)
    with pytest.raises(ParameterError, match=r"a \(9 × 4\), b \(9 × 4\)"):
        load(path)
    np.testing.assert_array_equal(load(path, variable="b").words, words + 1)
    save_file({"weights": np.eye(3)}, path, {"format": "bowsaw-classifier"})
    with pytest.raises(FormatError, match="it is a bowsaw-classifier, not a codebook"):
        load(path)


@pytest.mark.parametrize("end", COMPLETE)
def test_an_unknown_scale_can_be_given_once(files, book, tmp_path, end):
    path, bags = tmp_path / f"unknown{end}", Bags(np.ones((3, 16), np.uint8), scale=512)
    foreign = load(files[".yml"])
    with pytest.raises(MismatchError, match="scale 512, and the codebook's is unknown"):
        foreign.words_for(bags)
    # Bags of scale 1 are in the words' own units.
    np.testing.assert_array_equal(foreign.words_for(Bags(np.ones((3, 16)))), book.words)
    # Pruning and saving do not make it known.
    save(foreign.only([3, 2]), path)
    assert load(path).scale_is_unknown
    with pytest.raises(MismatchError, match="its file does not have one"):
        load(path).words_for(bags)
    known = load(path, scale=512)
    assert known == load(files[".yml"], scale=512).only([3, 2])
    np.testing.assert_array_equal(known.words_for(bags), book.words[[3, 2]])
    save(known, path)
    with pytest.raises(ParameterError, match="states it itself"):
        load(path, scale=1)
    for given in ({"variable": "words"}, {"layout": "rows"}, {"scale": 3.0}):
        with pytest.raises(ParameterError, match="is for files of other tools"):
            load(files[end], **given)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_a_pickle_is_refused_by_its_bytes_and_by_its_name(tmp_path):
    for protocol, name in ((2, "words"), (3, "words.safetensors"), (4, "w.mat"), (5, "w.npz")):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(), protocol))
        with pytest.raises(FormatError, match=r"can run any code.*from_sklearn\(joblib\.load\("):
            load(tmp_path / name)
    kmeans = KMeans(2, n_init=1, random_state=0).fit([[0.0], [1.0], [5.0]])
    for name in ("k.pkl", "k.pickle", "k.joblib", "k.SAV"):
        joblib.dump(kmeans, tmp_path / name, compress=("zlib", 3))
        with pytest.raises(FormatError, match="is a pickle"):
            load(tmp_path / name)
        with pytest.raises(ParameterError, match="would be a pickle"):
            save(Codebook([[1.0]]), tmp_path / name)
    joblib.dump(kmeans, tmp_path / "k.gz", compress=("gzip", 3))
    with pytest.raises(FormatError, match=r"compressed pickle.*from_sklearn"):
        load(tmp_path / "k.gz")


def test_missing_and_unknown_files_are_refused(tmp_path):
    for missing in (tmp_path / "no.npy", tmp_path, "no\0pe"):
        with pytest.raises(FormatError, match="Make a codebook with 'bowsaw train'"):
            load(missing)
    with pytest.raises(ParameterError, match=r"must end in one of \.safetensors, .*; got x\.txt"):
        save(Codebook([[1.0]]), "x.txt")
    for end in (*WRITERS, "", ".txt"):
        path = tmp_path / f"bad{end}"
        for content in (b"", b"something else", bytes(300), b"PK\x03\x04", gzip.compress(b"x")):
            path.write_bytes(content)
            with pytest.raises(FormatError, match=path.name) as caught:
                load(path)
            assert "\n" not in str(caught.value)


def test_the_remedy_of_a_reader_replaces_the_one_for_damage():
    again = "Write it again with the tool that it came from"
    damaged = b'%YAML:1.0\n---\n"a. b": 1\n"a. b": 2\n'
    with pytest.raises(FormatError, match=rf"two nodes called 'a\. b'\. {again}"):
        read(io.BytesIO(damaged), "x.yml")
    with pytest.raises(FormatError, match=r"it is HDF5, which is not read\. Save it") as caught:
        read(io.BytesIO(b"\x89HDF\r\n\x1a\n" + bytes(100)), "x.mat")
    assert again not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value.__cause__))
    assert str(copy) == str(caught.value.__cause__)


@pytest.mark.parametrize("end", [".yml", ".xml.gz", ".json"])
def test_a_tree_of_opencv_s_storage_is_refused(tmp_path, end):
    # The calls that DBoW2 and DBoW3 make.
    path = tmp_path / f"tree{end}"
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    file.startWriteStruct("vocabulary", cv2.FileNode_MAP)
    for name, value in (("k", 2), ("L", 1), ("scoringType", 0), ("weightingType", 0)):
        file.write(name, value)
    for name in ("nodes", "words"):
        file.startWriteStruct(name, cv2.FileNode_SEQ)
        file.startWriteStruct("", cv2.FileNode_MAP | cv2.FileNode_FLOW)
        for field, value in (("nodeId", 1), ("parentId", 0), ("descriptor", "12 255 3 0 ")):
            file.write(field, value)
        file.endWriteStruct()
        file.endWriteStruct()
    file.endWriteStruct()
    file.release()
    with pytest.raises(FormatError, match=r"tree of DBoW2 or DBoW3; .*'bowsaw train'.*Codebook"):
        load(path)


@pytest.mark.parametrize(
    ("name", "content", "library"),
    [
        ("orb.txt", b"10 6 0 0 \n0 0 252 188 188 242 169 0.5\n", "DBoW2"),
        ("orb", b"9 3 1 2\r\n0 0 252 188\r\n", "DBoW2"),
        ("orb.dbow3", struct.pack("<Q?I", 88877711233, False, 3) + bytes(99), "DBoW3"),
        ("orb.fbow", struct.pack("<Q", 55824124) + b"orb" + bytes(99), "FBoW"),
    ],
)
def test_a_tree_of_text_or_bytes_is_refused(name, content, library):
    with pytest.raises(FormatError, match=rf"{name} cannot .* tree of {library}; .*'bowsaw train'"):
        read(io.BytesIO(content), name)


def test_other_numbers_and_matrices_are_no_tree(tmp_path):
    for content in (b"10 6 0 0", b"10 6 0 0 1\n", b"30 6 0 0\n", b"10 6 9 0\n", b"1.5 6 0 0\n"):
        assert reader_of(io.BytesIO(content), "x") is None
    file = cv2.FileStorage(str(tmp_path / "both.yml"), cv2.FILE_STORAGE_WRITE)
    for name in ("scoringType", "weightingType", "nodes"):
        file.write(name, 1)
    file.write("vocabulary", np.eye(3))
    file.release()
    assert load(tmp_path / "both.yml").n_words == 3
