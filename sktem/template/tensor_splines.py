"""Values and slopes of templates at places on arrays of other namespaces."""

from __future__ import annotations

import math

from sktem.template.kernels.rough import EVERY

__all__ = ["values_and_slopes", "values_and_slopes_roughly"]


def values_and_slopes(xp, table, places):
    """Return the value and the slopes of a grid of B-spline coefficients.

    Parameters
    ----------
    xp : module
        The namespace.
    table : array of shape (n0, n1, n2)
        Coefficients; leading axes that the images lack have length one.
    places : list of array
        Places along each axis of the images, in cells of the grid.

    Returns
    -------
    list of array
        The value and the slope along each axis, zero outside: see ``spline`` in
        ``kernels/field.py``.
    """
    sizes = table.shape[3 - len(places) :]
    nodes = xp.reshape(table, (-1,))
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(places))]
    inside, first, weights = places[0] == places[0], -sum(strides), []
    for t, size, stride in zip(places, sizes, strides, strict=True):
        within = (t >= 1.0) & (t < size - 2.0)
        inside = inside & within
        t = xp.where(within, t, xp.ones_like(t))
        cell = xp.floor(t)
        weights.append(_bsplines(t - cell))
        first = first + xp.astype(cell, xp.int64) * stride
    first = xp.reshape(first, (-1,))

    def combined(axis, offset):
        """Return the value and the slopes along an axis and those after it."""
        if axis == len(places):
            return [xp.reshape(xp.take(nodes, first + offset, axis=0), inside.shape)]
        total = None
        for n, (value, slope) in enumerate(zip(*weights[axis], strict=True)):
            part = combined(axis + 1, offset + n * strides[axis])
            terms = [value * one for one in part]
            terms.insert(1, slope * part[0])
            total = _added(total, terms)
        return total

    return _where(xp, inside, combined(0, 0))


def values_and_slopes_roughly(xp, table, places):
    """Return the same by `expansions`, for one or two axes: see ``kernels/rough.py``.

    Parameters
    ----------
    xp : module
        The namespace.
    table : array of shape (n1, n2, 6)
        Expansions of a template.
    places : list of array
        Places along each axis of the images, in cells of its spline.

    Returns
    -------
    list of array
        The value and the slope along each axis, zero outside.
    """
    sizes = table.shape[2 - len(places) : 2]
    inside, first, gaps = places[0] == places[0], 0, []
    for t, size in zip(places, sizes, strict=True):
        t = t / EVERY
        within = (t >= 0.0) & (t <= size - 1.0)
        inside = inside & within
        t = xp.where(within, t, xp.zeros_like(t))
        node = xp.floor(t + 0.5)
        gaps.append(t - node)
        first = first * size + xp.astype(node, xp.int64)
    rows = xp.reshape(table, (-1, table.shape[2]))
    nodes = xp.take(rows, xp.reshape(first, (-1,)), axis=0)
    parts = [xp.reshape(nodes[:, k], inside.shape) for k in range(table.shape[2])]
    value, *slopes, aa, ab, bb = parts
    p, q = [xp.zeros_like(value), *gaps][-2:]
    moved = [slopes[0] + aa * p + ab * q, slopes[1] + ab * p + bb * q]
    value = value + 0.5 * (p * (slopes[0] + moved[0]) + q * (slopes[1] + moved[1]))
    slopes = [one / EVERY for one in moved[2 - len(places) :]]
    return _where(xp, inside, [value, *slopes])


def _where(xp, inside, found):
    none = xp.zeros_like(found[0])
    return [xp.where(inside, one, none) for one in found]


def _bsplines(f):
    """Return four B-splines and their slopes at a share of a cell: see ``spline``."""
    g = 1.0 - f
    ff, gg = f * f, g * g
    values = (
        gg * g / 6.0,
        2.0 / 3.0 - ff * (1.0 - 0.5 * f),
        2.0 / 3.0 - gg * (1.0 - 0.5 * g),
        ff * f / 6.0,
    )
    slopes = (-0.5 * gg, f * (1.5 * f - 2.0), -g * (1.5 * g - 2.0), 0.5 * ff)
    return values, slopes


def _added(total, terms):
    if total is None:
        return terms
    return [a + b for a, b in zip(total, terms, strict=True)]
