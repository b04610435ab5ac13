"""A fit of a Boltzmann machine: the loop under callbacks, and what to warn of."""

from __future__ import annotations

import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from sktem.boltzmann.calls import users_frame
from sktem.boltzmann.loop import run_epochs
from sktem.boltzmann.objective import Objective
from sktem.boltzmann.rounds import has_fallen, rise
from sktem.estimators.base import FitProgress
from sktem.exceptions import FitWarning

__all__ = ["run_fit", "warn_of_events"]

#: How far below one normal density Gaussian units may end, as a share of what that is
#: above independent columns, and in nats for each column.
FAR = 0.1
FAR_BY_COLUMN = 0.02


def run_fit(machine, settings, X, inputs, units, new_state, attributes):
    """Run the loop under scikit-learn's callbacks.

    Parameters
    ----------
    machine : LatentBoltzmannMachine
        The estimator, to which the callbacks belong.
    settings : ContrastiveSettings
        Settings of the run.
    X, inputs : array or sparse matrix of shape (n_rows, n_visible)
        The data, and what the machine sees of them.
    units : VisibleUnits
        The visible units.
    new_state : callable
        Returns the state in which a run begins that is not resumed.
    attributes : callable
        Returns the fitted attributes that a state means.

    Returns
    -------
    ContrastiveState
        The final state.
    """
    context = None
    if hasattr(machine, "_init_callback_context"):
        context = machine._init_callback_context(max_subtasks=settings.n_epochs)
    progress = FitProgress()
    for callback in getattr(machine, "_skl_callbacks", []):
        if hasattr(callback, "restore"):
            progress = callback.restore(machine, X, None) or progress
    if context is not None:
        context.call_on_fit_task_begin(estimator=machine, X=X)
    if progress.current is None:
        progress.current = new_state()
    state = progress.current
    watch = _watch(settings, units, inputs, state, machine.n_mean_field)
    machine._fit_progress = progress
    reconstruction = {"reconstruction_attributes": lambda: attributes(state)}
    clock = [time.perf_counter()]

    def on_epoch(state):
        if machine.verbose:
            now = time.perf_counter()
            print(
                f"  Epoch {state.epoch}\t time lapse {now - clock[0]:.5f}s\t "
                f"difference {state.gap:.5g}"
            )
            clock[0] = now
        if context is None:
            return False
        epoch = context.subcontext(task_name="epoch")
        epoch.call_on_fit_task_begin(estimator=machine, X=X)
        return epoch.call_on_fit_task_end(estimator=machine, X=X, **reconstruction)

    try:
        run_epochs(settings, inputs, state, on_epoch, watch)
    finally:
        del machine._fit_progress
    if context is not None:
        context.call_on_fit_task_end(estimator=machine, X=X, **reconstruction)
    if watch is not None and not state.interrupted:
        _judge(settings, state, watch)
    return state


def _watch(settings, units, inputs, state, n_mean_field):
    """Return what measures the likelihood, None if nothing does."""
    if settings.tol is None or not settings.n_epochs:
        return None
    if state.watch_seed is None:
        state.watch_seed = int(state.generators.monitoring.integers(2**63))
    return Objective(settings, units, inputs, state.watch_seed, n_mean_field)


def _judge(settings, state, watch):
    """Warn if the likelihood is too low, or still rises."""
    values = [measure.value for measure in state.measures]
    best = max(values) if settings.adaptive else values[-1]
    if has_fallen(best, watch.base, settings.tol, settings.model.n_visible):
        warnings.warn(
            f"The log-likelihood after the fit, {best:.4g} per row, is below "
            f"that of independent units, {watch.base:.4g}: the steps are too long. "
            "Decrease step_size_m or momentum, or leave both at 'auto'.",
            FitWarning,
            stacklevel=users_frame(),
        )
    elif not state.converged and state.epoch - state.begin >= settings.n_epochs:
        last = "round" if settings.adaptive else "half of the epochs"
        warnings.warn(
            f"The fit has not converged after {settings.n_epochs} epochs: the last "
            f"{last} changed the log-likelihood by {rise(state.measures):.3g} per "
            f"row and left it at {best:.4g} ({watch.base:.4g} for independent "
            "units). Increase max_iter, or tol to accept it.",
            ConvergenceWarning,
            stacklevel=users_frame(),
        )
    elif watch.normal is not None and watch.normal - best > max(
        FAR * (watch.normal - watch.base), FAR_BY_COLUMN * settings.model.n_visible
    ):
        warnings.warn(
            f"The log-likelihood after the fit, {best:.4g} per row, is below that "
            f"of one normal density with all covariances, {watch.normal:.4g}: few "
            "binary units are a poor model of strong linear correlations. Whiten "
            "the columns first, as PCA(whiten=True) does, or add hidden units.",
            FitWarning,
            stacklevel=users_frame(),
        )


def warn_of_events(events) -> None:
    """Warn if parameters have run away.

    Parameters
    ----------
    events : Counter
        What has happened in a fit, and how often.
    """
    if events["diverged"]:
        warnings.warn(
            f"The parameters ran away {events['diverged']} times and were held at "
            "+-1000 (see history_.events): the steps are too long. Decrease "
            "step_size_m.",
            FitWarning,
            stacklevel=users_frame(),
        )
