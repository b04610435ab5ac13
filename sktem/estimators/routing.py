"""Cross-validation that does not pass on which rows belong together."""

from __future__ import annotations

import sys

from sktem.estimators.fit_warnings import warn_user

__all__ = ["warn_of_routing"]

#: Where scikit-learn fits one fold.
OF_FOLDS = ("sklearn.model_selection._validation", "_fit_and_score")


def warn_of_routing(consequence: str) -> None:
    """Warn if a fit without groups is that of a fold of scikit-learn.

    Parameters
    ----------
    consequence : str
        What happens without groups.
    """
    frame = sys._getframe(1)
    while frame.f_back:
        frame = frame.f_back
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == OF_FOLDS:
            break
    else:
        return
    warn_user(
        "Cross-validation has not passed groups on to fit, which needs them to know "
        f"which rows belong together: {consequence}. Call sklearn.set_config("
        "enable_metadata_routing=True), then estimator.set_fit_request(groups=True), "
        "and pass cross_val_score(..., params={'groups': groups}) or search.fit(..., "
        "groups=groups).",
        UserWarning,
    )
