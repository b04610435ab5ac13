"""Displacement fields of landmarks, and a template on a grid with its slopes.

Everything is written for three axes; an image with fewer has leading axes of length
one. Displacements exist along the last ``n_axes`` axes. The one-dimensional Gaussian
kernels of all axes multiply (the grids are products), so that a field costs a few
small matrix products.

What is known of a grid is one flat array of numbers, and the scratch of an image is
another: every dimension of every array that a function is given is compiled.
"""

from collections import namedtuple

import numpy as np
from numba import njit, typeof

from sktem.kernels.options import INNER, OUTER
from sktem.template.kernels.addresses import (
    FLAT,
    STEP,
    TABLE,
    by_address,
    call,
    for_types_of,
)
from sktem.template.kernels.flow import follow, pull_back
from sktem.template.kernels.products import (
    FAST,
    FOUR,
    ONE,
    THREE,
    TWO,
    ZERO,
    clear,
    fetch,
    product,
    products,
)

__all__ = [
    "Grid",
    "Work",
    "compare",
    "displace",
    "new_grid",
    "new_work",
    "pull_of",
    "rss_of",
    "squares_of",
    "steps_of",
]

#: Geometry of images. ``numbers`` holds the kernels K0 (pixels, landmarks), K1 (pixels,
#: landmarks) and K2 (landmarks, pixels) of the three axes, and the positions of the
#: pixels along the axes, in cells of the template's grid, one after the other; ``K1``,
#: ``K2`` and ``positions`` say where they begin. Then come the numbers of axes, pixels
#: and landmarks along each axis and in all, and of latents, ``dim``; where in the
#: scratch array parts begin: the landmarks ``z``, displacements ``field``, the
#: ``image``, its ``residual``, ``slopes`` along the axes, the ``pull`` on the
#: landmarks, steps between them, and what callers need ``more``; and ``scale``, cells
#: per pixel. ``flow`` is empty where a field is a sum of kernels; else it holds a
#: `Flow`, and the sum is a velocity. Its length is known when kernels are compiled.
Grid = namedtuple(
    "Grid",
    "numbers K1 K2 positions n_axes m0 m1 m2 n_pixels G0 G1 G2 n_places dim z field "
    "image residual slopes pull rows planes weighted more scale flow",
)

#: Scratch of one image, ``flat``, and parts of it.
Work = namedtuple("Work", "flat z field image residual slopes pull")

_SIXTH, _TWO_THIRDS = 1.0 / 6.0, 2.0 / 3.0


def new_grid(kernels, positions, scale, n_axes, flow=None) -> Grid:
    """Return a geometry; `flow` is called with arrays of numbers and their end.

    Parameters
    ----------
    kernels : list of ndarray of shape (n_pixels, n_landmarks)
        Kernels along three axes.
    positions : ndarray
        Positions of the pixels along three axes, one after the other.
    scale : float
    n_axes : int
    flow : callable or None, default=None
        Function (first number, first place in the scratch array) -> (`Flow`, numbers,
        end of its scratch).
    """
    (m0, G0), (m1, G1), (m2, G2) = (kernel.shape for kernel in kernels)
    n_pixels, n_places = m0 * m1 * m2, G0 * G1 * G2
    K0, K1, K2 = kernels
    numbers = [K0.ravel(), K1.ravel(), K2.T.ravel(), positions]
    starts = np.cumsum([len(part) for part in numbers])
    dim, field = n_axes * n_places, n_axes * n_pixels
    scratch = [
        dim, field, n_pixels, n_pixels, field, dim, G0 * G1 * m2, G0 * m1 * m2, n_pixels
    ]  # fmt: skip
    places = np.cumsum([0, *scratch])
    more = int(places[-1])
    flows: tuple = ()
    if flow is not None:
        flow_arrays, flow_numbers, more = flow(int(starts[-1]), more)
        numbers, flows = [*numbers, flow_numbers], (flow_arrays,)
    sizes = n_axes, m0, m1, m2, n_pixels, G0, G1, G2, n_places, dim
    whole = map(np.uint64, (*starts[:3], *sizes, *places[:-1], more))
    return Grid._make([np.concatenate(numbers), *whole, float(scale), flows])


def new_work(grid, more=0) -> Work:
    """Return scratch for one image, with room for `more` numbers."""
    flat = np.zeros(int(grid.more) + more)
    ends = {"residual": grid.slopes, "slopes": grid.pull, "pull": grid.rows}
    ends |= {"z": grid.field, "field": grid.image, "image": grid.residual}
    parts = {
        name: flat[int(getattr(grid, name)) : int(end)] for name, end in ends.items()
    }
    return Work(flat, **parts)


def steps_of(grid):
    """Return `displace`, `compare` and `adjoint` as arguments for their callers."""
    return for_types_of(_steps, grid)


def _steps(grid):
    kind = typeof(grid)
    flow = kind.types[-1]
    return (
        by_address(displace, kind, FLAT, flow),
        by_address(compare, TABLE, kind, FLAT),
        by_address(adjoint, kind, FLAT, flow),
    )


@njit(cache=True, nogil=True)
def displace(grid, work, flow):
    """Fill ``field`` with the displacement of every pixel.

    For every axis equal to ``np.einsum("abc,ia,jb,ck->ijk", z, K0, K1, K2)``, or what
    the flow of that velocity leads to.
    """
    if len(flow) == 0:
        numbers, m2, G1, G2 = grid.numbers, grid.m2, grid.G1, grid.G2
        plane = grid.m1 * m2
        for axis in range(grid.n_axes):
            product(
                work, grid.z + axis * grid.n_places, ONE, G2, numbers, grid.K2,
                work, grid.rows, (grid.G0 * G1, G2, m2),
            )  # fmt: skip
            for a in range(grid.G0):
                product(
                    numbers, grid.K1, ONE, G1, work, grid.rows + a * G1 * m2,
                    work, grid.planes + a * plane, (grid.m1, G1, m2),
                )  # fmt: skip
            product(
                numbers, ZERO, ONE, grid.G0, work, grid.planes,
                work, grid.field + axis * grid.n_pixels, (grid.m0, grid.G0, plane),
            )  # fmt: skip
    else:
        follow(grid, flow[0], work)


@njit(**STEP)
def adjoint(grid, work, flow):
    """Fill ``pull`` with the pull of ``residual * slopes`` on the landmarks.

    For every axis equal to ``np.einsum("ijk,ia,jb,ck->abc", residual * slopes[axis],
    K0, K1, K2)``, where displacements are such sums.
    """
    if len(flow) == 0:
        numbers, m2, G1 = grid.numbers, grid.m2, grid.G1
        plane = grid.m1 * m2
        for axis in range(grid.n_axes):
            slope = grid.slopes + axis * grid.n_pixels
            for u in range(grid.n_pixels):
                work[grid.weighted + u] = work[grid.residual + u] * work[slope + u]
            product(
                numbers, ZERO, grid.G0, ONE, work, grid.weighted, work, grid.planes,
                (grid.G0, grid.m0, plane),
            )  # fmt: skip
            for a in range(grid.G0):
                product(
                    numbers, grid.K1, G1, ONE, work, grid.planes + a * plane,
                    work, grid.rows + a * G1 * m2, (G1, grid.m1, m2),
                )  # fmt: skip
            products(
                work, grid.rows, numbers, grid.K2, work,
                grid.pull + axis * grid.n_places, (grid.G0 * G1, grid.G2, m2),
            )  # fmt: skip
    else:
        clear(work, grid.pull, grid.dim)
        for chunk in range(flow[0].n_chunks):
            pull_back(chunk, ONE, grid, flow[0], work)


@njit(**INNER, fastmath=FAST)
def _weights(t):
    """Return the cell before a position, the four B-splines there and their slopes."""
    cell = np.uint64(t)
    f = t - np.float64(cell)
    g = 1.0 - f
    ff, gg = f * f, g * g
    values = (
        _SIXTH * gg * g,
        _TWO_THIRDS - ff * (1.0 - 0.5 * f),
        _TWO_THIRDS - gg * (1.0 - 0.5 * g),
        _SIXTH * ff * f,
    )
    slopes = (-0.5 * gg, f * (1.5 * f - 2.0), -g * (1.5 * g - 2.0), 0.5 * ff)
    return cell - ONE, values, slopes


@njit(**INNER, fastmath=FAST, forceinline=True)
def spline(table, n_axes, t0, t1, t2):
    """Return the value and the slopes of a grid of B-spline coefficients.

    The cell number of a position is its integer part; outside of the grid value and
    slopes are zero. Equal to the sum over nodes (i, j, k) of ``table[i, j, k] * B(t0 -
    i) * B(t1 - j) * B(t2 - k)`` with B the centred cubic B-spline.
    """
    value = along0 = along1 = along2 = 0.0
    if not (1.0 <= t2 < table.shape[2] - 2):
        return value, along0, along1, along2
    k, w2, d2 = _weights(t2)
    if n_axes == ONE:
        for n in range(FOUR):
            node = table[ZERO, ZERO, k + n]
            value += w2[n] * node
            along2 += d2[n] * node
        return value, along0, along1, along2
    if not (1.0 <= t1 < table.shape[1] - 2):
        return value, along0, along1, along2
    j, (a, b, c, d), (e, f, g, h) = _weights(t1)
    # A plane of a volume after the other; an image is one plane.
    i, planes = ZERO, ONE
    w0, d0 = (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    if n_axes == THREE:
        if not (1.0 <= t0 < table.shape[0] - 2):
            return value, along0, along1, along2
        planes = FOUR
        i, w0, d0 = _weights(t0)
    for m in range(planes):
        part = first = second = 0.0
        # Rows are combined first, so that one vector holds the values of a column.
        for n in range(FOUR):
            p, q = table[i + m, j, k + n], table[i + m, j + ONE, k + n]
            r, s = table[i + m, j + TWO, k + n], table[i + m, j + THREE, k + n]
            node = a * p + b * q + c * r + d * s
            slope = e * p + f * q + g * r + h * s
            part += w2[n] * node
            first += w2[n] * slope
            second += d2[n] * node
        value += w0[m] * part
        along0 += d0[m] * part
        along1 += w0[m] * first
        along2 += w0[m] * second
    return value, along0, along1, along2


@njit(cache=True, nogil=True, fastmath=FAST)
def compare(table, grid, work):
    """Return the sum of squared residuals of the image at the displacements.

    Residuals ``image - I(x - field)`` and the slopes of I, per pixel, are filled. A
    pixel that is NaN counts nothing: its residual and slopes are zero.
    """
    numbers, scale, n_axes = grid.numbers, grid.scale, grid.n_axes
    last = (n_axes - ONE) * grid.n_pixels
    row = grid.positions + grid.m0
    column = row + grid.m1
    total = 0.0
    u = ZERO
    t0 = t1 = 0.0
    for i in range(grid.m0):
        for j in range(grid.m1):
            for k in range(grid.m2):
                value = along0 = along1 = along2 = error = 0.0
                pixel = work[grid.image + u]
                at = grid.field + last + u
                if not np.isnan(pixel):
                    t2 = numbers[column + k] - scale * work[at]
                    if n_axes > ONE:
                        t1 = numbers[row + j] - scale * work[at - grid.n_pixels]
                    if n_axes > TWO:
                        moved = work[grid.field + u]
                        t0 = numbers[grid.positions + i] - scale * moved
                    value, along0, along1, along2 = spline(table, n_axes, t0, t1, t2)
                    error = pixel - value
                work[grid.residual + u] = error
                total += error * error
                slope = grid.slopes + last + u
                work[slope] = scale * along2
                if n_axes > ONE:
                    work[slope - grid.n_pixels] = scale * along1
                if n_axes > TWO:
                    work[grid.slopes + u] = scale * along0
                u += ONE
    return total


def rss_of(table, grid, work):
    """Return the sum of squared residuals at the landmarks ``work.z``, as `compare`."""
    displace(grid, work.flat, grid.flow)
    return compare(table, grid, work.flat)


def pull_of(grid, work):
    """Return the pull of the residuals last found on the landmarks, as `adjoint`."""
    call(steps_of(grid)[2], grid, work.flat, grid.flow)
    return work.pull


def squares_of(y, Z, table, grid) -> np.ndarray:
    """Return the sums of squared residuals of an image at deformations."""
    work, squares = new_work(grid), np.empty(len(Z))
    work.image[:] = y
    steps = steps_of(grid)[:2]
    _fill_squares(*steps, Z, table, grid, work.flat, squares, grid.flow)
    return squares


@njit(**OUTER)
def _fill_squares(displace, compare, Z, table, grid, work, squares, flow):
    for row in range(np.uint64(len(Z))):
        fetch(Z, row, work, grid.z, grid.dim)
        displace(grid, work, flow)
        squares[row] = compare(table, grid, work)
