"""From pictures to bags: whatever the source, rows never slip."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import bowsaw as bs
from bowsaw.checkpoint import short_digest
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images.decode import read_image

RANDOM = np.random.default_rng(2)


def pictures(*shapes):
    return [RANDOM.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


def assert_same_bags(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.offsets, other.offsets)


@pytest.fixture
def folder(tmp_path):
    """Three pictures of different sizes and, between them, a file that is none."""
    for name, picture in zip("acd", pictures((40, 48), (32, 64), (56, 24)), strict=True):
        cv2.imwrite(str(tmp_path / f"{name}.png"), picture)
    (tmp_path / "b.png").write_bytes(b"hardly a picture")
    return tmp_path


def files(folder, names):
    return [str(folder / f"{name}.png") for name in names]


# -- sources --------------------------------------------------------------------------------------


def test_arrays():
    greys = pictures((40, 48), (16, 16), (300, 20))
    bags = bs.DenseSift().transform(greys)
    assert len(bags) == 3
    assert (bags.n_dims, bags.scale, bags.dtype) == (128, 512.0, np.uint8)
    for bag, grey in zip(bags, greys, strict=True):
        np.testing.assert_array_equal(bag, bs.DenseSift().describe(grey)[0])


def test_paths_and_arrays_give_the_same(folder):
    names = files(folder, "acd")
    arrays = [cv2.imread(name, cv2.IMREAD_GRAYSCALE) for name in names]
    expected = bs.DenseSift().transform(arrays)
    for sources in (names, [Path(name) for name in names], (name for name in names)):
        assert_same_bags(bs.DenseSift().transform(sources), expected)


def test_large_pictures_are_made_smaller():
    (grey,) = pictures((400, 640))
    bags = bs.DenseSift(max_side=160).transform([grey])
    smaller = read_image(grey, max_side=160).grey
    assert smaller.shape == (100, 160)
    np.testing.assert_array_equal(bags[0], bs.DenseSift().describe(smaller)[0])
    whole = bs.DenseSift(max_side=None).transform([grey])
    np.testing.assert_array_equal(whole[0], bs.DenseSift().describe(grey)[0])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_nothing_gives_no_bags(dtype):
    bags = bs.DenseSift(dtype=dtype).transform([])
    assert (len(bags), bags.n_dims, bags.dtype) == (0, 128, np.dtype(dtype))
    assert bags.digests.shape == (0,)


@pytest.mark.parametrize("single", ["photo.png", b"photo", Path("photo.png")])
def test_a_single_path_is_not_taken_for_many(single):
    with pytest.raises(DataError, match=r"photo.* a single file as \[path\]\.$"):
        bs.DenseSift().transform(single)


@pytest.mark.parametrize("n_jobs", [3])
def test_any_number_of_threads_gives_the_same(n_jobs):
    greys = pictures(*[(40, 40 + 3 * i) for i in range(20)])
    expected = bs.DenseSift(n_jobs=1).transform(greys)
    assert_same_bags(bs.DenseSift(n_jobs=n_jobs).transform(greys), expected)


# -- files that cannot be used --------------------------------------------------------------------


def test_a_bad_file_raises_and_is_named(folder):
    with pytest.raises(ImageError, match=r"b\.png: not an image") as caught:
        bs.DenseSift().transform(files(folder, "abcd"))
    assert caught.value.path.endswith("b.png")


def test_a_bad_file_may_give_an_empty_bag(folder):
    extractor = bs.DenseSift(on_error="empty", n_jobs=2)
    with pytest.warns(UserWarning, match=r"b\.png: not an image.* Its bag is empty\.") as warned:
        bags = extractor.transform(files(folder, "abcd"))
    assert [warning.filename for warning in warned] == [__file__]
    good = bs.DenseSift().transform(files(folder, "acd"))
    assert bags.counts.tolist() == [good.counts[0], 0, *good.counts[1:]]
    np.testing.assert_array_equal(bags.values, good.values)
    assert bags.digests.tolist() == [good.digests[0], 0, *good.digests[1:]]


def test_a_picture_smaller_than_a_patch():
    greys = pictures((16, 16), (40, 15))
    with pytest.raises(ImageError, match=r"too small: 15×40 pixels .* needs 16\.$"):
        bs.DenseSift().transform(greys)
    with pytest.warns(UserWarning, match="too small"):
        assert bs.DenseSift(on_error="empty").transform(greys).counts.tolist() == [1, 0]


def test_a_file_of_too_many_pixels(folder):
    with pytest.raises(ImageError, match=r"a\.png: 48×40 pixels, more than the limit of 1,919"):
        bs.DenseSift(max_pixels=48 * 40 - 1).transform(files(folder, "a"))


# -- what bags know -------------------------------------------------------------------------------


def test_digests_name_the_content(folder):
    names = files(folder, "aca")
    bags = bs.DenseSift().transform(names)
    assert bags.digests.dtype == np.uint64
    assert bags.digests.tolist() == [short_digest(Path(name).read_bytes()) for name in names]
    greys = pictures((20, 20), (20, 20))
    digests = bs.DenseSift().transform([*greys, greys[0]]).digests
    assert digests[0] == digests[2] != digests[1]


def test_the_description_defines_the_values():
    bags = bs.DenseSift(20, 5, max_side=200, min_contrast=0.5).transform(pictures((30, 30)))
    assert bags.description == {
        "name": "dense-sift",
        "version": 1,
        "patch": 20,
        "step": 5,
        "max_side": 200,
        "min_contrast": 0.5,
    }
    assert bs.DenseSift(max_side=None).description()["max_side"] is None


def test_the_description_does_not_tell_how_values_are_stored():
    greys = pictures((60, 60))
    stored = bs.DenseSift().transform(greys)
    book = bs.Codebook(stored[0][:5], scale=512.0, description=stored.description)
    exact = bs.DenseSift(dtype="float32").transform(greys)
    assert exact.description == stored.description
    histograms = [bs.BagOfWords(codebook=book).transform(bags) for bags in (stored, exact)]
    np.testing.assert_allclose(histograms[0], histograms[1], atol=0.1)


# -- an estimator ---------------------------------------------------------------------------------


def test_fitting_checks_and_learns_nothing():
    extractor = bs.DenseSift()
    before = dict(vars(extractor))
    assert extractor.fit(["never read"], [0]) is extractor
    assert vars(extractor) == before
    with pytest.raises(ParameterError, match="step"):
        bs.DenseSift(step=0).fit()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch": 0}, "patch must be an integer of at least 4; got 0"),
        ({"patch": 18}, "patch must be a multiple of 4 pixels; got 18. Use 16"),
        ({"step": 0}, "step must be an integer of at least 1; got 0"),
        ({"max_side": 0}, "max_side must be an integer of at least 1; got 0"),
        ({"max_pixels": 0}, "max_pixels must be an integer of at least 1; got 0"),
        ({"min_contrast": -1}, "min_contrast must be a finite number of at least 0; got -1"),
        ({"min_contrast": float("nan")}, "min_contrast must be a finite number"),
        ({"dtype": "float64"}, "dtype must be one of .*; got 'float64'"),
        ({"on_error": "ignore"}, "on_error must be one of .*; got 'ignore'"),
        ({"n_jobs": 0}, "n_jobs must be an integer other than 0"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    with pytest.raises(ParameterError, match=message):
        bs.DenseSift(**parameters).transform(pictures((20, 20)))


# -- in a pipeline --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some(scenes):
    """Twenty training and ten test pictures a class; paths and labels of both."""
    images = bs.ImageFolder(scenes)
    rank = np.arange(len(images.paths)) % 144
    train, test = np.flatnonzero(rank < 20), np.flatnonzero((rank >= 100) & (rank < 110))
    paths = np.array(images.paths)
    return paths[train], images.y[train], paths[test], images.y[test]


@pytest.fixture(scope="module")
def book(some):
    bags = bs.DenseSift().transform(some[0])
    return bs.KMeansCodebook(n_words=30, random_state=0).fit(bags).codebook_


def read(paths):
    return [cv2.imread(path, cv2.IMREAD_GRAYSCALE) for path in paths]


def test_a_pipeline_on_paths_and_on_arrays(some, book):
    train, y_train, test, y_test = some
    pipeline = make_pipeline(bs.DenseSift(), bs.BagOfWords(codebook=book), LinearSVC(C=10))
    on_paths = clone(pipeline).fit(train, y_train)
    assert on_paths.score(test, y_test) > 0.7
    on_arrays = clone(pipeline).fit(read(train), y_train)
    np.testing.assert_array_equal(on_paths.predict(test), on_arrays.predict(read(test)))


def test_a_pipeline_names_its_words_in_a_table(some, book):
    pipeline = make_pipeline(bs.DenseSift(), bs.BagOfWords(codebook=book))
    table = pipeline.set_output(transform="pandas").fit_transform(some[2])
    assert table.shape == (30, 30)
    assert list(table.columns) == list(pipeline.get_feature_names_out())
    assert table.columns[29] == "word0029"


def test_bags_stay_bags_whatever_scikit_learn_is_told():
    greys = pictures((20, 20))
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(bs.DenseSift().transform(greys), bs.Bags)
        assert isinstance(bs.DenseSift().fit_transform(greys), bs.Bags)
    assert isinstance(bs.DenseSift().set_output(transform="pandas").transform(greys), bs.Bags)
    assert bs.DenseSift().get_feature_names_out()[[0, 127]].tolist() == ["dim000", "dim127"]
