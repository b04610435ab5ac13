"""Compiled loops of Boltzmann machines."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
