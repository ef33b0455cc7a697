"""Dense SIFT: the local descriptor of the paper's protocol.

**Method.** Square patches on a regular grid, on one scale, by 4×4 cells of 8-bin histograms of
gradient orientation (Lowe 1999). A gradient gives to the two orientation bins beside its direction,
linearly, and to the cells around it with a triangular weight of half-width one cell in x and in y
(so nothing jumps when a patch moves by a pixel; a cell's weight reaches half a cell beyond the
patch). The 128 sums are brought to unit norm, clipped at 0.2 and brought to unit norm again.

**Definition**, for other implementations: an exported C header, graph or page. I is grey bytes,
height × width, both at least ``patch``; c = patch / 4; all sums are over pixels of the image.

1. *Grid.* Along a side of length L patches begin at ((L − patch) mod step) // 2 + i · step, as
   many as fit. Descriptors are ordered by the patch's y, then x.
2. *Gradient.* dx = (I[y, min(x + 1, width − 1)] − I[y, max(x − 1, 0)]) / 2, and dy likewise, exact
   in float32; g = √(dx² + dy²); θ = atan2(dy, dx) · 4 / π in eighths of a turn, 0 ≤ θ < 8, and 0
   for no gradient. Bin 0 is brightening to the right, bin 2 downwards, 4 to the left, 6 upwards.
3. *Orientation.* With a = |θ − o|, bin o of a pixel is g · max(0, 1 − min(a, 8 − a)).
4. *Cells.* A patch at (x, y) has cells at (x + c · j, y + c · i) for i, j = 0 … 3. Along each side
   a cell at p has its centre at m = p + (c − 1) / 2 and the weights w(q) = max(0, 1 − |q − m| / c),
   also for pixels q outside the patch. Its sums are Σ_y w(y) Σ_x w(x) bin(x, y, o).
5. *Norm.* v are the 128 sums by i, then j, then o, and n = ‖v‖. If n = 0 the descriptor is 0.
   Otherwise u = min(v / n, 0.2), f = 512 / ‖u‖, and f is multiplied by n / t where n < t;
   t = min_contrast · 255 · c² / 16.
6. *Byte.* ⌊min(f · u + 0.5, 255)⌋.

Steps 2 to 5 are in float32, in any order of the sums, products fused or not, square roots and
angles correct to 1e-6: f · u then errs by less than 0.001 (512 · 0.2 · 1e-5), and two
implementations differ in at most 0.1 % of the bytes of usual images, by 1, where f · u + 0.5 is
that close to an integer. ``tests/contracts/dense_sift.py`` has the images and the float64 answers
that each implementation is compared with. Reduction to ``max_side`` is defined in
:mod:`bowsaw.images.decode`.

**Departures from Lowe**, both usual for dense grids: there is no Gaussian window over the patch
(all cells have equal weight), and patches are neither rotated nor scaled.

**Low contrast.** Unit norm would amplify the noise of sky and walls, hence t in step 5:
``min_contrast`` is a raw norm with grey levels from 0 to 1, for a patch of 16 pixels; other patch
sizes are compared per pixel.

**Units.** Stored as uint8, 512 × the unit-norm value, at most 255: ``scale`` is 512. ``"float32"``
stores the unit-norm value itself with scale 1.

**Cost.** Patches share their cells where step and cell size have a common divisor: about 8 vector
operations per pixel and channel, then one gather of 128 numbers per patch.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.descriptors._dense_sift_kernel import N_ORIENTATIONS, cell_maps, gather
from bowsaw.descriptors.base import Descriptor, Descriptors, Positions
from bowsaw.errors import ParameterError
from bowsaw.parallel import Scratch
from bowsaw.validation import check_choice, check_int, check_real

N_CELLS = 4
CLIP = 0.2
BYTE_SCALE = 512.0

_scratch = Scratch()
"""Half a megabyte per image, which a Dask worker would otherwise allocate each time."""


class DenseSift(Descriptor):
    """SIFT descriptors on a regular grid of patches.

    Parameters
    ----------
    patch : int, default=16
        Side of a patch in pixels, a multiple of 4.
    step : int, default=8
        Distance between neighbouring patches in pixels.
    max_side : int or None, default=300
        Images are reduced so that the longest side has at most this many pixels, never enlarged.
        None keeps their size.
    min_contrast : float, default=1.0
        Patches of less contrast are not amplified to unit norm; 0 amplifies all.
    dtype : {"uint8", "float32"}, default="uint8"
        How descriptors are stored: 512 × the unit-norm value, or the value itself.
    max_pixels : int, default=100_000_000
        A file that claims more pixels, or three bytes for each of them, is refused before decoding.
    on_error : {"raise", "empty"}, default="raise"
        What ``transform`` does with a file that cannot be used: raise, or warn and return an empty
        bag in its place.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> images = [np.arange(64 * 48, dtype=np.uint8).reshape(48, 64)] * 2
    >>> bs.DenseSift().transform(images)
    Bags(2 bags, 70 descriptors of 128 uint8, scale 512)
    """

    def __init__(
        self,
        patch: int = 16,
        step: int = 8,
        max_side: int | None = 300,
        *,
        min_contrast: float = 1.0,
        dtype: Literal["uint8", "float32"] = "uint8",
        max_pixels: int = 100_000_000,
        on_error: Literal["raise", "empty"] = "raise",
        n_jobs: int | None = -1,
        verbose: bool | int = False,
    ) -> None:
        self.patch = patch
        self.step = step
        self.max_side = max_side
        self.min_contrast = min_contrast
        self.dtype = dtype
        self.max_pixels = max_pixels
        self.on_error = on_error
        self.n_jobs = n_jobs
        self.verbose = verbose

    def validate(self) -> None:
        """Raise a ParameterError when a parameter is out of range."""
        super().validate()
        check_int(self.patch, "patch", N_CELLS)
        if self.patch % N_CELLS:
            raise ParameterError(
                f"patch must be a multiple of {N_CELLS} pixels; got {self.patch}. Use "
                f"{self.patch - self.patch % N_CELLS}."
            )
        check_int(self.step, "step", 1)
        check_real(self.min_contrast, "min_contrast", 0)
        check_choice(self.dtype, "dtype", ("uint8", "float32"))

    def description(self) -> dict[str, Any]:
        """Return the parameters that define the descriptor, without how it is stored."""
        return {
            "name": "dense-sift",
            "version": 1,
            "patch": int(self.patch),
            "step": int(self.step),
            "max_side": None if self.max_side is None else int(self.max_side),
            "min_contrast": float(self.min_contrast),
        }

    @property
    def scale(self) -> float:
        """512 for uint8, 1 for float32."""
        return BYTE_SCALE if self.dtype == "uint8" else 1.0

    @property
    def n_dims(self) -> int:
        """Always 128: 4 × 4 cells × 8 orientations."""
        return N_CELLS * N_CELLS * N_ORIENTATIONS

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the descriptors."""
        return np.dtype(self.dtype)

    @property
    def min_side(self) -> int:
        """An image must hold one patch."""
        return self.patch

    def describe(self, grey: NDArray[np.uint8]) -> tuple[Descriptors, Positions]:
        """Describe the patches of one grey image, row by row.

        Parameters
        ----------
        grey : ndarray of shape (height, width), uint8
            Not resized here.

        Returns
        -------
        descriptors : ndarray of shape (n, 128)
            uint8 or float32.
        positions : ndarray of shape (n, 3), float32
            x and y of the patch's centre, and its side.
        """
        height, width = grey.shape
        lefts = grid(width, self.patch, self.step)
        tops = grid(height, self.patch, self.step)
        cell = self.patch // N_CELLS
        first_x, weights_x, columns = cells(lefts, cell, width)
        first_y, weights_y, rows = cells(tops, cell, height)
        maps = np.zeros((len(first_y), len(first_x), N_ORIENTATIONS), dtype=np.float32)
        scratch = _scratch.take(len(first_y), N_ORIENTATIONS * (width + 2 * weights_x.shape[1]))
        cell_maps(np.ascontiguousarray(grey), first_x, weights_x, first_y, weights_y, scratch, maps)
        out = np.empty((len(tops) * len(lefts), self.n_dims), dtype=self.stored_dtype)
        # Triangular weights sum to cell² per cell: 16 at the 16-pixel patch that min_contrast is
        # defined for.
        threshold = self.min_contrast * 255.0 * (cell * cell / 16.0)
        gather(maps, rows, columns, threshold, CLIP, self.scale, out, self.dtype == "uint8")
        positions = np.empty((len(out), 3), dtype=np.float32)
        middle = (self.patch - 1) / 2
        positions[:, 0] = np.tile(lefts + middle, len(tops))
        positions[:, 1] = np.repeat(tops + middle, len(lefts))
        positions[:, 2] = self.patch
        return out, positions


def grid(length: int, patch: int, step: int) -> NDArray[np.int64]:
    """Return where patches begin along one side, with equal margins."""
    if length < patch:
        return np.empty(0, dtype=np.int64)
    spare = (length - patch) % step
    return np.arange(spare // 2, length - patch + 1, step, dtype=np.int64)


def cells(
    begins: NDArray[np.int64], cell: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Return the distinct cells along a side, their pixels' weights and each patch's four cells."""
    corners = begins[:, None] + cell * np.arange(N_CELLS)
    distinct, index = np.unique(corners, return_inverse=True)
    # A cell of `cell` pixels from its corner has its centre at corner + (cell - 1) / 2, and its
    # triangle reaches less than `cell` pixels to either side.
    first = distinct - cell // 2
    pixels = first[:, None] + np.arange(2 * cell)
    centre = distinct[:, None] + (cell - 1) / 2
    weights = np.maximum(0.0, 1.0 - np.abs(pixels - centre) / cell)
    weights[(pixels < 0) | (pixels >= length)] = 0.0
    return (
        first.astype(np.int64),
        weights.astype(np.float32),
        index.reshape(corners.shape).astype(np.int64),
    )
