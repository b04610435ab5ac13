"""The record of a run: data, never prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["History"]


@dataclass
class History:
    """Record of a run, one entry per epoch.

    A list is empty if the fits of an estimator have no such quantity.

    Attributes
    ----------
    solver, sampler : str
        The solver and the sampler, by name if they have one; empty for Boltzmann
        machines.
    passes : list of float
        Number of row visits so far, divided by the number of rows. The initial pass,
        the anchor passes of vrTTEM and the second index set of fitTEM are counted.
    monitor_passes : list of float
        The same for visits that measure progress (objective and mean field).
    n_iterations : list of int
        Number of iterations (M-steps) so far.
    step_size : list of float
        Step gamma of the last iteration of the epoch.
    objective : list of float
        Mean log-likelihood per row, less the penalty if the model has one. If it comes
        from a full pass with exact expectations (EM, the anchors of vrTTEM), it is over
        all rows, at the parameters of that pass. Otherwise it is over a fixed sample of
        rows, at the end of the epoch (2,000 rows, or a twentieth of all rows if that is
        more), and over all rows once the run seems to have converged. NaN if the model
        has no likelihood.
    mean_field : list of float
        Estimate of ``||s_bar(theta(s)) - s||^2`` at the same parameters, the measure of
        convergence of Karimi and Li (Theorems 1 to 3). On a sample of the rows, or with
        draws, the unbiased estimate can be negative if the square is small relative to
        the noise; it is then set to 0.
    of_sample : list of bool
        Whether these two are over a sample of the rows. Values of a sample and of all
        rows differ by the noise of the sample, even if nothing has changed.
    gradient_norm : list of float
        Norm of the gradient at the last iteration of the epoch, for Boltzmann
        machines.
    acceptance_rate : list of float
        Mean acceptance rate of the Markov transitions, NaN for exact samplers. If the
        length of moves is learned, it is that of the chains that have moved before.
    bias : list of float
        How far a biased Markov transition is from one that leaves the target invariant,
        see :class:`sktem.samplers.ULA`; NaN for others.
    cpu_time : list of float
        Process CPU seconds since the start.
    events : collections.Counter
        How often a numerical problem was repaired: ``"infeasible"`` (proxies that no
        data can produce, replaced for that step), ``"degenerate"`` (parts of the
        parameters that were floored or frozen in M-steps) and the events of samplers.
        On a Dask cluster also ``"lost workers"`` and ``"new workers"``, as seen between
        two visits of the rows.
    """

    solver: str = ""
    sampler: str = ""
    passes: list[float] = field(default_factory=list)
    monitor_passes: list[float] = field(default_factory=list)
    n_iterations: list[int] = field(default_factory=list)
    step_size: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    mean_field: list[float] = field(default_factory=list)
    of_sample: list[bool] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    acceptance_rate: list[float] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)
    cpu_time: list[float] = field(default_factory=list)
    events: Counter = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.passes)

    def append(self, **values: float) -> None:
        """Add one epoch.

        Parameters
        ----------
        **values : float
            One value for each list.
        """
        for name, value in values.items():
            getattr(self, name).append(value)
