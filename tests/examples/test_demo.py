"""The demo's images and its text; ``make demo`` itself runs in the workflow."""

import re
from pathlib import Path

import cv2
import numpy as np
from sklearn.datasets import load_digits

from examples import demo

TOP = Path(__file__).resolve().parents[2]


def images_in(folder: Path) -> dict[str, list[bytes]]:
    return {
        part.name: [path.read_bytes() for path in sorted(part.iterdir())]
        for part in sorted(folder.iterdir())
    }


def test_every_digit_is_in_one_of_the_two_folders_by_its_class(tmp_path):
    left = demo.write_images(tmp_path / "digits", tmp_path / "aside")
    learned, aside = images_in(tmp_path / "digits"), images_in(tmp_path / "aside")
    assert list(learned) == list(aside) == [str(label) for label in range(10)]
    assert {len(found) for found in learned.values()} == {demo.LEARNED}
    n_codebook, n_train, _ = demo.SPLIT.split("/")
    n_test = min(len(found) for found in aside.values()) - int(n_codebook) - int(n_train)
    assert n_test > 50
    assert len(left) + 10 * demo.LEARNED == 1797
    digits = load_digits()
    for path, digit in list(left.items())[::100]:
        number = int(path.stem)
        assert (digit == digits.images[number]).all()
        assert path.parent.name == str(digits.target[number])
        assert np.array_equal(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), demo.enlarge(digit))


def test_the_same_images_every_time(tmp_path):
    for name in ("one", "two"):
        demo.write_images(tmp_path / name, tmp_path / f"{name} aside")
    assert images_in(tmp_path / "one") == images_in(tmp_path / "two")
    assert images_in(tmp_path / "one aside") == images_in(tmp_path / "two aside")


def test_a_digit_is_dark_ink_on_white_and_can_be_read_in_the_terminal():
    digit = load_digits().images[0]
    image = demo.enlarge(digit)
    assert image.shape == (demo.SIDE, demo.SIDE)
    assert image[0, 0] == 255
    assert image.min() < 40
    # A zero: ink in a ring, none in the middle and in the corners.
    rows = [line[2:] for line in demo.draw(digit).splitlines()]
    assert [len(row) for row in rows] == [16] * 8
    assert rows[3][8:10].isspace()
    assert rows[0][:2].isspace()
    assert not rows[3][:8].isspace()
    assert not rows[3][10:].isspace()
    assert "##" in demo.draw(digit)


def test_the_case_is_made_at_a_tenth_of_the_words_with_refinement_among_the_methods():
    sizes = [int(size) for size in demo.SIZES.split(",")]
    assert int(demo.WORDS) >= 10 * max(sizes)
    assert int(demo.WORDS) // 10 >= int(demo.KEPT)
    assert {"refinement", "kmeans", "random"} <= set(demo.METHODS.split(","))
    assert int(demo.SPLITS) == 5


def test_help_states_the_time():
    (line,) = re.findall(r"^demo:.*## (.*)$", (TOP / "Makefile").read_text("utf-8"), re.M)
    assert re.search(r"\d+ (minutes|s) on 2 cores", line)
