"""Langevin steps: how far ULA and MALA can go, on the problems of a paper.

After Gruffaz, Kim, Durmus and Gardner (2024), with the settings of their code: SAEM
with 5 transitions per iteration, one chain and steps ``k ** -0.5``, over a grid of
Langevin steps eta (their h is 2 eta), without adaptation. Starts, transitions before
the first iteration and preconditioner (of ARD) are theirs; iterations are 100, 100, 200
(theirs 1,000) and 400 (theirs 2,000), on synthetic data, counts, theophylline and ARD.
M-steps are exact. Four samplers:

- ULA with the guard of the package, which restores and halves the step of a row that
  explodes;
- bare ULA, without it;
- MALA with an accept test per row (per subject, per count), as the package has it;
- joint MALA, with one test for all rows, as the authors have it. Where all data share
  one latent vector this is the same as MALA.

The quality is the loss against the maximum-likelihood solution, not the distance to
generating values. A step is usable if its median loss is at most twice the best one,
or one unit of log-likelihood of all data. Shown are median and 10 to 90 % band over
trials, with what fails: the share of trials in which bare ULA ended in no number, how
often the guard acted, and the acceptance of MALA in the last fifth.

Prints the tables, and unless ``--quick`` writes them to ``doc/tables`` and the picture
to ``doc/images``. Trials are kept in a folder and not computed again, so that
problems can be run one by one (``--problems medpar,azpro``); the report is written by a
run with all of them.
Usage: ``python benchmarks/langevin_stability.py [--problems ...] [--quick]``
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
from langevin_problems import PROBLEMS
from langevin_samplers import SAMPLERS
from machine import describe

DOC = Path(__file__).resolve().parents[1] / "doc"
#: Steps are usable if the median loss is at most this many times the best of all, or
#: at most the tolerance of the problem; the same factor is used for the own best.
USABLE = 2.0
COLOURS = {
    "ULA": "tab:blue",
    "bare ULA": "tab:cyan",
    "MALA": "tab:red",
    "joint MALA": "tab:orange",
}
STYLES = {"ULA": "-", "bare ULA": ":", "MALA": "-", "joint MALA": "--"}


def one_run(problem, sampler, trial):
    """Return (loss, times that the guard acted, acceptance at the end)."""
    try:
        loss, history = problem.run(sampler, trial)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        # What follows from parameters that are no numbers.
        return np.inf, 0, 1.0
    loss = loss if np.isfinite(loss) else np.inf
    rates = history.acceptance_rate[-max(len(history) // 5, 1) :]
    return float(loss), history.events["ula_restored"], float(np.mean(rates))


def results_of(key, n_trials, n_etas, kept):
    """Return all runs of a problem, computed or kept, trial by trial."""
    result = {"trials": []}
    if kept is not None and kept.exists():
        result = json.loads(kept.read_text())
        if len(result["trials"]) >= (n_trials or result["wanted"]):
            return result
    problem = PROBLEMS[key]()
    etas = problem.etas
    if n_etas:
        etas = etas[np.linspace(0, len(etas) - 1, n_etas).round().astype(int)]
    result |= {
        "name": problem.name, "loss": problem.loss, "tolerance": problem.tolerance,
        "wanted": problem.trials, "etas": list(map(float, etas)),
    }  # fmt: skip
    for trial in range(len(result["trials"]), n_trials or problem.trials):
        result["trials"].append({
            name: [
                one_run(problem, SAMPLERS[name](step=eta, n_steps=5), trial)
                for eta in etas
            ]
            for name in problem.samplers
        })  # fmt: skip
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(result))
    return result


def runs_of(result):
    """Return the runs of each sampler, an array by step, trial and what was seen."""
    return {
        name: np.array([trial[name] for trial in result["trials"]]).swapaxes(0, 1)
        for name in result["trials"][0]
    }


def number(value):
    """Return a short form of a loss."""
    return "none" if not np.isfinite(value) else f"{value:.2g}"


def quantiles(losses):
    """Return the 10 %, 50 % and 90 % points of each row, infinite ones included."""
    return np.array([
        np.quantile(losses, 0.1, axis=1, method="lower"),
        np.median(losses, axis=1),
        np.quantile(losses, 0.9, axis=1, method="higher"),
    ])  # fmt: skip


def steps_below(result, losses, bound):
    """Return the range of steps whose loss is at most a bound, in words."""
    good = np.array(result["etas"])[losses <= bound]
    if len(good) == 0:
        return "nowhere"
    return f"{good[0]:.2g} to {good[-1]:.2g} ({len(good)} steps)"


def table(result):
    """Return the lines of a problem."""
    runs = runs_of(result)
    names, n_trials = list(runs), len(result["trials"])
    title = f"{result['name']}: loss of {result['loss']}"
    if "distance" in result["loss"]:
        title = f"{result['name']}: {result['loss']}"
    lines = ["", f"{title}, {n_trials} trials"]
    extra = {"ULA": "restored", "bare ULA": "diverged", "MALA": "accepted",
             "joint MALA": "accepted"}  # fmt: skip
    head = "".join(f"{name:>29s}{extra[name]:>10s}" for name in names)
    lines.append(f"{'eta':>8s}" + head)
    points = {name: quantiles(values[..., 0]) for name, values in runs.items()}
    for j, eta in enumerate(result["etas"]):
        line = f"{eta:8.2g}"
        for name in names:
            low, middle, high = map(number, points[name][:, j])
            line += f"{f'{middle} [{low}, {high}]':>29s}"
            losses, restored, accepted = runs[name][j].T
            if name == "ULA":
                line += f"{restored.mean():10.0f}"
            elif name == "bare ULA":
                line += f"{np.mean(~np.isfinite(losses)):10.0%}"
            else:
                line += f"{accepted.mean():10.2f}"
        lines.append(line)
    best = {name: values[1].min() for name, values in points.items()}
    bound = max(USABLE * min(best.values()), result["tolerance"])
    if "distance" in result["loss"] and min(best.values()) > 1:
        lines.append("no step of any sampler comes near the solution")
        return lines
    lines.append(f"usable, median at most {bound:.2g}, and near the own best:")
    for name in names:
        usable = steps_below(result, points[name][1], bound)
        near = steps_below(result, points[name][1], USABLE * best[name])
        text = f"best {number(best[name])}, usable {usable}, near it {near}"
        lines.append(f"  {name:12s}{text}")
    return lines


def draw(results, path):
    """Draw the loss against the step, one panel per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for axis, result in zip(axes.flat, results, strict=False):
        all_runs = runs_of(result)
        values = {name: quantiles(runs[..., 0]) for name, runs in all_runs.items()}
        everything = np.concatenate([v.ravel() for v in values.values()])
        sound = everything[np.isfinite(everything) & (everything > 0)]
        bottom = max(sound.min() * 0.7, sound.max() * 1e-8)
        top = min(sound.max(), sound.min() * 1e6) * 3
        etas = np.array(result["etas"])
        for name, (low, middle, high) in values.items():
            shown = [np.clip(v, bottom, top) for v in (low, middle, high)]
            axis.plot(etas, shown[1], STYLES[name], color=COLOURS[name], label=name)
            axis.fill_between(
                etas, shown[0], shown[2], color=COLOURS[name], alpha=0.15, linewidth=0
            )
            runs = all_runs[name]
            diverged = np.mean(~np.isfinite(runs[..., 0]), axis=1) > 0.5
            guarded = np.median(runs[..., 1], axis=1) > 0
            frozen = runs[..., 2].mean(axis=1) < 0.01
            for which, marker in ((diverged, "x"), (guarded, "^"), (frozen, "s")):
                axis.plot(
                    etas[which], shown[1][which], marker, color=COLOURS[name],
                    markersize=6, markerfacecolor="none",
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", ylim=(bottom, top), xlabel="step eta")
        axis.set_title(result["name"].split(" (")[0], fontsize=10)
        axis.set_ylabel(result["loss"], fontsize=8)
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    lines = [
        plt.Line2D([], [], color=COLOURS[name], linestyle=STYLES[name], label=name)
        for name in COLOURS
    ]
    for marker, text in (("x", "no number"), ("^", "guard acted"), ("s", "frozen")):
        lines.append(
            plt.Line2D([], [], color="0.3", linestyle="", marker=marker,
                       markerfacecolor="none", label=text)
        )  # fmt: skip
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=72)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--trials", type=int, default=0, help="0: each its own number")
    parser.add_argument("--quick", action="store_true", help="few steps and trials")
    parser.add_argument(
        "--results", type=Path,
        default=Path(tempfile.gettempdir()) / "sktem_langevin_stability",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, default=DOC)
    options = parser.parse_args()
    keys, n_etas = options.problems.split(","), 0
    if options.quick:
        keys, options.trials, n_etas = ["synthetic", "medpar", "theo-near"], 2, 3
    warnings.simplefilter("ignore")
    machine = describe()
    print(machine)
    results = []
    for key in keys:
        kept = None if options.quick else options.results / f"{key}.json"
        result = results_of(key, options.trials, n_etas, kept)
        results.append(result)
        print("\n".join(table(result)), flush=True)
    if not options.quick and keys == list(PROBLEMS):
        lines = [line for result in results for line in table(result)]
        path = options.output / "tables" / "langevin_stability.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([machine, *lines]) + "\n")
        draw(results, options.output / "images" / "langevin_stability.png")


if __name__ == "__main__":
    main()
