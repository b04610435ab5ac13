"""Displays in scikit-learn's manner; they need matplotlib when they draw, not before.

The public names are imported on first use.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "HistoryDisplay": "sktem.plotting.history_display",
    "IndividualFitDisplay": "sktem.plotting.individual_fit_display",
    "ParameterTraceDisplay": "sktem.plotting.parameter_trace_display",
    "PredictionDisplay": "sktem.plotting.prediction_display",
    "ResidualDisplay": "sktem.plotting.residual_display",
    "TemplateDisplay": "sktem.plotting.template_display",
    "VisualPredictiveCheckDisplay": "sktem.plotting.predictive_check_display",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.plotting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
