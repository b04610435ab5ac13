"""Figure 1 of Karimi and Li: precision of the means of a mixture, epoch by epoch.

Each data set has 100,000 rows from two Gaussians with unit variance, means 0.5 and
-0.5 and equal weights. Weights and means are learned, from the means 1 and -0.2, with
batches of one row, 10 draws per visit, gamma_k = k^-0.5 and rho = n^(-2/3). What is
shown is |mu - mu*|^2, where mu* is the maximum-likelihood estimate on the same data,
for the six methods of the paper and for two with exact expectations and gamma = 1
(sEM-VR and FIEM).

An epoch is n iterations, as in the paper; for EM and SAEM, whose iterations visit all
rows, it is one iteration. The passes over the data count what that leaves out: the
pass at the start, those at the anchors of vrTTEM (whose exact form, sEM-VR, visits each
row twice) and the second index of fitTEM and FIEM.

Prints the table, checks the order of the methods, and writes the table to
``doc/tables`` and the figure to ``doc/images``. Takes some minutes on two cores.
Run: ``python benchmarks/paper_mixture.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from machine import describe
from scipy import special
from scipy.optimize import root

from sktem.e_step.random import spawn_generators
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.mixture.model import GaussianMixtureParams
from sktem.models import GaussianMixtureModel
from sktem.samplers import ExactDraws, ExactExpectation
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM, FullBatch

DOC = Path(__file__).resolve().parents[1] / "doc"
MODEL = GaussianMixtureModel(2, covariance_type="unit")

#: Solver, sampler and step sizes of each method.
METHODS = {
    "EM": (FullBatch(), ExactExpectation(), Constant(1.0)),
    "iEM": (ISAEM(), ExactExpectation(), Constant(1.0)),
    "SAEM": (FullBatch(), ExactDraws(10), Polynomial(alpha=0.5)),
    "iSAEM": (ISAEM(), ExactDraws(10), Polynomial(alpha=0.5)),
    "vrTTEM": (VRTTEM(), ExactDraws(10), Polynomial(alpha=0.5)),
    "fitTEM": (FITTEM(), ExactDraws(10), Polynomial(alpha=0.5)),
    "sEM-VR": (VRTTEM(), ExactExpectation(), Constant(1.0)),
    "FIEM": (FITTEM(), ExactExpectation(), Constant(1.0)),
}
SHOWN_EPOCHS = (0, 1, 2, 3, 5, 10, 15, 20)
BATCH_OF_ONE = [name for name, parts in METHODS.items() if parts[0].n_index_sets]
COLOURS = {
    "EM": "0.15",
    "iEM": "0.6",
    "SAEM": "tab:olive",
    "iSAEM": "tab:orange",
    "vrTTEM": "tab:red",
    "fitTEM": "tab:purple",
    "sEM-VR": "tab:blue",
    "FIEM": "tab:cyan",
}


def start():
    """Return the starting parameters."""
    return params_at(0.5, np.array([1.0, -0.2]))


def params_at(weight, means):
    """Return parameters with the given weight of the first component."""
    weights = np.array([weight, 1.0 - weight])
    return GaussianMixtureParams(weights, means[:, None], np.ones(2), np.ones(2))


def simulate(seed, n_rows):
    """Return the rows of a data set."""
    rng = np.random.default_rng([seed, n_rows])
    means = np.where(rng.random(n_rows) < 0.5, 0.5, -0.5)
    return (means + rng.standard_normal(n_rows))[:, None]


def sorted_means(params):
    """Return the means, the largest first."""
    return np.sort(params.means.ravel())[::-1]


def maximum_likelihood(X):
    """Return the means at the fixed point of EM.

    EM alone would need thousands of passes, since the components overlap so much. A
    root finder takes over its map after the first ones, and EM has the last word.
    """

    def em_step(params):
        return MODEL.maximize(MODEL.expected_statistics(X, params)[0], params)

    def pack(params):
        return np.array([special.logit(params.weights[0]), *params.means.ravel()])

    def unpack(values):
        return params_at(special.expit(values[0]), values[1:])

    params = start()
    for _ in range(50):
        params = em_step(params)
    found = root(
        lambda values: pack(em_step(unpack(values))) - values, pack(params), tol=1e-14
    )
    params = unpack(found.x)
    for _ in range(5):
        before, params = params, em_step(params)
    moved = np.abs(params.means - before.means).max()
    if moved > 1e-13:
        raise RuntimeError(f"no fixed point found: EM still moves means by {moved:.1e}")
    return sorted_means(params)


def run_method(name, X, n_epochs, seed):
    """Return the means after every epoch, passes, CPU seconds and iterations."""
    solver, sampler, step_size = METHODS[name]
    settings = RunSettings(
        model=MODEL,
        sampler=sampler,
        solver=solver,
        step_size=step_size,
        batch_size=1,
        sampling="fixed",
        max_passes=10 * n_epochs + 10,  # never reached: the epochs are counted
        tol=0.0,
    )
    means = [sorted_means(start())]

    def on_epoch(state):
        means.append(sorted_means(state.params))
        return len(means) > n_epochs

    state = RunState(start(), spawn_generators(seed))
    began = time.process_time()
    run(settings, X, state, on_epoch=on_epoch)
    cpu_time = time.process_time() - began
    passes = np.array([0.0, *state.history.passes])
    return np.array(means), passes, cpu_time, state.solver.iteration


def run_data_set(seed, n_rows, n_epochs):
    """Return errors, passes and CPU seconds per iteration of all methods."""
    X = simulate(seed, n_rows)
    estimate = maximum_likelihood(X)
    results = {}
    for name in METHODS:
        means, passes, cpu_time, iterations = run_method(name, X, n_epochs, seed)
        errors = ((means - estimate) ** 2).sum(axis=1)
        results[name] = errors, passes, cpu_time / iterations
    return results


def mean_and_error(values):
    """Return the mean over data sets and its standard error."""
    spread = (
        values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    )
    return values.mean(axis=0), spread / np.sqrt(len(values))


def write_table(errors, passes, seconds, n_rows):
    """Return the lines of the table."""
    n_data_sets, n_points = errors["EM"].shape
    shown = [epoch for epoch in SHOWN_EPOCHS if epoch < n_points]
    lines = [
        f"|mu - mu*|^2, mean of {n_data_sets} data sets of {n_rows:,} rows, and its "
        "standard error below",
        "",
        "epoch ".ljust(8) + "".join(f"{epoch:>10d}" for epoch in shown) + "    passes",
    ]
    for name in METHODS:
        mean, error = mean_and_error(errors[name])
        lines.append(
            name.ljust(8)
            + "".join(f"{mean[epoch]:>10.2e}" for epoch in shown)
            + f"{passes[name][-1]:>10.1f}"
        )
        lines.append(" " * 8 + "".join(f"{error[epoch]:>10.1e}" for epoch in shown))
    lines += ["", "passes over the data at the same epochs", ""]
    for name in METHODS:
        lines.append(
            name.ljust(8) + "".join(f"{passes[name][epoch]:>10.1f}" for epoch in shown)
        )
    lines += [
        "",
        "CPU microseconds per iteration of one row, all included (random numbers, pass "
        "at the",
        "start, anchors, one measurement per epoch): median and range over data sets",
        "",
    ]
    for name in BATCH_OF_ONE:
        middle, low, high = (
            1e6 * statistic(seconds[name]) for statistic in (np.median, np.min, np.max)
        )
        lines.append(f"{name:8s}{middle:>10.2f}     ({low:.2f} to {high:.2f})")
    return lines


def check_order(errors):
    """Return the lines that say whether the order of the paper shows."""
    mean = {name: values.mean(axis=0) for name, values in errors.items()}
    lines = [""]
    for new in ("vrTTEM", "fitTEM"):
        for old in ("iSAEM", "SAEM"):
            epochs = np.arange(3, len(mean[new]))
            above = epochs[mean[new][epochs] >= mean[old][epochs]]
            wins = (errors[new][:, epochs] < errors[old][:, epochs]).mean()
            verdict = (
                "yes" if len(above) == 0 else f"NO, not at epochs {above.tolist()}"
            )
            lines.append(
                f"{new} below {old} from epoch 3 on: {verdict} "
                f"(in {wins:.0%} of all epochs and data sets)"
            )
    return lines


def draw(errors, passes, path):
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 2, figsize=(10, 4.2), sharey=True, layout="constrained"
    )
    for name in METHODS:
        mean, error = mean_and_error(errors[name])
        style = "--" if isinstance(METHODS[name][1], ExactExpectation) else "-"
        for axis, x in zip(axes, (np.arange(len(mean)), passes[name]), strict=True):
            axis.plot(x, mean, style, color=COLOURS[name], label=name, linewidth=1.5)
            axis.fill_between(
                x,
                np.maximum(mean - error, mean / 10),
                mean + error,
                color=COLOURS[name],
                alpha=0.2,
                linewidth=0,
            )
    n_epochs = errors["EM"].shape[1] - 1
    axes[0].set(
        yscale="log",
        xlabel="epochs (n iterations)",
        ylabel=r"$|\mu - \mu^*|^2$",
        title="as in the paper",
        xlim=(0, n_epochs),
    )
    axes[1].set(
        xlabel="passes over the data", title="all visits counted", xlim=(0, n_epochs)
    )
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.xaxis.get_major_locator().set_params(integer=True, steps=[1, 2, 5, 10])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=50)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--output", type=Path, default=DOC, help="folder of the results"
    )
    arguments = parser.parse_args()
    machine = describe()
    print(machine)
    began = time.process_time()
    for name in METHODS:
        run_method(name, simulate(0, 200), 1, 0)
    cpu_time = time.process_time() - began
    print(f"first calls, with compilation if needed: {cpu_time:.1f} CPU seconds")
    began = time.perf_counter()
    results = Parallel(n_jobs=arguments.jobs)(
        delayed(run_data_set)(seed, arguments.rows, arguments.epochs)
        for seed in range(arguments.data_sets)
    )
    wall_time = time.perf_counter() - began
    errors, passes, seconds = {}, {}, {}
    for name in METHODS:
        of_method = [result[name] for result in results]
        errors[name] = np.array([one[0] for one in of_method])
        passes[name] = of_method[0][1]
        seconds[name] = np.array([one[2] for one in of_method])
    lines = write_table(errors, passes, seconds, arguments.rows) + check_order(errors)
    print("\n".join(["", *lines]))
    print(f"\n{wall_time:.0f} s with {arguments.jobs} processes")
    table = arguments.output / "tables" / "paper_mixture.txt"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("\n".join([machine, "", *lines]) + "\n")
    draw(errors, passes, arguments.output / "images" / "paper_mixture.png")


if __name__ == "__main__":
    main()
