"""Any float feature of OpenCV gives what it gives, in an order that is always the same."""

import json

import cv2
import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError

GREY = cv2.GaussianBlur(
    np.random.default_rng(4).integers(0, 256, (120, 160), dtype=np.uint8), (0, 0), 1.5
)


def test_sift_is_opencvs_sorted_by_position():
    keypoints, values = cv2.SIFT_create().detectAndCompute(GREY, None)
    ours, positions = bs.OpenCvFeatures(cv2.SIFT_create()).describe(GREY)
    assert len(ours) == len(keypoints) > 20
    assert ours.dtype == positions.dtype == np.float32
    assert (np.diff(positions[:, 1]) >= 0).all()
    table = np.array([(*k.pt, k.size) for k in keypoints], dtype=np.float32)
    found, expected = np.hstack([positions, ours]), np.hstack([table, values])
    np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([GREY])
    norms = np.linalg.norm(bags.values, axis=1) / bags.scale
    np.testing.assert_allclose(norms, 1, atol=0.02)


class Shuffled:
    """SIFT whose keypoints come in a new order each time, as threads may bring them."""

    random = np.random.default_rng(0)

    def detectAndCompute(self, image, mask):  # noqa: N802
        keypoints, values = cv2.SIFT_create().detectAndCompute(image, mask)
        order = self.random.permutation(len(keypoints))
        return [keypoints[i] for i in order], values[order]


def test_the_order_of_keypoints_does_not_matter():
    plain, shuffled = bs.OpenCvFeatures(cv2.SIFT_create()), bs.OpenCvFeatures(Shuffled())
    for one, other in zip(plain.describe(GREY), shuffled.describe(GREY), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 3)])
def test_tiny_images_have_no_keypoints(shape):
    bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([np.zeros(shape, dtype=np.uint8)])
    assert bags.counts.tolist() == [0]


def test_the_description_has_what_defines_the_values():
    described = bs.OpenCvFeatures(cv2.SIFT_create(contrastThreshold=0.1)).description()
    assert json.loads(json.dumps(described)) == described
    assert (described["name"], described["feature"]) == ("opencv", "SIFT")
    assert described["parameters"]["ContrastThreshold"] == 0.1
    assert described["max_side"] == 300
    assert described != bs.OpenCvFeatures(cv2.SIFT_create()).description()
    assert described == bs.OpenCvFeatures(cv2.SIFT_create(contrastThreshold=0.1)).description()


@pytest.mark.parametrize(
    ("feature", "norm", "message"),
    [
        (cv2.ORB_create(), 512, "ORB has binary descriptors"),
        (cv2.FastFeatureDetector_create(), 512, "FastFeatureDetector finds keypoints but does not"),
        ("SIFT", 512, r"feature must be a cv2.Feature2D such as cv2.SIFT_create\(\); got str"),
        (cv2.SIFT_create, 512, "feature must be a cv2.Feature2D"),
        (cv2.SIFT_create(), 0, "norm must be a finite number above 0; got"),
        (cv2.SIFT_create(), "512", "norm must be a finite number above 0; got"),
    ],
)
def test_parameters_that_cannot_be_used(feature, norm, message):
    extractor = bs.OpenCvFeatures(feature, norm=norm)
    for use in (extractor.fit, lambda: extractor.transform([GREY])):
        with pytest.raises(ParameterError, match=message):
            use()
