"""Compiled loops of emissions, and the NumPy expressions that they equal."""

import numpy as np
import pytest

from sktem.emissions.kernels import rows


@pytest.mark.parametrize("n", [1, 64, 150])
@pytest.mark.parametrize("K, d", [(1, 1), (3, 2), (4, 5)])
def test_distances_and_moments(K, d, n):
    rng = np.random.default_rng(0)
    X, centre, means = (
        rng.normal(size=(n, d)),
        rng.normal(size=d),
        rng.normal(size=(K, d)),
    )
    R, widths = rng.random((n, K)), rng.random((K, d))
    factors, z = np.triu(rng.normal(size=(K, d, d))), X - centre
    found = np.empty((n, K))
    rows.diagonal_distances(X, centre, means, widths, found)
    expected = (((z[:, None] - means) * widths) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows.full_distances(X, centre, means, factors, found)
    y = np.einsum("nkd,kde->nke", z[:, None] - means, factors)
    np.testing.assert_allclose(found, (y**2).sum(axis=2), rtol=1e-11)
    for name, second in (
        ("diagonal_moments", np.einsum("nk,nd->kd", R, z**2)),
        ("full_moments", np.einsum("nk,nd,ne->kde", R, z, z)),
    ):
        sums = np.zeros(K), np.zeros((K, d)), np.zeros(second.shape)
        getattr(rows, name)(X, centre, R, *sums)
        for value, wanted in zip(sums, (R.sum(axis=0), R.T @ z, second), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-11, atol=1e-12)
