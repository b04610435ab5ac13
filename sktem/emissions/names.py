"""Emissions by name."""

from __future__ import annotations

from sktem.choices import check_choice
from sktem.emissions.base import Emission
from sktem.emissions.bernoulli import Bernoulli
from sktem.emissions.categorical import Categorical
from sktem.emissions.exponential import Exponential
from sktem.emissions.factor_analyser import FactorAnalyser
from sktem.emissions.gamma import Gamma
from sktem.emissions.gaussian import Gaussian
from sktem.emissions.log_normal import LogNormal
from sktem.emissions.multinomial import Multinomial
from sktem.emissions.negative_binomial import NegativeBinomial
from sktem.emissions.poisson import Poisson
from sktem.emissions.student_t import StudentT
from sktem.emissions.von_mises import VonMises
from sktem.emissions.von_mises_fisher import VonMisesFisher

__all__ = ["EMISSIONS", "emission_named"]

#: Emissions by the name that estimators accept. An emission is added by one line.
EMISSIONS = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "exponential": Exponential,
    "factor_analyser": FactorAnalyser,
    "gamma": Gamma,
    "gaussian": Gaussian,
    "log_normal": LogNormal,
    "multinomial": Multinomial,
    "negative_binomial": NegativeBinomial,
    "poisson": Poisson,
    "student_t": StudentT,
    "von_mises": VonMises,
    "von_mises_fisher": VonMisesFisher,
}


def emission_named(emission) -> Emission:
    """Return an emission that is given, or by its name with its defaults."""
    if isinstance(emission, Emission):
        return emission
    check_choice("emission", emission, EMISSIONS, " or an Emission")
    return EMISSIONS[emission]()
