"""Random numbers of rows: functions of seed, purpose, iteration and row number."""

import numpy as np
import pytest
from scipy import stats

from sktem import StochasticEMGaussianMixture
from sktem.e_step.expectation import Expectation
from sktem.e_step.random import spawn_generators
from sktem.e_step.row_random import BATCH, RowGenerator, row_keys
from sktem.models import RandomInterceptModel
from sktem.samplers import HMC, MALA, ULA, ComponentWalk, ExactDraws, RandomWalk
from tests.oracles import (
    LIMIT,
    START,
    random_intercept_data,
    standard_errors,
)

N = 20_000
X = random_intercept_data(0, n_rows=400)


def of_rows(rows, *, seed=0, iteration=1, purpose=BATCH):
    return spawn_generators(seed).of_rows(purpose, iteration, rows).sampling


#: Methods, with their arguments and the law that numpy documents.
LAWS = {
    "random": ((), stats.uniform()),
    "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "standard_normal": ((), stats.norm()),
    "normal": ((2.0, 0.5), stats.norm(2, 0.5)),
    "standard_exponential": ((), stats.expon()),
    "exponential": ((2.0,), stats.expon(scale=2)),
    "standard_gamma": ((0.4,), stats.gamma(0.4)),
    "gamma": ((3.0, 2.0), stats.gamma(3, scale=2)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "beta": ((2.0, 0.5), stats.beta(2, 0.5)),
    "standard_t": ((5.0,), stats.t(5)),
    "binomial": ((7, 0.3), stats.binom(7, 0.3)),
    "poisson": ((4.0,), stats.poisson(4)),
    "integers": ((-2, 4), stats.randint(-2, 4)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_are_those_of_numpy(name, global_random_seed):
    arguments, law = LAWS[name]
    draw = getattr(of_rows(np.arange(N), seed=global_random_seed), name)
    numpy = getattr(np.random.default_rng(global_random_seed), name)
    found, theirs = draw(*arguments, size=(N, 3)), numpy(*arguments, size=(N, 3))
    assert found.dtype == theirs.dtype and found.shape == theirs.shape
    mean, variance = law.stats("mv")
    centred = found - mean
    assert standard_errors(centred, 0.0).max() < LIMIT
    assert standard_errors(centred**2, variance).max() < LIMIT
    assert standard_errors(centred**2, 1.5 * variance).max() > 2 * LIMIT
    if name not in ("binomial", "poisson", "integers"):
        assert stats.kstest(found[:, 1], law.cdf).pvalue > 1e-4
    # One after the other, and in one go.
    again = getattr(of_rows(np.arange(N), seed=global_random_seed), name)
    np.testing.assert_array_equal(found, again(*arguments, size=(N, 3)))
    assert (found != draw(*arguments, size=(N, 3))).any()


@pytest.mark.parametrize("name", ["random", "standard_normal"])
def test_rows_iterations_and_purposes_are_independent(name, global_random_seed):
    base = {"rows": np.arange(N), "seed": global_random_seed}
    found = [
        getattr(of_rows(**{**base, **changed}), name)(N)
        for changed in (
            {},
            {"rows": np.arange(1, N + 1)},
            {"rows": np.arange(N) + 2**32},
            {"iteration": 2},
            {"purpose": BATCH + 1},
            {"seed": global_random_seed + 1},
        )
    ]
    generators = spawn_generators(global_random_seed).of_rows(BATCH, 1, base["rows"])
    found.append(getattr(generators.acceptance, name)(N))
    correlation = np.corrcoef(found)[np.triu_indices(len(found), 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(N)
    # Rows that follow each other.
    assert np.abs(np.corrcoef(found[0][1:], found[0][:-1])[0, 1]) < LIMIT / np.sqrt(N)


def test_numbers_belong_to_rows():
    rows = np.random.default_rng(0).permutation(1000)

    def draws(rows):
        rng = of_rows(rows)
        shape = np.where(rows[:, None] % 2, 0.5, 3.0)
        return np.hstack(
            [
                rng.standard_normal((len(rows), 3)),
                rng.random(len(rows))[:, None],
                rng.gamma(shape),
                rng.standard_normal((len(rows), 1, 2)).reshape(-1, 2),
            ]
        )

    whole = draws(np.arange(1000))
    np.testing.assert_array_equal(draws(rows), whole[rows])
    np.testing.assert_array_equal(draws(rows[:7]), whole[rows[:7]])
    # A generator of numpy fails this.
    assert (np.random.default_rng(0).random(1000)[:7] != whole[rows[:7], 3]).any()


def test_copies_of_rows_draw_on_their_own():
    generators = spawn_generators(0).of_rows(BATCH, 1, np.arange(N))
    many = generators.repeated(3).sampling.standard_normal(3 * N).reshape(N, 3)
    correlation = np.corrcoef(many.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(N)
    np.testing.assert_array_equal(many[:, 0], generators.sampling.standard_normal(N))
    # Copies go on where the rows are.
    generators.sampling.random((N, 4))
    later = generators.repeated(2).sampling.standard_normal(2 * N).reshape(N, 2)[:, 0]
    assert not np.isin(later, many).any()
    plain = spawn_generators(0)
    assert plain.repeated(3).sampling is plain.sampling


def test_everything_else_is_that_of_the_bit_generator():
    twins = [np.random.default_rng(3) for _ in range(2)]
    rng = RowGenerator(twins[0].bit_generator, (np.uint64(1), 1, 1), np.arange(5))
    assert isinstance(rng, np.random.Generator)
    assert rng.random() == twins[1].random()
    assert rng.integers(10) == twins[1].integers(10)
    np.testing.assert_array_equal(rng.normal(size=(2, 5)), twins[1].normal(size=(2, 5)))
    np.testing.assert_array_equal(rng.permutation(9), twins[1].permutation(9))
    np.testing.assert_array_equal(rng.gumbel(size=5), twins[1].gumbel(size=5))
    np.testing.assert_array_equal(
        rng.random(5, dtype=np.float32), twins[1].random(5, dtype=np.float32)
    )
    keys = [row_keys(rng, 5) for _ in range(2)]
    assert keys[0][0] != keys[1][0]
    np.testing.assert_array_equal(keys[0][1], np.arange(5))


# --------------------------------------------------------------------- expectations

SAMPLERS = [
    ExactDraws(3),
    RandomWalk(0.5, n_steps=2, n_chains=2),
    MALA(0.1, n_steps=3),
    ULA(0.1, n_chains=2),
    HMC(0.3, n_leapfrog=2, n_steps=2),
    ComponentWalk(n_prior=0, scale=0.4, adapt=None, n_chains=2),
]


def latents(sampler, batches, chunk, memory_budget, seed=0):
    """Return the latents of all rows after visits of the batches, by row."""
    memory_budget(rows=chunk)
    model, found = RandomInterceptModel(), {}
    expectation = Expectation(model, sampler, X, None, spawn_generators(seed))
    expectation.start_chains(START)
    expectation.full_pass(START, 1)
    for k, batch in enumerate(batches, start=1):
        for row, z in zip(batch, expectation.draw(batch, START, k), strict=True):
            found[row] = z
    return np.array([found[row] for row in sorted(found)])


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_latents_depend_on_neither_chunks_nor_order(sampler, memory_budget):
    rng = np.random.default_rng(0)
    batches = [rng.choice(len(X), 50, replace=False) for _ in range(4)]
    shuffled = [rng.permutation(batch) for batch in batches]
    found = [
        latents(sampler, given, chunk, memory_budget)
        for given, chunk in ((batches, 1 << 16), (batches, 7), (shuffled, 64))
    ]
    # Sums over a row may be rounded in another way for another number of rows.
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)
    other = latents(sampler, batches, 7, memory_budget, seed=1)
    assert (np.abs(other - found[0]) > 1e-6).any(axis=(1, 2)).mean() > 0.5


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_generators_of_numpy_would_depend_on_order(sampler, memory_budget, monkeypatch):
    """The negative control of the test above."""
    monkeypatch.setattr(Expectation, "generators_of", lambda self, *_: self.generators)
    orders = np.arange(50), np.arange(50)[::-1]
    found = [latents(sampler, [order], 1 << 16, memory_budget) for order in orders]
    assert (np.abs(found[1] - found[0]) > 1e-6).mean() > 0.5


def test_visits_of_an_iteration_are_independent():
    expectation = Expectation(
        RandomInterceptModel(), ExactDraws(1), X, None, spawn_generators(0)
    )
    rows = np.arange(len(X))
    found = [expectation.draw(rows, START, k)[:, 0, 0] for k in (1, 1, 2)]
    mean = RandomInterceptModel().posterior(X, START).mean(axis=1)[:, 0]
    correlation = np.corrcoef(np.array(found) - mean)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < LIMIT / np.sqrt(len(X))


@pytest.mark.parametrize("solver", ["saem", "mcem"])
def test_fits_depend_on_neither_threads_nor_chunks(solver, memory_budget):
    rows = np.random.default_rng(0).normal(size=(3000, 3)) + 4 * (
        np.arange(3000)[:, None] % 2
    )
    options = {"n_components": 2, "solver": solver, "max_iter": 5, "tol": 0}
    fits = []
    for n_jobs, chunk in ((1, 1 << 16), (2, 1 << 16), (1, 512)):
        memory_budget(rows=chunk)
        gm = StochasticEMGaussianMixture(**options, n_jobs=n_jobs, random_state=0)
        fits.append(gm.fit(rows).means_)
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_allclose(fits[2], fits[0], rtol=1e-10)
