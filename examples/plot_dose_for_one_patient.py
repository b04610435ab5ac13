"""
The dose for one patient
========================

In therapeutic drug monitoring, two samples of a patient and a published population
model show which dose this patient needs. Nothing is fitted to a population here; the
parameters of the model are given.
"""

# %%
# The population
# --------------
# The drug is an antibiotic given by infusion and eliminated by the kidneys.
# ``omega_start`` has the variances between patients, ``fixed`` the residual error and
# the effect of the creatinine clearance.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem

population = NonlinearMixedEffectsRegressor(
    OneCompartment(),
    parameters={"CL": 4.5, "V": 50.0},
    covariates={"CL": "LOGCRCL"},
    omega_start={"CL": 0.08, "V": 0.04},
    residual_error="combined",
    fixed={"beta_LOGCRCL(CL)": 0.8, "a": 1.0, "b": 0.12},
    random_state=0,
)

# %%
# The patient
# -----------
# The patient gets a gram every 12 hours as a one-hour infusion; a peak and a trough are
# measured after the second.

seen = pd.DataFrame(
    {
        "ID": 1,
        "TIME": [0.0, 12.0, 14.0, 23.5],
        "AMT": [1000.0, 1000.0, 0.0, 0.0],
        "RATE": [1000.0, 1000.0, 0.0, 0.0],
        "DV": [np.nan, np.nan, 40.5, 24.0],
        "LOGCRCL": np.log(60 / 100),
    }
)
records = read_nonmem(seen)
mode = population.individual_parameters(records)
drawn = population.individual_parameters(records, method="draws", n_draws=300)
a_priori = 4.5 * 0.6**0.8
print(f"clearance of such patients {a_priori:.2f} L/h, of this one {mode['CL'][0]:.2f}")
low, high = np.quantile(drawn["CL"], [0.05, 0.95])
print(f"with 90 % probability between {low:.2f} and {high:.2f}")

# %%
# Which dose
# ----------
# The target is a trough between 10 and 15 mg/L. For each candidate dose, concentrations
# of the next day are predicted for all draws of the patient's parameters.

grid = np.linspace(0.0, 72.0, 145)


def course(dose):
    """Return the records of the next days under a dose every 12 hours."""
    given = [(t, 1000.0) for t in (0.0, 12.0)]
    given += [(t, dose) for t in np.arange(24.0, 72.0, 12.0)]
    doses = pd.DataFrame(given, columns=["TIME", "AMT"]).assign(EVID=1)
    rows = pd.concat([doses.assign(RATE=doses.AMT), pd.DataFrame({"TIME": grid})])
    return rows.fillna(0.0).assign(ID=1).sort_values("TIME", kind="stable")


doses, shares, bands = [400.0, 600.0, 800.0, 1000.0], [], {}
for dose in doses:
    one = course(dose)
    many = np.array(
        [
            OneCompartment().predict(one, {"CL": CL, "V": V})
            for CL, V in zip(drawn["CL"][:, 0], drawn["V"][:, 0], strict=True)
        ]
    )[:, one.EVID == 0]
    trough = many[:, np.searchsorted(grid, 71.5)]
    shares.append(((trough >= 10) & (trough <= 15)).mean())
    bands[dose] = np.quantile(many, [0.05, 0.5, 0.95], axis=0)
    print(f"{dose:5.0f} mg: trough {np.median(trough):4.1f}, in range {shares[-1]:.0%}")
best = doses[int(np.argmax(shares))]

# %%

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.axhspan(10, 15, color="C2", alpha=0.15, lw=0)
for dose, color in ((1000.0, "0.5"), (best, "C0")):
    low, middle, high = bands[dose]
    ax.fill_between(grid, low, high, color=color, alpha=0.2, lw=0)
    ax.plot(grid, middle, c=color, label=f"{dose:.0f} mg from 24 h on")
ax.plot(seen.TIME[2:], seen.DV[2:], "ko", ms=5, label="samples")
ax.set(xlabel="time (h)", ylabel="concentration (mg/L)")
ax.legend(frameon=False)
plt.show()
