"""Figure 2 of Karimi and Li: the template of digit 5, epoch by epoch.

All training images of the digit 5 (up to 1,000), from the mean image, with batch SAEM,
online EM, iSAEM, vrTTEM and fitTEM at equal numbers of visited images. Everything is
counted: the pass that fills a memory, the anchors of vrTTEM and the second rows of
fitTEM. An epoch is as many visits as there are images; a second table counts epochs as
the paper does, without those. All solvers have the steps
gamma_k = k^-0.6 of the paper's code, the same batches, and 5 Langevin steps per visit.

With ``--burn-in 7`` the steps are one in the epochs shown, as at the estimator's own
start; ``--rho`` and ``--anchor-passes`` set what the variance-reduced methods leave
open. That is another table, ``template_paper_steps.txt``.

The paper shows pictures only. Here numbers stand beside them: the log-likelihood of
held-out images per pixel by importance sampling, and the sharpness of the template (its
gradient energy over that of the mean image).

Run: ``python benchmarks/paper_template.py``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from image_data import SHAPE, Report, digits, of_digit, picture, sharpness, show_images
from joblib import Parallel, delayed
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.e_step.random import spawn_generators
from sktem.loop.loop import run as run_loop
from sktem.loop.state import RunState
from sktem.schedules import BurnInThenDecay, Polynomial
from sktem.solvers import FITTEM, VRTTEM
from sktem.template.fitted import FittedTemplate

SOLVERS = ("saem", "online", "isaem", "vrttem", "fittem")
NAMES = {
    "saem": "batch SAEM",
    "online": "online EM",
    "isaem": "iSAEM",
    "vrttem": "vrTTEM",
    "fittem": "fitTEM",
}


def solver_of(name, n, options):
    """Return a solver with the settings of the variance-reduced ones."""
    rho = "auto" if options.rho is None else options.rho
    if name == "vrttem":
        length = options.anchor_passes * -(-n // options.batch)
        return VRTTEM(rho=rho, epoch_length=length)
    return FITTEM(rho=rho) if name == "fittem" else name


def steps_of(solver, n, options):
    """Return the steps gamma of a solver."""
    if options.burn_in == 0:
        return Polynomial(alpha=0.6)
    iterations = {
        "saem": 1,
        "vrttem": n / options.batch / 2,
        "fittem": n / options.batch / 2,
    }
    per_epoch = iterations.get(solver, n / options.batch)
    return BurnInThenDecay(n_burn_in=round(options.burn_in * per_epoch), alpha=0.6)


def visits_of(solver, options):
    """Return the passes over the images after 1, 2, ... epochs as the paper counts.

    There an epoch is as many iterations as make up a pass; what fills the memory at
    the start, the anchors and the second rows are not counted.
    """
    k = np.arange(1, options.epochs + 1)
    anchors = -(-k // options.anchor_passes)
    return {"saem": k, "vrttem": k + anchors, "fittem": 2 * k + 1}.get(solver, k + 1)


def run(solver, seed, options):
    """Return what is shown, by the number of passes over the images."""
    X, held_out = of_digit(5, options.images)
    held_out = held_out[: options.held_out]
    mean = X.mean(axis=0).reshape(SHAPE)
    batches = {} if solver == "saem" else {"batch_size": options.batch}
    estimator = DeformableTemplateEstimator(
        SHAPE,
        solver=solver_of(solver, len(X), options),
        step_size=steps_of(solver, len(X), options),
        random_state=seed,
        max_iter=0,
        **batches,
    )
    estimator.fit(X)
    model = estimator._template_settings().model(estimator.grid_, len(X))
    settings = estimator._settings(model, len(X))
    frame, layout = estimator.fitted_.frame, estimator.fitted_.layout
    Y, start = estimator.fitted_.standardised(X), estimator.fitted_.params
    shown = {
        *range(1, options.epochs + 1),
        *visits_of(solver, options),
        options.last,
    }
    found = {}
    state, seconds = RunState(start, spawn_generators(seed)), 0.0
    for passes in sorted(shown):
        # One run, stopped and resumed after exactly so many visits. (A run without an
        # iteration would fill its memory again: it starts anew.)
        if state.solver.iteration == 0:
            state, seconds = RunState(start, spawn_generators(seed)), 0.0
        began = time.process_time()
        run_loop(replace(settings, max_passes=passes), Y, state)
        seconds += time.process_time() - began
        fitted = FittedTemplate.of(frame, layout, model, state.params)
        for name, value in fitted.attributes().items():
            setattr(estimator, name, value)
        template = estimator.templates_[0]
        likelihood = estimator.likelihood_estimates(held_out, n_draws=options.draws)
        found[passes] = (
            template,
            likelihood.log_likelihood.mean() / X.shape[1],
            sharpness(template, mean),
            np.median(likelihood.effective_sample_size),
            seconds,
        )
    return found


def table(report, title, values, epochs, digits=3):
    """Print means over seeds and their spread, a row for each solver."""
    report(title)
    report()
    report("epoch       " + "".join(f"{epoch:10d}" for epoch in epochs))
    for solver in SOLVERS:
        mean, sd = values[solver].mean(axis=0), values[solver].std(axis=0, ddof=1)
        report(f"{NAMES[solver]:12s}" + "".join(f"{m:10.{digits}f}" for m in mean))
        report("  sd        " + "".join(f"{s:10.{digits}f}" for s in sd))
    report()


def compare(report, values, epochs):
    """Print who is ahead, with the standard errors over seeds."""
    n_seeds = len(values["saem"])
    pairs = [(s, "saem") for s in SOLVERS[1:]]
    pairs += [(s, "isaem") for s in ("vrttem", "fittem")]
    report("differences of means (standard errors of the differences over seeds)")
    report()
    report("epoch             " + "".join(f"{epoch:15d}" for epoch in epochs))
    for ours, theirs in pairs:
        gaps = values[ours] - values[theirs]
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(n_seeds)
        cells = (
            f"{mean:+.3f} ({error:.3f})".rjust(15)
            for mean, error in zip(gaps.mean(axis=0), errors, strict=True)
        )
        report(f"{ours:7s}- {theirs:9s}" + "".join(cells))
    report()
    early = slice(1, 4)
    for solver in SOLVERS[1:]:
        gap = (values[solver] - values["saem"])[:, early].mean(axis=1)
        verdict = "yes" if (gap > 0).all() else "NO"
        report(
            f"{NAMES[solver]} ahead of batch SAEM, mean of epochs 2 to 4: {verdict} "
            f"({gap.mean():+.3f}, ahead for {np.sum(gap > 0)} of {n_seeds} seeds)"
        )
    for solver in ("vrttem", "fittem"):
        gap = (values[solver] - values["isaem"])[:, -1]
        error = gap.std(ddof=1) / np.sqrt(n_seeds)
        verdict = "YES" if gap.mean() < -2 * error else "no"
        report(
            f"{NAMES[solver]} behind iSAEM at epoch {epochs[-1]}: {verdict} "
            f"({gap.mean():+.3f}, standard error {error:.3f})"
        )
    report()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--last", type=int, default=15, help="a later epoch")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--burn-in", type=float, default=0, help="epochs with step 1")
    parser.add_argument("--rho", type=float, default=None, help="default: auto")
    parser.add_argument("--anchor-passes", type=int, default=1)
    parser.add_argument("--held-out", type=int, default=160)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    name = "template_paper_steps" if options.burn_in else "template_paper"
    report = Report(None if options.dry_run else name)
    X, held_out = of_digit(5, options.images)
    report(describe())
    report()
    step = (
        f"1 for {options.burn_in:g} epochs, then k^-0.6"
        if options.burn_in
        else "k^-0.6"
    )
    report(
        f"Digit 5 of {digits()[0]}: {len(X)} images, "
        f"{min(len(held_out), options.held_out)} held out, batches of "
        f"{options.batch}, {options.seeds} seeds, steps {step}"
    )
    report(
        f"rho: {options.rho or 'auto'}, passes between anchors: {options.anchor_passes}"
    )
    report()
    cases = [(s, seed) for s in SOLVERS for seed in range(options.seeds)]
    results = Parallel(options.jobs)(
        delayed(run)(solver, seed, options) for solver, seed in cases
    )
    found = dict(zip(cases, results, strict=True))

    def gather(part, passes):
        return {
            s: np.array(
                [
                    [found[s, seed][at][part] for at in passes(s)]
                    for seed in range(options.seeds)
                ]
            )
            for s in SOLVERS
        }

    epochs = range(1, options.epochs + 1)
    later = [*epochs, options.last]
    values = gather(1, lambda solver: later)
    report("EQUAL NUMBERS OF VISITED IMAGES: an epoch is n visits, everything counted")
    report()
    table(
        report, "held-out log-likelihood per pixel, mean and sd of seeds", values, later
    )
    table(report, "sharpness (mean image: 1)", gather(2, lambda _: later), later, 2)
    table(report, "CPU seconds to the epoch", gather(4, lambda _: later), later, 2)
    compare(report, gather(1, lambda solver: epochs), epochs)
    report(
        "EPOCHS OF THE PAPER: n / b iterations; anchors, second rows, start not counted"
    )
    report()

    def paper(solver):
        return visits_of(solver, options)

    values = gather(1, paper)
    table(
        report,
        "held-out log-likelihood per pixel, mean and sd of seeds",
        values,
        epochs,
    )
    table(report, "sharpness (mean image: 1)", gather(2, paper), epochs, 2)
    compare(report, values, epochs)
    sizes = np.concatenate([part.ravel() for part in gather(3, paper).values()])
    report(
        f"importance sampling: {options.draws} draws, effective sample sizes (medians "
        f"over images) {sizes.min():.0f} to {sizes.max():.0f}"
    )
    if not options.dry_run and not options.burn_in:
        mean = X.mean(axis=0)
        rows = [
            [mean, *(found[solver, 0][epoch][0] for epoch in epochs)]
            for solver in SOLVERS
        ]
        columns = ["start", *(f"epoch {epoch}" for epoch in epochs)]
        show_images(
            rows,
            [NAMES[solver] for solver in SOLVERS],
            picture("paper_template"),
            columns=columns,
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
