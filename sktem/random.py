"""Random streams: the public path of :mod:`sktem.e_step.random`."""

from sktem.e_step.random import Streams, seed_sequence, spawn_streams

__all__ = ["Streams", "seed_sequence", "spawn_streams"]
