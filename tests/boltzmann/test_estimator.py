"""LatentBoltzmannMachine: what it learns, what it says and what it refuses."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktem import ContrastiveSolver, LatentBoltzmannMachine
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.normalisation.partition import LogPartition, PartitionPolicy
from sktem.callbacks import Checkpoint, LogLikelihoodMonitor
from sktem.evaluation import enumerate_moments, enumerate_states
from sktem.exceptions import FitWarning
from sktem.graphs import Graph, grid_graph, layered_graph
from sktem.schedules import LogHarmonic, Polynomial

SOLVERS = ["apcd", "hapcd", "mfpcd", "pcd", "cd"]


def chain_data(n=400, d=6, seed=0):
    """Rows of a Markov chain of bits."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    X[:, 0] = rng.random(n) < 0.5
    for j in range(1, d):
        stay = rng.random(n) < 0.85
        X[:, j] = np.where(stay, X[:, j - 1], rng.random(n) < 0.4)
    return X


X = chain_data()


def star_data(n=1000, seed=1):
    """Rows of four bits that are independent given a fifth one, which is not seen."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, 1)) < 0.5
    p = np.where(hidden, [0.8, 0.75, 0.7, 0.2], [0.2, 0.25, 0.3, 0.75])
    return (rng.random((n, 4)) < p).astype(float)


STAR = Graph.from_edges(5, [0, 1, 3, 4], [2, 2, 2, 2])
STAR_DATA = star_data()
KINDS = {
    "grid": dict(graph=grid_graph(3, 3), hidden=[1, 4, 8]),
    "markov": dict(graph=grid_graph(2, 3)),
    "restricted": dict(hidden_layer_sizes=4),
    "deep": dict(hidden_layer_sizes=(4, 3)),
    "gaussian": dict(hidden_layer_sizes=3, visible="gaussian"),
}


def machine(kind, **params):
    plain = {"max_iter": 5, "tol": None, "step_size_m": (0.05, 0.0005)}
    params = {"random_state": 0, **plain, **KINDS[kind], **params}
    return LatentBoltzmannMachine(**params)


def maximum_likelihood(graph, hidden, X):
    """Maximise the enumerated log-likelihood from several starts."""
    model = GraphMachine(graph, hidden)
    n = graph.n_units

    def loss(theta):
        log_partition, units, edges = enumerate_moments(graph, theta[:n], theta[n:])
        value = log_partition - model.log_unnormalised(theta, X).mean()
        slope = np.concatenate([units, edges]) - model.posterior_exact(theta, X).values
        return value, slope

    starts = np.random.default_rng(0).normal(0, 0.5, (4, model.n_parameters))
    found = [optimize.minimize(loss, start, jac=True) for start in starts]
    return -min(result.fun for result in found)


@pytest.mark.parametrize(
    "solver, e_step",
    [("apcd", "auto"), ("apcd", "gibbs"), ("mfpcd", "exact"), ("pcd", "auto"),
     ("pcd", "gibbs"), ("hapcd", "auto"), ("cd", "auto")],
)  # fmt: skip
@pytest.mark.parametrize("centering", [True, False])
def test_reaches_the_maximum_of_the_enumerated_likelihood(solver, e_step, centering):
    """One hidden unit with four visible neighbours is identified by its data."""
    best = maximum_likelihood(STAR, np.array([2]), STAR_DATA)
    fitted = LatentBoltzmannMachine(
        STAR, [2], solver=solver, e_step=e_step, max_iter=150, step_size_m=(0.5, 0.003),
        n_chains=400, n_gibbs_m=5, n_gibbs_e=10, centering=centering, random_state=0,
        tol=None, weight_decay=0.0,
    ).fit(STAR_DATA)  # fmt: skip
    # The estimate itself misses the truth by half a parameter per row, in nats.
    allowed = 0.1 * len(fitted.params_) / (2 * len(STAR_DATA))
    assert best + 1e-9 >= fitted.score(STAR_DATA) > best - allowed


def test_a_start_is_not_the_maximum():
    best = maximum_likelihood(STAR, np.array([2]), STAR_DATA)
    start = LatentBoltzmannMachine(STAR, [2], max_iter=1, tol=None, random_state=0)
    start.fit(STAR_DATA)
    assert start.score(STAR_DATA) < best - 0.1 * 9 / (2 * len(STAR_DATA))


@pytest.mark.parametrize("kind", ["grid", "markov", "restricted", "deep"])
def test_scores_agree_with_enumeration(kind):
    fitted = machine(kind).fit(X)
    states = enumerate_states(6)
    log_likelihoods = fitted.score_samples(states)
    assert np.exp(log_likelihoods).sum() == pytest.approx(1.0, abs=1e-5)
    log_partition = fitted.log_partition("exact")
    assert log_partition.standard_error == 0
    assert log_partition.effective_sample_size == np.inf
    np.testing.assert_allclose(
        -fitted.free_energy(states) - log_partition.value, log_likelihoods, atol=1e-9
    )
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())
    # The pseudo-likelihood from the joint probabilities.
    joint = dict(zip(map(tuple, states), log_likelihoods, strict=True))
    row = X[0]
    expected = 0.0
    for unit in range(6):
        other = row.copy()
        other[unit] = 1 - other[unit]
        one, two = joint[tuple(row)], joint[tuple(other)]
        expected += one - np.logaddexp(one, two)
    assert fitted.pseudo_log_likelihood(X[:1])[0] == pytest.approx(expected, abs=1e-5)


def test_gaussian_densities_integrate_to_one():
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(-3, 0.5, 300), rng.normal(2, 1.0, 300)])[:, None]
    fitted = LatentBoltzmannMachine(
        hidden_layer_sizes=3, visible="gaussian", max_iter=200, random_state=0,
        step_size_m=(1.0, 0.01), tol=None,
    ).fit(data)  # fmt: skip
    grid = np.linspace(-15, 15, 4001)[:, None]
    density = np.exp(fitted.score_samples(grid))
    assert density.sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1.0, abs=1e-4)
    # Two bumps are better than the best single normal density.
    single = -0.5 * np.log(2 * np.pi * data.var()) - 0.5
    assert fitted.score(data) > single + 0.2
    assert (fitted.variances_ > 0).all()
    shifted = clone(fitted).fit(1e4 + 10 * data)
    assert shifted.score(1e4 + 10 * data) == pytest.approx(
        fitted.score(data) - np.log(10), abs=1e-2
    )


@pytest.mark.parametrize("kind", ["grid", "restricted", "deep"])
def test_sampling_agrees_with_enumeration(kind):
    fitted = machine(kind, max_iter=20).fit(X)
    n = 10_000
    states = enumerate_states(6)
    mass = np.exp(fitted.score_samples(states))

    def check(draws, mass):
        for values, table in (
            (draws, states),
            (draws[:, :1] * draws, states[:, :1] * states),
        ):
            exact = mass @ table
            error = np.abs(values.mean(axis=0) - exact)
            variance = np.maximum(exact * (1 - exact), 0)
            assert (error < 4.5 * np.sqrt(variance / n) + 1e-6).all()

    draws = fitted.sample(n, n_steps=50)
    check(draws, mass)
    with pytest.raises(AssertionError):
        check(1 - draws, mass)
    row = np.array([1, np.nan, np.nan, 0, 1, np.nan])
    seen = ~np.isnan(row)
    agree = (states[:, seen] == row[seen]).all(axis=1)
    conditional = mass * agree / (mass @ agree)
    rows = np.tile(row, (n, 1))
    draws = fitted.sample_conditional(rows, n_steps=50)
    assert (draws[:, seen] == row[seen]).all()
    check(draws, conditional)
    filled = fitted.impute(rows[:500], n_steps=100).mean(axis=0)
    assert (filled[seen] == row[seen]).all()
    exact = conditional @ states
    np.testing.assert_allclose(filled, exact, atol=4.5 * 0.5 / np.sqrt(500 * 10))


def test_several_chains_of_an_imputation():
    """Two states that fit, far apart: one chain stays with one of them."""
    fitted = machine("restricted", max_iter=1).fit(X)
    visible, hidden = fitted.n_features_in_, fitted.weights_[0].shape[1]
    weights = np.zeros((visible, hidden), np.float32)
    weights[1:, 0] = 16.0  # the first hidden unit turns all but one on or off
    fitted.params_ = np.zeros_like(fitted.params_)
    fitted.fitted_.model.layout.weights_between(fitted.params_, 0)[:] = weights
    fitted.fitted_.model.layout.even_biases(fitted.params_)[1:] = -8.0
    fitted.fitted_.model.layout.odd_biases(fitted.params_)[0] = -8.0 * (visible - 1)
    row = np.full((1, visible), np.nan)
    row[0, 0] = 1.0
    states = enumerate_states(visible)
    states = states[states[:, 0] == 1]
    mass = np.exp(fitted.score_samples(states))
    exact = mass @ states / mass.sum()
    np.testing.assert_allclose(exact[1:], 0.5, atol=0.01)
    single = fitted.impute(row, n_steps=10, n_chains=1)
    assert np.abs(single[0, 1:] - 0.5).min() > 0.4  # the other state is not found
    n = 400
    found = fitted.impute(row, n_steps=10, n_chains=n)
    assert found[0, 0] == 1.0
    np.testing.assert_allclose(found[0], exact, atol=4.5 * 0.5 / np.sqrt(n))
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_chains must be an integer >= 1"):
            fitted.impute(row, n_chains=bad)


def test_one_gibbs_transition():
    """The hidden units are drawn exactly, so that the law of the result is known."""
    fitted = machine("restricted", max_iter=20).fit(X)
    weights, (below, above) = fitted.weights_[0], fitted.biases_
    hidden = enumerate_states(4)
    p = 1 / (1 + np.exp(-(X[0] @ weights + above)))
    mass = np.prod(np.where(hidden == 1, p, 1 - p), axis=1)
    expected = mass @ (1 / (1 + np.exp(-(hidden @ weights.T + below))))
    n = 20_000
    found = fitted.gibbs(np.tile(X[0], (n, 1))).mean(axis=0)
    assert (np.abs(found - expected) < 4.5 * 0.5 / np.sqrt(n)).all()
    np.testing.assert_allclose(fitted.transform(X[:1])[0], p, rtol=1e-5)


@pytest.mark.parametrize("kind", ["grid", "restricted", "deep", "gaussian"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("centering", [False, True])
def test_partial_fit_does_not_depend_on_chunks(kind, solver, centering):
    if solver == "hapcd":
        with pytest.raises(ValueError, match="cannot begin on a stream"):
            machine(kind, solver=solver).partial_fit(X)
        return
    params = []
    for cuts in ([], [37, 38, 250], range(10, 400, 10)):
        estimator = machine(kind, solver=solver, batch_size=64, centering=centering)
        for chunk in np.split(X, list(cuts)):
            estimator.partial_fit(chunk)
        assert estimator.n_samples_seen_ == len(X)
        params.append(estimator.params_)
    np.testing.assert_array_equal(params[0], params[1])
    np.testing.assert_array_equal(params[0], params[2])


def test_a_stream_is_ready_before_its_first_batch():
    estimator = machine("restricted").partial_fit(X[:3])
    assert np.isfinite(estimator.score_samples(X)).all()
    assert estimator.transform(X).shape == (400, 4)


def test_partial_fit_learns():
    estimator = machine("restricted", step_size_m=0.2)
    start = clone(estimator).partial_fit(X[:50]).score(X)
    for _ in range(20):
        estimator.partial_fit(X)
    assert estimator.score(X) > start + 0.3
    before = estimator.params_.copy()
    assert (estimator.fit(X).partial_fit(X).params_ != before).any()


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_result_for_any_number_of_threads(kind):
    data = np.tile(X, (3, 1))[1:]
    fits = [machine(kind, n_jobs=n_jobs).fit(data) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(fits[0].params_, fits[1].params_)
    np.testing.assert_array_equal(fits[0].sample(600), fits[1].sample(600))
    np.testing.assert_array_equal(fits[0].transform(data), fits[1].transform(data))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["apcd", "cd"])
def test_missing_values_in_fit(kind, solver):
    rng = np.random.default_rng(0)
    missing = X.copy()
    missing[rng.random(X.shape) < 0.3] = np.nan
    fitted = machine(kind, solver=solver).fit(missing)
    assert np.isfinite(fitted.params_).all()
    assert np.isfinite(fitted.impute(missing[:20])).all()
    assert np.isfinite(fitted.transform(missing)).all()
    with pytest.raises(ValueError, match="NaN"):
        fitted.score_samples(missing)


def test_learning_from_missing_values_finds_the_coupling():
    """Two units that agree, one of them unseen half the time."""
    rng = np.random.default_rng(0)
    x = rng.random(2000) < 0.5
    data = np.column_stack([x, np.where(rng.random(2000) < 0.1, ~x, x)]).astype(float)
    data[rng.random(2000) < 0.5, 1] = np.nan
    fitted = LatentBoltzmannMachine(
        grid_graph(1, 2), max_iter=100, step_size_m=(0.5, 0.01), tol=None,
        random_state=0,
    ).fit(data)  # fmt: skip
    seen = data[~np.isnan(data[:, 1])]
    odds = [[np.mean((seen == (a, b)).all(axis=1)) for b in (0, 1)] for a in (0, 1)]
    exact = np.log(odds[0][0] * odds[1][1] / (odds[0][1] * odds[1][0]))
    # The standard error of a log odds ratio of about a thousand pairs.
    error = np.sqrt(sum(1 / (len(seen) * p) for pair in odds for p in pair))
    assert abs(fitted.weights_[0, 1] - exact) < 3 * error


def test_sparse_input_is_the_same():
    dense = machine("restricted").fit(X)
    thin = machine("restricted").fit(sparse.csr_array(X))
    np.testing.assert_array_equal(dense.params_, thin.params_)
    rows = sparse.csr_array(X[:30])
    np.testing.assert_array_equal(dense.transform(X[:30]), dense.transform(rows))
    np.testing.assert_allclose(dense.score_samples(X[:30]), dense.score_samples(rows))
    np.testing.assert_array_equal(dense.gibbs(X[:30]), dense.gibbs(rows))
    stream = machine("restricted").partial_fit(sparse.csr_array(X))
    np.testing.assert_array_equal(
        stream.params_, machine("restricted").partial_fit(X).params_
    )


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_kept(kind):
    fitted = machine(kind).fit(X.astype(np.float32))
    assert fitted.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted.transform(X).dtype == np.float64
    np.testing.assert_allclose(
        fitted.transform(X.astype(np.float32)), fitted.transform(X), atol=1e-5
    )


def test_probabilities_and_redrawing_them():
    probabilities = np.tile([0.5, 0.9, 0.1], (400, 1))
    plain, drawn = (
        LatentBoltzmannMachine(
            Graph.from_edges(3, [0, 1], [1, 2]), binarize=binarize, max_iter=60,
            step_size_m=(0.2, 0.005), tol=None, random_state=0,
        ).fit(probabilities)
        for binarize in (None, "sample")
    )  # fmt: skip
    for fitted in (plain, drawn):
        log_partition, units, _ = enumerate_moments(
            Graph.from_edges(3, [0, 1], [1, 2]), fitted.biases_, fitted.params_[3:]
        )
        np.testing.assert_allclose(units, [0.5, 0.9, 0.1], atol=0.03)
    # Values drawn anew are independent; as they stand, their products are statistics.
    assert np.abs(drawn.params_[3:]).max() < 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_options_of_the_update(kind):
    base = machine(kind).fit(X)
    decayed = machine(kind, weight_decay=1.0, step_size_m=0.1, max_iter=20).fit(X)
    free = machine(kind, step_size_m=0.1, max_iter=20).fit(X)
    start = decayed.fitted_.model.weights_from
    assert np.abs(decayed.params_[start:]).sum() < np.abs(free.params_[start:]).sum()
    for change in (
        {"solver": ContrastiveSolver(momentum=0.9)},
        {"solver": ContrastiveSolver(rao_blackwell=False)},
        {"centering": False},
        {"n_chains": 30},
        {"n_gibbs_m": 2},
        {"batch_size": 50},
        {"step_size_m": 0.01},
    ):
        other = machine(kind, **change).fit(X)
        assert (other.params_ != base.params_).any(), change


def test_options_of_the_e_step():
    base = machine("grid", e_step="gibbs").fit(X)
    for change in (
        {"n_gibbs_e": 3},
        {"n_chains_e": 2},
        {"solver": ContrastiveSolver(rao_blackwell=False)},
        {"step_size_e": 0.5},
        {"step_size_e": Polynomial(2 / 3)},
    ):
        other = machine("grid", **{"e_step": "gibbs", **change}).fit(X)
        assert (other.params_ != base.params_).any(), change
    mean_field = machine("deep", solver="mfpcd").fit(X)
    other = machine("deep", solver="mfpcd", n_mean_field=1).fit(X)
    assert (other.params_ != mean_field.params_).any()


def test_steps():
    schedule = LogHarmonic(0.5)
    by_schedule = machine("grid", step_size_m=schedule).fit(X)
    by_function = machine("grid", step_size_m=lambda k: schedule(k)).fit(X)
    np.testing.assert_array_equal(by_schedule.params_, by_function.params_)
    linear = machine("grid", step_size_m=(0.5, 0.1)).fit(X)
    np.testing.assert_allclose(linear.history_.step_size, [0.5, 0.4, 0.3, 0.2, 0.1])
    assert linear.history_.n_iterations == [4, 8, 12, 16, 20]
    assert linear.n_iter_ == 5


def test_parameters_that_are_gone_are_named():
    with pytest.raises(TypeError, match="no parameter 'pretrain': give it as params_"):
        machine("deep", pretrain=1)
    for name in ("momentum", "averaging", "rao_blackwell"):
        place = rf"give it as solver=ContrastiveSolver\({name}=\.\.\.\)"
        with pytest.raises(TypeError, match=place):
            machine("deep", **{name: 0})
        with pytest.raises(ValueError, match=place):
            machine("deep").set_params(**{name: 0})


def test_a_solver_by_name_is_that_with_its_defaults():
    for solver in SOLVERS:
        by_name = machine("restricted", solver=solver).fit(X)
        estimator = machine("restricted", solver=ContrastiveSolver())
        estimator.set_params(solver__name=solver).fit(X)
        np.testing.assert_array_equal(estimator.params_, by_name.params_)


def test_warm_start_goes_on():
    estimator = machine("restricted", warm_start=True, step_size_m=0.1)
    first = estimator.fit(X).score(X)
    assert estimator.fit(X).fit(X).score(X) > first + 0.05
    assert estimator.n_iter_ == len(estimator.history_) == 15
    estimator.set_params(hidden_layer_sizes=5)
    with pytest.raises(ValueError, match="warm_start needs the same machine"):
        estimator.fit(X)


@pytest.mark.parametrize(
    "kind, options",
    [("restricted", {"solver": ContrastiveSolver(momentum=0.5)}),
     ("restricted", {"solver": ContrastiveSolver(averaging=True)}),
     ("grid", {"e_step": "gibbs"}),
     ("deep", {"solver": "mfpcd"}), ("gaussian", {}), ("markov", {"solver": "cd"}),
     ("grid", {"step_size_m": LogHarmonic(0.5), "step_size_e": Polynomial(2 / 3)})],
)  # fmt: skip
def test_a_warm_start_is_the_same_as_one_long_fit(kind, options):
    options = {"step_size_m": 0.1, "step_size_e": "auto", **options}
    if options.get("e_step") == "gibbs":
        options["step_size_e"] = 0.3
    whole = machine(kind, max_iter=8, **options).fit(X)
    parts = machine(kind, max_iter=4, warm_start=True, **options).fit(X).fit(X)
    np.testing.assert_array_equal(parts.params_, whole.params_)
    np.testing.assert_array_equal(
        parts.history_.gradient_norm, whole.history_.gradient_norm
    )
    # What was fitted in between may be changed by its user.
    parts.params_ = np.zeros_like(parts.params_)
    if isinstance(parts.solver, ContrastiveSolver):
        parts.set_params(solver__momentum=0.0)
    parts.set_params(max_iter=1, step_size_m=1e-9).fit(X)
    assert np.abs(parts.params_).max() < 1e-3 or kind == "gaussian"


def test_warm_start_with_other_rows():
    estimator = machine("grid", e_step="gibbs", warm_start=True).fit(X)
    assert np.isfinite(estimator.fit(X[:100]).score(X))
    estimator.partial_fit(X)
    assert np.isfinite(estimator.fit(X).score(X))
    assert np.isfinite(estimator.set_params(n_chains_e=2).fit(X).score(X))


def test_grid_search_pipeline_and_pickle():
    y = X[:, 0]
    search = GridSearchCV(machine("restricted"), {"solver": SOLVERS}, cv=2).fit(X)
    assert search.best_params_["solver"] in SOLVERS
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(machine("restricted", max_iter=30), LogisticRegression())
    assert pipeline.fit(X, y).score(X, y) > 0.7
    assert list(pipeline[:-1].get_feature_names_out()) == [
        f"latentboltzmannmachine{i}" for i in range(4)
    ]
    for kind in KINDS:
        fitted = machine(kind).fit(X)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
        again.partial_fit(X)
        np.testing.assert_array_equal(again.params_, fitted.partial_fit(X).params_)


def test_graphs_in_parts():
    """Isolated units, several components, a graph with no hidden unit."""
    apart = np.zeros((8, 8), int)
    apart[0, 1] = apart[1, 0] = apart[6, 7] = apart[7, 6] = 1
    fitted = LatentBoltzmannMachine(apart, [3, 7], max_iter=20, tol=None).fit(X)
    assert np.exp(fitted.score_samples(enumerate_states(6))).sum() == pytest.approx(1)
    # A hidden unit without neighbours is what its bias says.
    isolated = fitted.transform(X)[:, 0]
    np.testing.assert_allclose(isolated, 1 / (1 + np.exp(-fitted.biases_[3])))
    plain = machine("markov").fit(X)
    assert plain.transform(X).shape == (400, 0)
    empty = LatentBoltzmannMachine(np.zeros((6, 6)), max_iter=200, tol=None)
    found = 1 / (1 + np.exp(-empty.set_params(step_size_m=(0.5, 0.01)).fit(X).biases_))
    np.testing.assert_allclose(found, X.mean(axis=0), atol=0.02)


def test_large_hidden_parts_use_gibbs_and_sampling():
    rng = np.random.default_rng(0)
    data = (rng.random((200, 4)) < [0.2, 0.8, 0.5, 0.5]).astype(float)
    graph = layered_graph([4, 16, 15])
    fitted = LatentBoltzmannMachine(
        graph, np.arange(4, 35), max_iter=3, n_gibbs_e=3, random_state=0, tol=None
    ).fit(data)
    assert not fitted.fitted_.model.has_exact_posterior
    exact = fitted.log_partition("exact").value
    found = fitted.log_partition("ais")
    assert abs(found.value - exact) < 4 * found.standard_error
    # Per-row sampling of the hidden units against the sum over all visible states.
    states = enumerate_states(4)
    total = np.exp(fitted.score_samples(states, log_partition=exact, n_runs=50)).sum()
    assert total == pytest.approx(1.0, abs=0.03)
    assert (fitted.free_energy(states) >= -fitted.fitted_.model.n_units * 2).all()
    bound = -fitted.free_energy(states) - exact
    assert (bound <= fitted.score_samples(states, log_partition=exact) + 0.1).all()
    with pytest.raises(ValueError, match="small treewidth"):
        LatentBoltzmannMachine(graph, np.arange(4, 35), e_step="exact").fit(data)


def test_a_single_row():
    fitted = machine("restricted").fit(X[:1])
    assert -np.log(2) * X.shape[1] / 2 < fitted.score(X[:1]) <= 0
    assert np.isfinite(machine("gaussian").fit(X[:1]).params_).all()


def test_steps_that_are_too_long():
    for kind in ("grid", "restricted", "gaussian"):
        with pytest.warns(FitWarning, match="ran away"):
            solver = ContrastiveSolver(momentum=0.9)
            fitted = machine(kind, step_size_m=1e30, solver=solver).fit(X)
        assert np.isfinite(fitted.params_).all()
        assert np.abs(fitted.params_).max() <= 1000
        assert fitted.history_.events["diverged"] > 0
        assert np.isfinite(fitted.transform(X)).all()
        assert np.isfinite(fitted.sample(5, n_steps=3)).all()


@pytest.mark.parametrize(
    "params, data, message",
    [
        ({"hidden": [0]}, X, "give graph"),
        ({"graph": grid_graph(2, 3), "hidden_layer_sizes": 3}, X, "not both"),
        ({"graph": grid_graph(2, 3), "hidden": range(6)}, X, "all units are hidden"),
        ({"graph": grid_graph(2, 3), "hidden": [0]}, X, "5 visible units"),
        ({"graph": grid_graph(3, 3), "hidden": [0, 0, 1]}, X, "once, from 0 to 8"),
        ({"graph": grid_graph(3, 3), "hidden": [7, 8, 9]}, X, "once, from 0 to 8"),
        ({"graph": grid_graph(3, 3), "hidden": [True]}, X, "mask must have shape"),
        ({"graph": np.eye(6)}, X, "self-loop"),
        ({"graph": grid_graph(2, 3), "visible": "gaussian"}, X, "layers, not a graph"),
        ({"hidden_layer_sizes": ()}, X, "positive integers"),
        ({"hidden_layer_sizes": (3, 0)}, X, "positive integers"),
        ({"visible": "poisson"}, X, "one of"),
        ({"solver": "sgd"}, X, r"'apcd', 'cd', 'hapcd', 'mfpcd', 'pcd'"),
        ({"solver": "mfpcd", "e_step": "gibbs"}, X, "use that"),
        ({"solver": "hapcd", "e_step": "exact"}, X, "needs e_step='auto'"),
        ({"solver": "pcd", "step_size_e": 0.5}, X, "does not average"),
        ({"step_size_e": 1.5}, X, r"\(0, 1\]"),
        ({"step_size_m": 0}, X, "positive"),
        ({"step_size_m": (0.1, -1)}, X, "positive"),
        ({"step_size_m": "fast"}, X, "a number, a pair"),
        ({"n_chains": 0}, X, "n_chains must be an integer >= 1"),
        ({"n_gibbs_m": 1.5}, X, "n_gibbs_m must be an integer"),
        ({"solver": ContrastiveSolver("sgd")}, X, "name of the solver must be one of"),
        ({"solver": ContrastiveSolver(momentum=1.0)}, X, "below 1"),
        ({"solver": ContrastiveSolver(momentum="fast")}, X, "momentum must be a num"),
        ({"solver": ContrastiveSolver(rao_blackwell=1)}, X, "rao_blackwell must be"),
        ({"solver": ContrastiveSolver("pcd"), "step_size_e": 0.5}, X, "not average"),
        ({"weight_decay": -1}, X, "weight_decay"),
        ({"weight_decay": "none"}, X, "weight_decay"),
        ({"centering": "yes"}, X, "centering"),
        ({"centering": 1}, X, "centering"),
        ({"variance_floor": 0}, X, "variance_floor"),
        ({"variance_floor": 2}, X, "variance_floor"),
        ({"binarize": 0.5, "visible": "gaussian"}, X, "binarize"),
        ({"binarize": True}, X, "a threshold"),
        ({"binarize": -0.5}, sparse.csr_array(X), ">= 0"),
        ({"visible": "binary"}, X + 0.5, r"in \[0, 1\]"),
        ({"visible": "binary"}, -X, r"in \[0, 1\]"),
        ({}, np.where(X > 0, np.inf, X), "infinity"),
        ({"e_step": "exact"}, np.where(X > 0, np.nan, X), "without NaN"),
        ({"hidden_layer_sizes": (99, 99), "e_step": "exact"}, X, "small treewidth"),
        ({"hidden": 100}, X, "did you mean hidden_layer_sizes=100"),
        ({"visible": "binary"}, 2 * X - 1, "use visible=.spin"),
        ({"visible": "binary"}, 6 * X, r"MinMaxScaler\(clip=True\)"),
        ({"graph": [(0, 1), (1, 1)]}, X, "self-loop at unit 1"),
        ({"graph": [(0, 1), (1, -1)]}, X, "numbered from 0"),
    ],
)  # fmt: skip
def test_bad_input(params, data, message):
    with pytest.raises(ValueError, match=message):
        LatentBoltzmannMachine(**{"max_iter": 1, "tol": None, **params}).fit(data)


def test_a_threshold():
    """As in BernoulliNB; the same in all methods as passing zeros and ones."""
    rng = np.random.default_rng(0)
    real = np.where(X > 0, 1.0, -1.0) * rng.random(X.shape) - 0.25
    bits = (real > -0.25).astype(float)
    drawn = machine("restricted", binarize=-0.25).fit(real)
    plain = machine("restricted").fit(bits)
    np.testing.assert_array_equal(drawn.params_, plain.params_)
    np.testing.assert_array_equal(drawn.transform(real), plain.transform(bits))
    assert drawn.score(real) == plain.score(bits)
    real[0, 0] = np.nan
    assert np.isfinite(drawn.impute(real[:2])).all()
    thin = sparse.csr_array(np.where(X > 0, 3.0, 0.0))
    found = machine("restricted", binarize=0).fit(thin)
    np.testing.assert_array_equal(found.params_, machine("restricted").fit(X).params_)


def test_transform_returns_data_frames():
    pandas = pytest.importorskip("pandas")
    fitted = machine("restricted").set_output(transform="pandas").fit(X)
    names = [f"latentboltzmannmachine{i}" for i in range(4)]
    for frame in (fitted.transform(X), fitted.fit_transform(X)):
        assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == names


def test_bad_calls():
    fitted = machine("restricted").fit(X)
    for call, message in (
        (lambda: fitted.log_partition("magic"), "method must be"),
        (lambda: fitted.log_partition("ais", n_runs=0), "n_runs"),
        (lambda: fitted.log_partition("ais", schedule="fast"), "schedule must be"),
        (lambda: fitted.log_partition("ais", schedule=[0, 0.5]), "from 0 to 1"),
        (lambda: fitted.sample(0), "n_samples"),
        (lambda: fitted.sample_conditional(X, n_steps=0), "n_steps"),
        (lambda: machine("gaussian").fit(X).pseudo_log_likelihood(X), "binary"),
        (lambda: LatentBoltzmannMachine(hidden_layer_sizes=40, max_iter=1, tol=None)
         .fit(np.tile(X, (1, 5))).log_partition("exact"), "too large"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()


def test_duplicate_entries_of_a_graph_are_one_edge():
    once = sparse.coo_array(grid_graph(2, 3))
    rows, columns = np.tile(once.row, 2), np.tile(once.col, 2)
    twice = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(6, 6))
    fits = [
        LatentBoltzmannMachine(graph, max_iter=2, tol=None, random_state=0).fit(X)
        for graph in (once, twice)
    ]
    np.testing.assert_array_equal(fits[0].params_, fits[1].params_)


def test_interrupt_keeps_the_last_epoch(monkeypatch):
    from sktem.boltzmann.learning import loop as contrastive_loop

    calls = []
    real = contrastive_loop.update

    def update(*args, **kwargs):
        calls.append(None)
        if len(calls) == 11:
            raise KeyboardInterrupt
        real(*args, **kwargs)

    monkeypatch.setattr(contrastive_loop, "update", update)
    estimator = machine("restricted", max_iter=10)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X)
    assert estimator.n_iter_ == 2
    monkeypatch.undo()
    # Two epochs of a longer run: the steps go on to the tenth.
    steps = estimator.history_.step_size
    same = machine("restricted", max_iter=2, step_size_m=tuple(steps)).fit(X)
    np.testing.assert_allclose(estimator.params_, same.params_, atol=1e-6)


def test_verbose(capsys):
    machine("restricted", verbose=1, verbose_interval=2, max_iter=4, tol=None).fit(X)
    out = capsys.readouterr().out
    assert out.startswith("Initialization 0\n")
    lines = [line for line in out.splitlines() if "Iteration" in line]
    assert lines == ["  Iteration 2", "  Iteration 4"]
    assert out.endswith("Passes used up.\n")


def test_a_verbose_stream_prints_its_chunks(capsys):
    machine("restricted", verbose=1).partial_fit(X[:30])
    assert capsys.readouterr().out.endswith("  Chunk of 30 rows\n")


unfinished = pytest.mark.filterwarnings("ignore:The fit has not converged")


@unfinished
@pytest.mark.parametrize("tol", [None, 0.02])
def test_the_record_holds_what_there_is(tol):
    history = machine("restricted", max_iter=8, tol=tol).fit(X).history_
    written = {"passes", "n_iterations", "step_size", "gradient_norm", "cpu_time"}
    if tol is not None:
        written.add("objective")
    for name, values in vars(history).items():
        if isinstance(values, list):
            assert len(values) == (8 if name in written else 0)
            assert np.isfinite(values).all()


@unfinished
def test_the_record_of_a_warm_start_that_measures():
    estimator = machine("restricted", max_iter=5, tol=None, warm_start=True).fit(X)
    objective = estimator.set_params(tol=1.0).fit(X).history_.objective
    assert len(objective) == estimator.n_iter_ > 5
    assert np.isnan(objective[:5]).all() and np.isfinite(objective[5:]).all()


callbacks = pytest.mark.skipif(
    not hasattr(LatentBoltzmannMachine, "set_callbacks"), reason="scikit-learn < 1.9"
)


def killed_and_resumed(make, rows, epoch, path):
    """Return a fit that was killed after an epoch and resumed."""

    class KilledError(Exception):
        pass

    class Killer(LogLikelihoodMonitor):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "epoch":
                self.scores_.append(0.0)
                if len(self.scores_) == epoch:
                    raise KilledError
            return False

    with pytest.raises(KilledError):
        make().set_callbacks(Checkpoint(path), Killer(rows)).fit(rows)
    return make().set_callbacks(Checkpoint(path)).fit(rows)


@callbacks
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_killed_after_a_second_start_resumes_to_the_same_bits(tmp_path):
    """Independent columns teach nothing in 100 epochs, and a short round follows."""
    rows = (np.random.default_rng(0).random((500, 20)) < 0.5) * 1.0

    def make():
        return LatentBoltzmannMachine(
            hidden_layer_sizes=18, batch_size=45, n_chains=10, n_gibbs_m=1,
            max_iter=325, random_state=0,
        )  # fmt: skip

    whole = make().fit(rows)
    ends = np.flatnonzero(np.diff(whole.history_.objective)) + 2
    assert ends.tolist() == [25, 100, 125, 325]
    resumed = killed_and_resumed(make, rows, 110, tmp_path / "fit.pickle")
    assert resumed.history_.objective == whole.history_.objective
    np.testing.assert_array_equal(resumed.params_, whole.params_)


@callbacks
def test_early_stopping():
    monitor = LogLikelihoodMonitor(X, patience=1, min_delta=1e-3)
    fitted = machine("restricted", step_size_m=1e-9, max_iter=50)
    fitted.set_callbacks(monitor).fit(X)
    assert fitted.n_iter_ < 50
    assert len(monitor.scores_) == fitted.n_iter_


def test_exact_sums_go_by_their_cost():
    """20 units that are all joined, and a restricted machine with 16 hidden units."""
    rng = np.random.default_rng(0)
    data = (rng.random((30, 20)) < 0.5).astype(float)
    for settings in (
        dict(graph=np.ones((20, 20)) - np.eye(20)),
        dict(hidden_layer_sizes=16),
    ):
        fitted = LatentBoltzmannMachine(**settings, max_iter=1, tol=None).fit(data)
        found = fitted.log_partition()
        assert found.standard_error == 0
        assert found.value == fitted.log_partition("exact").value
    wide = LatentBoltzmannMachine(hidden_layer_sizes=40, max_iter=1, tol=None)
    assert wide.fit(np.tile(data, 2)).log_partition().n_runs == 100


@pytest.mark.parametrize("kind", ["grid", "restricted", "deep"])
def test_log_z_belongs_to_the_parameters(kind):
    fitted = machine(kind).fit(X)
    for change in (lambda p: 2 * p, lambda p: p.__imul__(1.5)):
        before = fitted.score(X)
        fitted.params_ = change(fitted.params_)
        graph, biases, weights, _ = fitted.fitted_.model.as_graph(fitted.params_)
        expected = enumerate_moments(graph, biases, weights)[0]
        assert fitted.log_partition("exact").value == pytest.approx(expected)
        assert fitted.score(X) != before
        assert fitted.log_partition_.value == pytest.approx(expected)


def test_a_score_that_rests_on_few_runs_warns():
    """Strong couplings, too many units for an exact sum and few temperatures."""
    rng = np.random.default_rng(0)
    data = (rng.random((50, 60)) < 0.5).astype(float)
    fitted = LatentBoltzmannMachine(
        hidden_layer_sizes=60, max_iter=1, tol=None, random_state=0
    ).fit(data)
    policy = PartitionPolicy(n_temperatures=2, most_temperatures=6)
    partition = LogPartition(fitted.fitted_.model, policy)
    fitted.fitted_ = replace(fitted.fitted_, partition=partition)
    fitted.score(data)  # about independent units: no warning
    assert fitted.log_partition_.effective_sample_size > 50
    fitted.params_ = rng.normal(0, 10, fitted.params_.shape).astype(np.float32)
    for say in (fitted.score, fitted.score_samples):
        fitted.params_ = fitted.params_ * np.float32(1.001)  # log Z is found anew
        with pytest.warns(FitWarning, match="log Z is uncertain") as caught:
            say(data)
        assert [warning.filename for warning in caught] == [__file__]
    assert fitted.log_partition_.n_temperatures == 6


def test_defaults_converge_and_say_so():
    fitted = LatentBoltzmannMachine(STAR, [2], random_state=0).fit(STAR_DATA)
    assert fitted.converged_
    values = fitted.history_.objective
    assert np.isfinite(values).all() and len(values) == fitted.n_iter_
    # Exact, and of all rows: there are no more than 1,000.
    n, weights = len(STAR_DATA), fitted.weights_.data
    assert fitted.weight_decay_ == 1 / n
    share = (STAR_DATA.sum(axis=0) + 0.5) / (n + 1)
    alone = np.log(np.cosh(0.5 * np.log(share / (1 - share)))).sum()
    fields = 0.5 * (fitted.biases_ + 0.5 * fitted.weights_.sum(axis=1))
    squares = 0.5 * (weights @ weights)  # each edge is there twice
    penalty = 0.5 * squares if squares < 4 else 2 * (1 + np.log(squares / 4))
    penalty = (penalty + np.log(np.cosh(fields)).sum() - alone) / n
    score = fitted.score(STAR_DATA)
    assert values[-1] == pytest.approx(score - penalty, abs=1e-6)
    assert penalty > 1e-3
    with pytest.warns(ConvergenceWarning, match="has not converged after 3 epochs"):
        short = LatentBoltzmannMachine(STAR, [2], max_iter=3).fit(STAR_DATA)
    assert not short.converged_


@pytest.mark.parametrize("step_size_m", [1e-9, (0.05, 0.0005)])
def test_given_steps_that_are_too_short_do_not_converge(step_size_m):
    with pytest.warns(ConvergenceWarning, match="half of the epochs"):
        fitted = machine("restricted", step_size_m=step_size_m, tol=0.02).fit(X)
    assert not fitted.converged_ and fitted.n_iter_ == 5


def test_ending_below_independent_units_warns():
    rng = np.random.default_rng(0)
    data = (rng.random((200, 12)) < 0.4).astype(float)
    with pytest.warns(FitWarning, match="below that of independent units"):
        LatentBoltzmannMachine(
            hidden_layer_sizes=10, step_size_m=10.0, max_iter=20, random_state=0
        ).fit(data)


def test_missing_values_are_watched():
    rng = np.random.default_rng(0)
    missing = X.copy()
    missing[rng.random(X.shape) < 0.2] = np.nan
    fitted = machine("grid", step_size_m=0.5, max_iter=60, tol=0.5).fit(missing)
    values = fitted.history_.objective
    seen = ~np.isnan(missing)
    assert values[0] < values[-1] < 0
    # Of fewer values than rows have columns.
    assert values[-1] > fitted.score(X) * 1.2 * seen.mean()


def test_gaussian_units_do_not_depend_on_the_scale_of_columns():
    """Columns in micrometres and in megametres, one of them far from zero."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 3)) + 3 * (rng.random((200, 1)) < 0.5)
    scale, shift = np.array([1e-6, 1.0, 1e6]), np.array([0.0, 1e3, 1e9])
    one, other = (
        LatentBoltzmannMachine(
            hidden_layer_sizes=2, visible="gaussian", max_iter=20, tol=None,
            random_state=0,
        ).fit(rows)
        for rows in (data, data * scale + shift)
    )  # fmt: skip
    np.testing.assert_allclose(other.params_, one.params_, atol=1e-3)
    found = other.score(data * scale + shift) + np.log(scale).sum()
    assert found == pytest.approx(one.score(data), abs=1e-3)


def test_gaussian_units_that_are_worse_than_one_normal_density_warn():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(300, 1))
    strong = common + 0.1 * rng.normal(size=(300, 4))
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=2, visible="gaussian", random_state=0
    )
    with pytest.warns(FitWarning, match="Whiten the columns first") as caught:
        machine.fit(strong)
    assert caught[0].filename == __file__
    # Weakly dependent columns, and clusters: no warning, which would be an error here.
    machine.fit(rng.normal(size=(300, 4)))
    machine.fit(rng.normal(size=(300, 4)) + 8 * (rng.random((300, 1)) < 0.5))


def of_four_patterns(n, seed):
    """Return rows about four patterns of twenty bits."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(9).random((4, 20)) < 0.5
    noise = rng.random((n, 20)) < 0.1
    return (patterns[rng.integers(4, size=n)] ^ noise).astype(float)


@pytest.mark.parametrize("n_rows, n_columns", [(30, 5), (100, 10)])
def test_gains_by_chance_are_told(n_rows, n_columns):
    rng = np.random.default_rng(n_rows)
    shares = rng.uniform(0.2, 0.8, n_columns)
    train, new = (
        (rng.random((n, n_columns)) < shares).astype(float) for n in (n_rows, 2000)
    )
    with pytest.warns(FitWarning, match="by chance"):
        machine = LatentBoltzmannMachine(weight_decay=0.0, random_state=0).fit(train)
    assert machine.converged_
    share = np.clip(train.mean(axis=0), 0.5 / n_rows, 1 - 0.5 / n_rows)
    alone = (new * np.log(share) + (1 - new) * np.log(1 - share)).sum(axis=1)
    # What the warning says is so, and what it advises helps.
    assert machine.score(new) < alone.mean()
    cured = LatentBoltzmannMachine(random_state=0).fit(train)
    assert cured.score(new) > machine.score(new) + 0.1


def test_fits_that_stop_early_tell_gains_by_chance():
    """More epochs alone would be bad advice for rows of independent units."""
    train = (np.random.default_rng(0).random((30, 10)) < 0.4).astype(float)
    with pytest.warns(ConvergenceWarning, match="has not converged") as told:
        LatentBoltzmannMachine(max_iter=30, weight_decay=0, random_state=0).fit(train)
    assert "may fit noise alone" in str(told[0].message)
    assert "use weight_decay='auto'" in str(told[0].message)
    # Under a prior that converges.
    LatentBoltzmannMachine(random_state=0).fit(train)
    # A hundred hidden units of many independent columns are too much for the default.
    wide, new = (np.random.default_rng(1).random((2, 300, 40)) < 0.4).astype(float)
    with pytest.warns(ConvergenceWarning, match="has not converged") as told:
        machine = LatentBoltzmannMachine(max_iter=300, random_state=0).fit(wide)
    assert "may fit noise alone" in str(told[0].message)
    assert "use more weight_decay (now 0.003)" in str(told[0].message)
    share = wide.mean(axis=0)
    alone = (new * np.log(share) + (1 - new) * np.log(1 - share)).sum(axis=1)
    assert machine.score(new) < alone.mean() - 0.2
    with pytest.warns(ConvergenceWarning, match="has not converged") as told:
        LatentBoltzmannMachine(
            hidden_layer_sizes=4, max_iter=30, weight_decay=0, random_state=0
        ).fit(of_four_patterns(600, 0))
    assert "noise alone" not in str(told[0].message)


def test_gains_beyond_chance_are_not_told():
    train, new = of_four_patterns(600, 0), of_four_patterns(2000, 1)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=4, weight_decay=0.0, random_state=0
    ).fit(train)
    assert machine.score(new) > machine.score(train) - 0.5
