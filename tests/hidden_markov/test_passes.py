"""A pass over one long sequence by blocks, and over all of its rows together."""

import numpy as np
import pytest

from sktem.emissions import Autoregression, Gaussian
from sktem.hidden_markov.chain import Chain, ChainParams
from sktem.hidden_markov.history_chain import HistoryChain
from sktem.hidden_markov.model import HiddenMarkovParams, SequenceModel
from sktem.hidden_markov.rows import ObservedSequences


@pytest.mark.parametrize("by_blocks", [True, False])
@pytest.mark.parametrize("K", [3, 4, 5])
@pytest.mark.parametrize("n", [31, 40])
def test_blocks_add_up(n, K, by_blocks, memory_budget, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, labels = rng.normal(size=(n, 2)), np.full(n, -1)
    X[7], labels[[3, 20]] = np.nan, [1, 2]
    start, A = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K)
    emission = Gaussian("diag")
    params = emission.start(X, rng.dirichlet(np.ones(K), size=n))
    params = params._replace(means=rng.normal(size=(K, 2)))
    if not by_blocks:  # no path has both labels, which scales do not survive
        A, labels[20] = np.triu(A), 0
        A /= A.sum(axis=1, keepdims=True)
    params = HiddenMarkovParams(ChainParams(start, A), params)
    model = SequenceModel(Chain(K), emission, params)
    sequence, weight = ObservedSequences(np.array([0, n]), X, labels), np.array([2.0])
    expected = model.expected_statistics(sequence, params, weight)
    memory_budget(cached=10 * min(max(4 * K, 16), 32))
    found = model.expected_statistics(sequence, params, weight)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
    assert found[1] == pytest.approx(expected[1], rel=1e-12)
    sums = model._sums_by_blocks(sequence, params, weight)
    assert (sums is not None) == by_blocks
    # Seen is a block that forgot the one before.
    for first in range(10, n if by_blocks else 0, 10):
        alone = ObservedSequences(np.array([0, first, n]), X, labels)
        other = model.expected_statistics(alone, params, np.array([2.0, 2.0]))
        assert not np.allclose(2 * other[0], expected[0], rtol=1e-4)


def test_blocks_of_histories_add_up(memory_budget):
    rng = np.random.default_rng(0)
    start, A = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), size=2)
    emission, offsets = Autoregression(2), np.array([0, 90])
    X = emission.with_lags(rng.normal(size=(90, 1)).cumsum(axis=0), offsets)
    params = emission.start(X, rng.dirichlet(np.ones(2), size=90))
    params = HiddenMarkovParams(ChainParams(start, A), params)
    model = SequenceModel(HistoryChain(2, memory=2), emission, params)
    sequence = ObservedSequences(offsets, X)
    expected = model.expected_statistics(sequence, params)
    memory_budget(cached=10 * 32)  # ten rows of eight histories
    found = model.expected_statistics(sequence, params)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
    assert found[1] == pytest.approx(expected[1], rel=1e-12)
    assert model._sums_by_blocks(sequence, params, None) is not None
