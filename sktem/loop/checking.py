"""Checks of a user's own model, before any fit."""

from __future__ import annotations

import numpy as np

from sktem.loop.model_checks import _ModelCheck
from sktem.models.accepted import given_rows
from sktem.models.base import LatentModel

__all__ = ["check_model"]


def check_model(
    model, X, *, params=None, constrained=(), n_draws=200, random_state=0
) -> list[str]:
    """Check a model against the expectations of solvers and samplers.

    Every method of the model is called on the given rows, and its results are compared:
    shapes with those required; weights with repeated rows; the gradient with finite
    differences; the M-step with nearby parameters, none of which may be better;
    ``project`` with itself; draws with the posterior and with the log-density;
    ``expected_statistics`` with the methods that it replaces. A few dozen rows are
    enough.

    Parameters
    ----------
    model : LatentModel
        The model.
    X : array-like
        Rows of data, in the form that the model gets in a fit.
    params : object or None, default=None
        Parameters at which to check; None means those after an M-step from
        ``initial_params``.
    constrained : tuple of str, default=()
        Fields of the parameters (a named tuple) whose entries depend on each other or
        on other fields, or are not estimated. Their entries are not moved one at a time
        when the M-step is checked.
    n_draws : int, default=200
        Number of draws per row for the Monte Carlo comparisons.
    random_state : int, default=0
        Seed.

    Returns
    -------
    list of str
        The checks that were done, which depend on the methods of the model.

    Raises
    ------
    TypeError
        If the model is not a :class:`LatentModel`.
    ValueError
        If a check fails, naming the method.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.models import RandomInterceptModel, check_model
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> check_model(RandomInterceptModel(), X)[:3]
    ['initial_params', 'latents', 'mean_statistics']
    """
    if not isinstance(model, LatentModel):
        raise TypeError(f"model must be an instance of LatentModel, got {model!r}")
    X = given_rows(X, model)
    check = _ModelCheck(
        model, X, constrained, n_draws, np.random.default_rng(random_state)
    )
    check.start(params)
    done = ["initial_params", "latents", "mean_statistics"]
    optional = {
        "expected_statistics": ("expected_statistics", "posterior"),
        "grad_log_joint": ("grad_log_joint", "log_joint"),
        "project": ("project",),
        "maximize": (),
        "draws": ("draw_posterior", "posterior"),
        "draws_log_joint": ("draw_posterior", "log_joint"),
    }
    if type(model).project is LatentModel.project:
        del optional["project"]
    for name, needed in optional.items():
        if all(callable(getattr(model, method, None)) for method in needed):
            if getattr(check, name)() is not False:
                done.append(name)
    return done
