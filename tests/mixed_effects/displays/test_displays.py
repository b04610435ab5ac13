"""Pictures of mixed-effects fits: which panels there are, and what they show."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import (
    individual_curves,
    individual_residuals,
    population_residuals,
    visual_predictive_check,
)
from sktem.mixed_effects.run import BURN_IN
from sktem.plotting import (
    IndividualFitDisplay,
    ParameterTraceDisplay,
    PredictionDisplay,
    ResidualDisplay,
    VisualPredictiveCheckDisplay,
)
from tests.mixed_effects.fits import bolus_fit, bolus_rows, line_fit

WITH_DATA = [
    IndividualFitDisplay,
    PredictionDisplay,
    ResidualDisplay,
    VisualPredictiveCheckDisplay,
]


def xy(line):
    return np.column_stack(line.get_data())


def legend(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def vertical(panel):
    """Return the places and styles of the vertical lines of a panel."""
    lines = [line for line in panel.lines if len(set(line.get_xdata())) == 1]
    return [(line.get_xdata()[0], line.get_linestyle()) for line in lines]


# ------------------------------------------------------------------------------ traces


def test_traces_are_on_the_natural_scale(pyplot):
    fit = bolus_fit()
    display = ParameterTraceDisplay.from_estimator(fit)
    names = ["V", "CL", "omega2_V", "omega2_CL", "a"]
    assert [panel.get_title() for panel in display.axes_] == names
    assert list(display.traces) == names
    for line, name in zip(display.lines_, names, strict=True):
        expected = fit.trace_[name]
        expected = np.exp(expected) if name in ("V", "CL") else expected
        np.testing.assert_allclose(
            xy(line), np.column_stack([np.arange(1, 101), expected])
        )
    ends = [*fit.population_parameters_.values(), *np.diag(fit.omega_)]
    ends.append(fit.residual_error_["a"])
    assert list(display.estimates.values()) == [float(end) for end in ends]
    level = [line.get_ydata() for line in display.axes_[3].lines if line.get_alpha()]
    assert fit.omega_[1, 1] in level[0]
    assert display.figure_ is display.axes_[0].figure


def test_estimates_by_the_names_of_the_trace(pyplot):
    """Whatever the fit estimates, its last value is near the end of its path."""
    X, y, groups = bolus_rows()
    weight = np.random.default_rng(0).normal(size=40)[groups]
    rng = np.random.default_rng(1)
    X = np.column_stack([X, weight, rng.normal(size=len(y))])
    y = y * (1 + 0.15 * rng.normal(size=len(y)))  # so that neither a nor b vanishes
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, omega="full",
        transforms={"V": "normal"}, covariates={"CL": [2], "V": [3]},
        residual_error="combined", tol=0, max_iter=200, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    display = ParameterTraceDisplay.from_estimator(fit)
    assert set(display.estimates) == set(display.traces) == set(fit.trace_)
    assert {"beta_x2(CL)", "beta_x3(V)", "cov_V_CL", "a", "b"} < set(fit.trace_)
    for name, path in display.traces.items():
        tail = path[-100:]
        margin = np.ptp(tail) + 1e-3 * np.abs(tail).max()
        low, high = tail.min() - margin, tail.max() + margin
        assert low < display.estimates[name] < high, name


@pytest.mark.parametrize("options", [{}, {"n_burn_in": 0}, {"solver": "isaem"}])
def test_phases_are_those_of_the_run(pyplot, options):
    """The marks are where the fit itself has ended its burn-in."""
    ends = []

    class Spy(NonlinearMixedEffectsRegressor):
        def _after_epoch(self, state):
            stopped = super()._after_epoch(state)
            if state.phase.burn_in_end is not None and not ends:
                ends.append(len(state.history) if self.n_burn_in else 0)
            self.averaged_from = state.phase.average
            return stopped

    X, y, groups = bolus_rows()
    fit = Spy(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, tol=0, max_iter=100,
        random_state=0, **options,
    ).fit(X, y, groups=groups)  # fmt: skip
    (end,) = ends
    display = ParameterTraceDisplay.from_estimator(fit)
    phases = dict(display.phases)
    assert phases["steps fall"] == end
    assert phases["average begins"] == end + BURN_IN.pause == fit.averaged_from
    assert phases.get("annealing ends", 0) == 0.6 * fit.n_burn_in
    assert (end, "--") in vertical(display.axes_[0])
    assert (end + BURN_IN.pause, "-") in vertical(display.axes_[-1])
    assert legend(display.axes_[3])[-2:] == ["steps fall", "average begins"]


def test_without_known_phases(pyplot):
    X, y, groups = bolus_rows()
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, tol=0, max_iter=20,
        step_size=0.5, annealing=False, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    display = ParameterTraceDisplay.from_estimator(fit, parameters=["V"])
    assert display.phases == [] and vertical(display.axes_[0]) == []
    assert display.axes_[0].get_legend() is None


def test_several_runs_in_the_same_panels(pyplot):
    first = ParameterTraceDisplay.from_estimator(bolus_fit(), name="constant")
    second = ParameterTraceDisplay.from_estimator(
        bolus_fit("exponential"), name="exponential", ax=first.axes_, color="red"
    )
    assert second.figure_ is first.figure_
    assert legend(first.axes_[0]) == ["constant", "exponential"]
    assert second.lines_[0].get_color() == "red"
    (alone,) = ParameterTraceDisplay.from_estimator(
        bolus_fit(), name="one", parameters=["CL"]
    ).axes_
    assert legend(alone) == ["one"]


def test_scale_of_a_trace(pyplot):
    path = np.geomspace(100, 1, 20)
    display = ParameterTraceDisplay({"wide": path, "narrow": 5 + path, "signed": -path})
    scales = [panel.get_yscale() for panel in display.plot().axes_]
    assert scales == ["log", "log", "linear"]
    other = ParameterTraceDisplay({"wide": -path, "narrow": 90 + path, "signed": path})
    other.plot(["wide"], ax=display.axes_[0])
    assert display.axes_[0].get_yscale() == "linear"
    (panel,) = other.plot(["narrow"]).axes_
    assert panel.get_yscale() == "linear"


def test_wrong_traces(pyplot):
    for parameters in (["V", "Cl"], []):
        with pytest.raises(ValueError, match="must be among|has unknown parameters"):
            ParameterTraceDisplay.from_estimator(bolus_fit(), parameters=parameters)
    blank = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 1.0, "CL": 1.0}
    )
    with pytest.raises(NotFittedError):
        ParameterTraceDisplay.from_estimator(blank)
    with pytest.raises(TypeError, match="got LinearRegression"):
        ParameterTraceDisplay.from_estimator(LinearRegression())
    X, y, groups = bolus_rows()
    streamed = blank.set_params(random_state=0).partial_fit(X, y, groups=groups)
    with pytest.raises(NotFittedError):
        ParameterTraceDisplay.from_estimator(streamed)


# ------------------------------------------------------------------------- predictions


def test_predictions(pyplot):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    y[3] = np.nan
    display = PredictionDisplay.from_estimator(
        fit, X, y, groups, scatter_kwargs={"color": "red"}, line_kwargs={"color": "red"}
    )
    seen = ~np.isnan(y)
    population, individual = display.scatters_
    np.testing.assert_array_equal(
        population.get_offsets(), np.column_stack([fit.predict(X), y])[seen]
    )
    np.testing.assert_array_equal(
        individual.get_offsets(), np.column_stack([fit.predict(X, groups), y])[seen]
    )
    for panel, line in zip(display.axes_, display.lines_, strict=True):
        assert panel.get_xlim() == panel.get_ylim()
        if hasattr(line, "get_slope"):  # Matplotlib 3.8 and later
            assert line.get_slope() == 1 and line.get_xy1()[0] == line.get_xy1()[1]
        assert line.get_color() == "red"
    # Limits leave no point out.
    low, high = display.axes_[0].get_xlim()
    assert low < min(y[seen].min(), fit.predict(X).min())
    assert max(y[seen].max(), fit.predict(X, groups).max()) < high


def test_predictions_without_random_effects(pyplot):
    X, y, _ = bolus_rows()
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, tol=0, max_iter=10,
        omega=[], n_burn_in=2, random_state=0,
    ).fit(X, y)  # fmt: skip
    display = PredictionDisplay.from_estimator(fit, X, y)
    assert display.axes_.shape == (1,) and display.individual is None


# --------------------------------------------------------------------- individual fits


def test_individual_fits(pyplot):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    display = IndividualFitDisplay.from_estimator(
        fit, X, y, groups, n_subjects=6, n_points=20
    )
    expected = individual_curves(fit, X, y, groups, n_points=20)[:6]
    assert [panel.get_title() for panel in display.axes_] == list("012345")
    for curve, own, typical, points in zip(
        expected,
        display.individual_lines_,
        display.population_lines_,
        display.scatters_,
        strict=True,
    ):
        np.testing.assert_array_equal(
            xy(own), np.column_stack([curve.grid, curve.individual])
        )
        np.testing.assert_array_equal(
            xy(typical), np.column_stack([curve.grid, curve.population])
        )
        np.testing.assert_array_equal(
            points.get_offsets(), np.column_stack([curve.time, curve.observed])
        )
    assert {panel.get_ylim() for panel in display.axes_} == {
        display.axes_[0].get_ylim()
    }
    labels = [panel.get_xlabel() for panel in display.axes_]
    assert labels == ["", "", "", "", "time", "time"]
    assert legend(display.axes_[3]) == ["population", "individual", "observed"]


def test_chosen_subjects_and_axes(pyplot):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    _, axes = pyplot.subplots(2, 1)
    display = IndividualFitDisplay.from_estimator(
        fit, X, y, groups, subjects=[30, 5], time=0, ax=axes
    )
    assert list(display.axes_) == list(axes)
    assert [panel.get_title() for panel in axes] == ["30", "5"]
    with pytest.raises(ValueError, match="n_subjects must be at least 1"):
        IndividualFitDisplay.from_estimator(fit, X, y, groups, n_subjects=0)


# --------------------------------------------------------------------------- residuals


def test_residuals(pyplot):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    y[3] = np.nan
    display = ResidualDisplay.from_estimator(
        fit, X, y, groups, kinds=["iwres", "pwres", "npde"], n_simulations=50,
        random_state=0,
    )  # fmt: skip
    seen = ~np.isnan(y)
    individual = individual_residuals(fit, X, y, groups)[seen]
    population = population_residuals(
        fit, X, y, groups, n_simulations=50, random_state=0
    )
    rows = [individual, population.weighted[seen], population.npde[seen]]
    at = [fit.predict(X, groups)[seen], *[population.mean[seen]] * 2]
    assert display.axes_.shape == (3, 3)
    assert [panel.get_ylabel() for panel in display.axes_[:, 0]] == [
        "IWRES", "PWRES", "NPDE",
    ]  # fmt: skip
    for i, (values, prediction) in enumerate(zip(rows, at, strict=True)):
        time, against, quantiles = display.scatters_[3 * i : 3 * i + 3]
        np.testing.assert_array_equal(
            time.get_offsets(), np.column_stack([X[seen, 1], values])
        )
        np.testing.assert_array_equal(
            against.get_offsets(), np.column_stack([prediction, values])
        )
        x, ordered = quantiles.get_offsets().T
        np.testing.assert_array_equal(ordered, np.sort(values))
        assert np.abs(x + x[::-1]).max() < 1e-9 and (np.diff(x) > 0).all()
    medians = [np.median(individual[X[seen, 1] == t]) for t in np.linspace(1, 9, 5)]
    np.testing.assert_allclose(
        xy(display.lines_[0]), np.column_stack([np.linspace(1, 9, 5), medians])
    )


def test_band_of_the_quantile_plot(pyplot):
    """Of n normal variables in order, each is in the band in 95 % of the cases."""
    rng = np.random.default_rng(0)
    fit, (X, y, groups) = line_fit(), bolus_rows(n=8)
    display = ResidualDisplay.from_estimator(
        fit, X[:, 1:], y, groups, kinds="npde", n_simulations=10, random_state=0
    )
    (band,) = display.axes_[0, 2].collections[:1]
    corners = band.get_paths()[0].vertices
    at = np.unique(corners[:, 0])
    low, high = (
        np.array([pick(corners[corners[:, 0] == x, 1]) for x in at])
        for pick in (np.min, np.max)
    )
    assert len(at) == 40
    drawn = np.sort(rng.normal(size=(4000, 40)), axis=1)
    inside = ((low <= drawn) & (drawn <= high)).mean(axis=0)
    assert np.abs(inside - 0.95).max() < 4.5 * np.sqrt(0.95 * 0.05 / 4000)


def test_wrong_kinds(pyplot):
    for kinds in ("cwres", [], ["npde", "res"]):
        with pytest.raises(ValueError, match="must be among|has unknown residuals"):
            ResidualDisplay.from_estimator(bolus_fit(), *bolus_rows(), kinds=kinds)


def test_new_subjects_have_population_residuals_only(pyplot):
    fit, (X, y, groups) = bolus_fit(), bolus_rows(n=10)
    options = {"n_simulations": 20, "random_state": 0}
    ResidualDisplay.from_estimator(fit, X, y, groups + 100, kinds="npde", **options)
    with pytest.raises(ValueError, match="subjects that fit has seen"):
        ResidualDisplay.from_estimator(fit, X, y, groups + 100, **options)


# -------------------------------------------------------------- visual predictive check


@pytest.mark.parametrize("corrected", [False, True])
def test_predictive_check(pyplot, corrected):
    options = {
        "prediction_corrected": corrected,
        "n_simulations": 30,
        "quantiles": [0.1, 0.5],
        "random_state": 0,
    }
    data = (bolus_fit(), *bolus_rows())
    check = visual_predictive_check(*data, **options)
    display = VisualPredictiveCheckDisplay.from_estimator(*data, **options)
    (panel,) = display.axes_
    for row, line in enumerate(display.lines_):
        np.testing.assert_array_equal(
            xy(line), np.column_stack([check.centres, check.observed[row]])
        )
    for row, band in enumerate(display.bands_):
        corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
        for edge in (check.lower[row], check.upper[row]):
            assert set(zip(check.centres, edge, strict=True)) <= corners
    np.testing.assert_array_equal(
        display.scatter_.get_offsets(), np.column_stack([check.time, check.values])
    )
    assert panel.get_xlabel() == "time"
    expected = "corrected observation" if corrected else "observation"
    assert panel.get_ylabel() == expected
    assert legend(panel) == ["90 % of simulated", "observed 10 %", "observed 50 %"]


def test_predictive_check_of_one_bin(pyplot):
    _, ax = pyplot.subplots()
    display = VisualPredictiveCheckDisplay.from_estimator(
        bolus_fit(), *bolus_rows(), bins=[1, 9], n_simulations=20, scatter=False, ax=ax
    )
    assert display.axes_[0] is ax and display.scatter_ is None
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [1, 9])


# ------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("display", WITH_DATA)
def test_wrong_data(pyplot, display):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    with pytest.raises(ValueError, match="groups must be given"):
        display.from_estimator(fit, X, y, None)
    with pytest.raises(ValueError, match="Expected 2D array"):
        display.from_estimator(fit, X[:, 0], y, groups)
    with pytest.raises(TypeError, match="got LinearRegression"):
        display.from_estimator(LinearRegression().fit(X, y), X, y, groups)


@pytest.mark.parametrize("display", [*WITH_DATA, ParameterTraceDisplay])
def test_missing_matplotlib(monkeypatch, display):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    data = () if display is ParameterTraceDisplay else bolus_rows()
    with pytest.raises(ImportError, match=rf"{display.__name__}.*sktem\[plot\]"):
        display.from_estimator(bolus_fit(), *data)
