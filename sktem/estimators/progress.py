"""Progress of a call that users see: tasks of callbacks, and printed lines."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np

from sktem.progress import bar

__all__ = [
    "Lines",
    "Task",
    "compile_notice",
    "final_objective",
]

NOTICE = "Compiling loops (once on this machine, it takes some seconds) ..."


@contextmanager
def compile_notice(verbose):
    """Print one line if numba compiles within the block and ``verbose`` is positive."""
    if not verbose:
        yield
        return
    from numba.core import event

    class Notice(event.Listener):
        """Prints at the first start."""

        printed = False

        def on_start(self, event):
            if not self.printed:
                self.printed = True
                print(NOTICE, flush=True)

        def on_end(self, event):
            """Do nothing."""

    with event.install_listener("numba:compile", Notice()):
        yield


class Task:
    """A task of scikit-learn's callbacks, without effect where there are none."""

    def __init__(self, estimator, X, context, in_stream=False):
        self.estimator = estimator
        self.X = X
        self.context = context
        self.in_stream = in_stream

    @classmethod
    def of_call(cls, estimator, X, name="fit", n_subtasks=None) -> Task:
        """Return the task of a call, which must be decorated ``with_callbacks``."""
        context = None
        names = ("_skl_callbacks", "_parent_callback_ctx")
        if any(hasattr(estimator, name) for name in names):
            context = estimator._init_callback_context(name, max_subtasks=n_subtasks)
        return cls(estimator, X, context, name == "partial_fit")

    @property
    def watched(self) -> bool:
        """Whether there is a callback."""
        return self.context is not None and hasattr(self.estimator, "_skl_callbacks")

    def begin(self) -> None:
        """Call the callbacks of the beginning of the task."""
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator, X=self.X)

    def end(self, attributes=None) -> bool:
        """Call the callbacks of the end of the task; return whether one wants to stop.

        ``attributes()`` are the fitted attributes that it has led to.
        """
        if self.context is None:
            return False
        return self.context.call_on_fit_task_end(
            estimator=self.estimator, X=self.X, reconstruction_attributes=attributes
        )

    def subtask(self, name, n_subtasks=0) -> Task:
        """Return a task within this one, which has begun."""
        context = self.context
        if context is not None:
            context = context.subcontext(task_name=name, max_subtasks=n_subtasks)
        task = Task(self.estimator, self.X, context, self.in_stream)
        task.begin()
        return task

    @contextmanager
    def chunk(self, n_steps, step_name):
        """Run the steps of a chunk; yield the function to call after each of them."""
        within = self.subtask("chunk", n_steps)
        label = f"{type(self.estimator).__name__}: {step_name}es of a chunk"
        with bar(label, n_steps) as advance:

            def on_step():
                advance()
                within.subtask(step_name).end()

            yield on_step
        within.end()


class Lines:
    """The lines of a verbose fit: epochs with 1, times and changes too with 2."""

    def __init__(self, verbose, interval):
        self.verbose = verbose
        self.interval = interval
        self.began = self.last = time.perf_counter()

    def start(self, index) -> None:
        """Print that a start begins."""
        if self.verbose:
            print(f"Initialization {index}")
        self.began = self.last = time.perf_counter()

    def epoch(self, history) -> None:
        """Print an epoch."""
        epoch = len(history)
        if not self.verbose or epoch % self.interval:
            return
        if self.verbose == 1:
            print(f"  Iteration {epoch}")
            return
        objective = history.objective
        line = f"  Iteration {epoch}\t time lapse {self.lapse():.5f}s"
        if objective:
            change = objective[-1] - objective[-2] if len(objective) > 1 else np.inf
            line += f"\t ll change {change:.5f}"
        print(line)

    def lapse(self) -> float:
        """Return the seconds since the line before."""
        now = time.perf_counter()
        before, self.last = self.last, now
        return now - before

    def end(self, outcome, state) -> None:
        """Print how a run has ended."""
        if not self.verbose:
            return
        if self.verbose > 1:
            outcome += f" time lapse {time.perf_counter() - self.began:.5f}s"
            bound = final_objective(state)
            outcome += f"\t lower bound {bound:.5f}." if np.isfinite(bound) else ""
        print(outcome)

    def chunk(self, count, so_far, what) -> None:
        """Print that a chunk of a stream has been learned."""
        if not self.verbose:
            return
        line = f"  Chunk of {count} {what}"
        if self.verbose > 1:
            line += f"\t time lapse {self.lapse():.5f}s\t {so_far} {what} so far"
        print(line)


def final_objective(state) -> float:
    """Return the objective at the end of a run, below all others if it is not known."""
    last = state.history.objective[-1:]
    for value in (getattr(state, "objective", np.nan), *last):
        if not np.isnan(value):
            return float(value)
    return -np.inf
