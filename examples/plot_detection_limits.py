"""
Concentrations below a detection limit
======================================

Four metals were measured in water samples. The laboratory reports a value below its
detection limit as "< limit", which for some metals is half of the values. What are the
means of the logarithms, and how strongly are the metals correlated? Replacing such
values by half the limit is common practice and gives wrong answers to both questions;
so does leaving out incomplete samples. When several values of a sample are hidden, the
E-step has no closed form, but each hidden value *given the others* is a truncated
normal variable. A short model and a Gibbs sampler, both written here, give the maximum
of the likelihood.
"""

# %%
# The model
# ---------
# Rows are logarithms of concentrations, and NaN means "below the limit". The latents of
# a row are all its logarithms; those that were detected are known. Given the latents,
# the M-step is their mean and covariance. The last three methods are needed for
# standard errors only: ``log_joint``, which is minus infinity for values that
# contradict the report, and the two that map the parameters to a vector without
# constraints and back.

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import multivariate_normal

from sktem import StochasticEM
from sktem.models import LatentModel
from sktem.samplers.markov import MarkovSampler


class Normal(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray


class BelowLimits(LatentModel):
    accepts = {"nan"}

    def __init__(self, limits):
        self.limits = limits

    def initial_params(self, X, rng):
        filled = np.where(np.isnan(X), self.limits - 1.0, X)
        return Normal(filled.mean(axis=0), np.atleast_2d(np.cov(filled.T)))

    def initial_latents(self, X, params, rng):
        return np.where(np.isnan(X), self.limits - 1.0, X)

    def mean_statistics(self, X, Z, sample_weight=None):
        d = Z.shape[1]
        products = (Z[:, :, None] * Z[:, None, :]).reshape(len(Z), d * d)
        return np.average(np.hstack([Z, products]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        d = len(self.limits)
        return Normal(s[:d], s[d:].reshape(d, d) - np.outer(s[:d], s[:d]))

    def log_joint(self, X, Z, params):
        density = multivariate_normal(*params).logpdf(Z)
        possible = np.where(np.isnan(X), Z <= self.limits, Z == X)
        return np.where(possible.all(axis=1), density, -np.inf)

    def to_vector(self, params):
        factor = np.linalg.cholesky(params.covariance)
        return np.concatenate([params.mean, factor[np.tril_indices(len(factor))]])

    def from_vector(self, vector, params):
        d = len(self.limits)
        factor = np.zeros((d, d))
        factor[np.tril_indices(d)] = vector[d:]
        return Normal(vector[:d], factor @ factor.T)


# %%
# The sampler
# -----------
# One transition goes through the metals and draws their hidden values, for all samples
# at once, from the distribution given the other metals, truncated at the limit. There
# is no accept step, which ``accepts = False`` says.


class GibbsBelowLimits(MarkovSampler):
    accepts = False
    requires = ("initial_latents",)

    def _start_chain(self, model, X, Z, params):
        return (Z,)

    def _transition(self, model, X, state, params, generators, move):
        Z = state[0].copy()
        precision = np.linalg.inv(params.covariance)
        for j, limit in enumerate(model.limits):
            apart = Z - params.mean
            apart[:, j] = 0.0
            mean = params.mean[j] - apart @ precision[j] / precision[j, j]
            scale = precision[j, j] ** -0.5
            below = ndtr((limit - mean) / scale)
            uniform = generators.sampling.random(len(Z))
            drawn = mean + scale * ndtri(np.maximum(uniform * below, 1e-300))
            Z[:, j] = np.where(np.isnan(X[:, j]), drawn, Z[:, j])
        return (Z,), np.ones(len(Z), dtype=bool), {}


# %%
# The samples
# -----------
# There are 400 of them, simulated, so that the truth is known.

metals = ["lead", "zinc", "copper", "nickel"]
rng = np.random.default_rng(1)
truth = Normal(
    np.array([0.5, 2.0, 1.0, 0.0]),
    np.array([
        [3.0, 2.4, 1.5, -0.9],
        [2.4, 3.6, 1.8, -0.6],
        [1.5, 1.8, 2.4, 0.3],
        [-0.9, -0.6, 0.3, 2.7],
    ]),
)  # fmt: skip
Y = rng.multivariate_normal(*truth, size=400)
limits = np.array([0.6, 1.5, 0.4, -1.2])
X = np.where(Y > limits, Y, np.nan)
below = np.isnan(X).mean(axis=0)
print("below the limit:", *(f"{m} {b:.0%}" for m, b in zip(metals, below, strict=True)))

# %%
# Four answers
# ------------
# Complete samples are those with high concentrations. Half the limit is too high for
# values that can be far below it, and puts them all in one place. The maximum of the
# likelihood, by SAEM, is within two standard errors of what the hidden values
# themselves would give.

em = StochasticEM(
    BelowLimits(limits),
    solver="saem",
    sampler=GibbsBelowLimits(n_steps=2),
    max_iter=150,
    tol=0,
    random_state=0,
).fit(X)
errors = em.standard_errors(X, random_state=0)

halves = np.where(np.isnan(X), limits - np.log(2), X)
complete = X[~np.isnan(X).any(axis=1)]


def moments(values):
    return Normal(values.mean(axis=0), np.cov(values.T))


def correlation(covariance):
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


answers = {
    "all values, were they known": moments(Y),
    "maximum likelihood": em.params_,
    "half the limit": moments(halves),
    f"{len(complete)} complete samples": moments(complete),
}

for name, answer in answers.items():
    lead = correlation(answer.covariance)[0, 1]
    print(f"{name:32s} means {answer.mean.round(2)}  lead with zinc {lead:.2f}")
print("standard errors of the means:", errors[: len(metals)].round(2))

# %%
# A check
# -------
# For a single metal the likelihood has a closed form, that of a Tobit model. Its
# maximum for lead, found on a grid, should agree with a fit of the model to one column.

lead = X[:, [0]]
grid_mean, grid_scale = np.meshgrid(
    np.linspace(0.1, 0.9, 401), np.linspace(1.3, 2.1, 401), indexing="ij"
)
hidden = np.isnan(lead[:, 0])
detected = lead[~hidden, 0]
log_likelihood = hidden.sum() * log_ndtr((limits[0] - grid_mean) / grid_scale)
squares = (detected**2).sum() - 2 * grid_mean * detected.sum()
squares = squares + len(detected) * grid_mean**2
log_likelihood -= squares / (2 * grid_scale**2) + len(detected) * np.log(grid_scale)
best = np.unravel_index(log_likelihood.argmax(), log_likelihood.shape)
alone = StochasticEM(
    BelowLimits(limits[:1]),
    solver="saem",
    sampler=GibbsBelowLimits(),
    max_iter=150,
    tol=0,
    random_state=0,
).fit(lead)
print(f"on a grid  mean {grid_mean[best]:.3f}   scale {grid_scale[best]:.3f}")
print(
    f"by SAEM    mean {float(alone.params_.mean[0]):.3f}   "
    f"scale {alone.params_.covariance[0, 0] ** 0.5:.3f}"
)

# %%
# What is behind the limits
# -------------------------
# ``draw_latents`` draws the hidden values. In one draw lead and zinc are scattered as
# in the truth; halves of the limits are not.

draw = em.draw_latents(X, n_draws=1, random_state=0)[:, 0]
figure, axes = plt.subplots(
    1, 3, figsize=(11, 4), sharex=True, sharey=True, layout="constrained"
)
hidden = np.isnan(X[:, :2]).any(axis=1)
panels = {"the truth": Y, "one draw": draw, "half the limit": halves}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    ax.plot(*values[~hidden, :2].T, ".", color="C0", label="both detected")
    ax.plot(*values[hidden, :2].T, ".", color="C1", label="one or both below")
    ax.axvline(limits[0], color="grey", linewidth=0.8)
    ax.axhline(limits[1], color="grey", linewidth=0.8)
    ax.set(title=title, xlabel="log of lead")
axes[0].set_ylabel("log of zinc")
axes[0].legend()
plt.show()
