"""Fewer samples than features: relevance determination beside the l1 penalty.

Gene expression of colon tissue (62 x 2000, logarithms taken) and of leukaemia (38 x
3051), stratified 5-fold cross-validation: error, mean log-loss and number of kept
features, means over folds. The peer is scikit-learn's logistic regression with an l1
penalty chosen by an inner 5-fold cross-validation.

Usage: ``python benchmarks/ard_selection.py``
"""

import time
import warnings

import numpy as np
from machine import describe
from shared_data import locate
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import ARDLogisticClassifier


def peers():
    penalty = LogisticRegressionCV(
        Cs=np.geomspace(0.01, 10, 10), cv=5, l1_ratios=(1,), solver="liblinear",
        use_legacy_attributes=False, scoring="neg_log_loss",
    )  # fmt: skip
    yield "l1, cross-validated", make_pipeline(StandardScaler(), penalty)
    yield "relevance, 400 iterations", ARDLogisticClassifier(random_state=0)


def main():
    warnings.simplefilter("ignore")
    print(describe())
    print(f"\n{'data':10s}{'method':>28s}{'error':>8s}{'log-loss':>10s}"
          f"{'kept':>7s}{'CPU s':>8s}")  # fmt: skip
    for name in ("colon", "leukemia"):
        data = np.load(locate(f"glm/{name}.npz"))
        X, y = data["X"].astype(float), data["y"].astype(int)
        X = np.log(X) if name == "colon" else X
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        for method, model in peers():
            errors, losses, kept = [], [], []
            start = time.process_time()
            for train, test in folds:
                model.fit(X[train], y[train])
                probability = model.predict_proba(X[test])[:, 1]
                errors.append(np.mean((probability > 0.5) != y[test]))
                losses.append(log_loss(y[test], probability, labels=[0, 1]))
                coefficients = getattr(model, "coef_", None)
                if coefficients is None:
                    coefficients = model[-1].coef_
                kept.append(np.count_nonzero(coefficients))
            spent = time.process_time() - start
            line = f"{name:10s}{method:>28s}{np.mean(errors):8.3f}"
            line += f"{np.mean(losses):10.3f}{np.mean(kept):7.0f}{spent:8.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
