"""Algorithm 1 of Karimi and Li, once, for every model, sampler and solver."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sktem.e_step.batches import BufferedSelector, RowSelector, new_selector
from sktem.e_step.expectation import FullPass
from sktem.e_step.partitions import expectation_of
from sktem.loop.convergence import check_change, check_gap
from sktem.loop.iterates import IterateRule, towards
from sktem.loop.monitor import measured, new_monitor, objective_of
from sktem.loop.runner import run_epochs
from sktem.loop.saddles import passes_beyond
from sktem.loop.stages import enter_stage, first_stage, next_stage
from sktem.loop.state import RunSettings, RunState
from sktem.loop.sweeps import draw_visits, find
from sktem.models.contract import has_nan, maximized, no_parameters
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
    merge: Callable[[np.ndarray], np.ndarray] | None = None,
) -> RunState:
    """Run until convergence or until the passes are used up.

    Parameters
    ----------
    settings : RunSettings
        Parts and settings.
    X : array-like or Carrier
        The data.
    state : RunState
        A fresh state with starting parameters and generators, or one to be resumed.
    sample_weight : ndarray of shape (n,) or None, default=None
        Positive weights.
    on_epoch : callable or None, default=None
        Called with the state after each epoch; returning True stops the run.
    merge : callable or None, default=None
        Makes the statistics of the M-step from the averaged ones; None takes them as
        they are.

    Returns
    -------
    RunState
        The same state. ``params`` are those of the returned iterate. After a keyboard
        interrupt ``interrupted`` is set and ``params`` are those of the last finished
        epoch.
    """
    data = (X, sample_weight)

    def run_stage(stage, state, on_epoch=None, data=data):
        rows, weights = data
        run_epochs(_Loop(stage, rows, weights, state, merge), state, on_epoch)

    stage = first_stage(settings, state)
    run_stage(stage, state, on_epoch)
    while later := next_stage(stage, state) or passes_beyond(
        stage, state, run_stage, data
    ):
        stage = later
        enter_stage(stage, state)
        run_stage(stage, state, on_epoch)
    return state


class _Loop:
    def __init__(self, settings, X, sample_weight, state, merge):
        check_compatible(settings.model, settings.sampler)
        self.settings = settings
        self.state = state
        self.merge = merge
        self.expectation = expectation_of(
            settings.model, settings.sampler, X, sample_weight, state.generators,
            state.first_row,
        )  # fmt: skip
        self.X = self.expectation.X
        self.expectation.folder = settings.memory
        self.expectation.chains = state.chains
        self.expectation.rows_visited = state.rows_visited
        self.n = state.n_rows = self.expectation.n_rows
        solver = settings.solver
        self.full_batch = solver.n_index_sets == 0
        size = self.selector(0).mean_size
        self.rho = solver.step_rho(self.n, size)
        self.period = solver.iterations_per_anchor(self.n, settings.batch_size)
        self.cost = solver.rows_per_iteration(self.n, size, settings.sampler)
        # Of a row in a batch; exact differences are taken from the row twice.
        self.visits_of_row = round(self.cost / (size * max(1, solver.n_index_sets)))
        self.epoch_length = 1 if self.full_batch else -(-self.n // settings.batch_size)
        # A sweep hands back sums of iterates, which the tail average cannot use.
        plain = (
            settings.sampling != "inclusion"
            and (settings.batch_size < self.n or settings.sampling == "fixed")
            and (settings.average != "tail" and merge is None)
            and (self.X.array is not None or not self.X.in_memory)
            and not self.X.is_remote
        )
        parts = (settings.model, settings.sampler, solver)
        self.sweep = find(*parts) if plain else None
        if settings.on_all_rows and self.expectation.can_measure_all:
            state.monitor = new_monitor(state, self.n)
        self.cpu_start = time.process_time() - state.cpu_time
        self.full_pass: FullPass | None = None

    def start(self):
        """Set up chains, batches and the initial pass of a run that is not resumed."""
        state, settings = self.state, self.settings
        if state.solver.iteration:
            return
        if has_nan(state.params):
            raise ValueError(
                f"the starting parameters of {type(settings.model).__name__} are NaN: "
                f"{state.params!r}"
            )
        size = settings.sample.of(self.n, not self.X.in_memory)
        state.monitor = new_monitor(state, size)
        if state.phase is None:
            state.iterates = IterateRule(settings.average)
        state.selectors = [
            self.selector(k) for k in range(settings.solver.n_index_sets)
        ]
        self.expectation.start_chains(state.params)
        if settings.max_passes >= 1:
            state.solver.own = self.ask(
                settings.solver.start, state.params, settings.batch_size
            )
        state.finished_epoch = (state.params, state.solver.s)

    def ask(self, method, *arguments):
        """Call a method of the solver, and keep the full pass that it may do."""
        recursion, expectation = self.state.solver, self.expectation
        s = recursion.s
        result = method(recursion, expectation, *arguments)
        if expectation.full_pass_done is not None:
            self.full_pass = expectation.full_pass_done._replace(s=s)
            expectation.full_pass_done = None
        return result

    def selector(self, index: int) -> RowSelector | BufferedSelector:
        """Return the selector of the rows of one index set."""
        settings, expectation = self.settings, self.expectation
        size, weights = settings.batch_size, expectation.weights
        if self.full_batch:
            return RowSelector(self.n, size, settings.sampling, weights)
        several = settings.solver.n_index_sets > 1
        return new_selector(self.X, size, settings.sampling, weights, several)

    def epoch(self) -> bool:
        """Run an epoch, and go back by one if the M-step has given NaN."""
        state, error = self.state, None
        try:
            if not self.iterations():
                return False
        except Exception as caught:
            error = caught
        if not has_nan(state.params):
            if error is not None:
                raise error
            return True
        failure = no_parameters(self.settings.model, state.solver.s)
        if state.solver.iteration <= 1:
            raise failure from error
        state.failure = (
            f"{failure}, in iteration {state.solver.iteration} or before. The run has "
            f"stopped with the parameters after {len(state.history)} epochs."
        )
        state.params, state.solver.s = state.finished_epoch
        state.solver.S_tts = state.solver.s
        state.iterates = IterateRule(False)
        return False

    def iterations(self) -> bool:
        """Run the iterations of one epoch; False if no pass is left."""
        recursion, done = self.state.solver, 0
        while done < self.epoch_length:
            left = self.settings.max_passes * self.n - self.expectation.rows_visited
            count = self.epoch_length - done
            due = False
            if self.period:
                since = recursion.iteration % self.period
                due = recursion.iteration > 0 and since == 0
                left -= self.n if due else 0
                count = min(count, self.period - since)
            count = min(count, int(left / self.cost + 1e-9))
            if recursion.iteration == 0:
                count = min(count, 1)  # it shows whether the model can do it
            if count <= 0:
                break
            if due:
                self.ask(self.settings.solver.refresh, self.state.params)
            self.segment(count)
            done += count
            if recursion.iteration == 1 and has_nan(self.state.params):
                break
        return done > 0

    def segment(self, count: int) -> None:
        """Run iterations without anything but the recursion in between."""
        state, settings = self.state, self.settings
        step_size = in_phase(settings.step_size, state.phase)
        gammas = steps_from(step_size, state.solver.iteration + 1, count)
        taken = state.iterates.segment(gammas, state.generators.termination)
        averaging = state.iterates.averaging(len(state.history))
        self.advance(gammas[:taken], averaging)
        if taken is not None:
            state.iterates.chosen = state.solver.s.copy()
            self.advance(gammas[taken:], averaging)

    def advance(self, gammas: np.ndarray, averaging: bool) -> None:
        """Run iterations with the given steps, compiled where that is possible."""
        recursion, iterates = self.state.solver, self.state.iterates
        sweep, visits = self.sweep, None
        while len(gammas):
            if sweep is None or recursion.s is None:
                done = 1
                self.iterate(gammas[0])
            else:
                if visits is None or not visits.n_iterations:
                    visits = self.visits(len(gammas))
                steps = gammas[: visits.n_iterations]
                done = self.swept(sweep, visits, steps, averaging)
                visits = visits.after(done)
            if averaging:
                iterates.add(recursion.s)
            gammas = gammas[done:]

    def visits(self, n_iterations: int):
        """Draw the visits of the next iterations of a sweep."""
        settings, iteration = self.settings, self.state.solver.iteration + 1
        sampler, selectors = settings.sampler, self.state.selectors
        n_draws = 0 if sampler.deterministic else sampler.draws_at(iteration)
        size = settings.batch_size
        return draw_visits(
            self.expectation, selectors, size, n_draws, iteration, n_iterations
        )

    def swept(self, sweep, visits, gammas: np.ndarray, averaging: bool) -> int:
        """Sweep over rows, do the steps of the last one, and return their number."""
        state = self.state
        done, proxy, total = sweep(
            self.settings, state.params, state.solver, visits, gammas, self.rho
        )
        n_visits = int((visits.edges[:, done] - visits.edges[:, 0]).sum())
        self.expectation.rows_visited += n_visits * self.visits_of_row
        if averaging and done > 1:
            state.iterates.add(total, done - 1)
        self.update(proxy, gammas[done - 1])
        return done

    def iterate(self, gamma: float) -> None:
        """Do one iteration of Algorithm 1."""
        state, settings = self.state, self.settings
        state.solver.iteration += 1
        batches = tuple(
            selector.next(state.generators.indices, self.X)
            for selector in state.selectors
        )
        proxy = self.ask(settings.solver.proxy, batches, state.params)
        self.update(proxy, gamma)

    def update(self, proxy: np.ndarray, gamma: float) -> None:
        """Do the Inc-step (8), the SA-step (7) and the M-step."""
        recursion = self.state.solver
        if recursion.s is None:
            recursion.s = recursion.S_tts = proxy
        else:
            recursion.S_tts = self.reduce_variance(recursion, proxy)
            recursion.s = towards(recursion.s, recursion.S_tts, gamma)
        self.maximize()

    def reduce_variance(self, recursion, proxy: np.ndarray) -> np.ndarray:
        """Do the Inc-step, kept within the feasible set.

        A proxy that is a difference can lead out of the feasible set. The step then
        goes to the mean over the remembered rows instead, which data have produced, so
        that the convex combination is feasible; if even that is not (a rounding
        error), the statistics are projected.
        """
        model = self.settings.model
        target = towards(recursion.S_tts, proxy, self.rho)
        if self.settings.solver.convex or not model.project(target)[1]:
            return target
        self.state.history.events["infeasible"] += 1
        mean = self.settings.solver.feasible_mean(recursion)
        if mean is not None:
            target = towards(recursion.S_tts, mean, self.rho)
        return model.project(target)[0]

    def maximize(self) -> None:
        """Do the M-step."""
        state, model = self.state, self.settings.model
        state.params = self.maximizer(state.solver.s)
        state.history.events["degenerate"] += model.degeneracies(state.params)

    def maximizer(self, s):
        """Return the parameters of averaged statistics."""
        s = s if self.merge is None else self.merge(s)
        model, state = self.settings.model, self.state
        if state.solver.iteration <= 1:
            return maximized(model, s, state.params)
        return model.maximize(s, state.params)

    def end_epoch(self) -> None:
        """Record an epoch, and decide whether the run has converged."""
        state, settings, expectation = self.state, self.settings, self.expectation
        history, recursion = state.history, state.solver
        step_size = in_phase(settings.step_size, state.phase)
        full_pass, self.full_pass = self.full_pass, None
        objective, mean_field, exact = measured(settings, state, expectation, full_pass)
        accepted, bias, visits = expectation.acceptance
        expectation.acceptance = [0.0, 0.0, 0]
        history.events.update(expectation.new_events())
        state.chains = expectation.chains
        state.rows_visited = expectation.rows_visited
        state.cpu_time = time.process_time() - self.cpu_start
        history.append(
            passes=expectation.rows_visited / self.n,
            monitor_passes=state.monitor.rows_visited / self.n,
            n_iterations=recursion.iteration,
            step_size=float(step_size(max(recursion.iteration, 1))),
            objective=objective,
            mean_field=max(mean_field, 0.0),
            of_sample=state.of_sample,
            acceptance_rate=accepted / visits if visits else float("nan"),
            bias=bias / visits if visits else float("nan"),
            cpu_time=state.cpu_time,
        )
        if settings.tol > 0:
            steady = settings.solver.is_monotone
            em = self.full_batch and settings.sampler.deterministic and steady
            if settings.stopping == "gap" and not np.isnan(objective):
                check_gap(state, settings, em, whole=self.full_batch)
            else:
                check_change(
                    state, settings, objective, mean_field, steady and (exact or em)
                )
        state.finished_epoch = (state.params, recursion.s)

    def finish(self, on_epoch) -> None:
        """Set the parameters of the returned iterate."""
        state = self.state
        recorded = len(state.history) or state.failure or not self.settings.monitor
        if not recorded and state.solver.s is not None:
            # No pass is left after the initial one.
            self.maximize()
            self.end_epoch()
            if on_epoch is not None:
                on_epoch(state)
        state.rows_visited = self.expectation.rows_visited
        if state.solver.s is None or state.failure:
            return
        if next_stage(self.settings, state) is not None:
            return
        recursion = state.solver
        recursion.s, last = self.settings.solver.settled(recursion), recursion.s
        s = state.returned
        other = s is not last or recursion.iteration == 0
        if other:
            state.params = self.maximizer(s)
        if (other or state.of_sample) and self.settings.monitor:
            value = self.expectation.log_likelihood(state.params)
            state.objective = objective_of(self.settings.model, value, state.params)

    def go_back(self) -> None:
        """Return to the parameters of the last finished epoch."""
        if self.state.finished_epoch[0] is not None:
            self.state.params = self.state.finished_epoch[0]
