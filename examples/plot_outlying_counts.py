"""
A few counts that should not be there
=====================================

Counts are sometimes wrong: a counter runs twice, two sites are added up, or a zero too
many is typed. A Poisson regression must explain such a count with its coefficients,
because its distribution allows no other explanation. In robust Poisson regression the
row itself can be odd.
"""

# %%
# Errors that multiply
# --------------------
# There are two hundred rows with two features. In zero to sixteen of them, where the
# first feature is low, the count is multiplied by ten. There are twelve data sets for
# each number of errors. (Without errors the variance of the rates goes to zero, where
# EM is slow; slopes are found long before, so that ``tol`` can be large.)

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor

from sktem import RobustPoissonRegressor

truth = np.array([0.5, -0.3])


def data_set(seed, n_wrong):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(1.5 + X @ truth))
    wrong = rng.choice(np.flatnonzero(X[:, 0] < 0), n_wrong, replace=False)
    y[wrong] = 10 * y[wrong]
    return X, y, wrong


numbers = (0, 4, 8, 16)
slopes = {"Poisson": [], "robust Poisson": []}
for n_wrong in numbers:
    found = {name: [] for name in slopes}
    for seed in range(12):
        X, y, _ = data_set(seed, n_wrong)
        found["Poisson"].append(PoissonRegressor(alpha=0).fit(X, y).coef_)
        found["robust Poisson"].append(RobustPoissonRegressor(tol=1e-4).fit(X, y).coef_)
    for name, values in found.items():
        slopes[name].append(np.array(values))

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for feature, ax in enumerate(axes):
    ax.axhline(truth[feature], color="0.6", label="truth")
    for name, values in slopes.items():
        middle = [found[:, feature].mean() for found in values]
        spread = [found[:, feature].std() for found in values]
        ax.errorbar(numbers, middle, spread, fmt="o-", capsize=3, label=name)
    ax.set(xlabel="wrong counts of 200", title=f"slope of feature {feature}")
axes[0].set_ylabel("mean and deviation over data sets")
axes[0].legend()
plt.show()

# %%
# Errors on one side of a feature reduce its slope, in the robust regression by about
# half as much. The slope of the other feature is unaffected in both.
#
# Which rows are odd?
# -------------------
# The standard deviation of the log rates shows that the counts are overdispersed. With
# it, each count can be judged: how probable is a count at least as large under the fit?
# Below, the rate of each row is drawn around its regression, and then a count with this
# rate. (The wrong count among the right ones is ten times zero.)

X, y, wrong = data_set(0, 8)
robust = RobustPoissonRegressor(tol=1e-4).fit(X, y)
plain = PoissonRegressor(alpha=0).fit(X, y)
print("standard deviation of the logarithm of the rate", round(robust.sigma_, 2))

rng = np.random.default_rng(1)
centre = robust.intercept_ + X @ robust.coef_
rates = np.exp(centre + robust.sigma_ * rng.normal(size=(4000, 200)))
at_least = {
    "Poisson": (rng.poisson(plain.predict(X), size=(4000, 200)) >= y).mean(axis=0),
    "robust Poisson": (rng.poisson(rates) >= y).mean(axis=0),
}
figure, axes = plt.subplots(
    1, 2, figsize=(9, 3.5), sharex=True, sharey=True, layout="constrained"
)
right = np.setdiff1d(np.arange(200), wrong)
for ax, (name, share) in zip(axes, at_least.items(), strict=True):
    for rows, label, mark in ((right, "right counts", "."), (wrong, "wrong ones", "x")):
        ax.semilogy(X[rows, 0], np.maximum(share[rows], 2e-4), mark, label=label)
    ax.set(title=name, xlabel="feature 0")
axes[0].set_ylabel("probability of as large a count")
axes[0].legend()
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_regression.png"
