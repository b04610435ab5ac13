"""Layered machines on other namespaces: the same mathematics, draws of the same law."""

import numpy as np
import pytest

from sktem.arrays import arrays_of
from sktem.boltzmann.machines import layer_operations
from sktem.boltzmann.machines.layer_operations import NamespaceOperations, operations_of
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.machines.model import draw_seed
from sktem.boltzmann.normalisation.ais import posterior_log_sums
from sktem.boltzmann.normalisation.annealing_paths import LayerPath
from sktem.evaluation import annealed_importance_sampling
from tests.boltzmann.machines.test_model import Problem, worst_score
from tests.kernels.test_counter import reference_hashed, reference_mixed
from tests.oracles import to_numpy

SIZES = [(4, 3), (5, 3, 2), (3, 3, 2, 2)]


class CounterDraws(layer_operations._NamespaceDraws):
    """The expressions of a namespace, on the uniforms of the compiled loops."""

    def __init__(self, operations, seed):
        self.operations, self.seed, self.step = operations, seed, 0

    def _uniform(self, shape):
        keys = [reference_mixed(self.seed, self.step, row) for row in range(shape[0])]
        self.step += 1
        hashed = [reference_hashed(key, np.arange(shape[1])) for key in keys]
        return self.operations.asarray(np.array(hashed) / np.float32(2**24))


def give_uniforms_of_numpy(monkeypatch):
    """Let other namespaces draw from the uniforms that NumPy has."""

    def drawn(self, means, rng):
        return self.astype(self.asarray(rng.random(means.shape, np.float32)) < means,
                           self.xp.float32)  # fmt: skip

    monkeypatch.setattr(layer_operations, "_NamespaceDraws", CounterDraws)
    monkeypatch.setattr(NamespaceOperations, "drawn", drawn)


def problem(sizes, gaussian=False, dtype=np.float64, n=40):
    """Return a machine, parameters, rows and which values are observed."""
    rng = np.random.default_rng(1)
    model = LayeredMachine(sizes, gaussian=gaussian, eliminates=False)
    params = rng.normal(size=model.n_parameters).astype(np.float32)
    if gaussian:
        model.layout.precisions(params)[:] = 1.5
    X = rng.normal(size=(n, sizes[0])) if gaussian else rng.random((n, sizes[0])) < 0.5
    return model, params, X.astype(dtype), rng.random(X.shape) < 0.7


def same(found, expected, tolerance=2e-6):
    assert not isinstance(found, np.ndarray)
    found = to_numpy(found)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_deterministic_quantities_are_equal(sizes, dtype, gaussian, xp):
    model, params, X, observed = problem(sizes, gaussian, dtype)
    moved = [xp.asarray(values) for values in (params, X, observed)]
    theta, Y, seen = moved
    for mask in (None, observed):
        other = None if mask is None else seen
        for one, two in zip(
            model.mean_field(theta, Y, other, 5),
            model.mean_field(params, X, mask, 5),
            strict=True,
        ):
            same(one, two)
        same(
            model.posterior_mean_field(theta, Y, other, 5).values,
            model.posterior_mean_field(params, X, mask, 5).values,
        )
    same(
        model.variational_bound(theta, Y, 5),
        model.variational_bound(params, X, 5),
        1e-5,
    )
    same(model.hidden_means(theta, Y, 5), model.hidden_means(params, X, 5))
    if len(sizes) == 2:
        same(model.log_unnormalised(theta, Y), model.log_unnormalised(params, X), 1e-5)
        one, two = model.posterior_exact(theta, Y), model.posterior_exact(params, X)
        same(one.values, two.values)
    chains = model.new_chains(40, np.random.default_rng(0))
    X, Y = X.astype(np.float32), xp.astype(Y, xp.float32)
    same(
        model.visible_means(theta, Y, seen, xp.asarray(chains)),
        model.visible_means(params, X, observed, chains),
    )


def test_starts_bits_and_bounds_are_equal(xp):
    model, params, _, _ = problem((5, 3, 2, 9, 1))
    rng = np.random.default_rng
    logits = np.linspace(-1, 1, 5)
    same(
        model.initial_params(xp.asarray(logits), rng(0)),
        model.initial_params(logits, rng(0)),
    )
    theta = xp.asarray(params)
    chains = model.new_chains(7, rng(0))
    moved = model.new_chains(7, rng(0), like=theta)
    same(moved, chains)
    same(model.pack(moved), model.pack(chains))
    same(model.unpack(model.pack(moved)), chains)
    wild = params.copy()
    wild[:4] = [np.nan, np.inf, -np.inf, 5000.0]
    other = xp.asarray(wild.copy())
    assert model.project(other) == model.project(wild) == 4
    same(other, wild)


@pytest.mark.parametrize("rao_blackwell", [True, False])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_same_uniforms_same_draws(sizes, rao_blackwell, xp, monkeypatch):
    give_uniforms_of_numpy(monkeypatch)
    model, params, X, observed = problem(sizes, dtype=np.float32)
    theta, Y, seen = (xp.asarray(values) for values in (params, X, observed))
    chains = model.new_chains(40, np.random.default_rng(0))
    seed = np.uint64(3)
    for clamp, other in (((None, None), (None, None)), ((X, None), (Y, None)),
                         ((X, observed), (Y, seen))):  # fmt: skip
        one, two = (
            model.gibbs(theta, xp.asarray(chains), 6, seed, *other, rao_blackwell),
            model.gibbs(params, chains.copy(), 6, seed, *clamp, rao_blackwell),
        )
        same(one.chains, two.chains, 0)
        same(one.values, two.values)
    none = np.zeros(X.shape, bool)
    same(
        model.visible_draws(theta, Y, xp.asarray(none), xp.asarray(chains), seed),
        model.visible_draws(params, X, none, chains, seed),
        0,
    )


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_same_uniforms_same_weights(sizes, xp, monkeypatch):
    give_uniforms_of_numpy(monkeypatch)
    model, params, X, _ = problem(sizes, n=3)
    theta, Y = xp.asarray(params), xp.asarray(X)

    def rng():
        return np.random.default_rng(2)

    for schedule in ("linear", "adaptive"):
        one = annealed_importance_sampling(model, theta, rng(), 20, 10, schedule)
        two = annealed_importance_sampling(model, params, rng(), 20, 10, schedule)
        assert one.value == pytest.approx(two.value, abs=1e-4)
        assert one.standard_error == pytest.approx(two.standard_error, rel=1e-3)
    one = posterior_log_sums(model, theta, Y, rng(), 4, 5)
    two = posterior_log_sums(model, params, X, rng(), 4, 5)
    for found, expected in zip(one, two, strict=True):
        same(found, expected, 1e-4)


def test_weights_of_gaussian_machines_given_the_states(xp):
    model, params, _, _ = problem((3, 4, 2), gaussian=True)
    rng = np.random.default_rng
    one = LayerPath(model, params, rng(0))
    constant = one.start(15, rng(1))
    two = LayerPath(model, xp.asarray(params), rng(0))
    two.even, two.odd = xp.asarray(one.even), xp.asarray(one.odd)
    same(two.start(15, rng(1)), constant)
    two.states = xp.asarray(one.states)
    two._evaluate()
    same(two.change(0.2, 0.5), one.change(0.2, 0.5), 1e-5)


@pytest.mark.parametrize("factor", [1.0, 0.9], ids=["right", "wrong parameters"])
@pytest.mark.parametrize("kind", SIZES, ids=str)
def test_draws_have_the_moments_of_enumeration(kind, factor, xp):
    case, n = Problem(kind), 20_000
    model, exact = case.model, case.moments()
    rng = np.random.default_rng(0)
    theta = xp.asarray(case.params * np.float32(factor))
    chains = model.new_chains(n, rng, like=theta)
    moments = model.gibbs(theta, chains, 40, draw_seed(rng))
    found = case.flat(to_numpy(moments.values))
    score = worst_score(found, exact, case.variances(exact), n)
    assert score < 4.5 if factor == 1 else score > 6


def test_normal_draws_have_their_moments(xp):
    n = 40_000
    draws = operations_of(xp.asarray([0.0])).draws(5)
    fields = xp.asarray(np.tile(np.float32([0.5, -1.0, 7.0]), (n, 1)))
    biases, precisions = np.float32([0.5, 0.0]), np.float32([4.0, 0.25])
    found = draws.normals(fields, xp.asarray(biases), xp.asarray(precisions))
    found = to_numpy(found)
    assert (found[:, 2] == 7).all()
    z = (found[:, :2] - [0.25, -4.0]) / [0.5, 2.0]
    assert (np.abs(z.mean(axis=0)) < 4 / np.sqrt(n)).all()
    assert (np.abs((z**2).mean(axis=0) - 1) < 4 * np.sqrt(2 / n)).all()


def test_seeds_and_rows_have_draws_of_their_own(xp):
    operations = operations_of(xp.asarray([0.0]))
    means = xp.asarray(np.full((50, 40), 0.5, np.float32))

    def draw(*key):
        return to_numpy(operations.draws(*key).from_means(means))

    np.testing.assert_array_equal(draw(1), draw(1))
    for other in (draw(2), draw(1, 16384)):
        assert abs((draw(1) == other).mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)


def test_elimination_is_for_numpy():
    assert LayeredMachine((3, 2, 2)).has_exact_posterior
    machine = LayeredMachine((3, 2, 2), eliminates=False)
    assert not machine.has_exact_posterior
    assert arrays_of(np.zeros(1)).is_numpy
    assert machine.__sklearn_array_api_convert__(to_numpy).has_exact_posterior
