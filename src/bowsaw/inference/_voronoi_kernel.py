"""Faces of convex bodies in space, cut by half-spaces: arrays in, arrays out.

A half-space {x : n·x ≤ h} is a row (n₁, n₂, n₃, h) with a unit normal; a body is an array of them.
Bodies are bounded: a box is among their half-spaces. A *redundant* half-space is one whose plane
has no part in the body's surface. ``radius`` is one that no corner of the body exceeds: it is the
measure of what is small.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

SAME = 1e-10
"""Planes that differ by less, in direction and in distance over the radius, are one."""
SHAVED = 1e-13
"""How much of the radius is taken off where a cell is cut.

Parts that only touch the cell have no volume, and rounding would leave them some faces of a body
but not all: a flux through a surface with holes. Shaved, they are empty.
"""


@njit(nogil=True, error_model="numpy", cache=True)
def _axes(
    normal: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> None:
    """Write two unit vectors that span the plane."""
    least = 0
    for d in range(1, 3):
        if abs(normal[d]) < abs(normal[least]):
            least = d
    size = np.sqrt(1 - normal[least] ** 2)
    for d in range(3):
        first[d] = ((1.0 if d == least else 0.0) - normal[least] * normal[d]) / size
    second[0] = normal[1] * first[2] - normal[2] * first[1]
    second[1] = normal[2] * first[0] - normal[0] * first[2]
    second[2] = normal[0] * first[1] - normal[1] * first[0]


@njit(nogil=True, error_model="numpy", cache=True)
def _cut(
    polygon: NDArray[np.float64],
    n: int,
    a: float,
    b: float,
    room: float,
    out: NDArray[np.float64],
) -> int:
    """Write the part of a convex polygon with a·s + b·t ≤ room; return its number of corners."""
    m = 0
    for i in range(n):
        j = i + 1 if i + 1 < n else 0
        here = a * polygon[i, 0] + b * polygon[i, 1] - room
        there = a * polygon[j, 0] + b * polygon[j, 1] - room
        if here <= 0:
            out[m] = polygon[i]
            m += 1
        if (here < 0 < there) or (there < 0 < here):
            share = here / (here - there)
            for d in range(2):
                out[m, d] = polygon[i, d] + share * (polygon[j, d] - polygon[i, d])
            m += 1
    return m


@njit(nogil=True, error_model="numpy", cache=True)
def _face(
    body: NDArray[np.float64],
    i: int,
    radius: float,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    polygon: NDArray[np.float64],
    spare: NDArray[np.float64],
) -> int:
    """Write the corners of the i-th face in coordinates of its plane, counter-clockwise.

    The origin is the plane's nearest point to the centre, the axes are ``first`` and ``second``.
    Returns the number of corners, 0 for a redundant half-space.
    """
    normal, h = body[i, :3], body[i, 3]
    _axes(normal, first, second)
    size = 2 * radius
    for corner in range(4):
        polygon[corner, 0] = size if corner in (0, 3) else -size
        polygon[corner, 1] = size if corner < 2 else -size
    n = 4
    for j in range(body.shape[0]):
        if j == i:
            continue
        a = b = c = 0.0
        for d in range(3):
            a += body[j, d] * first[d]
            b += body[j, d] * second[d]
            c += body[j, d] * normal[d]
        room = body[j, 3] - c * h
        if a * a + b * b < SAME * SAME:
            # Parallel planes. Of equal ones the first is the face.
            if room < -SAME * radius or (c < 0 and room < 0):
                return 0
            if c > 0 and room <= SAME * radius and j < i:
                return 0
            continue
        n = _cut(polygon, n, a, b, room, spare)
        if n < 3:
            return 0
        polygon[:n] = spare[:n]
    return n


@njit(nogil=True, error_model="numpy", cache=True)
def trim(body: NDArray[np.float64], radius: float) -> tuple[NDArray[np.float64], float]:
    """Return a body without redundant half-spaces, none if it is empty, and its largest radius."""
    n_planes = body.shape[0]
    polygon, spare = np.empty((n_planes + 8, 2)), np.empty((n_planes + 8, 2))
    first, second = np.empty(3), np.empty(3)
    needed = np.zeros(n_planes, np.bool_)
    largest = 0.0
    for i in range(n_planes):
        n = _face(body, i, radius, first, second, polygon, spare)
        needed[i] = n > 0
        for corner in range(n):
            away = body[i, 3] ** 2 + polygon[corner, 0] ** 2 + polygon[corner, 1] ** 2
            largest = away if away > largest else largest
    return body[needed], np.sqrt(largest)


@njit(nogil=True, error_model="numpy", cache=True)
def _with(body: NDArray[np.float64], normal: NDArray[np.float64], h: float) -> NDArray[np.float64]:
    out = np.empty((body.shape[0] + 1, 4))
    out[:-1] = body
    out[-1, :3] = normal
    out[-1, 3] = h
    return out


@njit(nogil=True, error_model="numpy", cache=True)
def cell_of_origin(
    others: NDArray[np.float64], box: NDArray[np.float64], radius: float
) -> tuple[NDArray[np.float64], float]:
    """Return the points of ``box`` that are nearer to the origin than to any other, as a body.

    ``others`` are (n, 3), by rising distance. Also returns the body's radius.
    """
    body = box
    for j in range(others.shape[0]):
        distance = np.sqrt((others[j] ** 2).sum())
        if distance / 2 > radius:
            break
        if distance > 0:
            body, radius = trim(_with(body, others[j] / distance, distance / 2), radius)
    return body, radius


@njit(nogil=True, error_model="numpy", cache=True)
def part_of(
    k: int, survivors: NDArray[np.float64], cell: NDArray[np.float64], radius: float
) -> NDArray[np.float64]:
    """Return the part of a cell whose nearest survivor is the k-th; no half-spaces if it is empty.

    Of survivors at one place the first takes all.
    """
    body = cell
    for m in range(survivors.shape[0]):
        if m == k:
            continue
        away = survivors[m] - survivors[k]
        distance = np.sqrt((away**2).sum())
        if distance == 0:
            if m < k:
                return body[:0]
            continue
        h = (away * (survivors[m] + survivors[k])).sum() / (2 * distance) - SHAVED * radius
        body, _ = trim(_with(body, away / distance, h), radius)
        if not body.shape[0]:
            break
    return body


@njit(nogil=True, error_model="numpy", cache=True)
def edges_of(body: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Return the edges of every face, ``(n_edges, 4)``: h, q, begin, end.

    h is the distance of the face's plane from the origin, q that of the edge's line from the
    plane's nearest point, both negative if the body lies beyond; begin and end are places on that
    line, counter-clockwise.
    """
    n_planes = body.shape[0]
    polygon, spare = np.empty((n_planes + 8, 2)), np.empty((n_planes + 8, 2))
    first, second = np.empty(3), np.empty(3)
    out = np.empty((n_planes * (n_planes + 4), 4))
    n_edges = 0
    for i in range(n_planes):
        n = _face(body, i, radius, first, second, polygon, spare)
        for corner in range(n):
            a = polygon[corner]
            b = polygon[corner + 1 if corner + 1 < n else 0]
            length = np.hypot(b[0] - a[0], b[1] - a[1])
            if length > 0:
                x, y = (b[0] - a[0]) / length, (b[1] - a[1]) / length
                out[n_edges, 0] = body[i, 3]
                out[n_edges, 1] = a[0] * y - a[1] * x
                out[n_edges, 2] = a[0] * x + a[1] * y
                out[n_edges, 3] = b[0] * x + b[1] * y
                n_edges += 1
    return out[:n_edges].copy()
