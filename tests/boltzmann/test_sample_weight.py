"""Weights of rows: 2 counts as two equal rows."""

import numpy as np
import pytest
from scipy import sparse

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.ascent import ExactAscent
from sktem.boltzmann.learning.objective import Objective
from sktem.boltzmann.learning.row_weights import RowOrder
from sktem.boltzmann.settings import MachineSettings
from sktem.boltzmann.units import VisibleUnits
from sktem.graphs import complete_graph, grid_graph

RNG = np.random.default_rng(0)
X = (RNG.random((200, 6)) < RNG.random(6)).astype(float)
X[:, 1] = X[:, 0]
WEIGHTS = RNG.integers(0, 4, 200)
REPEATED = np.repeat(X, WEIGHTS, axis=0)
KINDS = {
    "restricted": dict(hidden_layer_sizes=3),
    "no hidden units": dict(graph=grid_graph(2, 3)),
    "gaussian": dict(hidden_layer_sizes=2, visible="gaussian"),
}


def real(rows):
    return rows + 0.1 * np.sin(np.arange(rows.size)).reshape(rows.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_and_gradient_are_those_of_repeated_rows(kind):
    machine = LatentBoltzmannMachine(**KINDS[kind], random_state=0)
    of_units = "gaussian" if kind == "gaussian" else "binary"
    rows = real(X) if kind == "gaussian" else X
    repeated = np.repeat(rows, WEIGHTS, axis=0)
    seen, weights = rows[WEIGHTS > 0], WEIGHTS[WEIGHTS > 0].astype(float)
    checked = MachineSettings.of(machine.get_params())
    model = checked.model(6, kind=of_units)
    settings = checked.of_run(model, False)
    found = []
    for data, of in ((seen, weights), (repeated, None)):
        units = VisibleUnits.of(data, of_units, of)
        inputs = units.inputs(data, np.float32)
        shares = None if of is None else of / of.sum()
        watch = Objective(settings, units, inputs, 0, 5, shares)
        ascent = ExactAscent.of(settings, inputs, shares)
        params = model.initial_params(units.logits, np.random.default_rng(1))
        value, gradient = ascent.evaluate(params.astype(np.float64))
        measured = watch.measure(params, 0)[0]
        found.append([*units.logits, units.log_scale, measured, value, *gradient,
                      watch.reference.base, watch.reference.normal or 0.0])  # fmt: skip
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_maximum_is_that_of_repeated_rows():
    """Without hidden units the fit ends at the maximum, which is unique."""
    machines = [LatentBoltzmannMachine(grid_graph(2, 3)) for _ in range(3)]
    machines[0].fit(X[:, ::-1], sample_weight=WEIGHTS)
    machines[1].fit(REPEATED[:, ::-1])
    machines[2].fit(X[:, ::-1])
    rows = X[:, ::-1]
    scores = [machine.score_samples(rows) for machine in machines]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
    assert np.abs(scores[2] - scores[1]).max() > 0.05
    expected = machines[1].score(REPEATED[:, ::-1])
    assert machines[1].score(rows, sample_weight=WEIGHTS) == pytest.approx(expected)


@pytest.mark.parametrize("given", [X, sparse.csr_array(X)])
def test_streams_take_rows_as_often_as_their_weights_say(given):
    options = dict(hidden_layer_sizes=3, batch_size=20, random_state=0)
    weighted = LatentBoltzmannMachine(**options).partial_fit(
        given, sample_weight=WEIGHTS
    )
    repeated = LatentBoltzmannMachine(**options).partial_fit(REPEATED)
    np.testing.assert_array_equal(weighted.params_, repeated.params_)


def test_streams_draw_the_fractions_of_weights():
    machine = LatentBoltzmannMachine(hidden_layer_sizes=2, random_state=0)
    for _ in range(30):
        machine.partial_fit(X, sample_weight=np.full(200, 1.5))
    rows = 100 * machine._stream.n_batches
    rows += sum(len(part) for part in machine._stream.waiting)
    assert abs(rows - 9000) < 4.5 * np.sqrt(6000 / 4)
    machine.set_params(max_iter=2, tol=None)
    machine.fit(X).partial_fit(X, sample_weight=WEIGHTS)


def test_epochs_visit_rows_in_proportion():
    shares = RNG.random(50)
    shares /= shares.sum()
    order, rng = RowOrder(50, shares), np.random.default_rng(0)
    visits = np.array([np.bincount(order.draw(rng), minlength=50) for _ in range(400)])
    assert (visits.sum(axis=1) == 50).all()
    assert (np.abs(visits - 50 * shares) < 1).all()
    assert np.abs(visits.mean(axis=0) - 50 * shares).max() < 4.5 * 0.5 / 20


@pytest.mark.parametrize("kind", ["restricted", "deep", "grid"])
def test_fits_by_steps_follow_the_weights(kind):
    """Without ascents, the means of the columns come out as weighted."""
    options = {
        "restricted": dict(hidden_layer_sizes=2),
        "deep": dict(hidden_layer_sizes=(3, 2)),
        "grid": dict(graph=complete_graph(7), hidden=[6]),
    }[kind]
    weights = np.where(X[:, 2] + X[:, 3] > 1, 5.0, 1.0)
    machine = LatentBoltzmannMachine(
        **options, max_iter=40, tol=None, step_size_m=(0.3, 0.003), random_state=0
    )
    found = machine.fit(X, sample_weight=weights).marginals()[0]
    found = (found if kind == "grid" else found[0])[:6]
    expected = np.average(X, axis=0, weights=weights)
    assert np.abs(found - expected).max() < 0.03
    assert np.abs(X.mean(axis=0) - expected).max() > 0.1


def test_chance_dependence_is_that_of_rows_of_such_weights(global_random_seed):
    """Six independent columns: the statistic has mean 0 and deviation 1."""
    machine = LatentBoltzmannMachine(hidden_layer_sizes=2)
    checked = MachineSettings.of(machine.get_params())
    settings = checked.of_run(checked.model(6, kind="binary"), False)
    rng, found = np.random.default_rng(global_random_seed), []
    for _ in range(40):
        rows = 1.0 * (rng.random((600, 6)) < 0.4)
        weights = rng.exponential(size=600) ** rng.choice([1, 4])
        shares = weights / weights.sum()
        units = VisibleUnits.of(rows, "binary", weights)
        found.append(
            Objective(settings, units, rows, 0, 5, shares).reference.dependence
        )
    # Of heavy weights it is somewhat below 0, since variances have errors too.
    assert -0.5 - 4 / 40**0.5 < np.mean(found) < 4 / 40**0.5
    # The negative control: columns of which one is another.
    rows[:, 0], shares = rows[:, 1], rng.dirichlet(np.ones(600))
    units = VisibleUnits.of(rows, "binary", shares)
    assert Objective(settings, units, rows, 0, 5, shares).reference.dependence > 3


def test_equal_weights_change_no_bit():
    # To a prior they are more rows, or fewer.
    options = dict(
        hidden_layer_sizes=3, max_iter=3, tol=None, weight_decay=0.01, random_state=0
    )
    plain = LatentBoltzmannMachine(**options).fit(X)
    weighted = LatentBoltzmannMachine(**options).fit(X, sample_weight=np.full(200, 2.5))
    np.testing.assert_array_equal(plain.params_, weighted.params_)


@pytest.mark.parametrize("weights", [np.zeros(200), -np.ones(200), np.ones(199)])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="(?i)sample.weight"):
        LatentBoltzmannMachine(hidden_layer_sizes=2).fit(X, sample_weight=weights)
