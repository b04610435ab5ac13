"""
Labels given inputs: a restricted machine as a classifier
=========================================================

A restricted Boltzmann machine can have a label and hidden units, given inputs that it
does not model. Its class probabilities are exact, and it is learned without sampling.
Each hidden unit adds a fold to the surface between the classes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sktem import BoltzmannMachineClassifier

X, y = make_moons(600, noise=0.2, random_state=0)
train, test = slice(0, 300), slice(300, None)
models = {
    "logistic regression": LogisticRegression(),
    "2 hidden units": BoltzmannMachineClassifier(n_hidden=2, random_state=0),
    "16 hidden units": BoltzmannMachineClassifier(n_hidden=16, random_state=0),
}
for name, model in models.items():
    model.fit(X[train], y[train])
    loss = log_loss(y[test], model.predict_proba(X[test]))
    right = model.score(X[test], y[test])
    print(f"{name:20} {right:.1%} right, log-loss {loss:.3f}")

# %%
# On the lines, the probability of the second class is 0.1, 0.5 and 0.9.
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.5, 2, 90)), axis=-1)
fig, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(90, 120)
    ax.scatter(*X[test].T, c=y[test], s=6, cmap="coolwarm")
    ax.contour(grid[..., 0], grid[..., 1], p, [0.1, 0.5, 0.9], colors="k")
    ax.set_title(name)
fig.tight_layout()
plt.show()
