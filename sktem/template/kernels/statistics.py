"""Sums over the displaced pixels of images: the statistics of a template."""

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.template.kernels.field import displace, new_work
from sktem.template.kernels.products import FAST, FOUR, ONE, THREE, TWO, ZERO

__all__ = ["template_sums"]

#: Pixels handled at once: their kernels with all nodes fit in the first cache.
_CHUNK = np.uint64(32)

#: Standard deviations beyond which a kernel with a node, and one with a mid-point, is
#: less than the rounding error of a sum.
_REACH, _REACH_OF_MIDDLE = 8.2, 5.8


@njit(cache=True, nogil=True, error_model="numpy")
def _near(work, positions, count, first, spacing, n_nodes, reach):
    """Return the first node within reach of some position, and the one after the last.

    Positions that are not finite have all nodes.
    """
    low = high = work[positions]
    for u in range(ONE, count):
        place = work[positions + u]
        low = place if place < low else low
        high = place if place > high else high
    low, high = (low - reach - first) / spacing, (high + reach - first) / spacing
    if not (low > -1e9 and high < 1e9):
        return ZERO, n_nodes
    start, stop = np.ceil(low), np.floor(high) + 1.0
    start = start if start > 0.0 else 0.0
    stop = stop if stop < n_nodes else np.float64(n_nodes)
    if start < stop:
        return np.uint64(start), np.uint64(stop)
    return ZERO, ZERO


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _kernels(
    work, positions, count, first, spacing, precision, start, stop, own, middle
):
    """Fill the kernels of pixels with a range of nodes and with their mid-points.

    The product of the kernels of two neighbours is, up to a constant, that of their
    mid-point, with half the variance.
    """
    rest, shifted = positions + _CHUNK, positions + TWO * _CHUNK
    # Where the constant is less, the mid-point counts nothing in the Gram matrix.
    between = np.exp(-0.25 * precision * spacing * spacing)
    between = 1.0 / between if between > 1e-300 else 1e300
    for j in range(start, stop):
        node, at = first + j * spacing, own + j * _CHUNK
        for u in range(count):
            gap = work[positions + u] - node
            exponent = -0.5 * precision * gap * gap
            work[rest + u], work[shifted + u] = reduce_exponent(
                exponent if exponent > -750.0 else -750.0
            )
        for u in range(count):
            work[at + u] = expand_exponent(work[rest + u], work[shifted + u])
        row = middle + TWO * j * _CHUNK
        for u in range(count):
            value = work[at + u]
            work[row + u] = value * value
        if j > start:
            row, last = row - _CHUNK, at - _CHUNK
            for u in range(count):
                work[row + u] = between * work[last + u] * work[at + u]


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_grid(work, weights, tables, room, near, side, count, n1, n2, out):
    """Add ``einsum("u,au,bu,cu->abc", weights, *tables)`` to a part of an array.

    ``tables`` begin at a place in the scratch array, each `room` further. ``near`` says
    from `side` on which part of the array, whose last axes have n1 and n2 entries.
    """
    end = near[side + FOUR + ONE]
    # After the weights come two lanes of scratch.
    one, two = weights + TWO * _CHUNK, weights + THREE * _CHUNK
    for i in range(near[side], near[side + ONE]):
        for u in range(count):
            work[one + u] = work[weights + u] * work[tables + i * _CHUNK + u]
        for j in range(near[side + TWO], near[side + THREE]):
            at = tables + room + j * _CHUNK
            for u in range(count):
                work[two + u] = work[one + u] * work[at + u]
            k, to = near[side + FOUR], (i * n1 + j) * n2
            row = tables + TWO * room + k * _CHUNK
            while k + FOUR <= end:
                s0 = s1 = s2 = s3 = 0.0
                for u in range(count):
                    value = work[two + u]
                    s0 += value * work[row + u]
                    s1 += value * work[row + _CHUNK + u]
                    s2 += value * work[row + TWO * _CHUNK + u]
                    s3 += value * work[row + THREE * _CHUNK + u]
                out[to + k] += s0
                out[to + k + ONE] += s1
                out[to + k + TWO] += s2
                out[to + k + THREE] += s3
                k += FOUR
                row += FOUR * _CHUNK
            while k < end:
                s0 = 0.0
                for u in range(count):
                    s0 += work[two + u] * work[row + u]
                out[to + k] += s0
                k += ONE
                row += _CHUNK


def template_sums(Y, Z, masses, pixels, grid, nodes, precision, cross, middle, head):
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
    image = new_work(grid)
    for z, field in zip(Z, fields, strict=True):
        image.z[:] = z[: len(image.z)]
        displace(grid, image.flat, grid.flow)
        field[:] = image.field
    chunk, most = int(_CHUNK), int(nodes[:, 2].max())
    work = np.ones((3 * (3 * most - 1) + 8) * chunk)
    counts = tuple(np.uint64(count) for count in nodes[:, 2])
    _add_sums(
        Y, fields, masses, pixels, nodes, counts, precision, np.uint64(most * chunk),
        work, np.tile(np.array([0, 1], dtype=np.uint64), 6), cross.ravel(),
        middle.ravel(), head,
    )  # fmt: skip


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_sums(
    Y, fields, masses, pixels, nodes, counts, precision, room, work, near, cross,
    middle, head,
):  # fmt: skip
    """Add up the statistics at given displacements, with scratch arrays.

    ``near`` holds ranges along the axes of the nodes and mid-points near some pixels,
    ``counts`` are the numbers of nodes, and `room` is that of their kernels.
    """
    n_axes, n_pixels = np.uint64(pixels.shape[0]), np.uint64(pixels.shape[1])
    sd = 1.0 / np.sqrt(precision)
    _, n1, n2 = counts
    # The scratch array: kernels of nodes and of mid-points, then lanes.
    halves, room_of_halves = THREE * room, TWO * room - _CHUNK
    positions = halves + THREE * room_of_halves
    values = positions + THREE * _CHUNK
    weights = values + _CHUNK
    for row in range(np.uint64(Y.shape[0])):
        mass = masses[row]
        for start in range(ZERO, n_pixels, _CHUNK):
            left = n_pixels - start
            count = left if left < _CHUNK else _CHUNK
            for axis in range(n_axes):
                for u in range(count):
                    moved = fields[row, axis * n_pixels + start + u]
                    work[positions + u] = pixels[axis, start + u] - moved
                place = THREE - n_axes + axis
                first, spacing = nodes[place, 0], nodes[place, 1]
                n_nodes = counts[place]
                begin, end = _near(
                    work, positions, count, first, spacing, n_nodes, _REACH * sd
                )
                own, middles = place * room, halves + place * room_of_halves
                _kernels(
                    work, positions, count, first, spacing, precision, begin, end, own,
                    middles,
                )  # fmt: skip
                low, high = _near(
                    work, positions, count, first, 0.5 * spacing, TWO * n_nodes - ONE,
                    _REACH_OF_MIDDLE * sd,
                )  # fmt: skip
                at = TWO * place
                near[at], near[at + ONE] = begin, end
                at += THREE + THREE
                begin, end = TWO * begin, TWO * end
                end = end - ONE if end > ZERO else ZERO
                near[at] = low if low > begin else begin
                near[at + ONE] = high if high < end else end
            for u in range(count):
                value = Y[row, start + u]
                seen = not np.isnan(value)
                work[weights + u] = mass if seen else 0.0
                work[values + u] = mass * value if seen else 0.0
                if seen:
                    head[0] += work[values + u] * value
                    head[1] += mass
            _add_grid(work, values, ZERO, room, near, ZERO, count, n1, n2, cross)
            _add_grid(
                work, weights, halves, room_of_halves, near, THREE + THREE, count,
                TWO * n1 - ONE, TWO * n2 - ONE, middle,
            )  # fmt: skip
