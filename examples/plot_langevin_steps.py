"""
How long may a Langevin step be?
================================

In robust Poisson regression, the latents are drawn by the unadjusted Langevin algorithm
(ULA) or by its Metropolis-adjusted form (MALA), here with steps from short to too long.
If the step is too long, MALA rejects nearly everything and hardly moves. ULA keeps
moving, with a bias, until its safeguard has to halve the steps.
"""

# %%
# The loss of log-likelihood after 60 iterations
# ----------------------------------------------
# The loss is relative to the maximum, which is found by quadrature.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sktem import RobustPoissonRegressor
from sktem.exceptions import FitWarning
from sktem.samplers import MALA, ULA

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2))
y = rng.poisson(np.exp(1.5 + X @ [0.6, -0.3] + 0.5 * rng.normal(size=300)))
best = RobustPoissonRegressor(tol=1e-8).fit(X, y).log_likelihood(X, y)

steps = np.geomspace(1e-3, 10.0, 10)
loss, accepted = {"ULA": [], "MALA": []}, []
for step in steps:
    for kind in (ULA, MALA):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the guard reports itself
            fit = RobustPoissonRegressor(
                sampler=kind(step, n_steps=3), max_iter=60, tol=0, random_state=0
            ).fit(X, y)
        loss[kind.__name__].append((best - fit.log_likelihood(X, y)) / len(y))
    accepted.append(np.mean(fit.history_.acceptance_rate[-10:]))

figure, (ax, right) = plt.subplots(1, 2, figsize=(10, 4))
for name, values in loss.items():
    ax.loglog(steps, np.maximum(values, 1e-6), "o-", label=name)
ax.set(xlabel="Langevin step", ylabel="loss of log-likelihood per row")
ax.legend()
right.semilogx(steps, accepted, "o-")
right.set(xlabel="Langevin step", ylabel="acceptance of MALA", ylim=(0, 1))
figure.tight_layout()

# %%
plt.show()
