"""Many subjects: simulated one-compartment data, sktem and pynlme.

N subjects with 10 observations each. The distance is the largest difference between an
estimate and the maximum-likelihood estimate, in standard errors; the maximum is that of
a long run with several chains, whose own Monte Carlo error is printed. Times are CPU
seconds of one thread, without standard errors, likelihoods and reading of data. From
N = 1,000 on follows the distance of the last iterate, without averaging, against the
visits of each subject for the four solvers: the initial pass, the anchors of vrTTEM and
both index sets of fitTEM count. A visit is one sweep of the sampler and evaluates the
likelihood of a subject nine times.

pynlme is left out at 50,000 subjects with its 400 iterations. It is run there with a
tenth of them, and the time of all is extrapolated from the next smaller N, in a line
that says so.

Prints the tables, and unless ``--quick`` writes them to ``doc/tables`` and the picture
to ``doc/images``. The result at an N is kept in a folder and not computed again, so
that sizes can be run one by one (``--sizes 5000 --parts curves``); the report is
written by a run with all of them.
Usage: ``python benchmarks/scale.py [--sizes 100,1000] [--peer-python PATH] [--quick]``
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe

from sktem import NonlinearMixedEffectsRegressor

DOC = Path(__file__).resolve().parents[1] / "doc"
START = {"ka": 1.0, "V": 20.0, "CL": 1.0}
TIMES = np.array([0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.0])
SIZES = (100, 1000, 5000, 50000)
LEAST_FOR_CURVES = 1000
HEAD = (
    "\nCPU seconds and distance to the maximum in standard errors, median [least, "
    "largest] of runs",
    f"{'N':>7s}{'fit':>32s}{'passes':>8s}{'CPU s':>10s}{'distance':>10s}{'':18s}"
    f"{'runs':>7s}",
)
#: Largest N at which the peer runs with all of its iterations.
LARGEST_FOR_PEER = 10_000
#: Batches per pass in the curves, and epochs of the burn-in: 15 or 16 passes for all.
BATCHES = 100
SOLVERS = {"saem": 15, "isaem": 15, "vrttem": 8, "fittem": 8}
LABELS = {"saem": "SAEM", "isaem": "iSAEM", "vrttem": "vrTTEM", "fittem": "fitTEM"}
COLOURS = {
    "saem": "tab:olive",
    "isaem": "tab:orange",
    "vrttem": "tab:red",
    "fittem": "tab:purple",
}
SHOWN = (2, 5, 10, 15, 20, 30, 40, 60)


def simulate(n, seed=0):
    """Return X, y and groups of n subjects."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), 10)
    psi = np.log([1.5, 30.0, 3.0]) + [0.5, 0.2, 0.3] * rng.standard_normal((n, 3))
    ka, V, CL = np.exp(psi[groups]).T
    t = np.tile(TIMES, n)
    k = CL / V
    f = 320 * ka / (V * (ka - k)) * (np.exp(-k * t) - np.exp(-ka * t))
    X = np.column_stack([np.full(10 * n, 320.0), t])
    return X, f + 0.7 * rng.standard_normal(10 * n), groups


def fitted(data, **options):
    """Return a fit and its CPU seconds."""
    X, y, groups = data
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters=START, **{"random_state": 0, **options}
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence and of repaired proxies
        fit.fit(X, y, groups=groups)
    return fit, time.process_time() - begin


def peer(data, python, n_seeds, iterations=(300, 100)):
    """Return (estimates, CPU seconds) of pynlme for each seed."""
    X, y, groups = data
    script = Path(__file__).with_name("peer_pynlme.py")
    control = {"fim": False, "nbiter.saemix": iterations}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(
            path, dose=X[:, 0], time=X[:, 1], y=y, group=groups,
            start=list(START.values()),
        )  # fmt: skip
        one = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONPATH": ""}
        command = [python, str(script), str(path), str(n_seeds), "0", "0"]
        answer = subprocess.run(
            [*command, json.dumps(control)],
            check=True, capture_output=True, text=True, env=one,
        )  # fmt: skip
    found = []
    for line in answer.stdout.splitlines():
        one_run = json.loads(line)
        values = np.array(one_run["values"])
        values[:3] = np.log(values[:3])
        found.append((values, one_run["cpu"]))
    return found


class Maximum:
    """The maximum-likelihood estimate of a data set, and distances from it."""

    def __init__(self, n, exact, errors, uncertainty):
        self.n = n
        self.exact, self.errors = np.array(exact), np.array(errors)
        self.uncertainty = uncertainty

    @classmethod
    def of(cls, data, passes, n_chains):
        """Find it by a long run."""
        best, _ = fitted(
            data, tol=0, max_iter=passes, n_chains=n_chains, random_state=99
        )
        errors = np.array(list(best.standard_errors().values()))
        errors[:3] /= list(best.population_parameters_.values())
        noise = np.array(list(best.monte_carlo_errors_.values()))
        vector = best.fitted_.vector
        return cls(
            len(np.unique(data[2])), vector.of(best.params_), errors,
            float(np.max(noise / errors)),
        )  # fmt: skip

    def distance(self, values):
        """Return the largest difference in standard errors."""
        return np.max(np.abs(np.asarray(values) - self.exact) / self.errors, axis=-1)


def row(n, name, passes, runs):
    """Return the line of some runs, each (distance, CPU seconds)."""
    far, spent = np.array(runs).T
    spread = f"[{far.min():.3f}, {far.max():.3f}]"
    return (
        f"{n:7d}{name:>32s}{passes:>8d}{np.median(spent):10.2f}{np.median(far):10.3f}"
        f"{spread:>18s}{len(runs):7d}"
    )


def table(data, maximum, python, seeds):
    """Return the lines of the fits at one N, and the CPU seconds of the peer."""
    n, times, lines = maximum.n, {}, []
    settings = {
        "sktem, 80 passes": {"max_iter": 80, "n_burn_in": 40},
        "sktem, 150 passes": {"max_iter": 150},
        "sktem, vrttem, 60 passes": {
            "max_iter": 60, "solver": "vrttem", "n_burn_in": 15,
            "batch_size": max(n // 10, 1)},
    }  # fmt: skip
    for name, options in settings.items():
        runs = []
        for seed in range(seeds[0]):
            fit, spent = fitted(data, tol=0, random_state=seed, **options)
            vector = fit.fitted_.vector.of(fit.params_)
            runs.append((maximum.distance(vector), spent))
        times[name] = np.median([run[1] for run in runs])
        lines.append(row(n, name, options["max_iter"], runs))
    if not python:
        return lines, None
    long = n > LARGEST_FOR_PEER
    iterations = (30, 10) if long else (300, 100)
    name = "pynlme, {} + {} iterations".format(*iterations)
    found = peer(data, python, seeds[1], iterations)
    runs = [(maximum.distance(values), spent) for values, spent in found]
    lines.append(row(n, name, sum(iterations), runs))
    spent = np.median([run[1] for run in runs])
    if long:
        return lines, None
    ratio = spent / times["sktem, 150 passes"]
    lines.append(f"{'':39s}pynlme / sktem, 150 passes: {ratio:.1f} times")
    return lines, float(spent)


def curve(data, maximum, solver, n_passes, seed):
    """Return visits, distances and CPU seconds after each epoch of a run."""
    fit, _ = fitted(
        data, solver=solver, batch_size=max(maximum.n // BATCHES, 1), tol=0,
        max_iter=n_passes, n_burn_in=SOLVERS[solver], annealing=False,
        random_state=seed,
    )  # fmt: skip
    far = maximum.distance(np.array(list(fit.trace_.values())).T)
    return list(fit.history_.passes), far.tolist(), list(fit.history_.cpu_time)


def at(visits, values, points):
    """Return values at some numbers of visits, NaN before the first."""
    position = np.searchsorted(visits, np.asarray(points) + 1e-9, side="right") - 1
    return np.where(position < 0, np.nan, np.asarray(values)[np.maximum(position, 0)])


def below(visits, far, seconds, bound):
    """Return visits and CPU seconds from which the distance stays below a bound."""
    above = np.flatnonzero(np.asarray(far) >= bound)
    first = above[-1] + 1 if len(above) else 0
    if first == len(far):
        return np.inf, np.inf
    return visits[first], seconds[first]


def curve_table(n, found, n_passes):
    """Return the lines with the distances at some numbers of visits."""
    shown = [count for count in SHOWN if count <= n_passes]
    seeds = len(found["saem"])
    head = "".join(f"{count:>9d}" for count in shown)
    lines = [
        f"\nN = {n:,}: distance of the last iterate by visits of each subject, "
        f"{BATCHES} batches per pass, median of {seeds} seeds;",
        "visits and CPU seconds from which it stays below 10 and below 2",
        f"{'solver':8s}" + head + f"{'< 10':>18s}{'< 2':>18s}",
    ]
    for solver, runs in found.items():
        line = f"{LABELS[solver]:8s}"
        for value in np.median([at(v, far, shown) for v, far, _ in runs], axis=0):
            line += f"{'-' if np.isnan(value) else format(value, '.3g'):>9s}"
        for bound in (10.0, 2.0):
            visits, seconds = np.median([below(*run, bound) for run in runs], axis=0)
            reached = f"{visits:.0f}, {seconds:.2f} s" if visits < np.inf else "never"
            line += f"{reached:>18s}"
        lines.append(line)
    return lines


def draw(results, path):
    """Draw the distance against the visits, a panel for each N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(results), figsize=(1 + 3.4 * len(results), 3.8), sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for axis, (n, result) in zip(axes[0], results.items(), strict=True):
        for solver, runs in result["curves"].items():
            last = min(run[0][-1] for run in runs)
            first = max(run[0][0] for run in runs)
            grid = np.unique(np.concatenate([run[0] for run in runs]))
            grid = grid[(grid >= first) & (grid <= last)]
            values = np.array([at(v, far, grid) for v, far, _ in runs])
            axis.plot(
                grid, np.median(values, axis=0), color=COLOURS[solver],
                label=LABELS[solver], linewidth=1.5,
            )  # fmt: skip
            axis.fill_between(
                grid, values.min(axis=0), values.max(axis=0), linewidth=0, alpha=0.2,
                color=COLOURS[solver],
            )  # fmt: skip
        axis.axhspan(0.01, result["uncertainty"], color="0.9")
        axis.set(
            xscale="log", yscale="log", title=f"N = {n:,}",
            xlabel="visits of each subject",
        )  # fmt: skip
        ticks = [1, 2, 5, 10, 20, 50]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_ylim(bottom=0.05)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("distance to the maximum, standard errors")
    axes[0, 0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def prepared(n, options):
    """Return the data of an N and their maximum, computed or kept."""
    data, kept = simulate(n), options.results / f"maximum-{n}.json"
    if kept.exists() and not options.quick:
        return data, Maximum(n, **json.loads(kept.read_text()))
    passes, chains = 600, 1 if n > LARGEST_FOR_PEER else 4
    if options.quick:
        passes, chains = 300, 2
    maximum = Maximum.of(data, passes, chains)
    values = {
        "exact": maximum.exact.tolist(), "errors": maximum.errors.tolist(),
        "uncertainty": maximum.uncertainty,
    }  # fmt: skip
    keep(kept, values, options)
    return data, maximum


def keep(path, values, options):
    """Write what was found, unless the run is a quick one."""
    if not options.quick:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def measure_table(n, options):
    """Return the lines of a table and what they need, computed or kept."""
    kept = options.results / f"table-{n}.json"
    if kept.exists() and not options.quick:
        return json.loads(kept.read_text())
    data, maximum = prepared(n, options)
    seeds = (5, 5 if n < 1000 else 3 if n < 5000 else 2)
    if n > LARGEST_FOR_PEER or options.quick:
        seeds = (3, 1)
    lines, spent = table(data, maximum, options.peer_python, seeds)
    noise = maximum.uncertainty
    lines.append(f"{'':39s}Monte Carlo error of the maximum: {noise:.3f}")
    result = {"lines": lines, "peer": spent}
    keep(kept, result, options)
    return result


def measure_curves(n, options):
    """Return all runs of the solvers, computed or kept, seed by seed."""
    kept = options.results / f"curves-{n}.json"
    result = {"uncertainty": 0.0, "curves": {solver: [] for solver in SOLVERS}}
    if kept.exists() and not options.quick:
        result = json.loads(kept.read_text())
    done = len(result["curves"]["saem"])
    wanted = options.seeds or (2 if n > LARGEST_FOR_PEER or options.quick else 5)
    if done < wanted:
        data, maximum = prepared(n, options)
        result["uncertainty"] = maximum.uncertainty
    for seed in range(done, wanted):
        for solver in SOLVERS:
            run = curve(data, maximum, solver, options.passes, seed)
            result["curves"][solver].append(run)
        keep(kept, result, options)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--parts", default="table,curves")
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=0, help="of the curves")
    parser.add_argument("--largest-curve", type=int, default=SIZES[-1])
    parser.add_argument("--peer-python", default=None)
    parser.add_argument("--quick", action="store_true", help="100 and 1,000 subjects")
    parser.add_argument(
        "--results", type=Path, default=Path(tempfile.gettempdir()) / "sktem_scale"
    )
    parser.add_argument("--output", type=Path, default=DOC)
    options = parser.parse_args()
    sizes = tuple(map(int, options.sizes.split(",")))
    if options.quick:
        sizes, options.passes = (100, 1000), 20
    lines = []

    def say(*given):
        print(*given, sep="\n", flush=True)
        lines.extend(given)

    say(describe())
    tables, found = {}, {}
    for n in sizes:
        if "table" in options.parts:
            tables[n] = measure_table(n, options)
        if "curves" in options.parts and (
            LEAST_FOR_CURVES <= n <= options.largest_curve
        ):
            found[n] = measure_curves(n, options)
    say(*HEAD)
    before = None
    for n, result in tables.items():
        say(*result["lines"])
        if n > LARGEST_FOR_PEER and before:
            guess = before[1] * n / before[0]
            name = "pynlme, 300 + 100, extrapolated"
            say(f"{n:7d}{name:>32s}{400:8d}{guess:10.0f}")
        before = (n, result["peer"]) if result["peer"] else None
    for n, result in found.items():
        say(*curve_table(n, result["curves"], options.passes))
    whole = sizes == SIZES and options.parts == "table,curves"
    if whole and not options.quick:
        path = options.output / "tables" / "scale.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        draw(found, options.output / "images" / "scale.png")


if __name__ == "__main__":
    main()
