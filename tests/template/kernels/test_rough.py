"""Expansions of templates against their splines, and residuals by them."""

import numpy as np
import pytest

from sktem.template.kernels import field, rough
from sktem.template.kernels.field import displace, new_work
from sktem.template.kernels.rough import EVERY, expansions
from tests.oracles import for_python
from tests.template.oracles import Dense, grid_of, model_of, random_params, simulate

compare_roughly, spline = map(for_python, (rough.compare_roughly, field.spline))

SHAPES = [(5,), (7, 4)]
OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def compared(grid, table, y, z):
    """Return the sum of squared residuals, the residuals and the slopes."""
    work = new_work(grid.compiled)
    work.image[:], work.z[:] = y, z
    work.residual[:], work.slopes[:] = 7.0, 7.0  # what is left from the image before
    displace(grid.compiled, work.flat, ())
    rss = compare_roughly(table, grid.compiled, work.flat)
    return rss, work.residual.copy(), work.slopes.reshape(grid.n_axes, -1).copy()


@OF_SHAPE
def test_derivatives_at_nodes_are_those_of_the_spline(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    table = grid.table(rng.normal(size=grid.n_template))
    found, n_axes = expansions(table), np.uint64(grid.n_axes)
    assert found.shape == (-(-table.shape[1] // 2), -(-table.shape[2] // 2), 6)
    h = 1e-4
    rows = [0] if grid.n_axes == 1 else range(1, len(found) - 1)
    for i in rows:
        for j in range(1, found.shape[1] - 1):
            x, y = float(EVERY * i), float(EVERY * j)
            value, _, down, right = spline(table, n_axes, 0.0, x, y)
            ahead, behind = (spline(table, n_axes, 0.0, x, y + s) for s in (h, -h))
            second = [0.0, *(np.subtract(ahead, behind) / (2 * h))[2:]]
            if grid.n_axes == 2:
                ahead, behind = (spline(table, n_axes, 0.0, x + s, y) for s in (h, -h))
                second[0] = (ahead[2] - behind[2]) / (2 * h)
            expected = [value, 2 * down, 2 * right, *np.multiply(4, second)]
            np.testing.assert_allclose(found[i, j], expected, rtol=1e-6, atol=1e-3)


@OF_SHAPE
def test_residuals_and_slopes_are_those_of_the_nearest_expansions(shape):
    grid, rng = grid_of(shape), np.random.default_rng(1)
    beta, z = rng.normal(size=grid.n_template), 0.4 * rng.normal(size=grid.n_latents)
    table, y = expansions(grid.table(beta)), rng.normal(size=grid.n_pixels)
    rss, residual, slopes = compared(grid, table, y, z)
    moved = Dense(grid).moved(z).T
    t = np.zeros((2, grid.n_pixels))
    for axis, (first, _) in enumerate(grid._table_axes, start=2 - grid.n_axes):
        own = moved[axis - 2 + grid.n_axes]
        t[axis] = (own - first) * grid.cells_per_pixel / EVERY
    near = np.rint(t).astype(int)
    p, q = t - near
    v, d, e, a, b, c = table[near[0], near[1]].T
    value = v + p * d + q * e + (p * p * a + 2 * p * q * b + q * q * c) / 2
    np.testing.assert_allclose(residual, y - value, rtol=1e-12, atol=1e-12)
    scale = grid.cells_per_pixel / EVERY
    stated = np.stack([d + p * a + q * b, e + p * b + q * c])[2 - grid.n_axes :]
    np.testing.assert_allclose(slopes, scale * stated, rtol=1e-12, atol=1e-12)
    assert rss == pytest.approx(residual @ residual, rel=1e-12)


@OF_SHAPE
def test_an_expansion_is_near_the_template(shape):
    """The rest of a second-order expansion is at most max|f'''| |x|^3 / 6.

    A node is at most a quarter of the kernel's standard deviation s away along each
    axis, and no third derivative of exp(-|x|^2 / 2 s^2) in one direction is above
    1.39 / s^3.
    """
    grid, rng = grid_of(shape), np.random.default_rng(2)
    beta, z = rng.normal(size=grid.n_template), 0.4 * rng.normal(size=grid.n_latents)
    _, residual, _ = compared(
        grid, expansions(grid.table(beta)), np.zeros(grid.n_pixels), z
    )
    error = np.abs(-residual - Dense(grid).design(z) @ beta).max()
    distance = 0.25 * np.sqrt(grid.n_axes)
    # The spline's own error is a hundred times less: see test_field.py.
    assert error < 1.01 * 1.39 / 6 * distance**3 * np.abs(beta).sum()
    assert error < 0.02 * np.abs(beta).max()


@OF_SHAPE
def test_missing_and_distant_pixels(shape):
    grid, rng = grid_of(shape), np.random.default_rng(3)
    table = expansions(grid.table(rng.normal(size=grid.n_template)))
    z, y = np.zeros(grid.n_latents), rng.normal(size=grid.n_pixels)
    _, residual, slopes = compared(grid, table, y, z)
    missing = rng.random(grid.n_pixels) < 0.4
    missing[0] = True
    rss, found, steep = compared(grid, table, np.where(missing, np.nan, y), z)
    np.testing.assert_array_equal(found, np.where(missing, 0.0, residual))
    np.testing.assert_array_equal(steep, np.where(missing, 0.0, slopes))
    assert rss == pytest.approx(found @ found, rel=1e-12)
    for far in (1e3, -1e3, 1e300, np.nan):
        _, found, steep = compared(grid, table, y, z + far)
        np.testing.assert_array_equal(found, y)
        assert not steep.any()


@OF_SHAPE
def test_modes_by_expansions_are_their_modes(shape):
    """No step along a coordinate lowers the energy by the expansions much.

    Neighbouring expansions are not quite continuous: a step may gain a little.
    """
    grid, rng = grid_of(shape), np.random.default_rng(4)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, 4, rng)
    model = model_of(grid)
    part = model.component(params, 0)
    levels, gains = np.array([64.0, 8.0, 1.0]), (1e-14, 1e-14)
    options = {"levels": levels, "max_steps": 200, "gains": gains}
    Z, _, _, energies = model.rough_modes_of(Y, params, 0, **options)
    table = expansions(part.table)

    def energy(y, z):
        rss = compared(grid, table, y, z)[0]
        return rss / part.noise_variance + z @ part.precision @ z

    steps = np.concatenate([np.eye(grid.n_latents), -np.eye(grid.n_latents)])

    def gain(y, z):
        """Return what the best of some steps gains."""
        around = [energy(y, z + size * step) for step in steps for size in (0.1, 1e-3)]
        return energy(y, z) - min(around)

    for y, z, least in zip(Y, Z, energies, strict=True):
        assert energy(y, z) == pytest.approx(least, rel=1e-9)
        # Half nats: a rough search ends with steps that gain less than one nat.
        assert gain(y, z) < 0.5 < gain(y, 0 * z)
    exact = model.modes_of(Y, params, 0, **options)[3]
    # They are others than those by the spline, but hardly.
    assert not np.array_equal(exact, energies)
    np.testing.assert_allclose(exact, energies, rtol=0.05)


def test_volumes_have_no_expansions():
    grid, rng = grid_of((3, 4, 5)), np.random.default_rng(5)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, 2, rng)
    rough = model_of(grid).rough_modes_of(Y, params, 0)
    for one, two in zip(rough, model_of(grid).modes_of(Y, params, 0), strict=True):
        np.testing.assert_array_equal(one, two)
