"""Numbers that looked better than the truth."""

import re
import shlex
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.regressions import adapter
from tests.regressions.conftest import SIZES

import bowsaw as bs

ACCURACY = re.compile(r"accuracy:?\s+[01]?\.\d")


def test_fit_prints_no_accuracy_on_images_that_chose_the_words(bowsaw, made):
    how = (*adapter.PRUNE_ANNEALING, "--steps", 30, "--keep", 6, "-j", 1)
    how = (*how, *adapter.PART_ALL)
    assert bowsaw("prune", made.book_of_all, made.store, *how, "-o", "s.safetensors").code == 0
    fit = ("fit", "s.safetensors", made.store, *adapter.PART_ALL, "-j", 1, "-o", "m.safetensors")
    found = bowsaw(*fit)
    assert found.code == 0
    assert not ACCURACY.search(found.out + found.err)


def test_prune_refuses_a_split_that_the_codebook_does_not_know(bowsaw, made):
    how = (*adapter.PRUNE_ANNEALING, "--steps", 5, "--keep", 6, "-j", 1)
    shutil.copytree(made.store, "other.store")
    assert bowsaw("split", "other.store", SIZES, "--seed", 1).code == 0
    found = bowsaw("prune", made.book, "other.store", *how, "-o", "s.safetensors")
    assert found.code == 8


def follow(bowsaw, text):
    """Run the command that a message advises."""
    advised = shlex.split(text[text.rindex("bowsaw ") :])
    assert bowsaw(*advised[1:]).code == 0
    return advised


PRUNE = ("prune", "BOOK", "STORE", *adapter.PRUNE_ANNEALING, "--steps", 5, "--keep", 6)


@pytest.mark.parametrize(
    ("words", "sizes", "seed"),
    [
        ((*PRUNE, "-o", "o.safetensors"), SIZES, 1),
        ((*PRUNE, "-o", "o.safetensors"), "7/8/rest", 0),
        (("fit", "BOOK", "STORE", "-o", "o.safetensors"), SIZES, 1),
        (("encode", "BOOK", "STORE", "--part", "train", "-o", "o.npz"), SIZES, 1),
        (("evaluate", "STORE", "--codebook", "BOOK"), SIZES, 1),
        (("evaluate", "STORE", "--codebook", "BOOK"), "8/7/rest", 0),
    ],
)
def test_another_split_is_refused_with_advice_that_works(bowsaw, made, words, sizes, seed):
    store = Path("other.store")
    shutil.copytree(made.store, store)
    assert bowsaw("split", store, sizes, "--seed", seed).code == 0
    files = {"BOOK": made.book, "STORE": store}
    words = [files.get(str(word), word) for word in words]
    found = bowsaw(*words)
    assert (found.code, found.out) == (8, "")
    assert list(Path().iterdir()) == [store]
    follow(bowsaw, found.err)
    assert bowsaw(*words).code == 0


def test_a_codebook_of_all_images_is_refused_for_a_part_with_advice_that_works(bowsaw, made):
    how = (*adapter.PRUNE_ANNEALING, "--steps", 5, "--keep", 6, "-j", 1)
    book = Path("all.safetensors")
    shutil.copy(made.book_of_all, book)
    by_all = (*how, *adapter.PART_ALL, "-o", "s.safetensors")
    assert bowsaw("prune", made.book, made.store, *by_all).code == 0
    for words in (
        ("prune", book, made.store, *how, "-o", "o.safetensors"),
        ("fit", book, made.store, "-o", "o.safetensors"),
        ("evaluate", made.store, "--codebook", book),
        # Its own split is known, but all images have chosen its words.
        ("evaluate", made.store, "--codebook", "s.safetensors"),
    ):
        found = bowsaw(*words)
        assert (found.code, found.out) == (8, "")
        trained = follow(bowsaw, found.err)[-1]
        assert bowsaw("evaluate", made.store, "--codebook", trained).code == 0


def test_fit_names_a_command_that_shows_a_true_accuracy(bowsaw, made):
    how = (*adapter.PRUNE_ANNEALING, "--steps", 5, "--keep", 6, "-j", 1)
    assert bowsaw("prune", made.book, made.store, *how, "-o", "s.safetensors").code == 0
    shutil.copy(made.book_of_all, "all.safetensors")
    for book, more, advised in (
        ("s.safetensors", (), "evaluate"),
        ("s.safetensors", adapter.PART_ALL, "evaluate"),
        ("all.safetensors", adapter.PART_ALL, "train"),
    ):
        found = bowsaw("fit", book, made.store, *more, "-j", 1, "-o", "m.safetensors")
        assert not ACCURACY.search(found.out)
        assert follow(bowsaw, found.out)[1] == advised


def test_the_headline_names_the_smallest_size_of_any_method(tmp_path):
    accuracies = {
        ("full", 0): [0.80, 0.80, 0.80],
        ("refinement", 10): [0.60, 0.60, 0.60],
        ("refinement", 50): [0.80, 0.80, 0.80],
        ("kmeans", 10): [0.79, 0.79, 0.79],
        ("kmeans", 50): [0.80, 0.80, 0.80],
    }
    page = bs.write_page(adapter.run_with(tmp_path / "run", accuracies, 200)).read_text("utf-8")
    assert re.findall(r'class="headline"><span>(\d+) words', page)[0] == "10"


def test_a_recommended_size_keeps_the_limit_with_its_standard_error():
    table = [(8, 0.80, 0.0, 0.0), (5, 0.795, 0.005, 0.02), (3, 0.70, 0.10, 0.02)]
    assert adapter.recommend(table, max_loss=0.01).n_words == 8


def test_the_recommended_size_for_a_budget_is_the_most_accurate():
    table = [(8, 0.80, 0.0, 0.01), (5, 0.75, 0.05, 0.01), (3, 0.79, 0.01, 0.01)]
    assert adapter.recommend(table, max_bytes=8 * 5).n_words == 3


def test_refinement_leaves_words_alone_where_labels_mean_nothing():
    n_moved = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bags = [rng.normal(size=(15, 3)) for _ in range(30)]
        y = rng.permutation(np.arange(30) % 2)
        start = bs.RandomSubset(None, 4, random_state=seed)
        book = bs.Codebook(rng.normal(size=(12, 3)))
        how = {"start": start, "n_steps": 20, "random_state": seed, "n_jobs": 1}
        n_moved += bs.Refinement(book, 4, **how).fit(bags, y).moved_ > 0
    assert n_moved <= 1


def test_the_test_of_two_methods_counts_the_codebook_images_and_both_sides(tmp_path):
    ours, theirs = [0.70, 0.74, 0.71], [0.72, 0.75, 0.76]
    accuracies = {("refinement", 10): ours, ("kmeans", 10): theirs}
    folder = adapter.run_with(tmp_path / "run", accuracies, 200)
    p, cell = adapter.p_of_difference(folder, "refinement", "kmeans")
    gaps = np.subtract(ours, theirs)
    share = 1 / 3 + cell["n_test"] / (cell["n_train"] + cell["n_codebook"])
    t = gaps.mean() / np.sqrt(share * gaps.var(ddof=1))
    assert p == pytest.approx(2 * stats.t.sf(abs(t), 2), rel=1e-9)


def test_the_paper_cools_from_its_first_move(toy):
    bags, y, book = toy
    found = bs.Annealing.paper(book, 5, random_state=0, n_jobs=1).fit(bags, y)
    assert found.temperatures_[0] == pytest.approx(0.9)
    assert len(found.temperatures_) == 99


def test_presence_on_soft_codes_is_refused_or_warned_about(toy):
    bags, y, book = toy
    how = {"score": "presence", "coding": "soft", "n_steps": 10, "random_state": 0, "n_jobs": 1}
    search = bs.Annealing(book, 5, **how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refused = adapter.is_refused(search.fit, bags, y)
    assert refused or caught


def test_presence_on_soft_codes_is_refused_wherever_it_is_used(bowsaw, made, toy):
    bags, y, book = toy
    soft = {"coding": "soft", "n_jobs": 1}
    path = bs.PruningPath(book, sizes=[5], score="presence", random_state=0, **soft)
    ranking = bs.PresenceRanking(book, 5, threshold=0.0, **soft)
    assert all(adapter.is_refused(one.fit, bags, y) for one in (path, ranking))
    assert bs.PresenceRanking(book, 5, **soft).fit(bags, y).word_scores_.any()
    for method in ("annealing", "elimination"):
        how = ("--method", method, "--score", "presence", "--coding", "soft", "--keep", 6)
        found = bowsaw("prune", made.book, made.store, *how, "-j", 1, "-o", "s.safetensors")
        assert found.code != 0
        assert "Use hard coding, another score" in found.err


def test_relevance_refuses_a_floor_below_rounding():
    assert adapter.is_refused(adapter.Relevance, floor=1e-17)


def test_chi2_is_one_measure_everywhere():
    # A word of one small class: its largest chi2 over the classes exceeds its mean by far.
    y = np.repeat([0, 1, 2, 3], [10, 10, 10, 3])
    has = np.zeros((33, 3), dtype=bool)
    has[:, 0] = True
    has[:10, 1], has[10:14, 1] = True, True
    has[30:, 2] = True
    rows = [np.eye(3)[one] for one in has]
    book = bs.Codebook(np.eye(3))
    ranked = adapter.ranking_by_chi2(book, 3).fit(rows, y).selection_.kept
    scores = adapter.word_scores(has.astype(float), y, measure="chi2")
    assert ranked.tolist() == np.argsort(-scores, kind="stable").tolist()


def test_more_groups_have_the_higher_score(toy):
    bags, y, book = toy
    few, many = (
        bs.Bottleneck(book, n, n_jobs=1).fit(bags, y).selection_.final_score for n in (3, 9)
    )
    assert many > few


def test_a_ranking_records_the_images_that_chose_its_words(toy):
    bags, y, book = toy
    found = bs.PresenceRanking(book, 5, n_jobs=1).fit(bags, y).selection_
    assert set(bags.digests.tolist()) <= set(adapter.images_seen(found).tolist())
    merged = bs.Bottleneck(book, 5, n_jobs=1).fit(bags, y)
    for found in (merged.selection_, merged.selection_at(3)):
        assert set(bags.digests.tolist()) <= set(adapter.images_seen(found).tolist())


def test_the_scores_of_annealing_and_refinement_have_two_names(toy):
    bags, y, book = toy
    how = {"random_state": 0, "n_jobs": 1}
    search = bs.Annealing(book, 5, n_steps=20, **how)
    moved = bs.Refinement(book, 5, start=search, n_steps=4, n_folds=0, **how).fit(bags, y)
    unmoved = bs.Refinement(book, 5, start=search, n_steps=0, **how).fit(bags, y)
    names = [one.selection_.parameters["score"] for one in (search.fit(bags, y), unmoved, moved)]
    assert names[0] == names[1] == "leave-one-out" != names[2]
    assert unmoved.selection_.final_score == search.selection_.final_score


def test_the_objective_of_kmeans_is_true_for_two_far_sites():
    rng = np.random.default_rng(0)
    sites = np.zeros((2, 64))
    sites[1, 0] = 2000.0
    centres = np.repeat(sites, 10, axis=0) + rng.normal(0, 1.0, (20, 64))
    rows = (np.repeat(centres, 50, axis=0) + rng.normal(0, 0.02, (1000, 64))).astype(np.float32)
    found = bs.KMeansCodebook(20, random_state=0, n_jobs=1).fit([rows])
    gaps = rows[:, None].astype(np.float64) - found.codebook_.words[None].astype(np.float64)
    truth = (gaps**2).sum(axis=2).min(axis=1).mean()
    assert found.objective_ == pytest.approx(truth, rel=0.01)


def test_kmeans_finds_tight_groups_at_far_sites():
    rng = np.random.default_rng(1)
    sites = np.zeros((2, 64))
    sites[1, 0] = 4000.0
    centres = np.repeat(sites, 10, axis=0) + rng.normal(0, 0.05, (20, 64))
    rows = (np.repeat(centres, 50, axis=0) + rng.normal(0, 1e-3, (1000, 64))).astype(np.float32)
    words = bs.KMeansCodebook(20, random_state=0, n_jobs=1).fit([rows]).codebook_.words
    found = ((centres[:, None] - words[None].astype(np.float64)) ** 2).sum(axis=2).argmin(axis=1)
    assert len(set(found.tolist())) >= 18


def test_the_entropy_of_a_narrow_beta_is_that_of_a_gaussian():
    a, b = 4e12, 6e12
    variance = a * b / ((a + b) ** 2 * (a + b + 1))
    gaussian = 0.5 * np.log(2 * np.pi * np.e * variance)
    assert adapter.beta_entropy(a, b) == pytest.approx(gaussian, abs=1e-3)


def test_one_far_word_does_not_slow_the_search():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(20_000, 32)).astype(np.float32)]
    words = rng.normal(size=(200, 32)).astype(np.float32)
    far = words.copy()
    far[7] *= 1000

    def seconds(book: np.ndarray) -> float:
        coder = bs.BagOfWords(bs.Codebook(book), n_jobs=1).fit(rows)
        coder.transform(rows)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            coder.transform(rows)
            times.append(time.perf_counter() - begin)
        return min(times)

    assert seconds(far) < 8 * seconds(words)
