"""Settings and state of the contrastive loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.rounds import Rounds
from sktem.boltzmann.learning.solvers import SolverRule, StepRule
from sktem.boltzmann.learning.steps import AdaptedSteps
from sktem.boltzmann.learning.tempering import Replicas
from sktem.boltzmann.machines.model import BoltzmannModel
from sktem.e_step.random import Generators
from sktem.history import History

__all__ = ["ContrastiveSettings", "ContrastiveState", "RowChains", "StepMemory"]


@dataclass(frozen=True)
class ContrastiveSettings:
    """Settings of a run.

    Attributes
    ----------
    model : BoltzmannModel
        The model.
    solver : SolverRule
        The solver.
    posterior : object
        Expectations, a class of :mod:`sktem.boltzmann.learning.e_steps`.
    step_size_e, step_size_m : StepRule
        The steps a_t and b_t.
    batch_size, n_epochs : int
        Rows per update, and passes over the data.
    by_cost : bool
        Whether there are fewer passes where updates cost more.
    n_chains, n_chains_e, n_replicas : int
        Chains of the model, posterior chains per row, and temperatures of the former,
        None for as many as they need to mix.
    n_gibbs_e, n_gibbs_m : int
        Transitions of posterior chains and of chains of the model.
    momentum : float
        Of the parameter updates.
    prior : Prior
        The prior of the parameters.
    adaptive : bool
        Whether the entries of a step are adapted to the size of the gradient's.
    tol : float or None
        Rise of the likelihood that is not worth another round, None if not watched.
    centering : bool
        Whether updates are about the mean of each unit.
    averaging : bool
        Whether the result is an average of the parameters after each update.
    rao_blackwell, binarize : bool
        Conditional means in place of draws; draw the visible values at each visit.
    sums : bool, default=False
        Whether expectations under the model are sums over its states, of which chains
        are draws alone.
    centre_rate : float, default=0.01
        Share of a batch in the moving averages of the means of the units, at least.
    steps : AdaptedSteps
        How the entries of a step are adapted.
    power_of_average : int, default=8
        The weight of a parameter in the average rises with that power of the number of
        its update: about the last tenth of them counts.
    """

    model: BoltzmannModel
    solver: SolverRule
    posterior: Any
    step_size_e: StepRule
    step_size_m: StepRule
    batch_size: int
    n_epochs: int
    by_cost: bool
    n_chains: int
    n_chains_e: int
    n_replicas: int | None
    n_gibbs_e: int
    n_gibbs_m: int
    momentum: float
    prior: Prior
    adaptive: bool
    tol: float | None
    centering: bool
    averaging: bool
    rao_blackwell: bool
    binarize: bool
    sums: bool = False
    centre_rate: float = 0.01
    steps: AdaptedSteps = AdaptedSteps()
    power_of_average: int = 8


@dataclass
class StepMemory:
    """Memory of the steps of the parameters.

    Attributes
    ----------
    average : array or None
        Average of the parameters, with more weight on the later ones.
    n_averaged : int
        Updates in it.
    velocity : array or None
        Momentum of the parameters, with given steps.
    first, second : array or None
        Averages of the gradient and of its square, with adapted steps.
    n_moments : int
        Updates in these averages.
    gap : float
        Squared norm of the last difference of the statistics.
    reach : float
        No parameter is larger in absolute value.
    """

    average: Any = None
    n_averaged: int = 0
    velocity: Any = None
    first: Any = None
    second: Any = None
    n_moments: int = 0
    gap: float = float("nan")
    reach: float = float("inf")


@dataclass
class RowChains:
    """Posterior chains of the rows.

    Attributes
    ----------
    packed : array of uint8 or None
        Bits of the chains of each row, (n_rows, n_chains_e, n_bytes).
    started : ndarray of bool or None
        Which rows have chains.
    """

    packed: Any = None
    started: np.ndarray | None = None


@dataclass
class ContrastiveState:
    """State of a run; it can be pickled between epochs.

    Attributes
    ----------
    params : ndarray of shape (n_parameters,)
        Parameters theta.
    generators : Generators
        Sources of randomness.
    chains : ndarray or None
        Chains of the model.
    replicas : Replicas or None
        Warmer replicas of the chains of the model.
    row_chains : RowChains
        Posterior chains of the rows.
    mean : ndarray or None
        Averaged posterior statistics.
    centre : ndarray or None
        Moving averages of the posterior means of the units.
    steps : StepMemory
        What the steps of the parameters remember.
    n_updates, epoch : int
        Updates and epochs so far.
    rounds : Rounds
        The measured log-likelihoods, and what they decide.
    stopped : bool
        Whether a callback stopped the run.
    interrupted : BaseException or None
        What interrupted the run: Ctrl-C, or rows that could no longer be read.
    cpu_time : float
        Process CPU seconds so far.
    history : History
        The record of the run.
    """

    params: np.ndarray
    generators: Generators
    chains: np.ndarray | None = None
    replicas: Replicas | None = None
    row_chains: RowChains = field(default_factory=RowChains)
    mean: np.ndarray | None = None
    centre: np.ndarray | None = None
    steps: StepMemory = field(default_factory=StepMemory)
    n_updates: int = 0
    epoch: int = 0
    rounds: Rounds = field(default_factory=Rounds)
    stopped: bool = False
    interrupted: BaseException | None = None
    cpu_time: float = 0.0
    history: History = field(default_factory=History)

    @property
    def estimate(self) -> np.ndarray:
        """The average of the parameters, or these themselves where there is none."""
        return self.params if self.steps.average is None else self.steps.average

    @property
    def converged(self) -> bool:
        """Whether the run has converged."""
        return self.rounds.converged

    def move_to(self, params, chains=None) -> None:
        """Take other parameters, and chains, for which averages of gradients begin."""
        self.params[...] = params
        self.steps.first = self.steps.second = None
        self.steps.reach = float("inf")
        if chains is not None and self.chains is not None:
            self.chains[...] = chains

    def mapped(self, function) -> ContrastiveState:
        """Return the state with a function of each array on the device of the data."""
        return replace(
            _mapped(self, ("params", "chains", "mean", "centre"), function),
            steps=_mapped(
                self.steps, ("average", "velocity", "first", "second"), function
            ),
            row_chains=_mapped(self.row_chains, ("packed",), function),
        )


def _mapped(record, names, function):
    """Apply a function to the named array fields of a record."""
    values = {name: getattr(record, name) for name in names}
    return replace(
        record, **{k: function(v) for k, v in values.items() if v is not None}
    )
