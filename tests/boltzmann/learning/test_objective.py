"""The log-likelihood that a fit watches, against exact sums; chains that do not mix."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.objective import MeasureLimits, Objective
from sktem.boltzmann.learning.rounds import Reference, Rounds
from sktem.boltzmann.learning.tempering import correlation_of_chains
from sktem.boltzmann.machines.elimination import SumLimits
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.normalisation.brackets import bracket_log_partition
from sktem.boltzmann.normalisation.partition import ExactPartition, exact_partition
from sktem.boltzmann.settings import MachineSettings
from sktem.boltzmann.units import half_filled
from sktem.evaluation import annealed_importance_sampling, enumerate_states
from sktem.exceptions import FitWarning
from sktem.graphs import grid_graph

#: As few runs as machines of very many weights have.
FEW_RUNS = MeasureLimits(parameters_of_runs=0, most_runs=64)


def patterns(n, n_columns=30, n_patterns=4, flip=0.02, seed=0):
    """Rows in tight clusters: bits of a few patterns, some of them turned over."""
    rng = np.random.default_rng(seed)
    kinds = (rng.random((n_patterns, n_columns)) < 0.5).astype(float)
    rows = kinds[rng.integers(n_patterns, size=n)]
    return np.abs(rows - (rng.random(rows.shape) < flip))


def digits():
    return (load_digits().data > 7).astype(np.float64)


@pytest.fixture
def measured(monkeypatch):
    """Collect where a fit measures, what it finds and the chains of the model."""
    found = []
    real = Rounds.measure

    def measure(self, state, watch, value=None):
        real(self, state, watch, value)
        chains = None if state.chains is None else state.chains.copy()
        found.append((self.measures[-1], state.params.copy(), chains, watch))

    monkeypatch.setattr(Rounds, "measure", measure)
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_replicas", [1, "auto"])
def test_rows_in_clusters(measured, n_replicas):
    """Chains of the model miss clusters; the measure must not begin with them."""
    X = patterns(500)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=18, n_replicas=n_replicas, max_iter=200, random_state=0,
        weight_decay=1 / 500,
    ).fit(X)  # fmt: skip
    exact = ExactPartition(machine.fitted_.model)
    rng, wrong = np.random.default_rng(0), []
    assert len(measured) == 3
    for measure, params, chains, watch in measured[1:]:
        log_partition = exact.value(params)
        value = watch.model.log_unnormalised(params, watch.X).mean() - log_partition
        assert abs(measure.value - value) < 4 * measure.error + 0.05
        assert measure.value < watch.reference.largest
        # The negative control: back from the chains of the model.
        found = bracket_log_partition(watch.model, params, chains, rng, 10, 250)
        wrong.append(abs(found.reverse.value - log_partition))
    assert n_replicas == "auto" or max(wrong) > 1.0
    # Chains that stay in a cluster get replicas, and then clusters are found.
    assert machine.n_replicas_ == (1 if n_replicas == 1 else 5)
    score = machine.score(X, method="exact")
    of_patterns = np.log(4) + 30 * -(0.02 * np.log(0.02) + 0.98 * np.log(0.98))
    assert (score > -of_patterns - 1.0) == (n_replicas == "auto")


def test_no_value_is_above_the_rows_own_distribution(monkeypatch):
    """Runs that miss modes: none returns what no distribution can have."""
    X = patterns(200)
    fit = LatentBoltzmannMachine(hidden_layer_sizes=18, max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(X)
    _, counts = np.unique(X, axis=0, return_counts=True)
    own = np.sum(counts / 200 * np.log(counts / 200))
    found = []
    real = Objective._estimated
    monkeypatch.setattr(
        "sktem.boltzmann.learning.objective.reliable_log_partition",
        lambda *_, **__: annealed_importance_sampling(
            fit.fitted_.model, -5 * fit.params_, np.random.default_rng(0), 4, 2
        ),
    )
    monkeypatch.setattr(
        Objective,
        "_estimated",
        lambda self, params, mean, *rest: (
            found.append((mean, *real(self, params, mean, *rest), self.reference))
            or found[-1][1:3]
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(X)
    for mean, log_partition, _, reference in found:
        assert reference.largest == pytest.approx(own)
        assert mean - log_partition <= own + 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_larger_machine(measured):
    X = digits()[:1000]
    fitted = LatentBoltzmannMachine(
        hidden_layer_sizes=40, solver="pcd", step_size_m=0.1, max_iter=40, tol=1.0,
        weight_decay=0.0, random_state=0,
    ).fit(X)  # fmt: skip
    found = annealed_importance_sampling(
        fitted.fitted_.model, fitted.params_, np.random.default_rng(0), 100, 3000
    )
    score = fitted.score_samples(X, log_partition=found.value).mean()
    last = measured[-1][0]
    error = np.hypot(found.standard_error, last.error)
    assert error < 0.3 and abs(last.value - score) < 4 * error
    assert fitted.history_.objective[-1] == last.value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_deep_machine(monkeypatch, capsys):
    """Hidden units that are sampled, against sums over all of them."""
    X = digits()[:100]
    monkeypatch.setattr(LayeredMachine, "limits", SumLimits(posterior_width=0))
    monkeypatch.setattr(
        Objective, "limits", MeasureLimits(n_operations=0.0, seconds=0.0)
    )

    def machine(n_epochs, **options):
        return LatentBoltzmannMachine(
            hidden_layer_sizes=(10, 4), solver="pcd", step_size_m=0.1, batch_size=20,
            max_iter=n_epochs, weight_decay=0.0, random_state=0, **options,
        ).fit(X)  # fmt: skip

    ends = [60, 120]
    params = [machine(n, tol=None).params_ for n in ends]
    fitted = machine(120, tol=1.0, verbose=1, verbose_interval=60)
    found = np.array(fitted.history_.objective)
    assert not fitted.fitted_.model.has_exact_posterior
    # At the middle and the end of the run.
    assert (np.flatnonzero(np.diff(found)) + 2).tolist() == ends
    assert "annealed importance sampling: 50 of 50" in capsys.readouterr().out
    monkeypatch.undo()
    exact = LatentBoltzmannMachine(hidden_layer_sizes=(10, 4), max_iter=0, tol=None)
    exact.fit(X)
    values = []
    for values_of in params:
        exact.params_ = values_of
        values.append(exact.score(X, method="exact"))
    differences = found[[59, 119]] - values
    assert np.abs(differences).max() < 0.5
    # What they were measured for matters.
    assert abs(found[59] - values[1]) > 1.0


def test_chains_remember_where_they_were():
    """Independent units forget at once; units that never change do not."""
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=5, max_iter=0, tol=None)
    fitted.fit(patterns(50))
    model, rng = fitted.fitted_.model, np.random.default_rng(0)
    chains = model.new_chains(400, rng, fitted.params_)

    def correlation(params, n_sweeps=5):
        return correlation_of_chains(model, params, chains, n_sweeps, rng)

    assert abs(correlation(0 * fitted.params_)) < 0.1
    held = 0 * fitted.params_
    model.layout.weights_between(held, 0)[np.arange(5), np.arange(5)] = 60.0
    model.layout.even_biases(held)[:5] = model.layout.odd_biases(held)[:5] = -30.0
    first = correlation(held)
    assert 0.1 < first < 0.3  # five units of thirty
    assert np.isnan(correlation(np.where(held == 0, -40.0, -40.0).astype(np.float32)))


def test_independent_columns_of_few_rows_are_told():
    """Twelve hidden units on sixty rows: new rows lose what old ones gain."""
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.3, 0.7, 40)
    X, new = ((rng.random((n, 40)) < shares) * 1.0 for n in (60, 2000))
    machine = LatentBoltzmannMachine(hidden_layer_sizes=12, random_state=0)
    with pytest.warns(FitWarning, match="by chance"):
        machine.fit(X)
    share = (X.sum(axis=0) + 0.5) / 61
    alone = (new * np.log(share) + (1 - new) * np.log1p(-share)).sum(axis=1).mean()
    assert machine.score(new) < alone - 0.3
    # The negative control: as many rows of columns that do depend on each other.
    machine.fit(patterns(60, n_columns=40, flip=0.1))


def test_rows_that_are_unlike_the_machine_are_told():
    """Five coins and their parity: no start finds what six columns have in common."""
    rng = np.random.default_rng(0)

    def parity(n, n_coins):
        coins = rng.integers(0, 2, (n, n_coins))
        return np.column_stack([coins, coins.sum(axis=1) % 2]).astype(float)

    machine = LatentBoltzmannMachine(hidden_layer_sizes=8, random_state=0)
    with pytest.warns(FitWarning, match="a way that was not found"):
        machine.fit(parity(1000, 5))
    # It is so: new rows have .69 nats more.
    assert machine.score(parity(1000, 5)) < -5 * np.log(2) - 0.5
    # The parity of three is found, coins have none, and of few rows it is not known.
    machine.fit(parity(1000, 3))
    assert machine.score(parity(1000, 3)) > -3 * np.log(2) - 0.05
    machine.fit(parity(1000, 5)[:, :5])
    machine.fit(parity(100, 5))


def test_one_hot_columns_are_told():
    rng = np.random.default_rng(0)
    codes = np.hstack([np.eye(3)[rng.integers(3, size=60)] for _ in range(2)])
    X = np.column_stack([rng.integers(2, size=60), codes])
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=2, max_iter=2, tol=None, random_state=0
    )
    with pytest.warns(FitWarning, match="columns 1 to 3, 4 to 6 is 1.*categorical"):
        machine.fit(X)
    X[0, 1:4] = 1.0
    machine.fit(X[:, :4])  # two of the three, in one row
    X = np.column_stack([X[:, 0], np.zeros((60, 2)), np.ones(60)])
    machine.fit(X)  # a constant column is no code
    # Of few rows in clusters some columns exclude each other by chance.
    patterns = np.random.default_rng(0).random((2, 200)) < 0.4
    machine.fit(1.0 * patterns[rng.integers(2, size=20)])


def exclusive_or(rng, n, missing):
    """Return pairs of coins, each with whether they differ; and rows with NaN."""
    coins = rng.integers(0, 2, (n, 3, 2))
    X = np.concatenate([coins, coins[..., :1] ^ coins[..., 1:]], axis=2) * 1.0
    X = X.reshape(n, 9)
    return X, np.where(rng.random(X.shape) < missing, np.nan, X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_exclusive_or_is_learned_from_incomplete_rows():
    """No two columns depend on each other: small weights stay where they are."""
    new, _ = exclusive_or(np.random.default_rng(1), 1000, 0.0)
    _, X = exclusive_or(np.random.default_rng(0), 800, 0.15)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=12, random_state=0, max_iter=450
    )
    machine.fit(X)
    # The truth has six bits a row, independent columns nine.
    assert machine.score(new) > -7.5 * np.log(2)
    # The negative control: without the second start.
    one = LatentBoltzmannMachine(hidden_layer_sizes=12, random_state=0, max_iter=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "_starts_further", lambda *_: False)
        with pytest.warns(FitWarning, match="left out"):
            one.fit(X)
    assert one.score(new) < -8.9 * np.log(2)


def test_rows_left_out_say_when_nothing_more_is_gained():
    """Many hidden units on a ring: longer rounds would fit noise."""
    rng = np.random.default_rng(0)
    X = np.empty((1200, 30))
    X[:, 0] = rng.random(1200) < 0.5
    for column in range(1, 30):
        X[:, column] = np.abs(X[:, column - 1] - (rng.random(1200) < 0.25))
    train, new = X[:600], X[600:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = LatentBoltzmannMachine(hidden_layer_sizes=40, random_state=0).fit(
            train
        )
    # A third of the updates that it may take, and about as likely as the rows are.
    assert machine.converged_ and machine.n_iter_ * 6 < 5000
    truth = np.log(0.5) + 29 * (0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert machine.score(new) > truth - 1.2
    # Independent columns teach nothing, and that is said.
    with pytest.warns(FitWarning, match="left out"):
        machine.fit(rng.permuted(train, axis=0))
    assert machine.converged_


KINDS = {
    "bits": (), "numbers": ("gaussian",) * 5, "hidden": (),
    "table": ("gaussian", "gaussian", "categorical", "binary", "binary"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_likelihoods_of_observed_values(kind, seed):
    """Against sums over the hidden units, or over the missing values on a graph."""
    rng = np.random.default_rng(seed)
    X = (rng.random((60, 5)) < 0.5).astype(float)
    X[:, :2] += KINDS[kind][:1] == ("gaussian",) and rng.normal(size=(60, 2))
    X[:, 2] = np.arange(60) % (3 if kind == "table" else 2)
    shape = dict(hidden_layer_sizes=3)
    if kind == "hidden":
        shape = dict(graph=grid_graph(2, 4), hidden=[0, 2, 5])
    machine = LatentBoltzmannMachine(
        **shape, visible=list(KINDS[kind]) or "binary", max_iter=0, random_state=0
    ).fit(X)
    model, units = machine.fitted_.model, machine.fitted_.units
    settings = MachineSettings.of(machine.get_params()).of_run(model, True, 60)
    table = units.table
    rows = units.inputs(X if table is None else table.encode(X), np.float64)
    unseen = np.repeat(rng.random(X.shape) < 0.4, [1, 1, rows.shape[1] - 4, 1, 1], 1)
    holes = np.where(unseen, np.nan, rows)
    holes[:3] = np.nan  # nothing is known
    watch = Objective(settings, units, holes, 0, 30)
    watch.limits = MeasureLimits(most_fills=2000, products_of_fills=1e12)
    params = model.initial_params(units.logits, rng, 1.5)
    found = watch._unnormalised(params, holes, np.random.default_rng(1))
    filled, observed = half_filled(holes)
    if kind == "hidden":
        states = enumerate_states(5)
        logs = model.log_unnormalised(params, states)
        wrong = (observed[:, None] & (filled[:, None] != states)).any(axis=2)
        exact = logsumexp(np.where(wrong, -np.inf, logs), axis=1)
    else:
        states = enumerate_states(3).astype(np.float32)
        exact = logsumexp(
            [
                model.log_densities(params, np.tile(state, (60, 1)), filled, observed)
                for state in states
            ],
            axis=0,
        )
    bound = model.variational_bound(params, filled, 30, observed)
    gap, gap_of_bound = np.mean(exact - found), np.mean(exact - bound)
    assert gap_of_bound > 0.01
    assert abs(gap) < 0.25 * gap_of_bound


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("hidden, seed", [(6, 0), (6, 1), (6, 2), ((30, 10), 0)])
def test_missing_values_do_not_favour_independent_columns(hidden, seed):
    """Four weak pairs of columns, a fifth of whose values is missing."""
    rng = np.random.default_rng(seed)
    X = (rng.random((2450, 8)) < 0.5).astype(float)
    X[:, 4:] = np.abs(X[:, :4] - (rng.random((2450, 4)) < 0.3))
    missing = np.where(rng.random((450, 8)) < 0.2, np.nan, X[:450])
    machine = LatentBoltzmannMachine(hidden_layer_sizes=hidden, random_state=0)
    machine.fit(missing)
    most = 4 * (np.log(2) + 0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    assert machine.score(X[450:]) + 8 * np.log(2) > 0.5 * most


def test_missing_values_do_not_blame_steps_that_were_not_given():
    rng = np.random.default_rng(0)
    bits = rng.integers(2, size=(300, 2))
    X = np.column_stack([bits, bits.sum(axis=1) % 2]).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LatentBoltzmannMachine(hidden_layer_sizes=4, max_iter=500, random_state=0).fit(
            X
        )
    assert not any("step_size_m" in str(one.message) for one in caught)


def estimating(n_hidden, n_columns):
    """Return what watches a machine by sampled runs, its layout and its parameters."""
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=n_hidden, max_iter=0, weight_decay=0, random_state=0
    )
    X = (np.random.default_rng(0).random((500, n_columns)) < 0.5).astype(float)
    fitted = machine.fit(X).fitted_
    settings = MachineSettings.of(machine.get_params())
    settings = settings.of_run(fitted.model, False, 500)
    watch = Objective(settings, fitted.units, X, 0, 5)
    watch.ascent, watch.reference = None, Reference()
    watch.partition = exact_partition(fitted.model, 0)
    return watch, fitted.model.layout, np.zeros_like(fitted.params)


def test_runs_are_enough_for_modes_that_few_of_them_reach():
    """Of four modes each seven runs in a hundred reach one, with half of Z."""
    watch, layout, params = estimating(4, 30)
    signs = np.sign(np.random.default_rng(2).random((30, 4)) - 0.5)
    weights = layout.weights_between(params, 0)
    weights[:] = 4.0 * signs
    sums = np.log1p(np.exp(weights)).sum(axis=0)
    layout.layer_biases(params, 1)[:] = 30 * np.log(2) - sums + [3.0, 3.0, 3.0, 5.0]
    exact = ExactPartition(watch.model).value(params)

    def off():
        found = [
            watch._estimated(params, -np.inf, 2000, np.random.default_rng(seed))
            for seed in range(12)
        ]
        values, errors = np.transpose(found)
        return np.sqrt(np.mean((values - exact) ** 2)), np.abs(values - exact) / errors

    size, in_errors = off()
    assert size < 0.45 and in_errors.max() < 4
    watch.limits = FEW_RUNS  # the negative control
    assert off()[0] > 1.4 * size


def test_states_of_chains_bound_log_z():
    """Runs miss a narrow mode whose share is e^5 only where they end."""
    watch, layout, params = estimating(3, 60)
    layout.weights_between(params, 0)[:, 0] = 6.0
    layout.layer_biases(params, 1)[:] = 60 * (np.log(2) - 6.0) + 5.0, -20.0, -20.0
    watch.limits = FEW_RUNS
    exact = watch.model.log_unnormalised(params, watch.X).mean()
    exact -= ExactPartition(watch.model).value(params)
    chains = np.repeat(np.eye(3, dtype=np.float32)[:2] * [[1], [0]], 50, axis=0)
    value, _ = watch.measure(params, 1000, 1000, chains.astype(np.float32))
    assert value == pytest.approx(exact, abs=0.1)
    # The negative control: the runs alone.
    value, _ = watch.measure(params, 1000, 1000)
    assert value > exact + 1.0
