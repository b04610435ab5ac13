"""Mean field in the E-step against the maximum of its bound, found by other code."""

import numpy as np
from scipy import optimize
from scipy.special import expit, xlogy

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.evaluation import enumerate_moments, enumerate_states
from sktem.graphs import Graph

#: Five visible units, and two hidden ones that are joined to all and to each other.
EDGES = np.array([(a, b) for b in (5, 6) for a in range(b)])
GRAPH = Graph.from_edges(7, *EDGES.T)
HIDDEN = np.array([5, 6])
MODEL = GraphMachine(GRAPH, HIDDEN)


def rows(n=300):
    # With these rows the bound has one maximum near that of the likelihood, well above
    # the bound there; with others rounding errors decide which one an ascent finds.
    rng = np.random.default_rng(4)
    params = rng.normal(0, 1.5, MODEL.n_parameters)
    states = enumerate_states(7)
    energy = potentials(states) @ params
    mass = np.exp(energy - energy.max())
    return states[rng.choice(len(states), n, p=mass / mass.sum())][:, :5]


def potentials(states):
    return np.hstack([states, states[:, GRAPH.first] * states[:, GRAPH.second]])


X = rows()
DISTINCT, COUNTS = np.unique(X, axis=0, return_counts=True)
SHARES = COUNTS / len(X)


def bound(params):
    """Return the mean-field bound of the mean log-likelihood, and its gradient."""
    coupling = np.zeros((7, 7))
    coupling[GRAPH.first, GRAPH.second] = params[7:]
    coupling += coupling.T
    means = np.hstack([DISTINCT, np.full((len(DISTINCT), 2), 0.5)])
    for _ in range(200):
        for unit in HIDDEN:
            means[:, unit] = expit(params[unit] + means @ coupling[unit])
    q, phi = means[:, HIDDEN], potentials(means)
    entropy = -np.sum(xlogy(q, q) + xlogy(1 - q, 1 - q), axis=1)
    log_partition, units, edges = enumerate_moments(GRAPH, params[:7], params[7:])
    # The bound is stationary in the means: they do not count in its gradient.
    gradient = SHARES @ phi - np.concatenate([units, edges])
    return SHARES @ (phi @ params + entropy) - log_partition, gradient


def likelihood(params):
    log_partition, units, edges = enumerate_moments(GRAPH, params[:7], params[7:])
    value = SHARES @ MODEL.log_unnormalised(params, DISTINCT) - log_partition
    expected = MODEL.posterior_exact(params, X).values
    return value, expected - np.concatenate([units, edges])


def best(function, start):
    found = optimize.minimize(
        lambda params: [-part for part in function(params)], start, jac=True,
        method="L-BFGS-B", bounds=[(-12, 12)] * len(start),
        options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-7},
    )  # fmt: skip
    return found.x


START = best(likelihood, np.random.default_rng(0).normal(0, 0.3, MODEL.n_parameters))
END = best(bound, 0.9 * START)


def test_the_maximum_of_the_bound_is_another_point():
    assert bound(START)[0] < likelihood(START)[0] - 1e-3
    assert bound(END)[0] <= likelihood(END)[0] + 1e-9
    assert likelihood(END)[0] < likelihood(START)[0] - 1e-5
    assert bound(START)[0] < bound(END)[0] - 1e-3


def test_the_e_step_is_the_gradient_of_the_bound():
    _, units, edges = enumerate_moments(GRAPH, START[:7], START[7:])
    negative = np.concatenate([units, edges])
    found = MODEL.posterior_mean_field(START, X, None, 200).values - negative
    expected = bound(START)[1]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    # A coupling of the other sign, or exact expectations, would not pass.
    wrong = START.copy()
    wrong[-1] *= -1
    for values in (
        MODEL.posterior_mean_field(wrong, X, None, 200).values,
        MODEL.posterior_exact(START, X).values,
    ):
        assert np.abs(values - negative - expected).max() > 1e-3


def test_a_fit_by_mean_field_climbs_the_bound_only():
    """It leaves the maximum of the likelihood, and not that of the bound."""

    def gap(start, function):
        machine = LatentBoltzmannMachine(
            GRAPH, HIDDEN, solver="mfpcd", e_step="mean_field", warm_start=True,
            batch_size=len(X), max_iter=1, step_size_m=1e-9, tol=None, random_state=0,
            n_mean_field=200, weight_decay=0.0,
        ).fit(X)  # fmt: skip
        machine.params_ = start.copy()
        machine.set_params(max_iter=600, step_size_m=0.05, n_chains=2000).fit(X)
        return function(start)[0] - function(machine.params_)[0]

    assert gap(END, bound) < 1e-3
    assert gap(START, bound) < -1e-3 < 1e-5 < gap(START, likelihood)
