"""
Several labels given inputs: a conditional machine
==================================================

A conditional restricted machine learns the joint probability of several labels given
inputs that it does not model. Its hidden units are connected to both, so that labels
depend on each other even if the inputs are known. Here the inputs are the upper halves
of digits, and each pixel of the lower half is a label, black or white.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from sktem import BoltzmannMachineClassifier

images = load_digits().images
upper = images[:, :4].reshape(-1, 32) / 16
# The outermost columns are always white.
labels = (images[:, 4:, 1:7] > 7).reshape(-1, 24).astype(int)
train, test = slice(0, 1000), slice(1000, None)

machine = BoltzmannMachineClassifier(
    n_hidden=8, weight_decay=0.001, tol=0.003, random_state=0
).fit(upper[train], labels[train])
apart = MultiOutputClassifier(LogisticRegression(C=3, max_iter=500))
apart.fit(upper[train], labels[train])

# %%
# For single labels, both models are about equally good. For all 24 labels together,
# they are not. The likelihood of the machine is exact: its eight hidden units are
# summed out.
chances = np.stack([p[:, 1] for p in apart.predict_proba(upper[test])], axis=1)
y = labels[test]
alone = np.log(np.where(y == 1, chances, 1 - chances)).sum(axis=1).mean()
together = machine.log_likelihood(upper[test], y) / len(y)
for name, model, value in (("apart", apart, alone), ("together", machine, together)):
    right = (model.predict(upper[test]) == y).mean()
    print(f"{name:9} labels right {right:.1%}, log-likelihood {value:.2f}")

# %%
# Draws given an upper half are lower halves that fit it.
shown = [3, 5, 8, 14, 21, 30]
fig, axes = plt.subplots(4, len(shown), figsize=(7, 5))
rng = np.random.default_rng(0)
for column, k in zip(axes.T, shown, strict=True):
    given = upper[test][k]
    independent = rng.random(24) < chances[k]
    drawn = machine.sample(np.tile(given, (2, 1)))
    for ax, lower in zip(column, (y[k], *drawn, independent), strict=True):
        pixels = np.pad(14.0 * lower.reshape(4, 6), ((0, 0), (1, 1)))
        image = np.vstack([16 * given.reshape(4, 8), pixels])
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=16)
        ax.set_xticks([])
        ax.set_yticks([])
for ax, name in zip(axes[:, 0], ("true", "drawn", "drawn", "apart"), strict=True):
    ax.set_ylabel(name)
fig.tight_layout()
plt.show()
