"""Claims of a fit are measured on all rows, also where progress was on a sample."""

import warnings

import numpy as np
import pytest

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.loop.loop import run
from sktem.models import RandomInterceptModel
from sktem.schedules import Polynomial
from sktem.solvers import OnlineEM
from tests.oracles import Counting, random_intercept_data, start_run

X = random_intercept_data(3, n_rows=2600)
PIXELS = np.random.default_rng(1).normal(120, 60, size=(2600, 9)).clip(0, 255).round()


def fitted(estimator, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(data)


@pytest.mark.parametrize("solver", ["em", "iem", "vrttem", "fittem", "saem", "isaem"])
def test_convergence_is_judged_on_all_rows(solver):
    """A sample of 2,000 is enough to see progress, not to say that there is none."""
    em = StochasticEM(
        RandomInterceptModel(), solver=solver, random_state=0, tol=1e-3, max_iter=300
    )
    fitted(em, X)
    assert em.converged_
    history = em.history_
    spent = np.diff(history.monitor_passes)
    draws = 2 if solver == "saem" else 1
    assert spent[0] == pytest.approx(draws * 2000 / len(X))
    assert spent[-1] == 1
    assert history.of_sample[0] and not history.of_sample[-1]
    assert history.objective[-1] == pytest.approx(em.score(X), rel=1e-12)
    assert min(history.mean_field) >= 0


def test_a_pass_of_em_is_not_measured_twice():
    model = Counting()
    em = fitted(StochasticEM(model, solver="em", max_iter=4, tol=0), X[:500])
    assert sum(model.visits) == 2 * 4 * 500
    assert em.history_.monitor_passes[-1] == 4


@pytest.mark.parametrize("solver", ["em", "iem", "isaem", "saem", "online"])
@pytest.mark.parametrize("max_iter", [3, 100])
def test_lower_bound_is_of_all_rows(solver, max_iter):
    """Also where the passes are used up: .10 nats off on a sample of phoneme."""
    mixture = StochasticEMGaussianMixture(
        3, covariance_type="diag", solver=solver, max_iter=max_iter, random_state=0
    )
    fitted(mixture, PIXELS)
    off = mixture.score(PIXELS) - mixture.lower_bound_
    # EM's bound is at the parameters before its last M-step, as scikit-learn's.
    assert abs(off) < (1e-9 if solver in ("isaem", "saem", "iem") else 0.05)
    assert np.nanmin(mixture.history_.mean_field) >= 0


def test_averaged_iterates_have_their_own_bound():
    mixture = StochasticEMGaussianMixture(
        2, solver="saem", max_iter=20, tol=0, average=5, random_state=0
    )
    fitted(mixture, PIXELS[:500])
    assert mixture.lower_bound_ == pytest.approx(mixture.score(PIXELS[:500]), rel=1e-12)
    assert mixture.lower_bound_ != mixture.lower_bounds_[-1]


def test_incremental_em_goes_on_where_a_sample_stands_still(monkeypatch):
    """It said that it had converged with .11 nats a row left."""
    pixels = np.random.default_rng(1).normal(120, 60, size=(4000, 9))
    pixels = pixels.clip(0, 255).round()
    options = {"covariance_type": "diag", "random_state": 1, "max_iter": 1500}
    best = fitted(StochasticEMGaussianMixture(5, **options), pixels).score(pixels)
    mixture = StochasticEMGaussianMixture(5, solver="iem", **options)
    assert fitted(mixture, pixels).converged_
    assert mixture.score(pixels) > best - 1e-3
    monkeypatch.setattr("sktem.loop.loop.next_stage", lambda *arguments: None)
    assert fitted(mixture, pixels).converged_
    assert mixture.score(pixels) < best - 0.1


def test_runs_with_exact_draws_end_without_their_noise(monkeypatch):
    """All ten said that they had converged, up to 8e-4 nats a row short."""

    def left(seed):
        rows = random_intercept_data(seed, n_rows=60)
        options = {"max_iter": 200, "random_state": seed}
        em = StochasticEM(RandomInterceptModel(), solver="mcem", **options)
        best = StochasticEM(RandomInterceptModel(), tol=1e-10, **options).fit(rows)
        assert fitted(em, rows).converged_
        return best.score(rows) - em.score(rows)

    assert max(map(left, range(10))) < 1e-6
    monkeypatch.setattr("sktem.loop.loop.next_stage", lambda *arguments: None)
    assert max(map(left, range(10))) > 1e-4


def test_no_batches_are_drawn_for_passes_of_em():
    """Rows that are read in order were read for each, and thrown away."""
    settings, state = start_run(
        OnlineEM(), X, batch_size=100, max_passes=40, tol=1e-3, step_size=Polynomial()
    )
    batches, passes = [], []

    def note(state):
        place = str(state.generators.indices.bit_generator.state)
        (passes if state.judged_from else batches).append(place)
        return False

    run(settings, X, state, on_epoch=note)
    assert len(set(batches)) == len(batches) > 1
    assert len(passes) > 1 and set(passes) == {batches[-1]}
