"""Gaussian mixtures on arrays of other namespaces, such as tensors of torch on a GPU.

The functions are those of ``sktem.mixture.kernels.e_step``, by the same names, as
matrix products over blocks of rows: responsibilities of all rows are never stored. They
compute in the type of the data, or in float64 where float32 would cost digits; sums
over blocks are float64. Parameters and statistics, which are small, are NumPy arrays on
both sides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sktem.arrays import TensorRows, arrays_of, numpy_of
from sktem.rows.held import carrier_of

__all__ = [
    "TensorRows",
    "expected_statistics",
    "like_rows",
    "log_density",
    "no_rows",
    "numpy_of",
    "posterior",
    "predict",
    "statistics",
]

#: Deviations, also in units of the narrowest component, are held within this by type,
#: so that their squares are finite.
LARGEST_DEVIATION = {np.float32: 1e18, np.float64: 1e150}

#: Widths of components, and one over them, beyond which float64 is needed.
WIDEST = 1e15

#: Rounding that squares may leave in log-densities and variances, by type of the data.
SQUARES_ERROR = {np.float32: 1e-3, np.float64: 1e-10}


def no_rows(X):
    """Return rows of the kind of X, but none of them."""
    if not carrier_of(X).holds_tensors:
        return np.empty((0, X.shape[1]), X.dtype)
    arrays = arrays_of(X.values)
    return TensorRows(arrays.empty((0, X.shape[1]), X.values.dtype))


def like_rows(X, values):
    """Return values as an array of the kind of X; floating ones get its type."""
    floating = not isinstance(values, np.ndarray) or values.dtype.kind == "f"
    if not carrier_of(X).holds_tensors:
        return values.astype(X.dtype, copy=False) if floating else values
    arrays = arrays_of(X.values)
    if isinstance(values, np.ndarray):
        return arrays.asarray(values)
    return arrays.astype(values, X.values.dtype)


class _Density:
    """Log-densities of the components for blocks of rows.

    Squares of deviations from all means are expanded, ``|y - o|^2 = |y|^2 - 2 y o +
    |o|^2``, so that they are matrix products, unless that costs digits: where means are
    far from the centre in units of a component's width.
    """

    def __init__(self, X, params):
        self.arrays = arrays_of(X.values)
        self.kind, means = params.covariance_type, params.means
        K, d = self.n_components, self.n_features = means.shape
        factors = np.asarray(params.precisions_cholesky, dtype=np.float64)
        if self.kind in ("full", "tied"):
            scales = np.diagonal(factors, axis1=-2, axis2=-1)
            log_det = np.broadcast_to(np.log(scales).sum(axis=-1), K)
            whiten = "kd,kde->ke" if self.kind == "full" else "kd,de->ke"
            offsets = np.einsum(whiten, means, factors)
            back = "ke,kde->kd" if self.kind == "full" else "ke,de->kd"
            linear = np.einsum(back, offsets, factors)
        else:
            if self.kind == "unit":
                factors = np.ones(K)
            scales = factors = factors.reshape(K, -1) * np.ones(d)
            log_det = np.log(factors).sum(axis=1)
            offsets, linear = means * factors, means * factors**2
        constants = params.log_weights + log_det - 0.5 * d * math.log(2 * math.pi)
        squares = (offsets**2).sum(axis=1)
        kind = X.dtype.type
        far = squares.max() * np.finfo(kind).eps > SQUARES_ERROR[kind]
        if far or scales.max() > WIDEST or scales.min() < 1 / WIDEST:
            kind = np.float64
        self.dtype = getattr(self.arrays.xp, np.dtype(kind).name)
        error = squares.max() * np.finfo(kind).eps
        self.expanded = bool(error <= SQUARES_ERROR[kind])
        narrowest = max(1.0, float(np.abs(factors).max()))
        self.bound = LARGEST_DEVIATION[kind] / (narrowest * d)
        constants = constants - 0.5 * squares if self.expanded else constants
        send = self._send
        # In two parts: the centre may lie between two numbers of float32.
        centre = np.asarray(params.centre, dtype=kind)
        self.centre = send(centre), send(params.centre - centre)
        self.constants = send(constants)
        self.offsets, self.linear = send(offsets), send(linear.T)
        self.factors, self.quadratic = send(factors), self._quadratic(factors)

    def _send(self, values):
        return self.arrays.asarray(np.ascontiguousarray(values), self.dtype)

    def _quadratic(self, factors):
        """Return the coefficients of the second moments of a row."""
        if self.kind == "full":
            rows, columns = np.tril_indices(self.n_features)
            precisions = factors @ np.swapaxes(factors, 1, 2)
            both = np.where(rows == columns, -0.5, -1.0)
            return self._send((precisions[:, rows, columns] * both).T)
        if self.kind == "tied":
            return self._send(np.full((1, self.n_components), -0.5))
        squares = -0.5 * factors.T**2
        return self._send(squares if self.kind == "diag" else squares[:1])

    def deviations(self, X, rows):
        """Return a block of rows about the centre."""
        values = self.arrays.astype(X.values[rows, :], self.dtype)
        z = values - self.centre[0] - self.centre[1]
        return self.arrays.xp.clip(z, -self.bound, self.bound)

    def joint(self, z):
        """Return ``log w_k + log N(x; m_k, C_k)``."""
        if not self.expanded:
            return self._joint_by_component(z)
        scaled = z @ self.factors if self.kind == "tied" else z
        kind = "spherical" if self.kind in ("tied", "unit") else self.kind
        second = second_moments(self.arrays, scaled, kind)
        return second @ self.quadratic + z @ self.linear + self.constants

    def _joint_by_component(self, z):
        """Return log-joints without expanding squares."""
        xp, columns = self.arrays.xp, []
        y = z @ self.factors if self.kind == "tied" else z
        for k in range(self.n_components):
            if self.kind == "full":
                y = z @ self.factors[k, :, :]
            elif self.kind != "tied":
                y = z * self.factors[k, :]
            squares = xp.sum((y - self.offsets[k, :]) ** 2, axis=1)
            columns.append(self.constants[k] - 0.5 * squares)
        return xp.stack(columns, axis=1)

    def posterior(self, z):
        """Return responsibilities and log-densities."""
        xp = self.arrays.xp
        joint = self.joint(z)
        largest = xp.max(joint, axis=1, keepdims=True)
        # Numbers too small to be normal are slow, and add nothing.
        joint = joint - largest
        least = 0.5 * math.log(float(xp.finfo(joint.dtype).smallest_normal))
        shares = xp.where(joint > least, xp.exp(joint), xp.zeros_like(joint))
        total = xp.sum(shares, axis=1, keepdims=True)
        return shares / total, (largest + xp.log(total))[:, 0]


def blocks_of(X, covariance_type, n_components):
    """Yield slices of rows that bound the memory of temporaries."""
    n_rows, widest = X.shape
    if covariance_type == "full":
        widest = widest * (widest + 1) // 2
    size = X.rows_at_once(max(widest, n_components))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def second_moments(arrays, z, covariance_type):
    """Return products of the columns of each row, as the covariances need them."""
    if covariance_type == "full":
        rows, columns = np.tril_indices(z.shape[1])
        return arrays.take_columns(z, rows) * arrays.take_columns(z, columns)
    if covariance_type == "diag":
        return z**2
    return arrays.xp.sum(z**2, axis=1, keepdims=True)


class _Sums:
    """Sums of weighted statistics over blocks, in the layout of the kernels."""

    def __init__(self, arrays, covariance_type):
        self.arrays, self.covariance_type = arrays, covariance_type
        self.total: Any = 0.0

    def add(self, z, shares):
        """Add a block; shares are responsibilities times weights."""
        xp = self.arrays.xp
        parts = [xp.sum(shares, axis=0), xp.reshape(shares.T @ z, (-1,))]
        if self.covariance_type == "tied":
            rows, columns = np.tril_indices(z.shape[1])
            square = (z * xp.sum(shares, axis=1, keepdims=True)).T @ z
            lower = self.arrays.asarray(rows * z.shape[1] + columns)
            parts.append(xp.take(xp.reshape(square, (-1,)), lower, axis=0))
        elif self.covariance_type != "unit":
            second = second_moments(self.arrays, z, self.covariance_type)
            parts.append(xp.reshape(shares.T @ second, (-1,)))
        self.total = self.arrays.astype(xp.concat(parts), xp.float64) + self.total

    def result(self):
        """Return the sums as a NumPy array."""
        return self.arrays.to_numpy(self.total)


def _column(arrays, weights, rows, dtype):
    return arrays.asarray(np.asarray(weights[rows]), dtype)[:, None]


def expected_statistics(X, params, weights=None, n_jobs=None):
    """Return sums of expected statistics and of log-likelihoods."""
    density = _Density(X, params)
    arrays, xp = density.arrays, density.arrays.xp
    sums = _Sums(arrays, params.covariance_type)
    log_likelihood = 0.0
    for rows in blocks_of(X, params.covariance_type, len(params.means)):
        z = density.deviations(X, rows)
        shares, values = density.posterior(z)
        if weights is not None:
            weight = _column(arrays, weights, rows, density.dtype)
            shares, values = shares * weight, values * weight[:, 0]
        sums.add(z, shares)
        log_likelihood = xp.sum(values, dtype=xp.float64) + log_likelihood
    return sums.result(), float(log_likelihood)


def statistics(X, Z, centre, covariance_type, weights=None, n_jobs=None):
    """Return sums of statistics at given latents, NumPy responsibilities or counts."""
    arrays = arrays_of(X.values)
    xp, dtype = arrays.xp, arrays.xp.float64
    sums = _Sums(arrays, covariance_type)
    centre = arrays.asarray(centre, dtype)
    for rows in blocks_of(X, covariance_type, Z.shape[1]):
        shares = arrays.asarray(np.asarray(Z[rows], dtype=np.float64))
        total = xp.sum(shares, axis=1, keepdims=True)
        shares = shares / xp.where(total > 0, total, xp.ones_like(total))
        if weights is not None:
            shares = shares * _column(arrays, weights, rows, dtype)
        sums.add(arrays.astype(X.values[rows, :], dtype) - centre, shares)
    return sums.result()


def _over_blocks(X, params, compute):
    """Return the results of a function for blocks of deviations, concatenated."""
    density = _Density(X, params)
    return density.arrays.concat(
        [
            compute(density, density.deviations(X, rows))
            for rows in blocks_of(X, params.covariance_type, len(params.means))
        ]
    )


def posterior(X, params, n_jobs=None):
    """Return responsibilities and log-densities, arrays of the namespace of X."""
    both = _over_blocks(X, params, _posterior_and_density)
    return both[:, :-1], both[:, -1]


def _posterior_and_density(density, z):
    shares, values = density.posterior(z)
    return density.arrays.concat([shares, values[:, None]], axis=1)


def log_density(X, params, n_jobs=None):
    """Return log-densities, an array of the namespace of X."""
    return _over_blocks(X, params, lambda density, z: density.posterior(z)[1])


def predict(X, params, n_jobs=None):
    """Return the most probable components, an array of the namespace of X."""

    def labels(density, z):
        return density.arrays.xp.argmax(density.joint(z), axis=1)

    return _over_blocks(X, params, labels)
