"""Data sets for StochasticEMGaussianMixture and StochasticEM with their defaults."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture

from sktem import StochasticEM, StochasticEMGaussianMixture, StochasticEMMixture
from sktem.emissions import Bernoulli, Categorical
from sktem.models import RandomInterceptModel, RandomInterceptParams
from tests.defaults.harness import Case, shared_path
from tests.defaults.mixture_models import (
    FactorModel,
    ProbitModel,
    ProbitParams,
    ZeroInflatedPoisson,
    ZipParams,
    answers,
)

MIXTURE, OWN = "StochasticEMGaussianMixture", "StochasticEM"
#: Nats per row that a user would not miss; a tenth of what a component brings.
NATS = 0.003


def blobs(seed, n, d=2, K=3, distance=5.0, weights=None, stretch=1.0):
    """Return n rows of K clusters in d dimensions."""
    rng = np.random.default_rng(1000 + seed)
    means = distance * rng.standard_normal((K, d))
    labels = rng.choice(K, size=n, p=weights)
    scales = np.geomspace(stretch, 1.0, d)
    return means[labels] * scales + scales * rng.standard_normal((n, d))


def with_outliers(seed, n):
    X = blobs(seed, n)
    X[:: n // 5] *= 1e3
    return X


def duplicated(seed, n):
    return np.repeat(blobs(seed, n // 4), 4, axis=0)


def reference_score(X, K, seed, kind="full"):
    """Return scikit-learn's score, from the same start to a tight tolerance."""
    peer = GaussianMixture(
        K, covariance_type=kind, tol=1e-9, max_iter=5000, random_state=seed
    )
    return peer.fit(X).score(X)


def mixture_gap(
    seed, data, n, K=3, offset=0.0, scale=1.0, dtype=float, stream=0, model=None, **own
):
    """Return how far the score on the data is below scikit-learn's."""
    X = data(seed, n) if model is None else data(seed, n, **model)
    reference = reference_score(X, K, seed, own.get("covariance_type", "full"))
    reference -= X.shape[1] * np.log(scale)
    X = (offset + scale * X).astype(dtype)
    mixture = StochasticEMGaussianMixture(K, random_state=seed, **own)
    if not stream:
        return reference - mixture.fit(X).score(X)
    for _ in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        for start in range(0, len(X), stream):
            mixture.partial_fit(X[order[start : start + stream]])
    return reference - mixture.score(X)


def real_gap(seed, name, K, n, **own):
    """The same for rows of real data, as they are."""
    X = np.load(shared_path(f"mixture/{name}.npz"))["X"].astype(float)
    X = X[np.random.default_rng(seed).choice(len(X), n, replace=False)]
    mixture = StochasticEMGaussianMixture(K, random_state=seed, **own).fit(X)
    return reference_score(X, K, seed) - mixture.score(X)


def heavy_rows_gap(seed, n=2000):
    """The same for two rows that have nearly all of the weight."""
    X, weights = blobs(seed, n), np.ones(n)
    weights[:2] = 1e6
    mixture = StochasticEMGaussianMixture(3, random_state=seed)
    mixture.fit(X, sample_weight=weights)
    return reference_score(X, 3, seed) - mixture.score(X)


def table_gap(seed, n=1500):
    """Return how far new rows of a table with labels and holes are below the truth."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, 2 * n, p=[0.5, 0.3, 0.2])
    means, rates = np.array([0.0, 4.0, 9.0]), np.array([1.0, 4.0, 12.0])
    chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    labels = (rng.random((2 * n, 1)) > chances[kind].cumsum(axis=1)).sum(axis=1)
    size, count = rng.normal(means[kind], 1.0), rng.poisson(rates[kind])
    logs = stats.norm.logpdf(size[:, None], means) + np.log(chances.T[labels])
    logs += stats.poisson.logpmf(count[:, None], rates) + np.log([0.5, 0.3, 0.2])
    table = pd.DataFrame({
        "size": size, "count": count, "label": np.array(list("abc"))[labels],
    })  # fmt: skip
    holes = rng.random((n, 3)) < 0.15
    mixture = StochasticEMMixture(3, emission="auto", random_state=seed)
    mixture.fit(table[:n].mask(holes))
    return logsumexp(logs[n:], axis=1).mean() - mixture.score(table[n:])


def answers_gap(seed, n, d, n_labels, kind="categorical", K=3):
    """Return what a prior worth one row adds to the score of new rows of labels."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_labels), (2, d)).cumsum(axis=2)[..., :-1]
    classes = rng.integers(2, size=4 * n)
    X = (rng.random((4 * n, d, 1)) > shares[classes]).sum(axis=2)
    emission = {
        "categorical": partial(Categorical, n_labels), "binary": Bernoulli,
    }[kind]  # fmt: skip
    new, X = X[n:], X[:n]
    prior = StochasticEMMixture(K, emission=emission(smoothing=1 / n), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = prior.fit(X).score(new)
    mixture = StochasticEMMixture(K, emission=emission(), random_state=seed)
    return wanted - mixture.fit(X).score(new)


def case(name, unit="nats per row", limit=NATS, estimator=MIXTURE, **options):
    distance = options.pop("distance")
    reference = options.pop("reference", "scikit-learn, tight tolerance")
    return Case(name, estimator, reference, unit, limit, distance, **options)


def fitted(name, data, n, **settings):
    outer = {k: settings.pop(k) for k in ("may_warn", "slow", "limit") if k in settings}
    return case(
        name, distance=partial(mixture_gap, data=data, n=n, **settings), **outer
    )


SOLVERS = ("em", "mcem", "saem", "online", "iem", "isaem", "vrttem", "fittem")
SHAPES = [
    fitted("50 rows", blobs, 50),
    fitted("one column", blobs, 500, model={"d": 1}),
    fitted("30 columns", blobs, 3000, model={"d": 30}),
    fitted("offset 1e6", blobs, 1001, offset=1e6),
    fitted("scale 1e6", blobs, 1001, scale=1e6),
    fitted("scale 1e-6", blobs, 1001, scale=1e-6, may_warn=True),
    fitted("columns of scales 1 to 1000", blobs, 2001, model={"stretch": 1e3}),
    fitted("weights 1 to 90 %", blobs, 5001, model={"weights": [0.9, 0.09, 0.01]}),
    fitted("float32", blobs, 2001, dtype=np.float32),
    fitted("float32, offset 1000", blobs, 2001, dtype=np.float32, offset=1e3,
           limit=0.01),
    fitted("rows four times each", duplicated, 1000),
    fitted("five outliers", with_outliers, 1001, K=4),
    fitted("overlapping", blobs, 2001, model={"distance": 1.5}, limit=0.005),
    fitted("50,000 rows", blobs, 50_000, slow=True),
    *(fitted(f"{kind} covariances", blobs, 2001, covariance_type=kind)
      for kind in ("tied", "diag", "spherical")),
    *(fitted(f"start {start}", blobs, 1001, init_params=start, n_init=5)
      for start in ("k-means++", "random_from_data")),
]  # fmt: skip
#: Odd numbers of rows, where the last batch of a pass would be short.
SIZES = [
    fitted(f"{n} rows, solver {name}", blobs, n, solver=name, slow=n > 6000 or name in
           ("mcem", "saem"))
    for name in SOLVERS[1:]
    for n in (1001, 5001, 20481)
]  # fmt: skip
CUTS = [
    fitted(f"{n} rows in batches of {b}, solver {name}", blobs, n, solver=name,
           batch_size=b)
    for name in ("online", "vrttem", "fittem")
    for n, b in ((5001, 1000), (1025, 1024))
]  # fmt: skip
STREAMS = [
    fitted(f"stream in chunks of {chunk}, {name}", blobs, 5001, solver=name,
           stream=chunk, limit=0.01, slow=name != "em")
    for name in ("em", "isaem", "vrttem", "fittem")
    for chunk in (101, 1000)
]  # fmt: skip


def likelihood_gap(model, X, params, best):
    return float(best - model.log_likelihood(X, params).mean())


def zip_gap(seed, n, zeros=0.3, rate=2.0, **own):
    rng = np.random.default_rng(seed)
    structural = rng.random((n, 1)) < zeros
    X = np.where(structural, 0, rng.poisson(rate, size=(n, 1))).astype(float)
    model = ZeroInflatedPoisson()
    best = -minimize(
        lambda t: -model.log_likelihood(X, ZipParams(*t)).mean(),
        x0=[zeros, rate],
        bounds=[(1e-6, 1 - 1e-6), (1e-6, 1e3)],
    ).fun
    em = StochasticEM(model, random_state=seed, **own).fit(X)
    return likelihood_gap(model, X, em.params_, best)


def factor_gap(seed, n, d=6, k=2, offset=0.0, scale=1.0, **own):
    rng = np.random.default_rng(seed)
    loadings, noise = rng.standard_normal((k, d)), rng.uniform(0.2, 1.5, d)
    X = rng.standard_normal((n, k)) @ loadings + np.sqrt(noise) * rng.standard_normal(
        (n, d)
    )
    peer = FactorAnalysis(k, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(X)
    best = peer.score(X) - d * np.log(scale)
    model, X = FactorModel(k), offset + scale * X
    em = StochasticEM(model, random_state=seed, **own).fit(X)
    return likelihood_gap(model, X, em.params_, best)


def probit_gap(seed, n, unit=1.0, variance=1.44, **own):
    model, X = ProbitModel(unit), answers(seed, n, variance)
    best = -minimize(
        lambda t: -model.log_likelihood(X, ProbitParams(t[0], np.exp(t[1]))).mean(),
        x0=[0.5, 0.0],
    ).fun
    em = StochasticEM(model, random_state=seed, **own).fit(X)
    return likelihood_gap(model, X, em.params_, best)


def intercept_gap(seed, n, m=5, scale=1.0, offset=0.0, share=1.0, **own):
    """Against the maximum in closed form, for equal numbers of measurements."""
    rng = np.random.default_rng(seed)
    X = share * rng.standard_normal((n, 1)) + rng.standard_normal((n, m))
    X = offset + scale * X
    means = X.mean(axis=1)
    within = ((X - means[:, None]) ** 2).sum() / (n * (m - 1))
    between = max(means.var() - within / m, 1e-12 * within)
    model = RandomInterceptModel()
    exact = RandomInterceptParams(means.mean(), between, within)
    best = model.log_likelihood(X, exact).mean()
    em = StochasticEM(model, random_state=seed, **own).fit(X)
    return likelihood_gap(model, X, em.params_, best)


def own_model(name, gap, reference, **settings):
    outer = {k: settings.pop(k) for k in ("may_warn", "slow", "limit") if k in settings}
    distance = partial(gap, **settings)
    return case(name, estimator=OWN, distance=distance, reference=reference, **outer)


ZIP = partial(own_model, gap=zip_gap, reference="direct maximisation")
FACTORS = partial(own_model, gap=factor_gap, reference="scikit-learn's FactorAnalysis")
PROBIT = partial(own_model, gap=probit_gap, reference="quadrature")
INTERCEPT = partial(own_model, gap=intercept_gap, reference="closed form")
OWN_MODELS = [
    ZIP("zero-inflated counts, 50 rows", n=50),
    ZIP("zero-inflated counts, 5001 rows", n=5001),
    ZIP("rare zeros", n=2001, zeros=0.02, rate=1.0),
    ZIP("large counts", n=1001, zeros=0.6, rate=200.0),
    *(ZIP(f"zero-inflated counts, solver {s}", n=2001, solver=s) for s in SOLVERS),
    *(ZIP(f"zero-inflated counts, solver {s}, draws", n=2001, solver=s, sampler="mc")
      for s in ("saem", "isaem", "vrttem", "fittem")),
    FACTORS("two factors, 1001 rows", n=1001, may_warn=True),
    FACTORS("two factors, 200 rows", n=200, may_warn=True),
    FACTORS("offset 100", n=1001, offset=100.0, may_warn=True),
    FACTORS("five factors of 30 columns", n=2001, d=30, k=5, may_warn=True, slow=True),
    FACTORS("two factors, draws", n=1001, sampler="mc", may_warn=True, slow=True),
    PROBIT("answers, random walk", n=500, sampler="rwm"),
    PROBIT("answers, Langevin", n=500, sampler="mala"),
    PROBIT("answers, Hamiltonian", n=500, sampler="hmc", slow=True),
    *(PROBIT(f"answers, latents of scale {u:g}, {s}", n=300, unit=u, sampler=s,
             slow=True)
      for u in (1e-3, 1e3) for s in ("rwm", "mala")),
    INTERCEPT("intercepts", n=1001),
    INTERCEPT("intercepts, two measurements", n=201, m=2),
    INTERCEPT("intercepts, scale 1e-3", n=501, scale=1e-3),
    INTERCEPT("intercepts, scale 1e3", n=501, scale=1e3),
    INTERCEPT("small intercepts", n=501, share=0.1, may_warn=True),
    *(INTERCEPT(f"intercepts, {s}", n=301, sampler=s)
      for s in ("rwm", "mala", "hmc", "ula")),
    *(INTERCEPT(f"intercepts, {s}, scale {u:g}", n=301, sampler=s, scale=u, slow=True)
      for s in ("rwm", "mala", "hmc", "ula") for u in (1e-3, 1e3)),
]  # fmt: skip
REAL = [
    case(f"{name}, {n} rows", slow=n > 4001, distance=partial(
        real_gap, name=name, K=3, n=n))
    for name in ("ecoli_flow", "shuttle") for n in (4001, 30_001)
]  # fmt: skip


#: What is wrong here has to be said: components of single rows.
def equal_starts_gap(seed, apart, kind, n=1000):
    """Return how far a fit is below scikit-learn's from starts that are about equal."""
    X = blobs(seed, n, K=2)
    precision = np.linalg.inv(np.cov(X.T))
    if kind == "diag":
        precision = 1 / X.var(axis=0)
    fitted = StochasticEMGaussianMixture(
        2, covariance_type=kind, random_state=seed, weights_init=[0.5, 0.5],
        means_init=X.mean(axis=0) + apart * np.array([[-1.0], [1.0]]),
        precisions_init=[precision] * 2,
    ).fit(X)  # fmt: skip
    return reference_score(X, 2, seed, kind) - fitted.score(X)


HEAVY = case("two of 2,000 rows with weight 1e6", distance=heavy_rows_gap,
             may_warn=True, limit=0.01)  # fmt: skip
TABLE = case("labels, counts and holes", distance=table_gap, reference="the truth",
             estimator="StochasticEMMixture", limit=0.03)  # fmt: skip
ANSWERS = [
    case(f"{n} rows of {d} {kind} columns", estimator="StochasticEMMixture",
         reference="a prior of one row", limit=0.5, may_warn=True,
         distance=partial(answers_gap, n=n, d=d, n_labels=n_labels, kind=kind))
    for kind, n_labels, d in (("categorical", 4, 6), ("binary", 2, 10))
    for n in (40, 100, 1000)
]  # fmt: skip
EQUAL = [
    case(f"means that start {apart:g} apart, {kind}", may_warn=kind == "full",
         distance=partial(equal_starts_gap, apart=apart, kind=kind))
    for kind in ("full", "diag")
    for apart in (0.0, 1e-5)
]  # fmt: skip
CASES = [*REAL, *SHAPES, *SIZES, *CUTS, *STREAMS, *OWN_MODELS, HEAVY, TABLE, *ANSWERS,
         *EQUAL]  # fmt: skip
