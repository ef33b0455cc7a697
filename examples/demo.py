"""From handwritten digits to a small recogniser, with the commands that a user types.

The images are the 1,797 digits that scikit-learn ships, so nothing is downloaded. Each is enlarged
from 8 × 8 to 64 × 64 pixels. ``bowsaw shrink`` learns from some of them; the others are put aside,
so that its estimate can be compared with images that it has never seen. ``bowsaw compare`` then
measures several methods on those others.

Run it with ``make demo``; everything it makes is in ``demo/``.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import bowsaw as bs

SIDE = 64
"""Side of an image in pixels: 49 patches of dense SIFT."""
LEARNED = 60
"""Images per class that the recogniser learns from; about 120 per class are put aside."""
KEPT = "50"
WORDS, SIZES, SPLIT, SPLITS = "500", "10,50", "20/20/rest", "5"
METHODS = "refinement,annealing,kmeans,random"
SHADES = " .-+#"


def enlarge(digit: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return a digit of 8 × 8 values from 0 to 16 as dark ink on white paper."""
    ink = cv2.resize(digit, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) / 16
    return np.round(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)


def draw(digit: NDArray[np.float64]) -> str:
    """Return a digit as eight lines of text."""
    return "\n".join("  " + "".join(2 * SHADES[int(ink + 2) // 4] for ink in row) for row in digit)


def write_images(learned: Path, aside: Path) -> dict[Path, NDArray[np.float64]]:
    """Write one folder per class in both folders; return the digits that were put aside."""
    digits = load_digits()
    n_written = dict.fromkeys(range(10), 0)
    left = {}
    # At random: neighbours in the list are by the same hand.
    for number in np.random.default_rng(0).permutation(len(digits.images)):
        digit, label = digits.images[number], digits.target[number]
        n_written[label] += 1
        is_left = n_written[label] > LEARNED
        folder = (aside if is_left else learned) / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number:04}.png"
        cv2.imwrite(str(path), enlarge(digit))
        if is_left:
            left[path] = digit
    return left


def run(*arguments: str | Path) -> None:
    """Show a command, run it, and stop with its exit code when it fails."""
    words = [Path(word).as_posix() if isinstance(word, Path) else word for word in arguments]
    print(f"\n$ bowsaw {shlex.join(words)}", flush=True)
    finished = subprocess.run([sys.executable, "-m", "bowsaw", *words], check=False)
    if finished.returncode:
        raise SystemExit(finished.returncode)


def main(folder: Path = Path("demo")) -> None:
    """Write the images, shrink, predict, compare, and report what was found and where."""
    begin = time.perf_counter()
    learned, aside = folder / "digits", folder / "other-digits"
    recogniser, comparison = folder / "recogniser", folder / "run"
    for old in (learned, aside, recogniser, comparison):
        shutil.rmtree(old, ignore_errors=True)

    left = write_images(learned, aside)
    print(
        f"{10 * LEARNED} handwritten digits are in {learned.as_posix()}/, one folder per class; "
        f"{len(left):,} more are put aside in {aside.as_posix()}/."
    )
    run("shrink", learned, "--keep", KEPT, "-o", recogniser)

    image = min(left, key=lambda path: path.name)
    print(f"\nA digit that was put aside, {image.as_posix()}:\n{draw(left[image])}")
    run("predict", recogniser, image)

    small = bs.Recogniser.load(recogniser)
    found = small.predict(list(left)) == [path.parent.name for path in left]
    print(
        f"\nOf all {len(left):,} digits put aside, {found.mean():.3f} are recognised; the estimate "
        f"of shrink was {small.score_:.3f} ± {small.score_margin_:.3f}."
    )

    print(f"\nHow do other methods do? {SPLITS} random splits of the digits put aside:")
    asked = ("--words", WORDS, "--sizes", SIZES, "--methods", METHODS)
    run("compare", aside, *asked, "--split", SPLIT, "--splits", SPLITS, "-o", comparison)

    study = Path(__file__).resolve().parents[1] / "results" / "index.html"
    print(f"\nDone in {time.perf_counter() - begin:.0f} s. Open in a browser, or use:")
    for path, what in (
        (recogniser / "index.html", "the page of the recogniser"),
        (recogniser, "the recogniser: words, classifier and ONNX graph"),
        (comparison / "index.html", "the methods side by side"),
        (study, "the methods on two benchmarks of photographs, from 5000 words"),
    ):
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        print(f"  {shown.as_posix():<28} {what}")


if __name__ == "__main__":
    main()
