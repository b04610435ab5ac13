"""
How long a state lasts
======================

In a hidden Markov model, the duration of a state is geometric, so that a single row is
always the most likely duration. But the phases of a washing machine, such as heating
and spinning, have typical durations. With explicit durations (a hidden semi-Markov
model) these are learned, and they help to find the phases where single rows are
ambiguous.
"""

# %%
# Power of a machine
# ------------------
# Phases follow each other, and a single minute says little about its phase.

import matplotlib.pyplot as plt
import numpy as np

from sktem import Durations, HiddenMarkovModel
from sktem.plotting import HiddenStatesDisplay

rng = np.random.default_rng(0)
names = ["fill", "heat", "spin"]
power = np.array([0.0, 2.0, 1.0])
follows = np.array([[0.0, 0.8, 0.2], [0.1, 0.0, 0.9], [0.9, 0.1, 0.0]])
phases, k = [], 0
for _ in range(150):
    duration = 1 + rng.negative_binomial([6, 20, 12][k], 0.5)
    phases += [k] * duration
    k = rng.choice(3, p=follows[k])
phases = np.array(phases)
X = (power[phases] + rng.normal(size=len(phases)))[:, None]

# %%
# Two models
# ----------
# The distribution of durations has two parameters for each state, and BIC shows whether
# they are worthwhile. ``transitions_`` are now those from one phase to another.

plain = HiddenMarkovModel(3, random_state=0).fit(X)
durations = Durations("negative_binomial", longest=60)
explicit = HiddenMarkovModel(3, durations=durations, random_state=0).fit(X)
for title, hmm in [("geometric", plain), ("negative binomial", explicit)]:
    order = hmm.emission_params_.means.ravel().argsort()
    rank = order.argsort()
    share = (power.argsort().argsort()[phases] == rank[hmm.predict(X)]).mean()
    print(
        f"{title}: BIC {hmm.bic(X):.0f}, {share:.0%} of the minutes in the right phase"
    )

# %%
# Durations
# ---------
# The bars are the true durations, which neither model has seen.

places = {}
for title, hmm in [("geometric", plain), ("negative binomial", explicit)]:
    order = hmm.emission_params_.means.ravel().argsort()
    places[title] = order[power.argsort().argsort()]  # the state of each phase
edges = np.concatenate([[0], np.flatnonzero(np.diff(phases)) + 1, [len(phases)]])
sizes, of = np.diff(edges), phases[edges[:-1]]
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
minutes = np.arange(1, 61)
for phase, ax in enumerate(axes):
    bins = np.arange(0.5, 61, 4)
    ax.hist(sizes[of == phase], bins, density=True, color="0.85")
    for title, hmm in [("geometric", plain), ("negative binomial", explicit)]:
        table = hmm.state_durations(60).probabilities[places[title][phase]]
        ax.plot(minutes, table, label=title)
    ax.set(title=names[phase], xlabel="minutes")
axes[0].set_ylabel("probability")
axes[0].legend(fontsize="small")

# %%
# Decoded phases
# --------------
# As for any hidden Markov model, the display shows the most probable phases, the graph
# of transitions, and the durations.

named = np.empty(3, object)
named[places["negative binomial"]] = names
HiddenStatesDisplay.from_estimator(explicit, X[:600], names=list(named))
plt.show()
