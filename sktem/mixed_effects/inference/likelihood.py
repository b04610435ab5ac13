"""Marginal log-likelihood of a fitted model by the way that suits it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.endpoints import EndpointError
from sktem.mixed_effects.inference.linearized import linearized_log_likelihood
from sktem.mixed_effects.inference.marginal_likelihood import (
    quadrature_draws,
    single_point,
    thin_latents,
)
from sktem.mixed_effects.inference.node_numbers import (
    NUMBERS,
    log_likelihood_by_nodes,
    numbers,
)
from sktem.mixed_effects.outcomes import Outcome
from sktem.mixed_effects.residual_errors import PositiveError

__all__ = ["LIKELIHOODS", "doubtful", "linearized", "log_likelihood"]

#: Ways to a log-likelihood.
LIKELIHOODS = ["importance", "linearized", "quadrature", "auto"]


class LikelihoodRule(NamedTuple):
    """Accuracy and budget of a log-likelihood.

    Attributes
    ----------
    exact : float
        Error of a quadrature that is as good as none.
    draws_in_all : int
        Importance draws of all subjects, where "auto" takes them, at most.
    least_draws : int
        Importance draws of a subject, at least.
    fewest_numbers : int
        The fewest numbers of nodes that show how exact the last one is.
    rounding : float
        Relative error that is due to rounding.
    noise : float
        Error from which it is reported.
    """

    exact: float = 0.01
    draws_in_all: int = 1_000_000
    least_draws: int = 200
    fewest_numbers: int = 3
    rounding: float = 1e-12
    noise: float = 0.1


#: The rule of every log-likelihood.
EXACTNESS = LikelihoodRule()


def doubtful(error) -> str:
    """Return a message on a log-likelihood with a large error, empty if it is small."""
    if not error > EXACTNESS.noise:
        return ""
    return (
        f"The log-likelihood is known up to an error of about {error:.2g} only, and so "
        "are differences from those of other fits. Pass "
        'method="importance" and a larger n_draws, or return_error=True.'
    )


def log_likelihood(fitted, method, n_draws, n_nodes):
    """Return the log-likelihood of the data and its error."""
    model, rows, params = fitted.model, fitted.rows, fitted.params
    if method == "linearized":
        return float(linearized(fitted, params).sum()), 0.0
    if model.design.n_latents == 0:
        points = single_point(len(rows))
        return float(points.log_conditional(model, rows, params).sum()), 0.0
    if method == "importance":
        return _by_importance(fitted, n_draws)
    modes, covariances = fitted.modes()
    if n_nodes != "auto":
        draws = quadrature_draws(modes, covariances, n_nodes)
        log_joint = draws.log_joint(model, rows, params)
        return float(draws.log_likelihood(log_joint)[0].sum()), 0.0
    if method == "auto":
        few = max(EXACTNESS.least_draws, EXACTNESS.draws_in_all // len(rows))
        n_draws = min(n_draws, few)
        n, d = modes.shape
        tried = numbers(NUMBERS.likelihood, n, d, thin_latents(model, params))
        if len(tried) < EXACTNESS.fewest_numbers:
            return _by_importance(fitted, n_draws)
    values, error = log_likelihood_by_nodes(model, rows, params, modes, covariances)
    total = float(values.sum())
    error = max(error, EXACTNESS.rounding * abs(total))
    if method == "quadrature" or (error <= EXACTNESS.exact and np.isfinite(total)):
        return total, error
    drawn, noise = _by_importance(fitted, n_draws)
    return (drawn, noise) if noise < error or np.isnan(total) else (total, error)


def _by_importance(fitted, n_draws):
    draws, log_joint = fitted.draws(n_draws)
    values, error = draws.log_likelihood(log_joint)
    return float(values.sum()), error


def linearized(fitted, params):
    """Return linearized log-likelihoods of the subjects, about the same modes."""
    if fitted.model.error is None:
        raise ValueError("log_density has no residual error to linearize with")
    if isinstance(fitted.model.error, EndpointError):
        raise ValueError("several endpoints have no linearized likelihood")
    if isinstance(fitted.model.error, (Outcome, PositiveError)):
        raise ValueError(
            "outcomes and errors of positive y have no linearized likelihood"
        )
    if fitted.rows.censored is not None:
        raise ValueError("censored observations have no linearized likelihood")
    return linearized_log_likelihood(
        fitted.model, fitted.rows, params, fitted.modes()[0]
    )
