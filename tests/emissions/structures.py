"""Structures of covariances, written without the package."""

import numpy as np

KINDS = ["full", "tied", "diag", "spherical", "unit"]
LEARNED = KINDS[:4]


def dense(kind, covariances, K, d):
    """Return covariances of a structure as matrices, (K, d, d)."""
    if kind in ("full", "tied"):
        return np.broadcast_to(covariances, (K, d, d))
    return np.stack([np.diag(np.broadcast_to(c, (d,))) for c in covariances])


def reduced(kind, matrices, weights):
    """Bring matrices (K, d, d) into a structure, as maximum likelihood does."""
    diagonals = np.diagonal(matrices, axis1=1, axis2=2)
    return {
        "full": matrices,
        "tied": np.tensordot(weights, matrices, 1),
        "diag": diagonals,
        "spherical": diagonals.mean(axis=1),
        "unit": np.ones(len(matrices)),
    }[kind]


def n_free(kind, K, d):
    """Return the number of free numbers of covariances."""
    corner = d * (d + 1) // 2
    sizes = {"full": K * corner, "tied": corner, "diag": K * d, "spherical": K}
    return sizes.get(kind, 0)
