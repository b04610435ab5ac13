"""Accelerated EM: the fixed points of EM, in fewer passes, and never a fall."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.loop.loop import run
from sktem.models import LatentModel
from sktem.solvers import DAAREM, SQUAREM, FullBatch
from sktem.solvers.accelerated import AcceleratedEM
from tests.oracles import start_run


class PoissonMixture(LatentModel):
    """Two rates, which overlap: EM takes hundreds of passes."""

    averages_draws = True

    def initial_params(self, X, rng):
        return np.array([0.5, 0.5]), X.mean() * np.array([0.7, 1.3])

    def log_terms(self, X, params):
        return np.log(params[0]) + X * np.log(params[1]) - params[1]

    def posterior(self, X, params):
        terms = self.log_terms(X, params)
        return np.exp(terms - logsumexp(terms, axis=1, keepdims=True))

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.hstack([Z, Z * X]), axis=0, weights=sample_weight)

    def project(self, s):
        return np.maximum(s, 1e-12), bool((s < 1e-12).any())

    def maximize(self, s, params):
        return s[:2] / s[:2].sum(), s[2:] / s[:2]

    def log_likelihood(self, X, params):
        values = logsumexp(self.log_terms(X, params), axis=1)
        return values - gammaln(X[:, 0] + 1)


def counts(seed, n_rows=800):
    rng = np.random.default_rng(seed)
    first = rng.random(n_rows) < 0.4
    return (
        np.where(first, rng.poisson(2.5, n_rows), rng.poisson(5, n_rows))[:, None] * 1.0
    )


def fitted(solver, X, **options):
    options = {"tol": 1e-8, "max_iter": 3000, "random_state": 0, **options}
    return StochasticEM(PoissonMixture(), solver=solver, **options).fit(X)


@pytest.mark.parametrize("solver", ["squarem", "daarem"])
def test_the_maximum_of_em_in_far_fewer_passes(solver):
    passes = []
    for seed in range(3):
        X = counts(seed)
        em, fast = fitted("em", X), fitted(solver, X)
        assert em.converged_
        assert fast.converged_
        assert fast.score(X) > em.score(X) - 1e-8
        passes.append((em.n_iter_, fast.n_iter_))
    of_em, of_fast = np.sum(passes, axis=0)
    assert of_fast < of_em / 4


@pytest.mark.parametrize("solver", ["squarem", "daarem"])
def test_the_end_is_a_fixed_point_of_em(solver):
    X, model = counts(0), PoissonMixture()
    fast = fitted(solver, X, tol=0, max_iter=300)
    s = model.mean_statistics(X, model.posterior(X, fast.params_))
    np.testing.assert_allclose(s, fast.statistics_, rtol=1e-8)


@pytest.mark.parametrize("solver", ["squarem", "daarem"])
@pytest.mark.parametrize("max_iter", [1, 2, 3, 4, 7, 12])
def test_the_result_is_no_lower_than_any_accepted_point(solver, max_iter):
    """Also where the passes end while an extrapolation is being tried."""
    X = counts(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = fitted(solver, X, max_iter=max_iter, tol=0)
    assert fast.score(X) >= max(fast.history_.objective) - 1e-12


class Overshooting(AcceleratedEM):
    """Tries a point far beyond the EM step, every time."""

    def next_point(self, record, point):
        return point.s + 30 * point.residual

    def rejected(self, record):
        pass


def test_the_safeguard_goes_back_to_em():
    """Every other pass is lost, and nothing else."""
    X = counts(0)
    options = {
        "model": PoissonMixture(),
        "params": PoissonMixture().initial_params(X, 0),
    }
    settings, state = start_run(Overshooting(), X, max_passes=40, **options)
    accepted = []

    def on_epoch(state):
        best = state.solver.own.best
        if best is not None:
            accepted.append(best.value)
        return False

    run(settings, X, state, on_epoch=on_epoch)
    assert min(np.diff(accepted)) >= -1e-14
    assert min(state.history.objective[3:]) < accepted[-1] - 1e-3  # some were tried
    half, em = start_run(FullBatch(), X, max_passes=20, **options)
    run(half, X, em)
    model = PoissonMixture()
    reached = [model.log_likelihood(X, one.params).mean() for one in (state, em)]
    assert reached[0] >= reached[1]


@pytest.mark.parametrize("solver", [SQUAREM(), DAAREM(order=3)])
def test_resumed_runs_are_the_same(solver):
    X = counts(1)
    options = {
        "model": PoissonMixture(),
        "params": PoissonMixture().initial_params(X, 0),
    }
    settings, state = start_run(solver, X, max_passes=25, **options)
    saved = []
    whole = run(settings, X, state, on_epoch=lambda s: saved.append(pickle.dumps(s)))
    for epoch in (1, 4, 9):
        resumed = run(settings, X, pickle.loads(saved[epoch]))
        np.testing.assert_array_equal(resumed.solver.s, whole.solver.s)


@pytest.mark.parametrize("solver", ["squarem", "daarem"])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_gaussian_mixtures(solver, covariance_type):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1, size=(400, 2)) for m in (0, 2, 4)])
    options = {"covariance_type": covariance_type, "tol": 1e-7, "max_iter": 2000}
    em, fast = (
        StochasticEMGaussianMixture(3, solver=one, random_state=0, **options).fit(X)
        for one in ("em", solver)
    )
    assert fast.converged_
    assert fast.score(X) > em.score(X) - 1e-5
    assert fast.lower_bound_ == pytest.approx(fast.score(X), abs=1e-4)
    assert fast.n_iter_ < em.n_iter_


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1, size=(300, 2)) for m in (0, 2)])
    ends = [
        StochasticEMGaussianMixture(2, solver="squarem", random_state=0, tol=1e-9)
        .fit(X * unit)
        .score(X * unit)
        + 2 * np.log(unit)
        for unit in (1.0, 1000.0)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


def test_what_they_need():
    X = counts(0)
    with pytest.raises(ValueError, match="means the sampler 'exact'"):
        fitted("squarem", X, sampler="mc")

    class Silent(PoissonMixture):
        log_likelihood = None

    with pytest.raises(TypeError, match="compares likelihoods: give Silent"):
        StochasticEM(Silent(), solver="daarem").fit(X)
    with pytest.raises(ValueError, match="order must be an integer >= 1"):
        fitted(DAAREM(order=0), X)
