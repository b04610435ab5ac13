"""What the mixture's face promises: weights, seeds, threads, iterates, answers."""

import io
import re
from contextlib import redirect_stdout

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sktem import GaussianMixturePrior, StochasticEMGaussianMixture
from sktem.models import GaussianMixtureModel
from sktem.samplers import ExactDraws, ExactExpectation
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FITTEM, ISAEM, VRTTEM, FullBatch, OnlineEM
from tests.emissions.structures import KINDS, dense, n_free, reduced
from tests.oracles import MIXTURE, assert_same

SOLVERS = ["em", "online", "saem", "mcem", "iem", "isaem", "vrttem", "fittem"]


def two_clusters(n=200, seed=0, d=2):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 5 > 2
    scale = np.where(labels, 1.5, 1.0)[:, None]
    return rng.normal(size=(n, d)) * scale + np.where(labels, 3.0, -1.0)[:, None]


def mixture(n_components=2, **settings):
    settings = {"random_state": 0, "tol": 0.0, **settings}
    return StochasticEMGaussianMixture(n_components, **settings)


def assert_different(first, second):
    assert np.abs(first.means_ - second.means_).max() > 1e-8


# -------------------------------------------------------------------------- weights


def by_sign(X, n_components, random_state):
    return (X[:, 0] > 1).astype(int)


@pytest.mark.filterwarnings("ignore:Distinct rows occur")
@pytest.mark.parametrize("solver", ["em", "saem"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repetition(kind, solver):
    X = two_clusters(100)
    repeats = np.random.default_rng(1).integers(1, 5, size=100)
    settings = {"covariance_type": kind, "solver": solver, "init_params": by_sign}
    settings["sampler"] = "exact"  # draws are not the same for repeated rows
    for max_iter in (0, 1, 15):
        weighted = mixture(max_iter=max_iter, **settings)
        weighted.fit(X, sample_weight=repeats)
        repeated = mixture(max_iter=max_iter, **settings)
        repeated.fit(np.repeat(X, repeats, axis=0))
        assert_same(weighted, repeated, rtol=1e-10)
    assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-12)
    plain = mixture(max_iter=15, **settings).fit(X)
    assert_different(plain, weighted)


@pytest.mark.parametrize("solver", ["iem", "vrttem", "fittem"])
def test_weighted_solvers_have_the_weighted_fixed_point(solver):
    X = two_clusters(100)
    weights = np.random.default_rng(1).integers(1, 5, size=100).astype(float)
    em = mixture(max_iter=400).fit(X, sample_weight=weights)
    other = mixture(max_iter=150, solver=solver, batch_size=25, init_params=by_sign)
    other.fit(X, sample_weight=weights)
    order = [np.argsort(fit.means_[:, 0]) for fit in (other, em)]
    for name in ("weights_", "means_", "covariances_"):
        value, expected = getattr(other, name), getattr(em, name)
        assert_allclose(value[order[0]], expected[order[1]], atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_comes_to_the_optimum_of_em(solver):
    X = two_clusters(2000)
    best = mixture(max_iter=300).fit(X).score(X)
    fit = mixture(solver=solver, max_iter=60).fit(X)
    # Draws and batches leave noise; statistics of 1000 rows have it at 1 / 1000.
    assert best - 2e-3 < fit.score(X) <= best + 1e-9
    assert fit.n_iter_ <= 60
    start = mixture(max_iter=0, init_params="random").fit(X).score(X)
    assert start < best - 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_weights_are_removal(solver):
    X = two_clusters()
    keep = np.random.default_rng(2).random(len(X)) < 0.7
    settings = {"solver": solver, "max_iter": 6}
    weighted = mixture(**settings).fit(X, sample_weight=keep.astype(float))
    removed = mixture(**settings).fit(X[keep])
    assert_same(weighted, removed)
    assert_different(weighted, mixture(**settings).fit(X))


def test_only_proportions_of_weights_count_in_fit():
    X = two_clusters()
    weights = np.random.default_rng(2).random(len(X)) + 0.1
    first = mixture(max_iter=10).fit(X, sample_weight=weights)
    second = mixture(max_iter=10).fit(X, sample_weight=8 * weights)
    assert_same(first, second, rtol=1e-10)


def test_weights_in_score():
    X = two_clusters()
    repeats = np.random.default_rng(1).integers(0, 5, size=len(X))
    fitted = mixture(max_iter=5).fit(X)
    expected = fitted.score(np.repeat(X, repeats, axis=0))
    assert fitted.score(X, sample_weight=repeats) == pytest.approx(expected, rel=1e-12)
    assert fitted.score(X) != pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["fit", "fit_predict"])
@pytest.mark.parametrize(
    "weights, match",
    [
        (np.zeros(200), "(?i)sample.weights?.*zero"),
        (-np.ones(200), "Negative values in data passed to `?sample_weight"),
        (np.r_[-1.0, np.ones(199)], "Negative values in data passed to"),
        (np.ones(199), "sample_weight.shape"),
        (np.ones((200, 2)), "(?i)sample.weights must be 1D"),
        (np.full(200, np.nan), "Input sample_weight contains NaN"),
    ],
    ids=["zeros", "negative", "one negative", "too few", "two columns", "nan"],
)
def test_bad_weights(method, weights, match):
    with pytest.raises(ValueError, match=match):
        getattr(mixture(), method)(two_clusters(), sample_weight=weights)


# ------------------------------------------------------------------ seeds and threads


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bits(solver):
    X = two_clusters()
    settings = {"solver": solver, "max_iter": 6}
    first, second = (mixture(**settings).fit(X) for _ in range(2))
    assert_same(first, second)
    assert first.lower_bounds_ == second.lower_bounds_
    again = clone(first).fit(X)
    assert_same(first, again)
    assert_same(first, first.fit(X))  # a second fit forgets the first


@pytest.mark.parametrize("solver", ["online", "isaem", "vrttem", "fittem", "mcem"])
def test_different_seeds_differ(solver):
    X = two_clusters()
    settings = {"solver": solver, "max_iter": 6, "init_params": by_sign}
    assert_different(
        mixture(**settings).fit(X), mixture(**settings, random_state=1).fit(X)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.RandomState(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.default_rng(np.random.SeedSequence(3)),
        lambda: np.int64(3),
    ],
    ids=["RandomState", "Generator", "SeedSequence", "integer"],
)
def test_kinds_of_seeds(make):
    X = two_clusters()
    settings = {"solver": "online", "max_iter": 4}
    first, second = (mixture(**settings, random_state=make()).fit(X) for _ in range(2))
    assert_same(first, second)
    seed = make()
    if not isinstance(seed, np.int64):  # one that advances gives something new
        one = mixture(**settings, random_state=seed).fit(X)
        assert_different(one, clone(one).set_params(random_state=seed).fit(X))


def test_no_seed_means_numpy_s_global_state():
    X = two_clusters()
    found = []
    for seed in (5, 5, 6):
        np.random.seed(seed)  # noqa: NPY002
        found.append(mixture(solver="online", max_iter=4, random_state=None).fit(X))
    assert_same(found[0], found[1])
    assert_different(found[0], found[2])


def test_solvers_see_the_same_start():
    """The start does not depend on what comes after it."""
    X = two_clusters()
    first, *others = (mixture(solver=name, max_iter=0).fit(X) for name in SOLVERS)
    for other in others:
        assert_same(other, first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["em", "online", "iem", "vrttem", "fittem"])
def test_threads_give_the_same_bits(solver, kind):
    """The blocks of rows, 16384 at most, do not depend on the number of threads."""
    X = two_clusters(2 * 16_384 + 1)
    settings = {"covariance_type": kind, "solver": solver, "max_iter": 3}
    settings["init_size"] = 500
    one, two = (mixture(**settings, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert_same(one, two)
    assert one.lower_bounds_ == two.lower_bounds_
    for method in ("score_samples", "predict_proba", "predict"):
        assert_array_equal(getattr(one, method)(X), getattr(two, method)(X))
    assert_same(one.partial_fit(X), two.partial_fit(X))


# ----------------------------------------------------------------- which iterate


# ----------------------------------------------------------- solvers and their parts


@pytest.mark.parametrize(
    "name, settings",
    [
        ("em", {"solver": FullBatch(), "sampler": ExactExpectation()}),
        ("mcem", {"solver": FullBatch(), "sampler": "mc", "step_size": 1.0}),
        ("online", {"solver": OnlineEM()}),
        (
            "online",
            {"step_size": Polynomial(alpha=0.6, offset=2.0), "solver": "online"},
        ),
        ("iem", {"solver": ISAEM(), "step_size": Constant(1.0)}),
        ("isaem", {"solver": ISAEM()}),
        ("vrttem", {"solver": VRTTEM()}),
        ("fittem", {"solver": FITTEM(), "step_size": lambda k: 1.0}),
        ("fittem", {"solver": FITTEM(rho=(200 / 10) ** (-2 / 3))}),
        ("mcem", {"solver": "mcem", "sampler": ExactDraws(n_draws=10)}),
    ],
)
def test_names_stand_for_parts(name, settings):
    X = two_clusters()
    by_name = mixture(solver=name, max_iter=5).fit(X)
    by_parts = mixture(max_iter=5, **settings).fit(X)
    assert_same(by_name, by_parts)


def penalty(kind):
    return GaussianMixturePrior(
        mean_penalty=0.05,
        mean_prior=[11.0, 9.0],
        weight_concentration=0.02,
        covariance_prior=None if kind == "unit" else 1.5,
        covariance_prior_strength=0.0 if kind == "unit" else 0.1,
    )


@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_lower_bound_rises(kind, penalised):
    X = two_clusters() + 10.0
    settings = {"covariance_type": kind, "max_iter": 60, "reg_covar": 0.0}
    own = {"prior": penalty(kind)} if penalised else {"init_params": "random"}
    fitted = mixture(3, **settings, **own).fit(X)
    bounds = np.array(fitted.lower_bounds_)
    assert (np.diff(bounds) > -1e-12 * np.abs(bounds[0])).all()
    assert fitted.lower_bound_ == bounds[-1]
    # The bound of an epoch is that before its M-step, and the penalty is taken off.
    gap = fitted.score(X) - fitted.lower_bound_
    assert gap > 1e-3 if penalised else gap >= -1e-12


# --------------------------------------------------------------------------- starts


def test_init_size_uses_a_part_of_the_rows():
    X, seen = two_clusters(500), []

    def method(rows, n_components, random_state):
        seen.append(rows)
        return (rows[:, 0] > 1).astype(int)

    mixture(init_params=method, init_size=50, max_iter=1).fit(X)
    mixture(init_params=method, init_size=10_000, max_iter=1).fit(X)
    mixture(init_params=method, max_iter=1).fit(X)
    assert [len(rows) for rows in seen] == [50, 500, 500]
    positions = [np.flatnonzero((X == row).all(axis=1)) for row in seen[0]]
    assert len(np.unique(np.concatenate(positions))) == 50


def test_no_start_is_made_when_all_is_given():
    def method(rows, n_components, random_state):
        pytest.fail("a start was made")

    settings = {"weights_init": [0.5, 0.5], "means_init": [[-1, -1], [3, 3]]}
    for kind, precisions in {
        "full": np.tile(np.eye(2), (2, 1, 1)),
        "unit": None,
    }.items():
        fitted = mixture(
            covariance_type=kind,
            init_params=method,
            precisions_init=precisions,
            max_iter=0,
            **settings,
        ).fit(two_clusters())
        assert_allclose(fitted.means_, settings["means_init"])
        assert_allclose(fitted.weights_, settings["weights_init"])


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_goes_on(solver):
    X = two_clusters(1000)
    settings = {"solver": solver, "init_params": "random", "max_iter": 4}
    warm = mixture(warm_start=True, **settings).fit(X)
    scores = [warm.score(X)]
    for _ in range(12):  # SAEM begins each time with its longest steps
        scores.append(warm.fit(X).score(X))
    cold = mixture(**settings).fit(X)
    assert cold.score(X) == scores[0]
    best = mixture(max_iter=300).fit(X).score(X)
    assert best - scores[-1] < 0.5 * (best - scores[0])


@pytest.mark.parametrize(
    "change, name",
    [
        ({"n_components": 3}, "n_components"),
        ({"covariance_type": "diag"}, "covariance"),
    ],
)
def test_what_goes_on_has_to_match(change, name):
    X = two_clusters(1100)
    warm = mixture(warm_start=True, max_iter=2).fit(X).set_params(**change)
    with pytest.raises(ValueError, match=f"Cannot continue from a mixture with {name}"):
        warm.fit(X)
    with pytest.raises(ValueError, match=f"Cannot continue from a mixture with {name}"):
        warm.partial_fit(X)
    stream = mixture().partial_fit(X).partial_fit(X)
    before = {key: getattr(stream, key) for key in change}
    with pytest.raises(ValueError, match=f"Cannot continue from a mixture with {name}"):
        stream.set_params(**change).partial_fit(X)
    stream.set_params(**before).partial_fit(X)  # what was refused is forgotten
    warm.set_params(warm_start=False).fit(X)
    warm.set_params(warm_start=True)
    with pytest.raises(ValueError, match="Cannot continue .* with n_features"):
        warm.fit(np.column_stack([X, X]))


# --------------------------------------------------------------------------- priors


def test_prior_mean_is_in_the_coordinates_of_the_data():
    """For one component: the mean of data and prior, weighted by delta."""
    X = two_clusters() + 1e4
    prior = np.array([1e4 + 5, 1e4 - 5])
    fitted = mixture(
        1, prior=GaussianMixturePrior(mean_penalty=0.5, mean_prior=prior)
    ).fit(X)
    assert_allclose(fitted.means_[0], (X.mean(axis=0) + 0.5 * prior) / 1.5, rtol=1e-12)
    origin = mixture(1, prior=GaussianMixturePrior(mean_penalty=0.5)).fit(X)
    assert_allclose(origin.means_[0], X.mean(axis=0) / 1.5, rtol=1e-12)


def test_prior_of_the_covariance():
    X = two_clusters()
    Psi = np.array([[2.0, 0.5], [0.5, 1.0]])
    prior = GaussianMixturePrior(covariance_prior=Psi, covariance_prior_strength=0.5)
    fitted = mixture(1, prior=prior, reg_covar=0.0).fit(X)
    expected = (np.cov(X.T, bias=True) + 0.5 * Psi) / 1.5
    assert_allclose(fitted.covariances_[0], expected, rtol=1e-10)


@pytest.mark.parametrize("solver", ["em", "vrttem", "fittem"])
def test_concentration_keeps_components_alive(solver):
    X = two_clusters()
    settings = {"n_components": 6, "solver": solver, "max_iter": 30}
    prior = GaussianMixturePrior(weight_concentration=1.0)
    fitted = mixture(prior=prior, **settings).fit(X)
    least = 1 / (1 + 6)
    assert fitted.weights_.min() >= least * (1 - 1e-9)
    assert mixture(**settings).fit(X).weights_.min() < least


# -------------------------------------------------------------------------- answers


def fitted_by_hand(kind, K=3, d=2, seed=0):
    """A mixture of known parameters."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(K, d, d + 2)) / 2
    matrices = factors @ factors.transpose(0, 2, 1)
    covariances = reduced(kind, matrices, np.full(K, 1 / K))
    fitted = mixture(K, covariance_type=kind, random_state=seed)
    fitted.weights_ = rng.dirichlet(np.full(K, 4.0))
    fitted.means_ = 3 * rng.normal(size=(K, d))
    fitted.covariances_ = covariances
    structure = GaussianMixtureModel(K, covariance_type=kind).structure(d)
    fitted.precisions_cholesky_ = structure.precisions_cholesky(covariances)
    fitted.n_features_in_ = d
    return fitted, dense(kind, covariances, K, d)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_follow_from_the_public_attributes(kind):
    fitted, matrices = fitted_by_hand(kind)
    X = two_clusters()
    joint = fitted.weights_ * np.stack(
        [
            stats.multivariate_normal(mean, covariance).pdf(X)
            for mean, covariance in zip(fitted.means_, matrices, strict=True)
        ],
        axis=1,
    )
    density = joint.sum(axis=1)
    assert_allclose(fitted.score_samples(X), np.log(density), rtol=1e-10)
    assert fitted.score(X) == pytest.approx(np.log(density).mean(), rel=1e-12)
    posterior = joint / density[:, None]
    assert_allclose(fitted.predict_proba(X), posterior, atol=1e-12)
    assert_array_equal(fitted.predict(X), joint.argmax(axis=1))
    moved = np.array([5.0, -5.0])
    before = fitted.score_samples(X)
    fitted.means_ = fitted.means_ + moved
    assert_allclose(fitted.score_samples(X + moved), before, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_information_criteria(kind):
    K, d = 3, 2
    fitted, _ = fitted_by_hand(kind, K, d)
    X = two_clusters()
    free = n_free(kind, K, d) + K * d + K - 1
    deviance = -2 * fitted.score_samples(X).sum()
    assert fitted.aic(X) == pytest.approx(deviance + 2 * free, rel=1e-12)
    bic = deviance + free * np.log(len(X))
    assert fitted.bic(X) == pytest.approx(bic, rel=1e-12)
    entropies = stats.entropy(fitted.predict_proba(X), axis=1)
    assert fitted.icl(X) == pytest.approx(bic + 2 * entropies.sum(), rel=1e-10)
    assert entropies.sum() > 1


def test_icl_prefers_separate_components():
    """Two components for one skewed cluster: BIC takes them, ICL does not."""
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(600, 1))
    one, two = (mixture(K, max_iter=300).fit(X) for K in (1, 2))
    assert two.bic(X) < one.bic(X)
    assert one.icl(X) < two.icl(X)
    apart = np.concatenate([X, X + 100])
    one, two = (mixture(K, max_iter=300).fit(apart) for K in (1, 2))
    assert two.icl(apart) == pytest.approx(two.bic(apart), rel=1e-9)
    assert two.icl(apart) < one.icl(apart)


def test_certain_labels_have_no_entropy():
    X = np.repeat([[0.0], [1e6]], 20, axis=0) + np.arange(40)[:, None] % 20
    fitted = mixture(max_iter=5).fit(X)
    assert set(np.unique(fitted.predict_proba(X))) == {0.0, 1.0}
    assert fitted.icl(X) == fitted.bic(X)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_has_the_moments_of_the_mixture(kind, global_random_seed):
    """Within 4.5 standard errors, where samples of another mixture are not."""
    fitted, matrices = fitted_by_hand(kind, d=3)
    fitted.set_params(random_state=global_random_seed)
    X, labels = fitted.sample(4000)
    assert X.shape == (4000, 3) and (np.diff(labels) >= 0).all()
    counts = np.bincount(labels, minlength=3)
    assert stats.chisquare(counts, 4000 * fitted.weights_).pvalue > 1e-5
    assert stats.chisquare(counts, 4000 * fitted.weights_[::-1]).pvalue < 1e-5
    for k in range(3):
        rows = X[labels == k] - fitted.means_[k]
        error = rows.std(axis=0) / np.sqrt(len(rows))
        assert (np.abs(rows.mean(axis=0)) < 4.5 * error).all()
        assert not (np.abs(rows.mean(axis=0) + 0.5) < 4.5 * error).all()
        products = rows[:, :, None] * rows[:, None, :]
        error = products.std(axis=0) / np.sqrt(len(rows))
        found, own = products.mean(axis=0), matrices[k]
        assert (np.abs(found - own) < 4.5 * error).all()
        assert not (np.abs(found - 1.5 * own) < 4.5 * error).all()


def test_samples_repeat_with_an_integer_seed_only():
    fitted, _ = fitted_by_hand("full")
    assert_array_equal(fitted.sample(5)[0], fitted.sample(5)[0])
    fitted.set_params(random_state=np.random.RandomState(0))
    assert not np.array_equal(fitted.sample(5)[0], fitted.sample(5)[0])


def test_unit_covariances_are_spherical_ones_that_are_one():
    X = two_clusters()
    settings = {"max_iter": 1, "means_init": [[-1, -1], [3, 3]]}
    settings["weights_init"] = [0.3, 0.7]
    unit = mixture(covariance_type="unit", **settings).fit(X)
    spherical = GaussianMixture(
        2, covariance_type="spherical", precisions_init=[1, 1], tol=0.0, **settings
    )
    with pytest.warns(ConvergenceWarning):
        spherical.fit(X)
    assert_allclose(unit.means_, spherical.means_, rtol=1e-12)
    assert_allclose(unit.weights_, spherical.weights_, rtol=1e-12)
    assert unit.lower_bound_ == pytest.approx(spherical.lower_bound_, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", SOLVERS)
def test_dtypes_and_shapes(solver, dtype):
    X = two_clusters().astype(dtype)
    fitted = mixture(solver=solver, max_iter=4).fit(X)
    for name in (*MIXTURE, "precisions_cholesky_"):
        assert getattr(fitted, name).dtype == dtype
    for method in ("score_samples", "predict_proba"):
        assert getattr(fitted, method)(X).dtype == dtype
    assert fitted.sample(3)[0].dtype == dtype
    assert isinstance(fitted.score(X), float)
    assert fitted.n_samples_seen_ == 200 and fitted.n_features_in_ == 2


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: X.tolist(),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(object),
        lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    ],
    ids=["fortran", "list", "strided", "object", "read-only"],
)
def test_layouts_of_the_data(convert):
    X = two_clusters()
    assert_same(mixture(max_iter=3).fit(convert(X)), mixture(max_iter=3).fit(X))


# -------------------------------------------------------------------------- printing


def printed(estimator, X):
    out = io.StringIO()
    with redirect_stdout(out):
        estimator.fit(X)
    # Times are never the same.
    return re.sub(r"time lapse [0-9.]+s", "time lapse", out.getvalue())


@pytest.mark.parametrize("verbose", [0, 1, 2])
@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("n_init", [1, 2])
def test_prints_what_scikit_learn_prints(verbose, interval, n_init):
    X = two_clusters()
    settings = {
        "n_components": 2,
        "verbose": verbose,
        "verbose_interval": interval,
        "n_init": n_init,
        "tol": 1e-3,
        "random_state": 0,
        "init_params": "random",
    }
    ours = printed(StochasticEMGaussianMixture(**settings), X)
    theirs = printed(GaussianMixture(**settings), X)
    if "converged:" in theirs:
        pytest.skip("the words of older versions of scikit-learn")
    assert ours == theirs
    assert (ours == "") == (verbose == 0)


def test_prints_what_did_not_converge():
    text = printed(mixture(max_iter=3, verbose=1, verbose_interval=1), two_clusters())
    assert text.splitlines() == [
        "Initialization 0",
        *(f"  Iteration {k}" for k in (1, 2, 3)),
        "Initialization did not converge.",
    ]


# ------------------------------------------------------------------------- interrupts


def interrupt(monkeypatch, at, method="expected_statistics"):
    """Let the user press Ctrl-C when the E-step is called for that time."""
    calls, real = iter(range(1, 10**6)), getattr(GaussianMixtureModel, method)

    def interrupted(self, *args, **kwargs):
        if next(calls) == at:
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    monkeypatch.setattr(GaussianMixtureModel, method, interrupted)


@pytest.mark.parametrize("where", ["run", "start"])
def test_interrupt_of_a_later_start_keeps_the_best(where, monkeypatch):
    X = two_clusters()
    settings = {"max_iter": 5, "init_params": "random"}
    best = mixture(**settings).fit(X)
    fitted = mixture(n_init=3, **settings)
    if where == "run":
        interrupt(monkeypatch, 7)  # the second start has had one iteration
    else:
        interrupt(monkeypatch, 2, "mean_statistics")
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X)
    assert fitted.lower_bound_ >= best.lower_bound_
    assert_same(fitted, best)
    assert not hasattr(fitted, "_fit_progress")


# -------------------------------------------------------------------- where runs end


def gain_of_em(mixture, X, sample_weight):
    """Return what EM gains from where a fit has ended, in nats per row."""
    start = {
        "weights_init": mixture.weights_,
        "means_init": mixture.means_,
        "precisions_init": mixture.precisions_,
    }
    em = clone(mixture).set_params(solver="em", sampling="shuffle", tol=1e-10, **start)
    found = [one.score_samples(X) for one in (em.fit(X, None, sample_weight), mixture)]
    return np.average(found[0] - found[1], weights=sample_weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sampling", ["shuffle", "fixed"])
def test_online_em_ends_at_a_maximum(sampling, weighted, global_random_seed):
    """It does so by its last passes: before them it is short of it."""
    before = []
    for seed in range(3):
        rng = np.random.default_rng([global_random_seed, seed])
        means = 5 * np.eye(3, 4)
        X = means[rng.integers(3, size=1500)] + rng.normal(size=(1500, 4))
        weights = rng.exponential(size=len(X)) if weighted else None
        online = mixture(3, solver="online", sampling=sampling, tol=1e-6)
        online.set_params(means_init=means, random_state=seed).fit(X, None, weights)
        assert online.converged_
        assert -1e-9 < gain_of_em(online, X, weights) < 2e-5
        n_online = int(np.sum(np.array(online.history_.step_size) < 1))
        with pytest.warns(ConvergenceWarning):
            short = clone(online).set_params(max_iter=n_online).fit(X, None, weights)
        assert not short.converged_
        before.append(gain_of_em(short, X, weights))
    assert max(before) > (1e-4 if sampling == "shuffle" and not weighted else 1e-3)
