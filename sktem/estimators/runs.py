"""Common parts of fits that run epochs: starts, callbacks, checkpoints, printing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sktem.estimators.progress import compile_notice
from sktem.links import DocumentationLinkMixin

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = [
    "USER_FRAME",
    "CallbackSupportMixin",
    "EpochEstimator",
    "FitProgress",
    "with_callbacks",
]

#: Frames from a warning in ``_warn`` to the caller of ``fit``, which scikit-learn's
#: callbacks wrap once.
USER_FRAME = 3 + hasattr(CallbackSupportMixin, "set_callbacks")


@dataclass
class FitProgress:
    """State of a fit with several starts; it can be pickled after each epoch.

    Attributes
    ----------
    start : int
        Number of the current start.
    current : object or None
        The run of the current start.
    best : object or None
        The best finished run.
    random : object
        Random state of the starts.
    """

    start: int = 0
    current: Any = None
    best: Any = None
    random: Any = None


class EpochEstimator(DocumentationLinkMixin, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators whose fits run epochs.

    Subclasses have the parameters ``verbose`` and ``verbose_interval``. What
    ``settings`` are is theirs.
    """

    def _fit(
        self, settings, X, sample_weight, new_run, *, n_init=1, starts=None, finish=None
    ):
        """Run from each start and take over the result of the best run.

        ``new_run(progress)`` makes the state of a start; ``finish(state)`` is the
        last word on the best one. A fit that the user has interrupted takes the result
        of the last finished epoch and then raises KeyboardInterrupt.
        """
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
        epochs = self._epoch_count(settings, sample_weight)
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
            report = _EpochReport(self, settings, one, X)
            self._run_epochs(settings, X, state, sample_weight, report)
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

    def _run_epochs(self, settings, X, state, sample_weight, on_epoch):
        """Run the epochs of one start."""
        raise TypeError(f"{type(self).__name__} does not define a run")

    def _epoch_count(self, settings, sample_weight):
        """Return the number of epochs of a start, at most; None if it is not known."""
        return None

    def _fitted_attributes(self, settings, state, X):
        """Return the fitted attributes that the state of a run gives."""
        raise TypeError(f"{type(self).__name__} does not define fitted attributes")

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
        change = objective[-1] - objective[-2] if len(objective) > 1 else np.inf
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


def _final(state):
    objective = state.history.objective
    return objective[-1] if objective and not np.isnan(objective[-1]) else -np.inf
