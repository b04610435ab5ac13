"""Transitions that depend on covariates: all paths, differences, statsmodels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn import config_context
from sklearn.model_selection import GroupKFold, cross_val_score

from sktem import HiddenMarkovModel
from sktem.emissions import Gaussian, Regression
from sktem.emissions.directions import moved_fields
from sktem.exceptions import FitWarning
from sktem.hidden_markov import information
from sktem.hidden_markov.fit_warnings import StateWarning
from sktem.hidden_markov.kernels import logits as logit_kernels
from sktem.hidden_markov.recursions import Matrices
from sktem.hidden_markov.settings import SequenceSettings
from tests.hidden_markov.chains import all_paths, left_to_right

LENGTHS = np.array([150, 1, 449])
N = LENGTHS.sum()
MEANS = np.array([-3.0, 0.0, 3.5])
INTERCEPTS = np.log([[0.85, 0.1, 0.05], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
SLOPES = np.zeros((3, 3, 2))
SLOPES[0, 1], SLOPES[1, 2], SLOPES[2, 0] = [1.5, 0.0], [-1.0, 1.0], [0.0, 1.2]
BAND = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::sktem.exceptions.FitWarning",
)


def drawn(seed, lengths=LENGTHS):
    """Return rows, covariates and states, drawn without the package."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(sum(lengths), 2)) * [1.0, 0.5] + [0.0, 3.0]
    A = softmax(INTERCEPTS + (SLOPES @ (Z - [0.0, 3.0]).T).transpose(2, 0, 1), axis=2)
    states, first = np.zeros(len(Z), int), np.cumsum(lengths) - lengths
    for t in range(len(Z)):
        p = np.full(3, 1 / 3) if t in first else A[t, states[t - 1]]
        states[t] = rng.choice(3, p=p)
    return MEANS[states][:, None] + rng.normal(size=(len(Z), 1)), Z, states


X, Z, STATES = drawn(0)


def model(**options):
    return HiddenMarkovModel(3, random_state=0, **options)


@pytest.fixture(scope="module")
def whole():
    return model(tol=1e-9).fit(X, covariates=Z, lengths=LENGTHS)


def matrices_of(hmm, Z):
    """Return the matrices that lead to rows, from fitted attributes."""
    with np.errstate(divide="ignore"):
        logs = np.log(hmm.transitions_)
    away = Z - hmm.covariates_mean_
    return softmax(logs + np.einsum("ijc,tc->tij", hmm.transition_coefficients_, away),
                   axis=2)  # fmt: skip


@quiet
@pytest.mark.parametrize("zeros", [False, True])
def test_all_paths(zeros, global_random_seed):
    options = {}
    if zeros:
        start, transitions = left_to_right(3)
        options = {"start_init": start, "transitions_init": transitions}
    hmm = model(max_iter=5, **options).fit(X[:150], covariates=Z[:150])
    if zeros:
        assert ((hmm.transitions_ > 0) == (transitions > 0)).all()
        assert not hmm.transition_coefficients_[transitions == 0].any()
    assert np.abs(hmm.transition_coefficients_).max() > 0.1
    lengths = np.array([4, 1, 6])
    rows, covariates, _ = drawn(global_random_seed, lengths)
    given = {"covariates": covariates, "lengths": lengths}
    scores, path = hmm.decode(rows, **given)
    smooth, filtered = hmm.smooth(rows, **given), hmm.filter(rows, **given)
    likelihoods = hmm.score_samples(rows, **given)
    scale = np.sqrt(hmm.emission_params_.covariances.ravel())
    L = norm.logpdf(rows, hmm.emission_params_.means.ravel(), scale)
    A = matrices_of(hmm, covariates)
    for i, stop in enumerate(np.cumsum(lengths)):
        own = slice(stop - lengths[i], stop)
        # The first matrix of a sequence leads to its first row, and is not used.
        total, gamma, _, states, best = all_paths(L[own], hmm.start_, A[own][1:])
        assert likelihoods[i] == pytest.approx(total, rel=1e-12)
        assert scores[i] == pytest.approx(best, rel=1e-12)
        np.testing.assert_allclose(smooth[own], gamma, atol=1e-12)
        np.testing.assert_allclose(filtered[stop - 1], gamma[-1], atol=1e-12)
        np.testing.assert_array_equal(path[own], states)
    # The negative control: covariates that are a row late.
    late = {**given, "covariates": np.roll(covariates, 1, axis=0)}
    assert np.abs(hmm.score_samples(rows, **late) - likelihoods).max() > 1e-3


def test_coefficients_are_found(global_random_seed):
    rows, covariates, states = drawn(global_random_seed, [4000])
    truth = {
        "emission_init": {"means": MEANS[:, None], "covariances": np.ones((3, 1, 1))}
    }
    hmm = model(fixed="emission", **truth).fit(rows, covariates=covariates)
    assert hmm.converged_ and (np.diff(hmm.lower_bounds_) > -1e-12).all()
    errors = hmm.standard_errors(rows, covariates=covariates).coefficients
    expected = SLOPES - np.diagonal(SLOPES).T[:, None]
    used = ~np.eye(3, dtype=bool)
    ratio = (hmm.transition_coefficients_ - expected)[used] / errors[used]
    assert np.isnan(errors[~used]).all() and np.abs(ratio).max() < 4.5
    assert (ratio**2).mean() < 3
    plain = model(fixed="emission", **truth).fit(rows)
    assert hmm.bic(rows, covariates=covariates) < plain.bic(rows)
    path = hmm.predict(rows, covariates=covariates)
    assert (path == states).mean() > (plain.predict(rows) == states).mean()


@quiet
@pytest.mark.parametrize(
    "options",
    [{}, {"tied_transitions": [0, 1, 1]}, {"start_init": np.full(3, 1 / 3),
                "transitions_init": BAND}],
    ids=["free", "tied", "zeros"],
)  # fmt: skip
def test_differences_of_the_likelihood(options):
    hmm = model(tol=1e-9, **options).fit(X, covariates=Z, lengths=LENGTHS)
    if "tied_transitions" in options:
        A = matrices_of(hmm, Z)
        np.testing.assert_allclose(A[:, 1], A[:, 2], rtol=1e-9)
    fitted, rows = hmm._asked(X, None, LENGTHS, Z)
    one, params = fitted.model, fitted.params
    directions = list(one.chain.free_directions(*[params.chain] * 2, rows))

    def at(moves):
        return params._replace(chain=moved_fields(params.chain, moves))

    def value(moves):
        return one.log_likelihood_of_sequences(rows, at(moves)).sum()

    # Away from the optimum the score is that of differences; there it is zero.
    h = 1e-4
    for away in (0.03, 0.0):
        moves = [(direction, away) for direction in directions]
        slopes = information.score(one, rows, at(moves), directions)
        numbers = [
            (value([*moves, (d, h)]) - value([*moves, (d, -h)])) / (2 * h)
            for d in directions
        ]
        np.testing.assert_allclose(slopes, numbers, atol=1e-4, rtol=1e-5)
        free = [d.name == "slopes" for d in directions]
        size = np.abs(slopes[free]).max()
        assert size < 1e-3 if away == 0 else size > 0.1


@pytest.mark.parametrize("K", [1, 3, 5])
def test_compiled_functions_are_their_expressions(K, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n, width = 700, -(-K // 4) * 4
    p0, coefficients = rng.dirichlet(np.ones(K), size=K), rng.normal(size=(2, K * K))
    columns = rng.normal(size=(n, 2))
    if K > 1:
        p0[0, 1] = 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(p0)
    padded = Matrices.blank(n, K)
    columns[3] *= 500.0
    logit_kernels.probabilities(columns, coefficients, logs, padded)
    p = softmax((columns @ coefficients).reshape(n, K, K) + logs, axis=2)
    np.testing.assert_allclose(padded[0, :, :K, :K], p, rtol=1e-11, atol=1e-300)
    np.testing.assert_array_equal(padded[1], padded[0].transpose(0, 2, 1))
    assert padded.sum() == pytest.approx(2 * n * K)
    before, after = rng.random((2, n, width))
    which = rng.integers(n, size=n)
    for rows in (which, which[:0]):
        pairs = np.empty((n, K, K))
        logit_kernels.row_transitions(before, after, padded, rows, pairs)
        A = p[rows[:-1]] if len(rows) else p[:1]
        expected = before[:-1, :K, None] * A * after[1:, None, :K]
        np.testing.assert_allclose(pairs[:-1], expected, rtol=1e-12)
        np.testing.assert_array_equal(pairs[-1], 0.0)
    slopes, curvatures = np.zeros((2, K * K)), np.zeros((3, K * K * (K + 1) // 2))
    logit_kernels.derivatives(pairs, padded[0], columns, slopes, curvatures)
    e = pairs.sum(axis=2)[:, :, None] * p
    np.testing.assert_allclose(slopes, columns.T @ (pairs - e).reshape(n, -1))
    full = e[:, :, :, None] * (np.eye(K) - p[:, :, None, :])
    one, other = np.tril_indices(K)
    squares = columns[:, [0, 1, 1]] * columns[:, [0, 0, 1]]
    expected = squares.T @ full[:, :, one, other].reshape(n, -1)
    np.testing.assert_allclose(curvatures, expected, atol=1e-9)


def test_a_constant_covariate_changes_nothing():
    plain = model(tol=1e-8).fit(X, lengths=LENGTHS)
    for constant in (np.ones(N), np.full((N, 2), 1e8 / 3)):
        hmm = model(tol=1e-8).fit(X, covariates=constant, lengths=LENGTHS)
        np.testing.assert_allclose(hmm.transitions_, plain.transitions_, rtol=1e-10)
        assert not hmm.transition_coefficients_.any()
        assert hmm.n_iter_ == plain.n_iter_
        given = {"lengths": LENGTHS, "covariates": constant}
        assert hmm.bic(X, **given) == pytest.approx(plain.bic(X, lengths=LENGTHS))


@quiet
@pytest.mark.parametrize(
    "solver, tolerance",
    [("iem", 1e-7), ("squarem", 1e-8), ("fittem", 1e-5), ("saem", 2e-2)],
)
def test_solvers_end_where_em_does(solver, tolerance):
    lengths = [60] * 10
    ends = []
    for name in ("em", solver):
        hmm = model(solver=name, tol=1e-9, max_iter=200 if name == "em" else 25)
        start = {"means": MEANS[:, None], "covariances": np.ones((3, 1, 1))}
        hmm.set_params(emission_init=start, transitions_prior=1.5,
                       start_init=np.full(3, 1 / 3),
                       transitions_init=np.exp(INTERCEPTS))  # fmt: skip
        hmm.fit(X, covariates=Z, lengths=lengths)
        fitted, rows = hmm._asked(X, None, lengths, Z)
        settings = SequenceSettings.of(hmm.get_params(), 3, fitted.model.emission)
        chain = settings.model(rows).chain
        score = hmm.score(X, covariates=Z, lengths=lengths)
        ends.append(score - chain.penalty(fitted.params.chain))
    assert ends[1] - ends[0] == pytest.approx(0.0, abs=tolerance)


def test_statsmodels():
    statsmodels = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    z, states = rng.normal(size=150), np.zeros(150, int)
    for t in range(1, 150):
        leaves = 1 / (1 + np.exp(1.0 + (1.0 if states[t - 1] else -1.0) * z[t]))
        states[t] = states[t - 1] ^ (rng.random() < leaves)
    y = 2.5 * states + rng.normal(size=150)
    rows = y[:, None]
    exog = np.column_stack([np.ones(len(y)), z])
    theirs = statsmodels.tsa.MarkovRegression(
        y, k_regimes=2, switching_variance=True, exog_tvtp=exog
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = theirs.fit(disp=False)
    A = theirs.regime_transition_matrix(fit.params).transpose(2, 1, 0)  # (n, from, to)
    first = theirs.initial_probabilities(fit.params) @ A[0]
    names = dict(zip(theirs.param_names, fit.params, strict=True))
    logits = np.array([[names[f"p[{i}->0].tvtp{c}"] for c in (0, 1)] for i in (0, 1)])
    at_mean = 1 / (1 + np.exp(-(logits @ [1.0, z.mean()])))
    hmm = HiddenMarkovModel(
        2, emission=Regression(), tol=1e-9, random_state=0
    ).fit(rows, covariates=z)  # fmt: skip
    own = hmm.score_samples(rows, covariates=z)[0]
    assert own > fit.llf - 1e-6
    # At their parameters the likelihood is theirs.
    hmm.start_ = first
    hmm.transitions_ = np.column_stack([at_mean, 1 - at_mean])
    signs = np.array([[[0.0], [-1.0]], [[1.0], [0.0]]])
    hmm.transition_coefficients_ = signs * logits[:, 1][:, None, None]
    np.testing.assert_allclose(matrices_of(hmm, z[:, None]), A, rtol=1e-8)
    means = [names["const[0]"], names["const[1]"]]
    variances = [names["sigma2[0]"], names["sigma2[1]"]]
    hmm.emission_params_ = hmm.emission_params_._replace(
        coefficients=np.reshape(means, (2, 1, 1)),
        variances=np.reshape(variances, (2, 1)),
    )
    value = hmm.score_samples(rows, covariates=z)[0]
    assert value == pytest.approx(fit.llf, abs=1e-6)
    hmm.transition_coefficients_ = -hmm.transition_coefficients_
    assert abs(hmm.score_samples(rows, covariates=z)[0] - fit.llf) > 0.1


def test_forecasts_and_samples_follow_the_covariates(whole, global_random_seed):
    future = np.array([[2.0, 3.0], [0.0, 5.0]])
    given = {"covariates": Z, "lengths": LENGTHS}
    found = whole.forecast(X, 2, future_covariates=future, n_draws=5, **given)
    last = whole.filter(X, **given)[np.cumsum(LENGTHS) - 1]
    A = matrices_of(whole, future)
    np.testing.assert_allclose(found.probabilities[:, 0], last @ A[0], rtol=1e-12)
    np.testing.assert_allclose(found.probabilities[:, 1], last @ A[0] @ A[1])
    assert found.draws.shape == (5, 3, 2, 1)
    each = np.stack([future, future[::-1], future])
    several = whole.forecast(X, 2, future_covariates=each, n_draws=0, **given)
    np.testing.assert_allclose(several.probabilities[0], found.probabilities[0])
    assert np.abs(several.probabilities[1] - found.probabilities[1]).max() > 0.01
    covariates = np.tile([[0.0, 3.0], [2.0, 4.0], [-1.0, 2.0]], (5000, 1))
    drawn_by = whole.set_params(random_state=global_random_seed)
    _, states = drawn_by.sample(lengths=[3] * 5000, covariates=covariates)
    whole.set_params(random_state=0)
    p = whole.start_
    for t in range(3):
        p = p @ matrices_of(whole, covariates[t : t + 1])[0] if t else p
        shares = np.bincount(states[t::3], minlength=3) / 5000
        assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / 5000) + 1e-9).all()


def test_pieces_are_filtered_as_the_whole(whole):
    together = whole.filter(X[150:], covariates=Z[150:])
    first = whole.filter(X[150:200], covariates=Z[150:200])
    later = whole.filter(X[200:], covariates=Z[200:], previous=first[-1])
    np.testing.assert_allclose(np.concatenate([first, later]), together, atol=1e-12)
    stream = model()
    for piece in np.array_split(np.arange(N), 4):
        stream.partial_fit(X[piece], covariates=Z[piece], continues=True)
    assert np.abs(stream.transition_coefficients_).max() > 0.05


def test_ways_of_giving_covariates(whole):
    frame = pd.DataFrame(Z, columns=["a", "b"]).assign(
        x=X, name=np.repeat([3, 1, 2], LENGTHS)
    )
    by_name = model(tol=1e-9).fit(frame, groups="name", covariates=["a", "b"])
    np.testing.assert_array_equal(
        by_name.transition_coefficients_, whole.transition_coefficients_
    )
    assert list(by_name.feature_names_in_) == ["x"]
    path = whole.predict(X, covariates=Z, lengths=LENGTHS)
    np.testing.assert_array_equal(
        by_name.predict(frame, groups="name", covariates=["a", "b"]), path
    )
    places = np.cumsum(LENGTHS)[:-1]
    parts = whole.predict(np.split(X, places), covariates=np.split(Z, places))
    np.testing.assert_array_equal(parts, path)
    filled = by_name.impute(frame, groups="name", covariates=["a", "b"])
    np.testing.assert_array_equal(filled, X)
    groups = np.repeat(np.arange(30), 20)
    with config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            model(tol=1e-3), X, cv=GroupKFold(2),
            params={"groups": groups, "covariates": Z},
        )  # fmt: skip
    assert np.isfinite(scores).all()


def test_what_is_refused(whole):
    with pytest.raises(ValueError, match="depend on 2 covariate"):
        whole.predict(X, lengths=LENGTHS)
    with pytest.raises(ValueError, match="must have the shape"):
        whole.predict(X, lengths=LENGTHS, covariates=Z[:, :1])
    with pytest.raises(ValueError, match="fitted without covariates"):
        model(max_iter=1, tol=0).fit(X).predict(X, covariates=Z)
    with pytest.raises(ValueError, match="durations=None"):
        model(durations="poisson").fit(X, covariates=Z)
    with pytest.raises(ValueError, match="NaN"):
        model().fit(X, covariates=np.where(Z > 4, np.nan, Z))
    with pytest.raises(ValueError, match="names of columns"):
        model().fit(pd.DataFrame(X, columns=["x"]), covariates="a")
    with pytest.raises(ValueError, match="pass future_covariates"):
        whole.forecast(X, covariates=Z, lengths=LENGTHS)
    with pytest.raises(ValueError, match="an array for each"):
        whole.predict([X[:5], X[5:9]], covariates=[Z[:5], Z[5:8]])


def test_refits_and_separation():
    hmm = model(max_iter=3, tol=0, warm_start=True).fit(X, covariates=Z)
    before = hmm.score(X, covariates=Z)
    hmm.fit(X, covariates=Z + 1.0)
    assert hmm.lower_bounds_[0] < before  # the centre stays that of the first fit
    with pytest.raises(ValueError, match="the number of covariates changed"):
        hmm.fit(X)
    hmm.set_params(warm_start=False).fit(X)
    assert hmm.transition_coefficients_.shape == (3, 3, 0)
    assert np.isfinite(hmm.score(X))
    # A covariate that says when the state changes.
    states = np.repeat(np.arange(20) % 2, 15)
    rows = 8.0 * states[:, None] + np.random.default_rng(0).normal(size=(300, 1))
    changes = np.append(0.0, np.diff(states) != 0)
    with pytest.warns(StateWarning, match="certainty"):
        HiddenMarkovModel(2, random_state=0).fit(rows, covariates=changes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        noise = np.random.default_rng(1).normal(size=300)
        HiddenMarkovModel(2, emission=Gaussian(), random_state=0).fit(
            rows, covariates=noise
        )


@pytest.mark.parametrize("form", ["names", "values", "frame", "frames", "column"])
@pytest.mark.parametrize("seed", range(3))
def test_the_covariate_that_says_it_is_named(form, seed):
    rng = np.random.default_rng(seed)
    states = np.arange(200) // 20 % 2
    X = pd.DataFrame({"x": rng.normal(size=200) + 6.0 * states})
    X["calm"], X["sure"] = rng.normal(size=200), np.append(0, np.diff(states))
    rows, given, named = X, ["calm", "sure"], "'sure'"
    if form == "values":
        rows, given, named = X[["x"]], X[given].to_numpy(), "1"
    elif form == "frame":
        rows, given = X[["x"]], X[given]
    elif form == "frames":
        rows, given = [X[["x"]][:90], X[["x"]][90:]], [X[given][:90], X[given][90:]]
    elif form == "column":
        rows, given = X[["x"]], X["sure"]
    hmm = HiddenMarkovModel(2, random_state=seed)
    with pytest.warns(StateWarning, match=f"Covariate {named} nearly says"):
        hmm.fit(rows, covariates=given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StateWarning)
        hmm.fit(X[["x"]], covariates=X["calm"].to_numpy())
