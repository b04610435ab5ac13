"""Progress of a run, measured at the end of an epoch on a fixed sample of rows."""

from __future__ import annotations

import numpy as np

from sktem.e_step.chains import positions
from sktem.e_step.row_random import MONITOR
from sktem.models.base import average_statistics
from sktem.models.contract import check_each_row

__all__ = ["Monitor", "objective_of"]

#: Smallest sample of rows, and the share of the rows that is used beyond it.
LEAST_ROWS, SHARE_OF_ROWS = 2000, 20


def objective_of(model, log_likelihood: float, params) -> float:
    """Return the mean log-likelihood less the model's penalty."""
    return log_likelihood - model.penalty(params)


class Monitor:
    """Objective and mean field on a fixed sample of rows.

    The rows are the same at every epoch, so that the noise of the sample largely
    cancels in the change from one epoch to the next.

    Parameters
    ----------
    n_rows : int
        Rows of the data.
    rng : numpy.random.Generator
        Stream that picks the rows.
    most : int or None, default=None
        Size of the sample, at most.

    Attributes
    ----------
    rows : ndarray of int
        The sample.
    rows_visited : int
        Row visits spent on monitoring.
    """

    def __init__(self, n_rows: int, rng: np.random.Generator, most: int | None = None):
        size = min(n_rows, max(LEAST_ROWS, n_rows // SHARE_OF_ROWS), most or n_rows)
        rows = (
            np.arange(n_rows)
            if size == n_rows
            else rng.choice(n_rows, size, replace=False)
        )
        # Split before sorting: the halves are random whatever the order of the data.
        self.halves = (np.sort(rows[0::2]), np.sort(rows[1::2]))
        self.rows = np.sort(rows)
        self.rows_visited = 0

    def measure(self, expectation, params, s, iteration) -> tuple[float, float]:
        """Return the objective and the estimate of the mean field.

        Parameters
        ----------
        expectation : Expectation
            The E-step; its counts and chains are left alone.
        params : object
            Parameters that follow from ``s``.
        s : ndarray
            Averaged statistics.
        iteration : int
            Iteration index.

        Returns
        -------
        objective : float
            Mean log-likelihood less the penalty, NaN if the model has none.
        mean_field : float
            ``||s_bar(theta(s)) - s||^2``, corrected for the noise of the sample and of
            the draws so that it is unbiased.
        """
        draws = 1 if expectation.sampler.deterministic else 2
        fields, differences = [], []
        sums = shares = 0.0
        for k in range(draws):
            halves, masses = [], []
            for rows in self.halves:
                if len(rows) == 0:
                    continue
                share = expectation.shares(rows)
                mean, log_likelihood = self._half(
                    expectation, rows, share, params, iteration, MONITOR + k
                )
                halves.append(mean - s)
                masses.append(share.sum())
                sums += log_likelihood * masses[-1]
                shares += masses[-1]
                self.rows_visited += len(rows)
            fields.append(np.average(halves, axis=0, weights=masses))
            differences.append(halves[0] - halves[-1])
        objective = objective_of(expectation.model, sums / shares, params)
        # The sample's noise adds (1 / m - 1 / n) S^2 to the squared norm; the
        # difference of the halves, squared, is 4 S^2 / m in the mean. Two independent
        # sets of draws keep the Monte Carlo noise out of both products.
        outside = 1.0 - len(self.rows) / expectation.n_rows
        with np.errstate(over="ignore", invalid="ignore"):  # data can be huge
            noise = outside * (differences[0] @ differences[-1]) / 4
            return objective, float(fields[0] @ fields[-1] - noise)

    @staticmethod
    def _half(expectation, rows, share, params, iteration, purpose):
        model, sampler = expectation.model, expectation.sampler
        X = expectation.take(rows)
        if expectation.fused:
            return model.expected_statistics(X, params, share)
        generators = expectation.generators_of(purpose, iteration, rows)
        chains = expectation.chains
        states = None if chains is None else chains.get(rows)
        states, _ = sampler.draw(model, X, states, params, generators, iteration)
        Z = model.annotate(positions(states), params)
        mean = average_statistics(model, X, Z, share)
        log_likelihood = getattr(model, "log_likelihood", None)
        if log_likelihood is None:
            return mean, float("nan")
        values = log_likelihood(X, params)
        check_each_row(model, "log_likelihood", values, len(X))
        return mean, float(np.average(values, weights=share))
