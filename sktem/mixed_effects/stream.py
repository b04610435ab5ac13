"""Learning of mixed-effects models from batches of subjects."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sktem.loop.state import RunSettings
from sktem.loop.stream import Stream, StreamState
from sktem.mixed_effects.model import NO_ANNEALING, NonlinearMixedEffectsModel
from sktem.mixed_effects.problem import Problem
from sktem.schedules import Polynomial

__all__ = ["SubjectStream"]

#: Sweeps per draw: chains of new subjects start at their prior mean.
SWEEPS = 30
#: Subjects per step, and the schedule of the steps.
BATCH, STEPS = 5, Polynomial(alpha=0.7, offset=2.0)


@dataclass
class SubjectStream:
    """The model that learns from chunks of subjects, and its state.

    Attributes
    ----------
    model : NonlinearMixedEffectsModel
        The model, made for the first chunk.
    state : StreamState
        State between chunks.
    """

    model: NonlinearMixedEffectsModel
    state: StreamState

    def __post_init__(self):
        self.model.set_params(annealing=NO_ANNEALING)

    def update(self, problem: Problem, settings: RunSettings, batch_size, step_size):
        """Learn from a chunk; return parameters and statistics."""
        sampler = settings.sampler
        steps = max(SWEEPS, sampler.n_steps)
        stream = Stream(
            replace(
                settings,
                sampler=type(sampler)(**{**sampler.get_params(), "n_steps": steps}),
                step_size=STEPS if step_size == "auto" else settings.step_size,
                batch_size=BATCH if batch_size == "auto" else int(batch_size),
            )
        )
        stream.update(self.state, problem.rows)
        return stream.published(self.state)


def check_same_columns(layout, old) -> None:
    """Raise an error if covariates are used in another way than before."""
    same = layout.subject_columns == old.subject_columns
    if not same or layout.row_columns != old.row_columns:
        raise ValueError(
            "a covariate that was constant within subjects is not any more, or the "
            "other way round; or groups was given in some calls only"
        )
