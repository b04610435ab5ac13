"""Compiled loops of the mixture."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
