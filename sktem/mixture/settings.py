"""Checked parameters of mixtures, from which models and starts are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import clone

from sktem.emissions.base import Emission
from sktem.emissions.gaussian import Gaussian
from sktem.emissions.observed import check_observed
from sktem.mixture.emission_model import EmissionMixtureModel
from sktem.mixture.emission_start import start_responsibilities
from sktem.mixture.given import central_point, check_given_parameters, override_start
from sktem.mixture.incomplete import has_holes
from sktem.mixture.model import GaussianMixtureModel, GaussianMixtureParams
from sktem.mixture.prior import GaussianMixturePrior
from sktem.mixture.short_runs import best_of_short_runs, suits_short_runs
from sktem.mixture.start import assigned_statistics, chosen_rows, start_statistics
from sktem.rows.held import carrier_of

__all__ = ["EmissionMixtureSettings", "GaussianMixtureSettings", "MixtureSettings"]


@dataclass(frozen=True)
class MixtureSettings(ABC):
    """Checked parameters of a mixture.

    Subclasses check rows (``check_columns``) and what users give (``given``), and make
    models (``new_model``) and their starts (``start``).

    Attributes
    ----------
    names : ndarray of str or None
        Names of the features.
    n_components : int
        Number of components.
    init_params : str or callable
        The start.
    init_size : int, "auto" or None
        Rows from which it is made.
    n_init : int
        Number of starts.
    n_jobs : int or None
        Threads.
    """

    names: Any
    n_components: int
    init_params: Any
    init_size: Any
    n_init: int
    n_jobs: int | None

    @classmethod
    def of(cls, parameters, n_components, names):
        """Return the settings of parameters by name."""
        values = {**parameters, "n_components": n_components, "names": names}
        return cls(*(values[field.name] for field in fields(cls)))

    @property
    def has_start(self) -> bool:
        """Whether the user gave all parameters of the start."""
        return False

    @property
    def may_start_at_saddle(self) -> bool:
        """Whether components may start equal, which those of rows do not."""
        random = callable(self.init_params) or self.init_params == "random"
        return self.n_components > 1 and random

    @property
    def other_start(self) -> str | None:
        """Method of the starts to which a fit is compared, None without any."""
        if self.n_components == 1 or callable(self.init_params):
            return None
        return "kmeans" if self.may_start_at_saddle else "random_from_data"

    @abstractmethod
    def kinds(self, model, n_features) -> dict:
        """Return pairs of the values that a model and this mixture must share."""

    def model_for(self, model, X):
        """Return the model for the next rows of a stream."""
        return model

    def check_same(self, model, n_features):
        """Check that the fitted mixture is of the same kind."""
        for name, (before, after) in self.kinds(model, n_features).items():
            if str(before) != str(after):
                raise ValueError(
                    f"Cannot continue from a mixture with {name}={before!r}: it is now "
                    f"{after!r}. Set warm_start=False, or fit a new estimator."
                )

    def rows_of_start(self, X, weights, random_state):
        """Return the rows of a start, on the host, and their weights."""
        chosen = chosen_rows(X, self.n_components, self.init_size, random_state)
        if chosen is not None:
            X = X.take(chosen, axis=0)
            weights = None if weights is None else weights[chosen]
        return np.asarray(X), weights


@dataclass(frozen=True)
class GaussianMixtureSettings(MixtureSettings):
    """Checked parameters of a Gaussian mixture.

    Attributes
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}
        Structure of the covariances.
    reg_covar : float
        Added to the diagonal of covariances.
    prior : GaussianMixturePrior or None
        Prior.
    weights_init, means_init, precisions_init : array-like or None
        Parameters to begin with.
    """

    covariance_type: str
    reg_covar: float
    prior: GaussianMixturePrior | None
    weights_init: Any
    means_init: Any
    precisions_init: Any

    @property
    def inits(self) -> tuple[Any, Any, Any]:
        """Weights, means and precisions to begin with; None has to be found."""
        return self.weights_init, self.means_init, self.precisions_init

    @property
    def has_start(self) -> bool:
        """Whether the user gave all parameters of the start."""
        return all(value is not None for value in self.inits)

    @property
    def may_start_at_saddle(self) -> bool:
        """Whether components may start equal, which those of rows do not."""
        has_start = any(value is not None for value in self.inits[1:])
        return self.n_components > 1 and has_start or super().may_start_at_saddle

    def check_columns(self, X) -> None:
        """Raise if a column has never been observed."""
        if not carrier_of(X).holds_tensors and has_holes(X):
            check_observed(X, self.names)

    def given(self, n_features) -> tuple:
        """Return the parameters that the user gave for the start, checked."""
        shape = self.n_components, n_features
        return check_given_parameters(*self.inits, shape, self.covariance_type)

    def new_model(self, X):
        """Return the model of rows."""
        prior = {} if self.prior is None else self.prior.checked(X.shape[1])
        return GaussianMixtureModel(
            self.n_components,
            covariance_type=self.covariance_type,
            reg_covar=self.reg_covar,
            **prior,
            centre=central_point(X),
            n_jobs=self.n_jobs,
            incomplete=not carrier_of(X).holds_tensors and has_holes(X),
        )

    def model_for(self, model, X):
        """Return a model that completes rows from the first chunk with holes on."""
        if model.incomplete or carrier_of(X).holds_tensors or not has_holes(X):
            return model
        return clone(model).set_params(incomplete=True)

    def kinds(self, model, n_features) -> dict:
        """Return pairs of the values that a model and this mixture must share."""
        return {
            "n_components": (model.n_components, self.n_components),
            "covariance_type": (model.covariance_type, self.covariance_type),
            "n_features": (len(model.centre), n_features),
        }

    def start(self, model, X, sample_weight, inits, random_state, method=None):
        """Return starting parameters and statistics, by a method of ``init_params``."""
        method = self.init_params if method is None else method
        complete = all(value is not None for value in inits[:2]) and (
            inits[2] is not None or self.covariance_type == "unit"
        )
        params = s = None
        if not complete:
            # On the host: k-means of scikit-learn knows NumPy only.
            rows, weights = self.rows_of_start(X, sample_weight, random_state)
            if model.incomplete:
                start = self._start_with_holes
                params, s = start(model, rows, weights, random_state, method)
            else:
                s = start_statistics(model, rows, method, random_state, weights)
                params = model.maximize(s, None)
            points = isinstance(method, str) and method != "random"
            points = points and not model.incomplete
            if self.init_size == "auto" and len(rows) < len(X) and points:
                s = assigned_statistics(model, X, params, sample_weight)
                params = model.maximize(s, None)
        if any(value is not None for value in inits):
            params = override_start(model, params, inits, X)
            s = model.statistics_of(params)
        return params, s

    def _start_with_holes(self, model, rows, weights, random_state, method):
        """Return starting parameters and statistics of rows with holes."""
        K, emission = self.n_components, Gaussian(self.covariance_type, self.reg_covar)
        R = start_responsibilities(rows, emission, K, method, random_state, weights)
        mass = R if weights is None else R * weights[:, None]
        gaussian = emission.start(np.asarray(rows, dtype=np.float64), mass)
        matrices = gaussian.covariances, gaussian.precisions_cholesky
        shares = mass.sum(axis=0) / mass.sum()
        means = gaussian.means - model.centre
        params = GaussianMixtureParams(shares, means, *matrices)
        return params, model.mean_statistics(rows, R, weights, params)


@dataclass(frozen=True)
class EmissionMixtureSettings(MixtureSettings):
    """Checked parameters of a mixture of an emission.

    Attributes
    ----------
    emission : Emission
        The emission, with indices of columns.
    weight_concentration : float
        Penalty on weights.
    """

    emission: Emission
    weight_concentration: float

    def check_columns(self, X) -> None:
        """Raise if a column has never been observed."""
        check_observed(X, self.names, self.emission)

    def given(self, n_features) -> tuple:
        """Return no parameters; raise if rows depend on each other."""
        if self.emission.order:
            raise ValueError(
                f"rows of a mixture have no order, and {self.emission!r} depends on "
                "rows before: take HiddenMarkovModel"
            )
        return ()

    def new_model(self, X):
        """Return the model of rows."""
        options = {"weight_concentration": self.weight_concentration}
        K, n_jobs = self.n_components, self.n_jobs
        return EmissionMixtureModel(self.emission, K, n_jobs=n_jobs, **options)

    def kinds(self, model, n_features) -> dict:
        """Return pairs of the values that a model and this mixture must share."""
        return {
            "n_components": (model.n_components, self.n_components),
            "emission": (model.emission, self.emission),
        }

    def start(self, model, X, sample_weight, inits, random_state, method=None):
        """Return starting parameters and statistics, by a method of ``init_params``."""
        method = self.init_params if method is None else method
        rows, weights = self.rows_of_start(X, sample_weight, random_state)
        rows = np.asarray(rows, dtype=np.float64)
        if method == "kmeans" and suits_short_runs(model, rows):
            run = best_of_short_runs(model, rows, random_state, weights)
            return run.params, run.s
        K, emission = self.n_components, model.emission
        R = start_responsibilities(rows, emission, K, method, random_state, weights)
        params = model.start_of(rows, R, weights)
        model.like = params.emission
        return params, model.mean_statistics(rows, R, weights, params)
