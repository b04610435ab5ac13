"""The grid of Jang et al. (2016), section 4.1: APCD, MFPCD and the exact E-step.

A 30 x 30 grid with biases from U[-3, 3] and weights from N(0, 0.5) (variance), 2,000
rows to learn from and 2,000 to test, 50 % or 20 % of the units hidden. Each line is a
solver: log-likelihood of the test rows (the hidden units summed out exactly, log Z by
annealed importance sampling), the same by Parzen windows on 2,000 samples as in the
paper, and CPU seconds of the fit. "true parameters" is the machine that made the data,
"training rows" is a Parzen window on them.

The paper gives b_t from 0.001 to 0.0001, 300 epochs and not the size of a batch. With
batches of 100 such steps move no parameter by more than 3.3 times its gradient, far
from any optimum. By default the steps are 0.2 to 0.002 and the epochs 60, which comes
near to the optimum in minutes; ``--paper`` adds the steps and epochs of the paper.
"independent units" have the base rates of the training rows and no edges.
Run: ``OMP_NUM_THREADS=1 python benchmarks/paper_grid.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from machine import describe

from sktem import LatentBoltzmannMachine
from sktem.evaluation import ParzenWindow, annealed_importance_sampling
from sktem.graphs import Graph, grid_graph
from sktem.models.boltzmann_graph import GraphMachine

SOLVERS = {
    "APCD, Gibbs, l = 100": dict(solver="apcd", e_step="gibbs", n_gibbs_e=100),
    "MFPCD, 30 iterations": dict(solver="mfpcd", n_mean_field=30),
    "PCD, exact E-step": dict(solver="pcd", e_step="exact"),
}


def simulate(side, hidden_share, seed, variance, n_rows=4000, n_sweeps=1000):
    """Return true parameters, hidden units and visible rows."""
    rng = np.random.default_rng(seed)
    graph = Graph(grid_graph(side, side))
    model = GraphMachine(graph, [])
    params = np.concatenate(
        [
            rng.uniform(-3, 3, graph.n_units),
            rng.normal(0, np.sqrt(variance), graph.n_edges),
        ]
    )
    chains = model.new_chains(n_rows, rng)
    model.sweep(params, chains, n_sweeps, seed)
    n_hidden = round(hidden_share * graph.n_units)
    hidden = np.sort(rng.choice(graph.n_units, n_hidden, replace=False))
    visible = np.setdiff1d(np.arange(graph.n_units), hidden)
    return graph, params, hidden, chains[visible].T.copy()


def parzen(samples, validation, test):
    """Return mean and standard error of the Parzen log-likelihood, as in the paper."""
    window = ParzenWindow(bandwidths=np.geomspace(0.1, 0.8, 12))
    values = window.fit(samples, validation=validation).score_samples(test)
    return values.mean(), values.std() / np.sqrt(len(values))


def line(name, values, log_partition, window, seconds):
    ours = values.mean() - log_partition.value
    error = np.hypot(values.std() / np.sqrt(len(values)), log_partition.standard_error)
    print(
        f"  {name:24s} {ours:9.2f} +-{error:5.2f}   (log Z +-"
        f"{log_partition.standard_error:.3f}, size "
        f"{log_partition.effective_sample_size:3.0f})   {window[0]:9.2f} "
        f"+-{window[1]:5.2f}   {seconds:7.1f}",
        flush=True,
    )
    return ours, window[0]


def compare(share, seed, arguments, steps, variance=0.5):
    side = arguments.side
    graph, params, hidden, X = simulate(side, share, seed, variance)
    train, test = X[:2000], X[2000:]
    print(
        f"\n{100 * share:.0f} % hidden, variance {variance:g}, seed {seed}, b_t from "
        f"{steps[0]:g} to {steps[1]:g}, {arguments.epochs} epochs of batches of 100"
    )
    print(
        "  solver                    test log-likelihood                            "
        "Parzen               CPU s"
    )
    rng = np.random.default_rng(seed)
    true = GraphMachine(graph, hidden)
    log_partition = annealed_importance_sampling(true, params, rng, 100, 2000)
    values = true.log_unnormalised(params, test.astype(float))
    means = np.clip(train.mean(axis=0, dtype=float), 1e-4, 1 - 1e-4)
    independent = (test * np.log(means) + (1 - test) * np.log1p(-means)).sum(axis=1)
    print(f"  independent units        {independent.mean():9.2f}")
    window = parzen(train[400:], train[:400], test)
    found = {"true": line("true parameters", values, log_partition, window, 0.0)}
    for name, settings in SOLVERS.items():
        machine = LatentBoltzmannMachine(
            graph, hidden, n_chains=100, n_gibbs_m=10, step_size_m=steps,
            max_iter=arguments.epochs, random_state=seed, n_jobs=1, **settings,
        )  # fmt: skip
        start = time.process_time()
        machine.fit(train)
        seconds = time.process_time() - start
        log_partition = machine.log_partition("ais", n_temperatures=2000)
        values = -machine.free_energy(test)
        samples = machine.sample(2000, n_steps=1000)
        window = parzen(samples, train[:400], test)
        found[name] = line(name, values, log_partition, window, seconds)
    names = list(SOLVERS)
    print(
        f"  APCD less MFPCD: {found[names[0]][0] - found[names[1]][0]:+.2f} nats, by "
        f"Parzen {found[names[0]][1] - found[names[1]][1]:+.2f}; exact less APCD: "
        f"{found[names[2]][0] - found[names[0]][0]:+.2f}"
    )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=float, nargs=2, default=(0.2, 0.002))
    parser.add_argument("--variance", type=float, default=0.5)
    parser.add_argument("--shares", type=float, nargs="+", default=(0.5, 0.2))
    parser.add_argument("--paper", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print('the Parzen value of "true parameters" is a window on the training rows')
    steps = tuple(arguments.steps)
    for share in arguments.shares:
        for seed in range(arguments.seeds):
            compare(share, seed, arguments, steps, arguments.variance)
    if arguments.paper:
        arguments.epochs = 300
        for share in arguments.shares:
            compare(share, 0, arguments, (0.001, 0.0001))


if __name__ == "__main__":
    main()
