"""Transitions with a fault, which tests of samplers and of estimates must find."""

from sktem.samplers import MALA, RandomWalk


class StaleDensity(RandomWalk):
    """Compares with the log-density of the state before last."""

    def _transition(self, model, X, state, params, generators, move):
        (Z, _), accepted, events = super()._transition(
            model, X, state, params, generators, move
        )
        return (Z, state[1]), accepted, events


class StaleGradient(MALA):
    """Proposes with the gradient of the state before last."""

    def _transition(self, model, X, state, params, generators, move):
        new, accepted, events = super()._transition(
            model, X, state, params, generators, move
        )
        return (new[0], new[1], state[2]), accepted, events
