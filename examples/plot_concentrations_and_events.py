"""
Concentrations and the time to an event
=======================================

Patients with more of a drug in their blood may bleed sooner. Concentrations are
measured with errors and only at a few times, and events are censored. A joint model
learns both at once, with a hazard that depends on the concentration of each subject.
"""

# %%
# Data
# ----
# Forty subjects get an oral dose of 100 mg. The hazard is ``H0 exp(BETA c)``, and
# observation ends after 36 hours.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, Responses, read_nonmem
from sktem.plotting import KaplanMeierDisplay

rng = np.random.default_rng(0)
n, end, oral = 40, 36.0, OneCompartment("first-order")
CL = 1.0 * np.exp(0.4 * rng.standard_normal(n))
grid = np.linspace(0, end, 721)
dense = {
    "ID": np.repeat(np.arange(n), len(grid)),
    "TIME": np.tile(grid, n),
    "AMT": np.tile(np.r_[100.0, np.zeros(len(grid) - 1)], n),
}
curve = oral.predict(dense, {"CL": CL, "V": 10.0, "KA": 1.0}).reshape(n, -1)
cumulated = np.cumsum(0.01 * np.exp(0.3 * curve), axis=1) * grid[1]
passed = cumulated > rng.exponential(size=(n, 1))
happened = passed[:, -1]
time = np.where(happened, grid[passed.argmax(axis=1)], end)

samples = [20, 80, 240]  # after 1, 4 and 12 hours
tables = [
    pd.DataFrame({"ID": np.arange(n), "TIME": 0.0, "AMT": 100.0, "CMT": 1}),
    *(
        pd.DataFrame(
            {
                "ID": np.arange(n),
                "TIME": grid[k],
                "CMT": 2,
                "DV": curve[:, k] * (1 + 0.1 * rng.standard_normal(n)),
            }
        )
        for k in samples
    ),
    pd.DataFrame({"ID": np.arange(n), "TIME": time, "CMT": 3, "DV": happened * 1.0}),
]
study = pd.concat(tables).sort_values(["ID", "TIME"], kind="stable")
records = read_nonmem(study)

# %%
# A joint model
# -------------
# Records of CMT 3 are events (DV 1) or the end of observation (DV 0). The hazard is a
# function of the concentration c and is integrated between records.

model = Responses(
    oral,
    hazards={3: lambda p, records, c: p.H0 * np.exp(p.BETA * c)},
    parameters=["H0", "BETA"],
)
joint = NonlinearMixedEffectsRegressor(
    model,
    parameters={"CL": 1.5, "V": 12.0, "KA": 1.5, "H0": 0.02, "BETA": 0.1},
    transforms={"BETA": "normal"},
    omega=["CL"],
    residual_error={2: "proportional", 3: "event"},
    n_burn_in=20,
    random_state=0,
).fit(records)
print(joint.summary_.round(3))

# %%
# Survival by exposure
# --------------------
# The curves are for new subjects with three different clearances, the steps are the
# Kaplan-Meier estimate for all subjects.

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
at_risk = (time[None] >= time[:, None]).sum(axis=1)
order = np.argsort(time)
steps = np.cumprod(1 - happened[order] / at_risk[order])
ax.step(np.r_[0, time[order]], np.r_[1, steps], c="0.5", where="post", label="all")
psi = joint.population_parameters_
for factor, color in ((0.5, "C3"), (1.0, "C0"), (2.0, "C2")):
    hours = np.linspace(0.5, end, 60)
    alone = {
        "ID": np.repeat(np.arange(60), 2),
        "TIME": np.column_stack([np.zeros(60), hours]).ravel(),
        "AMT": np.tile([100.0, 0.0], 60),
        "CMT": np.tile([1, 3], 60),
    }
    survival = model.predict(alone, {**psi, "CL": factor * psi["CL"]})[1::2]
    ax.plot(hours, survival, c=color, label=f"CL {factor * psi['CL']:.1f} L/h")
ax.set(xlabel="time (h)", ylabel="share without an event", ylim=(0, 1.02))
ax.legend(frameon=False)
plt.show()

# %%
# Observed and simulated times
# ----------------------------
# The Kaplan-Meier estimate compared with those of data sets simulated from the fit,
# with the doses and the ends of observation of the study.

KaplanMeierDisplay.from_estimator(joint, records, random_state=0)
plt.show()
