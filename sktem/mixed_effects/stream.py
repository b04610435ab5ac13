"""Learning of mixed-effects models from batches of subjects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sktem.e_step.random import spawn_streams
from sktem.loop.iterates import IterateRule
from sktem.loop.stream import Stream, StreamState
from sktem.mixed_effects.layout import group_rows, layout_of, structure_of
from sktem.mixed_effects.model import NO_ANNEALING
from sktem.schedules import Polynomial

__all__ = ["MixedEffectsStream"]

#: Sweeps per draw: chains of new subjects start at their prior mean.
SWEEPS = 30
#: Subjects per step, and the schedule of the steps.
BATCH, STEPS = 5, Polynomial(alpha=0.7, offset=2.0)


class MixedEffectsStream:
    """``partial_fit`` of :class:`sktem.NonlinearMixedEffectsRegressor`."""

    def partial_fit(self, X, y, groups=None):
        """Learn from the rows of new subjects, with constant memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates.
        y : array-like of shape (n_samples,)
            Observations.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects; each call brings subjects of its own. None needs ``omega=[]``, no
            random effects.

        Returns
        -------
        NonlinearMixedEffectsRegressor
            The estimator. Methods on fitted data speak of the subjects of this call.
        """
        first = not hasattr(self, "_stream_state")
        self._check()
        fresh = first and not hasattr(self, "params_")
        X, y, (labels, numbers) = self._validated(X, y, groups, reset=fresh)
        structure, parameter_names = structure_of(self.model, self.parameters)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(names)
        layout = layout_of(self, X, names, numbers, structure, parameter_names)
        if not fresh:
            old = self._layout
            same = layout.subject_columns == old.subject_columns
            if not same or layout.row_columns != old.row_columns:
                raise ValueError(
                    "a covariate that was constant within subjects is not any more, or "
                    "the other way round; or groups was given in some calls only"
                )
        codes = np.arange(len(y)) if numbers is None else numbers
        rows, order = group_rows(layout, X, y, codes)
        if first:
            self._stream_model = self._model_of(structure, layout, rows)
            self._stream_model.set_params(annealing=NO_ANNEALING)
        model = self._stream_model
        settings = self._settings(model, 20 * BATCH)
        sampler = settings.sampler
        steps = max(SWEEPS, sampler.n_steps)
        settings = replace(
            settings,
            sampler=type(sampler)(**{**sampler.get_params(), "n_steps": steps}),
            step_size=settings.step_size if self.step_size != "auto" else STEPS,
            batch_size=BATCH if self.batch_size == "auto" else int(self.batch_size),
        )
        if first:
            self._stream_state = StreamState(
                params=getattr(self, "params_", model.start),
                s=getattr(self, "statistics_", None),
                streams=spawn_streams(self.random_state),
                iterates=IterateRule(False),
                mass=float(len(self._rows)) if hasattr(self, "_rows") else 0.0,
            )
        Stream(settings).update(self._stream_state, rows)
        params, s = Stream(settings).published(self._stream_state)
        self._model, self._layout, self._rows = model, layout, rows
        self._order, self._cache, self._chains = order, {}, None
        self._known = None if numbers is None else labels
        self.groups_, self.params_, self.statistics_ = labels, params, s
        for name, value in self._described(model, params).items():
            setattr(self, name, value)
        return self
