"""Gaussian rows, with five structures of the covariances."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import LEAST_SHARE, Emission, something_observed
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.patterns import patterns_of

__all__ = [
    "Gaussian",
    "GaussianParams",
    "Moments",
    "gaussian_m_step",
    "n_features_of",
    "gaussian_penalty",
    "projected_moments",
    "split_moments",
]


@lru_cache(maxsize=256)
def n_features_of(covariance_type: str, n_states: int, n_statistics: int) -> int:
    """Invert the length of the vector of statistics, whatever the structure."""
    return next(
        d
        for d in range(1, n_statistics + 1)
        if n_states * (1 + d) + COVARIANCES[covariance_type](n_states, d).n_moments
        == n_statistics
    )


class Moments(NamedTuple):
    """Masses, first and packed second moments of K states: views of statistics."""

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray


def split_moments(s, K, d) -> Moments:
    """Return the parts of a vector of statistics."""
    return Moments(s[:K], s[K : K + K * d].reshape(K, d), s[K + K * d :])


class GaussianParams(NamedTuple):
    """Parameters of Gaussian rows.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        Means.
    covariances : ndarray
        Covariances in the shape of their structure: (K, d, d) if full, (d, d) if tied,
        (K, d) if diag, (K,) if spherical or unit.
    precisions_cholesky : ndarray
        Factors P with ``P P' = inverse covariance``, in the same shape.
    centre : ndarray of shape (d,)
        Fixed point about which the statistics are held.
    degenerate : int
        States whose covariance was floored, or that were kept because they had lost
        all their data, in the last M-step.
    """

    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class Gaussian(Emission):
    """Rows with a Gaussian distribution.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        One matrix each, one matrix for all, variances each, one variance each, or the
        identity, not learned.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances.
    mean_penalty : float, default=0.0
        Penalty delta on the means, per row: ``delta / 2 (m_k - m_0)' C_k^-1 (m_k -
        m_0)``.
    mean_prior : array-like of shape (d,) or None, default=None
        m_0; None is the origin.
    covariance_prior : array-like, float or None, default=None
        Matrix, diagonal or number towards which covariances shrink.
    covariance_prior_strength : float, default=0.0
        Its weight, as a share of the data.

    Notes
    -----
    Of a row with holes, the conditional means and covariances of what is missing enter
    the statistics, as in Dempster, Laird and Rubin (1977); rows are grouped by the
    columns that have been observed.

    References
    ----------
    Z. Ghahramani and M. I. Jordan, Supervised learning from incomplete data via an EM
    approach, NIPS 6, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Gaussian
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, np.nan]])
    >>> params = Gaussian("diag").start(X, np.ones((3, 1)))
    >>> params.means
    array([[2., 2.]])
    """

    def __init__(
        self,
        covariance_type="full",
        reg_covar=1e-6,
        mean_penalty=0.0,
        mean_prior=None,
        covariance_prior=None,
        covariance_prior_strength=0.0,
    ):
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.mean_penalty = mean_penalty
        self.mean_prior = mean_prior
        self.covariance_prior = covariance_prior
        self.covariance_prior_strength = covariance_prior_strength

    def structure(self, K, d):
        """Return the structure of the covariances.

        Parameters
        ----------
        K : int
            Number of states.
        d : int
            Number of columns.

        Returns
        -------
        object
            An instance of a class of ``COVARIANCES``.
        """
        return COVARIANCES[self.covariance_type](K, d)

    def start(self, X, R):
        """Return the moments of each state; of the observed values, if some lack."""
        K, d = R.shape[1], X.shape[1]
        centre = np.array([_median(column) for column in X.T])
        structure = self.structure(K, d)
        deviations = X - centre
        variances = np.array([_variance(column) for column in deviations.T])
        one = np.diag(variances) + self.reg_covar * np.eye(d)
        shapes = {
            "full": lambda: np.repeat(one[None], K, axis=0),
            "tied": lambda: one,
            "diag": lambda: np.repeat(np.diagonal(one)[None], K, axis=0),
            "spherical": lambda: np.full(K, variances.mean() + self.reg_covar),
            "unit": lambda: np.ones(K),
        }
        covariances = shapes[self.covariance_type]()
        observed = ~np.isnan(X)
        sums = R.T @ np.where(observed, deviations, 0.0)
        mass = R.T @ observed.astype(np.float64)
        means = centre + sums / np.where(mass > 0, mass, 1.0)
        factors = structure.precisions_cholesky(covariances)
        params = GaussianParams(means, covariances, factors, centre)
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        X = np.asarray(X, dtype=np.float64)
        if self.covariance_type in ("full", "tied"):
            return self._dense_log_density(X, params)
        factors = params.precisions_cholesky.reshape(len(params.means), -1)
        factors = factors * np.ones(X.shape[1])
        observed = ~np.isnan(X)
        values = (observed @ (np.log(factors) - 0.5 * math.log(2 * math.pi)).T).astype(
            np.float64
        )
        for k, mean in enumerate(params.means):
            y = np.where(observed, X - mean, 0.0) * factors[k]
            values[:, k] -= 0.5 * np.einsum("nd,nd->n", y, y)
        return values

    def _dense_log_density(self, X, params):
        """Return log-densities with matrices of covariances."""
        n, d = X.shape
        K = len(params.means)
        tied = self.covariance_type == "tied"
        values = np.zeros((n, K))
        for pattern in patterns_of(X):
            columns = pattern.observed
            factors = params.precisions_cholesky
            if len(pattern.missing):
                block = params.covariances[..., columns[:, None], columns]
                factors = self.structure(K, len(columns)).precisions_cholesky(block)
                rows = X[np.asarray(pattern.rows)[:, None], columns]
            else:
                rows = X[pattern.rows]
            for k, mean in enumerate(params.means[:, columns]):
                factor = factors if tied else factors[k]
                y = (rows - mean) @ factor
                constant = np.log(np.diagonal(factor)).sum()
                constant -= 0.5 * len(columns) * math.log(2 * math.pi)
                values[pattern.rows, k] = constant - 0.5 * np.einsum("nd,nd->n", y, y)
        return values

    def statistics(self, X, R, params):
        """Return masses, first and packed second moments about the centre."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        if self.covariance_type in ("full", "tied"):
            return self._dense_statistics(X, R, params)
        K, d = params.means.shape
        mass = R.sum(axis=0)
        z = X - params.centre
        missing = np.isnan(z)
        if not missing.any():
            first, second = R.T @ z, R.T @ z**2
        else:
            filled = np.where(missing, 0.0, z)
            absent = R.T @ missing
            means = params.means - params.centre
            variances = params.covariances.reshape(K, -1)
            first = R.T @ filled + absent * means
            second = R.T @ filled**2 + absent * (means**2 + variances)
        parts = [mass, first.ravel()]
        if self.covariance_type == "diag":
            parts.append(second.ravel())
        elif self.covariance_type == "spherical":
            parts.append(second.sum(axis=1))
        return np.concatenate(parts)

    def _dense_statistics(self, X, R, params):
        """Return statistics with all products of columns."""
        K, d = params.means.shape
        tied = self.covariance_type == "tied"
        means = params.means - params.centre
        first, second = np.zeros((K, d)), np.zeros((K, d, d))
        for pattern in patterns_of(X):
            z = X[pattern.rows] - params.centre
            shares = R[pattern.rows]
            holes, seen = pattern.missing, pattern.observed
            if len(holes):
                fill = _Completion(params.covariances, seen, holes)
            for k in range(K):
                if len(holes):
                    fill.complete(z, means[k], 0 if tied else k)
                    spread = shares[:, k].sum() * fill.spread(0 if tied else k)
                    second[k][holes[:, None], holes] += spread
                weighted = z * shares[:, k, None]
                first[k] += weighted.sum(axis=0)
                second[k] += weighted.T @ z
        if tied:
            second = second.sum(axis=0)
        packed = self.structure(K, d).pack(second)
        return np.concatenate([R.sum(axis=0), first.ravel(), packed.ravel()])

    def maximize(self, s, params):
        """Return the weighted moments, with the prior."""
        K, d = params.means.shape
        moments = split_moments(s, K, d)
        prior_mean = np.zeros(d) if self.mean_prior is None else self.mean_prior
        spare = params._replace(means=params.means - params.centre)
        means, covariances, factors, degenerate = gaussian_m_step(
            self,
            moments,
            spare,
            np.asarray(prior_mean, dtype=np.float64) - params.centre,
            float(moments.mass.sum()),
        )
        means = means + params.centre
        return GaussianParams(means, covariances, factors, params.centre, degenerate)

    def project(self, s, params=None):
        """Return statistics with non-negative masses and covariances.

        Means and covariances are kept, whatever becomes of the masses. The parameters
        tell the number of states and columns.
        """
        if params is None:
            raise ValueError("statistics of Gaussian are projected given params")
        moments = split_moments(s, *params.means.shape)
        total = float(moments.mass.sum())
        moments, left = projected_moments(self.covariance_type, moments, total)
        return (np.concatenate([np.ravel(m) for m in moments]) if left else s), left

    def penalty(self, params):
        """Return the penalty of means and covariances, per row."""
        K, d = params.means.shape
        prior_mean = np.zeros(d) if self.mean_prior is None else self.mean_prior
        return gaussian_penalty(self, params, params.means - prior_mean)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        K, d = params.means.shape
        X = params.means[states]
        structure = self.structure(K, d)
        for k in range(K):
            rows = np.flatnonzero(states == k)
            X[rows] += structure.draw(params.covariances, k, len(rows), rng)
        return X

    def n_parameters(self, K, d, params=None):
        """Return the number of means and free covariances."""
        return K * d + self.structure(K, d).n_parameters

    def marginal(self, params, columns):
        """Return means and covariances of some columns."""
        columns = np.asarray(columns)
        covariances = params.covariances
        if self.covariance_type in ("full", "tied"):
            covariances = covariances[..., columns[:, None], columns]
        elif self.covariance_type == "diag":
            covariances = covariances[:, columns]
        structure = self.structure(len(params.means), len(columns))
        factors = structure.precisions_cholesky(covariances)
        return GaussianParams(
            params.means[:, columns], covariances, factors, params.centre[columns]
        )


class _Completion:
    """Conditional moments of the missing columns given the observed ones."""

    def __init__(self, covariances, seen, holes):
        stack = covariances.reshape(-1, *covariances.shape[-2:])
        between = stack[:, seen[:, None], holes]
        self.seen, self.holes = seen, holes
        self.slopes = np.linalg.solve(stack[:, seen[:, None], seen], between)
        explained = np.swapaxes(between, 1, 2) @ self.slopes
        self.spreads = stack[:, holes[:, None], holes] - explained

    def complete(self, z, mean, k):
        """Fill the holes of rows by their conditional means."""
        z[:, self.holes] = (
            mean[self.holes] + (z[:, self.seen] - mean[self.seen]) @ self.slopes[k]
        )

    def spread(self, k):
        """Return the conditional covariance of the holes."""
        return self.spreads[k]


def gaussian_m_step(settings, moments, spare, prior_mean, total):
    """Return means, covariances, factors and the number of states that were kept.

    Settings are those of `Gaussian`; means are about the centre. `spare` has the means
    and covariances of states without data, None at a start.
    """
    mass, first, second = moments
    K, d = first.shape
    structure = COVARIANCES[settings.covariance_type](K, d)
    delta = settings.mean_penalty * total
    alive = mass > LEAST_SHARE * total
    mass = np.where(alive, mass, 0.0)
    pull = np.where(alive, mass, 1.0) + delta
    means = (first + delta * prior_mean) / pull[:, None]
    if not alive.all():
        means = np.where(alive[:, None], means, _spare_means(moments, spare))
    if structure.known:
        covariances = structure.unpack(second)
        factors = structure.precisions_cholesky(covariances)
        return means, covariances, factors, int(K - alive.sum())
    scatter = structure.unpack(second)
    scatter = scatter - structure.outer(means, np.where(alive, mass + delta, 0.0))
    if delta:
        prior = np.broadcast_to(prior_mean, means.shape)
        scatter = scatter + structure.outer(prior, np.where(alive, delta, 0.0))
    tau = settings.covariance_prior_strength * total
    if tau:
        scatter = scatter + tau * structure.matrix(settings.covariance_prior)
    covariances = structure.normalise(scatter, mass, tau)
    degenerate = 0
    if not alive.all():
        degenerate = int(K - alive.sum())
        held = _spare_covariances(settings, moments, spare, structure)
        covariances = structure.select(alive, covariances, held)
    covariances = structure.shift(covariances, settings.reg_covar)
    try:
        factors = structure.precisions_cholesky(covariances)
    except np.linalg.LinAlgError:
        covariances, floored = structure.repair(covariances, settings.reg_covar, 1e-12)
        factors = structure.precisions_cholesky(covariances)
        degenerate += floored
    return means, covariances, factors, degenerate


def _spare_means(moments, spare):
    """Return means for states without data: the old ones, or that of all data."""
    if spare is not None:
        return spare.means
    mass, first, _ = moments
    return np.broadcast_to(first.sum(axis=0) / mass.sum(), first.shape)


def _spare_covariances(settings, moments, spare, structure):
    """Return covariances for states without data: the old ones, or that of all."""
    if spare is not None:
        return structure.shift(spare.covariances.copy(), -settings.reg_covar)
    mass, first, second = moments
    mean = (first.sum(axis=0) / mass.sum())[None]
    total = structure.unpack(second).sum(axis=0) / mass.sum()
    one = COVARIANCES[settings.covariance_type](1, first.shape[1])
    total = total - one.outer(mean, np.ones(1))[0]
    return np.broadcast_to(total, (len(mass), *np.shape(total)))


def projected_moments(covariance_type, moments, total):
    """Return moments that data can have, and whether these were outside."""
    mass, first, second = moments
    K, d = first.shape
    structure = COVARIANCES[covariance_type](K, d)
    left = bool((mass < 0).any())
    if structure.known and not left:
        return moments, False
    alive = mass > LEAST_SHARE * total
    held = np.where(alive, mass, 0.0)
    means = first / np.where(alive, mass, 1.0)[:, None]
    share = total * (held / held.sum())
    if structure.known:
        return Moments(share, share[:, None] * means, second), True
    scatter = structure.unpack(second) - structure.outer(means, held)
    covariances = structure.normalise(scatter, held)
    diagonals = structure.diagonals(covariances)
    # Rounding may leave a covariance this far below zero inside the set.
    scale = float(np.abs(diagonals).max(initial=0.0)) + float((means**2).max())
    slack = 1e-9 * scale + np.finfo(np.float64).tiny
    try:
        structure.precisions_cholesky(structure.shift(covariances.copy(), slack))
        inside = True
    except np.linalg.LinAlgError:
        inside = False
    if inside and not left:
        return moments, False
    covariances, _ = structure.repair(covariances, 0.0)
    scatter = structure.outer(means, share) + structure.scale(covariances, share)
    return Moments(share, share[:, None] * means, structure.pack(scatter)), True


def gaussian_penalty(settings, params, deviations):
    """Return the penalty of means, by their deviations from the prior's, and shapes."""
    delta, tau = settings.mean_penalty, settings.covariance_prior_strength
    if not (delta or tau):
        return 0.0
    structure = COVARIANCES[settings.covariance_type](*params.means.shape)
    factors, value = params.precisions_cholesky, 0.0
    if delta:
        value += delta / 2 * structure.mahalanobis(deviations, factors).sum()
    if tau and not structure.known:
        prior = structure.matrix(settings.covariance_prior)
        value += tau / 2 * structure.log_determinants(factors).sum()
        value += tau / 2 * structure.trace_product(prior, factors).sum()
    return float(value)


def _median(column):
    """Return the median of what is observed of a column, 0 of nothing."""
    column = column[~np.isnan(column)]
    return float(np.median(column)) if len(column) else 0.0


def _variance(column):
    """Return the variance of what is observed of a column, 1 of nothing."""
    column = column[~np.isnan(column)]
    value = float(np.var(column)) if len(column) else 1.0
    return value if value > 0 else 1.0
