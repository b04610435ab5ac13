"""Expectation step and statistics of Gaussian mixtures, in one pass over the rows.

Nothing of size (n_samples, n_components) is formed unless it is asked for. All
sums are float64 and taken about a fixed centre, whatever the type of the data.

So that nothing overflows, data are held within a bound about the centre: 1e150 or,
where precisions are large, as much less as keeps every log-density above -1e301.
"""

from typing import NamedTuple

import numpy as np

from sktem.kernels.blocks import iterate_blocks, plain, reduce_blocks, rows_per_block
from sktem.mixture.kernels.rows import (
    LARGEST_VALUE,
    draw_counts_rows,
    mixture_rows,
    prepare,
    work_size,
)
from sktem.mixture.kernels.sums import product_tables

# Outputs without a length are not computed, weights without one are ones.
_NO_VECTOR = np.empty(0)
_NO_MATRIX = np.empty((0, 0))
_NO_LABELS = np.empty(0, dtype=np.intp)
_NO_TRANSFORM = np.empty((0, 1))
_NO_TABLE = np.empty((4, 0), dtype=np.int64)


class GaussianKernelParams(NamedTuple):
    """Parameters of a Gaussian mixture in the form that the kernels read.

    Attributes
    ----------
    centre : ndarray of shape (n_features,)
        The point that statistics and means are relative to.
    log_weights : ndarray of shape (n_components,)
        Some, not all, may be minus infinity.
    means : ndarray of shape (n_components, n_features)
        Means minus the centre.
    precisions_cholesky : ndarray
        As in scikit-learn: (K, d, d) upper triangular if full, (d, d) if tied,
        (K, d) if diag, (K,) if spherical; (K,) and not read if unit.
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}
    """

    centre: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    precisions_cholesky: np.ndarray
    covariance_type: str


def n_statistics(covariance_type, n_components, n_features):
    """Return the length of the vector of statistics."""
    triangle = n_features * (n_features + 1) // 2
    second = {
        "full": n_components * triangle,
        "tied": triangle,
        "diag": n_components * n_features,
        "spherical": n_components,
        "unit": 0,
    }
    return n_components * (1 + n_features) + second[covariance_type]


def width_of(n_features):
    """Return the number of columns of a tile: 2 or a multiple of 4."""
    return 2 if n_features <= 2 else -(-n_features // 4) * 4


def describe(params):
    """Return the parameters in the form of `mixture_rows`."""
    covariance_type = params.covariance_type
    n_components, n_features = params.means.shape
    width = width_of(n_features)
    factors = plain(params.precisions_cholesky)
    constants = np.zeros(n_components)
    offsets = np.zeros((n_components, width))
    # Full covariances of one feature are diagonal ones, and cheaper so.
    is_full = covariance_type == "full" and n_features > 1
    matrices = _NO_TRANSFORM
    steps = (1, 0)
    if is_full:
        matrices = precisions = np.zeros((n_components * width, width))
    elif covariance_type == "tied":
        matrices = np.zeros((n_features, n_features))
        precisions = np.ones((n_components, width))
    else:
        precisions = np.zeros((n_components, width))
        if covariance_type == "unit":
            factors = np.ones(n_components)
        elif covariance_type != "spherical":
            steps = (n_features, 1)
    bound = prepare(
        plain(params.log_weights),
        plain(params.means),
        factors.ravel(),
        steps,
        constants,
        matrices,
        precisions,
        offsets,
    )
    transform = _NO_TRANSFORM if is_full else matrices
    centre = plain(params.centre)
    return centre, bound, constants, transform, precisions, offsets, is_full


def expected_statistics(X, params, weights=None, n_jobs=None, before=None):
    """Compute expected statistics and the log-likelihood in one pass.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
    params : GaussianKernelParams
    weights : ndarray of shape (n_samples,) or None, default=None
        None stands for ones.
    n_jobs : int or None, default=None
        Number of threads. The result has the same bits for any number.
    before : tuple or None, default=None
        Sums over rows before these, to which those of blocks are added in order.

    Returns
    -------
    sums : ndarray of shape (n_statistics,)
        With z = x - centre, w the weights and r the responsibilities: the sums of
        w r, of w r z, and of w r z z^T (full, lower triangle by rows),
        w z z^T (tied, the same), w r z**2 (diag), w r |z|**2 (spherical) or
        nothing (unit).
    sum_log_likelihood : float
        Sum of w log p(x).
    """
    description = describe(params)
    n_rows, n_features = X.shape
    n_components = params.means.shape[0]
    covariance_type = params.covariance_type
    width = width_of(n_features)
    tables = product_tables(covariance_type, n_components, n_features, width)
    length = n_statistics(covariance_type, n_components, n_features)

    block_size = rows_per_block(n_features)

    def sum_block(start, stop):
        sums = np.zeros(length)
        log_likelihood = mixture_rows(
            plain(X[start:stop]),
            _NO_MATRIX,
            _NO_VECTOR if weights is None else plain(weights[start:stop]),
            description,
            tables,
            np.empty(work_size(width, n_components)),
            sums,
            _NO_MATRIX,
            _NO_VECTOR,
            _NO_LABELS,
        )
        return sums, log_likelihood

    return reduce_blocks(sum_block, len(X), block_size, n_jobs, before)


def statistics(X, Z, centre, covariance_type, weights=None, n_jobs=None):
    """Compute the statistics of a mixture at given latents.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
    Z : ndarray of shape (n_samples, n_components)
        Responsibilities or counts of draws; each row is divided by its sum, and
        a row whose sum is 0 adds nothing.
    centre : ndarray of shape (n_features,)
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}
    weights : ndarray of shape (n_samples,) or None, default=None
    n_jobs : int or None, default=None

    Returns
    -------
    sums : ndarray of shape (n_statistics,)
        As `expected_statistics` returns them.
    """
    n_rows, n_features = X.shape
    n_components = Z.shape[1]
    width = width_of(n_features)
    tables = product_tables(covariance_type, n_components, n_features, width)
    length = n_statistics(covariance_type, n_components, n_features)
    nothing = np.empty((n_components, width))
    description = (
        *(plain(centre), LARGEST_VALUE, np.empty(n_components), _NO_TRANSFORM),
        *(nothing, nothing, False),
    )

    def sum_block(start, stop):
        sums = np.zeros(length)
        mixture_rows(
            plain(X[start:stop]),
            plain(Z[start:stop]),
            _NO_VECTOR if weights is None else plain(weights[start:stop]),
            description,
            tables,
            np.empty(work_size(width, n_components)),
            sums,
            _NO_MATRIX,
            _NO_VECTOR,
            _NO_LABELS,
        )
        return (sums,)

    block_size = rows_per_block(n_features + n_components)
    return reduce_blocks(sum_block, n_rows, block_size, n_jobs)[0]


def _write_posterior(X, params, n_jobs, responsibilities, log_densities, labels):
    """Fill the outputs that have a length."""
    description = describe(params)
    n_rows, n_features = X.shape
    n_components = params.means.shape[0]

    def write_block(start, stop):
        mixture_rows(
            plain(X[start:stop]),
            _NO_MATRIX,
            _NO_VECTOR,
            description,
            (_NO_TABLE, _NO_TABLE),
            np.empty(work_size(width_of(n_features), n_components)),
            _NO_VECTOR,
            responsibilities[start:stop],
            log_densities[start:stop],
            labels[start:stop],
        )

    for _ in iterate_blocks(write_block, n_rows, rows_per_block(n_features), n_jobs):
        pass


def posterior(X, params, n_jobs=None):
    """Compute responsibilities and log-density of each row."""
    responsibilities = np.empty((X.shape[0], params.means.shape[0]))
    log_densities = np.empty(X.shape[0])
    _write_posterior(X, params, n_jobs, responsibilities, log_densities, _NO_LABELS)
    return responsibilities, log_densities


def log_density(X, params, n_jobs=None):
    """Compute the log-density of each row, as `posterior` computes it."""
    log_densities = np.empty(X.shape[0])
    _write_posterior(X, params, n_jobs, _NO_MATRIX, log_densities, _NO_LABELS)
    return log_densities


def predict(X, params, n_jobs=None):
    """Find the component of the largest responsibility, the first of equals."""
    labels = np.empty(X.shape[0], dtype=np.intp)
    _write_posterior(X, params, n_jobs, _NO_MATRIX, _NO_VECTOR, labels)
    return labels


def draw_counts(responsibilities, uniforms, dtype):
    """Count independent draws of the component of each row.

    Parameters
    ----------
    responsibilities : ndarray of shape (n_samples, n_components)
        Rows sum to one.
    uniforms : ndarray of shape (n_samples, n_draws)
        Values in [0, 1): a draw is the first component whose cumulated
        responsibility exceeds its uniform, and the last one that has any takes
        what rounding leaves over.
    dtype : dtype
        Of the counts; it must hold `n_draws`.

    Returns
    -------
    counts : ndarray of shape (n_samples, n_components)
    """
    n_rows, n_components = responsibilities.shape
    counts = np.empty((n_rows, n_components), dtype=dtype)

    def draw_block(start, stop):
        block = np.empty((stop - start, n_components), dtype=np.int64)
        draw_counts_rows(
            plain(responsibilities[start:stop]),
            plain(uniforms[start:stop]),
            np.empty(n_components),
            block,
        )
        counts[start:stop] = block

    block_size = rows_per_block(n_components + uniforms.shape[1])
    for _ in iterate_blocks(draw_block, n_rows, block_size):
        pass
    return counts
