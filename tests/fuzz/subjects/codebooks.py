"""Codebooks of every format, and classifiers, in files."""

import io
import json
import re
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import faiss
import numpy as np
import scipy.io
import sklearn.cluster
import skops.io
from safetensors.numpy import save as save_tensors
from tests.fuzz.engine import Reader
from tests.fuzz.mutations import TEXT, Mutation, change_json, mixed, number_in_front
from tests.fuzz.structures import (
    change_gzip,
    change_mat,
    change_npy,
    change_safetensors,
    change_zip,
    zip_bytes,
    zip_members,
)

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats import registry
from bowsaw.formats.classifier import LinearModel, load_classifier, save_classifier

BOOK = Codebook(
    np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32),
    [4, 8, 2, 1, 0],
    scale=512,
    description={"name": "dense-sift", "sizes": [4, 8]},
    provenance={"seed": 0, "objective": 0.3, "place": "Küche"},
    trained_on=[3, 2**64 - 1],
)
WORDS = np.array(BOOK.words)


def in_file(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def written(suffix: str, write: Callable[[str], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{suffix}"
        write(str(path))
        return path.read_bytes()


def _ours(suffix: str, *books: Codebook) -> list[bytes]:
    return [written(suffix, partial(registry.save, book)) for book in books or (BOOK,)]


def _opencv(suffix: str, base64: bool = False) -> bytes:
    def write(path: str) -> None:
        mode = cv2.FileStorage_WRITE | (cv2.FileStorage_WRITE_BASE64 if base64 else 0)
        file = cv2.FileStorage(path, mode)
        file.write("vocabulary", WORDS)
        file.write("other", WORDS.astype(np.float64)[:2])
        file.write("note", "some text")
        file.release()

    return written(suffix, write)


def _opencv_seeds(suffix: str) -> list[bytes]:
    return [*_ours(suffix), _opencv(suffix), _opencv(suffix, base64=True)]


def _opencv_json() -> list[bytes]:
    return [*_ours(".json"), _opencv(".json")]


def _opencv_gz() -> list[bytes]:
    return [*_ours(".yml.gz"), *_ours(".xml.gz"), *_ours(".json.gz"), _opencv(".yml.gz")]


def _safetensors() -> list[bytes]:
    foreign = save_tensors({"a": WORDS, "n": np.arange(3)}, {"made": "by hand"})
    return [*_ours(".safetensors", BOOK, Codebook([[1.0, 2.0]]), BOOK.only([2, 8])), foreign]


def _npy() -> list[bytes]:
    arrays = (WORDS.astype(">f8"), np.asfortranarray(WORDS))
    return [*_ours(".npy"), *(written(".npy", partial(np.save, arr=array)) for array in arrays)]


def _npz() -> list[bytes]:
    return [
        *_ours(".npz"),
        written(".npz", partial(np.savez, a=WORDS, b=np.arange(3))),
        written(".npz", partial(np.savez_compressed, words=WORDS)),
    ]


def _faiss() -> list[bytes]:
    flat = faiss.IndexFlatL2(4)
    flat.add(WORDS)
    lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(4), 4, 2)
    lists.train(np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32))
    named = faiss.IndexIDMap(faiss.IndexFlatL2(4))
    named.add_with_ids(WORDS, np.arange(5))
    indexes = (flat, lists, named)
    return [*_ours(".faiss"), *(written(".faiss", partial(faiss.write_index, i)) for i in indexes)]


def _skops() -> list[bytes]:
    means = sklearn.cluster.KMeans(2, n_init=1, random_state=0).fit(WORDS)
    return [_renumbered(data) for data in (*_ours(".skops"), skops.io.dumps(means))]


def _renumbered(data: bytes) -> bytes:
    """Make a skops file equal in every process: its names are addresses, and it has the time."""
    members = zip_members(data)
    schema = next(content for name, content, _ in members if name == "schema.json").decode()
    numbers = dict.fromkeys(re.findall(r"\b\d{9,}\b", schema))
    others = {number: str(10**9 + place) for place, number in enumerate(numbers)}
    schema = re.sub(r"\b\d{9,}\b", lambda number: others[number[0]], schema)
    return zip_bytes(
        [
            (name, schema.encode(), packing)
            if name == "schema.json"
            else (f"{others.get(name.removesuffix('.npy'), '')}.npy", content, packing)
            for name, content, packing in members
        ]
    )


def _matlab() -> list[bytes]:
    wide = np.random.default_rng(0).normal(size=(3, 7))
    ways: tuple[tuple[Any, Any], ...] = (
        ({"w": wide}, {"do_compression": True}),
        ({"w": wide}, {"format": "4"}),
        ({"w": wide}, {}),
        ({"c": "text", "s": {"x": wide}}, {}),
    )
    foreign = [written(".mat", lambda p, a=a: scipy.io.savemat(p, a[0], **a[1])) for a in ways]
    # SciPy writes the date.
    date = b"Created on: some day".ljust(36)
    return [re.sub(rb"Created on: .{24}", date, data) for data in (*_ours(".mat"), *foreign)]


def _read(suffix: str, data: bytes, folder: Path) -> Codebook:
    with warnings.catch_warnings():
        # About a .mat whose columns were taken for words.
        warnings.simplefilter("ignore", UserWarning)
        return registry.read(io.BytesIO(data), f"it{suffix}")


def _check(suffix: str, data: bytes, found: Codebook, folder: Path) -> None:
    assert found.words.nbytes <= 8 * 100 * len(data) + (1 << 20), "more words than bytes allow"
    # skops writes its own files, which takes forty times as long as reading.
    target = ".npy" if suffix == ".skops" else suffix
    path = folder / f"again{target}"
    registry.save(found, path)
    again = _read(target, path.read_bytes(), folder)
    assert np.array_equal(again.words, found.words) or again.words.shape[::-1] == (
        found.words.shape
    ), "the words change when saved"
    if suffix in registry.COMPLETE:
        assert again == found, "the codebook changes when saved"
    if suffix in (".npy", ".npz") and data[:1] in (b"P", b"\x93"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            arrays = [np.asarray(a) for a in _numpy_arrays(data) if np.ndim(a) == 2]
            matrices = [a.astype(np.float32) for a in arrays if a.dtype.kind in "buif"]
        alike = any(np.array_equal(a, w) for a in matrices for w in (found.words, found.words.T))
        assert alike, "NumPy reads something else"


def _numpy_arrays(data: bytes) -> list[Any]:
    """Return what NumPy reads; members of an archive that are not used may be damaged."""
    loaded = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return [loaded]
    found = []
    with loaded as arrays:
        for name in arrays.files:
            with suppress(Exception):
                found.append(arrays[name])
    return found


def _check_signed(data: bytes, found: Codebook, folder: Path) -> None:
    # The digest covers tensors and metadata: a file with the digest of a seed is that seed.
    known = {_digest(seed): seed for seed in _seeds_of("safetensors")}
    seed = known.get(_digest(data)) if _digest(data) else None
    if seed is not None:
        assert found == _read(".safetensors", seed, folder), "another codebook of the same digest"
    _check(".safetensors", data, found, folder)


def _digest(data: bytes) -> Any:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return (header.get("__metadata__") or {}).get("digest")


@cache
def classifier() -> bytes:
    X, y = np.random.default_rng(0).random((12, 5)), np.repeat(["cat", "dog", "owl"], 4)
    model = sklearn.linear_model.LogisticRegression().fit(X, y)
    return written(".safetensors", lambda path: save_classifier(model, path, BOOK))


def _models() -> list[bytes]:
    return [classifier()]


def _read_classifier(data: bytes, folder: Path) -> LinearModel:
    return load_classifier(in_file(data, folder, "model.safetensors"))


def _check_classifier(data: bytes, found: LinearModel, folder: Path) -> None:
    save_classifier(found, folder / "again.safetensors")
    again = load_classifier(folder / "again.safetensors")
    X = np.linspace(0, 1, 2 * found.n_words).reshape(2, -1)
    with np.errstate(all="ignore"):
        first, second = found.decision_function(X), again.decision_function(X)
    assert np.array_equal(first, second, equal_nan=True), "its decisions change when saved"


_TEXTS: Mutation = mixed(plain=TEXT)
_ARRAYS: Mutation = mixed(change_npy)
_FORMATS: dict[str, tuple[str, Callable[[], list[bytes]], Mutation]] = {
    "safetensors": (".safetensors", _safetensors, mixed(change_safetensors)),
    "npy": (".npy", _npy, _ARRAYS),
    "npz": (".npz", _npz, mixed(change_zip(_ARRAYS), share=0.8)),
    "opencv-yml": (".yml", partial(_opencv_seeds, ".yml"), _TEXTS),
    "opencv-xml": (".xml", partial(_opencv_seeds, ".xml"), _TEXTS),
    "opencv-json": (".json", _opencv_json, mixed(change_json, plain=TEXT)),
    "opencv-gz": (".yml.gz", _opencv_gz, mixed(change_gzip(_TEXTS), share=0.85)),
    "faiss": (".faiss", _faiss, mixed(number_in_front, share=0.3)),
    "skops": (".skops", _skops, mixed(change_zip(mixed(change_json, change_npy)), share=0.85)),
    "mat": (".mat", _matlab, mixed(change_mat, number_in_front, share=0.6)),
}


@cache
def _seeds_of(name: str) -> list[bytes]:
    return _FORMATS[name][1]()


_CHECKS = {name: partial(_check, suffix) for name, (suffix, _, _) in _FORMATS.items()}
_CHECKS["safetensors"] = _check_signed
_REFUSED = (FormatError, ParameterError)
_SAVED = mixed(change_safetensors, share=0.8)
READERS = [
    *(
        Reader(
            f"codebook-{n}", partial(_seeds_of, n), partial(_read, end), way, _REFUSED, _CHECKS[n]
        )
        for n, (end, _, way) in _FORMATS.items()
    ),
    Reader("classifier", _models, _read_classifier, _SAVED, (FormatError,), _check_classifier),
]
