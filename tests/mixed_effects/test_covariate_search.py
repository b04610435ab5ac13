"""Forms of covariates, and what the screen leaves out."""

import numpy as np
import pandas as pd
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, Reparametrized, read_nonmem
from sktem.evaluation import covariate_search

N, M = 60, 4


@pytest.fixture(scope="module")
def data():
    """Return rows whose level is a power of the weight and depends on a category."""
    rng = np.random.default_rng(7)
    weight = np.exp(rng.uniform(np.log(5), np.log(120), N))
    kind, noise = rng.integers(0, 3, N), rng.normal(size=N)
    level = 2 * np.log(weight / 40) + np.where(kind == 2, 1.0, 0.0)
    level = level + 0.4 * rng.normal(size=N)
    groups = np.repeat(np.arange(N), M)
    X = pd.DataFrame({
        "x": np.tile(np.arange(float(M)), N), "WT": weight[groups],
        "KIND": kind[groups].astype(float), "NOISE": noise[groups],
    })  # fmt: skip
    y = level[groups] + 0.5 * X["x"] + 0.3 * rng.normal(size=N * M)
    return X, y.to_numpy(), groups


def line(**settings):
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 0.5, "slope": 0.5},
        transforms="normal",
        inputs=["x"],
        omega=["intercept"],
        n_burn_in=10,
        random_state=0,
        **settings,
    )


CANDIDATES = {"intercept": ["WT", "KIND", "NOISE"]}
FORMS = {"WT": ["linear", "power", "hockey-stick"], "KIND": "categorical"}


def test_the_right_form_enters_and_the_screen_saves_fits(data, monkeypatch):
    fits = []
    original = NonlinearMixedEffectsRegressor.fit

    def counted(self, *arguments, **settings):
        fits.append(self.covariates)
        return original(self, *arguments, **settings)

    monkeypatch.setattr(NonlinearMixedEffectsRegressor, "fit", counted)
    found, steps = covariate_search(
        line(), *data, candidates=CANDIDATES, forms=FORMS, screen=0.05
    )
    wanted = [("forward", "intercept", "WT:power"),
              ("forward", "intercept", "KIND:categorical")]  # fmt: skip
    assert [step[:3] for step in steps] == wanted
    # Neither noise, nor effects that a Wald test finds, are fitted once more.
    assert len(fits) <= 6
    assert not any("NOISE" in str(covariates) for covariates in fits)
    effects = found.covariate_effects_
    errors = found.standard_errors()
    power = effects["intercept", "WT:power"]
    assert power == pytest.approx(2, abs=4 * errors["beta_WT:power(intercept)"])
    # The same fit from columns of one's own.
    X, y, groups = data
    own = X.assign(LOG=np.log(X.WT / np.median(X.WT)))
    levels, counts = np.unique(X.KIND, return_counts=True)
    columns = ["LOG"]
    for level in np.delete(levels, counts.argmax()):
        own[f"K{level:g}"] = (X.KIND == level) * 1.0
        columns.append(f"K{level:g}")
    same = line(covariates={"intercept": columns}).fit(own, y, groups=groups)
    assert same.log_likelihood() == pytest.approx(found.log_likelihood(), abs=1e-3)
    assert power == pytest.approx(same.covariate_effects_["intercept", "LOG"], abs=1e-3)


def test_a_hockey_stick_of_records():
    rng = np.random.default_rng(1)
    n = 40
    age = rng.uniform(0, 10, n)
    rows = pd.DataFrame({
        "ID": np.repeat(np.arange(n), 4), "TIME": np.tile([0.0, 1, 4, 8], n),
        "AMT": np.tile([100.0, 0, 0, 0], n), "AGE": np.repeat(age, 4),
    })  # fmt: skip
    middle = np.median(age)
    effect = 0.4 * np.minimum(age - middle, 0) + 0.1 * rng.standard_normal(n)
    f = OneCompartment().predict(rows, {"CL": np.exp(effect), "V": 10.0})
    rows["DV"] = f * (1 + 0.05 * rng.standard_normal(len(rows))) * (rows.AMT == 0)
    model = NonlinearMixedEffectsRegressor(
        OneCompartment(), parameters={"CL": 1.0, "V": 8.0}, omega=["CL"],
        residual_error="proportional", n_burn_in=10, random_state=0,
    )  # fmt: skip
    found, steps = covariate_search(
        model, read_nonmem(rows), candidates={"CL": "AGE"},
        forms={"AGE": "hockey-stick"}, screen=0.3,
    )  # fmt: skip
    assert [step[:3] for step in steps] == [("forward", "CL", "AGE:hockey-stick")]
    errors = found.standard_errors()
    for name, truth in (("below", 0.4), ("above", 0.0)):
        value = found.covariate_effects_["CL", f"AGE:{name}"]
        assert abs(value - truth) < 4 * errors[f"beta_AGE:{name}(CL)"]


def test_categories_may_be_text(data):
    X, y, groups = data
    names = np.array(["a", "b", "c", "d"])[X.KIND.astype(int)]
    found = [
        covariate_search(
            line(), table, y, groups, candidates={"intercept": ["KIND"]},
            forms={"KIND": "categorical"},
        )
        for table in (X, X.assign(KIND=names))
    ]  # fmt: skip
    assert found[0][1] == found[1][1]
    values = [list(fit.covariate_effects_.values()) for fit, _ in found]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)
    with pytest.raises(ValueError, match="'power' needs numbers, and 'KIND' holds"):
        covariate_search(
            line(), X.assign(KIND=names), y, groups,
            candidates={"intercept": ["KIND"]}, forms={"KIND": "power"},
        )  # fmt: skip


def test_a_form_on_the_natural_scale_is_a_model_of_its_own():
    rng = np.random.default_rng(5)
    n, effect = 40, 0.02
    weight = rng.uniform(40, 100, n)
    rows = pd.DataFrame({
        "ID": np.repeat(np.arange(n), 4), "TIME": np.tile([0.0, 1, 4, 8], n),
        "AMT": np.tile([100.0, 0, 0, 0], n), "WT": np.repeat(weight, 4),
    })  # fmt: skip
    CL = (1 + effect * (weight - 70)) * np.exp(0.1 * rng.standard_normal(n))
    f = OneCompartment().predict(rows, {"CL": CL, "V": 10.0})
    rows["DV"] = f * (1 + 0.05 * rng.standard_normal(len(rows))) * (rows.AMT == 0)
    settings = {"residual_error": "proportional", "n_burn_in": 10, "random_state": 0}
    linear = Reparametrized(
        OneCompartment(),
        lambda p, r: {"CL": p.CL * (1 + p.TH * (r["WT"] - 70)), "V": p.V},
        parameters=["CL", "V", "TH"],
    )
    own = NonlinearMixedEffectsRegressor(
        linear, parameters={"CL": 2.0, "V": 8.0, "TH": 0.01}, omega=["CL"],
        transforms={"TH": "normal"}, **settings,
    ).fit(read_nonmem(rows))  # fmt: skip
    found = own.population_parameters_["TH"]
    assert abs(found - effect) < 4 * own.standard_errors()["TH"]
    # What the search tries is an exponential of the weight, which is another model.
    rows["SIZE"] = rows.WT - 70
    other = NonlinearMixedEffectsRegressor(
        OneCompartment(), parameters={"CL": 2.0, "V": 8.0}, omega=["CL"],
        covariates={"CL": "SIZE"}, **settings,
    ).fit(read_nonmem(rows))  # fmt: skip
    assert own.log_likelihood() > other.log_likelihood() + 2


def test_wrong_use(data):
    X, y, groups = data
    with pytest.raises(ValueError, match="must name a column"):
        covariate_search(line(), X, y, groups, candidates={})
    for forms, message in (
        ({"WT": "cubic"}, "cubic"),
        ({"WEIGHT": "power"}, "WEIGHT"),
        ({"NOISE": "power"}, "needs positive values of 'NOISE'"),
    ):
        with pytest.raises(ValueError, match=message):
            covariate_search(line(), X, y, groups, candidates=CANDIDATES, forms=forms)
    with pytest.raises(ValueError, match="column of a data frame or records"):
        covariate_search(
            line(), X.to_numpy(), y, groups, candidates={"intercept": [1]},
            forms={1: "power"},
        )  # fmt: skip
