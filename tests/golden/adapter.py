"""Every call of bowsaw that the golden tests make: a rename changes this file, and no value.

Keys and arguments are the final names of the methods; the right-hand sides are today's calls.
"""

import io
import json
import re
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bowsaw as bs
from bowsaw.cli.main import main
from reproduction import methods as cited

SEED = 7
SHARPNESS = 60.0


def run(*words: object) -> None:
    """Run a command that must succeed."""
    assert main([str(word) for word in words] + ["-q"]) == 0


SPLIT = ("--split", "8/8/rest", "--seed", SEED)


def extract(images: Path, store: Path) -> None:
    run("extract", images, "-o", store, *SPLIT, "-j", 1)


def train(store: Path, n_words: int, codebook: Path) -> None:
    run("train", store, "--words", n_words, "-j", 2, "-o", codebook)


def prune(codebook: Path, store: Path, method: str, n_kept: int, output: Path) -> None:
    """Write the codebook that a method of the command line makes; 40 steps."""
    steps = () if method in ("coverage", "paper") else ("--steps", 40)
    how = ("--method", method, *steps, "--keep", n_kept, "-j", 1)
    run("prune", codebook, store, *how, "-o", output)


def prune_by_loss(codebook: Path, store: Path, max_loss: float, output: Path) -> None:
    run("prune", codebook, store, "--max-loss", max_loss, "-j", 1, "-o", output)


def encode(codebook: Path, store: Path, output: Path) -> None:
    run("encode", codebook, store, "-j", 1, "-o", output)


def fit(codebook: Path, store: Path, output: Path) -> None:
    run("fit", codebook, store, "-j", 1, "-o", output)


def evaluate(store: Path, n_words: int, coding: str, output: Path) -> list[dict[str, Any]]:
    """Return the records of two splits, without their times."""
    options = ("--coding", coding, "--sharpness", SHARPNESS) if coding == "soft" else ()
    run("evaluate", store, "--words", n_words, *options, "--splits", 2, "-o", output)
    names = ("accuracy", "confusion", "C", "C_scores")
    found = []
    for cell in bs.read_run(output).cells:
        about = {"split": cell["split"], "n_words": cell["n_coding_words"]}
        for mapping, result in cell["results"].items():
            found.append({**about, "mapping": mapping, **{name: result[name] for name in names}})
    return found


def predict(codebook: Path, model: Path, image: Path) -> dict[str, Any]:
    """Return the class of an image and the scores of all classes."""
    out = io.StringIO()
    with redirect_stdout(out):
        run("predict", codebook, image, "--classifier", model, "--json", "-j", 1)
    found = json.loads(out.getvalue())
    return {name: found[name] for name in ("class", "scores")}


def compare(images: Path, folder: Path, n_words: int, sizes: list[int], methods: list[str]) -> None:
    how = ("--methods", ",".join(methods), "--sizes", ",".join(map(str, sizes)), "--splits", 2)
    run("compare", images, *how, "--words", n_words, *SPLIT, "-j", 1, "-o", folder)


def cells(folder: Path) -> dict[str, Any]:
    """Return what the records of a comparison hold, by "method size split"."""
    found = {}
    for cell in bs.read_run(folder).cells:
        names = ("n_columns", "n_coding_words", "codes_with", "codebook_bytes", "n_train", "n_test")
        value = {name: cell[name] for name in names}
        for mapping, result in cell["results"].items():
            value[mapping] = {name: result[name] for name in ("accuracy", "confusion", "C")}
        found[f"{cell['method']} {cell['size']} {cell['split']}"] = value
    return dict(sorted(found.items()))


def page_numbers(folder: Path) -> dict[str, Any]:
    """Return the numbers inside the page of a comparison: its data and its first answers."""
    page = (folder / "index.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    (panel,), (words,) = data["panels"].values(), data["words"].values()

    ids = {m: {n: {"ids": one["ids"]} for n, one in sizes.items()} for m, sizes in words.items()}
    headline = re.findall(r'class="headline"><span>(\d+) words \w+ ([\d.]+)', page)
    names = ("full_words", "levels", "confusion")
    return {**{name: panel[name] for name in names}, "words": ids, "headline": headline}


def bags(values: np.ndarray, offsets: np.ndarray) -> Any:
    return bs.Bags(values, offsets, scale=512.0)


def kmeans(data: Any, n_words: int) -> Any:
    """Return the codebook of k-means, and its objective."""
    found = bs.KMeansCodebook(n_words, max_iter=12, random_state=SEED, n_jobs=1).fit(data)
    return found.codebook_, float(found.objective_)


def histograms(codebook: Any, data: Any, coding: str) -> np.ndarray:
    coder = bs.BagOfWords(codebook, coding=coding, sharpness=SHARPNESS, n_jobs=1)
    return coder.fit(data).transform(data)


def chosen_sharpness(codebook: Any, data: Any, y: np.ndarray) -> dict[str, float]:
    """Return the sharpness of soft coding that labels or a perplexity choose."""
    how = {"coding": "soft", "random_state": SEED, "n_jobs": 1}
    coders = {
        "auto": bs.BagOfWords(codebook, sharpness="auto", **how),
        "perplexity": bs.BagOfWords(codebook, perplexity=3.0, **how),
    }
    return {name: one.fit(data, y).sharpness_in_use() for name, one in coders.items()}


def whatif(codebook: Any, data: Any, coding: str, transfer: str, **options: Any) -> Any:
    if transfer in ("gaussian", "empirical"):
        options |= {"learn_from": data, "random_state": SEED}
    if coding == "soft":
        options |= {"sharpness": SHARPNESS, "storage": "float64"}
    return bs.whatif(codebook, data, coding=coding, transfer=transfer, n_jobs=1, **options)


def swap(state: Any, remove: list[int], add: list[int]) -> None:
    state.swap(remove=remove, add=add)


def selection(method: str, codebook: Any, data: Any, y: np.ndarray, coding: str = "hard") -> Any:
    """Return what a method chooses: six words or groups."""
    common: dict[str, Any] = {"coding": coding, "sharpness": SHARPNESS, "n_jobs": 1}
    seeded = {**common, "random_state": SEED}
    # The values were frozen with float64 weights.
    exact = {"storage": "float64"} if coding == "soft" else None
    make = {
        "refinement": lambda: bs.Refinement(codebook, 6, n_steps=3, n_folds=0, **seeded),
        "annealing": lambda: bs.Annealing(
            codebook, 6, n_steps=150, transfer_options=exact, **seeded
        ),
        "paper": lambda: bs.Annealing.paper(codebook, 6, **seeded),
        "elimination": lambda: bs.PruningPath(codebook, 6, sizes=[12, 6], cv=3, **seeded),
        "coverage": lambda: bs.Coverage(codebook, 6, **seeded),
        "random": lambda: bs.RandomSubset(codebook, 6, **seeded),
        "farthest": lambda: bs.FarthestPoint(codebook, 6, **common),
        "kmeans": lambda: bs.KMeansAtSize(codebook, 6, max_iter=12, **seeded),
        "presence": lambda: bs.PresenceRanking(codebook, 6, **common),
        "presence, recoded": lambda: bs.PresenceRanking(codebook, 6, recode=True, **common),
        "bottleneck": lambda: bs.Bottleneck(codebook, 6, **common),
        "svm": lambda: cited.SvmRanking(codebook, 6, **common),
        "winn": lambda: cited.WinnMerging(codebook, 6, **common),
        "boosting": lambda: cited.BoostedStumps(codebook, 6, **common),
        "ridge": lambda: cited.RidgeReconstruction(codebook, 6, **common),
        "separability": lambda: cited.SeparabilityMerging(codebook, 6, **common),
    }
    return make[method]().fit(data, y).selection_


def refinement_with_holdout(codebook: Any, data: Any, y: np.ndarray) -> np.ndarray:
    """Return the errors of held-out bags after few steps."""
    how = {"n_steps": 3, "n_folds": 2, "random_state": SEED, "n_jobs": 1}
    return bs.Refinement(codebook, 6, **how).fit(data, y).holdout_.errors


def elimination_path(codebook: Any, data: Any, y: np.ndarray) -> Any:
    """Return sizes, codebooks by size and the estimates of a path."""
    path = bs.PruningPath(codebook, sizes=[12, 8, 4], cv=3, random_state=SEED, n_jobs=1)
    path.fit(data, y)
    names = ("n_words", "accuracy", "accuracy_se", "loss", "loss_se", "n_bytes")
    table = [{name: getattr(row, name) for name in names} for row in path.estimate()]
    return path.sizes_, path.codebook_at, table


def classifier(table: np.ndarray, y: np.ndarray) -> Any:
    return bs.HistogramClassifier(C=2.0, n_jobs=1, random_state=SEED).fit(table, y)


def classifier_with_search(table: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the C that cross-validation chooses, and the accuracy of each candidate."""
    found = bs.HistogramClassifier(cv=3, n_jobs=1, random_state=SEED).fit(table, y)
    return float(found.C_), found.scores_


def dense_sift(image: np.ndarray) -> np.ndarray:
    (rows,) = bs.DenseSift(step=12, dtype="float32", n_jobs=1).fit_transform([image])
    return rows


def codebook(words: np.ndarray, ids: np.ndarray) -> Any:
    about = {"provenance": {"method": "golden"}, "trained_on": np.arange(3, dtype=np.uint64)}
    return bs.Codebook(words, ids, scale=512.0, **about)


save, load = bs.save, bs.load
save_classifier, load_classifier = bs.formats.save_classifier, bs.formats.load_classifier
write_onnx = partial(bs.formats.write_onnx, descriptors="float32")
write_c_header = bs.formats.write_c_header


def store_bags(store: Path) -> Any:
    """Return the bags of a store."""
    return bs.Store(store).bags


def split_rows(store: Path) -> dict[str, np.ndarray]:
    """Return the rows of each part of the second split of a seed."""
    split = bs.Store(store).draw_split(codebook=8, train=8, seed=SEED, index=1)
    return {"codebook": split.codebook, "train": split.train, "test": split.test}
