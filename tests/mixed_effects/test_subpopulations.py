"""Classes of subjects: the exact maximum of their likelihood."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import subpopulations
from sktem.mixed_effects.differences import numerical_hessian

N, M = 40, 4
TIME = np.arange(float(M))


def rows(gap):
    rng = np.random.default_rng(5)
    first = np.arange(N) < 14
    level = np.where(first, 1.0, 1.0 + gap) + 0.4 * rng.normal(size=N)
    slope = np.where(first, 0.5, 0.5 - gap / 6)
    y = level[:, None] + slope[:, None] * TIME + 0.3 * rng.normal(size=(N, M))
    return np.tile(TIME, N)[:, None], y.ravel(), np.repeat(np.arange(N), M)


def line(**settings):
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 0.5, "slope": 0.5},
        transforms="normal",
        omega=["intercept"],
        random_state=0,
        **settings,
    )


def exact(y, theta, shared):
    """Return the log-likelihood of two classes; slopes may be shared."""
    share, first, second, *slopes, v, a = theta
    slopes = slopes * 2 if shared else slopes
    covariance = v * np.ones((M, M)) + a**2 * np.eye(M)
    terms = [
        np.log(p) + multivariate_normal(level + slope * TIME, covariance).logpdf(y)
        for p, level, slope in zip(
            (share, 1 - share), (first, second), slopes, strict=True
        )
    ]
    return logsumexp(terms, axis=0).sum()


@pytest.mark.parametrize(
    ("gap", "names"), [(1.5, "intercept"), (3.0, ["intercept", "slope"])]
)
def test_maximum_of_a_linear_mixture(gap, names):
    X, y, groups = rows(gap)
    frame = pd.DataFrame(X, columns=["x"])
    # Subjects in any order.
    order = np.random.default_rng(0).permutation(len(y))
    found = subpopulations(
        line(), frame.iloc[order], y[order], groups[order], parameters=names
    )
    assert found.converged
    table, y = found.parameters, y.reshape(N, M)
    shared = isinstance(names, str)
    slopes = ["slope"] if shared else ["slope_1", "slope_2"]
    order = ["share_1", "intercept_1", "intercept_2", *slopes, "omega2_intercept", "a"]
    theta = table.estimate[order].to_numpy()
    assert found.log_likelihood == pytest.approx(exact(y, theta, shared), abs=1e-6)
    steps = np.full(len(theta), 1e-3)
    hessian = numerical_hessian(lambda t: -exact(y, t, shared), theta, steps)
    slope = [
        exact(y, theta + h, shared) - exact(y, theta - h, shared)
        for h in np.diag(steps)
    ]
    slope = np.array(slope) / 2e-3
    assert slope @ np.linalg.solve(hessian, slope) < 1e-4
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    np.testing.assert_allclose(table.standard_error[order], errors, rtol=0.01)
    assert table.estimate.share_2 == pytest.approx(1 - theta[0])
    if gap == 3.0:
        np.testing.assert_array_equal(
            found.probabilities[:, 0] > 0.5, np.arange(N) < 14
        )


def test_three_classes_of_an_array():
    rng = np.random.default_rng(1)
    groups, X = np.repeat(np.arange(45), M), np.tile(TIME, 45)[:, None]
    level = np.repeat([5.0, 0.0, 10.0], 15) + 0.4 * rng.normal(size=45)
    y = level[groups] + X[:, 0] + 0.3 * rng.normal(size=len(groups))
    found = subpopulations(line(), X, y, groups, parameters="intercept", n_classes=3)
    assert found.converged
    names = [f"intercept_{k}" for k in (1, 2, 3)]
    np.testing.assert_allclose(found.parameters.estimate[names], [0, 5, 10], atol=0.4)
    np.testing.assert_allclose(found.shares, 1 / 3, atol=1e-3)
    wanted = np.repeat([1, 0, 2], 15)
    np.testing.assert_array_equal(found.probabilities.argmax(axis=1), wanted)


def test_covariates_of_the_class():
    # The share of the class follows a covariate; one that is constant is refused.
    rng = np.random.default_rng(2)
    n = 90
    z = rng.normal(60, 10, n)
    second = rng.random(n) < 1 / (1 + np.exp(-0.5 - 0.15 * (z - 60)))
    level = np.where(second, 2.5, 1.0) + 0.4 * rng.normal(size=n)
    y = level[:, None] + 0.5 * TIME + 0.3 * rng.normal(size=(n, M))
    frame = pd.DataFrame({"x": np.tile(TIME, n), "Z": np.repeat(z, M)})
    model, groups = line(inputs=["x"]), np.repeat(np.arange(n), M)
    given = frame, y.ravel(), groups
    found = subpopulations(model, *given, parameters="intercept", class_covariates="Z")
    assert found.converged
    names = ["logit_2", "beta_Z(class_2)", "intercept_1", "intercept_2", "slope"]
    names += ["omega2_intercept", "a"]
    assert list(found.parameters.index) == names
    theta = found.parameters.estimate.to_numpy()

    def likelihood(theta):
        logit, beta, first, other, slope, v, a = theta
        covariance = v * np.ones((M, M)) + a**2 * np.eye(M)
        terms = [
            sign_log + multivariate_normal(own + slope * TIME, covariance).logpdf(y)
            for own, sign_log in (
                (first, -np.logaddexp(0, logit + beta * z)),
                (other, -np.logaddexp(0, -logit - beta * z)),
            )
        ]
        return logsumexp(terms, axis=0).sum()

    assert found.log_likelihood == pytest.approx(likelihood(theta), abs=1e-6)
    steps = 1e-4 * np.abs(theta)
    hessian = numerical_hessian(lambda t: -likelihood(t), theta, steps)
    slope = [likelihood(theta + h) - likelihood(theta - h) for h in np.diag(steps)]
    slope, inverse = np.array(slope) / (2 * steps), np.linalg.inv(hessian)
    assert slope @ inverse @ slope < 1e-4
    errors = np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(found.parameters.standard_error, errors, rtol=0.01)
    assert abs(found.parameters.estimate["beta_Z(class_2)"] - 0.15) < 4 * errors[1]
    # Without the covariate the likelihood is lower, and shares are one number each.
    plain = subpopulations(model, *given, parameters="intercept")
    assert found.log_likelihood > plain.log_likelihood + 5
    assert found.shares.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="constant within"):
        subpopulations(model, *given, parameters="intercept", class_covariates="x")
    text = given[0].assign(Z="f"), *given[1:]
    with pytest.raises(ValueError, match="'Z' holds text: make a column of numbers"):
        subpopulations(model, *text, parameters="intercept", class_covariates="Z")


def test_published_mixture(shared_data):
    # The maximum by quadrature over the classes: 300.3546 without constants.
    records = read_nonmem(shared_data("pk/mixture_iv.csv.gz"))
    iv = NonlinearMixedEffectsRegressor(
        OneCompartment(),
        parameters={"CL": 1.5, "V": 10.0},
        omega=["CL"],
        residual_error="proportional",
        fixed={"omega2_CL": 0.09, "b": 0.2},
        random_state=0,
    )
    found = subpopulations(iv, records, parameters="CL")
    assert found.converged
    value = -2 * found.log_likelihood - 210 * np.log(2 * np.pi)
    assert value == pytest.approx(300.3546, abs=2e-3)
    wanted = {"share_1": 0.47089, "CL_1": 0.94885, "CL_2": 2.8187, "V": 10.011}
    assert found.parameters.estimate.to_dict() == pytest.approx(
        {**wanted, "share_2": 1 - 0.47089}, rel=1e-4
    )


def test_one_class_is_enough():
    X, y, groups = rows(0.0)
    single = line().fit(X, y, groups=groups)
    with pytest.warns(ConvergenceWarning, match="may not ask for as many"):
        found = subpopulations(line(), X, y, groups, parameters="slope")
    assert not found.converged
    assert -0.01 < found.log_likelihood - single.log_likelihood() < 5


def test_wrong_use():
    X, y, groups = rows(1.0)
    with pytest.raises(ValueError, match="above 1"):
        subpopulations(line(), X, y, groups, parameters="slope", n_classes=1)
    with pytest.raises(ValueError, match="height"):
        subpopulations(line(), X, y, groups, parameters="height")
