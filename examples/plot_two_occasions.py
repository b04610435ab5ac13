"""
Two occasions of the same subjects
==================================

The clearance of a subject is not the same on two visits. A model with one random effect
per subject treats the difference as noise of the samples; a second random effect, for
occasions within subjects, separates the two.
"""

# %%
# Data
# ----
# Thirty subjects get an intravenous dose on each of two visits. The standard deviation
# of the clearance is 30 % between subjects and 20 % between visits.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem

rng = np.random.default_rng(1)
n, times = 30, np.array([0.0, 1.0, 4.0, 8.0, 16.0])
visits = np.repeat([1, 2], len(times))
study = pd.DataFrame(
    {
        "ID": np.repeat(np.arange(n), 2 * len(times)),
        "TIME": np.tile(np.concatenate([times, 168 + times]), n),
        "AMT": np.tile([100.0, 0, 0, 0, 0], 2 * n),
        "VISIT": np.tile(visits, n),
    }
)
of_subject = 0.3 * rng.standard_normal(n)
of_visit = 0.2 * rng.standard_normal((n, 2))
CL = 2 * np.exp(of_subject[:, None] + of_visit)
curve = OneCompartment().predict(
    study, {"CL": CL[study.ID, study.VISIT - 1], "V": np.full(len(study), 15.0)}
)
study["DV"] = curve * (1 + 0.1 * rng.standard_normal(len(study)))
study.loc[study.AMT > 0, "DV"] = np.nan
records = read_nonmem(study)

# %%
# Both models
# -----------
# The likelihood integrates over the effects of a subject and its visits together.

settings = {
    "parameters": {"CL": 1.0, "V": 10.0},
    "omega": ["CL"],
    "residual_error": "proportional",
    "random_state": 0,
}
plain = NonlinearMixedEffectsRegressor(OneCompartment(), **settings).fit(records)
two = NonlinearMixedEffectsRegressor(
    OneCompartment(), occasions={"VISIT": ["CL"]}, **settings
).fit(records)
print(f"AIC {plain.aic():.1f} without effects of visits, {two.aic():.1f} with them")
print(
    f"residual error {plain.residual_error_['b']:.3f}, {two.residual_error_['b']:.3f}"
)
print(two.summary_.round(3))

# %%
# Clearances of the visits
# ------------------------
# One value for each visit, in the order of the records.

found = two.individual_parameters(by_occasion=True)["CL"].reshape(n, 2)
typical = two.individual_parameters()["CL"]
order = np.argsort(typical)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(typical[order], np.arange(n), "|", c="0.3", ms=9, label="subject")
for visit, color in ((0, "C0"), (1, "C1")):
    ax.plot(found[order, visit], np.arange(n), ".", c=color, label=f"visit {visit + 1}")
    ax.plot(CL[order, visit], np.arange(n), "o", mfc="none", c=color, ms=7, alpha=0.5)
ax.plot([], [], "o", mfc="none", c="0.5", label="truth")
ax.set(xlabel="clearance (L/h)", ylabel="subject, by clearance")
ax.legend(frameon=False, loc="lower right")
plt.show()
