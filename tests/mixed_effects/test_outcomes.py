"""Counts, categories and events, also beside concentrations: exact likelihoods."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import bernoulli, nbinom, norm, poisson

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, Responses, read_nonmem
from sktem.exceptions import FitWarning
from sktem.mixed_effects.differences import numerical_hessian
from sktem.mixed_effects.endpoints import residual_error_of

N, TIMES, DOSE = 30, np.array([1.0, 4.0, 10.0]), 100.0
ETA = np.linspace(-6, 6, 241)
UNIT, WEIGHT = np.polynomial.legendre.leggauss(40)


def model():
    return Responses(
        OneCompartment(),
        outcomes={4: lambda p, r, c: p.MEAN * np.exp(-0.2 * c)},
        hazards={3: lambda p, r, c: p.H0 * np.exp(p.BETA * c)},
        parameters=["MEAN", "H0", "BETA"],
    )


def study():
    """Return records with concentrations, an event and a count of each subject."""
    rng = np.random.default_rng(3)
    CL = 2 * np.exp(0.3 * rng.standard_normal(N))
    grid = np.linspace(0, 24, 2000)
    c = DOSE / 10 * np.exp(-CL[:, None] / 10 * grid)
    whole = np.cumsum(0.02 * np.exp(0.2 * c), axis=1) * grid[1]
    passed = whole > rng.exponential(size=(N, 1))
    at = np.where(passed.any(axis=1), passed.argmax(axis=1), len(grid) - 1)
    table = {name: [] for name in ("ID", "TIME", "AMT", "CMT", "DV")}
    for i in range(N):
        rows = [(0.0, DOSE, 1, np.nan)]
        for t in TIMES:
            value = DOSE / 10 * np.exp(-CL[i] / 10 * t)
            rows.append((t, 0, 2, value * (1 + 0.1 * rng.standard_normal())))
        rows.append((grid[at[i]], 0, 3, float(passed[i].any())))
        count = rng.poisson(6 * np.exp(-0.2 * DOSE / 10 * np.exp(-CL[i] * 1.2)))
        rows.append((12.0, 0, 4, count))
        for row in sorted(rows, key=lambda row: row[0]):
            for name, value in zip(table, (i, *row), strict=True):
                table[name].append(value)
    return read_nonmem(table)


def exact(records, theta, events=True):
    """Return the log-likelihood on a grid of the random effect."""
    CL, V, mean, H0, beta, v, b = theta
    own, total = CL * np.exp(np.sqrt(v) * ETA), 0.0
    for i in range(N):
        part = records.subject_of_record == i
        kind, time = records["CMT"][part], records["TIME"][part]
        y = records["DV"][part]
        terms = norm.logpdf(ETA)
        for k in (2, 3, 4):
            for t, value in zip(time[kind == k], y[kind == k], strict=True):
                c = DOSE / V * np.exp(-own / V * t)
                if k == 2:
                    terms = terms + norm.logpdf(value, c, b * c)
                elif k == 4:
                    terms = terms + poisson.logpmf(value, mean * np.exp(-0.2 * c))
                else:
                    s = t * (1 + UNIT) / 2
                    path = DOSE / V * np.exp(-own[:, None] / V * s)
                    whole = H0 * np.exp(beta * path) @ WEIGHT * t / 2
                    terms = terms + value * events * (np.log(H0) + beta * c) - whole
        total += logsumexp(terms) + np.log(ETA[1] - ETA[0])
    return total


def decrement(function, theta):
    """Return standard errors, and the gain that a Newton step would bring."""
    steps = 1e-3 * np.abs(theta)
    hessian = numerical_hessian(lambda t: -function(t), theta, steps)
    slope = [function(theta + h) - function(theta - h) for h in np.diag(steps)]
    slope, inverse = np.array(slope) / (2 * steps), np.linalg.inv(hessian)
    return np.sqrt(np.diag(inverse)), 0.5 * slope @ inverse @ slope


def test_concentrations_events_and_counts():
    records = study()
    found = NonlinearMixedEffectsRegressor(
        model(),
        parameters={"CL": 1.5, "V": 12.0, "MEAN": 4.0, "H0": 0.03, "BETA": 0.1},
        transforms={"BETA": "normal"},
        omega=["CL"],
        residual_error={2: "proportional", 3: "event", 4: "poisson"},
        n_burn_in=15,
        random_state=0,
    ).fit(records)
    assert found.converged_
    names = ["CL", "V", "MEAN", "H0", "BETA", "omega2_CL", "b_2"]
    theta = found.summary_.estimate[names].to_numpy()
    assert found.log_likelihood() == pytest.approx(exact(records, theta), abs=1e-4)
    errors, gain = decrement(lambda t: exact(records, t), theta)
    assert gain < 1e-2
    np.testing.assert_allclose(found.summary_.standard_error[names], errors, rtol=0.02)
    # Events that are taken for ends of observation have another likelihood.
    assert abs(exact(records, theta, False) - exact(records, theta)) > 5
    # Predictions do not know the events: probabilities of none so far.
    survival = found.predict(records)[records["CMT"] == 3]
    assert ((survival > 0) & (survival < 1)).all()
    drawn = np.array([found.simulate(records, random_state=k) for k in range(200)])
    events = records["CMT"] == 3
    assert set(np.unique(drawn[:, events])) == {0.0, 1.0}
    share, deviation = 1 - drawn[:, events].mean(), drawn[:, events].std()
    tolerance = 4 * deviation / np.sqrt(drawn[:, events].size) + 0.03
    assert share == pytest.approx(survival.mean(), abs=tolerance)
    counts = drawn[:, records["CMT"] == 4]
    assert (counts % 1 == 0).all() and counts.std() > 1


@pytest.mark.parametrize(
    ("name", "ofv"), [("tte_exponential", 589.3830), ("rtte_exponential", 1748.8885)]
)
def test_published_events(shared_data, name, ofv):
    # The maximum of the likelihood by quadrature.
    records = read_nonmem(shared_data(f"pk/{name}.csv.gz"))
    kind = int(records["CMT"].max())
    hazard = Responses(
        None, hazards={kind: lambda p, r, c: p.RATE}, parameters=["RATE"]
    )
    found = NonlinearMixedEffectsRegressor(
        hazard, parameters={"RATE": 0.1}, residual_error={kind: "event"}, random_state=0
    ).fit(records)
    assert found.converged_
    assert -2 * found.log_likelihood() == pytest.approx(ofv, abs=2e-3)


def event_fit(records, hazard, *names, n_nodes=8, **settings):
    """Return a fit of times to events without random effects."""
    model = Responses(None, hazards={1: hazard}, parameters=names, n_nodes=n_nodes)
    return NonlinearMixedEffectsRegressor(
        model, parameters=dict.fromkeys(names, 0.1), omega=[], residual_error="event",
        random_state=0, **settings,
    ).fit(read_nonmem(records))  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hazards_with_many_waves_between_records_are_told(seed):
    """Ten days of a daily rhythm: the closed form, and too few nodes with a warning."""
    rng, n, turn = np.random.default_rng(seed), 200, 2 * np.pi / 24

    def risk(t, rate, swing):
        return rate * (t + swing * (1 - np.cos(turn * t)) / turn)

    grid = np.linspace(0, 240, 24001)
    passed = rng.exponential(size=n)
    happened = passed < risk(240, 0.01, 0.6)
    time = np.where(happened, np.interp(passed, risk(grid, 0.01, 0.6), grid), 240.0)
    records = {"ID": np.arange(n), "TIME": time, "DV": happened * 1.0}

    def hazard(p, records, c):
        return p.H * (1 + p.A * np.sin(turn * records["TIME"]))

    fit = partial(event_fit, records, hazard, "H", "A", transforms={"A": "logit"})
    with pytest.warns(FitWarning, match="8 nodes between two records are too few"):
        coarse = fit()
    fine = fit(n_nodes=40)  # warnings are errors
    H, A = fine.population_parameters_.values()
    density = H * (1 + A * np.sin(turn * time[happened]))
    wanted = np.log(density).sum() - risk(time, H, A).sum()
    assert fine.log_likelihood() == pytest.approx(wanted, abs=1e-5)
    assert abs(coarse.log_likelihood() - wanted) > 1


def test_records_at_a_kink_make_hazards_exact_and_are_no_late_beginning(
    global_random_seed,
):
    rng, n, change = np.random.default_rng(global_random_seed), 200, 5.0
    time = rng.exponential(9.0, size=n)
    happened, time = time < 14, np.minimum(time, 14.0)
    events = pd.DataFrame({"ID": np.arange(n), "TIME": time, "DV": happened * 1.0})
    kinks = events[time > change].assign(TIME=change, DV=0.0, EVID=2)
    study = pd.concat([kinks, events.assign(EVID=0)])
    study = study.sort_values(["ID", "TIME"])

    def hazard(p, records, c):
        return np.where(records["TIME"] <= change, p.EARLY, p.LATE)

    fit = event_fit(study, hazard, "EARLY", "LATE")  # without a warning
    found = fit.population_parameters_
    early = happened & (time <= change)
    assert found["EARLY"] == pytest.approx(
        early.sum() / np.minimum(time, change).sum(), rel=1e-5
    )
    assert found["LATE"] == pytest.approx(
        (happened & ~early).sum() / np.maximum(time - change, 0).sum(), rel=1e-5
    )


def test_subjects_who_are_dosed_later_than_they_are_followed_are_told():
    rng, n = np.random.default_rng(0), 60
    doses = pd.DataFrame({"ID": np.arange(n), "TIME": 100.0, "AMT": 1.0, "EVID": 1})
    events = pd.DataFrame({"ID": np.arange(n), "DV": 1.0, "EVID": 0})
    events["TIME"] = 100 + rng.exponential(9.0, size=n)
    study = pd.concat([doses, events]).sort_values(["ID", "TIME"])
    with pytest.warns(FitWarning, match="Hazards are integrated from time 0"):
        event_fit(study, lambda p, records, c: p.RATE, "RATE")


def ordinal(y, f, d2, d3):
    cuts = np.array([0.0, d2, d2 + d3])
    above = np.concatenate([[1.0], expit(f - cuts), [0.0]])
    return np.log(above[:-1] - above[1:])[int(y)]


DENSITIES = {
    "poisson": ("poisson", (), lambda y, f: poisson.logpmf(y, f)),
    "negative-binomial": (
        "negative-binomial", (0.4,),
        lambda y, f, a: nbinom.logpmf(y, 1 / a, 1 / (1 + a * f)),
    ),
    "bernoulli": ("bernoulli", (), lambda y, f: bernoulli.logpmf(y, f)),
    "ordinal": (("ordinal", 4), (0.7, 1.1), ordinal),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_log_densities_and_draws(name):
    given, sigma, wanted = DENSITIES[name]
    error = residual_error_of(given)
    y = np.array([0.0, 1.0, 1.0] if name == "bernoulli" else [0.0, 3.0, 1.0])
    f = np.array([0.3, 0.6, 0.9])
    values = [wanted(one, mean, *sigma) for one, mean in zip(y, f, strict=True)]
    np.testing.assert_allclose(error.log_density(y, f, sigma, 1e-9), values, rtol=1e-9)
    normal = np.random.default_rng(0).standard_normal(100_000)
    drawn = error.draw(np.full(len(normal), 0.6), sigma, 1e-9, normal)
    for value in range(3):
        share = np.exp(wanted(value, 0.6, *sigma))
        assert (drawn == value).mean() == pytest.approx(share, abs=0.007)
    spread = error.standard_deviation(np.array([0.6]), sigma, 1e-9)
    assert drawn.std() == pytest.approx(spread[0], rel=0.02)


@pytest.mark.parametrize("name", ["negative-binomial", "ordinal"])
def test_maximum_of_other_outcomes(name):
    given, sigma, density = DENSITIES[name]
    rng = np.random.default_rng(1)
    x, effects = np.tile([-1.0, 0.0, 1.0, 2.0], 50), 0.8 * rng.standard_normal(50)
    level = 0.5 + 0.6 * x + np.repeat(effects, 4)
    inverse = (lambda v: v) if name == "ordinal" else np.exp
    y = residual_error_of(given).draw(
        inverse(level), sigma, 1e-9, rng.standard_normal(200)
    )
    found = NonlinearMixedEffectsRegressor(
        lambda psi, X: inverse(psi["level"] + psi["slope"] * X[:, 0]),
        parameters={"level": 0.2, "slope": 0.3},
        transforms="normal",
        omega=["level"],
        residual_error=given,
        random_state=0,
    ).fit(x[:, None], y, groups=np.repeat(np.arange(50), 4))
    assert found.converged_
    shape = list(found.residual_error_)
    theta = found.summary_.estimate[["level", "slope", "omega2_level", *shape]]

    def likelihood(theta):
        level, slope, v, *others = theta
        eta = np.sqrt(v) * ETA
        f = inverse(level + slope * x[:, None] + eta)
        if name == "ordinal":
            cuts = np.cumsum([0.0, *others])[:, None, None]
            above = np.concatenate([
                np.ones((1, *f.shape)), expit(f - cuts), np.zeros((1, *f.shape)),
            ])  # fmt: skip
            every = np.log(above[:-1] - above[1:])
            rows = every[y.astype(int), np.arange(200)]
        else:
            rows = density(y[:, None], f, *others)
        terms = rows.reshape(50, 4, -1).sum(axis=1) + norm.logpdf(ETA)
        return logsumexp(terms, axis=1).sum() + 50 * np.log(ETA[1] - ETA[0])

    theta = theta.to_numpy()
    assert found.log_likelihood() == pytest.approx(likelihood(theta), abs=1e-3)
    errors, gain = decrement(likelihood, theta)
    assert gain < 1e-2
    names = ["level", "slope", "omega2_level", *shape]
    np.testing.assert_allclose(found.summary_.standard_error[names], errors, rtol=0.02)


@pytest.mark.parametrize("name", ["poisson", "negative-binomial"])
def test_counts_of_models_that_are_compiled(name):
    rng = np.random.default_rng(2)
    groups, time = np.repeat(np.arange(30), 4), np.tile([1.0, 3.0, 6.0, 12.0], 30)
    CL = 2 * np.exp(0.3 * rng.standard_normal(30))[groups]
    X = np.column_stack([np.full(120, 100.0), time])
    y = rng.poisson(10 * np.exp(-CL / 10 * time)) * 1.0

    def formula(psi, X):
        return 100 / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])

    dosed = {"ID": np.arange(30), "TIME": np.zeros(30), "AMT": np.full(30, 100.0)}
    times = {"TIME": time, "CMT": np.ones(120)}
    data = [
        (formula, name, X, None), ("one_compartment_iv", name, X, None),
        (OneCompartment(), {1: name}, times, dosed),
    ]  # fmt: skip
    found = []
    for model, error, X, events in data:
        X = pd.DataFrame(X) if events else X
        fit = NonlinearMixedEffectsRegressor(
            model,
            parameters={"V": 9.0, "CL": 1.5},
            omega=["CL"],
            residual_error=error,
            random_state=0,
        ).fit(X, y, groups, pd.DataFrame(events) if events else None)
        found.append([fit.log_likelihood(), *fit.population_parameters_.values()])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-4)


def test_times_that_do_not_begin_at_zero():
    # The hazard would be integrated over the days before the study too.
    columns = dict(study().columns)

    def fit():
        return NonlinearMixedEffectsRegressor(
            model(),
            parameters={"CL": 1.5, "V": 12.0, "MEAN": 4.0, "H0": 0.03, "BETA": 0.1},
            transforms={"BETA": "normal"},
            omega=["CL"],
            residual_error={2: "proportional", 3: "event", 4: "poisson"},
            max_iter=2,
            tol=0,
        ).fit(read_nonmem(columns))

    fit()
    columns["TIME"] = columns["TIME"] + 1000
    with pytest.warns(FitWarning, match=r"from time 0, and subjects such as \[0, 1, 2"):
        fit()


def test_wrong_use():
    table = {"ID": [1, 1], "TIME": [0.0, 1], "AMT": [9.0, 0], "DV": [0.0, 0.5],
             "CMT": [1, 3], "CENS": [0, 1]}  # fmt: skip

    def fit(error, **columns):
        NonlinearMixedEffectsRegressor(
            model(),
            parameters={"CL": 1.5, "V": 12.0, "MEAN": 4.0, "H0": 0.03, "BETA": 0.1},
            omega=["CL"],
            residual_error=error,
        ).fit(read_nonmem({**table, **columns}))

    with pytest.raises(ValueError, match="ones .events. and zeros"):
        fit({3: "event"})
    with pytest.raises(ValueError, match="CENS is not for the outcome of CMT 4"):
        fit({4: "poisson"}, CMT=[1, 4])
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        fit({4: "poisson"}, CMT=[1, 4], CENS=[0, 0])
    with pytest.raises(ValueError, match="number of categories"):
        residual_error_of(("ordinal", 1))
    with pytest.raises(ValueError, match="outcomes, or errors of the logarithm"):
        residual_error_of(("poisson", "positive"))
