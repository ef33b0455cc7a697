import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.base import SCORES, WordwiseScore, make_score

VARIANTS = [
    ("relevance", {}),
    ("relevance", {"floor": 0.01, "min_documents": 1}),
    *[("presence", {"measure": m, "threshold": 0.02}) for m in ("df", "chi2", "mi", "pmi")],
    ("leave-one-out", {}),
    ("leave-one-out", {"balanced": True}),
]
every_score = pytest.mark.parametrize(("name", "options"), VARIANTS)


def corpus(random, n_columns=6):
    return np.round(random.dirichlet(np.full(n_columns, 0.4), size=24), 2)


def assert_agree(score, found, fresh):
    if isinstance(score, WordwiseScore):
        assert found == fresh
    else:
        assert found == pytest.approx(fresh, rel=1e-9, abs=1e-12)


@every_score
@settings(max_examples=15)
@given(seed=st.integers(0, 2**31))
def test_any_history_gives_the_value_of_a_fresh_run(name, options, seed):
    random = np.random.default_rng(seed)
    labels, sizes = np.arange(24) % 3, random.integers(1, 200, size=24)
    live = corpus(random)
    score = make_score(name, **options).begin(labels, 3, sizes)
    score.update(live, [2])
    for _ in range(8):
        if random.uniform() < 0.3:
            before = live.shape[1]
            live = corpus(random, n_columns=int(random.integers(1, 32)))
            changed = None if live.shape[1] == before else [0]
        else:
            n_changed = int(random.integers(0, live.shape[1] + 1))
            changed = random.choice(live.shape[1], n_changed, replace=False)
            live[:, changed] = corpus(random, n_columns=live.shape[1])[:, changed]
        found = score.update(live, changed)
        fresh = make_score(name, **options).begin(labels, 3, sizes).update(live)
        assert np.isfinite(found)
        assert found == score.value
        assert_agree(score, found, fresh)


@every_score
def test_a_copy_goes_on_by_itself(name, options):
    random = np.random.default_rng(1)
    first, second = corpus(random), corpus(random)
    score = make_score(name, **options).begin(np.arange(24) % 3, 3).begin(np.arange(24) % 2, 2)
    before = score.update(first)
    saved = score.copy()
    mixed = first.copy()
    mixed[:, [0, 3]] = second[:, [0, 3]]
    moved = score.update(mixed, [0, 3])
    assert saved.value == before
    assert saved.update(first, []) == before
    assert_agree(saved, saved.update(mixed, [3, 0]), moved)


@every_score
def test_order_of_bags_words_classes_and_memory_does_not_matter(name, options):
    random = np.random.default_rng(2)
    histograms, labels = corpus(random).astype(np.float32), random.integers(0, 3, size=24)
    sizes = random.integers(1, 200, size=24)
    value = make_score(name, **options).begin(labels, 3, sizes).update(histograms.astype(float))
    rows, columns = random.permutation(24), random.permutation(6)
    permuted = histograms[rows][:, columns]
    for form in (permuted, np.asfortranarray(permuted), permuted[::-1][::-1]):
        form.setflags(write=False)
        other = make_score(name, **options).begin((2 - labels)[rows], 3, sizes[rows])
        assert other.update(form) == pytest.approx(value, rel=1e-9, abs=1e-9)


@every_score
def test_empty_classes_and_bags_are_accepted(name, options):
    random = np.random.default_rng(3)
    histograms = corpus(random)
    histograms[5:7] = 0
    labels = np.repeat([0, 2, 3], [1, 12, 11])
    score = make_score(name, **options).begin(labels, 5, np.where(histograms.any(axis=1), 50, 0))
    assert np.isfinite(score.update(histograms))
    alone = make_score(name, **options).begin(np.zeros(24, dtype=int), 1)
    assert np.isfinite(alone.update(histograms))


@pytest.mark.parametrize(("name", "options"), [v for v in VARIANTS if v[1].get("measure") != "df"])
def test_a_planted_set_is_better_than_any_other_of_its_size(name, options):
    random = np.random.default_rng(6)
    labels = np.arange(120) % 3
    noise = random.dirichlet(np.full(9, 3.0), size=120)
    informative = random.dirichlet(np.full(3, 3.0), size=120) + np.eye(3)[labels]
    informative[(random.uniform(size=(120, 3)) < 0.6) & (np.eye(3)[labels] == 0)] = 0
    all_words = np.concatenate([informative / 2, noise], axis=1) / 2
    score = make_score(name, **options).begin(labels, 3)
    planted = score.update(all_words[:, :3])
    for _ in range(20):
        chosen = random.choice(12, 3, replace=False)
        if set(chosen.tolist()) != {0, 1, 2}:
            assert score.update(all_words[:, chosen], None) < planted


@pytest.mark.parametrize("name", list(SCORES))
def test_a_score_follows_a_state(name):
    random = np.random.default_rng(7)
    bags = [random.normal(size=(30, 2)) + (i % 2) for i in range(20)]
    state = whatif(random.normal(size=(15, 2)) + 0.5, bags)
    labels = np.arange(20) % 2
    state.reset([0, 1, 2, 3, 4])
    score = make_score(name).begin(labels, 2, np.full(20, 30))
    score.update(state.histograms, state.changed)
    for out, in_ in (([1], [7]), ([0, 4], [9, 1]), ([2], []), ([], [2, 12])):
        state.swap(remove=out, add=in_)
        found = score.update(state.histograms, state.changed)
        fresh = make_score(name).begin(labels, 2, np.full(20, 30)).update(state.histograms)
        assert_agree(score, found, fresh)


def test_scores_are_made_by_name_or_copied():
    assert list(SCORES) == ["relevance", "presence", "leave-one-out"]
    score = make_score("presence", measure="df")
    again = make_score(score)
    assert again is not score
    assert again.measure == "df"
    for name, options, message in (
        ("accuracy", {}, "one of 'relevance', 'presence'"),
        ("presence", {"joint": True}, "it has measure, combine"),
        (score, {"measure": "mi"}, "for a score's name"),
    ):
        with pytest.raises(ParameterError, match=message):
            make_score(name, **options)


def test_what_does_not_fit_together_is_refused():
    score = make_score("presence")
    assert np.isnan(score.value)
    with pytest.raises(ParameterError, match="begin"):
        score.update(np.ones((2, 2)))
    each, within = "one integer per bag", "from 0 to 1"
    labels = {each: ([], [[0]], [0.5, 1.0]), within: ([-1, 0], [0, 2])}
    for message, wrong in ((message, y) for message, many in labels.items() for y in many):
        with pytest.raises(DataError, match=message):
            score.begin(wrong, 2)
    for sizes in ([1], [1, -1], [1, np.nan]):
        with pytest.raises(DataError, match="n_descriptors"):
            score.begin([0, 1], 2, sizes)
    score.begin([0, 1], 2)
    for shape in ((3, 2), (2, 0)):
        with pytest.raises(DataError, match="2 rows"):
            score.update(np.ones(shape))
    score.update(np.eye(2))
    with pytest.raises(ParameterError, match="columns from 0 to 1"):
        score.update(np.eye(2), [2])
