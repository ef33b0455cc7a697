"""Dense SIFT against its twin, against answers derived by hand, and against what must not matter.

Directions: bin 0 is a gradient to the right (brighter on the right), and bins go on clockwise as
seen on a screen, because y points down: bin 2 is brighter below, bin 4 on the left, bin 6 above.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import dense_sift as oracle

from bowsaw.descriptors._dense_sift_kernel import _eighths
from bowsaw.descriptors.dense_sift import DenseSift, grid

RANDOM = np.random.default_rng(11)
NOISE = RANDOM.integers(0, 256, (90, 110), dtype=np.uint8)


def floats(grey, **parameters):
    """Descriptors as unit-norm float32."""
    return DenseSift(dtype="float32", **parameters).describe(grey)[0]


def assert_equals_twin(grey, **parameters):
    expected, expected_positions = oracle.describe(grey, **parameters)
    values, positions = DenseSift(dtype="float32", **parameters).describe(grey)
    assert values.dtype == positions.dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(positions, expected_positions)
    stored, positions = DenseSift(dtype="uint8", **parameters).describe(grey)
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(positions, expected_positions)
    away = np.abs(stored.astype(int) - oracle.as_bytes(expected))
    assert away.max(initial=0) <= 1
    assert (away != 0).sum() <= away.size / 100


@pytest.mark.parametrize(
    ("patch", "step"),
    [
        (4, 9),  # cells of one pixel
        (8, 5),  # a step that is no multiple of the cell
        (12, 7),  # odd cells
        (16, 1),
        (16, 40),  # gaps between patches
        (24, 24),
    ],
)
def test_patches_and_steps(patch, step):
    side = patch + 2 * min(step, 5)
    assert_equals_twin(NOISE[: side + 3, : side + 1].copy(), patch=patch, step=step)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (17, 17), (16, 90), (18, 105)])
def test_sizes_of_images(height, width):
    """One patch and nothing else, margins of one pixel, ribbons."""
    assert_equals_twin(NOISE[:height, :width].copy())


@given(st.data())
@settings(max_examples=25)
def test_any_image(data):
    patch = data.draw(st.sampled_from([4, 8, 12, 16]))
    step = data.draw(st.integers(3, 20))
    height = data.draw(st.integers(patch, patch + 9))
    width = data.draw(st.integers(patch, patch + 9))
    levels = data.draw(st.sampled_from([2, 3, 10, 256]))
    min_contrast = data.draw(st.sampled_from([0.0, 0.3, 1.0, 5.0]))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    grey = random.integers(0, levels, (height, width), dtype=np.uint8)
    assert_equals_twin(grey, patch=patch, step=step, min_contrast=min_contrast)


def test_the_angle_of_every_possible_gradient():
    """All 511 × 511 differences of two bytes, against atan2."""
    levels = np.arange(-255, 256, dtype=np.float32) / 2
    ours = np.array([[_eighths(y, x) for x in levels] for y in levels])
    theirs = np.arctan2(levels[:, None].astype(float), levels.astype(float)) * 4 / np.pi % 8
    apart = np.abs(ours - theirs)
    assert np.minimum(apart, 8 - apart).max() < 1e-6
    assert ours.min() >= 0
    assert ours.max() < 8


# Every cell of a ramp holds the same sums. With all of them in one bin, each of 16 entries is
# 1/√16 = 0.25 of the unit norm; clipping at 0.2 and the second norm bring it back to 0.25.
DIRECTIONS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def ramp(right, down, side=24):
    """A image that brightens by ``right`` grey levels per pixel to the right, ``down`` below."""
    y, x = np.mgrid[:side, :side]
    heights = right * x + down * y
    return (heights - heights.min()).astype(np.uint8)


@pytest.mark.parametrize(("bin_", "direction"), list(enumerate(DIRECTIONS)))
def test_a_ramp_lights_the_bin_of_its_direction(bin_, direction):
    # One patch with a margin of 4 pixels: its cells reach 2 beyond it, their gradients 1 more.
    values = floats(ramp(5 * direction[0], 5 * direction[1]), step=24, min_contrast=0)
    expected = np.zeros((1, 16, 8))
    expected[:, :, bin_] = 0.25
    np.testing.assert_allclose(values.reshape(1, 16, 8), expected, atol=1e-6)


def test_cells_share_a_pixel_in_proportion_to_its_distance():
    # The only gradients are those at x = 7 and x = 8, between cell columns 1 (centre 5.5) and 2
    # (centre 9.5): weights 0.625 and 0.375 for one, 0.375 and 0.625 for the other, the same in sum.
    # Columns 0 and 3, 5.5 pixels away and more, have none. Rows have one weight each, but for the
    # outer ones, whose triangles leave the image by the weights of two pixels, 0.375 + 0.125.
    grey = np.zeros((16, 16), dtype=np.uint8)
    grey[:, 8:] = 255
    rows = np.array([4 - 0.5, 4, 4, 4 - 0.5])
    sums = np.outer(rows, [0, 1, 1, 0])
    clipped = np.minimum(sums / np.linalg.norm(sums), 0.2)
    values = floats(grey).reshape(4, 4, 8)
    np.testing.assert_allclose(values[:, :, 0], clipped / np.linalg.norm(clipped), atol=1e-6)
    assert not values[:, :, 1:].any()


@pytest.mark.parametrize(
    ("patch", "slope", "min_contrast"), [(8, 1, 1.0), (16, 3, 1.0), (20, 2, 2.5)]
)
def test_low_contrast_is_not_amplified(patch, slope, min_contrast):
    # 16 cells hold 4 · 4 pixels · slope / 255 each in patches of 16, and others count as such:
    # a raw norm of √16 · 16 · slope / 255.
    raw = 64 * slope / 255
    grey = ramp(slope, 0, side=patch + 12)
    values = floats(grey, patch=patch, step=100, min_contrast=min_contrast)
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), raw / min_contrast, rtol=1e-5)


@pytest.mark.parametrize(("level", "min_contrast"), [(0, 1.0), (7, 0.0), (255, 1.0)])
def test_a_flat_patch_is_zero_and_a_smaller_image_has_none(level, min_contrast):
    grey = np.full((40, 40), level, dtype=np.uint8)
    for dtype in ("uint8", "float32"):
        values, _ = DenseSift(dtype=dtype, min_contrast=min_contrast).describe(grey)
        assert values.shape == (16, 128)
        assert not values.any()
        values, positions = DenseSift(dtype=dtype).describe(grey[:15])
        assert (values.shape, positions.shape) == ((0, 128), (0, 3))
        assert values.dtype == dtype


def test_values_that_do_not_fit_a_byte_are_clipped():
    # Cells of one pixel. A dot in the corner makes three gradients, in three cells, one bin each:
    # after the clip they are equal, 1/√3 = 0.577 of the unit norm, and 512 · 0.577 is above 255.
    grey = np.zeros((4, 4), dtype=np.uint8)
    grey[0, 0] = 255
    values = floats(grey, patch=4, min_contrast=0)[0]
    stored = DenseSift(4, min_contrast=0).describe(grey)[0][0]
    # Cell (0, 0) sees the dot up and to the left, its neighbours to the left and above.
    lit = [0 * 8 + 5, 1 * 8 + 4, 4 * 8 + 6]
    np.testing.assert_allclose(values[lit], 3**-0.5, rtol=1e-6)
    assert stored[lit].tolist() == [255] * 3
    assert stored.sum() == 3 * 255


@pytest.mark.parametrize("patch", [8, 20])
def test_a_position_is_the_centre_of_what_is_described(patch):
    """The crop around a position, wide enough for all that its cells reach, describes the same."""
    reach = patch // 8 + 1
    values, positions = DenseSift(patch, 9, dtype="float32").describe(NOISE)
    assert (positions[:, 2] == patch).all()
    compared = 0
    for value, (x, y, side) in zip(values, positions, strict=True):
        left, top = round(x - (side - 1) / 2), round(y - (side - 1) / 2)
        if not (reach <= left < 110 - patch - reach and reach <= top < 90 - patch - reach):
            continue
        crop = NOISE[top - reach : top + patch + reach, left - reach : left + patch + reach]
        ours, centre = DenseSift(patch, 100, dtype="float32").describe(crop)
        assert centre.tolist() == [[reach + (patch - 1) / 2, reach + (patch - 1) / 2, patch]]
        np.testing.assert_allclose(ours[0], value, atol=1e-6)
        compared += 1
    assert compared > 30


def test_a_mirrored_image_has_mirrored_descriptors():
    # Left and right change places: cell columns turn round, and direction θ becomes 4 - θ.
    grey = NOISE[:80, :80].copy()  # 80 = 16 + 8 · 8: no margin, so the grid is its own mirror
    here = floats(grey).reshape(9, 9, 4, 4, 8)
    there = floats(grey[:, ::-1].copy()).reshape(9, 9, 4, 4, 8)
    mirrored = there[:, ::-1, :, ::-1][..., [4, 3, 2, 1, 0, 7, 6, 5]]
    np.testing.assert_allclose(here, mirrored, atol=1e-6)


@given(st.integers(0, 60), st.integers(1, 30), st.integers(1, 30))
def test_the_grid_fills_a_side_evenly(length, patch, step):
    begins = grid(length, patch, step)
    np.testing.assert_array_equal(begins, oracle.begins(length, patch, step))
    if length < patch:
        assert not len(begins)
        return
    before, after = begins[0], length - patch - begins[-1]
    assert 0 <= after - before <= 1
    assert before + after < step
    assert (np.diff(begins) == step).all()
