"""Coverage of estimates of log Z over seeds, on machines whose log Z is known.

Of each of the seeds: whether the exact value is within two standard errors of the
forward estimate (annealed importance sampling from independent units), of the reverse
one (from exact draws of the machine) and of Bennett's, and whether it is within the
bounds of the bracket; and how often an estimate was in doubt and said so.

    OMP_NUM_THREADS=1 python benchmarks/boltzmann_brackets.py --seeds 100
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from machine import describe

from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.partition import ExactPartition
from sktem.evaluation import bracket_log_partition
from sktem.graphs import Graph, grid_graph


def ising(coupling, n=10, field=0.0):
    """Return an Ising model of n x n spins and its parameters."""
    graph = Graph(grid_graph(n, n))
    biases = 2 * field - 2 * coupling * graph.degrees()
    params = np.concatenate([biases, np.full(graph.n_edges, 4 * coupling)])
    return GraphMachine(graph, np.array([], int)), params


def restricted(n_visible=64, n_hidden=12):
    """Return a restricted machine with weights as large as those of learned ones."""
    rng = np.random.default_rng(0)
    model = LayeredMachine((n_visible, n_hidden))
    params = 0.5 * rng.standard_normal(model.n_parameters)
    return model, params.astype(np.float32)


def study(model, params, n_temperatures, n_seeds):
    """Return the shares of seeds, and CPU seconds of one."""
    exact = ExactPartition(model)
    value = exact.value(params)
    begun = time.process_time()
    rows = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        chains = exact.draw(params, 100, rng)
        found = bracket_log_partition(model, params, chains, rng, 100, n_temperatures)
        within = [
            abs(part.value - value) < 2 * part.standard_error
            for part in (found.forward, found.reverse, found)
        ]
        inside = found.lower < value < found.upper
        sure = not found.doubt
        rows.append([*within, inside, not sure, inside or not sure])
    return np.mean(rows, axis=0), (time.process_time() - begun) / n_seeds


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    n_seeds = parser.parse_args().seeds
    print(describe())
    print(f"\nShares of {n_seeds} seeds, 100 runs each way")
    print(
        f"{'':34s}{'forward':>9s}{'reverse':>9s}{'Bennett':>9s}{'bounds':>9s}"
        f"{'doubted':>9s}{'either':>9s}{'s':>7s}"
    )
    problems = {
        "restricted 64-12, 100 steps": (restricted(), 100),
        "Ising 10 x 10, J = .30, 100 steps": (ising(0.3), 100),
        "Ising 10 x 10, J = .44, 200 steps": (ising(0.44), 200),
        "Ising 10 x 10, J = .60, 400 steps": (ising(0.6), 400),
        "the same, 30 steps": (ising(0.6), 30),
    }
    for name, ((model, params), n_temperatures) in problems.items():
        shares, seconds = study(model, params, n_temperatures, n_seeds)
        print(f"{name:34s}" + "".join(f"{share:9.2f}" for share in shares), end="")
        print(f"{seconds:7.2f}", flush=True)


if __name__ == "__main__":
    main()
