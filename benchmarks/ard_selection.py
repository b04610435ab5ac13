"""Fewer samples than features: relevance determination and the l1 penalty.

Gene expression of colon tissue (62 x 2000, logarithms taken) and of leukaemia (38 x
3051), stratified 5-fold cross-validation: error, mean log-loss and number of kept
features, means over folds. The peer is scikit-learn's logistic regression with an l1
penalty chosen by an inner 5-fold cross-validation. MacKay's fixed point with Laplace's
approximation shows what the learned variances are worth without draws.

Usage: ``python benchmarks/ard_selection.py``
"""

import time
import warnings

import numpy as np
from machine import describe
from scipy.special import expit
from shared_data import locate
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import ARDLogisticClassifier


class LaplaceRelevance(ClassifierMixin, BaseEstimator):
    """Variances by MacKay's fixed point ``m^2 / (1 - S / v)``, with Laplace moments."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        n, p = X.shape
        v, weights = np.full(p, min(1.0, 3.0 / p)), np.zeros(n)
        for _ in range(400):
            weights, hidden = self._mode(X, y, v, weights)
            mean = v * (X.T @ weights)
            told = v * np.einsum("ij,ik,kj->j", X, hidden, X)  # 1 - S / v
            new = np.maximum(mean**2 / np.maximum(told, 1e-12), 1e-10)
            change = np.abs(np.log(new / v))[(v > 1e-6) | (new > 1e-6)]
            v = new
            if change.max(initial=0.0) < 1e-4:
                break
        kept = np.sqrt(v) >= 0.05
        self.coef_, self.intercept_ = np.where(kept, mean, 0.0), 100 * weights.sum()
        return self

    @staticmethod
    def _mode(X, y, v, weights):
        """Return the slope of the log-likelihood at the mode, and (K + 1 / W)^-1."""
        n = len(y)
        K = (X * v) @ X.T + 100.0

        def objective(a):
            f = K @ a
            return -0.5 * a @ f + y @ f - np.logaddexp(0, f).sum()

        for _ in range(100):
            f = K @ weights
            p = expit(f)
            root = np.sqrt(np.maximum(p * (1 - p), 1e-10))
            inner = np.linalg.inv(np.eye(n) + root[:, None] * K * root)
            right = root**2 * f + y - p
            step = right - root * (inner @ (root * (K @ right))) - weights
            before, size = objective(weights), 1.0
            while objective(weights + size * step) < before and size > 1e-6:
                size /= 2
            weights = weights + size * step
            if np.abs(step).max() < 1e-8:
                break
        return weights, root[:, None] * inner * root

    def predict_proba(self, X):
        second = expit(X @ self.coef_ + self.intercept_)
        return np.column_stack([1 - second, second])


def peers():
    penalty = LogisticRegressionCV(
        Cs=np.geomspace(0.01, 10, 10), cv=5, l1_ratios=(1,), solver="liblinear",
        use_legacy_attributes=False, scoring="neg_log_loss",
    )  # fmt: skip
    yield "l1, cross-validated", make_pipeline(StandardScaler(), penalty)
    yield "relevance", ARDLogisticClassifier(random_state=0)
    yield "MacKay, Laplace", make_pipeline(StandardScaler(), LaplaceRelevance())


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
