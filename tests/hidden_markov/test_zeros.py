"""Probabilities and rates of 0 and 1 that are given: they stay, and exclude rows."""

import numpy as np
import pytest
from scipy.stats import poisson

from sktem import HiddenMarkovModel
from sktem.emissions import Bernoulli, Categorical, Poisson
from sktem.emissions.bernoulli import BernoulliParams
from sktem.emissions.poisson import PoissonParams

pytestmark = [
    pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
START = {
    "start_init": [0.6, 0.4],
    "transitions_init": [[0.8, 0.2], [0.3, 0.7]],
    "max_iter": 7,
    "tol": 0.0,
}


def drawn(seed):
    """Return two binary columns, of which a state never has a one in the first."""
    rng = np.random.default_rng(seed)
    state = np.repeat(rng.integers(2, size=60), 5)
    first = (state == 1) & (rng.random(300) < 0.7)
    second = rng.random(300) < np.where(state == 1, 0.2, 0.6)
    return np.column_stack([first, second]).astype(float)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("p", [[[0.0, 0.5], [0.6, 0.3]], [[0.0, 0.5], [1.0, 0.3]]])
def test_ones_are_excluded_as_labels_are(p, holes, global_random_seed):
    """The path of EM is that of two labels, one of which a state does not have."""
    X, p = drawn(global_random_seed), np.array(p)
    if holes:
        rng = np.random.default_rng(global_random_seed)
        X[rng.random(X.shape) < 0.2] = np.nan
        X[:, 1] = np.where(np.isnan(X[:, 0]), X[:, 1], np.nan_to_num(X[:, 1]))
    options = {**START, "random_state": 0}
    ones = {"probabilities": p}
    both = {"probabilities": np.stack([1 - p, p], axis=2)}
    fit = HiddenMarkovModel(2, emission=Bernoulli(), emission_init=ones, **options)
    peer = HiddenMarkovModel(2, emission=Categorical(2), emission_init=both, **options)
    fit.fit(X)
    peer.fit(X)
    np.testing.assert_allclose(fit.history_.objective, peer.history_.objective)
    learned = fit.emission_params_.probabilities
    assert (learned[p == 0] == 0).all() and (learned[p == 1] == 1).all()
    np.testing.assert_allclose(
        learned, peer.emission_params_.probabilities[:, :, 1], rtol=1e-8
    )
    assert fit.bic(X) == pytest.approx(peer.bic(X))


def test_densities():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [np.nan, 0.0], [0.0, np.nan]])
    p = np.array([[0.0, 1.0], [0.4, 1.0], [1.0, 0.0]])
    with np.errstate(divide="ignore"):
        terms = np.where(X[:, None] == 1, np.log(p), np.log1p(-p))
    wanted = np.where(np.isnan(X[:, None]), 0.0, terms).sum(axis=2)
    found = Bernoulli().log_density(X, BernoulliParams(p))
    np.testing.assert_allclose(found, wanted)
    X, rates = 3 * X, np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    terms = poisson.logpmf(X[:, None], rates)
    wanted = np.where(np.isnan(X[:, None]), 0.0, terms).sum(axis=2)
    found = Poisson().log_density(X, PoissonParams(rates))
    np.testing.assert_allclose(found, wanted)


def test_rates_of_zero_stay(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    state = np.repeat(rng.integers(2, size=60), 5)
    X = rng.poisson(4.0 * state)[:, None].astype(float)
    fit = HiddenMarkovModel(
        2, emission=Poisson(), emission_init={"rates": [[0.0], [3.0]]}, random_state=0
    ).fit(X)
    rates = fit.emission_params_.rates.ravel()
    assert rates[0] == 0 and fit.converged_
    # What is no zero is of the other state, and zeros of it are few.
    assert rates[1] == pytest.approx(X[state == 1].mean(), rel=0.05)
    assert (fit.predict(X)[X[:, 0] > 0] == 1).all()
    with pytest.raises(ValueError, match="must not be negative"):
        fit.set_params(emission_init={"rates": [[-1.0], [3.0]]}).fit(X)
    with pytest.raises(ValueError, match="is impossible"):
        fit.set_params(emission_init={"rates": [[0.0], [0.0]]}).fit(X)
