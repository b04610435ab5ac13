"""Mixed-effects fits with default settings, against likelihoods of another kind."""

import gzip
import io
from functools import cache

import numpy as np

from sktem import NonlinearMixedEffectsRegressor
from tests.defaults.harness import Case, shared_path
from tests.defaults.mixed_effects_references import (
    best_by_quadrature,
    best_linear,
    discrete,
    errors_by_quadrature,
    gaussian,
    linear_errors,
    linear_log_likelihood,
)

NAME = "NonlinearMixedEffectsRegressor"


@cache
def table(path):
    """Columns of a real data set by name; the case is skipped where there is none."""
    text = gzip.decompress(shared_path(path).read_bytes()).decode()
    rows = np.genfromtxt(
        io.StringIO(text), delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    return {name: np.char.strip(rows[name].astype(str), '"') for name in
            rows.dtype.names}  # fmt: skip


def numbers(path, *names):
    found = table(path)
    return [found[name].astype(float) for name in names]


def labels(path, name):
    return np.unique(table(path)[name], return_inverse=True)[1]


# ------------------------------------------------------------------------ linear models


def linear_of(data, start, omega, seed, x_scale=1.0, y_scale=1.0):
    x, y, groups = data()
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters=dict(zip(("intercept", "slope"), start, strict=True)),
        transforms="normal", omega=omega, random_state=seed,
    )  # fmt: skip
    return fit.fit((x * x_scale)[:, None], y * y_scale, groups=groups)


def linear_distance(data, start, omega="full", x_scale=1.0, y_scale=1.0):
    """Log-likelihood lost, by the Gaussian law of the data at the estimates."""

    def distance(seed):
        fit = linear_of(data, start, omega, seed, x_scale, y_scale)
        x, y, groups = data()
        units = np.array([1.0, x_scale]) / y_scale
        psi = np.array(list(fit.population_parameters_.values())) * units
        covariance = np.zeros((2, 2))
        at = [["intercept", "slope"].index(name) for name in fit.random_effects_]
        covariance[np.ix_(at, at)] = fit.omega_
        covariance *= units[:, None] * units
        sigma = fit.residual_error_["a"] / y_scale
        ours = linear_log_likelihood(x, y, groups, psi, covariance, sigma)
        return best_linear(data, omega) - ours if fit.converged_ else np.inf

    return distance


@cache
def sleepstudy():
    x, y = numbers("nlme/sleepstudy.csv.gz", "Days", "Reaction")
    return x, y, labels("nlme/sleepstudy.csv.gz", "Subject")


@cache
def oxboys():
    x, y = numbers("nlme/saemix_oxboys.csv.gz", "age", "height")
    return x, y, labels("nlme/saemix_oxboys.csv.gz", "Subject")


@cache
def orthodont():
    x, y = numbers("nlme/orthodont.csv.gz", "age", "distance")
    return x, y, labels("nlme/orthodont.csv.gz", "Subject")


@cache
def intercepts(scale=1.0, seed=0, n=25, m=4):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = rng.normal(size=n * m)
    y = 3 + 2 * x + 1.5 * rng.normal(size=n)[groups] + 0.7 * rng.normal(size=n * m)
    return x, scale * y, groups


@cache
def unbalanced(seed=3):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(40), rng.integers(1, 9, size=40))
    x = 1990 + 5 * rng.random(len(groups))
    effects = rng.normal(size=(40, 2)) @ [[4.0, 0.0], [0.0, 0.8]]
    y = -20 + effects[groups, 0] + (0.3 + effects[groups, 1]) * (x - 1990)
    return x - 1992.0, y + rng.normal(size=len(x)), groups


@cache
def calendar(origin=0.0, seed=4):
    """A line in calendar years, far from the year 0 of its intercept."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(25), 5)
    x = 1990 + 30 * rng.random(len(groups))
    effects = rng.normal(size=(25, 2)) * [2.0, 0.1]
    y = 10 + effects[groups, 0] + (0.3 + effects[groups, 1]) * (x - 2005)
    return x + origin, y + rng.normal(size=len(x)), groups


@cache
def perfectly_correlated(seed=5, n=24, m=6):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.arange(m, dtype=float), n)
    u = rng.normal(size=n)[groups]
    y = 2 + 0.5 * x + u * (0.5 + 0.25 * x) + 0.3 * rng.normal(size=n * m)
    return x, y, groups


@cache
def no_variance(seed=2, n=30, m=5):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(-1, 1, m), n)
    y = 1 + (2 + 0.8 * rng.normal(size=n)[groups]) * x + rng.normal(size=n * m)
    return x, y, groups


@cache
def long_series(seed=1, n=10, m=400):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(0, 1, m), n)
    effects = rng.normal(size=(n, 2)) * [3.0, 2.0]
    y = 10 + effects[groups, 0] + (5 + effects[groups, 1]) * x
    return x, y + 0.5 * rng.normal(size=n * m), groups


def linear_error_distance(data, omega="full"):
    """Largest relative error of a standard error of a fixed effect or the residual."""

    def distance(seed):
        fit = linear_of(data, (1.0, 1.0), omega, seed)
        found = fit.standard_errors()
        found = np.array([found["intercept"], found["slope"], found["a"]])
        return np.abs(found / linear_errors(data, omega) - 1).max()

    return distance


# --------------------------------------------------------------------- nonlinear models


def curve_distance(data, options, starts, law, best):
    """Log-likelihood lost, by quadrature that is not the package's."""

    def distance(seed):
        X, y, groups = data()
        fit = NonlinearMixedEffectsRegressor(
            parameters=dict(starts), random_state=seed, **options
        ).fit(X, y, groups=groups)
        ours = law(fit, X, y, groups)
        return best() - ours if fit.converged_ else np.inf

    return distance


@cache
def theophylline():
    dose, time, y = numbers("nlme/saemix_theo.csv.gz", "Dose", "Time", "Concentration")
    groups = labels("nlme/saemix_theo.csv.gz", "Id")
    return np.column_stack([dose, time]), y, groups


@cache
def orange():
    age, y = numbers("nlme/orange.csv.gz", "age", "circumference")
    return age[:, None], y, labels("nlme/orange.csv.gz", "Tree")


@cache
def soybean():
    time, y = numbers("nlme/soybean.csv.gz", "Time", "weight")
    return time[:, None], y, labels("nlme/soybean.csv.gz", "Plot")


def absorption(psi, X):
    ka, V, CL = np.moveaxis(psi, -1, 0)
    k = CL / V
    fast, slow = np.exp(-ka * X[:, 1]), np.exp(-k * X[:, 1])
    return X[:, 0] * ka / (V * (ka - k)) * (slow - fast)


def elimination(psi, X):
    V, CL = np.moveaxis(psi, -1, 0)
    return X[:, 0] / V * np.exp(-CL / V * X[:, 1])


def logistic(psi, X):
    A, t50, scale = np.moveaxis(psi, -1, 0)
    return A / (1 + np.exp(-(X[:, 0] - t50) / scale))


@cache
def oral(seed=0, n=24):
    """Oral doses; ``seed`` draws other subjects."""
    rng = np.random.default_rng(seed)
    groups, time = np.repeat(np.arange(n), 8), [0.25, 0.5, 1, 2, 4, 7, 12, 24]
    X = np.column_stack([np.full(8 * n, 320.0), np.tile(time, n)])
    psi = [1.5, 30.0, 2.5] * np.exp([0.5, 0.2, 0.3] * rng.normal(size=(n, 3)))
    return X, absorption(psi[groups], X) + 0.4 * rng.normal(size=8 * n), groups


@cache
def study(kind, seed):
    """Simulated studies: many sparse subjects, or few whose rows say nearly all."""
    rng = np.random.default_rng(seed)
    if kind == "rich":
        n, m, widths, error = 20, 50, [0.3, 0.3], 0.05
        groups, time = np.repeat(np.arange(n), m), rng.uniform(0.1, 24, size=n * m)
    else:
        n = int(kind)
        widths, error = [0.5, 0.3, 0.3], 0.2
        groups = np.repeat(np.arange(n), rng.integers(1 if n < 500 else 3, 5, size=n))
        time = rng.choice([0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0], size=len(groups))
    X = np.column_stack([np.full(len(time), 320.0), time])
    typical = [30.0, 2.5] if kind == "rich" else [1.5, 30.0, 2.5]
    psi = typical * np.exp(widths * rng.normal(size=(n, len(widths))))
    f = (elimination if kind == "rich" else absorption)(psi[groups], X)
    return X, f * (1 + error * rng.normal(size=len(f))), groups


def study_distance(kind, factors):
    """Log-likelihood lost to the best of starts at the truth and elsewhere."""
    truth = {"ka": 1.5, "V": 30.0, "CL": 2.5}
    if kind == "rich":
        del truth["ka"]
    model = "one_compartment_iv" if kind == "rich" else "one_compartment_oral"

    def distance(seed):
        X, y, groups = study(kind, seed)
        found = []
        for start in (np.ones(3), factors):
            pairs = zip(truth.items(), start, strict=False)
            values = {name: value * scale for (name, value), scale in pairs}
            fit = NonlinearMixedEffectsRegressor(
                model, parameters=values, residual_error="proportional",
                random_state=seed,
            ).fit(X, y, groups=groups)  # fmt: skip
            found.append(fit.log_likelihood() if fit.converged_ else -np.inf)
        return max(found) - found[1] if np.isfinite(found[1]) else np.inf

    return distance


@cache
def bolus(seed=0, n=40, scale=1.0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), 5)
    X = np.column_stack([np.full(5 * n, 100.0), np.tile([1.0, 2, 4, 8, 12], n)])
    psi = [10.0, 2.0] * np.exp([0.2, 0.4] * rng.normal(size=(n, 2)))
    f = elimination(psi[groups], X)
    return X, scale * f * np.exp(0.15 * rng.normal(size=5 * n)), groups


@cache
def ages(seed=0, n=20):
    """A growth curve with large numbers and Gaussian parameters."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), 10)
    x = np.tile(np.linspace(1900, 2020, 10), n)
    A = 5e4 + 8e3 * rng.normal(size=n)
    psi = np.column_stack([A, np.full(n, 1960.0), np.full(n, 15.0)])[groups]
    return x[:, None], logistic(psi, x[:, None]) + 1e3 * rng.normal(size=10 * n), groups


@cache
def half_grown(seed=0, n=20):
    """Growth that ends before the plateau."""
    rng = np.random.default_rng(seed)
    groups, x = np.repeat(np.arange(n), 7), np.tile(np.linspace(0, 9, 7), n)[:, None]
    psi = [100.0, 10.0, 2.0] * np.exp([0.2, 0.1, 0.1] * rng.normal(size=(n, 3)))
    return x, logistic(psi[groups], x) + rng.normal(size=7 * n), groups


law_of_curve = cache(gaussian)
ORAL = {"ka": 1.0, "V": 20.0, "CL": 0.5}


def oral_distance(data, factor, starts=None):
    starts = starts or {name: factor * value for name, value in ORAL.items()}
    law = law_of_curve(absorption, "lll", (0, 1, 2))
    return curve_distance(
        data,
        {"model": "one_compartment_oral"},
        starts,
        law,
        lambda: best_by_quadrature(data, law, [0.3, 3.4, 0.9], [0.4, 0.1, 0.2], 0.5),
    )


def logistic_distance(data, starts, truth, omega, sigma):
    law = law_of_curve(logistic, "nnn", (0,))
    return curve_distance(
        data,
        {"model": "logistic_growth", "transforms": "normal", "omega": ["A"]},
        dict(zip(("A", "t50", "scale"), starts, strict=True)),
        law,
        lambda: best_by_quadrature(data, law, truth, omega, sigma),
    )


def half_grown_distance(data, starts):
    law = law_of_curve(logistic, "lll", (0, 1, 2))
    return curve_distance(
        data,
        {"model": "logistic_growth"},
        dict(zip(("A", "t50", "scale"), starts, strict=True)),
        law,
        lambda: best_by_quadrature(data, law, [4.6, 2.3, 0.7], [0.04, 0.01, 0.01], 1.0),
    )


def bolus_distance(data, starts, scale=1.0):
    law = law_of_curve(elimination, "ll", (0, 1), "exponential")
    options = {"model": "one_compartment_iv", "residual_error": "exponential"}
    truth = [np.log(10 / scale), np.log(2 / scale)]
    return curve_distance(
        data,
        options,
        dict(zip(("V", "CL"), starts, strict=True)),
        law,
        lambda: best_by_quadrature(data, law, truth, [0.04, 0.16], 0.15),
    )


# ------------------------------------------------------------------- discrete outcomes


@cache
def toenail():
    time, treatment, y = numbers("nlme/saemix_toenail.csv.gz", "time", "treatment", "y")
    groups = labels("nlme/saemix_toenail.csv.gz", "id")
    return np.column_stack([time, treatment]), y, groups


@cache
def cbpp():
    columns = table("pk/cbpp.csv.gz")
    period = columns["period"].astype(float)
    X = np.column_stack(
        [columns["size"].astype(float), *(period == k for k in (2, 3, 4))]
    )
    groups = np.unique(columns["herd"], return_inverse=True)[1]
    return X, columns["incidence"].astype(float), groups


@cache
def counts(seed=0, n=60):
    rng = np.random.default_rng(seed)
    groups, x = np.repeat(np.arange(n), 4), rng.normal(size=4 * n)
    rate = np.exp(0.5 + 0.4 * x + 0.8 * rng.normal(size=n)[groups])
    return x[:, None], rng.poisson(rate).astype(float), groups


@cache
def binary(seed=0, n=80):
    rng = np.random.default_rng(seed)
    groups, x = np.repeat(np.arange(n), 6), rng.normal(size=6 * n)
    logit = 0.5 + x + 1.5 * rng.normal(size=n)[groups]
    y = rng.random(6 * n) < 1 / (1 + np.exp(-logit))
    return x[:, None], y * 1.0, groups


def eta_of(psi, X):
    return psi[..., 0] + (psi[..., 1:] * X).sum(axis=-1)


def bernoulli_rows(psi, X, y):
    eta = eta_of(psi, X)
    return y * eta - np.logaddexp(0, eta)


def toenail_rows(psi, X, y):
    time, treatment = X[:, 0], X[:, 1]
    columns = np.column_stack([treatment, time, time * treatment])
    return bernoulli_rows(psi, columns, y)


def binomial_rows(psi, X, y):
    eta = eta_of(psi, X[:, 1:])
    return y * eta - X[:, 0] * np.logaddexp(0, eta)


def poisson_rows(psi, X, y):
    eta = eta_of(psi, X)
    return y * eta - np.exp(eta)


@cache
def law_of(rows, n_coefficients):
    return discrete(rows, n_coefficients)


def discrete_distance(data, rows, n_coefficients, measure="likelihood"):
    """Of a random intercept: log-likelihood lost, or the worst standard error."""
    names = [f"b{j}" for j in range(n_coefficients)]
    law = law_of(rows, n_coefficients)

    def density(psi, X, y):
        return rows(np.stack([psi[name] for name in names], axis=-1), X, y)

    def distance(seed):
        X, y, groups = data()
        fit = NonlinearMixedEffectsRegressor(
            None, parameters=dict.fromkeys(names, 0.0), transforms="normal",
            omega=["b0"], log_density=density, random_state=seed,
        ).fit(X, y, groups=groups)  # fmt: skip
        start = [0.0] * n_coefficients
        if measure == "likelihood":
            best = best_by_quadrature(data, law, start, [1.0], None)
            return best - law(fit, X, y, groups) if fit.converged_ else np.inf
        exact = errors_by_quadrature(data, law, start, [1.0])
        found = fit.standard_errors()
        found = np.array([*(found[name] for name in names), found["omega2_b0"]])
        return np.abs(found / exact - 1).max()

    return distance


# ------------------------------------------------------------------------------- cases


def lost(name, distance, **options):
    options = {"limit": 0.05, "reference": "the best of another likelihood", **options}
    return Case(name, NAME, unit="log-likelihood lost", distance=distance, **options)


def errors(name, distance, **options):
    options = {"limit": 0.03, "reference": "numerical Hessian", **options}
    return Case(name, NAME, unit="relative error", distance=distance, **options)


CASES = [
    *(
        lost(f"sleepstudy from {start}", linear_distance(sleepstudy, start), slow=slow)
        for start, slow in (
            ((0, 0), False), ((1, 1), True), ((2.5, 0.1), True), ((2.5e4, 1e3), True),
            ((-300, -10), True),
        )
    ),
    lost("sleepstudy diagonal", linear_distance(sleepstudy, (0, 0), "diagonal")),
    lost("sleepstudy y/1e6", linear_distance(sleepstudy, (0, 0), y_scale=1e-6)),
    lost("sleepstudy y*1e6", linear_distance(sleepstudy, (0, 0), y_scale=1e6)),
    lost("sleepstudy x*1e6", linear_distance(sleepstudy, (1, 1), x_scale=1e6)),
    lost(
        "sleepstudy x/1e6",
        linear_distance(sleepstudy, (1, 1), x_scale=1e-6),
        slow=True,
    ),
    lost("oxboys from (1, 1)", linear_distance(oxboys, (1, 1))),
    lost("oxboys from (0, 0)", linear_distance(oxboys, (0, 0)), slow=True),
    lost("orthodont from (0, 0)", linear_distance(orthodont, (0, 0))),
    *(
        lost(
            f"random intercept, y of {scale:g}",
            linear_distance(lambda s=scale: intercepts(s), (1, 1), ("intercept",)),
            slow=scale != 1e4,
        )
        for scale in (1e-9, 1e-4, 1.0, 100.0, 1e4, 1e8)
    ),
    lost("unbalanced, years", linear_distance(unbalanced, (1, 1))),
    lost("calendar years", linear_distance(calendar, (1, 1))),
    lost("calendar years, from the year -20000", linear_distance(
        lambda: calendar(20_000.0), (1, 1)), slow=True),
    lost("correlation of one", linear_distance(perfectly_correlated, (1, 1))),
    lost("variance of zero", linear_distance(no_variance, (1, 1), "diagonal")),
    lost("10 subjects of 400 rows", linear_distance(long_series, (1, 1)), slow=True),
    lost("orange from (1, 1, 1)", logistic_distance(
        orange, (1, 1, 1), [190, 720, 345], [1000.0], 8.0)),
    lost("orange from a near start", logistic_distance(
        orange, (200, 700, 350), [190, 720, 345], [1000.0], 8.0), slow=True),
    lost("soybean from (1, 1, 1)", logistic_distance(
        soybean, (1, 1, 1), [19, 55, 8.5], [25.0], 1.0), slow=True),
    lost("growth by year", logistic_distance(
        ages, (1, 1, 1), [5e4, 1960, 15], [6.4e7], 1e3)),
    *(
        lost(f"oral doses, start x{factor:g}", oral_distance(oral, factor), slow=slow)
        for factor, slow in ((1.0, True), (0.01, False), (0.1, True), (100.0, True))
    ),
    lost("oral doses, started at the other rate", oral_distance(
        oral, 1.0, {"ka": 0.09, "V": 1.5, "CL": 2.5})),
    lost("oral doses from ones", oral_distance(
        oral, 1.0, {"ka": 1.0, "V": 1.0, "CL": 1.0}), slow=True),
    lost("oral doses, start x1e6", oral_distance(oral, 1e6), slow=True),
    lost("growth before its plateau", half_grown_distance(half_grown, (1, 1, 1)),
         slow=True),
    *(
        lost(f"theophylline, start x{factor:g}", oral_distance(theophylline, factor),
             slow=slow)
        for factor, slow in ((1.0, True), (0.01, True), (0.1, True), (100.0, True))
    ),
    lost("bolus from 0.01", bolus_distance(bolus, (0.01, 0.01))),
    lost("bolus, y*1e6", bolus_distance(
        lambda: bolus(1, 40, 1e6), (1.0, 1.0), 1e6), slow=True),
    *(
        lost(f"{kind} subjects of a sparse study, start x{scales}",
             study_distance(kind, scales), slow=True, may_warn=kind == "300")
        for kind, scales in (
            ("300", (0.1, 0.1, 0.1)), ("300", (6.0, 0.3, 2.0)),
            ("1000", (1.0, 1.0, 1.0)), ("1000", (0.1, 0.1, 0.1)),
            ("5000", (1.0, 1.0, 1.0)),
        )
    ),
    *(
        lost(f"20 subjects of 50 rows, start x{scales}",
             study_distance("rich", scales), slow=True)
        for scales in ((0.1, 0.1), (8.0, 0.2), (0.15, 7.0))
    ),
    lost("toenail", discrete_distance(toenail, toenail_rows, 4),
         slow=True),
    lost("cbpp", discrete_distance(cbpp, binomial_rows, 4)),
    lost("counts", discrete_distance(counts, poisson_rows, 2)),
    lost("binary", discrete_distance(binary, bernoulli_rows, 2),
         slow=True),
    errors("sleepstudy", linear_error_distance(sleepstudy)),
    errors("correlation of one", linear_error_distance(perfectly_correlated)),
    errors("variance of zero", linear_error_distance(no_variance, "diagonal")),
    errors("oxboys", linear_error_distance(oxboys), slow=True),
    errors("counts", discrete_distance(
        counts, poisson_rows, 2, "errors")),
    errors("toenail", discrete_distance(
        toenail, toenail_rows, 4, "errors"), slow=True),
]  # fmt: skip
