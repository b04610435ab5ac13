"""Random generators: the public path of :mod:`sktem.e_step.random`."""

from sktem.e_step.random import Generators, seed_sequence, spawn_generators

__all__ = ["Generators", "seed_sequence", "spawn_generators"]
