"""Arrays of other namespaces do what NumPy's do."""

import importlib

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from sktem import arrays as module
from sktem.arrays import NUMPY, NamespaceArrays, arrays_of, input_arrays
from tests.oracles import to_numpy


def test_numpy_needs_nothing_else():
    assert arrays_of(np.zeros(2)) is NUMPY and arrays_of(np.float32(1)) is NUMPY
    assert NUMPY.xp is np and NUMPY.is_numpy


def test_operations_are_those_of_numpy(xp):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 3))
    other = arrays_of(xp.asarray(a))
    assert isinstance(other, NamespaceArrays) and not other.is_numpy
    x, y = other.asarray(a), other.asarray(b)
    rows = np.array([3, 1])

    def same(found, expected):
        np.testing.assert_allclose(to_numpy(found), expected)

    same(other.copy(x), a)
    same(other.concat([x, y], axis=1), NUMPY.concat([a, b], axis=1))
    same(other.take(x, rows), NUMPY.take(a, rows))
    same(other.row_dots(x, y), NUMPY.row_dots(a, b))
    same(other.contiguous(x), NUMPY.contiguous(a))
    same(other.full((2, 2), 3.0, xp.float64), NUMPY.full((2, 2), 3.0, np.float64))
    assert other.empty((4, 2), xp.float32).dtype == xp.float32
    assert other.astype(x, xp.float32).dtype == xp.float32
    out = other.empty((5, 5), xp.float64)
    other.product(x, y.T, out)
    same(out, a @ b.T)
    expected = a.copy()
    NUMPY.put(expected, rows, b[:2])
    other.put(x, rows, y[:2, :])
    same(x, expected)
    same(other.difference(x, y), NUMPY.difference(expected, b.copy()))


def test_copies_do_not_share_memory(xp):
    a = np.zeros(3)
    x = arrays_of(xp.asarray([0.0])).asarray(a)
    y = arrays_of(x).copy(x)
    a[:], y[:] = 1.0, 2.0
    np.testing.assert_array_equal(to_numpy(x), np.zeros(3))


def test_other_arrays_need_the_configuration_of_scikit_learn(xp, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    x = xp.asarray([[0.0, 1.0]])
    assert input_arrays(x) is NUMPY
    with config_context(array_api_dispatch=True):
        assert input_arrays(x).xp is xp
        for plain in (np.zeros((1, 2)), [[0.0]], sparse.csr_array((2, 2))):
            assert input_arrays(plain) is NUMPY


def test_what_is_missing_is_named(monkeypatch):
    real = importlib.import_module

    class Other:
        pass

    def no_compat(name, *args):
        if name == "array_api_compat":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(module.importlib, "import_module", no_compat)
    module._compat.cache_clear()
    with pytest.raises(ImportError, match="array-api-compat"):
        arrays_of(Other())
    module._compat.cache_clear()
