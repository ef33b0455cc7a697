"""``bowsaw predict`` gives images the classes that their histograms have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.predict import descriptor_of
from bowsaw.errors import ParameterError
from bowsaw.formats.classifier import load_classifier


def test_a_folder_gets_the_classes_of_its_histograms(bowsaw, made, model):
    found = bowsaw("predict", made.book, model, made.images, "--json")
    answers = [json.loads(line) for line in found.lines()]
    store, fitted = bs.Store(made.store), load_classifier(model)
    scores = fitted.scores(fitted.coder(bs.load(made.book)).transform(store.bags))
    good = [answer for answer in answers if "class" in answer]
    assert [answer["path"] for answer in good] == [str(made.images / path) for path in store.paths]
    assert np.array_equal([list(answer["scores"].values()) for answer in good], scores)
    assert [answer["class"] for answer in good] == [
        store.classes[i] for i in np.argmax(scores, axis=1)
    ]
    ordered = np.sort(scores, axis=1)
    assert np.array_equal([a["margin"] for a in good], ordered[:, -1] - ordered[:, -2])
    assert list(good[0]["scores"]) == list(store.classes)
    # The two broken files of the folder are named in their place, and on standard error.
    broken = {answer["path"]: answer["error"][:12] for answer in answers if "error" in answer}
    assert broken == {
        str(made.images / "brick/[bold] 1.png"): "empty file",
        str(made.images / "grass/broken.png"): "not an image",
    }
    assert f"set aside: {made.images}/grass/broken.png: not an image" in found.err
    assert "2 files of 434 could not be used" in found.err


def test_files_and_folders_come_in_the_order_given(bowsaw, made, model, tmp_path):
    (tmp_path / "some" / "inner").mkdir(parents=True)
    (tmp_path / "some" / ".hidden.png").write_bytes(b"")
    for name in ("b.png", "inner/a.png"):
        shutil.copy(made.images / "gravel" / "007.png", tmp_path / "some" / name)
    found = bowsaw(
        "predict", made.book, model, made.images / "brick" / "000.png", "some", "no.png", "-j", 1
    )
    lines = [line.split() for line in found.lines()]
    assert lines[0] == ["image", "class", "margin"]
    assert [line[0] for line in lines[1:]] == [
        str(made.images / "brick" / "000.png"),
        "some/b.png",
        "some/inner/a.png",
    ]
    assert lines[2][1:] == lines[3][1:]
    assert found.err.splitlines() == [
        "set aside: no.png: missing file",
        "1 file of 4 could not be used",
    ]


def test_words_of_another_tool_get_the_description_of_the_classifier(bowsaw, made):
    bowsaw("convert", made.book, "v.yml").lines()
    bowsaw("convert", "v.yml", "v.safetensors", "--scale", "512").lines()
    assert bs.load("v.safetensors").description is None
    bowsaw("fit", "v.safetensors", made.store, "--C", "1", "-o", "v.model.safetensors").lines()
    bowsaw("fit", made.book, made.store, "--C", "1", "-o", "ours.model.safetensors").lines()
    image = made.images / "grass" / "003.png"
    expected = bowsaw("predict", made.book, "ours.model.safetensors", image).lines()
    assert bowsaw("predict", "v.safetensors", "v.model.safetensors", image).lines() == expected
    bowsaw("export", "v.safetensors", "--classifier", "v.model.safetensors", "-o", "v.h").lines()
    assert '"name": "dense-sift"' in Path("v.h").read_text()


def test_the_descriptor_is_that_of_the_codebook():
    def book(sift: bs.DenseSift, **change: object) -> bs.Codebook:
        about = {**sift.description(), **change}
        return bs.Codebook(np.zeros((1, 128)), scale=sift.scale, description=about)

    for sift in (bs.DenseSift(), bs.DenseSift(patch=24, step=5, max_side=None, dtype="float32")):
        again = descriptor_of(book(sift))
        assert again.description() == sift.description()
        assert (again.scale, again.stored_dtype) == (sift.scale, sift.stored_dtype)
    for change in ({"version": 2}, {"patch": 15}, {"patch": None}, {"more": 1}, {"name": "other"}):
        with pytest.raises(ParameterError, match="predict describes images by dense SIFT"):
            descriptor_of(book(bs.DenseSift(), **change))
