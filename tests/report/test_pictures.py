from __future__ import annotations

import base64
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

import bowsaw as bs
from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import DataError, ParameterError
from bowsaw.report.pictures import image_line, patches_line, telling_image

SIDE = 4
GREY = np.full((SIDE, SIDE), 128)


class Blocks(Descriptor):
    """Describes each 4 × 4 block of a picture by its pixels, so that a word is its own patch."""

    def __init__(self, max_side=None):
        self.max_side = max_side
        self.max_pixels = 10_000
        self.on_error = "raise"
        self.n_jobs = 1
        self.verbose = False

    def description(self):
        return {"name": "blocks", "version": 1, "max_side": self.max_side}

    scale = 255.0
    n_dims = SIDE * SIDE
    stored_dtype = np.dtype(np.uint8)

    def describe(self, grey):
        tops = range(0, grey.shape[0] - SIDE + 1, SIDE)
        corners = [(y, x) for y in tops for x in range(0, grey.shape[1] - SIDE + 1, SIDE)]
        rows = [grey[y : y + SIDE, x : x + SIDE].ravel() for y, x in corners]
        places = [(x + (SIDE - 1) / 2, y + (SIDE - 1) / 2, SIDE) for y, x in corners]
        return (
            np.array(rows, dtype=np.uint8).reshape(-1, self.n_dims),
            np.array(places, dtype=np.float32).reshape(-1, 3),
        )


def write(root: Path, pictures) -> Path:
    """Write pictures by name, without loss."""
    for name, grey in pictures.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(root / name), np.asarray(grey, dtype=np.uint8))
    return root


def extracted(root: Path, pictures, descriptor=None) -> bs.Store:
    images = bs.ImageFolder(write(root / "images", pictures))
    return bs.extract(images, descriptor or Blocks(), root / "test.store", n_jobs=1)


def tiles(line):
    """The tiles of a sprite, in order."""
    data = np.frombuffer(base64.b64decode(line["png"]), dtype=np.uint8)
    sprite = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    assert sprite.ndim == 2
    side, columns = line["tile"], line["columns"]
    assert sprite.shape[1] == side * columns
    rows = sprite.reshape(-1, side, columns, side).swapaxes(1, 2)
    return rows.reshape(-1, side, side)


def block(seed: int):
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE))


@pytest.fixture
def drawn(tmp_path):
    """Three pictures of two blocks each (0 1, 2 3, 4 5); the words are the blocks themselves."""
    pictures = {
        name: np.hstack([block(2 * i), block(2 * i + 1)])
        for i, name in enumerate(["a/1.png", "a/2.png", "b/1.png"])
    }
    store = extracted(tmp_path, pictures)
    words = np.stack([block(i).ravel() for i in range(6)])
    return store, tmp_path / "images", bs.Codebook(words, [30, 31, 32, 33, 34, 35], scale=255.0)


# -- patches ---------------------------------------------------------------------------------------


def test_a_tile_is_the_patch_of_its_word(drawn):
    store, root, book = drawn
    # In an order of its own, so that a tile that came by luck would be another.
    book = book.only([33, 30, 35, 31, 34, 32])
    key = {"set": "blocks", "method": None, "size": None}
    line = patches_line(key, book, store, root, [0, 1, 2], tile=SIDE, n_each=1)
    assert (line["kind"], line["set"], line["method"]) == ("patches", "blocks", None)
    assert (line["tile"], line["columns"], line["n_each"]) == (SIDE, 3, 1)
    assert line["levels"] == "as they are"
    np.testing.assert_array_equal(tiles(line), [block(i) for i in (3, 0, 5, 1, 4, 2)])
    assert json.loads(json.dumps(line)) == line


def test_words_may_be_chosen_and_the_last_row_is_filled_up(drawn):
    store, root, book = drawn
    line = patches_line({}, book, store, root, [0, 1, 2], only=[35, 32, 31], tile=4, n_each=1)
    assert line["columns"] == 2
    np.testing.assert_array_equal(tiles(line), [block(5), block(2), block(1), GREY])
    assert patches_line({}, book, store, root, [0, 1, 2], only=[]) is None


def test_only_the_rows_are_looked_at_and_codes_are_taken_as_given(drawn):
    store, root, book = drawn
    line = patches_line({}, book, store, root, [2, 0], tile=4, n_each=1)
    expected = [block(0), block(1), GREY, GREY, block(4), block(5)]
    np.testing.assert_array_equal(tiles(line), expected)
    # Rows 2 and 0 have the blocks 4, 5, 0, 1. Word 33, told to code them all, shows the nearest.
    line = patches_line({}, book, store, root, [2, 0], [3, 3, 3, 3], tile=4, n_each=1)
    away = [((block(i) - block(3)) ** 2).sum() for i in (4, 5, 0, 1)]
    nearest = block((4, 5, 0, 1)[int(np.argmin(away))])
    np.testing.assert_array_equal(tiles(line)[3], nearest)
    assert (tiles(line)[[0, 1, 2, 4, 5]] == 128).all()


def test_patches_of_several_pictures_come_before_more_of_one(tmp_path):
    # Flat blocks of these greys; the word is 100. Picture 1 holds the three nearest.
    greys = {"a/1.png": [100, 101, 102], "a/2.png": [110, 90], "b/1.png": [120]}
    pictures = {
        name: np.hstack([np.full((SIDE, SIDE), grey) for grey in row])
        for name, row in greys.items()
    }
    store, root = extracted(tmp_path, pictures), tmp_path / "images"
    book = bs.Codebook(np.full((1, 16), 100.0), scale=255.0)
    line = patches_line({}, book, store, root, [0, 1, 2], tile=8, n_each=4)
    shown = [int(part[0, 0]) for row in np.vsplit(tiles(line)[0], 2) for part in np.hsplit(row, 2)]
    # First the nearest of each picture (110 and 90 are equally near: the first of them), then the
    # second nearest of the one that has it.
    assert shown == [100, 110, 120, 101]
    line = patches_line({}, book, store, root, [2], tile=8, n_each=4)
    np.testing.assert_array_equal(tiles(line)[0][:4, :4], 120)
    assert (tiles(line)[0][4:] == 128).all()
    assert (tiles(line)[0][:4, 4:] == 128).all()


def test_pictures_that_are_gone_broken_or_changed_stay_mid_grey(drawn):
    store, root, book = drawn

    def shown():
        return tiles(patches_line({}, book, store, root, [0, 1, 2], tile=4, n_each=1))

    (root / "a/1.png").unlink()
    (root / "a/2.png").write_bytes(b"not a picture")
    np.testing.assert_array_equal(shown(), [GREY, GREY, GREY, GREY, block(4), block(5)])
    # Another picture of the same size under the old name would be shown as what it is not.
    write(root, {"b/1.png": np.hstack([block(7), block(8)])})
    assert (shown() == 128).all()
    assert image_line({}, store, root, 2, book, {})["jpeg"] is None


def test_sprites_are_the_same_on_any_number_of_threads(drawn):
    store, root, book = drawn
    lines = [patches_line({}, book, store, root, [0, 1, 2], n_jobs=n) for n in (1, 2)]
    assert lines[0] == lines[1]
    assert lines[0]["tile"] == 24
    assert len(tiles(lines[0])) == 6


def test_wrong_requests_say_what_is_right(drawn):
    store, root, book = drawn
    with pytest.raises(ParameterError, match="n_each must be from 1 to 16"):
        patches_line({}, book, store, root, [0], tile=4, n_each=0)
    with pytest.raises(ParameterError, match="n_each must be from 1 to 16"):
        patches_line({}, book, store, root, [0], tile=4, n_each=17)
    with pytest.raises(DataError, match="each of the 2 descriptors of the rows; got 3"):
        patches_line({}, book, store, root, [0], [0, 0, 0])
    with pytest.raises(DataError, match="from 0 to 5"):
        patches_line({}, book, store, root, [0], [0, 6])


class Odd(Blocks):
    """One patch a picture, of another size and partly outside."""

    def __init__(self, x=0.0, y=0.0, size=4.0):
        super().__init__()
        self.x, self.y, self.size = x, y, size

    def describe(self, grey):
        place = np.array([[self.x, self.y, self.size]], dtype=np.float32)
        return np.zeros((1, self.n_dims), dtype=np.uint8), place


@pytest.mark.parametrize(
    ("place", "columns"),
    [
        # Centred on pixel 0, five wide: from -2 to 2, of which -2 and -1 repeat pixel 0.
        ((0.0, 3.0, 5.0), [0, 0, 0, 1, 2]),
        # As DenseSift places them: four from pixel 2 on.
        ((3.5, 3.5, 4.0), [2, 3, 4, 5]),
        # Beyond the right edge pixel 7 is repeated.
        ((7.0, 3.0, 3.0), [6, 7, 7]),
        # Keypoints lie between pixels: from 2.2 on is from pixel 2, from 2.6 on from pixel 3.
        ((3.7, 3.5, 4.0), [2, 3, 4, 5]),
        ((4.1, 3.5, 4.0), [3, 4, 5, 6]),
        ((5.0, 3.0, 0.3), [5]),
    ],
)
def test_a_patch_is_cut_where_its_position_says(tmp_path, place, columns):
    ramp = np.tile(10 * np.arange(8), (8, 1))
    store = extracted(tmp_path, {"a/1.png": ramp}, Odd(*place))
    book = bs.Codebook(np.zeros((1, 16)))
    line = patches_line({}, book, store, tmp_path / "images", [0], [0], tile=len(columns), n_each=1)
    np.testing.assert_array_equal(tiles(line)[0][0], 10 * np.array(columns))


def test_a_dead_word_and_no_images_have_no_patch(drawn):
    store, root, book = drawn
    far = bs.Codebook(np.vstack([book.words, np.full((1, 16), 1e6)]), scale=255.0)
    line = patches_line({}, far, store, root, [0, 1, 2], tile=4, n_each=1)
    assert (tiles(line)[6] == 128).all()
    line = patches_line({}, book, store, root, [], tile=4)
    assert (tiles(line) == 128).all()


def test_sift_patches_are_evened_as_sift_sees_them(tmp_path):
    texture = np.random.default_rng(0).integers(60, 173, (4, 4)).repeat(6, 0).repeat(6, 1)
    faint = texture // 16 + 100
    pictures = {
        "a/1.png": texture,
        "a/2.png": texture // 2 + 150,
        "a/3.png": texture - 50,
        "b/1.png": faint,
        "b/2.png": np.full((24, 24), 37),
    }
    store = extracted(tmp_path, pictures, bs.DenseSift(patch=24, step=24))
    words = store.bags.values[[0, 3, 4]].astype(np.float32)
    book = bs.Codebook(words, scale=store.scale, description=store.description)
    codes = [0, 0, 0, 1, 2]
    root = tmp_path / "images"
    line = patches_line({}, book, store, root, range(5), codes, tile=48, n_each=3)
    assert line["levels"] == "evened"
    word, weak, flat, _ = tiles(line).astype(float)
    # SIFT is blind to the 50 that were taken away, so these two are equally near, in order; whole
    # numbers make halves a little different.
    same, darker, half = word[:24, :24], word[:24, 24:], word[24:, :24]
    for part in (same, darker, half):
        assert part.mean() == pytest.approx(128, abs=1)
        assert part.std() == pytest.approx(45, abs=1)
    np.testing.assert_array_equal(same, darker)
    # Off by half a grey of a standard deviation of half the texture's, and by rounding.
    assert np.abs(half - same).max() <= 0.5 * 45 / (texture.std() / 2) + 1
    # What is faint is raised four times, and what is flat stays flat: noise is not blown up.
    assert weak[:24, :24].std() == pytest.approx(4 * faint.std(), abs=0.5)
    assert (flat == 128).all()


# -- an image --------------------------------------------------------------------------------------


def test_an_image_is_coloured_by_the_nearest_words(tmp_path):
    random = np.random.default_rng(0)
    pictures = {f"{c}/{i}.png": random.integers(0, 256, (40, 60)) for c in "ab" for i in (1, 2)}
    store, root = extracted(tmp_path, pictures, bs.DenseSift()), tmp_path / "images"
    book = bs.KMeansCodebook(9, random_state=0).fit(store.bags).codebook_
    book = bs.Codebook(
        book.words, np.arange(9) * 2 + 50, scale=book.scale, description=book.description
    )
    smalls = {2: book.only([66, 50]), 3: book.only([52, 60, 54])}
    key = {"set": "noise", "split": 0, "full_words": 9, "method": "random"}
    guesses = {"full": "b", 2: "a", "3": "b"}
    line = image_line(key, store, root, 2, book, smalls, guesses)
    assert {name: line[name] for name in key} == key
    assert (line["kind"], line["name"], line["class"]) == ("image", "b/1.png", "b")
    assert (line["width"], line["height"], line["patch"]) == (60, 40, 16.0)
    assert np.stack([line["x"], line["y"]], 1).tolist() == store.positions(2)[:, :2].tolist()
    rows = store.bags[2].astype(np.float64)

    def nearest(words):
        return ((rows[:, None] - words) ** 2).sum(axis=2).argmin(axis=1)

    assert line["before"] == book.ids[nearest(book.words)].tolist()
    assert line["after"] == {str(n): nearest(b.words).tolist() for n, b in smalls.items()}
    assert line["guess"] == {"full": "b", "2": "a", "3": "b"}
    data = np.frombuffer(base64.b64decode(line["jpeg"]), dtype=np.uint8)
    assert bytes(data[:3]) == b"\xff\xd8\xff"
    assert cv2.imdecode(data, cv2.IMREAD_UNCHANGED).shape == (40, 60)
    assert json.loads(json.dumps(line, allow_nan=False)) == line


def test_a_large_picture_is_shown_as_large_as_it_was_described(tmp_path):
    # A ramp: after shrinking to 30 × 15, and with JPEG's losses, it still rises to the right.
    ramp = np.tile(np.linspace(0, 255, 100), (50, 1))
    store = extracted(tmp_path, {"a/1.png": ramp}, Blocks(max_side=30))
    book = bs.Codebook(np.stack([np.zeros(16), np.full(16, 255.0)]), scale=255.0)
    root = tmp_path / "images"
    line = image_line({}, store, root, 0, book, {})
    assert (line["width"], line["height"]) == (30, 15)
    data = np.frombuffer(base64.b64decode(line["jpeg"]), dtype=np.uint8)
    shown = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    np.testing.assert_allclose(shown[7], np.linspace(0, 255, 30), atol=12)
    # And patches come out of that picture, pixel by pixel: the darkest block and the brightest.
    tile = tiles(patches_line({}, book, store, root, [0], tile=4, n_each=1))
    described = store.bags[0].reshape(-1, 4, 4)
    np.testing.assert_array_equal(tile[0], described[described.mean((1, 2)).argmin()])
    np.testing.assert_array_equal(tile[1], described[described.mean((1, 2)).argmax()])


def test_without_a_folder_no_line_holds_a_pixel(drawn):
    store, _, book = drawn
    assert patches_line({}, book, store, None, [0, 1, 2]) is None
    line = image_line({}, store, None, 0, book, {2: book.only([30, 31])})
    assert line["jpeg"] is None
    assert set(line) == {
        *("kind", "name", "class", "width", "height", "jpeg", "patch", "x", "y"),
        *("before", "after", "guess"),
    }
    assert line["guess"] is None
    assert line["before"] == [30, 31]


def test_an_image_without_descriptors_has_an_empty_line(tmp_path):
    store = extracted(tmp_path, {"a/1.png": np.zeros((3, 3)), "a/2.png": block(0)})
    book = bs.Codebook(np.zeros((2, 16)), scale=255.0)
    line = image_line({}, store, None, 0, book, {1: book.only([1])})
    assert (line["x"], line["before"], line["after"], line["patch"]) == ([], [], {"1": []}, 0.0)
    # Neither is it the one to show, though it comes first and was recognised.
    assert telling_image(store, [0, 1], [0, 0]) == 1
    assert telling_image(store, [0]) == 0


def test_the_image_to_show_is_the_first_that_is_recognised(drawn):
    store, _, _ = drawn
    assert store.y.tolist() == [0, 0, 1]
    assert telling_image(store, [2, 1, 0]) == 0
    assert telling_image(store, np.array([2, 1, 0]), [1, 0, 1]) == 1
    assert telling_image(store, [2, 1], [1, 1]) == 2
    assert telling_image(store, [2, 1], [0, 1]) == 1
    with pytest.raises(DataError, match="there are none"):
        telling_image(store, [])
    with pytest.raises(DataError, match="each of the 2 rows"):
        telling_image(store, [0, 1], [0])
