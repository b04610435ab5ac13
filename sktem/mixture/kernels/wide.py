"""Expected statistics of many features with full covariances, by matrix products.

A matrix of each component is then larger than the tiles of rows that the compiled
kernel reads it for, so that BLAS wins by its blocking.
"""

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm

# Features from which BLAS was the faster one.
LEAST_WIDTH = 200

# Rows at once: few enough that what is computed of them stays in a cache.
N_ROWS = 512


def wide_rows(X, weights, centre, bound, constants, precisions, offsets, sums):
    """Add the statistics of rows to `sums`, and return their log-likelihood.

    The arguments are those of `mixture_rows` for full covariances.
    """
    K, d = len(constants), X.shape[1]
    width = offsets.shape[1]
    matrices = precisions.reshape(K, width, width)[:, :d, :d].copy()
    mass, first = sums[:K], sums[K : K + K * d].reshape(K, d)
    second = np.zeros((K, d, d))
    log_likelihood = 0.0
    for start in range(0, len(X), N_ROWS):
        rows = slice(start, start + N_ROWS)
        z = np.clip(X[rows] - centre, -bound, bound)
        joint = np.empty((len(z), K))
        for k in range(K):
            # BLAS reads both as their transposes.
            y = dtrmm(1.0, matrices[k].T, z.T, lower=1).T
            y -= offsets[k, :d]
            joint[:, k] = constants[k] - np.einsum("ij,ij->i", y, y)
        largest = joint.max(axis=1)
        joint -= largest[:, None]
        np.exp(joint, out=joint)
        total = joint.sum(axis=1)
        log_density = largest + np.log(total)
        joint /= total[:, None]
        if len(weights):
            joint *= weights[rows, None]
            log_density *= weights[rows]
        log_likelihood += log_density.sum()
        mass += joint.sum(axis=0)
        first += joint.T @ z
        for k in range(K):
            scaled = z * np.sqrt(joint[:, k, None])
            second[k] += dsyrk(1.0, scaled.T).T
    lower = np.tril_indices(d)
    sums[K + K * d :] += second[:, lower[0], lower[1]].ravel()
    return log_likelihood
