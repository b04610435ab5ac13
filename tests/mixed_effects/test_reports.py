"""Comparisons, intervals, searches and tables of fits."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm
from scipy.stats import chi2

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import (
    bootstrap,
    compare,
    covariate_search,
    likelihood_ratio_test,
    output_table,
    population_residuals,
    profile_likelihood,
    sampling_importance_resampling,
)
from sktem.exceptions import FitWarning
from tests.mixed_effects.fits import doses_of_two_occasions, line_fit, line_rows

N, M = 40, 5


def line(**settings):
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 1.0, "slope": 1.0},
        inputs=["x"],
        transforms="normal",
        random_state=0,
        **{"omega": ["intercept"], **settings},
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(N), M)
    size, other = rng.standard_normal((2, N))
    X = pd.DataFrame(
        {"x": np.tile(np.arange(float(M)), N), "size": size[groups],
         "other": other[groups]}
    )  # fmt: skip
    effect = 0.8 * rng.standard_normal(N) + 0.6 * size
    y = 2 + effect[groups] + 0.5 * X.x + 0.4 * rng.standard_normal(N * M)
    return X, y, groups


def exact(theta, y, x):
    """Return the log-likelihood of balanced data with a random intercept."""
    intercept, slope, variance, a = theta
    rest = (y.to_numpy() - intercept - slope * x.to_numpy()).reshape(N, M)
    covariance = variance + a**2 * np.eye(M)
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, rest.T)
    constant = N * M / 2 * np.log(2 * np.pi)
    return -0.5 * (white**2).sum() - N * np.log(np.diag(root)).sum() - constant


@pytest.fixture(scope="module")
def fit(data):
    X, y, groups = data
    return line().fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def larger(data):
    X, y, groups = data
    return line(covariates={"intercept": "size"}).fit(X, y, groups=groups)


def test_compare(fit, larger):
    table = compare(fit, larger, names=["plain", "size"])
    assert table.index.tolist() == ["size", "plain"]
    assert table.delta_aic.tolist() == [0.0, fit.aic() - larger.aic()]
    assert table.n_parameters.tolist() == [5, 4]
    assert table.loc["plain", "minus_two_log_likelihood"] == -2 * fit.log_likelihood()


@pytest.mark.filterwarnings("ignore:The variances of the random effects")
def test_likelihood_ratio(fit, larger, data):
    found = likelihood_ratio_test(fit, larger)
    statistic = 2 * (larger.log_likelihood() - fit.log_likelihood())
    assert found.degrees_of_freedom == 1
    assert found.p_value == pytest.approx(chi2.sf(statistic, 1))
    with pytest.raises(ValueError, match="more parameters"):
        likelihood_ratio_test(larger, fit)
    X, y, groups = data
    slopes = line(omega=["intercept", "slope"]).fit(X, y, groups=groups)
    found = likelihood_ratio_test(fit, slopes)
    # A variance at its bound: half of the chi-squared distribution is at zero.
    at = max(found.statistic, 0.0)
    half = 0.5 * (chi2.sf(at, 1) + float(at <= 0))
    assert found.p_value == pytest.approx(half)
    with pytest.raises(ValueError, match="same data"):
        compare(fit, line().fit(X[:50], y[:50], groups=groups[:50]))


def test_profile_of_a_variance(fit, data):
    X, y, _ = data
    found = profile_likelihood(fit, "omega2_intercept")
    best = [*fit.population_parameters_.values(), 0, fit.residual_error_["a"]]
    top = exact([*best[:2], fit.omega_[0, 0], best[3]], y, X.x)
    assert found.log_likelihoods.max() == pytest.approx(top, abs=1e-3)

    def profile(variance):
        # Means do not depend on variances in balanced data; a is searched for.
        grid = best[3] * np.linspace(0.9, 1.1, 41)
        return max(exact([*best[:2], variance, a], y, X.x) for a in grid)

    for end in found.interval:
        assert 2 * (top - profile(end)) == pytest.approx(chi2.ppf(0.95, 1), abs=0.15)
    low, high = profile_likelihood(fit, "slope", level=0.9).interval
    width = fit.standard_errors()["slope"] * 1.645
    assert (high - low) / 2 == pytest.approx(width, rel=0.05)
    with pytest.raises(ValueError, match="did you mean|must be"):
        profile_likelihood(fit, "slop")


def test_a_profile_does_not_depend_on_the_origin_of_the_input(data):
    """The best intercept moves 2000 times as far as the slope."""
    X, y, groups = data
    years = X.assign(x=X.x + 2000)
    known, found = (
        profile_likelihood(line().fit(table, y, groups=groups), "slope")
        for table in (X, years)
    )
    width = np.ptp(known.interval)
    np.testing.assert_allclose(found.interval, known.interval, atol=0.02 * width)


def test_profile_of_a_variance_at_its_bound(data):
    X, y, groups = data
    # Means of subjects that are more alike than the noise would have them.
    y = y - 0.9 * y.groupby(groups).transform("mean")
    with pytest.warns(FitWarning, match="at their lower bound"):
        fit = line().fit(X, y, groups=groups)
    found = profile_likelihood(fit, "omega2_intercept")
    means, a = fit.population_parameters_.values(), fit.residual_error_["a"]

    def profile(variance):
        grid = a * np.linspace(0.8, 1.1, 121)
        return max(exact([*means, variance, one], y, X.x) for one in grid)

    low, high = found.interval
    assert low == 0.0
    loss = 2 * (profile(0.0) - profile(high))
    assert loss == pytest.approx(chi2.ppf(0.95, 1), abs=0.15)
    assert loss > 2 * (profile(0.0) - profile(0.8 * high)) + 0.3  # negative control


def test_profiles_of_regressions_and_boxes(data):
    X, y, groups = data
    fit = line(omega=[]).fit(X, y)
    low, high = profile_likelihood(fit, "slope").interval
    design = np.column_stack([np.ones(len(y)), X.x])

    def loss(slope):
        def least(columns, y):
            return np.linalg.lstsq(columns, y, rcond=None)[1][0]

        return len(y) * np.log(least(design[:, :1], y - slope * X.x) / least(design, y))

    for end in (low, high):
        assert loss(end) == pytest.approx(chi2.ppf(0.95, 1), abs=0.05)
    box = {"slope": ("box", high, 5.0), "intercept": "normal"}
    fit = line(omega=[]).set_params(transforms=box).fit(X, y)
    start, end = profile_likelihood(fit, "slope").interval
    assert start == pytest.approx(high, rel=1e-3)
    lost = loss(end) - loss(start)
    assert lost == pytest.approx(chi2.ppf(0.95, 1), abs=0.15)


def test_bootstrap(fit):
    found = bootstrap(fit, 40, random_state=0)
    assert found.shape == (40, 4)
    errors = fit.standard_errors()
    for name in ("intercept", "slope", "a"):
        # The deviation of 40 samples has a relative error of 11 %.
        assert found[name].std() == pytest.approx(errors[name], rel=0.4)
    again = bootstrap(fit, 2, random_state=0)
    pd.testing.assert_frame_equal(found[:2], again)


def test_resampled_parameters(fit):
    found = sampling_importance_resampling(fit, 250, 100, random_state=0)
    errors = fit.standard_errors()
    for name, error in errors.items():
        assert found[name].std() == pytest.approx(error, rel=0.35)
    assert (found.omega2_intercept > 0).all()
    with pytest.raises(ValueError, match="between 1 and"):
        sampling_importance_resampling(fit, 10, 20)


def test_regressions_without_random_effects_are_resampled():
    """For a line their standard errors are those of least squares."""
    X, y, groups = line_rows()
    line = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, transforms="normal",
        omega=[], random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    design = np.column_stack([np.ones(len(X)), X[:, 0]])
    inverse = np.linalg.inv(design.T @ design)
    errors = np.sqrt(np.diag(inverse) * line.residual_error_["a"] ** 2)
    found = sampling_importance_resampling(line, 1000, 500, random_state=0)
    np.testing.assert_allclose(found.std()[["intercept", "slope"]], errors, rtol=0.15)
    # Subjects that are resampled differ in their means, which least squares ignores.
    subjects = np.unique(groups)
    scores = np.array(
        [design[groups == g].T @ (y - line.predict(X))[groups == g] for g in subjects]
    )
    clustered = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    found = bootstrap(line, 200, random_state=0)
    np.testing.assert_allclose(
        found.std()[["intercept", "slope"]], clustered, rtol=0.25
    )


def test_reports_in_processes_are_the_same(fit):
    options = {"n_draws": 12, "n_resamples": 5, "random_state": 0}
    plain = sampling_importance_resampling(fit, **options)
    found = sampling_importance_resampling(fit, **options, n_jobs=2)
    pd.testing.assert_frame_equal(found, plain)
    for profile in zip(
        profile_likelihood(fit, "slope"),
        profile_likelihood(fit, "slope", n_jobs=2),
        strict=True,
    ):
        np.testing.assert_array_equal(*profile)


def test_covariate_search(data, larger):
    X, y, groups = data
    best, steps = covariate_search(
        line(), X, y, groups, candidates={"intercept": ["other", "size"]}, forward=1e-3
    )
    assert [step[:3] for step in steps] == [("forward", "intercept", "size")]
    assert best.log_likelihood() == pytest.approx(larger.log_likelihood(), abs=1e-3)


def test_summary_figures(fit):
    attrs = fit.summary_.attrs
    assert attrs["condition_number"] >= 1
    table = output_table(fit)
    assert attrs["epsilon_shrinkage"] == pytest.approx(1 - table.IWRES.std(ddof=0))
    assert 0 < attrs["epsilon_shrinkage"] < 0.3


def test_text_of_a_summary(fit):
    summary = fit.summary_
    text = str(summary)
    assert text.split()[:2] == ["estimate", "standard_error"]
    lines = dict(line.rsplit(maxsplit=1) for line in text.split("\n\n")[1].split("\n"))
    assert float(lines["-2 log-likelihood"]) == pytest.approx(
        -2 * fit.log_likelihood(), rel=1e-5
    )
    assert float(lines["AIC"]) == pytest.approx(fit.aic(), rel=1e-5)
    assert int(lines["subjects"]) == len(fit.groups_)
    assert {"BIC", "condition number", "epsilon shrinkage"} <= set(lines)
    assert "AIC" in summary._repr_html_()
    # In all else it is a data frame.
    assert type(summary.round(2)) is type(summary[:1]) is pd.DataFrame
    again = pickle.loads(pickle.dumps(summary))
    assert again.attrs == summary.attrs and str(again) == text
    pd.testing.assert_frame_equal(again, summary)


def test_table_of_records():
    frame, n = doses_of_two_occasions(0), 15
    fit = NonlinearMixedEffectsRegressor(
        OneCompartment(),
        parameters={"CL": 2.0, "V": 20.0},
        omega=["CL"],
        occasions={"OCC": "CL"},
        residual_error="proportional",
        max_iter=15,
        tol=0,
        random_state=0,
    ).fit(read_nonmem(frame))
    table = output_table(fit)
    assert len(table) == 4 * n
    records = read_nonmem(frame)
    individual = fit.predict(records)[records.observed]
    np.testing.assert_allclose(table.IPRED, individual)
    b = fit.residual_error_["b"]
    np.testing.assert_allclose(table.IWRES, (table.DV / table.IPRED - 1) / b)
    CL = fit.population_parameters_["CL"] * np.exp(table.ETA_CL + table.KAPPA_CL)
    np.testing.assert_allclose(table.CL, CL)


def test_residuals_of_a_table():
    """Those of a linear model are exact, and NPDE those of the data as they were."""
    fit, (X, y, groups) = line_fit(), line_rows()
    table = output_table(fit, n_simulations=1000, random_state=0)
    Z = np.column_stack([np.ones(5), X[groups == 0, 0]])
    psi = fit.population_parameters_
    a = fit.residual_error_["a"]
    rest = (y - psi["intercept"] - psi["slope"] * X[:, 0]).reshape(-1, 5)
    root = sqrtm(Z @ fit.omega_ @ Z.T + a**2 * np.eye(5))
    wanted = np.linalg.solve(root, rest.T).T.ravel()
    np.testing.assert_allclose(table.CWRES, wanted, atol=1e-6)
    again = population_residuals(fit, X, y, groups, n_simulations=1000, random_state=1)
    assert np.corrcoef(table.NPDE, again.npde)[0, 1] > 0.99
    assert "NPDE" not in output_table(fit)


def test_page_of_a_fit(fit):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from sktem.plotting import GoodnessOfFitDisplay

    display = GoodnessOfFitDisplay.from_estimator(fit)
    offsets = display.axes_[1].collections[0].get_offsets()
    np.testing.assert_allclose(offsets[:, 0], display.table.IPRED)
    pyplot.close("all")


def test_tables_of_fits_without_random_effects_have_plain_residuals():
    rng = np.random.default_rng(0)
    X = np.tile(np.arange(1.0, 6.0), 12)[:, None]
    y = 3 + 2 * X[:, 0] + 0.3 * rng.normal(size=60)
    line = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, omega=[], random_state=0
    ).fit(X, y, groups=np.repeat(np.arange(12), 5))
    table = output_table(line)
    wanted = (y - line.predict(X)) / line.residual_error_["a"]
    np.testing.assert_allclose(table["CWRES"], wanted, rtol=1e-8)
    np.testing.assert_allclose(table["IWRES"], wanted, rtol=1e-8)
