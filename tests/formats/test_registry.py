"""The front door of formats: the bytes choose a reader, the name a writer, and nothing is lost
without a word."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil

import joblib
import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.cluster import KMeans

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, MismatchError, ParameterError
from bowsaw.formats.registry import COMPLETE, WRITERS, load, lost_in, read, reader_of, save

ENDS = list(WRITERS)


@pytest.fixture(scope="module")
def book():
    random = np.random.default_rng(0)
    return Codebook(
        random.normal(size=(20, 16)) * 10.0 ** random.integers(-9, 9, (20, 16)),
        random.permutation(50)[:20],
        scale=512,
        description={"name": "dense-sift"},
        provenance={"seed": 0},
        trained_on=[3, 2**64 - 1],
    )


@pytest.fixture(scope="module")
def files(book, tmp_path_factory):
    """The same words in each format."""
    folder = tmp_path_factory.mktemp("vocabularies")
    found = {end: folder / f"book{end}" for end in ENDS}
    for path in found.values():
        save(book, path)
    return found


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ENDS)
def test_words_come_back_to_the_bit(book, files, end):
    again = load(files[end])
    assert again.words.tobytes() == book.words.tobytes()
    assert (again == book) == (end in COMPLETE)
    if end not in COMPLETE:
        assert again.ids.tolist() == list(range(20))
        assert (again.description, again.trained_on) == (None, None)
        assert again.scale_is_unknown
        assert load(files[end], scale=512).scale == 512
        assert not load(files[end], scale=512).scale_is_unknown


@pytest.mark.parametrize("end", ENDS)
def test_what_is_lost_is_known_before(book, end):
    everything = ["ids", "scale", "description", "provenance", "trained_on"]
    assert lost_in(book, f"x{end}") == ([] if end in COMPLETE else everything)
    assert lost_in(Codebook([[1.0]]), f"x{end}") == []


@pytest.mark.parametrize("end", ENDS)
def test_the_bytes_decide_and_not_the_name(book, files, end, tmp_path):
    for name in ("plain", "other.yml", "other.npz", "other.safetensors"):
        path = tmp_path / name
        shutil.copy(files[end], path)
        assert load(path).words.tobytes() == book.words.tobytes()


def test_names_count_without_capitals(book, tmp_path):
    for name in ("b.NPY", "b.Yml.GZ", "a.b.xml.gz"):
        save(book, tmp_path / name)
        assert load(tmp_path / name).n_words == 20


def test_a_name_decides_where_bytes_say_nothing():
    old = np.array([0, 2, 2, 0, 2], "<i4").tobytes() + b"w\0" + np.eye(2).tobytes()
    assert read(io.BytesIO(old), "old.mat", layout="rows").words.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(FormatError, match=r"vocabulary of a known format\. Known are \.safe"):
        read(io.BytesIO(old), "old")
    assert reader_of(io.BytesIO(old), "old") is None


# -- foreign safetensors ---------------------------------------------------------------------------


def test_the_matrix_of_a_foreign_safetensors_file_is_read(tmp_path):
    path = tmp_path / "x.safetensors"
    words = np.random.default_rng(0).normal(size=(9, 4))
    save_file({"centroids": words, "counts": np.arange(9)}, path)
    again = load(path)
    np.testing.assert_array_equal(again.words, words.astype(np.float32))
    assert again.provenance["read_from"]["variable"] == "centroids"
    save_file({"a": words, "b": words + 1}, path)
    with pytest.raises(ParameterError, match=r"a \(9 × 4\), b \(9 × 4\)"):
        load(path)
    assert load(path, variable="b").words[0, 0] == np.float32(words[0, 0] + 1)


def test_other_files_of_ours_are_not_words(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"weights": np.eye(3)}, path, {"format": "bowsaw-classifier"})
    with pytest.raises(FormatError, match="it is a bowsaw-classifier, not a codebook"):
        load(path)


# -- refusals --------------------------------------------------------------------------------------


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["words", "words.safetensors", "words.mat", "words.npz"])
def test_a_pickle_is_refused_by_its_bytes(tmp_path, protocol, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(Trap(), protocol))
    with pytest.raises(FormatError, match=r"can run any code.*from_sklearn\(joblib\.load\("):
        load(path)


def test_a_pickle_is_refused_by_its_name(tmp_path):
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


def test_what_is_not_there_and_what_is_unknown_is_told(tmp_path):
    for missing in (tmp_path / "no.npy", tmp_path, "no\0pe"):
        with pytest.raises(FormatError, match="is not a file"):
            load(missing)
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(FormatError, match=r"notes\.txt is not a vocabulary of a known format"):
        load(tmp_path / "notes.txt")
    with pytest.raises(ParameterError, match=r"must end in one of \.safetensors, .*; got x\.txt"):
        save(Codebook([[1.0]]), "x.txt")


def test_a_remedy_of_the_reader_s_own_comes_instead_of_the_one_for_damage():
    anew = "Write it again with the tool that it came from"
    damaged = b'%YAML:1.0\n---\n"a. b": 1\n"a. b": 2\n'
    with pytest.raises(FormatError, match=rf"two nodes called 'a\. b'\. {anew}"):
        read(io.BytesIO(damaged), "x.yml")
    hdf5 = b"\x89HDF\r\n\x1a\n" + bytes(100)
    with pytest.raises(FormatError, match=r"it is HDF5, which is not read\. Save it") as told:
        read(io.BytesIO(hdf5), "x.mat")
    assert anew not in str(told.value)
    again = pickle.loads(pickle.dumps(told.value.__cause__))
    assert str(again) == str(told.value.__cause__)


@pytest.mark.parametrize("end", [*ENDS, ""])
def test_empty_and_foreign_content_is_told_with_the_name(tmp_path, end):
    path = tmp_path / f"bad{end}"
    for content in (b"", b"\0", b"something else", bytes(300), b"PK\x03\x04", gzip.compress(b"x")):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="bad") as told:
            load(path)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("end", ENDS)
def test_damage_of_any_kind_is_told(files, end):
    whole = files[end].read_bytes()
    random = np.random.default_rng(1)
    for _ in range(60):
        a, b = sorted(random.integers(0, len(whole), 2))
        filling = random.integers(0, 256, random.integers(0, 40)).astype(np.uint8).tobytes()
        damaged = [whole[:a] + whole[b:], whole[:a] + filling + whole[b:], whole[:b] + whole[a:]]
        try:
            found = read(io.BytesIO(damaged[random.integers(3)]), f"x{end}")
        except (FormatError, ParameterError):
            continue
        assert isinstance(found, Codebook)


@pytest.mark.parametrize("end", COMPLETE)
def test_a_unit_that_was_not_told_can_be_told_later(files, tmp_path, end):
    save(load(files[".yml"]), tmp_path / f"unknown{end}")
    unknown = load(tmp_path / f"unknown{end}")
    assert unknown.scale_is_unknown
    told = load(tmp_path / f"unknown{end}", scale=512)
    assert told == load(files[".yml"], scale=512)
    # Once it is told, it stays.
    save(told, tmp_path / f"told{end}")
    with pytest.raises(ParameterError, match="states it itself"):
        load(tmp_path / f"told{end}", scale=1)


def test_our_own_files_need_no_telling(files):
    for end in COMPLETE:
        for given in ({"variable": "words"}, {"layout": "rows"}, {"scale": 3.0}):
            with pytest.raises(ParameterError, match="is for files of other tools"):
                load(files[end], **given)


# -- an unknown unit -------------------------------------------------------------------------------


def test_an_unknown_scale_meets_a_known_one_only_when_told(files, book, tmp_path):
    bags = Bags(np.ones((3, 16), np.uint8), scale=512)
    foreign = load(files[".npy"])
    with pytest.raises(MismatchError, match="scale 512, and the codebook's is unknown"):
        foreign.words_for(bags)
    # Pruning and saving do not make it known.
    save(foreign.only([3, 2]), tmp_path / "small.safetensors")
    with pytest.raises(MismatchError, match="its file does not have one"):
        load(tmp_path / "small.safetensors").words_for(bags)
    np.testing.assert_array_equal(load(files[".npy"], scale=512).words_for(bags), book.words)
    # Bags of scale 1 are what is at hand, in the words' own units.
    np.testing.assert_array_equal(foreign.words_for(Bags(np.ones((3, 16)))), book.words)
