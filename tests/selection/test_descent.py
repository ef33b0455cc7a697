"""Moving words: gradients against differences, units, threads, data at the limits."""

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError
from bowsaw.scores.base import make_score
from bowsaw.scores.leave_one_out import leave_one_out_gradient
from bowsaw.selection.descent import SOFTNESS, DescentPlan, Pool, Slopes, refine_words


def two_classes(n_bags=24, n_rows=60, seed=0, apart=0.5, scale=1.0):
    # The classes differ in the first coordinate alone; the second is twice as wide and
    # uninformative, so words that k-means would place are of little use.
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 2
    rows = [random.normal([apart * label, 0.0], [1.0, 2.0], size=(n_rows, 2)) for label in labels]
    return bs.Bags.from_list([scale * bag for bag in rows]), labels


def idle_words(scale=1.0):
    return bs.Codebook(scale * np.array([[0.2, 2.0], [0.2, -2.0], [0.3, 0.0]]), ids=[7, 3, 9])


def refined(book, bags, labels, seed=0, **settings):
    return refine_words(book, bags, np.asarray(labels), DescentPlan(**settings), seed=seed)


def score_of(book, bags, labels, **coding):
    histograms = BagOfWords(book, **coding).transform(bags)
    return make_score("leave-one-out").begin(labels, 2).update(histograms)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_words_that_moved_separate_also_bags_that_they_have_not_seen(coding):
    bags, labels = two_classes()
    options = {"coding": coding, "sharpness": 1.0}
    better = refined(idle_words(), bags, labels, n_steps=100, **options).codebook
    for data in ((bags, labels), two_classes(n_bags=60, seed=1)):
        assert score_of(better, *data, **options) > 0.1 + score_of(idle_words(), *data, **options)


def test_the_slopes_of_soft_coding_are_the_limit_of_differences():
    bags, labels = two_classes(n_bags=10, n_rows=20)
    pool = Pool(bags, labels, per_bag=20, max_bags=100, seed=0)
    words = np.array([[0.5, 1.0], [-0.5, -1.0], [1.0, 0.0]], dtype=np.float32)
    step = Slopes(pool, words, DescentPlan(coding="soft", sharpness=0.7))
    _, slopes = step.gradient(words, 0)

    def histograms_of(moved):
        out = []
        for bag in bags:
            exponents = -0.7 * ((bag[:, None] - moved) ** 2).sum(axis=2)
            weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
            out.append((weights / weights.sum(axis=1, keepdims=True)).mean(axis=0))
        return np.array(out)

    # The ridge is a share of the mean eigenvalue, which moves with the words; it is held fixed by
    # the gradient. So the difference is that of Σ G f, linear in the histograms.
    _, by_entry = leave_one_out_gradient(histograms_of(words), np.eye(2)[labels])
    direction = np.random.default_rng(0).normal(size=words.shape)
    small = 1e-5
    change = histograms_of(words + small * direction) - histograms_of(words - small * direction)
    expected = float((by_entry * change).sum() / (2 * small))
    assert float((slopes * direction).sum()) == pytest.approx(expected, rel=1e-3)


def test_hard_histograms_are_counts_of_the_nearest_word():
    bags, labels = two_classes(n_bags=8, n_rows=16)
    words = np.array([[0.5, 1.0], [-0.5, -1.0], [1.0, 0.0]], dtype=np.float32)
    step = Slopes(Pool(bags, labels, 16, 100, 0), words, DescentPlan())
    error, _ = step.gradient(words, 0)
    histograms = BagOfWords(bs.Codebook(words)).transform(bags)
    expected, _ = leave_one_out_gradient(histograms, np.eye(2)[labels])
    assert error == pytest.approx(expected, rel=1e-6)


def test_the_unit_is_the_distance_from_the_nearest_word():
    bags = bs.Bags.from_list([[[0.0], [3.0]], [[1.0], [4.0]]])
    pool = Pool(bags, np.array([0, 1]), 2, 10, 0)
    step = Slopes(pool, np.array([[0.0], [4.0]], "f4"), DescentPlan())
    # Squared distances 0, 1, 1 and 0.
    assert step.unit == pytest.approx(np.sqrt(0.5))
    assert step._sharpness == pytest.approx(SOFTNESS / 0.5)


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_hard_coding_does_not_depend_on_the_unit_of_descriptors(scale):
    bags, labels = two_classes()
    large, _ = two_classes(scale=scale)
    plain = refined(idle_words(), bags, labels, n_steps=10)
    scaled = refined(idle_words(scale), large, labels, n_steps=10)
    np.testing.assert_allclose(scaled.codebook.words, scale * plain.codebook.words, rtol=2e-2)
    assert scaled.moved == pytest.approx(scale * plain.moved, rel=1e-2)


def test_ids_stay_and_provenance_records_what_was_done():
    bags, labels = two_classes(n_bags=30)
    better = refined(idle_words(), bags, labels, n_steps=8)
    assert better.codebook.ids.tolist() == [7, 3, 9]
    record = better.codebook.provenance["refined"]
    assert record["n_steps"] == len(better.errors) == 8
    assert record["moved"] == better.moved > 0
    distances = np.linalg.norm(better.codebook.words - idle_words().words, axis=1)
    assert better.moved == pytest.approx(distances.mean(), rel=1e-5)
    # Stopping cuts the same descent short.
    stopped = refine_words(idle_words(), bags, labels, DescentPlan(n_steps=8), seed=0, stop=5)
    np.testing.assert_array_equal(stopped.errors, better.errors[:5])


def test_a_word_that_no_descriptor_comes_near_stays():
    bags, labels = two_classes()
    book = bs.Codebook([[0.2, 2.0], [0.2, -2.0], [1e6, 0.0]])
    better = refined(book, bags, labels, n_steps=5)
    assert better.codebook.words[2] == pytest.approx([1e6, 0.0], abs=1e-6)
    assert not np.array_equal(better.codebook.words[0], book.words[0])


def test_more_bags_than_a_step_uses_and_empty_bags_are_no_special_case(monkeypatch):
    monkeypatch.setattr("bowsaw.selection.descent.MAX_BAGS", 16)
    bags, labels = two_classes(n_bags=30)
    with_empty = bs.Bags.from_list([*bags, np.empty((0, 2))])
    better = refined(idle_words(), with_empty, [*labels, 1], n_steps=60)
    assert score_of(better.codebook, bags, labels) > 0.05 + score_of(idle_words(), bags, labels)


def test_descriptors_that_are_the_words_are_no_special_case_and_none_are_refused():
    bags = bs.Bags.from_list([[[0.0], [1.0]]] * 4)
    better = refined(bs.Codebook([[0.0], [1.0]]), bags, [0, 1, 0, 1], n_steps=3)
    assert np.isfinite(better.codebook.words).all()
    with pytest.raises(DataError, match="no descriptors"):
        refined(idle_words(), bs.Bags.from_list([np.empty((0, 2))] * 2), [0, 1])
