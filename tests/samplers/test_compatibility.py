"""A wrong pair fails before the first iteration, with a message that helps."""

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.loop.stream import Stream
from sktem.models import RandomInterceptModel
from sktem.samplers import MALA, SAMPLERS, ULA, ExactDraws, ExactExpectation, RandomWalk
from sktem.samplers.compatibility import check_compatible
from sktem.solvers import ISAEM, FullBatch
from tests.oracles import START, Target, run_solver, start_run


class OnlyLatents(Target):
    """Offers initial latents and nothing else."""

    dimension = 1


class OnlyDensity(OnlyLatents):
    def log_joint(self, X, Z, params):
        return -((Z[:, 0]) ** 2)


MISSING = [
    (OnlyLatents(), ExactExpectation(), ["posterior"]),
    (OnlyLatents(), ExactDraws(), ["draw_posterior"]),
    (OnlyLatents(), RandomWalk(), ["log_joint"]),
    (OnlyLatents(), ULA(), ["grad_log_joint"]),
    (OnlyLatents(), MALA(), ["log_joint", "grad_log_joint"]),
    (OnlyDensity(), MALA(), ["grad_log_joint"]),
]


@pytest.mark.parametrize("model, sampler, missing", MISSING)
def test_message_names_both_parts_and_what_is_missing(model, sampler, missing):
    with pytest.raises(TypeError) as caught:
        check_compatible(model, sampler)
    message = str(caught.value)
    assert type(sampler).__name__ in message
    assert type(model).__name__ in message
    assert message.endswith("the model lacks " + ", ".join(missing))


@pytest.mark.parametrize("sampler", [cls() for cls in SAMPLERS.values()])
def test_a_complete_model_fits_all(sampler):
    check_compatible(RandomInterceptModel(), sampler)


@pytest.mark.parametrize("solver", [FullBatch(), ISAEM()])
def test_loop_and_estimator_refuse_before_any_iteration(solver):
    class Spy(OnlyDensity):
        def maximize(self, s, params):
            raise AssertionError("an M-step was done")

        def initial_params(self, X, rng):
            raise AssertionError("a start was made")

    X = np.zeros((10, 1))
    with pytest.raises(TypeError, match="MALA cannot sample Spy.*grad_log_joint"):
        run_solver(solver, X, model=Spy(), sampler=MALA(), params=None)
    with pytest.raises(TypeError, match="MALA cannot sample Spy.*grad_log_joint"):
        StochasticEM(Spy(), solver=solver, sampler="mala").fit(X)
    with pytest.raises(TypeError, match="MALA cannot sample Spy.*grad_log_joint"):
        StochasticEM(Spy(), solver=solver, sampler="mala").partial_fit(X)


def test_stream_refuses():
    settings, _ = start_run(FullBatch(), None, model=OnlyLatents(), params=START)
    with pytest.raises(TypeError, match="ExactExpectation cannot sample OnlyLatents"):
        Stream(settings)
