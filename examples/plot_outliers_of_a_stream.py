"""
Outliers of a stream
====================

A process is monitored for months: rows arrive in chunks and cannot be kept, and what is
normal drifts. ``MixtureOutlierDetector.partial_fit`` follows with constant memory. The
threshold for a given ``contamination`` is that of the last 4,096 rows.
"""

# %%
# A machine with four sensors has three regimes. One percent of the rows are faults, in
# which sensors contradict each other although each is in its usual range.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from sktem import MixtureOutlierDetector

rng = np.random.default_rng(0)
centres = 4 * rng.normal(size=(3, 4))
mixing = rng.normal(size=(3, 4, 4)) / 2


def chunk(n, time):
    """Return rows, and which are faults, when a regime has drifted."""
    regime = rng.integers(3, size=n)
    X = centres[regime] + np.einsum(
        "nij,nj->ni", mixing[regime], rng.normal(size=(n, 4))
    )
    fault = rng.random(n) < 0.01
    for column in range(4):  # each sensor of a fault comes from another row
        X[fault, column] = rng.permutation(X[:, column])[: fault.sum()]
    return X + 2 * time, fault


detector = MixtureOutlierDetector(3, contamination=0.01, random_state=0)
still = MixtureOutlierDetector(3, contamination=0.01, random_state=0)
still.fit(chunk(2000, 0.0)[0])

# %%
# Each chunk is judged before it is learned from.

times, following, fixed, alarms = np.linspace(0, 1, 40), [], [], []
for number, time in enumerate(times):
    X, fault = chunk(1000, time)
    if number > 1:
        following.append(roc_auc_score(fault, -detector.score_samples(X)))
        fixed.append(roc_auc_score(fault, -still.score_samples(X)))
        alarms.append(
            [(detector.predict(X) == -1).mean(), (still.predict(X) == -1).mean()]
        )
    detector.partial_fit(X)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(times[2:], following, label="partial_fit")
left.plot(times[2:], fixed, "--", label="fitted once")
left.set(xlabel="time", title="Area under the ROC curve")
left.legend()
right.plot(times[2:], np.array(alarms), label=["partial_fit", "fitted once"])
right.axhline(0.01, color="k", lw=0.8)
right.set(xlabel="time", title="Share of rows with an alarm", yscale="log")
plt.show()
