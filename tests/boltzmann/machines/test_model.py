"""Boltzmann machines against enumeration: likelihoods, moments, gradients, samplers."""

import numpy as np
import pytest

from sktem.boltzmann.learning.e_steps import posterior_start
from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.machines.model import draw_seed
from sktem.evaluation import enumerate_moments, enumerate_states
from sktem.graphs import Graph, grid_graph, layered_graph

LAYERS = [(4, 3), (4, 3, 2), (3, 3, 2, 2), (2, 2, 3, 2, 2)]
MACHINES = ["grid", "dense", "no hidden", *LAYERS]


class Problem:
    """A machine of at most 12 units, and all its states in the layout of a graph."""

    def __init__(self, kind, seed=0, scale=1.0):
        rng = np.random.default_rng(seed)
        if isinstance(kind, tuple):
            self.model = LayeredMachine(kind)
            self.graph = Graph(layered_graph(kind))
            self.hidden = np.arange(kind[0], sum(kind))
        else:
            upper = np.triu(rng.random((10, 10)) < 0.5, 1)
            adjacency = grid_graph(3, 3) if kind == "grid" else upper | upper.T
            self.graph = Graph(adjacency)
            hidden = [] if kind == "no hidden" else [0, 3, 4, 7]
            self.hidden = np.array(hidden, np.int64)
            self.model = GraphMachine(self.graph, self.hidden)
        params = rng.normal(0, scale, self.model.n_parameters)
        self.params = params.astype(self.model.dtype)
        _, self.biases, self.weights, _ = self.model.as_graph(self.params)
        n = self.graph.n_units
        self.visible = np.setdiff1d(np.arange(n), self.hidden)
        states = enumerate_states(n)
        products = states[:, self.graph.first] * states[:, self.graph.second]
        self.states, self.phi = states, np.concatenate([states, products], axis=1)
        energies = states @ self.biases + products @ self.weights
        self.mass = np.exp(energies)
        self.rng = rng
        self.X = (rng.random((6, len(self.visible))) < 0.5).astype(float)

    def given(self, x, observed=None):
        """Return the mean of phi and the sum of masses of the states that agree."""
        units = self.visible if observed is None else self.visible[observed]
        x = x if observed is None else x[observed]
        agree = (self.states[:, units] == x).all(axis=1)
        mass = self.mass * agree
        return mass @ self.phi / mass.sum(), mass.sum()

    def moments(self):
        return self.mass @ self.phi / self.mass.sum()

    def variances(self, moments):
        """Statistics are zeros and ones, so that their means give their variances."""
        return moments * (1 - moments)

    def flat(self, values):
        """Return statistics of a layered machine in the layout of the graph."""
        if isinstance(self.model, GraphMachine):
            return values
        n = len(self.model.sizes)
        units = [self.model.layout.layer_biases(values, k) for k in range(n)]
        edges = [
            self.model.layout.weights_between(values, k).ravel() for k in range(n - 1)
        ]
        return np.concatenate(units + edges)


@pytest.mark.parametrize("kind", MACHINES, ids=str)
def test_exact_posterior(kind):
    problem = Problem(kind)
    model, params, X = problem.model, problem.params, problem.X
    exact = [problem.given(x) for x in X]
    np.testing.assert_allclose(
        model.log_unnormalised(params, X),
        np.log([mass for _, mass in exact]),
        atol=1e-5,
    )
    found = problem.flat(model.posterior_exact(params, X).values)
    np.testing.assert_allclose(found, np.mean([m for m, _ in exact], axis=0), atol=1e-5)
    means = model.hidden_means(params, X, 1)
    expected = np.array([m[problem.hidden] for m, _ in exact]).reshape(means.shape)
    np.testing.assert_allclose(means, expected, atol=1e-5)


@pytest.mark.parametrize("kind", MACHINES, ids=str)
def test_gradient_of_the_likelihood(kind):
    """Posterior less model moments is the derivative of the exact log-likelihood."""
    problem = Problem(kind)
    model, X = problem.model, problem.X
    params = problem.params.astype(np.float64)
    gradient = np.mean([problem.given(x)[0] for x in X], axis=0) - problem.moments()
    found = problem.flat(model.posterior_exact(problem.params, X).values)
    found = found - problem.moments()
    np.testing.assert_allclose(found, gradient, atol=1e-5)

    def log_likelihood(theta):
        graph, biases, weights, _ = model.as_graph(theta)
        log_partition = enumerate_moments(graph, biases, weights)[0]
        return model.log_unnormalised(theta, X).mean() - log_partition

    direction = problem.rng.normal(size=model.n_parameters)
    step = 1e-5
    slope = log_likelihood(params + step * direction)
    slope = (slope - log_likelihood(params - step * direction)) / (2 * step)
    assert slope == pytest.approx(gradient @ problem.flat(direction), abs=1e-5)


def in_layout(model, units):
    """Return values of units, in the order of the graph, as the biases are laid out."""
    if isinstance(model, GraphMachine):
        return units
    values = np.zeros(model.n_parameters)
    for layer, part in enumerate(np.split(units, np.cumsum(model.sizes)[:-1])):
        model.layout.layer_biases(values, layer)[:] = part
    return values[: model.weights_from]


@pytest.mark.parametrize("kind", MACHINES, ids=str)
def test_a_centred_step_is_that_of_centred_units(kind):
    """theta = M xi, xi the parameters of units less their centres: M M' gradient."""
    problem = Problem(kind)
    model, graph, rng = problem.model, problem.graph, problem.rng
    n = graph.n_units
    centre = rng.random(n)
    to_theta = np.eye(n + graph.n_edges)
    edges = n + np.arange(graph.n_edges)
    to_theta[graph.first, edges] = -centre[graph.second]
    to_theta[graph.second, edges] = -centre[graph.first]
    gradient = rng.normal(size=model.n_parameters)
    step = gradient.copy()
    model.centred(step, in_layout(model, centre))
    expected = to_theta @ to_theta.T @ problem.flat(gradient)
    np.testing.assert_allclose(problem.flat(step), expected, atol=1e-12)
    # The oracle tells centres apart, and 0 leaves the gradient as it is.
    assert not np.allclose(expected, problem.flat(gradient))
    step = gradient.copy()
    model.centred(step, in_layout(model, np.zeros(n)))
    np.testing.assert_array_equal(step, gradient)


def test_a_centred_step_moves_the_fields_at_the_centre_by_the_biases():
    rng = np.random.default_rng(0)
    model = LayeredMachine((3, 4), True)
    gradient, centre = rng.normal(size=model.n_parameters), rng.random(10)
    step = gradient.copy()
    model.centred(step, centre)
    even, odd = (
        model.layout.even_biases(centre)[None],
        model.layout.odd_biases(centre)[None],
    )
    fields = model.dynamics.odd_fields(step, even)[0] + model.layout.odd_biases(step)
    np.testing.assert_allclose(fields, model.layout.odd_biases(gradient), atol=1e-12)
    fields = model.dynamics.even_fields(step, odd)[0] + model.layout.even_biases(step)
    np.testing.assert_allclose(fields, model.layout.even_biases(gradient), atol=1e-12)
    found, given = model.layout.precisions(step), model.layout.precisions(gradient)
    np.testing.assert_array_equal(found, given)


def worst_score(mean, exact, variances, n):
    """Return the largest deviation in standard errors."""
    error = np.abs(mean - exact)
    fixed = variances < 1e-9
    assert (error[fixed] < 1e-6).all()
    if fixed.all():
        return 0.0
    return (error[~fixed] / np.sqrt(variances[~fixed] / n)).max()


N = 20_000


@pytest.mark.parametrize("rao_blackwell", [True, False])
@pytest.mark.parametrize("kind", MACHINES, ids=str)
def test_free_gibbs(kind, rao_blackwell, global_random_seed):
    problem = Problem(kind)
    rng = np.random.default_rng(global_random_seed)
    model, exact = problem.model, problem.moments()
    chains = model.new_chains(N, rng)
    moments = model.gibbs(
        problem.params, chains, 60, draw_seed(rng), rao_blackwell=rao_blackwell
    )
    found = problem.flat(moments.values)
    assert worst_score(found, exact, problem.variances(exact), N) < 4.5


@pytest.mark.parametrize("kind", ["grid", (4, 3, 2)], ids=str)
def test_the_test_of_samplers_can_fail(kind):
    problem = Problem(kind)
    model, exact = problem.model, problem.moments()
    rng = np.random.default_rng(0)
    params = problem.params * np.float32(0.9)
    moments = model.gibbs(params, model.new_chains(N, rng), 60, draw_seed(rng))
    found = problem.flat(moments.values)
    assert worst_score(found, exact, problem.variances(exact), N) > 6


@pytest.mark.parametrize("rao_blackwell", [True, False])
@pytest.mark.parametrize("kind", ["grid", "dense", *LAYERS], ids=str)
def test_posterior_gibbs(kind, rao_blackwell, global_random_seed):
    problem = Problem(kind)
    rng = np.random.default_rng(global_random_seed)
    model, params = problem.model, problem.params
    X = np.repeat(problem.X[:1], N, axis=0)
    chains = posterior_start(model, params, X, None, rng)
    moments = model.gibbs(
        params, chains, 30, draw_seed(rng), X.astype(np.float32), None, rao_blackwell
    )
    exact, _ = problem.given(problem.X[0])
    found = problem.flat(moments.values)
    assert worst_score(found, exact, problem.variances(exact), N) < 4.5


@pytest.mark.parametrize("kind", ["grid", "dense", "no hidden", *LAYERS], ids=str)
def test_posterior_gibbs_with_missing_values(kind, global_random_seed):
    problem = Problem(kind)
    rng = np.random.default_rng(global_random_seed)
    model, params = problem.model, problem.params
    x = problem.X[0]
    seen = np.arange(len(x)) % 2 == 0
    X = np.repeat(np.where(seen, x, 0.5)[None], N, axis=0).astype(np.float32)
    observed = np.repeat(seen[None], N, axis=0)
    chains = posterior_start(model, params, X, observed, rng)
    moments = model.gibbs(params, chains, 40, draw_seed(rng), X, observed)
    exact, _ = problem.given(x, seen)
    found = problem.flat(moments.values)
    assert worst_score(found, exact, problem.variances(exact), N) < 4.5


@pytest.mark.parametrize("kind", ["grid", "dense", (4, 3)], ids=str)
def test_rao_blackwellised_statistics_have_less_noise(kind):
    problem = Problem(kind)
    model, params = problem.model, problem.params
    spread = []
    for rao_blackwell in (True, False):
        rng = np.random.default_rng(0)
        chains = model.new_chains(50, rng)
        values = []
        for _ in range(200):
            moments = model.gibbs(
                params, chains, 20, draw_seed(rng), rao_blackwell=rao_blackwell
            )
            chains = moments.chains
            values.append(moments.values)
        spread.append(np.var(values, axis=0).sum())
    assert spread[0] < 0.9 * spread[1]


@pytest.mark.parametrize("kind", ["grid", "dense", *LAYERS], ids=str)
def test_mean_field_is_a_bound_and_a_fixed_point(kind):
    problem = Problem(kind)
    model, params, X = problem.model, problem.params, problem.X
    exact = np.log([problem.given(x)[1] for x in X])
    bounds = [model.variational_bound(params, X, k) for k in (1, 3, 300)]
    assert (bounds[2] <= exact + 1e-5).all()
    assert (bounds[2] >= bounds[1] - 1e-5).all()
    assert (bounds[1] >= bounds[0] - 1e-5).all()
    # Each mean is the sigmoid of its mean field.
    means = model.posterior_mean_field(params, X, None, 300)
    values = problem.flat(means.values)
    weights = np.zeros((problem.graph.n_units,) * 2)
    weights[problem.graph.first, problem.graph.second] = problem.weights
    weights += weights.T
    one = model.posterior_mean_field(params, X[:1], None, 300)
    units = problem.flat(one.values)[: problem.graph.n_units]
    fields = problem.biases + weights @ units
    hidden = problem.hidden
    expected = 1 / (1 + np.exp(-fields[hidden]))
    np.testing.assert_allclose(units[hidden], expected, atol=1e-4)
    assert values.shape == problem.moments().shape


def test_exact_expectations_on_mixed_values_are_linear_on_a_plain_graph():
    """A probability as a visible value stands for itself in the statistics."""
    problem = Problem("no hidden")
    X = problem.rng.random((5, 10))
    found = problem.model.posterior_exact(problem.params, X).values
    products = X[:, problem.graph.first] * X[:, problem.graph.second]
    expected = np.concatenate([X, products], axis=1).mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", MACHINES, ids=str)
def test_packed_chains(kind):
    problem = Problem(kind)
    chains = problem.model.new_chains(5, problem.rng)
    packed = problem.model.pack(chains)
    assert len(packed) == 5 and packed.dtype == np.uint8
    np.testing.assert_array_equal(problem.model.unpack(packed), chains)


def gaussian_problem(sizes, seed=0):
    rng = np.random.default_rng(seed)
    model = LayeredMachine(sizes, gaussian=True)
    params = rng.normal(0, 0.7, model.n_parameters).astype(np.float32)
    model.layout.precisions(params)[:] = 1 + rng.random(sizes[0])
    return model, params, rng


def gaussian_mixture_of(model, params):
    """Return the states of all hidden units with log-masses, means and variances."""
    sizes = model.sizes
    hidden = enumerate_states(sum(sizes[1:]))
    first = hidden[:, : sizes[1]]
    precisions = model.layout.precisions(params).astype(float)
    eta = (
        model.layout.layer_biases(params, 0)
        + first @ model.layout.weights_between(params, 0).T
    )
    biases = [model.layout.layer_biases(params, k) for k in range(1, len(sizes))]
    energies = hidden @ np.concatenate(biases)
    begin = 0
    for lower in range(1, len(sizes) - 1):
        below = hidden[:, begin : begin + sizes[lower]]
        begin += sizes[lower]
        above = hidden[:, begin : begin + sizes[lower + 1]]
        weights = model.layout.weights_between(params, lower)
        energies += np.einsum("si,ij,sj->s", below, weights, above)
    energies += 0.5 * (eta**2 / precisions + np.log(2 * np.pi / precisions)).sum(axis=1)
    return hidden, energies, eta / precisions, 1 / precisions


@pytest.mark.parametrize("sizes", [(3, 4), (3, 3, 2)], ids=str)
def test_gaussian_machines(sizes):
    model, params, rng = gaussian_problem(sizes)
    hidden, energies, means, variances = gaussian_mixture_of(model, params)
    graph, biases, weights, constant = model.as_graph(params)
    exact = np.log(np.exp(energies).sum())
    plan = plan_elimination(graph)
    assert plan.log_sum(biases, weights) + constant == pytest.approx(exact, abs=1e-4)
    X = rng.normal(size=(5, sizes[0]))
    densities = -0.5 * ((X[:, None] - means) ** 2 / variances).sum(axis=2)
    densities -= 0.5 * np.log(2 * np.pi * variances).sum()
    joint = densities + energies
    log_sums = np.log(np.exp(joint).sum(axis=1))
    np.testing.assert_allclose(model.log_unnormalised(params, X), log_sums, atol=1e-4)
    posterior = np.exp(joint - log_sums[:, None])
    found = model.hidden_means(params, X, 1)
    np.testing.assert_allclose(found, posterior @ hidden, atol=1e-4)
    n = N
    chains = model.new_chains(n, rng)
    values = model.gibbs(params, chains, 60, draw_seed(rng)).values
    mass = np.exp(energies - exact)
    first = mass @ means
    second = mass @ (means**2 + variances)
    spread = np.sqrt((second - first**2) / n)
    assert (np.abs(model.layout.layer_biases(values, 0) - first) < 4.5 * spread).all()
    squares = -2 * model.layout.precisions(values)
    fourth = mass @ (means**4 + 6 * means**2 * variances + 3 * variances**2)
    spread = np.sqrt((fourth - second**2) / n)
    assert (np.abs(squares - second) < 4.5 * spread).all()


def test_bounds_of_parameters():
    model, params, _ = gaussian_problem((3, 2))
    assert model.project(params) == 0
    params[0], params[-1] = np.nan, np.inf
    model.layout.precisions(params)[:] = [0.0, 1e6, 1.0]
    assert model.project(params) == 2 + 1
    assert np.isfinite(params).all() and np.abs(params).max() <= 1000
    np.testing.assert_allclose(model.layout.precisions(params), [0.25, 100.0, 1.0])
