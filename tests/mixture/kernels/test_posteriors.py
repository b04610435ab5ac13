"""Posterior probabilities by tiles, and the NumPy expression that they equal."""

import numpy as np
import pytest
from scipy.special import logsumexp

from sktem.mixture.kernels.posteriors import posterior_rows


@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 130, 1000])
def test_posteriors(K, n):
    rng = np.random.default_rng(0)
    L, log_weights = 30 * rng.normal(size=(K, n)), np.log(rng.dirichlet(np.ones(K)))
    found, values = np.empty((n, K)), np.empty(n)
    assert posterior_rows(L, log_weights, found, values)
    joint = L.T + log_weights
    expected = logsumexp(joint, axis=1)
    np.testing.assert_allclose(values, expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(found, np.exp(joint - expected[:, None]), rtol=1e-12)


def test_rows_without_a_density():
    rows = np.array(
        [
            [-np.inf, -np.inf],
            [0.0, np.nan],
            [np.nan, 0.0],
            [np.inf, 1.0],
            [-np.inf, -1.0],
            [-1.0, -np.inf],
        ]
    )
    found, values = np.empty((6, 2)), np.empty(6)
    assert not posterior_rows(rows.T.copy(), np.zeros(2), found, values)
    wanted = [-np.inf, np.nan, np.nan, np.inf, -1.0, -1.0]
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(found[4:], [[0.0, 1.0], [1.0, 0.0]])
    assert posterior_rows(rows[4:].T.copy(), np.zeros(2), found[4:], values[4:])
