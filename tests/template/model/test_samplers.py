"""Samplers of deformations against integrals over two latent numbers.

Every row of a run is the same signal with a chain of its own, so that rows are
independent and the error of the mean over rows is known.
"""

from dataclasses import replace

import numpy as np
import pytest

from sktem.e_step.random import spawn_generators
from sktem.e_step.row_random import BATCH
from sktem.samplers import (
    DEFORMATION_SAMPLERS,
    MALA,
    DeformationMALA,
    DeformationULA,
    RandomWalk,
)
from tests.oracles import LIMIT, standard_errors
from tests.template.oracles import Lattice, features, two_landmarks

N_ROWS, BURN_IN, KEPT = 200, 30, 40
SAMPLERS = {
    "mala": DeformationMALA(n_steps=3),
    "mala-fixed": DeformationMALA(step=0.7, n_steps=3),
    "ula": DeformationULA(step=0.01, n_steps=30),
    "generic MALA": MALA(step=0.12, n_steps=4),
    "generic walk": RandomWalk(scale=0.5, n_steps=6),
}


@pytest.fixture(scope="module")
def target():
    """Model, parameters, rows and the exact means of the features."""
    model, params, y = two_landmarks()

    def log_joint(Z):
        return model.log_joint(np.repeat(y[None], len(Z), axis=0), Z, params)

    exact = Lattice(log_joint).mean(features)
    return model, params, np.repeat(y[None], N_ROWS, axis=0), exact


def row_means(sampler, model, params, Y, seed, kept=KEPT):
    """Return the mean of the features over each row's chain."""
    generators = spawn_generators(seed)
    Z = sampler.start(model, Y, params, generators.initialisation)
    total, info = 0.0, None
    for k in range(BURN_IN + kept):
        Z, info = sampler.draw(model, Y, Z, params, generators, k + 1)
        if k >= BURN_IN:
            total = total + features(Z[:, 0, :2])
    return total / kept, info


@pytest.mark.parametrize("name", SAMPLERS)
def test_moments(name, target, global_random_seed):
    model, params, Y, exact = target
    slow = name.startswith(("generic", "ula"))
    rows = Y[:60] if slow else Y
    for seed in (global_random_seed, global_random_seed + 1000)[: 2 - slow]:
        means, info = row_means(SAMPLERS[name], model, params, rows, seed)
        assert standard_errors(means, exact).max() < LIMIT
        # Precise enough to judge anything.
        errors = means.std(axis=0) / np.sqrt(len(means))
        assert errors.max() < (0.2 if slow else 0.06)
        if "ula" not in name:
            assert 0.1 < info.acceptance_rate < 0.9
        assert not info.events


@pytest.mark.parametrize(
    "kind, noise, prior, data",
    [
        (DeformationULA(step=0.5, n_steps=3), 1.0, 1.0, 1.0),
        (DeformationMALA(n_steps=3), 0.7, 1.0, 1.0),
        (DeformationMALA(n_steps=3), 1.0, 1.6, 1.0),
        (DeformationMALA(n_steps=3), 1.0, 1.0, np.nan),
    ],
    ids=["coarse steps", "too little noise", "wrong prior", "forgets the data"],
)
def test_wrong_samplers_are_found(kind, noise, prior, data, target, global_random_seed):
    model, params, Y, exact = target
    wrong = replace(
        params,
        covariances=prior * params.covariances,
        noise_variances=noise * params.noise_variances,
    )
    means, _ = row_means(kind, model, wrong, data * Y, global_random_seed)
    assert standard_errors(means, exact).max() > 1.5 * LIMIT


@pytest.mark.parametrize("step", [0.02, 0.3, 1.0])
def test_bias_of_unadjusted_langevin(step, target, global_random_seed):
    """With a flat template the target is Gaussian, and ULA's law is known.

    In whitened coordinates of unit precision, the variance is 1 / (1 - step / 2).
    """
    model, params, Y, _ = target
    flat = replace(params, coefficients=0 * params.coefficients)
    n_steps = int(np.ceil(1 / step))
    sampler = DeformationULA(step=step, n_steps=n_steps)
    means, info = row_means(sampler, model, flat, Y, global_random_seed, kept=30)
    (a, c), (_, b) = params.covariances[0]
    moments = np.array([0, 0, a, b, c]) / (1 - step / 2)
    assert standard_errors(means[:, :5], moments).max() < LIMIT
    assert info.acceptance_rate == 1
    if step > 0.1:
        unbiased = moments * (1 - step / 2)
        assert standard_errors(means[:, :5], unbiased).max() > LIMIT


def test_steps_are_adapted_to_an_acceptance_rate(target):
    model, params, Y, _ = target
    sampler, goal = DeformationMALA(n_steps=20), 0.574
    generators = spawn_generators(0)
    Z, steps, rates = sampler.start(model, Y, params, None), [], []
    for _ in range(40):
        Z, info = sampler.draw(model, Y, Z, params, generators)
        steps.append(Z[:, 0, 2].copy())
        rates.append(info.acceptance_rate)
    assert np.mean(rates[10:]) == pytest.approx(goal, abs=0.02)
    assert (Z[:, 0, 3] == 800).all()
    # Gains vanish: late steps hardly move from one draw to the next.
    moves = np.abs(np.diff(steps, axis=0)).mean(axis=1)
    assert moves[-10:].mean() < moves[:3].mean() / 4


@pytest.mark.parametrize("name", ["mala-fixed", "ula"])
def test_given_steps_are_kept(name, target):
    model, params, Y, _ = target
    sampler = SAMPLERS[name]
    Z = sampler.start(model, Y[:3], params, None)
    Z, _ = sampler.draw(model, Y[:3], Z, params, spawn_generators(0))
    np.testing.assert_allclose(Z[:, 0, 2], np.log(sampler.step))
    assert (Z[:, 0, 3] == sampler.n_steps).all()


@pytest.mark.parametrize("name", DEFORMATION_SAMPLERS)
def test_chains_of_a_row(name, target):
    model, params, Y, _ = target
    sampler = DEFORMATION_SAMPLERS[name](n_steps=30, n_chains=3)
    Z = sampler.start(model, Y, params, None)
    assert Z.shape == (N_ROWS, 3, 5)
    before = Z.copy()
    new, info = sampler.draw(model, Y, Z, params, spawn_generators(0))
    np.testing.assert_array_equal(Z, before)
    correlation = np.corrcoef(new[:, :, 0].T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(N_ROWS)
    again, _ = sampler.draw(model, Y, Z, params, spawn_generators(0))
    np.testing.assert_array_equal(new, again)
    assert 0 < info.acceptance_rate <= 1


@pytest.mark.parametrize("name", DEFORMATION_SAMPLERS)
@pytest.mark.parametrize("parameter", ["n_steps", "n_chains"])
def test_wrong_counts(name, parameter, target):
    model, params, Y, _ = target
    sampler = DEFORMATION_SAMPLERS[name](**{parameter: 0})
    with pytest.raises(ValueError, match=f"{parameter} must be an integer >= 1, got 0"):
        sampler.start(model, Y, params, None)


@pytest.mark.parametrize("step", [0, -1.0, "automatic", float("nan")])
@pytest.mark.parametrize("name", ["mala", "ula"])
def test_wrong_steps(name, step, target):
    model, params, Y, _ = target
    sampler = DEFORMATION_SAMPLERS[name](step=step)
    Z = sampler.start(model, Y, params, None)
    with pytest.raises(ValueError, match='step must be "auto" or > 0'):
        sampler.draw(model, Y, Z, params, spawn_generators(0))


def test_ula_counts_what_it_restores(target):
    model, params, Y, _ = target
    sampler = DeformationULA(step=1e300, n_steps=2)
    Z = sampler.start(model, Y[:4], params, None)
    new, info = sampler.draw(model, Y[:4], Z, params, spawn_generators(0))
    assert info.events["ula_restored"] == 8
    np.testing.assert_array_equal(new[:, 0, :2], 0)
    assert info.acceptance_rate == 0


@pytest.mark.parametrize("name", DEFORMATION_SAMPLERS)
def test_draws_belong_to_images(name, target):
    model, params, Y, _ = target
    sampler = DEFORMATION_SAMPLERS[name](n_steps=3, n_chains=2)

    def moved(rows):
        Z = sampler.start(model, Y[rows], params, None)
        generators = spawn_generators(0).of_rows(BATCH, 1, rows)
        return sampler.draw(model, Y[rows], Z, params, generators)[0]

    whole, some = moved(np.arange(len(Y))), np.array([11, 3, 7])
    np.testing.assert_array_equal(moved(some), whole[some])
    assert (whole[:, 0] != whole[:, 1]).any()
