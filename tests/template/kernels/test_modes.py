"""Modes, curvatures and importance weights against dense linear algebra."""

import numpy as np
import pytest

from sktem.template.kernels import flow, products
from sktem.template.kernels import modes as kernels
from sktem.template.kernels.modes import Levels, ModeValues, modes, room_of_maps
from tests.oracles import for_python
from tests.template.oracles import (
    SHAPES,
    Dense,
    Pixels,
    grid_of,
    model_of,
    random_params,
    simulate,
)

add_curvature, factorise = map(for_python, (kernels.add_curvature, kernels.factorise))
solve_lower, solve_upper = map(for_python, (kernels.solve_lower, kernels.solve_upper))

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def positive(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T + 0.1 * np.eye(n)


def spline_jacobian(grid, work):
    """Return the derivatives of the residuals with the slopes that were computed."""
    kernels, slopes = Dense(grid).Kg, work.slopes.reshape(grid.n_axes, -1)
    return np.concatenate([s[:, None] * kernels for s in slopes], axis=1)


def added_curvature(grid, work, matrix):
    """Return a matrix with the curvature at what the scratch holds added."""
    known, dim = grid.compiled, grid.n_latents
    room = dim**2 + room_of_maps(known, grid.pairs)
    whole = np.concatenate([work.flat, np.zeros(room)])
    out = known.more
    start, end = int(out), int(out) + dim**2
    whole[start:end] = matrix.ravel()
    add_curvature(known, grid.pairs, whole, np.uint64(end), out, known.flow)
    return whole[start:end].reshape(dim, dim)


@OF_SHAPE
def test_curvature_is_the_gauss_newton_matrix(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    params = random_params(grid, rng)
    z = 0.4 * rng.normal(size=grid.n_latents)
    y = rng.normal(size=grid.n_pixels)
    y[1] = np.nan
    pixels = Pixels(grid, grid.table(params.coefficients[0]))
    pixels.rss(y, z)
    added = positive(grid.n_latents)
    out = added_curvature(grid, pixels.work, added)
    J = spline_jacobian(grid, pixels.work)
    np.testing.assert_allclose(out - added, J.T @ J, atol=1e-12 * np.abs(out).max())
    # And with the exact kernels, as near as the spline is.
    seen = ~np.isnan(y)
    J = Dense(grid).jacobian(z, params.coefficients[0])[seen]
    bound = 0.02 * np.abs(J.T @ J).max()
    np.testing.assert_allclose(out - added, J.T @ J, atol=bound)
    assert (J.T @ J).max() > 10 * bound


def factor_of(A, b):
    """Return whether there is a factor, what was filled, and solutions with it."""
    n = len(A)
    half = np.where(np.tri(n, k=-1, dtype=bool), np.nan, A)
    work = np.concatenate([half.ravel(), np.zeros(n * n), b, b])
    dim, upper, one, two = map(np.uint64, (n, n * n, 2 * n * n, 2 * n * n + n))
    found = factorise(np.uint64(0), upper, dim, work)
    solve_lower(upper, dim, work, one)
    solve_upper(upper, dim, work, two)
    return found, work[n * n : 2 * n * n].reshape(n, n), work[-2 * n : -n], work[-n:]


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_linear_algebra(n):
    A, b = positive(n), np.random.default_rng(1).normal(size=n)
    found, upper, first, second = factor_of(A, b)
    lower = upper.T
    assert found
    np.testing.assert_allclose(lower, np.linalg.cholesky(A), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(first, np.linalg.solve(lower, b), rtol=1e-9)
    np.testing.assert_allclose(second, np.linalg.solve(lower.T, b), rtol=1e-9)


@pytest.mark.parametrize("last", [0.0, -1.0, np.nan])
def test_what_is_not_positive_definite_has_no_factor(last):
    assert not factor_of(np.diag([1.0, last, 2.0]), np.zeros(3))[0]


def found_modes(
    grid, params, Y, Z=None, levels=(64.0, 16.0, 4.0, 1.0), gain=1e-14, hold=np.inf
):
    part = model_of(grid).component(params, 0)
    Z = np.zeros((len(Y), grid.n_latents)) if Z is None else Z.copy()
    rss, log_det = np.empty(len(Y)), np.empty(len(Y))
    lowers = np.zeros((len(Y), grid.n_latents, grid.n_latents))
    search = Levels(np.array(levels), 200, np.full(len(levels), gain), hold)
    found = ModeValues(rss, log_det, lowers)
    modes(Y, Z, part, search, grid.compiled, grid.pairs, found)
    return part, Z, rss, log_det, lowers


@pytest.mark.parametrize("hold", [np.inf, 0.5, 0.0])
@OF_SHAPE
def test_modes(shape, hold):
    grid, rng = grid_of(shape), np.random.default_rng(2)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, 6, rng)
    Y[1, :2] = np.nan
    Y[5] = np.nan
    part, Z, rss, log_det, lowers = found_modes(grid, params, Y, hold=hold)
    model, pixels = model_of(grid), Pixels(grid, part.table)
    gradient = model.grad_log_joint(Y, Z, params)
    scale = np.abs(model.grad_log_joint(Y, 0 * Z, params)).max()
    # Where the log-density changes by 1e-14 at most, the gradient is about 1e-6.
    assert np.abs(gradient).max() < 1e-5 * scale
    at_zero = model.log_joint(Y, 0 * Z, params)
    assert (model.log_joint(Y, Z, params) >= at_zero).all()
    for row, z in enumerate(Z):
        assert rss[row] == pixels.rss(Y[row], z)
        J = spline_jacobian(grid, pixels.work)
        hessian = J.T @ J / part.noise_variance + part.precision
        assert log_det[row] == pytest.approx(np.linalg.slogdet(hessian)[1], rel=1e-10)
        back = lowers[row] @ lowers[row].T
        np.testing.assert_allclose(back, hessian, atol=1e-10 * np.abs(hessian).max())
    # Nothing seen: the mode is that of the prior.
    np.testing.assert_array_equal(Z[5], 0)
    assert rss[5] == 0
    assert log_det[5] == pytest.approx(-part.log_det, rel=1e-9)


def test_modes_are_modes_of_the_dense_density():
    grid, rng = grid_of((7, 4)), np.random.default_rng(3)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, 5, rng)
    _, Z, *_ = found_modes(grid, params, Y)
    dense = Dense(grid)
    args = (params.coefficients[0], params.covariances[0], params.noise_variances[0])
    for y, z in zip(Y, Z, strict=True):
        at = dense.gradient(y, z, *args)
        start = dense.gradient(y, 0 * z, *args)
        assert np.abs(at).max() < 0.02 * np.abs(start).max()
        best = dense.log_joint(y, z, *args)
        for _ in range(20):
            other = z + 0.1 * rng.normal(size=len(z))
            assert dense.log_joint(y, other, *args) < best


def test_annealing_finds_deformations_that_a_direct_way_misses():
    """A narrow peak, moved by more than its width."""
    grid, rng = grid_of((5,), 0.7, 4.0), np.random.default_rng(0)
    params = random_params(grid, rng, noise_variance=1e-3, spread=1.5)
    params.coefficients[0] = np.exp(-(np.linspace(-3, 3, 7) ** 2))
    Y, _ = simulate(grid, params, 100, rng)
    model = model_of(grid)
    values = []
    for levels in [(256.0, 64.0, 16.0, 4.0, 1.0), (1.0,)]:
        _, Z, *_ = found_modes(grid, params, Y, levels=levels, gain=1e-3)
        values.append(model.log_joint(Y, Z, params))
    better = values[0] - values[1]
    assert better.mean() > 0
    assert (better > 5).sum() > 3 * (better < -5).sum()


def test_modes_of_images_beyond_all_measure():
    grid, rng = grid_of((7, 4)), np.random.default_rng(3)
    params = random_params(grid, rng)
    Y = np.stack([np.full(28, 1e200), np.full(28, -1e12), rng.normal(size=28)])
    _, Z, rss, log_det, _ = found_modes(grid, params, Y)
    _, alone, *_ = found_modes(grid, params, Y[2:])
    assert np.isfinite(Z).all() and np.isfinite(log_det).all()
    assert rss[0] == np.inf
    np.testing.assert_array_equal(Z[2], alone[0])


@pytest.mark.parametrize("module", [kernels, flow, products])
def test_fast_functions_are_compiled_in_their_callers_only(module):
    """Else a process that compiles them has other last digits than the ones after."""
    options = [getattr(f, "targetoptions", {}) for f in vars(module).values()]
    inner = [o for o in options if o.get("fastmath") and o.get("no_cpython_wrapper")]
    assert inner
    assert all(o.get("forceinline") for o in inner)
