"""
A table that does not fit into memory
=====================================

A file is read in pieces, and ``partial_fit`` learns from each piece once. Only one
piece is in memory at a time. The result is compared with a fit to all rows, which is
possible here because this file is small.
"""

# %%
# A file
# ------
# The file is a CSV file of 100,000 rows, which is also written in pieces. pandas reads
# such a file by ``pd.read_csv(path, chunksize=5000)``; here NumPy and a file object do
# the same.

import tempfile
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sktem import StochasticEMGaussianMixture

rng = np.random.default_rng(0)
means = np.array([[-3.0, 0.0], [2.0, 2.5], [2.0, -2.0], [6.0, 0.5]])
scales = np.array([[1.0, 2.0], [1.5, 0.6], [0.7, 1.0], [0.5, 0.5]])
path = Path(tempfile.mkdtemp()) / "rows.csv"
with path.open("w", encoding="ascii") as file:
    for _ in range(20):
        labels = rng.choice(4, 5000, p=[0.4, 0.3, 0.2, 0.1])
        rows = means[labels] + scales[labels] * rng.normal(size=(5000, 2))
        np.savetxt(file, rows, fmt="%.4f", delimiter=",")
print(f"{path.stat().st_size / 1e6:.1f} MB")


def pieces(path, n_rows=5000):
    """Yield the rows of a CSV file, n_rows at a time."""
    with path.open(encoding="ascii") as file:
        while lines := list(islice(file, n_rows)):
            yield np.loadtxt(lines, delimiter=",")


# %%
# One pass
# --------
# Every piece is scored *before* it is learned from, which is an honest estimate of how
# well the mixture describes rows that it has not seen.

stream = StochasticEMGaussianMixture(4, random_state=0)
scores = []
for piece in pieces(path):
    if scores or hasattr(stream, "means_"):
        scores.append(stream.score(piece))
    stream.partial_fit(piece)

everything = np.vstack(list(pieces(path)))
whole = StochasticEMGaussianMixture(4, random_state=0).fit(everything)
print(f"score of all rows: stream {stream.score(everything):.5f}, ", end="")
print(f"fit to all rows {whole.score(everything):.5f}")
print(stream.means_[stream.means_[:, 0].argsort()].round(2))

# %%
# Many passes
# -----------
# If the numbers are in a file that can be read quickly and repeatedly, ``fit`` reads it
# in blocks in every pass. The result is the same as with the array in memory, bit for
# bit.

table = np.lib.format.open_memmap(
    path.with_suffix(".npy"), "w+", dtype=np.float64, shape=everything.shape
)
for index, piece in enumerate(pieces(path)):
    table[5000 * index : 5000 * (index + 1)] = piece
table.flush()
again = StochasticEMGaussianMixture(4, random_state=0).fit(path.with_suffix(".npy"))
print("the same bits:", bool((again.means_ == whole.means_).all()))

# %%
# The result
# ----------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(5 * np.arange(1, 1 + len(scores)), scores, "o-", label="stream, next piece")
left.axhline(whole.score(everything), color="k", linestyle="--", label="fit to all")
left.set(xlabel="thousand rows seen", ylabel="log-likelihood per row")
left.legend()
right.scatter(*everything[:4000].T, s=2, alpha=0.3, color="0.5")
right.plot(*whole.means_.T, "o", ms=11, mfc="none", mew=2, label="fit to all")
right.plot(*stream.means_.T, "x", ms=9, mew=2, label="stream")
right.set(title="means", xticks=[], yticks=[])
right.legend()
plt.show()
