"""Compiled loops of deformable templates."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
