"""``shrink`` against the same procedure written out, and the files of a recogniser."""

import json
import shutil

import cv2
import numpy as np
import onnxruntime
import pytest

import bowsaw as bs
from bowsaw.comparison.methods import METHODS
from bowsaw.errors import (
    BusyError,
    DataError,
    FormatError,
    ImageError,
    MismatchError,
    ParameterError,
)
from bowsaw.evaluation.classifier import DEFAULT_GRID
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.evaluation.significance import accuracy_margin
from bowsaw.images.decode import read_image
from bowsaw.recogniser import FILES, SAMPLE

HOW = {"n_kept": 6, "n_words": 24, "method": "annealing", "n_folds": 3, "n_jobs": 1}
CLASSES, N_EACH = ("dots", "lines", "noise"), 9


def picture(name, rng):
    """Return a picture of a class: bright dots, slanted lines, or neither; none is pure."""
    image = rng.integers(0, 130, (48, 56)).astype(np.uint8)
    for _ in range(6):
        x, y, far = rng.integers(0, 40, 3).tolist()
        if name == "dots" or (name == "noise" and rng.random() < 0.4):
            cv2.circle(image, (x, y), 5, 255, -1)
        if name == "lines" or (name == "noise" and rng.random() < 0.4):
            cv2.line(image, (x, y), (x + 14, y + far), 255, 2)
    return image


def write(root, n_each=N_EACH, seed=0, classes=CLASSES):
    rng = np.random.default_rng(seed)
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(n_each):
            cv2.imwrite(str(root / name / f"{i}.png"), picture(name, rng))
    return root


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = write(tmp_path_factory.mktemp("shrink") / "photos")
    # A copy must not be tested by a recogniser that has learned from its twin.
    shutil.copy(root / "dots" / "0.png", root / "dots" / "twin.png")
    return root


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    return bs.ImageFolder(write(tmp_path_factory.mktemp("new") / "unseen", seed=1))


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "recogniser"
    return bs.shrink(photos, folder=folder, **HOW), folder


def procedure(bags, y, n_kept, seeds, grid):
    """Learn words from bags, and a classifier for each C, as ``shrink`` does."""
    full = bs.KMeansCodebook(24, sample=SAMPLE, random_state=seeds[0], n_jobs=1)
    book = full.fit(bags).codebook_
    if n_kept < 24:
        chosen = bs.Annealing(book, n_kept=n_kept, random_state=seeds[1], n_jobs=1)
        book = chosen.fit(bags, y).codebook_
    coder = bs.BagOfWords(book, n_jobs=1)
    return coder, [bs.HistogramClassifier(C=C).fit(coder.transform(bags), y) for C in grid]


def best(table, tests):
    """Return the C of a table of accuracies: 1, unless another gains half a standard error."""
    means = table.mean(axis=0).round(12)
    top = means.max()
    if top - means[DEFAULT_GRID.index(1)] <= 0.5 * np.sqrt(top * (1 - top) / tests.sum()):
        return DEFAULT_GRID.index(1)
    return int(means.argmax())


def test_the_estimate_is_that_of_a_plain_loop_over_the_folds(photos, made):
    recogniser, folder = made
    store = bs.Store(folder / "work" / "photos.store")
    collection = bs.Collection.from_store(store, n_folds=3)
    for n_kept, score, margin in (
        (6, recogniser.score_, recogniser.score_margin_),
        (24, recogniser.full_score_, recogniser.full_score_margin_),
    ):
        table = np.empty((3, len(DEFAULT_GRID)))
        for index in range(3):
            split = collection.split(0, index)
            seeds = [split.seed_for(name) for name in ("kmeans", "selection")]
            known = (store.bags[split.train], store.y[split.train])
            coder, models = procedure(*known, n_kept, seeds, DEFAULT_GRID)
            new, truth = coder.transform(store.bags[split.test]), store.y[split.test]
            table[index] = [mean_class_accuracy(truth, m.predict(new), 3) for m in models]
        # The other folds choose the C of a fold, and all of them that of the result.
        tests = np.array([len(collection.split(0, index).test) for index in range(3)])
        chosen = [best(np.delete(table, i, axis=0), np.delete(tests, i)) for i in range(3)]
        found = table[np.arange(3), chosen]
        if n_kept == 6:
            assert recogniser.model_.provenance["C"] == DEFAULT_GRID[best(table, tests)]
        assert score == pytest.approx(np.mean(found), abs=1e-12)
        share = len(split.test) / len(split.train)
        assert margin == pytest.approx(accuracy_margin(found, share, np.bincount(store.y)))


def test_folds_test_every_image_once_and_keep_copies_together(made):
    _, folder = made
    store = bs.Store(folder / "work" / "photos.store")
    splits = [bs.Collection.from_store(store, n_folds=3).split(5, index) for index in range(3)]
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(len(store)))
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert len(split.train) + len(split.test) == len(store)
        learned, tested = (store.bags.digests[rows] for rows in (split.train, split.test))
        assert not np.isin(tested, learned).any()
    with pytest.raises(ParameterError, match="there are 3 folds"):
        bs.Collection.from_store(store, n_folds=3).split(5, 3)
    with pytest.raises(DataError, match="11 folds need as many"):
        bs.Collection.from_store(store, n_folds=11).split(5, 0)


def test_the_result_is_learned_from_all_images(photos, unseen, made):
    recogniser, _ = made
    bags = bs.DenseSift().transform(bs.ImageFolder(photos))
    y = np.array(CLASSES)[bs.ImageFolder(photos).y]
    coder, (model,) = procedure(bags, y, 6, [0, 0], [recogniser.model_.provenance["C"]])
    assert np.array_equal(recogniser.codebook_.words, coder.codebook.words)
    new = bs.DenseSift().transform(unseen)
    assert recogniser.predict(unseen).tolist() == model.predict(coder.transform(new)).tolist()
    assert set(recogniser.codebook_.trained_on) == set(bags.digests)
    assert "learned from all 28 images" in dict(recogniser.facts())["recogniser"]


def test_it_recognises_new_images(unseen, made):
    recogniser, _ = made
    right = np.mean(recogniser.predict(unseen) == np.array(CLASSES)[unseen.y])
    assert right > 0.6
    assert recogniser.score_ > 0.6
    pixels = [cv2.imread(path) for path in unseen[:4]]
    assert recogniser.predict(pixels).tolist() == recogniser.predict(unseen[:4]).tolist()


def test_files_hold_the_same_recogniser(unseen, made, tmp_path):
    recogniser, folder = made
    assert {*FILES, "work", "writer.lock"} == {path.name for path in folder.iterdir()}
    recogniser.save(tmp_path / "copy")
    for place in (folder, tmp_path / "copy"):
        again = bs.Recogniser.load(place)
        assert again.score_ == recogniser.score_
        assert np.array_equal(again.decision_function(unseen), recogniser.decision_function(unseen))
        assert "The recogniser" in (place / "index.html").read_text()
    session = onnxruntime.InferenceSession(folder / "recogniser.onnx")
    for path, scores in zip(unseen[:5], recogniser.decision_function(unseen[:5]), strict=True):
        (found,) = session.run(["scores"], {"image": read_image(path).grey[None]})
        assert np.allclose(found.ravel(), scores, atol=1e-4)


def test_an_interrupted_call_continues_to_the_same_end(photos, made, tmp_path):
    _, folder = made

    def interrupt(step):
        if step.n_done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bs.shrink(photos, folder=tmp_path / "again", on_cell=interrupt, **HOW)
    with pytest.raises(FormatError, match="run the same command again"):
        bs.Recogniser.load(tmp_path / "again")
    cells = (tmp_path / "again" / "work" / "run" / "cells.jsonl").read_text().splitlines()
    assert len(cells) == 5
    bs.shrink(photos, folder=tmp_path / "again", **HOW)
    for name in set(FILES) - {"index.html"}:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    stages = []
    bs.shrink(photos, folder=tmp_path / "again", on_stage=stages.append, **HOW)
    assert stages == ["describing the images"]


def test_other_settings_and_other_files_are_refused(photos, made, tmp_path):
    _, folder = made
    before = (folder / "summary.json").read_bytes()
    with pytest.raises(MismatchError, match=r"its seed was 0 and is 1.*--overwrite"):
        bs.shrink(photos, folder=folder, **HOW, seed=1)
    assert (folder / "summary.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "codebook.safetensors").write_text("mine")
    with pytest.raises(ParameterError, match="and no recogniser"):
        bs.shrink(photos, folder=tmp_path / "mine", overwrite=True, **HOW)
    with pytest.raises(ParameterError, match="taken for a class"):
        bs.shrink(photos, folder=photos / "out", **HOW)
    assert not (photos / "out").exists()
    shutil.copytree(folder, tmp_path / "old")
    made = bs.shrink(photos, folder=tmp_path / "old", overwrite=True, **HOW, seed=1)
    assert made.summary_["seed"] == 1
    with bs.checkpoint.exclusive(folder), pytest.raises(BusyError):
        bs.shrink(photos, folder=folder, **HOW)


def test_max_bytes_is_the_size_of_the_onnx_file(photos, tmp_path):
    how = {**HOW, "n_kept": None, "method": "random", "n_folds": 2}
    made = bs.shrink(photos, folder=tmp_path / "r", max_bytes=18_000, **how)
    size = (tmp_path / "r" / "recogniser.onnx").stat().st_size
    assert made.codebook_.n_words > 1
    # Another word of 128 numbers and 3 weights does not fit.
    assert 18_000 - 4 * (128 + 3) - 16 < size <= 18_000
    assert made.summary_["bytes"]["recogniser.onnx"] == size
    with pytest.raises(ParameterError, match="max_bytes must be at least"):
        bs.shrink(photos, max_bytes=100, **how)


def test_max_loss_takes_the_fewest_words_that_lose_so_little(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("bowsaw.recogniser.SIZES", (1, 2, 4))
    found = []
    for limit in (1.0, 0.05):
        folder = tmp_path / str(limit)
        made = bs.shrink(photos, folder=folder, max_loss=limit, **{**HOW, "n_kept": None})
        run = bs.read_run(folder / "work" / "run")
        cell, full = run.cells[0], run.accuracies(method="full")
        fitting = [24]
        for size in (4, 2, 1):
            lost = full - run.accuracies(method="annealing", size=size)
            error = np.sqrt((1 / 3 + cell["n_test"] / cell["n_train"]) * lost.var(ddof=1))
            fitting += [size] * bool(lost.mean() + error <= limit)
        assert made.codebook_.n_words == min(fitting)
        assert "the same folds chose the number of words" in made.summary_["accuracy"]["how"]
        found.append(made.codebook_.n_words)
    # One word has the same histogram for every image.
    assert found[0] == 1 < found[1]


def test_large_folders_measure_two_folds(photos, monkeypatch):
    monkeypatch.setattr("bowsaw.recogniser.LARGE", (20, 10**9))
    made = bs.shrink(photos, **{**HOW, "n_folds": None, "method": "random"})
    accuracy = made.summary_["accuracy"]
    assert (accuracy["n_folds"], accuracy["n_measured"]) == (5, 2)
    assert "2 of 5 folds (11 images held out)" in accuracy["how"]


def test_soft_codes_with_a_sharpness_that_the_images_choose(photos, unseen):
    how = {**HOW, "method": "random", "n_folds": 2}
    for more in ({"sharpness": 20.0}, {"sharpness": "auto"}, {"perplexity": 2.0}):
        made = bs.shrink(photos, coding="soft", **more, **how)
        assert made.model_.coding == "soft"
        images = bs.ImageFolder(photos)
        bags = bs.DenseSift().transform(images)
        full = bs.KMeansCodebook(24, sample=SAMPLE, random_state=0).fit(bags).codebook_
        # As in the folds: the full codebook decides, not the pruned one.
        coder = bs.BagOfWords(full, coding="soft", random_state=0, **more)
        coder.fit(bags, np.array(CLASSES)[images.y])
        assert made.model_.sharpness == coder.sharpness_in_use()
        assert made.predict(unseen[:3]).shape == (3,)
    with pytest.raises(ParameterError, match="sharpness"):
        bs.shrink(photos, coding="soft", sharpness=-1.0, **how)


def test_every_method_whose_words_code_alone(photos):
    names = [name for name, one in METHODS.items() if one.estimator and one.codes_with == "pruned"]
    for name in names:
        how = {**HOW, "method": name, "n_folds": 2, "n_kept": 3}
        assert bs.shrink(photos, **how).codebook_.n_words == 3
    with pytest.raises(ParameterError, match="method must be"):
        bs.shrink(photos, method="bottleneck")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("one class", "of 1 class .'dots'.*Add a folder of images"),
        ("small class", "class 'lines' has 3 files, and at least 4 .*Add images, or move"),
        ("unreadable", "class 'lines' has 2 usable images, and at least 4"),
        ("no sub-folders", "has no class folders .*into a folder of its own"),
    ],
)
def test_folders_that_cannot_be_learned_from(tmp_path, change, message):
    root = write(tmp_path / "photos", 5, classes=("dots", "lines"))
    if change in ("one class", "no sub-folders"):
        shutil.rmtree(root / "lines")
    if change == "no sub-folders":
        shutil.move(root / "dots" / "0.png", root / "0.png")
        shutil.rmtree(root / "dots")
    if change == "small class":
        for i in (0, 1):
            (root / "lines" / f"{i}.png").unlink()
    if change == "unreadable":
        for i in (0, 1, 2):
            (root / "lines" / f"{i}.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=message):
        bs.shrink(root, folder=tmp_path / "r", **HOW)


def test_wrong_arguments(photos, made, tmp_path):
    with pytest.raises(ParameterError, match="n_kept and max_loss each set the size"):
        bs.shrink(photos, 5, max_loss=0.1)
    with pytest.raises(ParameterError, match="n_kept must be below the 24 words"):
        bs.shrink(photos, 24, n_words=24)
    recogniser, folder = made
    with pytest.raises(DataError, match="single file as"):
        recogniser.predict(str(photos / "dots" / "0.png"))
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"broken\.png"):
        recogniser.predict([tmp_path / "broken.png"])
    shutil.copytree(folder, tmp_path / "bad")
    for text in ("{", "[]", '{"format": "other"}', '{"format": "bowsaw-recogniser", "bytes": 3}'):
        (tmp_path / "bad" / "summary.json").write_text(text)
        with pytest.raises(FormatError, match=r"summary\.json is not"):
            bs.Recogniser.load(tmp_path / "bad")


def test_its_facts_are_shown_in_a_notebook(made):
    recogniser, folder = made
    html = recogniser._repr_html_()
    assert f"{recogniser.score_:.3f}" in html
    assert "<script" not in html
    assert repr(recogniser) == f"Recogniser(3 classes, 6 words, accuracy {recogniser.score_:.3f})"
    accuracy = json.loads((folder / "summary.json").read_text())["accuracy"]
    assert accuracy["random"]["mean"] >= 0
    assert accuracy["difference"]["mean"] == pytest.approx(
        recogniser.score_ - recogniser.full_score_
    )


def test_words_in_the_space_of_a_projection(photos, unseen, tmp_path):
    how = {**HOW, "method": "random", "n_folds": 2, "n_components": 3}
    made = bs.shrink(photos, folder=tmp_path / "made", **how)
    book = made.codebook_
    assert book.projection.matrix.shape == (128, 3)
    assert made.summary_["n_components"] == 3
    assert made.summary_["bytes"]["words"] == 4 * (6 * 3 + 128 * 3 + 128)
    session = onnxruntime.InferenceSession(tmp_path / "made" / "recogniser.onnx")
    label = session.run(["label"], {"image": read_image(unseen.paths[0]).grey[None]})[0][0]
    again = bs.Recogniser.load(tmp_path / "made")
    assert again.codebook_ == book
    assert again.predict(unseen.paths[:1]).tolist() == [made.classes_[label]]
    with pytest.raises(MismatchError, match="n_components"):
        bs.shrink(photos, folder=tmp_path / "made", **{**how, "n_components": None})
    with pytest.raises(ParameterError, match="n_components must be an integer from 1 to 128"):
        bs.shrink(photos, n_components=129)
