"""
A line that splits: regression with two answers
===============================================

The mean of an output with two modes lies between them, where there are no outputs.
``GaussianMixtureRegressor`` models inputs and outputs together and conditions on the
inputs: its answer for an input is a whole distribution, with all its modes.
"""

# %%
# Data
# ----
# The output follows one of two waves, at random. They meet on the right.

import matplotlib.pyplot as plt
import numpy as np

from sktem import GaussianMixtureRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 1200)
y = rng.choice([-1, 1], 1200) * (1 + np.cos(x)) + 0.2 * rng.normal(size=1200)

regressor = GaussianMixtureRegressor(8, random_state=0).fit(x[:, None], y)

# %%
# Density, mean and quantiles
# ---------------------------
# ``score_samples(X, y)`` is the log-density of outputs given inputs.

grid_x, grid_y = np.linspace(-3, 3, 150), np.linspace(-3, 3, 150)
inputs, outputs = np.meshgrid(grid_x, grid_y)
density = np.exp(regressor.score_samples(inputs.reshape(-1, 1), outputs.ravel()))
low, high = regressor.predict_quantiles(grid_x[:, None], [0.05, 0.95]).T

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained", sharey=True
)
left.plot(x, y, ".", ms=2, color="0.4")
left.plot(grid_x, regressor.predict(grid_x[:, None]), "C3", label="mean")
left.fill_between(grid_x, low, high, alpha=0.2, label="90 % of outputs")
left.legend(loc="upper right")
left.set(xlabel="x", ylabel="y", title="A mean says little here")
right.pcolormesh(inputs, outputs, density.reshape(inputs.shape), cmap="Blues")
right.set(xlabel="x", title="Density of y given x")
plt.show()

# %%
# Draws for an input come from both branches. The mixture behind them is returned by
# ``condition`` of the joint mixture.

draws = regressor.sample([[0.0]], 1000)[0]
print(f"at x = 0: {np.mean(draws > 0):.0%} of the draws are above zero")
given = regressor.mixture_.condition(0, 0.0)
for k in given.weights_.argsort()[:-3:-1]:
    print(f"weight {given.weights_[k]:.2f}, mean {given.means_[k, 0]:.2f}")
