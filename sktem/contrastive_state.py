"""What the contrastive loop runs on: its settings and its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sktem.history import History
from sktem.models.boltzmann import BoltzmannModel
from sktem.random import Streams
from sktem.solvers.contrastive import ContrastiveSolver, StepRule

__all__ = ["ContrastiveSettings", "ContrastiveState"]


@dataclass(frozen=True)
class ContrastiveSettings:
    """What does not change in a run.

    Attributes
    ----------
    model : BoltzmannModel
        The model.
    solver : ContrastiveSolver
        The solver.
    posterior : object
        Expectations, a class of :mod:`sktem.samplers.gibbs`.
    step_size_e, step_size_m : StepRule
        The steps a_t and b_t.
    batch_size, n_epochs, n_pretrain : int
        Rows per update, passes over the data, and those of pretraining.
    n_chains, n_chains_e : int
        Chains of the model, and posterior chains per row.
    n_gibbs_e, n_gibbs_m : int
        Transitions of posterior chains and of chains of the model.
    momentum, weight_decay : float
        Of the parameter updates.
    centering : bool
        Whether updates are about the mean of each unit.
    rao_blackwell, binarize : bool
        Conditional means in place of draws; draw the visible values at each visit.
    """

    model: BoltzmannModel
    solver: ContrastiveSolver
    posterior: Any
    step_size_e: StepRule
    step_size_m: StepRule
    batch_size: int
    n_epochs: int
    n_pretrain: int
    n_chains: int
    n_chains_e: int
    n_gibbs_e: int
    n_gibbs_m: int
    momentum: float
    weight_decay: float
    centering: bool
    rao_blackwell: bool
    binarize: bool


@dataclass
class ContrastiveState:
    """What changes in a run; it can be pickled between epochs.

    Attributes
    ----------
    params : ndarray of shape (n_parameters,)
        Parameters theta.
    streams : Streams
        Sources of randomness.
    chains : ndarray or None
        Chains of the model.
    posterior_chains : ndarray of uint8 or None
        Bits of the chains of each row, (n_rows, n_chains_e, n_bytes).
    started : ndarray of bool or None
        Which rows have chains.
    mean : ndarray or None
        Averaged posterior statistics.
    centre : ndarray or None
        Moving averages of the posterior means of the units.
    velocity : ndarray or None
        Momentum of the parameters.
    n_updates, epoch : int
        Updates and epochs so far.
    finished : ndarray or None
        Parameters at the end of the last finished epoch.
    interrupted : bool
        Whether the user interrupted the run.
    cpu_time : float
        Process CPU seconds so far.
    gap : float
        Squared norm of the last gradient.
    reach : float
        No parameter is larger in absolute value.
    history : History
        The record of the run.
    """

    params: np.ndarray
    streams: Streams
    chains: np.ndarray | None = None
    posterior_chains: np.ndarray | None = None
    started: np.ndarray | None = None
    mean: np.ndarray | None = None
    centre: np.ndarray | None = None
    velocity: np.ndarray | None = None
    n_updates: int = 0
    epoch: int = 0
    finished: np.ndarray | None = None
    interrupted: bool = False
    cpu_time: float = 0.0
    gap: float = float("nan")
    reach: float = float("inf")
    history: History = field(default_factory=History)
