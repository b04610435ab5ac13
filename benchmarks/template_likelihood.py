"""What it costs to classify an image by its likelihoods under ten templates.

``DeformableTemplateClassifier`` of ten digits, with a few
training images of each drawn at random, on test images. Modes of the deformations are
sought

``in full``
    for all classes, by five levels of noise to the end;
``in two steps``
    for all classes at two levels, with the template's spline, then to the end for the
    three most likely ones;
``classifier``
    as the classifier does it: at two levels of noise, then to the end for those classes
    that come close, four at most, and in full for six classes where
    the best one explains an image poorly.

All three see the same images, block by block in turn. Error in percent, share of
images that get the class of the full search, CPU milliseconds an image (median over
blocks) and how many times less than by two steps (median and range over blocks).

Run: ``python benchmarks/template_likelihood.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from few_shot import DATA
from image_data import Report
from machine import describe
from template_classification import draw
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier
from sktem.exceptions import FitWarning
from sktem.template.model.modes import Descent

BLOCK = 50
TWO_LEVELS = Descent(np.array([64.0, 8.0]), gains=(1.0, 1.0), hold=0.5)
TO_THE_END = Descent(np.ones(1), gains=(0.01, 0.01), hold=0.5)


def in_full(classifier, X):
    """Return log-likelihoods by full searches."""
    return np.stack([_logs(one, X)[0] for one in classifier.estimators_], axis=1)


def in_two_steps(classifier, X):
    """Return log-likelihoods by a search at two levels and the rest for three."""
    found = [_logs(one, X, descent=TWO_LEVELS) for one in classifier.estimators_]
    logs = np.stack([log for log, _ in found], axis=1)
    likely = logs >= np.sort(logs, axis=1)[:, [-3]]
    for label, (own, (_, Z)) in enumerate(
        zip(classifier.estimators_, found, strict=True)
    ):
        rows = np.flatnonzero(likely[:, label])
        if len(rows):
            logs[rows, label] = _logs(own, X[rows], Z[rows], TO_THE_END)[0]
    return logs


def _logs(estimator, X, Z=None, descent=None):
    """Return log-likelihoods under a model with one template, and modes."""
    fitted = estimator.fitted_
    Y = fitted.standardised(X)
    model, params = fitted.model, fitted.params
    Z, logs, *_ = model.modes_of(Y, params, 0, Z, descent)
    return fitted.in_units_of_images(logs[:, None], Y)[:, 0], Z


def as_it_does(classifier, X):
    """Return those of the classifier."""
    return classifier._predictor.judge(X)[0]


WAYS = {
    "in full": in_full,
    "in two steps": in_two_steps,
    "classifier": as_it_does,
}


def run(data, per_class, split, n_test):
    """Return labels, predictions and CPU milliseconds an image of each block."""
    X, y, X_test, y_test = data
    rows = draw(y, per_class, np.random.default_rng([split, per_class]))
    classifier = DeformableTemplateClassifier(
        X.shape[1:], temperature=1.0, random_state=split
    ).fit(X[rows], y[rows])
    chosen = np.random.default_rng(split).permutation(len(X_test))[:n_test]
    images = X_test[chosen].reshape(n_test, -1)
    labels = {name: [] for name in WAYS}
    seconds = {name: [] for name in WAYS}
    for way in WAYS.values():
        way(classifier, images[:2])  # compiles
    for start in range(0, n_test, BLOCK):
        block = images[start : start + BLOCK]
        for name, way in WAYS.items():
            began = time.process_time()
            found = way(classifier, block)
            seconds[name].append(1e3 * (time.process_time() - began) / len(block))
            labels[name].append(classifier.classes_[found.argmax(axis=1)])
    return y_test[chosen], {k: np.concatenate(v) for k, v in labels.items()}, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["usps", "mnist"])
    parser.add_argument("--per-class", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--test-size", type=int, default=500)
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "template_likelihood")
    report(describe() + ", one thread")
    for name in options.data:
        data = DATA[name]()
        sides = " x ".join(map(str, data[0].shape[1:]))
        for per_class in options.per_class:
            parts = [
                run(data, per_class, split, options.test_size)
                for split in range(options.splits)
            ]
            report()
            report(
                f"{name}, {sides}, {per_class} images a class, {options.splits} "
                f"splits, {options.test_size} test images each"
            )
            report("              error   as in full   CPU ms   times less")
            truth = np.concatenate([part[0] for part in parts])
            for way in WAYS:
                labels = np.concatenate([part[1][way] for part in parts])
                full = np.concatenate([part[1]["in full"] for part in parts])
                own = np.concatenate([part[2][way] for part in parts])
                two = np.concatenate([part[2]["in two steps"] for part in parts])
                ratio = two / own
                report(
                    f"{way:12s}{100 * np.mean(labels != truth):7.2f}"
                    f"{100 * np.mean(labels == full):13.1f}{np.median(own):9.2f}"
                    f"{np.median(ratio):13.2f} [{ratio.min():.2f}, {ratio.max():.2f}]"
                )


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        main()
