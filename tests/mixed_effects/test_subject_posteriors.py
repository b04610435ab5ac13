"""Samplers on the subjects of a pharmacokinetic model, against quadrature."""

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.e_step.random import spawn_generators
from sktem.mixed_effects.inference.marginal_likelihood import quadrature_draws
from sktem.samplers import HMC, MALA, ComponentWalk, positions
from tests.oracles import LIMIT, standard_errors

N_SUBJECTS, N_CHAINS = 4, 250


@pytest.fixture(scope="module")
def oral():
    """Model, subjects, parameters, and exact means and second moments."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(N_SUBJECTS), 8)
    time = np.tile([0.3, 0.6, 1.0, 2.0, 4.0, 7.0, 12.0, 24.0], N_SUBJECTS)
    psi = [1.5, 30.0, 3.0] * np.exp([0.6, 0.15, 0.3] * rng.normal(size=(4, 3)))
    ka, V, CL = psi[groups].T
    f = 320 * ka / (V * ka - CL) * (np.exp(-CL / V * time) - np.exp(-ka * time))
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters={"ka": 1.5, "V": 30.0, "CL": 3.0},
        omega_start={"ka": 0.36, "V": 0.02, "CL": 0.09}, max_iter=1, tol=0,
        random_state=0,
    )  # fmt: skip
    X = np.column_stack([np.full(len(time), 320.0), time])
    fit.fit(X, f + 0.7 * rng.normal(size=len(f)), groups=groups)
    model, rows = fit.fitted_.model, fit.fitted_.rows
    params = model.start._replace(sigma=np.array([0.7, 0.0]))
    draws = quadrature_draws(*fit.fitted_.at(params).modes(), 15)
    log_joint = draws.log_joint(model, rows, params)
    terms = log_joint + draws.log_weights
    weights = np.exp(terms - terms.max(axis=0))
    weights /= weights.sum(axis=0)
    mean = np.einsum("qi,qij->ij", weights, draws.points)
    rest = draws.points - mean
    variance = np.einsum("qi,qij->ij", weights, rest**2)
    return model, rows, params, mean, variance


def deviations(kernel, oral, seed, sigma=0.7):
    """Largest distance of moments over chains from the exact ones, in their errors."""
    model, rows, params, mean, variance = oral
    params = params._replace(sigma=np.array([sigma, 0.0]))
    generators = spawn_generators(seed)
    Z = kernel.start(model, rows, params, generators.initialisation)
    for k in range(40):
        Z, _ = kernel.draw(model, rows, Z, params, generators, k + 1)
    rest = positions(Z).transpose(1, 0, 2) - mean
    return max(
        standard_errors(rest, 0.0).max(), standard_errors(rest**2, variance).max()
    )


KERNELS = [
    ComponentWalk(n_steps=4, n_chains=N_CHAINS),
    MALA(0.03, n_steps=6, n_chains=N_CHAINS, preconditioner="prior", adapt=0.6),
    HMC([0.1, 0.02, 0.05], n_leapfrog=6, n_steps=3, n_chains=N_CHAINS),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_posteriors_of_subjects(kernel, oral, global_random_seed):
    assert deviations(kernel, oral, global_random_seed) < LIMIT
    # Chains of another residual error are found out.
    if isinstance(kernel, ComponentWalk):
        assert deviations(kernel, oral, global_random_seed, 1.4) > 2 * LIMIT
