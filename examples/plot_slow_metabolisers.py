"""
Slow and fast metabolisers
==========================

Some subjects clear a drug slowly because they lack an enzyme that was not measured. The
distribution of clearances then has two peaks. A mixture of subjects finds both, and
what the probability of being slow depends on.
"""

# %%
# Data
# ----
# Sixty subjects get an intravenous dose of 100 mg. Carriers of a marker are more often
# slow.

import matplotlib.pyplot as plt
import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import subpopulations

rng = np.random.default_rng(3)
n, times = 60, np.array([1.0, 4.0, 10.0])
marker = rng.random(n) < 0.4
slow = rng.random(n) < np.where(marker, 0.75, 0.2)
CL = np.where(slow, 0.8, 2.5) * np.exp(0.25 * rng.standard_normal(n))
groups, time = np.repeat(np.arange(n), 3), np.tile(times, n)
y = 10 * np.exp(-CL[groups] / 10 * time) * (1 + 0.1 * rng.standard_normal(3 * n))
X = np.column_stack([np.full(3 * n, 100.0), time, marker[groups]])

# %%
# Two classes
# -----------
# Each class has its own clearance; the logit of the second class, the fast one, falls
# with the marker.

model = NonlinearMixedEffectsRegressor(
    "one_compartment_iv",
    parameters={"V": 8.0, "CL": 1.5},
    omega=["CL"],
    residual_error="proportional",
    fixed={"b": 0.1},
    random_state=0,
)
found = subpopulations(model, X, y, groups, parameters="CL", class_covariates=[2])
print(found.parameters.round(3))

# %%
# Who is slow
# -----------

probability = found.probabilities[:, 0]
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for carrier, mark, name in ((False, "o", "no marker"), (True, "^", "marker")):
    own = marker == carrier
    ax.scatter(CL[own], probability[own], marker=mark, s=28, alpha=0.7, label=name)
for k in (1, 2):
    ax.axvline(found.parameters.estimate[f"CL_{k}"], c="0.6", ls=":", lw=1)
ax.set(
    xlabel="true clearance (L/h)", ylabel="probability of the slow class", xscale="log"
)
ax.legend(frameon=False)
plt.show()
