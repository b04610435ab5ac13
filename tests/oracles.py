"""Independent answers that the tests compare with, and models made for tests.

Nothing here uses the recursions of the package: the formulas are written out again,
where possible in another form.
"""

import copy
import warnings
from functools import cache

import numpy as np
from numba import njit
from scipy import stats

from sktem.e_step.random import spawn_generators
from sktem.e_step.row_random import BATCH, PASS
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.models import LatentModel, RandomInterceptModel
from sktem.models.random_intercept import RandomInterceptParams
from sktem.samplers import ExactDraws, ExactExpectation
from sktem.schedules import check_schedule

START = RandomInterceptParams(0.5, 2.0, 0.5)

# ----------------------------------------------------------------- statistical tests

#: Standard errors that a correct sample of independent values may be off. Two-sided
#: 7e-6, so that hundreds of comparisons and seeds do not raise a false alarm.
LIMIT = 4.5


def standard_errors(values, expected):
    """Return how many standard errors the mean of independent rows is off."""
    values = np.asarray(values, dtype=float)
    values = values.reshape(len(values), -1)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.abs(values.mean(axis=0) - np.ravel(expected)) / error


def student_limit(n_values):
    """Return the limit of `standard_errors` that fits few values (same level)."""
    return stats.t.isf(stats.norm.sf(LIMIT), n_values - 1)


def chi_square_p(counts, probabilities):
    """Return the p-value of counts under the given probabilities."""
    probabilities = np.asarray(probabilities, dtype=float)
    expected = probabilities / probabilities.sum() * np.sum(counts)
    return stats.chisquare(counts, expected).pvalue


# --------------------------------------------------------------- fits, and what is told

#: What a mixture has found.
MIXTURE = ("weights_", "means_", "covariances_", "precisions_")


def assert_same(one, other, rtol=0.0, names=MIXTURE):
    """Compare fits, by default to the bits."""
    for name in names:
        expected = np.asarray(getattr(other, name))
        atol = rtol * np.abs(expected).max() if rtol else 0.0
        found = getattr(one, name)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)


def messages_of(function, *args, kind=Warning, **kwargs):
    """Return what a call returns, and the warnings of a kind that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args, **kwargs)
    return result, [
        str(one.message) for one in caught if issubclass(one.category, kind)
    ]


# ---------------------------------------------------------------- compiled functions


@cache
def for_python(function):
    """Return a compiled function, which only such functions can call, for Python."""

    @njit
    def call(*arguments):
        return function(*arguments)

    return call


# ------------------------------------------------------------- arrays of any namespace


def to_numpy(values):
    """Return an array of any namespace and device as one of NumPy."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


# --------------------------------------------------------------- the random intercept


def random_intercept_data(seed, n_rows=400, n_columns=5):
    """Return data of the balanced random-intercept model."""
    rng = np.random.default_rng(seed)
    intercepts = rng.normal(2.0, 1.0, size=(n_rows, 1))
    return intercepts + rng.normal(size=(n_rows, n_columns))


def closed_form_mle(X, sample_weight=None):
    """Return the maximum-likelihood estimate by the analysis of variance."""
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    n, m = weights.sum(), X.shape[1]
    row_means = X.mean(axis=1)
    within = weights @ ((X - row_means[:, None]) ** 2).sum(axis=1) / (n * (m - 1))
    mean = weights @ row_means / n
    between = weights @ (row_means - mean) ** 2 / n - within / m
    return np.array([mean, between, within])


def posterior_moments(X, params):
    """Return mean (per row) and variance of the intercepts, by shrinkage."""
    mean, variance, noise = params
    m = X.shape[1]
    weight = m * variance / (m * variance + noise)
    return mean + weight * (X.mean(axis=1) - mean), variance * (1 - weight)


def expected_statistics(X, params, sample_weight=None, ula_step=0.0):
    """Return the exact E-step; with a step, that of a stationary Langevin chain."""
    mean, variance = posterior_moments(X, params)
    variance = ula_variance(variance, ula_step)
    rows = [
        mean,
        mean**2 + variance,
        ((X - mean[:, None]) ** 2).mean(axis=1) + variance,
    ]
    return np.average(np.transpose(rows), axis=0, weights=sample_weight)


def m_step(s):
    """Return the parameters that match the moments."""
    return RandomInterceptParams(s[0], s[1] - s[0] ** 2, s[2])


def em_step(X, params, sample_weight=None, ula_step=0.0):
    """Return the parameters after one step of EM."""
    return m_step(expected_statistics(X, params, sample_weight, ula_step))


def ula_variance(variance, step):
    """Return the stationary variance of unadjusted Langevin on a Gaussian target.

    The chain is ``z' = (1 - step / v) z + sqrt(2 step) noise``, an autoregression.
    """
    return variance / (1 - step / (2 * variance))


def ula_fixed_point(X, step):
    """Return the limit of stochastic EM whose chains are unadjusted Langevin."""
    params = START
    for _ in range(500):
        params = em_step(X, params, ula_step=step)
    return np.array(params)


# ------------------------------------------------------- Algorithm 1, to the letter


def two_timescale_em(
    line, X, params, gammas, rho, normals, indices, period=None, mistake=None
):
    """Run Algorithm 1 of Karimi and Li, one index at a time; return all s-hat.

    Table 1 and (7) to (9) as printed, with the statistics of each sample remembered as
    statistics. At an anchor the sum over all samples is computed, as in (10) of the
    earlier draft. ``normals(i, k, purpose)`` are the normal draws of a sample in an
    iteration. `mistake` makes one deliberate error.
    """
    n, m = X.shape

    def monte_carlo(i, params, k, purpose):  # (5)
        mean, variance = posterior_moments(X[i : i + 1], params)
        z = mean + np.sqrt(variance) * normals(i, k, purpose)
        residual = ((X[i] - z[:, None]) ** 2).mean()
        return np.array([z.mean(), (z**2).mean(), residual])

    table = np.array([monte_carlo(i, params, 0, PASS) for i in range(n)])
    proxy = table_mean = s_tts = s_hat = table.mean(axis=0)
    share = 1.0 if mistake == "no 1/n" else 1.0 / n
    path = []
    for k, gamma in enumerate(gammas):
        if line == "vrttem" and k % period == 0:
            if k > 0:
                table = np.array([monte_carlo(i, params, k, PASS) for i in range(n)])
            table_mean = table.mean(axis=0)
            if mistake == "S_tts at the anchor":
                table_mean = s_tts
        i = indices.integers(n, size=1)[0]
        if line == "fittem":
            j = indices.integers(n, size=1)[0]
        new_i = monte_carlo(i, params, k + 1, BATCH)
        old_i = table[i].copy()
        if line == "isaem":
            proxy = proxy + share * (new_i - old_i)
            table[i] = new_i
        else:
            proxy = table_mean + (new_i - old_i)
        if line == "fittem":
            new_j = monte_carlo(j, params, k + 1, BATCH + 1)
            table_mean = table_mean + share * (new_j - table[j])
            table[j] = new_j
            if mistake == "memory by i":
                table[i] = new_i
        s_tts = s_tts + rho * (proxy - s_tts)  # (8)
        s_hat = s_hat + gamma * (s_tts - s_hat)  # (7)
        params = m_step(s_hat)
        path.append(s_hat)
    return np.array(path)


def online_em(X, params, batch_size, step_size):
    """Run online EM over full batches of X in order; return its statistics."""
    s = None
    for k in range(1, len(X) // batch_size + 1):
        batch = X[(k - 1) * batch_size : k * batch_size]
        new = expected_statistics(batch, params)
        s = new if s is None else s + step_size(k) * (new - s)
        params = m_step(s)
    return s


# ------------------------------------------------------------------- models for tests


class Recording(RandomInterceptModel):
    """Keeps the statistics of each M-step."""

    def __init__(self):
        self.seen = []

    def maximize(self, s, params):
        self.seen.append(np.array(s))
        return super().maximize(s, params)


class Counting(RandomInterceptModel):
    """Keeps the number of rows of each E-step."""

    def __init__(self):
        self.visits = []

    def posterior(self, X, params):
        self.visits.append(len(X))
        return super().posterior(X, params)

    def draw_posterior(self, X, params, n_draws, rng):
        self.visits.append(len(X))
        return super().draw_posterior(X, params, n_draws, rng)


class Fused(RandomInterceptModel):
    """Offers E-step and statistics in one go."""

    def expected_statistics(self, X, params, sample_weight=None):
        s = expected_statistics(X, params, sample_weight)
        values = self.log_likelihood(X, params)
        return s, float(np.average(values, weights=sample_weight))


class Interrupting(RandomInterceptModel):
    """Stands for a user who presses Ctrl-C at a given M-step."""

    def __init__(self, at):
        self.at = at
        self.calls = 0
        self.seen = []

    def maximize(self, s, params):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        self.seen.append(super().maximize(s, params))
        return self.seen[-1]


class Target(LatentModel):
    """A law of latents that the samplers' tests know; every row has the same."""

    def initial_params(self, X, rng):
        return None

    def initial_latents(self, X, params, rng):
        return np.full((len(X), self.dimension), 3.0)

    def mean_statistics(self, X, Z, sample_weight=None):
        return np.average(np.hstack([Z, Z**2]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return params


class PoissonTarget(Target):
    """Posterior of a log-rate with a standard normal prior, given one count."""

    dimension, count = 1, 4

    def log_joint(self, X, Z, params):
        z = Z[:, 0]
        return self.count * z - np.exp(z) - z**2 / 2

    def grad_log_joint(self, X, Z, params):
        return self.count - np.exp(Z) - Z

    def exact(self, rng, n):
        """Return n draws, by inversion on a fine grid."""
        grid, weights = self.quadrature()
        return np.interp(rng.random(n), np.cumsum(weights), grid)[:, None]

    def quadrature(self):
        grid = np.linspace(-6, 6, 24_001)
        density = np.exp(self.log_joint(None, grid[:, None], None))
        return grid, density / density.sum()

    def moments(self):
        """Return mean and variance of each coordinate."""
        grid, weights = self.quadrature()
        mean = weights @ grid
        return np.array([mean]), np.array([weights @ (grid - mean) ** 2])


class HalfNormalTarget(Target):
    """Standard normal on the positive half-line; elsewhere the density is NaN."""

    dimension = 1

    def log_joint(self, X, Z, params):
        z = Z[:, 0]
        return np.where(z > 0, -(z**2) / 2, np.nan)

    def grad_log_joint(self, X, Z, params):
        return -Z

    def exact(self, rng, n):
        return np.abs(rng.standard_normal((n, 1)))

    def moments(self):
        return np.array([np.sqrt(2 / np.pi)]), np.array([1 - 2 / np.pi])


class GaussianTarget(Target):
    """Correlated Gaussian in two dimensions with unequal scales."""

    dimension = 2
    mean = np.array([1.0, -2.0])
    covariance = np.array([[1.0, 0.3], [0.3, 0.25]])

    def log_joint(self, X, Z, params):
        centred = Z - self.mean
        return -0.5 * (centred @ np.linalg.inv(self.covariance) * centred).sum(axis=1)

    def grad_log_joint(self, X, Z, params):
        return -(Z - self.mean) @ np.linalg.inv(self.covariance)

    def exact(self, rng, n):
        return rng.multivariate_normal(self.mean, self.covariance, size=n)

    def moments(self):
        return self.mean, np.diag(self.covariance)


# ---------------------------------------------------------------------------- running


class DrawsByIteration(ExactDraws):
    """Draws whose noise depends on the iteration only, the same for every solver."""

    def draw(self, model, X, Z, params, generators, iteration=1):
        keyed = copy.copy(generators)
        keyed.sampling = np.random.default_rng([17, iteration])
        return super().draw(model, X, Z, params, keyed, iteration)


def start_run(
    solver,
    X,
    *,
    sampler=None,
    model=None,
    seed=0,
    step_size=1.0,
    batch_size=1,
    sampling="fixed",
    max_passes=5,
    tol=0.0,
    average=False,
    params=START,
    **settings_of_stops,
):
    """Return settings and a fresh state of a run."""
    settings = RunSettings(
        model=RandomInterceptModel() if model is None else model,
        sampler=ExactExpectation() if sampler is None else sampler,
        solver=solver,
        step_size=check_schedule(step_size),
        batch_size=batch_size,
        sampling=sampling,
        max_passes=max_passes,
        tol=tol,
        average=average,
        **settings_of_stops,
    )
    return settings, RunState(params, spawn_generators(seed))


def run_solver(solver, X, *, sample_weight=None, on_epoch=None, **options):
    """Run a solver from a fresh state."""
    settings, state = start_run(solver, X, **options)
    return run(settings, X, state, sample_weight=sample_weight, on_epoch=on_epoch)


def stop_after(n_epochs):
    """Return a callback that ends a run after so many epochs."""
    return lambda state: len(state.history) >= n_epochs
