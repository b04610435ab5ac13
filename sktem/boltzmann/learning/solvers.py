"""Contrastive solvers: which expectations, averaged or not, which negative chains."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.choices import KnownParametersMixin, check_choice, check_number, is_auto
from sktem.links import DocumentationLinkMixin

__all__ = [
    "CONTRASTIVE_SOLVERS",
    "ContrastiveSolver",
    "SolverRule",
    "StepRule",
    "as_solver",
]


class SolverRule(NamedTuple):
    """Learning rule of a Boltzmann machine.

    Attributes
    ----------
    e_step : {"auto", "mean_field", "hybrid"}
        Expectations under the posterior; "auto" is exact where that is cheap and Gibbs
        elsewhere.
    averages : bool
        Whether posterior statistics are averaged over iterations with the step a_t,
        (7) of Jang et al., or belong to the batch alone.
    persistent : bool
        Whether the chains of the model persist from update to update; otherwise they
        start from the posterior of the batch.
    """

    e_step: str
    averages: bool
    persistent: bool


#: Solvers by the name that the estimator accepts. A solver is added by one line.
CONTRASTIVE_SOLVERS = {
    "apcd": SolverRule("auto", averages=True, persistent=True),
    "hapcd": SolverRule("hybrid", averages=True, persistent=True),
    "mfpcd": SolverRule("mean_field", averages=False, persistent=True),
    "pcd": SolverRule("auto", averages=False, persistent=True),
    "cd": SolverRule("auto", averages=False, persistent=False),
}


class ContrastiveSolver(DocumentationLinkMixin, KnownParametersMixin):
    """Solver of :class:`LatentBoltzmannMachine` with options for its updates.

    In a parameter search the names are ``solver__momentum`` and so on, provided that
    the solver is an instance of this class.

    Parameters
    ----------
    name : {"apcd", "hapcd", "mfpcd", "pcd", "cd"}, default="apcd"
        The solver, see :class:`LatentBoltzmannMachine`.
    momentum : float or "auto", default="auto"
        Weight of the past in the average of the gradient, in [0, 1). "auto" is 0.9 with
        adapted steps and 0 with given ones.
    averaging : bool, default=False
        Whether the result is an average of the parameters over about the last tenth of
        the updates, which removes the noise of the steps. This is worth several nats
        with long steps, and the steps may stay long. Only with given steps; adapted
        ones are short at the end.
    rao_blackwell : bool, default=True
        Whether to use conditional expectations in place of the last draws (of each unit
        given the others on a graph, of every second layer in a layered machine). The
        result has the same mean and less noise.

    References
    ----------
    H. Jang, H. Choi, Y. Yi and J. Shin, Adiabatic Persistent Contrastive Divergence
    Learning, 2016, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import ContrastiveSolver, LatentBoltzmannMachine
    >>> X = np.repeat([[0, 0, 1], [1, 1, 0]], 50, axis=0)
    >>> solver = ContrastiveSolver("pcd", momentum=0.5, averaging=True)
    >>> machine = LatentBoltzmannMachine(
    ...     hidden_layer_sizes=2, solver=solver, step_size_m=0.3, tol=None,
    ...     max_iter=100, random_state=0,
    ... )
    >>> machine.fit(X).score(X) > -1
    True
    """

    def __init__(
        self, name="apcd", *, momentum="auto", averaging=False, rao_blackwell=True
    ):
        self.name = name
        self.momentum = momentum
        self.averaging = averaging
        self.rao_blackwell = rao_blackwell


def as_solver(solver) -> ContrastiveSolver:
    """Return the solver that a parameter means, checked."""
    if not isinstance(solver, ContrastiveSolver):
        other = " or a ContrastiveSolver"
        return ContrastiveSolver(
            check_choice("solver", solver, CONTRASTIVE_SOLVERS, other)
        )
    check_choice("name of the solver", solver.name, CONTRASTIVE_SOLVERS)
    if not is_auto(solver.momentum):
        check_number("momentum", solver.momentum, Real, 0)
        if solver.momentum >= 1:
            raise ValueError(f"momentum must be below 1, got {solver.momentum!r}")
    for name in ("averaging", "rao_blackwell"):
        if not isinstance(getattr(solver, name), (bool, np.bool_)):
            raise ValueError(f"{name} must be a bool, got {getattr(solver, name)!r}")
    return solver


class StepRule:
    """Step of an update from a number, a pair or a schedule.

    Parameters
    ----------
    step_size : float, pair of float or callable
        A constant; a step that goes linearly from the first epoch of the run to the
        last; or a function of the index of the update, counted from 1, such as a
        schedule.
    name : str
        Its name in errors.
    largest : float
        Bound of the steps.
    """

    def __init__(self, step_size, name, largest):
        if callable(step_size):
            self.schedule, values = step_size, [step_size(1)]
        else:
            is_pair = isinstance(step_size, (tuple, list)) and len(step_size) == 2
            values = list(step_size) if is_pair else [step_size]
            self.schedule = None
            self.start, self.stop = values[0], values[-1]
        for value in values:
            # NumPy's numbers are Reals as well; booleans are, and are not meant.
            right = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
            if not right or not 0 < value <= largest or not np.isfinite(value):
                bounds = f"in (0, {largest:g}]" if np.isfinite(largest) else "positive"
                raise ValueError(
                    f"{name} must be 'auto', a number, a pair of numbers or a schedule,"
                    f" all {bounds} and finite, got {step_size!r}"
                )

    def __call__(self, update, fraction):
        """Return the step."""
        if self.schedule is not None:
            return float(self.schedule(update))
        return float(self.start + (self.stop - self.start) * fraction)
