"""The level, the power and the coverage of the test of two methods, by simulation.

A comparison draws a collection of images, then five random splits of it into a codebook's part, a
training part and a test part. Two methods of equal true accuracy are measured on each split at
three sizes. There are two kinds of models:

- *trained*: an image has a class and features. The features of the two methods are the class's
  centre, noise that both share (what is hard about the image) and noise of their own. The part of
  the codebook sets the scale of each feature, the training part the mean of each class, and the
  nearest mean is the label. A larger size uses more features. Splits share images, so their models
  and their test images are correlated.
- *fixed*: whether a method is right depends on the image alone, whatever it was trained on. The
  splits are then as correlated as they can be, and the correction is exact.

Without the correction, and without the codebook's images in n_train, the same simulations give
other levels: they can tell a wrong test from a right one.
"""

import numpy as np
import pytest

from bowsaw.evaluation.significance import paired_test, pooled

pytestmark = pytest.mark.slow

N_COMPARISONS, N_SPLITS = 1000, 5
PARTS = (100, 100, 400)
"""Images of the codebook, to train and to test: the ratios of 15-Scenes."""
SIZES = (1, 2, 3)
SCENES = (750, 750, 2985)


def splits_of(rng, parts):
    n_book, n_train, _ = parts
    return [np.split(rng.permutation(sum(parts)), (n_book, n_book + n_train)) for _ in range(5)]


def trained(rng, parts):
    """Return accuracies of two methods, (2, n_splits, n_sizes)."""
    n, d = sum(parts), max(SIZES)
    y = np.arange(n) % 2
    centres = 0.9 * rng.normal(size=(2, d))
    X = centres[y] + rng.normal(size=(n, d)) + rng.normal(size=(2, n, d))
    found = np.empty((2, N_SPLITS, len(SIZES)))
    for j, (book, train, test) in enumerate(splits_of(rng, parts)):
        for m in range(2):
            Z = (X[m] - X[m, book].mean(axis=0)) / X[m, book].std(axis=0)
            means = np.array([Z[train[y[train] == label]].mean(axis=0) for label in range(2)])
            # Features add up, so the scores of fewer are sums of the first.
            scores = np.cumsum((Z[test, None] - means) ** 2, axis=2)
            for k, size in enumerate(SIZES):
                found[m, j, k] = np.mean(scores[:, :, size - 1].argmin(axis=1) == y[test])
    return found


def fixed(rng, parts, lead=0.0):
    """Return accuracies of two methods; the first is right more often by ``lead``."""
    right = rng.random((2, sum(parts))) < np.array([[0.7 + lead], [0.7]])
    return np.array([[[r[test].mean()] for *_, test in splits_of(rng, parts)] for r in right])[
        :, :, [0, 0, 0]
    ]


def rejected(found, n_train, n_test):
    return np.mean([paired_test(*pair, n_train, n_test).p < 0.05 for pair in found])


def drawn(kind, parts=PARTS, **truth):
    rng = np.random.default_rng(0)
    found = [[kind(rng, parts, **truth)] for _ in range(N_COMPARISONS)]
    return np.concatenate(found)


@pytest.mark.parametrize("kind", [trained, fixed])
def test_no_difference_is_found_in_at_most_one_of_twenty(kind):
    n_book, n_train, n_test = PARTS
    found = drawn(kind)
    level = rejected(found, n_book + n_train, n_test)
    assert level <= 0.065
    # The simulation tells tests apart: the plain one, and one that forgets the codebook's images.
    assert rejected(found, 1, 0) >= 0.2
    assert rejected(found, n_train, n_test) < level / 2
    if kind is fixed:
        assert level >= 0.03


def test_the_power_at_two_points_on_15_scenes_is_that_of_the_documents():
    n_book, n_train, n_test = SCENES
    found = drawn(fixed, SCENES, lead=0.02)
    assert rejected(found, n_book + n_train, n_test) == pytest.approx(0.31, abs=0.05)
    spread = (found[:, 0] - found[:, 1]).mean(axis=2).std(axis=1, ddof=1)
    # As in the records of the study.
    assert np.median(spread) == pytest.approx(0.007, abs=0.001)
    covered = [
        low <= 0.02 <= high
        for low, high in (paired_test(*pair, n_book + n_train, n_test).interval() for pair in found)
    ]
    assert 0.935 <= np.mean(covered) <= 0.975


def test_intervals_of_two_collections_together_cover_the_truth():
    few = (25, 25, 254)
    pairs = zip(drawn(fixed), drawn(fixed, few), strict=True)
    covered = []
    for one, other in pairs:
        low, high = pooled([paired_test(*one, 200, 400), paired_test(*other, 50, 254)]).interval()
        covered.append(low <= 0 <= high)
    assert np.mean(covered) >= 0.935
