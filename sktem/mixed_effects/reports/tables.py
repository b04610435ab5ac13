"""Tables of the observations of a fit, as NONMEM's $TABLE writes them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from sktem.mixed_effects.checks.residuals import decorrelated
from sktem.mixed_effects.checks.rows import fitted_of
from sktem.mixed_effects.doubtful_values import has_error
from sktem.mixed_effects.inference.linearized import linearized_residuals
from sktem.mixed_effects.outcomes import EventOutcome, Outcome

__all__ = ["output_table"]


def output_table(estimator, *, n_simulations=None, random_state=None):
    """Return observations with predictions, residuals, effects and parameters.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with a residual error, on data in memory.
    n_simulations : int or None, default=None
        Number of copies of each subject for NPDE; None omits that column.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the copies.

    Returns
    -------
    DataFrame
        One row per observation, sorted by subject: ID, the inputs (TIME and CMT for
        records), DV, PRED with random effects of zero, IPRED with the modes (the
        density of an event, or the probability of none), RES and IRES (NaN for events
        and ordinal scores, whose predictions are not means), IWRES (NaN for bounds
        too), CWRES (residuals of the model linearised at the modes, divided by the
        symmetric root of their covariance, with the residual error at IPRED; NaN for
        outcomes and bounds), NPDE (see :func:`population_residuals`; NaN for events),
        CENS if there is any, ``ETA_`` and the name of each random parameter, ``KAPPA_``
        for occasions, and the parameters of the row. Needs pandas; ``to_csv`` writes it
        to a file.

    Raises
    ------
    ValueError
        If there is no residual error, or subjects are read in blocks.

    References
    ----------
    A. C. Hooker, C. E. Staatz and M. O. Karlsson, Conditional weighted residuals
    (CWRES): a model diagnostic for the FOCE method, Pharmaceutical Research, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import output_table
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> list(output_table(line))[:4]
    ['ID', 'x0', 'DV', 'PRED']
    """
    from pandas import DataFrame

    fitted = fitted_of(estimator)
    rows, model, design = fitted.rows, fitted.model, fitted.model.design
    if model.error is None:
        raise ValueError("log_density has no residuals to tabulate")
    if not rows.in_memory:
        raise ValueError("subjects must be in memory, not read by blocks")
    owner, numeric = rows.subject_of_row, fitted.params.numeric
    has_mean = model.error.on(rows).has_mean
    names = rows.names or [f"x{j}" for j in range(rows.inputs.shape[1])]
    means = model.prior_moments(rows, fitted.params)[0]
    f, weighted = fitted.individual_rows()
    population = model.predict_rows(rows, means, numeric)
    table = {"ID": fitted.problem.labels[owner]}
    table |= dict(zip(names, rows.inputs.T, strict=True))
    table |= {
        "DV": rows.y,
        "PRED": population,
        "IPRED": f,
        "RES": np.where(has_mean, rows.y - population, np.nan),
        "IRES": np.where(has_mean, rows.y - f, np.nan),
        "IWRES": weighted,
        "CWRES": _conditional_residuals(fitted),
    }
    if n_simulations is not None:
        table["NPDE"] = _npde(fitted, n_simulations, random_state)
    if rows.censored is not None:
        table["CENS"] = rows.censored
    effects, d = fitted.random_effects(), len(design.random)
    for j, p in enumerate(design.random):
        table[f"ETA_{design.names[p]}"] = effects[owner, j]
    for j, p in enumerate(design.latents[d:]):
        kappas = effects[:, d + j :: len(design.latents) - d]
        table[f"KAPPA_{design.names[p]}"] = kappas[owner, rows.occasions]
    psi = model.individual_parameters(rows, fitted.modes()[0], numeric)
    table |= {name: value for name, value in psi.items() if name not in table}
    return DataFrame({name: np.asarray(value) for name, value in table.items()})


def _conditional_residuals(fitted):
    """Return residuals of the linearized model, NaN for outcomes and bounds."""
    model, rows, params = fitted.model, fitted.rows, fitted.params
    used = ~has_error(model.error, rows, Outcome)
    if rows.censored is not None:
        used &= rows.censored == 0
    return linearized_residuals(model, rows, params, fitted.modes()[0], used)


def _npde(fitted, n_simulations, random_state):
    """Return prediction distribution errors of the rows, NaN for events."""
    rows, owner = fitted.rows, fitted.rows.subject_of_row
    used = ~has_error(fitted.model.error, rows, EventOutcome)
    places = np.flatnonzero(used)

    def simulated(chosen, n_copies, rng):
        subjects = np.unique(owner[places[chosen]])
        drawn = fitted.simulate_subjects(subjects, n_copies, rng)
        return drawn[:, used[np.isin(owner, subjects)]]

    shown = SimpleNamespace(
        y=rows.y[used], subjects=owner[used], labels=fitted.problem.labels,
        completed=lambda rng: fitted.completed(rng)[used],
    )  # fmt: skip
    errors = np.full(len(rows.y), np.nan)
    if used.any():
        errors[used] = decorrelated(shown, simulated, n_simulations, random_state)[2]
    return errors
