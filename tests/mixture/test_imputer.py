"""The transformer that completes tables."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktem import MixtureImputer
from sktem.emissions import Gaussian


@parametrize_with_checks([MixtureImputer()])
def test_estimator_check(estimator, check):
    check(estimator)


def test_conditional_means_and_draws():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], size=2000)
    holes = X.copy()
    holes[::2, 1] = np.nan
    imputer = MixtureImputer(1, n_draws=3, random_state=0).fit(holes)
    np.testing.assert_allclose(
        imputer.transform(holes)[::2, 1], 0.8 * X[::2, 0], atol=0.15
    )
    one, two, _ = imputer.draws(holes)
    assert (one[::2, 1] != two[::2, 1]).all() and (one[1::2] == X[1::2]).all()


def test_frames():
    frame = pd.DataFrame({"a": [0.0, 1, None, 5, 6], "b": list("xxyy") + [None]})
    filled = MixtureImputer(1).fit_transform(frame)
    assert isinstance(filled, pd.DataFrame) and not filled.isna().any().any()


def test_units_and_constant_columns_do_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 4))
    X[:, 3] = 2.0
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    scale = np.array([1e-8, 1.0, 1e8, 1.0])
    one = MixtureImputer(random_state=0).fit_transform(holes)
    other = MixtureImputer(random_state=0).fit_transform(holes * scale)
    np.testing.assert_allclose(other / scale, one, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(one[:, 3], 2.0)


@pytest.mark.filterwarnings("ignore:701 free parameters")  # of the control
def test_many_columns_have_a_prior():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 25))
    X += 0.3 * rng.normal(size=X.shape)
    lost = rng.random(X.shape) < 0.3
    holes = np.where(lost, np.nan, X)
    errors = []
    for emission in ("gaussian", Gaussian()):
        imputer = MixtureImputer(2, emission=emission, random_state=0)
        filled = imputer.fit_transform(holes)
        errors.append(np.mean((filled - X)[lost] ** 2))
    assert errors[0] < 0.7 * errors[1]
    frame = pd.DataFrame(holes[:, :4]).assign(kind=np.where(X[:, 0] > 0, "a", "b"))
    frame.columns = list("pqrst")
    assert not MixtureImputer().fit_transform(frame).isna().any().any()
