"""Arrays of NumPy or of another namespace that follows the array API standard.

Code that runs on both asks :func:`arrays_of` for operations that the two spell
differently and takes everything else (sums, logarithms, ``@``) from its ``xp``. Its
results have the namespace and the device of its input. Other namespaces need
array-api-compat, which is imported when the first such array is seen.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config

from sktem import budget

__all__ = [
    "NUMPY",
    "NamespaceArrays",
    "NumpyArrays",
    "TensorRows",
    "arrays_of",
    "input_arrays",
    "numpy_of",
]


class NumpyArrays:
    """Operations that have other names in NumPy than in the standard.

    Attributes
    ----------
    xp : module
        The namespace.
    device : object
        The device, None for NumPy.
    is_numpy : bool
        Whether the arrays are NumPy's.
    """

    xp: Any = np
    device: Any = None
    is_numpy = True

    def asarray(self, values, dtype=None):
        """Return values as an array of the namespace, on its device."""
        return np.asarray(values, dtype)

    def copy(self, values):
        """Return a copy."""
        return values.copy()

    def astype(self, values, dtype):
        """Return an array of a dtype, the same one if it has it already."""
        return values.astype(dtype, copy=False)

    def concat(self, parts, axis=0):
        """Concatenate arrays."""
        return np.concatenate(parts, axis=axis)

    def contiguous(self, values):
        """Return an array in C order, if compiled loops need it."""
        return np.ascontiguousarray(values)

    def empty(self, shape, dtype):
        """Return an array without values."""
        return np.empty(shape, dtype)

    def full(self, shape, value, dtype):
        """Return an array of one value."""
        return np.full(shape, value, dtype)

    def take(self, values, rows):
        """Return the rows whose indices are in a NumPy array."""
        return values[rows]

    def take_columns(self, values, columns):
        """Return the columns whose indices are in a NumPy array."""
        return values[:, columns]

    def put(self, table, rows, values):
        """Replace the rows whose indices are in a NumPy array."""
        table[rows] = values

    def to_numpy(self, values):
        """Return an array of NumPy."""
        return values

    def product(self, a, b, out=None):
        """Return ``a @ b``, written into `out` if given."""
        return np.matmul(a, b, out=out)

    def difference(self, a, b):
        """Return ``a - b``, possibly in place of b."""
        return np.subtract(a, b, out=b)

    def row_dots(self, a, b):
        """Return the inner product of each row of a with that of b, in float64."""
        return np.einsum("ij,ij->i", a, b, dtype=np.float64)


class NamespaceArrays:
    """The same operations under the names of the standard.

    Parameters
    ----------
    xp : module
        The namespace, as array-api-compat wraps it.
    device : object
        The device.
    """

    is_numpy = False

    def __init__(self, xp, device):
        self.xp, self.device = xp, device

    def asarray(self, values, dtype=None):
        """Return values as an array of the namespace, on its device."""
        # A copy, since the namespace may share the memory of a NumPy array.
        if isinstance(values, np.ndarray):
            values = np.array(values)
        return self.xp.asarray(values, dtype=dtype, device=self.device)

    def copy(self, values):
        """Return a copy."""
        return self.xp.asarray(values, copy=True)

    def astype(self, values, dtype):
        """Return an array of a dtype, the same one if it has it already."""
        return self.xp.astype(values, dtype, copy=False)

    def concat(self, parts, axis=0):
        """Concatenate arrays."""
        return self.xp.concat(parts, axis=axis)

    def contiguous(self, values):
        """Return an array in C order, if compiled loops need it."""
        return values

    def empty(self, shape, dtype):
        """Return an array without values."""
        return self.xp.empty(shape, dtype=dtype, device=self.device)

    def full(self, shape, value, dtype):
        """Return an array of one value."""
        return self.xp.full(shape, value, dtype=dtype, device=self.device)

    def take(self, values, rows):
        """Return the rows whose indices are in a NumPy array."""
        return self.xp.take(values, self.asarray(rows), axis=0)

    def take_columns(self, values, columns):
        """Return the columns whose indices are in a NumPy array."""
        return self.xp.take(values, self.asarray(columns), axis=1)

    def to_numpy(self, values):
        """Return an array of NumPy, copied from the device."""
        if hasattr(values, "cpu"):  # torch
            values = values.cpu()
        elif hasattr(values, "get"):  # cupy
            values = values.get()
        elif hasattr(self.xp, "Device"):  # array-api-strict
            host = self.xp.Device("CPU_DEVICE")
            values = self.xp.asarray(values, device=host)
        return np.asarray(values)

    def put(self, table, rows, values):
        """Replace the rows whose indices are in a NumPy array."""
        try:
            table[self.asarray(rows)] = values
        except IndexError:
            # The standard does not promise assignment to rows that are listed.
            for position, row in enumerate(rows):
                table[int(row), ...] = values[position, ...]

    def product(self, a, b, out=None):
        """Return ``a @ b``, written into `out` if given."""
        if out is None:
            return a @ b
        out[...] = a @ b
        return out

    def difference(self, a, b):
        """Return ``a - b``, possibly in place of b."""
        return a - b

    def row_dots(self, a, b):
        """Return the inner product of each row of a with that of b, in float64."""
        return self.xp.sum(a * b, axis=1, dtype=self.xp.float64)


NUMPY = NumpyArrays()


@functools.cache
def _compat():
    try:
        return importlib.import_module("array_api_compat")
    except ImportError as error:
        raise ImportError(
            "arrays other than NumPy's need the package array-api-compat"
        ) from error


def arrays_of(values, numpy=NUMPY, other=NamespaceArrays):
    """Return the operations for the namespace and device of an array.

    Parameters
    ----------
    values : array or sparse matrix
        An array of it.
    numpy : NumpyArrays, default=NUMPY
        Returned for NumPy, and sparse matrices of SciPy.
    other : callable, default=NamespaceArrays
        Called with another namespace and the device.

    Returns
    -------
    NumpyArrays or NamespaceArrays
        Operations.
    """
    if isinstance(values, (np.ndarray, np.generic)) or sparse.issparse(values):
        return numpy
    compat = _compat()
    return other(compat.array_namespace(values), compat.device(values))


def input_arrays(X):
    """Return the arrays that a user's data ask for.

    They are NumPy's unless ``sklearn.config_context(array_api_dispatch=True)`` holds
    and X is an array of another namespace, as everywhere in scikit-learn.

    Parameters
    ----------
    X : object
        Data of any kind.

    Returns
    -------
    NumpyArrays or NamespaceArrays
        Operations.
    """
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"]:
        return NUMPY
    # Sparse matrices, data frames and lists have neither of the two.
    if not hasattr(X, "__array_namespace__") and not hasattr(X, "__dlpack__"):
        return NUMPY
    compat = _compat()
    if not compat.is_array_api_obj(X):
        return NUMPY
    return arrays_of(X)


@dataclass(frozen=True)
class TensorRows:
    """Rows of an array that is not NumPy's, taken by row indices of NumPy.

    Attributes
    ----------
    values : array of shape (n_rows, n_features)
        The array, of any namespace and device.
    """

    values: Any

    @property
    def shape(self):
        """Numbers of rows and columns."""
        return self.values.shape

    @property
    def dtype(self):
        """Type of the values, as NumPy names it."""
        xp = arrays_of(self.values).xp
        return np.dtype(np.float32 if self.values.dtype == xp.float32 else np.float64)

    def __len__(self):
        return self.values.shape[0]

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            # The standard has no slices beyond the end.
            start, stop, step = rows.indices(len(self))
            return TensorRows(self.values[start : max(start, stop) : step, :])
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return TensorRows(arrays_of(self.values).take(self.values, rows))

    def take(self, rows, axis=0):
        """Return the rows of given indices."""
        return self[np.asarray(rows)]

    def rows_at_once(self, values_per_row) -> int:
        """Return the rows of a block whose largest temporary has such rows."""
        on_gpu = "cpu" not in str(arrays_of(self.values).device).lower()
        most = budget.MEMORY.values if on_gpu else budget.MEMORY.cached
        return max(1, most // values_per_row)

    def largest_sizes(self):
        """Return the largest absolute value of each column, of NumPy."""
        arrays = arrays_of(self.values)
        return arrays.to_numpy(arrays.xp.max(arrays.xp.abs(self.values), axis=0))

    def __array__(self, dtype=None, copy=None):
        values = arrays_of(self.values).to_numpy(self.values)
        return values.astype(dtype) if dtype is not None else values


def numpy_of(values, dtype=None):
    """Return an array of any namespace as one of NumPy."""
    if hasattr(values, "__dlpack__"):
        values = arrays_of(values).to_numpy(values)
    return np.asarray(values, dtype=dtype)
