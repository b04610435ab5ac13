"""scikit-learn's check of X, with names of columns in messages and in old versions."""

from __future__ import annotations

import inspect

import numpy as np
import sklearn
from sklearn.utils import check_array, validation

from sktem import budget

__all__ = [
    "checked_outputs",
    "text_places",
    "validate_data",
    "without_mask",
    "without_na",
]

#: Whether scikit-learn asks frames other than those of pandas for an exchange protocol
#: to learn the names of columns, which newer ones do not offer.
BY_PROTOCOL = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)


class _Exchanged:
    """A data frame with the exchange protocol, as far as names of columns go."""

    def __init__(self, frame):
        self.frame = frame
        self.shape = frame.shape

    def __len__(self):
        return len(self.frame)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.frame.to_numpy(), dtype=dtype)

    def __dataframe__(self):
        return self

    def column_names(self):
        """Return the names of the columns."""
        return self.frame.columns


def without_mask(X):
    """Return X as an array, with NaN in the place of masked entries.

    Of lists with text it is one of objects, so that numbers stay numbers.
    """
    if not isinstance(X, np.ma.MaskedArray):
        array = np.asarray(X)
        is_text = array.dtype.kind in "US" and isinstance(X, (list, tuple))
        return np.asarray(X, dtype=object) if is_text else array
    if not np.ma.is_masked(X):
        return X.data
    values = X.data.astype(np.result_type(X.dtype, np.float32))
    values[np.ma.getmaskarray(X)] = np.nan
    return values


def text_columns(X):
    """Return the names of the columns of a data frame that are not numbers."""
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return []
    names = []
    for name in X.columns:
        column = X[name]
        if getattr(column, "ndim", 1) != 1:  # two columns of one name
            continue
        values = np.asarray(column)
        if values.dtype.kind in "mM":  # dates and durations
            names.append(name)
        if values.dtype.kind not in "OUS":
            continue
        try:
            without_na(values).astype(np.float64)
        except (TypeError, ValueError):
            names.append(name)
    return names


def _is_valid(estimator, X, options):
    """Return whether X is an array that scikit-learn would return as it is.

    Its checks of a single row take longer than learning from it.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not X.flags.c_contiguous:
        return False
    dtypes = options.get("dtype", ())
    if X.dtype not in (dtypes if isinstance(dtypes, list) else [dtypes]):
        return False
    if len(X) < max(options.get("ensure_min_samples", 1), 1) or "y" in options:
        return False
    fitted = vars(estimator)
    same = fitted.get("n_features_in_") == X.shape[1] > 0
    if not same or "feature_names_in_" in fitted:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))


def validate_data(estimator, X="no_validation", *args, **kwargs):
    """Call scikit-learn's function of this name, after a look at the columns of X."""
    if kwargs.get("reset") is False and not args and _is_valid(estimator, X, kwargs):
        return X
    if isinstance(X, np.ma.MaskedArray):
        X = without_mask(X)
    text_is_meant = kwargs.get("skip_check_array", False)
    if not text_is_meant and (names := text_columns(X)):
        kinds = [str(X[name].dtype).lower() for name in names]
        has_dates = any(kind.startswith(("date", "time")) for kind in kinds)
        raise _text_error(estimator, names, has_dates)
    frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    if BY_PROTOCOL and frame and not hasattr(X, "iloc"):
        X = _Exchanged(X)
    try:
        return validation.validate_data(estimator, X, *args, **kwargs)
    except (TypeError, ValueError) as error:
        if "NAType" in str(error):
            return validate_data(estimator, without_na(X), *args, **kwargs)
        if "could not convert string" in str(error) and np.ndim(X) == 2:
            raise _text_error(estimator, text_places(X)) from None
        place = _not_finite(X, str(error))
        if not place:
            raise
        raise ValueError(f"{str(error).splitlines()[0]} It is in {place}.") from None


def checked_outputs(y, advice=""):
    """Return outputs of a regression as float64, where NaN is not observed."""
    options = {"ensure_all_finite": "allow-nan", "input_name": "y"}
    kind = getattr(getattr(y, "dtype", None), "kind", None) or np.asarray(y).dtype.kind
    try:
        # NumPy would take dates for numbers of nanoseconds or the like.
        if kind not in "mM" and not text_columns(y):
            return check_array(y, dtype=np.float64, ensure_2d=False, **options)
    except TypeError:
        pass
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
    raise ValueError(
        f"y does not hold numbers: pass dates, for example, as numbers of days{advice}."
    )


def _text_error(estimator, names, has_dates=False):
    """Return the error about columns that are not numbers."""
    grouped = "groups" in inspect.signature(estimator.fit).parameters
    advice = ", or pass the labels of subjects as groups" if grouped else ""
    advice = getattr(estimator, "_advice_on_labels", advice)
    if has_dates:
        advice = f", dates for example as numbers of days{advice}"
    return ValueError(
        f"The columns {names} of X do not hold numbers: leave them out or encode "
        f"them{advice}."
    )


def text_places(X):
    """Return the indices of the columns of an array or a list that hold text."""
    places = []
    for j, column in enumerate(without_na(X).T):
        try:
            column.astype(np.float64)
        except ValueError:
            places.append(j)
    return places


def without_na(X):
    """Return objects, or a frame of pandas, with NaN in the place of pandas' NA."""
    if hasattr(X, "iloc"):
        return X.mask(X.isna(), np.nan)
    values = np.array(X, dtype=object)
    is_na = np.frompyfunc(lambda value: type(value).__name__ == "NAType", 1, 1)
    values[is_na(values).astype(bool)] = np.nan
    return values


def _not_finite(X, message):
    """Return where in an array or a frame the value is that scikit-learn refuses."""
    if not message.startswith("Input X contains") or np.ndim(X) != 2:
        return ""
    of_nan = message.startswith("Input X contains NaN")
    frame = hasattr(X, "columns") and hasattr(X, "iloc")
    if not frame and type(X) not in (np.ndarray, np.memmap):
        return ""
    for first in range(0, len(X), budget.MEMORY.rows):
        block = (X.iloc if frame else X)[first : first + budget.MEMORY.rows]
        try:
            block = np.asarray(block, dtype=np.float64)
        except (TypeError, ValueError):
            return ""
        bad = np.isnan(block) if of_nan else np.isinf(block)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            name = repr(X.columns[column]) if frame else str(column)
            return f"row {first + row}, column {name}"
    return ""
