"""The rows of a model of the user's own, checked."""

from __future__ import annotations

import numpy as np

from sktem.models.accepted import accepted_kinds, given_rows
from sktem.validation import validate_data

__all__ = ["validated_rows"]


def validated_rows(estimator, X, *, reset: bool):
    """Return rows in memory as the model gets them, checked as scikit-learn does."""
    kinds = accepted_kinds(estimator.model)
    if "ragged" in kinds:
        return _validated_ragged(estimator, given_rows(X, estimator.model), reset)
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=[np.float64, np.float32],
        order="C",
        accept_sparse="csr" if "sparse" in kinds else False,
        allow_nd="3d" in kinds,
        ensure_all_finite="allow-nan" if "nan" in kinds else True,
    )


def _validated_ragged(estimator, X, reset):
    """Set or check the number of columns of rows that may differ in length."""
    n_columns = X[0].shape[1] if X[0].ndim == 2 else 1
    if reset:
        estimator.n_features_in_ = n_columns
        estimator.__dict__.pop("feature_names_in_", None)
    elif n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return X
