"""Progress bars of all calls that take long, with one switch."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["bar", "counted", "shown", "show_progress"]

#: Seconds after which a bar appears: shorter calls show none.
DELAY = 0.5

_bars: _Bars | None = None


def show_progress(on=True):
    """Show progress bars for every call that takes longer than half a second.

    Bars say what is being done: epochs of fits and starts, batches of streams, classes,
    temperatures of annealed importance sampling, quadrature nodes, or simulated data
    sets of visual predictive checks. They are written to standard error and require the
    package rich (``pip install "sktem[progress]"``). Workers in other processes and
    threads show no bars.

    Parameters
    ----------
    on : bool, default=True
        False turns bars off again.

    Returns
    -------
    contextlib.ExitStack
        Used in a ``with`` statement, it limits the setting to the block.

    Examples
    --------
    >>> import numpy as np
    >>> import sktem
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> with sktem.show_progress():
    ...     mixture = sktem.StochasticEMGaussianMixture(2, random_state=0).fit(X)

    For a whole session:

    >>> _ = sktem.show_progress()
    >>> _ = sktem.show_progress(False)
    """
    global _bars
    before = ExitStack()
    before.callback(_restore, _bars)
    _bars = _Bars() if on else None
    return before


def _restore(bars):
    """Show bars as before."""
    global _bars
    _bars = bars


def shown() -> bool:
    """Return whether a bar that is opened now would be shown."""
    return _bars is not None and _bars.thread in (None, threading.get_ident())


@contextmanager
def bar(label, total=None):
    """Show a bar while the block runs; yield the function that advances it."""
    bars = _bars
    if bars is None or not shown():
        yield _do_nothing
        return
    thread = bars.thread
    task = bars.begin(label, total)
    try:
        yield lambda steps=1: bars.display.advance(task, steps)
    finally:
        bars.end(task, thread)


def counted(steps, label, verbose=0, seconds=0.0):
    """Yield steps under a bar; with ``verbose``, print ten times how far they are.

    Of lines within ``seconds`` of the start or of the line before, none is printed.
    """
    total, last = len(steps), time.monotonic()
    with bar(label, total) as advance:
        for done, step in enumerate(steps, 1):
            yield step
            advance()
            if verbose and 10 * done // total > 10 * (done - 1) // total:
                if time.monotonic() - last < seconds:
                    continue
                last = time.monotonic()
                print(f"  {label}: {done} of {total}", flush=True)


def _do_nothing(steps=1):
    """Advance no bar."""


class _Bars:
    """The open bars, in one display of rich; those of one thread."""

    def __init__(self):
        try:
            import rich.progress as rich_progress
            from rich.console import Console
        except ImportError as error:
            raise ImportError(
                'Progress bars need rich: pip install "sktem[progress]"'
            ) from error

        class Late(rich_progress.Progress):
            """Shows inner bars, too, only once they have taken some time."""

            def get_renderables(self):
                late = [
                    t for t in self.tasks if t.id == 0 or (t.elapsed or 0.0) > DELAY
                ]
                if late:
                    yield self.make_tasks_table(late)

        def new_display():
            return Late(
                rich_progress.TextColumn("{task.description}"),
                rich_progress.BarColumn(),
                rich_progress.MofNCompleteColumn(),
                rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
            )

        self.new_display = new_display
        self.display: Any = None
        self.timer: Any = None
        self.thread: int | None = None

    def begin(self, label, total):
        """Open a bar inside the open ones."""
        if self.thread is None:
            self.thread, self.display = threading.get_ident(), self.new_display()
            self.timer = threading.Timer(DELAY, self.display.start)
            self.timer.daemon = True
            self.timer.start()
        return self.display.add_task(label, total=total or None)

    def end(self, task, before):
        """Close a bar: an inner one goes, the outermost stays on the screen."""
        if before is not None:
            self.display.remove_task(task)
            return
        self.timer.cancel()
        self.timer.join()
        if self.display.live.is_started:
            # A run may end before its last epoch.
            self.display.update(task, total=self.display.tasks[0].completed)
            self.display.stop()
        self.thread = self.display = None
