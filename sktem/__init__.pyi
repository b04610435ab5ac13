__version__: str

from sktem import compartments as compartments
from sktem.boltzmann.conditional.classifier import (
    BoltzmannMachineClassifier as BoltzmannMachineClassifier,
)
from sktem.boltzmann.conditional.regressor import (
    BoltzmannMachineRegressor as BoltzmannMachineRegressor,
)
from sktem.boltzmann.estimator import LatentBoltzmannMachine as LatentBoltzmannMachine
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
from sktem.mixture.emission_mixture import StochasticEMMixture as StochasticEMMixture
from sktem.mixture.estimator import (
    StochasticEMGaussianMixture as StochasticEMGaussianMixture,
)
from sktem.mixture.imputer import MixtureImputer as MixtureImputer
from sktem.mixture.outliers import MixtureOutlierDetector as MixtureOutlierDetector
from sktem.mixture.prior import GaussianMixturePrior as GaussianMixturePrior
from sktem.mixture.regressor import GaussianMixtureRegressor as GaussianMixtureRegressor
from sktem.progress import show_progress as show_progress
from sktem.regression.ard_logistic import ARDLogisticClassifier as ARDLogisticClassifier
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
