"""Hidden Markov models beside hmmlearn: seconds of an EM iteration, fits and Viterbi.

Run from the root of the repository: ``python benchmarks/hidden_markov.py [part ...]``
with parts "iterations", "threads", "floor", "viterbi", "covariates" and "fits". Times
are CPU seconds of one thread, medians of alternating runs in one process; of threads
least seconds of the clock, with the load of the machine. The floor of an
iteration is the time of its multiply-adds at the rate of a matrix product: those of the
passes forward and backward, of the transitions, of densities and statistics, and ten
for each exponential.
"""

import argparse
import os
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


def rate(size=768, repeats=5):
    """Return multiply-adds per CPU second of a product of matrices."""
    A, found = np.random.default_rng(0).normal(size=(size, size)), []
    for _ in range(repeats + 1):
        found.append(seconds(lambda: A @ A))
    return size**3 / statistics.median(found[1:])


def multiply_adds(K, d, kind):
    """Return multiply-adds of an iteration for a row."""
    moments = d * (d + 1) // 2 if kind == "full" else 2 * d
    return 3 * K**2 + 10 * K + 2 * K * moments


def floor():
    """Print CPU seconds of the arithmetic of an EM iteration."""
    of_machine = rate()
    print(
        f"\nArithmetic floor, at {of_machine / 1e9:.1f} billion multiply-adds a second"
    )
    for K, d, kind, n_sequences in CELLS:
        count = multiply_adds(K, d, kind)
        cell = f"{K} states x {d} {kind}, {n_sequences} sequence(s)"
        taken = count * N_ROWS / of_machine
        print(f"{cell:34}{count:7d} a row{taken:9.4f}", flush=True)


def covariates(repeats=5, passes=3):
    """Print CPU seconds of an EM iteration with covariates of transitions."""
    print(f"\nCPU seconds of an EM iteration with two covariates, {N_ROWS:,} rows")
    print(f"{'cell':34}{'without':>9}{'with':>9}{'ratio':>9}")
    for K in (2, 4, 8):
        X, lengths, *start, _ = sequences(K, 2, N_ROWS, 100)
        Z = np.random.default_rng(1).normal(size=(N_ROWS, 2))

        def run(count, given, begin=(K, 2, "diag", *start), X=X, lengths=lengths):
            ours(*begin, max_iter=count).fit(X, lengths=lengths, covariates=given)

        found = {False: [], True: []}
        for turn in range(repeats + 1):
            for is_given, values in found.items():
                given = Z if is_given else None
                few = seconds(partial(run, 1, given))
                many = seconds(partial(run, 1 + passes, given))
                if turn:
                    values.append((many - few) / passes)
        plain, own = (statistics.median(values) for values in found.values())
        cell = f"{K} states x 2 diag, 100 sequences"
        print(f"{cell:34}{plain:9.4f}{own:9.4f}{own / plain:9.1f}", flush=True)


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


def threads(repeats=5, passes=5, n_rows=5 * N_ROWS):
    """Print seconds of the clock of an EM iteration with one thread and with two."""
    print(
        f"\nSeconds of an EM iteration, {n_rows:,} rows in 1,000 sequences, at a load "
        f"of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"{'cell':34}{'1 thread':>9}{'2':>9}{'ratio':>9}")
    for K, d, kind, _ in CELLS:
        X, lengths, *start, _ = sequences(K, d, n_rows, 1000)

        def run(count, n_jobs, begin=(K, d, kind, *start), X=X, lengths=lengths):
            begun = time.perf_counter()
            ours(*begin, max_iter=count, n_jobs=n_jobs).fit(X, lengths=lengths)
            return time.perf_counter() - begun

        times = {1: [], 2: []}
        for turn in range(repeats + 1):
            for n_jobs, values in times.items():
                taken = (run(1 + passes, n_jobs) - run(1, n_jobs)) / passes
                if turn:
                    values.append(taken)
        one, two = (min(values) for values in times.values())
        cell = f"{K} states x {d} {kind}"
        print(f"{cell:34}{one:9.4f}{two:9.4f}{one / two:9.2f}", flush=True)


def fits():
    """Print CPU seconds of whole fits from the same start to hmmlearn's optimum."""
    print("\nWhole fits from the same start, to the log-likelihood of hmmlearn's end")
    for K, d, kind, n_sequences in CELLS:
        X, lengths, *start, _ = sequences(K, d, N_ROWS, n_sequences)
        start[-1] = start[-1] + np.random.default_rng(1).normal(size=start[-1].shape)
        begin = (K, d, kind, *start)
        model = peer(*begin, "log", 200)
        model.tol = model.monitor_.tol = 1e-2
        ours(*begin, max_iter=1).fit(X[:1000])  # loads what is compiled
        begun = time.process_time()
        model.fit(X, lengths)
        theirs = time.process_time() - begun
        found = ours(*begin, max_iter=model.monitor_.iter)
        fit = partial(found.fit, X, lengths=lengths)
        own = statistics.median(seconds(fit) for _ in range(3))
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


PARTS = {
    "iterations": iterations,
    "threads": threads,
    "floor": floor,
    "viterbi": viterbi,
    "covariates": covariates,
    "fits": fits,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for part in parser.parse_args().parts or PARTS:
            PARTS[part]()
