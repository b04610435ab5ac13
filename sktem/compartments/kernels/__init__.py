"""Compiled loops over the records of subjects."""

import sktem.kernels  # noqa: F401  says where compiled code is kept
