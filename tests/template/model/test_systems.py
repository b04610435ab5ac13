"""Equations of the template against the same equations with square matrices."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from sktem.models import DeformableTemplateModel, ImageGrid, TemplatePriors
from sktem.template.geometry.products import BandedGrams
from sktem.template.model.priors import posterior_template
from sktem.template.model.statistics import split
from sktem.template.model.systems import (
    Equations,
    FactoredSystem,
    SeparableSystem,
    conjugate_gradients,
    solver_of,
    systems_of,
)
from tests.template.oracles import (
    gram_of,
    kernel_of_landmarks,
    square,
)

GRIDS = {
    "signal": ImageGrid((60,), (45,), (5,), 1.5, 12.0),
    "image": ImageGrid((24, 17), (22, 19), (4, 3), 1.4, 6.0, 0.3),
    "volume": ImageGrid((6, 9, 7), (5, 12, 6), (2, 2, 2), 0.7, 5.0, 0.3),
}
OF_GRID = pytest.mark.parametrize("name", GRIDS)


def problem(name):
    grid, rng = GRIDS[name], np.random.default_rng(0)
    model = DeformableTemplateModel(grid, TemplatePriors(0.3, 4.0, 3.0))
    Y = rng.normal(size=(3, grid.n_pixels))
    Z = 0.3 * rng.normal(size=(3, grid.n_latents))
    return grid, split(grid, model.mean_statistics(Y, Z)), rng


@OF_GRID
def test_bands_hold_the_matrix(name):
    grid, part, rng = problem(name)
    bands, x = grid.grams, rng.normal(size=grid.n_template)
    landmarks = kernel_of_landmarks(grid)
    np.testing.assert_allclose(square(bands.of_landmarks), landmarks, atol=1e-12)
    matrix = bands.of(part.middle)
    expected = square(matrix)
    np.testing.assert_array_equal(bands.diagonal(matrix), np.diag(expected))
    np.testing.assert_allclose(
        bands.product(matrix, x), expected @ x, atol=1e-11 * np.abs(expected).max()
    )


@OF_GRID
def test_systems_are_solved(name):
    grid, part, rng = problem(name)
    grams, b = grid.grams, rng.normal(size=grid.n_template)
    matrix = grams.of(part.middle) + 0.1 * grams.of_landmarks
    x = solver_of(grams, matrix, 1e-8)(b)
    np.testing.assert_allclose(square(matrix) @ x, b, atol=1e-9)
    other = matrix + 0.05 * grams.of_landmarks
    found = conjugate_gradients(
        lambda v: grams.product(other, v), b, x, solver_of(grams, matrix, 1e-8),
        1e-10, 50,
    )  # fmt: skip
    np.testing.assert_allclose(square(other) @ found, b, atol=1e-7)


def test_conjugate_gradients_give_up():
    """A preconditioner that is of no use: no answer rather than a wrong one."""
    scales = np.logspace(-8, 8, 200)
    b = np.ones(200)
    assert (
        conjugate_gradients(lambda v: scales * v, b, 0 * b, lambda v: v, 1e-10, 50)
        is None
    )


def test_lost_definiteness_is_restored():
    grid = GRIDS["signal"]
    grams = BandedGrams(grid)
    matrix = grams.of_landmarks.copy()
    grams.diagonal(matrix)[:] -= 0.3
    with pytest.raises(LinAlgError):
        grams.factor(matrix)
    assert np.isfinite(solver_of(grams, matrix, 1e-8)(np.ones(grid.n_template))).all()


@OF_GRID
def test_separable_system_is_the_dense_one(name):
    grid, part, _ = problem(name)
    gram, prior = gram_of(grid, part.middle), kernel_of_landmarks(grid)
    for ratio in (0.02, 1.0):
        system = SeparableSystem(grid, part.middle, part.cross, Equations())
        x = system.solve(ratio, None, 1e-12)
        beta = system.coefficients(x)
        bound = 1e-9 * np.abs(part.cross).max()
        np.testing.assert_allclose(
            (gram + ratio * prior) @ beta, part.cross, rtol=0, atol=bound
        )
        assert system.square(x) == pytest.approx(beta @ gram @ beta, rel=1e-9)
        assert x @ system.right == pytest.approx(beta @ part.cross, rel=1e-9)
        np.testing.assert_allclose(
            grid.smoothed(beta), prior @ beta, atol=1e-9 * np.abs(beta).max()
        )


@OF_GRID
def test_template_and_noise_solve_their_equations(name):
    """All three forms, against the residuals of dense matrices."""
    grid, part, _ = problem(name)
    count = 3.0
    gram, prior = gram_of(grid, part.middle), kernel_of_landmarks(grid)
    # Landmarks from which on, and steps of conjugate gradients.
    for large, steps in ((10**9, 250), (0, 250), (0, 1)):
        equations = Equations(large=large, steps=steps)
        priors = TemplatePriors(0.3, 4.0, 3.0, 0.5, 20.0, equations=equations)
        beta, variance, floored = posterior_template(grid, part, count, priors, 1.0)
        matrix = gram + variance / count / priors.template_scale**2 * prior
        bound = 1e-6 * np.abs(part.cross).max()
        np.testing.assert_allclose(matrix @ beta, part.cross, rtol=0, atol=bound)
        rss = part.square + beta @ gram @ beta - 2 * beta @ part.cross
        mean = (count * rss + 20.0 * 0.5**2) / (count * part.observed + 20.0)
        assert variance == pytest.approx(mean, rel=1e-6)
        assert not floored


def test_large_systems_are_first_tried_without_a_factor():
    grid = ImageGrid((40, 40), (36, 36), (4, 4), 1.2, 12.0)
    model = DeformableTemplateModel(grid, TemplatePriors(0.3, 4.0, 3.0))
    Y = np.random.default_rng(0).normal(size=(2, grid.n_pixels))
    part = split(grid, model.mean_statistics(Y, np.zeros((2, grid.n_latents))))

    def kinds(grid, part, informative):
        return [type(one) for one in systems_of(grid, part, informative, Equations())]

    assert kinds(grid, part, True) == [SeparableSystem, FactoredSystem]
    assert kinds(grid, part, False) == [FactoredSystem]
    small, part, _ = problem("image")
    assert kinds(small, part, True) == [FactoredSystem]


def test_kernels_too_wide_for_their_landmarks_are_factored():
    """Rounding hides the weights of mid-points: an error, not a wrong template."""
    grid = ImageGrid((24, 17), (22, 19), (4, 3), 9.0, 6.0, 0.3)
    _, _, rng = problem("image")
    model = DeformableTemplateModel(grid, TemplatePriors(0.3, 4.0, 3.0))
    Y, Z = rng.normal(size=(2, grid.n_pixels)), np.zeros((2, grid.n_latents))
    part = split(grid, model.mean_statistics(Y, Z))
    with pytest.raises(LinAlgError):
        SeparableSystem(grid, part.middle, part.cross, Equations())
