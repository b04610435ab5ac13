from sktem.hidden_markov.display import HiddenStatesDisplay as HiddenStatesDisplay
from sktem.mixed_effects.displays.goodness_of_fit import (
    GoodnessOfFitDisplay as GoodnessOfFitDisplay,
)
from sktem.mixed_effects.displays.individual_fits import (
    IndividualFitDisplay as IndividualFitDisplay,
)
from sktem.mixed_effects.displays.parameter_trace import (
    ParameterTraceDisplay as ParameterTraceDisplay,
)
from sktem.mixed_effects.displays.predictions import (
    PredictionDisplay as PredictionDisplay,
)
from sktem.mixed_effects.displays.predictive_check import (
    VisualPredictiveCheckDisplay as VisualPredictiveCheckDisplay,
)
from sktem.mixed_effects.displays.residuals import ResidualDisplay as ResidualDisplay
from sktem.mixed_effects.displays.survival import (
    KaplanMeierDisplay as KaplanMeierDisplay,
)
from sktem.mixture.displays import (
    ClassProfileDisplay as ClassProfileDisplay,
)
from sktem.mixture.displays import (
    ComponentDisplay as ComponentDisplay,
)
from sktem.plotting.history_display import HistoryDisplay as HistoryDisplay
from sktem.template.display import TemplateDisplay as TemplateDisplay
