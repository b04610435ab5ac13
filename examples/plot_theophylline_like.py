"""
Concentrations of a drug in many subjects
=========================================

After a dose by mouth the concentration of a drug rises and falls, in each subject with
rates of its own. A nonlinear mixed-effects model learns the typical curve, how much
subjects differ from it, and the curve of each subject, from few samples of each.
"""

# %%
# Data
# ----
# Thirty subjects with six samples each, at times of their own. The absorption rate ka,
# the volume V and the clearance CL are log-normal among subjects.

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor

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
# The model is one of the library; the start values are wrong on purpose.

pk = NonlinearMixedEffectsRegressor(
    "one_compartment_oral",
    parameters={"ka": 0.7, "V": 50.0, "CL": 1.0},
    random_state=0,
).fit(X, y, groups=groups)
for name, value in pk.population_parameters_.items():
    print(f"{name:3s} {value:6.2f} +- {pk.standard_errors_[name]:.2f}")
print("variances of the logarithms", np.diag(pk.omega_).round(3))

# %%
# Individual curves
# -----------------
# The prediction of a known subject uses the mode of its random effects; that of an
# unknown one has random effects of zero.

grid = np.linspace(0.01, 24, 100)
inputs = np.column_stack([np.full(100, 320.0), grid])
figure, axes = plt.subplots(2, 4, figsize=(10, 5), sharex=True, sharey=True)
for subject, ax in enumerate(axes.flat):
    own = groups == subject
    ax.plot(grid, pk.predict(inputs), color="0.7", label="population")
    ax.plot(grid, pk.predict(inputs, groups=np.full(100, subject)), label="individual")
    ax.plot(time[own], y[own], "k.", label="observed")
axes[0, 0].legend()
figure.supxlabel("hours")
figure.supylabel("concentration")
figure.tight_layout()

# %%
# Did it converge?
# ----------------
# The path of the estimates, and the Monte Carlo error of their average beside the
# standard error.

figure, axes = plt.subplots(1, 3, figsize=(10, 3))
for ax, name in zip(axes, ["ka", "omega2_V", "a"], strict=True):
    ax.plot(pk.trace_[name])
    ax.set(title=name, xlabel="epoch")
figure.tight_layout()
print(pk.n_iter_, "passes,", "converged" if pk.converged_ else "not converged")

# %%
plt.show()
