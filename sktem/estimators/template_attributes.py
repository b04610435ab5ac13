"""Fitted attributes of deformable templates, from parameters and back."""

from __future__ import annotations

import warnings

import numpy as np

from sktem.estimators.base import USER_FRAME
from sktem.exceptions import FitWarning
from sktem.models.deformable_template import TemplateParams

__all__ = ["FOLDS", "TemplateAttributes"]

#: Share of folded images above which a fit warns.
FOLDS = 0.05


class TemplateAttributes:
    """Between the parameters of the model and the attributes of the estimator."""

    def _params(self):
        """Return the fitted attributes as parameters of the model."""
        return TemplateParams(
            np.asarray(self.weights_, dtype=float),
            np.asarray(self.coefficients_, dtype=float),
            np.asarray(self.covariances_, dtype=float),
            np.asarray(self.noise_variances_, dtype=float) / self._scale**2,
        )

    def _attributes_of(self, params):
        images = [self.grid_.template_at(b) for b in params.coefficients]
        return {
            "weights_": params.weights,
            "coefficients_": params.coefficients,
            "covariances_": params.covariances,
            "noise_variances_": params.noise_variances * self._scale**2,
            "templates_": self._offset
            + self._scale * np.reshape(images, (-1, *self.image_shape_)),
        }

    def _fitted_attributes(self, settings, state, X):
        folds = np.nan
        if state.chains is not None and state.chains.values is not None:
            folds = self._fold_rate(settings.model, state.chains.values[:, 0])
        return {
            **self._attributes_of(state.params),
            "fold_rate_": folds,
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "image_shape_": self.image_shape_,
            "grid_": self.grid_,
            "_offset": self._offset,
            "_scale": self._scale,
            "n_features_in_": self.n_features_in_,
        }

    def _fold_rate(self, model, Z):
        deformations, shares = model.parts(Z)
        chosen = deformations[np.arange(len(Z)), shares.argmax(axis=1)]
        jacobians = self.grid_.min_jacobians(chosen[:, : self.grid_.n_latents])
        return float((jacobians <= 0).mean())

    def _warn_of_folds(self):
        if self.fold_rate_ > FOLDS:
            warnings.warn(
                f"The deformations of {self.fold_rate_:.0%} of the images fold over "
                "themselves. Stronger priors prevent that: decrease deformation_scale, "
                "or increase prior_strength or deformation_width; more n_components "
                "tell styles apart.",
                FitWarning,
                stacklevel=USER_FRAME,
            )
