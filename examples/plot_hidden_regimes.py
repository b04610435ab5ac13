"""
Calm and stormy times
=====================

The size of price changes comes in regimes: calm times last, and so do stormy ones. A
hidden Markov model finds these regimes, their durations, and how likely each is today.
"""

# %%
# A series with three regimes
# ---------------------------
# Returns have mean 0 in all regimes, so that clustering single rows would not separate
# them. What distinguishes the regimes is that neighbouring returns have similar sizes.

import matplotlib.pyplot as plt
import numpy as np

from sktem import HiddenMarkovModel

rng = np.random.default_rng(4)
spread = np.array([0.4, 1.0, 2.5])
chain = np.array([[0.985, 0.015, 0.0], [0.01, 0.975, 0.015], [0.0, 0.04, 0.96]])
states = np.empty(1500, int)
for t in range(len(states)):
    states[t] = rng.choice(3, p=chain[states[t - 1]]) if t else 0
returns = spread[states] * rng.normal(size=len(states))
returns[600:620] = np.nan  # the exchange was closed

# %%
# Regimes
# -------
# Missing rows need no special treatment.

hmm = HiddenMarkovModel(3, random_state=0).fit(returns[:, None])
order = hmm.emission_params_.covariances.ravel().argsort()
found = np.sqrt(hmm.emission_params_.covariances.ravel()[order])
print("standard deviations:", found.round(2), "true ones:", spread)
print("mean durations:", hmm.state_durations().mean[order].round())

probabilities = hmm.predict_proba(returns[:, None])[:, order]
fig, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 4.5))
above.plot(np.nancumsum(returns), color="0.3", lw=0.8)
above.set_ylabel("log price")
colours = ["#4c9f70", "#e0b64a", "#c8553d"]
days = np.arange(len(returns))
below.stackplot(
    days, probabilities.T, colors=colours, labels=["calm", "usual", "stormy"]
)
below.set(xlabel="day", ylabel="probability", xlim=(0, len(days)), ylim=(0, 1))
below.legend(loc="upper right", ncols=3, fontsize="small")
fig.tight_layout()

# %%
# A single call shows the most probable path over the series, the transitions between
# regimes, and their durations.

from sktem.plotting import HiddenStatesDisplay

names = np.array(["calm", "usual", "stormy"])[order.argsort()]
HiddenStatesDisplay.from_estimator(hmm, returns[:, None], names=names)

# %%
# Tomorrow
# --------
# Forecasts average over the regimes; the bands are wide where a storm may come.

forecast = hmm.forecast(returns[:, None], 20, n_draws=2000)
low, high = np.quantile(forecast.draws[:, 0, :, 0], [0.05, 0.95], axis=0)
fig, ax = plt.subplots(figsize=(8, 2.8))
ax.plot(np.arange(-60, 0), returns[-60:], color="0.3", lw=0.8)
ax.fill_between(np.arange(20), low, high, color="#4c7fb0", alpha=0.4, lw=0)
ax.set(xlabel="days from now", ylabel="return")
fig.tight_layout()
plt.show()
