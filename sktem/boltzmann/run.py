"""A fit of a Boltzmann machine: the parts that stay the same, and the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sktem.boltzmann.learning.loop import run_epochs
from sktem.boltzmann.learning.objective import Objective
from sktem.boltzmann.learning.state import ContrastiveSettings
from sktem.boltzmann.units import VisibleUnits

__all__ = ["MachineFit"]


@dataclass(frozen=True)
class MachineFit:
    """Fixed parts of a fit.

    Attributes
    ----------
    settings : ContrastiveSettings
        Settings of the run.
    units : VisibleUnits
        The visible units.
    inputs : array or sparse matrix of shape (n_rows, n_visible)
        Visible values.
    n_mean_field : int
        Mean-field iterations of the bound that is watched where values are missing.
    shares : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows, whose sum is 1.
    verbose : int, default=0
        Whether measurements of the likelihood print how far they are.
    is_warm : bool, default=False
        Whether the start is that of a fit before.
    """

    settings: ContrastiveSettings
    units: VisibleUnits
    inputs: Any
    n_mean_field: int
    shares: Any = None
    verbose: int = 0
    is_warm: bool = False

    def run(self, state, on_epoch) -> None:
        """Run the loop from a state, which is changed."""
        watch = self._watch(state)
        run_epochs(self.settings, self.inputs, state, on_epoch, watch, self.shares)

    def _watch(self, state):
        """Return the measure of the likelihood, or None."""
        settings = self.settings
        if settings.tol is None or not settings.n_epochs:
            return None
        rounds = state.rounds
        if rounds.seed is None:
            rounds.seed = int(state.generators.monitoring.integers(2**63))
        watch = Objective(
            settings, self.units, self.inputs, rounds.seed, self.n_mean_field,
            self.shares, self.verbose, rounds.policy,
        )  # fmt: skip
        if not self.is_warm and watch.is_estimated(state.params):
            # Small random weights: independent units, nearly.
            watch.value_of_start = watch.base
        return watch
