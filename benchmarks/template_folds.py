"""Folds of deformations: how many, where, and what stronger priors cost.

A deformation folds where the Jacobian determinant of ``x - Phi(x)`` is not positive.
For the posterior modes of the deformations of the training images: the share of the
images with a fold anywhere, and the share of all pixels at which there is one; beside
it the log-likelihood of held-out images per pixel (Laplace). Digit 5 has one style,
digit 2 comes with and without a loop, which no deformation without folds turns into
the other.

Run: ``python benchmarks/template_folds.py``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from image_data import SHAPE, Report, digits, of_digit
from machine import describe
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateEstimator
from sktem.exceptions import FitWarning

SETTINGS = {
    "defaults": {},
    "prior five times as strong": {"prior_strength": 250.0},
    "deformation_scale=0.15": {"deformation_scale": 0.15},
    "deformation_width=4": {"deformation_width": 4.0},
    "n_components=4": {"n_components": 4},
}


def determinants(estimator, X):
    """Return the Jacobian determinants at the pixels, by differences of the fields.

    Parameters
    ----------
    estimator : DeformableTemplateEstimator
        A fitted one.
    X : ndarray of shape (n, n_pixels)
        Images.

    Returns
    -------
    ndarray of shape (n, height, width)
        Determinants of ``x - Phi(x)``.
    """
    fields = estimator.deformation_fields(X)
    rows = np.gradient(fields, axis=2)
    columns = np.gradient(fields, axis=3)
    return (1 - rows[:, 0]) * (1 - columns[:, 1]) - rows[:, 1] * columns[:, 0]


def run(digit, n, settings, seed, n_held_out):
    """Return shares of folded images and pixels and the held-out log-likelihood."""
    X, held_out = of_digit(digit, n)
    estimator = DeformableTemplateEstimator(SHAPE, random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        estimator.fit(X)
    folded = determinants(estimator, X) <= 0
    likelihood = estimator.score_samples(held_out[:n_held_out]).mean() / X.shape[1]
    return folded.any(axis=(1, 2)).mean(), folded.mean(), likelihood


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs="+", default=[5, 2])
    parser.add_argument("--images", type=int, nargs="+", default=[20, 100, 500])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--held-out", type=int, default=80)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "template_folds")
    report(describe())
    report()
    report(f"{digits()[0]}, mean (sd) of {options.seeds} seeds:")
    report("images with a fold, pixels folded, held-out log-likelihood per pixel")
    for digit in options.digits:
        for n in options.images:
            report()
            report(f"digit {digit}, {min(n, len(of_digit(digit, n)[0]))} images")
            for name, settings in SETTINGS.items():
                found = np.array(
                    [
                        run(digit, n, settings, seed, options.held_out)
                        for seed in range(options.seeds)
                    ]
                )
                mean, sd = found.mean(axis=0), found.std(axis=0, ddof=1)
                report(
                    f"  {name:28s}{100 * mean[0]:5.0f} % ({100 * sd[0]:3.0f})"
                    f"{100 * mean[1]:8.2f} % ({100 * sd[1]:.2f})"
                    f"{mean[2]:9.3f} ({sd[2]:.3f})"
                )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
