"""
A model of your own
===================

Events are counted for subjects who differ: subject i has its own log-rate ``z_i ~
N(mean, variance)``, and its counts are Poisson given ``z_i``. The posterior of a
log-rate has no closed form, so the E-step of EM cannot be written down. A model with a
few short methods is enough to fit it with every solver and every Markov sampler.
"""

# %%
# The model
# ---------
# :class:`sktem.models.LatentModel` requires starting parameters, the average of the
# sufficient statistics and the M-step. The other three methods are for the samplers:
# where the chains start, the complete-data log-density, and its gradient in z, each for
# all rows at once. Row i of X holds the counts of subject i.

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

from sktem import StochasticEM
from sktem.models import LatentModel
from sktem.samplers import MALA, ULA, RandomWalk
from sktem.schedules import BurnInThenDecay
from sktem.solvers import FITTEM, VRTTEM


class Params(NamedTuple):
    mean: float
    variance: float


class RandomRateModel(LatentModel):
    def initial_params(self, X, rng):
        return Params(0.0, 1.0)

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.hstack([Z, Z**2]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return Params(s[0], max(s[1] - s[0] ** 2, 1e-8))

    def project(self, s):
        smallest = s[0] ** 2 + 1e-8
        return np.array([s[0], max(s[1], smallest)]), bool(s[1] < smallest)

    def initial_latents(self, X, params, rng):
        return np.log(X.mean(axis=1, keepdims=True) + 0.5)

    def log_joint(self, X, Z, params):
        poisson = (X * Z - np.exp(Z) - gammaln(X + 1)).sum(axis=1)
        squares = (Z[:, 0] - params.mean) ** 2 / params.variance
        return poisson - 0.5 * (squares + np.log(2 * np.pi * params.variance))

    def grad_log_joint(self, X, Z, params):
        pull = (X - np.exp(Z)).sum(axis=1, keepdims=True)
        return pull - (Z - params.mean) / params.variance


# %%
# The data, and the maximum by brute force
# ----------------------------------------
# With one latent per subject, the likelihood can be integrated on a grid and maximised
# directly, for comparison. With ten latents per subject this would be impossible, but
# nothing in the model above would change.

rng = np.random.default_rng(0)
rates = np.exp(rng.normal(1.0, 0.7, size=(2_000, 1)))
X = rng.poisson(rates, size=(2_000, 3))

nodes, node_weights = np.polynomial.hermite_e.hermegauss(40)


def log_likelihood(X, params):
    Z = params.mean + np.sqrt(params.variance) * nodes
    log_poisson = X.sum(axis=1)[:, None] * Z - X.shape[1] * np.exp(Z)
    log_poisson -= gammaln(X + 1).sum(axis=1)[:, None]
    return logsumexp(log_poisson, axis=1, b=node_weights / node_weights.sum())


optimum = minimize(
    lambda theta: -log_likelihood(X, Params(theta[0], np.exp(theta[1]))).mean(),
    [0.0, 0.0],
)
best = Params(optimum.x[0], np.exp(optimum.x[1]))
print(f"direct maximisation     mean {best.mean:.3f}   variance {best.variance:.3f}")

# %%
# Solvers and samplers
# --------------------
# Every combination is one line. One chain per subject is kept from one visit to the
# next, so that a few transitions per visit are enough. "saem" visits all subjects at
# every iteration, with step 1 for the first iterations and decreasing steps afterwards;
# the others visit batches. ``tol=0`` lets every run use all its passes.

samplers = {
    "random walk": RandomWalk(scale=0.5, n_steps=5),
    "MALA": MALA(step=0.03, n_steps=5),
    "ULA": ULA(step=0.03, n_steps=5),
}
solvers = {
    "saem": {"step_size": BurnInThenDecay(n_burn_in=20)},
    "isaem": {"batch_size": 100},
    "vrttem": {"batch_size": 100, "solver": VRTTEM(rho=0.1)},
    "fittem": {"batch_size": 100, "solver": FITTEM(rho=0.1)},
}

fits = {}
for sampler_name, sampler in samplers.items():
    for solver, settings in solvers.items():
        em = StochasticEM(
            RandomRateModel(),
            sampler=sampler,
            max_iter=50,
            tol=0,
            random_state=len(fits),
            **{"solver": solver, **settings},
        ).fit(X)
        fits[sampler_name, solver] = em
        print(
            f"{solver:8s}{sampler_name:14s}  mean {em.params_.mean:.3f}   "
            f"variance {em.params_.variance:.3f}"
        )

# %%
# How they compare
# ----------------
# The grey lines are the values of the direct maximisation. All solvers agree with them
# under the two exact samplers, the random walk and MALA, up to Monte Carlo noise. The
# unadjusted Langevin sampler has no accept-reject step: its stationary distribution is
# biased by an amount that shrinks with its step, and so are the estimates.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, name in zip(axes, Params._fields, strict=True):
    for position, sampler_name in enumerate(samplers):
        for offset, solver in enumerate(solvers):
            ax.plot(
                position + 0.15 * (offset - 1.5),
                getattr(fits[sampler_name, solver].params_, name),
                "o",
                color=f"C{offset}",
                label=solver if position == 0 else None,
            )
    ax.axhline(getattr(best, name), color="grey", linewidth=1)
    ax.set_xticks(range(len(samplers)), samplers)
    ax.set(title=f"{name} of the log-rates")
axes[0].legend(title="solver")
plt.show()

# %%
# One method more
# ---------------
# If a model can compute the likelihood of a row (here by quadrature), the estimator
# offers more: ``score`` and ``score_samples``, the objective in ``history_``, and runs
# that stop when the objective has not risen by ``tol`` for a few epochs.


class RandomRateModelWithLikelihood(RandomRateModel):
    def log_likelihood(self, X, params):
        return log_likelihood(X, params)


figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for solver, settings in solvers.items():
    em = StochasticEM(
        RandomRateModelWithLikelihood(),
        sampler=samplers["MALA"],
        tol=1e-5,
        n_iter_no_change=5,
        random_state=0,
        **{"solver": solver, **settings},
    ).fit(X)
    gap = -optimum.fun - np.array(em.history_.objective)
    ax.loglog(em.history_.passes, gap, label=solver)
    print(
        f"{solver:8s}stopped after {em.n_iter_} passes, "
        f"{-optimum.fun - em.score(X):.1e} nats per row below the maximum, "
        f"acceptance rate {em.history_.acceptance_rate[-1]:.2f}"
    )
ax.set(xlabel="passes over the data", ylabel="gap to the maximum (nats per row)")
ax.legend(title="solver, with MALA")
ax.grid(alpha=0.3)
plt.show()
# sphinx_gallery_thumbnail_path = "images/card_own_model.png"
