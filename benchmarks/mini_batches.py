"""What mini-batches cost beyond the arithmetic of the rows that they visit.

CPU seconds of one thread for each row visit of a run with mini-batches, as a multiple
of those of a row in a full pass of EM over the same data at the same parameters: rows
drawn, gathered and remembered, and the M-steps, come on top of the latter. A full pass
is timed after every epoch of the run, a few milliseconds each, and the two make one
ratio: what slows the machine down for longer slows both. All cases take turns, several
times over. Printed are the median and the quartiles of the ratios. The visits are those
that the solver counts: "vrttem" visits the rows of a batch twice. Progress is not
measured on the way.

Usage: ``python benchmarks/mini_batches.py [--rounds 5] [--general]``, where
``--general`` also times the general loop, without compiled sweeps.
"""

import argparse
import statistics
import time
from itertools import product
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
EPOCHS = 10
COVARIANCE_TYPES = ("diag", "spherical", "full", "tied")
SOLVERS = (OnlineEM(), ISAEM(), VRTTEM(), FITTEM())


def make_rows():
    """Return rows of a mixture and its means."""
    rng = np.random.default_rng(0)
    means = 3 * rng.normal(size=(K, D))
    return means[rng.integers(K, size=N)] + rng.normal(size=(N, D)), means


def ratios(model, params, X, solver, batch_size):
    """Return times of a visit over those of a row of a full pass, by epoch."""
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
    found = []
    before = [time.process_time(), 0]

    def on_epoch(state):
        stop = time.process_time()
        of_visit = (stop - before[0]) / (state.rows_visited - before[1])
        model.expected_statistics(X, params)
        start = time.process_time()
        found.append(of_visit / ((start - stop) / len(X)))
        before[:] = start, state.rows_visited
        return len(found) == EPOCHS + 2

    run(settings, X, state, on_epoch=on_epoch)
    return found[2:]  # the first ones compile, and fill the memory of rows


def spread(values):
    """Return the median and the quartiles as text."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:6.2f} [{low:.2f}, {high:.2f}]"


def params_of(X, means, covariance_type):
    """Return a model and its parameters, with equal weights and unit covariances."""
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
    return model, model.maximize(s, None)


def print_table(title, n_rounds):
    """Print the ratios of all cases."""
    X, means = make_rows()
    parts = {name: params_of(X, means, name) for name in COVARIANCE_TYPES}
    found = {case: [] for case in product(COVARIANCE_TYPES, SIZES, SOLVERS)}
    for _ in range(n_rounds):
        for (name, size, solver), values in found.items():
            values += ratios(*parts[name], X, solver, size)
    print(f"\n{title}")
    names = [solver.sweep_name for solver in SOLVERS]
    print("covariance   rows" + "".join(f"{name:>21}" for name in names))
    for name, size in product(COVARIANCE_TYPES, SIZES):
        cells = (f"{spread(found[name, size, solver]):>21}" for solver in SOLVERS)
        print(f"{name:10} {size:6}" + "".join(cells))


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--general", action="store_true")
    options = parser.parse_args()
    print(describe())
    print(f"{N} rows, {D} features, {K} components, batches in a random order")
    with threadpool_limits(1):
        print_table("times the arithmetic of the visited rows", options.rounds)
        if options.general:
            with mock.patch("sktem.loop.loop.find", lambda *parts: None):
                print_table("the same without compiled sweeps", options.rounds)


if __name__ == "__main__":
    main()
