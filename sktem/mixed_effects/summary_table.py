"""Estimates as a data frame whose text has figures of the whole fit too."""

from __future__ import annotations

from pandas import DataFrame

__all__ = ["SummaryTable"]

#: Names of the figures as text, by those in ``attrs``.
FIGURES = {
    "minus_two_log_likelihood": "-2 log-likelihood",
    "aic": "AIC",
    "bic": "BIC",
    "condition_number": "condition number",
    "epsilon_shrinkage": "epsilon shrinkage",
    "n_subjects": "subjects",
    "n_observations": "observations",
}


class SummaryTable(DataFrame):
    """A data frame whose text ends with the values of its ``attrs``.

    Data frames derived from it, such as chosen rows, are plain ones.
    """

    @property
    def _constructor(self):
        return DataFrame

    def _figures(self) -> str:
        """Return a line for each figure."""
        known = [(text, self.attrs[name]) for name, text in FIGURES.items()]
        return "\n".join(f"{text:<20}{value:.6g}" for text, value in known)

    def __repr__(self):
        """Return the table and the figures."""
        return f"{super().__repr__()}\n\n{self._figures()}"

    def _repr_html_(self):
        """Return the table and the figures for notebooks."""
        return f"{super()._repr_html_()}\n<pre>{self._figures()}</pre>"
