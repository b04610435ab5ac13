"""Integrals over random effects in which predictions have kinks, such as lag times."""

from dataclasses import replace

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.mixed_effects.inference import conditional
from sktem.mixed_effects.last_climb import ClimbRule, LastClimb, NodeRule

TIMES = np.array([0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0])
VALUES = {"CL": 4.0, "V": 30.0, "KA": 1.5, "ALAG": 0.5}


def concentration(CL, V, KA, ALAG):
    """Return concentrations after a dose of 100, along a last axis."""
    k, since = np.asarray(CL / V)[..., None], TIMES - np.asarray(ALAG)[..., None]
    since = np.maximum(since, 0.0)
    return 100 / V * KA / (KA - k) * (np.exp(-k * since) - np.exp(-KA * since))


def observed(spread=0.5):
    """Return concentrations of subjects, one a row, with errors of .05."""
    n, rng = 24, np.random.default_rng(3)
    CL = VALUES["CL"] * np.exp(0.3 * rng.standard_normal(n))
    lag = VALUES["ALAG"] * np.exp(spread * rng.standard_normal(n))
    noise = rng.standard_normal((n, len(TIMES) + 1))[:, 1:]
    return (concentration(CL, 30.0, 1.5, lag) + 0.05 * noise)[16:]


def records(y):
    n, m = len(y), len(TIMES) + 1
    return read_nonmem({
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile([0.0, *TIMES], n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "CMT": np.tile([1] + [2] * (m - 1), n),
        "DV": np.column_stack([np.zeros(n), y]).ravel(),
    })  # fmt: skip


def estimator(omega=("CL", "ALAG")):
    return NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"), parameters=VALUES, omega=list(omega),
        random_state=0,
    )  # fmt: skip


def by_grid(fit, y):
    """Log-likelihood by a fine grid of the random effects of clearance and lag."""
    psi = fit.population_parameters_
    grid = np.linspace(-6, 6, 481)
    widths = np.sqrt(np.diag(fit.omega_))
    assert fit.random_effects_ == ["CL", "ALAG"]
    CL = psi["CL"] * np.exp(widths[0] * grid[:, None])
    f = concentration(CL, psi["V"], psi["KA"], psi["ALAG"] * np.exp(widths[1] * grid))
    weight = np.exp(-0.5 * (grid[:, None] ** 2 + grid**2)) / (2 * np.pi)
    a, total = fit.residual_error_["a"], 0.0
    for one in y:
        squares = ((f - one) ** 2).sum(axis=-1) / a**2
        lowest = squares.min()
        integral = (weight * np.exp(-0.5 * (squares - lowest))).sum()
        total += np.log(integral * (grid[1] - grid[0]) ** 2) - 0.5 * lowest
        total -= len(one) * np.log(a * np.sqrt(2 * np.pi))
    return total


def test_likelihood_equals_a_fine_grid(monkeypatch):
    """Modes lie at kinks, whose curvature says nothing of widths."""
    y = observed()
    fit = estimator().fit(records(y))
    exact = by_grid(fit, y)
    assert fit.converged_
    assert fit.log_likelihood() == pytest.approx(exact, abs=0.05)
    assert fit.log_likelihood(method="quadrature", n_nodes=15) == pytest.approx(
        exact, abs=0.2
    )
    # Negative control: quadrature as wide as curvatures.
    narrow = conditional.MODES._replace(most_widenings=0)
    monkeypatch.setattr(conditional, "MODES", narrow)
    fit = estimator().fit(records(y))
    few = fit.log_likelihood(method="quadrature", n_nodes=15)
    assert few < by_grid(fit, y) - 0.5


def test_draws_take_the_place_of_nodes_that_change_the_likelihood():
    y = observed()
    fit = estimator().fit(records(y))
    nodes = NodeRule(same=(0.01, 0.15, 0.01), alike=(0.05, 0.2, 0.01), n_draws=4000)
    rule = ClimbRule(nodes=replace(nodes, most_of_subject=300))
    climb = LastClimb(fit.fitted_.problem, fit.fitted_.vector, rule)
    ascent = climb.ascended(fit.params_, np.random.default_rng(0))
    assert ascent.by_nodes.shift == 0.0
    assert not climb.doubt(ascent)
    assert ascent.value == pytest.approx(by_grid(fit, y), abs=0.1)


def test_covariances_have_a_root_whatever_curvatures_are():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((50, 2, 2)))[0]
    curvature = (axes * [1e18, 1e-2]) @ axes.transpose(0, 2, 1)

    def covariances(least_share):
        with pytest.MonkeyPatch.context() as patch:
            search = conditional.MODES._replace(least_share=least_share)
            patch.setattr(conditional, "MODES", search)
            values, vectors = conditional._positive(curvature)
        roots = vectors / np.sqrt(values)[:, None]
        return roots @ roots.transpose(0, 2, 1)

    np.linalg.cholesky(covariances(conditional.MODES.least_share))
    # Negative control: rounding leaves none.
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(covariances(0.0))
