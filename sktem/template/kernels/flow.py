"""Pixels carried along by the flow of a velocity, and what they pull back."""

from collections import namedtuple

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent

__all__ = [
    "CHUNK",
    "Flow",
    "FlowWork",
    "add_products",
    "follow",
    "new_flow_work",
    "pull_back",
]

#: As in `field`.
FAST = {"reassoc", "contract", "nsz", "arcp"}

#: Pixels handled at once: their kernels with all landmarks fit in the first cache.
CHUNK = 32

#: Pixels ``points`` (n_axes, n_pixels), along each axis the first landmark, their
#: ``spacing`` and ``counts``, the ``centres`` (n_axes, places) of all, the inverse
#: variance of the kernels, the number of steps, and whether a kernel may be found from
#: that of the landmark before, which must not underflow.
Flow = namedtuple(
    "Flow", "points first spacing counts centres precision n_steps chained"
)

#: Scratch arrays: velocities of the landmarks with their moments about 0, positions
#: of every chunk of pixels before every step, kernels along the axes and their
#: products, sums of these, gradients, and derivatives of residuals.
FlowWork = namedtuple(
    "FlowWork",
    "moments paths rest shifted kernels pairs products sums gradient pulled rows",
)


@njit(cache=True, nogil=True)
def new_flow_work(flow):
    """Return scratch arrays for one image."""
    n_axes, n_pixels = flow.points.shape
    places = flow.centres.shape[1]
    n_sums = n_axes * (1 + n_axes)
    n_chunks = (n_pixels + CHUNK - 1) // CHUNK
    return FlowWork(
        np.empty((n_sums, places)),
        np.empty((n_chunks, flow.n_steps, n_axes, CHUNK)),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.ones((3, flow.counts.max(), CHUNK)),
        np.empty((places, CHUNK)),
        np.empty((places, CHUNK)),
        np.empty((n_sums, CHUNK)),
        np.empty((2, n_axes, CHUNK)),
        np.empty((n_axes, places)),
        np.empty((n_axes * places, CHUNK)),
    )


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _exponentials(rest, shifted, out):
    """Fill ``exp`` of what ``out`` holds, but for very large and small numbers."""
    for u in range(CHUNK):
        exponent = out[u] if out[u] > -750.0 else -750.0
        rest[u], shifted[u] = reduce_exponent(exponent if exponent < 700.0 else 700.0)
    for u in range(CHUNK):
        out[u] = expand_exponent(rest[u], shifted[u])


@njit(cache=True, nogil=True, fastmath=FAST)
def _fill_axis(x, first, spacing, count, flow, rest, shifted, ratio, kernels):
    """Fill the kernels of pixels with the landmarks along an axis."""
    half = 0.5 * flow.precision
    if not flow.chained:
        for node in range(count):
            out, centre = kernels[node], first + node * spacing
            for u in range(CHUNK):
                out[u] = -half * (x[u] - centre) * (x[u] - centre)
            _exponentials(rest, shifted, out)
        return
    # Without views: they cost more than the arithmetic.
    for u in range(CHUNK):
        gap = x[u] - first
        kernels[0, u] = -half * gap * gap
        ratio[u] = flow.precision * spacing * gap - half * spacing * spacing
    _exponentials(rest, shifted, kernels[0])
    _exponentials(rest, shifted, ratio)
    decay = np.exp(-flow.precision * spacing * spacing)
    for node in range(1, count):
        for u in range(CHUNK):
            kernels[node, u] = kernels[node - 1, u] * ratio[u]
            ratio[u] *= decay


@njit(cache=True, nogil=True, fastmath=FAST)
def _products(one, n_one, two, n_two, out):
    """Fill all products of two sets of rows."""
    for a in range(n_one):
        for b in range(n_two):
            for u in range(CHUNK):
                out[a * n_two + b, u] = one[a, u] * two[b, u]


@njit(cache=True, nogil=True)
def _fill_products(path, flow, work):
    """Fill the kernels of a chunk of pixels with all landmarks."""
    n_axes, counts = path.shape[0], flow.counts
    for axis in range(n_axes):
        _fill_axis(
            path[axis], flow.first[axis], flow.spacing[axis], counts[axis], flow,
            work.rest, work.shifted, work.sums[0], work.kernels[axis],
        )  # fmt: skip
    K0, K1, K2 = work.kernels[0], work.kernels[1], work.kernels[2]
    if n_axes == 1:  # the second axis has one kernel, which is one
        _products(K0, counts[0], K1, 1, work.products)
    elif n_axes == 2:
        _products(K0, counts[0], K1, counts[1], work.products)
    else:
        _products(K0, counts[0], K1, counts[1], work.pairs)
        _products(work.pairs, counts[0] * counts[1], K2, counts[2], work.products)


@njit(cache=True, nogil=True)
def follow(z, flow, work, field):
    """Fill ``field`` with ``x - y`` of the pixels x that end at y.

    Each of the steps carries y to ``y - v(y) / n_steps``, with v the sum of kernels of
    the landmarks' velocities; none of them folds where the derivative of v is less
    than their number.
    """
    n_axes, n_pixels = flow.points.shape
    places = flow.centres.shape[1]
    velocities = z.reshape((n_axes, places))
    for axis in range(n_axes):
        work.moments[axis] = velocities[axis]
        for along in range(n_axes):
            row = work.moments[n_axes * (1 + axis) + along]
            _scale(velocities[axis], flow.centres[along], row)
    share = 1.0 / flow.n_steps
    own, sums = work.moments[:n_axes], work.sums[:n_axes]
    for chunk in range(work.paths.shape[0]):
        paths, start = work.paths[chunk], chunk * CHUNK
        for axis in range(n_axes):
            for u in range(CHUNK):
                at = min(start + u, n_pixels - 1)
                paths[0, axis, u] = flow.points[axis, at]
        for step in range(flow.n_steps):
            path = paths[step]
            _fill_products(path, flow, work)
            np.dot(own, work.products, out=sums)
            for axis in range(n_axes):
                if step + 1 < flow.n_steps:
                    for u in range(CHUNK):
                        paths[step + 1, axis, u] = path[axis, u] - share * sums[axis, u]
                    continue
                for u in range(min(CHUNK, n_pixels - start)):
                    moved = path[axis, u] - share * sums[axis, u]
                    field[axis, start + u] = flow.points[axis, start + u] - moved


@njit(cache=True, nogil=True)
def _scale(values, factors, out):
    for i in range(out.shape[0]):
        out[i] = values[i] * factors[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def _carry_gradient(path, share, precision, sums, gradient, scratch):
    """Replace gradients after a step by those before it."""
    n_axes = gradient.shape[0]
    for along in range(n_axes):
        x, out = path[along], scratch[along]
        out[:] = 0.0
        for axis in range(n_axes):
            moment, velocity = sums[n_axes * (1 + axis) + along], sums[axis]
            pull = gradient[axis]
            for u in range(CHUNK):
                # The derivative of the velocity along this axis.
                out[u] += pull[u] * (moment[u] - x[u] * velocity[u])
    for along in range(n_axes):
        pull, out = gradient[along], scratch[along]
        for u in range(CHUNK):
            pull[u] -= share * precision * out[u]


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_rows(gradient, share, products, rows):
    """Add what a step contributes to the derivatives of residuals."""
    places = products.shape[0]
    for axis in range(gradient.shape[0]):
        pull = gradient[axis]
        for place in range(places):
            row, product = rows[axis * places + place], products[place]
            for u in range(CHUNK):
                row[u] += share * pull[u] * product[u]


@njit(cache=True, nogil=True)
def pull_back(chunk, slopes, residual, flow, work, out):
    """Pull slopes at the ends of the paths of a chunk of pixels back on the landmarks.

    With residuals, their products with the slopes are pulled back and added up in
    ``out`` (n_axes, places). Without any, ``work.rows`` are filled with the derivatives
    of each residual. The paths are those of the last call of `follow`.
    """
    n_axes, n_pixels = flow.points.shape
    start, share = chunk * CHUNK, 1.0 / flow.n_steps
    gradient, scratch = work.gradient[0], work.gradient[1]
    gradient[:] = 0.0
    weighted = residual.size > 0
    for axis in range(n_axes):
        for u in range(min(CHUNK, n_pixels - start)):
            weight = residual[start + u] if weighted else 1.0
            gradient[axis, u] = weight * slopes[axis, start + u]
    if not weighted:
        work.rows[:] = 0.0
    for back in range(flow.n_steps):
        path = work.paths[chunk, flow.n_steps - 1 - back]
        _fill_products(path, flow, work)
        if weighted:
            np.dot(gradient, work.products.T, out=work.pulled)
            for axis in range(n_axes):
                for place in range(out.shape[1]):
                    out[axis, place] += share * work.pulled[axis, place]
        else:
            _add_rows(gradient, share, work.products, work.rows)
        np.dot(work.moments, work.products, out=work.sums)
        _carry_gradient(path, share, flow.precision, work.sums, gradient, scratch)


@njit(cache=True, nogil=True)
def add_products(rows, out):
    """Add the products of all pairs of rows to a matrix."""
    products = np.dot(rows, rows.T)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += products[i, j]
