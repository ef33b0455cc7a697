"""From the pixels of a grey image to its class: bytes, memory and milliseconds, here and elsewhere.

One image after the other, on one thread: our Python, the exported graph in onnxruntime, the
exported header compiled by the machine's C compiler (nothing where there is none), the exported
page in Chromium (nothing where there is none), and OpenCV's chain: ``cv2.SIFT.compute`` on the same
grid, ``BFMatcher``, a histogram, its square root and ``LinearSVC``. Python gets its images in one
call, since it prepares the words again for each call. Times are those of the processor, except for
the page: on one thread that is the time of the clock, without what others do meanwhile.

Which words are kept changes neither bytes nor times, so the small codebooks are drawn at random.
The classes of Python, graph and header with float words must agree.
"""

from __future__ import annotations

import base64
import ctypes
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Literal

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

import bowsaw as bs
from benchmarks import data
from benchmarks.timing import alternate, hardware, peak_anonymous
from bowsaw.formats.c_header import write_c_header
from bowsaw.formats.classifier import LinearModel
from bowsaw.formats.onnx import write_onnx
from bowsaw.parallel import single_threaded_blas
from bowsaw.report import write_recogniser_page

Result = dict[str, Any]
Coding = Literal["hard", "soft"]
Side = Callable[[], list[int]]

PLAIN = ("-std=c99", "-O3")
FLAGS = {"": (*PLAIN, "-march=native"), "_plain": PLAIN}
_C = """
#include "words.h"
static bowsaw_scratch scratch;
size_t scratch_bytes(void) { return BOWSAW_SCRATCH_BYTES; }
int32_t recognise(const uint8_t *grey, int32_t width, int32_t height)
{
    float scores[BOWSAW_N_CLASSES];
    return bowsaw_recognise(grey, width, height, (size_t)width, &scratch, scores);
}
"""
_IN_A_PROCESS = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
session.run(["label"], {"image": numpy.load(sys.argv[2])[None]})
"""
_ASK = """async ([grey, width, height]) => {
  const bytes = Uint8Array.from(atob(grey), (one) => one.charCodeAt(0));
  const begin = performance.now();
  await recognise({grey: bytes, width, height});
  return performance.now() - begin;
}"""
_BYTES = {"float": 4, "int32_t": 4, "uint16_t": 2, "int16_t": 2, "uint8_t": 1, "int8_t": 1}


def device(
    sizes: Sequence[int] = (200, 50, 20),
    n_words: int = 200,
    n_images: int = 20,
    n_train: int = 150,
    repeats: int = 9,
) -> Result:
    """Bytes and milliseconds per image of small codebooks, hard and soft."""
    bags, whole = data.corpus(n_train, n_words)
    labels = data.labels(n_train)
    images = data.pictures(n_images)
    drawn = np.random.default_rng(0).permutation(whole.ids)
    rows = []
    for n in sizes:
        book = whole.only(np.sort(drawn[:n]))
        for coding in ("hard", "soft"):
            coder = bs.BagOfWords(book, coding=coding, n_jobs=1)
            fitted = bs.HistogramClassifier(C=4.0).fit(coder.transform(bags), labels)
            rows.append(_row(coder, LinearModel.of(fitted, coder), images, repeats))
    n_patches = sum(len(bs.DenseSift().describe(image)[0]) for image in images) // len(images)
    return {
        "rows": rows,
        "machine": "{processor}, {system}, Python {python}".format(**hardware()),
        "threads": 1,
        "size": f"{len(images)} images of {_sides(images)} pixels and {n_patches} patches, "
        f"{len(np.unique(labels))} classes",
        "runtime": f"onnxruntime {version('onnxruntime')}, opencv-python-headless "
        f"{version('opencv-python-headless')}",
        "compiler": _compiler_name(),
        "same": all(row["same"] for row in rows),
    }


def _sides(images: Sequence[NDArray[np.uint8]]) -> str:
    """Return the usual size, as a text."""
    width, height = (int(median(image.shape[axis] for image in images)) for axis in (1, 0))
    return f"about {width}×{height}"


def _row(
    coder: bs.BagOfWords, model: LinearModel, images: Sequence[NDArray[np.uint8]], repeats: int
) -> Result:
    book = coder.words_in_use()
    recogniser = bs.Recogniser(book, model)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_onnx(coder, place / "g.onnx", model)
        write_recogniser_page(coder, place / "try.html", model)
        session = _session(place / "g.onnx")

        def python() -> list[int]:
            with single_threaded_blas():
                return np.argmax(recogniser.decision_function(images, n_jobs=1), axis=1).tolist()

        def graph() -> list[int]:
            return [int(session.run(["label"], {"image": i[None]})[0][0]) for i in images]

        sides: dict[str, Side] = {"python": python, "opencv": _opencv(book, images), "onnx": graph}
        files = {"onnx": "g.onnx", "page": "try.html"}
        sizes = {name: (place / file).stat().st_size for name, file in files.items()}
        memory: dict[str, int] = {}
        for words in ("float32", "uint8"):
            write_c_header(coder, place / "words.h", model, words=words)
            sizes[f"c_{words}"] = _table_bytes((place / "words.h").read_text())
            for name, flags in FLAGS.items():
                library = _compiled(place, f"{words}{name}", flags)
                if library is not None:
                    memory[f"c_{words}"] = library.scratch_bytes()
                    sides[f"c_{words}{name}"] = _in_c(library, images)
        np.save(place / "image.npy", images[0])
        command = [sys.executable, "-c", _IN_A_PROCESS]
        memory["onnx"] = peak_anonymous([*command, str(place / "g.onnx"), str(place / "image.npy")])
        truth = python()
        agree = {name: np.mean(np.equal(side(), truth)) for name, side in sides.items()}
        agree.pop("opencv")
        times = alternate(repeats, clock=time.process_time, **sides)
        seconds = {name: spent / len(images) for name, spent in times.items()}
        page = _page_seconds(place / "try.html", images)
        return {
            "coding": coder.coding,
            "n_words": book.n_words,
            "bytes": sizes,
            "memory": memory,
            "seconds": seconds if page is None else seconds | {"page": page},
            "same_classes": {name: float(share) for name, share in agree.items()},
            "same": all(share == 1 for name, share in agree.items() if "uint8" not in name),
        }


def _opencv(book: bs.Codebook, images: Sequence[NDArray[np.uint8]]) -> Side:
    cv2.setNumThreads(1)
    sift, matcher = cv2.SIFT_create(), cv2.BFMatcher(cv2.NORM_L2)
    # As in the comparison of descriptors: a window of 6 s pixels is that of a keypoint of size s.
    grids = [
        [cv2.KeyPoint(float(x), float(y), side / 6, 0.0) for x, y, side in positions]
        for _, positions in map(bs.DenseSift().describe, images)
    ]

    def histograms() -> NDArray[np.float64]:
        found = []
        for image, grid in zip(images, grids, strict=True):
            codes = [m.trainIdx for m in matcher.match(sift.compute(image, grid)[1], book.words)]
            found.append(np.bincount(codes, minlength=book.n_words) / len(codes))
        return np.sqrt(found)

    machine = LinearSVC().fit(histograms(), np.arange(len(images)) % min(15, len(images)))
    return lambda: [int(machine.predict(row[None])[0]) for row in histograms()]


def _session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _page_seconds(page: Path, images: Sequence[NDArray[np.uint8]]) -> float | None:
    """Return the median time of an image in the page, after the first; None without Chromium."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if program is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=["--disable-gpu"]
        )
        seen = browser.new_page()
        seen.goto(page.as_uri())
        times = [
            seen.evaluate(_ASK, [base64.b64encode(i).decode(), i.shape[1], i.shape[0]])
            for i in [images[0], *images]
        ]
        browser.close()
    return float(median(times[1:])) / 1e3


def _compiler() -> str | None:
    named = (sysconfig.get_config_var("CC") or "").split()[:1]
    return next(filter(None, map(shutil.which, (*named, "cc", "gcc", "clang"))), None)


def _compiler_name() -> str:
    cc = _compiler()
    if cc is None:
        return "none"
    found = subprocess.run([cc, "--version"], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()[0]


def _table_bytes(header: str) -> int:
    """Return the bytes of a header's tables of numbers."""
    tables = re.findall(r"static const (\w+) \w+((?:\[\d+\])+) =", header)
    return sum(
        _BYTES[kind] * int(np.prod([int(n) for n in re.findall(r"\d+", lengths)]))
        for kind, lengths in tables
    )


def _compiled(folder: Path, name: str, flags: Sequence[str]) -> Any:
    """Return the library of a header, or None where there is no compiler."""
    cc = _compiler()
    if cc is None:
        return None
    (folder / "it.c").write_text(_C)
    command = [cc, *flags, "-shared", "-fPIC", "it.c", "-o", f"{name}.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / f"{name}.so"))


def _in_c(library: Any, images: Sequence[NDArray[np.uint8]]) -> Side:
    given = [(i.ctypes.data_as(ctypes.c_void_p), i.shape[1], i.shape[0]) for i in images]
    return lambda: [library.recognise(*arguments) for arguments in given]


# -- the table -------------------------------------------------------------------------------------


def device_section(result: Result) -> str:
    """Return the part of RESULTS.md."""
    return "\n".join(["## On a device", "", device_table(result)])


def device_block(results: dict[str, Any]) -> str:
    """Return what docs/device.md shows between its marks."""
    measured = results.get("measured", {})
    if "device" not in measured:
        return "Not measured yet: `make bench` fills this in.\n"
    found = measured["device"]
    return f"{device_table(found)}\nMeasured on one core: {found['machine']}.\n"


COLUMNS = {
    "Python": "python",
    "OpenCV": "opencv",
    "onnxruntime": "onnx",
    "Chromium": "page",
    "C, float": "c_float32",
    "C, 8 bits": "c_uint8",
    "plain C, float": "c_float32_plain",
    "plain C, 8 bits": "c_uint8_plain",
}


def device_table(result: Result) -> str:
    """Return the tables: bytes and memory, and milliseconds."""
    names = ("onnx", "page", "c_float32", "c_uint8")
    rows = [
        "| coding | words | .onnx | .html | C tables, float | C tables, 8 bits | "
        "memory, C, float | memory, C, 8 bits | memory, onnxruntime |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        sizes = " | ".join(_kilobytes(row["bytes"][name]) for name in names)
        scratch = " | ".join(_kilobytes(row["memory"].get(name)) for name in names[2:])
        runtime = f"{row['memory']['onnx'] / 1e6:.0f} MB"
        rows.append(f"| {row['coding']} | {row['n_words']} | {sizes} | {scratch} | {runtime} |")
    rows += [
        "",
        "Memory of C is the scratch memory that the caller gives, for sides of up to 300 pixels; "
        "that of onnxruntime is the anonymous memory of a process of Python with the runtime.",
        "",
        f"| coding | words | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    for row in result["rows"]:
        times = " | ".join(_milliseconds(row["seconds"].get(name)) for name in COLUMNS.values())
        rows.append(f"| {row['coding']} | {row['n_words']} | {times} |")
    rows += [
        "",
        f"From pixels to a class on one thread: {result['size']}. {result['runtime']}. OpenCV is "
        "`SIFT.compute` on the same grid, `BFMatcher`, histogram and `LinearSVC`. C: "
        f"{result['compiler']}, `{' '.join(FLAGS[''])}`; plain C without `-march=native`. "
        "Milliseconds of processor time per image, medians; in Chromium, of the clock.",
        "",
        "Of the same images, Python, graph and header with float words gave the same classes."
        if result["same"]
        else "THE SIDES DISAGREE.",
        "",
    ]
    return "\n".join(rows)


def _kilobytes(n_bytes: int | None) -> str:
    return "" if n_bytes is None else f"{n_bytes / 1000:,.1f} kB"


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{float(f'{1e3 * seconds:.3g}'):g} ms"
