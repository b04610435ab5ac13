"""A cost model of EM for mixtures: seconds and bytes against n, d, K and workers.

A pass over n rows of d columns costs ``a + n (b + c d + e K + f K d)`` processor
seconds (diagonal covariances; full ones have a term in ``K d^2``, too), whatever
process does it. On Dask there come, for each of P partitions, the tasks: seconds of
the client and the scheduler, which come one after the other, and of the workers, which
share them. The coefficients are fitted by least squares of relative errors, none below
zero, to processor time on this machine; sizes that were left out show what a
prediction is worth. Seconds by the clock with W workers are then

    client and scheduler of P partitions + (workers' part + pass) / W,

if each worker has a core, and rows are in memory; what the network takes is not in it.
Bytes are counted: rows, the graph that goes to the scheduler, the statistics that come
back.

Run: ``python benchmarks/scaling.py`` (about two minutes of processors); the table is
``doc/tables/scaling.txt``, the picture ``doc/images/scaling.png``.
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from machine import describe
from scipy.optimize import nnls

from sktem import StochasticEMGaussianMixture

DOC = Path(__file__).parent.parent / "doc"
KINDS = ("diag", "full")
#: n, d, K: those that the model is fitted to, and those that are predicted.
SIZES = [*product((50_000, 200_000), (2, 8, 32), (2, 8, 32))]
LEFT_OUT = [(400_000, 16, 16), (200_000, 4, 64), (50_000, 24, 4)]
PARTITIONS, LEFT_OUT_PARTITIONS = (2, 8, 16, 48), 32
MOST_ROWS, LEAST_ROWS = 1_000_000, 100_000  # of a partition
DRAWN = (16, 32)  # d and K of the table and the picture
N_ROWS = 10 ** np.arange(5, 10)
WORKERS = (1, 2, 16, 128)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOC)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begun = time.process_time()
    lines = [describe(), ""]
    models, points = {}, {}
    for kind in KINDS:
        measured = {size: seconds(kind, *size, options.repeats) for size in SIZES}
        models[kind] = fitted(
            [terms(kind, *size) for size in measured], [*measured.values()]
        )
        points[kind] = measured
        lines += described(kind, models[kind], measured, options.repeats)
    costs = costs_of_tasks(options.repeats)
    lines += described_tasks(costs)
    lines += table(models["diag"], costs)
    lines.append(f"{time.process_time() - begun:.0f} CPU s of this process")
    text = "\n".join(lines) + "\n"
    print(text)
    (options.out / "tables").mkdir(parents=True, exist_ok=True)
    (options.out / "tables" / "scaling.txt").write_text(text)
    draw(models["diag"], costs, points["diag"], options.out / "images" / "scaling.png")


def rows_of(n, d, seed=0):
    """Return rows around 32 points."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, d)) + 4 * rng.normal(size=(32, d))[rng.integers(32, size=n)]
    )


def mixture(K, kind, n_passes):
    """Return a mixture that makes some passes."""
    return StochasticEMGaussianMixture(
        K, covariance_type=kind, solver="em", init_params="random_from_data",
        max_iter=n_passes, tol=0, random_state=0,
    )  # fmt: skip


def seconds(kind, n, d, K, repeats):
    """Return processor seconds of a pass over an array, the least of some."""
    X = rows_of(n, d)
    passes = [mixture(K, kind, 4).fit(X).history_.cpu_time for _ in range(repeats)]
    return float(np.min(np.diff(passes, axis=1)))


def terms(kind, n, d, K):
    """Return what the seconds of a pass are linear in."""
    found = [1, n, n * d, n * K, n * K * d]
    return np.array([*found, n * K * d**2] if kind == "full" else found, dtype=float)


def fitted(rows, values):
    """Return coefficients, none negative, by least squares of relative errors."""
    rows, values = np.array(rows), np.array(values)
    size = rows.max(axis=0)
    coefficients, _ = nnls(rows / size / values[:, None], np.ones(len(rows)))
    return coefficients / size


def described(kind, model, measured, repeats):
    """Return lines about the model of a pass."""
    names = ("a pass", "n", "n d", "n K", "n K d", "n K d^2")
    cells = ", ".join(
        f"{1e9 * value:.3g} ({name})" for name, value in zip(names, model, strict=False)
    )
    errors = [terms(kind, *size) @ model / t - 1 for size, t in measured.items()]
    lines = [
        f"{kind}: nanoseconds {cells}",
        f"  {len(errors)} sizes, relative error {100 * np.std(errors):.0f} % (largest "
        f"{100 * np.max(np.abs(errors)):.0f} %); sizes left out:",
    ]
    for size in LEFT_OUT:
        value, found = terms(kind, *size) @ model, seconds(kind, *size, repeats)
        lines.append(
            "  n = {:,}, d = {}, K = {}: ".format(*size)
            + f"predicted {1e3 * value:.1f} ms, measured {1e3 * found:.1f} ms"
        )
    return [*lines, ""]


def costs_of_tasks(repeats):
    """Return seconds and bytes of a pass on Dask by the number of partitions.

    Each row has partitions, processor seconds of client and scheduler and of the
    workers, and bytes of the graph.
    """
    from distributed import Client, LocalCluster

    found = []
    settings = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        one_pass(client, 2)  # the workers load what they need
        for partitions in (*PARTITIONS, LEFT_OUT_PARTITIONS):
            runs = [one_pass(client, partitions) for _ in range(repeats)]
            found.append((partitions, *np.min(runs, axis=0)))
    return np.array(found)


def one_pass(client, n_partitions, n_passes=12):
    """Return seconds of client and workers and bytes of a pass over few rows."""
    import dask.array as da

    X = client.persist(da.from_array(rows_of(20 * n_partitions, 2), chunks=(20, -1)))
    sizes, compute = [], client.compute

    def counted(calls):
        sizes.append(len(pickle.dumps([dict(call.dask) for call in calls])))
        return compute(calls)

    client.compute = counted
    clocks = []
    try:
        for passes in (3, 3 + n_passes):
            before = time.process_time(), sum(client.run(time.process_time).values())
            mixture(2, "diag", passes).fit(X)
            after = time.process_time(), sum(client.run(time.process_time).values())
            clocks.append(np.subtract(after, before))
    finally:
        del client.compute
    return *((clocks[1] - clocks[0]) / n_passes), sizes[-1]


def model_of_tasks(costs):
    """Return intercepts and slopes in the number of partitions, of each column."""
    known = costs[:-1]
    rows = np.column_stack([np.ones(len(known)), known[:, 0]])
    return np.array([fitted(rows, column) for column in known.T[1:]])


def described_tasks(costs):
    """Return lines about what partitions cost."""
    client, workers, graph = model_of_tasks(costs)
    P, here, there, n_bytes = costs[-1]
    return [
        "Dask, P partitions, milliseconds of processors in a pass:",
        f"  client and scheduler {1e3 * client[0]:.1f} + {1e3 * client[1]:.2f} P, all "
        f"workers {1e3 * workers[0]:.1f} + {1e3 * workers[1]:.2f} P; graph "
        f"{graph[0] / 1e3:.1f} + {graph[1] / 1e3:.2f} P kB",
        f"  P = {P:.0f}, left out: predicted {1e3 * (client @ [1, P]):.0f} and "
        f"{1e3 * (workers @ [1, P]):.0f} ms, measured {1e3 * here:.0f} and "
        f"{1e3 * there:.0f} ms; {graph @ [1, P] / 1e3:.0f} and {n_bytes / 1e3:.0f} kB",
        "",
    ]


def partitions_of(n, workers):
    """Return the partitions of a number of rows: one for each worker, if not small."""
    least, most = np.ceil(n / MOST_ROWS), np.ceil(n / LEAST_ROWS)
    return max(least, min(workers, most))


def clock(model, costs, n, workers):
    """Return seconds by the clock of a pass on Dask, if each worker has a core."""
    P, (client, others, _) = partitions_of(n, workers), model_of_tasks(costs)
    compute = terms("diag", n, *DRAWN) @ model
    return client @ [1, P] + (others @ [1, P] + compute) / min(workers, P)


def statistics_bytes(n, workers):
    """Return the bytes that come back from the partitions in a pass."""
    d, K = DRAWN
    return 8 * (K * (2 * d + 1) + d + 2) * partitions_of(n, workers)


def table(model, costs):
    """Return lines of predictions."""
    d, K = DRAWN
    lines = [
        f"Predicted seconds of a pass by the clock, diagonal, d = {d}, K = {K}, "
        f"partitions of {LEAST_ROWS:,} to {MOST_ROWS:,} rows:",
        "             n  "
        + "".join(f"{w:>6} worker{'s' * (w > 1):1s}" for w in WORKERS)
        + "   rows, float64   back to the client",
    ]  # fmt: skip
    for n in N_ROWS:
        cells = "".join(f"{clock(model, costs, n, w):>14.3g}" for w in WORKERS)
        back = statistics_bytes(n, WORKERS[1]) / 1e3
        lines.append(
            f"{n:>14,}  {cells}   {8 * n * d / 1e9:>10.3g} GB {back:>10,.0f} kB"
        )
    return [*lines, ""]


def draw(model, costs, measured, path):
    """Draw the predictions to a billion rows, and what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    sizes = [(size, t) for size, t in measured.items()]
    predicted = [terms("diag", *size) @ model for size, _ in sizes]
    left.loglog([t for _, t in sizes], predicted, "o", color="C0", markersize=5)
    ends = [min(predicted) / 1.5, max(predicted) * 1.5]
    left.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    left.set(
        xlabel="measured seconds of a pass", ylabel="cost model",
        title="one process, 18 sizes",
    )  # fmt: skip
    n = np.logspace(5, 9, 60)
    for k, workers in enumerate(WORKERS):
        values = [clock(model, costs, number, workers) for number in n]
        label = f"{workers} worker{'s' * (workers > 1)}"
        right.loglog(n, values, color=f"C{k}", label=label)
    d, K = DRAWN
    right.set(
        xlabel="rows", ylabel="predicted seconds of a pass",
        title=f"Dask, d = {d}, K = {K}, diagonal",
    )  # fmt: skip
    right.legend()
    for axis in (left, right):
        axis.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
