"""The epochs of every fit: one shell around different iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sktem.rows.base import ChangedRowsError

__all__ = ["Epochs", "run_epochs"]


class Epochs(Protocol):
    """The iterations of a run: Algorithm 1, or the ascent of a Boltzmann machine."""

    def start(self) -> None:
        """Prepare the first epoch, where the run is not resumed."""

    def epoch(self) -> bool:
        """Run the iterations of one epoch; False if none is left."""

    def end_epoch(self) -> None:
        """Record the epoch, and decide whether the run has converged."""

    def finish(self, on_epoch: Callable[[Any], bool] | None) -> None:
        """Set the result, unless the user has interrupted."""

    def go_back(self) -> None:
        """Return to the end of the last finished epoch."""


def run_epochs(
    epochs: Epochs, state: Any, on_epoch: Callable[[Any], bool] | None = None
) -> None:
    """Run until convergence, a stop, an interrupt, or until no epoch is left.

    Parameters
    ----------
    epochs : Epochs
        The iterations of an epoch, their start and end.
    state : object
        State of the run, with ``converged``, ``stopped`` and ``interrupted``. Ctrl-C
        ends the run with the parameters of the last finished epoch, and so does a file
        that can no longer be read or written once an epoch has finished.
    on_epoch : callable or None, default=None
        Called with the state after each epoch; returning True stops the run.
    """
    try:
        epochs.start()
        while not state.converged and epochs.epoch():
            epochs.end_epoch()
            if on_epoch is not None and on_epoch(state):
                state.stopped = True
                break
        epochs.finish(on_epoch)
    except KeyboardInterrupt as error:
        state.interrupted = error
        epochs.go_back()
    except (ChangedRowsError, OSError) as error:
        if not len(state.history):
            raise
        state.interrupted = error
        epochs.go_back()
