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
BOOK = Codebook(np.random.default_rng(1).normal(size=(40, 6)), np.arange(40)[::-1] * 3)


def dumped(thing, **options):
    return io.BytesIO(skops.io.dumps(thing, **options))


@pytest.mark.parametrize(
    ("kind", "compression"),
    [(KMeans, zipfile.ZIP_STORED), (MiniBatchKMeans, zipfile.ZIP_DEFLATED)],
)
def test_the_centres_become_the_words(kind, compression):
    kmeans = kind(5, n_init=1, random_state=0).fit(ROWS)
    book = from_sklearn(kmeans, scale=2)
    np.testing.assert_array_equal(book.words, kmeans.cluster_centers_.astype(np.float32))
    assert book.scale == 2
    assert from_sklearn(kmeans).scale_is_unknown
    assert book.provenance["read_from"]["format"] == f"scikit-learn {kind.__name__}"
    [centres] = read_skops(dumped(kmeans, compression=compression)).found.values()
    np.testing.assert_array_equal(centres, kmeans.cluster_centers_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predict_names_the_word_that_hard_coding_counts(dtype):
    rows = ROWS.astype(np.float32)
    kmeans = to_sklearn(BOOK, dtype=dtype)
    found = kmeans.predict(rows.astype(dtype))
    np.testing.assert_array_equal(found, nearest_words(Bags(rows), BOOK.words))
    assert from_sklearn(kmeans).words.tobytes() == BOOK.words.tobytes()
    # Equal words are kept.
    kmeans = to_sklearn(Codebook([[0.0], [0.0], [5.0]]), dtype=dtype)
    assert kmeans.cluster_centers_.tolist() == [[0], [0], [5]]
    assert kmeans.predict(np.array([[4]], dtype)).tolist() == [2]


def test_skops_reads_what_we_write(tmp_path, monkeypatch):
    path = tmp_path / "b.skops"
    write_skops(BOOK, path)
    kmeans = skops.io.load(path, trusted=[])
    np.testing.assert_array_equal(kmeans.predict(BOOK.words.astype(float)), np.arange(40))
    again = read_skops(io.BytesIO(path.read_bytes())).codebook("b")
    assert again.words.tobytes() == BOOK.words.tobytes()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ParameterError, match=r"pip install bowsaw\[skops\]"):
        write_skops(BOOK, path)


def test_other_objects_are_refused():
    with pytest.raises(ParameterError, match="float64 or float32; got 'int8'"):
        to_sklearn(BOOK, dtype="int8")
    # The predict of BisectingKMeans descends a tree and does not always end at the nearest centre.
    bisecting = BisectingKMeans(3, random_state=0).fit(ROWS)
    pipeline = make_pipeline(StandardScaler(), KMeans(3))
    for thing, in_memory, in_file in (
        (KMeans(3), "the KMeans is not fitted", "it is not fitted"),
        (bisecting, "got BisectingKMeans", "BisectingKMeans"),
        (pipeline, "got Pipeline", "Pipeline; KMeans and MiniBatchKMeans"),
        ([1, 2], "got list", "not that of an estimator|list"),
    ):
        with pytest.raises(ParameterError, match=in_memory):
            from_sklearn(thing)
        with pytest.raises(FormatError, match=in_file):
            read_skops(dumped(thing))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b"[" * 100_000, "not that of an estimator"),
        (b"null", "not that of an estimator"),
        (b"{", "not that of an estimator"),
        (b"\xff\xfe", "not that of an estimator"),
        (b'{"__class__": ["a"], "__module__": 1, "content": {"content": {}}}', "it holds a 1"),
        (b" " * 17_000_000, "more than"),
        ({"file": "../words.npy"}, "not a NumPy array"),
        ({"file": "schema.json"}, "member schema.json is damaged"),
        ({"file": None}, "not a NumPy array"),
        ({"type": "scipy"}, "not a NumPy array"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_schemas_and_centres_elsewhere_are_refused(change, message):
    with zipfile.ZipFile(dumped(to_sklearn(BOOK))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if isinstance(change, dict):
        schema = json.loads(members["schema.json"])
        schema["content"]["content"]["cluster_centers_"] |= change
        change = json.dumps(schema)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (members | {"schema.json": change}).items():
            archive.writestr(name, data)
    with pytest.raises(FormatError, match=message):
        read_skops(file)
