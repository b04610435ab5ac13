"""What each part of the classifiers from few images is worth.

Errors on test images of ``DeformedCopiesClassifier``, ``copies``, and of the same
without one of its parts, or with another one in its place:

``usual sizes``
    The usual sizes of deformations, not chosen by images that are left out.
``fields of templates``
    Smooth displacements by combinations of those of the training images under a
    template of their class.
``no fields``, ``no linear maps``
    Copies under random scales, stretches, rotations, shears and shifts alone; under
    smooth displacements alone.
``no copies``
    The images alone.
``pixels``
    Centred pixels of unit norm in place of the gradients' features.

And of ``DeformableTemplateClassifier``, temperature 1:

``likelihood``
    As it is.
``two templates``
    Two templates a class.
``importance``
    Evidence by importance sampling, 100 draws, in place of Laplace's approximation.

Run: ``python benchmarks/template_ablation.py``.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
from few_shot import letters, usps
from image_data import Report
from machine import describe
from template_classification import draw
from threadpoolctl import threadpool_limits

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformedCopiesClassifier,
)
from sktem.deformed_copies.deformations import Sizes
from sktem.deformed_copies.features import OrientationFeatures, of_unit_norm
from sktem.exceptions import FitWarning

DATA = {"usps": usps, "letters": letters}

LINEAR = dict.fromkeys(("scale", "stretch", "rotation", "shear", "shift"), 0.0)


def copies(seed, change=None, **settings):
    """Return a function that fits the classifier by deformed copies and predicts."""

    def run(X, y, X_test):
        with change or nullcontext():
            classifier = DeformedCopiesClassifier(random_state=seed, **settings)
            return classifier.fit(X, y).predict(X_test)

    return run


def usual(seed):
    """Return the same with the usual sizes."""

    def run(X, y, X_test):
        sizes = Sizes.usual(X.shape[1:])._asdict()
        return copies(seed, **sizes)(X, y, X_test)

    return run


def learned(seed):
    """Return the same with the displacements that templates find."""

    def run(X, y, X_test):
        fields = [
            DeformableTemplateEstimator(random_state=seed)
            .fit(X[y == label])
            .deformation_fields(X[y == label])
            for label in np.unique(y)
        ]
        fields = np.concatenate([each - each.mean(axis=0) for each in fields])
        if not fields.any():
            return copies(seed)(X, y, X_test)
        return copies(seed, fields=fields)(X, y, X_test)

    return run


def pixels(self, images):
    """Return the pixels of images, centred and of unit norm."""
    return of_unit_norm(images - images.mean(axis=1, keepdims=True))


def likelihood(seed, importance=False, **settings):
    """Return a function that fits the classifier by likelihood and predicts."""

    def run(X, y, X_test):
        classifier = DeformableTemplateClassifier(
            temperature=1.0, random_state=seed, **settings
        ).fit(X, y)
        if not importance:
            return classifier.predict(X_test)
        logs = [
            model.likelihood_estimates(X_test, n_draws=100).log_likelihood
            for model in classifier.estimators_
        ]
        return classifier.classes_[np.argmax(logs, axis=0)]

    return run


def methods(seed, n_images):
    """Return what is compared, each a function of training and test images."""
    return {
        "copies": copies(seed),
        "usual sizes": usual(seed),
        "fields of templates": learned(seed),
        "no fields": copies(seed, field=0.0),
        "no linear maps": copies(seed, **LINEAR),
        "no copies": copies(seed, max_rows=n_images),
        "pixels": copies(seed, patch.object(OrientationFeatures, "transform", pixels)),
        "likelihood": likelihood(seed),
        "two templates": likelihood(seed, n_components=2),
        "importance": likelihood(seed, importance=True),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=DATA, nargs="+", default=["usps"])
    parser.add_argument("--per-class", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--test-size", type=int, default=300)
    parser.add_argument("--methods", nargs="+", default=list(methods(0, 2)))
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
            for method in options.methods:
                errors = []
                for split in range(options.splits):
                    rows = draw(y, size, np.random.default_rng([split, size]))
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", FitWarning)
                        predict = methods(split, len(rows))[method]
                        predicted = predict(X[rows], y[rows], X_test)
                    errors.append(100 * np.mean(predicted != y_test))
                errors = np.array(errors)
                if base is None or method == "likelihood":
                    base = errors
                gap = errors - base
                error = gap.std(ddof=1) / np.sqrt(len(gap))
                report(
                    f"  {method:20s}{errors.mean():7.2f} ({errors.std(ddof=1):5.2f})"
                    f"{gap.mean():9.2f} +- {error:.2f}"
                )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
