"""
Which residual error? A visual predictive check
===============================================

Data whose scatter grows with the prediction are fitted with a constant and with a
proportional error. The information criteria show the difference, and so do plots: data
simulated from a good model look like the data, and its residuals look like noise.
"""

# %%
# Two fits
# --------
# There are sixty subjects; half of them get half the dose.

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from sktem.plotting import ResidualDisplay, VisualPredictiveCheckDisplay

rng = np.random.default_rng(1)
n, times = 60, np.arange(1.0, 9.0)
groups = np.repeat(np.arange(n), len(times))
dose = np.where(groups % 2, 50.0, 100.0)
X = np.column_stack([dose, np.tile(times, n)])
V = 10 * np.exp(0.15 * rng.normal(size=n))[groups]
CL = 2 * np.exp(0.3 * rng.normal(size=n))[groups]
f = X[:, 0] / V * np.exp(-CL / V * X[:, 1])
y = f * (1 + 0.25 * rng.normal(size=f.size))

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
# Simulations and data
# --------------------
# The lines are percentiles of the data at each time. The bands contain 90 % of the same
# percentiles of data sets simulated from the fit. Doses differ: the correction scales
# all observations, including simulated ones, to the typical prediction at their time,
# so that the percentiles reflect only subjects and noise.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, (error, fit) in zip(axes, fits.items(), strict=True):
    VisualPredictiveCheckDisplay.from_estimator(
        fit, X, y, groups, prediction_corrected=True, random_state=0, ax=ax
    )
    ax.set(title=f"{error} error")

# %%
# With the constant error, late concentrations are simulated with far too much scatter,
# down to negative ones: the lines of the data leave their bands on the inner side.
#
# Residuals
# ---------
# NPDE compare each observation with simulated ones of the same subject. If the model is
# right, they are standard normal, however nonlinear the model is. Those of the constant
# error fan out as the prediction grows, and have long tails around a narrow peak.

figure, axes = plt.subplots(2, 3, figsize=(10, 5), layout="constrained")
for row, (error, fit) in zip(axes, fits.items(), strict=True):
    ResidualDisplay.from_estimator(
        fit, X, y, groups, kinds="npde", random_state=0, ax=row
    )
    row[0].set_ylabel(f"NPDE, {error} error")

# %%
plt.show()
# sphinx_gallery_thumbnail_path = "images/guide_predictive_check.png"
