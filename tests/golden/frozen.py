"""What the golden tests freeze: by key, a function that computes the value from small data.

``expected.json`` holds the values of bowsaw 0.1.0 before its modules and names were rearranged,
and ``files/`` a codebook and a classifier that it wrote. Both are written by

    python -m tests.golden --write

which is right only after a deliberate change of behaviour. Whole numbers, texts and kept words must
be equal; accuracies agree to 1e-9, other floats to 1e-6 (``same``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import cv2
import faiss
import numpy as np
import onnxruntime
import safetensors.numpy
import scipy.io
import skops.io
from tests.golden import adapter

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
FILES = HERE / "files"
WORDS_RTOL, ACCURACY_RTOL = 1e-6, 1e-9
SELECTORS = (
    "refinement", "annealing", "paper", "elimination", "coverage", "random", "farthest", "kmeans",
    "presence", "presence, recoded", "bottleneck", "svm", "winn", "boosting", "ridge",
    "separability",
)  # fmt: skip
COMPARED = ["annealing", "paper", "presence", "bottleneck", "random", "kmeans"]
TRANSFERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "exact": ("hard", "exact", {}),
    **{
        f"uniform, {policy}": ("hard", "uniform", {"policy": policy})
        for policy in ("nearest-surviving", "sequential", "chain")
    },
    "gaussian": ("hard", "gaussian", {}),
    "empirical": ("hard", "empirical", {}),
    "soft": ("soft", "exact", {}),
}


class Workspace:
    """A folder with small images, and what is made of them when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def labels(self) -> np.ndarray:
        return np.arange(36) % 3

    @cached_property
    def bags(self) -> Any:
        """36 bags of three classes: descriptors of six dimensions around ten centres."""
        rng = np.random.default_rng(20)
        centres = rng.integers(20, 180, (10, 6))
        shares = rng.dirichlet(np.full(10, 0.6), 3)
        counts = rng.integers(18, 30, 36)
        drawn = [rng.choice(10, n, p=shares[c]) for c, n in zip(self.labels, counts, strict=True)]
        means = centres[np.concatenate(drawn)]
        values = np.clip(np.rint(rng.normal(means, 18.0)), 0, 255).astype(np.uint8)
        return adapter.bags(values, np.concatenate([[0], np.cumsum(counts)]))

    @cached_property
    def trained(self) -> Any:
        return adapter.kmeans(self.bags, 20)

    @cached_property
    def book(self) -> Any:
        """A codebook that depends on no training, with ids of its own."""
        words = np.random.default_rng(21).integers(10, 190, (20, 6)).astype(np.float32) + 0.25
        return adapter.codebook(words, np.arange(40, 60))

    @cached_property
    def images(self) -> Path:
        """Three classes of 24 real images, 40 by 40 pixels."""
        for name in ("brick", "grass", "gravel"):
            folder = self.folder / "images" / name
            folder.mkdir(parents=True)
            with as_file(files("skimage") / "data" / f"{name}.png") as source:
                whole = cv2.imread(str(source), cv2.IMREAD_GRAYSCALE)
            for i in range(24):
                y, x = 40 * (i // 6), 40 * (i % 6)
                cv2.imwrite(str(folder / f"{i:03}.png"), whole[y : y + 40, x : x + 40])
        return self.folder / "images"

    @cached_property
    def store(self) -> Path:
        adapter.extract(self.images, self.folder / "images.store")
        return self.folder / "images.store"

    @cached_property
    def book_file(self) -> Path:
        adapter.train(self.store, 24, self.folder / "book.safetensors")
        return self.folder / "book.safetensors"

    @cached_property
    def run(self) -> Path:
        adapter.compare(self.images, self.folder / "run", 24, [6], COMPARED)
        return self.folder / "run"

    @cached_property
    def model(self) -> Any:
        """A classifier of the codebook's histograms."""
        table = adapter.histograms(self.book, self.bags, "hard")
        return adapter.classifier(table, np.array(["a", "b", "c"])[self.labels])

    def saved(self, name: str) -> Path:
        adapter.save(self.book, self.folder / name)
        return self.folder / name


FROZEN: dict[str, Callable[[Workspace], Any]] = {}


def frozen(key: str) -> Callable[[Callable[[Workspace], Any]], Callable[[Workspace], Any]]:
    def register(function: Callable[[Workspace], Any]) -> Callable[[Workspace], Any]:
        FROZEN[key] = function
        return function

    return register


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def by_word(book: Any) -> dict[str, Any]:
    return {"ids": book.ids, "words": book.words}


@frozen("kmeans words")
def _(work: Workspace) -> Any:
    book, objective = work.trained
    return {**by_word(book), "objective": objective}


@frozen("histograms")
def _(work: Workspace) -> Any:
    book = work.trained[0]
    return {coding: adapter.histograms(book, work.bags, coding)[::5] for coding in ("hard", "soft")}


def whatif(work: Workspace, name: str) -> Any:
    coding, transfer, options = TRANSFERS[name]
    state = adapter.whatif(work.book, work.bags, coding, transfer, **options)
    state.reset([41, 44, 45, 50, 52, 58])
    first = state.histograms[::6].copy()
    adapter.swap(state, remove=[44, 58], add=[47, 49])
    return {
        "reset": first,
        "kept": state.kept,
        "changed": state.changed,
        "swapped": state.histograms[::6].copy(),
        "undone": state.undo().histograms[::6].copy(),
        "without": state.without([45]).histograms[::6].copy(),
    }


def selection(work: Workspace, method: str, coding: str = "hard") -> Any:
    found = adapter.selection(method, work.trained[0], work.bags, work.labels, coding)
    moved = method in ("refinement", "kmeans")
    return {
        "codes_with": found.codes_with,
        "kept": found.kept,
        "groups": found.groups,
        "score": found.final_score,
        "scores": found.scores[:: max(1, len(found.scores) // 10)],
        "words": found.codebook.words if moved else None,
    }


for _name in TRANSFERS:
    FROZEN[f"whatif: {_name}"] = lambda work, name=_name: whatif(work, name)
for _name in SELECTORS:
    FROZEN[f"selection: {_name}"] = lambda work, name=_name: selection(work, name)
for _name in ("refinement", "annealing"):
    FROZEN[f"selection: {_name}, soft"] = lambda work, name=_name: selection(work, name, "soft")
FROZEN["sharpness"] = lambda w: adapter.chosen_sharpness(w.trained[0], w.bags, w.labels)
FROZEN["split"] = lambda work: adapter.split_rows(work.store)
FROZEN["compare accuracy"] = lambda work: adapter.cells(work.run)
FROZEN["compare page"] = lambda work: adapter.page_numbers(work.run)


@frozen("refinement with holdout")
def _(work: Workspace) -> Any:
    return adapter.refinement_with_holdout(work.trained[0], work.bags, work.labels)


@frozen("elimination path")
def _(work: Workspace) -> Any:
    sizes, book_at, table = adapter.elimination_path(work.trained[0], work.bags, work.labels)
    return {"sizes": sizes, "kept": {n: book_at(n).ids for n in (12, 10, 8, 4)}, "estimate": table}


@frozen("classifier accuracy")
def _(work: Workspace) -> Any:
    table = adapter.histograms(work.book, work.bags, "hard")
    c, scores = adapter.classifier_with_search(table, work.labels)
    return {"C": c, "scores": scores}


@frozen("dense SIFT")
def _(work: Workspace) -> Any:
    image = cv2.imread(str(work.images / "brick" / "005.png"), cv2.IMREAD_GRAYSCALE)
    rows = adapter.dense_sift(image)
    return {"shape": rows.shape, "rows": rows[::4, ::8]}


@frozen("store")
def _(work: Workspace) -> Any:
    shards = {
        path.relative_to(work.store).as_posix(): np.load(path)
        for path in sorted(work.store.rglob("*.npy"))
    }
    return {
        "shards": {n: [str(a.dtype), a.shape, float(a.sum())] for n, a in shards.items()},
        "first rows": shards["shards/00000.npy"][::200, ::8],
        "counts": adapter.store_bags(work.store).counts[::12],
    }


@frozen("train")
def _(work: Workspace) -> Any:
    book = adapter.load(work.book_file)
    return {"ids": book.ids, "scale": book.scale, "words": book.words[::5, ::8]}


@frozen("prune")
def _(work: Workspace) -> Any:
    found = {}
    for method in ("refinement", "annealing", "paper", "coverage"):
        output = work.folder / f"{method}.safetensors"
        adapter.prune(work.book_file, work.store, method, 6, output)
        book = adapter.load(output)
        found[method] = {"ids": book.ids, "words": book.words[:, ::16]}
    return found


@frozen("prune by loss")
def _(work: Workspace) -> Any:
    adapter.prune_by_loss(work.book_file, work.store, 0.1, work.folder / "loss.safetensors")
    return adapter.load(work.folder / "loss.safetensors").ids


@frozen("encode and fit")
def _(work: Workspace) -> Any:
    adapter.encode(work.book_file, work.store, work.folder / "histograms.npz")
    adapter.fit(work.book_file, work.store, work.folder / "model.safetensors")
    with np.load(work.folder / "histograms.npz") as arrays:
        table, names, n_arrays = arrays["histograms"], sorted(arrays), len(arrays["y"])
    model = adapter.load_classifier(work.folder / "model.safetensors")
    guesses = [str(guess) for guess in model.predict(table)[::4]]
    image = work.images / "grass" / "003.png"
    predicted = adapter.predict(work.book_file, work.folder / "model.safetensors", image)
    found = {"arrays": names, "rows": n_arrays, "histograms": table[::20]}
    return {**found, "guesses": guesses, "predict": predicted}


@frozen("evaluate accuracy")
def _(work: Workspace) -> Any:
    return {
        coding: adapter.evaluate(work.store, 24, coding, work.folder / f"{coding}.json")
        for coding in ("hard", "soft")
    }


@frozen("file: safetensors")
def _(work: Workspace) -> Any:
    path = work.saved("w.safetensors")
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    return {"sha256": sha256(path.read_bytes()), "metadata": metadata, **_shapes(path)}


def _shapes(path: Path) -> dict[str, Any]:
    tensors = safetensors.numpy.load_file(path)
    return {name: [str(a.dtype), a.shape] for name, a in sorted(tensors.items())}


@frozen("file: numpy")
def _(work: Workspace) -> Any:
    with np.load(work.saved("w.npz")) as arrays:
        content = {name: [str(a.dtype), a.shape] for name, a in sorted(arrays.items())}
    return {"npy": sha256(work.saved("w.npy").read_bytes()), "npz": content}


@frozen("file: opencv")
def _(work: Workspace) -> Any:
    found = {}
    for end in ("yml", "xml", "json", "yml.gz"):
        file = cv2.FileStorage(str(work.saved(f"w.{end}")), cv2.FILE_STORAGE_READ)
        name = file.root().keys()[0]
        found[end] = [list(file.root().keys()), file.getNode(name).mat()[::7]]
        file.release()
    return found


@frozen("file: faiss")
def _(work: Workspace) -> Any:
    index = faiss.read_index(str(work.saved("w.faiss")))
    return [type(index).__name__, index.ntotal, index.reconstruct_n(0, 3)]


@frozen("file: matlab")
def _(work: Workspace) -> Any:
    found = scipy.io.loadmat(work.saved("w.mat"))
    return {name: [a.shape, a[:, ::7]] for name, a in found.items() if not name.startswith("__")}


@frozen("file: skops")
def _(work: Workspace) -> Any:
    path = work.saved("w.skops")
    model = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    return [type(model).__name__, model.cluster_centers_[::7]]


@frozen("file: read again")
def _(work: Workspace) -> Any:
    ends = ("safetensors", "npz", "npy", "yml", "xml", "json", "yml.gz", "faiss", "mat", "skops")
    return {
        end: np.array_equal(adapter.load(work.saved(f"again.{end}")).words, work.book.words)
        for end in ends
    }


@frozen("file: classifier")
def _(work: Workspace) -> Any:
    path = work.folder / "classifier.safetensors"
    adapter.save_classifier(work.model, path, work.book)
    with safetensors.safe_open(path, "np") as file:
        metadata = {k: v for k, v in file.metadata().items() if k not in ("digest", "codebook")}
    return {"metadata": metadata, "weights": safetensors.numpy.load_file(path)["weights"]}


@frozen("file: written by 0.1.0")
def _(work: Workspace) -> Any:
    """Files of an older version are read, and fit each other."""
    book = adapter.load(FILES / "book.safetensors")
    same = adapter.load(FILES / "book.npz")
    model = adapter.load_classifier(FILES / "model.safetensors")
    table = adapter.histograms(book, work.bags, "hard")
    adapter.write_c_header(book, work.folder / "old.h", model)
    return {
        "ids": book.ids,
        "equal": bool(np.array_equal(book.words, same.words)),
        "trained_on": book.trained_on,
        "guesses": [str(guess) for guess in model.predict(table)],
    }


@frozen("file: onnx")
def _(work: Workspace) -> Any:
    adapter.write_onnx(work.book, work.folder / "graph.onnx", work.model)
    session = onnxruntime.InferenceSession(work.folder / "graph.onnx")
    (given,) = session.get_inputs()
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(None, {given.name: np.asarray(work.bags[0], dtype=np.float32)})
    return {"input": given.name, **dict(zip(names, outputs, strict=True))}


@frozen("file: C header")
def _(work: Workspace) -> Any:
    """The code without comments and layout, so that wording and versions may change."""
    found = {}
    for words in ("float32", "uint8", "int8"):
        path = work.folder / f"{words}.h"
        adapter.write_c_header(work.book, path, work.model, words=words)
        code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text("utf-8"), flags=re.DOTALL)
        # The guard has a digest of the text, comments included.
        code = re.sub(r"BOWSAW_WORDS_H_[0-9a-f]{12}", "BOWSAW_WORDS_H_SELF", code)
        tables = re.findall(r"= *\{(.*?)\};", code, re.DOTALL)
        numbers = [float(x) for x in re.findall(r"-?\d+\.\d+(?:e[-+]?\d+)?", " ".join(tables))]
        names = sorted(set(re.findall(r"\bbowsaw_\w+|\bBOWSAW_\w+", code)))
        found[words] = {"names": names, "n_numbers": len(numbers), "numbers": numbers[::9]}
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON holds it; float32 in the fewest digits that give it back."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return [plain(row) for row in value] if value.ndim > 1 else [float(str(x)) for x in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def same(expected: Any, found: Any, rtol: float, where: str = "") -> None:
    """Assert that two plain values agree; floats to ``rtol``, all else exactly."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert sorted(expected) == sorted(found), where
        for key, value in expected.items():
            same(value, found[key], rtol, f"{where}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), where
        assert len(expected) == len(found), where
        for i, (one, other) in enumerate(zip(expected, found, strict=True)):
            same(one, other, rtol, f"{where}/{i}")
    elif isinstance(expected, float):
        assert abs(expected - found) <= rtol * (0.1 + abs(expected)), (where, expected, found)
    else:
        assert expected == found, (where, expected, found)


def write(folder: Path) -> None:
    """Write the expected values and the old files from today's code."""
    work = Workspace(folder)
    FILES.mkdir(exist_ok=True)
    for name in ("book.safetensors", "book.npz"):
        adapter.save(work.book, FILES / name)
    adapter.save_classifier(work.model, FILES / "model.safetensors", work.book)
    values = {key: plain(function(work)) for key, function in FROZEN.items()}
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in values.items()
    ]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
