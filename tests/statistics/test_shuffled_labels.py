"""Labels that mean nothing: the intervals that commands print contain chance.

Images of three classes get shuffled labels, 100 times. Each interval is the one that the command
prints, made by the functions that it calls. A 95 % interval misses chance in about 5 of 100.
"""

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.evaluation.classifier import nested_accuracy

N_RUNS, LEAST, CHANCE = 100, 90, 1 / 3
N_EACH, N_WORDS = 20, 16


def shuffled(seed):
    """Return 60 bags whose descriptors differ by class, and labels that do not fit them."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(3), N_EACH)
    bags = [rng.normal(np.eye(3)[label], 1.0, size=(15, 3)) for label in truth]
    digests = np.arange(1, len(bags) + 1, dtype=np.uint64)
    return bs.Bags.from_list(bags, digests=digests), rng.permutation(truth)


def collection(seed):
    return bs.Collection("toys", *shuffled(seed), ("a", "b", "c"), codebook_images=5, train=8)


def contains_chance(mean, margin):
    return abs(mean - CHANCE) <= margin


def of_evaluate(seed, n_splits):
    run = bs.evaluate(collection(seed), n_words=N_WORDS, n_splits=n_splits, seed=seed, n_jobs=1)
    return [contains_chance(row["mean"], row["margin"]) for row in run.table()]


def of_compare(seed, folder):
    # Both methods choose their words by the labels of part train.
    methods = {"annealing": bs.Annealing(None, n_steps=20), "presence": None}
    how = {"n_words": N_WORDS, "sizes": [5], "n_splits": 3, "seed": seed, "n_jobs": 1}
    run = bs.compare(collection(seed), folder, methods=methods, **how)
    return [contains_chance(row["mean"], row["margin"]) for row in run.table()]


def of_folds(seed, folder):
    # As shrink does: words by the labels of all other folds, C by these folds.
    bags, y = shuffled(seed)
    toys = bs.Collection("toys", bags, y, ("a", "b", "c"), n_folds=5)
    methods = {"annealing": bs.Annealing(None, n_steps=20)}
    how = {"n_words": N_WORDS, "sizes": [5], "n_splits": 5, "seed": seed, "n_jobs": 1}
    run = bs.compare(toys, folder, methods=methods, **how)
    return [contains_chance(row["mean"], row["margin"]) for row in run.table()]


def of_fit(seed, C):
    bags, y = shuffled(seed)
    words = np.random.default_rng(seed).normal(0.3, 1.0, size=(N_WORDS, 3))
    X = bs.BagOfWords(words, n_jobs=1).transform(bags)
    classifier = bs.HistogramClassifier(C=C, n_jobs=1, random_state=seed)
    return [contains_chance(*nested_accuracy(classifier, X, y, seed=seed))]


def of_max_loss(seed):
    bags, y = shuffled(seed)
    book = bs.KMeansCodebook(N_WORDS, random_state=seed, n_jobs=1).fit(bags).codebook_
    path = bs.PruningPath(book, sizes=[10, 6, 4, 3], random_state=seed, n_jobs=1)
    found = path.fit(bags, y, estimate=True).recommend(max_loss=0.05)
    return [contains_chance(found.accuracy, found.accuracy_margin)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (of_evaluate, {"n_splits": 1}),
        (of_evaluate, {"n_splits": 3}),
        (of_compare, {}),
        (of_fit, {"C": "auto"}),
        (of_fit, {"C": 4.0}),
        (of_max_loss, {}),
        (of_folds, {}),
    ],
    ids=["evaluate, 1 split", "evaluate", "compare", "fit", "fit, C", "prune --max-loss", "shrink"],
)
def test_intervals_contain_chance(command, options, tmp_path):
    found = []
    for seed in range(N_RUNS):
        more = {"folder": tmp_path / str(seed)} if command in (of_compare, of_folds) else {}
        found.append(command(seed, **options, **more))
    n_inside = np.sum(found, axis=0)
    assert n_inside.min() >= LEAST, n_inside
