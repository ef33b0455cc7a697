"""From a folder of images to a small recogniser, with an estimate of its accuracy.

**The procedure.** Describe the images, learn a full codebook by k-means (with ``n_components`` in
the space of so many principal directions), choose ``n_kept`` words by
the labels, train a linear classifier on the histograms of those words.

**The estimate.** Words and classifier have seen the images that they are learned from, so none of
these can test them. The whole procedure is repeated on parts of the images instead: each of
``n_folds`` folds is tested by a recogniser learned from the other folds
(:func:`bowsaw.compare` on a collection with folds). The same folds measure the full codebook, a
random subset and k-means at the small size. A large folder measures two of five folds, since every
fold repeats all the work. Copies of an image are in the same fold.

**C.** The training images have chosen the words, so cross-validation among them chooses a C that is
too large. The folds choose it: for the estimate of a fold the others, for the result all of them.

**The result** is then learned from *all* images. Its accuracy on new images of the same kind is
that of the estimate, or slightly better: the folds had fewer images to learn from.

**Files.** ``codebook.safetensors``, ``classifier.safetensors``, ``recogniser.onnx``,
``index.html`` (the page), ``try.html`` (a page that recognises images) and ``summary.json`` are
the recogniser. ``work/`` holds the descriptors,
the full codebook and the records of the folds: with it, an interrupted call continues. It may be
deleted.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.checkpoint import (
    Checkpoint,
    atomic_write,
    exclusive,
    first_difference,
    make_folder,
    remove_checkpoint,
)
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import SIZES, Step, compare
from bowsaw.comparison.methods import FULL, KMEANS, METHODS, prepare, settings
from bowsaw.comparison.records import Run, choose_c
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import (
    BowsawError,
    DataError,
    FormatError,
    ImageError,
    MismatchError,
    ParameterError,
)
from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.evaluation.path import choose_size, summarise
from bowsaw.evaluation.significance import corrected_error
from bowsaw.formats.classifier import LinearModel, load_classifier, save_classifier, sift_of
from bowsaw.formats.onnx import onnx_bytes, write_onnx
from bowsaw.formats.registry import load, save
from bowsaw.formatting import format_bytes, format_count, format_signed
from bowsaw.images.folder import ImageFolder, check_output
from bowsaw.markup import tag
from bowsaw.parallel import ordered_map
from bowsaw.projection import Projection
from bowsaw.report.page import Section, write_page
from bowsaw.report.recogniser_page import write_recogniser_page
from bowsaw.store import Store, extract
from bowsaw.validation import (
    Number,
    check_choice,
    check_int,
    check_real,
    json_value,
    misfit,
    parse_json,
)

FORMAT = "bowsaw-recogniser"
CODEBOOK, CLASSIFIER, ONNX, PAGE, TRY, SUMMARY = FILES = (
    "codebook.safetensors",
    "classifier.safetensors",
    "recogniser.onnx",
    "index.html",
    "try.html",
    "summary.json",
)
ALONE = tuple(
    name for name, method in METHODS.items() if method.estimator and method.codes_with == "pruned"
)
"""The methods whose words code alone."""
BASELINES = ("random", KMEANS)
N_FOLDS, MIN_IMAGES = 5, 4
LARGE = 2000, 1_500_000
"""Images or descriptors from which two folds are measured by default."""
USUAL_WORDS, DESCRIPTORS_PER_WORD = 1000, 40
SAMPLE = 200_000
"""Descriptors that k-means learns from."""
_CHUNK = 64


class Answer(NamedTuple):
    """What is found for an image: its scores per class and its digest, or why there are none."""

    source: Any
    scores: NDArray[np.float64] | None = None
    digest: int | None = None
    error: str = ""


class Recogniser:
    """Images to classes: dense SIFT, a small codebook and a linear classifier.

    :func:`shrink` makes one, and :meth:`load` reads one.

    Parameters
    ----------
    codebook : Codebook
        The words, with the description of the descriptors that they were learned from.
    model : LinearModel
        The classifier of their histograms.
    summary : mapping, optional
        How it was made, and its estimated accuracy.

    Attributes
    ----------
    codebook_ : Codebook
        The words. They code alone.
    model_ : LinearModel
        The classifier.
    classes_ : ndarray of str, shape (n_classes,)
        The names of the classes.
    summary_ : dict
        The content of ``summary.json``.
    score_, score_margin_ : float or None
        Mean per-class accuracy by cross-validation of the whole procedure, and half of its 95 %
        interval; None where it was not measured.
    full_score_, full_score_margin_ : float or None
        The same for the full codebook, before pruning.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0] * 128, [1.0] * 128])
    >>> model = bs.LinearModel([[-1.0, 1.0]], [0.0], ["cat", "dog"], codebook=book.digest)
    >>> bs.Recogniser(book, model)
    Recogniser(2 classes, 2 words)
    """

    def __init__(
        self, codebook: Codebook, model: LinearModel, summary: Mapping[str, Any] | None = None
    ) -> None:
        model.coder(codebook)
        self.codebook_, self.model_ = codebook, model
        self.classes_ = np.array(model.classes)
        self.summary_ = dict(summary or {})
        nothing = {"mean": None, "margin": None}
        known = self.summary_.get("accuracy", {"kept": nothing, FULL: nothing})
        self.score_, self.score_margin_ = (known["kept"][name] for name in nothing)
        self.full_score_, self.full_score_margin_ = (known[FULL][name] for name in nothing)
        self._page: bytes | None = None

    def predict(self, images: Iterable[Any], *, n_jobs: int | None = -1) -> NDArray[Any]:
        """Return the class of each image, ``(n_images,)``.

        Parameters
        ----------
        images : ImageFolder or iterable of paths or arrays
            Arrays are grey ``(height, width)``, RGB or RGBA ``(height, width, 3 or 4)``.
        n_jobs : int or None, default=-1
            Threads; the result is the same for any number.
        """
        best = np.argmax(self.decision_function(images, n_jobs=n_jobs), axis=1)
        return np.asarray(self.classes_[best])

    def decision_function(
        self, images: Iterable[Any], *, n_jobs: int | None = -1
    ) -> NDArray[np.float64]:
        """Return one score per class, ``(n_images, n_classes)``; the largest wins."""
        if isinstance(images, str | bytes | os.PathLike):
            raise DataError(
                f"expected images, one path or array each; got a single {images!r:.80}. Give a "
                "single file as [path], a folder of classes as ImageFolder(folder)."
            )
        found = list(self.answers(getattr(images, "paths", images), n_jobs=n_jobs))
        for answer in found:
            if answer.scores is None:
                raise ImageError(str(answer.source), answer.error)
        rows = [answer.scores for answer in found]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.classes_))

    def answers(self, images: Iterable[Any], *, n_jobs: int | None = -1) -> Iterator[Answer]:
        """Yield the scores of one image after another; one that cannot be used has a reason."""
        coder, sift = self.model_.coder(self.codebook_, n_jobs=n_jobs), self.descriptor

        def describe(source: Any) -> tuple[Any, Any, str]:
            try:
                image = sift.load(source)
                return sift.describe(image.grey)[0], image.digest, ""
            except ImageError as error:
                return None, None, error.reason

        sources = list(images)
        for start in range(0, len(sources), _CHUNK):
            chunk = sources[start : start + _CHUNK]
            found = list(ordered_map(describe, chunk, n_jobs))
            usable = [rows for rows, _, error in found if not error]
            bags = Bags.from_list(usable, scale=sift.scale, description=sift.description())
            scores = iter(self.model_.scores(coder.transform(bags)))
            for source, (_, digest, error) in zip(chunk, found, strict=True):
                yield Answer(source, None if error else next(scores), digest, error)

    @property
    def descriptor(self) -> DenseSift:
        """The descriptor that the words were learned from; others than dense SIFT are refused."""
        book = self.model_.coder(self.codebook_).words_in_use()
        sift = sift_of(book)
        if sift is None:
            name = (book.description or {}).get("name", "unknown descriptors")
            raise ParameterError(
                f"images are described by dense SIFT, and the codebook was trained on {name}. "
                "Describe them in Python, encode them with BagOfWords, and use load_classifier."
            )
        return sift

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the files of the recogniser into a folder, which is made if it is missing."""
        target = Path(folder)
        make_folder(target)
        save(self.codebook_, target / CODEBOOK)
        save_classifier(self.model_, target / CLASSIFIER)
        coder = self.model_.coder(self.codebook_)
        write_onnx(coder, target / ONNX, self.model_)
        if sift_of(coder.words_in_use()) is not None:
            write_recogniser_page(coder, target / TRY, self.model_, facts=self.facts())
        if self._page is not None:
            with atomic_write(target / PAGE) as file:
                file.write(self._page)
        with atomic_write(target / SUMMARY) as file:
            about = {**self.summary_, "format": FORMAT, "version": __version__}
            file.write((json.dumps(about, indent=1, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save`, :func:`shrink` or ``bowsaw shrink`` wrote."""
        source = Path(folder)
        if not (source / SUMMARY).is_file():
            raise FormatError(
                f"{source} is not a recogniser: it has no {SUMMARY}. Give a folder that bowsaw "
                "shrink has made; if it was interrupted, run the same command again."
            )
        try:
            summary = parse_json((source / SUMMARY).read_bytes())
        except ValueError as error:
            raise FormatError(f"{source / SUMMARY} is not JSON ({error}).") from error
        if misfit(summary, _SUMMARY) is not None or summary["format"] != FORMAT:
            raise FormatError(f"{source / SUMMARY} is not the summary of a recogniser of bowsaw.")
        made = cls(load(source / CODEBOOK), load_classifier(source / CLASSIFIER), summary)
        if (source / PAGE).is_file():
            made._page = (source / PAGE).read_bytes()
        return made

    def __repr__(self) -> str:
        score = "" if self.score_ is None else f", accuracy {self.score_:.3f}"
        classes = format_count(len(self.classes_), "class", "classes")
        return f"Recogniser({classes}, {format_count(self.codebook_.n_words, 'word')}{score})"

    def _repr_html_(self) -> str:
        cells = ((tag("th", name, scope="row"), tag("td", value)) for name, value in self.facts())
        return str(tag("table", [tag("tr", *row) for row in cells]))

    def facts(self) -> list[tuple[str, str]]:
        """Return what it is and what it is worth, as names and texts."""
        about, words = self.summary_, self.codebook_.n_words
        classes = format_count(len(self.classes_), "class", "classes")
        found = [("recogniser", f"{classes}, {format_count(words, 'word')}")]
        if "accuracy" not in about:
            return found
        accuracy, full = about["accuracy"], about["n_words"]
        kept, whole, gap = accuracy["kept"], accuracy[FULL], accuracy["difference"]
        found[0] = (
            "recogniser",
            f"{words:,} of {format_count(full, 'word')}, {classes}, learned from all "
            f"{format_count(about['n_images'], 'image')}",
        )
        return [
            *found,
            ("accuracy", f"{_interval(kept)} with {format_count(words, 'word')}"),
            ("before", f"{_interval(whole)} with all {format_count(full, 'word')}"),
            ("difference", f"{format_signed(gap['mean'])} ± {gap['margin']:.3f}"),
            ("measured by", accuracy["how"]),
            (
                "size",
                f"{format_bytes(about['bytes'][ONNX])} as ONNX; words "
                f"{format_bytes(about['bytes']['words'])} instead of "
                f"{format_bytes(about['bytes']['full_words'])}",
            ),
        ]


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:.3f} ± {found['margin']:.3f}"


def shrink(
    images: str | os.PathLike[str] | ImageFolder,
    n_kept: int | None = None,
    *,
    max_bytes: int | None = None,
    max_loss: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    n_words: int | None = None,
    n_components: int | None = None,
    method: str = "refinement",
    n_folds: int | None = None,
    coding: Literal["hard", "soft"] = "hard",
    sharpness: float | Literal["auto"] = 40.0,
    perplexity: float | None = None,
    descriptor: DenseSift | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    n_workers: int = 1,
    overwrite: bool = False,
    verbose: bool = False,
    command: str = "",
    on_stage: Callable[[str], None] | None = None,
    on_cell: Callable[[Step], None] | None = None,
) -> Recogniser:
    """Turn a folder of images into a small recogniser, and estimate its accuracy.

    Parameters
    ----------
    images : path-like or ImageFolder
        A folder with one sub-folder per class.
    n_kept : int, optional
        Words to keep; 50 by default.
    max_bytes : int, optional
        Instead of ``n_kept``: as many words as an ONNX file of this size holds.
    max_loss : float, optional
        Instead of ``n_kept``: the fewest words that lose at most this much accuracy, standard error
        included. The folds that choose the size also estimate its accuracy, which is slightly
        optimistic for that reason.
    folder : path-like, optional
        Where the recogniser and its work are kept; an interrupted call continues there. None to
        keep nothing on disk.
    n_words : int, optional
        Words of the full codebook; by default 1000, or fewer for few images.
    n_components : int, optional
        Project descriptors to so many principal directions, and learn the words there, as in
        :class:`bowsaw.KMeansCodebook`; by default they are not projected.
    method : str, default="refinement"
        How words are chosen: a method of :func:`bowsaw.compare` whose words code alone.
    n_folds : int, optional
        Folds of the estimate, at least 2; 5 by default. Of a folder so large that 5 would take more
        than some minutes, 2 of 5 are measured by default.
    coding, sharpness, perplexity
        As in :class:`bowsaw.BagOfWords`.
    descriptor : DenseSift, optional
        How images are described; ``DenseSift()`` by default.
    seed : int, default=0
        Drives every random choice.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    n_workers : int, default=1
        Processes that measure folds side by side, as in :func:`bowsaw.compare`.
    overwrite : bool, default=False
        Start again where the folder holds a recogniser, or the work, of other settings.
    verbose : bool, default=False
        Show progress on a terminal.
    command : str
        The command for the records.
    on_stage, on_cell : callable, optional
        Called with the name of each stage, and with a ``Step`` after each measurement.

    Returns
    -------
    Recogniser

    Examples
    --------
    >>> import tempfile, cv2, numpy as np, bowsaw as bs
    >>> from pathlib import Path
    >>> root, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name, high in (("dark", 60), ("noisy", 255)):
    ...     (root / name).mkdir()
    ...     for i in range(6):
    ...         noise = rng.integers(0, high, (32, 32)).astype(np.uint8)
    ...         _ = cv2.imwrite(str(root / name / f"{i}.png"), noise)
    >>> small = bs.shrink(root, n_kept=4, n_words=12, method="random", n_folds=2)
    >>> small.predict([root / "dark" / "0.png"]).tolist()
    ['dark']
    """
    task = _Task(
        images if isinstance(images, ImageFolder) else ImageFolder(images),
        limit=_limit(n_kept, max_bytes, max_loss),
        n_words=None if n_words is None else check_int(n_words, "n_words", 2),
        kmeans={"sample": SAMPLE, "n_components": n_components},
        method=check_choice(method, "method", ALONE),
        n_folds=None if n_folds is None else check_int(n_folds, "n_folds", 2),
        coding={"coding": coding, "sharpness": sharpness, "perplexity": perplexity},
        descriptor=descriptor or DenseSift(),
        seed=seed,
        n_jobs=n_jobs,
        n_workers=n_workers,
        verbose=verbose,
        command=command,
        on_stage=on_stage or (lambda _: None),
        on_cell=on_cell,
    )
    with ExitStack() as stack:
        where = folder
        if where is None:
            where = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        return task.run(Path(where), overwrite)


def _limit(
    n_kept: int | None, max_bytes: int | None, max_loss: float | None
) -> tuple[str, int | float]:
    given = {"n_kept": n_kept, "max_bytes": max_bytes, "max_loss": max_loss}
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ParameterError(
            f"{' and '.join(name for name, _ in named)} each set the size. Give one of them."
        )
    name, value = named[0] if named else ("n_kept", 50)
    if name == "max_loss":
        return name, check_real(value, name, 0, 1)
    return name, check_int(value, name, 1)


class _Task(NamedTuple):
    """The arguments of :func:`shrink`, checked."""

    images: ImageFolder
    limit: tuple[str, int | float]
    n_words: int | None
    kmeans: dict[str, Any]
    method: str
    n_folds: int | None
    coding: dict[str, Any]
    descriptor: DenseSift
    seed: int
    n_jobs: int | None
    n_workers: int
    verbose: bool
    command: str
    on_stage: Callable[[str], None]
    on_cell: Callable[[Step], None] | None

    def run(self, folder: Path, overwrite: bool) -> Recogniser:
        """Do what is not done yet."""
        images, work = self.images, folder / "work"
        self.descriptor.validate()
        # A wrong parameter is reported now, not after minutes of work.
        if (n := self.kmeans["n_components"]) is not None:
            check_int(n, "n_components", 1, self.descriptor.n_dims)
        BagOfWords([[0.0]], **self.coding).transform([])
        _check_classes(np.bincount(images.y), images.classes, "files")
        check_output(folder, images.root, "recogniser", SUMMARY, "work/progress.partial")
        make_folder(folder)
        with exclusive(folder, "recogniser"):
            make_folder(work)
            self.on_stage("describing the images")
            name = images.root.resolve().name or "images"
            more: Any = {"n_jobs": self.n_jobs, "overwrite": overwrite, "verbose": self.verbose}
            store = extract(images, self.descriptor, work / f"{name}.store", **more)
            _check_classes(np.bincount(store.y), store.classes, "usable images")
            n_words = self._full_words(store)
            about = self._settings(store, n_words)
            if overwrite:
                for old in ("progress", "codebook", "words"):
                    remove_checkpoint(work / f"{old}.partial")
                for old in FILES:
                    (folder / old).unlink(missing_ok=True)
            elif (folder / SUMMARY).exists():
                return _finished(folder, about)
            head = Checkpoint(work / "progress.partial", about)
            if head.load() is None:
                head.save({})
            measured = self._estimate(store, name, n_words, work, overwrite)
            n_kept, accuracy = measured.n_kept, measured.record()
            self.on_stage(f"learning the recogniser from all {store.n_usable:,} images")
            book, model = self._learn(store, n_words, n_kept, measured.C, work)
            summary = {
                **about,
                "n_images": store.n_usable,
                "n_set_aside": len(store.set_aside),
                "classes": dict(zip(store.classes, np.bincount(store.y).tolist(), strict=True)),
                "n_words": n_words,
                "n_kept": n_kept,
                "accuracy": accuracy,
                "bytes": {
                    ONNX: len(onnx_bytes(model.coder(book), model)),
                    "words": book.words.nbytes,
                    "full_words": 4 * n_words * book.n_dims,
                },
            }
            made = Recogniser(book, model, summary)
            lead = "Words and classifier are learned from all images. In the estimate, images were "
            lead += "tested by recognisers that were learned without them."
            link = tag("p", tag("a", "Try it with an image of yours", href=TRY))
            made._page = write_page(
                work / "run",
                folder / PAGE,
                extra=[Section("The recogniser", lead, made._repr_html_() + link, first=True)],
                title=f"{name}: {n_kept:,} of {n_words:,} words",
                pick=(self.method, n_kept),
            ).read_bytes()
            made.save(folder)
            remove_checkpoint(work / "words.partial")
            return made

    def _settings(self, store: Store, n_words: int) -> dict[str, Any]:
        return {
            "images": store.digest,
            "limit": list(self.limit),
            "full_words": n_words,
            "method": [self.method, settings(METHODS[self.method].estimator)],
            "folds": self.n_folds,
            **self.coding,
            "n_components": self.kmeans["n_components"],
            "seed": self.seed,
            "version": __version__,
        }

    def _full_words(self, store: Store) -> int:
        name, value = self.limit
        # Every fold learns the words again, from fewer descriptors.
        most = int(0.5 * store.bags.n_descriptors)
        usual = min(USUAL_WORDS, max(store.bags.n_descriptors // DESCRIPTORS_PER_WORD, 2))
        if name == "n_kept":
            usual = min(max(usual, 2 * int(value)), most)
            if int(value) >= (self.n_words or usual):
                raise ParameterError(
                    f"n_kept must be below the {self.n_words or usual} words of the full codebook; "
                    f"got {int(value)}. Keep fewer words, or give more images or words."
                )
        return self.n_words or usual

    def _estimate(
        self, store: Store, name: str, n_words: int, work: Path, overwrite: bool
    ) -> _Estimate:
        n_folds, n_measured = self._folds(store)
        sizes = [size for size in SIZES if 2 * size <= n_words] or [n_words // 2]
        if self.limit[0] != "max_loss":
            sizes = [self._kept(store, n_words)]
        some = f"{n_measured} of {n_folds}" if n_measured < n_folds else f"{n_folds}"
        self.on_stage(f"measuring the procedure on {some} folds")
        run = compare(
            Collection.from_store(
                store, name, images=self.images.root, n_folds=n_folds, codebook_images=0
            ),
            work / "run",
            methods=list(dict.fromkeys([self.method, *BASELINES])),
            sizes=sizes,
            n_words=n_words,
            n_splits=n_measured,
            seed=self.seed,
            kmeans=self.kmeans,
            n_jobs=self.n_jobs,
            n_workers=self.n_workers,
            overwrite=overwrite,
            command=self.command,
            on_cell=self.on_cell,
            **self.coding,
        )
        return _Estimate(run, self.method, sizes, self.limit, n_folds)

    def _folds(self, store: Store) -> tuple[int, int]:
        """Return the number of folds, and how many of them are measured."""
        n_folds = min(self.n_folds or N_FOLDS, int(np.bincount(store.y).min()))
        is_large = store.n_usable > LARGE[0] or store.bags.n_descriptors > LARGE[1]
        return n_folds, 2 if self.n_folds is None and is_large else n_folds

    def _kept(self, store: Store, n_words: int) -> int:
        """Return how many words to keep; those that fit into ``max_bytes``."""
        name, value = self.limit
        if name == "n_kept":
            return int(value)

        def n_bytes(n: int) -> int:
            # The longest texts that the file may hold: it names the ids and the sharpness.
            n_in, n_out = store.bags.n_dims, self.kmeans["n_components"]
            book = Codebook(
                np.ones((n, n_out or n_in)),
                ids=np.arange(n_words - n, n_words),
                scale=store.scale,
                description=store.description,
                projection=n_out and Projection(np.ones(n_in), np.ones((n_in, n_out)), store.scale),
            )
            machines = 1 if len(store.classes) == 2 else len(store.classes)
            model = LinearModel(
                np.ones((machines, n)),
                np.ones(machines),
                store.classes,
                codebook=book.digest,
                coding=self.coding["coding"],
                sharpness=0.1 + 0.2,
                description=store.description,
            )
            return len(onnx_bytes(model.coder(book), model))

        first = n_bytes(1)
        n = min(1 + int((value - first) // (n_bytes(2) - first)), n_words // 2)
        while n > 1 and n_bytes(n) > value:
            n -= 1
        if n < 1 or first > value:
            raise ParameterError(
                f"max_bytes must be at least {first} (an ONNX file of one word); got {value}. "
                "Allow more."
            )
        return n

    def _learn(
        self, store: Store, n_words: int, n_kept: int, C: float, work: Path
    ) -> tuple[Codebook, LinearModel]:
        full = _saved(work / "codebook.safetensors")
        made = {"store": store.digest, "n_words": n_words, "seed": self.seed, **self.kmeans}
        if full is None or any(full.provenance.get(name) != made[name] for name in made):
            partial = work / "codebook.partial"
            trainer = KMeansCodebook(
                n_words,
                **self.kmeans,
                random_state=self.seed,
                checkpoint=partial,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            )
            full = trainer.fit(store.bags).codebook_.with_provenance(store=store.digest)
            save(full, work / "codebook.safetensors")
            remove_checkpoint(partial)
        book, y = full, np.array(store.classes)[store.y]
        # As in the folds, the full codebook decides a sharpness that is not given.
        coder = BagOfWords(full, random_state=self.seed, n_jobs=self.n_jobs, **self.coding)
        sharpness = coder.fit(store.bags, y).sharpness_in_use()
        known: Any = {"coding": self.coding["coding"], "sharpness": sharpness}
        if n_kept < n_words:
            partial = work / "words.partial"
            selector = prepare(
                METHODS[self.method].estimator,
                codebook=full,
                n_kept=n_kept,
                random_state=self.seed,
                n_jobs=self.n_jobs,
                **known,
            )
            more = {"checkpoint": partial, "verbose": self.verbose}
            names = selector.get_params()
            selector.set_params(**{name: it for name, it in more.items() if name in names})
            # Interrupted, it raises what says so; the checkpoint keeps what was done.
            book = selector.fit(store.bags, store.y).codebook_.learned_from(store.bags)
        coder = BagOfWords(book, n_jobs=self.n_jobs, **known)
        classifier = HistogramClassifier(C=C).fit(coder.transform(store.bags), y)
        return book, LinearModel.of(classifier, coder, provenance={"C": C, "n_images": len(y)})


class _Estimate(NamedTuple):
    run: Run
    method: str
    sizes: Sequence[int]
    limit: tuple[str, int | float]
    n_folds: int

    @property
    def n_kept(self) -> int:
        """The size to take; all words where no measured size meets ``max_loss``."""
        if self.limit[0] != "max_loss":
            return self.sizes[0]
        full = self.run.select(method=FULL)[0]
        sizes = [full["size"], *self.sizes]
        found = np.stack([self._accuracies(size) for size in sizes], axis=1)
        counts = self.run.confusion(method=FULL).sum(axis=1)
        table = summarise(sizes, found, full["n_test"] / full["n_train"], 1, counts)
        return sizes[choose_size(table, *self.limit)]

    @property
    def C(self) -> float:  # noqa: N802
        """The C that all folds choose for the size to take."""
        name = FULL if self.n_kept not in self.sizes else self.method
        cells = self.run.select(method=name, size=self.n_kept)
        return float(cells[0]["results"]["sqrt"]["by_C"]["C"][choose_c(cells)])

    def _accuracies(self, size: int) -> NDArray[np.float64]:
        is_full = size not in self.sizes
        return self.run.accuracies(method=FULL if is_full else self.method, size=size)

    def record(self) -> dict[str, Any]:
        """Return the entry of ``summary.json``."""
        rows = {
            (row["method"], row["size"]): {name: row[name] for name in ("mean", "margin")}
            for row in self.run.table()
            if row["mapping"] == "sqrt"
        }
        full = self.run.select(method=FULL)
        whole, kept = rows[FULL, full[0]["size"]], rows.get((self.method, self.n_kept))
        lost = self._accuracies(self.n_kept) - self._accuracies(full[0]["size"])
        margin = float(np.hypot(whole["margin"], (kept or whole)["margin"]))
        if len(lost) > 1:
            margin = 1.96 * float(corrected_error(lost, full[0]["n_test"] / full[0]["n_train"]))
        what = f"{self.n_folds}-fold cross-validation of the whole procedure"
        if len(full) < self.n_folds:
            what = (
                f"the whole procedure on {len(full)} of {self.n_folds} folds "
                f"({sum(cell['n_test'] for cell in full):,} images held out)"
            )
        chosen = "; the same folds chose the number of words" * (self.limit[0] == "max_loss")
        return {
            "kept": kept or whole,
            FULL: whole,
            "difference": {"mean": float(lost.mean()), "margin": margin},
            **{name: rows[name, self.n_kept] for name in BASELINES if (name, self.n_kept) in rows},
            "how": f"mean per-class accuracy ± half of its 95 % interval, by {what}{chosen}",
            "n_folds": self.n_folds,
            "n_measured": len(full),
        }


def _check_classes(counts: NDArray[np.int64], classes: Sequence[str], what: str) -> None:
    """Refuse a folder that no recogniser can be learned and tested from."""
    if len(classes) < 2:
        raise DataError(
            f"the folder has {what} of 1 class ({classes[0]!r}), and a recogniser needs at least "
            "2 classes. Add a folder of images per further class."
        )
    if counts.min() < MIN_IMAGES:
        raise DataError(
            f"class {classes[int(counts.argmin())]!r} has {int(counts.min())} {what}, and at least "
            f"{MIN_IMAGES} are needed to learn it and to test that. Add images, or move its folder "
            "away."
        )


def _finished(folder: Path, about: Mapping[str, Any]) -> Recogniser:
    """Return the finished recogniser of a folder, or refuse one of other settings."""
    made = Recogniser.load(folder)
    before = {name: made.summary_.get(name) for name in about}
    difference = first_difference(before, json_value(about))
    if difference:
        raise MismatchError(
            f"{folder} holds a finished recogniser of other settings: {difference}. Choose another "
            "output, or start again with --overwrite; it has been left as it is."
        )
    return made


def _saved(path: Path) -> Codebook | None:
    try:
        return load(path)
    except (BowsawError, OSError):
        return None


_LEVEL = {"mean": Number(0, 1), "margin": Number(0)}
_SUMMARY = {
    "format": str,
    "accuracy?": {"kept": _LEVEL, FULL: _LEVEL, "how": str, "difference": dict},
    "n_words?": Number(1, whole=True),
    "n_images?": Number(1, whole=True),
    "bytes?": {"*": Number(0)},
}
