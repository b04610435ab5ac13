"""Displays in scikit-learn's manner; they need matplotlib when they draw, not before.

The public names are imported on first use.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "HistoryDisplay": "sktem.plotting.history_display",
    "IndividualFitDisplay": "sktem.mixed_effects.displays.individual_fits",
    "ParameterTraceDisplay": "sktem.mixed_effects.displays.parameter_trace",
    "PredictionDisplay": "sktem.mixed_effects.displays.predictions",
    "ResidualDisplay": "sktem.mixed_effects.displays.residuals",
    "TemplateDisplay": "sktem.template.display",
    "VisualPredictiveCheckDisplay": "sktem.mixed_effects.displays.predictive_check",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.plotting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
