"""The five covariance structures of K Gaussians, one class each.

Each class turns packed second moments into covariances and back. All moments are
about the fixed centre of the model, so that a common offset of the data does not cost
digits. A structure is added by one class and one line of ``COVARIANCES``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sktem.kernels.linear_algebra import inverse_cholesky

__all__ = ["COVARIANCES", "Diagonal", "Full", "Spherical", "Tied", "Unit"]


@lru_cache(maxsize=64)
def _unpacking(d: int) -> np.ndarray:
    index = np.empty((d, d), dtype=np.intp)
    rows, columns = np.tril_indices(d)
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return index


def _unpack(packed, d):
    return np.take(packed, _unpacking(d), axis=-1)


def _pack(matrices):
    rows, columns = np.tril_indices(matrices.shape[-1])
    return matrices[..., rows, columns]


def _outer(means):
    return means[..., :, None] * means[..., None, :]


def _divisor(mass, extra):
    # A component without mass has nothing to divide.
    return np.where(mass > 0, mass, 1.0) + extra


def _least(sizes, floor, relative):
    """Smallest eigenvalue for matrices of given sizes, one of which may be nothing."""
    typical = np.maximum(sizes, np.median(sizes))
    least = np.maximum(floor, relative * typical)
    if relative:
        # A floor has an inverse, however small the data are.
        least = np.where(least > 0, np.maximum(least, 1e-300), 1e-12)
    return least


def _floored(matrices, floor, relative):
    """Raise eigenvalues of matrices that are not positive definite, and count these."""
    values, vectors = np.linalg.eigh(matrices)
    sizes = np.abs(values).max(axis=-1)
    least = _least(sizes, floor, relative)
    bad = values.min(axis=-1) <= 1e-14 * sizes
    repaired = np.where(bad[..., None], np.maximum(values, least[..., None]), values)
    product = (vectors * repaired[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    changed = int((repaired != values).any(axis=-1).sum())
    return np.where(bad[..., None, None], product, matrices), changed


class Full:
    """Each component has its own covariance matrix."""

    #: Whether the covariances are given and not learned.
    known = False

    def __init__(self, n_components, n_features):
        self.K, self.d = n_components, n_features

    @property
    def fewest_rows(self):
        """Return the rows that a component needs to have variance in all directions."""
        return self.d + 1

    @property
    def n_moments(self):
        """Length of the packed second moments."""
        return self.K * self.d * (self.d + 1) // 2

    @property
    def n_parameters(self):
        """Free parameters of the covariances."""
        return self.n_moments

    def unpack(self, moments):
        """Return second moments in the shape of the covariances."""
        return _unpack(moments.reshape(self.K, -1), self.d)

    def pack(self, scatter):
        """Return the packed form of second moments."""
        return _pack(scatter).ravel()

    def outer(self, means, mass):
        """Return ``mass_k m_k m_k'`` in the shape of the covariances."""
        return mass[:, None, None] * _outer(means)

    def normalise(self, scatter, mass, extra=0.0):
        """Divide by the mass of each component, plus that of a prior."""
        return scatter / _divisor(mass, extra)[:, None, None]

    def scale(self, covariances, mass):
        """Return ``mass_k C_k``, the inverse of ``normalise``."""
        return mass[:, None, None] * covariances

    def matrix(self, value):
        """Return a (d, d) matrix, diagonal or number in the shape of a covariance."""
        value = np.asarray(value, dtype=np.float64)
        return value if value.ndim == 2 else np.eye(self.d) * value

    def shift(self, covariances, amount):
        """Add a number to the diagonal."""
        np.einsum("...ii->...i", covariances)[...] += amount
        return covariances

    def diagonals(self, covariances):
        """Return the variances."""
        return np.diagonal(covariances, axis1=-2, axis2=-1)

    def least_variances(self, covariances):
        """Return the smallest variance of each covariance in any direction."""
        return np.linalg.eigvalsh(covariances)[..., 0]

    def repair(self, covariances, floor, relative=0.0):
        """Make covariances positive definite, and count the repaired ones.

        Their eigenvalues are raised to a floor, or to a share of their size.
        """
        return _floored(covariances, floor, relative)

    def precisions_cholesky(self, covariances):
        """Return P with ``P P' = inverse covariance``; raises LinAlgError."""
        count = math.prod(covariances.shape[:-2])  # there may be no columns
        stack = covariances.reshape(count, self.d, self.d)
        return inverse_cholesky(stack).reshape(covariances.shape)

    def cholesky_of_precisions(self, precisions):
        """Return P from precisions."""
        # P is upper triangular: the reversed Cholesky factor of the reversed matrix.
        lower = np.linalg.cholesky(precisions[..., ::-1, ::-1])
        return lower[..., ::-1, ::-1].copy()

    def precisions(self, precisions_cholesky):
        """Return precisions from P."""
        return precisions_cholesky @ np.swapaxes(precisions_cholesky, -1, -2)

    def log_determinants(self, precisions_cholesky):
        """Return ``log det`` of each covariance matrix."""
        diagonal = np.diagonal(precisions_cholesky, axis1=-2, axis2=-1)
        return -2 * np.log(diagonal).sum(axis=-1)

    def select(self, mask, first, second):
        """Take the covariances of ``first`` where ``mask``, else of ``second``."""
        return np.where(mask[:, None, None], first, second)

    def full(self, covariances):
        """Return covariance matrices (K, d, d)."""
        return np.broadcast_to(covariances, (self.K, self.d, self.d))

    def draw(self, covariances, component, size, rng):
        """Draw deviations from the mean of a component, as scikit-learn does."""
        covariance = self.full(covariances)[component]
        # Rounding can leave a floored covariance a little indefinite.
        return rng.multivariate_normal(
            np.zeros(self.d), covariance, size, check_valid="ignore"
        )

    def mahalanobis(self, means, precisions_cholesky):
        """Return ``m' inverse(covariance) m`` for each component."""
        projected = np.einsum("kd,kde->ke", means, precisions_cholesky)
        return (projected**2).sum(axis=1)

    def trace_product(self, matrix, precisions_cholesky):
        """Return ``trace(matrix inverse(covariance))`` for each component."""
        return np.einsum("de,kde->k", matrix, self.precisions(precisions_cholesky))


class Tied(Full):
    """All components share one covariance matrix."""

    @property
    def fewest_rows(self):
        """Return the rows that all components together need for that."""
        return self.d + self.K

    @property
    def n_moments(self):
        """Length of the packed second moments."""
        return self.d * (self.d + 1) // 2

    def unpack(self, moments):
        """Return second moments in the shape of the covariances."""
        return _unpack(moments, self.d)

    def outer(self, means, mass):
        """Return ``sum_k mass_k m_k m_k'``."""
        return (mass[:, None] * means).T @ means

    def normalise(self, scatter, mass, extra=0.0):
        """Divide by the total mass, plus that of a prior."""
        return scatter / (mass.sum() + extra)

    def scale(self, covariances, mass):
        """Return the covariance times the total mass."""
        return mass.sum() * covariances

    def select(self, mask, first, second):
        """Return ``first``: the covariance belongs to no component."""
        return first

    def mahalanobis(self, means, precisions_cholesky):
        """Return ``m' inverse(covariance) m`` for each component."""
        return ((means @ precisions_cholesky) ** 2).sum(axis=1)

    def trace_product(self, matrix, precisions_cholesky):
        """Return ``trace(matrix inverse(covariance))``."""
        return (matrix * self.precisions(precisions_cholesky)).sum()


class Diagonal(Full):
    """Each component has its own variances and no correlations."""

    @property
    def fewest_rows(self):
        """Return the rows that a component needs to have variance in all columns."""
        return 2

    @property
    def n_moments(self):
        """Length of the packed second moments."""
        return self.K * self.d

    def unpack(self, moments):
        """Return second moments in the shape of the covariances."""
        return moments.reshape(self.K, self.d)

    def pack(self, scatter):
        """Return the packed form of second moments."""
        return scatter.ravel()

    def outer(self, means, mass):
        """Return ``mass_k m_k^2``."""
        return mass[:, None] * means**2

    def normalise(self, scatter, mass, extra=0.0):
        """Divide by the mass of each component, plus that of a prior."""
        return scatter / _divisor(mass, extra)[:, None]

    def scale(self, covariances, mass):
        """Return ``mass_k C_k``, the inverse of ``normalise``."""
        return mass[:, None] * covariances

    def matrix(self, value):
        """Return a matrix, diagonal or number as variances."""
        value = np.asarray(value, dtype=np.float64)
        if value.ndim == 2:
            return np.diagonal(value)
        return np.broadcast_to(value, (self.d,))

    def shift(self, covariances, amount):
        """Add a number to the variances."""
        return covariances + amount

    def diagonals(self, covariances):
        """Return the variances."""
        return covariances

    def least_variances(self, covariances):
        """Return the smallest variance of each covariance in any direction."""
        return covariances.min(axis=-1)

    def repair(self, covariances, floor, relative=0.0):
        """Raise variances that are not positive; also count components with any."""
        variances = covariances.reshape(self.K, -1)
        least = _least(np.abs(variances).max(axis=1), floor, relative)
        repaired = np.where(variances > 0, variances, np.maximum(least[:, None], 0.0))
        changed = int((repaired != variances).any(axis=1).sum())
        return repaired.reshape(covariances.shape), changed

    def precisions_cholesky(self, covariances):
        """Return inverse standard deviations; raises LinAlgError."""
        if not (covariances > 0).all():
            raise np.linalg.LinAlgError("a variance is not positive")
        return 1.0 / np.sqrt(covariances)

    def cholesky_of_precisions(self, precisions):
        """Return P from precisions."""
        return np.sqrt(precisions)

    def precisions(self, precisions_cholesky):
        """Return precisions from P."""
        return precisions_cholesky**2

    def log_determinants(self, precisions_cholesky):
        """Return ``log det`` of each covariance matrix."""
        return -2 * np.log(precisions_cholesky).sum(axis=1)

    def select(self, mask, first, second):
        """Take the covariances of ``first`` where ``mask``, else of ``second``."""
        return np.where(mask[:, None], first, second)

    def full(self, covariances):
        """Return covariance matrices (K, d, d)."""
        return covariances[:, :, None] * np.eye(self.d)

    def draw(self, covariances, component, size, rng):
        """Draw deviations from the mean of a component, as scikit-learn does."""
        deviations = rng.standard_normal((size, self.d))
        return deviations * np.sqrt(covariances[component])

    def mahalanobis(self, means, precisions_cholesky):
        """Return ``m' inverse(covariance) m`` for each component."""
        return ((means * precisions_cholesky) ** 2).sum(axis=1)

    def trace_product(self, matrix, precisions_cholesky):
        """Return ``trace(matrix inverse(covariance))`` for each component."""
        return (matrix * precisions_cholesky**2).sum(axis=1)


class Spherical(Diagonal):
    """Each component has one variance for all features."""

    @property
    def n_moments(self):
        """Length of the packed second moments."""
        return self.K

    def unpack(self, moments):
        """Return second moments in the shape of the covariances."""
        return moments / self.d

    def pack(self, scatter):
        """Return the packed form of second moments."""
        return scatter * self.d

    def outer(self, means, mass):
        """Return the mean over features of ``mass_k m_k^2``."""
        return mass * (means**2).mean(axis=1)

    def normalise(self, scatter, mass, extra=0.0):
        """Divide by the mass of each component, plus that of a prior."""
        return scatter / _divisor(mass, extra)

    def scale(self, covariances, mass):
        """Return ``mass_k C_k``, the inverse of ``normalise``."""
        return mass * covariances

    def matrix(self, value):
        """Return the mean variance of a matrix, diagonal or number."""
        value = np.asarray(value, dtype=np.float64)
        return np.float64((np.diagonal(value) if value.ndim == 2 else value).mean())

    def least_variances(self, covariances):
        """Return the variances."""
        return covariances

    def log_determinants(self, precisions_cholesky):
        """Return ``log det`` of each covariance matrix."""
        return -2 * self.d * np.log(precisions_cholesky)

    def select(self, mask, first, second):
        """Take the covariances of ``first`` where ``mask``, else of ``second``."""
        return np.where(mask, first, second)

    def full(self, covariances):
        """Return covariance matrices (K, d, d)."""
        return covariances[:, None, None] * np.eye(self.d)

    def mahalanobis(self, means, precisions_cholesky):
        """Return ``m' inverse(covariance) m`` for each component."""
        return (means**2).sum(axis=1) * precisions_cholesky**2

    def trace_product(self, matrix, precisions_cholesky):
        """Return ``trace(matrix inverse(covariance))`` for each component."""
        return self.d * matrix * precisions_cholesky**2


class Unit(Spherical):
    """The covariance of every component is the identity, and known."""

    known = True
    n_parameters = 0

    @property
    def n_moments(self):
        """No second moments are needed."""
        return 0

    def unpack(self, moments):
        """Return moments that make every covariance the identity."""
        return np.ones(self.K)

    def pack(self, scatter):
        """Return the empty vector."""
        return np.empty(0)


#: Structures by the name that ``covariance_type`` accepts.
COVARIANCES = {
    "full": Full,
    "tied": Tied,
    "diag": Diagonal,
    "spherical": Spherical,
    "unit": Unit,
}
