"""The estimated parameters as one vector."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.design import MixedEffectsParams
from sktem.mixed_effects.effects import covariances_by_name

__all__ = ["AT_BOX", "ParameterVector"]

#: Distance from a bound of a box that counts as none, in units of the parameter.
AT_BOX = 1e-3


class ParameterVector:
    """Order, names and scales of the estimated parameters of a model.

    Four consecutive blocks: coefficients of the random parameters (on the
    Gaussian scale), parameters without a closed-form M-step (residual parameters
    natural, the others on the Gaussian scale), free entries of the covariance, and the
    residual parameter with a closed-form M-step.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.

    Attributes
    ----------
    coefficients, numeric, omega, residual : slice
        The blocks.
    lower : ndarray of int of shape (n, 2)
        Rows and columns of the free entries of the covariance.
    is_residual, is_variance : ndarray of bool of shape (p,)
        Parameters of the residual error, and variances.
    which_residual : list of int
        Which of a and b the parameters of the residual error are.
    least_residual : ndarray
        Their least values.
    box : ndarray of shape (2, k)
        Bounds of the numeric parameters.
    """

    def __init__(self, model):
        design, closed = model.design, model.closed_residual
        self.model, self.design = model, design
        self.closed = [] if closed is None else [closed]
        self.lower = np.array([
            (j, k)
            for j in range(len(design.latents))
            for k in range(j + 1)
            if design.pattern[j, k] and j not in design.held_variances
        ], dtype=np.int64).reshape(-1, 2)  # fmt: skip
        sizes = [design.free.sum(), len(design.numeric), len(self.lower)]
        ends = np.cumsum([0, *sizes, len(self.closed)]).tolist()
        self.coefficients, self.numeric, self.omega, self.residual = (
            slice(start, stop) for start, stop in zip(ends[:-1], ends[1:], strict=True)
        )
        self._numeric_is_residual = np.array(
            [entry.kind == "residual" for entry in design.numeric], dtype=bool
        )
        self.is_residual, self.is_variance = np.zeros((2, ends[-1]), dtype=bool)
        self.is_residual[self.numeric] = self._numeric_is_residual
        self.is_residual[self.residual] = True
        self.which_residual = [
            *(entry.parameter for entry in design.numeric if entry.kind == "residual"),
            *self.closed,
        ]
        self.least_residual = np.array(model.residual_floors)[self.which_residual]
        self.box = design.box
        self.is_variance[self.omega] = self.lower[:, 0] == self.lower[:, 1]

    def __len__(self):
        """Return the number of estimated parameters."""
        return len(self.is_residual)

    @property
    def positive(self) -> np.ndarray:
        """Mask of the positive parameters, which have a logarithm."""
        return self.is_variance | self.is_residual

    def residual_at_floor(self, params: MixedEffectsParams) -> np.ndarray:
        """Return which parameters are those of a residual error at its floor."""
        at_floor = np.zeros(len(self), dtype=bool)
        values = params.sigma[self.which_residual]
        at_floor[self.is_residual] = values <= 1.001 * self.least_residual
        return at_floor

    def room(self, params: MixedEffectsParams) -> np.ndarray:
        """Return the ways of all parameters to their boxes' bounds, in units, two rows.

        Negative ones lead down; infinite ones, of parameters without, go anywhere.
        """
        room = np.full((2, len(self)), [[-np.inf], [np.inf]])
        units = self.units(params)[self.numeric]
        room[:, self.numeric] = (self.box - self.of(params)[self.numeric]) / units
        return room

    def at_box(self, params: MixedEffectsParams) -> np.ndarray:
        """Return which parameters are at the bounds of their boxes."""
        return (np.abs(self.room(params)) < AT_BOX).any(axis=0)

    def passes_through(self, params: MixedEffectsParams) -> bool:
        """Return whether the residual error is at its floor, so that nothing is left.

        The likelihood has no maximum then.
        """
        error, at_floor = self.model.error, self.residual_at_floor(params)
        if error is None or not error.indices:
            return False
        return bool(at_floor.sum() == len(error.indices))

    @property
    def names(self) -> list[str]:
        """Names such as "ka", "beta_Weight(CL)", "omega2_ka", "cov_V_CL", "a"."""
        design, variances = self.design, self.design.variance_names
        names = [design.labels[j] for j in np.flatnonzero(design.free)]
        names += [entry.label for entry in design.numeric]
        known = covariances_by_name(variances, design.pattern)
        entries = {place: name for name, place in known.items()}
        entries |= {(j, j): name for j, name in enumerate(variances)}
        names += [entries[place] for place in map(tuple, self.lower.tolist())]
        return names + [design.residual_names[j] for j in self.closed]

    def of(self, params: MixedEffectsParams) -> np.ndarray:
        """Return the vector of given parameters."""
        residual = self._numeric_is_residual
        j, k = self.lower.T
        return np.concatenate([
            params.coefficients[self.design.free],
            np.where(residual, np.exp(params.numeric * residual), params.numeric),
            params.omega[j, k],
            params.sigma[self.closed],
        ])  # fmt: skip

    def params(
        self, vector: np.ndarray, others: MixedEffectsParams
    ) -> MixedEffectsParams:
        """Return parameters with the estimated ones taken from a vector."""
        coefficients, omega = others.coefficients.copy(), others.omega.copy()
        sigma, numeric = others.sigma.copy(), np.clip(vector[self.numeric], *self.box)
        coefficients[self.design.free] = vector[self.coefficients]
        for e in np.flatnonzero(self._numeric_is_residual):
            sigma[self.design.numeric[e].parameter] = numeric[e]
            numeric[e] = np.log(numeric[e])
        j, k = self.lower.T
        omega[j, k] = omega[k, j] = vector[self.omega]
        if self.design.occasions is not None:
            omega = self.design.spread_out(omega)
        sigma[self.closed] = vector[self.residual]
        return others._replace(
            coefficients=coefficients, omega=omega, sigma=sigma, numeric=numeric
        )

    def units(self, params: MixedEffectsParams, covariates=None) -> np.ndarray:
        """Return a size of each parameter, by which steps can be chosen.

        Standard deviations of random effects over the size of the covariate (of order
        one if these are not given), what the model knows of parameters without a closed
        form, products of standard deviations, and residual errors themselves.
        """
        design = self.design
        spread = np.sqrt(np.diag(params.omega))
        width = np.ones(design.constant.shape[1])
        if covariates is not None:
            width = np.sqrt((covariates**2).mean(axis=0))
            width = np.where(width > 0, width, 1.0)
        free, residual = design.free, self._numeric_is_residual
        known = self.model.units_of_numeric()
        j, k = self.lower.T
        return np.concatenate([
            spread[design.positions[free]] / width[design.columns[free]],
            np.where(residual, np.exp(params.numeric * residual), known),
            spread[j] * spread[k],
            params.sigma[self.closed],
        ])  # fmt: skip
