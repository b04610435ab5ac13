"""
Real outputs that a line cannot give
====================================

How far a robot's arm reaches at a given angle has one answer; at which angle it reaches
a given distance has two. A regression predicts their mean, which is neither.
:class:`~sktem.BoltzmannMachineRegressor` learns the density of the output given the
inputs, which can bend, be wide or narrow, and have several modes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from sktem import BoltzmannMachineRegressor

rng = np.random.default_rng(0)
angle = rng.uniform(-1, 1, 800)
reach = angle**2 + 0.05 * rng.normal(size=800)
X, y = reach[:, None], angle  # asked backwards

machine = BoltzmannMachineRegressor(n_hidden=5, random_state=0).fit(X[:500], y[:500])
line = LinearRegression().fit(X[:500], y[:500])
spread = np.std(y[:500] - line.predict(X[:500]))
of_line = -0.5 * ((y[500:] - line.predict(X[500:])) / spread) ** 2
of_line -= np.log(spread * np.sqrt(2 * np.pi))
print(f"log-likelihood of a new row, a line: {of_line.mean():.2f}")
found = machine.log_likelihood(X[500:], y[500:]) / 300
print(f"log-likelihood of a new row, the machine: {found:.2f}")

# %%
# The density of the angle given the reach, and draws from it next to the rows.
grid = np.linspace(0, 1, 40), np.linspace(-1.3, 1.3, 60)
density = [
    [np.exp(machine.log_likelihood([[x]], [y])) for x in grid[0]] for y in grid[1]
]
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
left.pcolormesh(*grid, np.sqrt(density), cmap="viridis", shading="gouraud")
left.plot(grid[0], machine.predict(grid[0][:, None]), color="w", ls="--", label="mean")
left.set(xlabel="reach", ylabel="angle", title="density of the angle")
left.legend(loc="lower left")
right.plot(X[500:, 0], y[500:], "o", ms=4, alpha=0.5, label="new rows")
right.plot(X[500:, 0], machine.sample(X[500:]), ".", ms=4, label="draws")
right.set(xlabel="reach", xlim=(0, 1), title="rows and draws")
right.legend(loc="center right")
fig.tight_layout()
plt.show()
