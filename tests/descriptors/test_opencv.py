"""Any float feature of OpenCV gives what it gives, in an order that is always the same."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import bowsaw as bs
from bowsaw.errors import ImageError, ParameterError

GREY = cv2.GaussianBlur(
    np.random.default_rng(4).integers(0, 256, (120, 160), dtype=np.uint8), (0, 0), 1.5
)
FLAT = np.full((60, 60), 90, dtype=np.uint8)


def sorted_rows(array):
    return array[np.lexsort(array.T)]


def test_sift_is_opencv_s_up_to_order():
    keypoints, values = cv2.SIFT_create().detectAndCompute(GREY, None)
    ours, positions = bs.OpenCvFeatures(cv2.SIFT_create()).describe(GREY)
    assert len(ours) == len(keypoints) > 20
    assert ours.dtype == positions.dtype == np.float32
    table = np.array([(*k.pt, k.size) for k in keypoints], dtype=np.float32)
    np.testing.assert_array_equal(
        sorted_rows(np.hstack([positions, ours])), sorted_rows(np.hstack([table, values]))
    )


def test_rows_and_positions_belong_together():
    feature = cv2.SIFT_create()
    ours, positions = bs.OpenCvFeatures(feature).describe(GREY)
    assert (np.diff(positions[:, 1]) >= 0).all()
    keypoints, values = feature.detectAndCompute(GREY, None)
    for keypoint, value in zip(keypoints, values, strict=True):
        here = np.float32((*keypoint.pt, keypoint.size)) == positions
        assert (ours[here.all(axis=1)] == value).all(axis=1).any()


class Shuffled:
    """SIFT whose keypoints come in a new order each time, as threads may bring them."""

    def __init__(self):
        self.sift = cv2.SIFT_create()
        self.random = np.random.default_rng(0)

    def detectAndCompute(self, image, mask):  # noqa: N802
        keypoints, values = self.sift.detectAndCompute(image, mask)
        order = self.random.permutation(len(keypoints))
        return [keypoints[i] for i in order], values[order]


def test_the_order_does_not_depend_on_opencv():
    extractor = bs.OpenCvFeatures(Shuffled())
    first, first_positions = extractor.describe(GREY)
    again, again_positions = extractor.describe(GREY)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first_positions, again_positions)
    np.testing.assert_array_equal(first, bs.OpenCvFeatures(cv2.SIFT_create()).describe(GREY)[0])


def test_transform_makes_bags():
    extractor = bs.OpenCvFeatures(cv2.SIFT_create())
    bags = extractor.transform([GREY, FLAT, GREY])
    assert (bags.n_dims, bags.scale, bags.dtype) == (128, 512.0, np.float32)
    # Nothing to see on a flat wall: an empty bag, and no row slips.
    assert bags.counts[1] == 0
    np.testing.assert_array_equal(bags[0], bags[2])
    np.testing.assert_array_equal(bags[0], extractor.describe(GREY)[0])
    assert bags.description == extractor.description()
    assert bags.digests[0] == bags.digests[2] != bags.digests[1]


def test_no_keypoints_anywhere():
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([FLAT])
    assert (len(bags), bags.n_descriptors, bags.n_dims) == (1, 0, 128)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 3)])
def test_tiny_pictures_have_no_keypoints(shape):
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([np.zeros(shape, dtype=np.uint8)])
    assert bags.counts.tolist() == [0]


def test_threads_change_nothing():
    greys = [GREY[i:, i:] for i in range(0, 24, 4)]
    one = bs.OpenCvFeatures(cv2.SIFT_create(), n_jobs=1).transform(greys)
    two = bs.OpenCvFeatures(cv2.SIFT_create(), n_jobs=2).transform(greys)
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.offsets, two.offsets)


def test_a_bad_file(tmp_path):
    (tmp_path / "note.png").write_text("no picture")
    sources = [GREY, tmp_path / "note.png"]
    with pytest.raises(ImageError, match=r"note\.png"):
        bs.OpenCvFeatures(cv2.SIFT_create()).transform(sources)
    with pytest.warns(UserWarning, match=r"note\.png.* Its bag is empty\."):
        bags = bs.OpenCvFeatures(cv2.SIFT_create(), on_error="empty").transform(sources)
    assert bags.counts[1] == 0 < bags.counts[0]


# -- the unit of distances ------------------------------------------------------------------------


def test_descriptors_of_sift_count_as_unit_norm():
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([GREY])
    norms = np.linalg.norm(bags.values, axis=1) / bags.scale
    np.testing.assert_allclose(norms, 1, atol=0.02)


def test_the_norm_may_be_told():
    bags = bs.OpenCvFeatures(cv2.SIFT_create(), norm=100).transform([GREY])
    assert bags.scale == 100.0
    # Another feature is taken as of unit norm until told otherwise.
    assert bs.OpenCvFeatures(cv2.AffineFeature_create(cv2.SIFT_create())).scale == 1.0


# -- an estimator ---------------------------------------------------------------------------------


def test_parameters_survive_cloning():
    feature = cv2.SIFT_create()
    extractor = bs.OpenCvFeatures(feature, norm=None, max_side=200, n_jobs=2)
    params = extractor.get_params()
    assert params == {
        "feature": feature,
        "norm": None,
        "max_side": 200,
        "max_pixels": 100_000_000,
        "on_error": "raise",
        "n_jobs": 2,
        "verbose": False,
    }
    copy = clone(extractor)
    assert copy is not extractor
    assert copy.get_params() == params
    assert copy.feature is feature
    assert copy.set_params(norm=2.0).scale == 2.0
    assert extractor.scale == 512.0
    assert copy.set_params(norm=None).scale == 512.0


def test_the_description_tells_what_defines_the_values():
    described = bs.OpenCvFeatures(cv2.SIFT_create(contrastThreshold=0.1)).description()
    assert json.loads(json.dumps(described)) == described
    assert described["name"] == "opencv"
    assert described["feature"] == "SIFT"
    assert described["parameters"]["ContrastThreshold"] == 0.1
    assert described["max_side"] == 300
    assert described != bs.OpenCvFeatures(cv2.SIFT_create()).description()
    assert described == bs.OpenCvFeatures(cv2.SIFT_create(contrastThreshold=0.1)).description()


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (cv2.ORB_create(), "ORB has binary descriptors"),
        (cv2.FastFeatureDetector_create(), "FastFeatureDetector finds keypoints but does not"),
        ("SIFT", r"feature must be a cv2.Feature2D such as cv2.SIFT_create\(\); got str"),
        (None, "feature must be a cv2.Feature2D"),
        (cv2.SIFT_create, "feature must be a cv2.Feature2D"),
    ],
)
def test_features_that_cannot_be_used(feature, message):
    with pytest.raises(ParameterError, match=message):
        bs.OpenCvFeatures(feature).fit()
    with pytest.raises(ParameterError, match=message):
        bs.OpenCvFeatures(feature).transform([GREY])


@pytest.mark.parametrize("norm", [0, -1.0, float("nan"), float("inf"), "512"])
def test_norms_that_are_none(norm):
    with pytest.raises(ParameterError, match="norm must be a finite number above 0, or None; got"):
        bs.OpenCvFeatures(cv2.SIFT_create(), norm=norm).transform([GREY])


def test_bytes_of_sift_are_taken_as_numbers():
    """SIFT can store bytes; they are no binary code, and their distance is Euclidean."""
    feature = cv2.SIFT_create(
        nfeatures=0,
        nOctaveLayers=3,
        contrastThreshold=0.04,
        edgeThreshold=10,
        sigma=1.6,
        descriptorType=cv2.CV_8U,
    )
    bags = bs.OpenCvFeatures(feature).transform([GREY])
    assert bags.dtype == np.float32
    np.testing.assert_allclose(
        bags.values, bs.OpenCvFeatures(cv2.SIFT_create()).transform([GREY]).values, atol=1
    )


def test_in_a_pipeline():
    # Two classes that SIFT tells apart at a glance: fine and coarse blobs.
    random = np.random.default_rng(0)
    blurred = [
        cv2.GaussianBlur(random.integers(0, 256, (60, 60), dtype=np.uint8), (0, 0), sigma)
        for sigma in [1.0, 3.0] * 10
    ]
    greys = [cv2.normalize(grey, None, 0, 255, cv2.NORM_MINMAX) for grey in blurred]
    y = np.array([0, 1] * 10)
    pipeline = make_pipeline(
        bs.OpenCvFeatures(cv2.SIFT_create()),
        bs.BagOfWords(codebook=bs.KMeansCodebook(n_words=10, random_state=0)),
        LinearSVC(C=10),
    )
    assert clone(pipeline).fit(greys[:10], y[:10]).score(greys[10:], y[10:]) > 0.7
