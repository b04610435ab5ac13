"""Cases of models of one's own: what a run claims, chains, rows of all kinds."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from sktem import HiddenMarkovModel, StochasticEM
from sktem.models import RandomInterceptModel
from tests.defaults.harness import Case
from tests.estimators.test_kinds_of_rows import Ragged, WithHoles
from tests.samplers.test_chains_that_stand import (
    OnePoint,
    Tobit,
    off_the_second_moment,
    tobit_data,
)

NAME = "StochasticEM"


def intercepts(seed, n=600, m=6, mean=50.0, noise=0.5):
    """Measurements of subjects around their own intercepts."""
    rng = np.random.default_rng(2000 + seed)
    return rng.normal(mean, 1, size=(n, 1)) + rng.normal(0, noise, size=(n, m))


def intercept_claim(solver, n, tol=1e-4):
    def distance(seed):
        X = intercepts(seed, n)
        fit = StochasticEM(
            RandomInterceptModel(), solver=solver, tol=tol, random_state=seed
        ).fit(X)
        # The maximum has a closed form.
        within = X.var(axis=1, ddof=1).mean()
        between = X.mean(axis=1).var() - within / X.shape[1]
        best = fit.params_._replace(
            mean=X.mean(), variance=between, noise_variance=within
        )
        top = RandomInterceptModel().log_likelihood(X, best).mean()
        return (top - fit.score(X)) / tol if fit.converged_ else 0.0

    return distance


def chain_claim(solver):
    def distance(seed):
        rng = np.random.default_rng(seed)
        states = np.zeros((60, 30), dtype=int)
        for t in range(1, 30):
            stay = rng.random(60) < 0.9
            states[:, t] = np.where(stay, states[:, t - 1], rng.integers(3, size=60))
        X = [*(4.0 * states[:, :, None] + rng.normal(size=(60, 30, 1)))]
        fit = HiddenMarkovModel(3, solver=solver, tol=1e-4, random_state=seed).fit(X)
        more = HiddenMarkovModel(
            3, solver="em", tol=1e-10, max_iter=3000, random_state=seed,
            start_init=fit.start_, transitions_init=fit.transitions_,
            emission_init=fit.emission_params_._asdict(),
        ).fit(X)  # fmt: skip
        left = (more.score(X) - fit.score(X)) / 1e-4
        return left if fit.converged_ else 0.0

    return distance


def tobit(sampler):
    def distance(seed):
        X = tobit_data(seed, 1000)

        def minus(theta):
            params = np.array([theta[0], theta[1], np.exp(theta[2])])
            return -Tobit().log_likelihood(X, params).mean()

        best = minimize(minus, [0.0, 1.0, 0.5]).fun
        fit = StochasticEM(Tobit(), sampler=sampler, random_state=seed).fit(X)
        return -best - fit.score(X)

    return distance


def one_point(sampler):
    def distance(seed):
        X = intercepts(seed, 300, 4, 3.0)
        model = OnePoint()
        model.here = float(X.mean())
        fit = StochasticEM(model, sampler=sampler, random_state=seed).fit(X)
        best = StochasticEM(RandomInterceptModel(), solver="em", tol=1e-10).fit(X)
        return best.score(X) - fit.score(X)

    return distance


def holes(solver, ragged):
    def distance(seed):
        X = intercepts(seed, 400, 4, 3.0)
        rng = np.random.default_rng(seed)
        X[:, 1:] = np.where(rng.random(X[:, 1:].shape) < 0.3, np.nan, X[:, 1:])
        best = StochasticEM(WithHoles(), solver="em", tol=1e-10, max_iter=3000).fit(X)
        top = best.score(X)
        model, rows = WithHoles(), X
        if ragged:
            model, rows = Ragged(), [row[~np.isnan(row)] for row in X]
        fit = StochasticEM(model, solver=solver, random_state=seed).fit(rows)
        return top - fit.score(rows)

    return distance


def heavy_weights(seed):
    """Weights of 1e6 are as many copies: the same fit."""
    X = intercepts(seed, 200, 4, 3.0)
    options = {"solver": "em", "tol": 1e-10, "max_iter": 3000}
    fit = StochasticEM(RandomInterceptModel(), **options)
    heavy = fit.fit(X, sample_weight=np.full(len(X), 1e6)).score(X)
    return abs(fit.fit(X).score(X) - heavy)


def standard_errors(by_chains):
    """Relative error to the closed form for the mean of balanced intercepts."""

    def distance(seed):
        X = intercepts(seed, 300, 4, 3.0)
        fit = StochasticEM(RandomInterceptModel(), solver="em", tol=1e-10).fit(X)
        params = fit.params_
        exact = np.sqrt((params.variance + params.noise_variance / 4) / len(X))
        if by_chains:
            model = OnePoint()
            model.here = float(X.mean())
            fit = StochasticEM(model, sampler="mala")
            fit.params_, fit.n_features_in_ = params, 4
        return abs(fit.standard_errors(X, random_state=seed).mean / exact - 1)

    return distance


def stream(solver):
    def distance(seed):
        X = intercepts(seed, 4000, 4, 3.0)
        fit = StochasticEM(RandomInterceptModel(), solver=solver, random_state=seed)
        for chunk in np.array_split(X, 20):
            fit.partial_fit(chunk)
        best = StochasticEM(RandomInterceptModel(), solver="em", tol=1e-10).fit(X)
        return best.score(X) - fit.score(X)

    return distance


def lost(name, distance, limit, estimator=NAME, **options):
    reference, unit = "the maximum", "nats a row lost"
    return Case(name, estimator, reference, unit, limit, distance, **options)


def left(name, distance, estimator=NAME, **options):
    """Return a case of a run that says that it has converged."""
    reference, unit = "the maximum", "tol left where converged_"
    return Case(name, estimator, reference, unit, 3.0, distance, **options)


CASES = [
    *(
        left(f"claims, {n:,} rows, {solver}", intercept_claim(solver, n), slow=n > 1000)
        for n in (600, 40_000)
        for solver in ("em", "iem", "vrttem", "fittem", "online", "squarem", "daarem")
    ),
    *(
        left(f"claims, chains, {s}", chain_claim(s), "HiddenMarkovModel", slow=True)
        for s in ("em", "iem", "vrttem", "fittem")
    ),
    lost("known latents, rwm", tobit("rwm"), 2e-3, may_warn=True, slow=True),
    *(
        lost(f"chains from one point, {s}", one_point(s), 2e-3, may_warn=True)
        for s in ("rwm", "mala")
    ),
    Case("light tail, mala", NAME, "a truncated normal law", "standard errors", 4.0,
         lambda seed: abs(off_the_second_moment(seed)), slow=True),
    *(
        lost(f"missing values, {solver}", holes(solver, False), 1e-3)
        for solver in ("em", "isaem", "fittem")
    ),
    lost("rows of different lengths, fittem", holes("fittem", True), 1e-3, slow=True),
    lost("weights of a million", heavy_weights, 1e-8),
    *(
        lost(f"stream in chunks of 200, {s}", stream(s), 5e-3)
        for s in ("online", "isaem", "vrttem")
    ),
    *(
        Case(
            f"standard errors, {how}", NAME, "a closed form", "relative error", 0.05,
            standard_errors(how == "chains"),
        )
        for how in ("draws", "chains")
    ),
]  # fmt: skip
