"""Starts of hidden Markov models: of several optima, and no more runs than it takes."""

import warnings

import numpy as np
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Autoregression, Gaussian, Regression
from sktem.hidden_markov import start
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.model import SequenceModel
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.start import SEARCH, best_start


def start_of(values, n_states, seed):
    """Return the start that is found for one sequence."""
    X = ObservedSequences(np.array([0, len(values)]), values)
    model = SequenceModel(Chain(n_states), Gaussian(), None, len(values))
    rng = np.random.default_rng(seed)
    return best_start(model, X, lambda params: params, rng, SEARCH)


@pytest.mark.filterwarnings("ignore:Only one of")
@pytest.mark.parametrize("n_states", [3, 4])
def test_few_rows_with_many_optima(n_states):
    """With four states, those of the best optimum are the quarters of the year."""
    api = pytest.importorskip("statsmodels.api")
    table = api.datasets.interest_inflation.load_pandas().data
    X = table[["Dp", "R"]].to_numpy()
    scores = [
        HiddenMarkovModel(n_states, random_state=seed).fit(X).score(X)
        for seed in range(10)
    ]
    assert np.ptp(scores) < 1e-4
    # A third of the starts of a single round end lower by more than this.
    assert start_of(X, n_states, 0).n_runs > 100


@pytest.mark.parametrize("seed", range(5))
def test_a_second_round_follows_only_where_runs_disagree(seed):
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(12) % 2, 25)
    X = rng.normal(size=(300, 1)) + 6.0 * states[:, None]
    assert start_of(X, 2, seed).n_runs <= SEARCH.random + len(SEARCH.windows) + 1
    assert SEARCH.further(SEARCH.most_rows) == 0
    assert SEARCH.further(100) == SEARCH.most_further


@pytest.mark.parametrize("n_init", [1, 4])
def test_all_runs_share_the_second_round(n_init, monkeypatch):
    counts = []
    drawn = start._from_random_rows

    def counted(model, X, windows, n_starts, rng):
        counts.append(n_starts)
        return drawn(model, X, windows, n_starts, rng)

    monkeypatch.setattr(start, "_from_random_rows", counted)
    X = np.random.default_rng(0).normal(size=(100, 1))
    HiddenMarkovModel(2, n_init=n_init, random_state=0, max_iter=5, tol=0).fit(X)
    first, *others = [SEARCH.random] * n_init
    assert counts == [first, SEARCH.most_further, *others]


COLLAPSING = {
    "gamma": ("gamma", 2),
    "log_normal": ("log_normal", 2),
    "von_mises": ("von_mises", 2),
    "autoregression": (Autoregression(2, reg_covar=0), 4),
    "regression": (Regression(order=1, reg_covar=0), 3),
}


@pytest.mark.parametrize("name", COLLAPSING)
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_state_that_collapses_on_its_rows_is_told(name, global_random_seed):
    """Its density has no bound; that of counts has, and 15 rows more are enough."""
    emission, few = COLLAPSING[name]
    X = 1.0 + np.random.default_rng(global_random_seed).random((80, 1))
    poisson = HiddenMarkovModel(2, emission="poisson", max_iter=20)
    hmm = HiddenMarkovModel(2, emission=emission, max_iter=20)
    for n_rows in (few, few + 15):
        states = (np.arange(80) < n_rows).astype(int)
        with pytest.warns() as caught:
            warnings.warn("at least one", UserWarning, stacklevel=1)
            hmm.fit(X, states=states)
            poisson.fit(X.round(), states=states)
        told = [w for w in caught if "account for no more" in str(w.message)]
        assert len(told) == (n_rows == few)


@pytest.mark.parametrize("seed", range(3))
def test_a_prior_keeps_states_of_few_rows(seed):
    """They cannot collapse, although a covariance has more columns than they rows."""
    rng, states = np.random.default_rng(seed), np.zeros(300, dtype=int)
    states[100:115] = 1
    X = rng.normal(size=(300, 20)) + 2.5 * states[:, None]
    prior = Gaussian(covariance_prior=np.eye(20), covariance_prior_strength=0.1)
    found = HiddenMarkovModel(2, emission=prior, random_state=seed).fit(X).predict(X)
    assert abs(np.corrcoef(found, states)[0, 1]) == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:Only one of")
def test_autoregressions_do_not_start_on_a_row():
    api = pytest.importorskip("statsmodels.api")
    X = api.datasets.sunspots.load_pandas().data[["SUNACTIVITY"]].to_numpy()
    scores = []
    for reg_covar in (0, 1e-6):
        hmm = HiddenMarkovModel(2, emission=Autoregression(2, reg_covar=reg_covar))
        hmm.set_params(random_state=0).fit(X)
        assert hmm.predict_proba(X).sum(axis=0).min() > 20
        scores.append(hmm.score(X))
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
