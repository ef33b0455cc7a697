"""``bowsaw fit`` is the estimator, as accurate as ``evaluate`` reports; ``predict`` applies it."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classifier import nested_accuracy
from bowsaw.evaluation.measures import confusion
from bowsaw.formats.classifier import load_classifier


@pytest.mark.parametrize("flags", [(), ("--coding", "soft", "--perplexity", 3)])
def test_it_recognises_as_evaluate_reports(bowsaw, made, flags):
    words = ("fit", made.book, made.store, *flags, "-o", "a.safetensors")
    line, accuracy = bowsaw(*words).lines()
    found = bowsaw("evaluate", made.store, "--codebook", made.book, *flags, "--json")
    (cell,) = json.loads(found.out)["cells"]
    record = cell["results"]["sqrt"]
    store, model = bs.Store(made.store), load_classifier("a.safetensors")
    test = store.split.test
    found = model.predict(model.coder(bs.load(made.book)).transform(store.bags[test]))
    places = np.searchsorted(store.classes, found)
    assert confusion(store.y[test], places, 3).tolist() == record["confusion"]
    assert (model.classes, model.sharpness) == (store.classes, cell["sharpness"])
    assert line.startswith("a.safetensors: 3 classes from 30 images, 12 words, ")
    assert f"C {record['C']:g}, " in line
    # The words are of part codebook, so folds of part train can test them.
    X, y = model.coder(bs.load(made.book)).transform(store.bags), np.array(store.classes)[store.y]
    split = store.split
    twin = bs.HistogramClassifier(C=record["C"])
    how = {"seed": split.seed_for("classifier")}
    mean, margin = nested_accuracy(twin, X[split.train], y[split.train], **how)
    assert accuracy == (
        f"accuracy: {mean:.4f} ± {margin:.4f} (95 % interval), mean per class, by folds of these "
        "images; C chosen on part codebook"
    )
    assert model.provenance["accuracy"] == {"mean": mean, "margin": margin}
    assert model.provenance["accuracy_by"] == "folds of these images"


def test_fit_is_the_estimator(bowsaw, made):
    options = ("--mapping", "raw", "--C", 3, "--part", "all", "-o", "a.safetensors")
    line, accuracy = bowsaw("fit", made.book, made.store, *options).lines()
    assert accuracy.startswith("accuracy: not shown, 30 of these images made or chose the words. ")
    assert "3 classes from 432 images, 12 words, hard coding, C 3, " in line
    store = bs.Store(made.store)
    X = bs.BagOfWords(bs.load(made.book)).transform(store.bags)
    twin = bs.HistogramClassifier("raw", C=3.0).fit(X, np.array(store.classes)[store.y])
    model = load_classifier("a.safetensors")
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))
    assert model.description == store.description
    about = [model.provenance[name] for name in ("store", "part", "C_chosen_on")]
    assert about == [store.digest, "all", None]


def test_without_a_part_for_it_c_is_chosen_by_cross_validation(bowsaw, made):
    shutil.copytree(made.store, "scenes.store")
    bowsaw("split", "scenes.store", "0/8/rest").lines()
    words = bs.load(made.book)
    fit = ("fit", "other.safetensors", "scenes.store", "-o", "a.safetensors")
    for trained_on, shown in (([], "folds of these images; C chosen in each fold"), (None, "does")):
        book = bs.Codebook(words.words, scale=words.scale, trained_on=trained_on)
        bs.save(book, "other.safetensors")
        _, accuracy = bowsaw(*fit).lines()
        assert shown in accuracy
        provenance = load_classifier("a.safetensors").provenance
        assert (provenance["accuracy"] is None) == (trained_on is None)
        assert provenance["C_chosen_on"] == "cross-validation"
        assert provenance["split"] == bs.Store("scenes.store").split.record()


def test_images_that_chose_the_sharpness_show_no_accuracy(bowsaw, made):
    options = ("--coding", "soft", "--sharpness", "auto")
    _, line = bowsaw("fit", made.book, made.store, *options, "-o", "a.safetensors").lines()
    assert line.startswith("accuracy: not shown, these images chose the sharpness. For a true one:")
    assert bowsaw(*shlex.split(line.partition("one: bowsaw ")[2])).code == 0


def test_a_folder_gets_the_classes_of_its_histograms(bowsaw, made, model):
    found = bowsaw("predict", made.book, "--classifier", model, made.images, "--json")
    answers = [json.loads(line) for line in found.lines()]
    store, fitted = bs.Store(made.store), load_classifier(model)
    scores = fitted.scores(fitted.coder(bs.load(made.book)).transform(store.bags))
    good = [answer for answer in answers if "class" in answer]
    assert [answer["path"] for answer in good] == [str(made.images / path) for path in store.paths]
    assert np.array_equal([list(answer["scores"].values()) for answer in good], scores)
    assert list(good[0]["scores"]) == list(store.classes)
    best = np.argmax(scores, axis=1)
    assert [answer["class"] for answer in good] == [store.classes[i] for i in best]
    ordered = np.sort(scores, axis=1)
    assert np.array_equal([a["margin"] for a in good], ordered[:, -1] - ordered[:, -2])
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
    image = made.images / "brick" / "000.png"
    found = bowsaw("predict", made.book, "--classifier", model, image, "some", "no.png", "-j", 1)
    assert found.code == 3
    names, *answers = zip(*(line.split() for line in found.out.splitlines()), strict=True)
    assert names == ("image", str(image), "some/b.png", "some/inner/a.png")
    assert [(column[0], column[2] == column[3]) for column in answers] == [
        ("class", True),
        ("margin", True),
    ]
    assert found.err == (
        "1 file of 4 could not be used\nbowsaw: 1 named file could not be used: no.png: missing "
        "file. The others were; name other files instead.\n"
    )


def test_words_of_another_tool_get_the_description_of_the_classifier(bowsaw, made):
    bowsaw("convert", made.book, "v.yml").lines()
    bowsaw("convert", "v.yml", "v.safetensors", "--scale", "512").lines()
    assert bs.load("v.safetensors").description is None
    answers = []
    for book in (made.book, "v.safetensors"):
        bowsaw("fit", book, made.store, "--C", "1", "-o", "model.safetensors").lines()
        image = made.images / "grass" / "003.png"
        answers.append(bowsaw("predict", book, "--classifier", "model.safetensors", image).lines())
    assert answers[0] == answers[1]
    bowsaw("export", "v.safetensors", "--classifier", "model.safetensors", "-o", "v.h").lines()
    assert '"name": "dense-sift"' in Path("v.h").read_text()


def test_the_descriptor_is_that_of_the_codebook():
    def descriptor(sift, **change):
        about = {**sift.description(), **change}
        book = bs.Codebook(np.zeros((1, 128)), scale=sift.scale, description=about)
        model = bs.LinearModel([[1.0]], [0.0], ["a", "b"], codebook=book.digest)
        return bs.Recogniser(book, model).descriptor

    for sift in (bs.DenseSift(), bs.DenseSift(patch=24, step=5, max_side=None, dtype="float32")):
        again = descriptor(sift)
        assert again.description() == sift.description()
        assert (again.scale, again.stored_dtype) == (sift.scale, sift.stored_dtype)
    for change in ({"version": 2}, {"patch": 15}, {"patch": None}, {"more": 1}, {"name": "other"}):
        with pytest.raises(ParameterError, match="images are described by dense SIFT"):
            descriptor(bs.DenseSift(), **change)
