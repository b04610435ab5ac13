"""Multivariate Student-t distributions: Gaussians with one scale per row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, polygamma
from sklearn.base import clone

from sktem.choices import check_choice
from sktem.emissions.base import bisected, something_observed
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.directions import positive_directions
from sktem.emissions.elliptical import (
    Elliptical,
    completed_moments,
    conditional_moments,
    distances,
    fill_draws,
    pooled_start,
)
from sktem.emissions.gaussian_moments import (
    gaussian_m_step,
    projected_moments,
    split_moments,
)
from sktem.emissions.spread import spread_of

__all__ = ["StudentT", "StudentTParams"]

#: Bounds of learned degrees of freedom, and where they begin.
LEAST_DEGREES, MOST_DEGREES, FIRST_DEGREES = 0.1, 1e3, 5.0


class StudentTParams(NamedTuple):
    """Parameters of Student-t rows.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        Locations.
    covariances : ndarray
        Scale matrices in the shape of their structure; covariances are ``df / (df -
        2)`` times them.
    precisions_cholesky : ndarray
        Factors P with ``P P' = inverse scale matrix``, in the same shape.
    degrees_of_freedom : ndarray of shape (K,)
        Degrees of freedom.
    centre : ndarray of shape (d,)
        Fixed point relative to which the statistics are kept.
    degenerate : int
        Number of states whose scale matrix was floored, or that were kept unchanged
        because they had lost all their data, in the last M-step.
    """

    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    degrees_of_freedom: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class StudentT(Elliptical):
    """Rows with a multivariate Student-t distribution, robust to outliers.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Structure of the scale matrices, as in :class:`Gaussian`. The columns of a row
        have one common scale, also under "diag".
    reg_covar : float, default=1e-6
        Added to the diagonal of the scale matrices.
    degrees_of_freedom : float or "learn", default="learn"
        Degrees of freedom; if learned, they lie between 0.1 and 1000.

    Notes
    -----
    The EM step of the degrees of freedom is slow. It is replaced by a Newton step in
    their inverse, on the density itself, if that goes further in the same direction.
    The scale matrix is divided by the sum of the expected precisions of the rows, as in
    parameter-expanded EM, rather than by the number of rows, which is slower.

    References
    ----------
    D. Peel and G. J. McLachlan, Robust mixture modelling using the t distribution,
    Statistics and Computing 10, 2000.

    C. Liu, D. B. Rubin and Y. N. Wu, Parameter expansion to accelerate EM: the PX-EM
    algorithm, Biometrika 85, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import StudentT
    >>> X = np.append(np.arange(10.0), 1000.0)[:, None]
    >>> emission, R = StudentT("diag"), np.ones((11, 1))
    >>> params = emission.start(X, R)
    >>> for _ in range(200):
    ...     params = emission.maximize(emission.statistics(X, R, params), params)
    >>> bool(4 < params.means[0, 0] < 6)
    True
    """

    non_negative = ("degrees_of_freedom",)

    #: Settings of the M-step of Gaussians that have no meaning here.
    mean_penalty = covariance_prior_strength = 0.0

    def __init__(
        self, covariance_type="full", reg_covar=1e-6, degrees_of_freedom="learn"
    ):
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.degrees_of_freedom = degrees_of_freedom

    @property
    def _learns(self):
        """Return whether the degrees of freedom are learned."""
        return isinstance(self.degrees_of_freedom, str)

    def start(self, X, R):
        """Return locations and scales from the moments of each state."""
        check_choice(
            "covariance_type",
            self.covariance_type,
            [name for name, kind in COVARIANCES.items() if not kind.known],
        )
        K, d = R.shape[1], X.shape[1]
        centre, means, covariances = pooled_start(self, X, R)
        factors = self.structure(K, d).precisions_cholesky(covariances)
        degrees = FIRST_DEGREES if self._learns else float(self.degrees_of_freedom)
        params = StudentTParams(
            means, covariances, factors, np.full(K, degrees), centre
        )
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        squares, log_dets, d = distances(self.covariance_type, X, params)
        v = params.degrees_of_freedom
        values = gammaln((v + d) / 2) - gammaln(v / 2) - d / 2 * np.log(v * math.pi)
        return values + log_dets - (v + d) / 2 * np.log1p(squares / v)

    def statistics(self, X, R, params):
        """Return masses, those times precisions, log-precisions, and moments."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        squares, _, d = distances(self.covariance_type, X, params)
        v = params.degrees_of_freedom
        precisions = (v + d) / (v + squares)
        logs = digamma((v + d) / 2) - np.log((v + squares) / 2)
        first, second = completed_moments(
            self.covariance_type, X, R, params, precisions
        )
        first_slope, second_slope = _slopes(squares, d, v)
        masses = [R, R * precisions, R * (logs - precisions)]
        masses += [R * first_slope, R * second_slope]
        sums = [values.sum(axis=0) for values in masses]
        return np.concatenate([*sums, first.ravel(), second.ravel()])

    def maximize(self, s, params):
        """Return locations, scale matrices and degrees of freedom."""
        K, d = params.means.shape
        (mass, logs, *slopes), moments = _split(s, K, d)
        spare = params._replace(means=params.means - params.centre)
        total = float(moments.mass.sum())
        means, covariances, factors, degenerate = gaussian_m_step(
            self, moments, spare, np.zeros(d), total
        )
        degrees = params.degrees_of_freedom
        if self._learns:
            alive = mass > 0
            target = 1 + logs / np.where(alive, mass, 1.0)

            def slope(log_degrees):
                half = np.exp(log_degrees) / 2
                return np.log(half) - digamma(half) + target

            low, high = np.log(LEAST_DEGREES), np.log(MOST_DEGREES)
            proposal = np.exp(bisected(slope, np.full(K, low), np.full(K, high)))
            proposal = _further(degrees, proposal, *slopes)
            degrees = np.where(alive, proposal, degrees)
        return StudentTParams(
            means + params.centre,
            covariances,
            factors,
            degrees,
            params.centre,
            degenerate,
        )

    def project(self, s, params=None):
        """Return statistics with non-negative masses and scale matrices."""
        if params is None:
            raise ValueError("statistics of StudentT are projected given params")
        K, d = params.means.shape
        (mass, logs, *slopes), moments = _split(s, K, d)
        total = float(moments.mass.sum())
        projected, left = projected_moments(self.covariance_type, moments, total)
        if not left and (mass >= 0).all():
            return s, False
        mass = np.maximum(mass, 0.0)
        sums = [mass, projected.mass, np.minimum(logs, -mass), *slopes]
        parts = [*sums, projected.first, projected.second]
        return np.concatenate([np.ravel(part) for part in parts]), True

    def spreads(self, params):
        """Return the scale matrices."""
        return [spread_of(self, params)]

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        squares, _, d = distances(self.covariance_type, X, params)
        rows = np.arange(len(states))
        v = params.degrees_of_freedom[states]
        shape = (v + d[:, 0]) / 2
        scales = np.sqrt((v + squares[rows, states]) / (2 * rng.gamma(shape)))
        return fill_draws(self.covariance_type, X, states, params, rng, scales)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        X = np.full((len(states), params.means.shape[1]), np.nan)
        return self.draw(X, states, params, rng)

    def free_directions(self, params, following, X):
        """Yield the directions of locations, scales and learned degrees."""
        yield from super().free_directions(params, following, X)
        if self._learns:
            degrees, bounds = params.degrees_of_freedom, (LEAST_DEGREES, MOST_DEGREES)
            yield from positive_directions("degrees_of_freedom", degrees, None, *bounds)

    def n_parameters(self, K, d, params=None):
        """Return the number of locations, free scales and learned degrees."""
        return super().n_parameters(K, d) + K * self._learns

    def condition(self, params, columns, values, others):
        """Return the distribution of some columns given the values of others.

        Its degrees of freedom are increased by the number of given values, and its
        scales grow with the distance of these (Ding 2016, Student-t's conditional
        distribution).
        """
        kind, emission = self.covariance_type, clone(self)
        means, scales = conditional_moments(kind, params, columns, values, others)
        degrees = params.degrees_of_freedom
        if len(columns):
            row = np.full((1, params.means.shape[1]), np.nan)
            row[0, columns] = values
            squares = distances(kind, row, params)[0][0]
            if kind == "tied":  # each state has its own distance
                kind = emission.covariance_type = "full"
                scales = np.repeat(scales[None], len(means), axis=0)
            factor = (degrees + squares) / (degrees + len(columns))
            scales = COVARIANCES[kind](*means.shape).scale(scales, factor)
            degrees = degrees + len(columns)
        factors = COVARIANCES[kind](*means.shape).precisions_cholesky(scales)
        centre = params.centre[others]
        return emission, StudentTParams(means, scales, factors, degrees, centre)


def _split(s, K, d):
    """Return sums for the degrees of freedom, and moments."""
    sums, rest = s[: 5 * K].reshape(5, K), s[5 * K :]
    moments = split_moments(np.concatenate([sums[1], rest]), K, d)
    return sums[[0, 2, 3, 4]], moments


def _slopes(squares, d, v):
    """Return first and second derivatives of log-densities in degrees of freedom."""
    inner = v * (v + squares)
    first = digamma((v + d) / 2) - digamma(v / 2) - d / v
    first = first - np.log1p(squares / v) + (v + d) * squares / inner
    second = (polygamma(1, (v + d) / 2) - polygamma(1, v / 2)) / 2 + d / v**2
    second = second + squares / inner
    second = second + squares * (inner - (v + d) * (2 * v + squares)) / inner**2
    return first / 2, second / 2


def _further(v, proposal, first, second):
    """Return the degrees after Newton's step from v, if it is the longer step."""
    # In the inverse, in which the density is regular at the Gaussian.
    slope, curvature = -(v**2) * first, v**4 * second + 2 * v**3 * first
    concave = curvature < 0
    step = -slope / np.where(concave, curvature, -1.0)
    newton = 1 / np.clip(1 / v + step, 1 / (3 * v), 3 / v)
    newton = np.clip(newton, LEAST_DEGREES, MOST_DEGREES)
    longer = (newton - proposal) * (proposal - v) > 0
    return np.where(concave & longer, newton, proposal)
