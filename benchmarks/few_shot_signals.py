"""Few signals a class: deformed copies beside what practitioners would use.

Training signals are drawn at random, the same for all methods, and at most 500 others
are classified. Of Trace and GunPoint all signals are drawn from; of the other sets,
whose test signals decided nothing, training signals are drawn from the training part
and those of the test part are classified. The data come with tslearn (Trace) and with
aeon (the others), and are left out where these are not installed.

``copies``, ``likelihood``
    ``DeformedCopiesClassifier`` and ``DeformableTemplateClassifier``.
``MiniRocket``
    Ten thousand features by random convolutions, and ridge regression with its penalty
    by cross-validation (Dempster, Schmidt and Webb, 2021); aeon's.
``DTW``
    Nearest neighbour by dynamic time warping within a tenth of the length; tslearn's.
``1-NN``
    Nearest neighbour by the Euclidean distance.

Run: ``python benchmarks/few_shot_signals.py``. The first fit compiles: CPU seconds are
medians.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product

import numpy as np
from few_shot import summary
from image_data import Report
from machine import describe
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from template_classification import draw
from threadpoolctl import threadpool_limits

from sktem import DeformableTemplateClassifier, DeformedCopiesClassifier
from sktem.exceptions import FitWarning

#: The features of signals were chosen on splits of the first two and of the training
#: parts of the others.
SETS = ("Trace", "GunPoint", "ArrowHead", "ItalyPowerDemand", "OSULeaf")
POOLED = ("Trace", "GunPoint")
MOST_TESTED = 500


def load(name):
    """Return the signals of a set, their labels, and which are for training only."""
    if name == "Trace":
        from tslearn.datasets import CachedDatasets

        X, y, X_test, y_test = CachedDatasets().load_dataset(name)
        X, X_test = X[..., 0], X_test[..., 0]
    else:
        from aeon.datasets import load_classification

        X, y = load_classification(name, split="train")
        X_test, y_test = load_classification(name, split="test")
        X, X_test = X[:, 0], X_test[:, 0]
    n = 0 if name in POOLED else len(X)
    X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
    return X, y, np.arange(n)


def drawn(data, per_class, split):
    """Return the rows of training signals and of those to be classified."""
    _, y, training = data
    rng = np.random.default_rng([split, per_class])
    if len(training):
        rows, others = training[draw(y[training], per_class, rng)], training
    else:
        rows = others = draw(y, per_class, rng)
    others = np.setdiff1d(np.arange(len(y)), others)
    return rows, rng.permutation(others)[:MOST_TESTED]


def copies(X, y, seed):
    """Return a fitted classifier by deformed copies."""
    return DeformedCopiesClassifier(X.shape[1:], random_state=seed).fit(X, y)


def likelihood(X, y, seed):
    """Return a fitted classifier by likelihoods under templates."""
    return DeformableTemplateClassifier(X.shape[1:], random_state=seed).fit(X, y)


def mini_rocket(X, y, seed):
    """Return a fitted MiniRocket with ridge regression."""
    from aeon.transformations.collection.convolution_based import MiniRocket

    return make_pipeline(
        MiniRocket(random_state=seed),
        StandardScaler(with_mean=False),
        RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)),
    ).fit(X, y)


def warped_neighbour(X, y, seed):
    """Return a fitted nearest neighbour by dynamic time warping."""
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier

    return KNeighborsTimeSeriesClassifier(
        1,
        metric="dtw",
        metric_params={
            "global_constraint": "sakoe_chiba",
            "sakoe_chiba_radius": X.shape[1] // 10,
        },
    ).fit(X, y)


METHODS = {
    "copies": copies,
    "likelihood": likelihood,
    "MiniRocket": mini_rocket,
    "DTW": warped_neighbour,
    "1-NN": lambda X, y, seed: KNeighborsClassifier(1).fit(X, y),
}


def run(method, data, per_class, split):
    """Return error in percent, CPU seconds of the fit and CPU ms of a prediction."""
    X, y, _ = data
    rows, others = drawn(data, per_class, split)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = METHODS[method](X[rows], y[rows], split)
    fitted = time.process_time()
    error = 100 * np.mean(classifier.predict(X[others]) != y[others])
    predicted = time.process_time() - fitted
    return error, fitted - began, 1e3 * predicted / len(others)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=SETS, nargs="+", default=SETS)
    parser.add_argument("--per-class", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--dry-run", action="store_true", help="write no table")
    options = parser.parse_args()
    report = Report(None if options.dry_run else "few_shot_signals")
    report(describe())
    for name, per_class in product(options.data, options.per_class):
        try:
            data = load(name)
        except ImportError as error:
            report(f"\n{name} is left out: {error}")
            continue
        found = {
            method: {
                split: run(method, data, per_class, split)
                for split in range(options.splits)
            }
            for method in options.methods
        }
        n_test = len(drawn(data, per_class, 0)[1])
        n_points, n_classes = data[0].shape[1], len(np.unique(data[1]))
        title = f"{name}, {n_points} points, {n_classes} classes"
        summary(report, found, title, per_class, n_test, "signals")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
