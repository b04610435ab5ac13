"""Displacement fields of landmarks, and a template on a grid with its slopes.

Everything is written for three axes; an image with fewer has leading axes of length
one. Displacements exist along the last ``n_axes`` axes. The one-dimensional Gaussian
kernels of all axes multiply (the grids are products), so that a field costs a few
small matrix products.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.template.kernels.flow import follow, new_flow_work, pull_back

__all__ = [
    "Grid",
    "Work",
    "adjoint",
    "copy_vector",
    "displace",
    "new_work",
    "residuals",
    "rss_of",
]

#: No assumption about NaN: it marks a pixel that was not observed.
FAST = {"reassoc", "contract", "nsz", "arcp"}

#: Geometry of images: kernels ``K0`` (pixels, landmarks), ``K1`` (pixels, landmarks),
#: ``K2`` (landmarks, pixels) of the three axes, and ``p0, p1, p2``, the positions of
#: the pixels in cells of the template's grid. ``scale`` is cells per pixel.
#: ``flow`` is empty where a field is a sum of kernels; else it holds a `Flow`, and the
#: sum is a velocity. Its length is known when kernels are compiled.
Grid = namedtuple("Grid", "K0 K1 K2 p0 p1 p2 scale flow")

_SIXTH, _TWO_THIRDS = 1.0 / 6.0, 2.0 / 3.0
# Unsigned, since a signed index is first tested for being negative.
_NONE, _ONE, _TWO, _THREE = np.uintp(0), np.uintp(1), np.uintp(2), np.uintp(3)

#: Scratch arrays of one image.
Work = namedtuple("Work", "rows planes field residual slopes pull flow")


@njit(cache=True, nogil=True)
def copy_vector(source, out):
    """Fill ``out[:] = source``; a loop compiles in a fraction of the time."""
    for i in range(out.shape[0]):
        out[i] = source[i]


@njit(cache=True, nogil=True)
def new_work(grid, n_axes):
    """Return scratch arrays for one image."""
    G0, G1 = grid.K0.shape[1], grid.K1.shape[1]
    G2, m2 = grid.K2.shape
    m0, m1 = grid.K0.shape[0], grid.K1.shape[0]
    return Work(
        np.empty((G0, G1, m2)),
        np.empty((G0, m1, m2)),
        np.empty((n_axes, m0, m1, m2)),
        np.empty((m0, m1, m2)),
        np.empty((n_axes, m0, m1, m2)),
        np.empty((n_axes, G0, G1, G2)),
        _flow_work(grid.flow),
    )


@njit(cache=True, nogil=True)
def _flow_work(flow):
    if len(flow) == 0:
        return ()
    else:  # noqa: RET505  (the type of a branch that is not compiled)
        return (new_flow_work(flow[0]),)


@njit(cache=True, nogil=True)
def displace(z, grid, work):
    """Fill ``work.field`` with the displacement of every pixel.

    For every axis equal to ``np.einsum("abc,ia,jb,ck->ijk", z, K0, K1, K2)``, or what
    the flow of that velocity leads to.
    """
    _displace(z, grid, work, grid.flow)


@njit(cache=True, nogil=True)
def _displace(z, grid, work, flow):
    if len(flow) == 0:
        _add_kernels(z, grid, work)
    else:
        field = work.field.reshape((z.shape[0], work.residual.size))
        follow(z, flow[0], work.flow[0], field)


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_kernels(z, grid, work):
    """Fill ``work.field`` with sums of kernels."""
    n_axes, G0, G1, G2 = z.shape
    m0, m1, m2 = work.residual.shape
    for axis in range(n_axes):
        for a in range(G0):
            for b in range(G1):
                row = work.rows[a, b]
                row[:] = 0.0
                for c in range(G2):
                    value = z[axis, a, b, c]
                    kernel = grid.K2[c]
                    for k in range(m2):
                        row[k] += value * kernel[k]
            for j in range(m1):
                row = work.planes[a, j]
                row[:] = 0.0
                for b in range(G1):
                    value = grid.K1[j, b]
                    source = work.rows[a, b]
                    for k in range(m2):
                        row[k] += value * source[k]
        for i in range(m0):
            for j in range(m1):
                row = work.field[axis, i, j]
                row[:] = 0.0
                for a in range(G0):
                    value = grid.K0[i, a]
                    source = work.planes[a, j]
                    for k in range(m2):
                        row[k] += value * source[k]


@njit(cache=True, nogil=True)
def adjoint(grid, work):
    """Fill ``work.pull`` with the pull of ``residual * slopes`` on the landmarks.

    For every axis equal to ``np.einsum("ijk,ia,jb,ck->abc", residual * slopes[axis],
    K0, K1, K2)``, where displacements are such sums.
    """
    _adjoint(grid, work, grid.flow)


@njit(cache=True, nogil=True)
def _adjoint(grid, work, flow):
    if len(flow) == 0:
        _sum_kernels(grid, work)
    else:
        n_axes, residual = work.slopes.shape[0], work.residual.reshape(-1)
        slopes = work.slopes.reshape((n_axes, residual.size))
        pull = work.pull.reshape((n_axes, work.pull.size // n_axes))
        pull[:] = 0.0
        for chunk in range(work.flow[0].paths.shape[0]):
            pull_back(chunk, slopes, residual, flow[0], work.flow[0], pull)


@njit(cache=True, nogil=True, fastmath=FAST)
def _sum_kernels(grid, work):
    """Fill ``work.pull`` by the kernels of the pixels."""
    n_axes, G0, G1, G2 = work.pull.shape
    m0, m1, m2 = work.residual.shape
    for axis in range(n_axes):
        for a in range(G0):
            for j in range(m1):
                row = work.planes[a, j]
                row[:] = 0.0
                for i in range(m0):
                    value = grid.K0[i, a]
                    for k in range(m2):
                        row[k] += (
                            value * work.residual[i, j, k] * work.slopes[axis, i, j, k]
                        )
            for b in range(G1):
                row = work.rows[a, b]
                row[:] = 0.0
                for j in range(m1):
                    value = grid.K1[j, b]
                    source = work.planes[a, j]
                    for k in range(m2):
                        row[k] += value * source[k]
                for c in range(G2):
                    kernel = grid.K2[c]
                    total = 0.0
                    for k in range(m2):
                        total += row[k] * kernel[k]
                    work.pull[axis, a, b, c] = total


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _values(f):
    """Return the four cubic B-splines at a fraction of a cell."""
    g = 1.0 - f
    ff, gg = f * f, g * g
    return (
        _SIXTH * gg * g,
        _TWO_THIRDS - ff * (1.0 - 0.5 * f),
        _TWO_THIRDS - gg * (1.0 - 0.5 * g),
        _SIXTH * ff * f,
    )


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _slopes(f):
    """Return their derivatives."""
    g = 1.0 - f
    return -0.5 * g * g, f * (1.5 * f - 2.0), -g * (1.5 * g - 2.0), 0.5 * f * f


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _line(row, start, w, d):
    """Return value and slope along a line."""
    a, b, c, e = row[start], row[start + _ONE], row[start + _TWO], row[start + _THREE]
    value = w[0] * a + w[1] * b + w[2] * c + w[3] * e
    slope = d[0] * a + d[1] * b + d[2] * c + d[3] * e
    return value, slope


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _plane(plane, i, j, w1, d1, w2, d2):
    """Return value and slopes in a plane.

    Four rows of four neighbours: the rows are combined first, so that one vector
    holds the values of a column.
    """
    p, q, r, s = plane[i], plane[i + _ONE], plane[i + _TWO], plane[i + _THREE]
    a, b, c, e = w1
    v0 = a * p[j] + b * q[j] + c * r[j] + e * s[j]
    v1 = a * p[j + _ONE] + b * q[j + _ONE] + c * r[j + _ONE] + e * s[j + _ONE]
    v2 = a * p[j + _TWO] + b * q[j + _TWO] + c * r[j + _TWO] + e * s[j + _TWO]
    v3 = a * p[j + _THREE] + b * q[j + _THREE] + c * r[j + _THREE] + e * s[j + _THREE]
    a, b, c, e = d1
    s0 = a * p[j] + b * q[j] + c * r[j] + e * s[j]
    s1 = a * p[j + _ONE] + b * q[j + _ONE] + c * r[j + _ONE] + e * s[j + _ONE]
    s2 = a * p[j + _TWO] + b * q[j + _TWO] + c * r[j + _TWO] + e * s[j + _TWO]
    s3 = a * p[j + _THREE] + b * q[j + _THREE] + c * r[j + _THREE] + e * s[j + _THREE]
    a, b, c, e = w2
    value = a * v0 + b * v1 + c * v2 + e * v3
    along1 = a * s0 + b * s1 + c * s2 + e * s3
    a, b, c, e = d2
    return value, along1, a * v0 + b * v1 + c * v2 + e * v3


@njit(cache=True, nogil=True, fastmath=FAST)
def spline(table, n_axes, t0, t1, t2):
    """Return the value and the slopes of a grid of B-spline coefficients.

    The cell number of a position is its integer part; outside of the grid value and
    slopes are zero. Equal to the sum over nodes (i, j, k) of ``table[i, j, k] * B(t0 -
    i) * B(t1 - j) * B(t2 - k)`` with B the centred cubic B-spline.
    """
    if not (1.0 <= t2 < table.shape[2] - 2):
        return 0.0, 0.0, 0.0, 0.0
    k = np.uintp(t2)
    w2, d2 = _values(t2 - np.float64(k)), _slopes(t2 - np.float64(k))
    if n_axes == 1:
        value, along2 = _line(table[_NONE, _NONE], k - _ONE, w2, d2)
        return value, 0.0, 0.0, along2
    if not (1.0 <= t1 < table.shape[1] - 2):
        return 0.0, 0.0, 0.0, 0.0
    j = np.uintp(t1)
    w1, d1 = _values(t1 - np.float64(j)), _slopes(t1 - np.float64(j))
    if n_axes == 2:
        value, along1, along2 = _plane(table[_NONE], j - _ONE, k - _ONE, w1, d1, w2, d2)
        return value, 0.0, along1, along2
    if not (1.0 <= t0 < table.shape[0] - 2):
        return 0.0, 0.0, 0.0, 0.0
    i = np.uintp(t0)
    w0, d0 = _values(t0 - np.float64(i)), _slopes(t0 - np.float64(i))
    value = along0 = along1 = along2 = 0.0
    for n in range(4):
        part, first, second = _plane(
            table[i - _ONE + np.uintp(n)], j - _ONE, k - _ONE, w1, d1, w2, d2
        )
        value += w0[n] * part
        along0 += d0[n] * part
        along1 += w0[n] * first
        along2 += w0[n] * second
    return value, along0, along1, along2


@njit(cache=True, nogil=True, fastmath=FAST)
def residuals(y, table, grid, work):
    """Fill residuals ``y - I(x - field)`` and slopes of I; return their sum of squares.

    Slopes are per pixel. A pixel that is NaN counts nothing: its residual and slopes
    are zero.
    """
    n_axes = work.field.shape[0]
    m0, m1, m2 = work.residual.shape
    scale = grid.scale
    total = 0.0
    u = 0
    t0 = t1 = 0.0
    for i in range(m0):
        for j in range(m1):
            for k in range(m2):
                if np.isnan(y[u]):
                    work.residual[i, j, k] = 0.0
                    for axis in range(n_axes):
                        work.slopes[axis, i, j, k] = 0.0
                    u += 1
                    continue
                t2 = grid.p2[k] - scale * work.field[n_axes - 1, i, j, k]
                if n_axes > 1:
                    t1 = grid.p1[j] - scale * work.field[n_axes - 2, i, j, k]
                if n_axes > 2:
                    t0 = grid.p0[i] - scale * work.field[0, i, j, k]
                value, along0, along1, along2 = spline(table, n_axes, t0, t1, t2)
                error = y[u] - value
                work.residual[i, j, k] = error
                total += error * error
                work.slopes[n_axes - 1, i, j, k] = scale * along2
                if n_axes > 1:
                    work.slopes[n_axes - 2, i, j, k] = scale * along1
                if n_axes > 2:
                    work.slopes[0, i, j, k] = scale * along0
                u += 1
    return total


@njit(cache=True, nogil=True)
def rss_of(y, z, table, grid, work):
    """Return the sum of squared residuals at given landmarks; fill ``work``."""
    displace(z, grid, work)
    return residuals(y, table, grid, work)
