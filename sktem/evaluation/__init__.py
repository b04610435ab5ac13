"""Measuring fitted models: likelihoods, exact sums, residuals, predictive checks.

The public names are imported on first use, so that names without compiled code do
not load it.
"""

from typing import TYPE_CHECKING

from sktem.lazy import lazy

_PUBLIC = {
    "LikelihoodProfile": "sktem.mixed_effects.reports.profiles",
    "LikelihoodRatio": "sktem.mixed_effects.reports.comparison",
    "bootstrap": "sktem.mixed_effects.reports.resampling",
    "compare": "sktem.mixed_effects.reports.comparison",
    "covariate_search": "sktem.mixed_effects.reports.covariate_search",
    "likelihood_ratio_test": "sktem.mixed_effects.reports.comparison",
    "output_table": "sktem.mixed_effects.reports.tables",
    "profile_likelihood": "sktem.mixed_effects.reports.profiles",
    "sampling_importance_resampling": "sktem.mixed_effects.reports.resampling",
    "Subpopulations": "sktem.mixed_effects.reports.subpopulations",
    "subpopulations": "sktem.mixed_effects.reports.subpopulations",
    "AISResult": "sktem.boltzmann.normalisation.ais",
    "IndividualCurve": "sktem.mixed_effects.checks.curves",
    "PartitionBracket": "sktem.boltzmann.normalisation.brackets",
    "PopulationResiduals": "sktem.mixed_effects.checks.residuals",
    "VisualPredictiveCheck": "sktem.mixed_effects.checks.predictive",
    "annealed_importance_sampling": "sktem.boltzmann.normalisation.ais",
    "bracket_log_partition": "sktem.boltzmann.normalisation.brackets",
    "bin_times": "sktem.mixed_effects.checks.predictive",
    "enumerate_moments": "sktem.boltzmann.normalisation.enumeration",
    "enumerate_states": "sktem.boltzmann.normalisation.enumeration",
    "individual_curves": "sktem.mixed_effects.checks.curves",
    "individual_residuals": "sktem.mixed_effects.checks.residuals",
    "population_residuals": "sktem.mixed_effects.checks.residuals",
    "prediction_factors": "sktem.mixed_effects.checks.predictive",
    "visual_predictive_check": "sktem.mixed_effects.checks.predictive",
}

__all__ = sorted(_PUBLIC)


if TYPE_CHECKING:
    from sktem.boltzmann.normalisation.ais import AISResult as AISResult
    from sktem.boltzmann.normalisation.ais import (
        annealed_importance_sampling as annealed_importance_sampling,
    )
    from sktem.boltzmann.normalisation.brackets import (
        PartitionBracket as PartitionBracket,
    )
    from sktem.boltzmann.normalisation.brackets import (
        bracket_log_partition as bracket_log_partition,
    )
    from sktem.boltzmann.normalisation.enumeration import (
        enumerate_moments as enumerate_moments,
    )
    from sktem.boltzmann.normalisation.enumeration import (
        enumerate_states as enumerate_states,
    )
    from sktem.mixed_effects.checks.curves import IndividualCurve as IndividualCurve
    from sktem.mixed_effects.checks.curves import individual_curves as individual_curves
    from sktem.mixed_effects.checks.predictive import (
        VisualPredictiveCheck as VisualPredictiveCheck,
    )
    from sktem.mixed_effects.checks.predictive import bin_times as bin_times
    from sktem.mixed_effects.checks.predictive import (
        prediction_factors as prediction_factors,
    )
    from sktem.mixed_effects.checks.predictive import (
        visual_predictive_check as visual_predictive_check,
    )
    from sktem.mixed_effects.checks.residuals import (
        PopulationResiduals as PopulationResiduals,
    )
    from sktem.mixed_effects.checks.residuals import (
        individual_residuals as individual_residuals,
    )
    from sktem.mixed_effects.checks.residuals import (
        population_residuals as population_residuals,
    )
    from sktem.mixed_effects.reports.comparison import (
        LikelihoodRatio as LikelihoodRatio,
    )
    from sktem.mixed_effects.reports.comparison import compare as compare
    from sktem.mixed_effects.reports.comparison import (
        likelihood_ratio_test as likelihood_ratio_test,
    )
    from sktem.mixed_effects.reports.covariate_search import (
        covariate_search as covariate_search,
    )
    from sktem.mixed_effects.reports.profiles import (
        LikelihoodProfile as LikelihoodProfile,
    )
    from sktem.mixed_effects.reports.profiles import (
        profile_likelihood as profile_likelihood,
    )
    from sktem.mixed_effects.reports.resampling import bootstrap as bootstrap
    from sktem.mixed_effects.reports.resampling import (
        sampling_importance_resampling as sampling_importance_resampling,
    )
    from sktem.mixed_effects.reports.subpopulations import (
        Subpopulations as Subpopulations,
    )
    from sktem.mixed_effects.reports.subpopulations import (
        subpopulations as subpopulations,
    )
    from sktem.mixed_effects.reports.tables import output_table as output_table
else:
    __getattr__, __dir__ = lazy(__name__, _PUBLIC)
