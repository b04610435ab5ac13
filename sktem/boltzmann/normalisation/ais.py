"""Annealed importance sampling (Neal 2001) with a schedule that adapts itself.

Runs start from independent units and are moved by Gibbs sampling along a geometric path
to the machine. The temperatures lie such that each step of a pilot run loses the same
share of its effective sample size; the runs that count are independent of the pilot,
so that the mean of their weights stays unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.normalisation.annealing_paths import new_path
from sktem.progress import counted

__all__ = [
    "AISResult",
    "anneal",
    "annealed_importance_sampling",
    "estimate_of",
    "inverse_temperatures",
    "posterior_log_sums",
    "reliable_log_partition",
]

#: Label of the printed progress.
LABEL = "Temperatures of annealed importance sampling"
ROWS_LABEL = "Likelihoods by annealed importance sampling: blocks of rows"


class AnnealingRule(NamedTuple):
    """Pilot run of an adaptive schedule, and runs that are long enough.

    Attributes
    ----------
    pilot_loss, pilot_runs : float, int
        Share of the effective sample size that a step of the pilot may lose, and its
        runs.
    wanted_share : float
        Effective sample size, as a share of the runs, below which they are made longer.
    """

    pilot_loss: float = 0.05
    pilot_runs: int = 100
    wanted_share: float = 0.5


ANNEALING = AnnealingRule()


@dataclass(frozen=True)
class AISResult:
    """An estimate of log Z.

    Attributes
    ----------
    value : float
        The estimate; its exponential is unbiased.
    standard_error : float
        Standard error of the value, by the delta method; NaN for a single run. It means
        little if the effective sample size is small.
    effective_sample_size : float
        Number of equally weighted runs that are worth as much.
    n_runs, n_temperatures : int
        Size of the calculation; zero for an exact value.
    """

    value: float
    standard_error: float
    effective_sample_size: float
    n_runs: int
    n_temperatures: int


def annealed_importance_sampling(
    model,
    params,
    rng,
    n_runs=100,
    n_temperatures=1000,
    schedule="adaptive",
    *,
    verbose=0,
    seconds=0.0,
):
    """Estimate log Z of a Boltzmann machine.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    params : ndarray of shape (n_parameters,)
        Its parameters.
    rng : numpy.random.Generator
        Source of randomness.
    n_runs : int, default=100
        Number of independent runs.
    n_temperatures : int, default=1000
        Number of steps of each run.
    schedule : {"adaptive", "linear"} or array-like, default="adaptive"
        Spacing of the inverse temperatures; an array holds them, rising from 0 to 1.
    verbose : int, default=0
        Whether to print the progress of the runs.
    seconds : float, default=0
        Minimum time between two printed lines.

    Returns
    -------
    AISResult
        The estimate.
    """
    path = new_path(model, params, rng)
    betas = inverse_temperatures(path, schedule, n_temperatures, rng)
    log_weights = anneal(path, betas, n_runs, rng, verbose, seconds)
    return estimate_of(log_weights, len(betas) - 1)


def estimate_of(log_weights, n_temperatures) -> AISResult:
    """Return the estimate that log-weights of runs give."""
    value, error, size = map(float, _summary(log_weights))
    return AISResult(value, error, size, log_weights.shape[0], n_temperatures)


def inverse_temperatures(path, schedule, n_temperatures, rng):
    """Return inverse temperatures from 0 to 1."""
    if isinstance(schedule, str) and schedule == "linear":
        return np.linspace(0.0, 1.0, n_temperatures + 1)
    if isinstance(schedule, str) and schedule == "adaptive":
        pilot = _pilot(path, rng)
        where = np.linspace(0.0, len(pilot) - 1.0, n_temperatures + 1)
        return np.interp(where, np.arange(len(pilot)), pilot)
    if isinstance(schedule, str):
        raise ValueError(
            "schedule must be 'adaptive', 'linear' or increasing inverse temperatures "
            f"from 0 to 1, got {schedule!r}"
        )
    betas = np.asarray(schedule, np.float64)
    rising = betas.ndim == 1 and len(betas) > 1 and (np.diff(betas) > 0).all()
    if not rising or betas[0] != 0 or betas[-1] != 1:
        raise ValueError("schedule must rise from 0 to 1")
    return betas


def _pilot(path, rng):
    """Return inverse temperatures with an equal loss from each to the next."""
    path.start(ANNEALING.pilot_runs, rng)
    betas = [0.0]
    while betas[-1] < 1.0:
        beta = betas[-1]
        low, high = beta, 1.0
        if _loss(path.change(beta, 1.0)) > ANNEALING.pilot_loss:
            for _ in range(20):
                middle = 0.5 * (low + high)
                if _loss(path.change(beta, middle)) > ANNEALING.pilot_loss:
                    high = middle
                else:
                    low = middle
        # At least a little further, so that the pilot ends.
        betas.append(min(max(high, beta + 1e-5), 1.0))
        path.move(betas[-1], rng)
    return np.array(betas)


def _loss(change):
    """Return the lost share of the effective sample size."""
    xp = arrays_of(change).xp
    weights = xp.exp(change - xp.max(change))
    share = xp.sum(weights) ** 2 / (weights.shape[0] * xp.sum(weights**2))
    return 1.0 - float(share)


def anneal(path, betas, n_runs, rng, verbose=0, seconds=0.0):
    """Return the log-weights of runs, including log Z of the start."""
    log_weights = path.start(n_runs, rng)
    # Numbers of Python, since those of NumPy need not mix with other arrays.
    steps = list(pairwise(betas.tolist()))
    for beta, following in counted(steps, LABEL, verbose, seconds):
        log_weights += path.change(beta, following)
        if following < 1.0:
            path.move(following, rng)
    return log_weights


def _summary(log_weights):
    """Return estimates, standard errors and effective sizes over the last axis."""
    xp, n = arrays_of(log_weights).xp, log_weights.shape[-1]
    largest = xp.max(log_weights, axis=-1, keepdims=True)
    weights = xp.exp(log_weights - largest)
    total = xp.sum(weights, axis=-1)
    value = xp.log(total / n) + largest[..., 0]
    size = total**2 / xp.sum(weights**2, axis=-1)
    # Relative variance of the mean weight, with n - 1 for one estimated mean.
    variance = xp.clip(n / size - 1.0, 0.0, None) / max(n - 1, 1)
    if n == 1:
        variance = variance + float("nan")
    return value, xp.sqrt(variance), size


def reliable_log_partition(
    model, params, rng, n_runs, n_temperatures, most, *, verbose=0, seconds=0.0
):
    """Estimate log Z by runs that are made longer until their weights are about equal.

    While the effective sample size is less than half of the runs, new runs of four
    times as many temperatures replace the old ones.
    """
    while True:
        estimate = annealed_importance_sampling(
            model, params, rng, n_runs, n_temperatures, verbose=verbose,
            seconds=seconds,
        )  # fmt: skip
        enough = estimate.effective_sample_size >= ANNEALING.wanted_share * n_runs
        if enough or n_temperatures >= most:
            return estimate
        n_temperatures = min(4 * n_temperatures, most)


def posterior_log_sums(
    model, params, X, rng, n_runs=10, n_temperatures=100, *, verbose=0, seconds=0.0
):
    """Estimate the log of the sum over hidden states for each row.

    Runs start from the mean-field posterior of their row (about as Jang et al. do, who
    use 100 runs per image).
    """
    betas = np.linspace(0.0, 1.0, n_temperatures + 1)
    rows = max(1, 2048 // n_runs)
    arrays = arrays_of(X)
    values, errors = [], []
    parts = range(0, X.shape[0], rows)
    for begin in counted(parts, ROWS_LABEL, verbose, seconds):
        part = X[begin : min(begin + rows, X.shape[0]), :]
        n = part.shape[0]
        path = new_path(model, params, rng, arrays.xp.repeat(part, n_runs, axis=0))
        log_weights = anneal(path, betas, n * n_runs, rng)
        value, error, _ = _summary(arrays.xp.reshape(log_weights, (n, n_runs)))
        values.append(value)
        errors.append(error)
    return arrays.concat(values), arrays.concat(errors)
