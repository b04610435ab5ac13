"""Sums over the displaced pixels of images: the statistics of a template.

A Gaussian is a sum of B-splines on a fine lattice, with an error that is stated below.
So a pixel is spread over the few places of the lattice where a B-spline reaches it, and
what all pixels leave there is brought to the nodes, axis by axis.
"""

from functools import lru_cache
from math import ceil, factorial

import numpy as np
from numba import njit
from scipy.interpolate import BSpline
from scipy.linalg import solve_toeplitz

from sktem.kernels.options import INNER, OUTER
from sktem.template.kernels.field import displace, new_work
from sktem.template.kernels.products import FAST, ONE, THREE, TWO, ZERO

__all__ = ["template_sums"]

#: Places of the lattice that a B-spline reaches, one more than its degree, and least
#: places in a standard deviation of the kernels: the error is below 1e-11 of a kernel.
WIDTH, PLACES = 10, 7.0

#: Standard deviations beyond which a kernel is less than that.
REACH = 7.1

#: Most places of a lattice, and nodes that are summed at once.
MOST_PLACES, NODES = 2**21, 32

#: Pixels handled at once.
_CHUNK = np.uint64(32)

_WIDTH, _BEFORE = np.uint64(WIDTH), np.uint64(WIDTH // 2 - 1)


def _pieces():
    """Return B-splines as polynomials in a cell, (powers, places), highest first.

    The variable is the distance from the middle of the cell.
    """
    spline = BSpline.basis_element(np.arange(WIDTH + 1.0))
    middles = np.arange(WIDTH)[::-1] + 0.5
    powers = range(WIDTH)
    return np.array([spline(middles, p) / factorial(p) for p in powers])[::-1]


_POLYNOMIALS = _pieces()
_PIECES = _POLYNOMIALS.ravel()


@lru_cache(maxsize=64)
def _filter(width, stride):
    """Return Gaussians as sums of B-splines, (places, nodes), and their first place.

    Nodes are `stride` places apart, from place 0 on, and the standard deviation is
    `width` places.
    """
    reach, margin = ceil(REACH * width), 64
    places = np.arange(-reach - margin, reach + margin + 1)
    splines = np.zeros(len(places))
    splines[: WIDTH // 2] = np.polyval(_POLYNOMIALS, -0.5)[WIDTH // 2 - 1 : -1]
    coef = solve_toeplitz(splines, np.exp(-0.5 * (places / width) ** 2))[margin:-margin]
    table = np.zeros((len(coef) + stride * (NODES - 1), NODES))
    for k in range(NODES):
        table[k * stride : k * stride + len(coef), k] = coef
    return table, -reach


def template_sums(Y, Z, masses, pixels, grid, nodes, precision, cross, middle, head):
    """Add up the statistics of images.

    With K the kernels of the displaced pixels ``x - field`` with the template's nodes
    and ``|.|`` over the axes, for each image of mass w equal to ::

        cross += w * K.T @ y
        middle += w * np.exp(-precision * |x - field - mid-point| ** 2).sum(axis=pixels)
        head += w * np.array([y @ y, len(y)])

    over the pixels that are not NaN, with an error of less than 1e-11 of each kernel.

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
    n_axes, sd = len(pixels), precision**-0.5
    first, spacing, counts = nodes[3 - n_axes :].T
    # Places between a node and the mid-point that comes next.
    strides = np.ceil(0.5 * spacing * PLACES / sd).astype(int)
    step = 0.5 * spacing / strides
    last = 2.0 * strides * (counts - 1.0)
    places = np.empty((len(Y), *pixels.shape))
    image = new_work(grid)
    for z, place in zip(Z, places, strict=True):
        image.z[:] = z[: len(image.z)]
        displace(grid, image.flat, grid.flow)
        place[:] = pixels - image.field.reshape(pixels.shape)
        place -= first[:, None]
        place /= step[:, None]
    halves = [
        (sd / size / np.sqrt(2.0), int(q))
        for size, q in zip(step, strides, strict=True)
    ]
    wholes = [(sd / size, 2 * int(q)) for size, q in zip(step, strides, strict=True)]

    def add(start, stop):
        part = places[:, :, start:stop]
        ends = np.stack([part.min(axis=(0, 2)), part.max(axis=(0, 2))])
        reach = REACH * sd / step
        low, high = np.floor(np.clip(ends, -reach, last + reach))
        shape = high - low + WIDTH
        if shape.prod() > MOST_PLACES and stop - start > 1:
            between = (start + stop) // 2
            add(start, between)
            add(between, stop)
            return
        if np.isnan(shape).any():
            cross[:] = middle[:] = np.nan
            return
        low = low - float(_BEFORE)
        sizes = np.ones(3, dtype=np.uint64)
        sizes[3 - n_axes :] = shape
        lattice = np.zeros((2, *map(int, sizes)))
        _spread(
            Y, places, masses, np.uint64(start), np.uint64(stop), low, sizes,
            np.ones((3 * WIDTH + 2) * int(_CHUNK) + WIDTH),
            np.empty(int(_CHUNK), dtype=np.uint64), lattice.ravel(), head,
        )  # fmt: skip
        low = low.astype(int)
        middle.__iadd__(_at_nodes(lattice[0], low, halves, middle.shape))
        cross.__iadd__(_at_nodes(lattice[1], low, wholes, cross.shape))

    add(0, pixels.shape[1])


def _at_nodes(values, low, kernels, counts):
    """Return sums of Gaussians at nodes from those of B-splines on the lattice.

    ``low`` is the first place along each axis, ``kernels`` are standard deviations and
    strides of the nodes.
    """
    for axis, count in enumerate(counts):
        index = axis - 3 + len(kernels)
        if index < 0:
            values = np.moveaxis(values, 0, -1)
            continue
        table, begin = _filter(*kernels[index])
        flat = values.reshape(len(values), -1)
        sums = np.zeros((flat.shape[1], count))
        for k in range(0, count, NODES):
            start = k * kernels[index][1] + begin - low[index]
            first, stop = max(start, 0), min(start + len(table), len(flat))
            if first < stop:
                part = table[first - start : stop - start, : count - k]
                sums[:, k : k + NODES] = flat[first:stop].T @ part
        values = sums.reshape(*values.shape[1:], count)
    return values


@njit(**INNER, fastmath=FAST)
def _splines(work, place, to, count):
    """Fill B-splines at pixels' distances from the middles of their cells."""
    for k in range(_WIDTH):
        for u in range(count):
            spline = _PIECES[k]
            for power in range(ONE, _WIDTH):
                spline = spline * work[place + u] + _PIECES[power * _WIDTH + k]
            work[to + k * _CHUNK + u] = spline


@njit(**OUTER, fastmath=FAST)
def _spread(Y, places, masses, start, stop, low, sizes, work, corners, lattice, head):
    """Add B-splines about the places of some pixels, and those times their values.

    The lattice begins at `low`. Pixels that are NaN or further away than the lattice
    reaches are left out. ``work`` is scratch, full of ones.
    """
    n_axes = np.uint64(len(low))
    n1, n2 = sizes[1], sizes[2]
    size = sizes[0] * n1 * n2
    missing = THREE - n_axes
    wide0 = _WIDTH if n_axes == THREE else ONE
    wide1 = _WIDTH if n_axes > ONE else ONE
    # After B-splines along the axes come weights, distances and those of one pixel.
    room = _WIDTH * _CHUNK
    weights = THREE * room
    rest = weights + _CHUNK
    splines = rest + _CHUNK
    square = observed = 0.0
    for row in range(np.uint64(len(Y))):
        mass = masses[row]
        for begin in range(start, stop, _CHUNK):
            count = stop - begin if stop - begin < _CHUNK else _CHUNK
            for u in range(count):
                corners[u] = ZERO
                value = Y[row, begin + u]
                is_observed = not np.isnan(value)
                work[weights + u] = mass if is_observed else 0.0
                square += mass * value * value if is_observed else 0.0
                observed += work[weights + u]
            for axis in range(n_axes):
                length = sizes[missing + axis]
                for u in range(count):
                    place = places[row, axis, begin + u] - low[axis]
                    inside = _BEFORE <= place < length - _BEFORE - ONE
                    cell = np.uint64(place) if inside else _BEFORE
                    work[rest + u] = place - (cell + 0.5)
                    corners[u] = corners[u] * length + (cell - _BEFORE)
                    work[weights + u] *= 1.0 if inside else 0.0
                _splines(work, rest, (missing + axis) * room, count)
            for u in range(count):
                if work[weights + u] == 0.0:
                    continue
                value = Y[row, begin + u]
                for k in range(_WIDTH):
                    work[splines + k] = work[TWO * room + k * _CHUNK + u]
                for i in range(wide0):
                    for j in range(wide1):
                        weight = work[weights + u] * work[i * _CHUNK + u]
                        weight *= work[room + j * _CHUNK + u]
                        at = corners[u] + (i * n1 + j) * n2
                        for k in range(_WIDTH):
                            spline = work[splines + k]
                            lattice[at + k] += weight * spline
                            lattice[at + size + k] += weight * value * spline
    head[0] += square
    head[1] += observed
