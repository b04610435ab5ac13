"""Fitted attributes of deformable templates, from parameters and back."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktem.estimators.base import USER_FRAME
from sktem.exceptions import FitWarning
from sktem.schedules import steps_from
from sktem.template.geometry import geometry
from sktem.template.model import TemplateParams

__all__ = ["TemplateAttributes"]

#: Share of pixels in folds above which a fit warns, and how much wider than usual the
#: kernel of a template is that is to blame.
FOLDS, COARSE = 0.05, 1.3

#: Images whose modes are sought for folds, where there are no chains, and images whose
#: Jacobians are computed at once.
JUDGED, IMAGES_AT_ONCE = 50, 64

#: Changes over the last third of a run that are too large: of the template, relative to
#: its deviation over the pixels, and of the logarithm of the noise variance, for steps
#: that sum to several units. Runs of fewer passes are too short to be judged.
DRIFT, DRIFT_OF_NOISE, LEAST_PASSES = 0.04, 0.06, 20


class TemplateAttributes:
    """Between the parameters of the model and the attributes of the estimator."""

    def _params(self):
        """Return the fitted attributes as parameters of the model."""
        return TemplateParams(
            np.asarray(self.weights_, dtype=float),
            np.asarray(self.coefficients_, dtype=float),
            np.asarray(self.covariances_, dtype=float),
            np.asarray(self.noise_variances_, dtype=float) / self._scale**2,
            np.asarray(self.mean_deformations_, dtype=float),
        )

    def _attributes_of(self, model, params):
        means = model.means_of(params)
        images = [
            self.grid_.deformed(b, z)
            for b, z in zip(params.coefficients, means, strict=True)
        ]
        return {
            "weights_": params.weights,
            "coefficients_": params.coefficients,
            "covariances_": params.covariances,
            "mean_deformations_": means,
            "noise_variances_": params.noise_variances * self._scale**2,
            "templates_": self._offset
            + self._scale * np.reshape(images, (-1, *self.image_shape_)),
        }

    def _fitted_attributes(self, settings, state, X):
        Y = (X[:JUDGED] - self._offset) / self._scale
        folds = self._folds(settings.model, state.params, Y, state.chains)
        return {
            **self._attributes_of(settings.model, state.params),
            "fold_rate_": folds[0],
            "folded_pixels_": folds[1],
            "converged_": self._converged(settings, state),
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "image_shape_": self.image_shape_,
            "grid_": self.grid_,
            "_offset": self._offset,
            "_scale": self._scale,
            "_mass": settings.model.n_rows,
            "n_features_in_": self.n_features_in_,
        }

    def _folds(self, model, params, Y, chains):
        """Return the share of images whose deformation folds, and of pixels that do."""
        if chains is not None and chains.values is not None:
            deformations, shares = model.parts(chains.values[:, 0])
            chosen = deformations[np.arange(len(deformations)), shares.argmax(axis=1)]
            chosen = chosen[:, : self.grid_.n_latents]
        else:
            chosen = self._modes_under(model, params, Y)[0]
        folded, rows = [], IMAGES_AT_ONCE
        for start in range(0, len(chosen), rows):
            folded.append(self.grid_.jacobians(chosen[start : start + rows]) <= 0)
        folded = np.concatenate(folded)
        return float(folded.any(axis=1).mean()), float(folded.mean())

    def _fold_advice(self):
        """Return what to do about folds, or None if too few pixels fold."""
        if not self.folded_pixels_ > FOLDS:
            return None
        usual = geometry(self.image_shape_, *["auto"] * 4).template_scale
        if self.grid_.template_scale > COARSE * usual:
            return (
                "The template is too coarse to be sharp without contractions: increase "
                "template_landmarks."
            )
        return (
            "Decrease deformation_scale, increase prior_strength or deformation_width, "
            "or tell styles apart by more n_components."
        )

    def _warn_of_folds(self):
        advice = self._fold_advice()
        if advice is not None:
            warnings.warn(
                f"{self.folded_pixels_:.0%} of the pixels lie where deformations fold "
                f"over themselves, in {self.fold_rate_:.0%} of the images, which have "
                f"no inverse there. {advice}",
                FitWarning,
                stacklevel=USER_FRAME,
            )

    def _after_epoch(self, state):
        # What the end of the run is compared with.
        if state.trace is None and 3 * state.history.passes[-1] >= 2 * self.max_iter:
            state.trace = (state.params, state.solver.iteration)
        return False

    def _print_end(self, state):
        if self.verbose:
            print("Passes used up.")

    def _converged(self, settings, state):
        """Return whether template and noise had settled in the last third of a run."""
        if state.trace is None or settings.max_passes < LEAST_PASSES:
            return False
        (before, first), now = state.trace, state.params
        means = settings.model.means_of
        # Averages with small steps have covered only this share of what was left.
        count = state.solver.iteration - first
        steps = steps_from(settings.step_size, first + 1, count)
        covered = 1 - np.prod(1 - np.minimum(steps, 1))
        for t in range(len(now.weights)):
            if now.weights[t] * state.n_rows < 1:
                continue
            new = self.grid_.deformed(now.coefficients[t], means(now)[t])
            old = self.grid_.deformed(before.coefficients[t], means(before)[t])
            moved = np.sqrt(np.mean((new - old) ** 2))
            ratio = now.noise_variances[t] / before.noise_variances[t]
            if moved > covered * DRIFT * new.std():
                return False
            if abs(np.log(ratio)) > covered * DRIFT_OF_NOISE:
                return False
        return True

    def _drifts(self):
        """Return whether a run that was long enough to be judged has not settled."""
        return self.history_.passes[-1:] >= [LEAST_PASSES] and not self.converged_

    def _warn_of_drift(self):
        if self._drifts():
            warnings.warn(
                "Template or noise still changed in the last third of the passes. "
                "Increase max_iter and compare the scores of images left out: "
                "with few images, a longer run may fit them too closely.",
                ConvergenceWarning,
                stacklevel=USER_FRAME,
            )
