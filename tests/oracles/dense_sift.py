"""Dense SIFT, the slow and obvious way: a loop over patches, cells and pixels in float64."""

import math

import numpy as np


def describe(grey, patch=16, step=8, min_contrast=1.0):
    """Unit-norm descriptors ``(n, 128)`` and positions ``(n, 3)``, both float64."""
    picture = grey.astype(np.float64) / 255
    cell = patch // 4
    gradients = [
        [gradient(picture, x, y) for x in range(picture.shape[1])] for y in range(picture.shape[0])
    ]
    descriptors, positions = [], []
    for top in begins(picture.shape[0], patch, step):
        for left in begins(picture.shape[1], patch, step):
            histograms = [
                cell_histogram(gradients, left + cell * column, top + cell * row, cell)
                for row in range(4)
                for column in range(4)
            ]
            # min_contrast is stated for cells of 4 × 4 pixels.
            sums = np.concatenate(histograms) * 16 / cell**2
            descriptors.append(normalised(sums, min_contrast))
            positions.append((left + (patch - 1) / 2, top + (patch - 1) / 2, patch))
    return np.array(descriptors).reshape(-1, 128), np.array(positions).reshape(-1, 3)


def as_bytes(descriptors):
    """512 × the unit-norm values, rounded, at most 255."""
    return np.minimum(np.floor(descriptors * 512 + 0.5), 255).astype(np.uint8)


def begins(length, patch, step):
    """As many patches as fit; of the pixels left over, half (rounded down) before the first."""
    n = (length - patch) // step + 1 if length >= patch else 0
    spare = length - patch - (n - 1) * step
    return [spare // 2 + i * step for i in range(n)]


def gradient(picture, x, y):
    """Size, and direction in eighths of a turn: 0 to the right, 2 down the picture."""
    height, width = picture.shape
    dx = (picture[y, min(x + 1, width - 1)] - picture[y, max(x - 1, 0)]) / 2
    dy = (picture[min(y + 1, height - 1), x] - picture[max(y - 1, 0), x]) / 2
    return math.hypot(dx, dy), math.atan2(dy, dx) / (2 * math.pi) * 8 % 8


def cell_histogram(gradients, left, top, cell):
    """Eight sums over the pixels around a cell; weights fall to 0 one cell from its centre."""
    histogram = np.zeros(8)
    centre_x, centre_y = left + (cell - 1) / 2, top + (cell - 1) / 2
    for y in range(max(0, top - cell), min(len(gradients), top + 2 * cell)):
        for x in range(max(0, left - cell), min(len(gradients[0]), left + 2 * cell)):
            weight_x = max(0, 1 - abs(x - centre_x) / cell)
            weight_y = max(0, 1 - abs(y - centre_y) / cell)
            size, direction = gradients[y][x]
            below = math.floor(direction)
            share = direction - below
            histogram[below % 8] += weight_x * weight_y * size * (1 - share)
            histogram[(below + 1) % 8] += weight_x * weight_y * size * share
    return histogram


def normalised(sums, min_contrast):
    """Unit norm, clipped at 0.2, unit norm again; smaller in proportion below ``min_contrast``."""
    contrast = np.linalg.norm(sums)
    if contrast == 0:
        return sums
    clipped = np.minimum(sums / contrast, 0.2)
    unit = clipped / np.linalg.norm(clipped)
    return unit * contrast / min_contrast if contrast < min_contrast else unit
