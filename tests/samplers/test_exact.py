"""Exact expectations and exact draws, and the contract of all samplers."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sktem.e_step.random import spawn_generators
from sktem.models import RandomInterceptModel
from sktem.models.base import average_statistics
from sktem.samplers import (
    SAMPLERS,
    ExactDraws,
    ExactExpectation,
    GrowingDraws,
    Sampler,
    SamplerInfo,
    positions,
)
from tests.oracles import (
    LIMIT,
    START,
    expected_statistics,
    posterior_moments,
    random_intercept_data,
    standard_errors,
)

X = random_intercept_data(0, n_rows=50)
MODEL = RandomInterceptModel()


def test_expectations_are_exact():
    Z, info = ExactExpectation().draw(MODEL, X, None, START, spawn_generators(0))
    found = average_statistics(MODEL, X, Z)
    np.testing.assert_allclose(found, expected_statistics(X, START), rtol=1e-12)
    weights = np.arange(1.0, 51.0)
    found = average_statistics(MODEL, X, Z, weights)
    expected = expected_statistics(X, START, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(info.acceptance_rate)


def test_draws_have_the_posterior_moments(global_random_seed):
    generators = spawn_generators(global_random_seed)
    Z, _ = ExactDraws(4000).draw(MODEL, X[:3], None, START, generators)
    assert Z.shape == (3, 4000, 1)
    mean, variance = posterior_moments(X[:3], START)
    for row in range(3):
        centred = Z[row] - mean[row]
        moments = np.hstack([centred, centred**2])
        assert standard_errors(moments, [0, variance]).max() < LIMIT
        assert standard_errors(moments, [0, 2 * variance]).max() > LIMIT


def test_average_over_draws_of_other_containers():
    """What is not a NumPy array is averaged draw by draw, to the same result."""

    class Frame:
        def __init__(self, values):
            self.values = values

    class OfFrames(RandomInterceptModel):
        def mean_statistics(self, X, Z, sample_weight=None):
            values = X.values if isinstance(X, Frame) else X
            return super().mean_statistics(values, Z, sample_weight)

    Z, _ = ExactDraws(4).draw(MODEL, X, None, START, spawn_generators(0))
    weights = np.arange(1.0, 51.0)
    for w in (None, weights):
        found = average_statistics(OfFrames(), Frame(X), Z, w)
        expected = average_statistics(MODEL, X, Z, w)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "draws, expected",
    [
        (GrowingDraws(initial=10, power=0.5), {1: 10, 2: 15, 4: 20, 100: 100}),
        (GrowingDraws(initial=1, power=1.0, maximum=7), {1: 1, 5: 5, 8: 7, 10**9: 7}),
        (GrowingDraws(initial=3, power=0.0), {1: 3, 10**6: 3}),
    ],
)
def test_growing_draws(draws, expected):
    sampler = ExactDraws(draws)
    for iteration, count in expected.items():
        assert sampler.draws_at(iteration) == count
        if count < 50:
            Z, _ = sampler.draw(MODEL, X, None, START, spawn_generators(0), iteration)
            assert Z.shape[1] == count
    same = pickle.loads(pickle.dumps(draws))
    assert same == draws
    assert hash(same) == hash(draws)
    assert draws != GrowingDraws(initial=99)
    assert repr(clone(sampler)) == repr(sampler)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, None, "ten", lambda iteration: 0])
def test_wrong_number_of_draws(wrong):
    with pytest.raises(ValueError, match="n_draws must be a positive integer"):
        ExactDraws(wrong).draw(MODEL, X, None, START, spawn_generators(0))


def test_numpy_integers_are_integers():
    assert ExactDraws(np.int64(3)).draws_at(1) == 3


@pytest.mark.parametrize("name", SAMPLERS)
def test_protocol(name):
    sampler, generators = SAMPLERS[name](), spawn_generators(0)
    assert isinstance(sampler, Sampler)
    settings = dict(vars(sampler))
    Z = sampler.start(MODEL, X, START, generators.initialisation)
    assert (Z is not None) == sampler.markov
    found, info = sampler.draw(MODEL, X, Z, START, generators, 3)
    assert isinstance(info, SamplerInfo)
    found = positions(found)
    assert found.shape[0] == len(X)
    assert found.shape[2:] == (1,)
    assert np.isfinite(found).all()
    assert np.isnan(info.acceptance_rate) != sampler.markov
    assert vars(sampler) == settings  # a sampler holds settings only
    again, _ = sampler.draw(MODEL, X, Z, START, generators, 3)
    assert (positions(again) == found).all() == sampler.deterministic


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_required_is_used(name):
    """Without any one of the methods it asks for, a sampler cannot work."""
    sampler = SAMPLERS[name]()
    for method in sampler.requires:
        model = RandomInterceptModel()
        setattr(model, method, None)
        with pytest.raises(TypeError, match="not callable"):
            generators = spawn_generators(0)
            Z = sampler.start(model, X, START, generators.initialisation)
            sampler.draw(model, X, Z, START, generators)
