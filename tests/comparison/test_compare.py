"""The experiment engine: cells, resuming, workers, a user's own method, a given codebook."""

import multiprocessing
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.made import timeless, toys

import bowsaw as bs
from bowsaw.checkpoint import NpzReader, exclusive
from bowsaw.comparison.cell import Experiment
from bowsaw.comparison.methods import METHODS, resolve_methods
from bowsaw.comparison.records import Key, codebook_path, key_of
from bowsaw.comparison.workers import WorkerError
from bowsaw.errors import BusyError, DataError, LeakError, MismatchError, ParameterError

SETTINGS = {"n_words": [16, 8], "sizes": [3, 6], "coding": ["hard", "soft"], "n_splits": 2}
SETTINGS |= {"methods": ["random", "bottleneck", "kmeans"], "raw": None, "n_jobs": 1}
SMALL = {"n_words": 16, "sizes": [3], "methods": ["random"], "n_splits": 1, "n_jobs": 1}
N_CELLS = 2 * 2 * 2 * (1 + 3 * 2)
"""Two full codebooks, two codings, two splits; all words, and three methods at two sizes."""


class Killed(BaseException):
    """Stands for a kill."""


def killer(n_before):
    def kill(step):
        if step.n_done == n_before:
            raise Killed

    return kill


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "run"
    return bs.compare(toys(), folder, **SETTINGS), folder


def test_every_cell_is_there_once_and_says_what_it_codes_with(complete):
    cells = complete[0].cells
    assert len(cells) == len({key_of(cell) for cell in cells}) == N_CELLS
    for cell in cells:
        expected = cell["full_words"] if cell["codes_with"] == "full" else cell["size"]
        assert cell["n_coding_words"] == expected
        assert cell["codebook_bytes"] == expected * 4 * 4
        assert cell["codes_with"] == METHODS[cell["method"]].codes_with
        assert cell["n_test"] == sum(map(sum, cell["results"]["sqrt"]["confusion"])) == 12
        assert (cell["sharpness"] is None) == (cell["coding"] == "hard")
        assert (cell["answers"] is None) == (cell["split"] > 0)


def test_evaluate_is_the_same_experiment_without_methods(complete):
    where = {"method": "full", "full_words": 16, "coding": "hard"}
    run = bs.evaluate(toys(), n_words=16, n_splits=2, n_jobs=1)
    for mapping in ("sqrt", "raw"):
        found = complete[0].accuracies(mapping, **where)
        assert found.tolist() == run.accuracies(mapping).tolist()


def test_sharing_changes_nothing(complete, tmp_path):
    key = Key("toys", 1, "soft", 16, "random", 3)
    cell = next(cell for cell in complete[0].cells if key_of(cell) == key)
    methods, raw = resolve_methods(["random"]), frozenset(["random"])
    alone = Experiment(tmp_path, {"toys": toys()}, methods, 0, 40.0, raw=raw).split("toys", 1)
    assert timeless([alone.measure(key)]) == timeless([cell])


def test_pruned_codebooks_and_samples_are_kept(complete):
    run, folder = complete
    for cell in run.cells:
        path = codebook_path(folder, key_of(cell))
        kept = cell["codes_with"] == "pruned" or (cell["method"] == "full" and not cell["split"])
        assert path.exists() == kept
        if kept:
            assert bs.load(path).n_words == cell["size"]
    with NpzReader(folder / "samples" / "toys.npz") as samples:
        # The first of each class, then the others, up to 14 per class: there are 4.
        assert samples["labels"].tolist() == [0, 1, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert samples["offsets"][-1] == len(samples["descriptors"]) == 12 * 25
    assert bs.write_page(folder).exists()


@pytest.mark.parametrize(
    ("n_before", "n_workers"), [(1, 1), (20, 1), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_an_interrupted_run_ends_with_the_same_records(complete, tmp_path, n_before, n_workers):
    more = {**SETTINGS, "n_jobs": 2, "n_workers": n_workers}
    before = set(multiprocessing.active_children())
    with pytest.raises(Killed):
        bs.compare(toys(), tmp_path, on_cell=killer(n_before), **more)
    with (tmp_path / "cells.jsonl").open("ab") as file:
        file.write(b'{"set": "to')
    steps = []
    run = bs.compare(toys(), tmp_path, on_cell=steps.append, **more)
    assert timeless(run.cells) == timeless(complete[0].cells)
    assert len(steps) == N_CELLS - n_before
    assert steps[-1].seconds_left == 0.0
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.slow
def test_a_worker_that_is_killed_is_reported(tmp_path):
    def kill(step):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(WorkerError, match="-9 means that the system killed it"):
        bs.compare(toys(), tmp_path, on_cell=kill, **{**SETTINGS, "n_jobs": 2, "n_workers": 2})


def test_methods_sizes_splits_and_sets_are_added_to_a_run(tmp_path):
    first = bs.compare(toys(), tmp_path, **SMALL)
    more = {**SMALL, "methods": ["farthest"], "sizes": [5], "n_splits": 2}
    run = bs.compare([toys(), toys("plums", shift=2.0)], tmp_path, **more)
    assert len(run.cells) == 2 + 1 + 2 + 4
    assert [cell for cell in run.cells if cell in first.cells] == first.cells
    assert list(run.about["sets"]) == ["toys", "plums"]
    assert list(run.about["methods"]) == ["full", "random", "farthest"]
    assert run.about["parameters"]["sizes"] == [3, 5]


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"seed": 1}, "its seed was 0 and is 1"),
        ({"kmeans": {"max_iter": 2}}, "its kmeans was {} and is"),
        ({"raw": ["random"]}, "its raw was"),
        ({"methods": {"random": bs.FarthestPoint(None)}}, "its method random was"),
    ],
)
def test_finished_cells_are_never_dropped(tmp_path, changed, difference):
    bs.compare(toys(), tmp_path, **SMALL)
    before = (tmp_path / "cells.jsonl").read_bytes()
    with pytest.raises(MismatchError, match=difference):
        bs.compare(toys(), tmp_path, **{**SMALL, **changed})
    assert (tmp_path / "cells.jsonl").read_bytes() == before
    run = bs.compare(toys(), tmp_path, overwrite=True, **{**SMALL, **changed})
    assert len(run.cells) == 2


def test_folders_that_are_not_this_run_are_refused(tmp_path):
    bs.compare(toys(), tmp_path / "run", **SMALL)
    with pytest.raises(MismatchError, match="its set toys was different"):
        bs.compare(toys(shift=3.0, n_each=15), tmp_path / "run", **SMALL)
    with exclusive(tmp_path / "run"), pytest.raises(BusyError, match="another process"):
        bs.compare(toys(), tmp_path / "run", **SMALL)
    (tmp_path / "cells.jsonl").write_text("{}\n")
    with pytest.raises(ParameterError, match=r"no run\.json"):
        bs.compare(toys(), tmp_path, **SMALL)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sizes": []}, "sizes must hold at least one"),
        ({"sizes": [16]}, "below that of every full codebook"),
        ({"methods": ["sorcery"]}, "got sorcery"),
        ({"methods": {"given": bs.RandomSubset(None)}}, "a method's name"),
        ({"methods": {"mine": bs.RandomSubset}}, "must be an estimator"),
        ({"coding": "medium"}, "coding must be"),
        ({"n_splits": 0}, "n_splits"),
        ({"n_words": 0}, "n_words"),
        ({"sharpness": float("nan")}, "sharpness"),
        ({"kmeans": {"n_words": 3}}, "kmeans may set"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, wrong, message):
    with pytest.raises(ParameterError, match=message):
        bs.compare(toys(), tmp_path / "run", **{**SMALL, **wrong})


def test_sets_are_checked_before_any_work(tmp_path):
    with pytest.raises(
        DataError, match="has 14 images, and a split of 12/5/rest needs at least 18 per"
    ):
        bs.compare(replace(toys(), codebook_images=12), tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ParameterError, match="a name of its own"):
        bs.compare([toys(), toys()], tmp_path, **SMALL)
    with pytest.raises(ParameterError, match="usable as a file name"):
        toys("../toys")


class FirstWords:
    """Keep the first words."""

    def __init__(self, n_kept=1):
        self.codebook, self.n_kept = None, n_kept

    def fit(self, bags, y):
        self.codebook_ = self.codebook.only(self.codebook.ids[: self.n_kept])
        return self


def test_a_users_method_needs_only_fit_and_a_codebook(tmp_path):
    methods = {"mine": FirstWords(), "refinement": bs.Refinement(None, n_steps=3, n_folds=0)}
    run = bs.compare(toys(), tmp_path, **{**SMALL, "methods": methods})
    assert [cell["method"] for cell in run.cells] == ["full", "refinement", "mine"]
    assert run.cells[-1]["n_coding_words"] == 3
    about = run.about["methods"]
    assert about["mine"]["summary"] == "Keep the first words."
    assert about["refinement"]["parameters"]["n_steps"] == 3
    full = bs.load(codebook_path(tmp_path, key_of(run.cells[0])))
    mine = bs.load(codebook_path(tmp_path, key_of(run.cells[-1])))
    np.testing.assert_array_equal(mine.words, full.words[:3])


@pytest.mark.parametrize("name", [name for name in METHODS if name != "full"])
def test_every_method_of_the_registry_is_measured(tmp_path, name):
    run = bs.compare(toys(), tmp_path, **{**SMALL, "methods": [name]})
    assert run.cells[-1]["method"] == name
    trace = run.cells[-1]["trace"]
    assert (trace is not None) == (name in ("refinement", "annealing", "paper"))
    if trace is not None:
        assert len(trace["step"]) == len(trace["score"]) <= 200


def test_a_given_codebook_is_measured_and_checked_for_leaks(tmp_path):
    images = toys()
    run = Experiment(tmp_path, {"toys": images}, {}, 0, 40.0).split("toys", 0)
    split = run.split
    book = bs.KMeansCodebook(6, random_state=0).fit(images.bags[split.codebook]).codebook_
    found = bs.evaluate(images, tmp_path / "run", codebook=book, n_splits=1)
    (cell,) = found.cells
    assert (cell["method"], cell["size"], cell["split"]) == ("given", 6, 0)
    bs.write_page(tmp_path / "run")
    with pytest.raises(LeakError, match="test images of split 1"):
        bs.evaluate(images, codebook=book, n_splits=2)


@pytest.mark.parametrize("how", [{"perplexity": 2.0}, {"sharpness": "auto"}])
def test_methods_share_the_sharpness_that_the_full_codebook_has(tmp_path, how):
    options = {"methods": ["random", "annealing"], "n_words": 8, "sizes": [3], "coding": "soft"}
    images = toys()
    run = bs.compare(images, tmp_path / "run", **options, n_splits=2, n_jobs=1, **how)
    for index in (0, 1):
        cells = run.select(split=index)
        split = Experiment(tmp_path, {"toys": images}, {}, 0, 40.0).split("toys", index)
        coder = bs.BagOfWords(
            split.codebook(8), coding="soft", random_state=split.split.seed_for("coding"), **how
        )
        coder.fit(split.train_bags, split.train_labels)
        assert {cell["sharpness"] for cell in cells} == {coder.sharpness_}
        assert len(cells) == 3
    with pytest.raises(ParameterError, match="perplexity must be"):
        bs.compare(images, tmp_path / "other", **options, perplexity=0.0)
    assert not (tmp_path / "other").exists()


def test_sharpness_can_be_chosen_per_split_and_training_images_serve_for_codebooks():
    run = bs.evaluate(toys(), n_words=8, n_splits=2, coding="soft", perplexity=2.0, n_jobs=1)
    assert len({cell["sharpness"] for cell in run.cells}) == 2
    run = bs.evaluate(replace(toys(), codebook_images=0), n_words=8, n_splits=1, n_jobs=1)
    assert run.cells[0]["n_codebook"] == 0
    assert run.accuracies().shape == (1,)
