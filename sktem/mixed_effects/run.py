"""Phases of a fit: jumps, burn-ins and the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sktem.loop.state import Phase, RunState
from sktem.mixed_effects.ascent import can_climb
from sktem.mixed_effects.last_climb import LastClimb
from sktem.mixed_effects.path import Path, complete_data_errors
from sktem.mixed_effects.unusual_fits import inseparable
from sktem.mixed_effects.vector import ParameterVector

__all__ = [
    "ANNEALED",
    "AVERAGED",
    "BURN_IN",
    "FALLING",
    "BurnInRule",
    "MixedEffectsRun",
    "MixedEffectsState",
]


#: Names of what begins and ends.
ANNEALED, FALLING, AVERAGED = "annealing ends", "steps fall", "average begins"


class BurnInRule(NamedTuple):
    """Criteria of jumps and of the end of a burn-in.

    Attributes
    ----------
    pause : int
        Epochs between looks at the drift, and between the burn-in and the average.
    shortest : int
        Epochs on which a drift is judged, at least.
    check_interval : int
        Epochs between checks of the Monte Carlo error.
    """

    pause: int = 10
    shortest: int = 20
    check_interval: int = 10


#: The rule of every fit.
BURN_IN = BurnInRule()


class MixedEffectsRun:
    """Decisions between the epochs of a fit, and their grounds.

    Parameters
    ----------
    problem : Problem
        The problem that is fitted.
    n_burn_in, longest : int
        Epochs of the burn-in, at least and at most.
    tol : float
        Monte Carlo error at which the fit stops, in units of the standard error that
        an estimate would have if the latents were seen.
    rule : BurnInRule
        When a burn-in jumps and ends.

    Attributes
    ----------
    path : Path
        Estimates after each epoch.
    last_climb : LastClimb
        Newton steps at the end.
    end : int or None
        Iterations at the end of the burn-in, None while it lasts.
    start : int
        Epoch from which the present stretch of the burn-in is judged.
    first : int
        Epochs before those that are averaged.
    falls : list of int
        Epochs after which steps have begun to fall.
    doubt : str
        Why the estimates may not be at a maximum of the likelihood.
    arrived : bool
        Whether Newton steps have arrived at a maximum when the burn-in was over, or
        everything is fixed.
    is_hopeless : bool
        Whether variances cannot be separated, so that there is no maximum to look for.
    """

    def __init__(self, problem, n_burn_in, longest, tol, rule=BURN_IN):
        self.problem, self.rule = problem, rule
        self.n_burn_in, self.longest, self.tol = n_burn_in, longest, tol
        self.path = Path(ParameterVector(problem.model))
        self.last_climb = LastClimb(problem, self.path.vector)
        # Variances are held up during the annealing, so that they drift.
        self.start = int(np.ceil(problem.model.annealing.n_passes))
        self.end: int | None = 0 if n_burn_in == 0 else None
        self.first = self.rule.pause
        self.falls = [0] if n_burn_in == 0 else []
        self.next_look = 4 * n_burn_in
        self.doubt, self.arrived = "", False
        self.is_hopeless = bool(inseparable(problem))

    @property
    def phase(self) -> Phase:
        """Phase of the run."""
        return Phase() if self.end is None else Phase(self.end, self.first)

    def phases(self) -> list[tuple[str, int]]:
        """Return the phases that have begun or ended, and the epochs before."""
        n, annealed = len(self.path), int(self.problem.model.annealing.n_passes)
        phases = [(ANNEALED, min(annealed, n))] if annealed else []
        phases += [(FALLING, epoch) for epoch in self.falls]
        averages = self.end is not None and self.first < n
        return phases + [(AVERAGED, self.first)] * averages

    def monte_carlo_errors(self):
        """Return errors of the averages: None if too few, 0 without any."""
        if self.arrived:
            return np.zeros(len(self.path.vector))
        return self.path.monte_carlo_errors(self.first)

    def after_epoch(self, state) -> bool:
        """Record an epoch and decide the next phase; return whether to stop."""
        done = state.history.n_iterations
        steps = done[-1] - (done[-2] if len(done) > 1 else 0)
        self.path.add(state.params, steps * state.history.step_size[-1])
        epoch = len(self.path)
        if not len(self.path.vector):  # everything is fixed
            state.converged = self.arrived = True
            return True
        if self.tol and self.is_hopeless and epoch >= self.n_burn_in:
            return True
        if self.tol and epoch == self.n_burn_in and self._has_arrived(state):
            state.converged = True
            return True
        self._check_burn_in(state)
        if not self.tol or epoch % self.rule.check_interval or self.end is None:
            return False
        errors = self.monte_carlo_errors()
        if errors is None:
            return False
        complete = complete_data_errors(
            self.path.vector, state.params, state.solver.s, state.n_rows
        )
        enough = bool((errors <= self.tol * complete).all())
        if not enough and epoch < min(self.next_look, self.longest):
            return False
        if epoch < self.longest:
            self.next_look = 2 * epoch
            drifts = self.path.drift(self.first).any()
            if drifts:  # another burn-in, since the average has drifted
                self.end, self.start = None, epoch
                state.enter(self.phase)
                return False
        # Newton steps at the end arrive where the noise of the chains hides the rest,
        # and say so if they do not.
        state.converged = enough or self._can_climb()
        return state.converged

    def _check_burn_in(self, state):
        """End the burn-in when the estimates have ceased to drift.

        While they drift, they jump ahead: EM is slow where the observations say little
        about a variance, and the sum of a geometric series is where it would end.
        """
        n = len(self.path)
        length = n - self.start
        if self.end is not None or n < self.n_burn_in or n % self.rule.pause:
            return
        if n < self.longest:
            if length < self.rule.shortest:
                return
            drifting = self.path.drift(self.start)
            if drifting.any():
                if state.solver.own is None:
                    state.params = self.path.ahead(state.params, self.start, drifting)
                    self.start = n + self.rule.pause // 2
                return
        self.end, self.first = state.solver.iteration, n + self.rule.pause
        self.falls.append(n)
        state.enter(self.phase)

    def _can_climb(self):
        n, model = len(self.problem.rows), self.problem.model
        if not self.tol:
            return False
        return can_climb(n, model.design.n_latents, len(model.design.numeric))

    def finish(self, state) -> None:
        """Do Newton steps at the end, for the gain left by EM and its noise.

        They also show whether the estimates are at a maximum of the likelihood.
        """
        stopped = state.stopped and not state.converged
        if self.arrived or stopped or state.interrupted or state.solver.s is None:
            return
        if self.problem.model.design.n_latents == 0 and state.converged:
            self.doubt = self.last_climb.doubt_of_regression(state.params)
            state.converged = not self.doubt
        if self.is_hopeless or not self._can_climb():
            return
        ascent = self._ascended(state)
        self.doubt = self.last_climb.doubt(ascent)
        if ascent.is_finite:
            state.params = ascent.params
        # Noise of the chains does not matter where Newton steps have arrived.
        settled = state.converged or self.end is not None
        state.converged = settled and not self.doubt

    def _has_arrived(self, state):
        """Return whether Newton steps lead to a maximum that leaves no doubt."""
        if not self._can_climb() or state.solver.own is not None:
            return False
        if not self.last_climb.is_by_nodes:  # draws would leave their noise
            return False
        ascent = self._ascended(state)
        if not ascent.is_finite or self.last_climb.doubt(ascent):
            return False
        state.params, self.arrived = ascent.params, True
        return True

    def _ascended(self, state):
        rng, modes = state.generators.monitoring, _chain_means(state)
        return self.last_climb.ascended(state.params, rng, modes)


@dataclass(kw_only=True)
class MixedEffectsState(RunState):
    """State of a run with the decisions between its epochs."""

    run: MixedEffectsRun


def _chain_means(state):
    """Return the means of the chains, near the conditional modes."""
    return None if state.chains is None else state.chains.values.mean(axis=1)
