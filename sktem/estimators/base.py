"""What the estimators share: parts from names, runs, callbacks, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from sktem.choices import check_choice
from sktem.e_step.batches import SAMPLING_SCHEMES
from sktem.estimators.fit_warnings import warn_of_run, warn_of_unused
from sktem.estimators.progress import compile_notice
from sktem.links import DocumentationLinkMixin
from sktem.loop.iterates import check_average
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.samplers import SAMPLERS, ExactDraws, Sampler
from sktem.samplers.compatibility import (
    check_compatible,
    check_implied_sampler,
    missing_methods,
    resolve_part,
)
from sktem.schedules import check_schedule
from sktem.solvers import SOLVERS, Solver
from sktem.solvers.base import VarianceReducedSolver

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FitProgress", "LoopEstimator", "with_callbacks"]


#: Rows of a batch, at most, where the estimator chooses.
LARGEST_BATCH = 1024

#: Frames from a warning in ``_warn`` to the caller of ``fit``, which scikit-learn's
#: callbacks wrap once.
USER_FRAME = 3 + hasattr(CallbackSupportMixin, "set_callbacks")


#: Settings of the loop that a face may leave out, with what holds then.
WITHOUT = {
    "n_draws": None,
    "batch_size": 1,
    "sampling": "fixed",
    "rho": "auto",
    "average": False,
    "tol": 0.0,
    "n_iter_no_change": 1,
}


@dataclass
class FitProgress:
    """State of a fit with several starts; it can be pickled after each epoch.

    Attributes
    ----------
    start : int
        Number of the current start.
    current : RunState or None
        The run of the current start.
    best : RunState or None
        The best finished run.
    random : object
        Random state of the starts.
    """

    start: int = 0
    current: RunState | None = None
    best: RunState | None = None
    random: Any = None


class LoopEstimator(DocumentationLinkMixin, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators that run the loop.

    Subclasses have the parameters ``solver, sampler, step_size, max_iter, verbose,
    verbose_interval``, and those of :data:`WITHOUT` that they offer to the user.
    """

    #: Samplers by name.
    _samplers: ClassVar[Mapping[str, type]] = SAMPLERS

    def _option(self, name):
        """Return a parameter, or what holds where the estimator does not offer it."""
        return getattr(self, name, WITHOUT[name])

    def _check_number(self, name, kind, low, *, strict=False):
        value = getattr(self, name) if hasattr(self, name) else self._option(name)
        below = value <= low if isinstance(value, Real) and strict else None
        if below is None:
            below = isinstance(value, Real) and value < low
        wrong = not isinstance(value, kind) or isinstance(value, (bool, np.bool_))
        if wrong or below or not np.isfinite(value):
            what = "an integer" if kind is Integral else "a number"
            raise ValueError(
                f"{name} must be {what} {'>' if strict else '>='} {low}, got {value!r}"
            )

    def _parts(self, model):
        """Return sampler, solver and schedule for the parameters of the estimator."""
        found = resolve_part(self.solver, SOLVERS, Solver, "solver")
        sampler, step_size = self.sampler, self.step_size
        implied_sampler, known = None, self._samplers
        if isinstance(found, tuple):
            solver_class, implied_sampler, implied_step = found
            varies = issubclass(solver_class, VarianceReducedSolver)
            solver = solver_class(rho=self._option("rho")) if varies else solver_class()
            if implied_step is not None and _is_auto(step_size):
                step_size = implied_step
        else:
            solver = found
            if not _is_auto(self._option("rho")):
                raise ValueError(
                    "rho is a parameter of the solver: set it there, not on the "
                    "estimator, when solver is an instance"
                )
        if _is_auto(sampler):
            sampler = implied_sampler or self._best_sampler(model)
        if implied_sampler is not None:
            check_implied_sampler(self, implied_sampler, sampler, SOLVERS)
        sampler = resolve_part(sampler, known, Sampler, "sampler")
        sampler = self._with_settings(sampler, model)
        if _is_auto(step_size):
            step_size = solver.default_step_size(sampler)
        return sampler, solver, check_schedule(step_size)

    def _best_sampler(self, model):
        """Return the name of the sampler with the least noise that the model allows."""
        for name in ("exact", "mc"):
            if all(hasattr(model, method) for method in SAMPLERS[name].requires):
                return name
        fitting = [
            name
            for name, sampler in self._samplers.items()
            if not missing_methods(model, sampler())
        ]
        advice = (
            "it has no sampler that works either: give the model one of these methods, "
            "or initial_latents and log_joint for Markov samplers"
        )
        if fitting:
            advice = f"choose one of the samplers that work for it: {fitting}"
        raise ValueError(
            f"{type(model).__name__} offers neither posterior nor draw_posterior, so "
            f'that sampler="auto" has no answer; {advice}'
        )

    def _with_settings(self, sampler, model):
        """Return an instance with the estimator's settings for a class of samplers."""
        n_draws = self._option("n_draws")
        if isinstance(sampler, type):
            draws = issubclass(sampler, ExactDraws) and n_draws is not None
            return sampler(n_draws=n_draws) if draws else sampler()
        if n_draws is not None:
            raise ValueError(
                "n_draws is a parameter of the sampler: set it there, not on the "
                "estimator, when sampler is an instance"
            )
        return sampler

    def _settings(self, model, n_rows=None, *, batch_size=None):
        """Return checked settings of a run over rows, or with batches of a stream."""
        self._check_number("max_iter", Integral, 0)
        self._check_number("tol", Real, 0)
        self._check_number("n_iter_no_change", Integral, 1)
        sampling = self._option("sampling")
        check_choice("sampling", sampling, SAMPLING_SCHEMES)
        sampler, solver, step_size = self._parts(model)
        check_compatible(model, sampler)
        average = self._option("average")
        if batch_size is None:
            batch_size = min(self._resolved_batch_size(n_rows), n_rows)
        return RunSettings(
            model=model,
            sampler=sampler,
            solver=solver,
            step_size=step_size,
            batch_size=batch_size,
            sampling=sampling,
            max_passes=self.max_iter,
            tol=float(self._option("tol")),
            patience=self._option("n_iter_no_change"),
            average=False if _is_auto(average) else check_average(average),
        )

    def _resolved_batch_size(self, n_rows):
        return self._given_batch_size(max(1, min(LARGEST_BATCH, n_rows // 20)))

    def _given_batch_size(self, automatic):
        """Return ``batch_size``, checked, or what "auto" means."""
        if _is_auto(self._option("batch_size")):
            return automatic
        self._check_number("batch_size", Integral, 1)
        return int(self._option("batch_size"))

    def _fit(
        self, settings, X, sample_weight, new_run, *, n_init=1, starts=None, finish=None
    ):
        """Run from each start and take over what the best run has found.

        ``new_run(progress)`` makes the state of a start; ``finish(state)`` is the
        last word on the best one. A fit that the user has interrupted takes the result
        of the last finished epoch and then raises KeyboardInterrupt.
        """
        warn_of_unused(self, settings, USER_FRAME)
        progress = FitProgress(random=starts)
        state, interrupted = self._run_starts(
            settings, X, sample_weight, new_run, n_init, progress
        )
        if finish is not None:
            finish(state)
        self._publish(self._fitted_attributes(settings, state, X))
        if interrupted:
            raise KeyboardInterrupt
        return state

    def _publish(self, attributes):
        """Set fitted attributes."""
        for name, value in attributes.items():
            setattr(self, name, value)

    def _run_starts(self, settings, X, sample_weight, new_run, n_init, progress):
        """Run from each start and return the best run.

        ``new_run(progress)`` makes the state of a start. Also returns whether the user
        interrupted: the caller takes the result and then raises it again.
        """
        context = self._callback_context(n_init)
        for callback in getattr(self, "_skl_callbacks", []):
            if hasattr(callback, "restore"):
                progress = callback.restore(self, X, sample_weight) or progress
        self._fit_progress = progress
        try:
            with compile_notice(self.verbose):
                interrupted = self._run_each_start(
                    settings, X, sample_weight, new_run, n_init, progress, context
                )
        finally:
            del self._fit_progress
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self,
                X=X,
                reconstruction_attributes=lambda: self._fitted_attributes(
                    settings, progress.best, X
                ),
            )
        return progress.best, interrupted

    def _run_each_start(
        self, settings, X, sample_weight, new_run, n_init, progress, context
    ):
        """Run from the starts that are left; return whether the user interrupted."""
        # Batches of a random number of distinct rows may visit fewer rows than was
        # reckoned, so that more epochs than passes fit in.
        unsure = sample_weight is not None or settings.sampling == "inclusion"
        passes = int(settings.max_passes)
        epochs = None if unsure or passes == 0 else passes
        if context is not None:
            context.call_on_fit_task_begin(estimator=self, X=X)
        while progress.start < n_init:
            self._print_start(progress.start)
            if progress.current is None:
                try:
                    progress.current = new_run(progress)
                except KeyboardInterrupt:
                    if progress.best is None:
                        raise
                    return True
            one = None
            if context is not None:
                one = context.subcontext(task_name="run", max_subtasks=epochs)
                one.call_on_fit_task_begin(estimator=self, X=X)
            state = progress.current
            run(
                settings,
                X,
                state,
                sample_weight=sample_weight,
                on_epoch=_EpochReport(self, settings, one, X),
            )
            if one is not None:
                one.call_on_fit_task_end(estimator=self, X=X)
            self._print_end(state)
            if progress.best is None or _final(state) > _final(progress.best):
                progress.best = state
            if state.interrupted:
                return True
            progress.current = None
            progress.start += 1
        return False

    def _callback_context(self, n_init):
        if not hasattr(self, "_init_callback_context"):
            return None
        return self._init_callback_context(max_subtasks=n_init)

    def _fitted_attributes(self, settings, state, X):
        """Return the fitted attributes that the state of a run gives."""
        raise TypeError(f"{type(self).__name__} does not define fitted attributes")

    def _warn(self, state, settings):
        """Warn once about what went wrong in a fit."""
        warn_of_run(state, settings, USER_FRAME)

    def _after_epoch(self, state):
        """Return whether the estimator has a reason of its own to stop."""
        return False

    def _print_start(self, start):
        if self.verbose:
            print(f"Initialization {start}")
            self._clock = self._start_clock = time.perf_counter()

    def _print_epoch(self, state):
        epoch = len(state.history)
        if not self.verbose or epoch % self.verbose_interval:
            return
        if self.verbose == 1:
            print(f"  Iteration {epoch}")
            return
        now = time.perf_counter()
        objective = state.history.objective
        change = objective[-1] - objective[-2] if epoch > 1 else np.inf
        print(
            f"  Iteration {epoch}\t time lapse {now - self._clock:.5f}s\t "
            f"ll change {change:.5f}"
        )
        self._clock = now

    def _print_end(self, state):
        if not self.verbose:
            return
        outcome = "converged" if state.converged else "did not converge"
        message = f"Initialization {outcome}."
        if self.verbose > 1:
            lapse = time.perf_counter() - self._start_clock
            message += f" time lapse {lapse:.5f}s\t lower bound {_final(state):.5f}."
        print(message)
        del self._clock, self._start_clock


class _EpochReport:
    """Tells callbacks and the user of each finished epoch."""

    def __init__(self, estimator, settings, context, X):
        self.estimator = estimator
        self.settings = settings
        self.context = context
        self.X = X

    def __call__(self, state):
        estimator = self.estimator
        estimator._print_epoch(state)
        enough = estimator._after_epoch(state)
        if self.context is None:
            return enough
        epoch = self.context.subcontext(task_name="epoch")
        epoch.call_on_fit_task_begin(estimator=estimator, X=self.X)
        stop = epoch.call_on_fit_task_end(
            estimator=estimator,
            X=self.X,
            reconstruction_attributes=lambda: estimator._fitted_attributes(
                self.settings, state, self.X
            ),
        )
        return stop or enough


def _is_auto(value):
    return isinstance(value, str) and value == "auto"


def _final(state):
    objective = state.history.objective
    return objective[-1] if objective and not np.isnan(objective[-1]) else -np.inf
