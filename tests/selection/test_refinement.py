"""Refinement: where words begin, how far they move, and resuming at every stage."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.selection.test_descent import idle_words, two_classes

import bowsaw as bs
from bowsaw.checkpoint import remove_checkpoint
from bowsaw.errors import Interrupted, MismatchError, ParameterError
from bowsaw.selection.annealing import Search
from bowsaw.selection.descent import Descent, Slopes


def unchecked(**options):
    """A refinement that does all its steps from a random start."""
    start = bs.RandomSubset(random_state=0)
    usual = {"n_kept": 4, "n_folds": 0, "start": start, "random_state": 0}
    return bs.Refinement(large_book(), **{**usual, **options})


def searching(n_steps):
    """The usual start, but short."""
    return bs.Annealing(n_steps=n_steps, random_state=0)


def interrupting(monkeypatch, where, name, after):
    """Let a method raise KeyboardInterrupt once, after so many calls."""
    plain, calls = getattr(where, name), []

    def method(self, *arguments):
        calls.append(arguments)
        if len(calls) == after + 1:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(where, name, method)


def large_book():
    return bs.Codebook(np.random.default_rng(3).normal(size=(12, 2)), ids=np.arange(12) + 5)


@pytest.mark.parametrize(
    ("options", "where", "after", "n_moved", "n_left"),
    [
        ({"n_steps": 20, "start": searching(100)}, (Slopes, "gradient"), 7, 7, 13),
        # Held-out errors: the first fold of the three was done.
        ({"n_steps": 8, "n_folds": 3}, (Slopes, "gradient"), 12, 0, 16),
        ({"n_steps": 6, "start": searching(100)}, (Search, "step"), 59, 0, 6),
    ],
)
def test_interrupted_it_raises_with_the_words_so_far_and_goes_on_to_the_same_end(
    monkeypatch, tmp_path, options, where, after, n_moved, n_left
):
    bags, labels = two_classes(n_bags=60)
    file = tmp_path / "words.partial"
    saw = unchecked(**options, checkpoint=file)
    whole = clone(saw).set_params(checkpoint=None).fit(bags, labels)
    interrupting(monkeypatch, *where, after)
    with pytest.raises(Interrupted) as caught:
        clone(saw).fit(bags, labels)
    part = caught.value.so_far
    assert part.parameters["n_steps"] == n_moved
    start = large_book().only(part.kept).words
    assert np.array_equal(part.codebook.words, start) == (n_moved == 0)
    assert list(tmp_path.iterdir())
    if where[0] is Slopes:
        # The words that were chosen are in the file, and so are not chosen again.
        monkeypatch.setattr(Search, "step", None)
    steps, plain = [], Descent.step
    monkeypatch.setattr(Descent, "step", lambda self: steps.append(1) or plain(self))
    again = clone(saw).fit(bags, labels)
    assert len(steps) == n_left + (len(whole.errors_) if "n_folds" in options else 0)
    assert np.array_equal(again.codebook_.words, whole.codebook_.words)
    assert np.array_equal(again.errors_, whole.errors_)
    if "n_folds" in options:
        assert np.array_equal(again.holdout_.errors, whole.holdout_.errors)
    remove_checkpoint(file)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_another_problem_and_a_start_with_all_words_are_refused(tmp_path):
    bags, labels = two_classes(n_bags=30)
    saw = unchecked(n_steps=3, checkpoint=tmp_path / "words.partial").fit(bags, labels)
    for other in ({"random_state": 1}, {"start": bs.FarthestPoint()}, {"rate": 0.2}):
        with pytest.raises(MismatchError, match="checkpoint of other work"):
            clone(saw).set_params(**other).fit(bags, labels)
    with pytest.raises(MismatchError, match="groups"):
        clone(saw).fit(bags, labels, groups=np.arange(30))
    with pytest.raises(ParameterError, match="code alone"):
        unchecked(start=bs.Bottleneck()).fit(bags, labels)


def test_it_begins_with_the_words_of_the_selector_that_it_is_given():
    bags, labels = two_classes()
    start = bs.FarthestPoint()
    saw = unchecked(start=start, n_steps=5).fit(bags, labels)
    first = bs.FarthestPoint(large_book(), 4).fit(bags)
    assert saw.selection_.kept.tolist() == first.selection_.kept.tolist()
    assert saw.selection_.parameters["start"] == "farthest"
    assert not hasattr(start, "selection_")
    same = clone(saw).set_params(n_steps=0).fit(bags, labels)
    assert np.array_equal(same.codebook_.words, first.codebook_.words)


def test_words_move_where_that_helps_bags_held_out():
    bags, labels = two_classes(n_bags=80)
    # Words that lie along the uninformative coordinate.
    saw = bs.Refinement(idle_words(), 3, n_steps=40, random_state=0).fit(bags, labels)
    errors = saw.holdout_.errors.mean(axis=0)
    assert saw.holdout_.marks.tolist() == [0, 5, 10, 20, 40]
    assert saw.holdout_.errors.shape == (5, 5)
    assert len(saw.errors_) == saw.holdout_.n_steps > 0
    assert errors.min() < errors[0]


@pytest.mark.parametrize("wrong", [{"n_steps": -1}, {"rate": 0.0}, {"per_bag": 0}, {"n_folds": 6}])
def test_wrong_parameters_are_refused_before_the_search(wrong, monkeypatch):
    bags, labels = two_classes()
    monkeypatch.setattr(Search, "step", None)
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        bs.Refinement(large_book(), 4, **wrong).fit(bags, labels)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], [0] * 9 + [1], [0, 1, 2, 3]])
def test_few_bags_are_no_special_case(labels):
    bags, _ = two_classes(n_bags=len(labels))
    saw = unchecked(n_kept=3, start=searching(20), n_steps=4, n_folds=None).fit(bags, labels)
    assert saw.codebook_.n_words == 3
    if len(set(labels)) == len(labels):
        # Nothing can be held out, so nothing says that words may move.
        assert len(saw.holdout_.errors) == saw.moved_ == 0


@pytest.mark.parametrize("n_steps", [0, 2])
def test_images_that_chose_or_moved_words_are_remembered(n_steps):
    plain, labels = two_classes(n_bags=6)
    bags = bs.Bags(plain.values, plain.offsets, digests=[5, 6, 7, 8, 9, 10])
    book = bs.Codebook(large_book().words, trained_on=[1, 6])
    options = {"n_steps": n_steps}
    for saw in (bs.Refinement(book, 3, n_folds=0, **options), bs.Annealing(book, 3, **options)):
        assert saw.fit(bags, labels).codebook_.trained_on.tolist() == [1, 5, 6, 7, 8, 9, 10]
    assert bs.RandomSubset(book, 3).fit(bags).codebook_.trained_on.tolist() == [1, 6]


def test_the_usual_start_is_annealing_on_a_sample_and_claims_no_more():
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    how = {"n_kept": 3, "random_state": 0}
    for n_each, is_whole in ((60, True), (300, False)):
        bags = [rng.normal([2.0 * label, 0.0], 1.0, size=(n_each, 2)) for label in y]
        book = bs.KMeansCodebook(12, random_state=0).fit(bags).codebook_
        found = bs.Refinement(book, n_steps=0, **how).fit(bags, y).selection_
        # Bags of at most 128 descriptors are their own sample.
        if is_whole:
            same = bs.Annealing(book, n_steps=500, **how).fit(bags, y).selection_
            assert np.array_equal(found.kept, same.kept)
        assert found.certificate is None
        assert "sample" in found.parameters["score"]
    assert [bs.Refinement(book, n_kept=n)._plan(n).n_steps for n in (32, 33)] == [300, 150]
