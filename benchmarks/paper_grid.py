"""The grid of Jang et al. (2016), section 4.1: APCD, MFPCD and the exact E-step.

A 30 x 30 grid with biases from U[-3, 3] and weights from N(0, 0.5) (variance), 2,000
rows to learn from and 2,000 to test, 50 % or 20 % of the units hidden. Each line is a
solver: log-likelihood of the test rows (the hidden units summed out exactly, log Z by
annealed importance sampling), the same by Parzen windows on 2,000 samples as in the
paper, and CPU seconds of the fit. "true parameters" is the machine that made the data,
with a Parzen window on the training rows; "independent units" have the base rates of
the training rows and no edges.

Four parts, of which ``--parts`` takes some:

bits
    As printed, units in {0, 1}, with steps b_t from 0.2 to 0.002, which come near to
    the optimum.
steps
    The same with the steps of the paper, from 0.001 to 0.0001, and its 300 epochs. The
    size of its batches is not given; with 100 rows such steps move no parameter by more
    than 3.3 times its gradient.
spins
    Biases and weights as those of units in {-1, 1}; in terms of {0, 1} the weights have
    variance 8. Here, and not with units in {0, 1}, the Parzen windows on the training
    rows are near the values that the paper prints, -148.90 and -254.26.
weak
    Spins with biases from U[-0.2, 0.2], so that hidden units depend on each other
    strongly given the visible ones, which is what mean field leaves out.

Run: ``OMP_NUM_THREADS=1 python benchmarks/paper_grid.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from machine import describe
from parzen import ParzenWindow

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.evaluation import annealed_importance_sampling
from sktem.graphs import Graph, grid_graph

SOLVERS = {
    "APCD, Gibbs, l = 100": dict(solver="apcd", e_step="gibbs", n_gibbs_e=100),
    "MFPCD, 30 iterations": dict(solver="mfpcd", n_mean_field=30),
    "PCD, exact E-step": dict(solver="pcd", e_step="exact"),
}


@dataclass(frozen=True)
class Part:
    """A reading of the experiment."""

    title: str
    spins: bool = False
    field: float = 3.0
    steps: tuple = (0.2, 0.002)
    epochs: int = 300
    shares: tuple = (0.5, 0.2)
    seeds: int = 2


PARTS = {
    "bits": Part("units in {0, 1}", epochs=60),
    "steps": Part("units in {0, 1}, steps of the paper", steps=(0.001, 0.0001)),
    "spins": Part("units in {-1, 1}", spins=True, steps=(1.0, 0.01), epochs=100),
    "weak": Part(
        "units in {-1, 1}, biases from U[-0.2, 0.2]", spins=True, field=0.2,
        steps=(1.0, 0.01), epochs=100, shares=(0.5,), seeds=3,
    ),
}  # fmt: skip


def simulate(side, share, seed, part, variance=0.5, n_rows=4000, n_sweeps=2000):
    """Return graph, true parameters, hidden units and visible rows, all of {0, 1}."""
    rng = np.random.default_rng(seed)
    graph = Graph(grid_graph(side, side))
    model = GraphMachine(graph, [])
    biases = rng.uniform(-part.field, part.field, graph.n_units)
    weights = rng.normal(0, np.sqrt(variance), graph.n_edges)
    if part.spins:  # s = 2 x - 1
        biases *= 2
        np.subtract.at(biases, graph.first, 2 * weights)
        np.subtract.at(biases, graph.second, 2 * weights)
        weights *= 4
    params = np.concatenate([biases, weights])
    chains = model.new_chains(n_rows, rng)
    model.sweep(params, chains, n_sweeps, seed)
    n_hidden = round(share * graph.n_units)
    hidden = np.sort(rng.choice(graph.n_units, n_hidden, replace=False))
    visible = np.setdiff1d(np.arange(graph.n_units), hidden)
    return graph, params, hidden, chains[visible].T.copy()


def parzen(samples, validation, test):
    """Return mean and standard error of the Parzen log-likelihood, as in the paper."""
    window = ParzenWindow(bandwidths=np.geomspace(0.1, 0.8, 12))
    values = window.fit(samples, validation=validation).score_samples(test)
    return values.mean(), standard_error(values)


def standard_error(values):
    return values.std() / np.sqrt(len(values))


def line(name, values, log_partition, window, seconds):
    ours = values.mean() - log_partition.value
    error = np.hypot(standard_error(values), log_partition.standard_error)
    print(
        f"  {name:22s} {ours:9.2f} +-{error:5.2f}   (log Z +-"
        f"{log_partition.standard_error:.3f}, size "
        f"{log_partition.effective_sample_size:3.0f})   {window[0]:8.2f} "
        f"+-{window[1]:5.2f}   {seconds:7.1f}",
        flush=True,
    )


def compare(part, share, seed, side):
    """Print a line for each solver; return APCD less MFPCD, exact and by Parzen."""
    graph, params, hidden, X = simulate(side, share, seed, part)
    train, test = X[:2000], X[2000:]
    print(
        f"\n{part.title}, {100 * share:.0f} % hidden, seed {seed}; b_t from "
        f"{part.steps[0]:g} to {part.steps[1]:g}, {part.epochs} epochs, batches of 100"
    )
    print(
        "  solver                  test log-likelihood                            "
        "Parzen              CPU s"
    )
    rng = np.random.default_rng(seed)
    means = np.clip(train.mean(axis=0, dtype=float), 1e-4, 1 - 1e-4)
    values = (test * np.log(means) + (1 - test) * np.log1p(-means)).sum(axis=1)
    window = parzen((rng.random(train.shape) < means).astype(float), train[:400], test)
    print(
        f"  independent units      {values.mean():9.2f} +-{standard_error(values):5.2f}"
        f"{window[0]:41.2f} +-{window[1]:5.2f}"
    )
    true = GraphMachine(graph, hidden)
    log_partition = annealed_importance_sampling(true, params, rng, 100, 3000)
    values = true.log_unnormalised(params, test.astype(float))
    window = parzen(train[400:], train[:400], test)
    line("true parameters", values, log_partition, window, 0.0)
    found = []
    for name, settings in SOLVERS.items():
        machine = LatentBoltzmannMachine(
            graph, hidden, n_chains=100, n_gibbs_m=10, step_size_m=part.steps,
            max_iter=part.epochs, centering=False, weight_decay=0.0, tol=None,
            random_state=seed, n_jobs=1,
            **settings,
        )  # fmt: skip
        start = time.process_time()
        machine.fit(train)
        seconds = time.process_time() - start
        log_partition = machine.log_partition("ais", n_temperatures=3000)
        values = -machine.free_energy(test)
        window = parzen(machine.sample(2000, n_steps=1000), train[:400], test)
        line(name, values, log_partition, window, seconds)
        values = values - log_partition.value
        found.append((values, log_partition.standard_error, window[0]))
    apcd, mfpcd, exact = found
    print(
        f"  APCD less MFPCD: {difference(apcd, mfpcd)} nats, by Parzen "
        f"{apcd[2] - mfpcd[2]:+.2f}; exact less APCD: {difference(exact, apcd)}",
        flush=True,
    )
    return np.mean(apcd[0] - mfpcd[0]), apcd[2] - mfpcd[2]


def difference(one, other):
    """Return the mean difference of the same rows, with its standard error."""
    rows = one[0] - other[0]
    error = np.sqrt(standard_error(rows) ** 2 + one[1] ** 2 + other[1] ** 2)
    return f"{rows.mean():+.2f} +- {error:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--side", type=int, default=30)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--shares", type=float, nargs="+")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    for name in arguments.parts:
        part = PARTS[name]
        settings = {**vars(part)}
        for option in ("epochs", "seeds", "shares"):
            if getattr(arguments, option) is not None:
                settings[option] = getattr(arguments, option)
        part = Part(**settings)
        for share in part.shares:
            first = arguments.first_seed
            gaps = [
                compare(part, share, seed, arguments.side)
                for seed in range(first, first + part.seeds)
            ]
            if part.seeds == 1:
                continue
            exact, windows = np.mean(gaps, axis=0)
            low, high = np.min(gaps, axis=0), np.max(gaps, axis=0)
            print(
                f"\n  {part.seeds} data sets: APCD less MFPCD {exact:+.2f} "
                f"({low[0]:+.2f} to {high[0]:+.2f}), by Parzen {windows:+.2f} "
                f"({low[1]:+.2f} to {high[1]:+.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
