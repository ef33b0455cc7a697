"""A recogniser before and after pruning: its bytes, and milliseconds an image, here and elsewhere.

Descriptors to scores of one image after the other, on one thread: our Python, the exported graph in
onnxruntime, the exported header compiled by the machine's C compiler (nothing where there is none).
Python gets its images in one call, since it prepares the words anew for each call. Times are those
of the processor: on one thread that is the time of the clock, without what others do meanwhile.

Which words are kept changes neither bytes nor times, so the smaller codebooks are drawn at random.
The labels of all sides must agree, the hard codes must be equal, and soft histograms within 1e-5.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import bowsaw as bs
from benchmarks import data
from benchmarks.timing import alternate
from bowsaw.formats.c_header import write_c_header
from bowsaw.formats.classifier import LinearModel
from bowsaw.formats.onnx import write_onnx
from bowsaw.parallel import single_threaded_blas

Result = dict[str, Any]
Coding = Literal["hard", "soft"]

FLAGS = ("-std=c99", "-O2", "-ffp-contract=off")
_C = """
#include "words.h"
size_t recognise(const bowsaw_input *rows, size_t n, float *histogram)
{
    float scores[BOWSAW_N_CLASSES];
    bowsaw_histogram(rows, n, histogram);
    bowsaw_scores(histogram, scores);
    return bowsaw_label(scores);
}
"""


def device(
    sizes: Sequence[int] = (5000, 1000, 50),
    n_images: int = 20,
    n_compiled: int = 3,
    n_train: int = 150,
    repeats: int = 5,
) -> Result:
    """Bytes and milliseconds an image of a codebook and of smaller ones, hard and soft."""
    bags, whole = data.corpus(n_train, max(sizes))
    labels = data.labels(n_train)
    chosen = bags[np.linspace(0, len(bags) - 1, n_images).astype(np.int64)]
    drawn = np.random.default_rng(0).permutation(whole.ids)
    rows = []
    for n_words in sizes:
        book = whole.only(np.sort(drawn[:n_words]))
        for coding in ("hard", "soft"):
            coder = bs.BagOfWords(book, coding=coding, n_jobs=1)
            fitted = bs.HistogramClassifier(C=4.0).fit(coder.transform(bags), labels)
            model = LinearModel.of(fitted, coder)
            rows.append(_row(coder, model, chosen, min(n_compiled, n_images), repeats))
    return {
        "rows": rows,
        "threads": 1,
        "size": f"{chosen.n_descriptors // len(chosen)} descriptors per image, {chosen.n_dims} "
        f"{bags.dtype} each, {len(np.unique(labels))} classes",
        "runtime": f"onnxruntime {version('onnxruntime')}",
        "compiler": _compiler_name(),
        "same": all(row["same"] for row in rows),
    }


def _row(
    coder: bs.BagOfWords, model: LinearModel, bags: bs.Bags, n_compiled: int, repeats: int
) -> Result:
    book = coder.words_in_use()
    expected = coder.transform(bags)
    truth = np.argmax(model.scores(expected), axis=1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bs.save(book, place / "book.safetensors")
        write_onnx(coder, place / "g.onnx", model, descriptors="uint8")
        session = _session(place / "g.onnx")

        def python() -> NDArray[np.int64]:
            with single_threaded_blas():
                return np.argmax(model.scores(coder.transform(bags)), axis=1)

        def graph() -> list[Any]:
            return [
                session.run(["label", "histogram"], {"descriptors": bags[i]})
                for i in range(len(bags))
            ]

        sides: dict[str, Callable[[], Any]] = {"python": python, "onnx": graph}
        for words in ("float32", "uint8"):
            library = _compiled(place, coder, model, words)
            if library is not None:
                sides[f"c_{words}"] = _in_c(library, bags[:n_compiled], book.n_words)
        answers = graph()
        found = np.concatenate([histogram for _, histogram in answers])
        error = float(np.abs(found - expected).max())
        agree = [int(label[0]) for label, _ in answers] == truth.tolist()
        if "c_float32" in sides:
            compiled = sides["c_float32"]()
            agree = agree and [label for label, _ in compiled] == truth[:n_compiled].tolist()
            error = max(
                error, *(float(np.abs(h - expected[i]).max()) for i, (_, h) in enumerate(compiled))
            )
        times = alternate(repeats, clock=time.process_time, **sides)
        table = book.n_words * book.n_dims
        rest = 4 * (book.n_words + 1) * len(model.weights)
        return {
            "coding": coder.coding,
            "n_words": book.n_words,
            "bytes": {
                "safetensors": (place / "book.safetensors").stat().st_size,
                "onnx": (place / "g.onnx").stat().st_size,
                "c_float32": 4 * table + rest,
                "c_uint8": table + rest,
            },
            "seconds": {
                name: spent / (n_compiled if name.startswith("c_") else len(bags))
                for name, spent in times.items()
            },
            "error": error,
            "same": agree and error <= (0 if coder.coding == "hard" else 1e-5),
        }


def _session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _compiler() -> str | None:
    named = (sysconfig.get_config_var("CC") or "").split()[:1]
    return next(filter(None, map(shutil.which, (*named, "cc", "gcc", "clang"))), None)


def _compiler_name() -> str:
    cc = _compiler()
    if cc is None:
        return "none"
    told = subprocess.run([cc, "--version"], capture_output=True, text=True, check=True).stdout
    return f"{told.splitlines()[0]} {' '.join(FLAGS)}"


def _compiled(folder: Path, coder: bs.BagOfWords, model: LinearModel, words: Any) -> Any:
    """Return the library of a header, or None where there is no compiler."""
    cc = _compiler()
    if cc is None:
        return None
    write_c_header(coder, folder / "words.h", model, words=words, descriptors="uint8")
    (folder / "it.c").write_text(_C)
    target = folder / f"{words}.so"
    command = [cc, *FLAGS, "-shared", "-fPIC", "it.c", "-o", target.name, "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(target))


def _in_c(
    library: Any, bags: bs.Bags, n_words: int
) -> Callable[[], list[tuple[int, NDArray[np.float32]]]]:
    library.recognise.restype = ctypes.c_size_t
    images = [np.ascontiguousarray(bags[i]) for i in range(len(bags))]

    def run() -> list[tuple[int, NDArray[np.float32]]]:
        out = []
        for rows in images:
            histogram = np.empty(n_words, dtype=np.float32)
            label = library.recognise(
                rows.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(len(rows)),
                histogram.ctypes.data_as(ctypes.c_void_p),
            )
            out.append((int(label), histogram))
        return out

    return run


# -- the table -------------------------------------------------------------------------------------


def device_section(result: Result) -> str:
    """Return the part of RESULTS.md."""
    return "\n".join(["## On a device", "", device_table(result)])


def device_block(results: dict[str, Any]) -> str:
    """Return what docs/device.md shows between its marks."""
    measured = results.get("measured", {})
    if "device" not in measured:
        return "Not measured yet: `make bench` fills this in.\n"
    facts = results["hardware"]
    machine = f"{facts['processor']}, {facts['system']}, Python {facts['python']}."
    return f"{device_table(measured['device'])}\nMeasured on one core: {machine}\n"


def device_table(result: Result) -> str:
    """Return the table: bytes and milliseconds, full and pruned."""
    rows = [
        f"From descriptors to a class on one thread; {result['size']}. {result['runtime']}; C: "
        f"{result['compiler']}. Kilobytes of a file or of its tables; milliseconds of processor "
        "time per image, medians.",
        "",
        "| coding | words | .safetensors | .onnx | C tables, float | C tables, 8 bits | Python | "
        "onnxruntime | C, float | C, 8 bits |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        sizes = " | ".join(_kilobytes(n) for n in row["bytes"].values())
        times = " | ".join(
            _milliseconds(row["seconds"].get(name))
            for name in ("python", "onnx", "c_float32", "c_uint8")
        )
        rows.append(f"| {row['coding']} | {row['n_words']} | {sizes} | {times} |")
    worst = max((r["error"] for r in result["rows"] if r["coding"] == "soft"), default=0.0)
    rows += [
        "",
        "Of the same images, all sides gave the same classes, the same hard histograms to the bit, "
        f"and soft histograms that differ by {worst:.1e} at most (with float words)."
        if result["same"]
        else "THE SIDES DISAGREE.",
        "",
    ]
    return "\n".join(rows)


def _kilobytes(n_bytes: int) -> str:
    return f"{n_bytes / 1000:,.1f} kB"


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{float(f'{1e3 * seconds:.3g}'):g} ms"
