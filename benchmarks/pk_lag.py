"""Pharmacokinetics with a lag time: SAEM, iSAEM, vrTTEM and fitTEM by epochs.

The study of Karimi and Li (2021, full version) with the settings of their code: 5,000
subjects with 10 observations each, one chain with two proposals of the prior, two moves
of each coordinate and two of all per visit, batches of half of the subjects (in turn
for iSAEM, random for the others), rho = 0.1, step 1, covariance I at the start.
The default rho, 0.63, is shown as well. Sampling times, dose and weights are not
stated there; here they are 0.5 to 24 h, 100 and 20 % around the mean.

The authors' sampler moves the chains for five sweeps at the starting parameters before
the first statistics are taken; so it is done here. Their figure ends after 15 epochs;
here it continues to 50, where their steps begin to fall.

An epoch is n / b iterations, as in the paper, which counts neither the initial pass,
nor the anchors of vrTTEM, nor the second index set of fitTEM; the visits count them
all, and the five sweeps. Shown are the mean over data sets of ``(ka - 1)^2``, which
cannot fall below the information of the data on ka, and of ``(ka - ka*)^2``, where ka*
is the maximum-likelihood estimate, from SAEM with averaging.

Prints the tables, and unless ``--quick`` writes them to ``doc/tables`` and the picture
to ``doc/images``. Data sets are kept in a folder and not computed again, so that a run
can be continued.
Usage: ``python benchmarks/pk_lag.py [--data-sets 50] [--minutes 60] [--quick]``
"""

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe

from sktem import NonlinearMixedEffectsRegressor
from sktem.models import STRUCTURAL_MODELS
from sktem.samplers import ComponentWalk
from sktem.solvers import FITTEM, VRTTEM

DOC = Path(__file__).resolve().parents[1] / "doc"
TIMES = np.array([0.5, 1.25, 1.75, 2.5, 4.0, 6.0, 9.0, 12.0, 18.0, 24.0])
START = {"lag": 0.2, "ka": 3.0, "V": 10.0, "CL": 2.0}
#: Population values of the simulation; CL is k V with k = 0.1.
TRUTH = {"lag": 1.0, "ka": 1.0, "V": 8.0, "k": 0.1}
#: V and CL = k V are correlated.
PATTERN = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
N_EPOCHS = 50
SHOWN_EPOCHS = (1, 2, 5, 10, 15, 25, 35, 50)
SHOWN_VISITS = (8, 10, 12, 15, 20, 30, 40, 50)
SWEEPS = 5
METHODS = {
    "SAEM": ("saem", "auto"),
    "iSAEM": ("isaem", "auto"),
    "vrTTEM, rho 0.1": ("vrttem", 0.1),
    "fitTEM, rho 0.1": ("fittem", 0.1),
    "vrTTEM": ("vrttem", "auto"),
    "fitTEM": ("fittem", "auto"),
}
COLOURS = ("tab:olive", "tab:orange", "tab:red", "tab:purple", "tab:red", "tab:purple")
#: What counts as time, and where the errors are looked at.
LABELS = "epochs, as in the paper", "visits of each subject, all counted"
GRIDS = np.arange(1, N_EPOCHS + 1), np.arange(SWEEPS + 1, N_EPOCHS + SWEEPS + 1)
#: Published means of (ka - 1)^2 after 1, 5, 10 and 15 epochs (figure data).
PUBLISHED = {
    "SAEM": (1.384, 1.358, 0.0964, 0.0579),
    "iSAEM": (2.247, 0.2203, 0.1111, 0.0812),
    "vrTTEM": (0.0323, 0.0628, 0.0500, 0.0299),
    "fitTEM": (0.0138, 0.0104, 0.0116, 0.0113),
}


class SettledWalk(ComponentWalk):
    """A walk whose chains begin with some sweeps at the starting parameters."""

    warm_up = SWEEPS


class Regressor(NonlinearMixedEffectsRegressor):
    """The estimator, with a choice of how batches are drawn."""

    sampling = "fixed"


class InTurn(Regressor):
    """Batches are visited in turn."""

    sampling = "shuffle"


def simulate(n, seed):
    """Return X (dose, time, logarithm of the weight ratio), y and groups."""
    rng = np.random.default_rng(seed)
    weight = 0.2 * rng.standard_normal(n)
    effects = [0.4, 0.5, 0.2, 0.3] * rng.standard_normal((n, 4))
    effects[:, 2] += weight
    groups = np.repeat(np.arange(n), len(TIMES))
    values = np.array(list(TRUTH.values())) * np.exp(effects)
    psi = dict(zip(TRUTH, values[groups].T, strict=True))
    psi["CL"] = psi["k"] * psi["V"]
    X = np.column_stack(
        [np.full(len(groups), 100.0), np.tile(TIMES, n), weight[groups]]
    )
    f = STRUCTURAL_MODELS["one_compartment_oral_lag"].function(psi, X)
    return X, f + np.sqrt(0.5) * rng.standard_normal(len(f)), groups


def estimator(kind, **options):
    """Return an estimator of the study's model."""
    return kind(
        "one_compartment_oral_lag", parameters=START, omega=PATTERN, omega_start=1.0,
        covariates={"V": [2], "CL": [2]}, tol=0, **options,
    )  # fmt: skip


def path(data, solver, rho, seed):
    """Return ka after each epoch, and the visits of each subject until then."""
    X, y, groups = data
    options = {} if solver == "saem" else {"batch_size": (groups.max() + 1) // 2}
    reduced = {"vrttem": VRTTEM(rho=rho), "fittem": FITTEM(rho=rho)}
    per_epoch = 2 if solver in reduced else 1
    fit = estimator(
        InTurn if solver == "isaem" else Regressor, solver=reduced.get(solver, solver),
        sampler=SettledWalk(n_prior=2, n_component=2, n_block=2), annealing=False,
        n_burn_in=3 * N_EPOCHS, step_size=1.0, max_iter=per_epoch * N_EPOCHS + 1,
        random_state=seed, **options,
    ).fit(X, y, groups=groups)  # fmt: skip
    visits = np.array(fit.history_.passes) + SWEEPS
    return np.exp(fit.trace_["ka"]), visits


def maximum(data, seed):
    """Return the maximum-likelihood estimate of ka and its Monte Carlo error."""
    X, y, groups = data
    fit = estimator(Regressor, max_iter=250, random_state=1000 + seed)
    fit.fit(X, y, groups=groups)
    return fit.population_parameters_["ka"], fit.monte_carlo_errors_["ka"]


def at(visits, values, points):
    """Return values at some numbers of visits, of the start before the first."""
    last = np.searchsorted(visits, np.asarray(points) + 1e-9, side="right") - 1
    return np.where(last < 0, START["ka"], values[np.maximum(last, 0)])


def one_data_set(n_subjects, seed):
    """Return ka and visits of each method, and the maximum."""
    data = simulate(n_subjects, seed)
    paths = {name: path(data, *METHODS[name], seed) for name in METHODS}
    found: dict = {name: [v.tolist() for v in paths[name]] for name in METHODS}
    return found | {"maximum": list(map(float, maximum(data, seed)))}


def run(n_data_sets, n_subjects, results=None, minutes=np.inf):
    """Return ka of each method by (epochs, visits), and the maxima."""
    begin = time.perf_counter()
    found: dict = {name: [] for name in METHODS}
    best = []
    for seed in range(n_data_sets):
        kept = None if results is None else results / f"{n_subjects}-{seed}.json"
        if kept is not None and kept.exists():
            one = json.loads(kept.read_text())
        elif time.perf_counter() - begin > 60 * minutes:
            break
        else:
            one = one_data_set(n_subjects, seed)
            print(f"{seed + 1} data sets, {time.process_time():.0f} CPU s", flush=True)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(one))
        best.append(one["maximum"])
        for name in METHODS:
            ka, visits = map(np.array, one[name])
            found[name].append((ka[:N_EPOCHS], at(visits, ka, GRIDS[1])))
    stacked = {
        name: tuple(np.array(part) for part in zip(*paths, strict=True))
        for name, paths in found.items()
    }
    return stacked, np.array(best)


def squares(ka, target):
    """Return the mean over data sets of the squared error and its standard error."""
    values = (ka - target) ** 2
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else 0 * values[0]
    return values.mean(axis=0), spread / np.sqrt(len(values))


def tables(found, best):
    """Return the lines of all tables."""
    estimate = best[:, :1]
    floor = np.mean((estimate - 1) ** 2)
    lines = [
        f"The maximum-likelihood estimates have (ka - 1)^2 = {floor:.1e} in the mean; "
        f"their Monte Carlo error is {np.median(best[:, 1]):.1e}",
        "",
        "Published, (ka - 1)^2 after 1, 5, 10 and 15 epochs, mean of 50 data sets",
    ]
    for name, values in PUBLISHED.items():
        lines.append(f"{name:18s}" + "".join(f"{value:>10.2g}" for value in values))
    for what, target in (("(ka - 1)^2", 1.0), ("(ka - ka*)^2", estimate)):
        for part, points in enumerate((SHOWN_EPOCHS, SHOWN_VISITS)):
            lines += ["", f"{what} by {LABELS[part]}: mean (standard error)"]
            lines.append(" " * 18 + "".join(f"{point:>18d}" for point in points))
            for name in METHODS:
                mean, error = squares(found[name][part], target)
                chosen = np.searchsorted(GRIDS[part], points)
                cells = "".join(
                    f"{f'{mean[c]:.2g} ({error[c]:.1g})':>18s}" for c in chosen
                )
                lines.append(f"{name:18s}{cells}")
    return lines


def verdict(found, best):
    """Return the lines that say whether the order of the paper shows."""
    new = list(METHODS)[2:]
    lines = [
        "",
        "Mean over some epochs or visits, divided by that of SAEM or iSAEM, the lower "
        "one: below 1 is the order of the paper",
        " " * 38 + "".join(f"{name:>18s}" for name in new),
    ]
    for part, label in enumerate(("epochs", "visits")):
        for first, last in ((10, 15), (26, 50)):
            chosen = (GRIDS[part] >= first) & (GRIDS[part] <= last)
            for what, target in (("(ka - 1)^2", 1.0), ("(ka - ka*)^2", best[:, :1])):
                mean = {
                    name: squares(found[name][part][:, chosen], target)[0].mean()
                    for name in METHODS
                }
                least = min(mean["SAEM"], mean["iSAEM"])
                cells = "".join(f"{mean[name] / least:18.2g}" for name in new)
                lines.append(f"{what:14s}{f'{label} {first} to {last}':24s}{cells}")
    return lines


def draw(found, best, target):
    """Draw both squared errors for both ways to count."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, 2, figsize=(9, 6.4), sharey="row", layout="constrained"
    )
    for row, what, truth in zip(
        axes, ("(ka - 1)²", "(ka - ka*)²"), (1.0, best[:, :1]), strict=True
    ):
        for part, axis in enumerate(row):
            for (name, (_, rho)), colour in zip(METHODS.items(), COLOURS, strict=True):
                mean, error = squares(found[name][part], truth)
                style = "--" if rho == 0.1 else "-"
                axis.plot(GRIDS[part], mean, style, color=colour, label=name)
                axis.fill_between(
                    GRIDS[part], np.maximum(mean - error, mean / 10), mean + error,
                    color=colour, alpha=0.15, linewidth=0,
                )  # fmt: skip
            axis.set(yscale="log", xlabel=LABELS[part], xlim=(0, N_EPOCHS))
            axis.grid(alpha=0.3)
        row[0].set_ylabel(what)
    floor = np.mean((best[:, 0] - 1) ** 2)
    for axis in axes[0]:
        axis.axhline(floor, color="0.3", linewidth=1, linestyle=":")
    published = np.array(list(PUBLISHED.values()))
    for values, name in zip(published, PUBLISHED, strict=True):
        colour = COLOURS[[n.startswith(name) for n in METHODS].index(True)]
        axes[0, 0].plot((1, 5, 10, 15), values, "x", color=colour, markersize=5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=50)
    parser.add_argument("--subjects", type=int, default=5000)
    parser.add_argument(
        "--minutes", type=float, default=np.inf, help="no new data sets after these"
    )
    parser.add_argument("--quick", action="store_true", help="3 sets of 500 subjects")
    parser.add_argument(
        "--results", type=Path, default=Path(tempfile.gettempdir()) / "sktem_pk_lag"
    )
    parser.add_argument("--output", type=Path, default=DOC)
    options = parser.parse_args()
    if options.quick:
        options.data_sets, options.subjects = 3, 500
    warnings.simplefilter("ignore")
    machine = describe()
    print(machine)
    results = None if options.quick else options.results
    found, best = run(options.data_sets, options.subjects, results, options.minutes)
    lines = [f"{len(best)} data sets of {options.subjects:,} subjects. "]
    lines[0] += tables(found, best)[0]
    lines += tables(found, best)[1:] + verdict(found, best)
    print("\n".join(["", *lines]))
    if not options.quick:
        table = options.output / "tables" / "pk_lag.txt"
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("\n".join([machine, "", *lines]) + "\n")
        draw(found, best, options.output / "images" / "pk_lag.png")


if __name__ == "__main__":
    main()
