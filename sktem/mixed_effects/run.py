"""When a fit jumps, ends its burn-in, begins another one and stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sktem.loop.state import Phase, RunState
from sktem.mixed_effects.ascent import (
    ByNodes,
    Resolution,
    ascend,
    can_climb,
    climb,
    hidden_share,
)
from sktem.mixed_effects.bounds import to_the_bounds
from sktem.mixed_effects.floors import own_part
from sktem.mixed_effects.inference.node_numbers import covariance_of
from sktem.mixed_effects.inference.standard_errors import at_bounds
from sktem.mixed_effects.path import Path, complete_data_errors
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.vector import ParameterVector
from sktem.sequences.rows import each_block

__all__ = ["PAUSE", "MixedEffectsRun", "MixedEffectsState"]

#: Epochs between looks at the drift, and between the burn-in and the average.
PAUSE = 10
#: Least epochs on which a drift is judged, and jumps along it before Newton steps are
#: tried.
SHORTEST, MOST_JUMPS = 20, 2
#: Epochs between checks of the Monte Carlo error.
CHECK_INTERVAL = 10
#: Hidden share of a variance from which EM may be too slow, and the log-likelihood that
#: is worth another burn-in.
SLOW_SHARE, WORTHWHILE_GAIN = 0.4, 0.05
#: Burn-ins that follow such a gain, at most.
MOST_CLIMBS = 2
#: Newton steps at the end, at most; the gain another one may promise at a maximum; and
#: the gains for which they continue, with the first nodes and with more.
MOST_LAST_STEPS, AT_MAXIMUM = 40, 0.01
NO_GAIN, LEAST_LAST_GAIN = 1e-9, 1e-6
#: Information about a parameter, in its own units, that counts as none.
FLAT = 1e-9
#: Eigenvalue of the correlations of effects from which rounding hides the maximum.
INDISTINCT = 1e-8
#: Range of an input, as a share of its values, below which squares are rounding.
LEAST_RANGE = 1e-7
#: Share of the information that the observations have, which is rounding.
NO_SHARE = 1e-11
#: By how much the likelihood that is reached from the start must be larger.
LARGER = 0.01
#: Steps that are finished with more points. Those from the start only if they do not
#: lead to the same place (in units of the parameters), and to a log-likelihood that is
#: not much less.
ROUGH = {"most_steps": MOST_LAST_STEPS, "least_gain": 1e-3}
FEW_POINTS = Resolution(per_subject=64)
SAME, ROUGHLY = 0.1, 1.0


@dataclass(frozen=True)
class NodeRule:
    """How finely the likelihood is integrated at the end.

    Attributes
    ----------
    first : Resolution
        Nodes of the first steps.
    more : int
        How many more there are then, until these change nothing.
    most_of_subject, most_in_all : int
        Points of a subject, and of all together, at most.
    same, alike : tuple of float
        Gain and relative change of a standard error that are none, and those that are
        none where there cannot be more nodes.
    """

    first: Resolution = Resolution(per_subject=700, most=7)
    more: int = 2
    most_of_subject: int = 10_000
    most_in_all: int = 1_500_000
    same: tuple[float, float] = (AT_MAXIMUM, 0.15)
    alike: tuple[float, float] = (0.05, 0.2)


#: The rule of every fit.
NODES = NodeRule()


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

    Attributes
    ----------
    path : Path
        Estimates after each epoch.
    end : int or None
        Iterations at the end of the burn-in, None while it lasts.
    start : int
        Epoch from which the present stretch of the burn-in is judged.
    first : int
        Epochs before those that are averaged.
    n_jumps, n_climbs : int
        How often the estimates have jumped along a drift, and to where Newton steps on
        the likelihood led; once the latter has happened, they do not jump again.
    doubt : str
        Why the estimates may not be at a maximum of the likelihood.
    arrived : bool
        Whether Newton steps have arrived at a maximum when the burn-in was over.
    """

    def __init__(self, problem: Problem, n_burn_in: int, longest: int, tol: float):
        self.problem = problem
        self.n_burn_in, self.longest, self.tol = n_burn_in, longest, tol
        self.path = Path(ParameterVector(problem.model))
        # Variances are held up during the annealing, so that they drift.
        self.start = int(np.ceil(problem.model.annealing.n_passes))
        self.end: int | None = 0 if n_burn_in == 0 else None
        self.first = PAUSE
        self.next_look = 4 * n_burn_in
        self.n_jumps = self.n_climbs = 0
        self.doubt, self.arrived = "", False

    @property
    def phase(self) -> Phase:
        """Phase of the run."""
        return Phase() if self.end is None else Phase(self.end, self.first)

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
        if self.tol and epoch == self.n_burn_in and self._has_arrived(state):
            state.converged = True
            return True
        self._check_burn_in(state)
        if not self.tol or epoch % CHECK_INTERVAL or self.end is None:
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
            params = self.problem.model.maximize(state.returned, state.params)
            slow = self._can_climb() and self._is_slow(state, params)
            climbed = slow and self._climbed(state, params)
            if drifts or climbed:  # another burn-in, since the average has drifted
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
        about a variance, and the sum of a geometric series is where it would end. If
        two jumps do not settle them, Newton steps on the likelihood do.
        """
        n = len(self.path)
        length = n - self.start
        if self.end is not None or n < self.n_burn_in or n % PAUSE:
            return
        if n < self.longest:
            if length < SHORTEST:
                return
            drifting = self.path.drift(self.start)
            if drifting.any() and not self.n_climbs:
                if self.n_jumps >= MOST_JUMPS and self._climbed(state, state.params):
                    self.start = n
                elif state.solver.own is None:
                    state.params = self.path.ahead(state.params, self.start, drifting)
                    self.start = n + PAUSE // 2
                    self.n_jumps += 1
                return
        self.end, self.first = state.solver.iteration, n + PAUSE
        state.enter(self.phase)

    def _is_slow(self, state, params):
        """Return whether EM may be too slow for an estimate to have arrived."""
        model, rows = self.problem.model, self.problem.rows
        return hidden_share(model, rows, params, _chain_means(state)) >= SLOW_SHARE

    def _can_climb(self):
        n, design = len(self.problem.rows), self.problem.model.design
        return bool(self.tol) and can_climb(n, design.n_latents, len(design.numeric))

    def _climbed(self, state, params):
        """Jump to where Newton steps on the likelihood lead, if that is worth it."""
        if not self._can_climb() or state.solver.own is not None:
            return False
        if self.n_climbs >= MOST_CLIMBS:
            return False
        params, gain = climb(
            self.problem.model,
            self.problem.rows,
            params,
            state.generators.monitoring,
            _chain_means(state),
        )
        if gain < WORTHWHILE_GAIN:
            return False
        state.params = params
        self.n_climbs += 1
        return True

    def finish(self, state) -> None:
        """Do Newton steps at the end, for the gain left by EM and its noise.

        They also show whether the estimates are at a maximum of the likelihood.
        """
        stopped = state.stopped and not state.converged
        if self.arrived or stopped or state.interrupted or state.solver.s is None:
            return
        if not self._can_climb():
            return
        ascent = self._ascended(state)
        self.doubt = self._doubt(ascent)
        if ascent.value > -float("inf"):
            state.params = ascent.params
        # Noise of the chains does not matter where Newton steps have arrived.
        settled = state.converged or self.end is not None
        state.converged = settled and not self.doubt

    def _has_arrived(self, state):
        """Return whether Newton steps lead to a maximum that leaves no doubt."""
        if not self._can_climb() or state.solver.own is not None:
            return False
        size = len(self.problem.rows), self.problem.model.design.n_latents
        if NODES.first.nodes(*size) == 0:  # draws would leave their noise
            return False
        ascent = self._ascended(state)
        if not ascent.value > -float("inf") or self._doubt(ascent):
            return False
        state.params, self.arrived = ascent.params, True
        return True

    def _ascended(self, state):
        """Return the end of Newton steps from the estimates, or from the start."""
        model, rows = self.problem.model, self.problem.rows
        rng = state.generators.monitoring
        options = {
            "most_steps": MOST_LAST_STEPS,
            "least_gain": NO_GAIN,
            "resolution": NODES.first,
        }

        def finely(there):
            return ascend(model, rows, there.params, rng, there.modes, **options)

        ascent = ascend(model, rows, state.params, rng, _chain_means(state), **ROUGH)
        other = ascend(model, rows, model.start, rng, **ROUGH, resolution=FEW_POINTS)
        better = self._may_be_better(other, ascent)
        if ascent.value > -float("inf"):
            ascent = finely(ascent)
        if better:
            other = finely(other)
            if other.value > ascent.value + LARGER or not ascent.value > -float("inf"):
                ascent = other
        if ascent.value > -float("inf"):
            inside, ascent = ascent, to_the_bounds(model, rows, ascent, rng, **options)
            if ascent is not inside:
                ascent = finely(ascent)
            ascent = self._ascend_finely(ascent, rng, options)
        return ascent

    def _ascend_finely(self, ascent, rng, options):
        """Do Newton steps with more nodes, until these change nothing."""
        model, rows = self.problem.model, self.problem.rows
        n, d = len(rows), model.design.n_latents
        n_nodes = NODES.first.nodes(n, d)
        options = options | {"least_gain": LEAST_LAST_GAIN}
        while n_nodes and not ascent.by_nodes.within(*NODES.same):
            n_nodes += NODES.more
            if n_nodes**d > min(NODES.most_of_subject, NODES.most_in_all / n):
                break
            options["resolution"] = Resolution.of(n_nodes, d)
            finer = ascend(model, rows, ascent.params, rng, ascent.modes, **options)
            if not finer.value > -float("inf"):
                break
            errors = [self._standard_errors(there) for there in (ascent, finer)]
            with np.errstate(invalid="ignore", divide="ignore"):
                change = np.abs(errors[1] / errors[0] - 1)
            largest = float(np.nan_to_num(change, posinf=0.0).max(initial=0.0))
            by_nodes = ByNodes(finer.gain, largest, ascent.information)
            ascent = finer._replace(by_nodes=by_nodes)
        return ascent

    def _standard_errors(self, ascent):
        """Return standard errors where the last of Newton steps began, or NaN."""
        is_held = at_bounds(self.path.vector, ascent.params)
        covariance = covariance_of(ascent.information.observed, is_held)
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.diag(covariance))

    def _may_be_better(self, other, ascent):
        """Return whether rough steps may lead to another and better maximum."""
        if not ascent.value > -float("inf"):
            return True
        vector = self.path.vector
        change = np.abs(vector.of(other.params) - vector.of(ascent.params))
        units = vector.units(ascent.params, self.problem.rows.covariates)
        same = (change < SAME * units).all()
        return not same and other.value > ascent.value - ROUGHLY

    def _doubt(self, ascent):
        """Return why the end of Newton steps may not be a maximum, empty if it is."""
        if not ascent.value > -float("inf"):
            return "The likelihood is not finite at the estimates."
        if _is_far_from_zero(self.problem.rows):
            return (
                "An input hardly varies beside its values, so that rounding hides its "
                "effect: subtract a typical value from inputs whose range is small "
                "beside their values, such as dates."
            )
        if own_part(self.problem.model) < INDISTINCT:
            design = self.problem.model.design
            random = [design.names[p] for p in design.latents]
            return (
                f"The random effects of {random} are the same to the observations, up "
                "to rounding: subtract a typical value from inputs whose range is "
                "small beside their values, such as dates."
            )
        if not ascent.reliable:
            return "The conditional modes of some subjects were not found."
        if ascent.promise > AT_MAXIMUM:
            return (
                "The estimates are not at a maximum of the likelihood: a Newton step "
                f"would raise its logarithm by about {ascent.promise:.2g}."
            )
        gain, change, _ = ascent.by_nodes
        if not (np.isnan(gain) or ascent.by_nodes.within(*NODES.alike)):
            return (
                "The likelihood of some subjects, whose observations hardly tell of "
                "them, is not integrated exactly: more quadrature nodes have raised "
                f"its logarithm by {gain:.2g} and changed a standard error by "
                f"{change:.0%}."
            )
        vector = self.path.vector
        if vector.passes_through(ascent.params):
            return "The likelihood has no maximum: the residual error is at its bound."
        units = vector.units(ascent.params, self.problem.rows.covariates)
        known = np.diag(ascent.information.complete) * units**2
        open_ = (known < FLAT) & ~vector.residual_at_floor(ascent.params)
        flat = np.array(vector.names)[open_].tolist()
        if flat:
            return f"The likelihood does not depend on {flat} at the estimates."
        return self._undetermined(ascent)

    def _undetermined(self, ascent):
        """Return which population values and effects nothing tells, empty if none."""
        vector, open_ = self.path.vector, np.zeros(len(self.path.vector), dtype=bool)
        is_held = at_bounds(vector, ascent.params)
        for information in (ascent.information, ascent.by_nodes.information):
            if information is None:
                continue
            open_ |= np.isnan(np.diag(covariance_of(information.observed, is_held)))
            share = NO_SHARE * np.diag(information.complete)
            open_ |= np.diag(information.observed) <= share
        # Variances near their bounds do not count, nor what correlates with them.
        open_[vector.omega] = open_[vector.is_residual] = False
        open_ &= ~vector.at_box(ascent.params)
        unknown = np.array(vector.names)[open_].tolist()
        if unknown:
            return (
                f"The data do not determine {unknown}: other values of them, together, "
                "give the same likelihood. Leave one of them out or hold it by fixed, "
                "or, if inputs are far from zero for their range, subtract a typical "
                "value from them."
            )
        return ""


@dataclass(kw_only=True)
class MixedEffectsState(RunState):
    """State of a run with the decisions between its epochs."""

    run: MixedEffectsRun


def _is_far_from_zero(rows):
    """Return whether an input varies by no more than its square's rounding."""
    extremes = each_block(rows, _extremes, lambda subjects: ())
    low, high, largest = np.array(extremes).transpose(1, 0, 2)
    widths = high.max(axis=0) - low.min(axis=0)
    return bool(((widths > 0) & (widths < LEAST_RANGE * largest.max(axis=0))).any())


def _extremes(rows):
    """Return minimum, maximum and largest magnitude of the inputs of some subjects."""
    x = np.asarray(rows.inputs, dtype=float)
    # Columns that are not read may be NaN.
    low, high = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    return low, high, np.fmax.reduce(np.abs(x), axis=0)


def _chain_means(state):
    """Return the means of the chains, near the conditional modes."""
    return None if state.chains is None else state.chains.values.mean(axis=1)
