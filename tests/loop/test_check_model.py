"""check_model on every model of the package, and on models that are wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from sktem import StochasticEM
from sktem.models import (
    ARDLogisticModel,
    GaussianMixtureModel,
    LatentModel,
    RandomInterceptModel,
    RobustPoissonModel,
    check_model,
)
from sktem.regression.ard_logistic_model import WholeData
from sktem.template.geometry.grid import ImageGrid
from sktem.template.model.model import DeformableTemplateModel
from tests.mixed_effects.test_model import make_model, make_rows
from tests.template.oracles import model_of, random_params, simulate

rng = np.random.default_rng(0)
GROUPS = rng.normal(3.0, 1.0, size=(40, 1)) + rng.normal(size=(40, 4))
BLOBS = rng.normal(size=(60, 2)) + rng.choice([-2.0, 2.0], size=(60, 1))
COUNTS = np.column_stack(
    [rng.poisson(3.0, size=40), np.ones(40), rng.normal(size=40)]
).astype(float)
LABELS = WholeData(rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], size=30), 6)


def mixed(error):
    model = make_model("linear", error)
    return model, make_rows(np.random.default_rng(1), n_subjects=12)


def template(shape):
    grid = ImageGrid(shape, (4,) * len(shape), (2,) * len(shape), 1.5, 2.5)
    params = random_params(grid, np.random.default_rng(2))
    images, _ = simulate(grid, params, 12, np.random.default_rng(3))
    # Entries of a covariance are not free, and a single weight is one.
    options = {"constrained": ("covariances", "weights")}
    return model_of(grid, n_rows=12.0), images, options


MODELS = {
    "template of signals": template((8,)),
    "template of images": template((5, 5)),
    "random intercept": (RandomInterceptModel(), GROUPS, {}),
    "robust Poisson": (RobustPoissonModel(), COUNTS, {}),
    "ARD": (ARDLogisticModel(), LABELS, {}),
    **{
        f"mixture {kind}": (
            GaussianMixtureModel(2, covariance_type=kind, reg_covar=0.0), BLOBS, {},
        )
        for kind in ("full", "tied", "diag", "spherical", "unit")
    },
    "mixture with penalties": (
        GaussianMixtureModel(
            2,
            reg_covar=0.0,
            mean_penalty=0.1,
            weight_concentration=0.05,
            covariance_prior=1.0,
            covariance_prior_strength=0.1,
        ),
        BLOBS, {},
    ),
    "mixed effects": (*mixed("constant"), {"constrained": ("omega", "sigma")}),
    "mixed effects, proportional": (
        *mixed("proportional"), {"constrained": ("omega", "sigma")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_package(name):
    model, X, options = MODELS[name]
    done = check_model(model, X, **options)
    assert "maximize" in done
    own = type(model).project is not LatentModel.project
    assert ("project" in done) == own
    for method in ("expected_statistics", "grad_log_joint"):
        assert (method in done) == hasattr(model, method)
    if hasattr(model, "draw_posterior"):
        assert "draws" in done


def test_what_is_done_for_a_complete_model():
    expected = "initial_params latents mean_statistics grad_log_joint project maximize "
    assert check_model(RandomInterceptModel(), GROUPS) == [
        *expected.split(), "draws", "draws_log_joint"
    ]  # fmt: skip


def of_draws(change):
    """Return a draw_posterior whose draws are changed."""

    def draw_posterior(self, X, params, n_draws, rng):
        Z = RandomInterceptModel.draw_posterior(self, X, params, n_draws, rng)
        return change(self, X, params, Z)

    return draw_posterior


def without(*names):
    return {name: property() for name in names}


def spread(factor):
    def change(self, X, params, Z):
        mean = self._moments(X, params)[0][:, :, None]
        return mean + factor * (Z - mean)

    return of_draws(change)


def changed(method, change):
    original = getattr(RandomInterceptModel, method)
    return {method: lambda self, *given: change(original(self, *given))}


def maximized(**factors):
    def change(params):
        new = {name: f(getattr(params, name)) for name, f in factors.items()}
        return params._replace(**new)

    return changed("maximize", change)


def in_place(self, s, params):
    s -= 0.01
    return RandomInterceptModel.maximize(self, s, params)


BROKEN = {
    "M-step writes into the statistics": (
        {"maximize": in_place}, "maximize.*writes into the statistics",
    ),
    "initial parameters are NaN": (
        changed("initial_params", lambda p: p._replace(mean=np.nan)), "initial_params",
    ),
    "latents of too few rows": (
        changed("posterior", lambda Z: Z[1:]), "posterior.*n = 40",
    ),
    "latents without draws": (
        changed("initial_latents", lambda Z: Z[0]), "initial_latents.*n = 40",
    ),
    "wrong number of draws": (
        changed("draw_posterior", lambda Z: Z[:, :2]), "draw_posterior.*n_draws = 3",
    ),
    "statistics as a matrix": (
        changed("mean_statistics", lambda s: s[None]), r"mean_statistics.*\(1, 3\)",
    ),
    "statistics in float32": (
        changed("mean_statistics", lambda s: s.astype(np.float32)), "float64",
    ),
    "sums in place of means": (
        {"mean_statistics": lambda self, X, Z, w=None: (
            RandomInterceptModel.mean_statistics(self, X, Z, w)
            * (1.0 if w is None else w.sum() / len(w)))},
        "mean_statistics.*weights",
    ),
    "weights ignored": (
        {"mean_statistics": lambda self, X, Z, w=None: (
            RandomInterceptModel.mean_statistics(self, X, Z))},
        "mean_statistics.*repeated",
    ),
    "gradient 1 % off": (
        changed("grad_log_joint", lambda g: 1.01 * g), "grad_log_joint.*differences",
    ),
    "gradient of the other sign": (
        changed("grad_log_joint", lambda g: -g), "grad_log_joint",
    ),
    "density per entry": (changed("log_joint", lambda v: v[:, None]), "log_joint"),
    "M-step: mean off": (
        maximized(mean=lambda m: 1.03 * m), "maximize.*not at the maximum",
    ),
    "M-step: mean always zero": (maximized(mean=lambda m: 0.0), "maximize"),
    "M-step: variance too large": (
        maximized(variance=lambda v: 1.1 * v), "maximize.*maximum",
    ),
    "M-step: variance too large, no density": (
        {**maximized(variance=lambda v: 2 * v), **without("log_joint")},
        "maximize.*maximum",
    ),
    "M-step: NaN": (maximized(variance=lambda v: np.nan), "maximize.*NaN"),
    "project changes what is inside": (
        changed("project", lambda pair: (pair[0] * 1.01, False)), "project.*from data",
    ),
    "project is not idempotent": (
        {"project": lambda self, s: (
            (s, False) if s[1] > s[0] ** 2 and s[2] > 0
            else (np.array([s[0], s[0] ** 2 - 1, 1.0]) * 2, True))},
        "project|maximize",
    ),
    "project returns a list": (changed("project", lambda p: [*p]), "project"),
    "draws around another mean": (
        {"draw_posterior": of_draws(lambda self, X, p, Z: Z + 0.1)},
        "draw_posterior.*posterior",
    ),
    "draws too narrow": (
        {"draw_posterior": spread(0.8)}, "draw_posterior.*posterior",
    ),
    "draws too wide for the density": (
        {"draw_posterior": spread(1.2), **without("posterior")},
        "draw_posterior.*log_joint",
    ),
    "draws off, gradient unknown": (
        {"draw_posterior": of_draws(lambda self, X, p, Z: Z + 0.2),
         **without("posterior", "grad_log_joint")},
        "draw_posterior.*log_joint",
    ),
    "fused pass with other statistics": (
        {"expected_statistics": lambda self, X, p, w=None: (np.ones(3), 0.0)},
        "expected_statistics",
    ),
    "likelihood of all rows": (
        {**changed("log_likelihood", lambda v: v.sum()), **without("log_joint")},
        "log_likelihood",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_wrong_models_are_caught(name):
    methods, message = BROKEN[name]
    model = type("Broken", (RandomInterceptModel,), methods)()
    with pytest.raises(ValueError, match=message):
        check_model(model, GROUPS)


def test_a_fit_notices_an_m_step_that_writes_into_its_statistics():
    model = type("Broken", (RandomInterceptModel,), {"maximize": in_place})()
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="writes into the statistics"):
            getattr(StochasticEM(model), learn)(GROUPS)


class StartsAtMean(RandomInterceptModel):
    """Chains all start at one point, where the M-step finds no variance."""

    posterior = draw_posterior = property()

    def initial_latents(self, X, params, rng):
        return np.full((len(X), 1), params.mean)


def test_latents_that_are_all_equal_at_the_start():
    for scale in (1e-3, 1.0, 1e3):
        done = check_model(StartsAtMean(), GROUPS * scale)
        assert {"maximize", "project", "grad_log_joint"} <= set(done)
    wrong = type("Broken", (StartsAtMean,), maximized(variance=lambda v: 1.1 * v))
    with pytest.raises(ValueError, match="maximize.*maximum"):
        check_model(wrong(), GROUPS)


class Words(LatentModel):
    """A mixture of two multinomials, most of whose words are rare."""

    averages_draws = True
    floor = 1e-12

    def initial_params(self, X, rng):
        rates = rng.dirichlet(np.ones(X.shape[1]), size=2)
        return {"weights": np.full(2, 0.5), "rates": rates}

    def mean_statistics(self, X, Z, sample_weight=None):
        of_rows = np.concatenate(
            [Z, (Z[:, :, None] * X[:, None]).reshape(len(X), -1)], axis=1
        )
        return np.average(of_rows, axis=0, weights=sample_weight)

    def project(self, s):
        inside = np.maximum(s, self.floor)
        return inside, bool((s < 0).any())

    def maximize(self, s, params):
        s, _ = self.project(s)
        rates = s[2:].reshape(2, -1)
        weights, sums = s[:2] / s[:2].sum(), rates.sum(axis=1, keepdims=True)
        return {"weights": weights, "rates": rates / sums}

    def _terms(self, X, params):
        return X @ np.log(params["rates"]).T + np.log(params["weights"])

    def posterior(self, X, params):
        return softmax(self._terms(X, params), axis=1)

    def log_likelihood(self, X, params):
        return logsumexp(self._terms(X, params), axis=1)


def test_project_may_floor_zeros():
    X = rng.poisson(np.where(np.arange(30) < 20, 1.0, 0.0), size=(50, 30)).astype(float)
    assert "project" in check_model(Words(), X)
    wrong = type("Broken", (Words,), {"floor": 0.1})
    with pytest.raises(ValueError, match="project.*from data"):
        check_model(wrong(), X)
    with pytest.raises(ValueError, match="project.*from data"):
        check_model(wrong(), X + 1.0)


class HalfWeights(GaussianMixtureModel):
    def expected_statistics(self, X, params, sample_weight=None):
        s, value = super().expected_statistics(X, params, sample_weight)
        return s, value + 1e-3


def test_a_wrong_fused_likelihood():
    with pytest.raises(ValueError, match="expected_statistics.*log_likelihood"):
        check_model(HalfWeights(2), BLOBS)


def test_not_a_model():
    with pytest.raises(TypeError, match="LatentModel"):
        check_model(object(), GROUPS)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_scales_of_the_data(scale):
    check_model(RandomInterceptModel(), GROUPS * scale)
    wrong = type("Broken", (RandomInterceptModel,), BROKEN["gradient 1 % off"][0])()
    with pytest.raises(ValueError, match="grad_log_joint"):
        check_model(wrong, GROUPS * scale)


def test_entries_of_a_dataclass_are_moved():
    class Loud(DeformableTemplateModel):
        def maximize(self, s, params):
            found = super().maximize(s, params)
            return replace(found, noise_variances=1.2 * found.noise_variances)

    model, images, options = template((8,))
    loud = Loud(model.grid, model.priors, n_rows=12.0)
    with pytest.raises(ValueError, match="maximize of Loud is not at the maximum"):
        check_model(loud, images, **options)
