"""Deformable templates on a stream: the start, then steps with constant memory."""

from __future__ import annotations

from dataclasses import replace

from sktem.e_step.random import spawn_generators
from sktem.estimators.kept_rows import KeptRows
from sktem.loop.iterates import IterateRule, check_average
from sktem.loop.stream import Stream, StreamState
from sktem.schedules import Polynomial
from sktem.template.setup import check_same, new_grid, new_model, standards

__all__ = ["TemplateStream"]

#: Images whose modes are sought for folds, where there are no chains.
JUDGED = 50

#: Images per component from which a start is made, and images per step on a stream.
IMAGES_OF_A_START, STREAM_BATCH = 20, 20


class TemplateStream:
    """Images kept for the start, then the state of the stream.

    Parameters
    ----------
    estimator : DeformableTemplateEstimator
        Holds the settings and, after a fit, parameters to go on from.
    """

    def __init__(self, estimator):
        self.kept = KeptRows()
        self.started_at = 0
        self.n_rows = 0
        self.state: StreamState | None = None
        if hasattr(estimator, "coefficients_"):
            self.state = self._state(estimator)

    @staticmethod
    def _state(estimator):
        """Return a state that goes on from fitted parameters."""
        return StreamState(
            params=estimator._params(),
            s=estimator._statistics,
            generators=spawn_generators(estimator.random_state),
            iterates=IterateRule(check_average(estimator.average)),
            mass=estimator._mass,
        )

    def update(self, estimator, X, sample_weight):
        """Learn from a chunk.

        Parameters
        ----------
        estimator : DeformableTemplateEstimator
            Gets the parameters.
        X : ndarray of shape (n_samples, n_pixels)
            Images.
        sample_weight : ndarray of shape (n_samples,) or None
            Positive weights.
        """
        self.n_rows += len(X)
        if self.state is not None:
            check_same(estimator)
        else:
            X, sample_weight = self._start(estimator, X, sample_weight)
            if len(X) == 0:
                return
        Y = (X - estimator._offset) / estimator._scale
        mass = float(len(X) if sample_weight is None else sample_weight.sum())
        stream = self._stream(estimator, self.state.mass + mass)
        stream.update(self.state, Y, sample_weight)
        params, estimator._statistics = stream.published(self.state)
        estimator._mass = self.state.mass
        estimator._publish(estimator._attributes_of(stream.settings.model, params))
        new = estimator._folds(stream.settings.model, params, Y[-JUDGED:], None)
        step = min(len(Y) / JUDGED, 1.0)
        estimator.fold_rate_ += step * (new[0] - estimator.fold_rate_)
        estimator.folded_pixels_ += step * (new[1] - estimator.folded_pixels_)

    def _start(self, estimator, X, sample_weight):
        """Keep images until there are enough; return those that are left over."""
        needed = IMAGES_OF_A_START * estimator.n_components
        X, sample_weight = self.kept.add(X, sample_weight, needed)
        enough = self.kept.count >= needed
        # A new start for every image that comes would cost more than it is worth.
        if enough or self.kept.count >= 1.3 * self.started_at:
            self.started_at = self.kept.count
            self._fit_kept(estimator)
        if enough:
            self.state, self.kept = self._state(estimator), KeptRows()
        return X, sample_weight

    def _fit_kept(self, estimator):
        rows, weights = self.kept.joined()
        mass = float(len(rows) if weights is None else weights.sum())
        estimator.grid_ = new_grid(estimator)
        estimator._offset, estimator._scale = standards(
            rows, weights, estimator.image_shape_
        )
        state, settings, interrupted = estimator._run(rows, weights, mass, None)
        estimator._publish(estimator._fitted_attributes(settings, state, rows))
        estimator._statistics = state.returned
        if interrupted:
            raise KeyboardInterrupt

    @staticmethod
    def _stream(estimator, mass):
        model = new_model(estimator, estimator.grid_, mass, start_at_mode=True)
        settings = estimator._settings(model, STREAM_BATCH)
        step_size = settings.step_size
        if isinstance(estimator.step_size, str):
            step_size = Polynomial(alpha=0.6, offset=2.0)
        batch_size = settings.batch_size
        if not isinstance(estimator.batch_size, str):
            batch_size = int(estimator.batch_size)
        return Stream(
            replace(
                settings,
                step_size=step_size,
                batch_size=batch_size,
                # One pass of a population solver fills the memory.
                max_passes=2.0,
            )
        )
