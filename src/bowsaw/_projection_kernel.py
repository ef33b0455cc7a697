"""Projection of descriptors, row by row."""

from __future__ import annotations

from numba import njit

from bowsaw._arrays import Float32


@njit(nogil=True, cache=True)
def project_rows(rows: Float32, mean: Float32, matrix: Float32, out: Float32) -> None:
    """Write (rows − mean) · matrix to ``out``, summed in float32 in the order of the dimensions.

    Unlike a matrix product of BLAS, a row's result does not depend on the rows beside it.
    """
    n_rows, n_dims = rows.shape
    whole = n_dims - n_dims % 8
    for i in range(n_rows):
        out[i, :] = 0
        for k in range(0, whole, 8):
            a, b = rows[i, k] - mean[k], rows[i, k + 1] - mean[k + 1]
            c, d = rows[i, k + 2] - mean[k + 2], rows[i, k + 3] - mean[k + 3]
            e, f = rows[i, k + 4] - mean[k + 4], rows[i, k + 5] - mean[k + 5]
            g, h = rows[i, k + 6] - mean[k + 6], rows[i, k + 7] - mean[k + 7]
            for j in range(matrix.shape[1]):
                total = out[i, j] + a * matrix[k, j] + b * matrix[k + 1, j]
                total = total + c * matrix[k + 2, j] + d * matrix[k + 3, j]
                total = total + e * matrix[k + 4, j] + f * matrix[k + 5, j]
                out[i, j] = total + g * matrix[k + 6, j] + h * matrix[k + 7, j]
        for k in range(whole, n_dims):
            a = rows[i, k] - mean[k]
            for j in range(matrix.shape[1]):
                out[i, j] += a * matrix[k, j]
