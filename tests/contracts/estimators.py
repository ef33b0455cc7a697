"""Every public estimator in small, by what it takes: histograms, bags or images.

The classes are found by walking the public names, so that a new one has to have contracts:
``test_public.py`` fails until it has an entry here.
"""

import cv2
import numpy as np
from sklearn.base import BaseEstimator

import bowsaw as bs

BOOK = bs.Codebook(np.random.default_rng(5).integers(0, 200, (9, 6)), range(30, 39), scale=512)
WORDS = bs.KMeansCodebook(9, max_iter=3, n_jobs=1, random_state=0)

ARRAYS = {
    "classifier": bs.HistogramClassifier(),
    "classifier, C given": bs.HistogramClassifier("raw", C=1.0, n_jobs=2),
}
CODERS = {
    "hard": bs.BagOfWords(BOOK),
    "hard, bare array": bs.BagOfWords(BOOK.words / 512),
    "hard, learned words": bs.BagOfWords(bs.KMeansCodebook(7, max_iter=5, random_state=0)),
    "soft": bs.BagOfWords(BOOK, coding="soft"),
    "soft, auto": bs.BagOfWords(BOOK, coding="soft", sharpness="auto"),
    "soft, perplexity": bs.BagOfWords(BOOK, coding="soft", perplexity=3.0),
}
SELECTORS = {
    "random subset": bs.RandomSubset(BOOK, 4),
    "farthest point": bs.FarthestPoint(BOOK, 4),
    "coverage": bs.Coverage(BOOK, 4),
    "k-means at size": bs.KMeansAtSize(BOOK, 4, max_iter=3),
    "presence": bs.PresenceRanking(BOOK, 4),
    "presence, recoded": bs.PresenceRanking(BOOK, 4, recode=True, coding="soft"),
    "bottleneck": bs.Bottleneck(BOOK, 4),
    "annealing": bs.Annealing(BOOK, 4, n_steps=20),
    "annealing of learned words": bs.Annealing(WORDS, 4, n_steps=20, coding="soft"),
    "refinement": bs.Refinement(BOOK, 4, start=bs.Annealing(BOOK, n_steps=5), n_steps=4, n_folds=1),
    "path": bs.PruningPath(BOOK, 4, sizes=[6, 3], cv=2),
    "path of learned words": bs.PruningPath(WORDS, sizes=[4]),
}
BAGS = {
    "k-means": bs.KMeansCodebook(7, max_iter=5, random_state=0),
    "k-means on a sample": bs.KMeansCodebook(7, max_iter=5, sample=100, random_state=0),
    **CODERS,
    **SELECTORS,
}
for _one in BAGS.values():
    _seeds = [name for name in _one.get_params() if name.endswith("random_state")]
    _one.set_params(**dict.fromkeys(_seeds, 0))
IMAGES = {
    "dense SIFT": bs.DenseSift(),
    "OpenCV features": bs.OpenCvFeatures(cv2.SIFT_create()),
}


def public_estimators() -> set[type]:
    """Return the public classes that are estimators, but for the base of selectors."""
    found = (getattr(bs, name) for name in bs.__all__ if name != "Selector")
    return {one for one in found if isinstance(one, type) and issubclass(one, BaseEstimator)}
