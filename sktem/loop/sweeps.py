"""Which compiled sweep stands for many iterations of the loop."""

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
        ("unit", "spherical", "diag"),
        ("exact", "mc"),
        ("isaem", "vrttem", "fittem", "online"),
    )
}


class SweepVisits(NamedTuple):
    """Visits of iterations with batches of one; the second axis is the index set.

    Attributes
    ----------
    rows : ndarray of int of shape (n_iterations, n_index_sets)
        Row indices.
    values : ndarray of shape (n_iterations, n_index_sets, n_features)
        The rows.
    uniforms : ndarray of shape (n_iterations, n_index_sets, n_draws)
        Uniforms of the draws; none for exact expectations.
    """

    rows: np.ndarray
    values: np.ndarray
    uniforms: np.ndarray

    def after(self, n_iterations: int) -> SweepVisits:
        """Return the visits after the first iterations."""
        return SweepVisits(*(part[n_iterations:] for part in self))


def draw_visits(
    expectation, selectors, n_draws: int, iteration: int, n_iterations: int
) -> SweepVisits:
    """Draw the rows of iterations with a batch of one, and the uniforms they use.

    Blocks give the same numbers as drawing them iteration by iteration.
    """
    X, generators = expectation.X, expectation.generators
    n_sets = len(selectors)
    width = (X.shape[1] + n_draws) * n_sets
    size = min(n_iterations, max(1, min(MOST_ITERATIONS, MOST_VALUES // width)))
    if getattr(selectors[0], "scheme", "shuffle") == "shuffle":
        drawn = [selector.singles(generators.indices, size) for selector in selectors]
        rows = np.stack(drawn, axis=1)
        size = len(rows)
    else:
        rows = generators.indices.integers(len(X), size=(size, n_sets))
    uniforms = np.empty((size, n_sets, n_draws))
    if n_draws:
        from sktem.kernels.counter_random import fill_visit_uniforms

        seed = np.uint64(generators.row_seed)
        numbers = expectation.first_row + rows
        fill_visit_uniforms(seed, iteration, BATCH, numbers, uniforms)
    return SweepVisits(rows, X.take(rows, axis=0), uniforms)


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
        ``len(gammas)`` iterations with batches of one and returns how many, the proxy
        of the last one, and the sum of the iterates before it. It is imported on first
        use.
    """
    parts = (model, sampler, solver)
    key = tuple(
        part.sweep_name if "sweep_name" in vars(type(part)) else None for part in parts
    )
    if key not in SWEEPS:
        return None
    module, function = SWEEPS[key]
    return getattr(import_module(module), function)
