from sktem.loop.checking import check_model as check_model
from sktem.mixed_effects.design import MixedEffectsParams as MixedEffectsParams
from sktem.mixed_effects.model import (
    NonlinearMixedEffectsModel as NonlinearMixedEffectsModel,
)
from sktem.mixed_effects.rows import NamedColumns as NamedColumns
from sktem.mixed_effects.structural import STRUCTURAL_MODELS as STRUCTURAL_MODELS
from sktem.mixture.model import (
    GaussianMixtureModel as GaussianMixtureModel,
)
from sktem.mixture.model import (
    GaussianMixtureParams as GaussianMixtureParams,
)
from sktem.models.base import LatentModel as LatentModel
from sktem.models.random_intercept import (
    RandomInterceptModel as RandomInterceptModel,
)
from sktem.models.random_intercept import (
    RandomInterceptParams as RandomInterceptParams,
)
from sktem.regression.ard_logistic_model import (
    ARDLogisticModel as ARDLogisticModel,
)
from sktem.regression.ard_logistic_model import (
    ARDLogisticParams as ARDLogisticParams,
)
from sktem.regression.robust_poisson_model import (
    RobustPoissonModel as RobustPoissonModel,
)
from sktem.regression.robust_poisson_model import (
    RobustPoissonParams as RobustPoissonParams,
)
from sktem.template.geometry.grid import ImageGrid as ImageGrid
from sktem.template.model.model import (
    DeformableTemplateModel as DeformableTemplateModel,
)
from sktem.template.model.params import TemplateParams as TemplateParams
from sktem.template.model.priors import TemplatePriors as TemplatePriors
