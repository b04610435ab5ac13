"""Compiled loops of the emissions."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
