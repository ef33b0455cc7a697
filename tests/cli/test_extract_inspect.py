"""What ``bowsaw extract`` makes and prints; ``bowsaw inspect`` shows facts, or all as JSON."""

import json

import numpy as np

from bowsaw import Codebook, Store, load, save


def test_extract_reports_what_it_made_and_set_aside(bowsaw, made):
    found = bowsaw("extract", made.images, "-o", "a.store")
    first, second, *others, split = found.lines()
    assert first.startswith("a.store: 432 images in 3 classes, 6,912 descriptors (885 kB), ")
    assert second == "set aside, 2 of 434 files:"
    assert others[0] == "  brick/[bold] 1.png: empty file"
    assert others[1].startswith("  grass/broken.png: not an image")
    assert split == (
        "split 48/48/rest, seed 0: 144 images for the codebook, 144 to train, 144 to test"
    )
    assert found.err == "434 files in 3 classes\n"


def test_extract_passes_the_parameters_on(bowsaw, made):
    wanted = {"patch": 24, "step": 12, "max_side": 36, "min_contrast": 2.5}
    names = {"step": "patch-step"}
    flags = [f"--{names.get(n, n).replace('_', '-')}={value}" for n, value in wanted.items()]
    bowsaw("extract", made.images, "-o", "a.store", *flags, "--dtype", "float32").lines()
    store = Store("a.store")
    assert wanted.items() <= store.description.items()
    assert store.bags.dtype == np.float32


def copy_images(made, folder, **names):
    for name, source in names.items():
        path = folder / name[0] / f"{name[1:]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((made.images / "brick" / f"{source}.png").read_bytes())


def test_extract_suggests_a_split_that_fits(bowsaw, made, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = bowsaw("extract", made.images, "-o", "a b.store")
    assert "next: bowsaw evaluate 'a b.store'" in found.err
    assert bowsaw("evaluate", "a b.store", "--words", 4, "--splits", 1).code == 0


def test_the_split_is_kept_with_the_store_until_another_is_given(bowsaw, made, tmp_path):
    def kept():
        return bowsaw("split", "small.store").lines()[0]

    names = {f"{label}{i}": f"00{i}" for label in "ab" for i in range(7)}
    copy_images(made, tmp_path / "small", **names)
    extract = ("extract", "small", "-o", "small.store")
    bowsaw(*extract).lines()
    assert kept() == "small.store: split 2/2/rest, seed 0"
    bowsaw("split", "small.store", "1/3/rest", "--seed", 4).lines()
    for more, expected in (
        ((), "1/3/rest, seed 4"),
        (("--patch", 24, "--overwrite"), "1/3/rest, seed 4"),
        (("--patch", 24, "--split", "0/2/rest"), "0/2/rest, seed 0"),
        (("--patch", 24, "--seed", 3), "2/2/rest, seed 3"),
    ):
        bowsaw(*extract, *more).lines()
        assert kept() == f"small.store: split {expected}"
    header, *parts = bowsaw("split", "small.store").lines()[1:]
    assert header.split() == ["part", "images", "per", "class"]
    assert [(part.split()[0], *part.split()[-2:]) for part in parts] == [
        ("codebook", "4", "2"),
        ("train", "4", "2"),
        ("test", "6", "3"),
    ]
    # Images that are removed leave it as it is, while it can be drawn.
    for i in range(3):
        (tmp_path / "small" / "a" / f"{i}.png").unlink()
    found = bowsaw(*extract, "--patch", 24)
    assert "warning: the store gets another split, because class 'a' has 4 images" in found.err
    assert kept() == "small.store: split 1/1/rest, seed 0"
    for i in range(3, 5):
        (tmp_path / "small" / "a" / f"{i}.png").unlink()
    assert bowsaw(*extract, "--patch", 24).lines()[-1].startswith("no split: a class has fewer")
    assert Store("small.store").split is None
    found = bowsaw("train", "small.store", "--words", 3, "-o", "book.safetensors")
    assert "no split, so all images are used; a class has fewer than 3" in found.err
    assert load("book.safetensors").provenance["part"] == "all"


def test_extract_reports_images_that_are_there_twice(bowsaw, made, tmp_path):
    copy_images(made, tmp_path / "small", a1="000", a2="000", b3="001", b4="000")
    assert bowsaw("extract", "small", "-o", "small.store").lines()[1:-1] == [
        "more than once: 1 image, in several classes, such as a/2.png and b/4.png; a split may "
        "train on one and test on another",
    ]
    assert Store("small.store").copies == [("a/1.png", "a/2.png", "b/4.png")]
    assert (
        "more than once  a/1.png, a/2.png, b/4.png"
        in bowsaw("inspect", "small.store", "--details").out
    )
    (tmp_path / "small" / "b" / "4.png").unlink()
    line = bowsaw("extract", "small", "-o", "other.store").lines()[1]
    assert line.startswith("more than once: 1 image, such as a/1.png and a/2.png; a split may")


FACTS = {
    "store": """
        kind store | images 432 of 434 files are usable | name=dense-sift, patch=16
        descriptors 6,912 of 128 uint8 (885 kB, scale 512) | set aside brick/[bold] 1.png: empty
        classes 3: brick=144, grass=144, gravel=144""",
    "book": """
        words 12 of 128 dimensions (6 kB, scale 512) | trained on 30 images
        split=(codebook=10, digest=""",
    "bare": "trained on unknown images | descriptors unknown",
    "histograms": """
        histograms 432 images by 12 words (21 kB) | images empty 0 have no descriptors
        coding hard""",
    "model": """
        weights 12 words per class ( | labels 3: brick, grass, gravel
        histograms soft coding of sharpness 20, square-rooted""",
}


def test_inspect_shows_facts_of_every_kind(bowsaw, made, model):
    save(Codebook([[0.0], [1.0]]), "bare.safetensors")
    for name, facts in FACTS.items():
        path = {"bare": "bare.safetensors", "model": model}.get(name) or getattr(made, name)
        text = " ".join(bowsaw("inspect", path, "--details").out.split())
        for fact in facts.replace("\n", "|").split("|"):
            assert fact.strip() in text


SHORT = {
    "store": """
        images 432 of 434 files are usable, 144 per class | split 10/10/rest, seed 0
        classes 3: brick, grass, gravel | set aside 2 files, such as brick/[bold] 1.png: empty file
        descriptors 6,912 of 128 uint8 (885 kB): dense-sift, max side 300, patch 16, step 8""",
    "book": "words 12 of 128 dimensions (6 kB) | learned from 30 images | split 10/10/rest, seed 0",
    "pruned": "words 5 of | learned from 60 images | pruned from 12 words by random",
    "bare": "learned from unknown images | descriptors unknown",
    "histograms": "histograms 432 images by 12 words (21 kB) | coding hard",
    "model": "classes 3: brick, grass, gravel | histograms soft coding of sharpness 20, square-",
}


def test_inspect_is_short_unless_details_are_asked_for(bowsaw, made, model):
    save(Codebook([[0.0], [1.0]]), "bare.safetensors")
    words = ("--keep", 5, "--method", "random", "-o", "pruned.safetensors")
    bowsaw("prune", made.book, made.store, *words).lines()
    files = {"bare": "bare.safetensors", "pruned": "pruned.safetensors", "model": model}
    for name, facts in SHORT.items():
        lines = bowsaw("inspect", files.get(name) or getattr(made, name)).lines()
        text = " ".join(" ".join(lines).split())
        assert 3 <= len(lines) <= 10
        for fact in facts.replace("\n", "|").split("|"):
            assert fact.strip() in text


def test_json_has_numbers_and_whole_digests(bowsaw, made, model):
    paths = (made.store, made.book, made.histograms, model)
    found = [json.loads(bowsaw("inspect", path, "--json").out) for path in paths]
    assert [one["kind"] for one in found] == ["store", "codebook", "histograms", "classifier"]
    assert [one["n_bytes"] for one in found[:3]] == [884736, 6144, 20736]
    assert len(found[0]["digest"]) == len(found[2]["metadata"]["codebook"]["digest"]) == 64
    assert found[0]["set_aside"][0] == {"path": "brick/[bold] 1.png", "reason": "empty file"}
    assert found[3]["mapping"] == "sqrt"
    assert all(name == name.lower() and " " not in name for one in found for name in one)
