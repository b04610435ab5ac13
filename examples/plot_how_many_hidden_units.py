"""
How many hidden units?
======================

A restricted Boltzmann machine has a likelihood, and with few hidden units it is exact.
The question is thus answered as for any other model: the log-likelihood of held-out
rows shows how many hidden units the data support.
"""

# %%
# Machines of growing size
# ------------------------
# The data are scikit-learn's digits in black and white; 600 rows are for training, the
# others are held out. The steps of a fit do not decrease, and the result is an average
# of the parameters.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sktem import ContrastiveSolver, LatentBoltzmannMachine

X = (load_digits().data > 7).astype(np.float32)
train, held_out = train_test_split(X, train_size=600, random_state=0)

sizes, scores, machines = (1, 2, 4, 8, 12, 16), [], {}
for size in sizes:
    machines[size] = LatentBoltzmannMachine(
        hidden_layer_sizes=size,
        solver=ContrastiveSolver("pcd", averaging=True),
        step_size_m=0.2,
        batch_size=50,
        max_iter=100,
        tol=None,
        random_state=0,
    ).fit(train)
    log_z = machines[size].log_partition("exact").value
    scores.append(
        [
            machines[size].score_samples(rows, log_partition=log_z).mean()
            for rows in (train, held_out)
        ]
    )
rates = np.clip(train.mean(axis=0), 0.005, 0.995)
alone = (held_out * np.log(rates) + (1 - held_out) * np.log1p(-rates)).sum(axis=1)

print("hidden units   training rows   held-out rows")
print(f"           0                 {alone.mean():15.2f}")
for size, (inside, outside) in zip(sizes, scores, strict=True):
    print(f"{size:12d} {inside:15.2f} {outside:15.2f}")

# %%
# Held-out rows gain less than training rows, but they still gain with sixteen units.
#
# Features of the units
# ---------------------
# The weights between a hidden unit and the pixels, red where it favours ink.

figure = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1])
ax = left.subplots()
for name, values in zip(("training", "held-out"), np.transpose(scores), strict=True):
    ax.plot(sizes, values, "o-", label=f"{name} rows")
ax.axhline(alone.mean(), color="k", linestyle="--", label="no hidden units")
ax.set(xlabel="hidden units", ylabel="log-likelihood per row")
ax.legend()
weights = machines[12].weights_[0]
bound = np.abs(weights).max()
for panel, column in zip(right.subplots(3, 4).ravel(), weights.T, strict=True):
    panel.imshow(column.reshape(8, 8), cmap="RdBu_r", vmin=-bound, vmax=bound)
    panel.set(xticks=[], yticks=[])
right.suptitle("weights of twelve hidden units", fontsize="medium")
plt.show()
