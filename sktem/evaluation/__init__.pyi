from sktem.boltzmann.machines.enumeration import (
    enumerate_moments as enumerate_moments,
)
from sktem.boltzmann.machines.enumeration import (
    enumerate_states as enumerate_states,
)
from sktem.boltzmann.normalisation.ais import (
    AISResult as AISResult,
)
from sktem.boltzmann.normalisation.ais import (
    annealed_importance_sampling as annealed_importance_sampling,
)
from sktem.boltzmann.normalisation.brackets import (
    PartitionBracket as PartitionBracket,
)
from sktem.boltzmann.normalisation.brackets import (
    bracket_log_partition as bracket_log_partition,
)
from sktem.mixed_effects.checks.curves import (
    IndividualCurve as IndividualCurve,
)
from sktem.mixed_effects.checks.curves import (
    individual_curves as individual_curves,
)
from sktem.mixed_effects.checks.predictive import (
    VisualPredictiveCheck as VisualPredictiveCheck,
)
from sktem.mixed_effects.checks.predictive import (
    bin_times as bin_times,
)
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
from sktem.mixed_effects.checks.survival import (
    KaplanMeierCheck as KaplanMeierCheck,
)
from sktem.mixed_effects.checks.survival import (
    kaplan_meier_check as kaplan_meier_check,
)
from sktem.mixed_effects.reports.comparison import (
    LikelihoodRatio as LikelihoodRatio,
)
from sktem.mixed_effects.reports.comparison import (
    compare as compare,
)
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
from sktem.mixed_effects.reports.resampling import (
    bootstrap as bootstrap,
)
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
