"""BoltzmannMachineClassifier: exact conditionals, their gradient, what is learned."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_iris, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils import shuffle

from sktem import BoltzmannMachineClassifier
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.evaluation import enumerate_states
from sktem.exceptions import FitWarning

X, y = shuffle(*load_iris(return_X_y=True), random_state=0)


def fitted(**options):
    given = {"n_hidden": 3, "random_state": 0, **options}
    return BoltzmannMachineClassifier(**given).fit(X, y)


def test_probabilities_are_those_of_all_states():
    machine = fitted()
    hidden = enumerate_states(3)
    fields = X @ machine.weights_ + machine.hidden_biases_
    exponents = np.stack(
        [
            (fields + U) @ hidden.T + d
            for U, d in zip(machine.label_weights_, machine.class_biases_, strict=True)
        ],
        axis=1,
    )
    sums = logsumexp(exponents, axis=2)
    expected = np.exp(sums - logsumexp(sums, axis=1, keepdims=True))
    np.testing.assert_allclose(machine.predict_proba(X), expected, atol=1e-12)
    np.testing.assert_array_equal(machine.predict(X), expected.argmax(axis=1))


def test_conditional_of_the_joint_machine():
    """The label of a machine that models inputs as well has the same conditional."""
    machine = fitted()
    model = LayeredMachine((4 + 3, 3), 4, groups=(3,))
    params = np.zeros(model.n_parameters)
    weights = np.vstack([machine.weights_, machine.label_weights_])
    model.layout.weights_between(params, 0)[:] = weights
    model.layout.layer_biases(params, 0)[4:] = machine.class_biases_
    model.layout.layer_biases(params, 1)[:] = machine.hidden_biases_
    model.layout.precisions(params)[:] = 1.0
    joint = np.stack(
        [
            model.log_unnormalised(params, np.hstack([X, np.tile(row, (len(X), 1))]))
            for row in np.eye(3)
        ],
        axis=1,
    )
    expected = joint - logsumexp(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(machine.predict_log_proba(X), expected, atol=1e-9)


def test_classes_that_no_line_parts():
    moons, side = make_moons(400, noise=0.2, random_state=0)
    machine = BoltzmannMachineClassifier(8, weight_decay=1e-4, random_state=0)
    ours = cross_val_score(machine, moons, side).mean()
    assert ours > cross_val_score(LogisticRegression(), moons, side).mean() + 0.05


def simulated(n, kind, seed):
    """Return inputs and labels."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 10))
    p = {
        "noise": np.full(n, 0.4),
        "line": 1 / (1 + np.exp(-2 * rows[:, 0])),
        "sides": np.where((rows[:, 0] > 0) ^ (rows[:, 1] > 0), 0.95, 0.05),
    }[kind]
    return rows, (rng.random(n) < p).astype(int)


@pytest.mark.parametrize("kind", ["noise", "line", "sides"])
def test_the_penalty_is_what_rows_left_out_need(kind):
    n = 400 if kind == "sides" else 200
    rows, labels = simulated(n, kind, 0)
    new, answers = simulated(2000, kind, 1)

    def found(**options):
        machine = BoltzmannMachineClassifier(4, random_state=0, **options)
        return machine.fit(rows, labels).log_likelihood(new, answers) / 2000

    penalties = BoltzmannMachineClassifier.decay_search.penalties
    best = max(found(weight_decay=penalty / n) for penalty in penalties)
    assert found() > best - 0.03
    if kind != "sides":  # where hidden units hardly help, what is to be avoided
        assert found(weight_decay=0.0003) < best - 0.2


def test_the_penalty_of_rows_that_count_twice():
    weights = np.random.default_rng(1).integers(1, 3, len(X))
    again = np.repeat(np.arange(len(X)), weights)
    machine = BoltzmannMachineClassifier(2, random_state=0, tol=1e-6)
    one = machine.fit(X, y, weights)
    decay, found = one.weight_decay_, one.predict_log_proba(X)
    two = machine.fit(X[again], y[again])
    assert two.weight_decay_ == pytest.approx(decay, rel=1e-12)
    np.testing.assert_allclose(two.predict_log_proba(X), found, atol=1e-2)
    assert machine.partial_fit(X, y).weight_decay_ == decay
    assert (
        BoltzmannMachineClassifier().partial_fit(X, y, [0, 1, 2]).weight_decay_ < decay
    )


def test_weights_and_units_of_columns():
    weights = np.random.default_rng(0).integers(0, 3, 150)
    machine = BoltzmannMachineClassifier(n_hidden=3, random_state=0, tol=1e-7)
    weighted = machine.fit(X, y, sample_weight=weights).predict_proba(X)
    repeated = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    again = machine.fit(*repeated).predict_proba(X)
    np.testing.assert_allclose(weighted, again, atol=1e-4)
    assert np.abs(weighted - machine.fit(X, y).predict_proba(X)).max() > 1e-3
    before = machine.predict_proba(X)
    scaled = X * [1, 1e3, 1e-3, 1] + [0, 5, 0, 100]
    np.testing.assert_allclose(
        machine.fit(scaled, y).predict_proba(scaled), before, atol=1e-4
    )


def test_convergence():
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        assert not fitted(max_iter=3).converged_
    assert fitted().converged_
    assert fitted(tol=1.0, max_iter=1).n_iter_ <= 1


OF_FIT, OF_STREAM = ("objective_", "n_iter_", "converged_"), ("n_samples_seen_",)


def test_attributes_are_those_of_the_parameters():
    machine = fitted()
    assert all(hasattr(machine, name) for name in OF_FIT)
    machine.partial_fit(X, y)
    assert not any(hasattr(machine, name) for name in OF_FIT)
    assert machine.partial_fit(X, y).n_samples_seen_ == 300
    assert not any(hasattr(machine.fit(X, y), name) for name in OF_STREAM)
    # What is refused changes nothing.
    with pytest.raises(ValueError, match="not in classes"):
        machine.partial_fit(X, y + 1)
    assert all(hasattr(machine, name) for name in OF_FIT)


def test_a_stream_takes_changed_parameters_or_refuses_them():
    machine = fitted(weight_decay=0.01)
    with pytest.raises(ValueError, match="n_hidden cannot change on a stream"):
        machine.set_params(n_hidden=4).partial_fit(X, y)
    machine.set_params(n_hidden=3, weight_decay=0.3).partial_fit(X, y)
    assert machine.weight_decay_ == 0.3
    assert (
        machine.set_params(weight_decay="auto").partial_fit(X, y).weight_decay_ == 0.3
    )


@pytest.mark.parametrize(
    "options", [dict(n_hidden=0), dict(weight_decay=-1), dict(max_iter=0), dict(tol=0)]
)
def test_bad_parameters(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        fitted(**options)


def column_scaled(rows):
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


def rings(rng):
    inputs, labels = make_circles(200, noise=0.1, factor=0.5, random_state=rng)
    return inputs, labels


def checkerboard(rng):
    places = rng.integers(0, 3, (200, 2))
    return places + rng.normal(0, 0.12, (200, 2)), places.sum(axis=1) % 2


def banana(rng):
    x, labels = rng.normal(size=200), rng.integers(0, 2, 200)
    inside = np.column_stack([0.6 * rng.normal(size=200), 2 + 0.4 * x])
    curved = np.column_stack([x, 0.8 * x**2 + 0.3 * rng.normal(size=200)])
    return np.where(labels[:, None] == 1, curved, inside), labels


def linear_objective(machine, inputs, codes):
    """Return the largest objective of logistic regressions in the form of the machine.

    A hidden unit with U = u for one class and -u for the others adds ``log((1 +
    exp(f + u)) / (1 + exp(f - u)))``, about ``f tanh(u / 2)``, to the logit of its
    class, where f is its field.
    """
    shares, best = np.full(len(inputs), 1 / len(inputs)), -np.inf
    n_classes = codes.max() + 1
    for strength, size in product([0.01, 0.1, 1.0, 10.0], [0.1, 0.3, 1.0, 2.0]):
        linear = LogisticRegression(C=strength, max_iter=500).fit(inputs, codes[:, 0])
        slopes, logits = linear.coef_, linear.intercept_
        if n_classes == 2:
            slopes, logits = np.vstack([-slopes, slopes]) / 2, [0.0, logits[0]]
        params = np.zeros(machine.parts.n_parameters)
        W, U, _, d = machine.parts(params)
        of_class = np.arange(machine.n_hidden) % n_classes
        counts = np.bincount(of_class)[of_class] * np.tanh(size / 2)
        W[:] = slopes[of_class].T / counts
        U[:] = np.where(np.arange(n_classes)[:, None] == of_class, size, -size)
        d[:] = logits - np.logaddexp(0, U).sum(axis=1)
        best = max(best, -machine.loss(params, inputs, codes, shares)[0])
    return best


@pytest.mark.parametrize(
    ("sizes", "penalty"), [((40, 100, 2), 3.0), ((200, 5, 2), 0.3), ((150, 6, 3), 1.0)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_fit_is_behind_the_linear_solution_of_its_objective(sizes, penalty):
    n, n_inputs, n_classes = sizes
    rng = np.random.default_rng(3)
    inputs = column_scaled(rng.normal(size=(n, n_inputs)))
    logits = inputs @ rng.normal(size=(n_inputs, n_classes))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    options = {"n_hidden": 8, "weight_decay": penalty / n, "random_state": 0}
    fitted = BoltzmannMachineClassifier(**options).fit(inputs, labels)
    machine = fitted.fitted_.machine
    linear = linear_objective(machine, inputs, machine.labels.codes(labels))
    assert fitted.objective_ > linear - 1e-3
    # The negative control: an ascent that stops on the way.
    short = BoltzmannMachineClassifier(**options, max_iter=1).fit(inputs, labels)
    assert short.objective_ < linear


class FromSmallWeights(BoltzmannMachineClassifier):
    start_sizes = (0.125,)


@pytest.mark.parametrize("make", [rings, checkerboard, banana])
def test_no_seed_stays_at_the_linear_solution(make):
    inputs, labels = make(np.random.RandomState(0) if make is rings else
                          np.random.default_rng(0))  # fmt: skip
    centred = column_scaled(inputs)
    linear = LogisticRegression(C=1 / (200 * 1e-3)).fit(centred, labels)
    logs = linear.predict_log_proba(centred)[np.arange(200), labels]

    def losses(kind=BoltzmannMachineClassifier, n_seeds=8):
        machines = [
            kind(16, weight_decay=1e-3, random_state=seed) for seed in range(n_seeds)
        ]
        return [
            -machine.fit(inputs, labels).log_likelihood(inputs, labels) / 200
            for machine in machines
        ]

    found = losses()
    assert max(found) < -logs.mean() - 0.05
    assert max(found) < min(found) + 0.1
    # The negative control: a single start from small weights.
    assert make is not rings or max(losses(FromSmallWeights, 4)) > max(found) + 0.1


def categories(rng, n):
    """Return one-hot inputs of few categories, and labels that are sums of two."""
    first, second = rng.integers(0, 4, (2, n))
    return np.hstack([np.eye(4)[first], np.eye(4)[second]]), (first + second) % 3


def test_copies_of_rows_choose_a_penalty():
    rng = np.random.default_rng(0)
    inputs, labels = categories(rng, 200)
    machine = BoltzmannMachineClassifier(8, random_state=0).fit(inputs, labels)
    new, true = categories(rng, 500)
    assert machine.score(new, true) > 0.95
    # Of many rows some of each kind are taken, and weights count as before elsewhere.
    inputs, labels = categories(rng, 20_000)
    search = BoltzmannMachineClassifier.decay_search
    parts = search.folds_of(inputs, labels[:, None], 20_000)
    counts = np.bincount(parts[parts >= 0], minlength=search.n_folds)
    assert (np.abs(counts - 200) < 60).all()
    apart = inputs + rng.normal(size=inputs.shape)
    twice = np.repeat(apart[:500], 2, axis=0), np.repeat(labels[:500, None], 2, axis=0)
    parts = search.folds_of(*twice, 1000)
    np.testing.assert_array_equal(parts[::2], parts[1::2])
    # Copies of rows, of whatever number, are no new rows.
    rows = rng.integers(0, 40, 800)
    parts = search.folds_of(apart[rows], labels[rows, None], 800)
    assert all(len(set(parts[rows == row])) == 1 for row in set(rows))


@pytest.mark.parametrize("size", [30, 100])
def test_sorted_labels_of_a_stream_are_told(size):
    """They replace each other; in random order all are kept, and nothing is said."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 400)
    X = rng.normal(size=(1200, 2)) + 8 * np.array([[0, 0], [1, 0], [0, 1]])[y]

    def streamed(order):
        machine = BoltzmannMachineClassifier(random_state=0)
        for part in np.split(order, 1200 // size):
            machine.partial_fit(X[part], y[part], [0, 1, 2])
        return machine

    assert streamed(rng.permutation(1200)).score(X, y) > 0.95
    with pytest.warns(FitWarning, match="come in an order") as caught:
        machine = streamed(np.arange(1200))
    assert len(caught) == 1 and machine.score(X, y) < 0.9
