"""Own models that return what they must not: errors name the method and the shapes."""

import re

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.exceptions import FitWarning
from sktem.models import RandomInterceptModel
from sktem.models.contract import has_nan
from sktem.solvers import SOLVERS
from tests.defaults.mixture_models import ZeroInflatedPoisson as ZeroInflated
from tests.defaults.mixture_models import ZipParams
from tests.oracles import messages_of

NAMES = sorted(set(SOLVERS) - {"biased-saem"})


rng = np.random.default_rng(0)
COUNTS = np.where(rng.random((400, 1)) < 0.3, 0, rng.poisson(2.0, size=(400, 1)))
COUNTS = COUNTS.astype(float)
GROUPS = rng.normal(size=(300, 1)) + rng.normal(size=(300, 4))


def broken(base, **methods):
    return type("Broken", (base,), methods)()


def fit(model, X, **settings):
    return StochasticEM(model, random_state=0, **settings).fit(X)


WRONG = {
    "statistics of every row": (
        broken(ZeroInflated, mean_statistics=lambda self, X, Z, w=None: Z * X),
        COUNTS, {}, r"mean_statistics.*\(n_statistics,\).*got \(64, 1\)",
    ),
    "one statistic, not averaged": (
        broken(ZeroInflated, mean_statistics=lambda self, X, Z, w=None: Z[:, 0]),
        COUNTS, {}, r"mean_statistics.*got \(64,\)",
    ),
    "a number": (
        broken(ZeroInflated, mean_statistics=lambda self, X, Z, w=None: 1.0),
        COUNTS, {}, r"mean_statistics.*got \(\)",
    ),
    "NaN statistics": (
        broken(ZeroInflated, mean_statistics=lambda *given: np.full(3, np.nan)),
        COUNTS, {}, "mean_statistics.*NaN",
    ),
    "posterior without the axis of components": (
        broken(
            ZeroInflated,
            posterior=lambda self, X, p: ZeroInflated.posterior(self, X, p)[:, 0],
        ),
        COUNTS, {}, r"mean_statistics.*\(64,\).*posterior returned \(400,\)",
    ),
    "posterior of other rows": (
        broken(ZeroInflated, posterior=lambda self, X, p: np.ones((5, 1))),
        COUNTS, {}, r"posterior of Broken.*n = 400; got \(5, 1\)",
    ),
    "averages_draws forgotten": (
        broken(ZeroInflated, averages_draws=False),
        COUNTS, {}, "mean_statistics.*averages_draws = True",
    ),
    "no axis of draws": (
        broken(
            RandomInterceptModel,
            posterior=lambda self, X, p: X.mean(axis=1),
        ),
        GROUPS, {}, r"posterior.*\(n, n_draws, ...\).*got \(300,\).*averages_draws",
    ),
    "wrong number of draws": (
        broken(
            RandomInterceptModel,
            draw_posterior=lambda self, X, p, m, rng: np.zeros((len(X), 3, 1)),
        ),
        GROUPS, {"sampler": "mc"},
        r"draw_posterior.*n_draws = 10; got \(300, 3, 1\)",
    ),
    "latents of other rows": (
        broken(
            RandomInterceptModel,
            initial_latents=lambda self, X, p, rng: np.zeros((7, 1)),
        ),
        GROUPS, {"sampler": "rwm"}, r"initial_latents.*n = 300",
    ),
    "one density": (
        broken(RandomInterceptModel, log_joint=lambda self, X, Z, p: 0.0),
        GROUPS, {"sampler": "rwm"}, r"log_joint.*\(n,\), here \(300,\); got \(\)",
    ),
    "density of every entry": (
        broken(RandomInterceptModel, log_joint=lambda self, X, Z, p: Z),
        GROUPS, {"sampler": "hmc"}, r"log_joint.*got \(300, 1\)",
    ),
    "gradient without the axis": (
        broken(RandomInterceptModel, grad_log_joint=lambda self, X, Z, p: Z[:, 0]),
        GROUPS, {"sampler": "ula"}, r"grad_log_joint.*\(300, 1\); got \(300,\)",
    ),
    "one likelihood": (
        broken(ZeroInflated, log_likelihood=lambda self, X, p: 0.0),
        COUNTS, {}, r"log_likelihood.*\((200|400),?.*\); got \(\)",
    ),
    "NaN from the first maximize": (
        broken(ZeroInflated, maximize=lambda self, s, p: ZipParams(*(s[:2] * np.nan))),
        COUNTS, {}, "maximize of Broken returned NaN",
    ),
    "NaN at the start": (
        broken(ZeroInflated, initial_params=lambda *args: ZipParams(np.nan, 1.0)),
        COUNTS, {}, "starting parameters of Broken are NaN",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_models(name):
    model, X, settings, message = WRONG[name]
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        fit(model, X, **settings)


@pytest.mark.parametrize("solver", NAMES)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_models_under_every_solver(name, solver):
    model, X, settings, message = WRONG[name]
    implied = "mc" if solver == "saem" else SOLVERS[solver][1]
    if implied not in (None, settings.get("sampler", implied)):
        return
    if implied == "mc" and "posterior" in name + message:
        return  # another method is called
    with pytest.raises(ValueError, match="Broken"):
        fit(model, X, solver=solver, **settings)


class Late(ZeroInflated):
    """Its M-step gives NaN from some call on."""

    def __init__(self, last=3):
        self.last = last

    def maximize(self, s, params):
        self.calls_ = getattr(self, "calls_", 0) + 1
        good = super().maximize(s, params)
        return good if self.calls_ <= self.last else ZipParams(np.nan, good.rate)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("last", [1, 4, 43])
@pytest.mark.parametrize("solver", NAMES)
def test_nan_in_mid_fit_keeps_the_last_parameters(solver, last, raises):
    """Also where the E-step raises at NaN."""

    class Strict(Late):
        def posterior(self, X, params):
            if np.isnan(params.zeros) and raises:
                raise FloatingPointError("NaN")
            return super().posterior(X, params)

    settings = {"solver": solver, "tol": 0, "max_iter": 60}
    em, told = messages_of(fit, Strict(last), COUNTS, kind=FitWarning, **settings)
    assert len(told) == 1
    assert "maximize of Strict returned NaN" in told[0]
    assert np.isfinite(em.params_).all()
    assert em.statistics_ is None or np.isfinite(em.statistics_).all()
    assert not em.converged_


def test_nan_on_a_stream():
    em = StochasticEM(Late(4), solver="online", batch_size=50, random_state=0)
    with pytest.warns(FitWarning, match="maximize"):
        for start in range(0, 400, 100):
            em.partial_fit(COUNTS[start : start + 100])
    assert np.isfinite(em.params_).all()
    with pytest.raises(ValueError, match="maximize of Late returned NaN"):
        StochasticEM(Late(0), solver="online", random_state=0).partial_fit(COUNTS)


def test_where_nan_is_looked_for():
    nested = {"a": (1, np.array([np.nan]))}
    for params in (np.nan, [1.0, np.nan], nested, ZipParams(1, np.nan)):
        assert has_nan(params)
    for params in (1, None, "nan", [1.0, np.inf], {"a": np.arange(3)}, object()):
        assert not has_nan(params)


def test_the_mean_of_random_intercepts_starts_from_the_data():
    far = GROUPS + 1e4
    start = RandomInterceptModel().initial_params(far, np.random.default_rng(0))
    assert start.mean == pytest.approx(1e4, abs=1.0)
    em = fit(RandomInterceptModel(), far, solver="em", tol=1e-8)
    assert em.params_.mean == pytest.approx(far.mean(), abs=1e-6)
    assert em.n_iter_ < 100
