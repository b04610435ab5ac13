"""A fit of a Boltzmann machine: the loop, and warnings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sktem.boltzmann.calls import users_frame
from sktem.boltzmann.loop import run_epochs
from sktem.boltzmann.objective import Objective
from sktem.boltzmann.state import ContrastiveSettings
from sktem.boltzmann.units import VisibleUnits
from sktem.exceptions import FitWarning

__all__ = ["MachineFit", "warn_of_events", "warn_of_fit", "warn_of_small_weights"]

#: How far below one normal density Gaussian units may end, as a share of what that is
#: above independent columns, and in nats for each column.
FAR = 0.1
FAR_BY_COLUMN = 0.02


#: Mean weight of the rows below which they are hardly meant as numbers of rows.
SMALL_WEIGHT = 0.1


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
            self.shares, self.verbose,
        )  # fmt: skip
        if not self.is_warm and watch.is_estimated(state.params):
            # Small random weights: independent units, nearly.
            watch.value_of_start = watch.base
        return watch


def warn_of_fit(settings, state, n_rows) -> None:
    """Warn of likelihoods that are too low or still rise, of chance, and of events."""
    if settings.tol is not None and settings.n_epochs:
        values = [measure.value for measure in state.rounds.measures]
        best = max(values) if settings.adaptive else values[-1]
        # The log-likelihood alone.
        best += settings.weight_decay * settings.model.penalty(state.estimate)
        chance = _chance(settings, state, best, n_rows)
        _warn_of_likelihood(settings, state, best, chance)
        # The maximum under a prior gains less by chance than without one.
        if state.converged and chance is not None and not settings.weight_decay:
            warnings.warn(chance, FitWarning, stacklevel=users_frame())
    warn_of_events(state.history.events)


def _chance(settings, state, best, n_rows):
    """Return what to say if so many parameters gain as much on independent units.

    Of many rows, twice their gain has a mean of one for each parameter (Wilks 1938).
    """
    gain = n_rows * (best - state.rounds.base)
    n_more = len(state.params) - settings.model.n_visible
    if not 0 < gain < n_more / 2:
        return None
    decay = settings.weight_decay
    stronger = (
        f"more weight_decay (now {decay:.1g})" if decay else "weight_decay='auto'"
    )
    return (
        f"On these {n_rows:.0f} rows the machine gains {gain:.3g} nats over "
        f"independent units, where {n_more} more parameters can gain about "
        f"{n_more / 2:.3g} by chance: new rows may be less likely than under "
        f"independent units. Compare the score of rows left out, and use {stronger}, "
        "fewer hidden units, or more rows."
    )


def _warn_of_likelihood(settings, state, best, chance):
    """Warn if the likelihood is too low, or still rises, which may be by chance."""
    if state.rounds.has_fallen(best):
        warnings.warn(
            f"The log-likelihood after the fit, {best:.4g} per row, is below "
            f"that of independent units, {state.rounds.base:.4g}: the steps are too "
            "long. Decrease step_size_m or momentum, or leave both at 'auto'.",
            FitWarning,
            stacklevel=users_frame(),
        )
    elif not state.converged and state.epoch - state.begin >= settings.n_epochs:
        last = "round" if settings.adaptive else "half of the epochs"
        advice = "Increase max_iter, or tol to accept it."
        if chance is not None:
            advice = f"{advice} But more epochs may fit noise alone. {chance}"
        warnings.warn(
            f"The fit has not converged after {settings.n_epochs} epochs: the last "
            f"{last} changed the log-likelihood by {state.rounds.rise:.3g} per "
            f"row and left it at {best:.4g} ({state.rounds.base:.4g} for independent "
            f"units). {advice}",
            ConvergenceWarning,
            stacklevel=users_frame(),
        )
    elif state.rounds.normal is not None and state.rounds.normal - best > max(
        FAR * (state.rounds.normal - state.rounds.base),
        FAR_BY_COLUMN * settings.model.n_visible,
    ):
        warnings.warn(
            f"The log-likelihood after the fit, {best:.4g} per row, is below that "
            f"of one normal density with all covariances, {state.rounds.normal:.4g}: "
            "few binary units are a poor model of strong linear correlations. Whiten "
            "the columns first, as PCA(whiten=True) does, or add hidden units.",
            FitWarning,
            stacklevel=users_frame(),
        )


def warn_of_events(events) -> None:
    """Warn if parameters have run away."""
    if events["diverged"]:
        warnings.warn(
            f"The parameters ran away {events['diverged']} times and were held at "
            "+-1000 (see history_.events): the steps are too long. Decrease "
            "step_size_m.",
            FitWarning,
            stacklevel=users_frame(),
        )


def warn_of_small_weights(n_rows, mass) -> None:
    """Warn if weights, such as shares, make many rows count as few to the prior."""
    if n_rows > 1 and mass < SMALL_WEIGHT * n_rows:
        warnings.warn(
            f"The weights of {n_rows} rows add up to {mass:.3g}, and as so many rows "
            "they count to the prior of the machine's weights, which may hold these "
            "back too much. Pass weights that are about 1 on average, or a number as "
            f"weight_decay (such as {1 / n_rows:.1g}, one over the rows).",
            FitWarning,
            stacklevel=users_frame(),
        )
