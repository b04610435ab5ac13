"""BoltzmannMachineRegressor: exact densities, their gradient, what is learned."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.integrate import quad, simpson
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

from sktem import BoltzmannMachineClassifier, BoltzmannMachineRegressor, budget
from sktem.boltzmann.conditional.real_outputs import RealOutputs
from sktem.evaluation import enumerate_states
from sktem.exceptions import FitWarning

X, ONE = load_diabetes(return_X_y=True)
X, ONE = X[:120, :4] * 20 + 3, ONE[:120]
NOISE = np.random.default_rng(0).normal(size=120)
TWO = np.column_stack([ONE, 0.5 * X[:, 0] ** 2 + 0.02 * ONE + NOISE])


def fitted(y=ONE, **options):
    given = {"n_hidden": 3, "random_state": 0, "tol": 1e-3, **options}
    return BoltzmannMachineRegressor(**given).fit(X, y)


def exponents(machine, rows, y):
    """Return the log of ``p(y, h | x)`` times a factor, by row and hidden state."""
    states = enumerate_states(len(machine.hidden_biases_))
    variances = np.atleast_1d(machine.noise_variance_)
    above = y - (rows @ np.atleast_2d(machine.coef_).T + machine.intercept_)
    fields = rows @ machine.weights_ + machine.hidden_biases_
    fields = fields + above / variances @ np.atleast_2d(machine.output_weights_)
    return fields @ states.T - 0.5 * (above**2 / variances).sum(axis=1, keepdims=True)


def test_densities_are_those_of_all_states():
    machine, ys = fitted(), np.linspace(-800, 1200, 20001)
    for row, y in zip(X[:5], ONE[:5], strict=True):
        rows = np.tile(row, (len(ys), 1))
        joint = logsumexp(exponents(machine, rows, ys[:, None]), axis=1)
        log_sum = np.log(simpson(np.exp(joint), x=ys))
        own = logsumexp(exponents(machine, row[None], np.array([[y]])))
        found = machine.log_likelihood(row[None], [y])
        assert found == pytest.approx(own - log_sum, abs=1e-8)
        density = np.exp(joint - log_sum)
        mean = simpson(ys * density, x=ys)
        std = np.sqrt(simpson((ys - mean) ** 2 * density, x=ys))
        means, stds = machine.predict(row[None], return_std=True)
        np.testing.assert_allclose([means[0], stds[0]], [mean, std], rtol=1e-7)


def test_a_density_of_two_outputs_integrates_to_one():
    machine = fitted(TWO)
    # Of the second output given the first one, and of the first one alone.
    rows, grid = np.tile(X[:1], (401, 1)), np.linspace(-10, 20, 401)

    def of_first(first):
        y = np.column_stack([np.full(401, first), grid])
        return simpson(np.exp(machine.fitted_.log_likelihoods(rows, y)), x=grid)

    assert quad(of_first, -500, 900, limit=200)[0] == pytest.approx(1.0, abs=1e-5)
    mean = quad(lambda x: x * of_first(x), -500, 900, limit=200)[0]
    assert machine.predict(X[:1])[0, 0] == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize(("n_outputs", "n_hidden"), [(1, 0), (1, 3), (3, 2)])
def test_gradient(n_outputs, n_hidden):
    rng = np.random.default_rng(0)
    machine = RealOutputs(4, n_hidden, np.full(n_outputs, 1e3), 0.1)
    params = 0.7 * rng.normal(size=machine.parts.n_parameters)
    machine.parts(params)[-1][:] = rng.uniform(0.5, 2, n_outputs)
    rows, y = rng.normal(size=(6, 4)), rng.normal(size=(6, n_outputs))
    shares = rng.dirichlet(np.ones(6))
    value, gradient = machine.loss(params, rows, y, shares)
    numeric = np.empty_like(params)
    for k in range(len(params)):
        step = np.zeros_like(params)
        step[k] = 1e-6
        above = machine.loss(params + step, rows, y, shares)[0]
        numeric[k] = (above - machine.loss(params - step, rows, y, shares)[0]) / 2e-6
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    W, V, *_, r = machine.parts(params)
    U = V / r[:, None]
    likelihoods = machine.log_likelihoods(params, rows, y)
    penalty = 0.05 * (np.sum(W**2) + np.sum(U**2))
    assert value == pytest.approx(penalty - shares @ likelihoods, rel=1e-12)


def test_blocks_of_rows_do_not_show():
    machine = fitted(TWO)
    n_times = 2 * budget.MEMORY.cached // (len(machine.fitted_.machine.states) * len(X))
    rows, y = np.tile(X, (n_times, 1)), np.tile(TWO, (n_times, 1))
    total = machine.log_likelihood(rows, y) / n_times
    assert total == pytest.approx(machine.log_likelihood(X, TWO), rel=1e-12)
    stds = machine.predict(X, return_std=True)[1]
    np.testing.assert_allclose(
        machine.predict(rows, return_std=True)[1],
        np.tile(stds, (n_times, 1)),
        rtol=1e-12,
    )


@pytest.mark.parametrize("y", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_hidden_units_it_is_linear_regression(y, weighted):
    weights = np.random.default_rng(0).random(len(X)) if weighted else None
    machine = BoltzmannMachineRegressor(0).fit(X, y, weights)
    peer = LinearRegression().fit(X, y, weights)
    assert machine.converged_
    np.testing.assert_allclose(machine.coef_, peer.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(machine.intercept_, peer.intercept_, rtol=1e-7)
    np.testing.assert_allclose(machine.predict(X), peer.predict(X), rtol=1e-9)
    variance = np.average((y - peer.predict(X)) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(machine.noise_variance_, variance, rtol=1e-6)
    expected = norm.logpdf(y, peer.predict(X), np.sqrt(variance)).sum()
    assert machine.log_likelihood(X, y) == pytest.approx(expected, rel=1e-9)
    assert machine.score(X, y) == pytest.approx(peer.score(X, y))
    assert machine.weights_.shape == (4, 0)


def branches(n, seed=0):
    """Return rows of two lines, and the log-density of their outputs."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    upper = rng.random(n) < expit(2 * x)
    y = 3 + x + 6 * upper + 0.5 * rng.normal(size=n)
    ends = norm.logpdf(y, 3 + x + np.array([[0], [6]]), 0.5)
    return x[:, None], y, logsumexp(ends + log_expit([-2 * x, 2 * x]), axis=0)


def test_two_branches():
    """One hidden unit chooses between two lines, with odds that depend on x."""
    rows, y, _ = branches(3000)
    machine = BoltzmannMachineRegressor(1, weight_decay=0, random_state=0).fit(rows, y)
    # The unit may be on for the upper line, or for the lower one.
    side = np.sign(machine.output_weights_[0])
    assert side * machine.output_weights_[0] == pytest.approx(6, abs=0.1)
    assert side * machine.weights_[0, 0] == pytest.approx(2, abs=0.4)
    np.testing.assert_allclose(machine.coef_, [1], atol=0.06)
    assert machine.noise_variance_ == pytest.approx(0.25, abs=0.03)
    others, theirs, truth = branches(3000, 1)
    assert abs(machine.log_likelihood(others, theirs) - truth.sum()) < 10
    linear = BoltzmannMachineRegressor(0).fit(rows, y)
    assert linear.log_likelihood(others, theirs) < truth.sum() - 1000
    drawn = machine.sample(np.full((4000, 1), 0.5)) - 3.5
    assert (np.minimum(np.abs(drawn), np.abs(drawn - 6)) < 2).all()
    assert (drawn > 3).mean() == pytest.approx(expit(1.0), abs=0.06)


def test_a_curve():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (800, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=800)
    machine = BoltzmannMachineRegressor(4, random_state=0).fit(x[:500], y[:500])
    assert machine.score(x[500:], y[500:]) > 0.95
    assert LinearRegression().fit(x[:500], y[:500]).score(x[500:], y[500:]) < 0.8


def test_draws_have_the_moments():
    machine = fitted(TWO)
    drawn = machine.sample(np.tile(X[:1], (40000, 1)))
    mean, std = machine.predict(X[:1], return_std=True)
    error = std[0] / 200
    assert (np.abs(drawn.mean(axis=0) - mean[0]) < 4 * error).all()
    np.testing.assert_allclose(drawn.std(axis=0), std[0], rtol=0.03)
    assert machine.sample(X).shape == (len(X), 2)
    assert fitted().sample(X).shape == (len(X),)
    again = machine.sample(np.tile(X[:1], (40000, 1)))
    np.testing.assert_array_equal(drawn, again)


def test_weights_and_units_of_columns():
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    # With a tenth of this prior there are two optima, and rounding decides between.
    machine = BoltzmannMachineRegressor(2, random_state=0, tol=1e-6, weight_decay=0.1)
    weighted = machine.fit(X, ONE, sample_weight=weights).predict(X)
    repeated = np.repeat(X, weights, axis=0), np.repeat(ONE, weights)
    np.testing.assert_allclose(weighted, machine.fit(*repeated).predict(X), rtol=1e-3)
    before = machine.fit(X, TWO).log_likelihood(X, TWO)
    scaled, outputs = X * [1, 1e3, 1e-3, 1] + [0, 5, 0, 100], TWO * [10, 0.1] + [1e4, 0]
    after = machine.fit(scaled, outputs).log_likelihood(scaled, outputs)
    assert after == pytest.approx(before, rel=1e-4)  # the factors cancel
    column = machine.fit(X, ONE[:, None])
    assert column.predict(X).shape == (len(X), 1)
    np.testing.assert_allclose(
        column.predict(X)[:, 0], machine.fit(X, ONE).predict(X), rtol=1e-6
    )


def test_outputs_without_noise():
    """The likelihood has no maximum where outputs are a function; variances stop."""
    for y in (X @ [1.0, 2, 3, 4] + 7, np.full(len(X), 5.0)):
        told = pytest.warns(FitWarning, match="hardly any noise")
        with told if np.ptp(y) > 0 else nullcontext():
            machine = BoltzmannMachineRegressor(0).fit(X, y)
        np.testing.assert_allclose(machine.predict(X), y, rtol=1e-6)
        assert 0 < machine.noise_variance_ <= 1e-5 * max(np.var(y), 1.0)
        assert np.isfinite(machine.log_likelihood(X, y))


def test_convergence():
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        assert not fitted(max_iter=2, tol=1e-9).converged_
    assert fitted().converged_
    assert fitted(weight_decay=0.0).objective_ > fitted(n_hidden=0).objective_


@pytest.mark.parametrize(
    "options",
    [
        dict(n_hidden=-1),
        dict(n_hidden=13),
        dict(n_hidden=2.5),
        dict(weight_decay=-1),
        dict(max_iter=0),
        dict(tol=0),
    ],
)
def test_bad_parameters(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        fitted(**options)


def test_bad_outputs():
    machine = fitted(TWO)
    with pytest.raises(ValueError, match="y has 1 outputs, not 2"):
        machine.log_likelihood(X, ONE)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        machine.log_likelihood(X, TWO[:-1])
    with pytest.raises(ValueError, match="NaN"):
        machine.log_likelihood(X, np.where(TWO > 100, np.nan, TWO))
    with pytest.raises(ValueError, match="NaN"):
        fitted(np.where(ONE > 100, np.nan, ONE))
    with pytest.raises(ValueError, match="features"):
        machine.predict(X[:, :3])
    with pytest.raises(ValueError, match="could not convert|dtype='numeric'"):
        fitted(np.where(ONE > 100, "high", "low"))


def held_out(rows, y, **given):
    """Return how much more likely new rows are than under a line, a row."""
    machine = BoltzmannMachineRegressor(4, random_state=0, **given)
    line = BoltzmannMachineRegressor(0)
    half = len(rows) // 2
    found = [
        one.fit(rows[:half], y[:half]).log_likelihood(rows[half:], y[half:])
        for one in (machine, line)
    ]
    return (found[0] - found[1]) / (len(rows) - half)


def test_the_penalty_is_what_rows_left_out_need():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(160, 5))
    line = rows @ np.arange(5) + rng.normal(size=160)
    assert held_out(rows, line) > -0.05
    assert held_out(rows, line, weight_decay=0.0003) < -1  # what is to be avoided
    side = rng.choice([-1, 1], 300)
    x = rng.uniform(size=(300, 1))
    assert held_out(x, side * x[:, 0] + 0.1 * rng.normal(size=300)) > 0.3


def test_whole_numbers_are_rounded_ones():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    y = (rows[:, 0] > 0) + 1.0 * (rows[:, 1] > 0)
    machine = BoltzmannMachineRegressor(random_state=0).fit(rows, y)
    assert machine.converged_
    assert machine.noise_variance_ == pytest.approx(1 / 12)
    assert machine.score(rows, y) > LinearRegression().fit(rows, y).score(rows, y) + 0.1
    # The negative control: the same values, none of them twice.
    y = y + 1e-3 * rng.normal(size=300)
    apart = BoltzmannMachineRegressor(random_state=0, weight_decay=1e-3, max_iter=60)
    with pytest.warns(ConvergenceWarning):
        apart.fit(rows, y)
    assert apart.noise_variance_ < 1 / 24


def test_outputs_without_noise_are_told():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(400, 50)), rng.normal(size=400)
    machine = BoltzmannMachineRegressor(2, random_state=0)
    with pytest.warns(FitWarning, match="too few rows for the columns"):
        machine.fit(rows[:20], y[:20])
    assert machine.log_likelihood(rows[20:], y[20:]) / 380 < -1000
    machine.fit(rows, y)  # an error, if it warned
    machine.fit(rows[:20, :2], np.ones(20))


def test_few_rows_for_the_line_are_told():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1060, 40))
    y = rows[:, 0] + rng.normal(size=1060)
    machine = BoltzmannMachineRegressor(2, random_state=0)
    with pytest.warns(FitWarning, match="Lines of 41 coefficients"):
        machine.fit(rows[:60], y[:60])
    # It is so, of least squares exactly (Gaussian columns).
    new = machine.log_likelihood(rows[60:], y[60:]) / 1000
    assert new < machine.objective_ - 1.0
    line, losses = BoltzmannMachineRegressor(0), []
    for _ in range(100):
        rows = rng.normal(size=(160, 40))
        y = rows[:, 0] + rng.normal(size=160)
        with pytest.warns(FitWarning, match="about 10 times"):
            line.fit(rows[:60], y[:60])
        new = np.mean((line.predict(rows[60:]) - y[60:]) ** 2)
        losses.append(new / line.noise_variance_)
    assert np.median(losses) == pytest.approx(10, rel=0.2)
    machine.fit(rows[:, :3], y)  # three columns are few


@pytest.mark.parametrize(
    "kind", [BoltzmannMachineRegressor, BoltzmannMachineClassifier]
)
def test_shares_of_rows_are_told(kind):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    y, shares = rows[:, 0] + 0.3 * rng.normal(size=300), np.full(300, 1 / 300)
    y = y if kind is BoltzmannMachineRegressor else y > 0
    with pytest.warns(FitWarning, match="weights of 300 rows add up to 1,") as told:
        weak = kind(2, random_state=0).fit(rows, y, shares)
    assert told[0].filename == __file__
    assert weak.weight_decay_ > kind(2, random_state=0).fit(rows, y).weight_decay_
    kind(2, weight_decay=0.01, random_state=0).fit(rows, y, shares)


@pytest.mark.filterwarnings("ignore:The mean of output 0 misses a curve")
def test_starts_are_compared(monkeypatch):
    """Products of inputs have several optima, and seeds ended at different ones."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 2))
    outputs = inputs[:, 0] * inputs[:, 1] + 0.2 * rng.normal(size=200)

    def objectives(n_starts):
        rule = RealOutputs.starts._replace(n_starts=n_starts)
        monkeypatch.setattr(RealOutputs, "starts", rule)
        machines = [
            BoltzmannMachineRegressor(4, weight_decay=1e-3, tol=1e-3, random_state=seed)
            for seed in range(6)
        ]
        return [one.fit(inputs, outputs).objective_ for one in machines]

    several, single = objectives(4), objectives(1)
    assert np.mean(several) > np.mean(single) + 0.02
    assert min(several) > min(single) + 0.02
