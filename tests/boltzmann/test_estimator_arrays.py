"""LatentBoltzmannMachine on arrays of other namespaces, as scikit-learn has it."""

import pickle
import unittest

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.utils import estimator_checks

from sktem import ContrastiveSolver, LatentBoltzmannMachine
from sktem.boltzmann.fitted import FittedMachine
from sktem.boltzmann.learning.objective import Objective
from sktem.boltzmann.settings import MachineSettings
from sktem.evaluation import AISResult
from sktem.graphs import grid_graph
from tests.boltzmann.machines.test_layer_operations import give_uniforms_of_numpy
from tests.oracles import to_numpy

RNG = np.random.default_rng(0)
X = (RNG.random((120, 6)) < np.linspace(0.2, 0.8, 6)).astype(np.float32)
X[:, 1] = X[:, 0]
HOLES = np.where(RNG.random(X.shape) < 0.3, np.float32(np.nan), X)
KINDS = {
    "restricted": dict(hidden_layer_sizes=4),
    "deep": dict(hidden_layer_sizes=(4, 3)),
    "gaussian": dict(hidden_layer_sizes=(3, 2), visible="gaussian"),
}


@pytest.fixture(autouse=True)
def dispatch(monkeypatch):
    """Switch scikit-learn's dispatch on, which asks for the variable."""
    pytest.importorskip("scipy", "1.14", reason="scikit-learn dispatches from 1.14 on")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


def machine(kind, **params):
    defaults = {"random_state": 0, "max_iter": 3, "batch_size": 40, "n_chains": 30}
    defaults["tol"] = None
    return LatentBoltzmannMachine(**{**defaults, **KINDS[kind], **params})


def same(found, expected, tolerance=1e-5):
    assert not isinstance(found, np.ndarray)
    found = to_numpy(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("solver", ["apcd", "hapcd", "mfpcd", "pcd", "cd"])
@pytest.mark.parametrize("kind", ["restricted", "deep"])
def test_a_fit_on_the_same_uniforms_is_the_same(kind, solver, xp, monkeypatch):
    give_uniforms_of_numpy(monkeypatch)
    options = {"weight_decay": 0.01, "e_step": "auto"}
    draws = kind == "deep" and solver == "apcd"
    by = ContrastiveSolver(solver, momentum=0.5, rao_blackwell=not draws)
    if kind == "deep" and solver not in ("hapcd", "mfpcd"):
        options["e_step"] = "gibbs"  # NumPy would sum the hidden units out
    if draws:
        options["n_chains_e"] = 2
    options["centering"] = solver != "pcd"
    one = machine(kind, solver=by, **options).fit(xp.asarray(X))
    two = machine(kind, solver=by, **options).fit(X)
    same(one.params_, two.params_)
    same(one.chains_, two.chains_) if solver != "cd" else None
    for name in ("weights_", "biases_"):
        for found, expected in zip(getattr(one, name), getattr(two, name), strict=True):
            same(found, expected)
    np.testing.assert_allclose(
        one.history_.gradient_norm, two.history_.gradient_norm, rtol=1e-4
    )
    same(one.sample(20, 5), two.sample(20, 5))
    same(one.gibbs(xp.asarray(X)), two.gibbs(X))
    Y = xp.asarray(HOLES)
    same(one.impute(Y, 6), two.impute(HOLES, 6))
    same(one.sample_conditional(Y, 6), two.sample_conditional(HOLES, 6))
    same(one.transform(Y), two.transform(HOLES))
    if solver != "hapcd":
        for missing in (X, HOLES):
            # One update: rounding grows over the many that adapted steps would do.
            once = {"solver": solver, "binarize": "sample", "step_size_m": 0.05}
            one, two = (machine(kind, **options, **once) for _ in range(2))
            one.partial_fit(xp.asarray(missing))
            same(one.params_, two.partial_fit(missing).params_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")  # of few epochs
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_likelihoods_are_watched_alike(kind, holes, xp):
    """By fits with the default tol, and of the same machine up to draws."""
    rows = HOLES if holes else X
    values, params = [], None
    for asarray in (np.asarray, xp.asarray):
        Y = asarray(rows)
        fitted = machine(kind, tol=0.02).fit(Y)
        assert np.isfinite(fitted.history_.objective).all()
        params = fitted.params_ if params is None else params
        model, units = fitted.fitted_.model, fitted.fitted_.units
        settings = MachineSettings.of(fitted.get_params()).of_run(model, True, len(X))
        watch = Objective(settings, units, Y, 0, 30)
        logs = watch._unnormalised(asarray(params), watch.X, np.random.default_rng(0))
        values.append(to_numpy(logs).mean())
    assert abs(np.diff(values)) < (0.05 if holes or kind != "restricted" else 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_the_same(dtype, xp):
    Z = X.astype(dtype)
    Y = xp.asarray(Z)
    fitted = machine("restricted").fit(Y)
    moved = _numpy(fitted)
    same(fitted.transform(Y), moved.transform(Z))
    same(fitted.free_energy(Y), moved.free_energy(Z))
    same(fitted.pseudo_log_likelihood(Y), moved.pseudo_log_likelihood(Z))
    exact = moved.log_partition("exact").value
    same(
        fitted.score_samples(Y, log_partition=exact),
        moved.score_samples(Z, log_partition=exact),
    )
    found = fitted.log_partition("ais", n_runs=50, n_temperatures=50)
    assert abs(found.value - exact) < 4 * found.standard_error


@pytest.fixture
def no_annealing(monkeypatch):
    """Let log Z be zero, as its calculation takes the most time by far."""
    result = AISResult(0.0, 0.0, 1.0, 1, 1)
    monkeypatch.setattr(FittedMachine, "remembered_partition", lambda *_: result)


def _numpy(fitted):
    """Return the machine moved to NumPy."""
    attributes = {}
    for name, value in vars(fitted).items():
        if hasattr(value, "__sklearn_array_api_convert__"):
            value = value.__sklearn_array_api_convert__(to_numpy)
        elif hasattr(value, "__dlpack__"):
            value = to_numpy(value)
        attributes[name] = value
    moved = LatentBoltzmannMachine()
    vars(moved).update(attributes)
    return moved


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_that_was_moved_goes_on(kind, xp):
    fitted = machine(kind, solver=ContrastiveSolver(momentum=0.5)).fit(xp.asarray(X))
    fitted.partial_fit(xp.asarray(X[:50]))
    moved = _numpy(fitted)
    assert moved.fitted_.model.has_exact_posterior
    before = moved.params_.copy()
    moved.partial_fit(X)
    assert isinstance(moved.params_, np.ndarray) and (moved.params_ != before).any()
    assert np.isfinite(moved.free_energy(X)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_of_the_namespace_of_the_input(kind, xp, no_annealing):
    Y = xp.asarray(X)
    fitted = machine(kind).fit(Y)
    arrays = [fitted.params_, fitted.chains_, *fitted.biases_, *fitted.weights_]
    arrays += [fitted.transform(Y), fitted.sample(3, 5), fitted.gibbs(Y)]
    scores = fitted.score_samples(Y, n_runs=2, n_temperatures=3)
    arrays += [fitted.free_energy(Y), scores, fitted.impute(Y, 2)]
    if kind == "gaussian":
        arrays.append(fitted.variances_)
    for values in arrays:
        assert type(values) is type(Y) and values.device == Y.device
    assert fitted.transform(Y).dtype == xp.float32
    assert fitted.transform(xp.astype(Y, xp.float64)).dtype == xp.float64
    assert fitted.sample(3, 5).shape == (3, 6)
    if kind == "restricted":
        assert isinstance(fitted.score(Y), float)


def test_gaussian_units_are_scaled_alike(xp):
    data = RNG.normal(3.0, 2.0, (80, 4))
    data[::3, 1] = np.nan
    here = machine("gaussian", max_iter=0).fit(data)
    there = machine("gaussian", max_iter=0).fit(xp.asarray(data))
    same(there.fitted_.units.centre, here.fitted_.units.centre)
    same(there.fitted_.units.scale, here.fitted_.units.scale)
    same(there.params_, here.params_)


@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit_does_not_depend_on_chunks(kind, xp):
    params = []
    for cuts in ([], [17, 18, 90]):
        estimator = machine(kind, step_size_m=0.05)
        for chunk in np.split(X, cuts):
            estimator.partial_fit(xp.asarray(chunk))
        params.append(to_numpy(estimator.params_))
    np.testing.assert_array_equal(*params)


def test_same_seed_same_result_and_warm_start(xp):
    Y = xp.asarray(X)
    one, two = (machine("deep", warm_start=True).fit(Y) for _ in range(2))
    np.testing.assert_array_equal(to_numpy(one.params_), to_numpy(two.params_))
    one.fit(Y)
    assert (to_numpy(one.params_) != to_numpy(two.params_)).any()


def test_what_works_on_numpy_only_says_so(xp):
    Y = xp.asarray(X)
    grid = LatentBoltzmannMachine(grid_graph(2, 4), hidden=[1, 5])
    with pytest.raises(ValueError, match="graph work on NumPy arrays only"):
        grid.fit(Y)
    with pytest.raises(ValueError, match="e_step='exact' needs .* NumPy array"):
        machine("deep", e_step="exact").fit(Y)
    fitted = machine("deep").fit(Y)
    with pytest.raises(ValueError, match="needs a machine fitted to NumPy arrays"):
        fitted.log_partition("exact")
    assert fitted.log_partition(n_runs=5, n_temperatures=5).n_runs == 5


def test_other_arrays_than_those_of_the_fit(xp):
    Y = xp.asarray(X)
    there, here = machine("restricted").fit(Y), machine("restricted").fit(X)
    for name in ("transform", "score_samples", "gibbs", "impute", "partial_fit"):
        for fitted, rows in ((there, X), (here, Y), (there, sparse.csr_array(X))):
            with pytest.raises(ValueError, match=rf"\.{name}\(\) must use the same"):
                getattr(fitted, name)(rows)
    with pytest.raises(ValueError, match=r"X must be in \[0, 1\]"):
        machine("restricted").set_params(visible="binary").fit(Y + 1.0)
    with pytest.raises(ValueError, match="NaN"):
        there.score_samples(xp.asarray(HOLES))


def test_without_dispatch_arrays_become_those_of_numpy(xp):
    rows = xp.asarray(X)
    if "cuda" in str(rows.device):
        pytest.skip("NumPy has no arrays on a GPU")
    with config_context(array_api_dispatch=False):
        fitted = machine("restricted").fit(rows)
        assert isinstance(fitted.params_, np.ndarray)
        np.testing.assert_array_equal(
            fitted.params_, machine("restricted").fit(X).params_
        )


def test_numpy_stays_numpy_with_dispatch():
    pytest.importorskip("array_api_compat")
    with config_context(array_api_dispatch=False):
        expected = machine("deep").fit(X)
    for rows in (X, sparse.csr_array(X)):
        found = machine("deep").fit(rows)
        np.testing.assert_array_equal(found.params_, expected.params_)
        np.testing.assert_array_equal(found.transform(rows), expected.transform(X))


def test_pickle():
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    Y = torch.asarray(X)
    fitted = machine("deep").fit(Y)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.transform(Y), fitted.transform(Y))
    np.testing.assert_array_equal(loaded.partial_fit(Y).params_,
                                  fitted.partial_fit(Y).params_)  # fmt: skip


def test_checks_of_scikit_learn(no_annealing):
    pytest.importorskip("array_api_compat")
    # For Gaussian units: the data of the checks are not between 0 and 1.
    estimator = machine("gaussian", n_gibbs_m=1, hidden_layer_sizes=3)
    n_run = 0
    for instance, check in estimator_checks.estimator_checks_generator(estimator):
        if "array_api" in str(check):
            try:
                check(instance)
                n_run += 1
            except unittest.SkipTest:
                pass
    if not n_run:
        pytest.skip("no namespace of these checks is installed")
