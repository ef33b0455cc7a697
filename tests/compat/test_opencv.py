"""The classes that OpenCV 5 dropped, compared with what OpenCV 4 made of the same inputs."""

import pickle

import cv2
import numpy as np
import pytest
from tests.compat import make_opencv4_figures as asked

import bowsaw as bs
from bowsaw.compat import opencv
from bowsaw.compat.opencv import BOWImgDescriptorExtractor, BOWKMeansTrainer, to_codebook
from bowsaw.errors import BowsawError, DataError, ParameterError

with np.load(asked.FIGURES, allow_pickle=False) as _file:
    FIGURES = dict(_file)


class Recorded:
    """Describes keypoints with what OpenCV 4 found there, whatever this machine's SIFT does."""

    def __init__(self, descriptors):
        self.compute = lambda image, keypoints: (keypoints, descriptors[: len(keypoints)])


def each_histogram(name):
    for key, histogram in FIGURES.items():
        if key.startswith(f"{name} ") and " of " in key:
            yield int(key.split()[-3]), int(key.split()[-1]), histogram


@pytest.mark.parametrize("name", asked.WORDS)
def test_the_words_are_those_of_opencv_4_to_the_bit(name):
    source, seed, arguments = asked.WORDS[name]
    rows = asked.rows_of(FIGURES, source)
    words = asked.words_of(BOWKMeansTrainer, rows, seed, arguments)
    np.testing.assert_array_equal(words, FIGURES[f"{name} words"], strict=True)


@pytest.mark.parametrize("name", asked.MATCHERS)
def test_the_histograms_are_those_of_opencv_4_to_the_bit(name):
    kind, make_matcher = asked.MATCHERS[name]
    dtype = np.uint8 if kind == "orb" else np.float32
    assert len(list(each_histogram(name))) == 12
    for i, n, expected in each_histogram(name):
        feature = Recorded(FIGURES[f"{kind} {i} descriptors"].astype(dtype))
        extractor = BOWImgDescriptorExtractor(feature, make_matcher())
        extractor.setVocabulary(FIGURES[asked.VOCABULARY[kind]])
        keypoints = asked.as_keypoints(FIGURES[f"{kind} {i} keypoints"])[:n]
        histogram = extractor.compute(FIGURES["images"][i], keypoints)
        np.testing.assert_array_equal(histogram, expected, strict=True)


def test_calls_at_the_edges_end_as_they_did():
    assert str(FIGURES["version"]).startswith("4.")
    expected = dict(zip(FIGURES["calls"].tolist(), FIGURES["answers"].tolist(), strict=True))
    assert asked.outcomes(BOWKMeansTrainer, BOWImgDescriptorExtractor) == expected


def test_errors_are_caught_as_ours_and_as_opencvs():
    trainer = BOWKMeansTrainer(5)
    for kind in (cv2.error, DataError, BowsawError, ValueError):
        with pytest.raises(kind, match=r"Call add first"):
            trainer.cluster()
    for kind in (TypeError, ParameterError, BowsawError):
        with pytest.raises(kind, match=r"clusterCount must be an integer; got 2\.5"):
            BOWKMeansTrainer(2.5)
    for error in (opencv.OpenCvDataError("none"), opencv.OpenCvArgumentError("none")):
        assert repr(pickle.loads(pickle.dumps(error))) == repr(error)


def test_errors_name_value_limit_and_remedy():
    rows, cube = np.zeros((4, 3), np.float32), np.zeros((2, 3, 4), np.float32)
    sift, image = asked.FEATURES["sift"](), FIGURES["images"][0]
    keypoints, descriptors = sift.detectAndCompute(image, None)
    twice = BOWImgDescriptorExtractor(sift, cv2.BFMatcher(cv2.NORM_L2, crossCheck=True))
    twice.setVocabulary(descriptors[3:5].copy())
    initial = cv2.KMEANS_USE_INITIAL_LABELS
    for call, message in (
        (lambda: BOWKMeansTrainer(5).cluster(rows), r"between 1 and 4 .* got 5\. Ask for fewer"),
        (lambda: BOWKMeansTrainer(1).add(cube), r"two dimensions.*got 2×3×4"),
        (lambda: BOWKMeansTrainer(4).cluster(rows + np.float32(np.inf)), r"finite; got 12 values"),
        (lambda: BOWKMeansTrainer(1, flags=initial), r"KMEANS_USE_INITIAL_LABELS \(got 1\)"),
        (lambda: twice.compute(image, keypoints), "no word for descriptor 0 of .*crossCheck=False"),
    ):
        with pytest.raises(opencv.OpenCvDataError, match=message):
            call()
    with pytest.raises(opencv.OpenCvArgumentError, match=r"got BFMatcher without compute.*first"):
        BOWImgDescriptorExtractor(cv2.BFMatcher(), sift)
    with pytest.raises(NotImplementedError, match="BOWKMeansTrainer"):
        opencv.BOWTrainer().cluster()
    assert isinstance(BOWKMeansTrainer(1), opencv.BOWTrainer)


def test_a_vocabulary_becomes_a_codebook_and_comes_back():
    words = FIGURES["by default words"]
    book = to_codebook(words, cv2.SIFT_create(), images=3)
    assert (book.n_words, book.scale) == (12, 512.0)
    assert book.provenance == {"from": "opencv", "images": 3}
    back = opencv.to_vocabulary(book)
    np.testing.assert_array_equal(back, words, strict=True)
    back[:] = 0  # a copy, as a matcher may change what it is given
    np.testing.assert_array_equal(book.words, words)
    assert len(opencv.to_vocabulary(book.without([3, 4]))) == 10
    with pytest.raises(DataError, match=r"128 columns.*got 128×12.*transposed"):
        to_codebook(words.T.copy(), cv2.SIFT_create())
    with pytest.raises(ParameterError, match="binary"):
        to_codebook(FIGURES["orb words"], cv2.ORB_create())


def test_bowsaw_counts_the_same_words():
    # Both count the nearest words of the same descriptors; bowsaw divides in float64.
    sift, images = asked.FEATURES["sift"](), list(FIGURES["images"])
    words = FIGURES["by default words"].copy()
    extractor = BOWImgDescriptorExtractor(sift, cv2.BFMatcher(cv2.NORM_L2))
    extractor.setVocabulary(words)
    theirs = np.concatenate([extractor.compute(p, sift.detect(p, None)) for p in images])
    bags = bs.OpenCvFeatures(sift, max_side=None).transform(images)
    ours = bs.BagOfWords(to_codebook(words, sift)).fit_transform(bags)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    # OpenCV kept the caller's arrays, and so do we.
    words[:] = words[::-1].copy()
    changed = extractor.compute(images[0], sift.detect(images[0], None))
    np.testing.assert_array_equal(changed, theirs[:1, ::-1])
