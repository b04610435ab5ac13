"""Recursions against sums over all paths, and kernels against NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from sktem.hidden_markov.kernels import draws, logarithmic, scaled
from sktem.hidden_markov.recursions import (
    Matrices,
    by_logarithms,
    drawn_states,
    filtered_probabilities,
    log_likelihoods,
    most_probable,
    smoothed,
)
from tests.hidden_markov.chains import all_paths, left_to_right

LENGTHS = [5, 1, 0, 4]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
NONE = np.empty(0, np.int64)


def problem(K, size, zeros, varies, seed):
    """Return log-densities, a start, matrices and the matrix of each row."""
    rng = np.random.default_rng(seed)
    L = size * rng.normal(size=(OFFSETS[-1], K))
    which = rng.integers(3, size=len(L)) if varies else NONE
    start = rng.dirichlet(np.ones(K))
    A = rng.dirichlet(np.full(K, 0.5), size=(3 if varies else 1, K))
    if zeros:
        start, one = left_to_right(K)
        A = np.stack([one] * len(A))
    return L, start, A, which


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("K, size", [(1, 1), (2, 1), (3, 2), (3, 700), (5, 40)])
def test_all_paths(K, size, zeros, varies, global_random_seed):
    L, start, A, which = problem(K, size, zeros, varies, global_random_seed)
    matrices = Matrices.of(start, A, which)
    weights = np.array([1.0, 2.0, 1.0, 0.5])
    found = smoothed(L, OFFSETS, matrices, weights)
    states, scores = most_probable(L, OFFSETS, matrices)
    likelihoods = log_likelihoods(L, OFFSETS, matrices)
    each = found.transitions_of_each(matrices, OFFSETS) if not varies else None
    pairs = found.transitions_of_rows(matrices, OFFSETS)
    probabilities, _ = filtered_probabilities(L, OFFSETS, matrices)
    for i, (first, stop) in enumerate(zip(OFFSETS[:-1], OFFSETS[1:], strict=True)):
        if first == stop:
            assert scores[i] == likelihoods[i] == 0.0
            continue
        rows = slice(first, stop)
        own = A[which[rows][:-1]] if varies else A[0]
        total, gamma, expected, path, best = all_paths(L[rows], start, own)
        tolerance = {"rtol": 1e-12, "atol": 1e-12 * weights[i] * size}
        assert found.log_likelihood[i] == pytest.approx(total, rel=1e-12, abs=1e-12)
        assert likelihoods[i] == pytest.approx(total, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(found.gamma[rows], weights[i] * gamma, **tolerance)
        pair_rows = slice(first, stop - 1)
        wanted = weights[i] * expected
        np.testing.assert_allclose(pairs[pair_rows], wanted, **tolerance)
        if each is not None:
            np.testing.assert_allclose(each[i], wanted.sum(axis=0), **tolerance)
        np.testing.assert_array_equal(states[rows], path)
        assert scores[i] == pytest.approx(best, rel=1e-12, abs=1e-12)
        last = all_paths(L[first : first + 1], start, A[:0])[1]
        np.testing.assert_allclose(probabilities[first], last[0], atol=1e-12 * size)
        np.testing.assert_allclose(
            probabilities[stop - 1],
            found.gamma[stop - 1] / weights[i],
            atol=1e-12 * size,
        )


def test_draws_have_the_marginals(global_random_seed):
    L, _, _, _ = problem(3, 1, False, False, global_random_seed)
    start, A = np.full(3, 1 / 3), 0.7 * np.eye(3) + 0.1
    matrices, n_draws = Matrices.of(start, A), 20_000
    found = drawn_states(L, OFFSETS, matrices, 5, np.arange(4), n_draws)
    smooth = smoothed(L, OFFSETS, matrices)
    pairs = smooth.transitions_of_rows(matrices, OFFSETS)[0]
    shares = (found[:, :, None] == np.arange(3)).mean(axis=0)
    gamma = smooth.gamma.clip(0, 1)
    error = np.sqrt(gamma * (1 - gamma) / n_draws)
    assert (np.abs(shares - gamma) < 5 * error + 1e-9).all()
    both = np.zeros((3, 3))
    np.add.at(both, (found[:, 0], found[:, 1]), 1 / n_draws)
    error = np.sqrt(pairs * (1 - pairs) / n_draws)
    assert (np.abs(both - pairs) < 5 * error + 1e-9).all()
    # The negative control: states that do not follow each other.
    alone = np.outer(gamma[0], gamma[1])
    assert (np.abs(alone - pairs) > 5 * error).any()
    # The draws of a sequence are its own.
    first = drawn_states(L[:5], OFFSETS[:2], matrices, 5, np.arange(1), n_draws)
    np.testing.assert_array_equal(first, found[:, :5])


def test_draws_where_a_state_is_too_improbable_for_scaling():
    L, start, A, which = problem(3, 700, True, False, 0)
    matrices = Matrices.of(start, A, which)
    found = drawn_states(L, OFFSETS, matrices, 5, np.arange(4), 10)
    expected = most_probable(L, OFFSETS, matrices)[0]
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


@pytest.mark.parametrize("K", [1, 3, 4, 5, 8, 18])
def test_scaled_kernels(K):
    rng = np.random.default_rng(0)
    L, offsets = 3 * rng.normal(size=(300, K)), np.array([0, 200, 201, 300])
    start, A = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=(1, K))
    matrices = Matrices.of(start, A)
    width = matrices.start.shape[1]
    b, a = np.empty((300, width)), np.empty((300, width))
    c, total, failed = np.empty(300), np.empty(3), np.zeros(3, bool)
    scaled.forward(
        L, offsets, matrices.start, matrices.transitions, NONE, b, a, c, total, failed
    )
    largest = L.max(axis=1)
    expected_b = np.exp(L - largest[:, None])
    expected_a, expected_c = np.empty((300, K)), np.empty(300)
    for t in range(300):
        before = start
        if t not in offsets:
            before = (expected_a[t - 1] / expected_c[t - 1]) @ A[0]
        expected_a[t] = before * expected_b[t]
        expected_c[t] = expected_a[t].sum()
    np.testing.assert_allclose(b[:, :K], expected_b, rtol=1e-12)
    np.testing.assert_allclose(a[:, :K], expected_a, rtol=1e-9)
    np.testing.assert_allclose(c, expected_c, rtol=1e-9)
    sums = np.add.reduceat(np.log(expected_c) + largest, offsets[:-1])
    np.testing.assert_allclose(total, sums, rtol=1e-12)
    assert not failed.any() and not b[:, K:].any() and not a[:, K:].any()
    gamma = np.empty((300, K))
    weights = np.array([1.0, 3.0, 2.0])
    scaled.backward(
        b, a, c, offsets, matrices.transitions, NONE, weights, gamma, failed
    )
    v = np.ones(K)
    for t in range(299, -1, -1):
        last = t + 1 in offsets
        beta = np.ones(K) if last else A[0] @ v
        weight = np.repeat(weights, np.diff(offsets))[t]
        share = weight * expected_a[t] / expected_c[t]
        np.testing.assert_allclose(gamma[t], share * beta, rtol=1e-8)
        np.testing.assert_allclose(a[t, :K], 0.0 if last else share, rtol=1e-8)
        v = expected_b[t] * beta / expected_c[t]
        np.testing.assert_allclose(b[t, :K], v, rtol=1e-8)


def test_logarithmic_kernels():
    rng = np.random.default_rng(0)
    K, n = 3, 40
    L, start = rng.normal(size=(n, K)), np.log(rng.dirichlet(np.ones(K)))
    A = np.log(rng.dirichlet(np.ones(K), size=(1, K)))
    alpha, gamma, factors = (np.empty((n, K)) for _ in range(3))
    total = logarithmic.smooth(L, start, A, NONE, alpha, gamma, factors)
    forward, backward = np.empty((n, K)), np.empty((n, K))
    forward[0] = start + L[0]
    for t in range(1, n):
        forward[t] = logsumexp(forward[t - 1][:, None] + A[0], axis=0) + L[t]
    backward[-1] = 0.0
    for t in range(n - 2, -1, -1):
        backward[t] = logsumexp(A[0] + L[t + 1] + backward[t + 1], axis=1)
    assert total == pytest.approx(logsumexp(forward[-1]), rel=1e-12)
    filtered = forward - logsumexp(forward, axis=1, keepdims=True)
    np.testing.assert_allclose(alpha, filtered, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gamma, softmax(forward + backward, axis=1), rtol=1e-9)
    between = np.exp(alpha[:-1, :, None] + A + factors[1:, None])
    between /= between.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(between.sum(axis=2), gamma[:-1], rtol=1e-9)
    np.testing.assert_allclose(between.sum(axis=1), gamma[1:], rtol=1e-9)
    states, ends = np.empty(n, np.int64), np.empty((1, len(start)))
    back = np.empty((n, K), np.uint8)
    offsets = np.array([0, n])
    logarithmic.viterbi(L, offsets, start[None], A, NONE, states, ends, back)
    delta, places = start + L[0], np.zeros((n, K), int)
    for t in range(1, n):
        table = delta[:, None] + A[0]
        places[t], delta = table.argmax(axis=0), table.max(axis=0) + L[t]
    expected = [int(delta.argmax())]
    for t in range(n - 1, 0, -1):
        expected.append(places[t, expected[-1]])
    np.testing.assert_array_equal(states, expected[::-1])
    np.testing.assert_allclose(ends[0], delta, rtol=1e-12)


def test_sample_states_kernel():
    rng = np.random.default_rng(0)
    K, n = 4, 12
    a, A = rng.random((n, K)), rng.dirichlet(np.ones(K), size=(1, K))
    both = np.stack([A, np.swapaxes(A, 1, 2)])
    states, again = np.empty(n, np.int64), np.empty(n, np.int64)
    offsets, rows = np.array([0, n]), np.array([7])
    seed = np.uint64(3)
    draws.sample_states(a, offsets, both, NONE, seed, rows, 0, states)
    draws.sample_states(a, offsets, both, NONE, seed, rows, 1, again)
    assert (states != again).any()
    counts = np.zeros((n, K))
    for draw in range(3000):
        draws.sample_states(a, offsets, both, NONE, seed, rows, draw, states)
        counts[np.arange(n), states] += 1
    p = a[-1] / a[-1].sum()
    for t in range(n - 1, -1, -1):
        error = np.sqrt(p * (1 - p) / 3000)
        assert (np.abs(counts[t] / 3000 - p) < 5 * error).all()
        if t:
            back = a[t - 1][:, None] * A[0]
            p = (back / back.sum(axis=0)) @ p


def test_long_sequences_do_not_underflow():
    rng = np.random.default_rng(0)
    n = 1_000_000
    start, A = np.array([0.5, 0.5]), np.array([[0.999, 0.001], [0.002, 0.998]])
    x = rng.normal(size=n)
    L = -0.5 * (x[:, None] - np.array([0.0, 1.0])) ** 2 - 1000.0
    matrices, offsets = Matrices.of(start, A), np.array([0, n])
    found = smoothed(L, offsets, matrices)
    assert not found.others
    np.testing.assert_allclose(found.gamma.sum(axis=1), 1.0, rtol=1e-9)
    assert found.total_transitions(matrices).sum() == pytest.approx(n - 1, rel=1e-9)
    exact = by_logarithms(L[:2000], matrices)
    np.testing.assert_allclose(
        smoothed(L[:2000], np.array([0, 2000]), matrices).gamma, exact.gamma, atol=1e-10
    )


def test_identity_transitions_with_much_evidence():
    """The state that is lost at first by 2000 nats wins in the end."""
    L = np.zeros((400, 2))
    L[:200, 0], L[200:, 1] = 10.0, 10.5
    matrices = Matrices.of(np.array([0.5, 0.5]), np.eye(2))
    found = smoothed(L, np.array([0, 400]), matrices)
    assert list(found.others) == [0]
    np.testing.assert_allclose(found.gamma[:, 1], 1.0, rtol=1e-12)
    assert found.log_likelihood[0] == pytest.approx(2100 + np.log(0.5), rel=1e-12)


def test_rows_that_are_impossible():
    L = np.zeros((4, 2))
    L[2] = -np.inf
    found = smoothed(L, np.array([0, 4]), Matrices.of([0.5, 0.5], np.full((2, 2), 0.5)))
    assert found.log_likelihood[0] == -np.inf
    np.testing.assert_allclose(found.gamma, 0.5)
