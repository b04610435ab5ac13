"""Passes of the solvers over many short sequences, to the end of EM.

100,000 sequences of five rows, drawn from a model of the table's name; every solver
begins at the same start. Printed are, by median over the seeds (least and most behind
it), the passes after which the mean log-likelihood of a row stays within 1e-3 of what
EM has after ten times as many, or above it, the CPU seconds of so many passes, and what
is left after the last. One thread.
Run: ``python benchmarks/hidden_markov_solvers.py``; it takes half an hour.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import HiddenMarkovModel
from sktem.callbacks import LogLikelihoodMonitor
from sktem.emissions import Categorical, Gaussian

N_SEQUENCES, LENGTH = 100_000, 5
WITHIN = 1e-3
SOLVERS = {
    "em": {},
    "squarem": {},
    "daarem": {},
    "online": {},
    "online, averaged": dict(solver="online", average=1),
    "iem": {},
    "isaem": {},
    "vrttem": {},
    "fittem": {},
    "saem": {},
    "mcem": {},
}


def gaussian(K, d, rng):
    """Return an emission, a function that draws rows of states, and a start."""
    means = 1.5 * rng.normal(size=(K, d))

    def draw(states):
        return means[states] + rng.normal(size=(len(states), d))

    begin = {
        "means": means + rng.normal(size=means.shape),
        "covariances": np.ones((K, d)),
    }
    return Gaussian("diag"), draw, begin


def categorical(K, n_labels, rng):
    """Return the same of labels."""
    shares = rng.dirichlet(np.full(n_labels, 0.5), K)

    def draw(states):
        uniform = rng.random((len(states), 1))
        return (uniform > shares[states].cumsum(axis=1)[:, :-1]).sum(1)[:, None] * 1.0

    begin = 0.5 * shares + 0.5 * rng.dirichlet(np.ones(n_labels), K)
    return Categorical(n_labels), draw, {"probabilities": begin[:, None]}


MODELS = {
    "4 states, 2 columns": (4, gaussian, 2),
    "8 states, 4 columns": (8, gaussian, 4),
    "5 states, 12 labels": (5, categorical, 12),
}


class Scores(LogLikelihoodMonitor):
    """Mean log-likelihoods of the rows of sequences after each pass."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "epoch":
            self.scores_.append(fitted_estimator.score(self.X, lengths=lengths()))


def lengths():
    """Return the lengths of the sequences."""
    return np.full(N_SEQUENCES, LENGTH)


def problem(name, seed):
    """Return rows and keywords of a model that begins at a start."""
    K, make, size = MODELS[name]
    rng = np.random.default_rng(seed)
    emission, draw, begin = make(K, size, rng)
    transitions = 0.7 * np.eye(K) + 0.3 * rng.dirichlet(np.ones(K), size=K)
    limits = transitions.cumsum(axis=1)
    states = np.empty((N_SEQUENCES, LENGTH), int)
    states[:, 0] = rng.integers(K, size=N_SEQUENCES)
    for t in range(1, LENGTH):
        uniform = rng.random((N_SEQUENCES, 1))
        states[:, t] = (uniform > limits[states[:, t - 1], :-1]).sum(axis=1)
    start = dict(
        n_states=K, emission=emission, start_init=np.full(K, 1 / K),
        transitions_init=0.5 * np.eye(K) + 0.5 / K, emission_init=begin,
    )  # fmt: skip
    return draw(states.ravel()), start


def fitted(X, start, passes, seed, monitor=None, **options):
    """Return a model after so many passes, and its CPU seconds."""
    model = HiddenMarkovModel(
        **start, **options, max_iter=passes, tol=0, random_state=seed
    )
    if monitor is not None:
        model.set_callbacks(monitor)
    begun = time.process_time()
    model.fit(X, lengths=lengths())
    return model, time.process_time() - begun


def reached(scores, end):
    """Return after how many passes the scores stay near the end, or None."""
    short = np.flatnonzero(np.asarray(scores) < end - WITHIN)
    first = short[-1] + 2 if len(short) else 1
    return int(first) if first <= len(scores) else None


def compare(name, solvers, seeds, passes):
    """Print the table of a model."""
    print(f"\n{name}: {N_SEQUENCES:,} sequences of {LENGTH} rows, {seeds} seeds")
    print(f"{'solver':20}{'passes':>18}{'seconds':>22}{'left after the last':>32}")
    found = {solver: [] for solver in solvers}
    for seed in range(seeds):
        X, start = problem(name, seed)
        long, _ = fitted(X, start, 10 * passes, seed, solver="em")
        end = long.score(X, lengths=lengths())
        for solver in solvers:
            options = {"solver": solver, **SOLVERS[solver]}
            monitor = Scores(X)
            fitted(X, start, passes, seed, monitor, **options)
            taken = reached(monitor.scores_, end)
            seconds = fitted(X, start, taken, seed, **options)[1] if taken else None
            found[solver].append((taken, seconds, end - monitor.scores_[-1]))
    for solver, values in found.items():
        taken, seconds, left = zip(*values, strict=True)
        print(
            f"{solver:20}{spread(taken, '{:.0f}'):>18}{spread(seconds, '{:.2f}'):>22}"
            f"{spread(left, '{:+.1e}'):>32}",
            flush=True,
        )


def spread(values, form):
    """Return the median with the least and the most, or how many got there."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return f"{len(known)} of {len(values)} there"
    low, high = form.format(min(known)), form.format(max(known))
    return f"{form.format(statistics.median(known))} ({low} to {high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=[*MODELS])
    parser.add_argument("--solvers", nargs="*", default=[*SOLVERS], choices=SOLVERS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--passes", type=int, default=30)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    with threadpool_limits(1):
        for name in arguments.models:
            compare(name, arguments.solvers, arguments.seeds, arguments.passes)


if __name__ == "__main__":
    main()
