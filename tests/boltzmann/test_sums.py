"""Sums over hidden units: one at a time, and over all states."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logsumexp, softmax

from sktem.boltzmann.sums import blocks, hidden_sums, log_sums


@pytest.mark.parametrize("n_hidden", [0, 1, 5, 512, 2500])
def test_hidden_units_are_summed_one_by_one(n_hidden):
    fields = 30 * np.random.default_rng(0).standard_normal((3, 2, n_hidden))
    fields[0, :, :1], fields[1, :, :1] = 800.0, -800.0
    sums, means = hidden_sums(fields)
    expected = np.logaddexp(0, fields).sum(axis=-1)
    np.testing.assert_allclose(sums, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(means, expit(fields), rtol=1e-14)


def test_states_are_summed_together():
    exponents = 500 * np.random.default_rng(0).standard_normal((4, 6))
    sums, shares = log_sums(exponents)
    np.testing.assert_allclose(sums, logsumexp(exponents, axis=1), rtol=1e-14)
    np.testing.assert_allclose(shares, softmax(exponents, axis=1), atol=1e-15)
    logs = log_softmax(exponents, axis=1)
    np.testing.assert_allclose(exponents - sums[:, None], logs, atol=1e-10)


def test_blocks_are_all_rows():
    assert [*range(10)] == [k for rows in blocks(10, 2**17) for k in range(10)[rows]]
    assert len([*blocks(10, 2**17)]) == 5 and not [*blocks(0, 3)]
