"""
A relation that changes
=======================

How strongly demand depends on the temperature is different when people heat, cool or do
neither; in each of these regimes, demand also depends on its value in the previous
hour. The regimes are not recorded. A Markov-switching regression finds them from the
relation alone, and their number by a criterion.
"""

# %%
# Two columns
# -----------
# The distribution of temperature is not modelled: it is a regressor, ``exog``.

import matplotlib.pyplot as plt
import numpy as np

from sktem import HiddenMarkovModel
from sktem.emissions import Regression
from sktem.plotting import HiddenStatesDisplay

rng = np.random.default_rng(0)
regimes = np.repeat([0, 1, 2, 1, 0, 2, 1], [150, 90, 120, 110, 130, 100, 80])
temperature = rng.normal(size=len(regimes))
slope, level = np.array([-1.5, 0.0, 1.2]), np.array([0.6, 0.0, 0.5])
demand = np.zeros(len(regimes))
for t, k in enumerate(regimes):
    before = demand[t - 1] if t else 0.0
    demand[t] = level[k] + slope[k] * temperature[t] + 0.4 * before
    demand[t] += 0.5 * rng.normal()
X = np.column_stack([demand, temperature])

# %%
# How many regimes
# ----------------
# ``n_states="auto"`` adds one regime at a time until BIC no longer falls.

emission = Regression(order=1, exog=[1])
hmm = HiddenMarkovModel("auto", emission=emission, random_state=0).fit(X)
for step in hmm.state_search_:
    print(f"{step.n_states} regime(s): BIC {step.criterion:.0f}")

coefficients = hmm.emission_params_.coefficients[:, 0]
order = coefficients[:, 1].argsort()
print("slopes", coefficients[order, 1].round(2), "true ones", slope)
print("of the hour before", coefficients[order, 2].round(2), "true one 0.4")

# %%
# Regimes over time
# -----------------
# Single hours say little: at a mild temperature all regimes look the same. What
# distinguishes them is that regimes last.

names = [f"slope {value:.1f}" for value in coefficients[:, 1]]
HiddenStatesDisplay.from_estimator(hmm, X, names=names)

# %%
# The relation in each regime.

path = hmm.predict(X)
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for k in order:
    rows = np.flatnonzero(path == k)
    rows = rows[rows > 0]
    left = demand[rows] - coefficients[k, 2] * demand[rows - 1]
    points = ax.scatter(temperature[rows], left, s=5, alpha=0.6, label=names[k])
    ends = np.array([-2.5, 2.5])
    line = coefficients[k, 0] + coefficients[k, 1] * ends
    ax.plot(ends, line, color=points.get_facecolor()[0], alpha=1)
ax.set(xlabel="temperature", ylabel="demand, less its echo", xlim=(-2.5, 2.5))
ax.legend(fontsize="small")
plt.show()
