"""
A table of wines with gaps: numbers and a category
==================================================

A table holds measurements of 178 wines and the name of the cultivar. A third of the
cells is removed, names included. A restricted machine with Gaussian units for the
numbers and a categorical unit for the name learns from the remaining cells and restores
the others: names from the available measurements, and measurements from names and other
measurements.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from sktem import LatentBoltzmannMachine

wines = load_wine(as_frame=True)
table = wines.data[["alcohol", "flavanoids", "color_intensity", "proline"]].copy()
table["cultivar"] = np.array(["Barolo", "Grignolino", "Barbera"])[wines.target]
lost = np.random.default_rng(0).random(table.shape) < 1 / 3
gaps = table.mask(lost)
print(gaps.head())

# %%
# The kinds of columns are inferred from their types. With few hidden units, the
# expectations that replace missing cells are exact.
machine = LatentBoltzmannMachine(
    visible="auto", hidden_layer_sizes=3, max_iter=300, tol=None, random_state=0
)
filled = machine.fit(gaps).impute(gaps)
print(filled.head())

names = lost[:, -1]
right = (filled["cultivar"] == table["cultivar"])[names].mean()
most_frequent = (table["cultivar"] == "Grignolino")[names].mean()
print(f"{names.sum()} names: {right:.0%} right, {most_frequent:.0%} by the commonest")
for k, name in enumerate(table.columns[:-1]):
    column, rows = table[name], lost[:, k]
    error = np.sqrt(np.mean((filled[name] - column)[rows] ** 2)) / column[rows].std()
    print(f"{name:16} error {error:.2f} standard deviations")

# %%
# Rows drawn from the machine look like those of the table.
drawn = machine.sample(178)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True)
for ax, rows, title in zip(axes, (table, drawn), ("wines", "drawn"), strict=True):
    for name, group in rows.groupby("cultivar"):
        ax.plot(group["flavanoids"], group["color_intensity"], ".", label=name)
    ax.set(title=title, xlabel="flavanoids")
axes[0].set_ylabel("color intensity")
axes[0].legend()
fig.tight_layout()
plt.show()
