"""The mini-batch law of Kuhn, Matias and Rebafka (2020).

When every image is visited with probability a at each iteration, the others keep their
last draws, and the steps are the same, the variance of the estimates grows like (2 - a)
/ a. That is what the average of remembered draws gives: an image's draw stays for a
geometric number of iterations, so that the sum of its autocorrelations is (2 - a) / a.
That is the limit of steps that vanish, with draws that are independent from visit to
visit. "Corrected" is what remains of it with steps gamma and with draws that keep the
correlation r: the variance of an average with steps gamma of a sequence with
autocorrelations phi^k, phi = 1 - a (1 - r), is as (1 + f) / (1 - f), with f = phi (1 -
gamma).

Images of 8 x 8 pixels are simulated from the model once. Runs of iSAEM with
independent inclusion of images (mini-batch SAEM) start from one long run's estimate,
each with other random numbers, with steps (k + 500)^-0.6: small ones, since the law is
about their limit, with the exponent of the paper. The variance across
runs is that of the template's pixels, of the log-variance of the noise and of the
log-variances of the deformations, over the second half of the iterations, each divided
by its value at a = 1, and averaged.

Run: ``python benchmarks/template_minibatch.py``.
"""

from __future__ import annotations

import argparse
import copy
import time

import numpy as np
from image_data import Report, picture
from machine import describe
from threadpoolctl import threadpool_limits

from sktem.e_step.random import spawn_generators
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.samplers import DeformationMALA
from sktem.schedules import BurnInThenDecay, Polynomial
from sktem.solvers import ISAEM, FullBatch
from sktem.template.geometry.grid import ImageGrid
from sktem.template.model.model import DeformableTemplateModel, TemplateParams
from sktem.template.model.priors import TemplatePriors

SIDE, NOISE = 8, 0.2
FRACTIONS = (1.0, 0.5, 0.2, 0.1, 0.05)
#: Iterations between records, whole epochs of all fractions.
SPACING = 20
#: Delay of the steps: those of the first iterations of k^-0.6 are so large that the
#: statistics are the memory's, whose variance does not depend on a.
OFFSET = 500


def new_model(n_rows):
    """Return the geometry and the model of small images."""
    grid = ImageGrid((SIDE, SIDE), (7, 7), (3, 3), 1.6, 3.0)
    priors = TemplatePriors(0.5, strength=5.0, template_scale=3.0)
    return DeformableTemplateModel(grid, priors, n_rows=n_rows, start_at_mode=True)


def simulate(model, n_rows):
    """Return images of a deformed ring, and the parameters behind them."""
    grid, rng = model.grid, np.random.default_rng(0)
    radius = np.sqrt((grid.pixels**2).sum(axis=0))
    ring = np.exp(-((radius - 2.2) ** 2) / 1.5)
    design = np.stack([grid.template_at(one) for one in np.eye(grid.n_template)], 1)
    gram = design.T @ design + 1e-3 * np.eye(grid.n_template)
    beta = np.linalg.solve(gram, design.T @ ring)
    covariance = model.priors.deformation_covariance(grid)
    factor = np.linalg.cholesky(covariance)
    Z = rng.standard_normal((n_rows, grid.n_latents)) @ factor.T
    fields = grid.field(Z).reshape(n_rows, 2, -1)
    X = np.stack([grid.template_at(beta, grid.pixels - field) for field in fields])
    X += NOISE * rng.standard_normal(X.shape)
    params = TemplateParams(
        np.ones(1), beta[None], covariance[None], np.array([NOISE**2])
    )
    return X, params


def summary(model, params):
    """Return what is estimated: pixels, log-noise and log-variances."""
    return np.concatenate(
        [
            model.grid.template_at(params.coefficients[0]),
            np.log(params.noise_variances),
            np.log(np.diag(params.covariances[0])),
        ]
    )


def settings(model, solver, step_size, passes, batch_size, options):
    """Return the settings of a run."""
    return RunSettings(
        model=model,
        sampler=DeformationMALA(n_steps=options.steps),
        solver=solver,
        step_size=step_size,
        batch_size=batch_size,
        sampling="inclusion",
        max_passes=passes,
        tol=0.0,
        monitor=False,
    )


class _Records:
    """Keeps estimates of the second half, and ends a run after so many iterations."""

    def __init__(self, model, iterations):
        self.model = model
        self.iterations = iterations
        self.values = []

    def __call__(self, state):
        k = state.solver.iteration
        if k % SPACING == 0 and 2 * k >= self.iterations:
            # Variances fall like gamma: divided by it they can be averaged.
            self.values.append(summary(self.model, state.params) / (k + OFFSET) ** -0.3)
        return k >= self.iterations


def estimates(model, X, long_run, fraction, seeds, options):
    """Return the estimates of runs, (seeds, records, parameters).

    All go on from the same statistics and draws: noise of the start would be the same
    for all fractions, and slow directions would remember it.
    """
    batch = round(fraction * len(X))
    # Batches have random sizes: more passes than are needed, and a stop by iterations.
    passes = 2 + 2 * options.iterations * fraction
    parts = settings(
        model, ISAEM(), Polynomial(alpha=0.6, offset=OFFSET), passes, batch, options
    )
    first = RunState(long_run.params, spawn_generators(0))
    run(parts, X, first, on_epoch=lambda state: True)
    first.params, first.stopped = long_run.params, False
    first.solver.s = first.solver.S_tts = long_run.solver.s
    found = []
    for seed in seeds:
        state = copy.deepcopy(first)
        state.generators = spawn_generators(seed)
        records = _Records(model, options.iterations)
        run(parts, X, state, on_epoch=records)
        if state.solver.iteration < options.iterations:
            raise RuntimeError("a run ended early")
        found.append(records.values)
    return np.array(found)


def correlation(model, X, params, options):
    """Return the correlation of statistics between consecutive visits."""
    generators = spawn_generators(99)
    sampler = DeformationMALA(n_steps=options.steps)
    Z = sampler.start(model, X, params, None)
    draws = []
    for k in range(400):
        Z, _ = sampler.draw(model, X, Z, params, generators)
        if k >= 100:
            draws.append(
                [model.mean_statistics(X[i : i + 1], Z[i : i + 1, 0]) for i in range(8)]
            )
    draws = np.array(draws)
    draws = draws[..., draws.std(axis=(0, 1)) > 1e-9 * np.abs(draws).max()]
    centred = draws - draws.mean(axis=0)
    products = (centred[1:] * centred[:-1]).mean(axis=0)
    return float(np.median(products / np.maximum((centred**2).mean(axis=0), 1e-300)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--steps", type=int, default=10, help="transitions per visit")
    parser.add_argument("--fractions", type=float, nargs="+", default=FRACTIONS)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    began = time.process_time()
    report = Report(None if options.dry_run else "template_minibatch")
    report(describe())
    report()
    model = new_model(options.images)
    X, truth = simulate(model, options.images)
    long_run = RunState(truth, spawn_generators(1))
    run(
        settings(
            model, FullBatch(), BurnInThenDecay(n_burn_in=100), 400, len(X), options
        ),
        X,
        long_run,
    )
    start = long_run.params
    r = correlation(model, X, start, options)
    report(
        f"{len(X)} simulated images of {SIDE} x {SIDE} pixels, {options.seeds} runs of "
        f"{options.iterations} iterations, {options.steps} Langevin steps per visit, "
        f"correlation between visits {r:.2f}"
    )
    report()
    found = {
        a: estimates(model, X, long_run, a, range(1, options.seeds + 1), options)
        for a in options.fractions
    }
    n_pixels = SIDE**2
    groups = {
        "template": slice(0, n_pixels),
        "noise": slice(n_pixels, n_pixels + 1),
        "deformation": slice(n_pixels + 1, None),
    }
    gammas = (np.arange(options.iterations) + 1 + OFFSET) ** -0.6
    gamma = gammas[len(gammas) // 2 :].mean()
    base = found[1.0]
    report(
        "variance across runs over that at a = 1; its standard error by the jackknife"
    )
    report()
    report(
        "     a   (2-a)/a  corrected       all (error)       template      noise  "
        "deformation"
    )
    curve = []
    for a, values in found.items():
        law = (2 - a) / a
        corrected = finite_law(a, r, gamma) / finite_law(1.0, r, gamma)
        error = 0.0 if a == 1 else jackknife(values, base)
        curve.append((a, law, corrected, mean_ratio(values, base), error))
        parts = [mean_ratio(values[:, :, p], base[:, :, p]) for p in groups.values()]
        line = f"{a:6.2f}{law:10.2f}{corrected:11.2f}{curve[-1][3]:10.2f} ({error:.2f})"
        report(f"{line:45s}" + "".join(f"{part:11.2f}" for part in parts))
    curve = np.array(curve)
    slope, corrected_slope = (
        np.polyfit(np.log(curve[:, part]), np.log(curve[:, 3]), 1)[0] for part in (1, 2)
    )
    report()
    report(
        f"slope of the log-variance against the log of the law {slope:.2f}, of the "
        f"corrected law {corrected_slope:.2f} (both 1 in theory)"
    )
    report(f"{time.process_time() - began:.0f} CPU s")
    if not options.dry_run:
        draw(curve, picture("template_minibatch"))


def finite_law(a, r, gamma):
    """Return the inflation for steps gamma and draws with correlation r."""
    f = (1 - a * (1 - r)) * (1 - gamma)
    return (1 + f) / (1 - f)


def mean_ratio(values, base):
    """Return the ratio of variances over runs, a mean over parameters."""
    ours, theirs = (v.var(axis=0, ddof=1).mean(axis=0) for v in (values, base))
    return float((ours / theirs).mean())


def jackknife(values, base):
    """Return the standard error of the ratio over runs of both."""
    total = 0.0
    for first, second in ((True, False), (False, True)):
        n = len(values if first else base)
        left_out = [
            mean_ratio(
                np.delete(values, i, axis=0) if first else values,
                np.delete(base, i, axis=0) if second else base,
            )
            for i in range(n)
        ]
        total += (n - 1) * np.var(left_out)
    return float(np.sqrt(total))


def draw(curve, path):
    """Draw variances and laws against the fraction."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    a, law, corrected, inflation, error = curve.T
    figure, axis = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    axis.errorbar(
        a, inflation, yerr=2 * error, fmt="o", color="tab:red", capsize=3,
        label="runs, with two standard errors",
    )  # fmt: skip
    grid = np.geomspace(a.min(), 1, 100)
    axis.plot(grid, (2 - grid) / grid, "-", color="0.3", label=r"$(2 - a) / a$")
    order = np.argsort(a)
    axis.plot(
        a[order],
        corrected[order],
        ":",
        color="0.3",
        label="for steps that are not small",
    )
    axis.plot(grid, 1 / grid, "--", color="0.7", label=r"$1 / a$")
    axis.set(
        xscale="log", yscale="log", xlabel="fraction a of images visited per iteration",
        ylabel="variance of the estimates, a = 1 is 1",
    )  # fmt: skip
    axis.legend(frameon=False)
    axis.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
