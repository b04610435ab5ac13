"""
Multiple imputation: draws, not only means
==========================================

Replacing missing values by means gives good guesses for single cells but bad data:
spreads and correlations come out wrong. ``MixtureImputer`` can also draw completions,
from the distribution of the missing values given the observed ones.
"""

# %%
# The second column is missing in the half of the rows where the first is large.

import matplotlib.pyplot as plt
import numpy as np

from sktem import MixtureImputer

rng = np.random.default_rng(0)
x = rng.normal(size=1000)
X = np.column_stack([x, np.where(x < 0, -x, x / 2) + 0.3 * rng.normal(size=1000)])
holes = X.copy()
lost = rng.random(1000) < 1 / (1 + np.exp(-3 * x))
holes[lost, 1] = np.nan

imputer = MixtureImputer(3, n_draws=20, random_state=0).fit(holes)
means, draws = imputer.transform(holes), imputer.draws(holes)

# %%
# Rows with a missing value near x = 1 differ by noise. With means they hardly differ.
# Draws restore the spread, here even too much of it: few rows are observed there, and
# the mixture is not certain how they continue.

near = lost & (np.abs(x - 1) < 0.2)
print(f"spread near x = 1: true {X[near, 1].std():.2f}, ", end="")
print(f"means {means[near, 1].std():.2f}, ", end="")
print(f"draws {np.mean([draw[near, 1].std() for draw in draws]):.2f}")

figure, axes = plt.subplots(
    1, 3, figsize=(10, 3.5), layout="constrained", sharex=True, sharey=True
)
for ax, (title, table) in zip(
    axes, {"truth": X, "means": means, "a draw": draws[0]}.items(), strict=True
):
    ax.plot(*table[~lost].T, ".", ms=3, color="0.6")
    ax.plot(*table[lost].T, ".", ms=3, color="C3")
    ax.set(title=title)
plt.show()
