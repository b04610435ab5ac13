"""Pixels carried along by the flow of a velocity, and what they pull back."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.template.kernels.products import FAST, ONE, ZERO, clear, product, products

__all__ = [
    "CHUNK",
    "Flow",
    "FlowWork",
    "add_squares",
    "follow",
    "new_flow_work",
    "pull_back",
]

#: Pixels handled at once: their kernels with all landmarks fit in the first cache.
#: Unsigned where it counts the steps of a loop, as in `product`.
CHUNK, _CHUNK = 32, np.uintp(32)

#: Pixels ``points`` (n_axes, n_pixels), along each axis the first landmark, their
#: ``spacing`` and ``counts``, the ``centres`` (n_axes, places) of all, the inverse
#: variance of the kernels, the number of steps, and whether a kernel may be found from
#: that of the landmark before, which must not underflow.
Flow = namedtuple(
    "Flow", "points first spacing counts centres precision n_steps chained"
)

#: Scratch arrays, flat as those of `field`: velocities of the landmarks with their
#: moments about 0, positions of every chunk of pixels before every step, kernels along
#: the axes and their products, sums of these, gradients and what they pull, and
#: derivatives of residuals.
FlowWork = namedtuple(
    "FlowWork",
    "moments paths rest shifted kernels pairs products sums gradient scratch pulled "
    "rows",
)


def new_flow_work(flow) -> FlowWork:
    """Return scratch arrays for one image."""
    n_axes, n_pixels = flow.points.shape
    places = flow.centres.shape[1]
    n_sums = n_axes * (1 + n_axes)
    n_chunks = -(-n_pixels // CHUNK)
    return FlowWork(
        np.empty(n_sums * places),
        np.empty((n_chunks * flow.n_steps, n_axes * CHUNK)),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.ones(3 * flow.counts.max() * CHUNK),
        np.empty(places * CHUNK),
        np.empty(places * CHUNK),
        np.empty(n_sums * CHUNK),
        np.empty(n_axes * CHUNK),
        np.empty(n_axes * CHUNK),
        np.empty(n_axes * places),
        np.empty(n_axes * places * CHUNK),
    )


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _exponentials(rest, shifted, out, at):
    """Fill ``exp`` of what a chunk of ``out`` holds, but for very large numbers."""
    at = np.uintp(at)
    for u in range(_CHUNK):
        exponent = out[at + u] if out[at + u] > -750.0 else -750.0
        rest[u], shifted[u] = reduce_exponent(exponent if exponent < 700.0 else 700.0)
    for u in range(_CHUNK):
        out[at + u] = expand_exponent(rest[u], shifted[u])


@njit(cache=True, nogil=True, fastmath=FAST)
def _fill_axis(axis, path, flow, work):
    """Fill the kernels of a chunk of pixels with the landmarks along an axis."""
    half, x = 0.5 * flow.precision, np.uintp(axis) * _CHUNK
    first, spacing = flow.first[axis], flow.spacing[axis]
    kernels, ratio = work.kernels, work.sums
    at = np.uintp(axis * (kernels.shape[0] // 3))
    if not flow.chained:
        for node in range(flow.counts[axis]):
            for u in range(_CHUNK):
                gap = path[x + u] - (first + node * spacing)
                kernels[at + u] = -half * gap * gap
            _exponentials(work.rest, work.shifted, kernels, at)
            at += _CHUNK
        return
    for u in range(_CHUNK):
        gap = path[x + u] - first
        kernels[at + u] = -half * gap * gap
        ratio[u] = flow.precision * spacing * gap - half * spacing * spacing
    _exponentials(work.rest, work.shifted, kernels, at)
    _exponentials(work.rest, work.shifted, ratio, np.uintp(0))
    decay = np.exp(-flow.precision * spacing * spacing)
    for _ in range(1, flow.counts[axis]):
        for u in range(_CHUNK):
            kernels[at + _CHUNK + u] = kernels[at + u] * ratio[u]
            ratio[u] *= decay
        at += _CHUNK


@njit(cache=True, nogil=True, fastmath=FAST)
def _outer(one, n_one, two, start, n_two, out):
    """Fill all products of two sets of rows."""
    for a in range(n_one):
        for b in range(n_two):
            at, first = np.uintp((a * n_two + b) * CHUNK), np.uintp(a * CHUNK)
            second = np.uintp(start + b * CHUNK)
            for u in range(_CHUNK):
                out[at + u] = one[first + u] * two[second + u]


@njit(cache=True, nogil=True)
def _fill_products(path, flow, work):
    """Fill the kernels of a chunk of pixels with all landmarks."""
    n_axes, counts, kernels = flow.points.shape[0], flow.counts, work.kernels
    for axis in range(n_axes):
        _fill_axis(axis, path, flow, work)
    third = kernels.shape[0] // 3
    # With one axis, the second has one kernel, which is one.
    n_second = counts[1] if n_axes > 1 else ONE
    to = work.pairs if n_axes > 2 else work.products
    _outer(kernels, counts[0], kernels, third, n_second, to)
    if n_axes > 2:
        n_pairs = counts[0] * counts[1]
        _outer(work.pairs, n_pairs, kernels, 2 * third, counts[2], work.products)


@njit(cache=True, nogil=True)
def follow(z, flow, work, field):
    """Fill ``field`` with ``x - y`` of the pixels x that end at y.

    Each of the steps carries y to ``y - v(y) / n_steps``, with v the sum of kernels of
    the landmarks' velocities; none of them folds where the derivative of v is less
    than their number.
    """
    n_axes, n_pixels = flow.points.shape
    places = flow.centres.shape[1]
    for axis in range(n_axes):
        for i in range(places):
            value = z[axis * places + i]
            work.moments[axis * places + i] = value
            for along in range(n_axes):
                row = (n_axes * (1 + axis) + along) * places
                work.moments[row + i] = value * flow.centres[along, i]
    share = 1.0 / flow.n_steps
    for chunk in range(work.paths.shape[0] // flow.n_steps):
        first, start = chunk * flow.n_steps, chunk * CHUNK
        count = n_pixels - start
        for axis in range(n_axes):
            for u in range(CHUNK):
                at = start + u if u < count else n_pixels - 1
                work.paths[first, axis * CHUNK + u] = flow.points[axis, at]
        for step in range(first, first + flow.n_steps):
            path = work.paths[step]
            _fill_products(path, flow, work)
            product(
                work.moments, ZERO, ONE, places, work.products, ZERO, work.sums, ZERO,
                (n_axes, places, CHUNK),
            )  # fmt: skip
            if step + 1 < first + flow.n_steps:
                following = work.paths[step + 1]
                for u in range(np.uintp(n_axes) * _CHUNK):
                    following[u] = path[u] - share * work.sums[u]
                continue
            for axis in range(n_axes):
                for u in range(count if count < CHUNK else CHUNK):
                    at, to = axis * CHUNK + u, start + u
                    moved = path[at] - share * work.sums[at]
                    field[axis * n_pixels + to] = flow.points[axis, to] - moved


@njit(cache=True, nogil=True, fastmath=FAST)
def _carry_gradient(path, n_axes, factor, sums, gradient, scratch):
    """Replace gradients after a step by those before it."""
    for along in range(n_axes):
        x = np.uintp(along) * _CHUNK
        for u in range(_CHUNK):
            scratch[x + u] = 0.0
        for axis in range(n_axes):
            moment = np.uintp(n_axes * (1 + axis) + along) * _CHUNK
            at = np.uintp(axis) * _CHUNK
            for u in range(_CHUNK):
                # The derivative of the velocity along this axis.
                slope = sums[moment + u] - path[x + u] * sums[at + u]
                scratch[x + u] += gradient[at + u] * slope
    for u in range(np.uintp(n_axes) * _CHUNK):
        gradient[u] -= factor * scratch[u]


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_rows(gradient, share, products, rows):
    """Add what a step contributes to the derivatives of residuals."""
    places = products.shape[0] // CHUNK
    for axis in range(gradient.shape[0] // CHUNK):
        for i in range(places):
            row = np.uintp(axis * places + i) * _CHUNK
            at, place = np.uintp(axis) * _CHUNK, np.uintp(i) * _CHUNK
            for u in range(_CHUNK):
                rows[row + u] += share * gradient[at + u] * products[place + u]


@njit(cache=True, nogil=True)
def pull_back(chunk, weighted, slopes, residual, flow, work, out):
    """Pull slopes at the ends of the paths of a chunk of pixels back on the landmarks.

    If `weighted`, their products with the residuals are pulled back and added up in
    ``out``; else ``work.rows`` are filled with the derivatives of each residual. The
    paths are those of the last call of `follow`.
    """
    n_axes, n_pixels = flow.points.shape
    places = flow.centres.shape[1]
    start, share = chunk * CHUNK, 1.0 / flow.n_steps
    gradient = work.gradient
    for axis in range(n_axes):
        for u in range(CHUNK):
            weight = 0.0
            if start + u < n_pixels:
                weight = slopes[axis * n_pixels + start + u]
                if weighted:
                    weight *= residual[start + u]
            gradient[axis * CHUNK + u] = weight
    if not weighted:
        clear(work.rows)
    for back in range(flow.n_steps):
        path = work.paths[(chunk + 1) * flow.n_steps - 1 - back]
        _fill_products(path, flow, work)
        if weighted:
            products(
                gradient, work.products, work.pulled, ZERO, (n_axes, places, CHUNK)
            )
            for i in range(n_axes * places):
                out[i] += share * work.pulled[i]
        else:
            _add_rows(gradient, share, work.products, work.rows)
        product(
            work.moments, ZERO, ONE, places, work.products, ZERO, work.sums, ZERO,
            (n_axes * (1 + n_axes), places, CHUNK),
        )  # fmt: skip
        _carry_gradient(
            path, n_axes, share * flow.precision, work.sums, gradient, work.scratch
        )


@njit(cache=True, nogil=True, fastmath=FAST)
def add_squares(rows, out):
    """Add the products of all pairs of rows to a matrix."""
    for i in range(out.shape[0]):
        for j in range(i + 1):
            one, two = np.uintp(i) * _CHUNK, np.uintp(j) * _CHUNK
            total = 0.0
            for u in range(_CHUNK):
                total += rows[one + u] * rows[two + u]
            out[i, j] += total
            if i != j:
                out[j, i] += total
