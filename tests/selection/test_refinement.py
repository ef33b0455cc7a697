import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.selection.descent import Walk, refined
from bowsaw.selection.nested import check_steps, held_out_error, usual_folds
from bowsaw.selection.search import Search
from bowsaw.selection.slopes import Slopes


def two_classes(n_bags=24, n_rows=60, seed=0, apart=0.5):
    # The classes differ in the first coordinate alone; the second is twice as wide and tells
    # nothing, so words that k-means would place are of little use.
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 2
    rows = [random.normal([apart * label, 0.0], [1.0, 2.0], size=(n_rows, 2)) for label in labels]
    return bs.Bags.from_list(rows), labels


def unchecked(**options):
    """A refinement that does all its steps from a random start."""
    start = bs.RandomSubset(large_book())
    return bs.Refinement(large_book(), 4, **{"n_folds": 0, "start": start, **options})


def searching(n_steps):
    """The usual start, but short."""
    return bs.Annealing(large_book(), n_steps=n_steps)


def interrupting(monkeypatch, after):
    """Let the slopes raise KeyboardInterrupt once, after so many calls."""
    plain, calls = Slopes.gradient, []

    def gradient(self, *arguments):
        calls.append(arguments)
        if len(calls) == after + 1:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(Slopes, "gradient", gradient)


def large_book():
    return bs.Codebook(np.random.default_rng(3).normal(size=(12, 2)), ids=np.arange(12) + 5)


def test_interrupted_it_keeps_the_words_so_far_and_goes_on_to_the_same_end(monkeypatch, tmp_path):
    bags, labels = two_classes(n_bags=30)
    saw = unchecked(n_steps=20, checkpoint=tmp_path / "words.partial")
    whole = clone(saw).set_params(checkpoint=None).fit(bags, labels)
    interrupting(monkeypatch, after=7)
    part = clone(saw).fit(bags, labels)
    assert len(part.errors_) == 7
    assert part.selection_.parameters["n_steps"] == 7
    assert part.interrupted_
    assert (tmp_path / "words.partial").exists()
    again = clone(saw).fit(bags, labels)
    assert np.array_equal(again.codebook_.words, whole.codebook_.words)
    assert np.array_equal(again.errors_, whole.errors_)
    assert not (tmp_path / "words.partial").exists()


def test_the_file_of_another_problem_is_not_used(monkeypatch, tmp_path):
    bags, labels = two_classes(n_bags=30)
    saw = unchecked(n_steps=9, checkpoint=tmp_path / "words.partial")
    interrupting(monkeypatch, after=3)
    clone(saw).fit(bags, labels)
    other = clone(saw).set_params(random_state=1)
    plain = clone(other).set_params(checkpoint=None).fit(bags, labels)
    assert np.array_equal(other.fit(bags, labels).codebook_.words, plain.codebook_.words)


def test_interrupted_before_the_first_step_it_has_nothing_to_keep(monkeypatch):
    bags, labels = two_classes()
    interrupting(monkeypatch, after=0)
    with pytest.raises(KeyboardInterrupt):
        unchecked().fit(bags, labels)


def test_it_begins_with_the_words_of_the_selector_that_it_is_given():
    bags, labels = two_classes()
    start = bs.FarthestPoint(large_book(), 2)
    saw = unchecked(start=start, n_steps=5).fit(bags, labels)
    first = bs.FarthestPoint(large_book(), 4).fit(bags)
    assert saw.selection_.kept.tolist() == first.selection_.kept.tolist()
    assert saw.selection_.parameters["start"] == "farthest point"
    assert not hasattr(start, "selection_")
    same = clone(saw).set_params(n_steps=0).fit(bags, labels)
    assert np.array_equal(same.codebook_.words, first.codebook_.words)


def test_a_start_that_needs_the_full_codebook_is_refused():
    bags, labels = two_classes()
    start = bs.BottleneckSelector(large_book(), 4)
    with pytest.raises(ParameterError, match="code alone"):
        unchecked(start=start).fit(bags, labels)


# -- how far ---------------------------------------------------------------------------------------


def test_words_move_where_that_helps_bags_held_out():
    bags, labels = two_classes(n_bags=80)
    # Words that lie along the coordinate that tells nothing.
    idle = bs.Codebook([[0.2, 2.0], [0.2, -2.0], [0.3, 0.0]])
    saw = bs.Refinement(idle, 3, n_steps=40).fit(bags, labels)
    errors = saw.check_.errors.mean(axis=0)
    assert saw.check_.marks.tolist() == [0, 5, 10, 20, 40]
    assert saw.check_.errors.shape == (5, 5)
    assert len(saw.errors_) == saw.check_.n_steps > 0
    assert errors.min() < errors[0]


def test_words_stay_where_labels_are_noise():
    # Nothing to learn: moving fits the labels of the bags that move, and costs on others.
    bags, _ = two_classes(n_bags=60, apart=0.0)
    labels = np.random.default_rng(4).permutation(np.arange(60) % 3)
    saw = bs.Refinement(large_book(), 4, start=searching(50), n_steps=80).fit(bags, labels)
    assert saw.check_.n_steps < 80
    if saw.check_.n_steps == 0:
        assert saw.moved_ == 0
        assert np.array_equal(saw.codebook_.words, large_book().only(saw.selection_.kept).words)


def test_stopping_cuts_the_same_walk_short():
    bags, labels = two_classes(n_bags=30)
    begun = bs.RandomSubset(large_book(), 4).fit(bags).codebook_
    whole, stopped = (refined(begun, bags, labels, n_steps=8, stop=stop) for stop in (None, 5))
    np.testing.assert_array_equal(stopped.errors, whole.errors[:5])
    assert len(whole.errors) == 8


def test_the_error_held_out_is_that_of_ridge_regression():
    random = np.random.default_rng(0)
    labels = np.arange(30) % 3
    rows = random.dirichlet(np.ones(6), 40)
    rows[:30, 0] += 0.3 * labels
    truth = np.arange(10) % 3
    errors = [held_out_error(rows[:30], rows[30:], labels, truth, [r]) for r in (0.1, 1.0)]
    found = errors[0]
    assert held_out_error(rows[:30], rows[30:], labels, truth, [0.1, 1.0]) == min(errors)
    # By the normal equations, the intercept not shrunk.
    X, Z, Y = np.sqrt(rows[:30]), np.sqrt(rows[30:]), np.eye(3)[labels]
    centred = X - X.mean(axis=0)
    gram = centred.T @ centred
    ridge = 0.1 * np.trace(gram) / 6
    slopes = np.linalg.solve(gram + ridge * np.eye(6), centred.T @ (Y - Y.mean(axis=0)))
    guess = (Z - X.mean(axis=0)) @ slopes + Y.mean(axis=0)
    assert found == pytest.approx(((guess - np.eye(3)[truth]) ** 2).sum(axis=1).mean())


def test_words_to_begin_with_are_chosen_without_the_bags_held_out():
    bags, labels = two_classes(n_bags=40)
    seen = []

    def begin(rows, task):
        seen.append((len(rows), np.bincount(labels[rows]).tolist()))
        return large_book().only([5, 6, 7])

    options = {"rate": 0.1, "per_bag": 16, "max_bags": 100, "coding": "hard", "sharpness": 1.0}
    check_steps(
        begin,
        bags,
        labels,
        fingerprint={},
        n_steps=2,
        n_folds=3,
        checkpoint=None,
        seed=0,
        n_jobs=1,
        verbose=False,
        **options,
    )
    assert seen == [(32, [16, 16])] * 3


def test_interrupted_while_checking_it_goes_on_to_the_same_end(monkeypatch, tmp_path):
    bags, labels = two_classes(n_bags=60)
    saw = unchecked(n_steps=8, n_folds=3, checkpoint=tmp_path / "words.partial")
    whole = clone(saw).set_params(checkpoint=None).fit(bags, labels)
    interrupting(monkeypatch, after=12)
    part = clone(saw).fit(bags, labels)
    assert part.interrupted_
    assert part.moved_ == 0
    steps = []
    plain = Walk.step
    monkeypatch.setattr(Walk, "step", lambda self: steps.append(1) or plain(self))
    again = clone(saw).fit(bags, labels)
    # The first fold of the three was done.
    assert len(steps) == 2 * 8 + len(whole.errors_)
    assert np.array_equal(again.check_.errors, whole.check_.errors)
    assert np.array_equal(again.codebook_.words, whole.codebook_.words)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_in_the_search_it_returns_the_best_of_that(monkeypatch, tmp_path):
    bags, labels = two_classes(n_bags=30)
    told = {"start": searching(100), "n_steps": 6, "checkpoint": tmp_path / "words.partial"}
    saw = bs.Refinement(large_book(), 4, **told)
    whole = clone(saw).set_params(checkpoint=None).fit(bags, labels)
    plain, calls = Search.step, []

    def step(self, temperature):
        calls.append(temperature)
        if len(calls) == 60:
            raise KeyboardInterrupt
        plain(self, temperature)

    monkeypatch.setattr(Search, "step", step)
    part = clone(saw).fit(bags, labels)
    assert part.interrupted_
    assert len(part.errors_) == 0
    assert np.array_equal(part.codebook_.words, large_book().only(part.selection_.kept).words)
    again = clone(saw).fit(bags, labels)
    assert np.array_equal(again.codebook_.words, whole.codebook_.words)
    assert list(tmp_path.iterdir()) == []


def test_fewer_bags_are_checked_more_often():
    assert [usual_folds(n) for n in (2, 100, 166, 250, 333, 10**6)] == [5, 5, 3, 2, 2, 1]


@pytest.mark.parametrize("n_folds", [-1, 6, 0.5, True])
def test_folds_that_cannot_be_are_refused(n_folds):
    bags, labels = two_classes()
    with pytest.raises(ParameterError, match="n_folds must be None or a whole number from 0 to 5"):
        unchecked(n_folds=n_folds).fit(bags, labels)


@pytest.mark.parametrize("wrong", [{"n_steps": -1}, {"rate": 0.0}, {"per_bag": 0}])
def test_wrong_parameters_are_told_before_the_search(wrong, monkeypatch):
    bags, labels = two_classes()
    monkeypatch.setattr(Search, "step", None)
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        bs.Refinement(large_book(), 4, **wrong).fit(bags, labels)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], [0] * 9 + [1], [0, 1], [0, 1, 2, 3]])
def test_few_bags_are_no_special_case(labels):
    bags, _ = two_classes(n_bags=len(labels))
    saw = bs.Refinement(large_book(), 3, start=searching(20), n_steps=4).fit(bags, labels)
    assert saw.codebook_.n_words == 3
    if len(set(labels)) == len(labels):
        # Nothing can be held out, so nothing says that words may move.
        assert len(saw.check_.errors) == 0
        assert saw.moved_ == 0


def test_numbers_may_be_numpys():
    bags, labels = two_classes()
    told = {"n_steps": np.int64(4), "rate": np.float32(0.1), "per_bag": np.int32(8)}
    saw = bs.Refinement(large_book(), 3, n_folds=np.int64(1), **told).fit(bags, labels)
    assert len(saw.errors_) <= 4


def test_interrupted_again_it_does_not_choose_its_words_again(monkeypatch, tmp_path):
    bags, labels = two_classes(n_bags=30)
    saw = bs.Refinement(large_book(), 4, n_folds=0, n_steps=9, checkpoint=tmp_path / "w.partial")
    interrupting(monkeypatch, after=4)
    first = clone(saw).fit(bags, labels)
    monkeypatch.setattr(Search, "step", None)
    assert np.array_equal(clone(saw).fit(bags, labels).selection_.kept, first.selection_.kept)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_steps", [0, 2])
def test_images_that_chose_or_moved_words_are_remembered(n_steps):
    plain, labels = two_classes(n_bags=6)
    bags = bs.Bags(plain.values, plain.offsets, digests=[5, 6, 7, 8, 9, 10])
    book = bs.Codebook(large_book().words, trained_on=[1, 6])
    options = {"n_steps": n_steps}
    for saw in (bs.Refinement(book, 3, n_folds=0, **options), bs.Annealing(book, 3, **options)):
        assert saw.fit(bags, labels).codebook_.trained_on.tolist() == [1, 5, 6, 7, 8, 9, 10]
    assert bs.RandomSubset(book, 3).fit(bags).codebook_.trained_on.tolist() == [1, 6]
