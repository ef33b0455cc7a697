"""Every size in one run, and what it costs."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

import bowsaw as bs
from bowsaw.checkpoint import remove_checkpoint
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.evaluation import path as module
from bowsaw.evaluation.path import PruningPath
from bowsaw.inference.whatif import whatif
from bowsaw.scores.leave_one_out import LeaveOneOut

N_WORDS = 24
SIZES = [12, 6, 3]


def scenes(n_each=10, n_classes=3, telling=2.0, seed=0):
    """Bags of three classes that differ in how often some words occur."""
    random = np.random.default_rng(seed)
    words = random.normal(size=(N_WORDS, 3))
    labels = np.arange(n_classes * n_each) % n_classes
    bags = []
    for label in labels:
        shares = np.ones(N_WORDS)
        shares[label::n_classes][:2] += telling
        drawn = words[random.choice(N_WORDS, 60, p=shares / shares.sum())]
        bags.append(drawn + random.normal(0, 0.05, drawn.shape))
    names = np.array(["fir", "oak", "yew", "ash"])[labels]
    return bs.Bags.from_list(bags), names, bs.Codebook(words, np.arange(N_WORDS) * 2 + 5)


@pytest.fixture(scope="module")
def problem():
    return scenes()


def made(book, **options):
    return PruningPath(
        book, **{"sizes": SIZES, "repair": 4, "cv": 3, "n_jobs": 1, "random_state": 0} | options
    )


@pytest.fixture(scope="module")
def path(problem):
    bags, y, book = problem
    return made(book).fit(bags, y)


def test_there_is_a_codebook_of_every_size(path, problem):
    _, _, book = problem
    assert path.sizes_ == [N_WORDS, *SIZES]
    for n in range(3, N_WORDS + 1):
        found = path.codebook_at(n)
        assert found.n_words == n
        assert found.digest == book.only(found.ids).digest
        above = path.codebook_at(min(size for size in path.sizes_ if size >= n))
        assert set(found.ids.tolist()) <= set(above.ids.tolist())
    assert path.codebook_at(N_WORDS) == book
    for wrong in (2, N_WORDS + 1, 5.5):
        with pytest.raises(ParameterError, match="n_words must be an integer from 3 to 24"):
            path.codebook_at(wrong)


def test_selections_say_what_they_are(path):
    at_stop, between = path.selection_at(6), path.selection_at(7)
    assert (at_stop.method, at_stop.codes_with, at_stop.seed) == ("elimination", "pruned", 0)
    assert at_stop.certificate["holds"]
    assert between.certificate is None
    assert len(at_stop.scores) == 3
    assert at_stop.scores[:2] == between.scores


def test_new_bags_are_coded_with_the_size_asked_for(problem, path):
    bags, y, book = problem
    chosen = made(book, n_kept=8).fit(bags, y)
    assert chosen.codebook_ == path.codebook_at(8)
    codes = bs.BagOfWords(path.codebook_at(8)).transform(bags)
    np.testing.assert_array_equal(chosen.transform(bags), codes)
    assert chosen.get_feature_names_out().tolist() == [f"word{i:04d}" for i in chosen.codebook_.ids]
    # Without a wish, the smallest; a size below the smallest becomes a stop of its own.
    assert path.transform(bags).shape == (len(bags), 3)
    assert made(book, n_kept=2).fit(bags, y).sizes_ == [N_WORDS, *SIZES, 2]


def test_score_and_histograms_at_a_stop_are_those_of_coding_again(problem, path):
    bags, y, book = problem
    labels = np.unique(y, return_inverse=True)[1]
    for stop in path.path_.stops:
        kept = path.codebook_at(stop.n_kept)
        histograms = bs.BagOfWords(kept).transform(bags)
        np.testing.assert_array_equal(whatif(book, bags).reset(kept.ids).histograms, histograms)
        fresh = LeaveOneOut().begin(labels, 3).update(histograms)
        assert stop.score == pytest.approx(fresh, rel=1e-9)


@pytest.mark.parametrize("groups", [None, np.arange(30) // 6 * 3 + np.arange(30) % 3])
def test_an_estimate_is_what_a_plain_loop_over_folds_of_whole_groups_gives(problem, path, groups):
    bags, y, book = problem
    folds = module.deal(np.unique(y, return_inverse=True)[1], 3, 0, groups)
    if groups is not None:
        path = made(book).fit(bags, y, groups=groups)
        assert all(len(set(folds[groups == group])) == 1 for group in set(groups))
    found = np.empty((3, 4))
    for fold in range(3):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        inner = made(book).fit(bags[train], y[train])
        for column, n in enumerate(inner.sizes_):
            coder = bs.BagOfWords(inner.codebook_at(n))
            model = bs.HistogramClassifier(C=4.0).fit(coder.transform(bags[train]), y[train])
            right = model.predict(coder.transform(bags[test])) == y[test]
            found[fold, column] = np.mean([right[y[test] == name].mean() for name in set(y)])
    table = path.estimate()
    assert path.estimate() is table
    assert [row.n_words for row in table] == path.sizes_
    np.testing.assert_allclose([row.accuracy for row in table], found.mean(axis=0))
    losses = (found[:, :1] - found).mean(axis=0)
    np.testing.assert_allclose([row.loss for row in table], losses, atol=1e-12)


def test_labels_that_mean_nothing_are_told_at_the_rate_of_chance():
    # The words are chosen for labels that are pure noise. On the bags that they were chosen by, the
    # regression does better than the classes' frequencies, whose squared leave-one-out error is
    # 2 (½ n / (n − 1))²; the estimate must not.
    accuracies, inside = [], []
    for seed in range(3):
        bags, _, book = scenes(n_each=40, n_classes=2, telling=0.0, seed=seed)
        y = np.random.default_rng(seed).permutation(np.arange(80) % 2)
        path = made(book, sizes=[6], repair=10, cv=3, random_state=seed).fit(bags, y)
        accuracies.append(path.estimate()[1].accuracy)
        inside.append(path.path_.stops[-1].score)
    chance = -2 * (0.5 * 80 / 79) ** 2
    assert np.mean(inside) > chance + 0.04
    # 240 bags were told apart, each class alike.
    assert abs(np.mean(accuracies) - 0.5) < 4 * np.sqrt(0.25 / 240)


def test_any_classifier_will_do(problem, path):
    bags, y, book = problem
    other = made(book, classifier=KNeighborsClassifier(1)).fit(bags, y)
    assert other.codebook_ == path.codebook_
    assert [row.accuracy for row in other.estimate()] != [row.accuracy for row in path.estimate()]
    assert not hasattr(other.classifier, "classes_")


def test_recommendations_follow_from_the_table(path):
    table = {row.n_words: row for row in path.estimate()}
    small = path.recommend(max_loss=max(row.loss + row.loss_se for row in table.values()))
    assert small.n_words == 3
    assert small.codebook == path.codebook_at(3)
    assert small.loss == table[3].loss
    assert small.ms_per_image > 0
    assert path.recommend(max_loss=0).n_words <= N_WORDS
    fitting = [row for row in table.values() if row.n_words <= 12]
    best = max(fitting, key=lambda row: (row.accuracy, -row.n_words))
    assert path.recommend(max_bytes=12 * 3 * 4).n_words == best.n_words
    best = max(table.values(), key=lambda row: (row.accuracy, -row.n_words))
    assert path.recommend(max_ms=1e6).n_words == best.n_words
    for limits, message in (
        ({}, "exactly one of max_loss, max_bytes and max_ms"),
        ({"max_loss": 0.1, "max_ms": 3}, "exactly one"),
        ({"max_ms": 0}, "met by no size; the best"),
    ):
        with pytest.raises(ParameterError, match=message):
            path.recommend(**limits)


def words_of(path):
    return [stop.kept.tolist() for stop in path.path_.stops]


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_the_same_on_any_number_of_threads(problem, coding):
    bags, y, book = problem
    options = {"coding": coding, "sizes": [12, 6], "repair": 1, "cv": 2}
    first, other = (made(book, n_jobs=n, **options).fit(bags, y) for n in (1, 2))
    assert words_of(other) == words_of(first)
    assert other.estimate() == first.estimate()


def test_killed_and_resumed_is_uninterrupted(problem, path, tmp_path, monkeypatch):
    bags, y, book = problem
    file = tmp_path / "path.partial"
    original, calls = module.eliminate, []

    def third_time_unlucky(*given, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*given, **options)

    monkeypatch.setattr(module, "eliminate", third_time_unlucky)
    with pytest.raises(KeyboardInterrupt):
        made(book, checkpoint=file).fit(bags, y, estimate=True)
    # The path and the first fold were done.
    left = sorted(found.name for found in tmp_path.iterdir())
    assert left == ["path.partial", "path.partial.fold0"]
    monkeypatch.setattr(module, "eliminate", original)
    again = made(book, checkpoint=file).fit(bags, y, estimate=True)
    assert again.estimate() == path.estimate()
    assert words_of(again) == words_of(path)
    remove_checkpoint(file)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_serves_its_problem_alone(problem, tmp_path, monkeypatch):
    bags, y, book = problem
    file = tmp_path / "path.partial"
    made(book, checkpoint=file, score=LeaveOneOut(), repair=9).fit(bags, y)
    with pytest.raises(MismatchError, match="its repair was 9"):
        made(book, checkpoint=file, score=LeaveOneOut()).fit(bags, y)
    # A score that has been used finds its checkpoint.
    used = LeaveOneOut()
    used.begin([0, 1, 0], 2).update(np.eye(3))
    monkeypatch.setattr("bowsaw.selection.elimination._Elimination.stop", None)
    again = made(book, checkpoint=file, score=used, repair=9).fit(bags, y)
    assert again.codebook_.n_words == 3


def test_paths_can_be_pickled_and_a_clone_has_nothing_learned(path):
    again = pickle.loads(pickle.dumps(path))
    assert again.codebook_at(7) == path.codebook_at(7)
    assert again.estimate() == path.estimate()
    for ask in (lambda: clone(path).codebook_at(3), lambda: clone(path).recommend(max_loss=0.1)):
        with pytest.raises(NotFittedError):
            ask()


def test_refined_words_are_moved_and_the_full_codebook_is_not(problem):
    bags, y, book = problem
    path = made(book, sizes=[6], refine=3, cv=2).fit(bags, y)
    small = path.codebook_at(6)
    assert path.codebook_at(N_WORDS) == book
    assert "refined" in small.provenance
    assert set(small.ids.tolist()) <= set(book.ids.tolist())
    assert not np.array_equal(small.words, book.only(small.ids).words)
    assert path.codebook_at(6) is small
    assert path.selection_at(6).certificate is None
    full, refined = path.estimate()
    assert full.loss == 0
    assert 0 <= refined.accuracy <= 1


def test_a_class_with_one_bag_or_bags_all_alike_have_a_path(problem):
    bags, y, book = problem
    rows = np.flatnonzero((y != "yew") | (np.arange(len(y)) == 2))
    path = made(book).fit(bags[rows], y[rows])
    assert path.codebook_at(5).n_words == 5
    with pytest.raises(DataError, match="at least 2 bags of each class"):
        path.estimate()
    path = made(book, cv=2).fit(bs.Bags.from_list([book.words] * 8), [0, 1] * 4)
    assert path.codebook_.n_words == 3
    assert all(row.accuracy == 0.5 for row in path.estimate())


def test_wrong_parameters_are_refused(problem):
    bags, y, book = problem
    for wrong, message in (
        ({"sizes": [99]}, "sizes must be an integer from 1 to 24"),
        ({"repair": -1}, "repair must be an integer of at least 0"),
        ({"refine": 0.5}, "refine must be an integer of at least 0"),
        ({"cv": 1}, "cv must be an integer of at least 2"),
        ({"score": "luck"}, "score must be one of"),
    ):
        with pytest.raises(ParameterError, match=message):
            made(book, **wrong).fit(bags, y)
