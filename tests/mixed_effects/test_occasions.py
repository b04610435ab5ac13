"""Effects of occasions against the exact likelihood of a Gaussian model."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import sampling_importance_resampling
from sktem.exceptions import FitWarning
from sktem.mixed_effects.differences import numerical_hessian
from sktem.mixed_effects.effects import matched, numbered
from sktem.mixed_effects.model import NonlinearMixedEffectsModel
from tests.mixed_effects.fits import doses_of_two_occasions


def line(**settings):
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 1.0, "slope": 1.0},
        transforms="normal",
        inputs=["time"],
        omega=["intercept"],
        occasions={"visit": "intercept"},
        random_state=0,
        **settings,
    )


@pytest.fixture(scope="module")
def table():
    """Return rows of 40 subjects with one to three visits."""
    rng = np.random.default_rng(3)
    frames = []
    for i in range(40):
        effect = 1.0 * rng.standard_normal()
        for visit in range(1 + i % 3):
            time = rng.uniform(0, 4, 4)
            y = 5 + effect + 0.6 * rng.standard_normal() + 0.5 * time
            y = y + 0.3 * rng.standard_normal(4)
            frames.append(
                pd.DataFrame({"who": i, "time": time, "visit": 10 - visit, "y": y})
            )
    return pd.concat(frames, ignore_index=True)


def gaussian(theta, table):
    """Return the log-likelihood by the covariance of the observations."""
    intercept, slope, between, within, a = theta
    who, visit = table.who.to_numpy(), table.visit.to_numpy()
    together = who[:, None] == who
    same = together & (visit[:, None] == visit)
    covariance = between * together + within * same + a**2 * np.eye(len(who))
    mean = intercept + slope * table.time
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, table.y - mean)
    constant = len(who) / 2 * np.log(2 * np.pi)
    return -0.5 * white @ white - np.log(np.diag(root)).sum() - constant


@pytest.fixture(scope="module")
def fit(table):
    return line().fit(table[["time", "visit"]], table.y, groups=table.who)


def test_reaches_the_exact_maximum(table, fit):
    assert fit.converged_
    theta = [
        *fit.population_parameters_.values(),
        fit.omega_[0, 0],
        fit.occasion_variances_["intercept"],
        fit.residual_error_["a"],
    ]
    exact = gaussian(theta, table)
    assert fit.log_likelihood() == pytest.approx(exact, abs=1e-3)

    def value(v):
        return gaussian(v, table)

    errors = fit.standard_errors()
    assert list(errors) == [
        "intercept", "slope", "omega2_intercept", "kappa2_intercept", "a",
    ]  # fmt: skip
    hessian = np.empty((5, 5))
    steps = 1e-3 * np.eye(5)
    for j, one in enumerate(steps):
        for k, other in enumerate(steps):
            hessian[j, k] = (
                value(theta + one + other)
                - value(theta + one - other)
                - value(theta - one + other)
                + value(theta - one - other)
            ) / 4e-6
    covariance = np.linalg.inv(-hessian)
    slope = [(value(theta + s) - value(theta - s)) / 2e-3 for s in steps]
    assert slope @ covariance @ slope / 2 < 1e-4  # what a Newton step would gain
    wanted = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(list(errors.values()), wanted, rtol=0.01)


def test_individual_parameters_are_conditional_means(table, fit):
    own = table[table.who == 2]
    between, within = fit.omega_[0, 0], fit.occasion_variances_["intercept"]
    a = fit.residual_error_["a"]
    same = own.visit.to_numpy()[:, None] == own.visit.to_numpy()
    covariance = between + within * same + a**2 * np.eye(len(own))
    mean = fit.population_parameters_
    rest = own.y - mean["intercept"] - mean["slope"] * own.time
    weighted = np.linalg.solve(covariance, rest)
    subject = mean["intercept"] + between * weighted.sum()
    found = fit.individual_parameters()["intercept"]
    assert found.shape == (40,)
    assert found[2] == pytest.approx(subject, abs=1e-4)
    visits = [10, 9, 8]
    wanted = [subject + within * weighted[own.visit == v].sum() for v in visits]
    for method, error in (("mode", 1e-4), ("mean", 0.02)):
        found = fit.individual_parameters(method=method, by_occasion=True)["intercept"]
        # One visit of subject 0 and two of subject 1 come before.
        assert found.shape == (79,)
        np.testing.assert_allclose(found[3:6], wanted, atol=error)
    drawn = fit.individual_parameters(method="draws", n_draws=50, by_occasion=True)
    assert drawn["intercept"].shape == (50, 79)


def test_predictions_know_occasions(table, fit):
    X = table[["time", "visit"]]
    found = fit.predict(X, groups=table.who)
    by_visit = fit.individual_parameters(by_occasion=True)["intercept"]
    index = table.groupby(["who", "visit"], sort=False).ngroup()
    slope = fit.population_parameters_["slope"]
    np.testing.assert_allclose(found, by_visit[index] + slope * table.time, atol=1e-9)
    # Another visit has the parameters of the subject.
    found = fit.predict(X.assign(visit=77), groups=table.who)
    subject = fit.individual_parameters()["intercept"][table.who]
    np.testing.assert_allclose(found, subject + slope * table.time, atol=1e-9)


def test_new_subjects_may_have_more_occasions(table, fit):
    new = table.assign(visit=np.arange(len(table)) % 5)
    theta = [
        *fit.population_parameters_.values(),
        fit.omega_[0, 0],
        fit.occasion_variances_["intercept"],
        fit.residual_error_["a"],
    ]
    found = fit.log_likelihood(new[["time", "visit"]], new.y, groups=new.who)
    assert found == pytest.approx(gaussian(theta, new), abs=0.1)


def test_simulated_occasions_differ(fit):
    n = 4000
    X = pd.DataFrame({"time": np.zeros(4 * n), "visit": np.tile([1.0, 1.0, 2, 2], n)})
    drawn = fit.simulate(X, groups=np.repeat(np.arange(n), 4), random_state=0)
    found = np.cov(drawn.reshape(n, 4).T)
    between, within = fit.omega_[0, 0], fit.occasion_variances_["intercept"]
    same = np.kron(np.eye(2), np.ones((2, 2)))
    wanted = between + within * same + fit.residual_error_["a"] ** 2 * np.eye(4)
    np.testing.assert_allclose(found, wanted, atol=5 * wanted[0, 0] * 2**0.5 / n**0.5)


def test_shrinkage_and_summary(fit):
    shares = fit.shrinkage()
    assert list(shares) == ["intercept", "kappa2_intercept"]
    assert all(0 < share < 1 for share in shares.values())
    summary = fit.summary_
    assert summary.loc["kappa2_intercept", "shrinkage"] == shares["kappa2_intercept"]


def test_a_variance_that_is_fixed(table):
    found = line(fixed={"kappa2_intercept": 0.2}, max_iter=30, tol=0)
    found.fit(table[["time", "visit"]], table.y, groups=table.who)
    assert found.occasion_variances_ == {"intercept": 0.2}
    assert "kappa2_intercept" not in found.monte_carlo_errors_


def test_warfarin_at_the_published_estimates(shared_data):
    data = read_nonmem(shared_data("pk/warfarin_iov.csv.gz"))
    population = NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"),
        parameters={"CL": 0.172762, "V": 8.62783, "KA": 1.17857},
        residual_error="proportional",
        occasions={"OCC": "CL"},
        omega_start={"CL": 0.0399164, "V": 0.0107732, "KA": 0.0254212},
        fixed={"b": 0.0353860**0.5, "kappa2_CL": 0.0357135},
    )
    value = population._as_given(data).log_likelihood("quadrature")[0]
    constant = data.observed.sum() * np.log(2 * np.pi)
    assert -2 * value - constant == pytest.approx(310.079, abs=0.03)
    found = population.individual_parameters(data, by_occasion=True)
    assert found["CL"].shape == (20,)


def test_resampling_takes_few_points(shared_data, monkeypatch):
    """All draws of parameters have nearly the same error of integration."""
    fit = NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"),
        parameters={"CL": 0.17, "V": 8.6, "KA": 1.2},
        residual_error="proportional",
        occasions={"OCC": "CL"},
        random_state=0,
    ).fit(read_nonmem(shared_data("pk/warfarin_iov.csv.gz")))
    errors, n = fit.standard_errors(), len(fit.groups_)
    log_conditional, counts = NonlinearMixedEffectsModel.log_conditional, []

    def counting(self, X, Z, params):
        counts.append(Z.size // Z.shape[-1] // n)
        return log_conditional(self, X, Z, params)

    monkeypatch.setattr(NonlinearMixedEffectsModel, "log_conditional", counting)
    drawn = sampling_importance_resampling(fit, 100, 50, random_state=0)
    assert sum(counts) / 100 < 1000
    for name in ("V", "KA", "b"):
        assert drawn[name].std() == pytest.approx(errors[name], rel=0.4)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_superfluous_variances_of_many_are_told(seed):
    """The maximum is that of the model without them, however many they are."""
    frame = doses_of_two_occasions(seed)
    settings = {
        "parameters": {"CL": 2.0, "V": 20.0},
        "residual_error": "proportional",
        "random_state": 0,
    }
    least = NonlinearMixedEffectsRegressor(OneCompartment(), omega=["CL"], **settings)
    least.fit(read_nonmem(frame.drop(columns="OCC")))
    most = NonlinearMixedEffectsRegressor(
        OneCompartment(), occasions={"OCC": ["CL", "V"]}, **settings
    )
    with pytest.warns(FitWarning) as told:
        most.fit(read_nonmem(frame))
    assert len(told) == 1 and "are at their lower bound" in str(told[0].message)
    assert least.converged_ and most.converged_
    assert abs(most.log_likelihood() - least.log_likelihood()) < 0.01
    with pytest.warns(FitWarning, match="are at their bounds"):
        errors = most.standard_errors()
    for name, error in least.standard_errors().items():
        assert errors[name] == pytest.approx(error, rel=0.02)


def test_order_of_occasions():
    values, subjects = np.array([5.0, 3, 5, 3, 3, 9]), np.array([0, 0, 0, 1, 1, 1])
    index, labels = numbered(values, subjects)
    assert index.tolist() == [0, 1, 0, 0, 0, 1]
    assert labels.tolist() == [[5, 3], [3, 9]]
    known = matched(np.array([3.0, 7, 3]), np.array([0, 0, -1]), labels)
    assert known.tolist() == [1, -1, -1]


def test_wrong_use(table):
    X = table[["time", "visit"]]
    with pytest.raises(ValueError, match="one column of X"):
        line().set_params(occasions=["visit"]).fit(X, table.y, groups=table.who)
    with pytest.raises(ValueError, match="instead of partial_fit"):
        line().partial_fit(X, table.y, groups=table.who)
    plain = line().set_params(occasions=None, max_iter=5, tol=0)
    plain.fit(X, table.y, groups=table.who)
    with pytest.raises(ValueError, match="by_occasion"):
        plain.individual_parameters(by_occasion=True)


def test_effects_of_an_occasion_that_correlate():
    # The marginal Gaussian, whose maximum and curvature are known.
    rng = np.random.default_rng(4)
    n, m = 30, 4
    time = np.arange(float(m))
    block = np.array([[0.3, 0.12], [0.12, 0.1]])
    effects = rng.multivariate_normal(np.zeros(2), block, size=(n, 2))
    level, slope = 1 + effects[..., 0], 0.5 + effects[..., 1]
    y = level[..., None] + slope[..., None] * time
    y = y + 0.2 * rng.standard_normal(y.shape)
    X = np.column_stack([np.tile(time, 2 * n), np.tile(np.repeat([1.0, 2], m), n)])
    settings = {
        "parameters": {"intercept": 0.5, "slope": 0.3}, "transforms": "normal",
        "inputs": [0], "omega": [], "n_burn_in": 20, "random_state": 0,
    }  # fmt: skip
    given = X, y.ravel()
    groups = np.repeat(np.arange(n), 2 * m)
    found = NonlinearMixedEffectsRegressor(
        "linear", occasions={1: [("intercept", "slope")]}, **settings
    ).fit(*given, groups=groups)
    assert found.converged_
    names = ["intercept", "slope", "kappa2_intercept"]
    names += ["kappa_cov_intercept_slope", "kappa2_slope", "a"]
    theta = found.summary_.estimate[names].to_numpy()
    Z = np.column_stack([np.ones(m), time])

    def likelihood(theta):
        mu, beta, v, c, w, a = theta
        own = Z @ np.array([[v, c], [c, w]]) @ Z.T + a**2 * np.eye(m)
        rest = y.reshape(-1, m) - mu - beta * time
        return multivariate_normal(np.zeros(m), own).logpdf(rest).sum()

    assert found.log_likelihood() == pytest.approx(likelihood(theta), abs=1e-4)
    steps = 1e-3 * np.maximum(np.abs(theta), 0.1)
    hessian = numerical_hessian(lambda t: -likelihood(t), theta, steps)
    slopes = [likelihood(theta + h) - likelihood(theta - h) for h in np.diag(steps)]
    slopes, inverse = np.array(slopes) / (2 * steps), np.linalg.inv(hessian)
    assert 0.5 * slopes @ inverse @ slopes < 1e-3
    errors = np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(found.summary_.standard_error[names], errors, rtol=0.01)
    assert theta[3] == pytest.approx(0.12, abs=4 * errors[3])
    assert set(found.shrinkage()) == {"kappa2_intercept", "kappa2_slope"}
    # Without the covariance the likelihood is lower.
    assert likelihood(theta * [1, 1, 1, 0, 1, 1]) < likelihood(theta) - 5
    with pytest.raises(ValueError, match="name a parameter twice"):
        NonlinearMixedEffectsRegressor(
            "linear", occasions={1: [("slope", "slope")]}, **settings
        ).fit(*given, groups=groups)
