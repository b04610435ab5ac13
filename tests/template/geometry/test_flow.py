"""Deformations that are flows: derivatives, inverses and no folds."""

import numpy as np
import pytest

from sktem import DeformableTemplateEstimator
from sktem.template.geometry.flow import FlowGrid
from sktem.template.geometry.grid import ImageGrid
from sktem.template.kernels.field import displace, new_work
from tests.template.kernels.test_modes import added_curvature
from tests.template.oracles import SHAPES, SMALL, Pixels, blobs

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def flow_of(shape, width=2.0, kind=FlowGrid):
    return kind(shape, *SHAPES[shape], 1.6, width)


def differences(function, z, h=1e-5):
    """Return derivatives by central differences, with those in z last."""
    moves = h * np.eye(len(z))
    return np.stack([(function(z + m) - function(z - m)) / (2 * h) for m in moves], -1)


@OF_SHAPE
@pytest.mark.parametrize("width", [2.0, 0.07])
def test_compiled_flow_is_the_composition_of_small_steps(shape, width):
    """Also for kernels so narrow that they underflow."""
    grid, rng = flow_of(shape, width), np.random.default_rng(0)
    z, work = rng.normal(size=grid.n_latents), new_work(grid.compiled)
    work.z[:] = z
    displace(grid.compiled, work.flat, grid.compiled.flow)
    y = grid.points
    for _ in range(8):
        y = y - grid.expanded_at(z, y) / 8
    expected = (grid.points - y).ravel()
    np.testing.assert_allclose(work.field, expected, rtol=1e-11, atol=1e-12)
    linear = grid.expanded_at(z, grid.points).ravel()
    assert np.abs(expected - linear).max() > 1e-3 or width < 1


@OF_SHAPE
def test_derivatives_of_residuals(shape):
    grid, rng = flow_of(shape), np.random.default_rng(1)
    pixels = Pixels(grid, grid.table(rng.normal(size=grid.n_template)))
    y, z = rng.normal(size=grid.n_pixels), 2 * rng.normal(size=grid.n_latents)
    y[1] = np.nan

    def residuals(z):
        pixels.rss(y, z)
        return pixels.work.residual.copy()

    J, rest = differences(residuals, z), residuals(z)
    np.testing.assert_allclose(pixels.pull(), rest @ J, rtol=1e-6, atol=1e-7)
    found = added_curvature(grid, pixels.work, np.ones((len(z), len(z))))
    np.testing.assert_allclose(found - 1, J.T @ J, rtol=1e-6, atol=1e-7)


@OF_SHAPE
@pytest.mark.parametrize("kind", [ImageGrid, FlowGrid])
def test_jacobians_and_inverses(shape, kind):
    grid, rng = flow_of(shape, kind=kind), np.random.default_rng(2)
    strong = kind is FlowGrid
    z = (2.0 if strong else 0.3) * rng.normal(size=grid.n_latents)
    x, unit = grid.points + 0.1, np.eye(grid.n_axes)
    slopes = [
        (
            grid.moved_at(z, x + 1e-5 * e[:, None])
            - grid.moved_at(z, x - 1e-5 * e[:, None])
        )
        / 2e-5
        for e in unit
    ]
    expected = np.linalg.det(np.moveaxis(slopes, 2, 0))
    np.testing.assert_allclose(grid.jacobians_at(z, x), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        grid.jacobians(z[None])[0], grid.jacobians_at(z, grid.points), atol=1e-12
    )
    found = grid.inverse_at(z, grid.moved_at(z, x))
    np.testing.assert_allclose(found, x, atol=1e-8)


def test_flows_do_not_fold_where_sums_do():
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        Z = 4 * rng.normal(size=(50, flow_of(shape).n_latents))
        flow, linear = flow_of(shape), flow_of(shape, kind=ImageGrid)
        assert (linear.jacobians(Z) <= 0).any()
        assert (flow.jacobians(Z) > 0).all()
    # Along one axis the order of the pixels stays.
    signal = FlowGrid((50,), (40,), (8,), 1.2, 5.0)
    Z = 8 * rng.normal(size=(50, 8))
    moved = np.array([signal.moved(z)[0] for z in Z])
    assert (np.diff(moved, axis=1) > 0).all()


def test_fit_without_folds():
    X = blobs(30, (8, 8), jitter=1.2)
    settings = {**SMALL, "max_iter": 8, "deformation": "diffeomorphic"}
    fitted = DeformableTemplateEstimator(**settings).fit(X)
    assert fitted.fold_rate_ == 0.0
    assert (fitted.min_jacobians(X) > 0).all()
    logs = fitted.likelihood_estimates(X[:5], n_draws=300)
    laplace = fitted.score_samples(X[:5])
    # The curvature of the flow is in Laplace's approximation.
    np.testing.assert_allclose(laplace, logs.log_likelihood, atol=2.0)
    with pytest.raises(ValueError, match="deformation cannot change"):
        fitted.set_params(warm_start=True, deformation="linear").fit(X)
    with pytest.raises(ValueError, match="deformation must be"):
        DeformableTemplateEstimator(deformation="affine").fit(X)
