"""What hidden Markov models refuse, and in which words."""

import numpy as np
import pandas as pd
import pytest

from sktem import HiddenMarkovModel, StochasticEMMixture
from sktem.emissions import Autoregression, Columns, Gaussian, Mixture, Regression
from tests.hidden_markov.chains import left_to_right

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) + 3 * RNG.integers(2, size=(60, 1))
ONE, BITS = X[:, :1], (np.arange(60.0) % 2)[:, None]
CODES = RNG.integers(1, 3, size=(60, 2))
HUGE = np.where(np.arange(60)[:, None] == 7, 1e200, ONE)
PLAIN, STATIONARY = {}, {"start": "stationary", "n_states": 2}
START, TRANSITIONS = left_to_right(2)
LAGGED = Regression(order=1)
COVARIANCES = np.stack([np.eye(2)] * 3)


def of_regression(**options):
    return {"emission": Regression(**options)}


def of_histories(**options):
    return {"emission": Autoregression(**options), "n_states": 2}


#: What is said, rows, settings, and further arguments of `fit`.
REFUSED = [
    (r"columns \[1\]: leave them out", np.where([True, False], X, np.nan), PLAIN),
    ("not next to each other", X, PLAIN, {"groups": np.arange(60) % 7}),
    ("lengths add up to 3", X, PLAIN, {"lengths": [1, 2]}),
    ("not both", X, PLAIN, {"groups": np.zeros(60), "lengths": [60]}),
    ("states must be from 0 to 2", X, PLAIN, {"states": np.full(60, 3)}),
    ("groups='day' names a column", X, PLAIN, {"groups": "day"}),
    ("each a sequence: leave out groups", [X, X], PLAIN, {"groups": np.zeros(60)}),
    (r"n_states = 3, n_samples = 2", X[:2], PLAIN),
    ("n_states", X, {"n_states": "bid"}),
    ("start_init already says", X, {"n_states": "auto", "start_init": [0.5, 0.5]}),
    ("start_init must have sums of 1", X, {"start_init": [1, 1, 1]}),
    (r"must have the shape \(3, 3", X, {"transitions_init": np.eye(2)}),
    ("did you mean 'means'", X, {"emission_init": {"mean": np.zeros((3, 2))}}),
    ("positive definite", X, {"emission_init": {"covariances": -COVARIANCES}}),
    ("fixed has unknown parts", X, {"fixed": ["mean"]}),
    ("fixed has unknown parts", BITS, {"fixed": ["rates"], "emission": "poisson"}),
    ("Poisson takes counts", X, {"emission": "poisson"}),
    ("different columns from 0 to 1", X, of_regression(exog=[2])),
    ("not in exog", X, of_regression(exog=[0, 1])),
    ("order of Regression", X, of_regression(order=-1)),
    ("shared of Regression", X, of_regression(exog=[1], shared=[0])),
    ("shared of Regression", X, of_regression(shared=["lags"])),
    ("needs an intercept", X, of_regression(fit_intercept=False)),
    ("not depend on rows before", X, {"emission": Mixture(LAGGED)}),
    ("not depend on rows before", X, {"emission": Columns([("a", LAGGED, [0, 1])])}),
    ("on histories of states", ONE, of_histories() | {"durations": "poisson"}),
    ("on histories of states", ONE, of_histories() | {"tied_emissions": [0, 0]}),
    ("on histories of states", ONE, of_histories(), {"covariates": ONE}),
    ("must be different columns from 0 to 0", ONE, of_histories(exog=[1])),
    ("needs a column that is not in exog", ONE, of_histories(exog=[0])),
    ("shared of Autoregression must be columns", ONE, of_histories(shared=[0])),
    ("order of Autoregression", ONE, of_histories(order=0)),
    ("squares overflow: in column 0", HUGE, of_histories()),
    ("one of .'free', 'stationary'", X, {"start": "steady"}),
    ("start_init=None", X, STATIONARY | {"start_init": START}),
    ("start_prior=1", X, STATIONARY | {"start_prior": 2.0}),
    ("below 1 takes transitions out", X, STATIONARY | {"transitions_prior": 0.5}),
    ("without 'start'", X, STATIONARY | {"fixed": ["start"]}),
    ("durations=None", X, STATIONARY | {"durations": "poisson"}),
    ("lead from every state to", X, STATIONARY | {"transitions_init": TRANSITIONS}),
    ("no covariates", X, STATIONARY | {"emission": Gaussian()}, {"covariates": X}),
]
CANNOT, NEGATIVE = "emission_init must have values that", "'{}'. must not be negative"
SUMS = "'{}'. must have sums of 1"
#: Values that a parameter of an emission cannot have, and what is said.
IMPOSSIBLE = [
    ("poisson", BITS, "rates", [[-1.0], [1.0], [2.0]], NEGATIVE),
    ("poisson", BITS, "rates", [[np.inf], [1.0], [2.0]], CANNOT),
    ("bernoulli", BITS, "probabilities", [[2.0], [0.5], [0.1]], CANNOT),
    (Regression(), BITS, "variances", [[-1.0], [1.0], [1.0]], CANNOT),
    ("gamma", 1 + BITS, "shapes", [[-1.5], [1.0], [2.0]], NEGATIVE),
    ("von_mises", 1 + BITS, "concentrations", [[-1.0], [1.0], [2.0]], NEGATIVE),
    ("negative_binomial", 1 + BITS, "sizes", [[1.0], [1.0], [-0.5]], NEGATIVE),
    ("student_t", 1 + BITS, "degrees_of_freedom", [-4.0, 3.0, 3.0], NEGATIVE),
    ("categorical", CODES, "probabilities", np.ones((3, 2, 3)), SUMS),
    ("multinomial", CODES, "probabilities", np.ones((3, 2)), SUMS),
    (Mixture(Gaussian("diag"), 2), CODES, "weights", np.ones((3, 2)), SUMS),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_what_is_refused(case):
    message, rows, settings, *arguments = case
    hmm = HiddenMarkovModel(**{"n_states": 3, "random_state": 0, **settings})
    with pytest.raises(ValueError, match=message):
        hmm.fit(rows, **(arguments[0] if arguments else {}))


def test_lengths_in_the_place_of_y():
    fitted = HiddenMarkovModel(2, random_state=0).fit(X, np.zeros(60))
    for method in ("fit", "partial_fit", "score"):
        call = getattr(fitted, method)
        with pytest.raises(ValueError, match="has 3 entries.* by name, lengths="):
            call(X, [20, 30, 10])
        with pytest.raises(ValueError, match="7 entries where X has 60 rows$"):
            call(X, list("abcdefg"))


@pytest.mark.parametrize("emission, rows, name, values, message", IMPOSSIBLE)
def test_parameters_that_cannot_be(emission, rows, name, values, message):
    holes = np.full(np.shape(values), np.nan)
    for given, said in ((values, message.format(name)), (holes, f"'{name}'. must not")):
        hmm = HiddenMarkovModel(3, emission=emission, emission_init={name: given})
        with pytest.raises(ValueError, match=said):
            hmm.fit(rows)


@pytest.mark.parametrize("emission", [LAGGED, Autoregression()], ids=str)
def test_rows_before_where_there_are_none(emission):
    rows = ONE if isinstance(emission, Autoregression) else X
    with pytest.raises(ValueError, match="do not depend on rows before"):
        HiddenMarkovModel(2, emission=emission).partial_fit(rows, continues=True)
    with pytest.raises(ValueError, match="rows of a mixture have no order"):
        StochasticEMMixture(2, emission=emission).fit(rows)
    with pytest.raises(ValueError, match="needs a number of states"):
        HiddenMarkovModel("auto").partial_fit(rows)


@pytest.mark.parametrize("where", ["frame", "frames", "file", "groups"])
def test_columns_are_named(where, tmp_path):
    """By index in a table without names."""
    table = pd.DataFrame({"day": 1, "rain": RNG.gamma(2.0, size=60), "heat": X[:, 0]})
    rows, options = table[["rain", "heat"]], {}
    if where == "groups":
        rows, options = table, {"groups": "day"}
    if where == "frames":
        rows = [rows[:30], rows[30:]]
    if where == "file":
        table.to_parquet(tmp_path / "rows.parquet")
        rows, options = str(tmp_path / "rows.parquet"), {"groups": "day"}
    hmm = HiddenMarkovModel(2, emission="gamma")
    with pytest.raises(ValueError, match="positive values; column 'heat' has -"):
        hmm.fit(rows, **options)
    with pytest.raises(ValueError, match="positive values; column 1 has -"):
        hmm.fit(table[["rain", "heat"]].to_numpy())
