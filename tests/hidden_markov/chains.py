"""Sequences with known states, and sums over all paths of small chains."""

import itertools

import numpy as np

__all__ = ["all_paths", "draw_sequences", "left_to_right"]


def draw_sequences(lengths, start, transitions, means, rng, scale=1.0):
    """Return rows and states of Gaussian sequences, drawn without the package."""
    states = []
    for length in lengths:
        now = rng.choice(len(start), p=start)
        for t in range(length):
            if t:
                now = rng.choice(len(start), p=transitions[now])
            states.append(now)
    states = np.array(states, dtype=int)
    means = np.asarray(means, dtype=float)
    return means[states] + scale * rng.normal(
        size=(len(states), means.shape[1])
    ), states


def left_to_right(K):
    """Return a start and transitions with zeros."""
    start = np.eye(K)[0]
    transitions = 0.5 * np.eye(K) + 0.5 * np.eye(K, k=1)
    transitions[-1, -1] = 1.0
    return start, transitions


def all_paths(L, start, transitions):
    """Return log-likelihood, marginals, pairs by row, best path and its score.

    Transitions may be one matrix, or one for each row but the last.
    """
    T, K = L.shape
    A = np.broadcast_to(transitions, (max(T - 1, 0), K, K))
    paths = np.array(list(itertools.product(range(K), repeat=T)))
    with np.errstate(divide="ignore"):
        logs = np.log(start)[paths[:, 0]] + L[np.arange(T), paths].sum(axis=1)
        for t in range(1, T):
            logs = logs + np.log(A[t - 1][paths[:, t - 1], paths[:, t]])
    best = logs.max()
    total = best + np.log(np.exp(logs - best).sum())
    weights = np.exp(logs - total)
    gamma, pairs = np.zeros((T, K)), np.zeros((max(T - 1, 0), K, K))
    for path, weight in zip(paths, weights, strict=True):
        gamma[np.arange(T), path] += weight
        pairs[np.arange(T - 1), path[:-1], path[1:]] += weight
    return total, gamma, pairs, paths[logs.argmax()], best
