"""What each part of the classifier from few images is worth.

Errors on test images of the default, ``samples``, and of the same without one of its
parts, or with another one in its place:

``not learned``
    Deformations of copies by the smooth prior, without their learned covariance.
``no landmarks``, ``no linear maps``
    Copies under random scales, shears, rotations and shifts alone; under deformations
    of the landmarks alone.
``no copies``
    The images alone.
``of the templates``
    Copies are samples of the fitted templates, not training images deformed anew.
``pixels``
    Centred pixels of unit norm in place of the gradients' features.

And of the classifier by likelihood, temperature 1:

``likelihood``
    As it is: the noise of the classes is shrunk to what they have in common.
``own noise``
    Every class has its own noise.
``shared covariance``
    One covariance of deformations for all classes.
``shrunk covariance``
    That of each class departs from it as images come in: it counts 20 images.
``two templates``
    Two templates a class.
``importance``
    Evidence by importance sampling, 100 draws, in place of Laplace's approximation.

Run: ``python benchmarks/template_ablation.py``.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from few_shot import letters, usps
from image_data import Report
from machine import describe
from template_classification import draw
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier
from sktem.exceptions import FitWarning
from sktem.template import copies, predictors
from sktem.template.features import OrientationFeatures, of_unit_norm

DATA = {"usps": usps, "letters": letters}

#: Constants of the random linear maps.
LINEAR = ("SCALE", "SHEAR", "TRANSLATION")

#: Images that the covariance of all classes counts.
SHARED_IMAGES = 20


def samples(seed, *patches):
    """Return a function that fits the classifier of samples and predicts."""

    def run(X, y, X_test):
        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            classifier = DeformableTemplateClassifier(
                predictor="samples", random_state=seed
            )
            return classifier.fit(X, y).predict(X_test)

    return run


def smooth_prior(models, parts, n_jobs=None):
    """Return the prior covariance of the deformations of all classes."""
    grid = models[0].grid_
    expected = copies.EXPECTED * max(grid.image_shape) / 16
    return expected**2 * grid.smooth_covariance


def none(models, parts, n_jobs=None):
    """Return a covariance of deformations that are next to nothing."""
    return 1e-12 * np.eye(models[0].grid_.n_latents)


whole = predictors.images_and_copies


def of_templates(models, parts, units, rng, n_jobs=None):
    """Return images and samples of the templates of their classes, as many as else."""
    found = whole(models, parts, units, rng, n_jobs)
    n, seed, X = sum(len(X) for X, _ in parts), int(rng.integers(2**31)), found.X.copy()
    for label, model in enumerate(models):
        rows = n + np.flatnonzero(found.labels[n:] == label)
        drawn, _ = model.sample(len(rows), random_state=seed)
        X[rows] = (drawn.reshape(len(rows), -1) - units[0]) / units[1]
    return found._replace(X=X)


def pixels(self, images):
    """Return the pixels of images, centred and of unit norm."""
    return of_unit_norm(images - images.mean(axis=1, keepdims=True))


def likelihood(seed, change=None, importance=False, **settings):
    """Return a function that fits the classifier by likelihood and predicts."""

    def run(X, y, X_test):
        classifier = DeformableTemplateClassifier(
            predictor="likelihood", temperature=1.0, random_state=seed, **settings
        ).fit(X, y)
        if change is not None:
            change(classifier, X, y)
        if not importance:
            return classifier.predict(X_test)
        logs = [
            model.likelihood_estimates(X_test, n_draws=100).log_likelihood
            for model in classifier.estimators_
        ]
        return classifier.classes_[np.argmax(logs, axis=0)]

    return run


def share_covariances(shared_images):
    """Return a function that shrinks covariances to that of all classes."""

    def change(classifier, X, y):
        models = classifier.estimators_
        parts = [
            X[y == label].reshape(np.sum(y == label), -1) for label in np.unique(y)
        ]
        parts = [(part, np.ones(len(part))) for part in parts]
        pooled = copies.pooled_covariance(models, parts)
        for model, (part, _) in zip(models, parts, strict=True):
            own = len(part) / (len(part) + shared_images)
            model.covariances_ = own * model.covariances_ + (1 - own) * pooled

    return change


def methods(seed):
    """Return what is compared, each a function of training and test images."""
    return {
        "samples": samples(seed),
        "not learned": samples(
            seed, patch.object(predictors, "pooled_covariance", smooth_prior)
        ),
        "no landmarks": samples(
            seed, patch.object(predictors, "pooled_covariance", none)
        ),
        "no linear maps": samples(
            seed,
            *(
                patch.object(copies, one, 0.0)
                for one in ("SCALE", "SHEAR", "TRANSLATION")
            ),
        ),
        "no copies": samples(
            seed,
            patch.object(predictors, "ROWS_PER_CLASS", 1),
            patch.object(predictors, "ROWS_PER_IMAGE", 1),
        ),
        "of the templates": samples(
            seed, patch.object(predictors, "images_and_copies", of_templates)
        ),
        "pixels": samples(seed, patch.object(OrientationFeatures, "transform", pixels)),
        "likelihood": likelihood(seed),
        "own noise": likelihood(seed, noise_prior_strength=1.0),
        "shared covariance": likelihood(seed, share_covariances(1e9)),
        "shrunk covariance": likelihood(seed, share_covariances(SHARED_IMAGES)),
        "two templates": likelihood(seed, n_components=2),
        "importance": likelihood(seed, importance=True),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=DATA, nargs="+", default=["usps"])
    parser.add_argument("--per-class", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--test-size", type=int, default=300)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "template_ablation")
    report(describe())
    report()
    report(
        "errors in %, mean (sd) over splits, and minus those of the first line of the"
    )
    report("kind: mean and standard error of the differences on the same splits")
    for name in options.data:
        X, y, X_test, y_test = DATA[name]()
        chosen = np.random.default_rng(0).choice(
            len(X_test), options.test_size, replace=False
        )
        X_test, y_test = X_test[chosen], y_test[chosen]
        for size in options.per_class:
            report()
            report(f"{name}, {size} a class, {options.test_size} test images")
            base = None
            for method in methods(0):
                errors = []
                for split in range(options.splits):
                    rows = draw(y, size, np.random.default_rng([split, size]))
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", FitWarning)
                        predicted = methods(split)[method](X[rows], y[rows], X_test)
                    errors.append(100 * np.mean(predicted != y_test))
                errors = np.array(errors)
                if method in ("samples", "likelihood"):
                    base = errors
                gap = errors - base
                error = gap.std(ddof=1) / np.sqrt(len(gap))
                report(
                    f"  {method:18s}{errors.mean():7.2f} ({errors.std(ddof=1):5.2f})"
                    f"{gap.mean():9.2f} +- {error:.2f}"
                )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
