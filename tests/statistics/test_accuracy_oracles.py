"""Every accuracy that a command prints agrees with ``predict`` on images that no command has seen.

Noisy tiles of three photographs: every other one is kept apart, and only ``bowsaw predict`` reads
it. The two accuracies must differ by no more than the printed half of the 95 % interval.
"""

import json
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.formats.classifier import save_classifier

SIZES = {"codebook": 20, "train": 25}
N_SPLITS = 3
PRINTED = re.compile(r"([01]\.\d+) ± ([01]\.\d+)")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[0, 1])
def made(request, scenes, tmp_path_factory):
    """A folder with a store of half of the images; the others are in the folder ``unseen``."""
    top = tmp_path_factory.mktemp("oracle")
    rng = np.random.default_rng(request.param)
    for path in sorted(scenes.rglob("*.png")):
        tile = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        noisy = np.clip(tile + rng.normal(0, 40, tile.shape), 0, 255).astype(np.uint8)
        folder = top / ("unseen" if int(path.stem) % 2 else "known") / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / path.name), noisy)
    store = top / "s.store"
    words = ("extract", top / "known", "-o", store, "--split", "20/25/rest")
    assert main([*map(str, words), "-q"]) == 0
    words = ("train", store, "--words", 40, "-o", top / "book0.safetensors")
    assert main([*map(str, words), "-q"]) == 0
    opened = bs.Store(store)
    for index in range(1, N_SPLITS):
        rows = opened.draw_split(**SIZES, index=index).codebook
        book = bs.KMeansCodebook(40, random_state=0).fit(opened.bags[rows]).codebook_
        bs.save(book, top / f"book{index}.safetensors")
    return top


@pytest.fixture
def bowsaw(capfd, monkeypatch, made):
    """Run a command beside the store, and return what it prints."""
    monkeypatch.chdir(made)

    def run(*words):
        capfd.readouterr()
        code = main([str(word) for word in words])
        found = capfd.readouterr()
        assert code == 0, found.err
        return found.out

    return run


@pytest.fixture
def truth(bowsaw):
    """Return the accuracy on unseen images of the classifier that ``fit`` makes of a codebook."""

    def measure(book, split=0, store="s.store"):
        part = () if store == "s.store" else ("--part", "all")
        output = ""
        if split:
            fit_on(book, bs.Store(store), split)
        else:
            output = bowsaw("fit", book, store, *part, "-o", "m.safetensors")
        predict = ("predict", book, "unseen", "--classifier", "m.safetensors", "--json")
        lines = bowsaw(*predict).splitlines()
        right = {}
        for answer in map(json.loads, lines):
            name = Path(answer["path"]).parent.name
            right.setdefault(name, []).append(answer["class"] == name)
        assert {name: len(one) for name, one in right.items()} == dict.fromkeys(right, 72)
        return np.mean([np.mean(one) for one in right.values()]), output

    return measure


def fit_on(book, store, index):
    """Do what ``fit`` does, on another split than the store's own."""
    split, y = store.draw_split(**SIZES, index=index), np.array(store.classes)[store.y]
    coder = bs.BagOfWords(bs.load(book), random_state=split.seed_for("coding"))
    X, held = (coder.transform(store.bags[rows]) for rows in (split.train, split.codebook))
    classifier = bs.HistogramClassifier(random_state=split.seed_for("classifier"))
    classifier.fit(X, y[split.train], held, y[split.codebook])
    save_classifier(classifier, "m.safetensors", coder)


def agrees(printed, truth):
    mean, margin = map(float, printed)
    assert 0.01 < margin < 0.25
    assert abs(mean - truth) <= margin, (mean, margin, truth)


def test_fit(truth):
    found, output = truth("book0.safetensors")
    assert 0.4 < found < 0.95
    agrees(PRINTED.search(output).groups(), found)


def test_fit_with_images_of_another_store(bowsaw, truth):
    # The words are of a part of the known images, so all of the others may be folded.
    for path in sorted(Path("known").rglob("*.png")):
        folder = Path("first" if int(path.stem) % 4 else "second", path.parent.name)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.name)
    for name in ("first", "second"):
        bowsaw("extract", name, "-o", f"{name}.store")
    bowsaw("train", "first.store", "--words", 40, "-o", "first.safetensors")
    found, output = truth("first.safetensors", store="second.store")
    assert "C chosen in each fold" in output
    agrees(PRINTED.search(output).groups(), found)


def first_row(output):
    """Return accuracy and margin of the first row of evaluate's table."""
    return output.splitlines()[1].split()[2:4]


def test_evaluate(bowsaw, truth):
    found = [truth(f"book{split}.safetensors", split)[0] for split in range(N_SPLITS)]
    output = bowsaw("evaluate", "s.store", "--codebook", "book0.safetensors")
    agrees(first_row(output), found[0])
    output = bowsaw("evaluate", "s.store", "--words", 40, "--splits", N_SPLITS)
    agrees(first_row(output), np.mean(found))


def test_compare(bowsaw, truth):
    how = ("--words", 40, "--sizes", 8, "--methods", "annealing", "-j", 1)
    output = bowsaw("compare", "s.store", *how, "--splits", N_SPLITS, "-o", "run")
    (row,) = [line for line in output.splitlines() if line.startswith("annealing")]
    books = sorted(Path("run/codebooks").rglob("*annealing-8.safetensors"))
    found = [truth(book, split) for split, book in enumerate(books)]
    # The images of part train have chosen the words.
    assert "accuracy: not shown" in found[0][1]
    agrees(PRINTED.search(row).groups(), np.mean([accuracy for accuracy, _ in found]))


def test_prune_max_loss(bowsaw, truth):
    how = ("--max-loss", 0.02, "-o", "small.safetensors")
    output = bowsaw("prune", "book0.safetensors", "s.store", *how)
    (line,) = [line for line in output.splitlines() if line.startswith("estimate: ")]
    agrees(PRINTED.search(line).groups(), truth("small.safetensors")[0])


def toys(rng, n_each):
    y = np.repeat(np.arange(3), n_each)
    return bs.Bags.from_list([rng.normal(0.35 * np.eye(3)[i], 1.0, size=(15, 3)) for i in y]), y


def test_the_interval_of_a_recommended_size_contains_the_accuracy_on_new_images():
    # The folds that choose the size also show its accuracy; the interval has to bear that.
    n_inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        (other, _), (bags, y), (new, truth) = (toys(rng, n) for n in (10, 20, 300))
        book = bs.KMeansCodebook(16, random_state=seed, n_jobs=1).fit(other).codebook_
        path = bs.PruningPath(book, sizes=[10, 6, 4, 3], random_state=seed, n_jobs=1)
        found = path.fit(bags, y, estimate=True).recommend(max_loss=0.1)
        coder = bs.BagOfWords(found.codebook, n_jobs=1)
        model = bs.HistogramClassifier(C=4.0, n_jobs=1).fit(coder.transform(bags), y)
        right = np.mean(model.predict(coder.transform(new)) == truth)
        n_inside += abs(found.accuracy - right) <= found.accuracy_margin
    assert n_inside >= 36
