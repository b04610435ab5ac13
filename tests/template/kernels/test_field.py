"""Displacements and templates of images against dense matrices."""

import itertools

import numpy as np
import pytest
from scipy.interpolate import BSpline

from sktem.models import ImageGrid
from sktem.template.kernels import field
from sktem.template.kernels.field import displace, new_work
from tests.oracles import for_python
from tests.template.oracles import SHAPES, Dense, Pixels, grid_of

spline = for_python(field.spline)

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def displaced(grid, z, work):
    """Return the displacements along the axes, of the shape of the padded image."""
    work.z[:] = z
    displace(grid.compiled, work.flat, ())
    return in_space(grid, work.field)


def in_space(grid, values):
    m0, m1, m2 = (int(getattr(grid.compiled, name)) for name in ("m0", "m1", "m2"))
    return values.reshape(-1, m0, m1, m2)


def parts_of(grid):
    """Return the kernels along three axes, (pixels, landmarks), and the positions."""
    ends = [int(end) for end in (grid.K1, grid.K2, grid.positions)]
    sizes = [int(size) for size in (grid.m0, grid.m1, grid.m2)]
    K0, K1, K2, rest = np.split(grid.numbers, ends)
    kernels = [K0.reshape(sizes[0], -1), K1.reshape(sizes[1], -1)]
    kernels.append(K2.reshape(-1, sizes[2]).T)
    return kernels, np.split(rest[: sum(sizes)], np.cumsum(sizes)[:-1])


def kernels_of(grid):
    """Return the kernels of the three axes, (pixels, landmarks) or the other way."""
    K0, K1, K2 = parts_of(grid.compiled)[0]
    return K0, K1, K2.T


def at_landmarks(grid, z):
    """Return one number for each axis and landmark, landmarks along three axes."""
    G0, G1, G2 = (int(getattr(grid.compiled, name)) for name in ("G0", "G1", "G2"))
    return z.reshape(-1, G0, G1, G2)


@OF_SHAPE
def test_displacements(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    work, z = new_work(grid.compiled), rng.normal(size=grid.n_latents)
    work.field[:] = 7.0  # what is left from the image before
    found = displaced(grid, z, work)
    dense = Dense(grid)
    expected = (dense.pixels - dense.moved(z)).T
    np.testing.assert_allclose(work.field, expected.ravel(), rtol=1e-12, atol=1e-13)
    stated = [
        np.einsum("abc,ia,jb,ck->ijk", part, *kernels_of(grid))
        for part in at_landmarks(grid, z)
    ]
    np.testing.assert_allclose(found, stated, rtol=1e-12, atol=1e-13)


@OF_SHAPE
def test_adjoint(shape):
    grid, rng = grid_of(shape), np.random.default_rng(1)
    pixels = Pixels(grid, None)
    work = pixels.work
    work.residual[:] = rng.normal(size=work.residual.shape)
    work.slopes[:] = rng.normal(size=work.slopes.shape)
    work.pull[:] = 7.0
    pull = pixels.pull()
    weighted = in_space(grid, work.slopes) * in_space(grid, work.residual)
    stated = [
        np.einsum("ijk,ia,jb,ck->abc", part, *kernels_of(grid)) for part in weighted
    ]
    found = at_landmarks(grid, pull)
    np.testing.assert_allclose(found, stated, rtol=1e-12, atol=1e-13)
    # It is the adjoint of the displacements: both give the same inner product.
    z = rng.normal(size=grid.n_latents)
    inner = (displaced(grid, z, work) * weighted).sum()
    assert z @ pull == pytest.approx(inner, rel=1e-12)


def b_spline(n, t):
    """Return the centred cubic B-spline about n at t, and its derivative."""
    basis = BSpline.basis_element(np.arange(-2.0, 3.0), extrapolate=False)
    inside = abs(t - n) < 2
    return (basis(t - n), basis.derivative()(t - n)) if inside else (0.0, 0.0)


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_spline_is_the_sum_of_b_splines(n_axes):
    rng = np.random.default_rng(2)
    sizes = (1,) * (3 - n_axes) + (6, 7, 8)[3 - n_axes :]
    table = rng.normal(size=sizes)
    for _ in range(6):
        t = np.zeros(3)
        t[3 - n_axes :] = [rng.uniform(1, size - 2) for size in sizes[3 - n_axes :]]
        expected = np.zeros(4)
        for node in itertools.product(*map(range, sizes)):
            values, slopes = np.ones(3), np.zeros(3)
            for axis in range(3 - n_axes, 3):
                values[axis], slopes[axis] = b_spline(node[axis], t[axis])
            expected[0] += table[node] * values.prod()
            for axis in range(3 - n_axes, 3):
                others = np.delete(values, axis).prod()
                expected[axis + 1] += table[node] * slopes[axis] * others
        np.testing.assert_allclose(
            spline(table, np.uint64(n_axes), *t), expected, atol=1e-12
        )


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("outside", [-1e300, -3.0, 0.999, 6.0, 1e300, np.nan])
def test_spline_is_zero_outside(n_axes, outside):
    table = np.ones((1,) * (3 - n_axes) + (8,) * n_axes)
    for axis in range(3 - n_axes, 3):
        t = np.full(3, 3.0)
        t[axis] = outside
        assert spline(table, np.uint64(n_axes), *t) == (0.0, 0.0, 0.0, 0.0)
    assert spline(table, np.uint64(n_axes), 3.0, 3.0, 3.0)[0] == pytest.approx(1.0)


def spline_errors(grid, beta, z):
    """Return the errors of values and slopes of a template at displaced pixels."""
    pixels, dense = Pixels(grid, grid.table(beta)), Dense(grid)
    pixels.rss(np.zeros(grid.n_pixels), z)
    value = -pixels.work.residual - dense.design(z) @ beta
    slope = pixels.work.slopes.reshape(grid.n_axes, -1) - dense.slopes(z, beta)
    return np.abs(value).max(), np.abs(slope).max()


@OF_SHAPE
def test_spline_of_a_template(shape):
    """Errors stay below the bounds for cubic splines and shrink at their orders.

    A cubic spline through values of f at distance h is off by at most 5/384 h^4
    max|f''''|, its slope by at most 1/24 h^3 max|f''''| (Hall and Meyer 1976), and
    the fourth derivative of exp(-x^2 / 2 s^2) is at most 3 / s^4. Along several axes
    the errors add up, each carried by the other axes' interpolation.
    """
    rng = np.random.default_rng(3)
    grid = grid_of(shape)
    beta = rng.normal(size=grid.n_template)
    z = 0.5 * rng.normal(size=grid.n_latents)
    found = []
    for density in (4.0, 8.0):
        grid = grid_of(shape)
        grid.nodes_per_scale = density
        value, slope = spline_errors(grid, beta, z)
        size = 1.1 * grid.n_axes * np.abs(beta).sum()
        assert value < 5 / 384 * 3 / density**4 * size
        assert slope < 1 / 24 * 3 / density**3 / grid.template_scale * size
        found.append((value, slope))
    # Small against any noise, and of the fourth and third order.
    assert found[0][0] < 2e-3 * np.abs(beta).max()
    assert found[0][0] / found[1][0] > 2**3.5
    assert found[0][1] / found[1][1] > 2**2.5


@pytest.mark.parametrize("shape", [(1,), (1, 6), (5, 1), (1, 1, 4)])
def test_spline_of_thin_images(shape):
    ones = tuple(min(side, 2) for side in shape)
    grid = ImageGrid(shape, (3,) * len(shape), ones, 1.2, 2.0)
    rng = np.random.default_rng(0)
    beta, z = rng.normal(size=grid.n_template), rng.normal(size=grid.n_latents)
    pixels = Pixels(grid, grid.table(beta))
    pixels.rss(np.zeros(grid.n_pixels), z)
    expected = Dense(grid).design(z) @ beta
    np.testing.assert_allclose(-pixels.work.residual, expected, atol=3e-3)


@OF_SHAPE
def test_residuals(shape):
    grid, rng = grid_of(shape), np.random.default_rng(4)
    beta, z = rng.normal(size=grid.n_template), 0.4 * rng.normal(size=grid.n_latents)
    y, pixels = rng.normal(size=grid.n_pixels), Pixels(grid, grid.table(beta))
    rss, work = pixels.rss(y, z), pixels.work
    whole, slopes = work.residual.copy(), work.slopes.copy()
    expected = y - Dense(grid).design(z) @ beta
    np.testing.assert_allclose(whole, expected, atol=2e-2)
    assert rss == pytest.approx(whole @ whole, rel=1e-12)
    missing = rng.random(grid.n_pixels) < 0.3
    missing[0] = True
    rss = pixels.rss(np.where(missing, np.nan, y), z)
    whole = np.where(missing, 0.0, whole)
    np.testing.assert_array_equal(work.residual, whole)
    assert rss == pytest.approx(whole @ whole, rel=1e-12)
    slopes = np.where(missing, 0.0, slopes.reshape(grid.n_axes, -1))
    np.testing.assert_array_equal(work.slopes, slopes.ravel())
    nothing = np.full(grid.n_pixels, np.nan)
    assert pixels.rss(nothing, z) == 0


@OF_SHAPE
def test_slopes_are_those_of_the_values(shape):
    """Values and slopes belong to one function, not each to its own approximation."""
    grid, rng = grid_of(shape), np.random.default_rng(5)
    beta, z = rng.normal(size=grid.n_template), 0.4 * rng.normal(size=grid.n_latents)
    y, pixels = rng.normal(size=grid.n_pixels), Pixels(grid, grid.table(beta))

    def half_rss(z):
        return pixels.rss(y, z) / 2

    half_rss(z)
    pull = pixels.pull()
    for g in range(grid.n_latents):
        shift = 1e-5 * (np.arange(grid.n_latents) == g)
        slope = (half_rss(z + shift) - half_rss(z - shift)) / 2e-5
        assert pull[g] == pytest.approx(slope, rel=1e-6, abs=1e-8)
