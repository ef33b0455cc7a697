"""From images to bags, whatever the source."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import sklearn

import bowsaw as bs
from bowsaw.checkpoint import short_digest
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images.decode import read_image

RANDOM = np.random.default_rng(2)


def images(*shapes):
    return [RANDOM.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


def assert_same_bags(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.offsets, other.offsets)


@pytest.fixture
def folder(tmp_path):
    """Three images of different sizes and, between them, a file that is none."""
    for name, image in zip("acd", images((40, 48), (32, 64), (56, 24)), strict=True):
        cv2.imwrite(str(tmp_path / f"{name}.png"), image)
    (tmp_path / "b.png").write_bytes(b"hardly an image")
    return tmp_path


def files(folder, names):
    return [str(folder / f"{name}.png") for name in names]


def test_paths_and_arrays_give_the_same(folder):
    names = files(folder, "acd")
    greys = [cv2.imread(name, cv2.IMREAD_GRAYSCALE) for name in names]
    bags = bs.DenseSift().transform(greys)
    assert (len(bags), bags.n_dims, bags.scale, bags.dtype) == (3, 128, 512.0, np.uint8)
    for bag, grey in zip(bags, greys, strict=True):
        np.testing.assert_array_equal(bag, bs.DenseSift().describe(grey)[0])
    for sources in (names, [Path(name) for name in names], (name for name in names)):
        assert_same_bags(bs.DenseSift().transform(sources), bags)
    for single in ("photo.png", b"photo", Path("photo.png")):
        with pytest.raises(DataError, match=r"photo.* a single file as \[path\]\.$"):
            bs.DenseSift().transform(single)


def test_large_images_are_made_smaller():
    (grey,) = images((400, 640))
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


def test_any_number_of_threads_gives_the_same():
    greys = images(*[(40, 40 + 3 * i) for i in range(20)])
    one = bs.DenseSift(n_jobs=1).transform(greys)
    assert_same_bags(bs.DenseSift(n_jobs=3).transform(greys), one)
    with pytest.raises(ParameterError, match="n_jobs must be an integer other than 0"):
        bs.DenseSift(n_jobs=0).transform(greys)


def test_a_bad_file_raises_and_is_named(folder):
    with pytest.raises(ImageError, match=r"b\.png: not an image") as caught:
        bs.DenseSift().transform(files(folder, "abcd"))
    assert caught.value.path.endswith("b.png")
    with pytest.raises(ImageError, match=r"a\.png: 48×40 pixels, more than the limit of 1,919"):
        bs.DenseSift(max_pixels=48 * 40 - 1).transform(files(folder, "a"))


def test_a_bad_file_may_give_an_empty_bag(folder):
    extractor = bs.DenseSift(on_error="empty", n_jobs=2)
    with pytest.warns(UserWarning, match=r"b\.png: not an image.* Its bag is empty\.") as warned:
        bags = extractor.transform(files(folder, "abcd"))
    assert [warning.filename for warning in warned] == [__file__]
    good = bs.DenseSift().transform(files(folder, "acd"))
    assert bags.counts.tolist() == [good.counts[0], 0, *good.counts[1:]]
    np.testing.assert_array_equal(bags.values, good.values)
    assert bags.digests.tolist() == [good.digests[0], 0, *good.digests[1:]]


def test_an_image_smaller_than_a_patch():
    greys = images((16, 16), (40, 15))
    with pytest.raises(ImageError, match=r"too small: 15×40 pixels .* needs 16\.$"):
        bs.DenseSift().transform(greys)
    with pytest.warns(UserWarning, match="too small"):
        assert bs.DenseSift(on_error="empty").transform(greys).counts.tolist() == [1, 0]


def test_digests_name_the_content(folder):
    names = files(folder, "aca")
    bags = bs.DenseSift().transform(names)
    assert bags.digests.dtype == np.uint64
    assert bags.digests.tolist() == [short_digest(Path(name).read_bytes()) for name in names]
    greys = images((20, 20), (20, 20))
    digests = bs.DenseSift().transform([*greys, greys[0]]).digests
    assert digests[0] == digests[2] != digests[1]


def test_the_description_defines_the_values_and_not_how_they_are_stored():
    extractor = bs.DenseSift(20, 5, max_side=200, min_contrast=0.5)
    expected = {"name": "dense-sift", "version": 1, "patch": 20, "step": 5}
    assert extractor.description() == expected | {"max_side": 200, "min_contrast": 0.5}
    assert bs.DenseSift(max_side=None).description()["max_side"] is None
    greys = images((60, 60))
    stored, exact = (bs.DenseSift(dtype=d).transform(greys) for d in ("uint8", "float32"))
    assert exact.description == stored.description == bs.DenseSift().description()
    book = bs.Codebook(stored[0][:5], scale=512.0, description=stored.description)
    histograms = [bs.BagOfWords(codebook=book).transform(bags) for bags in (stored, exact)]
    np.testing.assert_allclose(histograms[0], histograms[1], atol=0.1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch": 0}, "patch must be an integer of at least 4; got 0"),
        ({"patch": 18}, "patch must be a multiple of 4 pixels; got 18. Use 16"),
        ({"step": 0}, "step must be an integer of at least 1; got 0"),
        ({"max_side": 0}, "max_side must be an integer of at least 1; got 0"),
        ({"max_pixels": 0}, "max_pixels must be an integer of at least 1; got 0"),
        ({"min_contrast": -1}, "min_contrast must be a finite number of at least 0; got -1"),
        ({"dtype": "float64"}, "dtype must be one of .*; got 'float64'"),
        ({"on_error": "ignore"}, "on_error must be one of .*; got 'ignore'"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    extractor = bs.DenseSift(**parameters)
    before = dict(vars(extractor))
    for use in (extractor.fit, lambda: extractor.transform(images((20, 20)))):
        with pytest.raises(ParameterError, match=message):
            use()
    assert vars(extractor) == before


def test_bags_stay_bags_with_any_output_of_scikit_learn():
    greys = images((20, 20))
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(bs.DenseSift().transform(greys), bs.Bags)
        assert isinstance(bs.DenseSift().fit_transform(greys), bs.Bags)
    assert isinstance(bs.DenseSift().set_output(transform="pandas").transform(greys), bs.Bags)
    assert bs.DenseSift().get_feature_names_out()[[0, 127]].tolist() == ["dim000", "dim127"]
