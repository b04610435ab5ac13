"""What a type checker tells users: names of parameters, classes to derive from."""

import re
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import pytest

import sktem
from sktem.boltzmann.learning.solvers import CONTRASTIVE_SOLVERS
from sktem.boltzmann.settings import E_STEPS
from sktem.e_step.batches import SAMPLING_SCHEMES
from sktem.mixture.component_search import CRITERIA
from sktem.mixture.estimator import COVARIANCES
from sktem.samplers import DEFORMATION_SAMPLERS, SAMPLERS
from sktem.solvers import SOLVERS
from sktem.template.geometry.landmarks import GRIDS

ROOT = Path(sktem.__file__).parent.parent
#: A user's module; comments are the errors that mypy has to find, and no others.
SCRIPT = """
# mypy: disallow-subclassing-any, disallow-untyped-defs, disallow-any-generics
from typing import NamedTuple

import numpy as np

from sktem import (
    DeformableTemplateEstimator,
    HiddenMarkovModel,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.models import LatentModel
from sktem.samplers import MALA
from sktem.solvers import FITTEM


class Params(NamedTuple):
    mean: float


class Own(LatentModel):
    def __init__(self, width: float) -> None:
        self.width = width

    def initial_params(self, X: np.ndarray, rng: np.random.Generator) -> Params:
        return Params(float(X.mean()))


X = np.zeros((10, 2))
mixture = StochasticEMGaussianMixture(3, solver="isaem", random_state=0).fit(X)
mixture.predict(X)
StochasticEMMixture("auto", emission="poisson").fit(X)
HiddenMarkovModel("icl").fit(X)
StochasticEM(Own(1.0), solver="online", step_size=lambda k: 1 / k).fit(X)
StochasticEM(Own(1.0), solver=FITTEM(), sampler=MALA(), batch_size=10).fit(X)
StochasticEMGaussianMixture(3, solvr="em")  # error: Unexpected keyword argument "solvr"
StochasticEM(solver=FITTEM(), sampler=MALA(step=0.1))  # error: Missing positional
MALA(stepp=0.1)  # error: Unexpected keyword argument "stepp"
StochasticEM(Own(1.0), solver="emm")  # error: Argument "solver" to "StochasticEM" has
StochasticEM(Own(1.0), sampler="nuts")  # error: Argument "sampler" to "StochasticEM"
StochasticEM(Own, solver="em")  # error: Argument 1 to "StochasticEM" has incompatible
StochasticEMGaussianMixture("3")  # error: Argument 1 to "StochasticEMGaussianMixture"
StochasticEMGaussianMixture(3, covariance_type="round")  # error: Argument "covariance_
StochasticEMGaussianMixture(3, batch_size="all")  # error: Argument "batch_size" to
LatentBoltzmannMachine(solver="em")  # error: Argument "solver" to "LatentBoltzmannM
NonlinearMixedEffectsRegressor("linear", {}, sampler="hmc")  # error: Argument "sampler"
DeformableTemplateEstimator(deformation="rigid")  # error: Argument "deformation" to
HiddenMarkovModel("four")  # error: Argument 1 to "HiddenMarkovModel" has
HiddenMarkovModel(2, random_state="a")  # error: Argument "random_state" to "HiddenMar
from sktem import StochasticEMM  # error: Module "sktem" has no
"""


def literals(Estimator, name):
    """Return the names that the annotation of a parameter allows."""
    found = get_type_hints(Estimator.__init__)[name]
    parts = get_args(found) if get_origin(found) in (Union, UnionType) else (found,)
    return {value for part in parts for value in get_args(part)} - {"auto"}


@pytest.mark.parametrize(
    "Estimator, name, known",
    [
        (sktem.StochasticEM, "solver", SOLVERS),
        (sktem.StochasticEM, "sampler", SAMPLERS),
        (sktem.StochasticEM, "sampling", SAMPLING_SCHEMES),
        (sktem.ARDLogisticClassifier, "sampler", sktem.ARDLogisticClassifier._samplers),
        (sktem.ARDLogisticClassifier, "solver", ("saem", "biased-saem")),
        (
            sktem.NonlinearMixedEffectsRegressor,
            "sampler",
            sktem.NonlinearMixedEffectsRegressor._samplers,
        ),
        *(
            (Estimator, "sampler", DEFORMATION_SAMPLERS)
            for Estimator in (
                sktem.DeformableTemplateEstimator,
                sktem.DeformableTemplateClassifier,
            )
        ),
        (sktem.DeformableTemplateEstimator, "deformation", GRIDS),
        (sktem.LatentBoltzmannMachine, "solver", CONTRASTIVE_SOLVERS),
        (sktem.LatentBoltzmannMachine, "e_step", E_STEPS),
        (sktem.StochasticEMGaussianMixture, "covariance_type", COVARIANCES),
        (sktem.StochasticEMMixture, "n_components", CRITERIA),
        (sktem.HiddenMarkovModel, "n_states", CRITERIA),
    ],
)
def test_types_are_the_tables_of_names(Estimator, name, known):
    assert literals(Estimator, name) == set(known) - {"auto"}


@pytest.mark.timeout(300)
def test_script_of_a_user(tmp_path, monkeypatch):
    """By the settings of the repository, whose cached results are used."""
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)
    path = tmp_path / "script_of_a_user.py"
    path.write_text(SCRIPT)
    found, problems, _ = api.run([str(path)])
    assert not problems
    errors = dict(re.findall(r"script_of_a_user\.py:(\d+): (error: .*)", found))
    lines = enumerate(SCRIPT.split("\n"), 1)
    expected = {str(n): line.split("# ")[1] for n, line in lines if "# error" in line}
    assert errors.keys() == expected.keys(), found
    for number, text in expected.items():
        assert text in errors[number]
