"""The prior of the weights, by default as strong as one row."""

import warnings

import numpy as np
import pytest
from scipy import optimize

from sktem import LatentBoltzmannMachine
from sktem.evaluation import enumerate_moments
from sktem.exceptions import FitWarning
from sktem.graphs import Graph, complete_graph

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < 0.4).astype(float)
X[:, 1] = np.where(RNG.random(60) < 0.8, X[:, 0], X[:, 1])
WHOLE = Graph(complete_graph(5))


def machine(**options):
    return LatentBoltzmannMachine(**{"random_state": 0, **options})


def posterior_mode(rows, n_rows):
    """Return the parameters of largest posterior density, by enumeration."""
    products = rows[:, WHOLE.first] * rows[:, WHOLE.second]
    seen = np.concatenate([rows.mean(axis=0), products.mean(axis=0)])

    def loss(theta):
        log_partition, units, pairs = enumerate_moments(WHOLE, theta[:5], theta[5:])
        slope = n_rows * (np.concatenate([units, pairs]) - seen)
        slope[5:] += theta[5:]
        # Minus the log-density of a standard normal prior, but for a constant.
        prior = 0.5 * theta[5:] @ theta[5:]
        return n_rows * (log_partition - seen @ theta) + prior, slope

    found = optimize.minimize(loss, np.zeros(15), jac=True, options={"gtol": 1e-9})
    return found.x


def test_a_fit_ends_at_the_posterior_mode():
    fitted = machine(graph=complete_graph(5)).fit(X)
    assert fitted.converged_ and fitted.weight_decay_ == 1 / 60
    np.testing.assert_allclose(fitted.params_, posterior_mode(X, 60), atol=1e-5)
    # As if there were twice as many rows, which is another mode.
    other = posterior_mode(X, 120)
    assert np.abs(fitted.params_ - other).max() > 0.05


@pytest.mark.parametrize("options", [{"graph": complete_graph(5)}, {}])
def test_weights_of_rows_are_rows(options):
    """A row of weight 2 is two rows, to the prior as well."""
    weights = np.random.default_rng(1).integers(1, 4, 60)
    weighted = machine(**options).fit(X, sample_weight=weights)
    assert weighted.weight_decay_ == pytest.approx(1 / weights.sum(), rel=1e-12)
    if options:
        repeated = machine(**options).fit(np.repeat(X, weights, axis=0))
        np.testing.assert_allclose(weighted.params_, repeated.params_, atol=1e-4)


def test_equal_weights_are_rows_too():
    fitted = machine(graph=complete_graph(5)).fit(X, sample_weight=np.full(60, 3.0))
    assert fitted.weight_decay_ == 1 / 180
    np.testing.assert_allclose(fitted.params_, posterior_mode(X, 180), atol=1e-5)


def test_shares_of_rows_are_told():
    """Weights whose sum is 1 are one row, whose prior is all that counts."""
    shares = np.random.default_rng(1).dirichlet(np.full(60, 5.0))
    with pytest.warns(FitWarning, match="add up to 1, and as so many rows"):
        held = machine(graph=complete_graph(5)).fit(X, sample_weight=shares)
    free = machine(graph=complete_graph(5), weight_decay=1 / 60)
    free.fit(X, sample_weight=shares)
    assert 5 * np.abs(held.params_[5:]).max() < np.abs(free.params_[5:]).max()
    machine(graph=complete_graph(5)).fit(X, sample_weight=60 * shares)


@pytest.mark.parametrize("visible", ["binary", "spin", "gaussian"])
def test_the_default_is_one_over_the_rows(visible):
    rows = 2 * X - 1 if visible == "spin" else X
    common = dict(hidden_layer_sizes=3, visible=visible, max_iter=6, tol=None)
    one, two = (
        machine(weight_decay=decay, **common).fit(rows) for decay in ("auto", 1 / 60)
    )
    np.testing.assert_array_equal(one.params_, two.params_)
    none = machine(weight_decay=0.0, **common).fit(rows)
    assert none.weight_decay_ == 0 and (none.params_ != one.params_).any()


def test_a_stream_counts_its_rows():
    stream = machine(hidden_layer_sizes=3, batch_size=20)
    found = [stream.partial_fit(X[k : k + 30]).weight_decay_ for k in (0, 30)]
    assert found == [1 / 20, 1 / 60]
    fitted = machine(hidden_layer_sizes=3, batch_size=20, max_iter=3, tol=None).fit(X)
    assert fitted.partial_fit(X[:40]).weight_decay_ == 1 / 100
    given = machine(hidden_layer_sizes=3, batch_size=20, weight_decay=0.3)
    assert given.partial_fit(X).weight_decay_ == 0.3


def test_updates_of_a_stream_have_the_decay_of_the_rows_so_far():
    """Two batches, one with each decay, against what is given for each of them."""
    auto = machine(hidden_layer_sizes=3, batch_size=30).partial_fit(X)
    given = machine(hidden_layer_sizes=3, batch_size=30, weight_decay=1 / 30)
    given.partial_fit(X[:30]).set_params(weight_decay=1 / 60).partial_fit(X[30:])
    np.testing.assert_array_equal(auto.params_, given.params_)
    given.set_params(weight_decay=1 / 30).partial_fit(X)
    assert (auto.partial_fit(X).params_ != given.params_).any()


@pytest.mark.parametrize("seed", [2])
def test_modes_of_single_columns_are_found(seed):
    """Where independent units are a saddle point, and steps alone stay on it."""

    def two_modes(n, seed):
        rng = np.random.default_rng(seed)
        return 0.1 * rng.normal(size=(n, 2)) + (rng.random((n, 2)) < 0.5)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = machine(
            hidden_layer_sizes=20, visible="gaussian", random_state=seed
        ).fit(two_modes(2000, seed))
    alone = -np.log(0.51 * np.sqrt(2 * np.pi * np.e)) * 2
    assert fitted.score(two_modes(2000, 99)) > alone + 0.8


@pytest.mark.parametrize("seed", [0, 1])
def test_dependence_of_four_columns_at_once_is_found(seed):
    """Any three are independent, so that under the prior no weights are a maximum."""
    coins = np.random.default_rng(seed).integers(0, 2, (800, 3))
    rows = np.column_stack([coins, coins.sum(axis=1) % 2]).astype(float)
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=6, random_state=seed).fit(rows)
    # Independent columns have -4 log 2, and the truth -3 log 2.
    assert fitted.score(rows) > -3.2 * np.log(2)
