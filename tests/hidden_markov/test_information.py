"""Standard errors: differences of the likelihood, closed forms, repeated data."""

import numpy as np
import pytest
from sklearn.base import clone

from sktem import Durations, HiddenMarkovModel
from sktem.emissions import (
    Autoregression,
    Categorical,
    Columns,
    Gaussian,
    LogNormal,
    Mixture,
    Poisson,
    Regression,
    StudentT,
    VonMises,
    VonMisesFisher,
    VonMisesFisherParams,
)
from sktem.exceptions import FitWarning
from sktem.hidden_markov import information
from tests.hidden_markov.chains import draw_sequences

START, A = np.array([0.6, 0.4]), np.array([[0.85, 0.15], [0.25, 0.75]])
LENGTHS = np.full(20, 12)
GAUSSIAN, STATES = draw_sequences(
    LENGTHS, START, A, [[0.0, 0.0], [2.0, 1.0]], np.random.default_rng(0)
)
RNG = np.random.default_rng(1)
SEGMENTS = [np.repeat(np.arange(20) % 2, 1 + RNG.binomial(3, 0.5, 20)) for _ in LENGTHS]
LASTING = np.concatenate([one[first:][:12] for first, one in enumerate(SEGMENTS)])
LASTING = 6.0 * LASTING[:, None] + RNG.normal(size=(240, 1))
OTHER = np.random.default_rng(2).normal(size=240)
DRIVEN = np.column_stack([GAUSSIAN.sum(axis=1) + 3 * STATES, OTHER])
CASES = {
    "full": ("gaussian", GAUSSIAN, {}),
    "holes": (Gaussian("tied"), np.where(RNG.random(GAUSSIAN.shape) < 0.2, np.nan,
              GAUSSIAN), {}),
    "diag": (Gaussian("diag"), GAUSSIAN, {"tied_transitions": [0, 0]}),
    "spherical": (Gaussian("spherical"), GAUSSIAN, {"fixed": ("start",)}),
    "stationary": ("gaussian", GAUSSIAN, {"start": "stationary"}),
    "tied and stationary": ("gaussian", GAUSSIAN[:, :1], {
        "start": "stationary", "tied_transitions": [0, 0]}),
    "stationary histories": (Autoregression(1), GAUSSIAN[:, :1], {
        "start": "stationary"}),
    "poisson": ("poisson", RNG.poisson(np.array([1.0, 6.0])[STATES])[:, None], {}),
    "bernoulli": ("bernoulli",
                  RNG.random((240, 3)) < np.array([0.2, 0.8])[STATES][:, None], {}),
    "regression": (Regression(exog=[1]), GAUSSIAN * [1.0, 30.0] + [0.0, 20.0], {}),
    "shared variance": (Regression(order=1, switching_variance=False), GAUSSIAN, {}),
    "shared slope": (Regression(exog=[1], shared=[1]), GAUSSIAN, {}),
    "means before": (Autoregression(2), GAUSSIAN, {}),
    "means by exog": (Autoregression(1, exog=[1], switching_variance=False),
                      DRIVEN * [1.0, 30.0] + [0.0, 20.0], {}),
    "shared exog": (Autoregression(1, exog=[1], shared=[1]), DRIVEN, {}),
    "shared lags": (Autoregression(1, False, False), GAUSSIAN[:, :1], {}),
    "categorical": (Categorical(),
                    np.where(RNG.random((240, 2)) < 0.6, 2 * STATES[:, None],
                             RNG.integers(3, size=(240, 2))), {}),
    "exponential": ("exponential", RNG.exponential(1 + 9 * STATES)[:, None], {}),
    "gamma": ("gamma", RNG.gamma(3.0, 1 + 9 * STATES)[:, None], {}),
    "log-normal": (LogNormal("full"), np.exp(GAUSSIAN), {}),
    "negative binomial": ("negative_binomial", RNG.negative_binomial(
        2.0, np.array([0.5, 0.1])[STATES])[:, None], {}),
    "angles": ("von_mises", RNG.vonmises(2.0 * STATES, 4.0)[:, None] % (2 * np.pi),
               {}),
    "student": (StudentT("diag"), 3 * STATES[:, None] + RNG.standard_t(4, (240, 2)),
                {}),
    "totals": ("multinomial", RNG.multinomial(
        20, np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])[STATES]), {}),
    "negative binomial durations": ("gaussian", GAUSSIAN, {
        "durations": Durations(longest=15)}),
    "poisson durations": ("gaussian", GAUSSIAN, {
        "durations": Durations("poisson", longest=15), "fixed": ["emission"]}),
    "table": ("gaussian", LASTING, {"durations": Durations("table", longest=4)}),
    "begun before": ("gaussian", LASTING, {
        "durations": Durations("poisson", longest=9, left_censored=True)}),
    "table begun before": ("gaussian", LASTING, {
        "durations": Durations("table", longest=4, left_censored=True)}),
    "columns": (Columns([("numbers", Gaussian(), [0, 1]), ("counts", Poisson(), [2])]),
                np.column_stack([GAUSSIAN, RNG.poisson(1 + 5 * STATES)]), {}),
}  # fmt: skip


def fitted(name):
    emission, X, options = CASES[name]
    X = np.asarray(X, dtype=float)
    hmm = HiddenMarkovModel(2, emission=emission, random_state=0, tol=1e-11, **options)
    return hmm.fit(X, lengths=LENGTHS), X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Only one of:sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore:.*as long as the longest duration")
@pytest.mark.parametrize("name", CASES)
def test_differences_of_the_likelihood(name):
    hmm, X = fitted(name)
    one, rows = hmm._asked(X, None, LENGTHS)
    model, params = one.model, one.params
    directions = list(model.chain.free_directions(*[params.chain] * 2, rows))
    if not model.fixed_emission:
        both = [params.emission] * 2
        directions += list(model.emission.free_directions(*both, rows.X))
    assert len(directions) == model.n_parameters(params, rows.shape[1])

    def moved_by(moves):
        chain = [move for move in moves if move[0].slot is None]
        emission = [move for move in moves if move[0].slot is not None]
        return params._replace(
            chain=model.chain.moved(params.chain, chain),
            emission=model.emission.moved(params.emission, emission),
        )

    def value(moves):
        return model.log_likelihood_of_sequences(rows, moved_by(moves)).sum()

    # The score, away from the optimum.
    away = [(direction, 0.02) for direction in directions]
    moved = moved_by(away)
    slopes = information.score(model, rows, moved, directions)
    h = 1e-4
    for direction, slope in zip(directions, slopes, strict=True):
        up, down = (value([*away, (direction, step)]) for step in (h, -h))
        assert slope == pytest.approx((up - down) / (2 * h), abs=2e-4, rel=1e-5)
    # The information, by second differences.
    count, h = len(directions), 2e-3
    H = np.empty((count, count))
    for i in range(count):
        for j in range(i + 1):
            terms = [
                s * t * value([(directions[i], s * h), (directions[j], t * h)])
                for s in (1, -1)
                for t in (1, -1)
            ]
            H[i, j] = H[j, i] = sum(terms) / (4 * h * h)
    covariance = information.Covariance(np.linalg.inv(-H), np.empty((count, 0)))
    expected, _ = information._errors(model, params, directions, covariance)
    found = hmm.standard_errors(X, lengths=LENGTHS)
    for field in ("start", "transitions", "durations", "mean_durations"):
        left, right = (getattr(errors, field) for errors in (found, expected))
        if right is not None:
            np.testing.assert_allclose(left, right, rtol=1e-3)
    emission = hmm.emission_params_
    pairs = [(found.emission, expected.emission, emission)]
    if name == "columns":
        names = ["numbers", "counts"]
        blocks = zip(names, emission.blocks, strict=True)
        pairs = [(found[2][name], expected[2][name], block) for name, block in blocks]
    for ours, theirs, block in pairs:
        for field, values in theirs.items():
            np.testing.assert_allclose(ours[field], values, rtol=1e-3)
            assert values.shape == getattr(block, field).shape


def test_closed_forms_of_known_states():
    hmm = HiddenMarkovModel(2, emission=Gaussian("diag", reg_covar=0.0), tol=1e-10)
    far = GAUSSIAN + 200.0 * STATES[:, None]  # no doubt about states
    hmm.fit(far, lengths=LENGTHS)
    found = hmm.standard_errors(far, lengths=LENGTHS)
    first = hmm.emission_params_.means[:, 0].argmin()
    order = np.array([first, 1 - first])
    states = hmm.predict(far, lengths=LENGTHS)
    inner = np.arange(len(far)) % 12 < 11  # a transition follows
    for k in order:
        n, p = (states == k).sum(), hmm.transitions_[k]
        variances = hmm.emission_params_.covariances[k]
        errors = found.emission
        np.testing.assert_allclose(
            errors["means"][k], np.sqrt(variances / n), rtol=1e-4
        )
        expected = variances * np.sqrt(2 / n)
        np.testing.assert_allclose(errors["covariances"][k], expected, rtol=1e-4)
        count = ((states == k) & inner).sum()
        expected = np.sqrt(p[0] * p[1] / count)
        np.testing.assert_allclose(found.transitions[k], expected, rtol=1e-4)
    expected = np.sqrt(hmm.start_.prod() / len(LENGTHS))
    np.testing.assert_allclose(found.start, expected, rtol=1e-4)
    # Weights mean repetitions.
    four = hmm.standard_errors(
        far, lengths=LENGTHS, sample_weight=np.full(len(LENGTHS), 4.0)
    )
    np.testing.assert_allclose(four.transitions, 0.5 * found.transitions, rtol=1e-6)


def test_least_squares():
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(200), rng.normal(size=(200, 2)) * [1.0, 50.0]])
    y = x @ [1.0, 2.0, -0.1] + rng.normal(size=200)
    emission = Regression(exog=[1, 2], reg_covar=0.0)
    X = np.column_stack([y, x[:, 1:]])
    found = HiddenMarkovModel(1, emission=emission).fit(X).standard_errors(X)
    left = y - x @ np.linalg.lstsq(x, y)[0]
    expected = np.sqrt((left @ left / 200) * np.diag(np.linalg.inv(x.T @ x)))
    errors = found.emission
    np.testing.assert_allclose(errors["coefficients"][0, 0], expected, rtol=1e-5)
    expected = (left @ left / 200) * np.sqrt(2 / 200)
    np.testing.assert_allclose(errors["variances"][0, 0], expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Only one of:sktem.exceptions.FitWarning")
def test_errors_are_those_of_repeated_data():
    rng = np.random.default_rng(5)
    estimates, errors = [], []
    values = {"means": [[0.0], [2.5]], "covariances": np.ones((2, 1, 1))}
    begin = {"start_init": START, "transitions_init": A, "emission_init": values}
    for _ in range(60):
        X, _ = draw_sequences([400], START, A, [[0.0], [2.5]], rng)
        hmm = HiddenMarkovModel(2, random_state=0, tol=1e-7, **begin).fit(X)
        order = hmm.emission_params_.means.ravel().argsort()
        found = hmm.standard_errors(X)
        assert np.isnan(found.start).all()  # one sequence has one start
        estimates.append([*hmm.emission_params_.means[order, 0],
                          *np.diagonal(hmm.transitions_)[order]])  # fmt: skip
        errors.append([*found.emission["means"][order, 0],
                       *np.diagonal(found.transitions)[order]])  # fmt: skip
    ratio = np.std(estimates, axis=0, ddof=1) / np.sqrt(np.mean(np.square(errors), 0))
    # A standard deviation of 60 has a relative error of 9 %.
    assert (np.abs(ratio - 1.0) < 4 * 0.092).all()


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_what_has_no_errors():
    hmm, X = fitted("full")
    fixed = clone(hmm).set_params(
        transitions_init=hmm.transitions_, fixed=["transitions", "start"]
    )
    found = fixed.fit(X, lengths=LENGTHS).standard_errors(X, lengths=LENGTHS)
    assert np.isnan(found.transitions).all() and np.isnan(found.start).all()
    assert np.isfinite(found.emission["means"]).all()
    fixed.set_params(durations=Durations("poisson", longest=15), transitions_init=None)
    fixed.set_params(fixed=["durations"])
    found = fixed.fit(X, lengths=LENGTHS).standard_errors(X, lengths=LENGTHS)
    assert np.isnan(found.durations).all() and found.durations.shape == (2, 15)
    assert np.isnan(found.mean_durations).all()
    mixed = clone(hmm).set_params(emission=Mixture(Gaussian("diag"), 2), tol=1e-2)
    with pytest.raises(ValueError, match="has free_directions"):
        mixed.fit(X, lengths=LENGTHS).standard_errors(X, lengths=LENGTHS)
    with pytest.warns(FitWarning, match="standard errors away from the optimum"):
        hmm.standard_errors(1.1 * X, lengths=LENGTHS)
    same = {
        "means": np.zeros((2, 2)),
        "covariances": np.tile(9.0 * np.eye(2), (2, 1, 1)),
    }
    saddle = HiddenMarkovModel(
        2, start_init=START, transitions_init=A, emission_init=same, fixed=["emission"]
    )
    far = X + 9.0 * STATES[:, None]
    saddle.fit(far, lengths=LENGTHS).set_params(fixed=())
    with pytest.warns(FitWarning, match="not positive definite"):
        errors = saddle.standard_errors(far, lengths=LENGTHS)
    assert np.isnan(errors.emission["means"]).all()


@pytest.mark.parametrize("name", ["exponential", "gamma"])
def test_units_do_not_matter(name):
    hmm, X = fitted(name)
    expected = hmm.standard_errors(X, lengths=LENGTHS).emission["scales"]
    far = clone(hmm).fit(1e-12 * X, lengths=LENGTHS)
    found = far.standard_errors(1e-12 * X, lengths=LENGTHS).emission["scales"]
    np.testing.assert_allclose(found, 1e-12 * expected, rtol=1e-3)


def test_certain_columns_have_no_errors_and_the_others_have():
    X = np.column_stack([STATES, CASES["bernoulli"][1]]).astype(float)
    hmm = HiddenMarkovModel(2, emission="bernoulli", random_state=0, tol=1e-9)
    errors = hmm.fit(X, lengths=LENGTHS).standard_errors(X, lengths=LENGTHS)
    found = errors.emission["probabilities"]
    assert np.isnan(found[:, 0]).all() and np.isfinite(found[:, 1:]).all()


def test_what_is_open_in_one_state_leaves_the_others():
    angles = np.random.default_rng(0).vonmises(1.0, 4.0, 240) % (2 * np.pi)
    first = np.flatnonzero(STATES == 0)
    angles[first] = np.nan
    first = first[: len(first) // 8 * 8]
    angles[first] = np.pi * np.arange(len(first)) / 4 % (2 * np.pi)
    X = np.column_stack([angles, GAUSSIAN[:, 0] + 20.0 * STATES])
    emission = Columns([("angle", VonMises(), [0]), ("number", Gaussian(), [1])])
    hmm = HiddenMarkovModel(2, random_state=0, tol=1e-9).fit(X[:, 1:], lengths=LENGTHS)
    expected = hmm.standard_errors(X[:, 1:], lengths=LENGTHS)
    before = hmm.emission_params_.means[:, 0]
    hmm.set_params(emission=emission).fit(X, lengths=LENGTHS)
    angle, number = hmm.emission_params_.blocks
    # Which state is the first one hangs on the last bits of a start.
    same = np.argsort(before)[np.argsort(np.argsort(number.means[:, 0]))]
    transitions = expected.transitions[np.ix_(same, same)]
    wide = int(angle.concentrations.argmin())
    assert angle.concentrations[wide] < 1e-6
    for least in (1e-12, 1e-7, 1e-5, 1e-3):
        concentrations = angle.concentrations.copy()
        concentrations[wide] = least
        angle = angle._replace(concentrations=concentrations)
        hmm.emission_params_ = hmm.emission_params_._replace(blocks=(angle, number))
        with pytest.warns(FitWarning, match=rf"leave angle: directions\[{wide}, 0\]"):
            found = hmm.standard_errors(X, lengths=LENGTHS)
        errors = found.emission["angle"]["directions"].ravel()
        assert np.isnan(errors[wide]) and np.isfinite(errors[1 - wide])
        np.testing.assert_allclose(found.transitions, transitions, rtol=1e-3)
        for name, values in expected.emission.items():
            np.testing.assert_allclose(
                found[2]["number"][name], values[same], rtol=1e-3
            )


@pytest.mark.filterwarnings("ignore:State.s. .* account for no more")
@pytest.mark.filterwarnings("ignore:The fit recovered from numerical problems")
def test_a_state_without_rows_has_no_errors_and_the_others_have():
    hmm, X = fitted("full")
    expected = hmm.standard_errors(X, lengths=LENGTHS)
    params = hmm.emission_params_
    values = {
        name: np.concatenate([getattr(params, name), [getattr(params, name)[0]]])
        for name in ("means", "covariances")
    }
    values["means"][2] += 1e4
    three = np.eye(3)
    three[:2, :2] = hmm.transitions_
    three[2] = 1 / 3
    more = clone(hmm).set_params(
        n_states=3, start_init=[*hmm.start_, 0.0], transitions_init=three,
        emission_init=values, tol=1e-9,
    )  # fmt: skip
    more.fit(X, lengths=LENGTHS)
    with pytest.warns(FitWarning, match=r"The data leave transitions\[2, 0\], .* more"):
        found = more.standard_errors(X, lengths=LENGTHS)
    np.testing.assert_allclose(found.transitions[:2, :2], expected[1], rtol=1e-3)
    for name in ("means", "covariances"):
        ours = found.emission[name]
        assert np.isnan(ours[2]).all()
        np.testing.assert_allclose(ours[:2], expected.emission[name], rtol=1e-3)


def test_columns_that_are_multiples_leave_the_others():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 2))
    y = x @ [2.0, -0.1] + rng.normal(size=200)
    short = np.column_stack([y, x])
    emission = Regression(exog=[1, 2], reg_covar=0.0)
    hmm = HiddenMarkovModel(1, emission=emission)
    expected = hmm.fit(short).standard_errors(short).emission
    emission = Regression(exog=[1, 2, 3], reg_covar=0.0)
    twice = np.column_stack([short, 3.0 * x[:, 0]])
    hmm = HiddenMarkovModel(1, emission=emission).fit(twice)
    with pytest.warns(FitWarning, match=r"leave coeff.*0, 1\], coeff.*0, 3\] open"):
        found = hmm.standard_errors(twice).emission
    np.testing.assert_allclose(found["variances"], expected["variances"], rtol=1e-5)
    errors = found["coefficients"][0, 0]
    np.testing.assert_array_equal(np.isnan(errors), [False, True, False, True])
    kept = expected["coefficients"][0, 0, [0, 2]]
    np.testing.assert_allclose(errors[[0, 2]], kept, rtol=1e-5)


def test_rows_of_length_one():
    # Of one state, in closed form.
    rng = np.random.default_rng(0)
    n, unit = 300, np.array([0.6, 0.0, 0.8])
    X = VonMisesFisher().sample(
        VonMisesFisherParams(unit[None], np.array([3.0])), np.zeros(n, int), rng
    )
    hmm = HiddenMarkovModel(1, emission="von_mises_fisher", tol=1e-12).fit(X)
    found, params = hmm.standard_errors(X).emission, hmm.emission_params_
    c = params.concentrations[0]
    length = 1.0 / np.tanh(c) - 1.0 / c
    across = np.sqrt(1.0 - params.directions[0] ** 2)
    expected = across / np.sqrt(n * c * length)
    np.testing.assert_allclose(found["directions"][0], expected, rtol=1e-5)
    slope = 1.0 / c**2 - 1.0 / np.sinh(c) ** 2
    expected = 1.0 / np.sqrt(n * slope)
    np.testing.assert_allclose(found["concentrations"][0], expected, rtol=1e-5)
    # In two columns they are those of angles.
    angles = CASES["angles"][1]
    options = {"random_state": 0, "tol": 1e-11}
    hmm = HiddenMarkovModel(2, emission="von_mises", **options)
    expected = hmm.fit(angles, lengths=LENGTHS).standard_errors(angles, lengths=LENGTHS)
    first = hmm.emission_params_.directions.ravel().argsort()
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    hmm = HiddenMarkovModel(2, emission="von_mises_fisher", **options)
    found = hmm.fit(X, lengths=LENGTHS).standard_errors(X, lengths=LENGTHS)
    units = hmm.emission_params_.directions
    order = np.arctan2(units[:, 1], units[:, 0]).argsort()
    errors = expected.emission["directions"][first] * np.abs(units[order, ::-1])
    np.testing.assert_allclose(found.emission["directions"][order], errors, rtol=1e-3)
    ours, theirs = (one.emission["concentrations"].ravel() for one in (found, expected))
    np.testing.assert_allclose(ours[order], theirs[first], rtol=1e-3)
    # A state without a mean direction leaves the other one.
    grid = np.pi * np.arange(120) / 4
    angles[:120, 0] = grid
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    states = np.repeat([0, 1], 120)
    hmm.fit(X, lengths=LENGTHS, states=states)
    with pytest.warns(FitWarning, match=r"leave directions\[0, 0\]"):
        errors = hmm.standard_errors(X, lengths=LENGTHS, states=states)
    errors = errors.emission["directions"]
    assert np.isnan(errors[0]).all() and np.isfinite(errors[1]).all()


def test_known_states():
    weak = GAUSSIAN[:, :1]
    hmm = HiddenMarkovModel(2, random_state=0, tol=1e-10)
    hmm.fit(weak, lengths=LENGTHS, states=STATES)
    found = hmm.standard_errors(weak, lengths=LENGTHS, states=STATES)
    counts = np.bincount(STATES)
    expected = np.sqrt(hmm.emission_params_.covariances[:, 0, 0] / counts)
    np.testing.assert_allclose(found.emission["means"][:, 0], expected, rtol=1e-4)
    # The negative control: without them the errors are larger, and of another optimum.
    with pytest.warns(FitWarning, match="standard errors away from the optimum"):
        errors = hmm.standard_errors(weak, lengths=LENGTHS).emission["means"]
    assert (errors[:, 0] > 1.2 * expected).all()


@pytest.mark.parametrize("shared", [[], [1]])
@pytest.mark.parametrize("kind", [Regression, Autoregression])
@pytest.mark.filterwarnings("ignore:Only one of:sktem.exceptions.FitWarning")
def test_where_regressors_begin_does_not_matter(kind, shared):
    emission = kind(1, exog=[1], shared=shared)
    hmm = HiddenMarkovModel(2, emission=emission, random_state=0, tol=1e-10)
    hmm.fit(DRIVEN, lengths=LENGTHS)
    expected = hmm.standard_errors(DRIVEN, lengths=LENGTHS).emission
    far = DRIVEN + [0.0, 1e6]
    found = hmm.fit(far, lengths=LENGTHS).standard_errors(far, lengths=LENGTHS).emission
    if kind is Regression:
        slopes, levels = (..., slice(1, None)), (..., 0)
        pairs = [(one["coefficients"][slopes]) for one in (found, expected)]
        level, slope = found["coefficients"][levels], found["coefficients"][..., 1]
    else:
        pairs = [one["exog_coefficients"] for one in (found, expected)]
        level, slope = found["means"], found["exog_coefficients"][..., 0]
    np.testing.assert_allclose(*pairs, rtol=1e-3)
    np.testing.assert_allclose(found["variances"], expected["variances"], rtol=1e-3)
    # Where the column is 0 is far away: there the slope is all that matters.
    np.testing.assert_allclose(level, 1e6 * slope, rtol=1e-3)
