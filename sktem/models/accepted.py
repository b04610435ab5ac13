"""The kinds of rows that a model of the user's own accepts."""

from __future__ import annotations

from scipy.sparse import issparse

from sktem.models.base import KINDS_OF_ROWS
from sktem.rows.sources import is_stream, ragged_rows

__all__ = ["accepted_kinds", "given_rows"]


def accepted_kinds(model) -> frozenset[str]:
    """Return which kinds of rows a model accepts beyond dense matrices of numbers."""
    accepts = getattr(model, "accepts", ())
    if isinstance(accepts, str) or not set(accepts) <= set(KINDS_OF_ROWS):
        raise ValueError(
            f"accepts of {type(model).__name__} must be a set of names among "
            f"{sorted(KINDS_OF_ROWS)}, got {accepts!r}"
        )
    return frozenset(accepts)


def given_rows(X, model):
    """Return the rows of a user as the model gets them: in CSR, or as an array."""
    kinds = accepted_kinds(model)
    if "sparse" in kinds and issparse(X):
        return X.tocsr()
    if "ragged" not in kinds or is_stream(X):
        return X
    return ragged_rows(X, "nan" in kinds)
