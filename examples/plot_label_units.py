"""
Learn labels alone, or inputs and labels together?
==================================================

Two machines with the same number of hidden units predict the name of a wine from its
measurements. :class:`~sktem.BoltzmannMachineClassifier` learns the probability of a
name given the measurements. :class:`~sktem.LatentBoltzmannMachine` models measurements
and names together; the probability of a name follows from the likelihoods of the row
with each of the three names. The first is made for this question. The second also works
where measurements are missing.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sktem import BoltzmannMachineClassifier, LatentBoltzmannMachine

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

alone = BoltzmannMachineClassifier(n_hidden=6, random_state=0).fit(X, y)
kinds = ["gaussian"] * X.shape[1] + ["categorical"]
together = LatentBoltzmannMachine(
    visible=kinds, hidden_layer_sizes=6, max_iter=400, tol=None, random_state=0
).fit(np.column_stack([X, y]))


def joint_proba(X):
    """Return probabilities of the names from the likelihoods of all of them."""
    of_each = [np.column_stack([X, np.full(len(X), k)]) for k in range(3)]
    return softmax([together.score_samples(rows) for rows in of_each], axis=0).T


for name, p in (
    ("labels alone", alone.predict_proba(X_test)),
    ("together", joint_proba(X_test)),
):
    right = np.mean(p.argmax(axis=1) == y_test)
    print(f"{name:13} {right:.1%} right, log-loss {log_loss(y_test, p):.3f}")

# %%
# Measurements are removed at random. The classifier gets means in their place; the
# joint machine uses the remaining measurements as they are.
shares, rng = np.linspace(0, 0.9, 7), np.random.default_rng(0)
right = {"labels alone, means": [], "together": []}
for share in shares:
    gaps = np.where(rng.random(X_test.shape) < share, np.nan, X_test)
    filled = np.where(np.isnan(gaps), X.mean(axis=0), gaps)
    right["labels alone, means"].append(alone.score(filled, y_test))
    unknown = np.column_stack([gaps, np.full(len(gaps), np.nan)])
    right["together"].append(np.mean(together.impute(unknown)[:, -1] == y_test))
fig, ax = plt.subplots(figsize=(6, 3.6))
for name, values in right.items():
    ax.plot(shares, values, "o-", label=name)
ax.set(xlabel="share of measurements missing", ylabel="right names", ylim=(0, 1.02))
ax.legend()
fig.tight_layout()
plt.show()
