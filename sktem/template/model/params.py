"""Parameters of a mixture of deformable templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["TemplateParams"]


@dataclass(frozen=True, eq=False)
class TemplateParams:
    """Parameters of a mixture of deformable templates.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        Weights of the components.
    coefficients : ndarray of shape (n_components, n_template)
        Template coefficients beta.
    covariances : ndarray of shape (n_components, n_latents, n_latents)
        Covariances Gamma of the deformations.
    noise_variances : ndarray of shape (n_components,)
        Variances sigma^2 of the noise.
    means : ndarray of shape (n_components, n_latents) or None
        Mean deformations of the images. The density does not depend on them, because a
        template and deformations are identified only up to a common deformation. None
        means zero.
    floored : int
        Number of variances that had to be kept from zero in the M-step.
    nuisances : tuple of ndarray or None
        Means (n_components, n_nuisances) and covariances of the nuisances of the
        images. The density does not depend on them either.
    """

    weights: np.ndarray
    coefficients: np.ndarray
    covariances: np.ndarray
    noise_variances: np.ndarray
    means: np.ndarray | None = None
    floored: int = 0
    nuisances: tuple[np.ndarray, np.ndarray] | None = None
    _derived: dict[Any, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self):
        return {**self.__dict__, "_derived": {}}

    def derived(self, key, make):
        """Return a derived quantity by its key, made once."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]
