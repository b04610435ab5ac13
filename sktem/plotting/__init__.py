"""Displays in scikit-learn's manner; they need matplotlib when they draw, not before.

The public names are imported on first use.
"""

from typing import TYPE_CHECKING

from sktem.lazy import lazy

_PUBLIC = {
    "GoodnessOfFitDisplay": "sktem.mixed_effects.displays.goodness_of_fit",
    "ClassProfileDisplay": "sktem.mixture.displays",
    "ComponentDisplay": "sktem.mixture.displays",
    "HiddenStatesDisplay": "sktem.hidden_markov.display",
    "HistoryDisplay": "sktem.plotting.history_display",
    "IndividualFitDisplay": "sktem.mixed_effects.displays.individual_fits",
    "ParameterTraceDisplay": "sktem.mixed_effects.displays.parameter_trace",
    "PredictionDisplay": "sktem.mixed_effects.displays.predictions",
    "ResidualDisplay": "sktem.mixed_effects.displays.residuals",
    "TemplateDisplay": "sktem.template.display",
    "VisualPredictiveCheckDisplay": "sktem.mixed_effects.displays.predictive_check",
}

__all__ = sorted(_PUBLIC)


if TYPE_CHECKING:
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
    from sktem.mixed_effects.displays.residuals import (
        ResidualDisplay as ResidualDisplay,
    )
    from sktem.mixture.displays import ClassProfileDisplay as ClassProfileDisplay
    from sktem.mixture.displays import ComponentDisplay as ComponentDisplay
    from sktem.plotting.history_display import HistoryDisplay as HistoryDisplay
    from sktem.template.display import TemplateDisplay as TemplateDisplay
else:
    __getattr__, __dir__ = lazy(__name__, _PUBLIC)
