"""Own models of rows that are read by blocks: the fit to the array, to the bits."""

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.models import GaussianMixtureModel, RandomInterceptModel
from sktem.rows.checked import CheckedRows
from tests.rows.adapters import Chunked

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 1)) + rng.normal(size=(900, 4))


def fitted(rows, **settings):
    settings = {"max_iter": 4, "tol": 0, "random_state": 0} | settings
    model = settings.pop("model", None) or RandomInterceptModel()
    return StochasticEM(model, **settings).fit(rows)


def assert_same(one, other):
    np.testing.assert_array_equal(one.statistics_, other.statistics_)
    for name in ("objective", "mean_field"):
        np.testing.assert_array_equal(
            getattr(one.history_, name), getattr(other.history_, name)
        )


@pytest.mark.parametrize("sampler", ["exact", "mc", "rwm", "mala"])
@pytest.mark.parametrize("solver", ["saem", "isaem", "vrttem", "fittem"])
def test_every_solver_and_sampler(solver, sampler):
    settings = {"solver": solver, "sampler": sampler, "sampling": "shuffle"}
    assert_same(fitted(Chunked(X), **settings), fitted(X, **settings))


def test_chains_on_disk(tmp_path):
    settings = {"solver": "saem", "sampler": "mala"}
    assert_same(fitted(X, memory=str(tmp_path), **settings), fitted(X, **settings))
    assert not list(tmp_path.iterdir())


def test_model_that_gets_a_block_at_a_time(memory_budget):
    """``expected_statistics`` of one's own model knows arrays only."""

    class Plain(GaussianMixtureModel):
        reads_blocks = False

        def expected_statistics(self, X, params, sample_weight=None):
            assert isinstance(X, np.ndarray)
            return super().expected_statistics(X, params, sample_weight)

    memory_budget(rows=200)
    weights = rng.uniform(0.5, 2, size=900)
    for sample_weight in (None, weights):
        one, other = (
            StochasticEM(Plain(2), solver="em", max_iter=5, tol=0, random_state=0).fit(
                rows, sample_weight=sample_weight
            )
            for rows in (Chunked(X), X)
        )
        np.testing.assert_allclose(one.statistics_, other.statistics_, rtol=1e-10)


def test_scores_and_streams():
    em = fitted(X)
    np.testing.assert_allclose(em.score(Chunked(X)), em.score(X), rtol=1e-12)
    parts = list(em.score_samples(Chunked(X)))
    np.testing.assert_array_equal(np.concatenate(parts), em.score_samples(X))
    out = np.empty(900)
    assert em.score_samples(Chunked(X), out=out) is out
    streams = [
        StochasticEM(RandomInterceptModel(), solver="online", random_state=0)
        for _ in range(2)
    ]
    streams[0].partial_fit(iter(np.array_split(X, 5)))
    for chunk in np.array_split(X, 5):
        streams[1].partial_fit(chunk)
    np.testing.assert_array_equal(streams[0].statistics_, streams[1].statistics_)


def test_model_gets_a_sample_for_its_start(monkeypatch):
    class Seen(RandomInterceptModel):
        shapes: list = []

        def initial_params(self, X, rng):
            self.shapes.append(X.shape)
            return super().initial_params(X, rng)

    monkeypatch.setattr("sktem.estimators.stochastic_em.MOST_ROWS_OF_START", 300)
    model = Seen()
    fitted(Chunked(X), model=model, max_iter=1)
    assert model.shapes == [(300, 4)]


def test_single_rows_cannot_be_taken():
    with pytest.raises(ValueError, match="sampling='fixed' need rows that can be"):
        fitted(Chunked(X), solver="isaem")
    assert not CheckedRows(Chunked(X)).can_take
