"""
Which rows are odd?
===================

A mixture is a density, and rows where it is low are unlike the others.
``score_samples`` returns the log-density of each row; a quantile of these values on
clean rows is a threshold that a known share of ordinary rows passes.
"""

# %%
# Ordinary rows and odd ones
# --------------------------
# There are two curved clusters, and among the test rows a few that lie anywhere.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score

from sktem import StochasticEMGaussianMixture

rng = np.random.default_rng(0)
train, _ = make_moons(3000, noise=0.08, random_state=0)
ordinary, _ = make_moons(950, noise=0.08, random_state=1)
odd = rng.uniform([-1.6, -1.1], [2.6, 1.6], (50, 2))
test = np.vstack([ordinary, odd])
is_odd = np.arange(1000) >= 950

# %%
# One threshold
# -------------
# Clusters need not be Gaussian: several components share a curved one. Their number is
# chosen by BIC.

mixtures = {
    n: StochasticEMGaussianMixture(n, n_init=3, tol=1e-4, random_state=0).fit(train)
    for n in (2, 4, 8, 12)
}
bic = {n: mixture.bic(train) for n, mixture in mixtures.items()}
best = min(bic, key=bic.get)
mixture = mixtures[best]
threshold = np.quantile(mixture.score_samples(train), 0.01)
density = mixture.score_samples(test)
flagged = density < threshold
print({n: round(value) for n, value in bic.items()}, "->", best, "components")
print(f"ordinary rows flagged: {flagged[~is_odd].mean():.3f}, expected 0.01")
print(f"odd rows flagged: {flagged[is_odd].mean():.2f}, ", end="")
print(f"area under the ROC curve {roc_auc_score(is_odd, -density):.3f}")

# %%
# The remaining odd rows lie where ordinary rows are common. No method that uses only
# the position of a row could find them.

x, y = np.meshgrid(np.linspace(-1.7, 2.7, 200), np.linspace(-1.2, 1.7, 150))
surface = mixture.score_samples(np.column_stack([x.ravel(), y.ravel()]))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.contourf(x, y, surface.reshape(x.shape).clip(-8), levels=12, cmap="Blues")
ax.contour(x, y, surface.reshape(x.shape), levels=[threshold], colors="k")
ax.plot(*test[~flagged].T, ".", ms=3, color="0.3", label="not flagged")
ax.plot(*test[flagged].T, "x", color="C3", label="flagged")
ax.set(title="the line holds 99 % of the training rows", xticks=[], yticks=[])
ax.legend(loc="upper right")
plt.show()
