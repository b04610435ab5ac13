"""Progress of a run, measured at the end of an epoch on a sample or on all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sktem.e_step.chains import positions
from sktem.e_step.expectation import FullPass
from sktem.e_step.row_random import MONITOR
from sktem.models.base import average_statistics
from sktem.models.contract import check_each_row

if TYPE_CHECKING:
    from sktem.loop.state import RunSettings, RunState

__all__ = ["Monitor", "SampleSize", "measured", "new_monitor", "objective_of"]


class SampleSize(NamedTuple):
    """Number of rows on which progress is measured.

    Attributes
    ----------
    least : int
        Rows, at least, or all if there are fewer.
    share : float
        Share of the rows, beyond that.
    most_by_blocks : int
        Rows, at most, where the data are read by blocks, since the sample is in memory.
    """

    least: int = 2000
    share: float = 0.05
    most_by_blocks: int = 1 << 17

    def of(self, n_rows: int, by_blocks: bool) -> int:
        """Return the size of the sample of some rows."""
        most = self.most_by_blocks if by_blocks else n_rows
        return min(n_rows, max(self.least, int(self.share * n_rows)), most)


def objective_of(model, log_likelihood: float, params) -> float:
    """Return the mean log-likelihood less the model's penalty."""
    return log_likelihood - model.penalty(params)


class Monitor:
    """Objective and mean field on a fixed sample of rows, or on all.

    The rows are the same at every epoch, so that the noise of the sample largely
    cancels in the change from one epoch to the next.

    Parameters
    ----------
    n_rows : int
        Rows of the data.
    rng : numpy.random.Generator
        Stream that picks the rows.
    size : int
        Size of the sample; ``n_rows`` for all rows, which are then visited in order.

    Attributes
    ----------
    halves : tuple of ndarray of int
        The sample, cut at random; empty where all rows are visited.
    rows_visited : int
        Row visits spent on monitoring.
    """

    def __init__(self, n_rows: int, rng: np.random.Generator, size: int):
        self.halves: tuple[np.ndarray, ...] = ()
        if size < n_rows:
            rows = rng.choice(n_rows, size, replace=False)
            # Split before sorting: they are random whatever the order of the data.
            self.halves = (np.sort(rows[0::2]), np.sort(rows[1::2]))
        self.rows_visited = 0
        #: Rows of the halves, where it takes long to read them.
        self._held: list | None = None

    def __getstate__(self):
        return {**self.__dict__, "_held": None}

    def _rows_of(self, expectation, part, rows):
        """Return the rows of the monitor; a sample is kept where reading is slow."""
        X = expectation.X
        if not self.halves or (X.can_take and not X.is_remote):
            return expectation.take(rows)
        if self._held is None:
            numbers = np.sort(np.concatenate(self.halves))
            values = X.take(numbers)
            self._held = [
                values[np.searchsorted(numbers, half)] for half in self.halves
            ]
        return self._held[part]

    @property
    def rows(self) -> np.ndarray | None:
        """Row indices of the sample, None for all."""
        return np.sort(np.concatenate(self.halves)) if self.halves else None

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
            means, masses = [], []
            for part, rows in enumerate(self.halves or expectation.chunks()):
                share = expectation.shares(rows)
                if len(share) == 0:
                    continue
                X = self._rows_of(expectation, part, rows)
                mean, log_likelihood = self._part(
                    expectation, X, rows, share, params, iteration, MONITOR + k
                )
                means.append(mean - s)
                masses.append(share.sum())
                sums += log_likelihood * masses[-1]
                shares += masses[-1]
                self.rows_visited += len(share)
            fields.append(np.average(means, axis=0, weights=masses))
            differences.append(means[0] - means[-1])
        objective = objective_of(expectation.model, sums / shares, params)
        with np.errstate(over="ignore", invalid="ignore"):  # data can be huge
            square = fields[0] @ fields[-1]
            if self.halves:
                # The sample's noise adds (1 / m - 1 / n) S^2 to the squared norm; the
                # difference of the halves, squared, is 4 S^2 / m in the mean. Two
                # independent sets of draws keep the Monte Carlo noise out of both.
                size = sum(len(rows) for rows in self.halves)
                outside = 1.0 - size / expectation.n_rows
                square -= outside * (differences[0] @ differences[-1]) / 4
            return objective, float(square)

    @staticmethod
    def _part(expectation, X, rows, share, params, iteration, purpose):
        model, sampler = expectation.model, expectation.sampler
        if expectation.fused:
            return model.expected_statistics(X, params, share)
        generators = expectation.generators_of(purpose, iteration, rows)
        chains = expectation.chains
        states = None if chains is None else chains.get(rows)
        states, _ = sampler.draw(model, X, states, params, generators, iteration)
        Z = model.annotate(positions(states), params)
        mean = average_statistics(model, X, Z, share, params)
        log_likelihood = getattr(model, "log_likelihood", None)
        if log_likelihood is None:
            return mean, float("nan")
        values = log_likelihood(X, params)
        check_each_row(model, "log_likelihood", values, len(share))
        return mean, float(np.average(values, weights=share))


def new_monitor(state: RunState, size: int) -> Monitor:
    """Return a monitor of some rows, which counts on from the one before."""
    monitor = Monitor(state.n_rows, state.generators.monitoring, size)
    if state.monitor is not None:
        monitor.rows_visited = state.monitor.rows_visited
    return monitor


def measured(
    settings: RunSettings, state: RunState, expectation, full_pass: FullPass | None
) -> tuple[float, float, bool]:
    """Return objective, mean field, and whether they are of all rows and exact.

    Parameters
    ----------
    settings : RunSettings
        Settings of the run.
    state : RunState
        Its state; the monitor counts its visits.
    expectation : Expectation
        The E-step.
    full_pass : FullPass or None
        What the last pass over all rows has found, if its expectations were exact.
    """
    if not settings.monitor:
        return float("nan"), float("nan"), False
    monitor = state.monitor
    assert monitor is not None
    state.of_sample = full_pass is None and bool(monitor.halves)
    if full_pass is None:
        recursion = state.solver
        return *monitor.measure(
            expectation, state.params, recursion.s, recursion.iteration
        ), False
    model = settings.model
    objective = objective_of(model, full_pass.log_likelihood, full_pass.params)
    if full_pass.s is None:
        return objective, float("nan"), True
    field = full_pass.mean - full_pass.s
    with np.errstate(over="ignore"):  # the square of statistics of huge data
        return objective, float(field @ field), True
