"""
Solvers of a Gaussian mixture compared
======================================

EM visits every row for one update of the parameters. If components overlap, it needs
hundreds of updates. The cost of a solver is best measured in passes over the data and
in CPU seconds. Here five solvers start from the same point on the same rows, and the
distance of their log-likelihood from the maximum is plotted against both.
"""

# %%
# The data
# --------
# Four components with unequal weights and variances, close enough in four dimensions
# for most rows to be shared by several of them.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktem import StochasticEMGaussianMixture
from sktem.solvers import FITTEM, VRTTEM

rng = np.random.default_rng(1)
n_samples, n_features, n_components = 15_000, 4, 4
means = 1.2 * rng.standard_normal((n_components, n_features))
scales = np.exp(0.2 * rng.standard_normal((n_components, n_features)))
labels = rng.choice(n_components, n_samples, p=rng.dirichlet(np.full(n_components, 5)))
X = means[labels] + scales[labels] * rng.standard_normal((n_samples, n_features))

# %%
# A common start and the maximum
# ------------------------------
# With ``max_iter=0`` the estimator only makes its start (k-means, as in scikit-learn).
# Its parameters are then given to every solver. The maximum that EM reaches from there
# is found by running EM until its steps are tiny.

start = StochasticEMGaussianMixture(n_components, max_iter=0, random_state=0).fit(X)
given = {
    "weights_init": start.weights_,
    "means_init": start.means_,
    "precisions_init": start.precisions_,
}
limit = StochasticEMGaussianMixture(n_components, tol=1e-11, max_iter=5000, **given)
maximum = limit.fit(X).score(X)
print(f"EM reached {maximum:.6f} nats per row after {limit.n_iter_} passes")

# %%
# The runs
# --------
# A run of 64 passes begins like a run of 32 with the same seed, so the curves come from
# runs of different lengths. ``max_iter`` counts passes for every solver: the initial
# pass of "iem" and "fittem", the anchors of "vrttem" and its second visit of the rows
# of a batch, and the second batch of "fittem" are all included.

solvers = {
    "em": "em",
    "online": "online",
    "iem": "iem",
    "vrttem": VRTTEM(rho=0.3),
    "fittem": FITTEM(rho=0.3),
}
lengths = [2, 4, 8, 16, 32, 64]


def fit(solver, passes):
    mixture = StochasticEMGaussianMixture(
        n_components,
        solver=solver,
        batch_size=300,
        tol=0,  # do not stop before max_iter
        max_iter=passes,
        random_state=1,
        **given,
    )
    return mixture.fit(X)


curves = {}
for name, solver in solvers.items():
    fit(solver, 2)  # compiles, so that no run below pays for it
    more = [128, 256] if name == "em" else []
    runs = [fit(solver, passes) for passes in lengths + more]
    curves[name] = {
        "passes": [run.history_.passes[-1] for run in runs],
        "seconds": [run.history_.cpu_time[-1] for run in runs],
        "gap": [maximum - run.score(X) for run in runs],
    }

# %%
# Their cost
# ----------
# Online EM is the fastest at first and is then held back by its decreasing steps, which
# average out the noise of the batches. Variance reduction removes that noise instead,
# so that "vrttem" and "fittem" keep a constant step and make progress where EM is slow:
# the smaller the desired gap, the larger their lead in passes.
#
# In seconds, EM has by far the cheapest pass, one compiled sweep over all rows and a
# single M-step, and with so few rows it is hard to beat. "vrttem" does an M-step for
# each batch; it is worthwhile with more rows, so that more of its steps fit into a
# pass. "iem" and "fittem" have the additional cost of the table of posterior
# probabilities in which they remember every row.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for solver, curve in curves.items():
    for ax, cost in zip(axes, ("passes", "seconds"), strict=True):
        ax.loglog(curve[cost], curve["gap"], "o-", label=solver)
axes[0].set(xlabel="passes over the data", ylabel="gap to the maximum (nats per row)")
axes[0].set_xticks([*lengths, 128, 256], [*lengths, 128, 256])
axes[0].minorticks_off()
axes[1].set(xlabel="CPU seconds")
axes[0].legend(title="solver")
for ax in axes:
    ax.set_ylim(bottom=3e-7)
    ax.grid(alpha=0.3)
figure.suptitle("Distance to the maximum of the log-likelihood")
plt.show()

# %%
# When to stop
# ------------
# In practice ``tol`` decides. EM stops when a pass changes the lower bound by less than
# ``tol``, and so does "vrttem" from anchor to anchor. To such a rule, slow progress
# looks like convergence, so that the faster solver also stops closer to the maximum.

print("solver    tol     passes   gap (nats per row)")
for name in ("em", "vrttem"):
    for tol in (1e-4, 1e-5, 1e-6):
        mixture = StochasticEMGaussianMixture(
            n_components, solver=solvers[name], tol=tol, random_state=1, **given
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(X)
        gap = maximum - mixture.score(X)
        print(f"{name:8s}  {tol:.0e}  {mixture.n_iter_:6d}   {gap:.1e}")
# sphinx_gallery_thumbnail_path = "images/guide_mixture_solvers.png"
