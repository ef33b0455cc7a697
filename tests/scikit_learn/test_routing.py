"""Groups and other metadata through pipelines and searches, by scikit-learn's rules of routing.

As in ``sklearn/tests/test_metaestimators_metadata_routing.py``: an estimator that requests metadata
gets it, one that refuses does not, and one without a request is an error.
"""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

import bowsaw as bs
import bowsaw.selection.refinement
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.selection.holdout import N_PARTS
from bowsaw.selection.routing import of_rows

N = 32
GROUPS = np.array([f"place {i // 2}" for i in range(N)])
Y = np.arange(N) // 2 % 2


def made_bags():
    random = np.random.default_rng(3)
    bags = [random.normal([1.5 * label, 0.0], 1.0, size=(20, 2)) for label in Y]
    return bs.Bags.from_list(bags, digests=np.arange(N))


BAGS = made_bags()
BOOK = bs.KMeansCodebook(8, max_iter=3, n_jobs=1, random_state=0).fit(BAGS).codebook_
HISTOGRAMS = bs.BagOfWords(BOOK).transform(BAGS)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


class Start(bs.RandomSubset):
    """A start that records its metadata and bags."""

    observed: ClassVar[list] = []

    def fit(self, X, y=None, *, groups=None, sample_weight=None):
        self.observed.append((X.digests.tolist(), groups, sample_weight))
        return super().fit(X, y)


class Judge(bs.HistogramClassifier):
    """A classifier that records its metadata."""

    observed: ClassVar[list] = []

    def fit(self, X, y, *, groups=None, sample_weight=None):
        self.observed.append((len(X), groups, sample_weight))
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _forget():
    Start.observed.clear()
    Judge.observed.clear()


def refinement(**parameters):
    start = bs.RandomSubset(random_state=0)
    usual = {"start": start, "n_steps": 2, "n_folds": N_PARTS, "n_jobs": 1, "random_state": 0}
    return bs.Refinement(BOOK, 3, **{**usual, **parameters})


def path(**parameters):
    usual = {"sizes": [3], "repair": 0, "cv": 4, "n_jobs": 1, "random_state": 0}
    return bs.PruningPath(BOOK, **{**usual, **parameters})


def test_a_refinement_holds_out_whole_groups():
    for groups in (GROUPS, None):
        Start.observed.clear()
        refinement(start=Start(BOOK)).fit(BAGS, Y, groups=groups)
        # Once with all bags, then in each fold without those held out.
        assert len(Start.observed) == 1 + N_PARTS
        folds = [rows for rows, _, _ in Start.observed[1:]]
        held = [sorted(set(range(N)) - set(rows)) for rows in folds]
        assert all(held)
        shared = [set(GROUPS[a]) & set(GROUPS[b]) for a, b in zip(held, folds, strict=True)]
        # Without groups, places are split.
        assert any(shared) == (groups is None)
        assert all(given is None for _, given, _ in Start.observed)  # not requested


def test_a_classifier_chooses_c_on_whole_groups(monkeypatch):
    seen = []
    plain = bs.HistogramClassifier._train

    def train(self, rows, labels, costs):
        seen.append({row.tobytes() for row in np.asarray(rows)})
        return plain(self, rows, labels, costs)

    monkeypatch.setattr(bs.HistogramClassifier, "_train", train)
    # Bags of one place have one histogram, so that rows tell their place.
    X = np.random.default_rng(0).dirichlet(np.ones(8), N // 2)[np.arange(N) // 2]
    model = bs.HistogramClassifier(cv=4)
    model.fit(X, Y, groups=GROUPS)
    # Each fold's rows in full: no place has its second bag among those held out.
    assert [len(rows) for rows in seen[:-1]] == [N // 2 - 4] * 4
    seen.clear()
    model.fit(X, Y)
    assert max(len(rows) for rows in seen[:-1]) > N // 2 - 4


def test_groups_that_leave_nothing_to_learn_from_are_refused():
    for fit in (
        lambda groups: bs.HistogramClassifier().fit(HISTOGRAMS, Y, groups=groups),
        lambda groups: path().fit(BAGS, Y, groups=groups, estimate=True),
        lambda groups: refinement().fit(BAGS, Y, groups=groups),
    ):
        with pytest.raises(DataError, match=rf"groups must have one entry per bag \({N}\)"):
            fit(GROUPS[:-1])
    with pytest.raises(DataError, match=r"1 group|has 1"):
        bs.HistogramClassifier().fit(HISTOGRAMS, Y, groups=Y)


CONSUMERS = [(refinement(), BAGS), (path(), BAGS), (bs.HistogramClassifier(cv=2), HISTOGRAMS)]
ROUTERS = [(refinement, "start", Start(BOOK)), (path, "classifier", Judge(C=1.0))]


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(("estimator", "X"), CONSUMERS)
def test_groups_can_be_asked_for(estimator, X):
    assert clone(estimator).fit(X, Y, groups=GROUPS) is not None  # asked directly
    pipeline = make_pipeline("passthrough", clone(estimator))
    with pytest.raises(UnsetMetadataPassedError, match=r"\[groups\] are passed but are not explic"):
        pipeline.fit(X, Y, groups=GROUPS)
    for name in ("groups", "places"):
        asking = clone(estimator).set_fit_request(groups=True if name == "groups" else name)
        assert get_routing_for_object(asking).consumes("fit", [name]) == {name}
        assert make_pipeline("passthrough", asking).fit(X, Y, **{name: GROUPS}) is not None
    with pytest.raises(TypeError, match="groups"):
        make_pipeline("passthrough", asking).fit(X, Y, groups=GROUPS)


@pytest.mark.usefixtures("routing")
def test_a_search_hands_each_fold_its_groups():
    saw = refinement(start=Start(BOOK).set_fit_request(groups=True)).set_fit_request(groups=True)
    model = bs.HistogramClassifier(cv=2).set_fit_request(groups=True)
    grid, halves = {"refinement__n_kept": [3]}, StratifiedGroupKFold(2)
    search = GridSearchCV(make_pipeline(saw, model), grid, cv=halves, refit=False)
    search.set_params(error_score="raise").fit(BAGS, Y, groups=GROUPS)
    # In each of two halves: once with all its bags, then in each fold of the refinement.
    assert len(Start.observed) == 2 * (1 + N_PARTS)
    for rows, groups, _ in Start.observed:
        assert np.array_equal(groups, GROUPS[rows])


def test_without_routing_a_fold_has_no_groups():
    result = cross_validate(refinement(), BAGS, Y, cv=2, scoring=lambda *_: 0.0)
    assert len(result["test_score"]) == 2
    for make, part in ((refinement, "start"), (path, "classifier")):
        message = rf"sample_weight, and passes metadata on to its {part} only with enable_metadata"
        with pytest.raises(ParameterError, match=message):
            make().fit(BAGS, Y, sample_weight=np.ones(N))


@pytest.mark.parametrize(
    "made",
    [
        *(list, tuple, np.asarray, lambda v: pd.Series(v, index=np.arange(N) + 7)),
        *(lambda v: pd.DataFrame({"a": v}), lambda v: coo_array(v[:, None])),
    ],
    ids=["list", "tuple", "array", "indexed series", "frame", "coo"],
)
def test_an_entry_a_bag_is_chosen_from_any_container(made):
    values, rows = np.arange(N) + 0.5, np.array([5, 0, 5, N - 1])
    found = of_rows({"given": made(values)}, BAGS, rows)["given"]
    plain = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    assert plain.ravel().tolist() == values[rows].tolist()
    kind = type(made(values))
    assert isinstance(found, {tuple: list, coo_array: csr_array}.get(kind, kind))
    for value in ("x" * N, dict.fromkeys(range(N)), 3, None, np.array(3.0), np.ones(N + 1)):
        assert of_rows({"given": value}, BAGS, rows)["given"] is value
    for other in ("x" * N, dict.fromkeys(range(N)), 3, None, np.ones(N + 1)):
        assert of_rows({"given": other}, BAGS, rows)["given"] is other


@pytest.mark.usefixtures("routing")
def test_a_start_with_other_metadata_does_not_use_the_checkpoint(tmp_path):
    # The words that it had chosen were taken from the checkpoint, whatever its metadata.
    def tear(*_, **__):
        raise KeyError

    inner = Start(BOOK).set_fit_request(sample_weight=True)
    saw = refinement(start=inner, checkpoint=tmp_path / "words")
    weight = np.ones(N)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bowsaw.selection.refinement, "measure_holdout", tear)
        for _ in range(2):
            with pytest.raises(KeyError):
                clone(saw).fit(BAGS, Y, sample_weight=weight)
            assert len(Start.observed) == 1
        with pytest.raises(MismatchError, match="sample_weight"):
            clone(saw).fit(BAGS, Y, sample_weight=2 * weight)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(("make", "part", "inner"), ROUTERS)
def test_what_is_inside_gets_what_it_asks_for_and_of_its_bags(make, part, inner):
    def fit(inner, **metadata):
        inner.observed.clear()
        made = make(**{part: inner}).fit(BAGS, Y, **metadata)
        if make is path:
            made.estimate()
        return made

    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        fit(clone(inner), groups=GROUPS)
    # Without metadata there is nothing to route; fit once did not return.
    assert fit(clone(inner)) is not None
    quiet = clone(inner).set_fit_request(groups=False, sample_weight=False)
    fit(quiet, groups=GROUPS)
    assert {seen[1:] for seen in inner.observed} == {(None, None)}
    with pytest.raises(TypeError, match="colour"):
        fit(quiet, colour=GROUPS)
    weight = np.arange(N) + 0.5
    asking = clone(inner).set_fit_request(groups=True, sample_weight="weight")
    made = fit(asking, groups=GROUPS, weight=weight)
    assert inner.observed
    for _, groups, weights in inner.observed:
        rows = np.searchsorted(weight, weights)
        assert np.array_equal(groups, GROUPS[rows])
        assert np.array_equal(weights, weight[rows])
    for seen, _, weights in Start.observed:
        assert seen == np.searchsorted(weight, weights).tolist()
    router = get_routing_for_object(made)
    assert router.consumes("fit", ["groups", "weight", "colour"]) == {"groups", "weight"}
