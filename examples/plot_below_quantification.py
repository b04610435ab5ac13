"""
An oral study with values below the limit of quantification
===========================================================

Late samples are often too low to be measured. All that is known about such a value is
that it is below a limit. In the likelihood it counts with the probability of being
below the limit (method M3) or, since concentrations are positive, with that probability
given that it is positive (M4). Leaving these rows out, or replacing them by half the
limit, distorts the estimates.
"""

# %%
# Data
# ----
# Twenty-four subjects get an oral dose of 100 mg. A third of the samples, the late
# ones, are below the limit of 0.6 mg/L.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.plotting import IndividualFitDisplay

rng = np.random.default_rng(0)
n, times, limit = 24, np.array([0.0, 0.5, 2.0, 6.0, 12.0, 18.0, 24.0]), 0.6
study = pd.DataFrame(
    {
        "ID": np.repeat(np.arange(n), len(times)),
        "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 0, 0, 0], n),
    }
)
truth = {"CL": 3.0, "V": 20.0, "KA": 1.5}
psi = {
    "CL": truth["CL"] * np.exp(0.35 * rng.standard_normal(n)),
    "V": truth["V"],
    "KA": truth["KA"],
}
curve = OneCompartment("first-order").predict(study, psi)
study["DV"] = curve * (1 + 0.2 * rng.standard_normal(len(study)))
sampled = study.AMT == 0
low = sampled & (study.DV < limit)
study.loc[~sampled, "DV"] = np.nan
print(f"{low.sum()} of {sampled.sum()} samples are below {limit} mg/L")

# %%
# Four ways to treat them
# -----------------------
# For M3, the row has the limit as DV, and CENS is 1. M4 is the same with a residual
# error that keeps observations positive. Here the error is a fifth of the
# concentration, so that observations are positive anyway and both methods agree.

censored = study.assign(CENS=low * 1, DV=study.DV.mask(low, limit))
tables = {
    "censored (M3)": censored,
    "positive (M4)": censored,
    "left out": study[~low],
    "half the limit": study.assign(DV=study.DV.mask(low, limit / 2)),
}
fits = {}
for name, table in tables.items():
    fits[name] = NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"),
        parameters={"CL": 2.0, "V": 30.0, "KA": 1.0},
        omega=["CL"],
        residual_error=("proportional", "positive")
        if name == "positive (M4)"
        else "proportional",
        n_burn_in=20,
        random_state=0,
    ).fit(read_nonmem(table))
    found = fits[name].population_parameters_["CL"]
    error = fits[name].standard_errors()["CL"]
    deviation = fits[name].omega_[0, 0] ** 0.5
    b = fits[name].residual_error_["b"]
    print(f"{name:15s} CL {found:.2f} +- {error:.2f}, sd {deviation:.2f}, b {b:.2f}")
print(f"{'truth':15s} CL {truth['CL']:.2f}          sd 0.35, b 0.20")

# %%
# Typical curves
# --------------

grid = pd.DataFrame({"ID": -1, "TIME": np.linspace(0, 24, 100), "AMT": 0.0})
grid.loc[0, "AMT"] = 100.0
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
ax.plot(study.TIME[sampled & ~low], study.DV[sampled & ~low], ".", c="0.7", ms=4)
ax.axhline(limit, c="0.4", ls=":", lw=1)
ax.text(1, limit * 0.9, "limit of quantification", va="top", color="0.4", size=9)
for (name, fit), color in zip(fits.items(), ["C0", "C3", "C1", "C2"], strict=True):
    ax.plot(grid.TIME[1:], fit.predict(read_nonmem(grid))[1:], c=color, label=name)
exact = OneCompartment("first-order").predict(grid, truth)
ax.plot(grid.TIME[1:], exact[1:], "k--", lw=1, label="truth")
ax.set(
    xlabel="time (h)", ylabel="concentration (mg/L)", yscale="log", ylim=(0.15, None)
)
ax.legend(frameon=False)
plt.show()

# %%
# Curves of subjects
# ------------------
# The curve of a subject with few samples above the limit stays near that of the
# population. Points on the limit stand for values below it.

records = read_nonmem(censored)
fit = fits["censored (M3)"]
display = IndividualFitDisplay.from_estimator(fit, records, n_subjects=8)
for ax in display.axes_:
    ax.axhline(limit, c="0.4", ls=":", lw=1)
    ax.set(yscale="log", ylim=(0.15, 8))
    ax.set_yticks([0.2, 1, 5], ["0.2", "1", "5"])
    ax.minorticks_off()
plt.show()
