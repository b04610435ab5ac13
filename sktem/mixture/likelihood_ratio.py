"""Bootstrap of the likelihood ratio of a mixture against one with a component less."""

from __future__ import annotations

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from sktem.mixture.component_search import from_posterior, splits_of
from sktem.progress import bar

__all__ = ["LikelihoodRatioTest", "likelihood_ratio_test"]

#: Passes by which the starts of the larger mixture are compared.
SHORT_PASSES = 10


class LikelihoodRatioTest(NamedTuple):
    """Result of a test of one component less.

    Attributes
    ----------
    statistic : float
        Twice the gain in log-likelihood by the last component.
    p_value : float
        Share of the samples of the smaller mixture, and the data, whose statistic is at
        least as large.
    n_components : int
        Components of the smaller mixture.
    bootstrap : ndarray of shape (n_bootstrap,)
        Statistics of the samples.
    """

    statistic: float
    p_value: float
    n_components: int
    bootstrap: np.ndarray


def likelihood_ratio_test(fit, rows, n_bootstrap, seed, n_jobs):
    """Return the test of a mixture against one with a component more.

    Parameters
    ----------
    fit : callable
        Returns an estimator of the smaller mixture and its FittedMixture, given rows
        and parameters that are others.
    rows : ndarray of shape (n, d)
        Rows of numbers; samples have their holes.
    n_bootstrap : int
        Samples.
    seed : numpy.random.SeedSequence
        Root of the random numbers.
    n_jobs : int or None
        Processes.
    """
    first, *seeds = seed.spawn(n_bootstrap + 1)
    null, statistic = _fitted(fit, rows, np.random.default_rng(first))
    holes = np.isnan(rows)
    tasks = (delayed(_of_sample)(fit, null, holes, child) for child in seeds)
    ratios = []
    with bar("likelihood ratios of samples", n_bootstrap) as advance:
        for value in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
            ratios.append(value)
            advance()
    bootstrap = np.array(ratios)
    p_value = (1 + int((bootstrap >= statistic).sum())) / (1 + n_bootstrap)
    return LikelihoodRatioTest(statistic, p_value, null.model.n_components, bootstrap)


def _of_sample(fit, null, holes, seed):
    """Return the statistic of a sample of the fitted smaller mixture."""
    rng = np.random.default_rng(seed)
    null = null.of_emission
    params, emission = null.params, null.model.emission
    share = params.weights / params.weights.sum()
    states = rng.choice(len(share), len(holes), p=share)
    rows = emission.sample(params.emission, states, rng)
    return _fitted(fit, np.where(holes, np.nan, rows), rng)[1]


def _fitted(fit, rows, rng):
    """Return the fitted smaller mixture, and the statistic.

    The larger one is the best of those from its own start and from the splits of the
    components of the smaller one, whose likelihoods are hardly below that of the
    smaller one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seeds = iter(rng.integers(2**31, size=3).tolist())
        null, mixture = fit(rows, random_state=next(seeds))
        K = null.n_components
        larger = partial(fit, rows, n_components=K + 1, random_state=next(seeds))
        fits = [larger()]
        short = {"n_init": 1, "max_iter": min(SHORT_PASSES, null.max_iter)}
        starts = [
            larger(init_params=start, **short)
            for start in splits_of(mixture, range(K), rng)
        ]
        _, best = max(starts, key=lambda start: start[0].lower_bound_)
        fits.append(larger(init_params=from_posterior(best), n_init=1))
        gain = max(mixture_fit.score(rows) for mixture_fit, _ in fits) - null.score(
            rows
        )
    return mixture, max(2 * len(rows) * gain, 0.0)
