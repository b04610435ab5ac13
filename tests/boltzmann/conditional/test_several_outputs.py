"""Conditional machines of several outputs against sums over all states."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktem import BoltzmannMachineClassifier
from sktem.boltzmann.conditional.conditional_machines import (
    HiddenSums,
    LabelSums,
    PseudoLikelihood,
    conditional_machine,
)
from sktem.boltzmann.conditional.labels import Labels
from sktem.evaluation import enumerate_states

KINDS = [LabelSums, HiddenSums, PseudoLikelihood]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
#: Two, three and two classes, as numbers.
Y = np.column_stack([RNG.integers(0, n, 40) for n in (2, 3, 2)])
LABELS = Labels.of(Y)


def machine(kind, n_hidden=3, weight_decay=0.1, scale=1.0):
    """Return a machine of the outputs with random parameters."""
    made = kind(LABELS, 3, n_hidden, weight_decay)
    codes, shares = LABELS.codes(Y), RNG.dirichlet(np.ones(40))
    params = made.start(codes, shares, RNG)
    params += RNG.normal(0, scale, len(params))
    return made, params, codes, shares


def joint(made, params, X):
    """Return the log-probability of all labels, (n, 12), and these labels."""
    W, U, c, d = made.parts(params)
    hidden = enumerate_states(len(c))
    every = np.array(list(itertools.product(range(2), range(3), range(2))))
    columns = every + [0, 2, 5]
    energies = [
        ((X @ W + c + U[chosen].sum(axis=0)) @ hidden.T) + d[chosen].sum()
        for chosen in columns
    ]
    logs = logsumexp(np.stack(energies, axis=1), axis=2)
    return logs - logsumexp(logs, axis=1, keepdims=True), every


def marginals(logs, every):
    """Return the probability of each class of each output."""
    p = np.exp(logs)
    return np.column_stack(
        [p[:, every[:, k] == y].sum(axis=1) for k, n in enumerate((2, 3, 2))
         for y in range(n)]
    )  # fmt: skip


@pytest.mark.parametrize("kind", [LabelSums, HiddenSums])
def test_exact_answers(kind):
    made, params, codes, shares = machine(kind)
    W, U, c, d = made.parts(params)
    logs, every = joint(made, params, X)
    seen = [np.flatnonzero((every == row).all(axis=1))[0] for row in Y]
    of_rows = logs[np.arange(40), seen]
    found = made.log_likelihoods(params, X, codes)
    np.testing.assert_allclose(found, of_rows, atol=1e-12)
    expected = marginals(logs, every)
    found = made.probabilities(params, X, 0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    value = -shares @ of_rows + 0.05 * (np.sum(W**2) + np.sum(U**2))
    assert made.loss(params, X, codes, shares)[0] == pytest.approx(value, abs=1e-12)


def test_pseudo_likelihood():
    made, params, codes, shares = machine(PseudoLikelihood, weight_decay=0.0)
    logs, every = joint(made, params, X)
    total = 0.0
    for row, share, p in zip(Y, shares, np.exp(logs), strict=True):
        agree = every == row
        for k in range(3):
            others = np.delete(agree, k, axis=1).all(axis=1)
            total -= share * np.log(p[agree.all(axis=1)][0] / p[others].sum())
    assert made.loss(params, X, codes, shares)[0] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient(kind):
    made, params, codes, shares = machine(kind)
    gradient = made.loss(params, X, codes, shares)[1]
    for k in range(len(params)):
        side = 1e-6 * np.eye(len(params))[k]
        above, below = (
            made.loss(params + s * side, X, codes, shares)[0] for s in (1, -1)
        )
        assert gradient[k] == pytest.approx((above - below) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_draws(kind):
    made, params, _, _ = machine(kind, scale=0.7)
    rows = np.tile(X[:1], (1000, 1))
    drawn = made.draws(params, rows, np.random.default_rng(1))
    logs, every = joint(made, params, X[:1])
    p = np.exp(logs[0])
    shares = np.array(
        [np.mean((drawn - [0, 2, 5] == labels).all(axis=1)) for labels in every]
    )
    error = np.sqrt(p * (1 - p) / 1000)
    assert (np.abs(shares - p) < 4.5 * error + 1e-9).all()
    assert (np.abs(shares[::-1] - p) > 4.5 * error).any()
    if kind is PseudoLikelihood:
        # Chains of equal rows are the same, those of nearly equal ones independent.
        near = rows[:200] + 1e-9 * RNG.normal(size=(200, 3))
        found = made.probabilities(params, near, 0).mean(axis=0)
        np.testing.assert_allclose(found, marginals(logs, every)[0], atol=0.01)


def test_chances_of_a_row_do_not_depend_on_the_other_rows():
    made, params, _, _ = machine(PseudoLikelihood)
    found = made.probabilities(params, X, 1)
    alone = [made.probabilities(params, x[None], 1) for x in X]
    np.testing.assert_allclose(found, np.concatenate(alone), rtol=1e-12)
    # Draws of equal rows differ, and their chances have no errors in common.
    drawn = made.draws(params, np.tile(X[:1], (40, 1)), np.random.default_rng(1))
    assert len(np.unique(drawn, axis=0)) > 1
    logs, every = joint(made, params, X)
    errors = found - marginals(logs, every)
    assert np.abs(errors.mean(axis=0)).max() < 0.3 * np.abs(errors).max()


def test_which_sums_are_cheap():
    def kind(n_outputs, n_hidden):
        labels = Labels((np.arange(2),) * n_outputs, True)
        return type(conditional_machine(labels, 3, n_hidden, 0.0))

    assert kind(1, 500) is LabelSums and kind(5, 32) is LabelSums
    assert kind(40, 12) is HiddenSums and kind(3, 2) is HiddenSums
    assert kind(40, 13) is PseudoLikelihood


def parity(n=400, seed=0):
    """Two coins whose sum is known from the inputs, but neither of them."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, (n, 2))
    different = coins[:, 0] != coins[:, 1]
    return np.column_stack([different + 0.1 * rng.normal(size=n), rng.random(n)]), coins


@pytest.mark.parametrize("n_others", [0, 8])
def test_outputs_that_depend_on_each_other(n_others):
    """Given the inputs each coin is fair, but only two of four pairs are possible."""
    inputs, coins = parity(200 if n_others else 400)
    others = np.random.default_rng(2).integers(0, 2, (len(coins), n_others))
    n_hidden = 16 if n_others else 4
    decay = 0.003 if n_others else 0.0003
    fitted = BoltzmannMachineClassifier(
        n_hidden, weight_decay=decay, random_state=0, tol=0.001
    )
    fitted.fit(inputs, np.hstack([coins, others]))
    assert fitted.is_exact_ == (n_others == 0)
    test, true = parity(seed=1)
    drawn = fitted.sample(test)
    right = (drawn[:, 0] != drawn[:, 1]) == (true[:, 0] != true[:, 1])
    # Outputs drawn apart would be right half the time.
    assert right.mean() > 0.9
    if n_others:
        with pytest.raises(ValueError, match="out of reach"):
            fitted.log_likelihood(inputs, np.hstack([coins, others]))
        return
    chances = np.stack([p[:, 1] for p in fitted.predict_proba(test)])
    assert np.abs(chances - 0.5).mean() < 0.1
    assert fitted.log_likelihood(test, true) / 400 > -np.log(2) - 0.1
    apart = MultiOutputClassifier(LogisticRegression()).fit(inputs, coins)
    chances = apart.predict_proba(test)
    logs = sum(
        np.log(p[np.arange(400), y]) for p, y in zip(chances, true.T, strict=True)
    )
    assert logs.mean() < -2 * np.log(2) + 0.1


def test_one_output_as_before():
    labels = np.array(["a", "b", "c"])[Y[:, 1]]
    one = BoltzmannMachineClassifier(3, random_state=0, tol=1e-6).fit(X, labels)
    two = clone(one).fit(X, np.column_stack([labels, labels]))
    # An output twice: weights may be shared between both, but its law is close.
    assert one.predict(X).shape == (40,) and two.predict(X).shape == (40, 2)
    assert (two.predict(X)[:, 0] == two.predict(X)[:, 1]).all()
    found = one.log_likelihood(X, labels)
    places = np.arange(40), np.searchsorted(one.classes_, labels)
    assert found == pytest.approx(one.predict_log_proba(X)[places].sum())
    expected = one.objective_ + 0.00015 * penalty(one)
    assert found / 40 == pytest.approx(expected, abs=1e-9)


def penalty(fitted):
    W, U, _, _ = fitted.fitted_.machine.parts(fitted.fitted_.params)
    return np.sum(W**2) + np.sum(U**2)


def test_in_pipelines_and_searches():
    rows, labels = make_multilabel_classification(
        300, n_features=8, n_classes=4, random_state=0
    )
    search = GridSearchCV(
        make_pipeline(
            StandardScaler(),
            BoltzmannMachineClassifier(random_state=0, weight_decay=0.01, tol=1e-3),
        ),
        {"boltzmannmachineclassifier__n_hidden": [1, 4]},
        cv=2,
    )
    search.fit(rows[:200], labels[:200])
    found = search.predict(rows[200:])
    assert found.shape == (100, 4) and found.dtype == labels.dtype
    right = (found == labels[200:]).all(axis=1)
    assert search.score(rows[200:], labels[200:]) == pytest.approx(right.mean())
    base = MultiOutputClassifier(LogisticRegression()).fit(rows[:200], labels[:200])
    assert right.mean() > base.score(rows[200:], labels[200:]) - 0.05
    fitted = search.best_estimator_[-1]
    assert len(fitted.predict_proba(rows)) == fitted.n_outputs_ == 4
    assert fitted.label_weights_[2].shape[0] == fitted.class_biases_[2].shape[0] == 2
    again = clone(fitted).fit(rows[:200], sparse.csr_array(labels[:200]))
    dense = clone(fitted).fit(rows[:200], labels[:200])
    np.testing.assert_array_equal(again.predict(rows), dense.predict(rows))
    weights = RNG.random(100)
    assert fitted.score(rows[200:], labels[200:], weights) == pytest.approx(
        np.average(
            (fitted.predict(rows[200:]) == labels[200:]).all(axis=1), weights=weights
        )
    )


def test_partial_fit():
    rows, labels = make_multilabel_classification(
        2000, n_features=8, n_classes=3, random_state=0
    )
    rows = rows * [1, 100, 1, 1, 0.01, 1, 1, 1] + 50
    full = BoltzmannMachineClassifier(4, random_state=0, tol=1e-3).fit(rows, labels)
    stream = BoltzmannMachineClassifier(4, random_state=0)
    classes = [np.arange(2)] * 3
    start = clone(stream).partial_fit(rows[:50], labels[:50], classes=classes)
    for _ in range(24):
        for chunk in np.split(np.arange(2000), 4):
            stream.partial_fit(rows[chunk], labels[chunk], classes=classes)
    assert stream.n_samples_seen_ == 48000
    first, last, best = (
        m.log_likelihood(rows, labels) / 2000 for m in (start, stream, full)
    )
    assert first < best - 0.5 and last > best - 0.1
    before = full.predict_proba(rows)[0]
    full.partial_fit(rows[:100], labels[:100])
    change = np.abs(full.predict_proba(rows)[0] - before).max()
    assert 0 < change < 0.3
    with pytest.raises(ValueError, match="classes must be given"):
        clone(full).partial_fit(rows, labels)
    with pytest.raises(ValueError, match="not in classes"):
        full.partial_fit(rows[:5], labels[:5] + 7)
    with pytest.raises(ValueError, match="y has 2 outputs, not 3"):
        full.log_likelihood(rows[:5], labels[:5, :2])
    one = BoltzmannMachineClassifier(4, random_state=0)
    one.partial_fit(rows[:50], labels[:50, 0], classes=[0, 1, 2])
    assert one.predict_proba(rows).shape == (2000, 3)
