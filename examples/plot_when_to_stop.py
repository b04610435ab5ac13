"""
When to stop: a score on held-out rows
======================================

With many components and few rows, EM continues to fit the noise long after it has
learned what there is to learn. A callback records the score of held-out rows after each
pass, and can end the fit when it no longer rises. (Callbacks need scikit-learn 1.9.)
"""

# %%
# Too many components
# -------------------
# There are three clusters in ten dimensions, and fifteen components with full
# covariances for 700 rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktem import StochasticEMGaussianMixture
from sktem.callbacks import LogLikelihoodMonitor

rng = np.random.default_rng(0)
means = 3 * rng.normal(size=(3, 10))
X = means[rng.integers(3, size=1700)] + rng.normal(size=(1700, 10))
train, held_out = X[:700], X[700:]
settings = {"n_components": 15, "max_iter": 60, "tol": 0, "random_state": 0}

# %%
# Without and with the callback
# -----------------------------

long = StochasticEMGaussianMixture(**settings)
watched = StochasticEMGaussianMixture(**settings)
if hasattr(long, "set_callbacks"):
    every_pass = LogLikelihoodMonitor(held_out)
    long.set_callbacks(every_pass)
    watched.set_callbacks(LogLikelihoodMonitor(held_out, patience=3))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    long.fit(train)
    watched.fit(train)
for name, mixture in (("60 passes", long), ("with patience=3", watched)):
    print(
        f"{name:16s} {mixture.n_iter_:3d} passes, score on the training rows "
        f"{mixture.score(train):.3f}, on held-out rows {mixture.score(held_out):.3f}"
    )

# %%
# The curves diverge: what the training rows gain, the held-out rows lose. The better
# remedy is a smaller model, or a prior; stopping early is a cheap one.

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(long.history_.passes, long.history_.objective, label="training rows")
if hasattr(long, "set_callbacks"):
    ax.plot(long.history_.passes, every_pass.scores_, label="held-out rows")
ax.axvline(watched.n_iter_, color="k", linestyle="--", label="stopped with patience=3")
ax.set(xlabel="passes over the data", ylabel="log-likelihood per row")
ax.legend()
plt.show()
