"""The monitored log-likelihood of a fit of a Boltzmann machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import entr, logsumexp

from sktem.arrays import NUMPY, arrays_of
from sktem.boltzmann.learning.ascent import ExactAscent
from sktem.boltzmann.learning.parities import Parities, gain_of_parities
from sktem.boltzmann.learning.rounds import Reference
from sktem.boltzmann.learning.row_weights import mean_of, thinned
from sktem.boltzmann.machines.layer_operations import operations_of
from sktem.boltzmann.normalisation.ais import posterior_log_sums, reliable_log_partition
from sktem.boltzmann.normalisation.brackets import log_sum_over
from sktem.boltzmann.normalisation.partition import exact_partition
from sktem.boltzmann.units import half_filled
from sktem.rows.held import carrier_of

__all__ = ["MeasureLimits", "Objective"]


class MeasureLimits(NamedTuple):
    """Budget of a measurement of the likelihood.

    Attributes
    ----------
    n_rows, n_sampled_rows : int
        Rows, and those whose hidden units are sampled.
    n_operations : float
        Operations of an exact log Z.
    parameters_of_runs, fewest_runs, most_runs : float, int, int
        Runs of annealed importance sampling where it is not exact: parameters of all
        of them together, runs at least and at most. Where a part of the runs ends in a
        mode that holds most of Z, few runs have too few of them, or none, and weights
        that look even.
    temperatures : tuple of (float, int, int)
        Their temperatures as a share of the updates since the last measure, at least
        and at most; four times as many where their weights are uneven, and again where
        the likelihood is above any distribution's.
    n_row_runs, n_row_temperatures : int
        The same for the hidden units of a row.
    products_of_fills, fewest_fills, most_fills : float, int, int
        Draws of all missing values: products of rows and parameters of all of them,
        and draws at least and at most.
    seconds : float
        Seconds between two printed lines.
    rows_per_column, rows_per_state : int
        Rows for each column from which on a covariance matrix is taken for known, and
        for each distinct row from which on their shares are.
    """

    n_rows: int = 1000
    n_sampled_rows: int = 100
    n_operations: float = 2e7
    parameters_of_runs: float = 4e6
    fewest_runs: int = 64
    most_runs: int = 256
    temperatures: tuple[float, int, int] = (0.04, 50, 250)
    n_row_runs: int = 10
    n_row_temperatures: int = 50
    products_of_fills: float = 2e9
    fewest_fills: int = 5
    most_fills: int = 50
    seconds: float = 5.0
    rows_per_column: int = 10
    rows_per_state: int = 5


class Objective:
    """Mean log-likelihood of a fixed sample of rows, with the error of log Z.

    Where the hidden units cannot be summed out, or values are missing, it is estimated;
    where both are the case, by the lower bound of mean field for the hidden units.

    Parameters
    ----------
    settings : ContrastiveSettings
        Settings of the fit.
    units : VisibleUnits
        The visible units.
    X : ndarray or sparse matrix of shape (n_rows, n_visible)
        Visible values.
    seed : int
        Which rows, and the draws.
    n_mean_field : int
        Mean-field iterations.
    shares : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows, whose sum is 1.
    verbose : int, default=0
        Whether to print how far a measurement is, every few seconds.
    policy : RoundPolicy or None, default=None
        Which share of the rows is left out of the learning and measured, None for none.

    Attributes
    ----------
    reference : Reference
        What the values are compared with.
    is_exact : bool
        Whether the last measurement was exact.
    ascent : ExactAscent or None
        The exact gradient as well, where it is cheap.
    value_of_start : float or None
        The value where the run begins, if it is known.
    left_out : ndarray of int or None
        The rows that are measured and not learned from.
    by_row : ndarray or None
        The last log-likelihoods of the rows, less log Z, where these are a sample.
    of_learned : float
        The last mean log-likelihood of as many rows that are learned from as are left
        out, NaN where none are.
    limits : MeasureLimits
        What a measure may cost.
    """

    limits = MeasureLimits()

    def __init__(
        self, settings, units, X, seed, n_mean_field, shares=None, verbose=0,
        policy=None,
    ):  # fmt: skip
        self.model, self.units, self.seed = settings.model, units, seed
        self.verbose, self.prior = verbose, settings.prior
        rng = np.random.default_rng(seed)
        self.is_exact = False
        self.n_mean_field = n_mean_field
        self.missing = carrier_of(X).has_nan
        self.ascent = ExactAscent.of(settings, X, shares)
        exact = self.model.has_exact_posterior or self.missing
        size = self.limits.n_rows if exact else self.limits.n_sampled_rows
        if self.ascent is not None:
            size = X.shape[0]  # a climb is along the likelihood of all of them
        chosen, self.left_out, self.by_row = None, None, None
        self.learned, self.of_learned = None, float("nan")
        if policy is not None and exact and self._can_leave_out(settings, X, policy):
            n = min(int(policy.left_out * X.shape[0]), self.limits.n_rows)
            self.left_out = np.sort(rng.choice(X.shape[0], n, replace=False))
            rest = np.delete(np.arange(X.shape[0]), self.left_out)
            learned = np.random.default_rng([seed, 1]).choice(rest, n, replace=False)
            self.learned = self._taken(X, np.sort(learned), settings, rng, shares)
            chosen = self.left_out
        elif X.shape[0] > size:
            if shares is None:
                chosen = np.sort(rng.choice(X.shape[0], size, replace=False))
            else:
                chosen, shares = thinned(shares, size, rng), None
        self.X, self.shares = self._taken(X, chosen, settings, rng, shares)
        self.is_sample = chosen is not None
        self.partition = exact_partition(self.model, self.limits.n_operations)
        self.value_of_start = None
        largest, joint_gain, by_chance = self._own_distribution()
        self.reference = Reference(
            self._independent(),
            self._one_normal() if units.kind == "gaussian" else None,
            self._dependence(),
            largest,
            joint_gain,
            by_chance,
            self._parities(),
            0 if self.left_out is None else len(self.left_out),
            settings.tol or 0.0,
            self.model.n_visible,
        )

    def _can_leave_out(self, settings, X, policy):
        """Return whether the rows are enough for some to be left out."""
        enough = X.shape[0] >= policy.fewest_rows and carrier_of(X).can_take
        return enough and settings.adaptive and self.ascent is None

    def _taken(self, X, rows, settings, rng, shares):
        """Return values of some rows, or all, and their shares, None for equal ones."""
        by_blocks = not carrier_of(X).in_memory
        arrays = NUMPY if by_blocks else arrays_of(X)
        if rows is not None and shares is not None:
            shares = shares[rows] / shares[rows].sum()
        if rows is not None or by_blocks:
            X = carrier_of(X).take(np.arange(X.shape[0]) if rows is None else rows)
        X = X.toarray() if sparse.issparse(X) else X
        if settings.binarize:
            X = _drawn(arrays, X, rng)
        return arrays.astype(X, arrays.xp.float64), shares

    def _independent(self):
        """Return the log-likelihood of independent units."""
        xp, X = arrays_of(self.X).xp, self.X
        values = self.units.independent(X)
        values = xp.where(xp.isnan(X), xp.zeros_like(X), values)
        if self.shares is None:
            total = float(xp.sum(values)) / X.shape[0]
        else:
            total = mean_of(xp.sum(values, axis=1), self.shares)
        return total - self.units.log_scale

    @property
    def _n_rows(self) -> float:
        """Rows of equal weight whose means have as much noise."""
        shares = self.shares
        return self.X.shape[0] if shares is None else 1 / float(shares @ shares)

    def _dependence(self):
        """Return how many standard deviations squared correlations are above chance."""
        X, shares = self.X, self.shares
        if self.missing or not arrays_of(X).is_numpy or X.shape[1] < 2:
            return float("nan")
        deviations = X - np.average(X, axis=0, weights=shares)
        share = 1 / len(X) if shares is None else shares[:, None]
        covariances = deviations.T @ (deviations * share)
        scale = np.sqrt(np.diag(covariances))
        varies = scale > 0
        correlations = (covariances / np.outer(scale, scale).clip(1e-300))[varies]
        pairs = np.triu(correlations[:, varies], 1) ** 2
        n_pairs = varies.sum() * (varies.sum() - 1) / 2
        if not n_pairs:
            return float("nan")
        # Squares of correlations of n independent values have a mean of 1 / (n - 1).
        total = (self._n_rows - 1) * pairs.sum()
        return float((total - n_pairs) / np.sqrt(2 * n_pairs))

    def _one_normal(self):
        """Return the log-likelihood of one normal density, None for few rows."""
        xp, (n, d) = arrays_of(self.X).xp, self.X.shape
        if self.missing or n < self.limits.rows_per_column * d:
            return None
        share = 1 / n
        if self.shares is not None:
            share = arrays_of(self.X).asarray(self.shares)[:, None]
        deviations = self.X - xp.sum(self.X * share, axis=0)
        covariances = deviations.T @ (deviations * share)
        log_determinant = float(xp.linalg.slogdet(covariances)[1])
        value = -0.5 * (log_determinant + d * (np.log(2 * np.pi) + 1))
        # None also where a column is a sum of others, whose density is infinite.
        return value - self.units.log_scale if np.isfinite(value) else None

    def measure(
        self, params, draw_key, n_updates=0, chains=None
    ) -> tuple[float, float]:
        """Return the penalised mean log-likelihood and the standard error of log Z.

        Parameters
        ----------
        params : array of shape (n_parameters,)
            Parameters.
        draw_key : int
            Updates so far, which choose the draws.
        n_updates : int, default=0
            Updates since the last measure, which say what one may cost.
        chains : array or None, default=None
            States of the model, which bound log Z from below.

        Returns
        -------
        value, error : float
            Both.
        """
        rng = np.random.default_rng([self.seed, draw_key])
        if self.ascent is None:
            log_partition, error = self.partition.value(params), 0.0
        else:
            wide = params.astype(np.float64)
            log_partition, error = self.model.free_exact(wide)[0], 0.0
        self.is_exact = log_partition is not None and self.model.has_exact_posterior
        values = self._unnormalised(params, self.X, rng)
        mean = float(mean_of(values, self.shares)) - self.units.log_scale
        self.by_row = arrays_of(values).to_numpy(values) if self.is_sample else None
        if log_partition is None:
            least = mean - self.reference.largest
            if chains is not None:
                least = max(least, log_sum_over(self.model, params, chains))
            log_partition, error = self._estimated(params, least, n_updates, rng)
        value = mean - float(log_partition)
        if self.learned is None:
            return value - self.prior.value(self.model, params), error
        X, shares = self.learned
        learned = mean_of(self._unnormalised(params, X, rng), shares)
        self.of_learned = learned - self.units.log_scale - float(log_partition)
        return value, error

    def _estimated(self, params, least, n_updates, rng):
        """Return log Z and its error, by runs from independent units to the machine.

        Runs that miss modes make log Z too small. One that is less than a bound, by
        which rows were more likely than under their own distribution, or a few states
        more than all, is never returned.
        """
        share, fewest, most = self.limits.temperatures
        most = min(max(round(share * n_updates), fewest), most)
        limits = self.limits
        n_runs = int(limits.parameters_of_runs / params.shape[0])
        n_runs = min(max(n_runs, limits.fewest_runs), limits.most_runs)
        for longer in (1, 4):
            estimate = reliable_log_partition(
                self.model, params, rng, n_runs, longer * most,
                4 * longer * most,
                verbose=self.verbose, seconds=self.limits.seconds,
            )  # fmt: skip
            if estimate.value >= least - 2.0 * estimate.standard_error:
                return max(estimate.value, least), estimate.standard_error
        return least, max(estimate.standard_error, least - estimate.value)

    def _of_incomplete(self, params, X, observed, rng):
        """Return the log-likelihood plus log Z of the observed values of each row.

        Missing values are drawn from mean field, and weighted. The mean-field bound
        would not do: its gap grows with what a machine learns of how columns depend on
        each other, so that independent ones seemed best.
        """
        model, n_steps = self.model, self.n_mean_field
        means = model.posterior_mean_field(params, X, observed, n_steps).means
        numpy, logs = arrays_of(params).to_numpy, []
        limits, size = self.limits, X.shape[0] * model.n_parameters
        if not model.has_exact_posterior:
            size *= n_steps
        n_fills = int(limits.products_of_fills / size)
        for _ in range(min(max(n_fills, limits.fewest_fills), limits.most_fills)):
            drawn, log_densities = model.fill(params, X, observed, means, rng)
            if model.has_exact_posterior:
                values = model.log_unnormalised(params, drawn)
            else:
                values = model.variational_bound(params, drawn, n_steps)
            logs.append(numpy(values - log_densities))
        return logsumexp(logs, axis=0) - np.log(len(logs))

    def is_estimated(self, params) -> bool:
        """Return whether log Z is not a sum that is known to be cheap."""
        return self.ascent is None and self.partition.value(params) is None

    @property
    def _has_states(self):
        """Whether the rows are states of binary units."""
        X, binary = self.X, self.units.kind in ("binary", "spin") and not self.missing
        return binary and arrays_of(X).is_numpy and bool(np.isin(X, (0, 1)).all())

    def _parities(self):
        """Return the gain of triples of columns by their parities."""
        if self.model.n_hidden and self._has_states:
            return gain_of_parities(self.X, self.shares)
        return Parities()

    def _own_distribution(self):
        """Return the entropy bound, its gain over columns, and its sampling error.

        Twice the gain of all rows over the truth has a mean of one for each of the
        distinct ones but one (Wilks 1938), if each is there some times.
        """
        X = self.X
        if not self._has_states:
            return np.inf, np.inf, np.inf
        _, places = np.unique(X, axis=0, return_inverse=True)
        shares = np.bincount(places.ravel(), self.shares)
        shares = shares / shares.sum()
        largest = float(shares @ np.log(shares, where=shares > 0, out=0 * shares))
        means = np.average(X, axis=0, weights=self.shares)
        joint_gain = largest + float(entr([means, 1.0 - means]).sum())
        few = self.limits.rows_per_state * len(shares)
        half = 0.5 * max(len(shares) - 1, 1)
        if self._n_rows < few:
            return largest, joint_gain, np.inf
        return largest, joint_gain, (half + 3.0 * np.sqrt(half)) / self._n_rows

    def _unnormalised(self, params, X, rng):
        """Return the log-likelihood plus log Z of each row."""
        model = self.model
        if self.missing:
            filled, observed = half_filled(X)
            return self._of_incomplete(params, filled, observed, rng)
        if model.has_exact_posterior:
            return model.log_unnormalised(params, X)
        return posterior_log_sums(
            model, params, X, rng, self.limits.n_row_runs,
            self.limits.n_row_temperatures, verbose=self.verbose,
            seconds=self.limits.seconds,
        )[0]  # fmt: skip


def _drawn(arrays, X, rng):
    """Return draws of binary values from their means, NaN as it is."""
    filled, observed = half_filled(X)
    drawn = arrays.astype(operations_of(X).drawn(filled, rng), X.dtype)
    return arrays.xp.where(observed, drawn, X)
