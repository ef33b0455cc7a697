"""Estimators of bags in scikit-learn's pipelines, folds and grids."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils import _safe_indexing, resample, shuffle
from tests.contracts.estimators import CODERS

import bowsaw as bs
from bowsaw.errors import ParameterError

BOOK = bs.Codebook(np.random.default_rng(5).integers(0, 200, (9, 6)), range(30, 39), scale=512)
LEARNER = bs.KMeansCodebook(8, max_iter=2, random_state=0)


def made_bags():
    random = np.random.default_rng(1)
    values = random.integers(0, 120, (900, 6)).astype(np.uint8)
    values[:450, :3] += 80
    about = {"description": {"name": "test"}, "digests": np.arange(30)}
    return bs.Bags(values, np.arange(0, 901, 30), scale=512, **about)


BAGS, Y = made_bags(), np.repeat(["cat", "dog"], 15)


class Watcher(TransformerMixin, BaseEstimator):
    """Returns its bags, and checks that nothing of them is lost."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        assert isinstance(X, bs.Bags)
        assert (X.scale, X.description, len(X.digests)) == (512, {"name": "test"}, len(X))
        return X


class Counted(bs.KMeansCodebook):
    """Records the bags that words were learned from."""

    fits: ClassVar[list[set[int]]] = []

    def fit(self, X, y=None):
        self.fits.append(set(X.digests.tolist()))
        return super().fit(X, y)


def test_scikit_learn_chooses_bags_as_it_chooses_rows():
    rows = np.array([4, 4, 0, 29])
    mask = np.isin(np.arange(30), rows)
    for index in (rows, rows.tolist(), mask, slice(2, 9, 3)):
        chosen = _safe_indexing(BAGS, index)
        assert isinstance(chosen, bs.Bags)
        assert chosen.digests.tolist() == np.arange(30)[index].tolist()
        assert chosen.scale == 512
    assert shuffle(BAGS, random_state=0).digests.tolist() == shuffle(range(30), random_state=0)
    assert len(resample(BAGS, n_samples=7, random_state=0)) == 7
    train, test, *labels = train_test_split(BAGS, Y, stratify=Y, random_state=0)
    for part, y in zip((train, test), labels, strict=True):
        assert Y[part.digests].tolist() == y.tolist()


@pytest.mark.parametrize("name", CODERS)
def test_pipelines_take_bags(name):
    pipeline = make_pipeline(Watcher(), clone(CODERS[name]), LinearSVC(C=100))
    assert cross_val_score(pipeline, BAGS, Y, cv=3, error_score="raise").mean() > 0.9
    pipeline.fit(BAGS, Y)
    assert clone(pipeline).fit(BAGS, Y).predict(BAGS).tolist() == pipeline.predict(BAGS).tolist()


def test_a_pipeline_can_end_in_a_table():
    names = BOOK.names().tolist()
    pipeline = make_pipeline(bs.KMeansCodebook(4, random_state=0), bs.BagOfWords(BOOK))
    with config_context(transform_output="pandas"):
        again = clone(pipeline).fit_transform(BAGS)
    table = pipeline.set_output(transform="pandas").fit_transform(BAGS)
    assert table.columns.tolist() == pipeline.get_feature_names_out().tolist() == names
    assert again.equals(table)
    assert pipeline.n_features_in_ == 6
    described = make_pipeline(bs.DenseSift(), bs.BagOfWords(BOOK))
    assert described.get_feature_names_out().tolist() == names


def test_tables_everywhere_change_nothing():
    # Refinement checks itself, the path estimates: both code with transformers inside.
    start = bs.Annealing(n_steps=3, random_state=0)
    saws = [
        bs.Refinement(LEARNER, 3, start=start, n_steps=2, n_folds=1, random_state=0),
        bs.PruningPath(LEARNER, sizes=[4], repair=1, cv=2, refine=1, random_state=0),
    ]
    for saw in saws:
        plain = clone(saw).fit(BAGS, Y)
        with config_context(transform_output="pandas"):
            table = clone(saw).fit(BAGS, Y)
            columns = table.transform(BAGS)
            estimate = table.estimate() if isinstance(saw, bs.PruningPath) else None
        assert table.codebook_ == plain.codebook_
        np.testing.assert_array_equal(columns.to_numpy(), plain.transform(BAGS))
        assert estimate is None or estimate == plain.estimate()


def test_two_vocabularies_stand_side_by_side():
    union = FeatureUnion([("all", bs.BagOfWords(BOOK)), ("few", bs.Annealing(BOOK, 3, n_steps=5))])
    table = union.set_output(transform="pandas").fit_transform(BAGS, Y)
    assert table.shape == (30, 12)
    assert table.columns[0] == "all__word0030"
    assert sum(name.startswith("few__word") for name in table.columns) == 3


def test_a_pipeline_remembers_its_words(tmp_path):
    # With a memory, a second search over the classifier does not learn words again.
    Counted.fits.clear()
    coder = bs.BagOfWords(Counted(5, max_iter=2))
    pipeline = make_pipeline(coder, LinearSVC(), memory=str(tmp_path))
    for C in (0.1, 1.0, 10.0):
        pipeline.set_params(linearsvc__C=C).fit(BAGS, Y)
    assert Counted.fits == [set(range(30))]


def test_images_go_through_a_pipeline_to_a_class():
    random = np.random.default_rng(2)
    stripes = 255 * (np.arange(40) // 4 % 2).astype(np.uint8)
    noise = random.normal(0, 20, (24, 40, 40))
    images = [
        np.clip((stripes if i % 2 else stripes[:, None]) + noise[i], 0, 255) for i in range(24)
    ]
    images = [image.astype(np.uint8) for image in images]
    y = np.arange(24) % 2
    saw = bs.Annealing(bs.KMeansCodebook(20, random_state=0), n_kept=5, n_steps=20)
    pipeline = make_pipeline(bs.DenseSift(), saw, bs.HistogramClassifier())
    assert pipeline.fit(images[:12], y[:12]).score(images[12:], y[12:]) == 1


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_grid_search_chooses_words_sharpness_score_and_size(n_jobs):
    learner = bs.KMeansCodebook(max_iter=2, n_jobs=1, random_state=0)
    saw = bs.Annealing(learner, n_steps=4, coding="soft", n_jobs=1)
    pipeline = make_pipeline(saw, bs.HistogramClassifier(C=4.0))
    names = ("codebook__n_words", "sharpness", "score", "n_kept")
    values = ([6, 8], [80.0], ["leave-one-out", "relevance"], [3])
    grid = {f"annealing__{name}": value for name, value in zip(names, values, strict=True)}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise", n_jobs=n_jobs).fit(BAGS, Y)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 4
    # One of them by hand: words, choice and classifier by the training bags of each fold alone.
    chosen = {"n_steps": 4, "coding": "soft", "sharpness": 80.0, "score": "relevance"}
    rights = []
    for train, test in StratifiedKFold(2).split(np.zeros(len(Y)), Y):
        book = clone(LEARNER).fit(BAGS[train]).codebook_
        saw = bs.Annealing(book, 3, **chosen).fit(BAGS[train], Y[train])
        model = bs.HistogramClassifier(C=4.0).fit(saw.transform(BAGS[train]), Y[train])
        rights.append(model.score(saw.transform(BAGS[test]), Y[test]))
    asked = dict(zip(grid, (8, 80.0, "relevance", 3), strict=True))
    place = search.cv_results_["params"].index(asked)
    assert scores[place] == pytest.approx(np.mean(rights))


def test_a_grid_search_over_whole_methods():
    saws = [kind(LEARNER, 3) for kind in (bs.RandomSubset, bs.PresenceRanking, bs.Bottleneck)]
    pipeline = Pipeline([("saw", saws[0]), ("classify", LinearSVC(C=100))])
    search = GridSearchCV(pipeline, {"saw": saws, "saw__n_kept": [2, 4]}, cv=2, error_score="raise")
    search.fit(BAGS, Y)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_estimator_["saw"].n_features_out_ == search.best_params_["saw__n_kept"]


def test_a_clusterer_of_arrays_learns_no_words_of_bags():
    fitted = KMeans(3, n_init=1).fit(np.concatenate(list(BAGS)))
    for kind in (bs.BagOfWords, bs.PresenceRanking):
        with pytest.raises(ParameterError, match=r"got KMeans, which learns from an array"):
            kind(fitted).fit(BAGS, Y)


def test_a_path_of_learned_words_learns_them_again_in_every_fold():
    fits, everything = Counted.fits, set(range(30))
    fits.clear()
    path = bs.PruningPath(Counted(8, max_iter=2), sizes=[4], repair=0, cv=3).fit(BAGS, Y)
    assert [row.n_words for row in path.estimate()] == [8, 4]
    assert fits[0] == everything
    held = [everything - rows for rows in fits[1:]]
    assert (len(held), set.union(*held), sum(map(len, held))) == (3, everything, 30)
