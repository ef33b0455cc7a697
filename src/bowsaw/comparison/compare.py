"""Methods measured alike: every method at every size, on the same splits and by the same rules.

All methods get the same images, the same full codebook, the same way to choose C and the same test
images, split by split, and each reports with how many words it codes. ``evaluate`` is the same
experiment without methods: only the full codebook, or a given one.

**Resuming.** A cell is written when it is measured, with a fingerprint of everything that it
depends on. A run continues with the cells that are missing; methods, sizes, splits and sets can be
added to it. A finished cell that the same call would measure differently (another seed, other
images, other parameters, another version) is never dropped: the run is refused with the
difference, unless ``overwrite`` starts it again. For any number of sessions, threads and workers
the records are the same except for ``costs``.

**Order.** Panels are measured one after another, each split by split, so that an interrupted run
has complete panels.
"""

from __future__ import annotations

import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import sklearn
from numpy.typing import ArrayLike

from bowsaw._version import __version__
from bowsaw.checkpoint import JsonLines, exclusive, first_difference, make_folder
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.comparison.cell import Experiment, memory_bytes
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.methods import FULL, GIVEN, GIVEN_METHOD, METHODS, Method, resolve_methods
from bowsaw.comparison.records import (
    FORMAT,
    SCHEMA,
    Cell,
    Key,
    Run,
    codebook_path,
    key_of,
    read_about,
    read_run,
    write_about,
)
from bowsaw.comparison.schedule import deal, seconds_left
from bowsaw.comparison.workers import measure_tasks
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.evaluation.leaks import check_leaks
from bowsaw.images.split import split_by_class
from bowsaw.parallel import available_cores, effective_jobs
from bowsaw.random_streams import check_seed
from bowsaw.store import Store
from bowsaw.validation import check_choice, check_int, json_mapping

SIZES = (10, 20, 50, 100, 200, 500)
"""The sizes of ``compare`` by default."""

Data = Collection | Store | Sequence[Collection | Store]


class Step(NamedTuple):
    """Progress after a cell: the cell, counts, and the time left, None where it is unknown."""

    cell: Cell
    n_done: int
    n_cells: int
    seconds_left: float | None


def compare(
    data: Data,
    folder: str | os.PathLike[str],
    *,
    methods: Sequence[str] | Mapping[str, Any] | None = None,
    sizes: Sequence[int] = SIZES,
    n_words: int | Sequence[int] = 1000,
    coding: str | Sequence[str] = "hard",
    n_splits: int = 5,
    seed: int | None = None,
    sharpness: float | Literal["auto"] = 40.0,
    perplexity: float | None = None,
    raw: Sequence[str] | None = (),
    kmeans: Mapping[str, Any] | None = None,
    n_jobs: int | None = -1,
    n_workers: int = 1,
    overwrite: bool = False,
    verbose: bool = False,
    command: str = "",
    on_cell: Callable[[Step], None] | None = None,
) -> Run:
    """Measure methods at several sizes on random splits, and keep the records.

    Parameters
    ----------
    data : Collection, Store, or list of them
        Labelled images; a store is divided into parts of the sizes of its split.
    folder : path-like
        The run's folder; a run that is there continues.
    methods : list of str, mapping of str to estimator, or None
        Names of ``bowsaw.comparison.METHODS``, or estimators by name (None for the one of that
        name in ``METHODS``): objects with ``fit(bags, y)`` that set ``selection_`` or
        ``codebook_``, best subclasses of ``Selector``. None for a default set. The full codebook is
        always measured, as ``full``.
    sizes : sequence of int
        Numbers of words to keep; those that a full codebook does not exceed are left out there.
    n_words : int or sequence of int, default=1000
        Sizes of the full codebooks.
    coding : {"hard", "soft"} or sequence of them, default="hard"
        How descriptors are coded.
    n_splits : int, default=5
        Random splits.
    seed : int, optional
        Drives the splits, the codebooks and the methods. None for that of the store's split, or 0
        for a collection without a store.
    sharpness : float or "auto", default=40.0
        For soft coding; "auto" chooses it per split and full codebook, by the labels of the
        training images, and every method of that panel uses it.
    perplexity : float, optional
        Instead of a sharpness: how many words of the full codebook share a descriptor on average.
    raw : sequence of str or None, default=()
        Methods to measure with raw histograms beside square-rooted ones; None for all.
    kmeans : mapping, optional
        Further parameters of ``KMeansCodebook``, such as ``{"max_iter": 10}``.
    n_jobs : int or None, default=-1
        Threads; the results do not depend on it.
    n_workers : int, default=1
        Processes that measure cells side by side and share the threads, at most one per thread;
        the results do not depend on it. Each needs memory of its own.
    overwrite : bool, default=False
        Start again where the folder holds a run.
    verbose : bool, default=False
        Show the progress of k-means on a terminal.
    command : str
        The command for ``run.json``.
    on_cell : callable, optional
        Called with a ``Step`` (cell, n_done, n_cells, seconds_left) after each cell.

    Returns
    -------
    Run
        All records of the folder.

    Raises
    ------
    MismatchError
        The folder holds cells that this call would measure differently.

    Examples
    --------
    >>> import tempfile, numpy as np, bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 12)
    >>> bags = bs.Bags.from_list([rng.normal(2 * label, 1, size=(30, 2)) for label in y])
    >>> toys = bs.Collection("toys", bags, y, ("low", "high"), codebook_images=4, train=4)
    >>> methods = {"random": bs.RandomSubset(None)}
    >>> run = compare(toys, tempfile.mkdtemp(), methods=methods, n_words=12, sizes=[3], n_splits=1)
    >>> [(cell["method"], cell["size"]) for cell in run.cells]
    [('full', 12), ('random', 3)]
    """
    collections = _collections(data)
    names = list(collections)
    chosen, keys = plan(names, methods, sizes, n_words, coding, n_splits, sharpness, perplexity)
    experiment = Experiment(
        folder=Path(folder),
        collections=collections,
        methods=chosen,
        seed=_seed(collections, seed),
        sharpness=sharpness if isinstance(sharpness, str) else float(sharpness),
        perplexity=perplexity,
        raw=frozenset(chosen if raw is None else raw),
        kmeans=json_mapping(kmeans, "kmeans") or {},
        n_jobs=n_jobs,
        verbose=verbose,
    )
    return _run(experiment, keys, n_workers, overwrite, command, on_cell)


def plan(
    names: Sequence[str],
    methods: Sequence[str] | Mapping[str, Any] | None,
    sizes: Sequence[int],
    n_words: int | Sequence[int],
    coding: str | Sequence[str],
    n_splits: int,
    sharpness: float | Literal["auto"] = 40.0,
    perplexity: float | None = None,
) -> tuple[dict[str, Method], list[Key]]:
    """Return the methods and the cells of a comparison in order, or raise a ParameterError."""
    chosen = resolve_methods(methods)
    words, kept = _sizes(n_words, "n_words"), _sizes(sizes, "sizes")
    if len(chosen) > 1 and kept[0] >= words[0]:
        raise ParameterError(
            f"sizes must hold a number below that of every full codebook ({words[0]} words); got "
            f"{', '.join(map(str, kept))}. Ask for fewer words, or a larger codebook."
        )
    splits = range(check_int(n_splits, "n_splits", 1))
    codings = _checked_codings(coding, sharpness, perplexity)
    return chosen, _keys(names, chosen, kept, words, codings, splits)


def evaluate(
    data: Data,
    folder: str | os.PathLike[str] | None = None,
    *,
    codebook: Codebook | ArrayLike | None = None,
    n_words: int | Sequence[int] = 1000,
    coding: str | Sequence[str] = "hard",
    n_splits: int = 5,
    seed: int | None = None,
    sharpness: float | Literal["auto"] = 40.0,
    perplexity: float | None = None,
    kmeans: Mapping[str, Any] | None = None,
    n_jobs: int | None = -1,
    n_workers: int = 1,
    overwrite: bool = False,
    verbose: bool = False,
    command: str = "",
    on_cell: Callable[[Step], None] | None = None,
) -> Run:
    """Measure the accuracy of codebooks on random splits: ``compare`` without methods.

    Both mappings of histograms are measured, "sqrt" and "raw".

    Parameters
    ----------
    folder : path-like, optional
        The run's folder; a run that is there continues. None to keep nothing.
    codebook : Codebook or array, optional
        A codebook to use on every split, as method ``given``, instead of training one per split.
        It is refused if it was trained on a split's test images.
    sharpness : float or "auto", default=40.0
        For soft coding, as in ``BagOfWords``; "auto" chooses it per split on training images.
    perplexity : float, optional
        Instead of a sharpness, as in ``BagOfWords``.
    data, n_words, coding, n_splits, seed, kmeans
        As in ``compare``.
    n_jobs, n_workers, overwrite, verbose, command, on_cell
        As in ``compare``.

    Returns
    -------
    Run
        All records of the folder.

    Examples
    --------
    >>> import numpy as np, bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 12)
    >>> bags = [rng.normal(3 * label, 1, size=(30, 2)) for label in y]
    >>> toys = bs.Collection("toys", bags, y, ["low", "high"], codebook_images=4, train=4)
    >>> run = evaluate(toys, n_words=8, n_splits=2)
    >>> run.accuracies("sqrt"), run.confusion("raw").tolist()
    (array([1., 1.]), [[8, 0], [0, 8]])
    """
    if folder is None:
        options = {name: it for name, it in locals().items() if name not in ("data", "folder")}
        with tempfile.TemporaryDirectory() as temporary:
            return evaluate(data, temporary, **options)
    collections = _collections(data)
    book = None if codebook is None else as_codebook(codebook)
    method = METHODS[FULL] if book is None else GIVEN_METHOD
    codings = _checked_codings(coding, sharpness, perplexity)
    experiment = Experiment(
        folder=Path(folder),
        collections=collections,
        methods={method.name: method},
        seed=_seed(collections, seed),
        sharpness=sharpness,
        perplexity=perplexity,
        raw=frozenset([method.name]),
        kmeans=json_mapping(kmeans, "kmeans") or {},
        codebook=book,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    splits = range(check_int(n_splits, "n_splits", 1))
    if book is not None:
        for name, collection in collections.items():
            drawn = [experiment.split(name, index).split for index in splits]
            paths = None if collection.store is None else collection.store.paths
            draw = partial(split_by_class, collection.y, list(collection.classes))
            check_leaks(book, collection.bags, drawn, paths, draw)
    words = _sizes(n_words if book is None else book.n_words, "n_words")
    keys = _keys(collections, [method.name], [], words, codings, splits)
    return _run(experiment, keys, n_workers, overwrite, command, on_cell)


def _keys(
    names: Iterable[str],
    methods: Iterable[str],
    sizes: Sequence[int],
    words: Sequence[int],
    codings: Sequence[str],
    splits: Iterable[int],
) -> list[Key]:
    """Return cells in order: large codebooks first, panel by panel, split by split."""
    return [
        Key(name, split, code, full, method, size)
        for full in reversed(words)
        for code, name, split, method in product(codings, names, splits, methods)
        for size in ([full] if method in (FULL, GIVEN) else [s for s in sizes if s < full])
    ]


def _run(
    experiment: Experiment,
    keys: Sequence[Key],
    n_workers: int,
    overwrite: bool,
    command: str,
    on_cell: Callable[[Step], None] | None,
) -> Run:
    """Measure the cells that are missing, write them, and return the run."""
    folder = experiment.folder
    # A class with too few images is reported before any work is done.
    starts = {name: experiment.split(name, 0) for name in experiment.collections}
    make_folder(folder)
    with exclusive(folder, "run"):
        if overwrite and (folder / "run.json").exists():
            _clear(folder)
        about, done = _resume(experiment, keys, command)
        lines = JsonLines(folder / "cells.jsonl")
        n_threads = effective_jobs(experiment.n_jobs)
        n_workers = max(1, min(n_threads, check_int(n_workers, "n_workers", 1)))
        left, took = {key: None for key in keys if key not in done}, dict[Key, float]()
        began: dict[Key, float] = {}
        tasks = deal(left, experiment.methods, n_workers)
        n_workers = max(1, min(n_workers, len(tasks)))
        if n_workers > 1:
            n_jobs = max(1, n_threads // n_workers)
            experiment = replace(experiment, n_jobs=n_jobs, n_workers=n_workers, verbose=False)
        begin, before = time.perf_counter(), float(about["seconds"])

        def save_time() -> None:
            if not about["finished"]:
                about["seconds"] = round(before + time.perf_counter() - begin, 1)
            write_about(folder, about)

        def write(key: Key, cell: Cell, seconds: float) -> None:
            lines.append(cell)
            done[key], took[key] = cell, seconds
            del left[key]
            save_time()
            if on_cell is not None:
                now = time.perf_counter()
                running = {key: now - begin for key, begin in began.items() if key in left}
                rest = seconds_left(left, took, running, n_workers)
                on_cell(Step(cell, len(keys) - len(left), len(keys), rest))

        save_time()
        for name, start in starts.items():
            # The page shows the first split, and answers belong to its images.
            path = folder / "samples" / f"{name}.npz"
            start.collection.write_samples(path, *start.sample_rows())
        try:
            measure_tasks(experiment, tasks, n_workers, began, write)
            # In the order of the plan, whatever worker was faster; cells of other plans after it.
            order = [key for key in keys if key in done]
            order += [key for key in done if key not in set(order)]
            if order != list(done):
                lines.rewrite(done[key] for key in order)
            about["finished"] = about["finished"] or _now()
        finally:
            save_time()
        return read_run(folder)


def _resume(
    experiment: Experiment, keys: Sequence[Key], command: str
) -> tuple[dict[str, Any], dict[Key, Cell]]:
    """Return the content of ``run.json`` and the finished cells; refuse another experiment."""
    folder, about = experiment.folder, _about(experiment, keys, command)
    if not (folder / "run.json").exists():
        if (folder / "cells.jsonl").exists():
            raise ParameterError(
                f"{folder} has records of cells but no run.json. Choose another output folder."
            )
        return about, {}
    JsonLines(folder / "cells.jsonl").repair()
    run, split_of = read_run(folder), cache(experiment.split)
    before, done = run.about, {key_of(cell): cell for cell in run.cells}
    if any(
        split_of(key.set, key.split).fingerprint(key) != done[key]["fingerprint"]
        for key in keys
        if key in done
    ) or any(
        before["sets"].get(name, one)["digest"] != one["digest"]
        for name, one in about["sets"].items()
    ):
        was, now = _settings(before), _settings(about)
        both = {name: now[name] for name in now if name in was}
        difference = first_difference({name: was[name] for name in both}, both)
        raise MismatchError(
            f"{folder} holds cells of another experiment: {difference or 'fingerprints differ'}. "
            "Use the settings it was started with, choose another output folder, or start again "
            "with --overwrite; it has been left as it is."
        )
    about["created"], about["seconds"] = before.get("created"), before.get("seconds", 0.0)
    if done.keys() >= set(keys):
        about["finished"] = before.get("finished")
    about["sets"] = {**before["sets"], **about["sets"]}
    merged = {**before["methods"], **about["methods"]}
    about["methods"] = {name: merged[name] for name in [*METHODS, *merged] if name in merged}
    for name in ("n_words", "sizes", "coding", "splits"):
        was = before["parameters"].get(name, [])
        about["parameters"][name] = sorted({*was, *about["parameters"][name]})
    return about, done


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what cells depend on; lists that may grow are left out."""
    names = ("seed", "sharpness", "perplexity", "kmeans", "raw", "codebook")
    return {
        **{f"set {name}": one for name, one in about["sets"].items()},
        **{f"method {name}": one.get("parameters") for name, one in about["methods"].items()},
        **{name: about["parameters"].get(name) for name in names},
        "version of bowsaw": about.get("versions", {}).get("bowsaw"),
    }


def _clear(folder: Path) -> None:
    """Remove the records of a run, and the files that they name."""
    about = read_about(folder)
    for _, cell in JsonLines(folder / "cells.jsonl").read():
        codebook_path(folder, key_of(cell)).unlink(missing_ok=True)
    for name in about["sets"]:
        (folder / "samples" / f"{name}.npz").unlink(missing_ok=True)
    for name in ("cells.jsonl", "index.html", "run.json"):
        (folder / name).unlink(missing_ok=True)


def _about(experiment: Experiment, keys: Sequence[Key], command: str) -> dict[str, Any]:
    """Return the content of ``run.json`` for a new run."""
    fields = {"n_words": 3, "coding": 2, "splits": 1}
    book, cpus = experiment.codebook, Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", cpus.read_text() if cpus.exists() else "")
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "command": command,
        "created": _now(),
        "finished": None,
        "seconds": 0.0,
        "machine": {
            "processor": names[0] if names else platform.processor() or "unknown",
            "cores": available_cores(),
            "memory_bytes": memory_bytes(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {
            "bowsaw": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "parameters": {
            **{name: sorted({key[place] for key in keys}) for name, place in fields.items()},
            "sizes": sorted({key.size for key in keys if key.method not in (FULL, GIVEN)}),
            "methods": list(experiment.methods),
            "seed": experiment.seed,
            "sharpness": experiment.sharpness,
            "perplexity": experiment.perplexity,
            "raw": sorted(experiment.raw),
            "kmeans": dict(experiment.kmeans),
            "codebook": None if book is None else book.digest,
        },
        "sets": {name: one.record() for name, one in experiment.collections.items()},
        "methods": {name: method.record() for name, method in experiment.methods.items()},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _collections(data: Data) -> dict[str, Collection]:
    given = [data] if isinstance(data, Collection | Store) else list(data)
    found: dict[str, Collection] = {}
    for one in given:
        made = Collection.from_store(one) if isinstance(one, Store) else one
        if not isinstance(made, Collection):
            raise ParameterError(f"data must be Collections or Stores; got {type(one).__name__}.")
        found[made.name] = made
    if not found or len(found) < len(given):
        raise ParameterError("data must be at least one collection, each with a name of its own.")
    return found


def _seed(collections: Mapping[str, Collection], seed: int | None) -> int:
    if seed is not None:
        return check_seed(seed)
    stores = (collection.store for collection in collections.values())
    found = {one.split.seed for one in stores if one is not None and one.split is not None}
    if len(found) > 1:
        raise ParameterError(
            f"the splits of the stores have the seeds {str(sorted(found))[1:-1]}. Give a seed."
        )
    return found.pop() if found else 0


def _checked_codings(
    coding: str | Sequence[str], sharpness: float | Literal["auto"], perplexity: float | None
) -> list[Literal["hard", "soft"]]:
    """Return the codings; a wrong parameter is reported now, not after minutes of k-means."""
    both: tuple[Literal["hard", "soft"], ...] = ("hard", "soft")
    asked = [coding] if isinstance(coding, str) else list(coding)
    for one in asked or [""]:
        check_choice(one, "coding", both)
    found = [one for one in both if one in asked]
    for code in found:
        BagOfWords([[0.0]], coding=code, sharpness=sharpness, perplexity=perplexity).transform([])
    return found


def _sizes(values: int | Sequence[int], name: str) -> list[int]:
    """Return numbers of words, rising."""
    asked = [values] if isinstance(values, int | np.integer) else list(values)
    if not asked:
        raise ParameterError(f"{name} must hold at least one number of words.")
    return sorted({check_int(value, name, 1) for value in asked})
