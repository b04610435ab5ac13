"""Outliers of real tables: a Gaussian mixture and scikit-learn's detectors.

Each table has rows of a class that counts as outliers, of which as many are kept as
give the stated share; the rows are at most 4,000. Detectors see no labels and have
their defaults, ``MixtureOutlierDetector`` too. The measure is the area under the ROC
curve of the scores of the rows that were learned, mean over three draws of rows and
seeds, and the processor time of fit and scores. A second table has the share of usual
rows that are called outliers by detectors that have learned as many others, at most
2,000, with ``contamination=0.05`` and "auto": the share of new rows that a threshold of
the rows that were learned really holds for. A star says that a warning was given.
Run: ``OMP_NUM_THREADS=1 python benchmarks/outliers.py [--small]``; the table is written
to ``doc/tables/outliers.txt`` without ``--small``. Takes about four minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from machine import describe
from shared_data import locate
from sklearn.covariance import EllipticEnvelope
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from sktem import MixtureOutlierDetector
from sktem.exceptions import FitWarning

ROWS = 4000


def normal_traffic():
    """Return connections, and which are attacks."""
    data = np.load(locate("mixture/kddcup99_10pct.npz"))
    names = [str(name).strip(".") for name in data["y_names"]]
    return data["X"], data["y"] != names.index("normal")


def shared(name, is_outlier):
    """Return a shared table and its outliers."""
    data = np.load(locate(name))
    return data["X"], is_outlier(data["y"])


def known(load, label):
    """Return a table of scikit-learn, one class of which is rare."""
    data = load()
    return data.data, data.target == label


#: Tables, and the share of outliers.
TABLES = {
    "shuttle": (lambda: shared("mixture/shuttle.npz", lambda y: y != 0), 0.07),
    "kdd cup 99": (normal_traffic, 0.05),
    "skin": (lambda: shared("mixture/skin.npz", lambda y: y == 1), 0.05),
    "ionosphere": (lambda: shared("glm/ionosphere.npz", lambda y: y == 0), 0.36),
    "pima": (lambda: shared("glm/pima.npz", lambda y: y == 1), 0.1),
    "breast cancer": (lambda: known(load_breast_cancer, 0), 0.1),
    "digits (4)": (lambda: known(load_digits, 4), 0.05),
    "wine": (lambda: known(load_wine, 0), 0.1),
}

DETECTORS = {
    "mixture": lambda seed: MixtureOutlierDetector(random_state=seed),
    "isolation forest": lambda seed: IsolationForest(random_state=seed),
    "elliptic envelope": lambda seed: EllipticEnvelope(random_state=seed),
    "local outlier factor": lambda seed: LocalOutlierFactor(),
}


def thinned(X, outlier, share, seed):
    """Return rows in random order with a share of outliers."""
    rng = np.random.default_rng(seed)
    rare, usual = np.flatnonzero(outlier), np.flatnonzero(~outlier)
    usual = rng.permutation(usual)[: round((1 - share) * ROWS)]
    count = min(len(rare), round(share * len(usual) / (1 - share)))
    kept = rng.permutation(np.concatenate([usual, rng.permutation(rare)[:count]]))
    return X[kept].astype(float), outlier[kept]


def scores_of(detector, X):
    """Return scores, lower for outliers."""
    detector.fit(X)
    if isinstance(detector, LocalOutlierFactor):
        return detector.negative_outlier_factor_
    return detector.score_samples(X)


NEW_ROWS = {
    "mixture": MixtureOutlierDetector,
    "isolation forest": IsolationForest,
    "elliptic envelope": EllipticEnvelope,
    "local outlier factor": partial(LocalOutlierFactor, novelty=True),
}


def called(make, usual, contamination, seed):
    """Return the share of new usual rows that are outliers, and whether it warned."""
    rows = np.random.default_rng(seed).permutation(len(usual))[:ROWS]
    learned, new = np.array_split(usual[rows].astype(float), 2)
    detector = make(contamination=contamination)
    if "random_state" in detector.get_params():
        detector.set_params(random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        detector.fit(learned)
    return np.mean(detector.predict(new) < 0), bool(caught)


def calibration(names, n_repeats):
    """Return the lines of the table of new usual rows."""
    head = f"{'new usual rows':15}{'contamination':>15}"
    lines = ["", head + "".join(f"{name:>22}" for name in NEW_ROWS)]
    for name in names:
        X, outlier = TABLES[name][0]()
        for contamination in (0.05, "auto"):
            line = f"{name:15}{contamination:>15}"
            for make in NEW_ROWS.values():
                if contamination == "auto" and make is EllipticEnvelope:
                    line += f"{'-':>21} "
                    continue
                runs = [
                    called(make, X[~outlier], contamination, seed)
                    for seed in range(n_repeats)
                ]
                share, warned = np.mean(runs, axis=0)
                line += f"{share:21.1%}{'*' if warned else ' '}"
            lines.append(line.rstrip())
            print(lines[-1], flush=True)
    return lines


def main(names, n_repeats):
    """Return the lines of the table."""
    lines = [describe(), "", f"{'table':15}{'rows':>11}" + f"{'outliers':>10}"]
    lines[-1] += "".join(f"{name:>22}" for name in DETECTORS)
    best = dict.fromkeys(DETECTORS, 0)
    means = {name: [] for name in DETECTORS}
    for name in names:
        load, share = TABLES[name]
        X, outlier = load()
        line = ""
        for detector, make in DETECTORS.items():
            found, begun = [], time.process_time()
            for seed in range(n_repeats):
                rows, labels = thinned(X, outlier, share, seed)
                found.append(roc_auc_score(labels, -scores_of(make(seed), rows)))
            seconds = (time.process_time() - begun) / n_repeats
            means[detector].append(np.mean(found))
            line += f"{np.mean(found):12.3f} ({seconds:5.2f} s)"
        shape = f"{len(rows)} x {rows.shape[1]}"
        lines.append(f"{name:15}{shape:>11}{labels.mean():10.1%}{line}")
        best[max(means, key=lambda key: means[key][-1])] += 1
        print(lines[-1], flush=True)
    lines.append(
        f"{'mean':36}" + "".join(f"{np.mean(v):12.3f}{'':10}" for v in means.values())
    )
    lines.append(
        f"{'best of all':36}" + "".join(f"{v:12d}{'':10}" for v in best.values())
    )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    names, repeats = (["wine", "pima"], 1) if small else (TABLES, 3)
    table = main(names, repeats)
    print("\n".join(table[-2:]))
    table += calibration(names, repeats)
    if not small:
        path = Path(__file__).parents[1] / "doc" / "tables" / "outliers.txt"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")
