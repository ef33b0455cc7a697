from __future__ import annotations

import json

import numpy as np
import pytest

from bowsaw.bags import Bags
from bowsaw.checkpoint import short_digest
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, FormatError, LeakError, ParameterError
from bowsaw.evaluation import protocol
from bowsaw.evaluation.classify import DEFAULT_GRID, HistogramClassifier
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.evaluation.protocol import evaluate
from bowsaw.evaluation.result import Evaluation
from bowsaw.images.split import split_by_class

CLASSES = ["bow", "saw", "tree"]
SIZE = {"n_words": 12, "codebook_images": 6, "train": 6, "splits": 3}


def planted(n_a_class=22, strength=0.6, seed=0):
    """Bags of three classes; ``strength`` is the share of descriptors from a class's own places."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(6, 4))
    own = rng.normal(size=(3, 2, 4))
    y = np.repeat(np.arange(3), n_a_class)
    arrays = []
    for label in y:
        n_own = rng.binomial(40, strength)
        centres = np.concatenate(
            [own[label, rng.integers(2, size=n_own)], shared[rng.integers(6, size=40 - n_own)]]
        )
        arrays.append((centres + 0.1 * rng.normal(size=(40, 4))).astype(np.float32))
    digests = [short_digest(array.tobytes()) for array in arrays]
    return Bags.from_list(arrays, digests=digests, description={"name": "planted"}), y


@pytest.fixture(scope="module")
def easy():
    return planted()


@pytest.fixture(scope="module")
def data():
    # So hard that accuracies lie between chance and 1, and equal ones mean something.
    return planted(strength=0.05)


@pytest.fixture(scope="module")
def result(data):
    return evaluate(*data, CLASSES, **SIZE)


def timeless(evaluation):
    return [
        {key: value for key, value in record.items() if key != "seconds"}
        for record in evaluation.records
    ]


# -- what it finds -------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["sqrt", "raw"])
def test_planted_classes_are_told_apart(easy, mapping):
    found = evaluate(*easy, CLASSES, **SIZE, mapping=mapping)
    assert found.mean(mapping) > 0.95
    assert found.confusion(mapping).sum() == 3 * 3 * 10


def test_shuffled_labels_are_at_chance(easy):
    bags, y = easy
    shuffled = np.random.default_rng(1).permutation(y)
    found = evaluate(bags, shuffled, CLASSES, **SIZE | {"splits": 6})
    for mapping in ("sqrt", "raw"):
        assert abs(found.mean(mapping) - 1 / 3) < 0.12


def test_soft_coding_and_a_chosen_sharpness(easy):
    soft = SIZE | {"splits": 1, "coding": "soft"}
    by_error = evaluate(*easy, CLASSES, **soft, sharpness="auto")
    assert by_error.mean("sqrt") > 0.95
    assert by_error.records[0]["sharpness"] in (10, 20, 40, 80, 160)
    by_perplexity = evaluate(*easy, CLASSES, **soft, perplexity=3.0)
    assert by_perplexity.mean("sqrt") > 0.95
    assert by_perplexity.records[0]["sharpness"] not in (10, 20, 40, 80, 160)
    assert evaluate(*easy, CLASSES, **soft).records[0]["sharpness"] == 40


def test_the_hard_collection_is_neither_chance_nor_certain(result):
    accuracies = [record["accuracy"] for record in result.records]
    assert 0.4 < min(accuracies) < max(accuracies) < 1
    assert len(set(accuracies)) > 2


def test_records_say_all(result):
    assert [(r["split"], r["mapping"]) for r in result.records] == [
        (i, m) for i in range(3) for m in ("sqrt", "raw")
    ]
    for record in result.records:
        assert (record["n_codebook"], record["n_train"], record["n_test"]) == (18, 18, 30)
        assert record["n_words"] == 12
        assert record["sharpness"] is None
        assert record["C"] in DEFAULT_GRID
        assert record["C_grid"] == list(DEFAULT_GRID)
        assert max(record["C_scores"]) == record["C_scores"][record["C_grid"].index(record["C"])]
        assert np.sum(record["confusion"]) == 30
        assert record["accuracy"] == pytest.approx(np.mean(record["class_accuracy"]))
        assert set(record["seconds"]) == {"codebook", "coding", "classifier"}
        assert min(record["seconds"].values()) > 0
    assert result.classes == tuple(CLASSES)
    assert result.parameters["codebook"]["n_words"] == 12
    assert result.parameters["coding"]["coding"] == "hard"
    assert result.data["n_images"] == 66


def test_equal_to_the_pipeline_written_out(data):
    # The same numbers from the parts themselves, so that the protocol is what it says.
    bags, y = data
    found = evaluate(bags, y, CLASSES, **SIZE, mapping="raw", seed=5)
    split = split_by_class(y, CLASSES, codebook=6, train=6, seed=5, index=2)
    words = KMeansCodebook(12, random_state=split.seed_for("kmeans"))
    book = words.fit(bags[split.codebook]).codebook_

    def code(rows):
        histograms = []
        for bag in bags[rows]:
            nearest = ((bag[:, None] - book.words) ** 2).sum(axis=2).argmin(axis=1)
            histograms.append(np.bincount(nearest, minlength=12) / len(bag))
        return np.array(histograms, dtype=np.float32)

    model = HistogramClassifier("raw").fit(
        code(split.train), y[split.train], code(split.codebook), y[split.codebook]
    )
    expected = mean_class_accuracy(y[split.test], model.predict(code(split.test)), 3)
    assert found.records[2]["accuracy"] == expected
    assert found.records[2]["C"] == model.C_
    assert found.records[2]["C_scores"] == model.scores_.tolist()


def test_a_given_c_is_used_as_it_is(data):
    found = evaluate(*data, CLASSES, **SIZE | {"splits": 1}, C=2.0)
    assert found.records[0]["C"] == 2.0
    assert found.records[0]["C_grid"] == found.records[0]["C_scores"] == []


def test_test_images_in_chunks_give_the_same(data, result, monkeypatch):
    monkeypatch.setattr(protocol, "TEST_CHUNK", 7)
    assert timeless(evaluate(*data, CLASSES, **SIZE)) == timeless(result)


def test_the_same_on_any_number_of_threads(data, result):
    assert timeless(evaluate(*data, CLASSES, **SIZE, n_jobs=1)) == timeless(result)
    assert timeless(evaluate(*data, CLASSES, **SIZE, n_jobs=3)) == timeless(result)


def test_the_seed_drives_everything(data, result):
    again = evaluate(*data, CLASSES, **SIZE, seed=0)
    other = evaluate(*data, CLASSES, **SIZE, seed=1)
    assert timeless(again) == timeless(result)
    assert again.fingerprint == result.fingerprint
    assert timeless(other) != timeless(result)
    assert other.fingerprint != result.fingerprint


def test_no_codebook_images_means_cross_validation_in_the_training_images(easy):
    found = evaluate(*easy, CLASSES, **SIZE | {"codebook_images": 0, "splits": 1})
    assert found.records[0]["n_codebook"] == 0
    assert found.records[0]["n_test"] == 48
    assert len(found.records[0]["C_scores"]) == len(DEFAULT_GRID)
    assert found.mean("sqrt") > 0.95


def test_one_mapping_alone_gives_its_own_numbers(data, result):
    alone = evaluate(*data, CLASSES, **SIZE, mapping="raw")
    assert alone.mappings == ["raw"]
    assert timeless(alone) == [r for r in timeless(result) if r["mapping"] == "raw"]


def test_further_parameters_reach_k_means(data):
    found = evaluate(*data, CLASSES, **SIZE | {"splits": 1}, kmeans={"max_iter": 2})
    assert found.parameters["codebook"]["max_iter"] == 2
    with pytest.raises(ParameterError, match=r"kmeans may set .*; got \['random_state'\]"):
        evaluate(*data, CLASSES, **SIZE, kmeans={"random_state": 1})


# -- a given codebook ----------------------------------------------------------------------------


def book_of(bags, rows):
    return KMeansCodebook(12, random_state=0).fit(bags[rows]).codebook_


def test_a_given_codebook_is_used_on_the_split_it_comes_from(easy):
    bags, y = easy
    split = split_by_class(y, CLASSES, codebook=6, train=6, seed=0)
    book = book_of(bags, split.codebook).without([3])
    found = evaluate(bags, y, CLASSES, codebook=book, codebook_images=6, train=6, splits=1)
    assert found.records[0]["n_words"] == 11
    assert found.mean("sqrt") > 0.9
    assert found.parameters["codebook"]["n_words"] == 11


def test_a_codebook_that_has_seen_test_images_is_refused(data):
    bags, y = data
    split = split_by_class(y, CLASSES, codebook=6, train=6, seed=0)
    book = book_of(bags, split.codebook)
    paths = [f"{CLASSES[label]}/{i:03}.png" for i, label in enumerate(y)]
    where = {"codebook": book, "codebook_images": 6, "train": 6, "paths": paths}
    with pytest.raises(
        LeakError, match=r"of the 30 test images of split 1 \(such as \w+/\d+\.png\)"
    ):
        evaluate(bags, y, CLASSES, **where, splits=2)
    with pytest.raises(LeakError, match="test images of split 0"):
        evaluate(bags, y, CLASSES, **where, splits=1, seed=1)


def test_a_codebook_without_a_past_gives_a_warning(data):
    bags, y = data
    words = np.random.default_rng(0).normal(size=(12, 4))
    with pytest.warns(UserWarning, match="does not say which images it was trained on") as caught:
        found = evaluate(bags, y, CLASSES, codebook=words, codebook_images=6, train=6, splits=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found.n_splits == 2


# -- interrupted and continued -------------------------------------------------------------------


class InterruptionError(Exception):
    pass


def stop_after(n):
    seen = []

    def on_split(records):
        seen.append(records[0]["split"])
        if len(seen) == n:
            raise InterruptionError

    return on_split


def test_continued_is_equal_to_uninterrupted(data, result, tmp_path):
    file = tmp_path / "result.json"
    with pytest.raises(InterruptionError):
        evaluate(*data, CLASSES, **SIZE, resume=file, on_split=stop_after(2))
    kept = Evaluation.from_json(file.read_text())
    assert kept.n_splits == 2
    told = []
    found = evaluate(*data, CLASSES, **SIZE, resume=file, on_split=told.append)
    assert timeless(found) == timeless(result)
    assert [records[0]["split"] for records in told] == [0, 1, 2]
    assert list(found.records[:4]) == list(kept.records)
    assert Evaluation.from_json(file.read_text()) == found
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_finished_splits_are_not_computed_again(data, tmp_path, monkeypatch):
    file = tmp_path / "result.json"
    first = evaluate(*data, CLASSES, **SIZE, resume=file)
    before = file.read_bytes()

    def never(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr(protocol._Stages, "run", never)
    assert evaluate(*data, CLASSES, **SIZE, resume=file) == first
    assert evaluate(*data, CLASSES, **SIZE | {"splits": 2}, resume=file).n_splits == 2
    assert file.read_bytes() == before
    with pytest.raises(AssertionError, match="computed again"):
        evaluate(*data, CLASSES, **SIZE | {"splits": 4}, resume=file)


@pytest.mark.parametrize(
    "change",
    [{"n_words": 11}, {"seed": 1}, {"C": 1.0}, {"coding": "soft"}, {"kmeans": {"max_iter": 3}}],
    ids=lambda change: next(iter(change)),
)
def test_another_experiment_starts_from_scratch(data, result, tmp_path, change):
    file = tmp_path / "result.json"
    file.write_text(result.to_json())
    found = evaluate(*data, CLASSES, **SIZE | {"splits": 1} | change, resume=file)
    assert found.fingerprint != result.fingerprint
    assert timeless(found) == timeless(evaluate(*data, CLASSES, **SIZE | {"splits": 1} | change))
    assert Evaluation.from_json(file.read_text()) == found


def test_other_data_or_another_version_start_from_scratch(data, result, tmp_path, monkeypatch):
    bags, y = data
    one = SIZE | {"splits": 1}
    assert evaluate(bags, y[::-1], CLASSES, **one).fingerprint != result.fingerprint
    assert evaluate(bags[::-1], y, CLASSES, **one).fingerprint != result.fingerprint
    monkeypatch.setattr(protocol, "__version__", "99")
    assert evaluate(bags, y, CLASSES, **one).fingerprint != result.fingerprint


def test_a_file_of_another_kind_is_not_overwritten(data, tmp_path):
    file = tmp_path / "notes.json"
    file.write_text(json.dumps({"dear": "diary"}))
    with pytest.raises(FormatError, match=r"notes\.json is not an evaluation"):
        evaluate(*data, CLASSES, **SIZE, resume=file)
    assert json.loads(file.read_text()) == {"dear": "diary"}


# -- what it refuses -----------------------------------------------------------------------------


def test_too_few_images_or_a_missing_class(data):
    bags, y = data
    with pytest.raises(
        DataError, match=r"class 'bow' has 22 images, and a split needs at least 23"
    ):
        evaluate(bags, y, CLASSES, **SIZE | {"codebook_images": 11, "train": 11})
    with pytest.raises(DataError, match="class 'none' has 0 images"):
        evaluate(bags, y, [*CLASSES, "none"], **SIZE)
    with pytest.raises(DataError, match="y must be between 0 and 1"):
        evaluate(bags, y, CLASSES[:2], **SIZE)
    with pytest.raises(DataError, match=r"y must have one entry a bag \(66\); got 65"):
        evaluate(bags, y[1:], CLASSES, **SIZE)
    with pytest.raises(DataError, match="got 1"):
        evaluate(bags, 0, CLASSES, **SIZE)
    with pytest.raises(DataError, match=r"paths must have one entry a bag \(66\); got 1"):
        evaluate(bags, y, CLASSES, **SIZE, paths=["a.png"])
    with pytest.raises(DataError, match="at least 2 classes"):
        evaluate(bags[:22], y[:22], CLASSES[:1], **SIZE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"splits": 0}, "splits must be a whole number from 1 up; got 0"),
        ({"splits": 2.5}, "got 2.5"),
        ({"mapping": "log"}, r"mapping must name one or more of .*; got \['log'\]"),
        ({"mapping": ()}, "mapping must name"),
        ({"mapping": ["raw", "raw"]}, "each once"),
        ({"seed": -1}, "seed must be a whole number from 0 up"),
        ({"train": 0}, "train must be a whole number from 1 up"),
        ({"C": -1}, "C must be a finite number above 0"),
        ({"resume": "no such folder/result.json"}, "a folder that exists"),
        ({"resume": "."}, "must name a file"),
        ({"coding": "medium"}, "coding must be 'hard' or 'soft'"),
    ],
)
def test_bad_parameters_are_named_before_any_work_is_done(data, change, says, monkeypatch):
    monkeypatch.delattr(protocol._Stages, "run")
    with pytest.raises(ParameterError, match=says):
        evaluate(*data, CLASSES, **SIZE | change)


def test_more_words_than_descriptors(data):
    with pytest.raises(DataError, match="distinct descriptors"):
        evaluate(*data, CLASSES, **SIZE | {"n_words": 5000})


def test_a_codebook_of_other_descriptors_is_refused(data):
    book = Codebook(np.eye(5), trained_on=[10**9])
    with pytest.raises(ValueError, match="words of 5 dimensions, the bags descriptors of 4"):
        evaluate(*data, CLASSES, codebook=book, codebook_images=6, train=6, splits=1)
