"""
Which residual error? A visual predictive check
===============================================

Data whose scatter grows with the prediction, fitted with a constant and with a
proportional error. The information criteria see the difference, and so does the eye:
data simulated from a good model look like the data.
"""

# %%
# Two fits
# --------

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor

rng = np.random.default_rng(1)
n, times = 60, np.arange(1.0, 9.0)
groups = np.repeat(np.arange(n), len(times))
X = np.column_stack([np.full(groups.size, 100.0), np.tile(times, n)])
V = 10 * np.exp(0.15 * rng.normal(size=n))[groups]
CL = 2 * np.exp(0.3 * rng.normal(size=n))[groups]
f = X[:, 0] / V * np.exp(-CL / V * X[:, 1])
y = f * (1 + 0.15 * rng.normal(size=f.size))

fits = {
    error: NonlinearMixedEffectsRegressor(
        "one_compartment_iv",
        parameters={"V": 8.0, "CL": 1.0},
        residual_error=error,
        random_state=0,
    ).fit(X, y, groups=groups)
    for error in ("constant", "proportional")
}
for error, fit in fits.items():
    print(f"{error:13s} BIC {fit.bic():8.1f}  {fit.residual_error_}")

# %%
# Simulations beside the data
# ---------------------------
# Bands hold 90 % of the simulated 10 %, 50 % and 90 % quantiles at each time; lines are
# the quantiles of the data.

levels = [0.1, 0.5, 0.9]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for ax, (error, fit) in zip(axes, fits.items(), strict=True):
    draws = np.array(
        [
            fit.simulate(X, groups, random_state=seed).reshape(n, -1)
            for seed in range(200)
        ]
    )
    bands = np.quantile(draws, levels, axis=1)
    observed = np.quantile(y.reshape(n, -1), levels, axis=0)
    for band, line in zip(bands, observed, strict=True):
        ax.fill_between(times, *np.quantile(band, [0.05, 0.95], axis=0), alpha=0.3)
        ax.plot(times, line, "k")
    ax.set(title=f"{error} error", xlabel="hours", yscale="symlog")
axes[0].set_ylabel("concentration")
figure.tight_layout()

# %%
plt.show()
