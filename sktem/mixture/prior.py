"""Prior of the parameters of a Gaussian mixture."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from sktem.arrays import numpy_of
from sktem.choices import KnownParametersMixin, check_number
from sktem.links import DocumentationLinkMixin


class GaussianMixturePrior(DocumentationLinkMixin, KnownParametersMixin, BaseEstimator):
    """Prior on weights, means and covariances; the fit is the posterior mode.

    All strengths are *per row*: a prior worth c observations has strength ``c /
    n_samples``, and a fixed value keeps its share however many rows a stream brings. In
    a parameter search the names are ``prior__mean_penalty`` and so on.

    Parameters
    ----------
    mean_penalty : float, default=0.0
        Penalty delta on the means: ``delta / 2 (m_k - m_0)' C_k^-1 (m_k - m_0)``. It
        pulls means towards ``mean_prior``.
    mean_prior : array-like of shape (n_features,) or None, default=None
        m_0; None is the origin.
    weight_concentration : float, default=0.0
        Dirichlet penalty epsilon: ``weight_k = (s_k + epsilon) / (1 + epsilon
        n_components)``. It prevents components from becoming empty.
    covariance_prior : array-like, float or None, default=None
        Matrix, diagonal or number towards which covariances are shrunk (the scale of an
        inverse-Wishart prior).
    covariance_prior_strength : float, default=0.0
        Weight tau of the covariance prior: ``C_k = (scatter_k + tau Psi) / (s_k +
        tau)``.

    References
    ----------
    .. [1] Fraley, C. and Raftery, A. E. (2007). "Bayesian regularization for normal
           mixture estimation and model-based clustering." Journal of Classification
           24, 155-181.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import GaussianMixturePrior, StochasticEMGaussianMixture
    >>> prior = GaussianMixturePrior(mean_penalty=1.0, mean_prior=[4.0])
    >>> mixture = StochasticEMGaussianMixture(1, prior=prior)
    >>> mixture.fit(np.array([[1.0], [2.0], [3.0]])).means_
    array([[3.]])
    """

    def __init__(
        self,
        *,
        mean_penalty=0.0,
        mean_prior=None,
        weight_concentration=0.0,
        covariance_prior=None,
        covariance_prior_strength=0.0,
    ):
        self.mean_penalty = mean_penalty
        self.mean_prior = mean_prior
        self.weight_concentration = weight_concentration
        self.covariance_prior = covariance_prior
        self.covariance_prior_strength = covariance_prior_strength

    def checked(self, n_features):
        """Return the parameters by name, as arrays that fit the columns.

        Parameters
        ----------
        n_features : int
            Columns of the data.

        Returns
        -------
        dict
            The parameters of this object.

        Raises
        ------
        ValueError
            If one of them is invalid.
        """
        d = n_features
        for name in ("mean_penalty", "weight_concentration"):
            check_number(name, getattr(self, name), Real, 0)
        check_number(
            "covariance_prior_strength", self.covariance_prior_strength, Real, 0
        )
        if (self.covariance_prior is None) != (self.covariance_prior_strength == 0):
            raise ValueError(
                "covariance_prior and covariance_prior_strength must be given together"
            )
        covariance, mean = self.covariance_prior, self.mean_prior
        if covariance is not None:
            covariance = numpy_of(covariance, np.float64)
            if covariance.shape not in ((), (d,), (d, d)):
                raise ValueError(
                    "covariance_prior must be a number, of shape "
                    f"({d},) or ({d}, {d}), got shape {covariance.shape}"
                )
        if mean is not None:
            mean = numpy_of(mean)
            if mean.shape != (d,):
                raise ValueError(f"mean_prior must have shape ({d},), got {mean.shape}")
        return {
            **self.get_params(deep=False),
            "mean_prior": mean,
            "covariance_prior": covariance,
        }
