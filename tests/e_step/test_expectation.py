"""Passes over all rows, cut into blocks."""

import numpy as np
import pytest

from sktem.e_step.expectation import Expectation
from sktem.e_step.random import spawn_generators
from sktem.models import RandomInterceptModel
from sktem.samplers import ExactDraws, ExactExpectation

X = np.random.default_rng(0).normal(size=(100, 3)) + np.arange(100)[:, None] / 20
WEIGHTS = np.arange(1.0, 101.0) ** 2


@pytest.mark.parametrize("sampler", [ExactExpectation(), ExactDraws(3)], ids=str)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
def test_blocks_count_by_their_weights(sampler, weights, memory_budget):
    model = RandomInterceptModel()
    params = model.initial_params(X, np.random.default_rng(0))

    def passed(size):
        memory_budget(rows=size)
        generators = spawn_generators(0)
        whole = Expectation(model, sampler, X, weights, generators)
        memory = whole.new_memory()
        mean = whole.full_pass(params, 1, memory)
        return mean, memory.get(np.arange(100)), whole.log_likelihood(params)

    mean, Z, height = passed(1000)
    found = passed(16)
    np.testing.assert_allclose(found[0], mean, rtol=1e-12)
    np.testing.assert_array_equal(found[1], Z)
    assert found[2] == pytest.approx(height, rel=1e-12)
    shares = np.full(100, 0.01) if weights is None else weights / weights.sum()

    def by_hand(weights):
        draws = np.moveaxis(Z, 1, 0)
        return np.mean([model.mean_statistics(X, z, weights) for z in draws], axis=0)

    np.testing.assert_allclose(mean, by_hand(weights), rtol=1e-10)
    if weights is not None:  # weights that are lost would show
        assert abs(mean - by_hand(None)).max() > 0.1
    assert height == pytest.approx(shares @ model.log_likelihood(X, params))
