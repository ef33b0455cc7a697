"""Words and histograms of a cluster are those of one machine, to the bit."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.checkpoint import Checkpoint
from bowsaw.clustering import kmeans, rounds
from bowsaw.errors import DataError

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def result(fitted):
    numbers = fitted.objectives_, fitted.n_iter_, fitted.objective_
    return fitted.codebook_, fitted.counts_.tolist(), *numbers


@pytest.mark.parametrize(
    ("dtype", "sample", "n_components"),
    [("uint8", None, None), ("uint8", None, 3), ("float32", 150_000, 3)],
)
def test_the_words_are_the_same_to_the_bit(client, stores, dtype, sample, n_components):
    bags = stores[dtype].bags
    bags = bags[np.flatnonzero(bags.counts)]
    how = {"max_iter": 3, "tol": 0, "n_jobs": 1, "random_state": 0}
    learner = bs.KMeansCodebook(12, sample=sample, n_components=n_components, **how)
    here = clone(learner).fit(bags)
    there = clone(learner).set_params(parallel=client).fit(bags)
    assert result(there) == result(here)
    assert there.codebook_.provenance == here.codebook_.provenance
    coder = bs.BagOfWords(here.codebook_, n_jobs=1)
    on_cluster = clone(coder).set_params(parallel=client).transform(bags)
    np.testing.assert_array_equal(on_cluster, coder.transform(bags))


def test_empty_words_move_to_the_same_far_descriptors(client, stores, monkeypatch):
    bags = stores["float32"].bags
    start = np.repeat(bags[0][:1], 40, axis=0).astype(np.float32)
    monkeypatch.setattr(bs.KMeansCodebook, "_start", lambda *_: start.copy())
    learner = bs.KMeansCodebook(40, max_iter=3, tol=0, n_jobs=1, random_state=0)
    assert result(clone(learner).set_params(parallel=client).fit(bags)) == result(learner.fit(bags))


def die_in_the_middle(calls):
    """Let this worker die when it has summed so many parts."""
    sum_part = rounds.sum_part

    def deadly(*arguments):
        nonlocal calls
        calls -= 1
        if calls < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return sum_part(*arguments)

    rounds.sum_part = deadly


def test_a_killed_worker_changes_no_word(client, stores):
    bags = stores["float32"].bags
    # A sample is what workers hold in their memory, so a dead one has more to lose.
    learner = bs.KMeansCodebook(9, max_iter=4, tol=0, sample=200_000, n_jobs=1, random_state=0)
    victim = min(client.nthreads())
    pid = client.run(os.getpid)[victim]
    client.run(die_in_the_middle, 10, workers=[victim])
    there = clone(learner).set_params(parallel=client).fit(bags)
    assert result(there) == result(learner.fit(bags))
    assert client.run(os.getpid).get(victim) != pid


@pytest.mark.parametrize("later", ["cluster", "threads"])
def test_what_was_interrupted_goes_on_here_and_there(client, stores, later, tmp_path, monkeypatch):
    bags = stores["uint8"].bags
    learner = bs.KMeansCodebook(9, max_iter=4, tol=0, n_jobs=1, random_state=0)
    expected = clone(learner).fit(bags)
    learner.set_params(checkpoint=tmp_path / "state")
    monkeypatch.setattr(kmeans, "Checkpoint", partial(Checkpoint, interval=-1.0))
    save = Checkpoint.save

    def save_and_stop(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            clone(learner).set_params(parallel=client).fit(bags)
    n_saved = []
    monkeypatch.setattr(Checkpoint, "save", lambda *_: n_saved.append(1))
    learner.set_params(parallel=client if later == "cluster" else None)
    assert result(learner.fit(bags)) == result(expected)
    # One round was done before, and nothing is saved after the last.
    assert len(n_saved) == 2


@pytest.mark.parametrize(("dtype", "coding"), [("uint8", "hard"), ("float32", "soft")])
def test_the_histograms_are_the_same_to_the_bit(client, stores, dtype, coding, monkeypatch):
    monkeypatch.setattr("bowsaw.parallel.dask.LEAST_BLOCK", 3)
    bags = stores[dtype].bags
    words = np.random.default_rng(0).random((20, 4)).astype(np.float32) * 200
    bow = bs.BagOfWords(bs.Codebook(words, scale=bags.scale), coding=coding, n_jobs=1)
    found = []
    for coder in (bow, clone(bow).set_params(parallel=client)):
        with pytest.warns(UserWarning, match="1 of 19 bags have no descriptors"):
            found.append(coder.transform(bags))
    assert np.array_equal(*found)


def test_a_sharpness_is_chosen_alike(client, stores):
    bags, y = stores["uint8"].bags[3:], stores["uint8"].y[3:]
    book = bs.Codebook([[0, 0, 0, 0], [90, 90, 0, 0], [9, 9, 90, 200]], scale=bags.scale)
    here = bs.BagOfWords(book, coding="soft", sharpness="auto", n_jobs=1)
    there = clone(here).set_params(parallel=client)
    assert here.fit(bags, y).sharpness_ == there.fit(bags, y).sharpness_


@pytest.mark.parametrize(
    "estimator", [bs.KMeansCodebook(2, random_state=0), bs.BagOfWords([[0.0], [1.0]])]
)
def test_bags_in_memory_are_refused_and_clones_share_the_client(client, estimator):
    estimator = clone(estimator).set_params(parallel=client)
    twin = clone(estimator)
    assert twin.parallel is estimator.parallel is twin.get_params()["parallel"] is client
    use = getattr(twin, "transform" if hasattr(twin, "codebook") else "fit")
    with pytest.raises(DataError, match="these 1 bags are in the memory of this process"):
        use([np.array([[0.0], [1.0], [2.0]])])
