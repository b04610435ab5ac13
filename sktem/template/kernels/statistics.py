"""Sums over the displaced pixels of images: the statistics of a template."""

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.template.kernels.field import displace, new_work
from sktem.template.kernels.products import FAST, copy_vector

__all__ = ["template_sums"]

#: Pixels handled at once: their kernels with all nodes fit in the first cache.
_CHUNK = 32

#: Standard deviations beyond which a kernel with a node, and one with a mid-point, is
#: less than the rounding error of a sum.
_REACH, _REACH_OF_MIDDLE = 8.2, 5.8


@njit(cache=True, nogil=True, error_model="numpy")
def _near(positions, count, first, spacing, n_nodes, reach):
    """Return the first node within reach of some position, and the one after the last.

    Positions that are not finite have all nodes.
    """
    low = high = positions[0]
    for u in range(1, count):
        low = positions[u] if positions[u] < low else low
        high = positions[u] if positions[u] > high else high
    low, high = (low - reach - first) / spacing, (high + reach - first) / spacing
    if not (low > -1e9 and high < 1e9):
        return 0, n_nodes
    start, stop = int(np.ceil(low)), int(np.floor(high)) + 1
    start = start if start > 0 else 0
    stop = stop if stop < n_nodes else n_nodes
    return (start, stop) if start < stop else (0, 0)


@njit(
    cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", inline="always"
)
def _gaussian(positions, count, node, precision, rest, shifted, out):
    """Fill ``exp(-precision / 2 * (positions - node) ** 2)`` for some positions."""
    for u in range(count):
        gap = positions[u] - node
        exponent = -0.5 * precision * gap * gap
        rest[u], shifted[u] = reduce_exponent(exponent if exponent > -750.0 else -750.0)
    for u in range(count):
        out[u] = expand_exponent(rest[u], shifted[u])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _kernels(
    positions, count, first, spacing, precision, start, stop, rest, shifted, own, middle
):
    """Fill the kernels of pixels with a range of nodes and with their mid-points.

    The product of the kernels of two neighbours is, up to a constant, that of their
    mid-point, with half the variance.
    """
    for j in range(start, stop):
        node = first + j * spacing
        _gaussian(positions, count, node, precision, rest, shifted, own[j])
    # Where the constant is less, the mid-point counts nothing in the Gram matrix.
    between = np.exp(-0.25 * precision * spacing * spacing)
    between = 1.0 / between if between > 1e-300 else 1e300
    for j in range(start, stop):
        one, row = own[j], middle[2 * j]
        for u in range(count):
            row[u] = one[u] * one[u]
        if j + 1 < stop:
            two, row = own[j + 1], middle[2 * j + 1]
            for u in range(count):
                row[u] = between * one[u] * two[u]


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _add_products(left, right, start, stop, count, out):
    """Add ``right[start:stop, :count] @ left[:count]`` to ``out[start:stop]``."""
    k = start
    while k + 4 <= stop:
        a, b, c, d = right[k], right[k + 1], right[k + 2], right[k + 3]
        s0 = s1 = s2 = s3 = 0.0
        for u in range(count):
            value = left[u]
            s0 += value * a[u]
            s1 += value * b[u]
            s2 += value * c[u]
            s3 += value * d[u]
        out[k] += s0
        out[k + 1] += s1
        out[k + 2] += s2
        out[k + 3] += s3
        k += 4
    while k < stop:
        row = right[k]
        s0 = 0.0
        for u in range(count):
            s0 += left[u] * row[u]
        out[k] += s0
        k += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_grid(weights, tables, near, count, one, two, out):
    """Add ``einsum("u,au,bu,cu->abc", weights, *tables)`` to a part of an array."""
    for i in range(near[0, 0], near[0, 1]):
        for u in range(count):
            one[u] = weights[u] * tables[0, i, u]
        for j in range(near[1, 0], near[1, 1]):
            for u in range(count):
                two[u] = one[u] * tables[1, j, u]
            _add_products(two, tables[2], near[2, 0], near[2, 1], count, out[i, j])


def template_sums(
    Y, Z, masses, pixels, grid, n_axes, nodes, precision, cross, middle, head
):
    """Add up the statistics of images.

    With K the kernels of the displaced pixels ``x - field`` with the template's nodes
    and ``|.|`` over the axes, for each image of mass w equal to ::

        cross += w * K.T @ y
        middle += w * np.exp(-precision * |x - field - mid-point| ** 2).sum(axis=pixels)
        head += w * np.array([y @ y, len(y)])

    over the pixels that are not NaN.

    Parameters
    ----------
    Y : ndarray of shape (n, n_pixels)
    Z : ndarray of shape (n, at least n_landmarks)
    masses : ndarray of shape (n,)
    pixels : ndarray of shape (n_axes, n_pixels)
        Coordinates of the pixels.
    grid : Grid
    n_axes : int
    nodes : ndarray of shape (3, 3)
        First node, spacing and number of nodes along each axis; axes that the images
        lack come first and have one node.
    precision : float
        Inverse variance of the kernels.
    cross : ndarray of shape (n0, n1, n2)
    middle : ndarray of shape (2 * n0 - 1, 2 * n1 - 1, 2 * n2 - 1)
    head : ndarray of shape (2,)
    """
    fields = np.empty((len(Y), pixels.size))
    _displacements(Z, grid, new_work(grid, n_axes), grid.flow, fields)
    most = int(nodes[:, 2].max())
    _add_sums(
        Y, fields, masses, pixels, nodes, precision, np.ones((3, most, _CHUNK)),
        np.ones((3, 2 * most - 1, _CHUNK)), np.empty((7, _CHUNK)),
        np.tile([0, 1], (2, 3, 1)), cross, middle, head,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _displacements(Z, grid, work, flow, fields):
    """Fill the displacements of images."""
    for row in range(Z.shape[0]):
        copy_vector(Z[row], work.z)
        displace(grid, work, flow)
        copy_vector(work.field, fields[row])


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_sums(
    Y, fields, masses, pixels, nodes, precision, own, halves, lanes, near, cross,
    middle, head,
):  # fmt: skip
    """Add up the statistics at given displacements, with scratch arrays.

    ``near`` holds ranges along the axes of the nodes and mid-points near some pixels.
    """
    n_axes, n_pixels = pixels.shape
    sd = 1.0 / np.sqrt(precision)
    rest, shifted, positions = lanes[0], lanes[1], lanes[2]
    values, weights, one, two = lanes[3], lanes[4], lanes[5], lanes[6]
    for row in range(Y.shape[0]):
        y, mass = Y[row], masses[row]
        for start in range(0, n_pixels, _CHUNK):
            left = n_pixels - start
            count = left if left < _CHUNK else _CHUNK
            for axis in range(n_axes):
                for u in range(count):
                    moved = fields[row, axis * n_pixels + start + u]
                    positions[u] = pixels[axis, start + u] - moved
                place = 3 - n_axes + axis
                first, spacing = nodes[place, 0], nodes[place, 1]
                n_nodes = int(nodes[place, 2])
                begin, end = _near(
                    positions, count, first, spacing, n_nodes, _REACH * sd
                )
                near[0, place, 0], near[0, place, 1] = begin, end
                _kernels(
                    positions, count, first, spacing, precision, begin, end, rest,
                    shifted, own[place], halves[place],
                )  # fmt: skip
                low, high = _near(
                    positions, count, first, 0.5 * spacing, 2 * n_nodes - 1,
                    _REACH_OF_MIDDLE * sd,
                )  # fmt: skip
                near[1, place, 0] = low if low > 2 * begin else 2 * begin
                near[1, place, 1] = high if high < 2 * end - 1 else 2 * end - 1
            for u in range(count):
                seen = not np.isnan(y[start + u])
                weights[u] = mass if seen else 0.0
                values[u] = mass * y[start + u] if seen else 0.0
                if seen:
                    head[0] += values[u] * y[start + u]
                    head[1] += mass
            _add_grid(values, own, near[0], count, one, two, cross)
            _add_grid(weights, halves, near[1], count, one, two, middle)
