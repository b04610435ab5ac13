"""The number of states."""

import warnings

import numpy as np
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian
from sktem.exceptions import FitWarning
from tests.hidden_markov.chains import draw_sequences

A = np.array([[0.9, 0.06, 0.04], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8]])
MEANS = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
LENGTHS = [80] * 8
X, STATES = draw_sequences(LENGTHS, np.ones(3) / 3, A, MEANS, np.random.default_rng(1))


@pytest.mark.parametrize("name", ["auto", "icl"])
def test_the_number_is_found(name):
    searched = HiddenMarkovModel(name, emission=Gaussian("diag"), random_state=0)
    searched.fit(X, lengths=LENGTHS)
    assert searched.n_states_ == 3 and searched.transitions_.shape == (3, 3)
    steps = searched.state_search_
    assert [step.n_states for step in steps] == [1, 2, 3, 4, 5]
    plain = HiddenMarkovModel(3, emission=Gaussian("diag"), random_state=0)
    plain.fit(X, lengths=LENGTHS)
    value = getattr(plain, "icl" if name == "icl" else "bic")(X, lengths=LENGTHS)
    assert min(step.criterion for step in steps) == pytest.approx(value, abs=0.02)
    gap = searched.score(X, lengths=LENGTHS) - plain.score(X, lengths=LENGTHS)
    assert abs(gap) < 1e-5
    path = searched.predict(X, lengths=LENGTHS)
    assert searched.filter(X, previous=[1.0, 0.0, 0.0]).shape == (len(X), 3)
    assert len(np.unique(path)) == 3


def test_one_state_is_enough_for_noise():
    rows = np.random.default_rng(0).normal(size=(400, 1))
    assert HiddenMarkovModel("bic", random_state=0).fit(rows).n_states_ == 1


def test_refused_numbers_are_told():
    """Values that were filled in make a state without variance of their own."""
    filled = X[:, :1] + 3.0 * STATES[:, None]
    filled[np.random.default_rng(3).random(len(X)) < 0.1] = 0.0
    with pytest.warns(FitWarning, match="were refused: State.* no var"):
        HiddenMarkovModel("auto", random_state=0).fit(filled, lengths=LENGTHS)


def test_criteria_are_their_definitions():
    fit = HiddenMarkovModel(2, random_state=0).fit(X, lengths=LENGTHS)
    likelihood = fit.score_samples(X, lengths=LENGTHS).sum()
    joint = fit.decode(X, lengths=LENGTHS)[0].sum()
    count = 1 + 2 + 2 * (2 + 3)
    price = count * np.log(len(X))
    assert fit.bic(X, lengths=LENGTHS) == pytest.approx(price - 2 * likelihood)
    assert fit.icl(X, lengths=LENGTHS) == pytest.approx(price - 2 * joint)
    assert fit.aic(X, lengths=LENGTHS) == pytest.approx(2 * count - 2 * likelihood)


def test_a_search_forgets_the_fit_before():
    Z = np.random.default_rng(2).normal(size=len(X))
    quick = {"max_iter": 5, "tol": 0, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = HiddenMarkovModel(2, **quick).fit(X, covariates=Z + 5.0)
        again.set_params(n_states="auto").fit(X[:99], covariates=Z[:99])
        new = HiddenMarkovModel("auto", **quick).fit(X[:99], covariates=Z[:99])
    np.testing.assert_array_equal(again.covariates_mean_, new.covariates_mean_)
    np.testing.assert_array_equal(again.transitions_, new.transitions_)


def test_known_states_say_how_many():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = HiddenMarkovModel("auto", random_state=0)
        assert known.fit(X, lengths=LENGTHS, states=STATES).n_states_ == 3
