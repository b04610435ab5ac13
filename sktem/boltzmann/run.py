"""A fit of a Boltzmann machine: the loop under callbacks, and what it leaves."""

from __future__ import annotations

import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from sktem.boltzmann.arrays import arrays_of
from sktem.boltzmann.loop import run_epochs
from sktem.boltzmann.objective import Objective
from sktem.boltzmann.rounds import has_fallen, rise
from sktem.estimators.base import USER_FRAME, CallbackSupportMixin, FitProgress
from sktem.exceptions import FitWarning

__all__ = ["BoltzmannRun"]


class BoltzmannRun(CallbackSupportMixin):
    """Runs the loop, and turns its state into fitted attributes."""

    def _run(self, settings, X, inputs, units, new_state):
        """Run the loop under scikit-learn's callbacks; return its final state."""
        context = None
        if hasattr(self, "_init_callback_context"):
            context = self._init_callback_context(max_subtasks=settings.n_epochs)
        progress = FitProgress()
        for callback in getattr(self, "_skl_callbacks", []):
            if hasattr(callback, "restore"):
                progress = callback.restore(self, X, None) or progress
        if context is not None:
            context.call_on_fit_task_begin(estimator=self, X=X)
        if progress.current is None:
            progress.current = new_state()
        state = progress.current
        watch = self._watch(settings, units, inputs, state)
        self._fit_progress = progress

        def attributes():
            return {**self._attributes(settings.model, units, state)}

        clock = [time.perf_counter()]

        def on_epoch(state):
            if self.verbose:
                now = time.perf_counter()
                print(
                    f"  Epoch {state.epoch}\t time lapse {now - clock[0]:.5f}s\t "
                    f"difference {state.gap:.5g}"
                )
                clock[0] = now
            if context is None:
                return False
            epoch = context.subcontext(task_name="epoch")
            epoch.call_on_fit_task_begin(estimator=self, X=X)
            return epoch.call_on_fit_task_end(
                estimator=self, X=X, reconstruction_attributes=attributes
            )

        try:
            run_epochs(settings, inputs, state, on_epoch, watch)
        finally:
            del self._fit_progress
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self, X=X, reconstruction_attributes=attributes
            )
        if watch is not None and not state.interrupted:
            self._judge(settings, state, watch)
        return state

    def _watch(self, settings, units, inputs, state):
        """Return what measures the likelihood, None if nothing does."""
        if settings.tol is None or not settings.n_epochs:
            return None
        if state.watch_seed is None:
            state.watch_seed = int(state.streams.monitoring.integers(2**63))
        return Objective(settings, units, inputs, state.watch_seed, self.n_mean_field)

    def _judge(self, settings, state, watch):
        """Warn if the likelihood is too low, or still rises."""
        values = [measure.value for measure in state.measures]
        best = max(values) if settings.adaptive else values[-1]
        if has_fallen(best, watch.base, settings.tol, settings.model.n_visible):
            warnings.warn(
                f"The log-likelihood after the fit, {best:.4g} per row, is below "
                f"that of independent units, {watch.base:.4g}: the steps are too long. "
                "Decrease step_size_m or momentum, or leave both at 'auto'.",
                FitWarning,
                stacklevel=USER_FRAME + 2,
            )
        elif not state.converged and state.epoch - state.begin >= settings.n_epochs:
            last = "round" if settings.adaptive else "half of the epochs"
            warnings.warn(
                f"The fit has not converged after {settings.n_epochs} epochs: the last "
                f"{last} changed the log-likelihood by {rise(state.measures):.3g} per "
                f"row and left it at {best:.4g} ({watch.base:.4g} for independent "
                "units). Increase max_iter, or tol to accept it.",
                ConvergenceWarning,
                stacklevel=USER_FRAME + 2,
            )
        elif watch.normal is not None and best < watch.normal - settings.tol * (
            watch.normal - watch.base
        ):
            warnings.warn(
                f"The log-likelihood after the fit, {best:.4g} per row, is below that "
                f"of one normal density with all covariances, {watch.normal:.4g}: few "
                "binary units are a poor model of strong linear correlations. Whiten "
                "the columns first, as PCA(whiten=True) does, or add hidden units.",
                FitWarning,
                stacklevel=USER_FRAME + 2,
            )

    def _check_same(self, model):
        """Raise if the fitted parameters do not belong to this model."""
        if model.n_parameters != self.params_.shape[0]:
            raise ValueError(
                f"warm_start needs the same machine: it has {model.n_parameters} "
                f"parameters, and {self.params_.shape[0]} were fitted"
            )

    def _publish(self, model, units, state):
        for name, value in self._attributes(model, units, state).items():
            setattr(self, name, value)
        stale = ["log_partition_", "_log_partition_of"]
        if not model.gaussian:
            stale.append("variances_")
        for name in stale:
            self.__dict__.pop(name, None)

    def _attributes(self, model, units, state):
        """Return what the fitted machine is."""
        params, copy = state.params, arrays_of(state.params).copy
        found = {
            "params_": copy(params),
            "chains_": None if state.chains is None else copy(state.chains),
            "biases_": model.biases_by_unit(params),
            "weights_": model.weights_by_unit(params),
            "n_features_in_": model.n_visible,
            "_model": model,
            "_units": units,
        }
        if model.gaussian:
            variances = units.scale**2 / model.precisions(params)
            found["variances_"] = variances
        return found

    def _warn(self, events, stacklevel):
        if events["diverged"]:
            warnings.warn(
                f"The parameters ran away {events['diverged']} times and were held at "
                "+-1000 (see history_.events): the steps are too long. Decrease "
                "step_size_m.",
                FitWarning,
                stacklevel=stacklevel,
            )
