import os
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import cv2
import numpy as np
import pytest

from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images import ImageFolder
from bowsaw.images.decode import read_image
from bowsaw.images.folder import PRESETS


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_order_is_by_code_points_within_classes_in_order(tmp_path, monkeypatch):
    make(tmp_path, "a/Z.png", "a/a.png", "a/é.png", "a/10.png", "a/9.png", "a b/1.png", "B/1.png")
    expected = ("B/1.png", "a/10.png", "a/9.png", "a/Z.png", "a/a.png", "a/é.png", "a b/1.png")
    images = ImageFolder(tmp_path)
    assert images.classes == ("B", "a", "a b")
    assert images.relative_paths == expected
    listing = os.scandir
    backwards = contextmanager(lambda path: iter([reversed(list(listing(path)))]))
    monkeypatch.setattr(os, "scandir", backwards)
    assert ImageFolder(tmp_path).relative_paths == expected


def test_nested_folders_are_walked_and_only_litter_is_left_out(tmp_path):
    litter = ["cat/.DS_Store", "cat/._1.jpg", "cat/Thumbs.db", "cat/desktop.ini", ".git/config"]
    files = ("cat/1.jpg", "cat/README", "cat/b/1.png", "cat/b/deep/2.png", "cat/film.mp4")
    make(tmp_path, *files, *litter, "cat/.x/9.png", "__MACOSX/cat/1.jpg")
    images = ImageFolder(tmp_path)
    assert images.classes == ("cat",)
    assert images.relative_paths == files


if sys.platform != "win32":  # where links need a privilege

    def test_links_are_followed_once_and_loops_end(tmp_path):
        root = make(tmp_path / "root", "cat/1.png", "cat/inner/2.png")
        make(tmp_path, "elsewhere/3.png")
        (root / "cat" / "file.png").symlink_to(tmp_path / "elsewhere" / "3.png")
        (root / "cat" / "linked").symlink_to(tmp_path / "elsewhere")
        (root / "cat" / "inner" / "up").symlink_to(root / "cat")
        (root / "dog").symlink_to(root)
        expected = ("cat/1.png", "cat/file.png", "cat/inner/2.png", "cat/linked/3.png")
        images = ImageFolder(root)
        assert images.classes == ("cat", "dog")
        assert images.relative_paths[:4] == expected
        assert images.relative_paths[4:] == tuple(f"dog/{path}" for path in expected)

    def test_broken_links_are_listed_for_the_reader_to_refuse(tmp_path):
        make(tmp_path, "cat/1.png")
        for name, target in (("gone", "nowhere"), ("self", "cat/self.png")):
            (tmp_path / f"cat/{name}.png").symlink_to(tmp_path / target)
        images = ImageFolder(tmp_path)
        assert images.relative_paths == ("cat/1.png", "cat/gone.png", "cat/self.png")
        for path, reason in zip(images[1:], ("missing file", "cannot be read"), strict=True):
            with pytest.raises(ImageError, match=reason):
                read_image(path)


if sys.platform == "linux":  # elsewhere names are Unicode by rule

    def test_names_that_are_not_utf8(tmp_path):
        folder = os.fsencode(tmp_path) + b"/caf\xe9"
        Path(os.fsdecode(folder)).mkdir()
        encoded = cv2.imencode(".png", np.array([[97, 98]], np.uint8))[1].tobytes()
        Path(os.fsdecode(folder + b"/\xff.png")).write_bytes(encoded)
        images = ImageFolder(tmp_path)
        assert len(images.classes) == 1
        assert os.fsencode(images.paths[0]) == folder + b"/\xff.png"
        assert read_image(images[0]).grey.tolist() == [[97, 98]]
        assert "1 classes" in repr(images)
        with pytest.raises(
            DataError, match="has 1 image, and a split of 0/1/rest needs at least 2"
        ):
            images.split(codebook=0, train=1)


def test_is_a_sequence_of_paths_with_labels(tmp_path):
    make(tmp_path, *(f"{c}/{i}.png" for c in "ba" for i in range(5)), "README.txt")
    images = ImageFolder(tmp_path)
    paths = images.paths
    assert (images.root, images.classes) == (tmp_path, ("a", "b"))
    assert paths == tuple(str(tmp_path / path) for path in images.relative_paths)
    assert (images.y.dtype, images.y.tolist()) == (np.int64, [0] * 5 + [1] * 5)
    assert len(images) == 10
    assert list(images) == list(paths)
    assert (images[0], images[-1], images[np.int64(3)]) == (paths[0], paths[-1], paths[3])
    assert images[2:4] == list(paths[2:4])
    assert images[np.array([7, 1])] == images[[7, 1]] == [paths[7], paths[1]]
    assert images[images.y == 1] == list(paths[5:])
    assert images[[]] == []
    assert images.index(paths[4]) == 4
    for wrong in (10, -11, [10], [True]):
        with pytest.raises(IndexError):
            images[wrong]
    with pytest.raises(TypeError):
        images["a/0.png"]


def test_a_choice_of_classes_has_different_known_names(tmp_path):
    make(tmp_path, "a/inner/1.png", "b/1.png")
    assert ImageFolder(tmp_path, classes=["b", "a"]).classes == ("a", "b")
    for classes in ([], ["a", "a"], "ab"):
        with pytest.raises(ParameterError, match="classes must be different names"):
            ImageFolder(tmp_path, classes=classes)
    for name in ("d", "..", "a/inner", "../a"):
        with pytest.raises(DataError, match=r"has no class .*its 2 classes are a, b"):
            ImageFolder(tmp_path, classes=["a", name])


@pytest.mark.parametrize(
    ("names", "root", "message"),
    [
        ((), "nowhere", "nowhere does not exist"),
        (("a.png", "b.png"), "", r"no class folders \(2 files are directly in it\)"),
        (("a/1.png", "b/.hidden", "c/inner/.hidden"), "", "class 'b' has no files"),
    ],
)
def test_folders_that_are_no_classes_or_cannot_be_listed_are_refused(
    tmp_path, monkeypatch, names, root, message
):
    make(tmp_path, *names)
    with pytest.raises(DataError, match=message):
        ImageFolder(tmp_path / root)
    refusal = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(os, "scandir", refusal)
    with pytest.raises(DataError, match=r"cannot be listed \(Permission denied\)"):
        ImageFolder(tmp_path)


def test_caltech10_is_the_ten_largest_categories_ties_by_name(tmp_path):
    sizes = {"BACKGROUND_Google": 9, "Faces_easy": 9, "airplanes": 8, "Faces": 7, "watch": 6}
    sizes |= {**{f"same{i}": 2 for i in range(8)}, "zebra": 3, "tiny": 1}
    root = tmp_path / "caltech-101" / "101_ObjectCategories"
    for name, n in sizes.items():
        make(root / name, *(f"image_{i:04}.jpg" for i in range(n)))
    make(root.parent, "Annotations/Faces/1.mat")
    images = ImageFolder.caltech10(root)
    same = (f"same{i}" for i in range(6))
    assert images.classes == ("Faces", "airplanes", *same, "watch", "zebra")
    assert len(images) == 8 + 7 + 6 + 3 + 6 * 2
    assert set(PRESETS) == {"caltech10"}
    assert ImageFolder.from_preset("caltech10", root).classes == images.classes
    with pytest.raises(ParameterError, match="preset must be one of 'caltech10'"):
        ImageFolder.from_preset("scene15", root)
    make(tmp_path / "few", *(f"{i}/1.jpg" for i in range(9)), "Faces_easy/1.jpg")
    with pytest.raises(DataError, match=r"at least 10 categories; .* has 9"):
        ImageFolder.caltech10(tmp_path / "few")
