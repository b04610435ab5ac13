"""
Two timescales on a mixture of two Gaussians
============================================

This is a small version of the mixture in Karimi and Li (2021, section IV.A): two
components with unit variances and means 0.5 and -0.5, which overlap almost completely.
The latents are drawn, ten draws for each visit, and one row is visited per iteration.
The error of the means is relative to the maximum-likelihood estimate, so that it is the
error of the algorithms, not that of the data.
"""

# %%
# The data, the start and the maximum
# -----------------------------------
# Weights and means are learned. The maximum-likelihood estimate of each data set comes
# from a long run with exact posterior probabilities and batches of many rows.

import matplotlib.pyplot as plt
import numpy as np

from sktem import StochasticEMGaussianMixture
from sktem.solvers import VRTTEM

n_samples, n_sets = 40_000, 2
start = {"weights_init": [0.5, 0.5], "means_init": [[1.0], [-0.2]]}


def simulate(seed):
    rng = np.random.default_rng(seed)
    means = np.where(rng.random(n_samples) < 0.5, 0.5, -0.5)
    return (means + rng.standard_normal(n_samples))[:, None]


data = [simulate(seed) for seed in range(n_sets)]
maxima = []
for X in data:
    mixture = StochasticEMGaussianMixture(
        2, covariance_type="unit", solver=VRTTEM(rho=0.3), tol=1e-10, **start
    )
    maxima.append(mixture.fit(X).means_)

# %%
# The algorithms
# --------------
# With ``sampler="mc"`` the latents are draws from their posterior. ``batch_size=1`` and
# ``sampling="fixed"`` draw one index per iteration, uniformly and independently, as in
# the paper. The defaults are the paper's too: the step of the stochastic approximation
# (7) is ``k ** -0.5`` and that of the variance reduction (8) is ``n ** (-2 / 3)``.
#
# With ``sampler="exact"`` the posterior probabilities replace the draws and the step
# (7) is 1: then iSAEM is incremental EM, vrTTEM is sEM-VR and fitTEM is FIEM. Batches
# of one row run in compiled sweeps.

solvers = {"isaem": "iSAEM", "vrttem": "vrTTEM", "fittem": "fitTEM"}
passes = [2, 4, 8, 16]


def squared_error(seed, solver, sampler, max_iter):
    mixture = StochasticEMGaussianMixture(
        2,
        covariance_type="unit",
        solver=solver,
        sampler=sampler,
        batch_size=1,
        sampling="fixed",
        tol=0,
        max_iter=max_iter,
        random_state=seed,
        **start,
    )
    return ((mixture.fit(data[seed]).means_ - maxima[seed]) ** 2).mean()


errors = {
    (solver, sampler): [
        np.mean(
            [squared_error(seed, solver, sampler, max_iter) for seed in range(n_sets)]
        )
        for max_iter in passes
    ]
    for solver in solvers
    for sampler in ("mc", "exact")
}

# %%
# EM is the yardstick: one iteration per pass, with exact posterior probabilities.

errors["em", "exact"] = []
for max_iter in passes:
    fits = [
        StochasticEMGaussianMixture(
            2, covariance_type="unit", tol=0, max_iter=max_iter, **start
        ).fit(X)
        for X in data
    ]
    errors["em", "exact"].append(
        np.mean([(f.means_ - m) ** 2 for f, m in zip(fits, maxima, strict=True)])
    )

# %%
# The result
# ----------
# The plot on the left shows the same order as in the paper: with draws, the two
# algorithms that reduce variance come closer to the maximum than iSAEM, which hardly
# differs from EM in passes. Their error then levels off where the noise of the draws is
# averaged out by the slowly decreasing steps. Without draws, on the right, there is no
# such floor.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
names = {"mc": "ten draws per visit", "exact": "posterior probabilities"}
limits = {"isaem": "iEM", "vrttem": "sEM-VR", "fittem": "FIEM"}
for ax, (sampler, title) in zip(axes, names.items(), strict=True):
    ax.semilogy(passes, errors["em", "exact"], "k:", label="EM")
    for solver, name in solvers.items():
        label = name if sampler == "mc" else f"{name} = {limits[solver]}"
        ax.semilogy(passes, errors[solver, sampler], "o-", label=label)
    ax.set(title=title, xlabel="passes over the data")
    ax.grid(alpha=0.3)
    ax.legend()
axes[0].set_ylabel("mean squared error of the means")
plt.show()
