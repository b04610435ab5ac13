"""Covariance structures against dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sktem.emissions.covariances import COVARIANCES
from tests.emissions.structures import KINDS, LEARNED, dense, n_free, reduced

SHAPES = [(1, 1), (1, 3), (3, 1), (2, 2), (4, 5)]


def summed(kind, matrices):
    return reduced(kind, matrices, np.ones(len(matrices)))


def random_covariances(kind, K, d, rng):
    factors = rng.normal(size=(K, d, d + 2))
    return summed(kind, factors @ factors.transpose(0, 2, 1) / d)


def each_matrix(kind, values, K):
    """Values of the structure, once for each component."""
    return np.broadcast_to(values, (K,)) if kind == "tied" else values


@pytest.mark.parametrize("K, d", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_number_of_parameters(kind, K, d):
    structure = COVARIANCES[kind](K, d)
    assert structure.n_parameters == structure.n_moments == n_free(kind, K, d)
    assert structure.known == (kind == "unit")


@pytest.mark.parametrize("K, d", SHAPES)
@pytest.mark.parametrize("kind", LEARNED)
def test_moments_are_linear_in_the_dense_ones(kind, K, d):
    rng = np.random.default_rng(0)
    means, mass = rng.normal(size=(K, d)), rng.random(K)
    matrices = mass[:, None, None] * means[:, :, None] * means[:, None, :]
    structure = COVARIANCES[kind](K, d)
    assert_allclose(structure.outer(means, mass), summed(kind, matrices), rtol=1e-13)
    packed = structure.pack(summed(kind, matrices))
    assert packed.shape == (structure.n_moments,)
    assert_allclose(structure.unpack(packed), summed(kind, matrices), rtol=1e-13)
    if kind == "spherical":  # the packed moment is the squared length
        assert_allclose(packed, mass * (means**2).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("K, d", SHAPES)
@pytest.mark.parametrize("kind", LEARNED)
def test_normalise_undoes_scale(kind, K, d):
    rng = np.random.default_rng(1)
    structure = COVARIANCES[kind](K, d)
    covariances = random_covariances(kind, K, d, rng)
    mass = rng.random(K) + 0.1
    scatter = structure.scale(covariances, mass)
    matrices = dense(kind, covariances, K, d)
    assert_allclose(scatter, summed(kind, mass[:, None, None] * matrices), rtol=1e-12)
    assert_allclose(structure.normalise(scatter, mass), covariances, rtol=1e-12)


@pytest.mark.parametrize("K, d", SHAPES)
@pytest.mark.parametrize("kind", LEARNED)
def test_normalise_with_empty_components(kind, K, d):
    """Components without mass divide by nothing and change no other."""
    rng = np.random.default_rng(2)
    structure = COVARIANCES[kind](K + 1, d)
    covariances = random_covariances(kind, K + 1, d, rng)
    mass = np.append(rng.random(K) + 0.1, 0.0)
    back = structure.normalise(structure.scale(covariances, mass), mass)
    assert np.isfinite(back).all()
    if kind == "tied":
        assert_allclose(back, covariances, rtol=1e-12)
    else:
        assert_allclose(back[:-1], covariances[:-1], rtol=1e-12)


@pytest.mark.parametrize("K, d", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_algebra_of_precisions(kind, K, d):
    rng = np.random.default_rng(3)
    structure = COVARIANCES[kind](K, d)
    covariances = random_covariances(kind, K, d, rng)
    matrices = dense(kind, covariances, K, d)
    inverses = np.linalg.inv(matrices)
    factors = structure.precisions_cholesky(covariances)
    precisions = structure.precisions(factors)
    assert_allclose(structure.full(covariances), matrices, rtol=1e-13)
    assert_allclose(dense(kind, precisions, K, d), inverses, rtol=1e-9, atol=1e-12)
    assert_allclose(
        each_matrix(kind, structure.log_determinants(factors), K),
        np.linalg.slogdet(matrices)[1],
        rtol=1e-10,
        atol=1e-12,
    )
    means = rng.normal(size=(K, d))
    assert_allclose(
        structure.mahalanobis(means, factors),
        [m @ inverse @ m for m, inverse in zip(means, inverses, strict=True)],
        rtol=1e-9,
    )
    again = structure.cholesky_of_precisions(precisions)
    assert_allclose(again, factors, rtol=1e-8, atol=1e-12)
    if kind in ("full", "tied"):
        assert_array_equal(factors, np.triu(factors))
        assert (np.diagonal(factors, axis1=-2, axis2=-1) > 0).all()


@pytest.mark.parametrize("value", [0.7, "diagonal", "matrix"])
@pytest.mark.parametrize("kind", LEARNED)
def test_prior_in_the_shape_of_a_covariance(kind, value):
    K, d = 3, 4
    rng = np.random.default_rng(4)
    factor = rng.normal(size=(d, d))
    wide = {
        "diagonal": np.diag(rng.random(d) + 0.5),
        "matrix": factor @ factor.T,
    }.get(value, 0.7 * np.eye(d))
    given_value = np.diagonal(wide) if value == "diagonal" else wide
    given_value = 0.7 if value == 0.7 else given_value
    structure = COVARIANCES[kind](K, d)
    shaped = structure.matrix(given_value)
    one = summed(kind, wide[None])
    assert_allclose(shaped, one if kind == "tied" else one[0], rtol=1e-13)
    covariances = random_covariances(kind, K, d, rng)
    inverses = np.linalg.inv(dense(kind, covariances, K, d))
    factors = structure.precisions_cholesky(covariances)
    if kind in ("diag", "spherical"):  # correlations of the prior do not count
        wide = dense(kind, np.repeat(np.atleast_1d(one), K, axis=0), K, d)[0]
    assert_allclose(
        each_matrix(kind, structure.trace_product(shaped, factors), K),
        np.trace(wide @ inverses, axis1=1, axis2=2),
        rtol=1e-10,
    )


@pytest.mark.parametrize("kind", LEARNED)
def test_shift_and_diagonals(kind):
    K, d = 3, 4
    structure = COVARIANCES[kind](K, d)
    covariances = random_covariances(kind, K, d, np.random.default_rng(5))
    matrices = dense(kind, covariances, K, d)
    shifted = structure.shift(covariances.copy(), 0.5)
    assert_allclose(dense(kind, shifted, K, d), matrices + 0.5 * np.eye(d), rtol=1e-13)
    wide = dense(kind, covariances, K, d)
    expected = np.diagonal(wide, axis1=1, axis2=2)
    if kind == "tied":
        expected = expected[0]
    if kind == "spherical":
        expected = covariances
    assert_allclose(structure.diagonals(covariances), expected)


@pytest.mark.parametrize("kind", LEARNED)
def test_indefinite_is_refused_and_repaired(kind):
    K, d = 3, 2
    structure = COVARIANCES[kind](K, d)
    good = random_covariances(kind, K, d, np.random.default_rng(6))
    bad = good.copy()
    if kind == "tied":
        bad = np.array([[1.0, 2.0], [2.0, 1.0]])
    elif kind == "full":
        bad[1] = [[1.0, 2.0], [2.0, 1.0]]  # eigenvalues 3 and -1
    else:
        bad[1] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        structure.precisions_cholesky(bad)
    repaired, count = structure.repair(bad, 0.25)
    assert count == 1
    structure.precisions_cholesky(repaired)
    matrices = dense(kind, repaired, K, d)
    assert np.linalg.eigvalsh(matrices[1]).min() == pytest.approx(0.25, rel=1e-12)
    if kind != "tied":  # the other components are left alone
        assert_array_equal(matrices[[0, 2]], dense(kind, good, K, d)[[0, 2]])
    if kind in ("full", "tied"):
        matrix = repaired if kind == "tied" else repaired[1]
        # The eigenvectors (1, 1) and (1, -1) keep their places.
        assert_allclose(matrix, [[1.625, 1.375], [1.375, 1.625]], rtol=1e-12)
    untouched, count = structure.repair(good, 0.0)
    assert count == 0
    assert_allclose(untouched, good, rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_floor_relative_to_the_size(kind):
    """It has the size of the component, and of most others where that is nothing."""
    K, d = 3, 2
    structure = COVARIANCES[kind](K, d)
    sizes = np.array([1e20, 4.0, 0.0])
    bad = {
        "full": np.array([[[1.0, 1.0], [1.0, 1.0]]] * 3) / 2,
        "diag": np.array([[1.0, 0.0]] * 3),
        "spherical": np.array([-1.0, -1.0, 0.0]),
    }[kind]
    bad = bad * sizes.reshape(-1, *[1] * (bad.ndim - 1))
    repaired, count = structure.repair(bad, 0.0, 1e-12)
    assert count == 3
    least = np.linalg.eigvalsh(dense(kind, repaired, K, d)).min(axis=1)
    assert_allclose(least, [1e8, 4e-12, 4e-12], rtol=1e-3)
    nothing, count = structure.repair(0 * bad, 0.0, 1e-12)
    assert np.linalg.eigvalsh(dense(kind, nothing, K, d)).min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_select(kind):
    K, d = 3, 2
    rng = np.random.default_rng(7)
    structure = COVARIANCES[kind](K, d)
    first, second = (random_covariances(kind, K, d, rng) for _ in range(2))
    mask = np.array([True, False, True])
    chosen = dense(kind, structure.select(mask, first, second), K, d)
    expected = dense(kind, first, K, d).copy()
    if kind != "tied":  # the tied covariance belongs to no component
        expected[1] = dense(kind, second, K, d)[1]
    assert_allclose(chosen, expected)


@settings(max_examples=25)
@given(
    kind=st.sampled_from(KINDS),
    K=st.integers(1, 5),
    d=st.integers(1, 6),
    log_scale=st.floats(-100, 100),
    seed=st.integers(0, 2**31),
)
def test_inverse_at_any_scale(kind, K, d, log_scale, seed):
    structure = COVARIANCES[kind](K, d)
    rng = np.random.default_rng(seed)
    covariances = random_covariances(kind, K, d, rng)
    if kind != "unit":
        covariances = covariances * 10.0**log_scale
    factors = structure.precisions_cholesky(covariances)
    P = factors if kind in ("full", "tied") else dense(kind, factors, K, d)
    P = np.broadcast_to(P, (K, d, d))
    product = P.transpose(0, 2, 1) @ dense(kind, covariances, K, d) @ P
    assert_allclose(product, np.broadcast_to(np.eye(d), (K, d, d)), atol=1e-7)
