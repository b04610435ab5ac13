"""Axes for several panels: new ones, given ones, or the place of a given one."""

from __future__ import annotations

import numpy as np

__all__ = ["load_pyplot", "make_panels"]


def load_pyplot(caller):
    """Import pyplot, or say how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib, which is not installed: "
            'pip install "sktem[plot]"'
        ) from error
    return pyplot


def make_panels(pyplot, ax, shape, size, n_used=None):
    """Return axes for a grid of panels.

    Parameters
    ----------
    pyplot : module
        ``matplotlib.pyplot``.
    ax : Axes, array-like of Axes or None
        None makes a figure. One Axes is used if there is one panel; otherwise it is
        switched off, and the panels take its place. Several are used as they are.
    shape : tuple of int
        Rows and columns.
    size : tuple of float
        Width and height of a panel of a new figure in inches.
    n_used : int or None, default=None
        How many panels are wanted, row by row; None means all.

    Returns
    -------
    ndarray of Axes
        Of the given shape, or of length ``n_used``.
    """
    n_rows, n_columns = shape
    total = n_rows * n_columns if n_used is None else n_used
    if ax is None:
        figure, axes = pyplot.subplots(
            n_rows,
            n_columns,
            figsize=(max(n_columns * size[0] + 0.4, 2.4), n_rows * size[1] + 0.4),
            layout="constrained",
            squeeze=False,
        )
    elif hasattr(ax, "get_subplotspec"):
        if total == 1:
            axes = np.array([[ax]])
        else:
            axes = _subdivided(ax, n_rows, n_columns)
    else:
        axes = np.empty(len(np.ravel(ax)), dtype=object)
        axes[:] = np.ravel(ax)
        if len(axes) != total:
            raise ValueError(f"ax must be one Axes or {total} of them, got {len(axes)}")
        return axes if n_used is not None else axes.reshape(shape)
    if n_used is None:
        return axes
    for unused in axes.ravel()[n_used:]:
        unused.remove()
    return axes.ravel()[:n_used]


def _subdivided(ax, n_rows, n_columns):
    """Return a grid of new axes at the place of the given one, which is hidden."""
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(
            "ax does not belong to a grid, so that it cannot be divided: give one made "
            "by subplots, or an array of Axes"
        )
    ax.set_axis_off()
    grid = place.subgridspec(n_rows, n_columns)
    axes = np.empty((n_rows, n_columns), dtype=object)
    for row, column in np.ndindex(n_rows, n_columns):
        axes[row, column] = ax.figure.add_subplot(grid[row, column])
    return axes
