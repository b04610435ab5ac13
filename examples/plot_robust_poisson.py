"""
Counts that scatter more than a Poisson distribution
====================================================

A Poisson regression assumes that the variance of counts is equal to their mean. Robust
Poisson regression lets each row have its own rate around the regression, so that its
confidence in the coefficients is justified by the data.
"""

# %%
# Two regressions
# ---------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor

from sktem import RobustPoissonRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 1))
z = 1 + 0.6 * X[:, 0] + 0.8 * rng.normal(size=400)
y = rng.poisson(np.exp(z))

robust = RobustPoissonRegressor(tol=1e-8).fit(X, y)
plain = PoissonRegressor(alpha=0).fit(X, y)
print("slope: robust", robust.coef_, "Poisson", plain.coef_, "truth 0.6")
print("standard deviation of the logarithm of the rate", robust.sigma_)

# %%
# How often is a count that large?
# --------------------------------
# The share of rows with at least a given count, in the data and under both models.

limits = np.arange(1, 41)
rates = np.exp(robust.intercept_ + X @ robust.coef_)
noisy = rates * np.exp(robust.sigma_ * rng.normal(size=(500, 400)))
shares = {
    "data": y,
    "robust": rng.poisson(noisy),
    "Poisson": rng.poisson(plain.predict(X), size=(500, 400)),
}
figure, ax = plt.subplots()
for name, counts in shares.items():
    ax.semilogy(limits, [(counts >= limit).mean() for limit in limits], label=name)
ax.set(xlabel="count", ylabel="share of rows with at least as many", ylim=(1e-3, 1))
ax.legend()

# %%
plt.show()
