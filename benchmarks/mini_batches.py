"""What mini-batches cost beyond the arithmetic of the rows that they visit.

CPU seconds of one thread for each row visit of a run with mini-batches, as a multiple
of those of a row in a full pass of EM over the same data at the same parameters: rows
drawn, gathered and remembered, and the M-steps, come on top of the latter. Runs and
full passes alternate, and the time of the start cancels in a difference of two runs.
The visits are those that the solver counts: "vrttem" visits the rows of a batch twice.
Progress is not measured on the way.

Usage: ``python benchmarks/mini_batches.py [--repeats 5] [--general]``, where
``--general`` also times the general loop, without compiled sweeps.
"""

import argparse
import statistics
import time
from unittest import mock

import numpy as np
from machine import describe
from threadpoolctl import threadpool_limits

from sktem.e_step.random import spawn_generators
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.models import GaussianMixtureModel
from sktem.samplers import ExactExpectation
from sktem.schedules import Constant
from sktem.solvers import FITTEM, ISAEM, VRTTEM, OnlineEM

N, D, K = 40_000, 10, 10
SIZES = (256, 1024)
COVARIANCE_TYPES = ("diag", "spherical", "full", "tied")
SOLVERS = (OnlineEM(), ISAEM(), VRTTEM(), FITTEM())


def make_rows():
    """Return rows of a mixture and its means."""
    rng = np.random.default_rng(0)
    means = 3 * rng.normal(size=(K, D))
    return means[rng.integers(K, size=N)] + rng.normal(size=(N, D)), means


def time_of_run(model, params, X, solver, batch_size, epochs):
    """Return CPU seconds and row visits of a run."""
    settings = RunSettings(
        model=model,
        sampler=ExactExpectation(),
        solver=solver,
        step_size=Constant(0.5),
        batch_size=batch_size,
        sampling="shuffle",
        max_passes=1000,
        tol=0.0,
        monitor=False,
    )
    state = RunState(params, spawn_generators(0))
    state.solver.s = state.solver.S_tts = model.statistics_of(params)
    start = time.process_time()
    counts = iter(range(1, epochs + 1))
    run(settings, X, state, on_epoch=lambda state: next(counts) == epochs)
    return time.process_time() - start, state.rows_visited


def time_of_visit(*case):
    """Return CPU seconds of a row visit."""
    few, many = time_of_run(*case, 1), time_of_run(*case, 6)
    return (many[0] - few[0]) / (many[1] - few[1])


def time_of_pass(model, params, X):
    """Return CPU seconds of a row in a full pass."""
    start = time.process_time()
    model.expected_statistics(X, params)
    return (time.process_time() - start) / len(X)


def ratios(case, repeats):
    """Return how many times longer visits take, once for each repeat."""
    time_of_visit(*case)
    found = []
    for _ in range(repeats):
        floor = min(time_of_pass(*case[:3]) for _ in range(3))
        found.append(time_of_visit(*case) / floor)
    return found


def spread(values):
    """Return the median and the range as text."""
    return f"{statistics.median(values):5.1f} [{min(values):.1f}, {max(values):.1f}]"


def print_table(title, repeats):
    """Print the ratios of all cases."""
    X, means = make_rows()
    print(f"\n{title}")
    names = [solver.sweep_name for solver in SOLVERS]
    print("covariance   rows" + "".join(f"{name:>19}" for name in names))
    for covariance_type in COVARIANCE_TYPES:
        model = GaussianMixtureModel(
            K, covariance_type=covariance_type, centre=X.mean(axis=0)
        )
        structure = model.structure(D)
        shares = np.full(K, 1 / K)
        first = shares[:, None] * (means - model.centre)
        moments = structure.outer(means - model.centre, shares)
        covariances = structure.matrix(1.0)
        if covariance_type != "tied":
            covariances = np.broadcast_to(covariances, (K, *np.shape(covariances)))
        moments = moments + structure.scale(covariances, shares)
        s = np.concatenate([shares, first.ravel(), structure.pack(moments)])
        params = model.maximize(s, None)
        for size in SIZES:
            line = f"{covariance_type:10} {size:6}"
            for solver in SOLVERS:
                case = (model, params, X, solver, size)
                line += f"{spread(ratios(case, repeats)):>19}"
            print(line, flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--general", action="store_true")
    options = parser.parse_args()
    print(describe())
    print(f"{N} rows, {D} features, {K} components, batches in a random order")
    with threadpool_limits(1):
        print_table("times the arithmetic of the visited rows", options.repeats)
        if options.general:
            with mock.patch("sktem.loop.loop.find", lambda *parts: None):
                print_table("the same without compiled sweeps", options.repeats)


if __name__ == "__main__":
    main()
