"""Machines learn from rows that are read by blocks as from the array."""

import numpy as np
import pytest

from sktem import LatentBoltzmannMachine
from tests.rows.adapters import ADAPTERS, Chunked

rng = np.random.default_rng(0)
BITS = (rng.random((400, 6)) < rng.choice([0.2, 0.8], size=(400, 1))).astype(float)
VALUES = rng.normal(size=(400, 6)) + rng.choice([-2.0, 2.0], size=(400, 1))


def machine(**options):
    options = {"hidden_layer_sizes": (3,), "max_iter": 8, "random_state": 0, **options}
    return LatentBoltzmannMachine(**options)


@pytest.mark.filterwarnings("ignore:The fit has not converged")
def test_few_values_are_used_as_the_array():
    whole = machine().fit(BITS)
    np.testing.assert_array_equal(machine().fit(Chunked(BITS)).params_, whole.params_)


@pytest.mark.filterwarnings("ignore:The fit has not converged")
@pytest.mark.parametrize(
    "options",
    [
        {"e_step": "gibbs", "tol": None},
        {"hidden_layer_sizes": (3, 2), "batch_size": 32, "step_size_m": 0.01},
        {"visible": "gaussian", "step_size_m": 0.01},
        {"binarize": "sample", "tol": None},
    ],
)
def test_batches_of_many_values_are_those_of_the_array(
    options, tmp_path, memory_budget
):
    X = VALUES if options.get("visible") == "gaussian" else BITS
    whole = machine(**options).fit(X)
    memory_budget(kept=0)
    fitted = machine(**options).fit(ADAPTERS["npy files"](X, tmp_path))
    np.testing.assert_array_equal(fitted.params_, whole.params_)
    assert fitted.history_.objective == whole.history_.objective


def test_values_that_are_not_observed(tmp_path, memory_budget):
    memory_budget(kept=0)
    X = BITS.copy()
    X[::7, 2] = np.nan
    options = {"max_iter": 3, "tol": None}
    whole = machine(**options).fit(X)
    fitted = machine(**options).fit(ADAPTERS["npy files"](X, tmp_path))
    np.testing.assert_array_equal(fitted.params_, whole.params_)
    X[200, 3] = np.inf
    with pytest.raises(ValueError, match="infinity: in row 200, column 3"):
        machine().fit(Chunked(X))


@pytest.mark.filterwarnings("ignore:The fit has not converged")
def test_buffers_visit_each_row_once(memory_budget):
    """Where a buffer does not hold all rows, the mean of a stable machine is found."""
    memory_budget(kept=600)
    fitted = machine(hidden_layer_sizes=(2,), max_iter=100, tol=None)
    fitted.fit(Chunked(BITS))
    log_likelihood = fitted.score(BITS, method="exact")
    best = machine(hidden_layer_sizes=(2,), max_iter=100).fit(BITS)
    worst = machine(hidden_layer_sizes=(2,), max_iter=1, tol=None).fit(BITS)
    top = best.score(BITS, method="exact")
    gap = top - worst.score(BITS, method="exact")
    assert 0 <= top - log_likelihood < 0.1 * gap


@pytest.mark.filterwarnings("ignore:The fit has not converged")
def test_answers_by_blocks(tmp_path):
    fitted = machine().fit(BITS)
    rows = ADAPTERS["npy files"](BITS, tmp_path)
    for name in (
        "transform",
        "free_energy",
        "score_samples",
        "pseudo_log_likelihood",
    ):
        answer = getattr(fitted, name)
        expected = answer(BITS)
        np.testing.assert_array_equal(np.concatenate(list(answer(rows))), expected)
        out = np.empty_like(expected)
        assert answer(rows, out=out) is out
        np.testing.assert_array_equal(out, expected)
    assert fitted.score(rows) == fitted.score(BITS)


def test_stream_takes_iterators_and_rows():
    whole = machine().partial_fit(BITS)
    for rows in (Chunked(BITS), iter(np.array_split(BITS, 7))):
        stream = machine().partial_fit(rows)
        np.testing.assert_array_equal(stream.params_, whole.params_)
        assert stream.n_samples_seen_ == 400


def test_values_out_of_range():
    with pytest.raises(ValueError, match=r"X must be in \[0, 1\]"):
        machine(visible="binary").fit(Chunked(VALUES))


def test_weights(tmp_path, memory_budget):
    weights = rng.integers(1, 4, size=400).astype(float)
    options = {"max_iter": 3, "tol": None}
    for X in (BITS, VALUES):
        options["visible"] = "binary" if X is BITS else "gaussian"
        whole = machine(**options).fit(X, sample_weight=weights)
        memory_budget(kept=1000)
        rows = ADAPTERS["npy files"](X, tmp_path)
        fitted = machine(**options).fit(rows, sample_weight=weights)
        np.testing.assert_array_equal(fitted.params_, whole.params_)
        with pytest.raises(ValueError, match="taken one by one"):
            machine(**options).fit(Chunked(X), sample_weight=weights)
        with pytest.raises(ValueError, match="leave out the rows"):
            machine(**options).fit(rows, sample_weight=weights - 1)
    with pytest.raises(ValueError, match="single array"):
        machine().partial_fit(Chunked(BITS), sample_weight=weights)
