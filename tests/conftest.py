"""What all tests share: seeds, threads, figures and the real data."""

import os
from pathlib import Path

# Before any import that could load pyplot; subprocesses of the tests inherit it.
os.environ["MPLBACKEND"] = "Agg"

import pytest
import sklearn.cluster  # noqa: F401  loads every BLAS and OpenMP library
import threadpoolctl
from hypothesis import settings

from sktem.budget import MemoryBudget
from tests.defaults.harness import shared_path

SEED_VARIABLE = "SKTEM_TESTS_GLOBAL_RANDOM_SEED"
DEVICE_VARIABLE = "SKTEM_TESTS_TORCH_DEVICE"
REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples in each run, so that a failure can be repeated; no deadline,
# because the first call of a compiled function takes seconds.
settings.register_profile("sktem", derandomize=True, deadline=None)
settings.load_profile("sktem")


def read_seeds(text):
    """Return the seeds that a value of the environment variable stands for."""
    if text == "all":
        return range(100)
    first, dash, last = text.partition("-")
    try:
        seeds = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise pytest.UsageError(
            f"{SEED_VARIABLE} has to be an integer, a range such as '0-9', or 'all', "
            f"got {text!r}"
        )
    return seeds


def pytest_generate_tests(metafunc):
    """Run a test that takes `global_random_seed` once for each asked seed."""
    if "global_random_seed" in metafunc.fixturenames:
        seeds = read_seeds(os.environ.get(SEED_VARIABLE, "42"))
        metafunc.parametrize("global_random_seed", seeds)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    # Several test processes share the cores, and matrices here are small.
    with threadpoolctl.threadpool_limits(limits=1):
        yield


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request):
    """Return a namespace other than NumPy, as array-api-compat wraps it.

    Tensors of torch are made on the device that ``SKTEM_TESTS_TORCH_DEVICE`` names.
    """
    pytest.importorskip("scipy", "1.14", reason="scikit-learn dispatches from 1.14 on")
    compat = pytest.importorskip("array_api_compat")
    library = pytest.importorskip(request.param)
    device = os.environ.get(DEVICE_VARIABLE)
    if request.param == "torch" and device is not None:
        before = library.get_default_device()
        library.set_default_device(device)
        request.addfinalizer(lambda: library.set_default_device(before))
    return compat.array_namespace(library.asarray([0.0]))


@pytest.fixture
def pyplot():
    """matplotlib.pyplot, whose figures are closed after the test."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


@pytest.fixture
def memory_budget(monkeypatch):
    """Return a function that sets sizes of the memory budget, the others as ever."""

    def limited(**sizes):
        monkeypatch.setattr("sktem.budget.MEMORY", MemoryBudget(**sizes))

    return limited


@pytest.fixture(scope="session")
def shared_data():
    """Find a file of the shared real data, or skip the test.

    ``shared_data("images/usps.npz")`` is a path in the folder of `SHARED_DATA`.
    """
    return shared_path
