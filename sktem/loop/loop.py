"""Algorithm 1 of Karimi and Li, once, for every model, sampler and solver."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sktem.e_step.batches import RowSelector
from sktem.e_step.expectation import Expectation
from sktem.loop.epoch import end_epoch, sound_epoch
from sktem.loop.iterates import IterateRule
from sktem.loop.monitor import Monitor
from sktem.loop.state import RunSettings, RunState
from sktem.loop.sweeps import find
from sktem.models.contract import has_nan
from sktem.samplers.compatibility import check_compatible
from sktem.schedules import in_phase, steps_from

__all__ = ["run"]


def run(
    settings: RunSettings,
    X,
    state: RunState,
    *,
    sample_weight=None,
    on_epoch: Callable[[RunState], bool] | None = None,
) -> RunState:
    """Run until convergence or until the passes are used up.

    Parameters
    ----------
    settings : RunSettings
        Parts and settings.
    X : array-like
        The data.
    state : RunState
        A fresh state with starting parameters and streams, or one to be resumed.
    sample_weight : ndarray of shape (n,) or None, default=None
        Positive weights.
    on_epoch : callable or None, default=None
        Called with the state after each epoch; returning True stops the run.

    Returns
    -------
    RunState
        The same state. ``params`` are those of the returned iterate. After a keyboard
        interrupt ``interrupted`` is set and ``params`` are those of the last finished
        epoch.
    """
    loop = _Loop(settings, X, state, sample_weight)
    try:
        if state.solver.iteration == 0:
            loop.start()
        while not state.converged and sound_epoch(loop):
            end_epoch(loop)
            if on_epoch is not None and on_epoch(state):
                state.stopped = True
                break
        if not (len(state.history) or state.failure) and settings.monitor:
            loop.record_start(on_epoch)
        loop.finish()
    except KeyboardInterrupt:
        state.interrupted = True
        if state.finished_epoch[0] is not None:
            state.params = state.finished_epoch[0]
    return state


class _Loop:
    def __init__(self, settings, X, state, sample_weight):
        check_compatible(settings.model, settings.sampler)
        self.settings = settings
        self.state = state
        self.expectation = Expectation(
            settings.model, settings.sampler, X, sample_weight, state.streams
        )
        self.expectation.chains = state.chains
        self.expectation.rows_visited = state.rows_visited
        self.n = state.n_rows = self.expectation.n_rows
        solver = settings.solver
        self.full_batch = solver.n_index_sets == 0
        size = self.selector().mean_size
        self.rho = solver.step_rho(self.n, size)
        self.cost = solver.rows_per_iteration(self.n, size, settings.sampler)
        self.epoch_length = 1 if self.full_batch else -(-self.n // settings.batch_size)
        # A sweep hands back sums of iterates, which the tail average cannot use.
        plain = settings.batch_size == 1 and settings.sampling == "fixed"
        plain = plain and settings.average != "tail"
        self.sweep = (
            find(settings.model, settings.sampler, solver)
            if plain and sample_weight is None
            else None
        )
        self.cpu_start = time.process_time() - state.cpu_time
        # Parameters and statistics at the last full pass.
        self.visited = (state.params, state.solver.s)

    def start(self):
        """Set up chains, batches and the initial pass."""
        state, settings = self.state, self.settings
        if has_nan(state.params):
            raise ValueError(
                f"the starting parameters of {type(settings.model).__name__} are NaN: "
                f"{state.params!r}"
            )
        state.monitor = Monitor(self.n, state.streams.monitoring)
        if state.phase is None:
            state.iterates = IterateRule(settings.average)
        state.selectors = [self.selector() for _ in range(settings.solver.n_index_sets)]
        self.expectation.start_chains(state.params)
        if settings.max_passes >= 1:
            settings.solver.start(
                state.solver, self.expectation, state.params, settings.batch_size
            )
        state.finished_epoch = (state.params, state.solver.s)

    def record_start(self, on_epoch) -> None:
        """Make a record of what the initial pass has given, when no pass is left."""
        if self.state.solver.s is None:
            return
        self.maximize()
        end_epoch(self)
        if on_epoch is not None:
            on_epoch(self.state)

    def selector(self) -> RowSelector:
        """Return what draws the rows of one index set."""
        settings = self.settings
        return RowSelector(
            self.n, settings.batch_size, settings.sampling, self.expectation.weights
        )

    def epoch(self) -> bool:
        """Run the iterations of one epoch; False if no pass is left."""
        recursion, done = self.state.solver, 0
        while done < self.epoch_length:
            left = self.settings.max_passes * self.n - self.expectation.rows_visited
            period = recursion.iterations_per_anchor
            count = self.epoch_length - done
            if period:
                due = recursion.iteration > 0 and recursion.iteration % period == 0
                left -= self.n if due else 0
                count = min(count, period - recursion.iteration % period)
            count = min(count, int(left / self.cost + 1e-9))
            if recursion.iteration == 0:
                count = min(count, 1)  # it shows whether the model can do it
            if count <= 0:
                break
            if period and due:
                self.visited = (self.state.params, recursion.s)
                self.settings.solver.refresh(
                    recursion, self.expectation, self.state.params
                )
            self.segment(count)
            done += count
            if recursion.iteration == 1 and has_nan(self.state.params):
                break
        return done > 0

    def segment(self, count: int) -> None:
        """Run iterations between which nothing but the recursion happens."""
        state, settings = self.state, self.settings
        step_size = in_phase(settings.step_size, state.phase)
        gammas = steps_from(step_size, state.solver.iteration + 1, count)
        taken = state.iterates.segment(gammas, state.streams.termination)
        averaging = state.iterates.averaging(len(state.history))
        self.advance(gammas[:taken], averaging)
        if taken is not None:
            state.iterates.chosen = state.solver.s.copy()
            self.advance(gammas[taken:], averaging)

    def advance(self, gammas: np.ndarray, averaging: bool) -> None:
        """Run iterations with the given steps, compiled where that is possible."""
        if self.sweep is not None:
            self.sweep(self, gammas, averaging)
            return
        for gamma in gammas:
            self.iterate(gamma)
            if averaging:
                self.state.iterates.add(self.state.solver.s)

    def iterate(self, gamma: float) -> None:
        """Do one iteration of Algorithm 1."""
        state, settings = self.state, self.settings
        recursion = state.solver
        recursion.iteration += 1
        if self.full_batch:
            self.visited = (state.params, recursion.s)
        batches = tuple(
            selector.next(state.streams.indices) for selector in state.selectors
        )
        proxy = settings.solver.proxy(
            recursion, self.expectation, batches, state.params
        )
        self.update(proxy, gamma)

    def update(self, proxy: np.ndarray, gamma: float) -> None:
        """Do the Inc-step (8), the SA-step (7) and the M-step."""
        recursion = self.state.solver
        if recursion.s is None:
            recursion.s = recursion.S_tts = proxy
        else:
            recursion.S_tts = self.reduce_variance(recursion, proxy)
            recursion.s = _towards(recursion.s, recursion.S_tts, gamma)
        self.maximize()

    def reduce_variance(self, recursion, proxy: np.ndarray) -> np.ndarray:
        """Do the Inc-step, kept within what data can produce.

        A proxy that is a difference can lead out of the feasible set. The step then
        goes to the mean over the remembered rows instead, which data have produced, so
        that the convex combination is feasible; if even that is not (a rounding
        error), the statistics are projected.
        """
        model = self.settings.model
        target = _towards(recursion.S_tts, proxy, self.rho)
        if self.settings.solver.convex or not hasattr(model, "project"):
            return target
        if not model.project(target)[1]:
            return target
        self.state.history.events["infeasible"] += 1
        if recursion.memory_mean is not None:
            target = _towards(recursion.S_tts, recursion.memory_mean, self.rho)
        return model.project(target)[0]

    def maximize(self) -> None:
        """Do the M-step."""
        state, model = self.state, self.settings.model
        state.params = model.maximize(state.solver.s, state.params)
        if hasattr(model, "degeneracies"):
            state.history.events["degenerate"] += model.degeneracies(state.params)

    def finish(self) -> None:
        """Set the parameters of the returned iterate."""
        state, model = self.state, self.settings.model
        state.rows_visited = self.expectation.rows_visited
        if state.solver.s is None:
            return
        s = state.returned
        if state.failure:
            return
        if s is not state.solver.s or state.solver.iteration == 0:
            state.params = model.maximize(s, state.params)


def _towards(value: np.ndarray, target: np.ndarray, step: float) -> np.ndarray:
    return target if step == 1 else value + step * (target - value)
