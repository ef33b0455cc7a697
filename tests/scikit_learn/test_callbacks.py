"""scikit-learn's callbacks: the tasks they observe, and what they may ask for."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import FitCallback, ScoringMonitor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from tests.contracts.estimators import ARRAYS, BAGS, IMAGES

import bowsaw as bs
from bowsaw.errors import Interrupted
from bowsaw.progress import Progress

Y = np.arange(20) % 2


def made_bags():
    random = np.random.default_rng(0)
    return bs.Bags.from_list([random.normal([2.0 * y, 0.0], 1.0, size=(20, 2)) for y in Y])


DATA = made_bags()
BOOK = bs.KMeansCodebook(8, max_iter=3, n_jobs=1, random_state=0).fit(DATA).codebook_


class Ear:
    """Records events; asks to stop, or is interrupted, at the end of a named task."""

    max_propagation_depth = None

    def __init__(self, stop=None, interrupt=None, after=1):
        self.observed = []
        self.stop, self.interrupt, self.after = stop, interrupt, after

    def _record(self, event, estimator, *task):
        self.observed.append((event, type(estimator).__name__, *task))

    def setup(self, estimator, context):
        self._record("setup", estimator)

    def teardown(self, estimator, context):
        self._record("teardown", estimator)

    def on_fit_task_begin(self, estimator, context):
        self._record("begin", estimator, context.task_name)

    def on_fit_task_end(self, estimator, context):
        self._record("end", estimator, context.task_name)
        done = self.names("end").count(context.task_name) >= self.after
        if context.task_name == self.interrupt and done:
            raise KeyboardInterrupt
        return context.task_name == self.stop and done

    def names(self, event):
        return [one[-1] for one in self.observed if one[0] == event]


def refinement(**parameters):
    start = bs.Annealing(BOOK, n_steps=6, n_jobs=1, random_state=0)
    usual = {"start": start, "n_steps": 4, "n_folds": 2, "n_jobs": 1, "random_state": 0}
    return bs.Refinement(BOOK, 3, **{**usual, **parameters})


@pytest.mark.parametrize("name", BAGS)
def test_every_fit_of_bags_begins_and_ends_and_is_the_same(name):
    values = np.random.default_rng(1).integers(0, 120, (240, 6)).astype(np.uint8)
    values[:120, :3] += 80
    bags = bs.Bags(values, np.arange(0, 241, 20), scale=512)
    y = np.repeat(["cat", "dog"], 6)
    ear = Ear()
    quiet, heard = (clone(BAGS[name]).set_params(n_jobs=1) for _ in range(2))
    heard.set_callbacks(ear).fit(bags, y)
    assert quiet.fit(bags, y).codebook_ == heard.codebook_
    kind = type(heard).__name__
    assert ear.observed[:2] == [("setup", kind), ("begin", kind, "fit")]
    assert ear.observed[-2:] == [("end", kind, "fit"), ("teardown", kind)]
    assert sorted(ear.names("begin")) == sorted(ear.names("end"))
    assert set(vars(heard)) - {"_skl_callbacks"} == set(vars(quiet))


@pytest.mark.parametrize("name", [*ARRAYS, *IMAGES])
def test_every_other_fit_begins_and_ends(name):
    ear = Ear()
    if name in IMAGES:
        clone(IMAGES[name]).set_callbacks(ear).fit()
    else:
        X = np.random.default_rng(0).dirichlet(np.ones(5), 20)
        model = clone(ARRAYS[name]).set_callbacks(ear).fit(X, Y)
        assert name != "classifier" or ear.names("end").count("fold") == model.cv
    assert ear.names("begin")[0] == ear.names("end")[-1] == "fit"


def test_steps_of_a_search_and_rounds_of_its_words():
    ear = Ear()
    words = bs.KMeansCodebook(6, max_iter=2, n_jobs=1, random_state=0)
    bs.Annealing(words, 3, n_steps=7, n_jobs=1).set_callbacks(ear).fit(DATA, Y)
    assert ear.observed[2] == ("begin", "KMeansCodebook", "fit")
    names = ear.names("begin")
    assert 1 <= names.count("round") <= 2
    assert [name for name in names if name != "round"][-8:] == ["annealing", *["step"] * 7]


def test_stages_of_a_refinement():
    ear = Ear()
    saw = refinement().set_callbacks(ear).fit(DATA, Y)
    stages = [one[1:] for one in ear.observed if one[0] == "begin" and one[-1] != "step"]
    # A delegated task is reported by the estimator that does it.
    start = [("Annealing", "fit"), ("Annealing", "annealing")]
    folds = [("Refinement", "fold"), *start] * 2
    last = [("Refinement", "refining")] * bool(saw.holdout_.n_steps)
    checking = ("Refinement", "checking how far")
    assert stages == [("Refinement", "fit"), *start, checking, *folds, *last]
    assert ear.observed.count(("end", "Refinement", "step")) == 2 * 4 + len(saw.errors_)


def test_stops_and_folds_of_a_path():
    ear = Ear()
    path = bs.PruningPath(BOOK, sizes=[5, 3], repair=0, cv=2, n_jobs=1).set_callbacks(ear)
    path.fit(DATA, Y, estimate=True)
    sizes = ["5 words", "3 words"]
    folds = ["fold", "8 words", *sizes] * 2
    assert ear.names("begin") == ["fit", "elimination", *sizes, "estimate", *folds]
    n_heard = len(ear.observed)
    path.recommend(max_bytes=10**6)
    assert len(ear.observed) == n_heard


def test_pipelines_and_searches_hand_callbacks_on():
    pipeline = make_pipeline(
        bs.Annealing(BOOK, 3, n_steps=3, n_jobs=1), bs.HistogramClassifier(cv=2)
    )
    ear = Ear()
    clone(pipeline).set_callbacks(ear).fit(DATA, Y)
    assert ear.names("end").count("step") == 3
    assert ear.names("end").count("fold") == 2
    assert [one for one in ear.observed if one[0] == "setup"] == [("setup", "Pipeline")]
    search, ear = GridSearchCV(pipeline, {"annealing__n_kept": [2, 3]}, cv=2), Ear()
    search.set_callbacks(ear).fit(DATA, Y)
    assert ear.names("end").count("step") == 3 * (2 * 2 + 1)


def test_a_monitor_scores_every_step():
    def right(saw, X, y):
        model = bs.HistogramClassifier(C=1.0)
        return model.fit(saw.transform(X), y).score(saw.transform(X), y)

    monitor = ScoringMonitor(scoring={"right": right})
    saw = bs.Annealing(BOOK, 3, n_steps=4, n_jobs=1).set_callbacks(monitor).fit(DATA, Y)
    rows = monitor.get_logs().data
    assert rows[0]["task_name"] == "fit"
    assert [row["task_name"] for row in rows].count("step") == 4
    assert rows[0]["right"] == right(saw, DATA, Y)
    assert all(0.5 <= row["right"] <= 1 for row in rows)


def test_k_means_stops_when_it_is_asked_and_a_path_ends():
    trainer = bs.KMeansCodebook(4, max_iter=50, n_jobs=1, random_state=0)
    asked = clone(trainer).set_callbacks(Ear(stop="round", after=2)).fit(DATA)
    assert asked.n_iter_ == 2
    two = trainer.set_params(max_iter=2).fit(DATA)
    assert np.array_equal(asked.codebook_.words, two.codebook_.words)
    path = bs.PruningPath(BOOK, sizes=[5, 3], repair=0, n_jobs=1, random_state=0)
    heard = clone(path).set_callbacks(Ear(stop="5 words")).fit(DATA, Y)
    assert heard.codebook_ == path.fit(DATA, Y).codebook_


def ended(selector, how):
    """Return the selection of a fit that a callback ends, and that of one that Ctrl-C does."""
    if how == "stop":
        return selector.fit(DATA, Y).selection_
    with pytest.raises(Interrupted) as caught:
        selector.fit(DATA, Y)
    assert not hasattr(selector, "selection_")
    return caught.value.so_far


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_a_search_that_is_ended_keeps_the_best_and_can_go_on(how, tmp_path):
    saw = bs.Annealing(BOOK, 3, n_steps=60, n_jobs=1, random_state=0)
    whole = clone(saw).fit(DATA, Y)
    saw.set_params(checkpoint=tmp_path / "search")
    ear = Ear(after=30, **{how: "step"})
    selection = ended(clone(saw).set_callbacks(ear), how)
    assert selection.parameters["n_steps"] == 30
    assert selection.final_score == max(whole.selection_.scores[:31])
    assert ear.observed[-1] == ("teardown", "Annealing")
    again = clone(saw).fit(DATA, Y)
    assert again.codebook_ == whole.codebook_
    assert again.selection_.scores == whole.selection_.scores


@pytest.fixture(scope="module")
def whole():
    with pytest.MonkeyPatch.context() as patch:
        # 8 bags are too few to show a gain: here the least error is enough.
        patch.setattr("bowsaw.selection.holdout.LEVEL", 2.9)
        yield refinement().fit(DATA, Y)


@pytest.mark.parametrize(
    ("how", "after"), [("stop", 3), ("interrupt", 14), ("stop", 20), ("interrupt", 29)]
)
def test_a_refinement_that_is_ended_has_words_and_can_go_on(whole, how, after, tmp_path):
    # Steps: 6 of the start; 6 and 4 in each of two folds; and those of the walk.
    assert whole.holdout_.n_steps >= 1
    saw = refinement(checkpoint=tmp_path / "words")
    ear = Ear(after=min(after, 26 + whole.holdout_.n_steps - 1), **{how: "step"})
    assert ended(clone(saw).set_callbacks(ear), how).codebook.n_words == 3
    assert ear.observed[-1] == ("teardown", "Refinement")
    assert clone(saw).fit(DATA, Y).codebook_ == whole.codebook_


def test_an_error_inside_leaves_nothing_behind():
    ear = Ear()
    saw = bs.Annealing(BOOK, 99, n_jobs=1).set_callbacks(ear)
    with pytest.raises(ValueError, match="n_kept"):
        saw.fit(DATA, Y)
    assert ear.observed[-1] == ("teardown", "Annealing")
    assert set(vars(saw)) - set(saw.get_params()) <= {"_skl_callbacks", "classes_"}
    assert saw.set_params(n_kept=3, n_steps=2).fit(DATA, Y).codebook_.n_words == 3


def test_nothing_is_drawn_twice(monkeypatch):
    shown = []
    begin = Progress.__init__

    def remember(self, label, total=None, show=True):
        shown.append(show)
        begin(self, label, total, show=False)

    monkeypatch.setattr(Progress, "__init__", remember)
    for estimator in (
        bs.Annealing(BOOK, 3, n_steps=2, coding="soft", verbose=True),
        refinement(verbose=True),
        bs.PruningPath(BOOK, sizes=[3], repair=0, cv=2, verbose=True),
        bs.KMeansAtSize(BOOK, 3, max_iter=2, verbose=True),
    ):
        options = {"estimate": True} if isinstance(estimator, bs.PruningPath) else {}
        for ears in ([], [Ear()]):
            shown.clear()
            clone(estimator).set_callbacks(*ears).fit(DATA, Y, **options)
            assert any(shown) == (not ears), estimator


def test_only_callbacks_are_taken():
    assert isinstance(Ear(), FitCallback)
    with pytest.raises(TypeError, match="FitCallback"):
        bs.Annealing(BOOK).set_callbacks(print)
