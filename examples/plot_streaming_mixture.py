"""
A mixture on a drifting stream
==============================

``partial_fit`` learns from a stream chunk by chunk with constant memory. The step size
determines the weight of the past: decreasing steps average over everything seen, a
constant step forgets. On data that drift the two give different answers. The
log-likelihood of each chunk *before* it is learned from (the prequential score) shows
which is better.
"""

# %%
# The stream
# ----------
# The rows are connections of the KDD Cup 1999 data (10 percent file), in the order of
# the file, if the data are in the folder ``shared/data`` next to the repository (or
# where the environment variable ``SKTEM_SHARED_DATA`` says). They come in long runs of
# one kind: normal traffic, then one attack, then another. Without the data, a simulated
# stream of the same form is used: several kinds of rows, in long runs.

import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sktem import GaussianMixturePrior, StochasticEMGaussianMixture
from sktem.schedules import Polynomial

n_components, n_features, chunk_size = 10, 8, 2_000


def network_connections(path):
    """Return principal components of every fourth connection, and their kinds."""
    with np.load(path) as file:
        X = np.log1p(file["X"][::4].astype(np.float64))
        kinds, names = file["y"][::4], file["y_names"]
    X = X[:, X.std(axis=0) > 1e-3]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, vectors = np.linalg.eigh(X.T @ X)
    X = X @ vectors[:, ::-1][:, :n_features]
    # The jitter keeps exact duplicates, of which there are many, apart.
    X += 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    return X, kinds, {number: str(name) for number, name in enumerate(names)}


def simulated_connections():
    """Return rows of several kinds in long runs, and their kinds."""
    rng = np.random.default_rng(0)
    lengths = rng.choice([2_000, 6_000, 20_000], size=14)
    order = [0, 1, 0, 2, 0, 1, 2, 0, 3, 0, 1, 3, 2, 0]
    kinds = np.repeat(order, lengths)
    # Each kind is a mixture of three clusters of its own.
    means = 4 * rng.standard_normal((4, 3, n_features))
    clusters = rng.integers(3, size=len(kinds))
    X = means[kinds, clusters] + rng.standard_normal((len(kinds), n_features))
    return X, kinds, {number: f"kind {number}" for number in range(4)}


try:
    here = Path(__file__).resolve()
except NameError:  # a notebook
    here = Path.cwd() / "examples" / "notebook"
shared = Path(os.environ.get("SKTEM_SHARED_DATA", here.parents[2] / "shared" / "data"))
path = shared / "mixture" / "kddcup99_10pct.npz"
if path.exists():
    title, (X, kinds, names) = "KDD Cup 1999", network_connections(path)
else:
    title, (X, kinds, names) = "simulated stream", simulated_connections()
print(f"{title}: {len(X)} rows in chunks of {chunk_size}")

# %%
# Test, then train
# ----------------
# Four mixtures learn from the same stream and differ only in the step size:
#
# - ``(k + 1) ** -1`` for the k-th batch gives all rows seen so far equal weights;
# - ``"auto"``, which is ``(k + 2) ** -0.5`` with an average over the last quarter of
#   the iterates, forgets the errors of the first steps. It suits a stream that does not
#   change;
# - a constant step forgets geometrically. With batches of 256 rows, the default on a
#   stream, and a step of 0.03 the statistics remember some eight thousand rows;
# - with a step of 0.1 they remember some two and a half thousand.
#
# For a long time the stream may hold a single kind of rows. A small Dirichlet penalty
# (``weight_concentration``) keeps a component from becoming empty while its kind of
# rows is absent, and a weak prior keeps the covariances from becoming singular. With
# decreasing steps, the mixture warns that the rows do not come in random order.

warnings.filterwarnings("ignore", message="The rows of the stream")

step_sizes = {
    "1 / (k + 1)": Polynomial(alpha=1.0, offset=1.0),
    "auto": "auto",
    "constant 0.03": 0.03,
    "constant 0.1": 0.1,
}
chunks = [X[i : i + chunk_size] for i in range(0, len(X), chunk_size)]
scores = {}
for name, step_size in step_sizes.items():
    mixture = StochasticEMGaussianMixture(
        n_components,
        step_size=step_size,
        prior=GaussianMixturePrior(
            weight_concentration=1e-3,
            covariance_prior=0.1,
            covariance_prior_strength=1e-3,
        ),
        random_state=0,
    )
    mixture.partial_fit(chunks[0])
    scores[name] = []
    for chunk in chunks[1:]:
        scores[name].append(mixture.score(chunk))
        mixture.partial_fit(chunk)
scores = {name: np.array(values) for name, values in scores.items()}

print("step size       mean score   median score   worst chunk")
for name, values in scores.items():
    print(
        f"{name:14s}  {values.mean():10.2f}   {np.median(values):12.2f}   "
        f"{values.min():11.2f}"
    )

# %%
# Which chunks were surprising
# ----------------------------
# The strip below the curves shows the most frequent kind of rows in each chunk. Where
# the kind changes, the score of the next chunk drops for every mixture. Those with a
# constant step recover faster, and within a long run they describe the rows better,
# because they use all their components for them. The price is paid when an old kind
# returns.

main_kind = [
    np.bincount(kinds[i : i + chunk_size]).argmax()
    for i in range(0, len(X), chunk_size)
][1:]
present = np.unique(main_kind)
time = np.arange(1, len(chunks)) * chunk_size

figure, (ax, strip) = plt.subplots(
    2, 1, figsize=(9, 5), height_ratios=[8, 1], sharex=True, layout="constrained"
)
for name, values in scores.items():
    ax.plot(time, values, label=name, linewidth=1)
ax.set(ylabel="log-likelihood of the next chunk\n(nats per row)", title=title)
ax.legend(title="step size")
ax.grid(alpha=0.3)
colours = plt.get_cmap("tab10")
for position, kind in enumerate(present):
    is_kind = np.array(main_kind) == kind
    strip.bar(
        time[is_kind], 1, width=chunk_size, color=colours(position), label=names[kind]
    )
strip.set(yticks=[], xlabel="rows seen", xlim=(0, len(X)))
strip.legend(
    ncols=len(present), loc="upper center", bbox_to_anchor=(0.5, -0.9), frameon=False
)
plt.show()
