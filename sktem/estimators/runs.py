"""Common parts of fits that run epochs: starts, callbacks, checkpoints, printing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from sklearn.base import BaseEstimator

from sktem.choices import KnownParametersMixin
from sktem.estimators.progress import Lines, Task, compile_notice, final_objective
from sktem.links import DocumentationLinkMixin
from sktem.progress import bar
from sktem.rows.partitions import at_workers

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = [
    "CallbackSupportMixin",
    "EpochEstimator",
    "FitProgress",
    "unchanged_by_errors",
    "undone_if_refused",
    "with_callbacks",
]

#: Attributes that a fit with a result sets anew, also one that was interrupted.
RESULTS = ("fitted_", "history_")

#: Attributes of which one is set once a stream has learned something.
LEARNED = ("_stream", "fitted_")


def unchanged_by_errors(fit):
    """Return a method that leaves its estimator as it was if there is no result."""

    @wraps(fit)
    def call(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            now = vars(self)
            if all(now.get(name) is before.get(name) for name in RESULTS):
                now.clear()
                now.update(before)
            raise

    return call


def undone_if_refused(partial_fit):
    """Return a method whose first call leaves no trace if it fails."""

    @wraps(partial_fit)
    def call(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return partial_fit(self, *args, **kwargs)
        except BaseException:
            now = vars(self)
            if all(
                each.get(name) is None for each in (before, now) for name in LEARNED
            ):
                now.clear()
                now.update(before)
            raise

    return call


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


class EpochEstimator(
    KnownParametersMixin, DocumentationLinkMixin, CallbackSupportMixin, BaseEstimator
):
    """Base of the estimators whose fits run epochs.

    Subclasses have the parameters ``verbose`` and ``verbose_interval``. What
    ``settings`` are is theirs.
    """

    def _fit(
        self, settings, X, sample_weight, new_run, *, n_init=1, starts=None,
        finish=None, further_run=None,
    ):  # fmt: skip
        """Run from each start and take over the result of the best run.

        ``new_run(progress)`` makes the state of a start, ``further_run(progress)`` that
        of one more start, or None, once the best of them is known; ``finish(state)``
        completes the best one. A fit that is interrupted, by the user or by a file that
        can no longer be read, takes the result of the last finished epoch and then
        raises the error.
        """
        progress = FitProgress(random=starts)
        with at_workers(X) as new_events:
            state, interrupted = self._run_starts(
                settings, X, sample_weight, new_run, n_init, progress,
                further_run=further_run,
            )  # fmt: skip
            if finish is not None:
                finish(state)
            state.history.events.update(new_events())
            self._publish(self._fitted_attributes(settings, state, X))
        if interrupted:
            raise interrupted
        return state

    def _partial_fit(self, stream, settings, X, sample_weight=None, what="rows"):
        """Learn from a chunk and publish the state of the stream."""
        task = Task.of_call(self, X, "partial_fit")
        task.begin()
        lines, before = Lines(self.verbose, 1), stream.n_rows
        with compile_notice(self.verbose):
            stream.update(settings, X, sample_weight, task)
        self._stream = stream
        self._publish_stream(stream, settings)
        lines.chunk(stream.n_rows - before, stream.n_rows, what)
        task.end(lambda: self._stream_attributes(stream, settings))
        return self

    def _stream_attributes(self, stream, settings):
        """Return the fitted attributes that a stream gives."""
        return stream.published(settings)

    def _publish_stream(self, stream, settings):
        """Set the fitted attributes of a stream."""
        self._publish(self._stream_attributes(stream, settings))

    def _publish(self, attributes):
        """Set fitted attributes."""
        for name, value in attributes.items():
            setattr(self, name, value)

    def _run_starts(
        self, settings, X, sample_weight, new_run, n_init, progress, task=None,
        further_run=None,
    ):  # fmt: skip
        """Run from each start and return the best run.

        ``new_run(progress)`` makes the state of a start; see `_fit`. A task is that of
        ``partial_fit``, of which the runs are a part. Also returns what interrupted,
        or None: the caller takes the result and then raises it again.
        """
        whole = task is None
        if whole:
            n_runs = n_init + (further_run is not None)
            task = Task.of_call(self, X, n_subtasks=n_runs)
            for callback in getattr(self, "_skl_callbacks", []):
                if hasattr(callback, "restore"):
                    progress = callback.restore(self, X, sample_weight, progress)
            task.begin()
        with compile_notice(self.verbose):
            interrupted = self._run_each_start(
                settings, X, sample_weight, new_run, n_init, progress, task, further_run
            )
        if whole:
            task.end(lambda: self._fitted_attributes(settings, progress.best, X))
        return progress.best, interrupted

    def _run_each_start(
        self, settings, X, sample_weight, new_run, n_init, progress, task, further_run
    ):
        """Run from the starts that are left; return the interrupting error, or None."""
        epochs = self._epoch_count(settings, sample_weight)
        lines = Lines(self.verbose, self.verbose_interval)
        while progress.start < n_init + (further_run is not None):
            is_further = progress.start == n_init
            if not is_further:
                lines.start(progress.start)
            if progress.current is None:
                try:
                    make = further_run if is_further else new_run
                    progress.current = make(progress)
                except KeyboardInterrupt as error:
                    if progress.best is None:
                        raise
                    return error
                if progress.current is None:
                    break
            if is_further:
                lines.start(progress.start)
            state, subtask = progress.current, task.subtask("run", epochs)
            label = f"{type(self).__name__}: epochs"
            if is_further:
                label += " of a better start"
            elif n_init > 1:
                label += f" of start {progress.start + 1} of {n_init}"
            with bar(label, epochs) as advance:
                attributes = partial(self._fitted_attributes, settings, X=task.X)
                report = _EpochReport(
                    attributes, self._after_epoch, subtask, lines, advance
                )
                self._run_epochs(settings, X, state, sample_weight, report)
            subtask.end()
            lines.end(self._outcome(state), state)
            best = progress.best
            if best is None or final_objective(state) > final_objective(best):
                progress.best = state
            if state.interrupted:
                return state.interrupted
            progress.current = None
            progress.start += 1
        return None

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
        """Return whether the estimator has its own reason to stop."""
        return False

    def _outcome(self, state):
        """Return the last line of a verbose run."""
        if state.converged:
            return "Initialization converged."
        if getattr(self, "tol", None) is None:
            return "Passes used up."
        return "Initialization did not converge."


class _EpochReport:
    """Reports each finished epoch to callbacks and to the user.

    ``attributes_of(state)`` are fitted attributes, and ``is_enough(state)`` is a reason
    of the estimator to stop.
    """

    def __init__(self, attributes_of, is_enough, task, lines, advance):
        self.attributes_of = attributes_of
        self.is_enough = is_enough
        self.task = task
        self.lines = lines
        self.advance = advance

    def __call__(self, state):
        self.advance()
        self.lines.epoch(state.history)
        enough = self.is_enough(state)
        # The start of a stream has no epochs that a user would score or save.
        name = "pass" if self.task.in_stream else "epoch"
        stop = self.task.subtask(name).end(lambda: self.attributes_of(state))
        return stop or enough
