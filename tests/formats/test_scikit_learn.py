from __future__ import annotations

import io
import json
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.scikit_learn import from_sklearn, read_skops, to_sklearn, write_skops
from bowsaw.nearest.search import nearest_words

ROWS = np.random.default_rng(0).normal(size=(300, 6))


def fitted(kind=KMeans, rows=ROWS, **options):
    return kind(5, n_init=1, random_state=0, **options).fit(rows)


# -- objects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_the_centres_become_the_words(kind):
    kmeans = fitted(kind)
    book = from_sklearn(kmeans, scale=2)
    np.testing.assert_array_equal(book.words, kmeans.cluster_centers_.astype(np.float32))
    assert book.scale == 2
    assert from_sklearn(kmeans).scale_is_unknown
    assert book.provenance["read_from"]["format"] == f"scikit-learn {kind.__name__}"


def test_what_is_no_fitted_kmeans_is_refused():
    with pytest.raises(ParameterError, match="the KMeans is not fitted"):
        from_sklearn(KMeans(3))
    # Its predict descends a tree and does not always end at the nearest centre.
    with pytest.raises(ParameterError, match="got BisectingKMeans"):
        from_sklearn(BisectingKMeans(3, random_state=0).fit(ROWS))
    with pytest.raises(ParameterError, match="got ndarray"):
        from_sklearn(ROWS)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predict_names_the_word_that_hard_coding_counts(dtype):
    book = Codebook(np.random.default_rng(1).normal(size=(40, 6)), np.arange(40)[::-1] * 3)
    rows = ROWS.astype(np.float32)
    kmeans = to_sklearn(book, dtype=dtype)
    found = kmeans.predict(rows.astype(dtype))
    np.testing.assert_array_equal(found, nearest_words(Bags(rows), book.words))
    assert from_sklearn(kmeans).words.tobytes() == book.words.tobytes()


def test_equal_words_are_kept_and_another_dtype_is_refused():
    kmeans = to_sklearn(Codebook([[0.0], [0.0], [5.0]]))
    assert kmeans.cluster_centers_.tolist() == [[0], [0], [5]]
    assert kmeans.predict([[4.0]]).tolist() == [2]
    with pytest.raises(ParameterError, match="float64 or float32; got 'int8'"):
        to_sklearn(Codebook([[0.0]]), dtype="int8")


# -- skops files -----------------------------------------------------------------------------------


def dumped(thing, compression=zipfile.ZIP_STORED):
    return io.BytesIO(skops.io.dumps(thing, compression=compression))


@pytest.mark.parametrize(
    ("kind", "compression"),
    [(KMeans, zipfile.ZIP_STORED), (MiniBatchKMeans, zipfile.ZIP_DEFLATED)],
)
def test_files_of_skops_are_read(kind, compression):
    kmeans = fitted(kind)
    [centres] = read_skops(dumped(kmeans, compression)).found.values()
    np.testing.assert_array_equal(centres, kmeans.cluster_centers_)


def test_skops_reads_what_we_write(tmp_path):
    book = Codebook(np.random.default_rng(1).normal(size=(40, 6)))
    write_skops(book, tmp_path / "b.skops")
    kmeans = skops.io.load(tmp_path / "b.skops", trusted=[])
    np.testing.assert_array_equal(kmeans.predict(book.words.astype(float)), np.arange(40))
    with (tmp_path / "b.skops").open("rb") as file:
        assert read_skops(file).codebook("b").words.tobytes() == book.words.tobytes()


def test_other_objects_are_refused():
    for thing, message in (
        (make_pipeline(StandardScaler(), KMeans(3)), "Pipeline; KMeans and MiniBatchKMeans"),
        (KMeans(3), "it is not fitted"),
        (BisectingKMeans(3), "BisectingKMeans"),
        ([1, 2], "not that of an estimator|list"),
    ):
        with pytest.raises(FormatError, match=message):
            read_skops(dumped(thing))


def changed(change):
    """A skops file of a KMeans after ``change`` of its members."""
    with zipfile.ZipFile(dumped(fitted())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    change(members, schema, schema["content"]["content"])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {"schema.json": json.dumps(schema), **members}.items():
            archive.writestr(name, data)
    return file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "not that of an estimator"),
        (b"null", "not that of an estimator"),
        (b"{", "not that of an estimator"),
        (b"\xff\xfe", "not that of an estimator"),
        (b'{"__class__": ["a"], "__module__": 1, "content": {"content": {}}}', "it holds a 1"),
        (b" " * 17_000_000, "more than"),
    ],
)
def test_other_schemas_are_refused(content, message):
    def replace(members, *_):
        members["schema.json"] = content

    with pytest.raises(FormatError, match=message):
        read_skops(changed(replace))


@pytest.mark.parametrize(
    "change", [{"file": "../words.npy"}, {"file": "schema.json"}, {"file": None}, {"type": "scipy"}]
)
def test_centres_that_are_elsewhere_are_refused(change):
    def point(members, schema, parts):
        del members["schema.json"]
        parts["cluster_centers_"] |= change

    with pytest.raises(FormatError):
        read_skops(changed(point))


def test_without_skops_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ParameterError, match=r"pip install bowsaw\[skops\]"):
        write_skops(Codebook([[1.0]]), tmp_path / "b.skops")
