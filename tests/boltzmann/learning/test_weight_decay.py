"""The prior of weights, by default as strong as one row, and of fields."""

import warnings

import numpy as np
import pytest
from scipy import optimize

from sktem import LatentBoltzmannMachine
from sktem.boltzmann import stream
from sktem.boltzmann.learning.loop import update
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.evaluation import enumerate_moments
from sktem.exceptions import FitWarning
from sktem.graphs import Graph, complete_graph

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < 0.4).astype(float)
X[:, 1] = np.where(RNG.random(60) < 0.8, X[:, 0], X[:, 1])
WHOLE = Graph(complete_graph(5))
JOINED = (WHOLE.first == np.arange(5)[:, None]) | (
    WHOLE.second == np.arange(5)[:, None]
)


def machine(**options):
    return LatentBoltzmannMachine(**{"random_state": 0, **options})


def posterior_mode(rows, n_rows):
    """Return the parameters of largest posterior density, by enumeration."""
    products = rows[:, WHOLE.first] * rows[:, WHOLE.second]
    seen = np.concatenate([rows.mean(axis=0), products.mean(axis=0)])

    def loss(theta):
        log_partition, units, pairs = enumerate_moments(WHOLE, theta[:5], theta[5:])
        slope = n_rows * (np.concatenate([units, pairs]) - seen)
        # Minus the log-density of a normal prior, wider than the standard one from ten
        # on; and half a row of each value of a unit with neighbours on half the time.
        squares = theta[5:] @ theta[5:]
        slope[5:] += theta[5:] / max(1, squares / 10)
        fields = theta[:5] + 0.5 * JOINED @ theta[5:]
        prior = 0.5 * min(squares, 10 + 10 * np.log(max(squares, 10) / 10))
        prior += np.log(np.cosh(fields / 2)).sum()
        slope[:5] += np.tanh(fields / 2) / 2
        slope[5:] += JOINED.T @ np.tanh(fields / 2) / 4
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
    with pytest.warns(FitWarning, match="add up to 1, which counts as the number"):
        held = machine(graph=complete_graph(5)).fit(X, sample_weight=shares)
    free = machine(graph=complete_graph(5), weight_decay=1 / 60)
    free.fit(X, sample_weight=shares)
    assert 5 * np.abs(held.params_[5:]).max() < np.abs(free.params_[5:]).max()
    machine(graph=complete_graph(5)).fit(X, sample_weight=60 * shares)


MODELS = {
    "graph": GraphMachine(WHOLE, np.array([1, 4])),
    "layers": LayeredMachine((4, 3, 2)),
    "gaussian": LayeredMachine((4, 3), gaussian=True),
    "table": LayeredMachine((7, 3), gaussian=2, groups=(3,)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("most", [1.5, np.inf])
def test_the_gradient_is_that_of_the_value(name, most):
    model, rng = MODELS[name], np.random.default_rng(0)
    params = rng.normal(0, 1.5, model.n_parameters)
    prior, start = Prior(0.3, True, most), np.zeros(model.n_parameters)
    gradient = start.copy()
    prior.descend(model, params, gradient)
    numerical = optimize.approx_fprime(
        params, lambda theta: prior.value(model, theta), 1e-7
    )
    np.testing.assert_allclose(-gradient, numerical, atol=2e-6)
    squares = np.sum(params[model.weights_from :] ** 2)
    assert squares > 2 * 1.5
    weights = gradient.copy()
    Prior(0.3).descend(model, params, start)
    assert (start[: model.weights_from] == 0).all()  # a given one is of weights alone
    assert np.abs(weights - start).max() > 0.01


def test_the_prior_does_not_depend_on_what_is_called_1():
    model, rng = LayeredMachine((4, 3)), np.random.default_rng(0)
    params, turned = rng.normal(size=(2, model.n_parameters))
    visible, hidden = slice(0, 4), slice(4, 7)
    W, V = (model.layout.weights_between(p, 0) for p in (params, turned))
    turned[visible], V[:] = -params[visible], -W
    turned[hidden] = params[hidden] + W.sum(axis=0)
    prior = Prior(1.0, True)
    # As x becomes 1 - x in all visible units.
    assert prior.value(model, turned) == pytest.approx(prior.value(model, params))
    assert abs(np.sum(turned[:7] ** 2) - np.sum(params[:7] ** 2)) > 0.1


def test_constant_columns_of_few_rows_are_no_certainty():
    """New rows are as likely as under columns with half a row of each value more."""
    rng, p = np.random.default_rng(0), np.linspace(0.03, 0.3, 10)
    rows, new = ((rng.random((n, 10)) < p) * 1.0 for n in (20, 2000))
    share = (rows.sum(axis=0) + 0.5) / 21
    alone = (new @ np.log(share) + (1 - new) @ np.log1p(-share)).mean()
    assert (rows == rows[0]).all(axis=0).any()
    fitted = machine(hidden_layer_sizes=8).fit(rows)
    assert fitted.converged_ and fitted.score(new) > alone - 0.1
    weights_alone = machine(hidden_layer_sizes=8, weight_decay=1 / 20).fit(rows)
    assert weights_alone.score(new) < alone - 0.5


def test_weights_that_the_rows_ask_for_are_not_held_back():
    """Exclusive ors have no more free probabilities than states of their columns."""
    rng = np.random.default_rng(0)
    coins = rng.integers(0, 2, (1600, 3))
    rows = np.column_stack([coins, coins[:, :2] ^ coins[:, 1:]]) * 1.0
    truth = -3 * np.log(2)
    fitted = machine(hidden_layer_sizes=12).fit(rows[:800])
    assert fitted.converged_ and fitted.score(rows[800:]) > truth - 0.05
    narrow = machine(hidden_layer_sizes=12, weight_decay=1 / 800).fit(rows[:800])
    assert narrow.score(rows[800:]) < truth - 0.1


def test_a_stream_counts_its_rows():
    chunks = machine(hidden_layer_sizes=3, batch_size=20)
    found = [chunks.partial_fit(X[k : k + 30]).weight_decay_ for k in (0, 30)]
    assert found == [1 / 20, 1 / 60]
    fitted = machine(hidden_layer_sizes=3, batch_size=20, max_iter=3, tol=None).fit(X)
    assert fitted.partial_fit(X[:40]).weight_decay_ == 1 / 100
    given = machine(hidden_layer_sizes=3, batch_size=20, weight_decay=0.3)
    assert given.partial_fit(X).weight_decay_ == 0.3


def test_updates_of_a_stream_have_the_prior_of_the_rows_so_far(monkeypatch):
    strengths = []

    def updated(settings, *others):
        strengths.append(settings.prior.strength)
        update(settings, *others)

    monkeypatch.setattr(stream, "update", updated)
    machine(hidden_layer_sizes=3, batch_size=30).partial_fit(X)
    assert sorted(set(strengths)) == [1 / 60, 1 / 30]


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
