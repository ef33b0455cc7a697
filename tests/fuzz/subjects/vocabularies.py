"""Codebooks of every format, and classifiers, in files."""

from __future__ import annotations

import io
import json
import re
import tempfile
import warnings
import zipfile
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
from safetensors.numpy import save as foreign_safetensors
from tests.fuzz.engine import Reader
from tests.fuzz.mutations import TEXT, Mutation, change_json, mixed
from tests.fuzz.structures import (
    change_gzip,
    change_mat,
    change_npy,
    change_safetensors,
    change_zip,
    number_in_front,
    zip_bytes,
)

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats import registry
from bowsaw.formats.classifier import LinearModel, load_classifier, save_classifier


@cache
def book() -> Codebook:
    """A codebook of which everything is known."""
    return Codebook(
        np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32),
        [4, 8, 2, 1, 0],
        scale=512,
        description={"name": "dense-sift", "sizes": [4, 8]},
        provenance={"seed": 0, "objective": 0.3, "place": "Küche"},
        trained_on=[3, 2**64 - 1],
    )


def words() -> Any:
    """Words that every tool takes: more of them than they have dimensions."""
    return np.array(book().words)


def in_file(data: bytes, folder: Path, name: str) -> Path:
    """Write an input to where a reader of paths can find it."""
    path = folder / name
    path.write_bytes(data)
    return path


def written(end: str, write: Callable[[str], Any]) -> bytes:
    """Return the bytes of a file that something writes by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{end}"
        write(str(path))
        return path.read_bytes()


def _ours(end: str, *books: Codebook) -> list[bytes]:
    return [written(end, partial(registry.save, one)) for one in books or (book(),)]


# -- right files of each format, of ours and of the real peers -------------------------------------


def _opencv(end: str, base64: bool = False) -> bytes:
    def write(path: str) -> None:
        mode = cv2.FileStorage_WRITE | (cv2.FileStorage_WRITE_BASE64 if base64 else 0)
        file = cv2.FileStorage(path, mode)
        file.write("vocabulary", words())
        file.write("other", words().astype(np.float64)[:2])
        file.write("note", "some text")
        file.release()

    return written(end, write)


def _safetensors() -> list[bytes]:
    foreign = foreign_safetensors({"a": words(), "n": np.arange(3)}, {"made": "by hand"})
    return [*_ours(".safetensors", book(), Codebook([[1.0, 2.0]]), book().only([2, 8])), foreign]


def _npy() -> list[bytes]:
    return [
        *_ours(".npy"),
        written(".npy", lambda path: np.save(path, words().astype(">f8"))),
        written(".npy", lambda path: np.save(path, np.asfortranarray(words()))),
    ]


def _npz() -> list[bytes]:
    return [
        *_ours(".npz"),
        written(".npz", lambda path: np.savez(path, a=words(), b=np.arange(3))),
        written(".npz", lambda path: np.savez_compressed(path, words=words())),
    ]


def _faiss() -> list[bytes]:
    flat = faiss.IndexFlatL2(4)
    flat.add(words())
    lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(4), 4, 2)
    lists.train(np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32))
    named = faiss.IndexIDMap(faiss.IndexFlatL2(4))
    named.add_with_ids(words(), np.arange(5))
    indexes = (flat, lists, named)
    return [*_ours(".faiss"), *(written(".faiss", partial(faiss.write_index, i)) for i in indexes)]


def _skops() -> list[bytes]:
    means = sklearn.cluster.KMeans(2, n_init=1, random_state=0).fit(words())
    return [_numbered_anew(data) for data in (*_ours(".skops"), skops.io.dumps(means))]


def _numbered_anew(data: bytes) -> bytes:
    """Let a skops file be the same in every process: it has addresses for names, and the time."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(e.filename, archive.read(e), e.compress_type) for e in archive.infolist()]
    schema = next(content for name, content, _ in members if name == "schema.json").decode()
    numbers = dict.fromkeys(re.findall(r"\b\d{9,}\b", schema))
    anew = {number: str(10**9 + place) for place, number in enumerate(numbers)}
    for number, other in anew.items():
        schema = schema.replace(number, other)
    renamed = [
        (anew.get(name.removesuffix(".npy"), "") + ".npy", content, packing)
        if name != "schema.json"
        else (name, schema.encode(), packing)
        for name, content, packing in members
    ]
    return zip_bytes(renamed)


def _matlab() -> list[bytes]:
    wide = np.random.default_rng(0).normal(size=(3, 7))
    found = [
        *_ours(".mat"),
        *(
            written(".mat", lambda path, how=how: scipy.io.savemat(path, {"w": wide}, **how))
            for how in ({"do_compression": True}, {"format": "4"}, {"do_compression": False})
        ),
        written(".mat", lambda path: scipy.io.savemat(path, {"c": "text", "s": {"x": wide}})),
    ]
    # SciPy writes down when.
    return [
        re.sub(rb"Created on: .{24}", b"Created on: some day".ljust(36), data) for data in found
    ]


# -- reading and checking --------------------------------------------------------------------------


def _read(end: str, data: bytes, folder: Path) -> Codebook:
    with warnings.catch_warnings():
        # Of a .mat whose columns were taken for words.
        warnings.simplefilter("ignore", UserWarning)
        return registry.read(io.BytesIO(data), f"it{end}")


def _check(end: str, data: bytes, found: Codebook, folder: Path) -> None:
    assert found.words.nbytes <= 8 * 100 * len(data) + (1 << 20), "more words than bytes allow"
    peer = _PEERS.get(end)
    if end == ".skops":
        # Written by skops itself, which takes forty times as long as reading.
        end = ".npy"
    path = folder / f"again{end}"
    registry.save(found, path)
    again = _read(end, path.read_bytes(), folder)
    assert np.array_equal(again.words, found.words) or again.words.shape[::-1] == (
        found.words.shape
    ), "it does not survive being saved"
    if end in registry.COMPLETE:
        assert again == found, "something does not survive being saved"
    if peer is not None and data[:1] in (b"P", b"\x93"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = [np.asarray(a) for a in peer(data)]
        with np.errstate(all="ignore"):
            kinds = [a.astype(np.float32) for a in arrays if a.ndim == 2 and a.dtype.kind in "buif"]
        alike = any(np.array_equal(a, w) for a in kinds for w in (found.words, found.words.T))
        assert alike, "the peer reads something else"


def _npz_arrays(data: bytes) -> list[Any]:
    """Return what NumPy reads of an archive; members that nobody asked for may be damaged."""
    found = []
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        for name in arrays.files:
            with suppress(Exception):
                found.append(arrays[name])
    return found


_PEERS: dict[str, Callable[[bytes], list[Any]]] = {
    ".npy": lambda data: [np.load(io.BytesIO(data), allow_pickle=False)],
    ".npz": _npz_arrays,
}
"""Others' readers of what was accepted, where they are not native code that might crash."""


def _check_signed(data: bytes, found: Codebook, folder: Path) -> None:
    # The digest covers tensors and metadata: a file with the digest of a seed is that seed.
    known = {_digest(seed): seed for seed in _cached("safetensors")}
    seed = known.get(_digest(data)) if _digest(data) else None
    if seed is not None:
        assert found == _read(".safetensors", seed, folder), "another codebook of the same digest"
    _check(".safetensors", data, found, folder)


def _digest(data: bytes) -> Any:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header.get("__metadata__", {}).get("digest")


# -- classifiers -----------------------------------------------------------------------------------


@cache
def classifier() -> bytes:
    """A classifier of the codebook's histograms."""
    random = np.random.default_rng(0)
    X, y = random.random((12, 5)), np.repeat(["cat", "dog", "owl"], 4)
    machine = sklearn.linear_model.LogisticRegression().fit(X, y)
    return written(".safetensors", lambda path: save_classifier(machine, path, book()))


def _read_classifier(data: bytes, folder: Path) -> LinearModel:
    return load_classifier(in_file(data, folder, "model.safetensors"))


def _check_classifier(data: bytes, found: LinearModel, folder: Path) -> None:
    save_classifier(found, folder / "again.safetensors")
    again = load_classifier(folder / "again.safetensors")
    X = np.linspace(0, 1, 2 * found.n_words).reshape(2, -1)
    with np.errstate(all="ignore"):
        first, second = found.decision_function(X), again.decision_function(X)
    assert np.array_equal(first, second, equal_nan=True), "it decides otherwise once saved"


_TEXTS: Mutation = mixed(plain=TEXT)
_ARRAYS: Mutation = mixed(change_npy)
_SEEDS: dict[str, tuple[str, Callable[[], list[bytes]], Mutation]] = {
    "safetensors": (".safetensors", _safetensors, mixed(change_safetensors)),
    "npy": (".npy", _npy, _ARRAYS),
    "npz": (".npz", _npz, mixed(change_zip(_ARRAYS), share=0.8)),
    "opencv-yml": (
        ".yml",
        lambda: [*_ours(".yml"), _opencv(".yml"), _opencv(".yml", base64=True)],
        _TEXTS,
    ),
    "opencv-xml": (
        ".xml",
        lambda: [*_ours(".xml"), _opencv(".xml"), _opencv(".xml", base64=True)],
        _TEXTS,
    ),
    "opencv-json": (
        ".json",
        lambda: [*_ours(".json"), _opencv(".json")],
        mixed(change_json, plain=TEXT),
    ),
    "opencv-gz": (
        ".yml.gz",
        lambda: [*_ours(".yml.gz"), *_ours(".xml.gz"), *_ours(".json.gz"), _opencv(".yml.gz")],
        mixed(change_gzip(_TEXTS), share=0.85),
    ),
    "faiss": (".faiss", _faiss, mixed(number_in_front, share=0.3)),
    "skops": (".skops", _skops, mixed(change_zip(mixed(change_json, change_npy)), share=0.85)),
    "mat": (".mat", _matlab, mixed(change_mat, number_in_front, share=0.6)),
}


@cache
def _cached(kind: str) -> list[bytes]:
    return _SEEDS[kind][1]()


READERS = [
    *(
        Reader(
            f"codebook-{kind}",
            partial(_cached, kind),
            partial(_read, end),
            mutate,
            (FormatError, ParameterError),
            _check_signed if kind == "safetensors" else partial(_check, end),
        )
        for kind, (end, _, mutate) in _SEEDS.items()
    ),
    Reader(
        "classifier",
        lambda: [classifier()],
        _read_classifier,
        mixed(change_safetensors, share=0.8),
        (FormatError,),
        _check_classifier,
    ),
]
