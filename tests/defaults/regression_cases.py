"""Cases of the robust Poisson regression and of relevance determination."""

from __future__ import annotations

import numpy as np
from scipy import optimize
from scipy.special import comb, expit, gammaln, logsumexp
from sklearn.linear_model import LogisticRegressionCV, PoissonRegressor
from sklearn.metrics import log_loss

from sktem import ARDLogisticClassifier, RobustPoissonRegressor
from tests.defaults.harness import Case

#: Prior variance of the intercept, and the documented bound of the others.
WIDE = 100.0


def count_log_likelihood(theta, X, y):
    """Marginal log-likelihood by the trapezoidal rule about each mode."""
    mean, v = theta[0] + X @ theta[1:-1], np.exp(2 * theta[-1])
    z = np.where(y > 0, np.log(np.maximum(y, 1)), mean)
    for _ in range(200):
        step = (y - np.exp(z) - (z - mean) / v) / (np.exp(z) + 1 / v)
        z = z + np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-9:
            break
    scale = 1 / np.sqrt(np.exp(z) + 1 / v)
    t = np.linspace(-8, 8, 65)
    z = z[:, None] + scale[:, None] * t
    with np.errstate(over="ignore"):
        terms = y[:, None] * z - np.exp(z) - (z - mean[:, None]) ** 2 / (2 * v)
    terms -= (gammaln(y + 1) + 0.5 * np.log(2 * np.pi * v))[:, None]
    return (logsumexp(terms, axis=1) + np.log(scale * (t[1] - t[0]))).sum()


def counts(seed, n, p, sigma, level=0.7, slope=0.3):
    """Counts with Gaussian errors of their log-rates."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(n, p))
    z = level + X @ (slope * rng.normal(size=p)) + sigma * rng.normal(size=n)
    return X, rng.poisson(np.exp(z)).astype(float)


def count_deficit(X, y, scale=1.0):
    """Nats that the default fit lacks to a maximum found independently."""
    fit = RobustPoissonRegressor().fit(X * scale, y)
    centre, deviation = X.mean(axis=0), X.std(axis=0)
    Z, slopes = (X - centre) / deviation, fit.coef_ * scale
    level = fit.intercept_ + centre @ slopes
    own = np.concatenate([[level], slopes * deviation, [np.log(fit.sigma_)]])
    peer = PoissonRegressor(alpha=0, solver="newton-cholesky").fit(Z, y)
    plain = np.concatenate([[peer.intercept_], peer.coef_])
    found = [count_log_likelihood(own, Z, y)]
    for start in (own, np.append(plain, np.log(0.3))):
        best = optimize.minimize(
            lambda theta: -count_log_likelihood(theta, Z, y), start, method="BFGS",
            options={"maxiter": 200},
        )  # fmt: skip
        found.append(-best.fun)
    return np.nanmax(found) - found[0]


def with_outliers(seed):
    """Counts of a Poisson law but for five of 300."""
    X, y = counts(seed, 300, 2, 0.0)
    y[:5] = [1000, 500, 3000, 200, 900]
    return X, y


def without_scatter(seed):
    """Distance of the coefficients to a Poisson regression, for rounded means."""
    X = np.random.default_rng(seed).normal(size=(300, 2))
    y = np.round(np.exp(2 + X @ [0.5, -0.3]))
    fit = RobustPoissonRegressor().fit(X, y)
    peer = PoissonRegressor(alpha=0, tol=1e-10, solver="newton-cholesky").fit(X, y)
    return np.abs(fit.coef_ - peer.coef_).max()


def recovery(seed, n, p):
    """Root mean square error of the slopes in units of the right one, about."""
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, p)), 0.1 * rng.normal(size=p)
    y = rng.poisson(np.exp(1 + X @ beta + 0.5 * rng.normal(size=n)))
    fit = RobustPoissonRegressor().fit(X, y)
    # Per row the information on a slope is about 1 / (exp(-1.1) + 0.25).
    return np.sqrt(np.mean((fit.coef_ - beta) ** 2) * n / 0.6)


def _count_case(name, make, scale=1.0, **options):
    return Case(
        name, "RobustPoissonRegressor", "quadrature and BFGS", "nats", 0.01,
        lambda seed: count_deficit(*make(seed), scale), **options,
    )  # fmt: skip


COUNT_CASES = [
    _count_case("20 rows", lambda s: counts(s, 20, 1, 0.6)),
    _count_case("400 rows", lambda s: counts(s, 400, 2, 0.6)),
    _count_case("columns x 1e6", lambda s: counts(s, 300, 2, 0.6), 1e6),
    _count_case("columns x 1e-6", lambda s: counts(s, 300, 2, 0.6), 1e-6),
    _count_case("mixed units", lambda s: counts(s, 300, 2, 0.6), np.array([1e-6, 1e6])),
    _count_case("counts about 1e6", lambda s: counts(s, 200, 2, 0.6, level=13)),
    _count_case("mostly zeros", lambda s: counts(s, 500, 2, 1.0, level=-3)),
    _count_case("no excess scatter", lambda s: counts(s, 300, 2, 0.0)),
    _count_case("little excess scatter", lambda s: counts(s, 500, 1, 0.1)),
    _count_case("wide scatter", lambda s: counts(s, 300, 2, 2.0)),
    _count_case("outliers", with_outliers),
    Case("rounded means", "RobustPoissonRegressor", "Poisson regression",
         "largest difference of a slope", 1e-4, without_scatter),
    Case("30 features", "RobustPoissonRegressor", "the truth",
         "standard errors", 1.6, lambda seed: recovery(seed, 2000, 30)),
    Case("50,000 rows", "RobustPoissonRegressor", "the truth",
         "standard errors", 2.5, lambda seed: recovery(seed, 50_000, 4), slow=True),
]  # fmt: skip


def labels(seed, n, p, k, size=2.0, intercept=0.0):
    """Scaled features, k of which matter, and labels."""
    rng = np.random.default_rng(2000 + seed)
    X, beta = rng.normal(size=(n, p)), np.zeros(p)
    beta[:k] = size * rng.choice([-1, 1], k) * rng.uniform(0.5, 1.5, k)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (rng.random(n) < expit(intercept + X @ beta)).astype(int)
    y[:2] = [0, 1]
    return X, y


def _mode(A, y):
    """Mode and Hessian of the coefficients of A with standard normal priors."""
    u = np.zeros(A.shape[1])
    for _ in range(200):
        p = expit(A @ u)
        hessian = (A.T * (p * (1 - p))) @ A + np.eye(len(u))
        step = np.linalg.solve(hessian, A.T @ (y - p) - u)
        u = u + step * min(1.0, 2.0 / np.abs(A @ step).max())
        if np.abs(step).max() < 1e-9:
            break
    return u, hessian


def _design(X, v):
    return np.column_stack([np.full(len(X), 10.0), X * np.sqrt(v)])


def log_evidence(X, y, v, n_draws=20_000, degrees=5):
    """Marginal log-likelihood by importance draws from a wide t law at the mode."""
    A = _design(X[:, v > 1e-8], v[v > 1e-8])
    u, hessian = _mode(A, y)
    d, rng = len(u), np.random.default_rng(0)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    t = rng.standard_normal((n_draws, d))
    t /= np.sqrt(rng.chisquare(degrees, n_draws) / degrees)[:, None]
    U = u + t @ root.T
    logits = U @ A.T
    target = logits @ y - np.logaddexp(0, logits).sum(axis=1) - 0.5 * (U**2).sum(axis=1)
    density = gammaln((degrees + d) / 2) - gammaln(degrees / 2)
    density -= 0.5 * d * np.log(degrees / 2) + np.log(np.diag(root)).sum()
    density = density - 0.5 * (degrees + d) * np.log1p((t**2).sum(axis=1) / degrees)
    return logsumexp(target - density) - np.log(n_draws)


def mackay(X, y):
    """Variances at MacKay's fixed point with Laplace's approximation."""
    v = np.full(X.shape[1], min(1.0, 3.0 / X.shape[1]))
    for _ in range(300):
        u, hessian = _mode(_design(X, v), y)
        known = 1 - np.diag(np.linalg.inv(hessian))[1:]
        new = np.maximum(v * u[1:] ** 2 / np.maximum(known, 1e-12), 1e-10)
        change = np.abs(np.log(new / v))[new > 1e-6].max(initial=0.0)
        v = new
        if change < 1e-3:
            break
    return np.where(v > 1e-6, v, 0.0)


def relevance_deficit(X, y, seed):
    """Nats that the default fit lacks to the fixed point, less prices of features."""
    fit = ARDLogisticClassifier(random_state=seed).fit(X, y)
    heights = []
    for v in (mackay(X, y), np.where(fit.support_, fit.theta_**-2, 0.0)):
        k, p = min(np.count_nonzero(v), len(v) // 2), len(v)
        heights.append(log_evidence(X, y, v) - np.log(comb(p, k)))
    return heights[0] - heights[1]


def one_feature_deficit(X, y, seed):
    """Nats that the default fit lacks to the maximum by quadrature."""
    fit = ARDLogisticClassifier(random_state=seed).fit(X, y)
    a, b = np.meshgrid(np.linspace(-45, 45, 361), np.linspace(-45, 45, 721),
                       indexing="ij")  # fmt: skip
    log_joint = -(a**2) / (2 * WIDE)
    for x, label in zip(X[:, 0], y, strict=True):
        log_joint = log_joint - np.logaddexp(0, (1 - 2 * label) * (a + b * x))

    def evidence(v):
        return logsumexp(log_joint - 0.5 * b**2 / v - 0.5 * np.log(v))

    best = max(evidence(v) for v in np.geomspace(0.05, WIDE, 60))
    return best - evidence(fit.theta_[0] ** -2)


def unit_difference(seed):
    """Largest difference of predicted probabilities when the units change."""
    X, y = labels(seed, 200, 6, 3)
    scale = np.geomspace(1e-6, 1e6, 6)
    one = ARDLogisticClassifier(random_state=seed).fit(X, y)
    two = ARDLogisticClassifier(random_state=seed).fit(X * scale, y)
    return np.abs(one.predict_proba(X) - two.predict_proba(X * scale)).max()


def with_duplicates(seed):
    """Features that occur twice."""
    X, y = labels(seed, 200, 4, 2)
    return np.column_stack([X, X[:, :2]]), y


def excess_loss(seed, n, p, k, intercept=0.0):
    """Mean log-loss on new data above that of the true probabilities."""
    X, y = labels(seed, n + 4000, p, k, intercept=intercept)
    fit = ARDLogisticClassifier(random_state=seed).fit(X[:n], y[:n])
    rng = np.random.default_rng(2000 + seed)
    rng.normal(size=X.shape)
    beta = 2.0 * rng.choice([-1, 1], k) * rng.uniform(0.5, 1.5, k)
    truth = expit(intercept + X[n:, :k] @ beta)
    found = fit.predict_proba(X[n:])[:, 1]

    def loss(p):
        return -np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p))

    return loss(found) - loss(truth)


def loss_above_l1(seed, n, k, size, p=60):
    """Mean log-loss on new data above that of a cross-validated l1 penalty."""
    X, y = labels(seed, n + 4000, p, k, size)
    peer = LogisticRegressionCV(
        Cs=np.geomspace(0.01, 10, 10), cv=5, l1_ratios=(1,), solver="liblinear",
        use_legacy_attributes=False, scoring="neg_log_loss", random_state=seed,
    )  # fmt: skip
    losses = []
    for model in (ARDLogisticClassifier(random_state=seed), peer):
        model.fit(X[:n], y[:n])
        losses.append(log_loss(y[n:], model.predict_proba(X[n:])))
    return losses[0] - losses[1]


def _relevance_case(name, make, limit=0.1, distance=relevance_deficit, **options):
    reference = "MacKay's fixed point"
    reference = "quadrature" if distance is one_feature_deficit else reference
    return Case(
        name, "ARDLogisticClassifier", reference, "nats", limit,
        lambda seed: distance(*make(seed), seed), **options,
    )  # fmt: skip


RELEVANCE_CASES = [
    _relevance_case("one feature, 60 rows", lambda s: labels(s, 60, 1, 1),
                    distance=one_feature_deficit),
    _relevance_case("one feature, 10 rows", lambda s: labels(s, 10, 1, 1),
                    distance=one_feature_deficit),
    _relevance_case("two features", lambda s: labels(s, 150, 2, 1)),
    _relevance_case("3 of 10", lambda s: labels(s, 200, 10, 3)),
    _relevance_case("5 of 20", lambda s: labels(s, 400, 20, 5, size=1.0)),
    _relevance_case("6 of 40, 100 rows", lambda s: labels(s, 100, 40, 6)),
    _relevance_case("nothing matters", lambda s: labels(s, 300, 5, 0)),
    _relevance_case("2 % of one class",
                    lambda s: labels(s, 800, 3, 1, 1.0, intercept=-4.5)),
    _relevance_case("duplicates", with_duplicates),
    Case("columns x 1e-6 to 1e6", "ARDLogisticClassifier", "columns as they are",
         "difference of probabilities", 1e-3, unit_difference),
    Case("2 of 8, new data", "ARDLogisticClassifier", "the true probabilities",
         "log-loss", 0.03, lambda seed: excess_loss(seed, 400, 8, 2)),
    *(
        Case(f"{k} of 60, 200 rows", "ARDLogisticClassifier", "an l1 penalty",
             "log-loss above", 0.05,
             lambda seed, k=k, size=size: loss_above_l1(seed, 200, k, size),
             slow=True, may_warn=k == 60)
        for k, size in ((0, 1.0), (3, 2.0), (5, 1.0), (60, 0.3))
    ),
    *(
        Case(f"{k} of {p}, {n} rows", "ARDLogisticClassifier", "an l1 penalty",
             "log-loss above", 0.06,
             lambda seed, n=n, k=k, p=p: loss_above_l1(seed, n, k, 1.5, p),
             slow=p < 60, may_warn=True)
        for n, k, p in ((60, 3, 60), (40, 2, 40), (60, 3, 30))
    ),
    Case("3 of 100, 80 rows", "ARDLogisticClassifier", "the true probabilities",
         "log-loss", 0.25, lambda seed: excess_loss(seed, 80, 100, 3), slow=True,
         may_warn=True),
    _relevance_case("8 of 30, 5,000 rows",
                    lambda s: labels(s, 5000, 30, 8, size=0.3), slow=True),
]  # fmt: skip

CASES = COUNT_CASES + RELEVANCE_CASES
