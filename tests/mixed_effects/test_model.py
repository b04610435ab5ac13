"""Mixed-effects models: compiled twins, densities, gradients, M-step."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import (
    OneCompartment,
    ThreeCompartment,
    TwoCompartment,
    read_nonmem,
)
from sktem.e_step.random import spawn_generators
from sktem.mixed_effects.design import (
    MixedEffectsDesign,
    MixedEffectsParams,
    NumericEntry,
)
from sktem.mixed_effects.given_data import given_records
from sktem.mixed_effects.inference.several_parameters import log_conditionals
from sktem.mixed_effects.m_step import Annealing, Moments
from sktem.mixed_effects.model import NonlinearMixedEffectsModel
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.residual_errors import RESIDUAL_ERRORS
from sktem.mixed_effects.rows import GroupedRows, NamedColumns
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.mixed_effects.structural import STRUCTURAL_MODELS
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.samplers import ComponentWalk, positions

PSI = {
    "linear": (1.0, 0.5),
    "one_compartment_oral": (1.5, 20.0, 2.0),
    "one_compartment_oral_lag": (0.7, 1.5, 20.0, 2.0),
    "one_compartment_iv": (20.0, 2.0),
    "two_compartment_iv": (2.0, 10.0, 3.0, 25.0),
    "emax": (3.0, 10.0, 4.0),
    "logistic_growth": (10.0, 3.0, 0.8),
    "exponential_growth": (10.0, 0.7, 0.3),
}


def make_rows(rng, n_subjects=6, n_covariates=1, positive=True):
    lengths = rng.integers(1, 7, size=n_subjects)
    n = lengths.sum()
    inputs = np.column_stack([rng.uniform(50, 150, n), rng.uniform(0.1, 8, n)])
    covariates = np.column_stack(
        [np.ones(n_subjects), rng.normal(size=(n_subjects, n_covariates - 1))]
    )
    y = rng.uniform(0.5, 5.0, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return GroupedRows(inputs, y, offsets, covariates, np.empty((n, 0)))


def make_model(name, error="constant", random=None, omega=None, numeric=(), **options):
    structure = STRUCTURAL_MODELS[name]
    names, p = structure.parameters, len(structure.parameters)
    random = np.arange(p) if random is None else np.array(random)
    transforms = ("normal",) * 2 if name == "linear" else ("log-normal",) * p
    phi = [
        TRANSFORMS[kind].inverse(value)
        for kind, value in zip(transforms, PSI[name], strict=True)
    ]
    constant = np.zeros((p, 1))
    held = [entry.parameter for entry in numeric if entry.kind == "subject"]
    for j in set(range(p)) - set(random) - set(held):
        constant[j, 0] = phi[j]
    d = len(random)
    omega = 0.1 * np.eye(d) if omega is None else omega
    design = MixedEffectsDesign(
        names,
        transforms,
        random,
        omega != 0,
        np.arange(d),
        np.zeros(d, dtype=int),
        np.ones(d, dtype=bool),
        tuple(numeric),
        constant,
    )
    start = MixedEffectsParams(
        np.array(phi)[random],
        omega,
        np.array([0.5, 0.2]),
        np.array([phi[entry.parameter] for entry in numeric]),
    )
    return NonlinearMixedEffectsModel(
        structure, design, start, RESIDUAL_ERRORS[error], **options
    )


class WithoutKernels(NonlinearMixedEffectsModel):
    def compiled(self, X, params):
        return None


def without_kernels(model):
    return WithoutKernels(**model.get_params(deep=False))


def draws_of(model, X, rng):
    means, root = model.prior_moments(X, model.start)
    return means + rng.standard_normal(means.shape) @ root.T


# ------------------------------------------------------------------- compiled twins


@pytest.mark.parametrize("error", sorted(RESIDUAL_ERRORS))
@pytest.mark.parametrize("name", sorted(STRUCTURAL_MODELS))
def test_kernels_equal_numpy(name, error):
    rng = np.random.default_rng(0)
    X, model = make_rows(rng), make_model(name, error)
    Z = draws_of(model, X, rng)
    plain = without_kernels(model)
    np.testing.assert_allclose(
        model.log_conditional(X, Z, model.start),
        plain.log_conditional(X, Z, model.start),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        model.mean_statistics(X, Z), plain.mean_statistics(X, Z), rtol=1e-10
    )
    f = plain.predict_rows(X, Z, model.start.numeric)
    assert np.isfinite(f).all() and f.std() > 0


@pytest.mark.parametrize("name", ["combined", "constant", "proportional"])
def test_several_errors_at_once_equal_one_after_the_other(name):
    rng = np.random.default_rng(0)
    X, model = make_rows(rng), make_model("one_compartment_oral", name)
    Z = np.stack([draws_of(model, X, rng) for _ in range(3)], axis=1)
    several = [
        model.start._replace(sigma=model.start.sigma * factor)
        for factor in (0.7, 1.0, 1.6)
    ]
    if len(model.start.numeric):  # on the logarithmic scale
        several = [
            one._replace(numeric=np.log(one.sigma[list(model.error.indices)]))
            for one in several
        ]
    found = log_conditionals(model, X, Z, several)
    plain = without_kernels(model)
    wanted = np.stack([plain.log_conditional(X, Z, one) for one in several], axis=-1)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    np.testing.assert_allclose(log_conditionals(plain, X, Z, several), wanted)
    assert np.ptp(found, axis=-1).min() > 1e-3


def test_equal_rates_are_no_singularity():
    function = STRUCTURAL_MODELS["one_compartment_oral"].function
    x = np.array([[100.0, 2.0]])
    psi = {"V": np.array([10.0]), "CL": np.array([1.0])}
    values = [
        function({**psi, "ka": np.array([0.1 * (1 + gap)])}, x)[0]
        for gap in (-1e-5, 0.0, 1e-5)
    ]
    assert values[0] < values[1] < values[2]
    exact = 100 * 0.1 / 10 * 2 * np.exp(-0.2)
    assert values[1] == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_walk_equals_numpy(n_jobs, monkeypatch):
    monkeypatch.setattr("sktem.mixed_effects.compiled.SUBJECTS_PER_BLOCK", 2)
    rng = np.random.default_rng(0)
    omega = np.array([[0.2, 0.05, 0], [0.05, 0.1, 0], [0, 0, 0.1]])
    X = make_rows(rng, 7)
    model = make_model("one_compartment_oral", omega=omega, n_jobs=n_jobs)
    sampler = ComponentWalk(n_steps=3, n_chains=2)
    Z = sampler.start(model, X, model.start, rng)
    found = []
    for one in (model, without_kernels(model)):
        chains, generators = Z, spawn_generators(1)
        for k in range(4):
            chains, info = sampler.draw(one, X, chains, one.start, generators, k + 1)
        found.append((positions(chains), info.acceptance_rate))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8)
    assert found[0][1] == found[1][1]
    assert (found[0][0] != Z).all()


# -------------------------------------------------------------- densities, gradients


def test_log_joint_is_a_density_of_the_observations():
    """Its integral over y is the prior, for each residual error."""
    for error in RESIDUAL_ERRORS:
        model = make_model("one_compartment_iv", error)
        Z = model.start.coefficients[None] + 0.1

        def joint(y, model=model, Z=Z):
            X = GroupedRows(
                np.array([[60.0, 3.0]]),
                np.array([y]),
                np.array([0, 1]),
                np.ones((1, 1)),
                np.empty((1, 0)),
            )
            return np.exp(model.log_joint(X, Z, model.start)[0])

        low = 1e-9 if error == "exponential" else -10
        total, _ = integrate.quad(joint, low, 30, limit=200)
        prior = stats.multivariate_normal(model.start.coefficients, model.start.omega)
        assert total == pytest.approx(prior.pdf(Z[0]), rel=1e-6)


def oral_slopes(psi, X):
    """Derivatives by complex steps, an independent way to have them."""
    function = STRUCTURAL_MODELS["one_compartment_iv"].function
    slopes = {}
    for name in psi:
        shifted = {key: value.astype(complex) for key, value in psi.items()}
        shifted[name] = shifted[name] + 1e-30j
        slopes[name] = function(shifted, X).imag / 1e-30
    return slopes


@pytest.mark.parametrize("error", sorted(RESIDUAL_ERRORS))
@pytest.mark.parametrize("gradient", [None, oral_slopes])
def test_gradient(error, gradient):
    rng = np.random.default_rng(0)
    omega = np.array([[0.2, 0.05], [0.05, 0.1]])
    model = make_model("one_compartment_iv", error, omega=omega, gradient=gradient)
    X = make_rows(rng)
    Z = draws_of(model, X, rng)
    found = model.grad_log_joint(X, Z, model.start)
    for j in range(2):
        shift = 1e-4 * np.eye(2)[j]
        plain = [model.log_joint(X, Z + t * shift, model.start) for t in (-2, -1, 1, 2)]
        slope = (plain[0] - 8 * plain[1] + 8 * plain[2] - plain[3]) / 12e-4
        np.testing.assert_allclose(found[:, j], slope, rtol=1e-5, atol=1e-5)


def test_nan_has_no_probability():
    def half(psi, X):
        return np.where(X[:, 0] > 100, np.nan, psi["intercept"])

    model = make_model("linear").set_params(structure=half)
    X = make_rows(np.random.default_rng(0), 20)
    Z = model.prior_moments(X, model.start)[0]
    values = model.log_joint(X, Z, model.start)
    broken = X.sums((X.inputs[:, 0] > 100) * 1.0) > 0
    assert (values[broken] == -np.inf).all() and np.isfinite(values[~broken]).all()
    assert np.isfinite(model.mean_statistics(X, Z)).all()


# -------------------------------------------------------------------------- the M-step


def complete_log_likelihood(model, X, Z, params, weights):
    return weights @ model.log_joint(X, Z, params)


@pytest.mark.parametrize("error", ["constant", "proportional", "exponential"])
@pytest.mark.parametrize("pattern", ["diagonal", "full"])
def test_m_step_maximizes_the_complete_likelihood(error, pattern):
    rng = np.random.default_rng(3)
    omega = 0.1 * np.eye(2) if pattern == "diagonal" else 0.1 * np.eye(2) + 0.01
    model, X = make_model("one_compartment_iv", error, omega=omega), make_rows(rng, 30)
    Z, weights = draws_of(model, X, rng), rng.uniform(0.5, 2, 30)
    params = model.maximize(model.mean_statistics(X, Z, weights), model.start)
    best = complete_log_likelihood(model, X, Z, params, weights)
    for field in ("coefficients", "omega", "sigma"):
        value = getattr(params, field)
        for index in np.ndindex(value.shape):
            for shift in (-1e-3, 1e-3):
                moved = value.copy()
                moved[index] += shift
                if field == "omega":
                    if pattern == "diagonal" and index[0] != index[1]:
                        continue
                    moved[index[::-1]] = moved[index]
                changed = params._replace(**{field: moved})
                worse = complete_log_likelihood(model, X, Z, changed, weights)
                assert worse <= best + 1e-9


def test_covariates_of_one_parameter_only():
    """Generalised least squares: its normal equations are met, with correlation."""
    rng = np.random.default_rng(0)
    omega = np.array([[0.3, 0.1], [0.1, 0.2]])
    model = make_model("one_compartment_iv", omega=omega)
    X = make_rows(rng, 40, n_covariates=2)
    design = model.design._replace(
        positions=np.array([0, 0, 1]),
        columns=np.array([0, 1, 0]),
        free=np.array([True, True, False]),
        constant=np.zeros((2, 2)),
    )
    start = model.start._replace(coefficients=np.array([3.0, 0.0, 0.7]))
    model.set_params(design=design, start=start)
    Z = draws_of(model, X, rng) + 0.5 * X.covariates[:, 1:]
    params, s = start, model.mean_statistics(X, Z)
    for _ in range(50):
        params = model.maximize(s, params)
    assert params.coefficients[2] == 0.7  # fixed
    rest = Z - X.covariates @ design.matrix(params.coefficients).T
    score = np.linalg.solve(params.omega, rest.T)[0] @ X.covariates
    np.testing.assert_allclose(score, 0, atol=1e-6)
    np.testing.assert_allclose(params.omega, rest.T @ rest / 40, rtol=1e-6)


def test_numeric_parameters_come_to_their_maximum():
    """With latents that stay, repeated steps end where the slope is zero."""
    rng = np.random.default_rng(0)
    entries = (NumericEntry("subject", 1, 0), NumericEntry("residual", 0, 0))
    entries += (NumericEntry("residual", 1, 0),)
    model = make_model("one_compartment_iv", "combined", [0], numeric=entries)
    numeric = np.array([np.log(3.0), np.log(0.5), np.log(0.2)])
    model.set_params(start=model.start._replace(numeric=numeric))
    X = make_rows(rng, 60)
    Z = draws_of(model, X, rng)
    truth = np.array([np.log(2.0), np.log(0.4), np.log(0.3)])
    f = model.predict_rows(X, Z, truth)
    X.y = f + np.hypot(0.4, 0.3 * f) * rng.standard_normal(len(f))
    params = model.start
    for _ in range(60):
        latents = model.annotate(Z, params)
        params = model.maximize(model.mean_statistics(X, latents), params)
    visit = np.tile(params.numeric, (60, 1))
    scores = model.row_scores(X, Z, params.sigma, visit)
    np.testing.assert_allclose(scores.sum(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(params.sigma, np.exp(params.numeric[1:]))
    np.testing.assert_allclose(params.numeric, truth, atol=0.5)


def test_annealing_bounds_the_fall_of_variances():
    model = make_model("linear", annealing=Annealing(2, 0.9, per_step=0.5))
    X = make_rows(np.random.default_rng(0))
    Z = model.prior_moments(X, model.start)[0]
    X.y = model.predict_rows(X, Z, model.start.numeric)
    s, params = model.mean_statistics(X, Z), model.start
    for k in range(6):
        before = params
        params = model.maximize(s, params)
        ratio = np.diag(params.omega) / np.diag(before.omega)
        if k < 4:
            np.testing.assert_allclose(ratio, 0.9**0.5)
            assert params.sigma[0] ** 2 == pytest.approx(
                0.9**0.5 * before.sigma[0] ** 2
            )
    assert model.degeneracies(params) == 2
    assert params.sigma[0] > 0


def test_project_mends_what_no_data_give():
    rng = np.random.default_rng(0)
    model, X = make_model("one_compartment_iv"), make_rows(rng, 30)
    s = model.mean_statistics(X, draws_of(model, X, rng))
    same, left = model.project(s)
    assert not left
    np.testing.assert_array_equal(same, s)
    wrong = s.copy()
    moments = Moments.of(wrong, *model.sizes())
    moments.second[...] -= np.eye(2)
    moments.residual[0] = -1.0
    mended, left = model.project(wrong)
    assert left
    params = model.maximize(mended, model.start)
    assert (np.linalg.eigvalsh(params.omega) > 0).all() and params.sigma[0] > 0


# ------------------------------------------------------------------------- containers


def test_grouped_rows_pick_subjects():
    X = make_rows(np.random.default_rng(0), 5, n_covariates=2)
    assert len(X) == 5 and X[0:5] is X
    for subjects in (
        slice(1, 3),
        np.array([4, 0, 4]),
        slice(None, None, 2),
        slice(2, 2),
    ):
        part = X[subjects]
        numbers = np.arange(5)[subjects]
        assert len(part) == len(numbers)
        np.testing.assert_array_equal(part.covariates, X.covariates[numbers])
        for i, number in enumerate(numbers):
            rows = slice(X.offsets[number], X.offsets[number + 1])
            own = slice(part.offsets[i], part.offsets[i + 1])
            np.testing.assert_array_equal(part.y[own], X.y[rows])
            np.testing.assert_array_equal(part.inputs[own], X.inputs[rows])
    twice = X.repeat(2)
    np.testing.assert_array_equal(twice.lengths, np.repeat(X.lengths, 2))
    assert X.repeat(2) is twice and X.repeat(1) is X


def test_named_columns():
    X = NamedColumns(np.arange(6.0).reshape(3, 2), ["a", "b"])
    np.testing.assert_array_equal(X["b"], [1, 3, 5])
    np.testing.assert_array_equal(X[:, 0], [0, 2, 4])
    assert len(X) == 3 and X.shape == (3, 2) and np.asarray(X).sum() == 15
    with pytest.raises(KeyError, match=r"no column 'c', there are \['a', 'b'\]"):
        X["c"]


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_transforms(name):
    transform, phi = TRANSFORMS[name], np.linspace(-2, 2, 9)
    psi = transform.forward(phi)
    np.testing.assert_allclose(transform.inverse(psi), phi, atol=1e-12)
    slope = (transform.forward(phi + 1e-6) - transform.forward(phi - 1e-6)) / 2e-6
    np.testing.assert_allclose(transform.derivative(phi), slope, rtol=1e-8)
    low, high = transform.support
    assert ((psi > low) & (psi < high)).all()


ABSORBED = {"CL": 2.0, "V": 20.0}
DOSED = [
    (OneCompartment(), ABSORBED),
    (OneCompartment("first-order"), {**ABSORBED, "ka": 1.5}),
    (OneCompartment("first-order", response="effect"),
     {"KA": 1.5, **ABSORBED, "KE0": 0.3}),
    (OneCompartment("parallel"), {**ABSORBED, "KA1": 1.5, "KA2": 0.3, "FR1": 0.6}),
    (TwoCompartment(), {"V1": 20.0, "CL": 2.0, "V2": 30.0, "Q": 3.0}),
    (ThreeCompartment("first-order"), {"CL": 5.0, "V1": 10.0, "Q2": 2.0, "V2": 20.0,
     "Q3": 1.5, "V3": 30.0, "KA": 1.0}),
    (OneCompartment("first-order"), {**ABSORBED, "KA": 1.5, "ALAG": 9.5, "f2": 0.8}),
    (OneCompartment("zero-order"), {**ABSORBED, "D1": 0.8}),
]  # fmt: skip


@pytest.mark.parametrize("structure, psi", DOSED, ids=lambda one: str(one)[:40])
def test_compiled_records_equal_predictions(structure, psi):
    """A bolus, an infusion, steady state, additional doses and a reset."""
    frame = pd.DataFrame({
        "ID": [1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3],
        "TIME": [0, 1, 2.5, 30, 30, 0, 0.5, 4, 9, 0, 1, 5, 6],
        "AMT": [100, 0, 0, 50, 0, 80, 0, 0, 0, 100, 0, 100, 0],
        "EVID": [1, 0, 0, 1, 0, 1, 0, 2, 0, 1, 0, 4, 0],
        "SS": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        "II": [12, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
        "ADDL": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "RATE": [0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0],
        "DV": [0, 3, 4, 0, 2, 0, 5, 0, 1, 0, 2, 0, 3],
    })  # fmt: skip
    frame["CMT"] = np.where(frame["EVID"] == 0, np.resize(structure.kinds[::-1], 13), 1)
    if structure.absorption != "intravenous":
        frame["RATE"] = 0
    estimator = NonlinearMixedEffectsRegressor(
        structure, parameters=psi, residual_error="proportional",
        omega_start=0.1, fixed={"b": 0.1, **{f"omega2_{name}": 0.1 for name in psi}},
    )  # fmt: skip
    records = read_nonmem(frame)
    settings = MixedEffectsSettings.of(vars(estimator))
    data = given_records(settings, records)
    problem = Problem.of(settings, data, as_given=True)
    model, X = problem.model, problem.rows
    Z = draws_of(model, X, np.random.default_rng(0))
    values = dict(zip(psi, np.exp(Z).T, strict=True))
    expected = structure.predict(records, values)[records.observed]
    found = model.predict_rows(X, Z, model.start.numeric)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not np.allclose(found, structure.predict(records, psi)[records.observed])
    plain = without_kernels(model)
    for one in (Z, np.stack([Z, Z + 0.1], axis=1)):
        np.testing.assert_allclose(
            model.log_conditional(X, one, model.start),
            plain.log_conditional(X, one, model.start),
            rtol=1e-10,
        )


def test_compiled_parameters_vary_within_subjects():
    """Between occasions and with a covariate, of doses too, and without records."""
    rng, n = np.random.default_rng(0), 3
    m = 8
    frame = pd.DataFrame({
        "ID": np.repeat(np.arange(n), m), "II": 5.0,
        "TIME": np.tile([0, 1, 3, 9, 12, 13, 15, 20], n),
        "AMT": np.tile([100, 0, 0, 0, 50, 0, 0, 0], n),
        "ADDL": np.tile([1, 0, 0, 0, 0, 0, 0, 0], n),
        "CMT": np.tile([1, 2, 2, 2, 1, 2, 2, 2], n),
        "OCC": np.tile([1, 1, 1, 1, 2, 2, 2, 3], n), "WT": rng.normal(size=m * n),
        "DV": rng.uniform(1, 4, m * n),
    })  # fmt: skip
    frame.loc[frame.AMT > 0, "DV"] = 0.0
    lagged = {**ABSORBED, "KA": 1.5, "ALAG": 0.4}
    doses = np.column_stack([np.full(m * n, 100.0), frame[["TIME", "WT", "OCC"]]])
    own = read_nonmem(frame), None, None
    for structure, psi, data, wt, occ in (
        (OneCompartment("first-order"), lagged, own, "WT", "OCC"),
        ("one_compartment_iv", ABSORBED, (doses, frame.DV, frame.ID), 2, 3),
    ):
        estimator = NonlinearMixedEffectsRegressor(
            structure, parameters=psi, residual_error="proportional", max_iter=1,
            n_burn_in=0, tol=0, random_state=0, omega_start=0.1,
            occasions={occ: [list(psi)[-1], "CL"]}, covariates={"CL": wt},
        )  # fmt: skip
        fitted = estimator.fit(*data).fitted_
        model, X, params = fitted.model, fitted.rows, fitted.params
        params = params._replace(numeric=params.numeric + 0.3)
        Z = draws_of(model, X, rng)
        Z = np.stack([Z, Z + 0.1 * rng.standard_normal(Z.shape)], axis=1)
        found = model.compiled(X, params).log_likelihoods(Z)
        plain = without_kernels(model)
        expected = plain.log_conditional(X, Z, params)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        same = np.where(np.arange(Z.shape[2]) < len(psi), Z, 0.0)
        assert not np.allclose(plain.log_conditional(X, same, params), expected)


def test_compiled_records_are_not_numbers_where_parameters_are_not():
    structure = OneCompartment()
    found = structure.predict(
        {"ID": [1, 1], "TIME": [0, 1], "AMT": [10, 0]}, {"CL": np.nan, "V": 10.0}
    )
    assert np.isnan(found[1])
