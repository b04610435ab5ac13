"""Gaussian rows with covariances of low rank plus a diagonal."""

from __future__ import annotations

import math
from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.choices import check_number
from sktem.emissions.base import Emission, left_alive, something_observed
from sktem.emissions.elliptical import observed_moments
from sktem.emissions.magnitudes import check_magnitude
from sktem.emissions.spread import spread_of

__all__ = ["FactorAnalyser", "FactorAnalyserParams"]


class FactorAnalyserParams(NamedTuple):
    """Parameters of factor analysers.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        Means.
    loadings : ndarray of shape (K, d, q)
        Loadings of the factors.
    noise_variances : ndarray of shape (K, d)
        Variances not explained by the factors. The covariance of a state is ``loadings
        loadings' + diag(noise_variances)``.
    centre : ndarray of shape (d,)
        Fixed point relative to which the statistics are kept.
    degenerate : int
        Number of states kept unchanged because they had lost their data in the last
        M-step.
    """

    means: np.ndarray
    loadings: np.ndarray
    noise_variances: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class FactorAnalyser(Emission):
    """Gaussian rows with covariances of low rank plus a diagonal, for wide data.

    Parameters
    ----------
    n_factors : int, default=2
        Number of factors q, the rank.
    reg_covar : float, default=1e-6
        Added to the variances of the noise.

    References
    ----------
    Z. Ghahramani and G. E. Hinton, The EM algorithm for mixtures of factor analyzers,
    Technical report CRG-TR-96-1, University of Toronto, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import FactorAnalyser
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) + 0.1 * rng.normal(size=(500, 20))
    >>> emission, R = FactorAnalyser(n_factors=1), np.ones((500, 1))
    >>> params = emission.start(X, R)
    >>> float(np.abs(params.loadings).mean().round(1))
    1.0
    """

    def __init__(self, n_factors=2, reg_covar=1e-6):
        self.n_factors = n_factors
        self.reg_covar = reg_covar

    def check(self, X):
        """Raise ValueError for values whose squares overflow."""
        check_magnitude(X)

    def start(self, X, R):
        """Return means, and loadings from principal components, of each state."""
        K, d = R.shape[1], X.shape[1]
        check_number("n_factors", self.n_factors, Integral, 1)
        if self.n_factors > d:
            raise ValueError(
                f"n_factors={self.n_factors} is more than the {d} columns of X"
            )
        q = int(self.n_factors)
        centre, means, variances = observed_moments(X, R)
        loadings, noise = np.zeros((K, d, q)), np.tile(variances, (K, 1))
        holes = np.isnan(X)
        for k in range(K):
            mass = R[:, k].sum()
            if mass <= 0:
                continue
            deviations = np.where(holes, 0.0, X - means[k])
            scaled = deviations * np.sqrt(R[:, k] / mass)[:, None]
            _, sizes, rows = np.linalg.svd(scaled, full_matrices=False)
            rank = min(q, len(sizes))
            # As in probabilistic principal components.
            rest = (sizes[rank:] ** 2).sum() / max(d - rank, 1)
            widths = np.sqrt(np.maximum(sizes[:rank] ** 2 - rest, 1e-12))
            loadings[k, :, :rank] = rows[:rank].T * widths
            total = (scaled**2).sum(axis=0)
            noise[k] = np.maximum(total - (loadings[k] ** 2).sum(axis=1), 0.1 * total)
        noise = np.maximum(noise, 1e-6 * variances) + self.reg_covar
        params = FactorAnalyserParams(means, loadings, noise, centre)
        return self.maximize(self.statistics(X, R, params), params)

    def _factors(self, X, observed, params, k):
        """Return means and covariances of the factors, and log-densities, of rows."""
        W, noise = params.loadings[k], params.noise_variances[k]
        d, q = W.shape
        y = X - params.means[k]
        scaled = W / noise[:, None]
        count, log_noise = d, np.log(noise).sum()
        if observed is None:
            precision = (np.eye(q) + W.T @ scaled)[None]
        else:
            y = np.where(observed, y, 0.0)
            products = (W[:, :, None] * scaled[:, None, :]).reshape(d, -1)
            precision = np.eye(q) + (observed @ products).reshape(-1, q, q)
            count, log_noise = observed.sum(axis=1), observed @ np.log(noise)
        spread = np.linalg.inv(precision)
        towards = y @ scaled
        means = (
            np.einsum("nqr,nr->nq", spread, towards)
            if len(spread) > 1
            else (towards @ spread[0])
        )
        squares = (y**2) @ (1 / noise) - np.einsum("nq,nq->n", means, towards)
        log_dets = np.linalg.slogdet(precision)[1] + log_noise
        density = -0.5 * (squares + log_dets + count * math.log(2 * math.pi))
        return means, np.broadcast_to(spread, (len(X), q, q)), density

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        X = np.asarray(X, dtype=np.float64)
        observed = _observed(X)
        states = range(len(params.means))
        columns = [self._factors(X, observed, params, k)[2] for k in states]
        return np.stack(columns, axis=1)

    def statistics(self, X, R, params):
        """Return masses and moments of the rows, the factors and both."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        observed = _observed(X)
        parts = [R.sum(axis=0)]
        for k in range(R.shape[1]):
            parts.extend(self._moments(X, R[:, k], observed, params, k))
        return np.concatenate([np.ravel(part) for part in parts])

    def _moments(self, X, weights, observed, params, k):
        """Return the moments of a state: of factors with a one, rows, and both."""
        W, noise = params.loadings[k], params.noise_variances[k]
        means, spread, _ = self._factors(X, observed, params, k)
        q = W.shape[1]
        mean = params.means[k] - params.centre
        z = X - params.centre
        if observed is not None:
            z = np.where(observed, z, mean + means @ W.T)
        weighted = means * weights[:, None]
        square = weighted.T @ means + np.einsum("n,nqr->qr", weights, spread)
        factors = np.empty((q + 1, q + 1))
        factors[:q, :q], factors[q, q] = square, weights.sum()
        factors[:q, q] = factors[q, :q] = weighted.sum(axis=0)
        both = np.concatenate([weighted.T @ z, (weights @ z)[None]])
        squares = weights @ z**2
        if observed is not None:
            holes = (~observed).astype(np.float64)
            by_hole = (holes * weights[:, None]).T @ spread.reshape(len(X), -1)
            by_hole = by_hole.reshape(-1, q, q)
            # What is missing varies with the factors, and by its own noise.
            both[:q] += np.einsum("dqr,dr->qd", by_hole, W)
            squares = squares + np.einsum("dq,dqr,dr->d", W, by_hole, W)
            squares = squares + (weights @ holes) * noise
        return factors, both, squares

    def _split(self, s, params):
        """Return masses, and moments of factors, both, and rows."""
        K, d, q = params.loadings.shape
        sizes = [(q + 1) ** 2, (q + 1) * d, d]
        parts = s[K:].reshape(K, sum(sizes))
        factors, both, squares = np.split(parts, np.cumsum(sizes)[:2], axis=1)
        shape = (K, q + 1, q + 1)
        return s[:K], factors.reshape(shape), both.reshape(K, q + 1, d), squares

    def maximize(self, s, params):
        """Return means, loadings and variances of the noise."""
        mass, factors, both, squares = self._split(s, params)
        alive, degenerate = left_alive(mass)
        K, d, q = params.loadings.shape
        means = params.means - params.centre
        loadings, noise = params.loadings.copy(), params.noise_variances.copy()
        for k in np.flatnonzero(alive):
            coefs = np.linalg.lstsq(factors[k], both[k], rcond=None)[0]
            loadings[k], means[k] = coefs[:q].T, coefs[q]
            residual = squares[k] - (coefs * both[k]).sum(axis=0)
            # Also without reg_covar, a variance stays a number that has an inverse.
            least = 1e-10 * np.abs(squares[k]) + np.finfo(np.float64).tiny
            noise[k] = np.maximum(residual, least) / mass[k] + self.reg_covar
        return FactorAnalyserParams(
            means + params.centre, loadings, noise, params.centre, degenerate
        )

    def project(self, s, params=None):
        """Return statistics with non-negative masses and moments."""
        if params is None:
            raise ValueError("statistics of FactorAnalyser are projected given params")
        mass, factors, both, squares = self._split(s.copy(), params)
        q1 = factors.shape[1]
        joint = np.concatenate([factors, both], axis=2)
        slack = 1e-9 * np.abs(s).max(initial=0.0)
        good = mass >= 0
        for k in np.flatnonzero(good):
            least = np.linalg.eigvalsh(factors[k])[0]
            coefs = np.linalg.lstsq(factors[k], both[k], rcond=None)[0]
            rest = squares[k] - (coefs * both[k]).sum(axis=0)
            good[k] = least >= -slack and (rest >= -slack).all()
        if good.all():
            return s, False
        K = len(mass)
        mass, squares = np.maximum(mass, 0.0), squares.copy()
        for k in np.flatnonzero(~good):
            values, vectors = np.linalg.eigh(factors[k])
            factors[k] = (vectors * np.maximum(values, 0.0)) @ vectors.T
            coefs = np.linalg.lstsq(factors[k], both[k], rcond=None)[0]
            joint[k, :, q1:] = factors[k] @ coefs
            squares[k] = np.maximum(squares[k], (coefs * joint[k, :, q1:]).sum(axis=0))
        both = joint[:, :, q1:]
        parts = [factors.reshape(K, -1), both.reshape(K, -1), squares]
        return np.concatenate([mass, np.concatenate(parts, axis=1).ravel()]), True

    def spreads(self, params):
        """Return the covariances, of factors and noise together."""
        diagonals = params.noise_variances[:, :, None] * np.eye(params.means.shape[1])
        whole = params.loadings @ params.loadings.swapaxes(1, 2) + diagonals
        return [spread_of(self, params, whole, "full")]

    def expected(self, X, R, params):
        """Return rows with missing values replaced by conditional means."""
        observed = ~np.isnan(X)
        total = 0.0
        for k in range(R.shape[1]):
            means, _, _ = self._factors(X, observed, params, k)
            total = total + R[:, k, None] * (
                params.means[k] + means @ params.loadings[k].T
            )
        return np.where(observed, X, total)

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        observed = ~np.isnan(X)
        filled = np.array(X, dtype=np.float64)
        q = params.loadings.shape[2]
        for k in np.unique(states):
            rows = np.flatnonzero(states == k)
            means, spread, _ = self._factors(X[rows], observed[rows], params, k)
            root = np.linalg.cholesky(spread)
            noise = rng.standard_normal((len(rows), q))
            factors = means + np.einsum("nqr,nr->nq", root, noise)
            new = params.means[k] + factors @ params.loadings[k].T
            new += rng.standard_normal(new.shape) * np.sqrt(params.noise_variances[k])
            filled[rows] = np.where(observed[rows], X[rows], new)
        return filled

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        X = np.full((len(states), params.means.shape[1]), np.nan)
        return self.draw(X, states, params, rng)

    def n_parameters(self, K, d, params=None):
        """Return the number of means, loadings up to rotations, and variances."""
        q = self.n_factors
        return K * (2 * d + d * q - q * (q - 1) // 2)

    def marginal(self, params, columns):
        """Return the parameters of some columns."""
        return FactorAnalyserParams(
            params.means[:, columns],
            params.loadings[:, columns],
            params.noise_variances[:, columns],
            params.centre[columns],
        )

    def condition(self, params, columns, values, others):
        """Return the distribution of some columns given the values of others.

        The noise is independent of the given values; means and loadings are conditional
        on them.
        """
        emission, conditional = super().condition(params, columns, values, others)
        if not len(columns):
            return emission, conditional
        row = np.full((1, params.means.shape[1]), np.nan)
        row[0, columns] = values
        means, loadings = conditional.means.copy(), conditional.loadings.copy()
        for k, W in enumerate(conditional.loadings):
            factors, spread, _ = self._factors(row, ~np.isnan(row), params, k)
            means[k] += W @ factors[0]
            loadings[k] = W @ np.linalg.cholesky(spread[0])
        return emission, conditional._replace(means=means, loadings=loadings)


def _observed(X):
    """Return which values are observed, None for all of them."""
    holes = np.isnan(X)
    return ~holes if holes.any() else None
