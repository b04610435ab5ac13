"""The estimator: solvers, missing values, structure, streams, answers."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sktem import HiddenMarkovModel, emissions
from sktem.emissions import Gaussian
from sktem.exceptions import FitWarning
from sktem.hidden_markov.fit_warnings import StateWarning
from sktem.hidden_markov.settings import SequenceSettings
from sktem.hidden_markov.stream import StreamRule
from tests.hidden_markov.chains import draw_sequences, left_to_right
from tests.oracles import messages_of

A = np.array([[0.9, 0.06, 0.04], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8]])
START, MEANS = np.array([0.6, 0.3, 0.1]), np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
LENGTHS = np.tile([30, 12, 1, 25], 15)
GROUPS = np.repeat(np.arange(60), LENGTHS)
X, STATES = draw_sequences(LENGTHS, START, A, MEANS, np.random.default_rng(1))
GIVEN = {
    "start_init": START, "transitions_init": A,
    "emission_init": {
        "means": 0.5 * MEANS + 0.3, "covariances": np.stack([np.eye(2)] * 3),
    },
}  # fmt: skip
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def model(**options):
    return HiddenMarkovModel(3, random_state=0, **options)


@pytest.fixture(scope="module")
def whole():
    return model(tol=1e-9).fit(X, groups=GROUPS)


@quiet
@pytest.mark.parametrize(
    "solver, tolerance",
    [("iem", 1e-8), ("isaem", 1e-8), ("vrttem", 1e-6), ("fittem", 1e-6),
     ("online", 1e-3), ("saem", 1e-3), ("mcem", 1e-3), ("squarem", 1e-8),
     ("daarem", 1e-8)],
)  # fmt: skip
def test_solvers_end_where_em_does(solver, tolerance, whole):
    fit = model(solver=solver, max_iter=40, tol=1e-9, **GIVEN).fit(X, lengths=LENGTHS)
    assert fit.history_.solver == solver
    difference = fit.score(X, lengths=LENGTHS) - whole.score(X, groups=GROUPS)
    assert abs(difference) < tolerance
    begun = model(max_iter=1, tol=0, **GIVEN).fit(X, lengths=LENGTHS)
    assert whole.score(X, groups=GROUPS) - begun.score(X, lengths=LENGTHS) > 1e-3


def test_the_default_finds_the_states(whole):
    assert whole.converged_
    order = [
        ((whole.emission_params_.means - mean) ** 2).sum(1).argmin() for mean in MEANS
    ]
    assert sorted(order) == [0, 1, 2]
    states = whole.predict(X, groups=GROUPS)
    assert (np.array(order)[STATES] == states).mean() > 0.95
    marginal = whole.predict(X, groups=GROUPS, method="marginal")
    probabilities = whole.predict_proba(X, groups=GROUPS)
    np.testing.assert_array_equal(marginal, probabilities.argmax(axis=1))
    assert (np.diff(whole.lower_bounds_) > -1e-12).all()


def test_sequences_may_be_given_in_several_ways(whole):
    pandas = pytest.importorskip("pandas")
    parts = np.split(X, np.cumsum(LENGTHS)[:-1])
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(name=GROUPS)
    expected = whole.score_samples(X, groups=GROUPS)
    for fit in (
        model(tol=1e-9).fit(parts),
        model(tol=1e-9).fit(X, lengths=LENGTHS),
        model(tol=1e-9).fit(frame, groups="name"),
    ):
        np.testing.assert_array_equal(fit.transitions_, whole.transitions_)
    np.testing.assert_array_equal(fit.score_samples(frame, groups="name"), expected)
    assert list(fit.feature_names_in_) == ["a", "b"]


def brute_log_density(rows, means, covariances):
    """Return log-densities of what is observed of rows."""
    found = np.zeros((len(rows), len(means)))
    for i, row in enumerate(rows):
        seen = ~np.isnan(row)
        if seen.any():
            for k, mean in enumerate(means):
                block = covariances[k][np.ix_(seen, seen)]
                found[i, k] = multivariate_normal.logpdf(row[seen], mean[seen], block)
    return found


@pytest.mark.parametrize("solver", ["em", "iem"])
@quiet
def test_missing_values(solver):
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    holes[5] = np.nan
    fit = model(solver=solver, max_iter=30, **GIVEN).fit(holes, lengths=LENGTHS)
    first = LENGTHS[0]
    params = fit.emission_params_
    L = brute_log_density(holes[:first], params.means, params.covariances)
    alpha = np.log(fit.start_) + L[0]
    for row in L[1:]:
        alpha = logsumexp(alpha[:, None] + np.log(fit.transitions_), axis=0) + row
    found = fit.score_samples(holes[:first])[0]
    assert found == pytest.approx(logsumexp(alpha), rel=1e-9)
    if solver == "em":
        assert (np.diff(fit.lower_bounds_) > -1e-10).all()
    else:
        em = model(max_iter=100, tol=1e-9, **GIVEN).fit(holes, lengths=LENGTHS)
        gap = em.score(holes, lengths=LENGTHS) - fit.score(holes, lengths=LENGTHS)
        assert abs(gap) < 1e-5


def test_zeros_of_the_start_stay():
    start, transitions = left_to_right(3)
    rows, _ = draw_sequences([40] * 20, start, transitions * 1.0, MEANS,
                             np.random.default_rng(0))  # fmt: skip
    fit = model(start_init=start, transitions_init=transitions).fit(
        rows, lengths=[40] * 20
    )
    assert ((fit.transitions_ > 0) == (transitions > 0)).all()
    np.testing.assert_array_equal(fit.start_, start)
    assert (np.diff(fit.predict(rows[:40])) >= 0).all()


def test_fixed_and_tied_parts():
    fit = model(fixed=["transitions", "emission"], **GIVEN).fit(X, groups=GROUPS)
    np.testing.assert_array_equal(fit.transitions_, A)
    np.testing.assert_array_equal(fit.emission_params_.means, 0.5 * MEANS + 0.3)
    assert np.abs(fit.start_ - START).max() > 1e-3
    fit = model(tied_transitions=[0, 0, 1]).fit(X, groups=GROUPS)
    np.testing.assert_array_equal(fit.transitions_[0], fit.transitions_[1])
    tied = HiddenMarkovModel(4, tied_emissions=[0, 1, 2, 2], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tied.fit(X, groups=GROUPS)
    assert tied.emission_params_.means.shape == (3, 2)
    assert tied.predict_proba(X, groups=GROUPS).shape == (len(X), 4)


@quiet
@pytest.mark.parametrize("held", ["means", "covariances"])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_fixed_fields_of_the_emission(kind, held):
    """The others are at their maximum given these, which are no parameters."""
    emission = Gaussian(kind, reg_covar=0)
    scatter = np.stack([1.5 * np.cov(X[STATES == k].T) for k in range(3)])
    own = {"full": scatter, "tied": scatter.mean(axis=0),
           "diag": np.diagonal(scatter, 0, 1, 2),
           "spherical": np.trace(scatter, 0, 1, 2) / 2}[kind]  # fmt: skip
    given = {held: {"means": 0.9 * MEANS + 0.3, "covariances": own}[held]}
    options = {"emission": emission, "fixed": held, "emission_init": given}
    fit = model(**options).fit(X, groups=GROUPS, states=STATES)
    params, apart = fit.emission_params_, X - (0.9 * MEANS + 0.3)[STATES]
    outer, R = apart[:, :, None] * apart[:, None], np.eye(3)[STATES]
    outer = np.einsum("nk,nij->kij", R, outer)
    if kind == "tied":
        outer = outer.sum(axis=0) / len(X)
    else:
        outer /= R.sum(axis=0)[:, None, None]
    expected = {
        "means": R.T @ X / R.sum(axis=0)[:, None],
        "covariances": {"diag": np.diagonal(outer, 0, -2, -1),
                        "spherical": np.trace(outer, 0, -2, -1) / 2}.get(kind, outer),
        **given,
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(params, name), value, rtol=1e-10)
    counts = {"full": 9, "tied": 3, "diag": 6, "spherical": 3}
    n_held = {"means": 6, "covariances": counts[kind]}[held]
    arguments = fit.fitted_.params, 2
    parameters = model(emission=emission).get_params()
    free = SequenceSettings.of(parameters, 3, emission).model(
        fit._asked(X, GROUPS, None)[1]
    )
    assert fit.fitted_.model.n_parameters(*arguments) == (
        free.n_parameters(*arguments) - n_held
    )
    deviations = fit.standard_errors(X, groups=GROUPS, states=STATES).emission
    assert {*deviations, held} == {"means", "covariances"} != {*deviations}
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    hidden = model(**options, max_iter=20, tol=0, start_init=START, transitions_init=A)
    hidden.fit(holes, groups=GROUPS)
    assert (np.diff(hidden.lower_bounds_) > -1e-12).all()
    np.testing.assert_array_equal(getattr(hidden.emission_params_, held), given[held])


def test_known_states_are_kept():
    rng = np.random.default_rng(0)
    known = np.where(rng.random(len(X)) < 0.2, STATES, -1)
    fit = model().fit(X, groups=GROUPS, states=known)
    assert (fit.predict(X, groups=GROUPS) == STATES).mean() > 0.95
    all_known = model(emission=Gaussian(reg_covar=0)).fit(
        X, groups=GROUPS, states=STATES
    )
    means = [X[STATES == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(all_known.emission_params_.means, means, rtol=1e-10)
    inner = GROUPS[1:] == GROUPS[:-1]
    counts = np.zeros((3, 3))
    np.add.at(counts, (STATES[:-1][inner], STATES[1:][inner]), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(all_known.transitions_, shares, rtol=1e-10)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=60)
    order = np.repeat(np.arange(60), counts)
    parts = np.split(X, np.cumsum(LENGTHS)[:-1])
    repeated = model(max_iter=5, tol=0, **GIVEN).fit([parts[i] for i in order])
    for weights in (counts, np.repeat(counts, LENGTHS)):
        fit = model(max_iter=5, tol=0, **GIVEN).fit(
            X, groups=GROUPS, sample_weight=weights
        )
        np.testing.assert_allclose(fit.transitions_, repeated.transitions_, rtol=1e-9)
    weights = np.arange(len(X), dtype=float)
    with pytest.raises(ValueError, match="the same in all rows of a sequence"):
        model().fit(X, groups=GROUPS, sample_weight=weights)


def test_a_stream_of_sequences(whole):
    stream = model()
    for first in range(0, 60, 15):
        chosen = (first <= GROUPS) & (first + 15 > GROUPS)
        stream.partial_fit(X[chosen], groups=GROUPS[chosen])
    assert stream.n_sequences_seen_ == 60
    gap = whole.score(X, groups=GROUPS) - stream.score(X, groups=GROUPS)
    assert abs(gap) < 0.02


@pytest.mark.parametrize("size", [10, 50])
def test_sorted_sequences_are_told(size):
    """States of sequences of another kind replace those so far."""
    rng = np.random.default_rng(0)
    kinds = [
        draw_sequences([40] * 100, START, A, m, rng)[0] for m in (MEANS, MEANS + 20)
    ]
    sequences = np.split(np.concatenate(kinds), 200)

    def streamed(order):
        stream = HiddenMarkovModel(2 * len(START), random_state=0)
        for part in np.split(order, len(order) // size):
            stream.partial_fit([sequences[i] for i in part])
        return stream

    mixed = streamed(rng.permutation(200))
    with pytest.warns(FitWarning, match="sequences .* less likely, by .* nats a row"):
        apart = streamed(np.arange(200))
    assert apart.score(sequences) < mixed.score(sequences) - 0.5


def test_cutting_a_sequence_changes_nothing_that_is_filtered(whole):
    expected = whole.filter(X)
    first = whole.filter(X[:100])
    second = whole.filter(X[100:], previous=first[-1])
    np.testing.assert_allclose(np.concatenate([first, second]), expected, atol=1e-12)
    assert np.abs(whole.filter(X[100:])[0] - expected[100]).max() > 1e-12


def test_an_endless_sequence():
    rng = np.random.default_rng(0)
    rows, _ = draw_sequences([4000], START, A, MEANS, rng)
    fit = model().fit(rows)
    stream = model()
    for part in np.split(rows, 20):
        stream.partial_fit(part, continues=True)
    assert abs(stream.score(rows) - fit.score(rows)) < 0.01
    # Pieces do not begin anew: the start stays that of the one first row.
    assert stream.start_.max() > 0.9


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.parametrize("solver", ["em", "isaem"])
def test_an_endless_sequence_in_small_pieces(solver):
    """A start is not made of four rows alone, whatever the pieces."""
    rng = np.random.default_rng(0)
    rows, _ = draw_sequences([240], START, A, MEANS, rng)
    whole = model().fit(rows)
    gaps = []
    for rows_of_start in (100, 0):
        stream = model(solver=solver)
        for part in np.split(rows, 60):
            stream.partial_fit(part, continues=True)
            stream._stream.rule = StreamRule(rows_of_start=rows_of_start)
        gaps.append(whole.score(rows) - stream.score(rows))
    assert gaps[0] < 0.02 < gaps[1]
    assert stream.n_sequences_seen_ == 60


def test_the_first_piece_may_have_fewer_rows_than_states(whole):
    stream = model()
    for part in [X[:1], X[1:2], *np.split(X[2:722], 20)]:
        stream.partial_fit(part, continues=stream._stream is not None)
    assert stream.score(X) > whole.score(X) - 0.1


def test_sums_do_not_depend_on_places_in_memory(whole):
    """Sequences of many visits are added up in their order, to the bit."""
    fitted, rows = whole._asked(X, None, [5] * (len(X) // 5))
    model, params = fitted.model, fitted.params
    found = []
    for seed in range(4):
        visits = model.posterior(rows, params)
        for i in np.random.default_rng(seed).permutation(len(rows)):
            visits[i] = model.posterior(rows[i : i + 1], params)[0]
        found.append(model.mean_statistics(rows, visits))
    for sums in found[1:]:
        np.testing.assert_array_equal(sums, found[0])


def test_the_row_before_a_piece_is_not_counted_twice(whole):
    """Its transition counts, and nothing of the emission, by statistics of the loop."""
    fitted, rows = whole._asked(X[:30], None, None)
    model, params = fitted.model, fitted.params
    _, later = whole._asked(X[30:50], None, None)
    continued = later.continued(fitted.carried(rows))
    K, n = len(START), model.chain.n_statistics
    smooth = whole.predict_proba(X[:50])
    visits = model.posterior(continued, params)
    for s in (
        model.expected_statistics(continued, params)[0],
        model.mean_statistics(continued, visits),
    ):
        counts = s[K:n].reshape(K, K)
        np.testing.assert_allclose(s[:K], 0.0)
        np.testing.assert_allclose(counts.sum(axis=0), smooth[30:].sum(axis=0))
        expected = model.emission.statistics(X[30:50], smooth[30:], params.emission)
        np.testing.assert_allclose(s[n:], expected, atol=1e-9)


def test_groups_are_routed(whole):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), model(tol=1e-4))
        scores = cross_val_score(
            pipeline, X, cv=GroupKFold(3), params={"groups": GROUPS}
        )
    assert len(scores) == 3 and np.isfinite(scores).all()


def test_groups_that_are_not_routed_are_told():
    with pytest.warns(UserWarning, match="single sequence.*set_fit_request"):
        cross_val_score(model(tol=1e-2), X, cv=GroupKFold(2), groups=GROUPS)


def test_samples_forecasts_and_durations(whole):
    rows, states = whole.sample(lengths=[200, 300])
    assert rows.shape == (500, 2) and states.shape == (500,)
    forecast = whole.forecast(X, 4, n_draws=50, groups=GROUPS)
    assert forecast.draws.shape == (50, 60, 4, 2)
    last = whole.filter(X, groups=GROUPS)[np.cumsum(LENGTHS) - 1]
    expected = last @ np.linalg.matrix_power(whole.transitions_, 4)
    np.testing.assert_allclose(forecast.probabilities[:, 3], expected, rtol=1e-10)
    durations = whole.state_durations(2000)
    counts = np.arange(1, 2001)
    means = durations.probabilities @ counts
    np.testing.assert_allclose(durations.mean, means, rtol=1e-6)
    spread = np.sqrt(durations.probabilities @ counts**2 - means**2)
    np.testing.assert_allclose(durations.standard_deviation, spread, rtol=1e-6)
    scores, states = whole.decode(X, groups=GROUPS)
    assert (scores < whole.score_samples(X, groups=GROUPS)).all()


def test_imputed_values(whole):
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    seen = ~np.isnan(holes)
    draws = []
    for method in ("mean", "mode", *["draw"] * 200):
        estimator = whole if method != "draw" else whole.set_params(random_state=rng)
        filled = estimator.impute(holes, method=method, groups=GROUPS)
        assert np.isfinite(filled).all()
        np.testing.assert_array_equal(filled[seen], X[seen])
        draws.append(filled)
    whole.set_params(random_state=0)
    empty = (~seen).all(axis=1)
    R = whole.predict_proba(holes, groups=GROUPS)
    np.testing.assert_allclose(
        draws[0][empty], (R @ whole.emission_params_.means)[empty]
    )
    drawn = np.array(draws[2:])
    error = drawn.std(axis=0) / np.sqrt(200)
    wrong = np.abs(drawn.mean(axis=0) - draws[0]) > 5 * error + 1e-9
    assert wrong.mean() < 0.002
    # The negative control: the mode is no mean.
    far = np.abs(drawn.mean(axis=0) - draws[1]) > 5 * error + 1e-9
    assert far.mean() > 0.02


def test_results_do_not_depend_on_threads(whole):
    fit = model(tol=1e-9, n_jobs=2).fit(X, groups=GROUPS)
    np.testing.assert_array_equal(fit.transitions_, whole.transitions_)
    copy = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(copy.predict(X), fit.predict(X))


def test_more_parameters_than_rows_tell_are_told():
    X, new = np.random.default_rng(0).normal(size=(2, 400, 10))
    told = "13[23] free parameters .* of 60 rows"  # a start of 0 is not free
    hidden_markov = HiddenMarkovModel(2, n_init=3, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Only one of")
        with pytest.warns(FitWarning, match=told):
            loss = hidden_markov.fit(X[:60]).score(X[:60]) - hidden_markov.score(new)
        assert loss > 132 / 60
        warnings.filterwarnings("error", told)
        hidden_markov.fit(X)
        hidden_markov.set_params(emission=Gaussian("diag")).fit(X[:60])


@pytest.mark.parametrize("n, is_told", [(100, True), (1500, False)])
def test_labels_that_are_too_many_for_the_rows_are_told(n, is_told):
    rng, size = np.random.default_rng(0), (2, n, 1)
    states = np.repeat(np.arange(n // 10) % 2, 10)[:, None]
    X, new = np.where(rng.random(size) < 0.3, rng.integers(20, size=size), 7 * states)
    hidden_markov = HiddenMarkovModel(
        2, emission=emissions.Categorical(20), n_init=3, random_state=0
    )
    _, told = messages_of(hidden_markov.fit, X)
    assert (
        any("labels of column(s) 0 that other rows have" in text for text in told)
        == is_told
    )
    if is_told:
        assert hidden_markov.score(X) - hidden_markov.score(new) > 1
        hidden_markov.set_params(emission=emissions.Categorical(20, smoothing=0.1))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "No row of state")
            hidden_markov.fit(X)
        identifiers = np.column_stack([X[:, 0], np.arange(n)]).astype(str)
        hidden_markov.set_params(emission=emissions.Categorical())
        with pytest.warns(StateWarning, match=r"Column\(s\) 1 .* identifiers do"):
            hidden_markov.fit(identifiers)


@quiet
def test_states_that_are_copies_are_told():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 1))
    twins = {"means": np.zeros((2, 1)), "covariances": np.ones((2, 1, 1))}
    with pytest.warns(FitWarning, match="nearly the same emission"):
        HiddenMarkovModel(
            2, start_init=[0.5, 0.5], transitions_init=np.full((2, 2), 0.5),
            emission_init=twins,
        ).fit(rows)  # fmt: skip
    far = {"means": np.array([[0.0], [50.0]]), "covariances": np.ones((2, 1, 1))}
    unused = HiddenMarkovModel(
        2, start_init=[1.0, 0.0], transitions_init=[[0.999, 0.001], [0.5, 0.5]],
        emission_init=far,
    )  # fmt: skip
    _, messages = messages_of(unused.fit, rows)
    assert any("State(s) [1] account for no more than" in one for one in messages)


@pytest.mark.parametrize("emission", [
    "gaussian", "student_t", "log_normal", "factor_analyser", "gamma",
    "negative_binomial", "von_mises",
])  # fmt: skip
def test_a_fit_begins_again_with_the_parameters_of_another(emission):
    rows = np.abs(X) + 0.1
    rows = rows.round() if emission == "negative_binomial" else rows
    first = model(emission=emission, tol=1e-8).fit(rows, groups=GROUPS)
    fields = first.emission_params_._asdict()
    again = model(
        emission=emission, start_init=first.start_, emission_init=fields,
        transitions_init=first.transitions_, tol=1e-8,
    ).fit(rows, groups=GROUPS)  # fmt: skip
    left = again.score(rows, groups=GROUPS) - first.score(rows, groups=GROUPS)
    assert -1e-9 < left < 1e-5


def test_sequences_that_a_start_excludes_are_named():
    start, transitions = left_to_right(3)
    options = {"start_init": start, "transitions_init": transitions}
    with pytest.raises(ValueError, match="sequence 0 is impossible"):
        model(**options).fit(X, states=STATES, groups=GROUPS)
    # The negative control: known states that are in this order.
    order = np.argsort(STATES, kind="stable")
    chained = model(**options).fit(X[order], states=STATES[order])
    assert (
        chained.converged_
        and (chained.predict(X[order]) == STATES[order]).mean() > 0.95
    )


def test_warm_starts_need_the_same_kind_of_model(whole):
    changes = [{"n_states": 2}, {"emission": "exponential"}, {"durations": "poisson"}]
    for change in [*changes, {"emission": Gaussian("diag")}]:
        hmm = model(warm_start=True, tol=1e-4).fit(X, groups=GROUPS)
        hmm.set_params(**change)
        with pytest.raises(
            ValueError, match=f"after which {next(iter(change))} change"
        ):
            hmm.fit(np.abs(X), groups=GROUPS)
    with pytest.raises(ValueError, match="number of columns of X changed"):
        hmm.set_params(emission="gaussian").fit(X[:, :1], groups=GROUPS)
    hmm.set_params(start="stationary").fit(X, groups=GROUPS)
    assert hmm.n_iter_ < 20
    np.testing.assert_allclose(hmm.start_ @ hmm.transitions_, hmm.start_, atol=1e-12)


def test_numbers_of_rows_to_draw(whole):
    assert whole.sample(lengths=np.array([2, 3], np.uint64))[0].shape == (5, 2)
    for options in ({"n_samples": 3.0}, {"lengths": []}, {"lengths": [2, 0]}):
        with pytest.raises(ValueError, match="at least one row"):
            whole.sample(**options)
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        whole.forecast(X, 1.5)


# Rows of one sequence belong together: neither a subset nor another order is the same.
EXPECTED = {
    "check_methods_sample_order_invariance": "the order of rows has a meaning",
    "check_methods_subset_invariance": "a row is judged by its neighbours",
    "check_sample_weights_not_overwritten": "weights are of sequences",
    "check_sample_weight_equivalence_on_dense_data": "weights are of sequences",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["em", "fittem"])
def test_check_estimator(solver):
    estimator = HiddenMarkovModel(solver=solver, max_iter=10)
    check_estimator(estimator, expected_failed_checks=EXPECTED, on_skip=None)


# ------------------------------------------------------------------ tables of labels


def diary(n=600, seed=0):
    """Return words and counts that depend on a state, with holes, and the states."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n) < 0.05) % 2
    words = np.where(rng.random(n) < 0.15 + 0.7 * states, "rain", "sun").astype(object)
    words[rng.random(n) < 0.1] = None
    counts = rng.poisson(1.0 + 5 * states)
    day = np.repeat(np.arange(n // 100), 100)
    return pd.DataFrame({"day": day, "word": words, "count": counts}), states


def test_frames_with_labels_are_taken_as_they_come():
    """The numbers are those of codes given by hand."""
    frame, states = diary()
    hmm = HiddenMarkovModel(2, emission="poisson", random_state=0)
    hmm.fit(frame, groups="day")
    assert hmm.categories_[0].tolist() == ["rain", "sun"]
    assert hmm.feature_names_in_.tolist() == ["word", "count"]
    agreement = (hmm.predict(frame, groups="day") == states).mean()
    assert max(agreement, 1 - agreement) > 0.97
    codes = frame["word"].map({"rain": 0.0, "sun": 1.0})
    rows = np.column_stack([codes, frame["count"]])
    emission = emissions.Columns(
        [("w", emissions.Categorical(2), [0]), ("c", emissions.Poisson(), [1])]
    )
    by_hand = HiddenMarkovModel(2, emission=emission, random_state=0)
    by_hand.fit(rows, groups=frame["day"].to_numpy())
    assert by_hand.lower_bound_ == pytest.approx(hmm.lower_bound_, abs=1e-5)
    parts = [part.drop(columns="day") for _, part in frame.groupby("day")]
    assert hmm.score(parts) == pytest.approx(hmm.score(frame, groups="day"), rel=1e-12)
    filled = hmm.impute(parts)
    assert not filled["word"].isna().any()
    assert set(hmm.sample(50)[0]["word"]) <= {"rain", "sun"}
    with pytest.raises(ValueError, match="label 'snow', which the fit has not seen"):
        hmm.score(frame.assign(word="snow"), groups="day")


def test_integers_are_counts_of_auto():
    frame, _ = diary()
    counts = frame[["count"]]
    named = HiddenMarkovModel(2, emission="negative_binomial", random_state=0)
    bound = named.fit(counts).lower_bound_
    sizes = counts + np.random.default_rng(0).normal(size=counts.shape)
    for rows, kind in [
        (counts, emissions.NegativeBinomial),
        (counts.to_numpy(), emissions.NegativeBinomial),
        (counts.astype("Int64"), emissions.NegativeBinomial),
        (sizes, Gaussian),
        (counts.assign(size=sizes), emissions.Columns),
    ]:
        hmm = HiddenMarkovModel(2, emission="auto", random_state=0).fit(rows)
        assert isinstance(hmm.emission_, kind)
        if kind is emissions.NegativeBinomial:
            assert hmm.lower_bound_ == bound
        assert np.isfinite(hmm.score(rows))


def as_codes(X):
    return emissions.Categorical(4), X


def as_lists(X):
    return "categorical", X.tolist()


def below_zero(X):
    return "categorical", np.where(np.isnan(X), np.nan, X * 3.5 - 7)


def as_frame(X):
    frame = pd.DataFrame(X, columns=["a", "b"])
    return emissions.Columns([("x", "categorical", ["b", "a"])]), frame


def as_polars(X):
    polars = pytest.importorskip("polars")
    return "categorical", polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})


def as_text(X):
    text = np.array(["a", "b", None, "z"], object)
    return "categorical", text[X.astype(int)]


@pytest.mark.parametrize(
    "given", [as_codes, as_lists, below_zero, as_frame, as_polars, as_text]
)
def test_labels_that_are_numbers_are_those_that_occur(given):
    """Codes with a hole have as many categories as labels have, and the same fit."""
    rng, states = np.random.default_rng(0), np.arange(300) // 25 % 2
    X = rng.choice([0.0, 1.0, 3.0], size=(300, 2))
    X[(states == 1) & (rng.random(300) < 0.7)] = X[:9] = 1.0
    if given is not as_text:
        X[[4, 11], 1] = np.nan
    hmm = HiddenMarkovModel(2, emission="categorical", random_state=0).fit(X)
    assert hmm.emission_params_.probabilities.shape == (2, 2, 3)
    emission, rows = given(X)
    peer = HiddenMarkovModel(2, emission=emission, random_state=0).fit(rows)
    assert peer.lower_bound_ == pytest.approx(hmm.lower_bound_, abs=1e-6)
    assert peer.bic(rows) == pytest.approx(hmm.bic(X), abs=1e-3)
    if given is as_codes:  # all of which may come
        assert np.isfinite(peer.score(np.full((1, 2), 2.0)))
        return
    drawn = np.asarray(peer.sample(60)[0])
    assert set(drawn.ravel()) == set(np.asarray(rows)[20:].ravel())
    future = set(peer.forecast(rows, 9).draws.ravel())
    assert future == ({0, 1, 2} if given is as_text else set(drawn.ravel()))
    new = np.array([["c", "c"]]) if given is as_text else np.full((1, 2), 2.0)
    if given in (as_frame, as_polars):
        new = type(rows)({"a": [2.0], "b": [1.0]})
    with pytest.raises(ValueError, match="which the fit has not seen"):
        peer.score(new)
    with pytest.raises(ValueError, match="which the fit has not seen"):
        HiddenMarkovModel(2, emission=emission).partial_fit(rows).partial_fit(new)
    with pytest.raises(ValueError, match="the labels of X changed"):
        peer.set_params(warm_start=True).fit(rows[:9])


def test_covariances_that_are_reg_covar_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 6.0 * (np.arange(300)[:, None] // 20 % 2)
    hmm = HiddenMarkovModel(2, random_state=0)
    hmm.fit(X)  # an error, if it warned
    for unit in (1e-6, 1e-12):
        with pytest.warns(FitWarning, match="of the variance .* in column"):
            hmm.fit(unit * X)
    hmm.fit(np.column_stack([X, np.ones(300)]))  # a constant is no fault of a state
