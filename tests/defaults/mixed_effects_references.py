"""Likelihoods of mixed models that owe nothing to the package, and their maxima."""

from functools import cache
from itertools import product

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

# ------------------------------------------------------------------------ linear models


def sums_of(x, y, groups):
    """Cross-products of the subjects of a line."""
    Z = np.column_stack([np.ones_like(x), x])
    n = groups.max() + 1
    S, c, q = np.zeros((n, 2, 2)), np.zeros((n, 2)), np.zeros(n)
    np.add.at(S, groups, Z[:, :, None] * Z[:, None, :])
    np.add.at(c, groups, Z * y[:, None])
    np.add.at(q, groups, y**2)
    return S, c, q


def root_of(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def linear_log_likelihood(x, y, groups, psi, covariance, sigma):
    """By the marginal Gaussian law, with Woodbury's identity."""
    S, c, q = sums_of(x, y - psi[0] - psi[1] * x, groups)
    L = root_of(covariance / sigma**2)
    M = np.eye(2) + L.T @ S @ L
    inner = c @ L
    squares = q.sum() - (inner * np.linalg.solve(M, inner[:, :, None])[:, :, 0]).sum()
    log_det = np.linalg.slogdet(M)[1].sum()
    constant = len(y) * np.log(2 * np.pi * sigma**2)
    return -0.5 * (squares / sigma**2 + log_det + constant)


def root_from(theta, omega):
    """Lower triangle of the covariance in units of the residual variance."""
    if omega == "full":
        return np.array([[theta[0], 0.0], [theta[1], theta[2]]])
    if omega == "diagonal":
        return np.diag(theta)
    return np.diag([theta[0], 0.0])


def profile(theta, S, c, q, n_rows, omega):
    """Deviance with the best means and residual variance, and these."""
    L = root_from(theta, omega)
    M = np.eye(2) + L.T @ S @ L
    LS, Lc = L.T @ S, c @ L
    information = (S - np.swapaxes(LS, 1, 2) @ np.linalg.solve(M, LS)).sum(axis=0)
    solved = np.linalg.solve(M, Lc[:, :, None])
    right = (c - (np.swapaxes(LS, 1, 2) @ solved)[:, :, 0]).sum(axis=0)
    beta = np.linalg.solve(information, right)
    total = (q - (Lc * solved[:, :, 0]).sum(axis=1)).sum() - right @ beta
    variance = total / n_rows
    deviance = n_rows * (np.log(2 * np.pi * variance) + 1)
    return deviance + np.linalg.slogdet(M)[1].sum(), beta, variance


@cache
def fitted_linear(data, omega):
    """Maximum of the likelihood: its value, means, covariance, residual variance."""
    x, y, groups = data()
    centre, width = x.mean(), x.std()
    scaled = (x - centre) / width
    arguments = (*sums_of(scaled, y, groups), len(y), omega)
    if omega == ("intercept",):  # the intercept is where x is zero
        arguments = (*sums_of(x, y, groups), len(y), omega)
        centre, width = 0.0, 1.0
    if omega == "diagonal":
        arguments, centre = (*sums_of(x / width, y, groups), len(y), omega), 0.0
    size = {"full": 3, "diagonal": 2}.get(omega, 1)
    starts = [s * np.ones(size) for s in (0.3, 1.0, 5.0)]
    fits = [
        optimize.minimize(
            lambda t: profile(t, *arguments)[0], start, method="Nelder-Mead",
            options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000},
        )
        for start in starts
    ]  # fmt: skip
    best = min(fits, key=lambda one: one.fun)
    deviance, beta, variance = profile(best.x, *arguments)
    L = root_from(best.x, omega)
    back = np.array([[1.0, -centre / width], [0.0, 1.0 / width]])
    covariance = back @ L @ L.T @ back.T * variance
    return -0.5 * deviance, back @ beta, covariance, variance


def best_linear(data, omega):
    return fitted_linear(data, omega)[0]


def hessian(function, vector, steps):
    """By central differences."""
    p, shifts = len(vector), np.diag(steps)
    found = np.empty((p, p))
    for j, k in product(range(p), range(p)):
        values = [
            a * b * function(vector + a * shifts[j] + b * shifts[k])
            for a, b in product((1, -1), (1, -1))
        ]
        found[j, k] = sum(values) / (4 * steps[j] * steps[k])
    return found


@cache
def linear_errors(data, omega):
    """Standard errors of means and residual error; variances at bounds stay there."""
    x, y, groups = data()
    _, beta, covariance, variance = fitted_linear(data, omega)
    widths = np.sqrt(np.diag(covariance))
    if omega == "full":
        correlation = covariance[0, 1] / widths.prod()
        free = [(0, 0), (0, 1), (1, 1)] if abs(correlation) < 0.999 else []
    else:
        scale = np.sqrt(variance) * np.array([1.0, 1 / x.std()])
        free = [(j, j) for j in range(2) if widths[j] > 0.01 * scale[j]]

    def log_likelihood(vector):
        inner = covariance.copy()
        for (j, k), value in zip(free, vector[3:], strict=True):
            inner[j, k] = inner[k, j] = value
        return linear_log_likelihood(x, y, groups, vector[:2], inner, vector[2])

    vector = np.array([*beta, np.sqrt(variance), *(covariance[f] for f in free)])
    steps = [*(1e-2 * np.maximum(widths, 1e-2 * np.sqrt(variance))), 1e-3 * vector[2]]
    steps += [1e-3 * widths[j] * widths[k] for j, k in free]
    information = -hessian(log_likelihood, vector, np.array(steps))
    return np.sqrt(np.diag(np.linalg.inv(information)))[:3]


# -------------------------------------------------------------------- any row densities

FORWARD = {"n": lambda v: v, "l": np.exp}
INVERSE = {"n": lambda v: v, "l": np.log}


class Law:
    """Marginal likelihood by adaptive Gauss-Hermite quadrature.

    ``row(psi, X, y, sigma)`` is the log-density of rows, psi having the parameters on
    its last axis; the random ones are independent on the Gaussian scale.
    """

    def __init__(self, row, transforms, random, n_nodes):
        self.row, self.transforms, self.random = row, transforms, list(random)
        self.n_nodes, self.modes = n_nodes, None

    def __call__(self, fit, X, y, groups):
        psi = list(fit.population_parameters_.values())
        mean = [INVERSE[t](v) for t, v in zip(self.transforms, psi, strict=True)]
        sigma = fit.residual_error_.get("a")
        return self.value(X, y, groups, np.array(mean), np.diag(fit.omega_), sigma)

    def joint(self, z, X, y, groups, mean, spread, sigma):
        """Log-density of subjects and white random effects, of shape (..., n)."""
        phi = np.broadcast_to(mean, (*z.shape[:-1], len(mean))).copy()
        phi[..., self.random] += z * spread
        psi = np.stack(
            [FORWARD[t](phi[..., p]) for p, t in enumerate(self.transforms)], axis=-1
        )
        with np.errstate(all="ignore"):
            rows = self.row(psi[..., groups, :], X, y, sigma)
        rows = np.where(np.isfinite(rows), rows, -1e10)
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        total = np.add.reduceat(rows, starts, axis=-1)
        return total - 0.5 * (z**2).sum(axis=-1)

    def value(self, X, y, groups, mean, variances, sigma):
        order = np.argsort(groups, kind="stable")
        X, y, groups = X[order], y[order], groups[order]
        n, d, step = groups[-1] + 1, len(self.random), 1e-3
        arguments = (X, y, groups, mean, np.sqrt(variances), sigma)
        if self.modes is None or self.modes.shape != (n, d):
            self.modes = np.zeros((n, d))
        z, pairs = self.modes, list(product(range(d), range(d)))
        unit = step * np.eye(d)
        for _ in range(30):
            centre = self.joint(z, *arguments)
            up = np.array([self.joint(z + u, *arguments) for u in unit])
            down = np.array([self.joint(z - u, *arguments) for u in unit])
            slope = ((up - down) / (2 * step)).T
            curve = np.empty((n, d, d))
            for j, k in pairs:
                if j == k:
                    curve[:, j, j] = -(up[j] - 2 * centre + down[j]) / step**2
                elif j > k:
                    mixed = self.joint(z + unit[j] + unit[k], *arguments)
                    mixed = mixed - up[j] - up[k] + centre
                    curve[:, j, k] = curve[:, k, j] = -mixed / step**2
            values, vectors = np.linalg.eigh(curve)
            values = np.maximum(np.abs(values), 0.05)
            inverse = (vectors / values[:, None]) @ np.swapaxes(vectors, 1, 2)
            move = (inverse @ slope[:, :, None])[:, :, 0]
            length = np.abs(move).max(axis=1, keepdims=True)
            move = move / np.maximum(1.0, length)
            for _ in range(8):
                worse = ~(self.joint(z + move, *arguments) >= centre - 1e-9)
                move = np.where(worse[:, None], move / 4, move)
            z = z + move
            if np.abs(move).max() < 1e-4:
                break
        self.modes = z
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.n_nodes)
        grid = np.array(list(product(nodes, repeat=d)))
        log_weights = np.array(
            [np.log(w).sum() for w in product(weights, repeat=d)]
        ) + 0.5 * (grid**2).sum(axis=1)
        root = np.linalg.cholesky(inverse)
        points = z + np.einsum("nij,qj->qni", root, grid)
        terms = self.joint(points, *arguments) + log_weights[:, None]
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
        total = logsumexp(terms, axis=0).sum() + log_det
        return float(total - 0.5 * n * d * np.log(2 * np.pi))


def gaussian(function, transforms, random, error="constant", n_nodes=7):
    def row(psi, X, y, sigma):
        f = function(psi, X)
        if error == "exponential":
            rest = np.log(y) - np.log(f)
            return -0.5 * (rest / sigma) ** 2 - np.log(sigma * y * np.sqrt(2 * np.pi))
        return -0.5 * ((y - f) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi))

    return Law(row, transforms, random, n_nodes)


def discrete(row, n_coefficients, n_nodes=41):
    """A random intercept, ``row(psi, X, y)`` having no residual error."""
    return Law(lambda psi, X, y, _: row(psi, X, y), "n" * n_coefficients, [0], n_nodes)


@cache
def maximum(data, law, start, variances, sigma):
    """Return the maximum and where: means, log variances and log sigma."""
    X, y, groups = data()
    p, d = len(start), len(variances)

    def deviance(vector):
        variance = np.exp(np.clip(vector[p : p + d], -25, 25))
        error = np.exp(vector[p + d]) if sigma is not None else None
        found = -2 * law.value(X, y, groups, vector[:p], variance, error)
        return found if np.isfinite(found) else 1e10

    last = [] if sigma is None else [np.log(sigma)]
    vector = np.array([*start, *np.log(variances), *last])
    # The size of a step of a mean is that of its random effect or of itself.
    scale = np.ones(len(vector))
    for p_, kind in enumerate(law.transforms):
        scale[p_] = max(abs(start[p_]), 1e-2) * 0.05 if kind == "n" else 0.1
        if kind == "n" and start[p_] == 0:
            scale[p_] = 1.0
    found = optimize.minimize(
        lambda v: deviance(vector + scale * v), np.zeros(len(vector)), method="BFGS",
        options={"gtol": 1e-3, "maxiter": 60},
    )  # fmt: skip
    return -0.5 * found.fun, vector + scale * found.x


def best_by_quadrature(data, law, start, variances, sigma):
    return maximum(data, law, tuple(start), tuple(variances), sigma)[0]


@cache
def errors_at(data, law, start, variances):
    X, y, groups = data()
    vector = maximum(data, law, start, variances, None)[1]
    p = len(start)
    vector = np.append(vector[:p], np.exp(vector[p:]))
    information = -hessian(
        lambda v: law.value(X, y, groups, v[:p], v[p:], None),
        vector,
        np.append(np.full(p, 1e-2), 1e-2 * vector[p:]),
    )
    return np.sqrt(np.diag(np.linalg.inv(information)))


def errors_by_quadrature(data, law, start, variances):
    return errors_at(data, law, tuple(start), tuple(variances))
