"""
Concentrations of a drug in many subjects
=========================================

After an oral dose, the concentration of a drug rises and falls, at different rates in
each subject. From a few samples per subject, a nonlinear mixed-effects model learns the
typical curve, how much subjects differ from it, and the curve of each subject.
"""

# %%
# Data
# ----
# Thirty subjects have six samples each, at different times. The absorption rate ka, the
# volume V and the clearance CL are log-normal among subjects.

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from sktem.plotting import (
    IndividualFitDisplay,
    ParameterTraceDisplay,
    PredictionDisplay,
)

rng = np.random.default_rng(0)
n, m = 30, 6
groups = np.repeat(np.arange(n), m)
time = np.sort(rng.uniform(0.25, 24, size=(n, m)), axis=1).ravel()
truth = np.array([1.5, 30.0, 3.0]) * np.exp([0.5, 0.2, 0.3] * rng.normal(size=(n, 3)))
ka, V, CL = truth[groups].T
k = CL / V
curve = 320 * ka / (V * (ka - k)) * (np.exp(-k * time) - np.exp(-ka * time))
X = np.column_stack([np.full(n * m, 320.0), time])
y = curve + 0.4 * rng.normal(size=n * m)

# %%
# Fit
# ---
# The model is from the library; the start values are wrong on purpose.

pk = NonlinearMixedEffectsRegressor(
    "one_compartment_oral",
    parameters={"ka": 0.7, "V": 50.0, "CL": 1.0},
    random_state=0,
).fit(X, y, groups=groups)
for name, value in pk.population_parameters_.items():
    print(f"{name:3s} {value:6.2f} +- {pk.standard_errors()[name]:.2f}")
print("variances of the logarithms", np.diag(pk.omega_).round(3))

# %%
# Individual curves
# -----------------
# The prediction for a known subject uses the mode of its random effects; that for an
# unknown one has random effects of zero.

display = IndividualFitDisplay.from_estimator(pk, X, y, groups, n_subjects=8)
display.figure_.supylabel("concentration")
plt.show()

# %%
# Fits of the individual parameters, and residuals.

PredictionDisplay.from_estimator(pk, X, y, groups)
plt.show()

# %%
# Did it converge?
# ----------------
# Two runs begin from different starts. Variances are kept large at first, so that the
# chains can leave a bad start ("annealing"). Then steps of 1 lead to the solution,
# around which the estimates fluctuate. From the dashed line on the steps fall, and from
# the solid one on the estimates are averaged. If the average itself drifts, there is
# another burn-in.
#
# The runs agree. They differ most in the variance of ka, by a fifth of its standard
# error: the samples contain little information about it, since few of them are early. A
# smaller ``tol`` would bring them closer together.

display = ParameterTraceDisplay.from_estimator(pk, name="first run")
again = NonlinearMixedEffectsRegressor(
    "one_compartment_oral",
    parameters={"ka": 3.0, "V": 20.0, "CL": 5.0},
    random_state=1,
).fit(X, y, groups=groups)
ParameterTraceDisplay.from_estimator(again, name="second run", ax=display.axes_)
for run in (pk, again):
    error = run.standard_errors()["omega2_ka"]
    print(f"variance of ka {run.omega_[0, 0]:.3f} +- {error:.3f}")
print(pk.n_iter_, "passes,", "converged" if pk.converged_ else "not converged")

# %%
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_mixed_effects.png"
