"""The experiment: from bags and labels to an accuracy that can be trusted.

The problem: how good is a codebook? The answer is the mean per-class accuracy of a linear machine
on histograms of images that nothing has seen, repeated over random splits. For each split,

1. the images of each class are dealt into three disjoint parts: ``codebook_images`` for the
   codebook, ``train`` for the classifier, the rest to test;
2. a codebook is trained on the first part (or one is given and used for every split);
3. all parts are coded with it;
4. for each mapping of the histograms, C is chosen on the *codebook's* images, whose labels no
   selection of words has seen, and the machine is trained on the training images alone;
5. the test images are coded a few at a time and classified; only the predictions are kept.

Invariants:

- One seed drives everything. A split, its k-means start and its folds have streams of their own, so
  split 3 is the same whether four or ten splits are asked for, and on any number of threads.
- A test image never teaches. A given codebook that was trained on test images is refused. A
  picture that the collection holds twice may fall on both sides of a split; that is a property of
  the collection and of every codebook alike, and it is let pass.
- An interrupted experiment continues with the first split that it has not finished, and then
  equals an uninterrupted one in all but the seconds. It is recognised by its fingerprint, never by
  the presence of a file.

Where there are no codebook images (``codebook_images=0``), the codebook is trained on the training
images and C is chosen by cross-validation inside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.checkpoint import atomic_write, estimator_settings, fingerprint, regular_bytes
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError, FormatError, ParameterError
from bowsaw.evaluation.classify import MAPPINGS, HistogramClassifier, Mapped
from bowsaw.evaluation.fingerprint import data_digest, versions
from bowsaw.evaluation.leak import check_leaks
from bowsaw.evaluation.measures import class_accuracies, confusion
from bowsaw.evaluation.result import Evaluation, Record
from bowsaw.images.split import Split, split_by_class
from bowsaw.random_streams import check_seed

TEST_CHUNK = 1000
"""Test images that are coded at a time."""


def evaluate(
    bags: Bags | Iterable[ArrayLike],
    y: ArrayLike,
    classes: Sequence[str],
    *,
    n_words: int = 1000,
    codebook: Codebook | ArrayLike | None = None,
    codebook_images: int = 50,
    train: int = 50,
    splits: int = 5,
    first_split: int = 0,
    seed: int = 0,
    coding: Literal["hard", "soft"] = "hard",
    sharpness: float | Literal["auto"] | None = None,
    perplexity: float | None = None,
    mapping: Mapped | Sequence[Mapped] = MAPPINGS,
    C: float | Literal["auto"] = "auto",
    kmeans: Mapping[str, Any] | None = None,
    n_jobs: int | None = -1,
    verbose: bool = False,
    paths: Sequence[str | PathLike[str]] | None = None,
    resume: str | PathLike[str] | None = None,
    on_split: Callable[[list[Record]], None] | None = None,
) -> Evaluation:
    """Measure the mean per-class accuracy of a codebook over random splits.

    Parameters
    ----------
    bags : Bags or list of arrays
        The descriptors of every image.
    y : array-like of int, shape (n_bags,)
        The class of each image: a position in ``classes``.
    classes : sequence of str
        The names of the classes.
    n_words : int, default=1000
        Words of the codebook that each split trains. Not used when ``codebook`` is given.
    codebook : Codebook or array, optional
        A codebook to use for every split instead of training one. It is refused when it was
        trained on a split's test images.
    codebook_images : int, default=50
        Images of each class for the codebook and the choice of C. With 0, both use the training
        images (C by cross-validation).
    train : int, default=50
        Images of each class to train the classifier on; all others are test images.
    splits : int, default=5
        How many random splits.
    first_split : int, default=0
        The number of the first of them, such as that of the split that a codebook was trained on.
    seed : int, default=0
        Drives the splits, the codebooks and the folds.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are assigned to words.
    sharpness : float or "auto", optional
        Of soft coding, as in ``BagOfWords``; its default when None. "auto" chooses it for each
        split inside the training images.
    perplexity : float, optional
        Instead of a sharpness, as in ``BagOfWords``.
    mapping : {"sqrt", "raw"} or several of them, default=("sqrt", "raw")
        What is done to the histograms before the linear machine; each is evaluated.
    C : float or "auto", default="auto"
        As in ``HistogramClassifier``.
    kmeans : mapping, optional
        Further parameters of ``KMeansCodebook``, such as ``{"max_iter": 10}``.
    n_jobs : int, default=-1
        Threads; the result does not depend on it.
    verbose : bool, default=False
        Whether the stages show their progress.
    paths : sequence of path-like, optional
        The file of each bag, to name it in an error.
    resume : path-like, optional
        A JSON file. Each finished split is written to it, and splits that it already holds from
        the same experiment are not computed again.
    on_split : callable, optional
        Called with the records of each split as it is done (or found in ``resume``).

    Returns
    -------
    Evaluation
        The records of all splits.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 12)
    >>> bags = [rng.normal(3 * label, 1, size=(30, 2)) for label in y]
    >>> result = evaluate(bags, y, ["low", "high"], n_words=8, codebook_images=4, train=4, splits=2)
    >>> result.mean("sqrt")
    1.0
    >>> result.confusion("raw").tolist()
    [[8, 0], [0, 8]]
    """
    bags, labels = as_bags(bags), np.atleast_1d(np.asarray(y))
    wanted: list[Mapped] = [mapping] if isinstance(mapping, str) else list(mapping)
    _check(bags, labels, paths, wanted, splits, resume)
    if len(classes) < 2:
        raise DataError(
            f"an evaluation needs at least 2 classes; got {len(classes)}. Give images in one "
            "sub-folder a class."
        )
    first = check_seed(first_split, "first_split")
    drawn = [
        split_by_class(labels, classes, codebook=codebook_images, train=train, seed=seed, index=i)
        for i in range(first, first + splits)
    ]
    labels = labels.astype(np.int64)
    book = None if codebook is None else as_codebook(codebook)
    if book is not None:
        check_leaks(book, bags, drawn, paths)
    nothing = np.zeros((1, max(bags.n_dims, 1)))
    work: dict[str, Any] = {"n_jobs": n_jobs, "verbose": verbose}
    chosen: dict[str, Any] = {} if sharpness is None else {"sharpness": sharpness}
    stages = _Stages(
        _clusterer(n_words, kmeans or {}, work) if book is None else book,
        BagOfWords(nothing, coding=coding, perplexity=perplexity, **chosen, **work),
        [HistogramClassifier(name, C=C, n_jobs=n_jobs) for name in wanted],
    )
    # A wrong parameter should be told now, not after minutes of k-means.
    stages.coder.transform(bags[:0])
    stages.classifiers[0].validate()
    parameters = {
        "seed": check_seed(seed),
        "codebook_images": int(codebook_images),
        "train": int(train),
        "mapping": wanted,
        **stages.settings(),
    }
    data = {
        "digest": data_digest(bags, labels, classes),
        "n_images": len(bags),
        "n_descriptors": bags.n_descriptors,
        "n_dims": bags.n_dims,
    }
    name = fingerprint(parameters=parameters, data=data, bowsaw=__version__)
    known = _finished(resume, name)
    records: list[Record] = []
    result = Evaluation(records, tuple(classes), parameters, data, versions(), name)
    for split in drawn:
        new = split.index not in known
        done = stages.run(bags, labels, len(classes), split) if new else known[split.index]
        records.extend(done)
        if new and resume is not None:
            with atomic_write(resume) as file:
                file.write(result.to_json().encode())
        if on_split is not None:
            on_split(done)
    return result


@dataclass(frozen=True)
class _Stages:
    """The estimators that each split goes through; none of them is ever fitted itself."""

    book: Codebook | KMeansCodebook
    coder: BagOfWords
    classifiers: list[HistogramClassifier]

    def settings(self) -> dict[str, Any]:
        book = (
            {"n_words": self.book.n_words, "given": self.book.digest}
            if isinstance(self.book, Codebook)
            else estimator_settings(self.book)
        )
        return {
            "codebook": book,
            "coding": estimator_settings(self.coder),
            "classifier": estimator_settings(self.classifiers[0]),
        }

    def run(self, bags: Bags, y: NDArray[np.int64], n_classes: int, split: Split) -> list[Record]:
        seconds, watch = dict.fromkeys(("codebook", "coding"), 0.0), _Stopwatch()
        book = self._codebook(bags, split)
        seconds["codebook"] = watch.lap()

        coder = clone(self.coder).set_params(codebook=book, random_state=split.seed_for("coding"))
        coder.fit(bags[split.train], y[split.train])
        X = np.asarray(coder.transform(bags[split.train]))
        held: tuple[NDArray[Any], ...] = ()
        if len(split.codebook):
            held = (np.asarray(coder.transform(bags[split.codebook])), y[split.codebook])
        seconds["coding"] = watch.lap()

        models, spent = [], []
        for classifier in self.classifiers:
            model = clone(classifier).set_params(random_state=split.seed_for("classifier"))
            models.append(model.fit(X, y[split.train], *held))
            spent.append(watch.lap())

        guesses = np.empty((len(models), len(split.test)), dtype=np.int64)
        for start in range(0, len(split.test), TEST_CHUNK):
            chunk = slice(start, start + TEST_CHUNK)
            X = np.asarray(coder.transform(bags[split.test[chunk]]))
            seconds["coding"] += watch.lap()
            for i, model in enumerate(models):
                guesses[i, chunk] = model.predict(X)
                spent[i] += watch.lap()

        sharpness = coder.sharpness_in_use() if coder.coding == "soft" else None
        records = []
        for model, guess, own in zip(models, guesses, spent, strict=True):
            matrix = confusion(y[split.test], guess, n_classes)
            shares = class_accuracies(matrix)
            records.append(
                Record(
                    split=split.index,
                    mapping=model.mapping,
                    accuracy=float(shares.mean()),
                    class_accuracy=shares.tolist(),
                    confusion=matrix.tolist(),
                    C=model.C_,
                    C_grid=model.grid_.tolist(),
                    C_scores=model.scores_.tolist(),
                    n_words=book.n_words,
                    sharpness=sharpness,
                    n_codebook=len(split.codebook),
                    n_train=len(split.train),
                    n_test=len(split.test),
                    seconds={**seconds, "classifier": own},
                )
            )
        return records

    def _codebook(self, bags: Bags, split: Split) -> Codebook:
        if isinstance(self.book, Codebook):
            return self.book
        rows = split.codebook if len(split.codebook) else split.train
        clusterer = clone(self.book).set_params(random_state=split.seed_for("kmeans"))
        trained: Codebook = clusterer.fit(bags[rows]).codebook_
        return trained


class _Stopwatch:
    """Tells the seconds since it was last asked."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        before, self._last = self._last, time.perf_counter()
        return self._last - before


def _clusterer(n_words: int, more: Mapping[str, Any], work: Mapping[str, Any]) -> KMeansCodebook:
    free = set(KMeansCodebook().get_params()) - {"n_words", "random_state", *work}
    if not set(more) <= free:
        raise ParameterError(
            f"kmeans may set {sorted(free)}; got {sorted(set(more) - free)}. The number of words, "
            "the seed and the threads are parameters of evaluate itself."
        )
    return KMeansCodebook(n_words=n_words, **more, **work)


def _finished(resume: str | PathLike[str] | None, name: str) -> dict[int, list[Record]]:
    """Return the records of the splits that an earlier run of the same experiment has finished."""
    if resume is None or not Path(resume).exists():
        return {}
    if not Path(resume).is_file():
        raise FormatError(f"{resume} is not a file. Choose another name for the result.")
    earlier = Evaluation.from_json(regular_bytes(Path(resume)), source=str(resume))
    known: dict[int, list[Record]] = {}
    if earlier.fingerprint == name:
        for record in earlier.records:
            known.setdefault(record["split"], []).append(record)
    return known


def _check(
    bags: Bags,
    labels: NDArray[Any],
    paths: Sequence[str | PathLike[str]] | None,
    mappings: Sequence[str],
    splits: object,
    resume: str | PathLike[str] | None,
) -> None:
    for name, values in (("y", labels), ("paths", paths)):
        if values is not None and len(values) != len(bags):
            raise DataError(
                f"{name} must have one entry a bag ({len(bags)}); got {len(values)}. Take bags, "
                "labels and paths from the same images."
            )
    if not mappings or len(set(mappings)) < len(mappings) or not set(mappings) <= set(MAPPINGS):
        raise ParameterError(
            f"mapping must name one or more of {list(MAPPINGS)}, each once; got {mappings!r}."
        )
    if isinstance(splits, bool) or not isinstance(splits, Integral) or splits < 1:
        raise ParameterError(f"splits must be a whole number from 1 up; got {splits!r}.")
    if resume is not None and (
        Path(resume).is_dir() or not Path(resume).absolute().parent.is_dir()
    ):
        raise ParameterError(
            f"resume must name a file in a folder that exists; got {str(resume)!r}. Make the "
            "folder first."
        )
