"""Ascent along the exact gradient of the likelihood, for machines where that is cheap.

Where the hidden units and log Z can be summed, the likelihood and its gradient cost
little more than an update. The steps of a run are short where the likelihood is flat;
an ascent by L-BFGS from the end of a round leaves a plateau behind, and what it adds
says whether the run had converged. Where no unit is hidden the likelihood is concave,
and ascents are all that a run does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.lbfgs import minimised
from sktem.rows.held import carrier_of

__all__ = ["ExactAscent"]


class AscentBudget(NamedTuple):
    """Budget and tolerances of ascents.

    Attributes
    ----------
    most_evaluations, fewest_evaluations : int
        Evaluations of one ascent: at most, and below which there is none.
    nanoseconds, overhead : float
        For all of them, and what one costs beside its sums.
    most_starts : int
        Other starts from which an ascent is tried, at most, in about that time.
    largest_move : float
        No parameter moves further in one ascent: of separable rows the maximum is
        infinite.
    gap, concave_gap : float
        Largest entry of the gradient at which an ascent ends: with hidden units, and
        without, where it ends at the maximum.
    precision, concave_precision : float
        Relative change of the likelihood, likewise.
    concave_times : int
        How many times as long an ascent is that is the whole fit.
    """

    most_evaluations: int = 400
    fewest_evaluations: int = 40
    nanoseconds: float = 1e9
    overhead: float = 5e5
    most_starts: int = 4
    largest_move: float = 4.0
    gap: float = 1e-5
    concave_gap: float = 1e-8
    precision: float = 1e-8
    concave_precision: float = 1e-13
    concave_times: int = 10


class ExactAscent:
    """The exact mean log-likelihood of all rows and its gradient, and the climb."""

    budget = AscentBudget()

    def __init__(self, model, X, shares, prior, n_evaluations, n_starts=1):
        self.model, self.X, self.shares = model, X, shares
        self.prior = prior
        self.n_evaluations, self.n_starts = n_evaluations, n_starts
        self.is_concave = model.n_hidden == 0
        self.mean = None
        if self.is_concave:
            # The statistics of the rows do not depend on the parameters.
            nowhere = np.zeros(model.n_parameters)
            if shares is None:
                self.mean = model.posterior_exact(nowhere, X).values
            else:
                graph = model.as_graph(nowhere)[0]
                products = X[:, graph.first] * X[:, graph.second]
                self.mean = model.statistics_of(shares @ X, shares @ products)

    @classmethod
    def of(cls, settings, X, shares=None):
        """Return the ascent of a fit, None where one would cost too much."""
        model = settings.model
        if not (settings.adaptive and model.has_exact_posterior) or settings.binarize:
            return None
        if not carrier_of(X).in_memory:
            return None  # a climb visits all rows in each of hundreds of evaluations
        if not (sparse.issparse(X) or arrays_of(X).is_numpy):
            return None
        if not np.isfinite(model.exact_cost(1)) or carrier_of(X).has_nan:
            return None
        concave = model.n_hidden == 0
        if shares is not None and not (model.weighs_rows or concave):
            return None
        X = X.toarray() if sparse.issparse(X) else X
        if model.weighs_rows and not model.gaussian:
            X, places = np.unique(X, axis=0, return_inverse=True)
            shares = np.bincount(places.ravel(), shares)
            shares = shares / shares.sum()
        budget = cls.budget
        cost = budget.overhead + model.exact_cost(0 if concave else X.shape[0])
        times = budget.concave_times if concave else 1
        n_evaluations = int(
            min(budget.nanoseconds / cost, budget.most_evaluations) * times
        )
        if n_evaluations < budget.fewest_evaluations:
            return None
        X = X.astype(np.float64)
        n_starts = int(budget.nanoseconds / (cost * budget.most_evaluations))
        n_starts = min(max(n_starts, 1), budget.most_starts)
        return cls(model, X, shares, settings.prior, n_evaluations, n_starts)

    def evaluate(self, params):
        """Return the penalised mean log-likelihood of the rows, and its gradient."""
        model = self.model
        log_partition, negative = model.free_exact(params)
        if self.mean is not None:
            value, positive = float(params @ self.mean), self.mean
        else:
            value, positive = model.rows_exact(params, self.X, self.shares)
        value, gradient = value - log_partition, positive - negative
        self.prior.descend(model, params, gradient)
        return value - self.prior.value(model, params), gradient

    def climb(self, params):
        """Return parameters of higher likelihood, of the type of those given."""

        def loss(theta):
            value, gradient = self.evaluate(theta)
            return -value, -gradient

        start = params.astype(np.float64)
        budget, move = self.budget, self.budget.largest_move
        low, high = start - move, start + move
        self.model.bound_precisions(low, high)
        gap, precision = budget.gap, budget.precision
        if self.is_concave:
            gap, precision = budget.concave_gap, budget.concave_precision
        bounds = np.column_stack([low, high])
        optimum = minimised(
            loss, start, (), self.n_evaluations, gap, bounds, precision, 1
        )
        end = optimum.x.astype(params.dtype)
        return end if np.isfinite(optimum.fun) and np.isfinite(end).all() else params
