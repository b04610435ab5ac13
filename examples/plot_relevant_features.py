"""
Which features matter?
======================

Automatic relevance determination learns a variance for each coefficient of a logistic
regression. The variances of features that are not needed go to zero.
"""

# %%
# Three of thirty
# ---------------

import matplotlib.pyplot as plt
import numpy as np

from sktem import ARDLogisticClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 30))
beta = np.zeros(30)
beta[:3] = [2.0, -1.5, 1.0]
y = rng.random(400) < 1 / (1 + np.exp(-X @ beta))
ard = ARDLogisticClassifier(random_state=0).fit(X, y)
print("kept:", np.flatnonzero(ard.support_))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.stem(1 / ard.theta_, basefmt=" ")
left.set(xlabel="feature", ylabel="prior standard deviation")
right.plot(beta, "k_", markersize=10, label="truth")
low, high = np.quantile(ard.draws_[:, 1:], [0.05, 0.95], axis=0)
right.vlines(np.arange(30), low, high, label="90 % of the draws")
right.set(xlabel="feature", ylabel="coefficient")
right.legend()
figure.tight_layout()

# %%
# Probabilities that know what is not known
# -----------------------------------------
# The probabilities are averages over draws of the coefficients, and therefore less
# extreme than those of a single coefficient vector.

point = 1 / (1 + np.exp(-(X @ ard.coef_[0] + ard.intercept_)))
mean = ard.predict_proba(X)[:, 1]
figure, ax = plt.subplots()
ax.plot(point, mean - point, ".")
ax.set(xlabel="at the mean coefficients", ylabel="averaged over draws, difference")

# %%
plt.show()
