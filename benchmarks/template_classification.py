"""Classification from few images: a template per class and scikit-learn.

Training images are drawn at random from the training set, the same for all methods,
and all (or ``--test-size``) test images are classified. ``GridSearchCV`` chooses C and
gamma of the support vector machine on the training images alone; the classifier of
templates has its defaults. "1-NN" and "naive Bayes" have nothing to choose.

Error in percent; log-loss of the templates with the temperature that the classifier
chose on its training images, and without (temperature 1). Times are CPU seconds of
fitting (with the search, or the temperature) and of predicting one image.

Run: ``python benchmarks/template_classification.py``. Results are written split by
split, so that it can be stopped.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from image_data import SHAPE, Report, digits
from machine import describe
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier
from sktem.exceptions import FitWarning

GRID = {
    "C": [0.1, 1, 10, 100, 1000],
    "gamma": ["scale", 1e-3, 3e-3, 1e-2, 3e-2, 1e-1],
}


def methods(seed):
    """Return the classifiers by name."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return {
        "templates": DeformableTemplateClassifier(SHAPE, random_state=seed),
        "SVC (rbf)": GridSearchCV(SVC(), GRID, cv=folds),
        "1-NN": KNeighborsClassifier(1),
        "naive Bayes": GaussianNB(),
    }


def draw(y, per_class, rng):
    """Return indices of a number of images of each class."""
    return np.concatenate(
        [
            rng.choice(np.flatnonzero(y == label), per_class, replace=False)
            for label in np.unique(y)
        ]
    )


def run(data, per_class, split, test_rows):
    """Return error, log-losses and CPU seconds of each method."""
    _, X, y, X_test, y_test = data
    rng = np.random.default_rng([split, per_class])
    rows = draw(y, per_class, rng)
    X_test, y_test = X_test[test_rows], y_test[test_rows]
    found = {}
    for name, classifier in methods(split).items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            classifier.fit(X[rows], y[rows])
        fitted = time.process_time()
        losses = (np.nan, np.nan)
        if name == "templates":
            logs = classifier.predict_joint_log_proba(X_test)
            predicted = classifier.classes_[logs.argmax(axis=1)]
            losses = [
                tempered_loss(logs, factor, y_test, classifier.class_prior_)
                for factor in (1.0, classifier.temperature_)
            ]
        else:
            predicted = classifier.predict(X_test)
        found[name] = (
            100 * np.mean(predicted != y_test),
            *losses,
            fitted - began,
            (time.process_time() - fitted) / len(X_test),
        )
    return found


def tempered_loss(logs, factor, y, prior):
    """Return the log-loss after log-likelihoods were multiplied by a factor."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    tempered = (logs - log_prior) * factor + log_prior
    tempered -= tempered.max(axis=1, keepdims=True)
    proba = np.exp(tempered)
    # As scikit-learn's log_loss, which keeps probabilities from zero.
    return log_loss(y, proba / proba.sum(axis=1, keepdims=True))


def summary(report, found, per_class):
    """Print means and spread over splits."""
    report()
    report(
        f"{per_class} images a class, {len(found)} splits: error in %, mean (sd) and "
        "range"
    )
    errors = {}
    for name in found[0]:
        values = np.array([one[name] for one in found])
        errors[name] = values[:, 0]
        sd = values[:, 0].std(ddof=1) if len(values) > 1 else np.nan
        fit_time, predict_time = np.median(values[:, 3:], axis=0)
        line = (
            f"{name:12s}{values[:, 0].mean():7.2f} ({sd:.2f}) "
            f"[{values[:, 0].min():.2f}, {values[:, 0].max():.2f}]"
        )
        line = f"{line:46s}fit {fit_time:8.2f} s  predict {1e3 * predict_time:7.3f} ms"
        if name == "templates":
            line += (
                f"  log-loss {values[:, 1].mean():.3f}, temperature 1: "
                f"{values[:, 2].mean():.3f}"
            )
        report(line)
    for name in list(found[0])[1:]:
        wins = np.sum(errors["templates"] < errors[name])
        ratio = errors["templates"].mean() / errors[name].mean()
        report(
            f"  {ratio:.2f} of the errors of {name}; fewer in {wins} of {len(found)} "
            "splits"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-class", type=int, nargs="+", default=[5, 20, 100])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--test-size", type=int, default=None, help="images, at random")
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    data = digits()
    n_test = len(data[3])
    test_rows = np.arange(n_test)
    if options.test_size is not None and options.test_size < n_test:
        rng = np.random.default_rng(0)
        test_rows = np.sort(rng.choice(n_test, options.test_size, replace=False))
    report = Report(None if options.dry_run else "template_classification")
    report(describe())
    report()
    report(f"{data[0]}, {len(test_rows)} test images of {n_test}")
    report()
    found = {per_class: [] for per_class in options.per_class}
    for split in range(options.splits):
        for per_class in options.per_class:
            one = run(data, per_class, split, test_rows)
            found[per_class].append(one)
            cells = ", ".join(f"{name} {part[0]:.2f}" for name, part in one.items())
            report(f"split {split + 1}, {per_class:3d} a class: {cells}")
    for per_class in options.per_class:
        summary(report, found[per_class], per_class)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
