"""Generators: cuts make no difference, memory is constant, weights are repetition."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.e_step.random import spawn_generators
from sktem.loop.iterates import IterateRule
from sktem.loop.stream import Stream, StreamState
from sktem.models import RandomInterceptModel
from sktem.samplers import MALA, ExactDraws, ExactExpectation, RandomWalk
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM, FullBatch, OnlineEM
from tests.oracles import (
    START,
    Interrupting,
    Recording,
    closed_form_mle,
    expected_statistics,
    m_step,
    online_em,
    random_intercept_data,
    start_run,
)

X = random_intercept_data(3, n_rows=1500)
STEPS = Polynomial(alpha=0.6, offset=2.0)
POPULATION = pytest.mark.parametrize(
    "solver", [ISAEM(), VRTTEM(), FITTEM()], ids=lambda s: type(s).__name__
)


def new_stream(solver=None, *, average=False, **options):
    options = {"step_size": STEPS, "batch_size": 64, **options}
    settings, state = start_run(OnlineEM() if solver is None else solver, X, **options)
    state = StreamState(START, None, state.generators, IterateRule(average))
    return Stream(settings), state


def feed(stream, state, chunks, weights=None):
    for i, chunk in enumerate(chunks):
        stream.update(state, chunk, None if weights is None else weights[i])
    return stream.published(state)


def cut(size):
    return [X[i : i + size] for i in range(0, len(X), size)]


# ------------------------------------------------------ solvers that keep no rows


#: Of Markov samplers those that learn nothing from the chains of a chunk.
SAMPLERS = [
    (ExactExpectation(), 1e-11),
    (ExactDraws(3), 1e-11),
    (RandomWalk(0.5, n_steps=2, n_chains=2), 1e-9),
    (MALA(0.1, n_steps=3), 1e-9),
]


@pytest.mark.parametrize("sampler, rtol", SAMPLERS, ids=str)
@pytest.mark.parametrize("solver", [OnlineEM(), FullBatch()], ids=str)
def test_cuts_make_no_difference(solver, sampler, rtol):
    results = [
        np.concatenate(feed(*new_stream(solver, sampler=sampler), cut(size)))
        for size in (len(X), 1, 7, 1000)
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=rtol)


@pytest.mark.parametrize("chunk", [1500, 13])
def test_online_em_by_hand(chunk):
    stream, state = new_stream()
    params, s = feed(stream, state, cut(chunk))
    whole = online_em(X, START, 64, STEPS)
    np.testing.assert_allclose(state.s, whole, rtol=1e-11)
    assert state.params == m_step(state.s)
    # 1500 rows are 23 batches and 28 rows, which count with their share of a step.
    rest = expected_statistics(X[23 * 64 :], state.params)
    share = 1 - (1 - STEPS(24)) ** (28 / 64)
    np.testing.assert_allclose(s, whole + share * (rest - whole), rtol=1e-11)
    np.testing.assert_allclose(params, m_step(s), rtol=1e-11)


def test_before_the_first_batch_is_full():
    _, s = feed(*new_stream(), [X[:5], X[5:9]])
    np.testing.assert_allclose(s, expected_statistics(X[:9], START), rtol=1e-12)


def test_publishing_changes_nothing():
    stream, state = new_stream()
    stream.update(state, X[:100])
    before = pickle.dumps(state)
    first, second = stream.published(state), stream.published(state)
    assert first[0] == second[0]
    assert pickle.dumps(state) == before


@pytest.mark.parametrize("chunk", [4, 100])
def test_weights_are_repetition(chunk):
    """Where batches end between rows, exactly; here eight units make a batch."""
    weights = np.tile([1.0, 3.0, 2.0, 2.0], 100)
    rows = X[:400]
    weighted = feed(
        *new_stream(batch_size=8),
        [rows[i : i + chunk] for i in range(0, 400, chunk)],
        [weights[i : i + chunk] for i in range(0, 400, chunk)],
    )
    repeated = feed(
        *new_stream(batch_size=8), [np.repeat(rows, weights.astype(int), axis=0)]
    )
    np.testing.assert_allclose(weighted[1], repeated[1], rtol=1e-11)
    plain = feed(*new_stream(batch_size=8), [rows])
    assert np.abs(weighted[1] - plain[1]).max() > 1e-3


def share_of(mass, batch_size, before):
    """Weight of rows that come after others: what is left after each batch of them."""
    left, k = 1.0, before / batch_size + 1
    while mass > 0:
        part = min(mass, batch_size)
        left *= (1 - STEPS(k)) ** (part / batch_size)
        mass, k = mass - part, k + 1
    return 1 - left


def test_a_heavy_row_enters_whole():
    stream, state = new_stream(batch_size=4)
    weights = np.array([1.0, 1, 1, 1, 3, 2.5, 0.5])
    feed(stream, state, [X[:7]], [weights])
    first = expected_statistics(X[:4], START)
    second = expected_statistics(X[4:6], m_step(first), weights[4:6])
    share = share_of(5.5, batch_size=4, before=4)
    expected = first + share * (second - first)
    np.testing.assert_allclose(state.s, expected, rtol=1e-12)
    assert state.mass == 9.5
    assert state.pending_mass == 0.5


def test_stream_converges_to_the_estimate():
    """Over a long stream the error falls as in online EM's theory."""
    data = random_intercept_data(5, n_rows=60_000)
    stream, state = new_stream(batch_size=200, average=20)
    params, _ = feed(stream, state, np.split(data, 20))
    # The estimate's own standard error is about 0.005.
    np.testing.assert_allclose(params, closed_form_mle(data), atol=0.005)


@pytest.mark.parametrize("average", [1, 4, 0])
def test_average_over_batches(average):
    stream, state = new_stream(model=Recording(), average=average, batch_size=100)
    feed(stream, state, [X[:1000]])
    iterates = np.array(stream.settings.model.seen[:10])
    _, s = stream.published(state)
    np.testing.assert_allclose(s, iterates[average:].mean(axis=0), rtol=1e-12)


def test_random_iterate_is_one_of_them():
    for seed in range(5):
        stream, state = new_stream(model=Recording(), average="random", seed=seed)
        _, s = feed(stream, state, cut(200))
        assert (np.array(stream.settings.model.seen) == s).all(axis=1).any()


# ------------------------------------------------------ solvers that remember rows


def population_by_hand(chunks, batch_size, weights=None):
    """Merge chunks: M-steps see the running statistics and the chunk's together."""
    s, params, mass = None, START, 0.0
    for i, chunk in enumerate(chunks):
        w = None if weights is None else weights[i]
        m = len(chunk) if w is None else w.sum()
        share = share_of(m, batch_size, before=mass)
        for _ in range(400):
            new = expected_statistics(chunk, params, w)
            merged = new if s is None else s + share * (new - s)
            params = m_step(merged)
        s, mass = merged, mass + m
    return s


@POPULATION
def test_a_chunk_is_a_population(solver):
    chunks = [X[:300], X[300:340], X[340:1000]]
    stream, state = new_stream(solver, batch_size=128, max_passes=50)
    params, s = feed(stream, state, chunks)
    expected = population_by_hand(chunks, 128)
    np.testing.assert_allclose(s, expected, rtol=1e-8)
    np.testing.assert_allclose(params, m_step(expected), rtol=1e-7)
    # Another merge would show.
    assert np.abs(expected - expected_statistics(X[:1000], params)).max() > 1e-3


@POPULATION
def test_weights_are_repetition_in_a_population(solver):
    rng = np.random.default_rng(0)
    chunks = [X[:100], X[100:180]]
    weights = [rng.integers(1, 4, size=len(chunk)) * 1.0 for chunk in chunks]
    stream, state = new_stream(solver, batch_size=128, max_passes=60)
    _, s = feed(stream, state, chunks, weights)
    repeated = [
        np.repeat(chunk, w.astype(int), axis=0)
        for chunk, w in zip(chunks, weights, strict=True)
    ]
    np.testing.assert_allclose(s, population_by_hand(repeated, 128), rtol=1e-8)


def test_merged_statistics_have_no_compiled_sweep():
    """A sweep would do the model's own M-steps, not those of the merged statistics."""

    class Compiled(RandomInterceptModel):
        sweep_name = "gaussian_mixture:diag"

    small = {"batch_size": 8, "max_passes": 3, "sampler": ExactDraws(2)}
    results = []
    for model in (RandomInterceptModel(), Compiled()):
        stream, state = new_stream(FITTEM(), model=model, **small)
        results.append(feed(stream, state, [X[:9], X[9:18]])[1])
    np.testing.assert_array_equal(*results)


# --------------------------------------------------------------------------- state


@pytest.mark.parametrize("average", [False, True, "random"])
@pytest.mark.parametrize("solver", [OnlineEM(), ISAEM()], ids=str)
def test_memory_is_constant(solver, average):
    stream, state = new_stream(solver, average=average, batch_size=16, max_passes=2)
    sizes = []
    for chunk in cut(20):
        stream.update(state, chunk)
        sizes.append(len(pickle.dumps(state)))
    # Only counters grow, by a few digits.
    assert max(sizes[10:]) - min(sizes[2:]) < 150


@pytest.mark.parametrize("solver", [OnlineEM(), FITTEM()], ids=str)
def test_a_pickled_stream_goes_on_to_the_same_bits(solver):
    def make():
        return new_stream(solver, sampler=ExactDraws(2), max_passes=3)

    stream, state = make()
    whole = feed(stream, state, cut(130))
    stream, state = make()
    feed(stream, state, cut(130)[:5])
    state = pickle.loads(pickle.dumps(state))
    resumed = feed(stream, state, cut(130)[5:])
    np.testing.assert_array_equal(whole[1], resumed[1])


def test_events_are_counted():
    class Frozen(RandomInterceptModel):
        def degeneracies(self, params):
            return 1

    stream, state = new_stream(model=Frozen(), batch_size=100)
    feed(stream, state, cut(250))
    assert state.events["degenerate"] == 15


# ---------------------------------------------------------------------- partial_fit

NAMES = ["em", "mcem", "saem", "online", "iem", "isaem", "vrttem", "fittem"]


def estimator(solver, **options):
    return StochasticEM(
        RandomInterceptModel(), solver=solver, random_state=0, max_iter=10, **options
    )


@pytest.mark.parametrize("solver", NAMES)
def test_a_small_chunk_does_not_erase_the_past(solver):
    em = estimator(solver, batch_size=100)
    for chunk in np.split(X, 3):
        em.partial_fit(chunk)
    before = np.array(em.params_)
    np.testing.assert_allclose(before, closed_form_mle(X), atol=0.35)
    em.partial_fit(X[:2])
    np.testing.assert_allclose(em.params_, before, atol=0.1)


@pytest.mark.parametrize("solver", ["em", "saem", "online"])
@pytest.mark.parametrize("batch_size", ["auto", 100, 30_000])
def test_cuts_make_no_difference_to_partial_fit(solver, batch_size):
    data = random_intercept_data(4, n_rows=62_000, n_columns=2)
    results = []
    for n_chunks in (1, 2, 31):
        em = estimator(solver, batch_size=batch_size)
        # The start is made from the first chunk: take it from the same rows.
        em.model = replace_start(em.model, START)
        for chunk in np.split(data, n_chunks):
            em.partial_fit(chunk)
        results.append(em.params_)
    np.testing.assert_allclose(results[1:], [results[0]] * 2, rtol=1e-10)


def replace_start(model, params):
    class Started(type(model)):
        def initial_params(self, X, rng):
            return params

    return Started()


def test_a_stream_after_a_fit_remembers_the_fit():
    data = random_intercept_data(6, n_rows=20_000)
    em = estimator("online", batch_size=100, tol=0).fit(data)
    before, s = em.params_, em.statistics_
    em.partial_fit(X[:100] + 50.0)
    # A step as if the rows of the fit had been a stream: number 201.
    pulled = expected_statistics(X[:100] + 50.0, before)
    expected = s + STEPS(201) * (pulled - s)
    np.testing.assert_allclose(em.statistics_, expected, rtol=1e-10)


def test_a_number_as_step_is_taken_at_its_word():
    em = estimator("em", step_size=1.0, batch_size=50).partial_fit(X[:100])
    s = expected_statistics(X[:50], em.model.initial_params(X[:100], None))
    expected = expected_statistics(X[50:100], m_step(s))
    np.testing.assert_allclose(em.statistics_, expected, rtol=1e-12)


@pytest.mark.parametrize("solver", ["online", "isaem", "fittem"])
def test_interrupt_keeps_the_last_finished_chunk(solver):
    em = estimator(solver, batch_size=20)
    em.model = Interrupting(at=10**9)
    em.partial_fit(X[:300])
    before = em.params_
    em.model.at = em.model.calls + 3
    with pytest.raises(KeyboardInterrupt):
        em.partial_fit(X[300:600])
    assert em.params_ == before
    em.partial_fit(X[600:900])
    assert np.isfinite(em.params_).all()
    assert em.params_ != before


def test_zero_passes_are_one_on_a_stream():
    none, one = (
        estimator("isaem").set_params(max_iter=passes).partial_fit(X[:100])
        for passes in (0, 1)
    )
    assert none.params_ == one.params_


def test_constant_step_forgets_geometrically():
    stream, state = new_stream(step_size=Constant(0.1), batch_size=10)
    feed(stream, state, [X[:200]])
    far = X[:10] + 100.0
    before = state.s.copy()
    stream.update(state, far)
    pulled = expected_statistics(far, m_step(before))
    np.testing.assert_allclose(state.s, before + 0.1 * (pulled - before), rtol=1e-12)


def test_settings_are_left_alone():
    stream, state = new_stream(ISAEM(), max_passes=2)
    same = replace(stream.settings)
    feed(stream, state, cut(500))
    assert stream.settings == same
    assert spawn_generators(0) is not state.generators


@pytest.mark.parametrize("n_rows, limit", [(1000, 0.01), (4000, 0.003)])
def test_short_streams_of_own_models_learn(n_rows, limit):
    """In batches of 1,024 rows they ended .88 and .25 nats a row short."""
    rng = np.random.default_rng(3)
    X = rng.normal(3, 1, size=(n_rows, 1)) + rng.normal(0, 0.5, size=(n_rows, 4))
    best = StochasticEM(RandomInterceptModel(), solver="em", tol=1e-10).fit(X).score(X)
    streams = []
    for n_chunks in (1, 7, n_rows // 100):
        stream = StochasticEM(RandomInterceptModel(), random_state=0)
        stream.partial_fit(X[:100])  # which the start is made from
        for chunk in np.array_split(X[100:], n_chunks):
            stream.partial_fit(chunk)
        streams.append(stream.params_)
        assert best - stream.score(X) < limit
    np.testing.assert_allclose(streams[1:], [streams[0]] * 2, rtol=1e-9)
    plain = StochasticEM(RandomInterceptModel(), batch_size=1024, random_state=0)
    assert best - plain.partial_fit(X).score(X) > 10 * limit


@pytest.mark.parametrize("solver", ["online", "isaem"])
def test_functions_of_users_take_whole_numbers(solver):
    """As in a fit; chunks end within batches."""
    given = []

    def steps(k):
        given.append(k)
        return [1.0, 0.8, 0.6, 0.5][min(k, 4) - 1]

    em = StochasticEM(
        RandomInterceptModel(), solver=solver, step_size=steps, batch_size=64
    )
    for chunk in cut(150)[:4]:
        em.partial_fit(chunk)
    assert {type(k) for k in given} == {int}
    assert set(given) >= set(range(1, 9))
