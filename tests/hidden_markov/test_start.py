"""Starts of hidden Markov models: of several optima, and no more runs than it takes."""

import numpy as np
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.model import SequenceModel
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.start import Search, best_start

SEARCH = Search()


def start_of(values, n_states, seed):
    """Return the start that is found for one sequence."""
    X = ObservedSequences(np.array([0, len(values)]), values)
    model = SequenceModel(Chain(n_states), Gaussian(), None, len(values))
    return best_start(model, X, lambda params: params, np.random.default_rng(seed))


@pytest.mark.filterwarnings("ignore:Only one of")
def test_few_rows_with_many_optima():
    api = pytest.importorskip("statsmodels.api")
    table = api.datasets.interest_inflation.load_pandas().data
    X = table[["Dp", "R"]].to_numpy()
    scores = [
        HiddenMarkovModel(3, random_state=seed).fit(X).score(X) for seed in range(10)
    ]
    assert np.ptp(scores) < 1e-4
    # A third of the starts of a single round end lower by more than this.
    assert start_of(X, 3, 0).n_runs > 100


@pytest.mark.parametrize("seed", range(5))
def test_a_second_round_follows_only_where_runs_disagree(seed):
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(12) % 2, 25)
    X = rng.normal(size=(300, 1)) + 6.0 * states[:, None]
    assert start_of(X, 2, seed).n_runs <= SEARCH.random + len(SEARCH.windows)
    assert SEARCH.further(SEARCH.most_rows) == 0
    assert SEARCH.further(100) == SEARCH.most_further
