"""Passes over sequences by parts."""

import pickle

import numpy as np
import pytest

from sktem.emissions import Gaussian
from sktem.hidden_markov.chain import Chain, ChainParams
from sktem.hidden_markov.model import HiddenMarkovParams, SequenceModel
from sktem.hidden_markov.rows import ObservedSequences

LENGTHS = [3, 41, 0, 1, 9, 2, 25, 7]


def problem(kind, K, lengths, seed):
    """Return a model, sequences and parameters."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = 5 + rng.normal(size=(offsets[-1], 2))
    start, A = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K)
    emission = Gaussian(kind)
    params = emission.start(X, rng.dirichlet(np.ones(K), size=len(X)))
    params = params._replace(means=5 + rng.normal(size=(K, 2)))
    params = HiddenMarkovParams(ChainParams(start, A), params)
    model = SequenceModel(Chain(K), emission, params)
    return model, ObservedSequences(offsets, X), params


def by_states(model, X, params, weights):
    """Return the sums, one sequence after the other, by probabilities of the states."""
    sums = 0.0, 0.0
    for i in range(len(X)):
        weight = None if weights is None else weights[i : i + 1]
        smoothed, matrices = model.smoothed(X[i : i + 1], params, weight)
        found = model._of_smoothed(X[i : i + 1], smoothed, matrices, params, weight)
        sums = sums[0] + found[0], sums[1] + found[1]
    return sums


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "unit"])
@pytest.mark.parametrize("K, lengths", [(3, LENGTHS), (4, [70]), (8, LENGTHS)])
def test_sums_of_parts(kind, K, lengths, memory_budget, global_random_seed):
    model, X, params = problem(kind, K, lengths, global_random_seed)
    weights = np.random.default_rng(1).uniform(size=len(X))
    memory_budget(cached=10 * 32)  # ten rows
    for own in (None, weights):
        sums = model._sums(X, params, own)
        expected = by_states(model, X, params, own)
        np.testing.assert_allclose(sums[0], expected[0], rtol=1e-11, atol=1e-11)
        assert sums[1] == pytest.approx(expected[1], rel=1e-12)
    offsets = np.unique([*X.offsets, 10])  # a sequence that is cut in two is seen
    apart = by_states(model, ObservedSequences(offsets, X.X), params, None)
    whole = by_states(model, X, params, None)
    assert not np.allclose(apart[0], whole[0], rtol=1e-6)


@pytest.mark.parametrize("lengths", [[3, 30, 4], [8, 4, 3]])
@pytest.mark.parametrize("is_first", [True, False])
def test_sequences_that_scales_do_not_survive(lengths, is_first, memory_budget):
    model, X, params = problem("diag", 4, lengths, 0)
    A = np.triu(params.chain.transitions)
    A /= A.sum(axis=1, keepdims=True)
    means = params.emission.means + 60 * np.arange(4.0)[:, None]
    params = HiddenMarkovParams(
        ChainParams(params.chain.start, A), params.emission._replace(means=means)
    )
    broken = 0 if is_first else 1
    rows = X.X[X.offsets[broken] : X.offsets[broken + 1]]
    rows[0], rows[1:] = means[3], means[0]  # no path leads from the last state back
    memory_budget(cached=10 * 32)
    smoothed, _ = model.smoothed(X, params)
    assert list(smoothed.others) == [broken]
    found = model.expected_statistics(X, params)
    expected = by_states(model, X, params, None)
    np.testing.assert_allclose(len(X) * found[0], expected[0], rtol=1e-11, atol=1e-11)
    assert len(X) * found[1] == pytest.approx(expected[1], rel=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_arrays_that_are_used_again_change_nothing(n_jobs, memory_budget):
    """Parts of other lengths come between, and a copy of the model."""
    model, X, params = problem("diag", 3, [40, 7, 19, 60, 2], 0)
    model.set_params(n_jobs=n_jobs)
    memory_budget(cached=10 * 32)
    found = [model.expected_statistics(part, params) for part in (X, X[1:3], X)]
    copy = pickle.loads(pickle.dumps(model))
    fresh = SequenceModel(model.chain, model.emission, params)
    for part, own in zip((X, X[1:3], X), found, strict=True):
        for other in (copy, fresh):
            s, value = other.expected_statistics(part, params)
            np.testing.assert_array_equal(own[0], s)
            assert own[1] == value
    assert "_room" in vars(model) and "_room" not in model.__getstate__()
