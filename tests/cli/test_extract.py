"""What ``bowsaw extract`` prints and makes."""

from __future__ import annotations

import numpy as np

from bowsaw import Store


def test_extract_reports_what_it_made_and_set_aside(bowsaw, made):
    found = bowsaw("extract", made.images, "-o", "a.store")
    first, second, *others = found.lines()
    assert first.startswith("a.store: 432 images in 3 classes, 6,912 descriptors (885 kB), ")
    assert second == "set aside, 2 of 434 files:"
    assert others[0] == "  brick/[bold] 1.png: empty file"
    assert others[1].startswith("  grass/broken.png: not an image")
    assert found.err == "434 files in 3 classes\n"


def test_extract_passes_the_parameters_on(bowsaw, made):
    wanted = {"patch": 24, "step": 12, "max_side": 36, "min_contrast": 2.5}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in wanted.items()]
    bowsaw("extract", made.images, "-o", "a.store", *flags, "--dtype", "float32").lines()
    store = Store("a.store")
    assert wanted.items() <= store.description.items()
    assert store.bags.dtype == np.float32


def copy_images(made, folder, **names: str) -> None:
    for name, source in names.items():
        path = folder / name[0] / f"{name[1:]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((made.images / "brick" / f"{source}.png").read_bytes())


def test_extract_suggests_a_split_that_fits(bowsaw, made, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = bowsaw("extract", made.images, "-o", "a b.store")
    assert "next: bowsaw evaluate 'a b.store'" in found.err
    assert "--train" not in found.err
    names = {f"{label}{i}": f"00{i}" for label in "ab" for i in range(7)}
    copy_images(made, tmp_path / "small", **names)
    found = bowsaw("extract", "small", "-o", "small.store")
    assert "next: bowsaw evaluate small.store --train-codebook 2 --train 2" in found.err


def test_extract_reports_images_that_are_there_twice(bowsaw, made, tmp_path):
    copy_images(made, tmp_path / "small", a1="000", a2="000", b3="001", b4="000")
    assert bowsaw("extract", "small", "-o", "small.store").lines()[1:] == [
        "more than once: 1 image, in several classes, such as a/2.png and b/4.png; a split may "
        "train on one and test on another",
    ]
    assert Store("small.store").copies == [("a/1.png", "a/2.png", "b/4.png")]
    assert "more than once  a/1.png, a/2.png, b/4.png" in bowsaw("inspect", "small.store").out
    (tmp_path / "small" / "b" / "4.png").unlink()
    line = bowsaw("extract", "small", "-o", "other.store").lines()[1]
    assert line.startswith("more than once: 1 image, such as a/1.png and a/2.png; a split may")
