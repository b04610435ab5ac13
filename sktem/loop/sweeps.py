"""Compiled sweeps that replace many iterations of the loop."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import NamedTuple

import numpy as np

from sktem.e_step.row_random import BATCH

__all__ = ["SWEEPS", "SweepVisits", "draw_visits", "find"]

#: Iterations, and numbers, of which random draws and rows are held at once.
MOST_ITERATIONS = 2**14
MOST_VALUES = 2**20

#: Module and function of the sweep for (model, sampler, solver), each by the name that
#: the part states as its ``sweep_name``. A sweep is added by one line.
SWEEPS: dict[tuple[str, str, str], tuple[str, str]] = {
    (f"gaussian_mixture:{covariance_type}", sampler, solver): (
        "sktem.mixture.kernels.sweep",
        "sweep",
    )
    for covariance_type, sampler, solver in product(
        ("unit", "spherical", "diag", "tied", "full"),
        ("exact", "mc"),
        ("isaem", "vrttem", "fittem", "online"),
    )
}


class SweepVisits(NamedTuple):
    """Visits of iterations: a batch of rows for each index set of each iteration.

    Attributes
    ----------
    rows : ndarray of int of shape (n_visits,)
        Row indices.
    values : ndarray of shape (n, n_features)
        The rows of the visits, or all rows of the data, in double precision.
    places : ndarray of int of shape (n_visits,)
        Where the rows of the visits are among these.
    uniforms : ndarray of shape (n_visits, n_draws)
        Uniforms of the draws; none for exact expectations.
    edges : ndarray of int of shape (n_index_sets, n_iterations + 1)
        Where the visits of each batch begin, and those of the last end.
    coefficients : ndarray of shape (n_visits,)
        Those of the rows in their batch.
    shares : ndarray of shape (n_visits,)
        Shares of the rows in the mean over all rows.
    """

    rows: np.ndarray
    values: np.ndarray
    places: np.ndarray
    uniforms: np.ndarray
    edges: np.ndarray
    coefficients: np.ndarray
    shares: np.ndarray

    @property
    def n_iterations(self) -> int:
        """Number of iterations."""
        return self.edges.shape[1] - 1

    def after(self, n_iterations: int) -> SweepVisits:
        """Return the visits after the first iterations."""
        # Contiguous, so that the sweep need not be compiled for another layout.
        edges = np.ascontiguousarray(self.edges[:, n_iterations:])
        return self._replace(edges=edges)


def draw_visits(
    expectation, selectors, batch_size: int, n_draws: int, iteration: int, most: int
) -> SweepVisits:
    """Draw the rows of the next iterations, and the uniforms they use.

    Blocks give the same numbers as drawing them iteration by iteration.
    """
    X, generators = expectation.X, expectation.generators
    n_sets = len(selectors)
    width = (X.shape[1] + n_draws) * n_sets * batch_size
    size = min(most, max(1, min(MOST_ITERATIONS, MOST_VALUES // width)))
    rows, values, edges, coefficients = _draw_rows(
        selectors, generators.indices, size, batch_size, X
    )
    uniforms = np.empty((len(rows), n_draws))
    if n_draws:
        from sktem.kernels.counter_random import fill_visit_uniforms

        seed = np.uint64(generators.row_seed)
        numbers = expectation.first_row + rows
        fill_visit_uniforms(seed, iteration, BATCH, numbers, edges, uniforms)
    shares = expectation.shares(rows)
    values, places = _read(X, rows, values, batch_size)
    return SweepVisits(rows, values, places, uniforms, edges, coefficients, shares)


def _read(X, rows, values, batch_size):
    """Return rows, and where those of the visits are among them."""
    table = X.array
    plain = table is not None and table.dtype == np.float64 and table.flags.carray
    if plain and batch_size > 1:  # a tile of rows can be read where they are
        return np.asarray(table), rows
    values = X.take(rows) if values is None else values
    return np.ascontiguousarray(values, dtype=np.float64), np.arange(len(rows))


def _draw_rows(selectors, rng, size, batch_size, X):
    """Return indices, rows or None, edges and coefficients of the next batches."""
    values = None
    weighted = getattr(selectors[0], "weights", None) is not None
    if not weighted and getattr(selectors[0], "scheme", "shuffle") == "shuffle":
        drawn = [selector.several(rng, size, X) for selector in selectors]
        rows = np.concatenate([part for part, *_ in drawn])
        if drawn[0][1] is not None:
            values = np.concatenate([part for _, part, _ in drawn])
        lengths = np.stack([np.diff(edges) for *_, edges in drawn])
    elif not weighted and batch_size == 1:
        rows = rng.integers(len(X), size=(size, len(selectors))).T.ravel()
        lengths = np.ones((len(selectors), size), dtype=np.intp)
    else:
        batches = [[selector.next(rng) for selector in selectors] for _ in range(size)]
        in_order = [batch for side in zip(*batches, strict=True) for batch in side]
        rows = np.concatenate([batch.rows for batch in in_order])
        coefficients = np.concatenate([batch.coefficients for batch in in_order])
        lengths = np.array([len(batch.rows) for batch in in_order])
        return rows, None, _edges(lengths.reshape(len(selectors), -1)), coefficients
    return rows, values, _edges(lengths), np.repeat(1.0 / lengths, lengths.ravel())


def _edges(lengths):
    """Return where batches begin and end that follow each other, by index set."""
    stops = np.cumsum(lengths).reshape(lengths.shape)
    return np.concatenate([stops[:, :1] - lengths[:, :1], stops], axis=1)


def find(model, sampler, solver):
    """Return the fused sweep for three parts, or None.

    Parameters
    ----------
    model, sampler, solver : object
        Parts; those with a sweep have an attribute ``sweep_name``. It counts only where
        the class of the part itself defines it: a subclass may do other things than
        its base, so that it has to define the attribute itself.

    Returns
    -------
    callable or None
        ``sweep(settings, params, recursion, visits, gammas, rho)``, which does up to
        ``len(gammas)`` iterations and returns how many, the proxy of the last one, and
        the sum of the iterates before it. It is imported on first use.
    """
    parts = (model, sampler, solver)
    key = tuple(
        part.sweep_name if "sweep_name" in vars(type(part)) else None for part in parts
    )
    if key not in SWEEPS:
        return None
    module, function = SWEEPS[key]
    return getattr(import_module(module), function)
