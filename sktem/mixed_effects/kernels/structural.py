"""Compiled twins of the structural models, transforms and residual errors."""

import math

from numba import njit

from sktem.kernels.exponential import exponential
from sktem.kernels.options import INNER

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@njit(**INNER, error_model="numpy")
def transform(code, phi):
    """Equal ``TRANSFORMS[...].forward(phi)`` of the transform with this code."""
    if code == 1:
        return math.exp(phi)
    if code == 2:
        return 1.0 / (1.0 + math.exp(-phi))
    if code == 3:
        return 0.5 * math.erfc(-phi / math.sqrt(2.0))
    return phi


@njit(**INNER, fastmath={"contract"}, error_model="numpy")
def absorption(dose, at, n, lag, ka, V, CL, f):
    """Equal ``f[:] = _oral_lag(...)`` of the models, for the rows of a subject."""
    k = CL / V
    difference = ka - k
    if abs(difference) < 1e-7 * k:
        for i in range(n):
            time = max(at[i] - lag, 0.0)
            f[i] = dose[i] * ka / V * time * exponential(-k * time)
        return
    factor = ka / V / difference
    for i in range(n):
        time = max(at[i] - lag, 0.0)
        ratio = exponential(-k * time) - exponential(-ka * time)
        f[i] = dose[i] * factor * ratio


@njit(**INNER, error_model="numpy")
def two_compartments(psi, dose, at, n, f):
    """Equal ``f[:] = _bolus_two(...)`` of the models, for the rows of a subject."""
    k10 = psi[0] / psi[1]
    k12 = psi[2] / psi[1]
    k21 = psi[2] / psi[3]
    total = k10 + k12 + k21
    root = math.sqrt(max(total * total - 4 * k10 * k21, 0.0))
    alpha = 0.5 * (total + root)
    beta = k10 * k21 / alpha
    fast = (alpha - k21) / (alpha - beta) / psi[1]
    slow = (k21 - beta) / (alpha - beta) / psi[1]
    for i in range(n):
        time = at[i]
        decay = fast * exponential(-alpha * time) + slow * exponential(-beta * time)
        f[i] = dose[i] * decay


@njit(**INNER, error_model="numpy")
def predict(code, psi, first, second, n, f):
    """Equal ``f[:n] = STRUCTURAL_MODELS[...].function(psi, x)``.

    The two columns of x are those of n rows of one subject.
    """
    if code == 1:
        absorption(first, second, n, 0.0, psi[0], psi[1], psi[2], f)
    elif code == 2:
        absorption(first, second, n, psi[0], psi[1], psi[2], psi[3], f)
    elif code == 3:
        rate = psi[1] / psi[0]
        for i in range(n):
            decay = exponential(-rate * second[i])
            f[i] = first[i] / psi[0] * decay
    elif code == 4:
        two_compartments(psi, first, second, n, f)
    elif code == 5:
        for i in range(n):
            x = first[i]
            f[i] = psi[0] + psi[1] * x / (psi[2] + x)
    elif code == 6:
        for i in range(n):
            grown = exponential(-(first[i] - psi[1]) / psi[2])
            f[i] = psi[0] / (1.0 + grown)
    elif code == 7:
        for i in range(n):
            rest = psi[1] * exponential(-psi[2] * first[i])
            f[i] = psi[0] * (1.0 - rest)
    else:
        for i in range(n):
            f[i] = psi[0] + psi[1] * first[i]


@njit(**INNER, error_model="numpy")
def squared_residual(code, y, f, least):
    """Equal ``square(y, f, least)`` of the residual error, for one row."""
    if code == 1:
        residual = (y - f) / max(abs(f), least)
    elif code == 3:
        residual = math.log(y) - math.log(f)
    elif code == 2:
        return 0.0
    else:
        residual = y - f
    return residual * residual


@njit(**INNER, error_model="numpy")
def log_density(code, y, f, a, b, least):
    """Equal ``log_density(y, f, (a, b), least)`` of the error, for one row."""
    if code == 0:
        residual = (y - f) / a
        return -0.5 * residual * residual - math.log(a) - HALF_LOG_TWO_PI
    if code == 3:
        log_y = math.log(y)
        residual = (log_y - math.log(f)) / a
        return -0.5 * residual * residual - math.log(a) - HALF_LOG_TWO_PI - log_y
    if code == 1:
        g = b * max(abs(f), least)
    else:
        g = math.sqrt(a * a + b * b * f * f)
    residual = (y - f) / g
    return -0.5 * residual * residual - math.log(g) - HALF_LOG_TWO_PI
