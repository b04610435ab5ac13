"""Latent classes from the same start: ``StochasticEMMixture`` and StepMix.

Categorical columns (ten of four labels; six, a survey in which most rows are copies),
and five of them beside five columns of numbers that are normal given the class; five
classes; 1,000 to 100,000 rows that are drawn from such a model. Both begin with
StepMix's random responsibilities and do 50
passes of EM. Printed are the largest differences of the weights, of the parameters and
of the posterior probabilities of 1,000 rows, and the processor time of a fit, the
median of three that take turns (of 100,000 rows one). "By parts" is the time of ours
without the one loop for labels, densities and statistics being computed one after the
other, over ours.
StepMix is not a dependency: ``pip install stepmix``.
Run: ``OMP_NUM_THREADS=1 python benchmarks/peer_stepmix.py [--small]``; the table is
written to ``doc/tables/peer_stepmix.txt`` without ``--small``. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from machine import describe
from stepmix.stepmix import StepMix

import sktem.mixture.emission_model as passes
from sktem import StochasticEMMixture
from sktem.emissions import Categorical, Columns, Gaussian

CLASSES, LABELS, PASSES = 5, 4, 50


def drawn(n, kind):
    """Return rows: categorical columns first, then numbers."""
    rng = np.random.default_rng(0)
    state = rng.integers(CLASSES, size=n)
    columns = []
    for _ in range({"categorical": 10, "survey": 6, "mixed": 5}[kind]):
        rates = rng.dirichlet(np.ones(LABELS), CLASSES).cumsum(axis=1)[state]
        code = (rng.random((n, 1)) > rates).sum(axis=1)
        columns.append(np.minimum(code, LABELS - 1))
    if kind == "mixed":
        means = 2 * rng.normal(size=(CLASSES, 5))
        columns += list((means[state] + rng.normal(size=(n, 5))).T)
    return np.column_stack(columns).astype(float)


def peer(kind):
    """Return StepMix with a random start and a given number of passes."""
    measurement = "categorical"
    if kind == "mixed":
        measurement = {
            "labels": {"model": "categorical", "n_columns": 5},
            "numbers": {"model": "gaussian_diag", "n_columns": 5},
        }
    return StepMix(
        CLASSES,
        measurement=measurement,
        init_params="random",
        max_iter=PASSES,
        abs_tol=0.0,
        rel_tol=0.0,
        random_state=0,
        verbose=0,
        progress_bar=0,
    )


def own(kind, responsibilities):
    """Return the mixture from given responsibilities, and equal weights as StepMix."""
    responsibilities = responsibilities / responsibilities.mean(axis=0)
    emission = Categorical(LABELS)
    if kind == "mixed":
        emission = Columns(
            [
                ("labels", emission, slice(0, 5)),
                ("numbers", Gaussian("diag", reg_covar=1e-6), slice(5, 10)),
            ]
        )
    return StochasticEMMixture(
        CLASSES,
        emission=emission,
        init_params=lambda X, K, random_state: responsibilities,
        init_size=None,
        max_iter=PASSES,
        tol=0.0,
    )


def seconds_of(fit):
    """Return processor seconds."""
    begun = time.process_time()
    fit()
    return time.process_time() - begun


def by_parts(fit):
    """Fit without the loop for columns of labels."""
    loop, passes.expected_with_labels = passes.expected_with_labels, lambda *rows: None
    try:
        fit()
    finally:
        passes.expected_with_labels = loop


def parameters(theirs, ours, kind):
    """Return both sets of parameters, in one order."""
    if kind != "mixed":
        found = theirs.get_parameters()["measurement"]["pis"]
        return found, ours.params_.probabilities.reshape(CLASSES, -1)
    numbers = theirs.get_parameters()["measurement"]["numbers"]
    one, two = ours.params_.blocks
    pis = theirs.get_parameters()["measurement"]["labels"]["pis"]
    covariances = np.asarray(numbers["covariances"])
    if covariances.ndim == 3:
        covariances = np.diagonal(covariances, axis1=1, axis2=2)
    return (
        np.hstack([pis, numbers["means"], covariances]),
        np.hstack([one.probabilities.reshape(CLASSES, -1), two.means, two.covariances]),
    )


def main(sizes, kinds):
    """Return the lines of the table."""
    lines = [f"{describe()}, stepmix {version('stepmix')}", ""]
    lines.append(
        f"{'columns':13}{'rows':>8}{'StepMix':>10}{'sktem':>9}{'ratio':>8}"
        f"{'by parts':>10}{'weights':>12}{'parameters':>12}{'posteriors':>12}"
    )
    for kind in kinds:
        for n in sizes:
            X = drawn(n, kind)
            theirs = peer(kind).fit(X)
            ours = own(kind, np.exp(theirs.log_resp_)).fit(X)
            fits = [
                lambda: peer(kind).fit(X),  # noqa: B023
                lambda: ours.fit(X),  # noqa: B023
                lambda: by_parts(lambda: ours.fit(X)),  # noqa: B023
            ]
            repeats = 3 if n < 100_000 else 1
            times = [[seconds_of(fit) for fit in fits] for _ in range(repeats)]
            theirs_time, ours_time, slower = np.median(times, axis=0)
            weights = np.abs(theirs.get_parameters()["weights"] - ours.weights_).max()
            one, two = parameters(theirs, ours, kind)
            posteriors = theirs.predict_proba(X[:1000]) - ours.predict_proba(X[:1000])
            lines.append(
                f"{kind:13}{n:8}{theirs_time:8.2f} s{ours_time:7.2f} s"
                f"{theirs_time / ours_time:8.1f}{slower / ours_time:10.2f}"
                f"{weights:12.1e}{np.abs(one - two).max():12.1e}"
                f"{np.abs(posteriors).max():12.1e}"
            )
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    sizes = [1000] if small else [1000, 10_000, 100_000]
    table = main(sizes, ["categorical", "survey", "mixed"])
    if not small:
        path = Path(__file__).parents[1] / "doc" / "tables" / "peer_stepmix.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
