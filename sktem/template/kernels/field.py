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
from sktem.template.kernels.products import FAST, ONE, ZERO, clear, product, products

__all__ = ["Grid", "Work", "adjoint", "displace", "new_work", "rss_of"]

#: Geometry of images, in flat arrays: kernels ``K0`` (pixels, landmarks), ``K1``
#: (pixels, landmarks), ``K2`` (landmarks, pixels) of the three axes, whose ``sizes``
#: are three numbers of pixels and three of landmarks; the ``positions`` of the pixels
#: along the axes, one after the other, in cells of the template's grid, and ``scale``,
#: cells per pixel.
#: ``flow`` is empty where a field is a sum of kernels; else it holds a `Flow`, and the
#: sum is a velocity. Its length is known when kernels are compiled.
Grid = namedtuple("Grid", "K0 K1 K2 positions sizes scale flow")

_SIXTH, _TWO_THIRDS = 1.0 / 6.0, 2.0 / 3.0
# Unsigned, since a signed index is first tested for being negative.
_NONE, _ONE, _TWO, _THREE = np.uintp(0), np.uintp(1), np.uintp(2), np.uintp(3)

#: Scratch arrays of one image, flat since every dimension of an array is compiled: the
#: landmarks ``z``, displacements ``field``, ``residual``, ``slopes`` along the axes,
#: and the ``pull`` on the landmarks; the others are steps between them.
Work = namedtuple("Work", "z rows planes field residual slopes weighted pull flow")


def new_work(grid, n_axes) -> Work:
    """Return scratch arrays for one image."""
    m0, m1, m2, G0, G1, G2 = grid.sizes
    n_pixels, n_places = m0 * m1 * m2, G0 * G1 * G2
    return Work(
        np.empty(n_axes * n_places),
        np.empty(G0 * G1 * m2),
        np.empty(G0 * m1 * m2),
        np.empty(n_axes * n_pixels),
        np.empty(n_pixels),
        np.empty(n_axes * n_pixels),
        np.empty(n_pixels),
        np.empty(n_axes * n_places),
        tuple(new_flow_work(flow) for flow in grid.flow),
    )


@njit(cache=True, nogil=True)
def displace(grid, work, flow):
    """Fill ``work.field`` with the displacement of every pixel.

    For every axis equal to ``np.einsum("abc,ia,jb,ck->ijk", z, K0, K1, K2)``, or what
    the flow of that velocity leads to.
    """
    if len(flow) == 0:
        m0, m1, m2, G0, G1, G2 = grid.sizes
        rows, planes = work.rows, work.planes
        for axis in range(work.z.shape[0] // (G0 * G1 * G2)):
            z, x = axis * G0 * G1 * G2, axis * m0 * m1 * m2
            product(work.z, z, ONE, G2, grid.K2, ZERO, rows, ZERO, (G0 * G1, G2, m2))
            for a in range(G0):
                b, j = a * G1 * m2, a * m1 * m2
                product(grid.K1, ZERO, ONE, G1, rows, b, planes, j, (m1, G1, m2))
            product(
                grid.K0, ZERO, ONE, G0, planes, ZERO, work.field, x, (m0, G0, m1 * m2)
            )
    else:
        follow(work.z, flow[0], work.flow[0], work.field)


@njit(cache=True, nogil=True)
def adjoint(grid, work, flow):
    """Fill ``work.pull`` with the pull of ``residual * slopes`` on the landmarks.

    For every axis equal to ``np.einsum("ijk,ia,jb,ck->abc", residual * slopes[axis],
    K0, K1, K2)``, where displacements are such sums.
    """
    if len(flow) == 0:
        m0, m1, m2, G0, G1, G2 = grid.sizes
        rows, planes = work.rows, work.planes
        for axis in range(work.z.shape[0] // (G0 * G1 * G2)):
            z, x = axis * G0 * G1 * G2, axis * m0 * m1 * m2
            slope = np.uintp(x)
            for u in range(np.uintp(work.weighted.shape[0])):
                work.weighted[u] = work.residual[u] * work.slopes[slope + u]
            product(
                grid.K0, ZERO, G0, ONE, work.weighted, ZERO, planes, ZERO,
                (G0, m0, m1 * m2),
            )  # fmt: skip
            for a in range(G0):
                b, j = a * G1 * m2, a * m1 * m2
                product(grid.K1, ZERO, G1, ONE, planes, j, rows, b, (G1, m1, m2))
            products(rows, grid.K2, work.pull, z, (G0 * G1, G2, m2))
    else:
        clear(work.pull)
        for chunk in range(work.flow[0].paths.shape[0] // flow[0].n_steps):
            pull_back(
                chunk, True, work.slopes, work.residual, flow[0], work.flow[0],
                work.pull,
            )  # fmt: skip


@njit(cache=True, nogil=True, fastmath=FAST)
def _weights(t):
    """Return the cell before a position, the four B-splines there and their slopes."""
    cell = np.uintp(t)
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
    return cell - _ONE, values, slopes


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
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
    if n_axes == 1:
        for n in range(4):
            node = table[_NONE, _NONE, k + np.uintp(n)]
            value += w2[n] * node
            along2 += d2[n] * node
        return value, along0, along1, along2
    if not (1.0 <= t1 < table.shape[1] - 2):
        return value, along0, along1, along2
    j, (a, b, c, d), (e, f, g, h) = _weights(t1)
    # A plane of a volume after the other; an image is one plane.
    i, planes = _NONE, 1
    w0, d0 = (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    if n_axes == 3:
        if not (1.0 <= t0 < table.shape[0] - 2):
            return value, along0, along1, along2
        planes = 4
        i, w0, d0 = _weights(t0)
    for m in range(planes):
        plane = table[i + np.uintp(m)]
        p, q, r, s = plane[j], plane[j + _ONE], plane[j + _TWO], plane[j + _THREE]
        part = first = second = 0.0
        # Rows are combined first, so that one vector holds the values of a column.
        for n in range(4):
            at = k + np.uintp(n)
            node = a * p[at] + b * q[at] + c * r[at] + d * s[at]
            slope = e * p[at] + f * q[at] + g * r[at] + h * s[at]
            part += w2[n] * node
            first += w2[n] * slope
            second += d2[n] * node
        value += w0[m] * part
        along0 += d0[m] * part
        along1 += w0[m] * first
        along2 += w0[m] * second
    return value, along0, along1, along2


@njit(cache=True, nogil=True, fastmath=FAST)
def rss_of(y, table, grid, work, flow):
    """Return the sum of squared residuals at the landmarks ``work.z``.

    Residuals ``y - I(x - field)`` and the slopes of I, per pixel, are filled. A pixel
    that is NaN counts nothing: its residual and slopes are zero.
    """
    displace(grid, work, flow)
    m0, m1, m2, _, _, _ = grid.sizes
    n_axes = work.field.shape[0] // y.shape[0]
    n_pixels = np.uintp(y.shape[0])
    last = np.uintp(n_axes - 1) * n_pixels
    scale = grid.scale
    total = 0.0
    u = _NONE
    t0 = t1 = 0.0
    for i in range(m0):
        for j in range(m1):
            for k in range(m2):
                value = along0 = along1 = along2 = error = 0.0
                if not np.isnan(y[u]):
                    t2 = grid.positions[m0 + m1 + k] - scale * work.field[last + u]
                    if n_axes > 1:
                        moved = work.field[last - n_pixels + u]
                        t1 = grid.positions[m0 + j] - scale * moved
                    if n_axes > 2:
                        t0 = grid.positions[i] - scale * work.field[u]
                    value, along0, along1, along2 = spline(table, n_axes, t0, t1, t2)
                    error = y[u] - value
                work.residual[u] = error
                total += error * error
                work.slopes[last + u] = scale * along2
                if n_axes > 1:
                    work.slopes[last - n_pixels + u] = scale * along1
                if n_axes > 2:
                    work.slopes[u] = scale * along0
                u += _ONE
    return total
