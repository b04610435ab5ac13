"""When a fit of the mixed-effects estimator jumps, begins again and stops."""

from __future__ import annotations

from sktem.estimators.mixed_effects_ascent import can_climb, climb, hidden_share
from sktem.estimators.mixed_effects_trace import complete_data_errors

__all__ = ["MixedEffectsRun"]

#: Epochs between checks of the Monte Carlo error.
CHECK_INTERVAL = 10
#: Hidden share of a variance from which EM may be too slow, and the log-likelihood that
#: is worth another burn-in.
SLOW_SHARE, WORTHWHILE_GAIN = 0.4, 0.05
#: Burn-ins that follow such a gain, at most.
MOST_CLIMBS = 2


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
            trace.model, state.params, state.solver.s, state.n_rows
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
        model, rows = state.trace.model, self._rows_in_fit
        return hidden_share(model, rows, params, _chain_means(state)) >= SLOW_SHARE

    def _climbed(self, state, params):
        """Jump to where Newton steps on the likelihood lead, if that is worth it."""
        trace, rows = state.trace, self._rows_in_fit
        possible = can_climb(len(rows), len(trace.model.design.random))
        if not (self.tol and possible) or state.solver.memory is not None:
            return False
        if trace.n_climbs >= MOST_CLIMBS:
            return False
        params, gain = climb(
            trace.model, rows, params, state.streams.monitoring, _chain_means(state)
        )
        if gain < WORTHWHILE_GAIN:
            return False
        state.params = params
        trace.n_climbs += 1
        return True

    def _finish(self, state):
        """Do Newton steps at the end, for what EM and its noise leave to gain."""
        state.trace.n_climbs = 0
        stopped = state.stopped and not state.converged
        if not (stopped or state.interrupted or state.solver.s is None):
            self._climbed(state, state.params)
