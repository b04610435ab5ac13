"""Warnings of the package."""

__all__ = ["FitWarning"]


class FitWarning(UserWarning):
    """A fit had to mend something (a floor, a projection) and went on.

    Examples
    --------
    >>> from sktem.exceptions import FitWarning
    >>> issubclass(FitWarning, UserWarning)
    True
    """
