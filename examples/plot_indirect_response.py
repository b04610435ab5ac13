"""
An indirect response by differential equations
==============================================

A drug slows the production of a marker in the blood. The marker follows with a delay,
which is due to its turnover. Both are observed: the model is a system of differential
equations with two endpoints, each with its own error.
"""

# %%
# The model
# ---------
# The right-hand side is a Python function that is compiled by numba. Initially,
# production and loss of the marker are in balance.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numba import njit

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import ODE, read_nonmem


@njit
def turnover(t, A, p):
    concentration = A[0] / p.V
    inhibition = 1 - concentration / (p.IC50 + concentration)
    return -p.CL / p.V * A[0], p.KIN * inhibition - p.KOUT * A[1]


model = ODE(
    turnover,
    parameters=["CL", "V", "KIN", "KOUT", "IC50"],
    n_states=2,
    initial=lambda p: (0.0 * p.KIN, p.KIN / p.KOUT),
    output={1: lambda A, p: A[0] / p.V, 2: lambda A, p: A[1]},
    rtol=1e-5,
    atol=1e-7,
)

# %%
# Data
# ----
# Ten subjects get a bolus of 100 mg. Records with CMT 1 are concentrations, those with
# CMT 2 are the marker.

rng = np.random.default_rng(0)
n = 10
times = {1: [0.5, 2.0, 6.0, 12.0], 2: [1.0, 4.0, 8.0, 16.0, 24.0, 36.0]}
rows = [(0.0, 100.0, 1, 1)]
rows += sorted((t, 0.0, 0, kind) for kind, own in times.items() for t in own)
subject = pd.DataFrame(rows, columns=["TIME", "AMT", "EVID", "CMT"])
study = pd.concat([subject.assign(ID=i) for i in range(n)], ignore_index=True)
truth = {"CL": 3.0, "V": 20.0, "KIN": 8.0, "KOUT": 0.25, "IC50": 0.6}
psi = {name: np.full(n, value) for name, value in truth.items()}
psi["CL"] = psi["CL"] * np.exp(0.3 * rng.standard_normal(n))
psi["IC50"] = psi["IC50"] * np.exp(0.4 * rng.standard_normal(n))
f = model.predict(study, psi)
noise = rng.standard_normal(len(study))
study["DV"] = np.where(study.CMT == 1, f * (1 + 0.1 * noise), f + 1.5 * noise)
study.loc[study.AMT > 0, "DV"] = np.nan

# %%
# Fit
# ---
# To build this page quickly, the iterations end early and without Newton steps on the
# likelihood. Omit ``max_iter`` and ``tol`` for a fit that has converged.

records = read_nonmem(study)
fit = NonlinearMixedEffectsRegressor(
    model,
    parameters={"CL": 2.0, "V": 30.0, "KIN": 6.0, "KOUT": 0.2, "IC50": 1.0},
    omega=["CL", "IC50"],
    residual_error={1: "proportional", 2: "additive"},
    max_iter=40,
    n_burn_in=25,
    tol=0,
    random_state=0,
).fit(records)
for name, value in fit.population_parameters_.items():
    print(f"{name:5s} {value:7.3f} (truth {truth[name]:g})")
print({name: round(value, 3) for name, value in fit.residual_error_.items()})

# %%
# Curves of four subjects
# -----------------------

grid = pd.DataFrame({"TIME": np.linspace(0.01, 40, 80), "AMT": 0.0, "EVID": 0})
dose = pd.DataFrame({"TIME": [0.0], "AMT": [100.0], "EVID": [1]})
curves = pd.concat(
    [pd.concat([dose, grid]).assign(ID=i, CMT=c) for i in range(4) for c in (1, 2)]
).sort_values(["ID", "TIME"], kind="stable")
curves = curves[~((curves.AMT > 0) & (curves.CMT == 2))]
values = fit.predict(read_nonmem(curves))
figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), sharex=True, sharey="row",
                            layout="constrained")  # fmt: skip
for i in range(4):
    for ax, kind, color in zip(axes[:, i], (1, 2), ("C0", "C1"), strict=True):
        own = (curves.ID == i) & (curves.CMT == kind) & (curves.EVID == 0)
        ax.plot(curves.TIME[own], values[own], c=color)
        seen = (study.ID == i) & (study.CMT == kind) & (study.EVID == 0)
        ax.plot(study.TIME[seen], study.DV[seen], "k.", ms=5)
axes[0, 0].set(ylabel="concentration (mg/L)", yscale="log", ylim=(0.01, None))
axes[1, 0].set_ylabel("marker")
figure.supxlabel("time (h)")
plt.show()
