"""Stochastic EM for latent-variable models, with scikit-learn's conventions.

The public names are imported on first use, so that ``import sktem`` is cheap.
"""

from typing import TYPE_CHECKING

from sktem.lazy import lazy

__version__ = "0.1.0"

_PUBLIC = {
    "BoltzmannMachineClassifier": "sktem.boltzmann.conditional.classifier",
    "BoltzmannMachineRegressor": "sktem.boltzmann.conditional.regressor",
    "ContrastiveSolver": "sktem.boltzmann.learning.solvers",
    "DeformableTemplateClassifier": "sktem.template.classifier",
    "DeformableTemplateEstimator": "sktem.template.estimator",
    "DeformableTemplatePrior": "sktem.template.prior",
    "DeformedCopiesClassifier": "sktem.deformed_copies.estimator",
    "GaussianMixturePrior": "sktem.mixture.prior",
    "GaussianMixtureRegressor": "sktem.mixture.regressor",
    "Durations": "sktem.hidden_markov.durations",
    "HiddenMarkovModel": "sktem.hidden_markov.estimator",
    "LatentBoltzmannMachine": "sktem.boltzmann.estimator",
    "ARDLogisticClassifier": "sktem.regression.ard_logistic",
    "NonlinearMixedEffectsRegressor": "sktem.mixed_effects.estimator",
    "RobustPoissonRegressor": "sktem.regression.robust_poisson",
    "MixtureImputer": "sktem.mixture.imputer",
    "MixtureOutlierDetector": "sktem.mixture.outliers",
    "StochasticEM": "sktem.estimators.stochastic_em",
    "StochasticEMGaussianMixture": "sktem.mixture.estimator",
    "compartments": "sktem",
    "StochasticEMMixture": "sktem.mixture.emission_mixture",
    "show_progress": "sktem.progress",
    "show_versions": "sktem.versions",
}

__all__ = sorted(_PUBLIC)


if TYPE_CHECKING:
    from sktem import compartments as compartments
    from sktem.boltzmann.conditional.classifier import (
        BoltzmannMachineClassifier as BoltzmannMachineClassifier,
    )
    from sktem.boltzmann.conditional.regressor import (
        BoltzmannMachineRegressor as BoltzmannMachineRegressor,
    )
    from sktem.boltzmann.estimator import (
        LatentBoltzmannMachine as LatentBoltzmannMachine,
    )
    from sktem.boltzmann.learning.solvers import ContrastiveSolver as ContrastiveSolver
    from sktem.deformed_copies.estimator import (
        DeformedCopiesClassifier as DeformedCopiesClassifier,
    )
    from sktem.estimators.stochastic_em import StochasticEM as StochasticEM
    from sktem.hidden_markov.durations import Durations as Durations
    from sktem.hidden_markov.estimator import HiddenMarkovModel as HiddenMarkovModel
    from sktem.mixed_effects.estimator import (
        NonlinearMixedEffectsRegressor as NonlinearMixedEffectsRegressor,
    )
    from sktem.mixture.emission_mixture import (
        StochasticEMMixture as StochasticEMMixture,
    )
    from sktem.mixture.estimator import (
        StochasticEMGaussianMixture as StochasticEMGaussianMixture,
    )
    from sktem.mixture.imputer import MixtureImputer as MixtureImputer
    from sktem.mixture.outliers import MixtureOutlierDetector as MixtureOutlierDetector
    from sktem.mixture.prior import GaussianMixturePrior as GaussianMixturePrior
    from sktem.mixture.regressor import (
        GaussianMixtureRegressor as GaussianMixtureRegressor,
    )
    from sktem.progress import show_progress as show_progress
    from sktem.regression.ard_logistic import (
        ARDLogisticClassifier as ARDLogisticClassifier,
    )
    from sktem.regression.robust_poisson import (
        RobustPoissonRegressor as RobustPoissonRegressor,
    )
    from sktem.template.classifier import (
        DeformableTemplateClassifier as DeformableTemplateClassifier,
    )
    from sktem.template.estimator import (
        DeformableTemplateEstimator as DeformableTemplateEstimator,
    )
    from sktem.template.prior import DeformableTemplatePrior as DeformableTemplatePrior
    from sktem.versions import show_versions as show_versions
else:
    __getattr__, __dir__ = lazy(__name__, _PUBLIC)
