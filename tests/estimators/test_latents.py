"""Latents after a fit, diagnostics of chains, and standard errors by Louis' formula."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sktem import StochasticEM
from sktem.estimators.latents import LatentDraws, diagnostics
from sktem.estimators.louis import louis_information
from sktem.exceptions import FitWarning
from sktem.models import LatentModel, RandomInterceptModel
from sktem.models.entries import ParamsVector
from tests.oracles import LIMIT
from tests.samplers.test_chains_that_stand import Tobit, tobit_data

rng = np.random.default_rng(0)
X = rng.normal(3.0, 1.0, size=(300, 1)) + rng.normal(0, 1.5, size=(300, 4))


class ByChains(RandomInterceptModel):
    """Without what is known of the posterior."""

    posterior = draw_posterior = property()


def fitted(model, **options):
    em = StochasticEM(model, solver="em", tol=1e-12, max_iter=3000).fit(X)
    chains = StochasticEM(ByChains(), solver="saem", sampler="mala", **options)
    chains.fit(X).params_ = em.params_
    return em, chains


@pytest.fixture(scope="module")
def fits():
    with pytest.warns(match="max_iter"):
        return fitted(RandomInterceptModel(), max_iter=3, tol=1e-9)


def test_draws_and_means_are_those_of_the_posterior(fits):
    mean, variance = RandomInterceptModel()._moments(X, fits[0].params_)
    np.testing.assert_allclose(fits[0].posterior_mean(X), mean, rtol=1e-12)
    for em in fits:
        Z = em.draw_latents(X, 200, random_state=1)
        assert Z.shape == (300, 200, 1)
        np.testing.assert_array_equal(Z, em.draw_latents(X, 200, random_state=1))
        sizes = (
            200.0
            if em is fits[0]
            else np.minimum(
                200.0, em.diagnose_chains(X, 200, random_state=1).effective_sample_size
            )
        )
        scores = (Z.mean(axis=1) - mean) / np.sqrt(variance / sizes)
        assert abs(scores.mean()) * np.sqrt(len(X)) < LIMIT
        assert 0.8 < scores.std() < 1.3
        np.testing.assert_allclose(Z.var(axis=1).mean(), variance, rtol=0.05)
    found = fits[1].posterior_mean(X, 200, random_state=1)
    assert np.abs(found - mean).max() < 1.0 and found.shape == mean.shape
    assert not np.allclose(found, mean, atol=1e-3)


def test_few_draws_are_of_all_chains(fits):
    assert fits[1].draw_latents(X, 3, random_state=0).shape == (300, 3, 1)
    assert fits[0].draw_latents(X[:2], 1, random_state=0).shape == (2, 1, 1)


def autoregression(rho, n_rows, n_chains, length, shift=0.0):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(n_rows, n_chains, length)) * np.sqrt(1 - rho**2)
    values = np.empty_like(noise)
    values[..., 0] = noise[..., 0] / np.sqrt(1 - rho**2)
    for t in range(1, length):
        values[..., t] = rho * values[..., t - 1] + noise[..., t]
    return values + shift * np.arange(n_chains)[:, None]


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 0.9])
def test_effective_sample_size_of_autoregressions(rho):
    """It is N (1 - rho) / (1 + rho)."""
    draws = LatentDraws(autoregression(rho, 100, 4, 2000), 0.5, True)
    found = diagnostics(draws)
    size = 8000 * (1 - rho) / (1 + rho)
    np.testing.assert_allclose(np.median(found.effective_sample_size), size, rtol=0.05)
    assert (found.r_hat < 1.05).all()
    apart = diagnostics(LatentDraws(autoregression(rho, 9, 4, 2000, 1.0), 0.5, True))
    # Variance between chains of 1.67 beside one within.
    np.testing.assert_allclose(
        apart.r_hat.mean(), np.sqrt(1 + 5 / 3 * 6 / 7), rtol=0.05
    )
    assert (apart.effective_sample_size < 40).all()


def test_chains_that_stand_are_counted():
    values = autoregression(0.0, 4, 4, 100)
    values[0] = 1.0
    found = diagnostics(LatentDraws(values, 0.5, True))
    assert found.never_moved == 0.25
    assert np.isnan(found.r_hat[0]) and found.effective_sample_size[0] == 0
    with pytest.raises(ValueError, match="at least 4"):
        diagnostics(LatentDraws(values[:, :, :3], 0.5, True))


def test_known_latents_have_no_r_hat_whatever_their_digits():
    """Their means are rounded, so that variances are not zero."""
    known = np.random.default_rng(0).normal(size=(500, 1, 1))
    found = diagnostics(LatentDraws(np.tile(known, (1, 4, 50)), 0.5, True))
    assert np.isnan(found.r_hat).all() and not found.effective_sample_size.any()
    # Chains that stand, each elsewhere, have not mixed.
    stuck = np.tile(np.random.default_rng(1).normal(size=(500, 4, 1)), (1, 1, 50))
    found = diagnostics(LatentDraws(stuck, 0.5, True))
    assert np.isinf(found.r_hat).all() and not found.effective_sample_size.any()


class Sticky(ByChains):
    """Two modes that a walk does not leave."""

    def initial_latents(self, X, params, rng):
        return rng.choice([-40.0, 40.0], size=(len(X), 1))

    def log_joint(self, X, Z, params):
        return np.logaddexp(-0.5 * (Z[:, 0] - 40) ** 2, -0.5 * (Z[:, 0] + 40) ** 2)


def test_chains_that_do_not_mix_are_told(fits):
    em = StochasticEM(Sticky(), sampler="rwm")
    em.params_, em.n_features_in_ = fits[0].params_, 4
    with pytest.warns(FitWarning, match="R-hat is above"):
        em.draw_latents(X, 100, random_state=0)


# ------------------------------------------------------------------ standard errors


def information(model, X, params, weights=None):
    """Minus the Hessian of the log-likelihood, by differences."""
    vector = ParamsVector.of(model, params)
    weights = np.ones(len(X)) if weights is None else weights

    def slope(v, step=1e-5):
        return approx_fprime(
            v, lambda u: weights @ model.log_likelihood(X, vector.params_of(u)), step
        )

    found, p = [], len(vector.values)
    for j in range(p):
        shift = 1e-3 * np.eye(p)[j]
        up, down = slope(vector.values + shift), slope(vector.values - shift)
        found.append((up - down) / 2e-3)
    return -np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_standard_errors_are_those_of_the_likelihood(fits, which, weighted):
    weights = rng.integers(1, 4, size=len(X)).astype(float) if weighted else None
    model = RandomInterceptModel()
    exact = StochasticEM(model, solver="em", tol=1e-13, max_iter=5000)
    params = exact.fit(X, sample_weight=weights).params_
    em = fits[which]
    before, em.params_ = em.params_, params
    errors, covariance = em.standard_errors(
        X, weights, n_draws=400, random_state=0, return_covariance=True
    )
    em.params_ = before
    expected = np.linalg.inv(information(model, X, params, weights))
    np.testing.assert_allclose(errors, np.sqrt(np.diag(expected)), rtol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors)
    assert isinstance(errors, type(params))
    # Those of the complete data are too small by far, and variances are no errors.
    assert (np.diag(expected) < 0.9 * np.array(errors)).all()


def test_the_missing_information_of_few_draws_is_not_too_small(fits):
    """A sum of squares over draws about their own mean needs one draw less."""
    em, model = fits[0], RandomInterceptModel()
    vector, ones = ParamsVector.of(model, em.params_), np.ones(len(X))
    found = [
        louis_information(model, X, em.draw_latents(X, 2, random_state=k), vector, ones)
        for k in range(40)
    ]
    many = em.draw_latents(X, 2000, random_state=0)
    expected = np.diag(louis_information(model, X, many, vector, ones).missing)
    values = np.array([np.diag(one.missing) for one in found])
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - expected) < LIMIT * error).all()
    assert (np.abs(values.mean(axis=0) / 2 - expected) > LIMIT * error).all()


class Shares(LatentModel):
    """Two known Poisson rates in unknown shares, which sum to one."""

    averages_draws = True
    rates = np.array([2.0, 6.0])

    def initial_params(self, X, rng):
        return {"shares": np.array([0.5, 0.5])}

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(Z, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return {"shares": s / s.sum()}

    def terms(self, X, params):
        with np.errstate(invalid="ignore"):
            return X * np.log(self.rates) - self.rates + np.log(params["shares"])

    def posterior(self, X, params):
        terms = np.exp(self.terms(X, params))
        return terms / terms.sum(axis=1, keepdims=True)

    def draw_posterior(self, X, params, n_draws, rng):
        shares = rng.binomial(n_draws, self.posterior(X, params)[:, 0]) / n_draws
        return np.column_stack([shares, 1 - shares])

    def log_joint(self, X, Z, params):
        return (Z * self.terms(X, params)).sum(axis=1)

    def log_likelihood(self, X, params):
        return np.log(np.exp(self.terms(X, params)).sum(axis=1))


class FreeShare(Shares):
    def to_vector(self, params):
        return params["shares"][:1]

    def from_vector(self, vector, params):
        return {"shares": np.array([vector[0], 1 - vector[0]])}


def test_constrained_parameters():
    rng = np.random.default_rng(2)
    counts = rng.poisson(np.where(rng.random(500) < 0.3, 2.0, 6.0))[:, None].astype(
        float
    )
    em = StochasticEM(FreeShare(), solver="em", tol=1e-12).fit(counts)
    errors = em.standard_errors(counts, random_state=0)
    expected = information(FreeShare(), counts, em.params_)[0, 0] ** -0.5
    np.testing.assert_allclose(errors, [expected], rtol=0.03)
    Z = em.draw_latents(counts, 50, random_state=0)
    assert Z.shape == (500, 50, 2) and set(np.unique(Z)) == {0.0, 1.0}
    share = em.posterior_mean(counts)
    error = np.sqrt(share * (1 - share) / 50) + 1e-9
    unsure = share[:, 0] * share[:, 1] > 0.05
    assert (np.abs(Z.mean(axis=1) - share) < 5 * error)[unsure].all()
    wrong = StochasticEM(Shares(), solver="em", tol=1e-12).fit(counts)
    with pytest.warns(FitWarning, match="to_vector"):
        wrong.standard_errors(counts, random_state=0)


def test_rows_with_known_latents():
    rows, _ = tobit_data(3, 500), None
    em = StochasticEM(Tobit(), sampler="rwm", random_state=0, max_iter=30, tol=0)
    with pytest.warns(FitWarning, match="never moved"):
        em.fit(rows)
    found = em.diagnose_chains(rows, random_state=0)
    np.testing.assert_allclose(found.never_moved, (rows[:, 2] > 0).mean(), atol=0.02)


def test_wrong_calls(fits):
    with pytest.raises(ValueError, match="n_draws"):
        fits[0].draw_latents(X, 0)
    with pytest.raises(ValueError, match="n_draws"):
        fits[0].standard_errors(X, n_draws=1)
    with pytest.raises(TypeError, match="would not fit in memory"):
        fits[0].draw_latents([X, X])
    with pytest.raises(ValueError, match="3 features"):
        fits[0].posterior_mean(X[:, :3])

    class Numbers(NamedTuple):
        count: int

    with pytest.raises(TypeError, match="to_vector"):
        ParamsVector.of(RandomInterceptModel(), Numbers(3))
