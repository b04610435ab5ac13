"""Emissions: what is observed given one of K discrete states, imported on first use."""

from typing import TYPE_CHECKING

from sktem.lazy import lazy

_PUBLIC = {
    "Autoregression": "sktem.emissions.autoregression",
    "AutoregressionParams": "sktem.emissions.autoregression",
    "Bernoulli": "sktem.emissions.bernoulli",
    "BernoulliParams": "sktem.emissions.bernoulli",
    "Categorical": "sktem.emissions.categorical",
    "CategoricalParams": "sktem.emissions.categorical",
    "Columns": "sktem.emissions.columns",
    "ColumnsParams": "sktem.emissions.columns",
    "Emission": "sktem.emissions.base",
    "Exponential": "sktem.emissions.exponential",
    "ExponentialParams": "sktem.emissions.exponential",
    "FactorAnalyser": "sktem.emissions.factor_analyser",
    "FactorAnalyserParams": "sktem.emissions.factor_analyser",
    "Gamma": "sktem.emissions.gamma",
    "GammaParams": "sktem.emissions.gamma",
    "Gaussian": "sktem.emissions.gaussian",
    "GaussianParams": "sktem.emissions.gaussian",
    "LogNormal": "sktem.emissions.log_normal",
    "Mixture": "sktem.emissions.mixture",
    "MixtureParams": "sktem.emissions.mixture",
    "Multinomial": "sktem.emissions.multinomial",
    "MultinomialParams": "sktem.emissions.multinomial",
    "NegativeBinomial": "sktem.emissions.negative_binomial",
    "NegativeBinomialParams": "sktem.emissions.negative_binomial",
    "Poisson": "sktem.emissions.poisson",
    "PoissonParams": "sktem.emissions.poisson",
    "Regression": "sktem.emissions.regression",
    "RegressionParams": "sktem.emissions.regression",
    "StudentT": "sktem.emissions.student_t",
    "StudentTParams": "sktem.emissions.student_t",
    "VonMises": "sktem.emissions.von_mises",
    "VonMisesFisher": "sktem.emissions.von_mises_fisher",
    "VonMisesFisherParams": "sktem.emissions.von_mises_fisher",
    "VonMisesParams": "sktem.emissions.von_mises",
    "check_emission": "sktem.emissions.checking",
}

__all__ = sorted(_PUBLIC)


if TYPE_CHECKING:
    from sktem.emissions.autoregression import Autoregression as Autoregression
    from sktem.emissions.autoregression import (
        AutoregressionParams as AutoregressionParams,
    )
    from sktem.emissions.base import Emission as Emission
    from sktem.emissions.bernoulli import Bernoulli as Bernoulli
    from sktem.emissions.bernoulli import BernoulliParams as BernoulliParams
    from sktem.emissions.categorical import Categorical as Categorical
    from sktem.emissions.categorical import CategoricalParams as CategoricalParams
    from sktem.emissions.checking import check_emission as check_emission
    from sktem.emissions.columns import Columns as Columns
    from sktem.emissions.columns import ColumnsParams as ColumnsParams
    from sktem.emissions.exponential import Exponential as Exponential
    from sktem.emissions.exponential import ExponentialParams as ExponentialParams
    from sktem.emissions.factor_analyser import FactorAnalyser as FactorAnalyser
    from sktem.emissions.factor_analyser import (
        FactorAnalyserParams as FactorAnalyserParams,
    )
    from sktem.emissions.gamma import Gamma as Gamma
    from sktem.emissions.gamma import GammaParams as GammaParams
    from sktem.emissions.gaussian import Gaussian as Gaussian
    from sktem.emissions.gaussian import GaussianParams as GaussianParams
    from sktem.emissions.log_normal import LogNormal as LogNormal
    from sktem.emissions.mixture import Mixture as Mixture
    from sktem.emissions.mixture import MixtureParams as MixtureParams
    from sktem.emissions.multinomial import Multinomial as Multinomial
    from sktem.emissions.multinomial import MultinomialParams as MultinomialParams
    from sktem.emissions.negative_binomial import NegativeBinomial as NegativeBinomial
    from sktem.emissions.negative_binomial import (
        NegativeBinomialParams as NegativeBinomialParams,
    )
    from sktem.emissions.poisson import Poisson as Poisson
    from sktem.emissions.poisson import PoissonParams as PoissonParams
    from sktem.emissions.regression import Regression as Regression
    from sktem.emissions.regression import RegressionParams as RegressionParams
    from sktem.emissions.student_t import StudentT as StudentT
    from sktem.emissions.student_t import StudentTParams as StudentTParams
    from sktem.emissions.von_mises import VonMises as VonMises
    from sktem.emissions.von_mises import VonMisesParams as VonMisesParams
    from sktem.emissions.von_mises_fisher import VonMisesFisher as VonMisesFisher
    from sktem.emissions.von_mises_fisher import (
        VonMisesFisherParams as VonMisesFisherParams,
    )
else:
    __getattr__, __dir__ = lazy(__name__, _PUBLIC)
