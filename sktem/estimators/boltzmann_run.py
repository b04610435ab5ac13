"""A fit of a Boltzmann machine: the loop under callbacks, and what it leaves."""

from __future__ import annotations

import time
import warnings

from sktem.arrays import arrays_of
from sktem.contrastive_loop import run_epochs
from sktem.estimators.base import CallbackSupportMixin, FitProgress
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
            run_epochs(settings, inputs, state, on_epoch)
        finally:
            del self._fit_progress
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self, X=X, reconstruction_attributes=attributes
            )
        return state

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
        if not hasattr(self, "variances_") or not model.gaussian:
            self.__dict__.pop("variances_", None)

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
            "_exact_log_partition": None,
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
