"""Compiled sweeps give the numbers of the general loop on the same generators."""

from dataclasses import fields

import numpy as np
import pytest

import sktem.loop.loop
from sktem.e_step.random import spawn_generators
from sktem.loop import sweeps
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.loop.sweeps import SWEEPS, find
from sktem.mixture.kernels import batch_sweep
from sktem.mixture.kernels import sweep as mixture_sweeps
from sktem.mixture.model import GaussianMixtureParams
from sktem.models import GaussianMixtureModel, RandomInterceptModel
from sktem.rows.checked import CheckedRows
from sktem.samplers import ExactDraws, ExactExpectation, GrowingDraws
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM, FullBatch, OnlineEM
from tests.emissions.structures import KINDS as COVARIANCE_TYPES
from tests.rows.adapters import Chunked

SOLVERS = [ISAEM(), VRTTEM(), FITTEM(), OnlineEM()]
SAMPLERS = [ExactExpectation(), ExactDraws(n_draws=10)]
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=["exact", "mc"])
each_solver = pytest.mark.parametrize(
    "solver", SOLVERS, ids=lambda solver: solver.sweep_name
)
PRIORS = {
    "mean_penalty": 0.3,
    "weight_concentration": 0.05,
    "covariance_prior": 1.5,
    "covariance_prior_strength": 0.2,
    "reg_covar": 1e-3,
}


def make_rows(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    shift = rng.choice([-1.0, 0.5, 2.0], size=(n_rows, 1))
    return rng.normal(size=(n_rows, n_features)) + shift


def start_at(model, X):
    """Means at the first rows, and for the rest what the data say as a whole."""
    K, d = model.n_components, X.shape[1]
    structure = model.structure(d)
    centre = np.zeros(d) if model.centre is None else model.centre
    one = np.eye(d)
    shapes = {"diag": np.ones((K, d)), "tied": one, "full": np.tile(one, (K, 1, 1))}
    covariances = shapes.get(model.covariance_type, np.ones(K))
    return GaussianMixtureParams(
        np.arange(1.0, K + 1) / (K * (K + 1) / 2),
        np.array(X[:K] - centre, dtype=np.float64),
        covariances,
        structure.precisions_cholesky(covariances),
    )


def run_loop(
    model,
    sampler,
    solver,
    X,
    *,
    params=None,
    step_size=None,
    average=False,
    epochs=3,
    settled=True,
    sampling="fixed",
    batch_size=1,
    sample_weight=None,
):
    settings = RunSettings(
        model=model,
        sampler=sampler,
        solver=solver,
        step_size=step_size or Polynomial(alpha=0.6, offset=2.0),
        batch_size=batch_size,
        sampling=sampling,
        max_passes=100,
        tol=0.0,
        average=average,
    )
    params = start_at(model, X) if params is None else params
    state = RunState(params, spawn_generators(0))
    if settled and isinstance(solver, OnlineEM):
        # From the statistics of one row all components would begin at that row, and
        # rounding errors alone would tell them apart.
        state.solver.s = state.solver.S_tts = model.statistics_of(params)
    return run(
        settings,
        X,
        state,
        sample_weight=sample_weight,
        on_epoch=lambda state: len(state.history) >= epochs,
    )


def run_both(monkeypatch, *args, **kwargs):
    """Return the state after the sweeps and the one after the general loop."""
    calls = []
    with monkeypatch.context() as patch:

        def find_and_count(*parts):
            found = find(*parts)
            assert found is not None

            def counted(*given):
                calls.append(found(*given))
                return calls[-1]

            return counted

        patch.setattr(sktem.loop.loop, "find", find_and_count)
        swept = run_loop(*args, **kwargs)
        assert calls
        patch.setattr(sktem.loop.loop, "find", lambda *parts: None)
        return swept, run_loop(*args, **kwargs)


def assert_close(actual, desired):
    """Compare up to what rounding may do in some hundred iterations."""
    if desired is None:
        assert actual is None
        return
    assert np.shape(actual) == np.shape(desired)
    assert np.asarray(actual).dtype == np.asarray(desired).dtype
    finite = np.abs(desired)[np.isfinite(desired)]
    scale = finite.max(initial=0.0)
    np.testing.assert_allclose(actual, desired, rtol=1e-9, atol=1e-9 * scale + 1e-25)


def assert_same(swept, general):
    assert swept.solver.iteration == general.solver.iteration
    assert swept.rows_visited == general.rows_visited
    for name in ("s", "S_tts"):
        assert_close(getattr(swept.solver, name), getattr(general.solver, name))
    mine, other = swept.solver.own, general.solver.own
    assert type(mine) is type(other)
    assert_close(getattr(mine, "mean", None), getattr(other, "mean", None))
    latents = getattr(other, "latents", None)
    if latents is None:
        assert getattr(mine, "latents", None) is None
    else:
        assert_close(mine.latents.values, latents.values)
    anchors = (getattr(own, "params", None) for own in (mine, other))
    for mine, other in ((swept.params, general.params), anchors):
        assert type(mine) is type(other)
        for field in () if other is None else other._fields:
            assert_close(getattr(mine, field), getattr(other, field))
    for name in ("sum", "chosen", "count", "total_gamma"):
        assert_close(getattr(swept.iterates, name), getattr(general.iterates, name))
    assert swept.history.events == general.history.events
    for name in ("passes", "monitor_passes", "n_iterations", "step_size"):
        assert getattr(swept.history, name) == getattr(general.history, name)
    for name in ("objective", "mean_field"):
        assert_close(
            np.array(getattr(swept.history, name)),
            np.array(getattr(general.history, name)),
        )
    # Not one number more was drawn from any stream.
    for stream in fields(swept.generators):
        mine, other = (getattr(run.generators, stream.name) for run in (swept, general))
        if stream.name == "row_seed":
            assert mine == other
            continue
        assert mine.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("n_features, n_components", [(1, 4), (2, 1), (5, 2)])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@each_sampler
@each_solver
def test_numbers_of_the_general_loop(
    monkeypatch, solver, sampler, covariance_type, n_features, n_components
):
    model = GaussianMixtureModel(n_components, covariance_type=covariance_type)
    X = make_rows(40, n_features)
    swept, general = run_both(monkeypatch, model, sampler, solver, X)
    assert swept.solver.iteration == 120
    assert_same(swept, general)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@each_sampler
@each_solver
def test_batches(monkeypatch, solver, sampler, covariance_type, weighted):
    """Batches of 150 rows fill a tile and a part of another."""
    X = make_rows(700, 3)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, size=700)
    swept, general = run_both(
        monkeypatch,
        GaussianMixtureModel(3, covariance_type=covariance_type, **PRIORS),
        sampler,
        solver,
        X,
        batch_size=150,
        sampling="shuffle",
        sample_weight=weights if weighted else None,
    )
    assert swept.solver.iteration == 15
    assert_same(swept, general)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@each_sampler
@each_solver
def test_priors_centre_and_single_precision(
    monkeypatch, solver, sampler, covariance_type
):
    X = (make_rows(80, 3) + 1e3).astype(np.float32)
    model = GaussianMixtureModel(
        3,
        covariance_type=covariance_type,
        centre=X[5].astype(np.float64),
        mean_prior=[1e3, 1e3 + 1, 1e3 - 1],
        **PRIORS,
    )
    assert_same(*run_both(monkeypatch, model, sampler, solver, X))


WEIGHTS = np.random.default_rng(1).uniform(0.2, 3.0, size=40)
FAR = np.append(make_rows(39, 1), [[1e6]], axis=0)
BY_FEATURE = {**PRIORS, "covariance_prior": np.diag([0.5, 1.0, 2.0])}
#: Structure, components, rows and options.
CASES = {
    "weighted": ("diag", 2, make_rows(40, 2), {"sample_weight": WEIGHTS}),
    "weighted matrices": ("full", 2, make_rows(40, 2), {"sample_weight": WEIGHTS}),
    "many draws": ("unit", 2, make_rows(50, 1), {}),
    "one row": ("diag", 1, make_rows(1, 2), {}),
    "two rows": ("diag", 1, make_rows(2, 2), {}),
    "a dead component": ("spherical", 3, make_rows(50, 2), {}),
    # The densities of the last row underflow, so that only its distances count.
    "a far row": ("unit", 3, FAR, {}),
    "priors by feature": ("diag", 2, make_rows(80, 3), {}),
    "blocks of few long rows": ("diag", 2, make_rows(40, 6), {}),
    "a file": ("unit", 2, make_rows(40, 2), {}),
}


@pytest.mark.parametrize("case", CASES)
@each_sampler
@each_solver
def test_cases(monkeypatch, tmp_path, solver, sampler, case):
    kind, n_components, X, options = CASES[case]
    priors = BY_FEATURE if case == "priors by feature" else {}
    model = GaussianMixtureModel(n_components, covariance_type=kind, **priors)
    if case == "a dead component":
        weights = np.array([0.4, 0.0, 0.6])
        options = {"params": start_at(model, X)._replace(weights=weights)}
    if case == "many draws" and sampler is SAMPLERS[1]:
        sampler = ExactDraws(n_draws=300)
    if case == "blocks of few long rows":
        monkeypatch.setattr(sweeps, "MOST_VALUES", 10)
    if case == "a file":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    swept, general = run_both(monkeypatch, model, sampler, solver, X, **options)
    if case == "a dead component":
        assert general.history.events["degenerate"] >= 150
    if case == "many draws" and sampler is not SAMPLERS[0] and solver.remembers_rows:
        assert swept.solver.own.latents.values.dtype == np.uint16
    assert_same(swept, general)


@pytest.mark.parametrize("average", [True, 2, "random"])
@each_sampler
@pytest.mark.parametrize(
    "solver", [*SOLVERS, VRTTEM(epoch_length=23)], ids=lambda solver: solver.sweep_name
)
def test_blocks_segments_and_averages(monkeypatch, solver, sampler, average):
    monkeypatch.setattr(sweeps, "MOST_ITERATIONS", 17)
    model = GaussianMixtureModel(3, covariance_type="spherical")
    swept, general = run_both(
        monkeypatch, model, sampler, solver, make_rows(70, 2), average=average
    )
    chosen = general.iterates.chosen if average == "random" else general.iterates.sum
    assert chosen is not None
    assert_same(swept, general)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@each_sampler
# With rho = 1, statistics of draws are on a lattice that includes the boundary.
@pytest.mark.parametrize("solver", [VRTTEM(rho=0.97), FITTEM(rho=0.97)])
def test_infeasible_statistics(monkeypatch, solver, sampler, covariance_type):
    model = GaussianMixtureModel(3, covariance_type=covariance_type)
    swept, general = run_both(
        monkeypatch,
        model,
        sampler,
        solver,
        make_rows(50, 1),
        step_size=Constant(0.9),
        average=True,
    )
    assert general.history.events["infeasible"] > 5
    assert_same(swept, general)


@pytest.mark.parametrize("covariance_type", ["spherical", "diag"])
@pytest.mark.parametrize(
    # Under online EM the spread of the start decays down to rounding errors.
    "solver",
    [solver for solver in SOLVERS if solver.sweep_name != "online"],
    ids=lambda solver: solver.sweep_name,
)
def test_constant_rows(monkeypatch, solver, covariance_type):
    model = GaussianMixtureModel(2, covariance_type=covariance_type, reg_covar=0.0)
    X = np.tile([[1.5, -0.5]], (30, 1))
    X[::2, 0] += 4.0
    swept, general = run_both(
        monkeypatch, model, ExactDraws(), solver, X, settled=False
    )
    assert general.history.events["degenerate"] > 0
    assert_same(swept, general)


@pytest.mark.parametrize("average", [False, 0])
def test_first_row_starts_online_em(monkeypatch, average):
    model = GaussianMixtureModel(2, covariance_type="unit")
    X = make_rows(60, 1)
    swept, general = run_both(
        monkeypatch,
        model,
        ExactDraws(n_draws=3),
        OnlineEM(),
        X,
        average=average,
        settled=False,
    )
    assert_same(swept, general)


# The measured mean field is beyond the largest float.
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("far", [1e100, 1e160, 1e300])
def test_huge_row(far):
    model = GaussianMixtureModel(2, covariance_type="diag")
    X = make_rows(30, 2)
    X[-1, 0] = far
    start = start_at(model, X)
    narrow = np.full((2, 2), 1e-12)
    start = start._replace(covariances=narrow, precisions_cholesky=narrow**-0.5)
    state = run_loop(model, ExactDraws(), ISAEM(), X, params=start)
    assert np.isfinite(state.solver.s).all()
    for field in state.params:
        assert np.isfinite(field).all()


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("by_buffers", [False, True])
@each_sampler
@each_solver
def test_shuffled_rows(
    monkeypatch, memory_budget, solver, sampler, by_buffers, batch_size
):
    """In memory, and read in order into buffers of 16 rows."""
    monkeypatch.setattr("sktem.loop.sweeps.MOST_VALUES", 80)
    memory_budget(kept=32)
    model = GaussianMixtureModel(2, covariance_type="diag")
    X = make_rows(40, 2)
    X = CheckedRows(Chunked(X, (5, 20))) if by_buffers else X
    start = {} if not by_buffers else {"params": start_at(model, make_rows(40, 2))}
    options = {"sampling": "shuffle", "batch_size": batch_size, **start}
    swept, general = run_both(monkeypatch, model, sampler, solver, X, **options)
    assert swept.solver.iteration == (120 if batch_size == 1 else 42)
    assert_same(swept, general)


def test_resumed_run():
    model = GaussianMixtureModel(2, covariance_type="unit")
    X = make_rows(60, 1)
    whole = run_loop(model, ExactDraws(), FITTEM(), X, epochs=4)
    part = run_loop(model, ExactDraws(), FITTEM(), X, epochs=2)
    schedule = Polynomial(alpha=0.6, offset=2.0)
    settings = RunSettings(
        model, ExactDraws(), FITTEM(), schedule, 1, "fixed", 100, 0.0
    )
    run(settings, X, part, on_epoch=lambda state: len(state.history) >= 4)
    assert_same(part, whole)


def test_all_sweeps_exist():
    for covariance_type in COVARIANCE_TYPES:
        model = GaussianMixtureModel(2, covariance_type=covariance_type)
        for sampler in SAMPLERS:
            for solver in SOLVERS:
                assert find(model, sampler, solver) is mixture_sweeps.sweep
    assert len(SWEEPS) >= 40


class OtherSampler(ExactDraws):
    pass


class OtherModel(GaussianMixtureModel):
    pass


class OtherSolver(ISAEM):
    pass


@pytest.mark.parametrize(
    "model, sampler, solver",
    [
        (GaussianMixtureModel(covariance_type="unit"), ExactDraws(), FullBatch()),
        (
            GaussianMixtureModel(covariance_type="unit"),
            ExactDraws(n_draws=GrowingDraws()),
            ISAEM(),
        ),
        (RandomInterceptModel(), ExactDraws(), ISAEM()),
        # What a subclass does differently is unknown.
        (OtherModel(covariance_type="unit"), ExactDraws(), ISAEM()),
        (GaussianMixtureModel(covariance_type="unit"), OtherSampler(), ISAEM()),
        (GaussianMixtureModel(covariance_type="unit"), ExactDraws(), OtherSolver()),
    ],
)
def test_no_sweep(model, sampler, solver):
    assert find(model, sampler, solver) is None


def test_few_argument_types_are_compiled(monkeypatch):
    """Whatever is weighted, drawn, remembered, or done again after a step with care."""
    monkeypatch.setattr("sktem.loop.sweeps.MOST_VALUES", 80)
    X, weights = make_rows(40, 2), np.linspace(0.5, 2.0, 40)
    model = GaussianMixtureModel(3, covariance_type="full")
    start = start_at(model, X)
    dead = start._replace(weights=np.array([0.4, 0.0, 0.6]))
    before = len(batch_sweep.iterate_batches.signatures)
    for sampler in SAMPLERS:
        for solver in SOLVERS:
            for params, used in ((start, None), (dead, weights)):
                options = {"params": params, "sample_weight": used, "batch_size": 4}
                run_loop(model, sampler, solver, X.astype(np.float32), **options)
    assert len(batch_sweep.iterate_batches.signatures) <= max(before, 1)
