"""Fitted mixtures, which answer about rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sktem.emissions.gaussian import Gaussian, GaussianParams
from sktem.estimators.by_blocks import weighted_sum
from sktem.mixture import emission_model, tensors
from sktem.mixture.emission_model import EmissionMixtureModel, EmissionMixtureParams
from sktem.mixture.incomplete import observed_rows
from sktem.mixture.tensors import like_rows
from sktem.rows.held import carrier_of

__all__ = ["FittedGaussianMixture", "FittedMixture"]


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """A mixture of an emission, with its parameters.

    Attributes
    ----------
    model : EmissionMixtureModel
        The model.
    params : EmissionMixtureParams
        Its parameters.
    """

    model: Any
    params: Any

    @property
    def of_emission(self) -> FittedMixture:
        """The same mixture, of an emission."""
        return self

    def log_density(self, X):
        """Return the log-density of the observed values of each row."""
        return self.model.log_likelihood(X, self.params)

    def labels(self, X):
        """Return the most probable component of each row."""
        return self.model.predict(X, self.params)

    def posterior(self, X):
        """Return the probabilities of the components, for each row."""
        return self.model.posterior(X, self.params)

    def likelihood(self, X, *, weights, with_entropy=False):
        """Return log-likelihood, number and perhaps entropy of rows, summed.

        Rows of which nothing is observed are not counted.
        """
        X, weights = observed_rows(X, weights)
        total = weighted_sum(self.model.log_likelihood(X, self.params), weights)
        mass = float(len(X) if weights is None else weights.sum())
        if not with_entropy:
            return total, mass
        terms = self.model.posterior(X, self.params)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(terms > 0, terms * np.log(terms), 0.0)
        if weights is not None:
            terms = terms * weights[:, None]
        return total, mass, -float(terms.sum())

    def completed(self, rows, method, rng):
        """Return rows without holes, of the same dtype."""
        twin, R = self.of_emission, self.model.posterior(rows, self.params)
        emission, params = twin.model.emission, twin.params.emission
        filled = emission_model.completed_rows(emission, params, R, rows, method, rng)
        return filled.astype(rows.dtype, copy=False)

    def completions(self, rows, n_draws, rng):
        """Return draws of rows without holes, and their components."""
        args = self.of_emission.model, self.of_emission.params, rows, n_draws, rng
        return emission_model.drawn_completions(*args)

    def part(self, columns, row=None) -> FittedMixture:
        """Return the mixture of columns, given the observed values of a row.

        Columns that are neither observed nor wanted are integrated out; without a row,
        nothing is observed.
        """
        model, params = self.of_emission.model, self.of_emission.params
        row = np.empty(0) if row is None else row
        observed, weights = np.flatnonzero(~np.isnan(row)), params.weights
        if len(observed):
            weights = model.posterior(row[None], params)[0]
        emission, emission_params = model.emission.condition(
            params.emission, observed, row[observed], columns
        )
        params = EmissionMixtureParams(weights, emission_params)
        return FittedMixture(EmissionMixtureModel(emission, len(weights)), params)


class FittedGaussianMixture(FittedMixture):
    """A Gaussian mixture with its parameters, which answers by compiled kernels."""

    @cached_property
    def of_emission(self) -> FittedMixture:
        """The same mixture, of an emission."""
        params, centre = self.params, self.model.centre
        matrices = params.covariances, params.precisions_cholesky
        gaussian = GaussianParams(params.means + centre, *matrices, centre)
        emission = Gaussian(self.model.covariance_type)
        model = EmissionMixtureModel(emission, len(gaussian.means), like=gaussian)
        return FittedMixture(model, EmissionMixtureParams(params.weights, gaussian))

    @cached_property
    def _kernel_params(self):
        return self.model.kernel_params(self.params)

    def log_density(self, X):
        """Return the log-density of the observed values of each row."""
        function = self.model.kernels_of(X).log_density
        return like_rows(X, function(X, self._kernel_params, self.model.n_jobs))

    def labels(self, X):
        """Return the most probable component of each row."""
        kernels = self.model.kernels_of(X)
        return kernels.predict(X, self._kernel_params, self.model.n_jobs)

    def posterior(self, X):
        """Return the probabilities of the components, for each row."""
        if carrier_of(X).holds_tensors:
            return like_rows(X, tensors.posterior(X, self._kernel_params)[0])
        probabilities = super().posterior(X).astype(X.dtype, copy=False)
        # Rounding makes ties, whose label would not be the first of the largest.
        labels = super().labels(X)
        tied = np.flatnonzero(probabilities.argmax(axis=1) != labels)
        largest = probabilities[tied].max(axis=1)
        probabilities[tied, labels[tied]] = np.nextafter(largest, X.dtype.type(2))
        return probabilities
