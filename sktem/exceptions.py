"""Warnings of the package."""

__all__ = ["FitWarning"]


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
