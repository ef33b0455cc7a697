"""What ``bowsaw extract`` prints and makes."""

from __future__ import annotations

import numpy as np

from bowsaw import Store


def test_extract_tells_what_it_made_and_set_aside(bowsaw, made):
    found = bowsaw("extract", made.images, "-o", "a.store")
    first, *others = found.lines()
    assert first.startswith("a.store: 432 images in 3 classes, 6,912 descriptors (885 kB), ")
    assert others == [
        "set aside, 2 of 434 files:",
        "  brick/[bold] 1.png: empty file",
        "  grass/broken.png: not an image, or of a format that OpenCV does not read",
    ]
    assert found.err == "434 files in 3 classes\n"


def test_extract_passes_the_parameters_on(bowsaw, made):
    wanted = {"patch": 24, "step": 12, "max_side": 36, "min_contrast": 2.5}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in wanted.items()]
    bowsaw("extract", made.images, "-o", "a.store", *flags, "--dtype", "float32").lines()
    store = Store("a.store")
    assert wanted.items() <= store.description.items()
    assert store.bags.dtype == np.float32


def test_extract_suggests_a_split_that_fits(bowsaw, made, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "next: bowsaw evaluate 'a b.store'\n" in plain(
        bowsaw("extract", made.images, "-o", "a b.store").err
    )
    small = tmp_path / "small"
    for name in ("brick", "grass"):
        (small / name).mkdir(parents=True)
        for picture in sorted((made.images / name).glob("00[0-6].png")):
            (small / name / picture.name).write_bytes(picture.read_bytes())
    found = plain(bowsaw("extract", small, "-o", "small.store").err)
    assert "next: bowsaw evaluate small.store --train-codebook 2 --train 2\n" in found


def test_extract_tells_of_pictures_that_are_there_twice(bowsaw, made, tmp_path):
    small = tmp_path / "small"
    for name, source in (("a/1", "000"), ("a/2", "000"), ("b/3", "001"), ("b/4", "000")):
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        picture = made.images / "brick" / f"{source}.png"
        (small / f"{name}.png").write_bytes(picture.read_bytes())
    assert bowsaw("extract", small, "-o", "small.store").lines()[1:] == [
        "more than once: 1 image, in several classes, such as a/2.png and b/4.png; a split may "
        "train on one and test on another",
    ]
    assert Store("small.store").copies == [("a/1.png", "a/2.png", "b/4.png")]
    assert "more than once  a/1.png, a/2.png, b/4.png" in bowsaw("inspect", "small.store").out
    (small / "b" / "4.png").unlink()
    assert (
        bowsaw("extract", small, "-o", "other.store")
        .lines()[1]
        .startswith("more than once: 1 image, such as a/1.png and a/2.png; a split may")
    )


def plain(text: str) -> str:
    return text.replace("\x1b[2m", "").replace("\x1b[0m", "")
