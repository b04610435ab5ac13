"""Pixels carried along by the flow of a velocity, and gradients pulled back."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.template.kernels.products import (
    FAST,
    ONE,
    PART,
    THREE,
    ZERO,
    clear,
    product,
    products,
)

__all__ = ["CHUNK", "Flow", "add_squares", "follow", "new_flow", "pull_back"]

#: Pixels handled at once: their kernels with all landmarks fit in the first cache.
CHUNK = np.uint64(32)

#: Where parts begin among the numbers of a grid: ``points`` (n_axes, n_pixels) and the
#: ``centres`` (n_axes, places) of all landmarks, then along each axis the ``first``
#: landmark and their ``spacing``, how many (``count0`` and so on, one for an axis that
#: is not there), the numbers of steps and of chunks of pixels. Then where parts of the
#: scratch begin: velocities of the landmarks with their moments about 0, positions of
#: every chunk of pixels before every step, kernels along the axes (``room`` for each)
#: and their products, sums of these, gradients and what they pull, and derivatives of
#: residuals. At last the inverse variance of the kernels.
Flow = namedtuple(
    "Flow",
    "points centres first spacing count0 count1 count2 n_steps n_chunks room moments "
    "paths rest shifted kernels pairs products sums gradient carried pulled rows "
    "precision",
)


def new_flow(points, axes, width, n_steps, start, place):
    """Return a flow, its numbers, which begin at `start`, and the end of its scratch.

    Parameters
    ----------
    points : ndarray of shape (n_axes, n_pixels)
    axes : list of ndarray
        Landmarks along each axis.
    width : float
        Standard deviation of the kernels.
    n_steps : int
    start, place : int
        First number, and first place in the scratch array.
    """
    n_axes, n_pixels = points.shape
    chunk = int(CHUNK)
    centres = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")])
    first = np.array([nodes[0] for nodes in axes])
    counts = [len(nodes) for nodes in axes]
    last = np.array([nodes[-1] for nodes in axes])
    spacing = (last - first) / np.maximum(np.array(counts) - 1, 1)
    parts = [points.ravel(), centres.ravel(), first, spacing]
    starts = start + np.cumsum([0, *(len(part) for part in parts)])
    places, n_chunks = centres.shape[1], -(-n_pixels // chunk)
    room, n_sums = max(counts) * chunk, n_axes * (1 + n_axes)
    sizes = [
        n_sums * places, n_chunks * n_steps * n_axes * chunk, chunk, chunk, 3 * room,
        places * chunk, places * chunk, n_sums * chunk, n_axes * chunk, n_axes * chunk,
        n_axes * places, n_axes * places * chunk,
    ]  # fmt: skip
    at = place + np.cumsum([0, *sizes])
    counts += [1] * (3 - n_axes)
    whole = (*starts[:4], *counts, n_steps, n_chunks, room, *at[:-1])
    flow = Flow._make([*map(np.uint64, whole), float(width) ** -2])
    return flow, np.concatenate(parts), int(at[-1])


@njit(**PART, fastmath={"contract"}, error_model="numpy")
def _exponentials(work, rest, shifted, at):
    """Replace a chunk of negative numbers by their ``exp``."""
    for u in range(CHUNK):
        exponent = work[at + u] if work[at + u] > -750.0 else -750.0
        work[rest + u], work[shifted + u] = reduce_exponent(exponent)
    for u in range(CHUNK):
        work[at + u] = expand_exponent(work[rest + u], work[shifted + u])


@njit(**PART, fastmath=FAST)
def _fill_axis(axis, count, path, grid, flow, work):
    """Fill the kernels of a chunk of pixels with the landmarks along an axis."""
    half, x = 0.5 * flow.precision, path + axis * CHUNK
    first, spacing = grid.numbers[flow.first + axis], grid.numbers[flow.spacing + axis]
    at = flow.kernels + axis * flow.room
    for node in range(count):
        for u in range(CHUNK):
            gap = work[x + u] - (first + node * spacing)
            work[at + u] = -half * gap * gap
        _exponentials(work, flow.rest, flow.shifted, at)
        at += CHUNK


@njit(**PART, fastmath=FAST)
def _outer(work, left, n_left, right, n_right, out):
    """Fill all products of two sets of rows."""
    for a in range(n_left):
        for b in range(n_right):
            at, first = out + (a * n_right + b) * CHUNK, left + a * CHUNK
            second = right + b * CHUNK
            for u in range(CHUNK):
                work[at + u] = work[first + u] * work[second + u]


@njit(**PART)
def _fill_products(path, grid, flow, work):
    """Fill the kernels of a chunk of pixels with all landmarks."""
    count = flow.count0
    for axis in range(grid.n_axes):
        _fill_axis(axis, count, path, grid, flow, work)
        count = flow.count1 if axis == ZERO else flow.count2
    kernels, room, n_pairs = flow.kernels, flow.room, flow.count0 * flow.count1
    # With one axis, the kernels of the second are one.
    to = flow.pairs if grid.n_axes == THREE else flow.products
    _outer(work, kernels, flow.count0, kernels + room, flow.count1, to)
    if grid.n_axes == THREE:
        third = kernels + room + room
        _outer(work, flow.pairs, n_pairs, third, flow.count2, flow.products)


@njit(**PART, error_model="numpy")
def follow(grid, flow, work):
    """Fill ``field`` with ``x - y`` of the pixels x that end at y.

    Each of the steps carries y to ``y - v(y) / n_steps``, with v the sum of kernels of
    the landmarks' velocities; none of them folds where the derivative of v is less
    than their number.
    """
    n_axes, n_pixels, places = grid.n_axes, grid.n_pixels, grid.n_places
    numbers = grid.numbers
    if n_axes == ONE:
        for u in range(CHUNK):
            work[flow.kernels + flow.room + u] = 1.0
    for axis in range(n_axes):
        for i in range(places):
            value = work[grid.z + axis * places + i]
            work[flow.moments + axis * places + i] = value
            for along in range(n_axes):
                row = (n_axes * (ONE + axis) + along) * places
                centre = numbers[flow.centres + along * places + i]
                work[flow.moments + row + i] = value * centre
    share = 1.0 / flow.n_steps
    path, width = flow.paths, n_axes * CHUNK
    for chunk in range(flow.n_chunks):
        start = chunk * CHUNK
        count = n_pixels - start if n_pixels - start < CHUNK else CHUNK
        for axis in range(n_axes):
            points = flow.points + axis * n_pixels + start
            for u in range(CHUNK):
                at = points + (u if u < count else count - ONE)
                work[path + axis * CHUNK + u] = numbers[at]
        for step in range(ONE, flow.n_steps + ONE):
            _fill_products(path, grid, flow, work)
            product(
                work, flow.moments, ONE, places, work, flow.products, work, flow.sums,
                (n_axes, places, CHUNK),
            )  # fmt: skip
            if step < flow.n_steps:
                for u in range(width):
                    work[path + width + u] = (
                        work[path + u] - share * work[flow.sums + u]
                    )
            else:
                for axis in range(n_axes):
                    at, to = axis * CHUNK, axis * n_pixels + start
                    for u in range(count):
                        moved = work[path + at + u] - share * work[flow.sums + at + u]
                        work[grid.field + to + u] = (
                            numbers[flow.points + to + u] - moved
                        )
            path += width


@njit(**PART, fastmath=FAST)
def _carry_gradient(path, n_axes, factor, flow, work):
    """Replace gradients after a step by those before it."""
    for along in range(n_axes):
        x = along * CHUNK
        for u in range(CHUNK):
            work[flow.carried + x + u] = 0.0
        for axis in range(n_axes):
            moment = flow.sums + (n_axes * (ONE + axis) + along) * CHUNK
            at = axis * CHUNK
            for u in range(CHUNK):
                # The derivative of the velocity along this axis.
                slope = work[moment + u] - work[path + x + u] * work[flow.sums + at + u]
                work[flow.carried + x + u] += work[flow.gradient + at + u] * slope
    for u in range(n_axes * CHUNK):
        work[flow.gradient + u] -= factor * work[flow.carried + u]


@njit(**PART, fastmath=FAST)
def _add_rows(n_axes, places, share, flow, work):
    """Add the contribution of a step to the derivatives of residuals."""
    for axis in range(n_axes):
        gradient = flow.gradient + axis * CHUNK
        for i in range(places):
            row = flow.rows + (axis * places + i) * CHUNK
            place = flow.products + i * CHUNK
            for u in range(CHUNK):
                work[row + u] += share * work[gradient + u] * work[place + u]


@njit(**PART, error_model="numpy")
def pull_back(chunk, weighted, grid, flow, work):
    """Pull slopes at the ends of the paths of a chunk of pixels back on the landmarks.

    If `weighted` is one, their products with the residuals are pulled back and added
    up in ``pull``; if zero, ``rows`` are filled with the derivatives of each residual.
    The paths are those of the last call of `follow`.
    """
    n_axes, n_pixels, places = grid.n_axes, grid.n_pixels, grid.n_places
    start, share = chunk * CHUNK, 1.0 / flow.n_steps
    for axis in range(n_axes):
        for u in range(CHUNK):
            weight = 0.0
            if start + u < n_pixels:
                weight = work[grid.slopes + axis * n_pixels + start + u]
                if weighted == ONE:
                    weight *= work[grid.residual + start + u]
            work[flow.gradient + axis * CHUNK + u] = weight
    if weighted == ZERO:
        clear(work, flow.rows, n_axes * places * CHUNK)
    width = n_axes * CHUNK
    path = flow.paths + (chunk + ONE) * flow.n_steps * width
    for _ in range(flow.n_steps):
        path -= width
        _fill_products(path, grid, flow, work)
        if weighted == ONE:
            products(
                work, flow.gradient, work, flow.products, work, flow.pulled,
                (n_axes, places, CHUNK),
            )  # fmt: skip
            for i in range(n_axes * places):
                work[grid.pull + i] += share * work[flow.pulled + i]
        else:
            _add_rows(n_axes, places, share, flow, work)
        product(
            work, flow.moments, ONE, places, work, flow.products, work, flow.sums,
            (n_axes * (ONE + n_axes), places, CHUNK),
        )  # fmt: skip
        _carry_gradient(path, n_axes, share * flow.precision, flow, work)


@njit(**PART, fastmath=FAST)
def add_squares(dim, rows, work, out):
    """Add the products of all pairs of rows to a matrix."""
    for i in range(dim):
        for j in range(i + ONE):
            left, right = rows + i * CHUNK, rows + j * CHUNK
            total = 0.0
            for u in range(CHUNK):
                total += work[left + u] * work[right + u]
            work[out + i * dim + j] += total
            if i != j:
                work[out + j * dim + i] += total
