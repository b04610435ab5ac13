"""When a fit of the mixed-effects estimator jumps, begins again and stops."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.ascent import (
    ascend,
    can_climb,
    climb,
    hidden_share,
)
from sktem.mixed_effects.bounds import to_the_bounds
from sktem.mixed_effects.trace import complete_data_errors
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["MixedEffectsRun"]

#: Epochs between checks of the Monte Carlo error.
CHECK_INTERVAL = 10
#: Hidden share of a variance from which EM may be too slow, and the log-likelihood that
#: is worth another burn-in.
SLOW_SHARE, WORTHWHILE_GAIN = 0.4, 0.05
#: Burn-ins that follow such a gain, at most.
MOST_CLIMBS = 2
#: Newton steps at the end, at most, on how many points of a subject at most, and the
#: gain for which they go on; what another one may promise at a maximum.
MOST_LAST_STEPS, MOST_LAST_POINTS, LEAST_LAST_GAIN, AT_MAXIMUM = 40, 1000, 1e-6, 0.01
#: Information about a parameter, in units of its own, that is none.
FLAT = 1e-9
#: By how much the likelihood that is reached from the start must be larger.
LARGER = 0.01


def _chain_means(state):
    """Return the means of the chains, near the conditional modes."""
    return None if state.chains is None else state.chains.values.mean(axis=1)


class MixedEffectsRun:
    """What :class:`sktem.NonlinearMixedEffectsRegressor` does between epochs."""

    def _after_epoch(self, state):
        trace, done = state.trace, state.history.n_iterations
        steps = done[-1] - (done[-2] if len(done) > 1 else 0)
        trace.add(state.params, steps * state.history.step_size[-1])
        trace.check_burn_in(state, self._climbed)
        epoch = len(trace.vectors)
        if not self.tol or epoch % CHECK_INTERVAL or trace.end is None:
            return False
        errors = trace.monte_carlo_errors()
        if errors is None:
            return False
        complete = complete_data_errors(
            trace.vector, state.params, state.solver.s, state.n_rows
        )
        enough = bool((errors <= self.tol * complete).all())
        if (enough or epoch >= trace.next_look) and epoch < trace.longest:
            trace.next_look = 2 * epoch
            drifts = trace.drift(trace.first).any()
            params = trace.model.maximize(state.returned, state.params)
            climbed = self._is_slow(state, params) and self._climbed(state, params)
            if drifts or climbed:
                trace.reheat(state)
                return False
        state.converged = enough
        return enough

    def _is_slow(self, state, params):
        """Whether EM may be too slow for an estimate to have arrived."""
        model, rows = state.trace.model, state.trace.rows
        return hidden_share(model, rows, params, _chain_means(state)) >= SLOW_SHARE

    def _can_climb(self, state):
        rows, design = state.trace.rows, state.trace.model.design
        sizes = len(rows), len(design.random), len(design.numeric)
        return bool(self.tol) and can_climb(*sizes)

    def _climbed(self, state, params):
        """Jump to where Newton steps on the likelihood lead, if that is worth it."""
        trace = state.trace
        if not self._can_climb(state) or state.solver.memory is not None:
            return False
        if trace.n_climbs >= MOST_CLIMBS:
            return False
        params, gain = climb(
            trace.model,
            trace.rows,
            params,
            state.streams.monitoring,
            _chain_means(state),
        )
        if gain < WORTHWHILE_GAIN:
            return False
        state.params = params
        trace.n_climbs += 1
        return True

    def _finish(self, state):
        """Do Newton steps at the end, for what EM and its noise leave to gain.

        They also tell whether the estimates are at a maximum of the likelihood.
        """
        trace, rng = state.trace, state.streams.monitoring
        stopped = state.stopped and not state.converged
        if stopped or state.interrupted or state.solver.s is None:
            return
        if not self._can_climb(state):
            return
        model, rows = trace.model, trace.rows
        options = {
            "most_steps": MOST_LAST_STEPS,
            "least_gain": LEAST_LAST_GAIN,
            "most_points": MOST_LAST_POINTS,
        }
        found = ascend(model, rows, state.params, rng, _chain_means(state), **options)
        other = ascend(model, rows, model.start, rng, **options)
        if other.value > found.value + LARGER or not found.value > -float("inf"):
            found = other
        found = to_the_bounds(model, rows, found, rng, **options)
        trace.doubt = _doubt(model, rows, found)
        if found.value > -float("inf"):
            state.params = found.params
        # Noise of the chains does not matter where Newton steps have arrived.
        settled = state.converged or trace.end is not None
        state.converged = settled and not trace.doubt


def _doubt(model, rows, found):
    """Return why the end of Newton steps may not be a maximum, empty if it is."""
    if not found.value > -float("inf"):
        return "The likelihood is not finite at the estimates."
    if not found.reliable:
        return "The conditional modes of some subjects were not found."
    if found.promise > AT_MAXIMUM:
        return (
            "The estimates are not at a maximum of the likelihood: a Newton step would "
            f"raise its logarithm by about {found.promise:.2g}."
        )
    vector = ParameterVector(model)
    units = vector.units(found.params, rows.covariates)
    told = np.diag(found.information.complete) * units**2
    flat = np.array(vector.names)[told < FLAT].tolist()
    if flat:
        return f"The likelihood does not depend on {flat} at the estimates."
    return ""
