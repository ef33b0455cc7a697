"""Drawings that are made from a run's folder: hand-made codebooks and sample images."""

import base64
import json

import cv2
import numpy as np
import pytest
from tests.report.made_run import kept, made_run

import bowsaw as bs
from bowsaw.comparison.records import Run, read_run
from bowsaw.errors import FormatError
from bowsaw.report import details
from bowsaw.report.details import glyphs, page_details, vocabulary, words_line
from bowsaw.report.summary import panels_of

FULL = bs.Codebook([[0.0], [1.0], [4.0], [9.0]])
CLASSES = ["ants", "bees"]


def cell(method, size, **changes):
    key = {"set": "toys", "split": 0, "coding": "hard", "full_words": 4}
    record = {"codes_with": "pruned", "trace": None, "answers": ["ants", "ants"]}
    return {**key, "method": method, "size": size, **record, **changes}


def write_samples(folder, **changes):
    """Two images: ants with two patches at 0 and 5, bees with one at 9."""
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8)
    arrays = {
        "descriptors": np.array([[0.0], [5.0], [9.0]], dtype=np.float32),
        "offsets": np.array([0, 2, 3]),
        "scale": np.float64(1.0),
        "positions": np.array([[2, 3, 4], [6, 3, 4], [3, 3, 4]], dtype=np.float32),
        "sizes": np.array([[8, 6], [8, 6]]),
        "labels": np.array([0, 1]),
        "paths": np.array([b"ants/1.png", b"bees/1.png"]),
        "pixels": grey.ravel(),
        "pixel_shapes": np.array([[6, 8], [0, 0]]),
    }
    (folder / "samples").mkdir(exist_ok=True)
    np.savez(folder / "samples" / "toys.npz", **{**arrays, **changes})


@pytest.fixture
def run(tmp_path):
    """A run of all words, two of them, two that moved, and two that were trained from scratch."""
    books = {
        "full": FULL,
        "subset": FULL.only([0, 2]),
        "moved": bs.Codebook([[0.5], [4.0]], ids=[1, 2]),
        "kmeans": bs.Codebook([[0.5], [6.5]]),
    }
    (tmp_path / "codebooks" / "toys").mkdir(parents=True)
    for name, book in books.items():
        path = tmp_path / "codebooks" / "toys" / f"0-hard-4-{name}-{book.n_words}.safetensors"
        bs.save(book, path)
    write_samples(tmp_path)
    cells = [cell(name, book.n_words) for name, book in books.items()]
    about = {"sets": {"toys": {"classes": CLASSES}}, "methods": {name: {} for name in books}}
    return Run(about, cells)


def lines_of(folder, run, kind):
    return [line for line in page_details(folder, run) if line["kind"] == kind]


def pixels(coded):
    return cv2.imdecode(np.frombuffer(base64.b64decode(coded), np.uint8), cv2.IMREAD_GRAYSCALE)


def test_words_and_images_are_those_of_the_codebooks(tmp_path, run):
    subset, moved = lines_of(tmp_path, run, "words")
    assert [subset["method"], moved["method"]] == ["subset", "moved"]
    assert (subset["ids"], subset["moved"]) == ([0, 2], False)
    assert (moved["ids"], moved["moved"]) == ([1, 2], True)
    (book,) = lines_of(tmp_path, run, "codebook")
    # The largest value of the full codebook is byte 255: 255 / 9 = 28.3 per unit.
    assert list(base64.b64decode(book["values"])) == [0, 28, 113, 255]
    image, _ = lines_of(tmp_path, run, "image")
    assert (image["name"], image["class"], image["width"]) == ("ants/1.png", "ants", 8)
    assert (image["before"], image["after"]) == ([0, 2], {"2": [0, 1]})
    assert image["guess"] == {"full": "ants", "2": "ants"}
    assert pixels(image["jpeg"]).shape == (6, 8)


def test_traces_are_of_the_lowest_split_and_the_image_is_one_that_all_words_recognise(
    tmp_path, run
):
    run.cells[0]["answers"] = ["bees", "bees"]
    run.cells[1]["trace"] = {"step": [0, 1], "score": [-1.0, -0.5]}
    run.cells.append(cell("subset", 2, split=1, trace={"step": [0], "score": [-9.0]}))
    image, _ = lines_of(tmp_path, run, "image")
    assert (image["name"], image["jpeg"]) == ("bees/1.png", None)
    assert image["guess"] == {"full": "bees", "2": "ants"}
    (trace,) = lines_of(tmp_path, run, "trace")
    assert (trace["method"], trace["size"], trace["score"]) == ("subset", 2, [-1.0, -0.5])


def test_what_is_missing_is_not_drawn_and_damaged_samples_are_named(tmp_path, run):
    run.cells[1]["trace"] = {"step": [0], "score": [-1.0]}
    write_samples(tmp_path, sizes=np.zeros((2, 2), dtype=int))
    assert lines_of(tmp_path, run, "image") == []
    assert len(lines_of(tmp_path, run, "words")) == 2
    samples = tmp_path / "samples" / "toys.npz"
    samples.write_bytes(b"not a zip file")
    with pytest.raises(FormatError, match=r"toys\.npz"):
        page_details(tmp_path, run)
    write_samples(tmp_path)
    (tmp_path / "codebooks" / "toys" / "0-hard-4-full-4.safetensors").unlink()
    assert [line["kind"] for line in page_details(tmp_path, run)] == ["trace"]
    samples.unlink()
    assert [line["kind"] for line in page_details(tmp_path, run)] == ["trace"]


def test_words_are_shown_by_the_patch_nearest_to_them(tmp_path, run):
    (book,), (line, _) = (lines_of(tmp_path, run, kind) for kind in ("codebook", "words"))
    # Named are those that the kept words inherit from, and those pruned; word 1 has no descriptor.
    assert book["patches"]["ids"] == [3, 0, 2]
    assert line["patches"]["ids"] == line["ids"] == [0, 2]
    assert (line["patches"]["columns"], line["patches"]["rows"]) == (2, 1)
    sprite = pixels(line["patches"]["png"])
    assert sprite.shape == (24, 48)
    # Rows 2 to 5 of 8 pixels; columns 1 to 4 for word 0, and 5 to 7 with the last again for word 2.
    assert sprite[:, :24].mean() == pytest.approx(8 * 3.5 + 2.5, abs=0.5)
    assert sprite[:, 24:].mean() == pytest.approx(8 * 3.5 + 6.25, abs=0.5)


def test_four_images_give_four_patches_per_word(tmp_path, run):
    greys = [np.full((6, 8), 50 * (i + 1), dtype=np.uint8) for i in range(4)]
    write_samples(
        tmp_path,
        descriptors=np.array([[3.0], [0.0], [9.0], [1.0]], dtype=np.float32),
        offsets=np.arange(5),
        positions=np.full((4, 3), 3, dtype=np.float32),
        sizes=np.full((4, 2), [16, 12]),
        labels=np.array([0, 1, 0, 1]),
        paths=np.array([b"1", b"2", b"3", b"4"]),
        pixels=np.concatenate([grey.ravel() for grey in greys]),
        pixel_shapes=np.full((4, 2), [6, 8]),
    )
    line, _ = lines_of(tmp_path, run, "words")
    tile = pixels(line["patches"]["png"])[:, :24]
    assert tile[::12, ::12].tolist() == [[100, 200], [50, 150]]


def test_a_run_without_codebooks_has_its_recorded_lines(tmp_path):
    line = {"kind": "trace", "method": "saw", "size": 5, "score": [0.1, None]}
    path = tmp_path / "details.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    run = Run({"methods": {"saw": {}}}, [])
    assert page_details(tmp_path, run) == [line]
    for damage in ({"score": [True]}, {"accepted": [0, 1, 0]}, {"method": "axe"}, {"kind": 1}):
        path.write_text(json.dumps({**line, **damage}) + "\n", encoding="utf-8")
        with pytest.raises(FormatError, match=r"details\.jsonl, line 1"):
            page_details(tmp_path, run)


def test_a_word_inherits_the_descriptors_that_move_to_it():
    book = bs.Codebook([[0.0], [1.0], [4.0]])
    before, after = np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0, 1, 1])
    line = words_line({}, book, book.without([1]), before, after)
    assert (line["mass"], line["kept_mass"]) == ([0.6, 0.4], [0.4, 0.2])
    assert line["from"] == [[[0, 0.6667], [1, 0.3333]], [[1, 0.5], [2, 0.5]]]
    # Of word 1, half goes to each kept word; a tie goes to the lower position.
    assert line["pruned"] == [[1, 0.4, 0, 0.5]]
    assert line["n_pruned"] == 1


def test_sift_bytes_do_not_depend_on_the_unit_of_the_codebook():
    values = np.full((2, 128), 0.25, dtype=np.float32)
    description = {"name": "dense-sift"}
    for scale in (1.0, 512.0):
        book = bs.Codebook(scale * values, scale=scale, description=description)
        codes = np.zeros(1, dtype=np.int64)
        line = words_line({}, book, book.only([0]), codes, codes)
        assert set(base64.b64decode(line["values"])) == {128}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return read_run(made_run(tmp_path_factory.mktemp("run"), splits=1))


@pytest.fixture(scope="module")
def drawn(recorded):
    return vocabulary(panels_of(recorded.about, recorded.cells), recorded.details)


def test_words_and_images_are_found_by_panel_method_and_size(drawn):
    assert set(drawn["words"]) == {"p0", "p1"}
    sizes = drawn["words"]["p0"]["refinement"]
    assert set(sizes) == {"10", "20", "50"}
    assert sizes["20"]["ids"] == kept(20, 200)
    assert len(sizes["20"]["glyphs"]) == 20
    (image,) = drawn["images"]["p0"]["refinement"]
    assert image["step"] == [8.0, 8.0]
    assert image["jpeg"]


def test_of_a_codebook_only_the_words_that_are_named_are_drawn(drawn, recorded, monkeypatch):
    words = [line for line in recorded.details if line["kind"] == "words"]
    named = {row[0] for line in words for row in line["pruned"][: details.N_PRUNED]}
    named |= {word for line in words for sources in line["from"] for word, _ in sources}
    assert set(drawn["books"]["scenes/200"]["glyphs"]) == named
    monkeypatch.setattr(details, "MOST_OF_A_BOOK", 7)
    found = vocabulary(panels_of(recorded.about, recorded.cells), recorded.details)
    assert len(found["books"]["scenes/200"]["glyphs"]) == 7


def test_glyphs_are_16_steps_of_the_square_root_two_per_byte():
    even = glyphs(base64.b64encode(bytes([255, 0, 64, 255])).decode(), 2)
    assert [base64.b64decode(word).hex() for word in even] == ["f0", "8f"]
    (odd,) = glyphs(base64.b64encode(bytes([255, 0, 255])).decode(), 3)
    assert base64.b64decode(odd).hex() == "f0f0"
