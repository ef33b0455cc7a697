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
from bowsaw.errors import ParameterError

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


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 3)])
def test_tiny_pictures_have_no_keypoints(shape):
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([np.zeros(shape, dtype=np.uint8)])
    assert bags.counts.tolist() == [0]


# -- the unit of distances ------------------------------------------------------------------------


def test_descriptors_of_sift_count_as_unit_norm():
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([GREY])
    norms = np.linalg.norm(bags.values, axis=1) / bags.scale
    np.testing.assert_allclose(norms, 1, atol=0.02)


# -- an estimator ---------------------------------------------------------------------------------


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
    with pytest.raises(ParameterError, match="norm must be a finite number above 0; got"):
        bs.OpenCvFeatures(cv2.SIFT_create(), norm=norm).transform([GREY])


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
