"""The transformer that completes tables."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktem import MixtureImputer
from sktem.emissions import Gaussian
from sktem.mixture.cells import CELLS
from sktem.mixture.imputer import _Mixtures
from sktem.mixture.scaled import PRIOR_ROWS


@pytest.mark.filterwarnings("ignore:Imputed values")  # of noise on few rows
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


@pytest.mark.filterwarnings("ignore:Distinct rows occur")
def test_weights_are_copies():
    """Also for the prior, which has the variances of the columns."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.integers(5, size=40)
    one = MixtureImputer(1).fit(X, sample_weight=weights).mixture_
    other = MixtureImputer(1).fit(np.repeat(X, weights, axis=0)).mixture_
    left, right = one.params_.covariances, other.params_.covariances
    np.testing.assert_allclose(left, right, rtol=1e-9)


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


def told(X, n_components=2):
    """Return the messages of a fit about imputed values."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MixtureImputer(n_components, random_state=0).fit(X)
    return [w for w in caught if "behind their means" in str(w.message)]


def test_slopes_of_heavy_tails_are_told():
    """A few values far out make slopes, by which other cells are far from the truth."""
    n_bad = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(1.5, size=(400, 4))
        lost = rng.random(X.shape) < 0.2
        lost[lost.all(axis=1)] = False
        holes = np.where(lost, np.nan, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = MixtureImputer(2, random_state=0).fit_transform(holes)
        errors, means = filled - X, np.where(lost, np.nanmean(holes, axis=0) - X, 0.0)
        if np.linalg.norm(errors) > 2 * np.linalg.norm(means):
            n_bad += 1
            assert told(holes)
            normal = QuantileTransformer(n_quantiles=100, output_distribution="normal")
            assert not told(normal.fit_transform(holes))
            assert not told(rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4)))
    assert n_bad >= 2


def errors_of(X, seed, n_components):
    """Return squared errors of imputed values and of means, and the components."""
    lost = np.random.default_rng(seed).random(X.shape) < 0.2
    lost[:2], lost[lost.all(axis=1)] = False, False
    holes = np.where(lost, np.nan, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imputer = MixtureImputer(n_components, random_state=0).fit(holes)
    errors = (imputer.transform(holes) - X)[lost]
    means = (np.nanmean(holes, axis=0) - X)[lost]
    return errors @ errors, means @ means, imputer.mixture_.n_components


def noise(rng):
    return rng.normal(size=(12, 4))


def heavy_tails(rng):
    return rng.standard_t(2, size=(60, 2)) @ rng.normal(size=(2, 4))


@pytest.mark.parametrize("draw", [noise, heavy_tails])
def test_components_are_chosen_by_cells_left_out(draw):
    """Two components had 1.2 to 3.3 times the error of means, silently."""
    auto, two = np.zeros(3), np.zeros(3)
    for seed in range(12):
        X = draw(np.random.default_rng(seed))
        X /= X.std(axis=0)
        auto, two = auto + errors_of(X, seed, "auto"), two + errors_of(X, seed, 2)
    assert auto[0] < 0.85 * two[0]
    assert auto[0] < 1.5 * auto[1]


def test_two_components_stay_where_nothing_is_in_doubt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) + 4 * rng.integers(0, 2, (200, 1))
    one, other = errors_of(X, 0, "auto"), errors_of(X, 0, 2)
    assert one == other and one[2] == 2
    few = X[:30]
    assert errors_of(few, 0, "auto")[0] < 0.6 * errors_of(few, 0, "auto")[1]


def test_good_columns_are_not_judged():
    """Of many rows without values far out there is no fit to parts of them."""
    X = np.random.default_rng(0).normal(size=(200, 8))
    assert not CELLS.doubts(X) and CELLS.doubts(X[:79])
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    assert not CELLS.doubts(holes)
    holes[0, 0] = 20.0
    assert CELLS.doubts(holes)
    assert not CELLS.doubts(np.column_stack([X, np.ones(200)]))


@pytest.mark.parametrize("labels", [False, True])
def test_stronger_priors_in_closed_form(labels, global_random_seed):
    """Of complete rows the fit without a stronger prior is met exactly."""
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5)))
    X.columns = list("abcde")
    if labels:
        X["kind"] = rng.choice(["u", "v"], 60)
    mixtures = _Mixtures(X, None, "gaussian", 0)
    usual = PRIOR_ROWS.of(5) / 60
    for strength in (0.0, 0.3, 1.0, 1e6):
        found, fit = (
            params.blocks[-1].covariances if labels else params.covariances
            for params in (
                mixtures.shrunk(strength).params.emission,
                mixtures.fit(1, strength).params_,
            )
        )
        diagonal = np.diag(np.diag(fit[0]))
        found, fit = found[0] - diagonal, fit[0] - diagonal
        # A stronger prior shrinks what the usual one has left.
        np.testing.assert_allclose(
            found * (1 + usual if strength else 1), fit, rtol=1e-9, atol=1e-9
        )


def test_noise_of_few_rows_is_told():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 8))
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(kind=["u", "v"] * 10)
    assert "column(s) b are" in str(told(frame)[0].message)
    assert not told(X[:, :2] @ rng.normal(size=(2, 8)) + 0.1 * X)
