from sktem.emissions.autoregression import (
    Autoregression as Autoregression,
)
from sktem.emissions.autoregression import (
    AutoregressionParams as AutoregressionParams,
)
from sktem.emissions.base import Emission as Emission
from sktem.emissions.bernoulli import (
    Bernoulli as Bernoulli,
)
from sktem.emissions.bernoulli import (
    BernoulliParams as BernoulliParams,
)
from sktem.emissions.categorical import (
    Categorical as Categorical,
)
from sktem.emissions.categorical import (
    CategoricalParams as CategoricalParams,
)
from sktem.emissions.checking import check_emission as check_emission
from sktem.emissions.columns import Columns as Columns
from sktem.emissions.columns import ColumnsParams as ColumnsParams
from sktem.emissions.exponential import (
    Exponential as Exponential,
)
from sktem.emissions.exponential import (
    ExponentialParams as ExponentialParams,
)
from sktem.emissions.factor_analyser import (
    FactorAnalyser as FactorAnalyser,
)
from sktem.emissions.factor_analyser import (
    FactorAnalyserParams as FactorAnalyserParams,
)
from sktem.emissions.gamma import Gamma as Gamma
from sktem.emissions.gamma import GammaParams as GammaParams
from sktem.emissions.gaussian import (
    Gaussian as Gaussian,
)
from sktem.emissions.gaussian import (
    GaussianParams as GaussianParams,
)
from sktem.emissions.log_normal import LogNormal as LogNormal
from sktem.emissions.mixture import Mixture as Mixture
from sktem.emissions.mixture import MixtureParams as MixtureParams
from sktem.emissions.multinomial import (
    Multinomial as Multinomial,
)
from sktem.emissions.multinomial import (
    MultinomialParams as MultinomialParams,
)
from sktem.emissions.negative_binomial import (
    NegativeBinomial as NegativeBinomial,
)
from sktem.emissions.negative_binomial import (
    NegativeBinomialParams as NegativeBinomialParams,
)
from sktem.emissions.poisson import Poisson as Poisson
from sktem.emissions.poisson import PoissonParams as PoissonParams
from sktem.emissions.regression import (
    Regression as Regression,
)
from sktem.emissions.regression import (
    RegressionParams as RegressionParams,
)
from sktem.emissions.student_t import (
    StudentT as StudentT,
)
from sktem.emissions.student_t import (
    StudentTParams as StudentTParams,
)
from sktem.emissions.von_mises import (
    VonMises as VonMises,
)
from sktem.emissions.von_mises import (
    VonMisesParams as VonMisesParams,
)
from sktem.emissions.von_mises_fisher import (
    VonMisesFisher as VonMisesFisher,
)
from sktem.emissions.von_mises_fisher import (
    VonMisesFisherParams as VonMisesFisherParams,
)
