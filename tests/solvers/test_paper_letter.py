"""Batches of one give Table 1 and (7) to (9) of Karimi and Li to the letter."""

import numpy as np
import pytest

from sktem.e_step.random import spawn_generators
from sktem.samplers import ExactDraws
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM
from tests.oracles import (
    START,
    Recording,
    random_intercept_data,
    run_solver,
    two_timescale_em,
)

X = random_intercept_data(0, n_rows=50)
N_ITERATIONS, N_DRAWS, RHO = 140, 3, 0.05  # almost three epochs
LINES = {
    "isaem": (ISAEM(), 1.0),
    "vrttem": (VRTTEM(rho=RHO), RHO),
    "fittem": (FITTEM(rho=RHO), RHO),
}
SCHEDULES = [Constant(1.0), Polynomial(alpha=0.6)]


def path_of_the_package(solver, schedule, seed):
    model = Recording()
    state = run_solver(
        solver,
        X,
        model=model,
        sampler=ExactDraws(N_DRAWS),
        step_size=schedule,
        max_passes=8,
        seed=seed,
    )
    assert not any(state.history.events.values())  # nothing was repaired
    return np.array(model.seen[:N_ITERATIONS])


def path_of_the_paper(line, schedule, seed, **options):
    generators = spawn_generators(seed)

    def normals(i, iteration, purpose):
        of_row = generators.of_rows(purpose, iteration, np.array([i])).sampling
        return of_row.standard_normal((1, N_DRAWS))[0]

    return two_timescale_em(
        line,
        X,
        START,
        schedule(np.arange(1, N_ITERATIONS + 1)),
        LINES[line][1],
        normals,
        generators.indices,
        **{"period": len(X), **options},
    )


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("line", LINES)
def test_same_trajectory(line, schedule, global_random_seed):
    found = path_of_the_package(LINES[line][0], schedule, global_random_seed)
    expected = path_of_the_paper(line, schedule, global_random_seed)
    assert len(found) == N_ITERATIONS
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_other_epoch_lengths(global_random_seed):
    solver = VRTTEM(rho=RHO, epoch_length=11)
    found = path_of_the_package(solver, SCHEDULES[1], global_random_seed)
    expected = path_of_the_paper("vrttem", SCHEDULES[1], global_random_seed, period=11)
    m = min(len(found), len(expected))
    assert m > 50
    np.testing.assert_allclose(found[:m], expected[:m], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "line, mistake",
    [
        ("isaem", "no 1/n"),
        ("fittem", "no 1/n"),
        ("fittem", "memory by i"),
        ("vrttem", "S_tts at the anchor"),
    ],
)
def test_mistakes_would_show(line, mistake):
    found = path_of_the_package(LINES[line][0], SCHEDULES[1], 0)
    with np.errstate(invalid="ignore"):  # the mistake may lead to a negative variance
        wrong = path_of_the_paper(line, SCHEDULES[1], 0, mistake=mistake)
    assert not np.abs(found - wrong).max() < 1e-3
