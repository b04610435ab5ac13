"""
Does weight explain the clearance?
==================================

Subjects differ, and part of this may be explained by what is known about them, such as
their weight. A covariate shifts a parameter of each subject. If it explains something,
the remaining variance falls, and so does BIC.
"""

# %%
# Data
# ----
# Sixty subjects with five concentrations each after an intravenous dose. The clearance
# is proportional to weight to the power of 0.75; the volume does not depend on weight.

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor

rng = np.random.default_rng(0)
n, times = 60, np.array([0.5, 1.0, 2.0, 4.0, 8.0])
subject = np.repeat(np.arange(n), len(times))
log_weight = np.log(rng.lognormal(np.log(70), 0.25, n) / 70)
V = 10 * np.exp(0.15 * rng.normal(size=n))
CL = 2 * np.exp(0.75 * log_weight + 0.15 * rng.normal(size=n))
X = np.column_stack([np.full(n * 5, 100.0), np.tile(times, n), log_weight[subject]])
y = X[:, 0] / V[subject] * np.exp(-(CL / V)[subject] * X[:, 1])
y += 0.15 * rng.normal(size=y.size)

# %%
# Three models
# ------------
# ``covariates`` gives the columns of X that shift a parameter, on the scale on which it
# is Gaussian. Here this is the logarithmic scale, so that the coefficient is the
# exponent.

candidates = {
    "no covariate": None,
    "weight on CL": {"CL": [2]},
    "weight on CL and V": {"CL": [2], "V": [2]},
}
fits = {
    name: NonlinearMixedEffectsRegressor(
        "one_compartment_iv",
        parameters={"V": 5.0, "CL": 1.0},
        covariates=covariates,
        random_state=0,
    ).fit(X, y, groups=subject)
    for name, covariates in candidates.items()
}
print("                          BIC   variance of log CL")
for name, fit in fits.items():
    position = fit.random_effects_.index("CL")
    print(f"{name:20s} {fit.bic():8.1f} {fit.omega_[position, position]:20.3f}")
chosen = fits["weight on CL"]
for (parameter, column), effect in chosen.covariate_effects_.items():
    error = chosen.standard_errors()[f"beta_{column}({parameter})"]
    print(f"exponent of the weight: {effect:.2f} +- {error:.2f}")

# %%
# The remaining scatter
# ---------------------
# Without the covariate, the clearances of the subjects show the trend, which is part of
# the mean in the second model.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
weight = 70 * np.exp(log_weight)
plain = fits["no covariate"].individual_parameters(method="mean")["CL"]
axes[0].plot(weight, plain, "o", label="subjects")
line = np.linspace(weight.min(), weight.max(), 50)
effect = next(iter(chosen.covariate_effects_.values()))
typical = chosen.population_parameters_["CL"] * (line / 70) ** effect
axes[0].plot(line, typical, label="weight on CL")
axes[0].set(xlabel="weight (kg)", ylabel="clearance", title="fit without the covariate")
axes[0].legend()
typical = chosen.population_parameters_["CL"] * (weight / 70) ** effect
left = np.log(chosen.individual_parameters(method="mean")["CL"] / typical)
axes[1].plot(weight, left, "o")
axes[1].axhline(0, color="0.5", linewidth=1)
axes[1].set(xlabel="weight (kg)", ylabel="log clearance above typical")
axes[1].set_title("what the covariate leaves")
plt.show()
