"""
Rows in the partitions of a cluster
===================================

Dask splits a table into partitions on many machines. A fit sends parameters to them and
gets sums of statistics back. Here the threads of one process replace the cluster; with
a ``dask.distributed.Client`` the same code runs on several machines.
"""

# %%
# A table that nobody holds
# -------------------------
# There are twenty partitions with positions of events, each of which is created when it
# is needed. Events are filtered, so that the lengths of partitions are not known.

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from sktem import StochasticEMGaussianMixture

MEANS = np.array([[-3.0, 0.0], [2.0, 2.5], [2.0, -2.0], [6.0, 0.5]])


@dask.delayed
def partition(number):
    """Return the events of a day, without those of low energy."""
    rng = np.random.default_rng(number)
    labels = rng.choice(4, 5000, p=[0.4, 0.3, 0.2, 0.1])
    rows = MEANS[labels] + rng.normal(size=(5000, 2))
    return rows[rng.exponential(size=5000) > 0.3]


X = da.concatenate(
    [
        da.from_delayed(partition(day), shape=(np.nan, 2), dtype=np.float64)
        for day in range(20)
    ],
    allow_unknown_chunksizes=True,
)
X

# %%
# The fit
# -------
# Each pass is one task per partition. The result is an ordinary estimator.

mixture = StochasticEMGaussianMixture(4, random_state=0).fit(X)
print(mixture.n_samples_seen_, "rows,", mixture.n_iter_, "passes")
print(mixture.means_.round(2))

# %%
# The fit to the same rows in one array differs by rounding only.

rows = X.compute()
whole = StochasticEMGaussianMixture(4, random_state=0).fit(rows)
print(f"{np.abs(mixture.means_ - whole.means_).max():.1e}")

# %%
# Answers
# -------
# Predictions are Dask arrays, which are computed partition by partition.

labels = mixture.predict(X)
print(labels)
counts = [np.bincount(block.compute(), minlength=4) for block in labels.blocks]

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
axes[0].scatter(*rows[::20].T, c=mixture.predict(rows[::20]), s=4, cmap="tab10")
axes[0].plot(*mixture.means_.T, "k+", markersize=12)
axes[0].set(xlabel="east", ylabel="north", title="components")
axes[1].plot(np.array(counts))
axes[1].set(xlabel="partition", ylabel="rows", title="rows of each component")
plt.show()
