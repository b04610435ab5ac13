"""Messages about unknown names list the known ones and ask for the closest."""

import inspect

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem import NonlinearMixedEffectsRegressor as curves  # noqa: N813
from sktem.choices import check_choice, check_names, did_you_mean
from sktem.models import RandomInterceptModel

CURVES = {"model": "linear", "parameters": {"intercept": 1.0, "slope": 1.0}}
UNITS = {"hidden_layer_sizes": 2}


@pytest.mark.parametrize(
    "given, question",
    [
        ("vrtem", "; did you mean 'vrttem'?"),
        ("SAEM", "; did you mean 'saem'?"),
        ("newton", ""),
        (3, ""),
        (None, ""),
        ([1], ""),
    ],
)
def test_did_you_mean(given, question):
    known = ("saem", "vrttem", 7)
    assert did_you_mean(given, known) == question
    with pytest.raises(ValueError) as error:
        check_names("omega", [given], known, "parameters")
    assert str(error.value).endswith(f"the known ones are {list(known)}{question}")


def test_known_names_pass():
    assert check_choice("solver", "saem", {"saem": 1}) == "saem"
    check_names("omega", ["saem"], ["saem", "em"], "parameters")
    for value in ("em", None, ["saem"], 1.0):
        with pytest.raises(ValueError, match=r"one of \['saem'\] or a callable, got"):
            check_choice("solver", value, {"saem": 1}, " or a callable")


@pytest.mark.parametrize(
    "estimator, meant",
    [
        (StochasticEMGaussianMixture(solver="vrtem"), "vrttem"),
        (StochasticEMGaussianMixture(covariance_type="diagonal"), "diag"),
        (StochasticEMGaussianMixture(init_params="k_means"), "kmeans"),
        (StochasticEMGaussianMixture(sampler="exakt"), "exact"),
        (LatentBoltzmannMachine(**UNITS, solver="pdc"), "pcd"),
        (
            LatentBoltzmannMachine(**UNITS, e_step="meanfield"),
            "mean_field",
        ),
        (LatentBoltzmannMachine(**UNITS, visible="gauss"), "gaussian"),
        (DeformableTemplateEstimator(solver="seam"), "saem"),
        (DeformableTemplateEstimator(covariance_type="ful"), "full"),
        (StochasticEM(RandomInterceptModel(), solver="onlin"), "online"),
        (curves(**{**CURVES, "model": "liner"}), "linear"),
        (curves(**CURVES, omega="diag"), "diagonal"),
        (curves(**CURVES, omega=["slop"]), "slope"),
        (curves(**CURVES, fixed=["intersept"]), "intercept"),
        (
            curves(**CURVES, transforms="lognormal"),
            "log-normal",
        ),
        (curves(**CURVES, residual_error="const"), "constant"),
        (curves(**CURVES, covariates={"slpe": [0]}), "slope"),
    ],
    ids=repr,
)
def test_estimators_ask(estimator, meant):
    grouped = hasattr(estimator, "omega")
    X = np.random.default_rng(0).random((20, 1 if grouped else 4))
    given = {"y": X[:, 0], "groups": np.repeat(np.arange(5), 4)} if grouped else {}
    with pytest.raises(ValueError, match=f"; did you mean '{meant}'\\?$"):
        estimator.fit(X, **given)


@pytest.mark.parametrize(
    "estimator, name, meant",
    [
        (StochasticEMGaussianMixture(), "n_component", "n_components"),
        (DeformableTemplateEstimator(), "image_shpe", "image_shape"),
        (LatentBoltzmannMachine(), "Centering", "centering"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_unknown_parameters_are_asked_back(estimator, name, meant):
    pattern = f"(?s)Invalid parameter '{name}'.*; did you mean '{meant}'\\?$"
    with pytest.raises(ValueError, match=pattern):
        estimator.set_params(**{name: 3})
    with pytest.raises(ValueError, match=pattern):
        GridSearchCV(estimator, {name: [3]}, cv=2).fit(np.eye(6))
    with pytest.raises(ValueError, match=r"(?s)Invalid parameter 'zzz'.*\.$"):
        estimator.set_params(zzz=3)
    estimator.set_params(verbose=1)
    assert estimator.verbose == 1


@pytest.mark.parametrize(
    "Estimator, name, meant",
    [
        (StochasticEMGaussianMixture, "n_component", "n_components"),
        (StochasticEMGaussianMixture, "n_clusters", "n_components"),
        (LatentBoltzmannMachine, "n_components", "hidden_layer_sizes"),
        (DeformableTemplateClassifier, "temprature", "temperature"),
    ],
)
def test_unknown_parameters_of_constructors_are_asked_back(Estimator, name, meant):
    with pytest.raises(TypeError, match=f"{name!r}; did you mean '{meant}'\\?$"):
        Estimator(**{name: 3})
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        Estimator(zzz=3)


def test_constructors_of_subclasses():
    class Own(StochasticEMGaussianMixture):
        def __init__(self, *, n_clusters=2, **others):
            super().__init__(n_clusters, **others)

    assert Own(n_clusters=3, random_state=0).n_components == 3
    assert list(inspect.signature(Own).parameters) == ["n_clusters", "others"]
    assert "tol" in StochasticEMGaussianMixture.__signature__.parameters
