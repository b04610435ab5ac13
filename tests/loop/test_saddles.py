"""Runs that stand at a saddle point, and ordinary ones that are disturbed in vain."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.loop import saddles
from sktem.models import LatentModel, RandomInterceptModel


class TwoMeans(LatentModel):
    """Two unit normals with equal shares, whose means begin ``apart`` from a centre."""

    averages_draws = True

    def __init__(self, apart=0.0):
        self.apart = apart

    def initial_params(self, X, rng):
        return X.mean() + self.apart * np.array([-1.0, 1.0])

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.hstack([Z, Z * X]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return s[2:] / np.maximum(s[:2], 1e-12)

    def posterior(self, X, params):
        first = expit(0.5 * ((X[:, 0] - params[1]) ** 2 - (X[:, 0] - params[0]) ** 2))
        return np.column_stack([first, 1 - first])

    def draw_posterior(self, X, params, n_draws, rng):
        first = rng.binomial(n_draws, self.posterior(X, params)[:, 0]) / n_draws
        return np.column_stack([first, 1 - first])

    def log_likelihood(self, X, params):
        densities = np.exp(-0.5 * (X - params) ** 2) / np.sqrt(2 * np.pi)
        return np.log(densities.mean(axis=1))


def rows(seed, n=800, apart=2.0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=n) + rng.choice([-apart, apart], n))[:, None]


def best(X):
    """Return the largest mean log-likelihood, by another library."""
    loss = lambda means: -TwoMeans().log_likelihood(X, means).mean()  # noqa: E731
    return -minimize(loss, [-1.0, 1.0]).fun


@pytest.mark.parametrize("apart", [0.0, 1e-6])
@pytest.mark.parametrize("solver", ["em", "squarem", "iem", "vrttem"])
def test_a_saddle_is_left(apart, solver, global_random_seed):
    X = rows(global_random_seed)
    em = StochasticEM(TwoMeans(apart), solver=solver, random_state=0).fit(X)
    assert em.converged_
    assert best(X) - em.score(X) < em.tol


@pytest.mark.parametrize("begin", [0.0, 0.02])
@pytest.mark.parametrize("solver", ["em", "squarem", "iem"])
def test_a_nearly_neutral_saddle_is_left(begin, solver, global_random_seed):
    # Around the centre EM multiplies the distance of the means by the variance, 1.16.
    X = rows(global_random_seed, 1500, apart=0.4)
    em = StochasticEM(TwoMeans(begin), solver=solver, random_state=0).fit(X)
    assert em.converged_
    assert best(X) - em.score(X) < 2 * em.tol


def test_models_that_refuse_extrapolated_statistics_are_tried_by_em(global_random_seed):
    class Strict(TwoMeans):
        def maximize(self, s, params):
            if (s[:2] < 0.4).any():
                raise ValueError("no data give these")
            return super().maximize(s, params)

    X = rows(global_random_seed)
    em = StochasticEM(Strict(), solver="em").fit(X)
    assert best(X) - em.score(X) < em.tol


def test_rows_with_weights_leave_it_too(global_random_seed):
    X = rows(global_random_seed)
    weights = np.random.default_rng(global_random_seed).integers(1, 4, len(X))
    em = StochasticEM(TwoMeans(), solver="em").fit(X, sample_weight=weights)
    assert best(np.repeat(X, weights, axis=0)) - em.score(X, None, weights) < em.tol


@pytest.mark.parametrize("solver", ["em", "squarem", "iem"])
@pytest.mark.parametrize("model", [TwoMeans(1.0), RandomInterceptModel()])
def test_an_ordinary_fit_is_as_it_would_be(model, solver, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rows(global_random_seed)
    if isinstance(model, RandomInterceptModel):
        X = X + rng.normal(size=(len(X), 4))
    fits = []
    for leaves in (True, False):
        em = StochasticEM(model, solver=solver, random_state=0)
        settings = em._settings
        em._settings = lambda *given, settings=settings, leaves=leaves, **named: (
            replace(settings(*given, **named), leaves_saddles=leaves)
        )
        fits.append(em.fit(X))
    np.testing.assert_array_equal(fits[0].statistics_, fits[1].statistics_)
    assert fits[0].n_iter_ == fits[1].n_iter_
    assert fits[0].history_.objective == fits[1].history_.objective


@pytest.mark.parametrize("apart, far", [(0.0, True), (1.0, False)])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_disturbed_in_part_first(apart, far, weighted, monkeypatch):
    X = rows(0, 40_000)
    weights = np.random.default_rng(1).integers(1, 4, len(X)) if weighted else None
    visits = []
    real = saddles._Trials.passes

    def passes(self, params, data, **changes):
        trial = real(self, params, data, **changes)
        visits.append(trial.rows_visited)
        return trial

    monkeypatch.setattr(saddles._Trials, "passes", passes)
    em = StochasticEM(TwoMeans(apart), solver="em").fit(X, sample_weight=weights)
    repeated = X if weights is None else np.repeat(X, weights, axis=0)
    assert best(repeated) - em.score(repeated) < em.tol
    # All rows are visited only where a part has left a saddle.
    assert (max(visits) >= len(X)) == far
    assert far or sum(visits) < 0.05 * em.n_iter_ * len(X)


@pytest.mark.parametrize("finished", range(4))
def test_an_interrupt_of_a_trial_ends_the_run(finished, monkeypatch):
    trials, real = [], saddles._Trials.passes

    def passes(self, params, data, **changes):
        trials.append(params)
        return real(self, params, data, **changes)

    class Interrupted(TwoMeans):
        def posterior(self, X, params):
            if len(trials) > finished:
                raise KeyboardInterrupt
            return super().posterior(X, params)

    monkeypatch.setattr(saddles._Trials, "passes", passes)
    em = StochasticEM(Interrupted(), solver="em")
    with pytest.raises(KeyboardInterrupt):
        em.fit(rows(0, 40_000))
    assert len(trials) == finished + 1
    assert em.params_[0] == em.params_[1]


def test_an_interrupt_at_an_edge_is_not_lost_at_a_saddle(monkeypatch):
    trials, real = [], saddles._Trials.passes

    def passes(self, params, data, **changes):
        trials.append(params)
        return real(self, params, data, **changes)

    class AtEdge(TwoMeans):
        def shares(self, params):
            return [np.array([1e-5, 1 - 1e-5])]

        def with_shares(self, params, shares):
            return params

        def posterior(self, X, params):
            if len(trials) == 1 and not interrupts:
                interrupts.append(params)
                raise KeyboardInterrupt
            return super().posterior(X, params)

    interrupts = []
    monkeypatch.setattr(saddles._Trials, "passes", passes)
    with pytest.raises(KeyboardInterrupt):
        StochasticEM(AtEdge(), solver="em").fit(rows(0))
    assert len(trials) == 1


@pytest.mark.parametrize("fails", [True, False])
def test_only_draws_without_parameters_are_passed_over(fails):
    class Failing(TwoMeans):
        def draw_posterior(self, X, params, n_draws, rng):
            if fails:
                raise ValueError("of the user")
            return np.zeros((len(X), 2))

        def maximize(self, s, params):
            with np.errstate(invalid="ignore"):
                return s[2:] / s[:2]

    em = StochasticEM(Failing(1.0), solver="em")
    if not fails:
        assert best(rows(0)) - em.fit(rows(0)).score(rows(0)) < em.tol
        return
    with pytest.raises(ValueError, match="of the user"):
        em.fit(rows(0))


@pytest.mark.parametrize("apart", [0.0, 1e-5])
@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_equal_components_of_mixtures_are_parted(apart, covariance_type):
    X = rows(0) + np.random.default_rng(1).normal(size=(800, 2))
    ends = X.mean(axis=0) + apart * np.array([[-1.0], [1.0]])
    parted, free = (
        StochasticEMGaussianMixture(
            2, covariance_type=covariance_type, random_state=0, **given
        ).fit(X)
        for given in ({"means_init": ends}, {})
    )
    assert free.score(X) - parted.score(X) < 1e-4
