"""Warnings of the package."""

import sys
import warnings

__all__ = ["FitWarning"]

#: Packages whose frames stand between a warning and the user.
PACKAGES = ("sktem", "sklearn")


class FitWarning(UserWarning):
    """Something is wrong with a fit or its settings, and the result needs a look.

    Examples are a variance that was floored, Markov chains that hardly move, and a
    parameter that has no effect with the chosen solver.

    Examples
    --------
    >>> from sktem.exceptions import FitWarning
    >>> issubclass(FitWarning, UserWarning)
    True
    """


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user that has led here, outside of scikit-learn too."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] in PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
