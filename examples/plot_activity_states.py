"""
Activities from a sensor
========================

A sensor on the wrist sends three accelerations, with gaps when the connection is lost.
Several people wore one for a few hours; some stretches were labelled by hand.
"""

# %%
# Sequences with gaps and a few labels
# ------------------------------------
# Three activities differ in how much the sensor moves, and each lasts for a while.

import matplotlib.pyplot as plt
import numpy as np

from sktem import Durations, HiddenMarkovModel
from sktem.emissions import Gaussian

rng = np.random.default_rng(0)
names = ["rest", "walk", "run"]
means = np.array([[0.0, 0.2, 1.0], [0.3, 1.0, 0.8], [0.8, 2.0, 0.5]])
widths = np.array([0.15, 0.5, 0.9])
chain = np.array([[0.98, 0.02, 0.0], [0.02, 0.96, 0.02], [0.0, 0.04, 0.96]])
lengths = rng.integers(150, 400, size=12)
people = np.repeat(np.arange(12), lengths)
states = np.empty(len(people), int)
for t in range(len(states)):
    new = t == 0 or people[t] != people[t - 1]
    states[t] = rng.integers(3) if new else rng.choice(3, p=chain[states[t - 1]])
X = means[states] + widths[states, None] * rng.normal(size=(len(states), 3))
X[rng.random(len(X)) < 0.1] = np.nan  # lost packets
X[rng.random(X.shape) < 0.05] = np.nan  # and single values
labels = np.full(len(X), -1)
labels[people == 0] = states[people == 0]

# %%
# The labels of one person give the states of all people their names.

hmm = HiddenMarkovModel(3, emission=Gaussian("diag"), random_state=0)
hmm.fit(X, groups=people, states=labels)
path = hmm.predict(X, groups=people)
others = people > 0
print(f"right for the others: {(path == states)[others].mean():.1%}")
print("mean durations:", hmm.state_durations().mean.round())

# %%
# Do activities have typical durations? These do not: with explicit distributions of the
# durations, BIC is not lower, so the simpler model is kept.

lasting = HiddenMarkovModel(
    3, emission=Gaussian("diag"), durations=Durations(longest=400), random_state=0
)
lasting.fit(X, groups=people, states=labels)
for title, model in [("geometric", hmm), ("negative binomial", lasting)]:
    print(f"{title} durations: BIC {model.bic(X, groups=people):.0f}")

# %%
# The states of one person, and the missing values, imputed.

who = people == 3
filled = hmm.impute(X[who])
time = np.arange(who.sum())
lost = np.isnan(X[who][:, 1])
fig, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 4.5))
above.plot(time, X[who][:, 1], ".", color="0.4", ms=3, label="observed")
above.plot(time[lost], filled[lost, 1], ".", color="#c8553d", ms=5, label="imputed")
above.set_ylabel("second axis")
above.legend(fontsize="small")
below.step(time, states[who], color="0.7", lw=4, where="mid", label="true")
below.step(time, path[who], color="#4c7fb0", lw=1.2, where="mid", label="decoded")
below.set_yticks(range(3), names)
below.set_xlabel("time")
below.legend(fontsize="small")
fig.tight_layout()
plt.show()
