"""Inverse Ising problem on 10 x 10 grids: maximum likelihood and pseudo-likelihood.

Spins are drawn exactly from a known machine, and its fields and couplings are learned
from them: by the exact maximum of the likelihood, which is what a fit of
``LatentBoltzmannMachine`` without hidden units ends at on such a grid; by the maximum
of the pseudo-likelihood of all spins together; and by a logistic regression of each
spin on its neighbours, whose two answers for a coupling are averaged. The error is the
root of the mean squared error of the 180 couplings, over several machines and draws.
Run: ``OMP_NUM_THREADS=1 python benchmarks/inverse_ising.py [--small]``; the table is
written to ``doc/tables`` without ``--small``. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from machine import describe
from scipy import optimize

from sktem import LatentBoltzmannMachine
from sktem.graphs import Graph, grid_graph

SIDE = 10
GRID = Graph(grid_graph(SIDE, SIDE))
#: Mean and standard deviation of couplings, standard deviation of fields.
PROBLEMS = {
    "ferromagnet, J = 0.2": (0.2, 0.0, 0.1),
    "ferromagnet, J = 0.4": (0.4, 0.0, 0.1),
    "glass, sd of J = 0.3": (0.0, 0.3, 0.1),
    "glass, sd of J = 0.6": (0.0, 0.6, 0.1),
}
ROWS = (300, 1000, 10000)


def truth(problem, rng):
    """Return fields and couplings of a problem."""
    mean, spread, fields = PROBLEMS[problem]
    couplings = mean + spread * rng.standard_normal(GRID.n_edges)
    return fields * rng.standard_normal(GRID.n_units), couplings


def sums(values):
    """Return the sum of the values of the edges of each unit."""
    n = GRID.n_units
    return np.bincount(GRID.first, values, n) + np.bincount(GRID.second, values, n)


def draw(fields, couplings, n_rows, seed):
    """Return exact draws of spins."""
    machine = LatentBoltzmannMachine(
        GRID, visible="spin", max_iter=0, tol=None, random_state=seed
    ).fit(np.ones((2, GRID.n_units)))
    machine.params_ = np.concatenate([2 * fields - 2 * sums(couplings), 4 * couplings])
    return machine.sample(n_rows)


def likelihood(S):
    """Return the couplings at the maximum of the likelihood."""
    machine = LatentBoltzmannMachine(GRID, visible="spin", weight_decay=0.0).fit(S)
    assert machine.converged_
    return machine.couplings_.toarray()[GRID.first, GRID.second]


def pseudo_likelihood(S):
    """Return the couplings at the maximum of the pseudo-likelihood."""
    n_rows, n = S.shape

    def loss(theta):
        h, J = theta[:n], np.zeros((n, n))
        J[GRID.first, GRID.second] = J[GRID.second, GRID.first] = theta[n:]
        margins = 2 * S * (h + S @ J)
        slopes = -2 * S / (1 + np.exp(margins)) / n_rows
        products = slopes.T @ S
        by_edge = products[GRID.first, GRID.second] + products[GRID.second, GRID.first]
        value = np.logaddexp(0, -margins).sum() / n_rows
        return value, np.concatenate([slopes.sum(axis=0), by_edge])

    start = np.zeros(n + GRID.n_edges)
    options = {"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-8}
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return found.x[n:]


def regressions(S):
    """Return the mean of the two couplings that logistic regressions give an edge."""
    starts, neighbours, edges = GRID.neighbours()
    couplings = np.zeros(GRID.n_edges)
    for unit in range(GRID.n_units):
        part = slice(starts[unit], starts[unit + 1])
        inputs = np.column_stack([np.ones(len(S)), S[:, neighbours[part]]])
        signed = 2 * S[:, [unit]] * inputs
        beta = np.zeros(inputs.shape[1])
        for _ in range(30):  # Newton's method, with a small ridge for separable rows
            p = 1 / (1 + np.exp(signed @ beta))
            slope = signed.T @ p - 1e-3 * beta
            curvature = (signed * (p * (1 - p))[:, None]).T @ signed
            beta += np.linalg.solve(curvature + 1e-3 * np.eye(len(beta)), slope)
        couplings[edges[part]] += 0.5 * beta[1:]
    return couplings


METHODS = {
    "likelihood": likelihood,
    "pseudo-likelihood": pseudo_likelihood,
    "regressions": regressions,
}


def main(rows, n_repeats):
    """Return the lines of the table."""
    draw(*truth("glass, sd of J = 0.3", np.random.default_rng(0)), 10, 0)
    lines = [describe(), "Root mean squared error of couplings, and CPU seconds", ""]
    head = f"{'problem':22}{'rows':>7}"
    lines.append(head + "".join(f"{name:>27}" for name in METHODS))
    for problem in PROBLEMS:
        for n_rows in rows:
            errors = {name: [] for name in METHODS}
            seconds = dict.fromkeys(METHODS, 0.0)
            for seed in range(n_repeats):
                h, J = truth(problem, np.random.default_rng(seed))
                S = draw(h, J, n_rows, seed)
                for name, method in METHODS.items():
                    begun = time.process_time()
                    found = method(S)
                    seconds[name] += (time.process_time() - begun) / n_repeats
                    errors[name].append(np.mean((found - J) ** 2))
            line = f"{problem:22}{n_rows:7}"
            for name in METHODS:
                root = np.sqrt(errors[name])
                spread = root.std(ddof=1) / np.sqrt(n_repeats)
                line += f"{root.mean():10.4f} +- {spread:.4f}{seconds[name]:5.1f} s"
            lines.append(line)
            print(line, flush=True)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    table = main(ROWS[:2] if small else ROWS, 2 if small else 3)
    print("\n".join(table))
    if not small:
        path = Path(__file__).parents[1] / "doc" / "tables" / "inverse_ising.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
