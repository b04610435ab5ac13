"""Small mixed-effects fits that several test files look at."""

from functools import cache

import numpy as np
import pandas as pd

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment

__all__ = [
    "DOSES",
    "bolus_fit",
    "bolus_rows",
    "doses_of_two_occasions",
    "line_fit",
    "line_rows",
]

#: Doses of the subjects by turns.
DOSES = (50.0, 100.0, 200.0)


def bolus_rows(seed=0, n=40, m=5, error="constant"):
    """Doses, times and concentrations of n subjects, and their labels."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    dose = np.resize(DOSES, n)[groups]
    X = np.column_stack([dose, np.tile(np.linspace(1, 9, m), n)])
    V, CL = (np.array([10, 2]) * np.exp([0.2, 0.3] * rng.normal(size=(n, 2)))).T
    f = dose / V[groups] * np.exp(-CL[groups] / V[groups] * X[:, 1])
    noise = rng.normal(size=len(f))
    y = {
        "constant": f + 0.3 * noise,
        "proportional": f * (1 + 0.2 * noise),
        "combined": f + np.sqrt(0.3**2 + (0.1 * f) ** 2) * noise,
        "exponential": f * np.exp(0.2 * noise),
    }[error]
    return X, y, groups


@cache
def bolus_fit(error="constant"):
    """A fit to these rows, with the residual error that they have."""
    X, y, groups = bolus_rows(error=error)
    return NonlinearMixedEffectsRegressor(
        "one_compartment_iv",
        parameters={"V": 10.0, "CL": 2.0},
        residual_error=error,
        tol=0,
        max_iter=100,
        random_state=0,
    ).fit(X, y, groups=groups)


def line_rows(seed=0, n=40, m=5):
    """Places and values on a line of its own for each subject."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(-1, 1, m), n)
    effects = rng.normal(size=(n, 2)) * [1.0, 0.6]
    y = 2 + effects[groups, 0] + (3 + effects[groups, 1]) * x
    return x[:, None], y + 0.5 * rng.normal(size=n * m), groups


@cache
def line_fit():
    """A fit to these rows, the exact marginal law of which is Gaussian."""
    X, y, groups = line_rows()
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 1.0, "slope": 1.0},
        transforms="normal",
        tol=0,
        max_iter=100,
        random_state=0,
    ).fit(X, y, groups=groups)


def doses_of_two_occasions(seed, n=15):
    """Return records of subjects whose clearances vary, but not by occasion."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "ID": np.repeat(np.arange(n), 5),
        "TIME": np.tile([0.0, 1, 2, 4, 8], n),
        "AMT": np.tile([100.0, 0, 0, 0, 0], n),
        "OCC": np.tile([1.0, 1, 1, 2, 2], n),
    })  # fmt: skip
    psi = {"CL": 2 * np.exp(0.3 * rng.standard_normal(n)), "V": 20.0}
    f = OneCompartment().predict(frame, psi)
    frame["DV"] = f * (1 + 0.1 * rng.standard_normal(5 * n)) * (frame.AMT == 0)
    return frame
