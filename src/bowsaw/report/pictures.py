"""What a page draws of pictures: the patches that a word stands for, an image coloured by word.

Pixels are read from the images' own folder and never kept in a store, so every function takes that
folder, and None where pictures may not be shown: then no line holds a pixel. A picture is read as
it was when it was described (grey, upright, as large as the store says). One that is gone, cannot
be read or is no longer the same file is left out without a fuss: its patches stay mid-grey.

**Patches.** A word is shown by the patches nearest to it among those that it codes, at most one
from a picture as long as there are others: neighbours on a grid look alike, and four views of one
brick say less of a word than bricks of four walls. Positions are centres of patches in pixels, (0,
0) being the centre of the first pixel, so a patch of side s at x begins at pixel x − (s − 1) / 2.
Beyond the picture its edge pixels are repeated. SIFT sees neither how bright a patch is nor, above
a threshold, its contrast, so a word's patches of black and of white walls are alike to it. To look
alike they are evened: the mean becomes mid-grey, the standard deviation 45 grey levels or four
times what it was. Patches of other descriptors are shown as they are; ``levels`` says which.

Cost: the distance of each descriptor to its own word, two sorts of the descriptors, and reading
each picture that has a patch once. Memory: a few numbers a descriptor, and the sprite.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.comparison.records import Line
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images.decode import read_image
from bowsaw.nearest.search import nearest_words
from bowsaw.parallel import ordered_map
from bowsaw.report.lines import checked_codes, is_sift
from bowsaw.store.store import Store

MID_GREY = 128
CONTRAST = 45.0
MAX_GAIN = 4.0
"""Of evened patches: the standard deviation, and how much it is raised at most."""
JPEG_QUALITY = 70
BLOCK_ROWS = 8192


def patches_line(
    key: Mapping[str, Any],
    codebook: Codebook,
    store: Store,
    root: str | os.PathLike[str] | None,
    rows: ArrayLike,
    codes: ArrayLike | None = None,
    *,
    only: ArrayLike | None = None,
    tile: int = 24,
    n_each: int = 4,
    n_jobs: int | None = -1,
) -> Line | None:
    """Return the line of a codebook's patches: one grey sprite, a tile a word.

    Parameters
    ----------
    key : mapping
        Set, split, full_words, and method and size (None for the full codebook).
    codebook : Codebook
        The words.
    store : Store
        Descriptors and positions.
    root : path-like or None
        The folder of the images; None where they may not be shown.
    rows : array-like of int, shape (n_bags,)
        The training images, as numbers of the store.
    codes : array-like of int, shape (n_descriptors,), optional
        The position of the nearest word of each of their descriptors, where known.
    only : array-like of int, optional
        Ids of the words to draw, in this order; all by default.
    tile : int, default=24
        Side of a word's tile in pixels.
    n_each : int, default=4
        Patches of a word; 4 are set as 2 × 2 into the tile.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Returns
    -------
    dict or None
        ``tile``, ``columns``, ``n_each``, ``levels`` ("evened" or "as they are") and ``png``,
        base64 of the sprite. Tile i, row by row, is word i of the codebook, or of ``only``;
        mid-grey where a word has no patch. None without ``root``, and for no words.
    """
    shown = np.arange(codebook.n_words) if only is None else codebook.positions(only)
    if root is None or not len(shown):
        return None
    side = math.isqrt(n_each - 1) + 1 if n_each > 0 else 0
    if not 0 < side <= tile:
        raise ParameterError(
            f"n_each must be from 1 to {tile * tile}, the pixels of a tile; got {n_each}."
        )
    numbers = np.asarray(rows, dtype=np.int64)
    bags = store.bags[numbers]
    if codes is None:
        codes = nearest_words(bags, codebook.words_for(bags), n_jobs=n_jobs)
    positions = checked_codes(codes, codebook, "codes")
    if len(positions) != bags.n_descriptors:
        raise DataError(
            f"codes must be one for each of the {bags.n_descriptors} descriptors of the rows; got "
            f"{len(positions)}."
        )
    tile_of = np.full(codebook.n_words, -1)
    tile_of[shown] = np.arange(len(shown))
    columns = math.isqrt(len(shown) - 1) + 1
    sprite = np.full((tile * -(-len(shown) // columns), tile * columns), MID_GREY, dtype=np.uint8)
    cell, evened = tile // side, is_sift(codebook)
    by_bag: dict[int, list[tuple[int, int, int]]] = {}
    for word, rank, bag, patch in _nearest_patches(bags, codebook, positions, n_each):
        if tile_of[word] >= 0:
            top, left = divmod(int(tile_of[word]), columns)
            corner = tile * top + cell * (rank // side), tile * left + cell * (rank % side)
            by_bag.setdefault(bag, []).append((patch, *corner))
    album = Album(store, root)

    def cut(bag: int) -> list[tuple[int, int, NDArray[np.uint8]]]:
        row = int(numbers[bag])
        grey = album.read(row)
        if grey is None:
            return []
        where = store.positions(row)
        return [(y, x, _patch(grey, where[patch], cell, evened)) for patch, y, x in by_bag[bag]]

    for pieces in ordered_map(cut, sorted(by_bag), n_jobs):
        for y, x, piece in pieces:
            sprite[y : y + cell, x : x + cell] = piece
    return {
        "kind": "patches",
        **key,
        "tile": tile,
        "columns": columns,
        "levels": "evened" if evened else "as they are",
        "png": _encoded(".png", sprite, [cv2.IMWRITE_PNG_COMPRESSION, 9]),
        "n_each": n_each,
    }


def image_line(
    key: Mapping[str, Any],
    store: Store,
    root: str | os.PathLike[str] | None,
    row: int,
    full: Codebook,
    smalls: Mapping[int, Codebook],
    guesses: Mapping[Any, str] | None = None,
) -> Line:
    """Return the line of one image: its patches, and their words before and after.

    Parameters
    ----------
    key : mapping
        Set, split, full_words and method.
    store : Store
        Descriptors and positions.
    root : path-like or None
        The folder of the images; None where they may not be shown.
    row : int
        The image, as a number of the store.
    full : Codebook
        All words.
    smalls : mapping of int to Codebook
        The small codebooks by size.
    guesses : mapping of str or int to str, optional
        The class that was recognised with all words (``"full"``) and with each size.

    Returns
    -------
    dict
        ``name``, ``class``, ``width``, ``height``, ``patch`` (the median side), ``x`` and ``y`` of
        the centres, all in pixels; ``before``, the id of each patch's word among all, and
        ``after``, by size, the position of its word in the small codebook; ``guess``; ``jpeg``,
        base64 of the grey picture, None without ``root`` or where it cannot be read any more.

    Examples
    --------
    >>> import tempfile, cv2, numpy as np
    >>> import bowsaw as bs
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "pets" / "cats").mkdir(parents=True)
    >>> noise = np.random.default_rng(0).integers(0, 256, (16, 32), dtype=np.uint8)
    >>> _ = cv2.imwrite(str(folder / "pets" / "cats" / "1.png"), noise)
    >>> store = bs.extract(bs.ImageFolder(folder / "pets"), bs.DenseSift(), folder / "store")
    >>> full = bs.Codebook(store.bags[0], ids=[5, 6, 7], scale=store.scale)
    >>> line = image_line({}, store, None, 0, full, {2: full.only([7, 5])})
    >>> line["name"], line["x"], line["before"], line["after"]["2"][::2], line["jpeg"]
    ('cats/1.png', [7.5, 15.5, 23.5], [5, 6, 7], [1, 0], None)
    """
    bags = store.bags[[row]]
    where = store.positions(row).astype(np.float64)
    grey = None if root is None else Album(store, root).read(row)
    width, height = store.sizes[row].tolist()

    def coded(book: Codebook) -> NDArray[np.int32]:
        return nearest_words(bags, book.words_for(bags), n_jobs=1)

    return {
        "kind": "image",
        **key,
        "name": store.paths[row],
        "class": store.classes[int(store.y[row])],
        "width": width,
        "height": height,
        "jpeg": None
        if grey is None
        else _encoded(".jpg", grey, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]),
        "patch": float(np.median(where[:, 2])) if len(where) else 0.0,
        "x": np.round(where[:, 0], 1).tolist(),
        "y": np.round(where[:, 1], 1).tolist(),
        "before": full.ids[coded(full)].tolist(),
        "after": {str(size): coded(book).tolist() for size, book in smalls.items()},
        "guess": None if guesses is None else {str(size): name for size, name in guesses.items()},
    }


def telling_image(store: Store, rows: ArrayLike, guessed: ArrayLike | None = None) -> int:
    """Return the image to show: the first by path that is recognised, else the first by path.

    The rule looks at nothing that could flatter a method: neither how its words fall nor what the
    small codebooks make of the image.

    Parameters
    ----------
    store : Store
        The images.
    rows : array-like of int, shape (n_images,)
        The test images, as numbers of the store.
    guessed : array-like of int, shape (n_images,), optional
        The label that the full codebook gave each of them.

    Returns
    -------
    int
        A number of the store.
    """
    numbers = np.asarray(rows, dtype=np.int64)
    if not len(numbers):
        raise DataError("an image to show is chosen among the test images; there are none.")
    right = np.ones(len(numbers), dtype=bool)
    if guessed is not None:
        labels = np.asarray(guessed)
        if labels.shape != numbers.shape:
            raise DataError(
                f"guessed must have one label for each of the {len(numbers)} rows; got shape "
                f"{labels.shape}."
            )
        right = store.y[numbers] == labels
    # A bag without descriptors may be recognised by chance, and has nothing to show.
    right &= store.bags.counts[numbers] > 0
    paths = store.paths
    wrong = {row: not ok for row, ok in zip(numbers.tolist(), right.tolist(), strict=True)}
    return int(min(wrong, key=lambda row: (wrong[row], paths[row])))


class Album:
    """The pictures of a store, read again as they were when they were described.

    The longest side of a picture was either never larger than it is in the store or was brought to
    that, so reading it with that side as a limit gives the same pixels, whatever limit was asked
    for.

    Parameters
    ----------
    store : Store
        What is known of them.
    root : path-like
        Their folder.
    """

    def __init__(self, store: Store, root: str | os.PathLike[str]) -> None:
        self._root = Path(root)
        self._paths, self._sizes = store.paths, store.sizes
        self._digests = store.bags.digests

    def read(self, row: int) -> NDArray[np.uint8] | None:
        """Return a picture, ``(height, width)``; None if it is not there, or another."""
        width, height = self._sizes[row].tolist()
        try:
            picture = read_image(self._root / self._paths[row], max_side=max(width, height))
        except ImageError:
            return None
        is_same = self._digests is not None and picture.digest == int(self._digests[row])
        return picture.grey if is_same and picture.grey.shape == (height, width) else None


def _nearest_patches(
    bags: Bags, codebook: Codebook, codes: NDArray[np.int64], n_each: int
) -> list[tuple[int, int, int, int]]:
    """Return ``(word, rank, bag, place in the bag)`` of the patches nearest to each word."""
    words = codebook.words_for(bags)
    distance = np.empty(len(codes), dtype=np.float32)
    for start, stop in bags.blocks(BLOCK_ROWS):
        away = bags.read(start, stop) - words[codes[start:stop]]
        distance[start:stop] = np.einsum("nd,nd->n", away, away)
    offsets = bags.offsets
    bag = np.repeat(np.arange(len(bags)), bags.counts)
    order = np.lexsort((distance, bag, codes))
    pair = codes[order] * max(len(bags), 1) + bag[order]
    again = np.ones(len(codes), dtype=bool)
    again[order] = np.concatenate(([False], pair[1:] == pair[:-1]))[: len(order)]
    order = np.lexsort((distance, again, codes))
    _, first, size = np.unique(codes[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, size)
    chosen, rank = order[rank < n_each], rank[rank < n_each]
    inside = chosen - offsets[bag[chosen]]
    found = (codes[chosen], rank, bag[chosen], inside)
    return list(zip(*(part.tolist() for part in found), strict=True))


def _patch(
    grey: NDArray[np.uint8], position: NDArray[np.float32], side: int, evened: bool
) -> NDArray[np.uint8]:
    """Cut a patch out of a picture, and make it ``side`` pixels large."""
    x, y, size = position.tolist()
    length = max(1, round(size))
    limits = zip((y, x), grey.shape, strict=True)
    lines, columns = (
        np.clip(math.floor(centre - (length - 1) / 2 + 0.5) + np.arange(length), 0, limit - 1)
        for centre, limit in limits
    )
    piece = grey[np.ix_(lines, columns)]
    how = cv2.INTER_AREA if length >= side else cv2.INTER_LINEAR
    fitted = np.asarray(cv2.resize(piece, (side, side), interpolation=how), dtype=np.uint8)
    if not evened:
        return fitted
    away = fitted - fitted.mean()
    gain = min(CONTRAST / max(float(away.std()), 1e-9), MAX_GAIN)
    return np.asarray(np.clip(np.rint(MID_GREY + gain * away), 0, 255), dtype=np.uint8)


def _encoded(suffix: str, grey: NDArray[np.uint8], options: list[int]) -> str:
    """Return a picture as base64 of a file."""
    done, data = cv2.imencode(suffix, grey, options)
    if not done:
        raise DataError(f"a picture of {grey.shape} pixels cannot be written as {suffix}.")
    return base64.b64encode(data.tobytes()).decode("ascii")
