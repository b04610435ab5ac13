"""Folds of deformations: how many, where, and what models without them cost.

A deformation folds where the Jacobian determinant of ``x - Phi(x)`` is not positive.
For the posterior modes of the deformations of the training images: the share of the
images with a fold anywhere, and the share of all pixels at which there is one; beside
it the log-likelihood of held-out images per pixel (Laplace), and the CPU seconds of the
fit (a fit before it has compiled). Digit 5 of USPS has one style, digit 2 comes with
and without a loop, which no deformation without folds turns into the other. MNIST,
letters and faces are larger or of another kind. Sets whose fits take long have the
defaults and the flows alone.

Run: ``python benchmarks/template_folds.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
from few_shot import letters, mnist
from image_data import Report, faces, of_digit
from machine import describe
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sktem import (
    DeformableTemplateEstimator,
    DeformableTemplatePrior,
)
from sktem.exceptions import FitWarning

SETTINGS = {
    "defaults": {},
    "flows": {"deformation": "diffeomorphic"},
    "prior five times as strong": {
        "prior": DeformableTemplatePrior(prior_strength=250.0)
    },
    "deformation_scale=0.15": {"deformation_scale": 0.15},
    "deformation_width=4": {"deformation_width": 4.0},
    "n_components=4": {"n_components": 4},
}


def usps(digit, n):
    """Return training and held-out images of a digit of USPS, 16 x 16."""
    return tuple(X.reshape(-1, 16, 16) for X in of_digit(digit, n))


def one_class(load, label, n):
    """Return training and held-out images of one class."""
    X, y, X_test, y_test = load()
    return X[y == label][:n], X_test[y_test == label]


def frey(n):
    """Return faces at random, and others."""
    X = faces() / 255
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:n]], X[order[n:]]


SETS = {
    **{
        f"USPS, digit {digit}, {n} images": partial(usps, digit, n)
        for digit in (5, 2)
        for n in (20, 100, 500)
    },
    **{
        f"MNIST, digit {digit}, 28 x 28, {n} images": partial(
            one_class, mnist, digit, n
        )
        for digit in (5, 2)
        for n in (20, 100)
    },
    "letter a, 16 x 8, 100 images": partial(one_class, letters, 0, 100),
    "Frey faces, 28 x 20, 100 images": partial(frey, 100),
}

#: Values of a set from which on it has the first two settings alone.
LARGE = 75_000


def run(X, held_out, settings, seed):
    """Return shares of folded images and pixels, held-out likelihood, CPU seconds."""
    estimator = DeformableTemplateEstimator(random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.set_params(max_iter=1).fit(X)
        begun = time.process_time()
        estimator = DeformableTemplateEstimator(random_state=seed, **settings).fit(X)
        spent = time.process_time() - begun
    folded = estimator.registration(X).jacobians(inverse=True) <= 0
    return (
        100 * folded.any(axis=(1, 2)).mean(),
        100 * folded.mean(),
        estimator.score_samples(held_out).mean() / X[0].size,
        spent,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--held-out", type=int, default=80)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "template_folds")
    report(describe())
    report()
    report(f"mean (sd) of {options.seeds} seeds: images with a fold, pixels folded,")
    report("held-out log-likelihood per pixel, CPU seconds of the fit")
    for name in options.sets:
        X, held_out = SETS[name]()
        report()
        report(name)
        chosen = list(SETTINGS)[: 2 if X.size >= LARGE else None]
        for setting in chosen:
            settings = SETTINGS[setting]
            found = np.array(
                [
                    run(X, held_out[: options.held_out], settings, seed)
                    for seed in range(options.seeds)
                ]
            )
            mean, sd = found.mean(axis=0), found.std(axis=0, ddof=1)
            report(
                f"  {setting:28s}{mean[0]:5.0f} % ({sd[0]:3.0f})"
                f"{mean[1]:8.2f} % ({sd[1]:.2f}){mean[2]:9.3f} ({sd[2]:.3f})"
                f"{mean[3]:8.1f} s"
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
