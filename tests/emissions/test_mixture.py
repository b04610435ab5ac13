"""Mixtures as emissions, against densities that are summed and their own contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

from sktem import HiddenMarkovModel, StochasticEMMixture
from sktem.emissions import (
    Categorical,
    Columns,
    Gaussian,
    Mixture,
    Poisson,
    check_emission,
)


def two_bumps(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 6.0 * rng.integers(2, size=(n, 1))


@pytest.mark.parametrize(
    "emission, X",
    [
        (Mixture(Gaussian("diag", reg_covar=0.0)), 2.0 * two_bumps(n=40)),
        (Mixture(Poisson()), np.round(np.exp(0.5 * two_bumps()))),
        (
            Mixture(
                Columns([("a", Gaussian(reg_covar=0.0), [0]), ("b", Poisson(), [1])])
            ),
            np.round(np.exp(0.5 * two_bumps())) + [0.1, 0.0],
        ),
        (Mixture(Gaussian(), 1), two_bumps()),
    ],
)
def test_contract(emission, X):
    assert "condition" in check_emission(emission, X)


def test_densities_are_sums_over_components():
    rng = np.random.default_rng(0)
    X, R = two_bumps(), rng.dirichlet(np.ones(3), size=60)
    emission = Mixture(Gaussian("full"), 2)
    params = emission.start(X, R)
    X[::3, 0] = np.nan
    X[7] = np.nan
    found = emission.log_density(X, params)
    means, covariances = params.components.means, params.components.covariances
    for row, values in zip(X, found, strict=True):
        seen = ~np.isnan(row)
        for k in range(3):
            logs = [0.0]
            if seen.any():
                logs = [
                    np.log(params.weights[k, m])
                    + stats.multivariate_normal.logpdf(
                        row[seen], means[c][seen], covariances[c][np.ix_(seen, seen)]
                    )
                    for m in range(2)
                    for c in [2 * k + m]
                ]
            assert values[k] == pytest.approx(logsumexp(logs), rel=1e-9, abs=1e-12)


def test_a_state_with_two_bumps_is_one_state():
    # States by their dwelling: each has the same two bumps at different weights.
    rng = np.random.default_rng(0)
    states = np.repeat(rng.integers(2, size=40), 25)
    upper = rng.random(len(states)) < np.where(states == 1, 0.9, 0.1)
    X = rng.normal(size=(len(states), 1)) + 5.0 * upper[:, None]
    emission = Mixture(Gaussian("tied"), 2)
    fit = HiddenMarkovModel(2, emission=emission, random_state=0).fit(X)
    path = fit.predict(X)
    assert max((path == states).mean(), (path != states).mean()) > 0.95
    assert np.diag(fit.transitions_).min() > 0.9
    upper = fit.emission_params_.components.means.reshape(2, 2).argmax(axis=1)
    shares = np.sort(fit.emission_params_.weights[[0, 1], upper])
    np.testing.assert_allclose(shares, [0.1, 0.9], atol=0.05)
    filled = fit.impute(np.where(np.arange(len(X))[:, None] % 7, X, np.nan))
    assert np.isfinite(filled).all()
    rows, _ = fit.sample(500)
    assert rows.shape == (500, 1)


@pytest.mark.parametrize(
    "emission, error, match",
    [
        (Mixture(3), TypeError, "takes an emission"),
        (Mixture(Gaussian(), 0), ValueError, "n_components"),
        (Mixture(Categorical()), ValueError, "Categorical"),
    ],
)
def test_bad_settings(emission, error, match):
    with pytest.raises(error, match=match):
        HiddenMarkovModel(2, emission=emission).fit(two_bumps())


def test_names_stand_for_emissions():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(80, 1)), rng.poisson(3.0, size=(80, 2))]
    pairs = [
        (
            Columns([("size", "gaussian", [0]), ("count", "poisson", [1, 2])]),
            Columns([("size", Gaussian(), [0]), ("count", Poisson(), [1, 2])]),
        ),
        (Mixture("gaussian", 2), Mixture(Gaussian(), 2)),
    ]
    for by_name, itself in pairs:
        assert_array_equal(
            StochasticEMMixture(2, emission=by_name, random_state=0).fit(X).predict(X),
            StochasticEMMixture(2, emission=itself, random_state=0).fit(X).predict(X),
        )
        by_name.get_params(deep=True)
    with pytest.raises(ValueError, match="did you mean 'poisson'"):
        Mixture("poison", 2).check(X)


@pytest.mark.parametrize("emission", [Gaussian("diag"), Poisson()])
def test_profiles_of_mixtures_are_means(emission):
    X = (
        np.random.default_rng(0).poisson(3.0, size=(80, 3))
        + 10.0 * (np.arange(80) % 2)[:, None]
    )
    mixture = StochasticEMMixture(2, emission=Mixture(emission, 2), random_state=0)
    profiles = mixture.fit(X).class_profiles()
    R = mixture.predict_proba(X)  # of an EM fixed point
    means = profiles.to_numpy()[1:].T
    assert_allclose(means, R.T @ X / R.sum(axis=0)[:, None], rtol=1e-3)
