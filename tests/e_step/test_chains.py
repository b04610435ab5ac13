"""States of Markov chains: what is learned travels with the positions."""

import pickle

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.e_step.chains import ChainTable
from sktem.models import RandomInterceptModel
from sktem.samplers import MALA, ULA, ChainState, RandomWalk, Sampler, SamplerInfo
from tests.oracles import random_intercept_data

X = random_intercept_data(0, n_rows=300)


def test_a_table_keeps_rows_and_what_they_share():
    table = ChainTable(4)
    table.put(slice(0, 4), ChainState(np.zeros((4, 2, 1)), {"a": np.ones((4, 2))}, 7))
    new = ChainState(np.full((2, 2, 1), 3.0), {"a": np.full((2, 2), 5.0)}, 8)
    table.put(np.array([3, 1]), new)
    position, tuning, shared = table.get(slice(None))
    np.testing.assert_array_equal(position[:, 0, 0], [0, 3, 0, 3])
    np.testing.assert_array_equal(tuning["a"][:, 1], [1, 5, 1, 5])
    assert shared == 8 and pickle.loads(pickle.dumps(table)).shared == 8
    np.testing.assert_array_equal(table.values, position)


def test_an_array_stays_an_array():
    table = ChainTable(3)
    Z = np.arange(3.0)[:, None, None]
    table.put(slice(None), Z)
    np.testing.assert_array_equal(table.get(np.array([2, 0])), Z[[2, 0]])


def test_chains_of_repeated_rows():
    chains = ChainState(
        np.arange(12.0).reshape(2, 3, 2), {"a": np.arange(6.0).reshape(2, 3)}, "all"
    )
    many = chains.reshaped(6, 1)
    assert many.position.shape == (6, 1, 2) and many.shared == "all"
    for one, two in ((chains, many.reshaped(2, 3)), (chains.chain(1), many.chain(0))):
        rows = slice(None) if one is chains else np.array([1, 4])
        np.testing.assert_array_equal(one.position, two.position[rows])
        np.testing.assert_array_equal(one.tuning["a"], two.tuning["a"][rows])


class OwnWalk(Sampler):
    """A user's sampler, whose chain states are arrays and whose scale is a setting."""

    requires = ("initial_latents", "log_joint")
    markov = True

    def __init__(self, scale=0.5):
        self.scale = scale

    def start(self, model, X, params, rng):
        return np.repeat(model.initial_latents(X, params, rng)[:, None], 2, axis=1)

    def draw(self, model, X, Z, params, generators, iteration=1):
        assert isinstance(Z, np.ndarray)
        Z_new, rates = Z.copy(), []
        for m in range(Z.shape[1]):
            old = Z[:, m]
            new = old + self.scale * generators.sampling.standard_normal(old.shape)
            ratio = model.log_joint(X, new, params) - model.log_joint(X, old, params)
            taken = np.log(generators.acceptance.random(len(X))) < ratio
            Z_new[taken, m] = new[taken]
            rates.append(taken.mean())
        return Z_new, SamplerInfo(float(np.mean(rates)))


@pytest.mark.parametrize("solver", ["saem", "isaem", "vrttem", "online"])
def test_a_sampler_of_the_user_has_arrays(solver):
    em = StochasticEM(
        RandomInterceptModel(),
        solver=solver,
        sampler=OwnWalk(),
        max_iter=20,
        tol=0,
        random_state=0,
    ).fit(X)
    assert abs(em.params_.mean - X.mean()) < 0.2
    em.partial_fit(X[:40])


class Steep(RandomInterceptModel):
    """Some rows are so steep that ULA has to halve its step."""

    def grad_log_joint(self, X, Z, params):
        gradient = super().grad_log_joint(X, Z, params)
        return np.where(X[:, :1] > 3, 1e5 * gradient, gradient)


@pytest.mark.parametrize("batch_size", [16, 64])
def test_a_stream_of_growing_chunks_halves_steps_of_new_rows(batch_size):
    em = StochasticEM(
        Steep(), solver="online", sampler=ULA(0.01), batch_size=batch_size,
        random_state=0,
    )  # fmt: skip
    for start, stop in ((0, 20), (20, 100), (100, 110), (110, 300)):
        em.partial_fit(X[start:stop])
    assert np.isfinite(em.params_).all()


@pytest.mark.parametrize(
    "sampler", [RandomWalk(), MALA(), MALA(0.5, adapt=0.6)], ids=str
)
def test_a_stream_keeps_what_was_learned(sampler):
    """A chunk begins with the length that earlier chunks have found."""

    lengths = []

    class Watching(type(sampler)):
        warm_up = 0

        def draw(self, model, X, chains, params, generators, iteration=1):
            lengths.append(getattr(chains, "shared", None))
            return super().draw(model, X, chains, params, generators, iteration)

    watching = Watching(**sampler.get_params())
    em = StochasticEM(
        RandomInterceptModel(), solver="online", sampler=watching, batch_size=50,
        random_state=0,
    )  # fmt: skip
    em.partial_fit(X[:100])
    before = len(lengths)
    assert lengths[0] is None
    em.partial_fit(X[100:150])
    assert lengths[before] is not None
