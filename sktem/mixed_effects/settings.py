"""Checked parameters of the mixed-effects estimator."""

from __future__ import annotations

from typing import Any, NamedTuple

from sktem.mixed_effects.columns import InputSettings
from sktem.mixed_effects.endpoints import residual_error_of
from sktem.mixed_effects.residual_errors import ResidualError
from sktem.mixed_effects.structural import check_model

__all__ = ["MixedEffectsSettings"]


class MixedEffectsSettings(NamedTuple):
    """Checked parameters of a mixed-effects model.

    Attributes
    ----------
    inputs : InputSettings
        The model, and roles of the columns of X.
    parameters : dict
        Start values by name.
    transforms : str, tuple or dict
        Transforms of the parameters.
    omega : str, list of str or array-like
        Covariance of the random effects.
    fixed : list of str, dict or None
        Estimates that stay, and priors.
    omega_start : float, dict or None
        Variances of the random effects at the start.
    residual_error : str, tuple or dict
        Residual error or outcome.
    log_density, draw : callable or None
        Log-density of the rows in place of it, and draws of them.
    gradient : callable or None
        Derivatives of the model by the parameters.
    n_jobs : int or None
        Threads.
    """

    inputs: InputSettings
    parameters: dict[str, float]
    transforms: Any
    omega: Any
    fixed: Any
    omega_start: Any
    residual_error: Any
    log_density: Any
    draw: Any
    gradient: Any
    n_jobs: int | None

    @classmethod
    def of(cls, parameters) -> MixedEffectsSettings:
        """Return the settings from parameters by name."""
        inputs = InputSettings(*(parameters[name] for name in InputSettings._fields))
        return cls(inputs, *(parameters[name] for name in cls._fields[1:]))

    @property
    def error(self) -> ResidualError | None:
        """The residual error, None with a log_density."""
        if self.log_density is not None:
            return None
        return residual_error_of(self.residual_error)

    def check(self):
        """Raise if a parameter is out of its range, whatever the data are."""
        check_model(self.inputs.model)
        if self.error is not None and self.inputs.model is None:
            raise ValueError("model=None needs log_density")
        if self.error is None and not callable(self.log_density):
            raise TypeError(f"log_density must be callable, got {self.log_density!r}")
        if self.draw is not None and (
            self.error is not None or not callable(self.draw)
        ):
            raise TypeError(
                f"draw must be callable, with log_density, got {self.draw!r}"
            )
