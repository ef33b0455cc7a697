"""Reduction of an image by area, the slow and obvious way: integers, one output pixel at a time."""

import numpy as np


def reduced_size(width, height, max_side):
    """Width and height of which the longest is at most ``max_side``; never enlarged."""
    longest = max(width, height)
    if longest <= max_side:
        return width, height
    return tuple(max(1, (2 * n * max_side + longest) // (2 * longest)) for n in (width, height))


def overlaps(length, n_out):
    """For each output pixel, the input pixels that it covers and how much of each, of ``length``.

    Both sides are cut into ``length · n_out`` equal pieces.
    """
    found = []
    for i in range(n_out):
        begin, end = i * length, (i + 1) * length
        pixels = range(begin // n_out, -(-end // n_out))
        shares = [min(end, (x + 1) * n_out) - max(begin, x * n_out) for x in pixels]
        found.append((list(pixels), shares))
    return found


def area_resize(grey, max_side=300):
    """The mean of what each output pixel covers, rounded, halves up."""
    height, width = grey.shape
    size = reduced_size(width, height, max_side)
    if size == (width, height):
        return grey
    columns, rows = overlaps(width, size[0]), overlaps(height, size[1])
    values = grey.astype(object)
    out = np.empty((size[1], size[0]), dtype=np.uint8)
    for j, (lines, tall) in enumerate(rows):
        strip = sum(share * values[line] for line, share in zip(lines, tall, strict=True))
        for i, (pixels, wide) in enumerate(columns):
            total = sum(strip[x] * share for x, share in zip(pixels, wide, strict=True))
            out[j, i] = (2 * total + width * height) // (2 * width * height)
    return out
