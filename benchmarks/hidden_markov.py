"""Hidden Markov models beside hmmlearn: seconds of an EM iteration, fits and Viterbi.

Run from the root of the repository: ``python benchmarks/hidden_markov.py [part ...]``
with parts "iterations", "fits" and "viterbi". Times are CPU seconds of one thread,
medians of alternating runs in one process.
"""

import argparse
import statistics
import time
import warnings
from functools import partial

import numpy as np
from hmmlearn import hmm
from threadpoolctl import threadpool_limits

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian

#: States, columns, covariances, sequences.
CELLS = [
    (4, 2, "diag", 100),
    (8, 10, "full", 100),
    (32, 16, "diag", 100),
    (8, 1, "diag", 1),
]
N_ROWS = 100_000


def sequences(K, d, n_rows, n_sequences, seed=0):
    """Return rows, lengths, and the parameters that they were drawn from."""
    rng = np.random.default_rng(seed)
    lengths = np.diff(np.linspace(0, n_rows, n_sequences + 1).astype(int))
    transitions = 0.9 * np.eye(K) + 0.1 * rng.dirichlet(np.ones(K), size=K)
    means = 2.0 * rng.normal(size=(K, d))
    states = np.empty(n_rows, int)
    limits, uniforms = transitions.cumsum(axis=1), rng.random(n_rows)
    now = 0
    for t in range(n_rows):
        now = min(int(np.searchsorted(limits[now], uniforms[t])), K - 1)
        states[t] = now
    X = means[states] + rng.normal(size=(n_rows, d))
    return X, lengths, np.full(K, 1 / K), transitions, means, states


def seconds(run):
    """Return the CPU seconds of a call."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def covariances(kind, K, d):
    """Return covariances to start from."""
    return np.stack([np.eye(d)] * K) if kind == "full" else np.ones((K, d))


def peer(K, d, kind, start, transitions, means, implementation, n_iter):
    """Return hmmlearn's model with a start."""
    found = hmm.GaussianHMM(
        K, covariance_type=kind, n_iter=n_iter, tol=-np.inf, init_params="",
        implementation=implementation,
    )  # fmt: skip
    found.startprob_, found.transmat_ = start.copy(), transitions.copy()
    found.means_, found.covars_ = means.copy(), covariances(kind, K, d)
    return found


def ours(K, d, kind, start, transitions, means, **options):
    """Return the model with the same start."""
    options = {"tol": 0, **options}
    return HiddenMarkovModel(
        K, emission=Gaussian(kind), start_init=start, transitions_init=transitions,
        emission_init={"means": means, "covariances": covariances(kind, K, d)},
        **options,
    )  # fmt: skip


def _fit_peer(begin, X, lengths, implementation, n_iter):
    peer(*begin, implementation, n_iter).fit(X, lengths)


def _fit_ours(begin, X, lengths, max_iter):
    ours(*begin, max_iter=max_iter).fit(X, lengths=lengths)


def iterations(repeats=3, passes=5):
    """Print CPU seconds of an EM iteration."""
    print(f"\nCPU seconds of an EM iteration, {N_ROWS:,} rows")
    print(f"{'cell':34}{'log':>9}{'scaling':>9}{'sktem':>9}{'ratios':>16}")
    for K, d, kind, n_sequences in CELLS:
        X, lengths, *start, _ = sequences(K, d, N_ROWS, n_sequences)
        begin = (K, d, kind, *start)

        of_peer = partial(_fit_peer, begin, X, lengths)
        of_ours = partial(_fit_ours, begin, X, lengths)
        runs = {
            "log": (partial(of_peer, "log", 1), partial(of_peer, "log", 3), 2),
            "scaling": (
                partial(of_peer, "scaling", 1),
                partial(of_peer, "scaling", 3),
                2,
            ),
            "sktem": (partial(of_ours, 1), partial(of_ours, 1 + passes), passes),
        }
        found = {name: [] for name in runs}
        of_ours(2)
        for _ in range(repeats):
            for name, (few, many, count) in runs.items():
                found[name].append((seconds(many) - seconds(few)) / count)
        times = {name: statistics.median(values) for name, values in found.items()}
        log, scaling, own = times.values()
        cell = f"{K} states x {d} {kind}, {n_sequences} sequence(s)"
        ratios = f"{log / own:.1f} / {scaling / own:.1f}"
        print(f"{cell:34}{log:9.4f}{scaling:9.4f}{own:9.4f}{ratios:>16}", flush=True)


def fits():
    """Print CPU seconds of whole fits from the same start to hmmlearn's optimum."""
    print("\nWhole fits from the same start, to the log-likelihood of hmmlearn's end")
    for K, d, kind, n_sequences in CELLS:
        X, lengths, *start, _ = sequences(K, d, N_ROWS // 5, n_sequences)
        start[-1] = start[-1] + np.random.default_rng(1).normal(size=start[-1].shape)
        begin = (K, d, kind, *start)
        model = peer(*begin, "log", 200)
        model.tol = model.monitor_.tol = 1e-2
        begun = time.process_time()
        model.fit(X, lengths)
        theirs = time.process_time() - begun
        begun = time.process_time()
        found = ours(*begin, max_iter=model.monitor_.iter).fit(X, lengths=lengths)
        own = time.process_time() - begun
        gap = found.score(X, lengths=lengths) - model.score(X, lengths) / len(X)
        print(
            f"{K} states x {d} {kind}: hmmlearn {theirs:.2f}, sktem {own:.2f}, "
            f"ratio {theirs / own:.1f}, passes {model.monitor_.iter}, "
            f"difference per row {gap:+.1e}",
            flush=True,
        )


def viterbi():
    """Print seconds of the most probable states of many rows."""
    from sktem.hidden_markov.recursions import Matrices, most_probable

    n, K = 10_000_000, 8
    rng = np.random.default_rng(0)
    transitions = 0.9 * np.eye(K) + 0.1 * rng.dirichlet(np.ones(K), size=K)
    L = rng.standard_normal((n, K), dtype=np.float32).astype(np.float64)
    matrices = Matrices.of(np.full(K, 1 / K), transitions)
    most_probable(L[:100], np.array([0, 100]), matrices)
    taken = seconds(lambda: most_probable(L, np.array([0, n]), matrices))
    print(f"\nViterbi, {n:,} rows x {K} states: {taken:.2f} CPU s", flush=True)


PARTS = {"iterations": iterations, "fits": fits, "viterbi": viterbi}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[*PARTS])
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for part in parser.parse_args().parts:
            PARTS[part]()
