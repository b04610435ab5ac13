"""Log Z of a machine: exact where it costs little enough, sampled elsewhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.boltzmann.machines.layer_sums import OddEnumeration
from sktem.boltzmann.normalisation.ais import AISResult, annealed_importance_sampling
from sktem.boltzmann.normalisation.brackets import (
    PartitionBracket,
    bracket_log_partition,
)
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning

__all__ = [
    "METHODS",
    "ExactPartition",
    "LogPartition",
    "PartitionPolicy",
    "exact_partition",
]

#: Ways to log Z.
METHODS = ("auto", "exact", "ais", "bracket")


class ExactPartition:
    """Sums over all states of a machine by elimination, if they are cheap.

    The order of elimination is looked for once; it depends on the graph alone.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    n_operations : float, default=inf
        Operations on table entries that a sum may cost, about 3 ns each.
    """

    def __init__(self, model, n_operations=float("inf")):
        self.model, self.limits = model, model.limits
        self.n_operations = n_operations
        self.plan = None
        self.looked = False

    def value(self, params):
        """Return log Z, None where it would cost too much.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        float or None
            The sum.
        """
        plan = self._plan_of(params)
        if plan is None:
            return None
        _, biases, weights, constant = self.model.as_graph(params)
        return plan.log_sum(biases, weights) + constant

    def draw(self, params, n, rng):
        """Return chains that are independent and exact draws, None where too costly.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        n : int
            Number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray or None
            Chains.
        """
        plan = self._plan_of(params)
        if plan is None or plan.n_entries > self.limits.drawn_entries:
            return None
        _, biases, weights, _ = self.model.as_graph(params)
        units = plan.draw(biases[:, None], weights, rng, n_draws=n)
        return self.model.chains_of(units)

    def moments(self, params):
        """Return the mean statistics under the model, None where they are too costly.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        ndarray of shape (n_parameters,) or None
            Means of units and of products of joined units.
        """
        plan = self._plan_of(params)
        if plan is None or plan.n_entries > self.limits.drawn_entries:
            return None
        _, biases, weights, _ = self.model.as_graph(params)
        _, units, pairs = plan.marginals(biases[:, None], weights)
        return self.model.statistics_of(units[:, 0], pairs)

    def conditional(self, params, X, observed, rng=None):
        """Return exact draws of the visible units given the observed ones, or means.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        X, observed : ndarray of shape (n, n_visible)
            Visible values, and which are observed.
        rng : numpy.random.Generator or None, default=None
            Source of randomness of draws, None for means.

        Returns
        -------
        ndarray of shape (n, n_visible) or None
            Visible units; None where it is too costly, or where a value that is
            observed is not 0 or 1.
        """
        clamped = self._clamped(params, X, observed)
        if clamped is None:
            return None
        plan, fields, weights = clamped
        if rng is None:
            units = plan.marginals(fields, weights)[1]
        else:
            units = plan.draw(fields, weights, rng)
        return units[self.model.visible].T

    def _clamped(self, params, X, observed):
        """Return plan, fields and weights with observed units held by their fields."""
        plan = None if self.model.gaussian else self._plan_of(params)
        if plan is None or plan.n_entries * max(len(X), 8) > self.limits.given_entries:
            return None
        if not np.isin(X[observed], (0.0, 1.0)).all():
            return None
        graph, biases, weights, _ = self.model.as_graph(params)
        size = np.abs(weights)
        total = np.bincount(graph.first, size, graph.n_units)
        total += np.bincount(graph.second, size, graph.n_units)
        # No neighbour can draw a unit away from its value but once in exp(50) times.
        hold = 50.0 + float(np.max(total + np.abs(biases)))
        fields = np.repeat(biases[:, None], len(X), axis=1)
        fields[self.model.visible] += np.where(observed, hold * (2.0 * X - 1.0), 0.0).T
        return plan, fields, weights

    def _plan_of(self, params):
        """Return the plan, None where there is none that is cheap enough."""
        if not arrays_of(params).is_numpy or self._too_wide():
            return None
        if not self.looked:
            limit, limits = self.n_operations, self.limits
            graph = self.model.as_graph(params)[0]
            plan = plan_elimination(graph, limits.width, limit / limits.per_entry)
            cheap = plan is not None and plan.n_operations <= limit
            self.plan = plan if cheap else None
            self.looked = True
        return self.plan

    def _too_wide(self):
        """Return whether layers are too wide, without looking for a plan."""
        if self.model.elimination_bounds is None:
            return False
        width, steps = self.model.elimination_bounds
        limits = self.limits
        entries = steps * 2.0 ** min(width, 2 * limits.width)
        return width > limits.width or limits.per_entry * entries > self.n_operations


def exact_partition(model, n_operations=float("inf")):
    """Return the exact sums of a machine: by elimination, or by enumeration.

    Machines with visible units of several kinds are no pairwise models of binary units.
    """
    kind = ExactPartition if model.is_pairwise else OddEnumeration
    return kind(model, n_operations)


class PartitionPolicy(NamedTuple):
    """Cost of log Z where no size of its estimate is given.

    Attributes
    ----------
    n_operations : float
        Operations of an exact log Z that is not asked for: about a second.
    n_runs : int
        Runs of annealed importance sampling where it is not exact.
    n_temperatures, most_temperatures : int
        Their temperatures at first and at most.
    """

    n_operations: float = 3e8
    n_runs: int = 100
    n_temperatures: int = 1000
    most_temperatures: int = 4000


class LogPartition:
    """Log Z of a machine: exact where that is cheap, sampled elsewhere, remembered.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    policy : PartitionPolicy or None, default=None
        What it may cost; None means the defaults.
    """

    def __init__(self, model, policy=None):
        self.model = model
        self.policy = policy = policy or PartitionPolicy()
        self.plans = {
            "exact": exact_partition(model),
            "auto": exact_partition(model, policy.n_operations),
        }
        self.known: dict = {}

    def exact(self, params, method="auto"):
        """Return the exact value, None where it would cost too much.

        Parameters
        ----------
        params : ndarray of shape (n_parameters,)
            Parameters.
        method : {"auto", "exact"}, default="auto"
            Whether it may cost about a second, or as much as it takes.

        Returns
        -------
        AISResult or None
            The value, without error.
        """
        value = self.plans[method].value(params)
        if value is None and method == "exact":
            raise ValueError(
                "the treewidth of the machine is too large for method='exact': use "
                "'ais' or 'bracket'"
                if arrays_of(params).is_numpy
                else "method='exact' needs a machine fitted to NumPy arrays: use "
                "'ais' or 'bracket'"
            )
        return None if value is None else AISResult(value, 0.0, np.inf, 0, 0)

    def estimate(self, fitted, rng, method, n_runs, n_temperatures, schedule, verbose):
        """Return log Z, by runs of a given length where it is not exact.

        Parameters
        ----------
        fitted : FittedMachine
            The machine.
        rng : numpy.random.Generator
            Source of randomness.
        method : str
            One of `METHODS`.
        n_runs, n_temperatures : int
            Size of the estimate.
        schedule : str or array-like
            How the inverse temperatures lie.
        verbose : int
            Whether to print how far the runs are.

        Returns
        -------
        AISResult or PartitionBracket
            The value.
        """
        model, params = fitted.model, fitted.params
        if method in ("auto", "exact"):
            exact = self.exact(params, method)
            if exact is not None:
                return exact
        if method == "ais":
            estimate = annealed_importance_sampling(
                model, params, rng, n_runs, n_temperatures, schedule, verbose=verbose
            )
            _warn_of_few(estimate)
            return estimate
        chains = fitted.new_chains(n_runs, None, rng)
        estimate = bracket_log_partition(
            model, params, chains, rng, n_runs, n_temperatures, schedule,
            verbose=verbose,
        )  # fmt: skip
        _warn_of_doubt(estimate)
        return estimate

    def find(self, fitted, rng, method, verbose):
        """Return log Z of parameters, cached.

        Parameters
        ----------
        fitted : FittedMachine
            The machine.
        rng : callable
            Returns the source of randomness.
        method : str
            One of `METHODS`.
        verbose : int
            Whether to print how far runs are.

        Returns
        -------
        AISResult or PartitionBracket
            The value.
        """
        params = fitted.params
        if method in self.known:
            of, estimate = self.known[method]
            if bool(arrays_of(params).xp.all(of == params)):
                return estimate
        estimate = self.exact(params, method) if method in ("auto", "exact") else None
        if estimate is None:
            estimate = self._sampled(fitted, rng, method, verbose)
        self.known[method] = arrays_of(params).copy(params), estimate
        return estimate

    def _sampled(self, fitted, rng, method, verbose):
        """Return log Z by runs, of "auto" longer ones where the first are in doubt."""
        n_runs, policy = self.policy.n_runs, self.policy
        if method == "auto":
            chains = fitted.new_chains(n_runs, None, rng())
            bracket = bracket_log_partition(
                fitted.model, fitted.params, chains, rng(), n_runs,
                policy.n_temperatures, verbose=verbose,
            )  # fmt: skip
            if not bracket.doubt:
                return bracket
        longest = policy.most_temperatures
        return self.estimate(
            fitted, rng(), method, n_runs, longest, "adaptive", verbose
        )


def _warn_of_few(estimate):
    """Warn if few runs carry an estimate of log Z."""
    trusted = PartitionBracket.rule.trusted_share * estimate.n_runs
    if estimate.effective_sample_size >= trusted:
        return
    warn_user(
        f"The estimate of log Z, {estimate.value:.6g}, rests on "
        f"{estimate.effective_sample_size:.1f} of {estimate.n_runs} runs of annealed "
        f"importance sampling with {estimate.n_temperatures} temperatures, so that "
        f"its standard error of {estimate.standard_error:.2g} is likely to be too "
        "small and log-likelihoods too high. Use method='bracket', which says whether "
        "both ends agree, or more n_temperatures.",
        FitWarning,
    )


def _warn_of_doubt(bracket: PartitionBracket):
    """Warn if the ends of a bracket disagree, or rest on few runs."""
    if not bracket.doubt:
        return
    forward, reverse = bracket.forward, bracket.reverse
    warn_user(
        f"log Z is uncertain: {forward.value:.6g} +- {forward.standard_error:.2g} from "
        f"independent units, {reverse.value:.6g} +- {reverse.standard_error:.2g} from "
        f"states of the machine: {bracket.doubt}.",
        FitWarning,
    )
