"""Log Z of a machine: exact where it costs little enough, sampled elsewhere."""

from __future__ import annotations

import warnings

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.ais import AISResult, reliable_log_partition
from sktem.boltzmann.calls import users_frame
from sktem.boltzmann.elimination import plan_elimination
from sktem.exceptions import FitWarning

__all__ = ["ExactPartition", "LogPartition"]

#: What an exact log Z may cost without being asked for: about a second.
OPERATIONS = 3e8
#: Annealed importance sampling where it is not: runs, temperatures at first and at
#: most, and the effective sample size, as a share of the runs, below which it warns.
RUNS = 100
TEMPERATURES = (1000, 4000)
TRUSTED_SHARE = 0.25

#: The largest separator whose table is still moderate in memory.
LARGEST_WIDTH = 22
#: A table entry takes at least so many operations.
PER_ENTRY = 4.0


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
        self.model = model
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
        if not arrays_of(params).is_numpy or self._too_wide():
            return None
        graph, biases, weights, constant = self.model.as_graph(params)
        if not self.looked:
            self.plan = self._find(graph)
            self.looked = True
        if self.plan is None:
            return None
        return self.plan.log_sum(biases, weights) + constant

    def _find(self, graph):
        limit = self.n_operations
        plan = plan_elimination(graph, LARGEST_WIDTH, limit / PER_ENTRY)
        return None if plan is None or plan.n_operations > limit else plan

    def _too_wide(self):
        """Return whether layers are too wide, without looking for a plan."""
        sizes = getattr(self.model, "sizes", None)
        if sizes is None:
            return False
        if self.model.gaussian:
            # Integrated out, the visible units join all units of the first layer.
            width, steps = sizes[1] - 1, 1.0
        else:
            pairs = zip(sizes, sizes[1:], strict=False)
            width, steps = max((min(pair), float(max(pair))) for pair in pairs)
        entries = steps * 2.0 ** min(width, 2 * LARGEST_WIDTH)
        return width > LARGEST_WIDTH or PER_ENTRY * entries > self.n_operations


class LogPartition:
    """Log Z of a machine: exact where that is cheap, sampled elsewhere, remembered.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    """

    def __init__(self, model):
        self.model = model
        self.plans = {
            "exact": ExactPartition(model),
            "auto": ExactPartition(model, OPERATIONS),
        }
        self.known = None

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
        return None if value is None else AISResult(value, 0.0, np.inf, 0, 0)

    def find(self, model, params, rng) -> AISResult:
        """Return log Z of parameters, found once.

        Parameters
        ----------
        model : BoltzmannModel
            The machine, with its threads.
        params : ndarray of shape (n_parameters,)
            Parameters.
        rng : callable
            Returns the source of randomness.

        Returns
        -------
        AISResult
            The value.
        """
        if self.known is not None:
            of, found = self.known
            if bool(arrays_of(params).xp.all(of == params)):
                return found
        found = self.exact(params)
        if found is None:
            found = reliable_log_partition(model, params, rng(), RUNS, *TEMPERATURES)
            _warn_of_few(found)
        self.known = arrays_of(params).copy(params), found
        return found


def _warn_of_few(found):
    """Warn if few runs carry an estimate of log Z."""
    if found.effective_sample_size >= TRUSTED_SHARE * found.n_runs:
        return
    warnings.warn(
        f"The estimate of log Z, {found.value:.6g}, rests on "
        f"{found.effective_sample_size:.1f} of {found.n_runs} runs of annealed "
        f"importance sampling with {found.n_temperatures} temperatures, so that "
        f"its standard error of {found.standard_error:.2g} is likely to be too "
        "small and log-likelihoods too high. Pass the value of a longer run of "
        "log_partition as log_partition.",
        FitWarning,
        stacklevel=users_frame(),
    )
