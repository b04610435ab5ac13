"""Warnings of a fit: unused parameters, too few passes, chains that do not move."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktem.exceptions import FitWarning, warn_user

__all__ = [
    "equal_rows",
    "event_message",
    "warn_of_parameters",
    "warn_of_run",
    "warn_user",
]


class WarningLimits(NamedTuple):
    """Limits beyond which a fit cannot be trusted.

    Attributes
    ----------
    acceptance : tuple of float
        Acceptance rates outside of these bounds mean steps of a wrong length.
    bias : float
        Share of moves of an unadjusted sampler that an accept test would reject.
    standing : float
        Share of chains that never moved.
    optimism : float
        Nats that a new row may be expected to be less likely than those of the fit.
    """

    acceptance: tuple[float, float] = (0.05, 0.99)
    bias: float = 0.1
    standing: float = 0.001
    optimism: float = 2.0


LIMITS = WarningLimits()

#: Settings that help against an event of ``history_.events``.
ADVICE = {
    "infeasible": "a smaller step_size or a larger batch_size",
    "degenerate": "fewer components, a stronger prior or a larger variance floor "
    "(reg_covar, prior_strength)",
    "nan": "rescaling X",
}

#: Events that change no number.
CLUSTER_EVENTS = ("lost workers", "new workers")


def warn_of_run(state, settings) -> None:
    """Warn of the problems of a run."""
    if state.failure:
        warn_user(state.failure, FitWarning)
    ran_out = not (state.converged or state.stopped or state.failure)
    if ran_out and settings.max_passes > 0 and settings.tol > 0:
        used_up = (
            f"The run used up its passes over the data (max_iter={settings.max_passes})"
        )
        message = (
            f"{used_up} before it converged. Increase max_iter or tol, try another "
            "start, or check for degenerate data."
        )
        if state.hidden_by_noise:
            message = (
                f"{used_up}, and the noise of the draws is too large against tol to "
                "decide whether it has converged. Increase max_iter, the draws of the "
                "sampler, or tol"
            )
            blind = np.isnan(state.history.objective[-1])
            message += ", or give the model a log_likelihood." if blind else "."
        warn_user(message, ConvergenceWarning)
    events = state.history.events
    if message := event_message("The fit", events, " (see history_.events)"):
        warn_user(message, FitWarning)
    _warn_of_acceptance(state, settings)
    _warn_of_bias(state, settings)


def event_message(what: str, events, where: str = "") -> str:
    """Return one sentence on numerical problems that were repaired, with advice."""
    problems = {
        name: count
        for name, count in events.items()
        if count and name not in CLUSTER_EVENTS
    }
    if not problems:
        return ""
    counts = ", ".join(f"{count} {name}" for name, count in problems.items())
    message = (
        f"{what} recovered from numerical problems: {counts}{where}. Inspect the result"
    )
    advice = [ADVICE[name] for name in problems if name in ADVICE]
    return f"{message}; {', or '.join(advice)} may help." if advice else f"{message}."


def equal_rows(sample_weight) -> float:
    """Return how many rows of equal weight these are worth, ``sum(w)^2 / sum(w^2)``."""
    shares = sample_weight / sample_weight.max()  # squares of others may be 0 or inf
    return float(shares.sum() ** 2 / (shares**2).sum())


def warn_of_parameters(n_parameters: int, n_rows: float, sample_weight=None) -> None:
    """Warn of too many free parameters for the likelihood of new rows.

    It is expected to be lower than that of the rows of the fit by the parameters over
    the rows (Akaike), or more; for rows with weights by Kish's number of equal ones.
    """
    worth = float(n_rows) if sample_weight is None else equal_rows(sample_weight)
    if n_parameters > LIMITS.optimism * worth:
        warn_user(
            f"{n_parameters} free parameters have been learned of {worth:.4g} rows: "
            f"expect new rows to be less likely, by {n_parameters / worth:.2g} nats a "
            "row or more. Take fewer components or states, a simpler emission "
            "or covariance_type, or a prior.",
            FitWarning,
        )


def _warn_of_chains_that_stand(state):
    """Warn of chains without an accepted move."""
    moved = state.chains and state.chains.tuning.get("moved")
    share = 1 - moved.values.mean() if moved else 0.0
    if share < LIMITS.standing:
        return
    warn_user(
        f"{share:.1%} of the chains never moved: the latents of their rows are known "
        "(log_joint is -inf or NaN elsewhere), or start where every move is rejected: "
        "look at initial_latents and log_joint there. Acceptance rate and adaptation "
        "are of the other chains.",
        FitWarning,
    )


def _at_the_end(values):
    """Return the finite ones of the last fifth of values."""
    last = np.array(values[-max(1, len(values) // 5) :])
    return last[np.isfinite(last)]


def _warn_of_bias(state, settings):
    """Warn of Markov chains without an accept test whose steps are too long."""
    last = _at_the_end(state.history.bias)
    if len(last) and last.mean() > LIMITS.bias:
        warn_user(
            f"An accept test would have rejected {last.mean():.0%} of the moves of "
            f"{type(settings.sampler).__name__} at the end of the fit: latents and "
            "parameters are biased. Use a shorter step, step='auto' or an adjusted "
            "sampler (MALA), and fit again.",
            FitWarning,
        )


def _warn_of_acceptance(state, settings):
    """Warn of Metropolis chains that reject or accept nearly everything."""
    if not settings.sampler.accepts:
        return
    _warn_of_chains_that_stand(state)
    last = _at_the_end(state.history.acceptance_rate)
    if not len(last) or LIMITS.acceptance[0] <= last.mean() <= LIMITS.acceptance[1]:
        return
    few = last.mean() < LIMITS.acceptance[0]
    effect = (
        "hardly move, so that the parameters follow from where they began. Use a "
        "shorter step"
        if few
        else "take very short steps, so that they explore the latents slowly. Use a "
        "longer step"
    )
    warn_user(
        f"{type(settings.sampler).__name__} accepted {last.mean():.2%} of its moves at "
        f"the end of the fit: the chains {effect} (or its default, which adapts), more "
        "n_steps per draw, or another sampler, and fit again.",
        FitWarning,
    )
