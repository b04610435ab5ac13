"""Automatic relevance determination against quadrature, and its parts."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import comb, expit
from sklearn.exceptions import ConvergenceWarning

from sktem import ARDLogisticClassifier, RobustPoissonRegressor
from sktem.e_step.random import spawn_generators
from sktem.exceptions import FitWarning
from sktem.regression import relevance_start
from sktem.regression.ard_logistic_ascent import ascent_from, without_negligible
from sktem.regression.ard_logistic_model import (
    ARDLogisticModel,
    ARDLogisticParams,
    WholeData,
)
from sktem.regression.relevance_start import find_start, laplace_fit
from sktem.samplers import MALA


def make_data(seed=0, n=300, p=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1) + 5
    logits = 2 * (X[:, 0] - 5) - 0.5 * (X[:, 1] - 5)
    return X, rng.random(n) < expit(logits)


def test_one_feature_by_quadrature(global_random_seed):
    """The learned variance maximises the marginal likelihood, on a grid."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 1))
    y = (rng.random(60) < expit(1.5 * X[:, 0])) * 1
    fit = ARDLogisticClassifier(random_state=global_random_seed, max_iter=800).fit(X, y)
    x = (X[:, 0] - X.mean()) / X.std()
    a, b = np.meshgrid(np.linspace(-2, 2, 81), np.linspace(-1, 6, 281), indexing="ij")
    logits = a[..., None] + b[..., None] * x
    log_likelihood = logits @ y - np.logaddexp(0, logits).sum(axis=-1)
    log_likelihood = log_likelihood - a**2 / 200

    def deviance(log_variance):
        prior = -0.5 * b**2 / np.exp(log_variance) - 0.5 * log_variance
        return -np.log(np.exp(log_likelihood + prior - log_likelihood.max()).sum())

    best = optimize.minimize_scalar(deviance, bounds=(-4, 4), method="bounded").x
    assert -2 * np.log(fit.theta_[0]) == pytest.approx(best, abs=0.15)
    weights = np.exp(log_likelihood - 0.5 * b**2 / np.exp(best))
    mean = (weights * b).sum() / weights.sum()
    assert fit.coef_[0, 0] * X.std() == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize("solver", ["saem", "biased-saem"])
def test_finds_the_features_that_matter(solver):
    X, y = make_data()
    fit = ARDLogisticClassifier(solver=solver, random_state=0).fit(X, y)
    assert fit.support_[:2].all() and not fit.support_.all()
    assert (fit.coef_[0, ~fit.support_] == 0).all()
    assert fit.coef_[0, 0] == pytest.approx(2, abs=0.6)
    assert fit.coef_[0, 1] == pytest.approx(-0.5, abs=0.2)
    probability = fit.predict_proba(X)
    logits = fit.draws_[:, :1] + fit.draws_[:, 1:] @ X.T
    np.testing.assert_allclose(probability[:, 1], expit(logits).mean(axis=0))
    assert ((fit.decision_function(X) > 0) == fit.predict(X)).all()
    truth = 2 * (X[:, 0] - 5) > 0.5 * (X[:, 1] - 5)
    assert fit.score(X, y) > (truth == y).mean() - 0.02
    again = ARDLogisticClassifier(solver=solver, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.draws_, fit.draws_)


def test_an_instance_as_sampler():
    X, y = make_data()
    sampler = MALA(step=0.5, n_steps=5, n_chains=3, preconditioner="curvature")
    fit = ARDLogisticClassifier(sampler=sampler, max_iter=40, random_state=0)
    assert fit.fit(X, y).support_[0]
    assert fit.draws_.shape == (400, 9)


def test_constant_features_are_dropped():
    X, y = make_data()
    X[:, 3] = 7.0
    fit = ARDLogisticClassifier(max_iter=40, random_state=0).fit(X, y)
    assert not fit.support_[3] and fit.coef_[0, 3] == 0
    assert np.isfinite(fit.draws_).all()


def test_gradient_and_curvature_bound():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, 30) * 1.0
    data, model = WholeData(X, y, 5), ARDLogisticModel()
    params = ARDLogisticParams(np.array([1.0, 0.1, 2.0, 0.01]))
    Z = rng.normal(size=(5, 5))
    gradient = model.grad_log_joint(data, Z, params)
    for j in range(5):
        shift = 1e-5 * np.eye(5)[j]
        above, below = (model.log_joint(data, Z + t * shift, params) for t in (1, -1))
        np.testing.assert_allclose(gradient[:, j], (above - below) / 2e-5, rtol=1e-5)
    # The Hessian at zero is the largest one there is.
    A = np.column_stack([np.ones(30), X])
    hessian = A.T @ A / 4 + np.diag(1 / np.append(100.0, params.variances))
    scale = model.curvature_scale(data, params)
    np.testing.assert_allclose(scale @ hessian, np.eye(5), atol=1e-12)


def test_m_step_bounds_the_fall():
    model = ARDLogisticModel()
    params = ARDLogisticParams(np.array([1.0, 1.0]))
    found = model.maximize(np.array([0.1, 3.0]), params).variances
    np.testing.assert_allclose(found, [0.9, 3.0])
    for _ in range(60):
        params = model.maximize(np.array([0.1, 3.0]), params)
    np.testing.assert_allclose(params.variances, [0.1, 3.0])


def test_whole_data_is_a_row():
    data = WholeData(np.ones((4, 2)), np.ones(4))
    assert len(data) == 1 and len(data.repeat(3)) == 3
    assert len(data[0:1]) == 1 and len(data[np.array([0])]) == 1
    Z = ARDLogisticModel().initial_latents(
        data, ARDLogisticParams(np.ones(2)), spawn_generators(0).initialisation
    )
    assert Z.shape == (1, 3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"solver": "fittem"}, "solver must be one of"),
        ({"sampler": "gibbs"}, "sampler must be one of"),
        ({"threshold": -1}, "threshold must be a number >= 0"),
        ({"n_steps": 0}, "n_steps must be an integer >= 1"),
        ({"solver": "biased-saem", "sampler": "mala"}, "means the sampler 'ula'"),
    ],
    ids=str,
)
def test_wrong_settings(options, message):
    with pytest.raises(ValueError, match=message):
        ARDLogisticClassifier(**options).fit(*make_data(n=20))


def standardized(seed=0, n=80, p=5):
    X, y = make_data(seed, n, p)
    return (X - X.mean(axis=0)) / X.std(axis=0), y * 1.0


@pytest.mark.parametrize("n", [80, 4], ids=["primal", "dual"])
def test_laplace_fit_by_general_formulas(n):
    X, y = standardized()
    X, y = X[:n], np.resize([0.0, 1.0], n) if n == 4 else y
    v = np.array([1.0, 0.3, 2.0, 0.01, 0.5])
    A, prior = np.column_stack([np.ones(len(X)), X]), np.append(100.0, v)

    def joint(z):
        return A @ z @ y - np.logaddexp(0, A @ z).sum() - 0.5 * z @ (z / prior)

    mode = optimize.minimize(lambda z: -joint(z), np.zeros(6), tol=1e-9).x
    p = expit(A @ mode)
    hessian = (A.T * (p * (1 - p))) @ A + np.diag(1 / prior)
    fit = laplace_fit(X, y, v)
    np.testing.assert_allclose(fit.scaled * np.sqrt(prior), mode, atol=1e-4)
    np.testing.assert_allclose(
        fit.remaining * prior, np.diag(np.linalg.inv(hessian)), rtol=1e-3
    )
    evidence = joint(mode) - 0.5 * np.linalg.slogdet(hessian * prior)[1]
    assert fit.log_evidence == pytest.approx(evidence, abs=1e-5)


@pytest.mark.parametrize("shape", [(80, 5), (200, 12)])
def test_start_is_a_maximum_of_laplaces_evidence(shape):
    X, y = standardized(1, *shape)
    v, height = find_start(X, y)
    p = X.shape[1]

    def evidence(v):
        k = min(np.count_nonzero(v), p // 2)
        return laplace_fit(X[:, v > 0], y, v[v > 0]).log_evidence - np.log(comb(p, k))

    best = evidence(v)
    assert height == pytest.approx(best, abs=1e-6)
    assert (v > 0).any() and (v == 0).any()
    for j in range(len(v)):
        for other in [0.0, 0.01, *(v[j] * np.array([0.7, 1.4]))]:
            changed = v.copy()
            changed[j] = other
            assert evidence(changed) < best + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_many_features_that_say_nothing_are_not_kept(seed, monkeypatch):
    """Twenty of sixty were kept, and predictions worse than those of the shares."""
    X, _ = standardized(seed, 200, 60)
    y = np.random.default_rng(seed).permutation(np.arange(200) % 2).astype(float)
    assert np.count_nonzero(find_start(X, y)[0]) <= 1
    monkeypatch.setattr(relevance_start, "entry_price", lambda n_kept, p: 0.0)
    monkeypatch.setattr(relevance_start, "price_of", lambda n_kept, p: 0.0)
    assert np.count_nonzero(find_start(X, y)[0]) > 8


def test_many_weak_features_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    y = rng.random(200) < expit(X @ (0.4 * rng.choice([-1, 1], 40)))
    few = rng.random(200) < expit(3 * X[:, 0])
    options = {"max_iter": 5, "tol": 0, "n_posterior_draws": 10, "random_state": 0}
    with pytest.warns(FitWarning, match="Most features matter a little.*l2"):
        ARDLogisticClassifier(**options).fit(X, y)
    ARDLogisticClassifier(**options).fit(X, few)


def test_newton_step_finds_the_best_variances():
    """For Gaussian data the maximum is known: squares less the noise."""
    rng = np.random.default_rng(0)
    noise, v = 0.5, np.array([3.0, 1.0, 2.0])
    data = np.array([2.0, 1.5, 0.2])

    def draws(v):
        spread = 1 / (1 / noise + 1 / v)
        found = spread * data / noise
        found = found + np.sqrt(spread) * rng.normal(size=(20_000, 3))
        return np.column_stack([np.zeros(20_000), found])

    dropped = without_negligible(draws(v), v)
    np.testing.assert_array_equal(dropped, [3.0, 1.0, 1e-10])
    v = dropped
    for _ in range(10):
        step = ascent_from(draws(v), v, np.inf)
        v = step.variances
    assert step.gain < 1e-3
    np.testing.assert_allclose(v[:2], data[:2] ** 2 - noise, rtol=0.1)
    kept = without_negligible(draws(v), v)
    assert kept is v


def test_nothing_matters():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 3 == 0
    fit = ARDLogisticClassifier(random_state=0).fit(X, y)
    assert not fit.support_.any() and fit.converged_
    np.testing.assert_allclose(fit.predict_proba(X)[:, 1], 1 / 3, atol=0.02)


def test_units_do_not_matter():
    X, y = make_data(n=100, p=4)
    scale = np.array([1e-6, 1e6, 1.0, 1e3])
    one = ARDLogisticClassifier(random_state=0).fit(X, y)
    two = ARDLogisticClassifier(random_state=0).fit(X * scale, y)
    np.testing.assert_allclose(
        two.predict_proba(X * scale), one.predict_proba(X), atol=1e-3
    )


def test_too_small_a_tolerance_is_said():
    X, y = make_data(n=60, p=4)
    with pytest.warns(ConvergenceWarning, match="nats can be gained"):
        fit = ARDLogisticClassifier(random_state=0, tol=1e-9, max_iter=10).fit(X, y)
    assert not fit.converged_
    fit = ARDLogisticClassifier(random_state=0, tol=0, max_iter=10).fit(X, y)
    assert not fit.converged_ and fit.n_iter_ == 10


@pytest.mark.parametrize("kind", [ARDLogisticClassifier, RobustPoissonRegressor])
def test_values_whose_squares_overflow_are_refused(kind):
    X, y = make_data(n=60, p=4)
    X[:, 1] *= 1e200
    with pytest.raises(ValueError, match=r"squares overflow, in columns \[1\]"):
        kind().fit(X, y)
