"""Compiled recursions of hidden Markov models."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
