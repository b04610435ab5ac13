"""The mixture's E-step, M-step, penalties and feasible set against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, special, stats

from sktem.emissions.covariances import COVARIANCES
from sktem.mixture.model import GaussianMixtureParams
from sktem.models import GaussianMixtureModel
from tests.emissions.structures import KINDS, LEARNED, dense, n_free, reduced


def problem(seed=0, n=200, d=3, K=3, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X = X + 3 * rng.normal(size=(K, d))[rng.integers(K, size=n)] + offset
    posterior = rng.dirichlet(np.ones(K), size=n)
    return X, posterior, rng.random(n) + 0.1


def params_of(kind, K, d, seed=0, centre=0.0, spread=2.0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(K, d, d + 2)) / np.sqrt(d)
    weights = rng.dirichlet(np.full(K, 5.0))
    covariances = reduced(kind, factor @ factor.transpose(0, 2, 1), weights)
    structure = COVARIANCES[kind](K, d)
    return GaussianMixtureParams(
        weights,
        spread * rng.normal(size=(K, d)) - centre,
        covariances,
        structure.precisions_cholesky(covariances),
    )


def log_joint(X, params, kind):
    K, d = params.means.shape
    covariances = dense(kind, params.covariances, K, d)
    columns = [
        np.log(weight) + stats.multivariate_normal(mean, covariance).logpdf(X)
        for weight, mean, covariance in zip(
            params.weights, params.means, covariances, strict=True
        )
    ]
    return np.stack(columns, axis=1)


# ------------------------------------------------------------------------ the E-step


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_e_step(kind, weighted):
    X, _, sample_weight = problem()
    sample_weight = sample_weight if weighted else None
    params = params_of(kind, 3, 3)
    model = GaussianMixtureModel(3, covariance_type=kind)
    joint = log_joint(X, params, kind)
    density = special.logsumexp(joint, axis=1)
    posterior = np.exp(joint - density[:, None])
    assert_allclose(model.log_likelihood(X, params), density, rtol=1e-10)
    assert_allclose(model.posterior(X, params), posterior, rtol=1e-9, atol=1e-14)
    assert_array_equal(model.predict(X, params), joint.argmax(axis=1))
    s, log_likelihood = model.expected_statistics(X, params, sample_weight)
    mean = np.average(density, weights=sample_weight)
    assert log_likelihood == pytest.approx(mean, rel=1e-12)
    by_hand = model.mean_statistics(X, posterior, sample_weight)
    assert_allclose(s, by_hand, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_weight_of_a_component(kind):
    """A component without weight has no density, and no row."""
    X, _, _ = problem()
    params = params_of(kind, 3, 3)._replace(weights=np.array([0.4, 0.0, 0.6]))
    model = GaussianMixtureModel(3, covariance_type=kind)
    with np.errstate(divide="ignore"):
        joint = log_joint(X, params, kind)
    assert_allclose(model.log_likelihood(X, params), special.logsumexp(joint, axis=1))
    assert (model.posterior(X, params)[:, 1] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_posterior_probabilities(kind, global_random_seed):
    X, _, _ = problem(n=40)
    params = params_of(kind, 3, 3, spread=0.5)
    model = GaussianMixtureModel(3, covariance_type=kind)
    posterior = model.posterior(X, params)
    rng = np.random.default_rng(global_random_seed)
    counts = model.draw_posterior(X, params, 5000, rng)
    assert_array_equal(counts.sum(axis=1), 5000)
    # A chi-square statistic with 2 degrees of freedom for each row, but for rows with
    # too few expected draws.
    rows = (5000 * posterior).min(axis=1) > 5
    assert rows.sum() > 10
    expected = 5000 * posterior[rows]
    statistic = ((counts[rows] - expected) ** 2 / expected).sum()
    freedom = 2 * rows.sum()
    assert stats.chi2.sf(statistic, freedom) > 1e-5
    shuffled = posterior[rows][:, [1, 2, 0]] * 5000
    wrong = ((counts[rows] - shuffled) ** 2 / shuffled).sum()
    assert stats.chi2.sf(wrong, freedom) < 1e-10


# ------------------------------------------------------------------------ the M-step


@pytest.mark.parametrize("offset", [0.0, 1e7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_m_step_gives_the_weighted_moments(kind, weighted, offset):
    X, posterior, sample_weight = problem(offset=offset)
    sample_weight = sample_weight if weighted else np.ones(len(X))
    centre = np.median(X, axis=0)
    model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0, centre=centre)
    s = model.mean_statistics(X, posterior, sample_weight if weighted else None)
    params = model.maximize(s, None)
    joint = posterior * sample_weight[:, None]
    weights = joint.sum(axis=0) / joint.sum()
    means = np.array([np.average(X, axis=0, weights=column) for column in joint.T])
    matrices = [np.cov(X.T, aweights=column, bias=True) for column in joint.T]
    assert_allclose(params.weights, weights, rtol=1e-12)
    assert_allclose(params.means + centre, means, rtol=1e-12)
    # Data of size 1e7 have seven digits less.
    rtol = 1e-11 if offset == 0 else 1e-7
    expected = reduced(kind, np.array(matrices), weights)
    assert_allclose(params.covariances, expected, rtol=rtol, atol=rtol)
    P = params.precisions_cholesky
    if kind in ("full", "tied"):
        precisions = P @ np.swapaxes(P, -1, -2)
        assert_allclose(precisions, np.linalg.inv(params.covariances), rtol=1e-8)
    else:
        assert_allclose(P**2, 1 / params.covariances, rtol=1e-12)
    assert params.degenerate == 0


@pytest.mark.parametrize("kind", LEARNED)
def test_reg_covar_is_added_to_the_diagonal(kind):
    X, posterior, _ = problem()
    s = GaussianMixtureModel(3, covariance_type=kind).mean_statistics(X, posterior)
    bare, regular = (
        GaussianMixtureModel(3, covariance_type=kind, reg_covar=reg).maximize(s, None)
        for reg in (0.0, 0.5)
    )
    difference = dense(kind, regular.covariances, 3, 3)
    difference = difference - dense(kind, bare.covariances, 3, 3)
    assert_allclose(difference, np.tile(0.5 * np.eye(3), (3, 1, 1)), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_in_double_precision(kind, dtype):
    X, posterior, _ = problem()
    X = X.astype(dtype)
    model = GaussianMixtureModel(3, covariance_type=kind)
    s = model.mean_statistics(X, posterior)
    assert s.dtype == np.float64
    wide = model.mean_statistics(X.astype(np.float64), posterior)
    assert_allclose(s, wide, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("centre", [0.0, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_parameters(kind, centre):
    params = params_of(kind, 3, 4, centre=centre)
    model = GaussianMixtureModel(
        3, covariance_type=kind, reg_covar=0.0, centre=np.full(4, centre)
    )
    again = model.maximize(model.statistics_of(params), None)
    for name in ("weights", "means", "covariances", "precisions_cholesky"):
        assert_allclose(
            getattr(again, name), getattr(params, name), rtol=1e-9, atol=1e-11
        )


def test_a_component_without_data_keeps_what_it_had():
    """The other components are what they would be without it."""
    X, posterior, _ = problem()
    posterior[:, 1] = 0
    posterior /= posterior.sum(axis=1, keepdims=True)
    for kind in LEARNED:
        before = params_of(kind, 3, 3)
        model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0)
        two = GaussianMixtureModel(2, covariance_type=kind, reg_covar=0.0)
        params = model.maximize(model.mean_statistics(X, posterior), before)
        alone = two.maximize(two.mean_statistics(X, posterior[:, [0, 2]]), None)
        assert params.degenerate == 1
        assert model.degeneracies(params) == 1
        assert_allclose(params.weights[[0, 2]], alone.weights, rtol=1e-12)
        assert params.weights[1] == 0
        assert_allclose(params.means[[0, 2]], alone.means, rtol=1e-12)
        assert_allclose(params.means[1], before.means[1])
        wide = dense(kind, params.covariances, 3, 3)
        expected = dense(kind, alone.covariances, 2, 3)
        assert_allclose(wide[[0, 2]], expected, rtol=1e-10, atol=1e-12)
        if kind != "tied":
            assert_allclose(wide[1], dense(kind, before.covariances, 3, 3)[1])


@pytest.mark.parametrize("kind", LEARNED)
def test_a_component_without_data_or_past_is_that_of_all_data(kind):
    X, posterior, _ = problem()
    posterior[:, 1] = 0
    posterior /= posterior.sum(axis=1, keepdims=True)
    model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0)
    params = model.maximize(model.mean_statistics(X, posterior), None)
    assert_allclose(params.means[1], X.mean(axis=0), rtol=1e-10)
    if kind != "tied":
        whole = np.cov(X.T, bias=True)[None]
        expected = dense(kind, reduced(kind, whole, np.ones(1)), 1, 3)[0]
        found = dense(kind, params.covariances, 3, 3)[1]
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------ the priors

PRIORS = {
    "mean": {"mean_penalty": 0.7, "mean_prior": [1.0, -2.0]},
    "mean at the origin": {"mean_penalty": 0.4},
    "weights": {"weight_concentration": 0.3},
    "number": {"covariance_prior": 0.5, "covariance_prior_strength": 0.6},
    "diagonal": {"covariance_prior": [0.5, 2.0], "covariance_prior_strength": 0.6},
    "matrix": {
        "covariance_prior": [[0.8, 0.3], [0.3, 1.5]],
        "covariance_prior_strength": 0.25,
    },
    "all": {
        "mean_penalty": 0.5,
        "mean_prior": [0.5, 0.5],
        "weight_concentration": 0.2,
        "covariance_prior": [[1.0, -0.4], [-0.4, 2.0]],
        "covariance_prior_strength": 0.5,
    },
}


def documented_penalty(params, kind, prior):
    """Return r(theta) as the documentation has it, with dense matrices."""
    K, d = params.means.shape
    matrices = dense(kind, params.covariances, K, d)
    inverses = np.linalg.inv(matrices)
    m_0 = np.asarray(prior.get("mean_prior", np.zeros(d)))
    delta, tau = prior.get("mean_penalty", 0), prior.get("covariance_prior_strength", 0)
    Psi = np.asarray(prior.get("covariance_prior", 0.0))
    Psi = Psi if Psi.ndim == 2 else np.eye(d) * Psi
    value = -prior.get("weight_concentration", 0) * np.log(params.weights).sum()
    for k in range(K):
        deviation = params.means[k] - m_0
        value += delta / 2 * deviation @ inverses[k] @ deviation
        if kind != "unit" and (kind != "tied" or k == 0):
            determinant = np.linalg.slogdet(matrices[k])[1]
            value += tau / 2 * (determinant + np.trace(Psi @ inverses[k]))
    return value


def params_at(vector, kind, K, d):
    """Turn free numbers into parameters."""
    weights = special.softmax(np.append(vector[: K - 1], 0.0))
    means = vector[K - 1 : K - 1 + K * d].reshape(K, d)
    rest = vector[K - 1 + K * d :]
    if kind in ("full", "tied"):
        rest = rest.reshape(-1, d * (d + 1) // 2)
        lower = np.zeros((len(rest), d, d))
        rows, columns = np.tril_indices(d)
        lower[:, rows, columns] = rest
        diagonal = np.arange(d)
        lower[:, diagonal, diagonal] = np.exp(lower[:, diagonal, diagonal])
        covariances = lower @ lower.transpose(0, 2, 1)
        covariances = covariances[0] if kind == "tied" else covariances
    elif kind == "unit":
        covariances = np.ones(K)
    else:
        covariances = np.exp(rest).reshape((K, d) if kind == "diag" else (K,))
    return GaussianMixtureParams(weights, means, covariances, None)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_m_step_minimises_the_penalised_objective(kind, prior):
    """A general minimiser that knows only the documented objective comes here too."""
    settings = PRIORS[prior]
    K, d = 2, 2
    X, posterior, _ = problem(seed=3, n=40, d=d, K=K)
    model = GaussianMixtureModel(K, covariance_type=kind, reg_covar=0.0, **settings)
    found = model.maximize(model.mean_statistics(X, posterior), None)

    def objective(vector):
        params = params_at(vector, kind, K, d)
        matrices = dense(kind, params.covariances, K, d)
        deviations = X[:, None, :] - params.means
        squares = np.einsum(
            "nkd,kde,nke->nk", deviations, np.linalg.inv(matrices), deviations
        )
        joint = np.log(params.weights) - np.linalg.slogdet(matrices)[1] / 2
        joint = joint - squares / 2
        likelihood = (posterior * joint).sum() / len(X)
        return documented_penalty(params, kind, settings) - likelihood

    start = np.zeros(K - 1 + K * d + n_free(kind, K, d))
    best = optimize.minimize(
        objective, start, method="BFGS", jac="3-point", options={"gtol": 1e-7}
    )
    expected = params_at(best.x, kind, K, d)
    for name in ("weights", "means", "covariances"):
        assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-6)
    assert model.penalty(found) == pytest.approx(
        documented_penalty(found, kind, settings), rel=1e-10
    )
    # Without its prior the M-step would be elsewhere.
    plain = GaussianMixtureModel(K, covariance_type=kind, reg_covar=0.0)
    without = plain.maximize(plain.mean_statistics(X, posterior), None)
    unlearned = kind == "unit" and prior in ("number", "diagonal", "matrix")
    moved = max(
        np.abs(getattr(found, name) - getattr(without, name)).max()
        for name in ("weights", "means", "covariances")
    )
    assert unlearned == (moved < 1e-3)


def test_the_prior_is_about_the_origin_whatever_the_centre():
    X, posterior, _ = problem(n=100, d=2, K=2)
    settings = PRIORS["all"]
    found = []
    for centre in (None, X.mean(axis=0)):
        model = GaussianMixtureModel(2, centre=centre, reg_covar=0.0, **settings)
        params = model.maximize(model.mean_statistics(X, posterior), None)
        found.append((params.means + (0 if centre is None else centre), params))
    assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    assert_allclose(found[0][1].covariances, found[1][1].covariances, rtol=1e-9)


def test_priors_with_an_empty_tied_component():
    """A prior on means counts the components that have data only."""
    X, posterior, _ = problem(n=100, d=2, K=2)
    settings = {"mean_penalty": 0.7, "mean_prior": [4.0, -5.0]}
    two = GaussianMixtureModel(2, covariance_type="tied", **settings)
    three = GaussianMixtureModel(3, covariance_type="tied", **settings)
    wide = np.column_stack([posterior, np.zeros(len(X))])
    expected = two.maximize(two.mean_statistics(X, posterior), None)
    found = three.maximize(three.mean_statistics(X, wide), None)
    assert_allclose(found.covariances, expected.covariances, rtol=1e-10)


# ------------------------------------------------------------------- the feasible set


def is_feasible(model, s):
    mass, first, _ = model.split(s)
    params = model.maximize(s, None)
    K, d = first.shape
    matrices = dense(model.covariance_type, params.covariances, K, d)
    scale = np.abs(matrices).max()
    return (
        (mass >= 0).all()
        and abs(mass.sum() - 1) < 1e-12
        and all(np.isfinite(value).all() for value in params[:3])
        and np.linalg.eigvalsh(matrices).min() > -1e-9 * scale
    )


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", KINDS)
def test_feasible_statistics_are_left_alone(kind, scale):
    for seed in range(20):
        X, posterior, sample_weight = problem(seed=seed, n=30, d=2)
        model = GaussianMixtureModel(3, covariance_type=kind)
        s = model.mean_statistics(X * scale, posterior, sample_weight)
        projected, left = model.project(s)
        assert not left
        assert_array_equal(projected, s)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_on_the_boundary_are_left_alone(kind):
    """Components of one point, and without any, are what data can give."""
    X, posterior, _ = problem(n=30, d=2)
    labels = np.zeros(len(X), dtype=int)
    labels[0] = 1
    model = GaussianMixtureModel(3, covariance_type=kind)
    s = model.mean_statistics(X, np.eye(3)[labels])
    projected, left = model.project(s)
    assert not left
    assert_array_equal(projected, s)


@pytest.mark.parametrize("kind", KINDS)
def test_negative_mass_is_projected(kind):
    X, posterior, _ = problem(d=2)
    model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0)
    s = model.mean_statistics(X, posterior).copy()
    before = model.maximize(s, None)
    mass, first, moments = model.split(s)
    # The second component has lost more than it had; the total stays one.
    factor = -0.05 / mass[1]
    others = 1.05 / (1 - mass[1])
    first *= np.array([others, factor, others])[:, None]
    if kind not in ("tied", "unit"):
        parts = moments.reshape(3, -1)
        parts *= np.array([others, factor, others])[:, None]
    mass *= np.array([others, factor, others])
    assert abs(mass.sum() - 1) < 1e-12
    projected, left = model.project(s)
    assert left
    assert is_feasible(model, projected)
    after = model.maximize(projected, None)
    assert after.weights[1] == 0
    ratio = before.weights[0] / before.weights[2]
    assert after.weights[0] / after.weights[2] == pytest.approx(ratio, rel=1e-10)
    # The other components have the means and covariances that they had.
    assert_allclose(after.means[[0, 2]], before.means[[0, 2]], rtol=1e-10)
    if kind != "tied":
        kept = [0, 2]
        assert_allclose(
            after.covariances[kept], before.covariances[kept], rtol=1e-8, atol=1e-10
        )
    again, left = model.project(projected)
    assert not left
    assert_array_equal(again, projected)


@pytest.mark.parametrize("kind", LEARNED)
def test_negative_variances_are_projected(kind):
    X, posterior, _ = problem(d=2)
    model = GaussianMixtureModel(3, covariance_type=kind)
    s = model.mean_statistics(X, posterior).copy()
    mass, first, moments = (part.copy() for part in model.split(s))
    model.split(s)[2][:] = -np.abs(moments)
    projected, left = model.project(s)
    assert left
    assert is_feasible(model, projected)
    assert_allclose(projected[:3], mass, rtol=1e-12)
    assert_allclose(projected[3:9].reshape(3, 2), first, rtol=1e-10)
    assert not model.project(projected)[1]


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_indefinite_scatter_is_projected(kind):
    """Variances are fine, but a correlation is above one."""
    X, posterior, _ = problem(d=2)
    model = GaussianMixtureModel(3, covariance_type=kind, reg_covar=0.0)
    s = model.mean_statistics(X, posterior).copy()
    before = model.maximize(s, None)
    weights = 1.0 if kind == "tied" else before.weights
    packed = model.split(s)[2].reshape(-1, 3)  # xx, xy, yy
    covariances = np.atleast_3d(before.covariances.reshape(-1, 2, 2))
    bound = np.sqrt(covariances[:, 0, 0] * covariances[:, 1, 1])
    packed[:, 1] += weights * (2 * bound - covariances[:, 0, 1])
    projected, left = model.project(s)
    assert left
    assert is_feasible(model, projected)
    after = model.maximize(projected, None)
    assert_allclose(after.weights, before.weights, rtol=1e-12)
    assert_allclose(after.means, before.means, rtol=1e-10)
    assert after.degenerate == 0 or np.linalg.eigvalsh(after.covariances).min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_any_statistics_come_back_feasible(kind):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X, posterior, _ = problem(seed=seed, n=30, d=2)
        model = GaussianMixtureModel(3, covariance_type=kind)
        s = model.mean_statistics(X, posterior)
        noise = rng.normal(size=len(s)) * np.abs(s).max() * 10.0 ** rng.uniform(-3, 1)
        noise[:3] = rng.normal(size=3)
        noise[:3] -= noise[:3].mean()  # proxies keep the total mass
        projected, _ = model.project(s + noise)
        assert is_feasible(model, projected)


def test_floored_components_are_counted():
    """Three points on a line have no full covariance."""
    X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    model = GaussianMixtureModel(1, reg_covar=0.0)
    params = model.maximize(model.mean_statistics(X, np.ones((3, 1))), None)
    assert params.degenerate == 1
    assert np.linalg.eigvalsh(params.covariances[0]).min() > 0
    assert_allclose(params.covariances[0], np.full((2, 2), 2 / 3), rtol=1e-9)
    regular = GaussianMixtureModel(1, reg_covar=1e-3)
    params = regular.maximize(regular.mean_statistics(X, np.ones((3, 1))), None)
    assert params.degenerate == 0
