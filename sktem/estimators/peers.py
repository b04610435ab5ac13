"""Simple models of outputs given inputs, by which a fit is judged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.naive_bayes import GaussianNB

from sktem.exceptions import FitWarning, warn_user

__all__ = [
    "PEERS",
    "PeerRule",
    "bayes_losses",
    "doubt_of_mean",
    "is_better",
    "judged_rows",
    "ridge_errors",
    "sure_gain",
    "warn_of_means",
]


class PeerRule(NamedTuple):
    """Comparison with simple models, by rows that these were not fitted to.

    Attributes
    ----------
    n_rows : int
        Rows on which means are compared, at most, all of them different.
    fewest : int
        Rows that are compared, at least.
    errors : float
        Standard errors by which the simple model is better, at least.
    variance : float
        Share of the variance of an output by which its squared errors are smaller, at
        least.
    nats : float
        Nats of a row by which labels are more likely, at least.
    lengths : tuple of float
        Lengths of the kernel, in standard deviations of inputs times the root of their
        number.
    ridges : tuple of float
        Penalties of the kernel ridge regression.
    """

    n_rows: int = 400
    fewest: int = 20
    errors: float = 2.5
    variance: float = 0.1
    nats: float = 0.1
    lengths: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    ridges: tuple[float, ...] = (1e-3, 1e-2, 0.1, 1.0, 10.0)


PEERS = PeerRule()


def is_better(gains, shares, least, errors) -> bool:
    """Return whether the mean gain of rows is above a number and its standard errors.

    Parameters
    ----------
    gains, shares : ndarray of shape (n,)
        Gains, and weights whose sum is 1.
    least, errors : float
        The number, and how many standard errors.

    Returns
    -------
    bool
        Whether it is above both.
    """
    mean = gains @ shares
    error = np.sqrt(shares**2 @ (gains - mean) ** 2)
    return bool(mean > max(least, errors * error))


def sure_gain(model, rows, weights, params, others, least, errors) -> float | None:
    """Return the mean gain of rows under other parameters, None unless it is sure.

    Parameters
    ----------
    model : LatentModel
        Model with ``log_likelihood``.
    rows : array-like
        Rows.
    weights : ndarray of shape (n,)
        Their weights.
    params, others : object
        Parameters, and those that are to be better.
    least, errors : float
        What the gain is above, see `is_better`.

    Returns
    -------
    float or None
        Nats of a row.
    """
    gains = model.log_likelihood(rows, others) - model.log_likelihood(rows, params)
    shares = weights / weights.sum()
    return shares @ gains if is_better(gains, shares, least, errors) else None


def judged_rows(*columns, rule: PeerRule = PEERS):
    """Return indices of different rows that are compared; None if these are few."""
    rows = np.column_stack(columns)
    n = len(rows)
    some = np.random.default_rng(0).permutation(n)[: 4 * rule.n_rows]
    _, first = np.unique(rows[some], axis=0, return_index=True)
    places = some[np.sort(first)[: rule.n_rows]]
    return places if len(places) >= rule.fewest else None


def ridge_errors(X, y, shares, rule: PeerRule = PEERS):
    """Return errors of rows left out one by one of a kernel ridge regression.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, scaled.
    y : ndarray of shape (n,)
        Output, scaled.
    shares : ndarray of shape (n,)
        Weights, whose sum is 1.
    rule : PeerRule
        Lengths and penalties, of which the best is taken.

    Returns
    -------
    ndarray of shape (n,)
        Errors. Leaving a row out divides its error by ``1 - h``, h being what its
        output counts in its own prediction.
    """
    roots = np.sqrt(shares * len(X))
    y = y - shares @ y
    least, best = np.inf, y
    for length in rule.lengths:
        kernel = rbf_kernel(X, gamma=0.5 / (length**2 * X.shape[1]))
        values, vectors = np.linalg.eigh(roots[:, None] * kernel * roots)
        values, along = np.maximum(values, 0.0), vectors.T @ (roots * y)
        for ridge in rule.ridges:
            # 1 - h is what ridge / (values + ridge) leaves.
            left = ridge / (values + ridge)
            errors = (vectors @ (left * along)) / (vectors**2 @ left) / roots
            loss = shares @ errors**2
            if loss < least:
                least, best = loss, errors
    return best


def doubt_of_mean(X, y, mean, shares, rule: PeerRule = PEERS) -> str | None:
    """Return how far means are behind those of a kernel ridge regression, or None.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, in any units.
    y, mean : ndarray of shape (n,)
        Output, and its mean by the fit.
    shares : ndarray of shape (n,)
        Weights, whose sum is 1.
    rule : PeerRule
        What counts as behind.

    Returns
    -------
    str or None
        The squared errors of both, as shares of the variance of the output.
    """
    spread = np.sqrt(shares @ (y - shares @ y) ** 2)
    if not spread > 0:
        return None
    centre, scale = shares @ X, X.std(axis=0)
    inputs = (X - centre) / np.where(scale > 0, scale, 1.0)
    errors = ((y - mean) / spread) ** 2
    peer = ridge_errors(inputs, y / spread, shares, rule) ** 2
    if not is_better(errors - peer, shares, rule.variance, rule.errors):
        return None
    return (
        f"its squared errors are {shares @ errors:.2g} of the variance, and those of a "
        f"kernel ridge regression {shares @ peer:.2g}, each row left out."
    )


def warn_of_means(X, outputs, means, weights, advice) -> None:
    """Warn of the first output whose means are behind those of a kernel ridge.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, in any units.
    outputs, means : ndarray of shape (n, n_outputs)
        Outputs, and their means by the fit.
    weights : ndarray of shape (n,)
        Weights.
    advice : str
        What else there is to do than to take a regression of the mean.
    """
    shares = weights / weights.sum()
    for k, (output, mean) in enumerate(zip(outputs.T, means.T, strict=True)):
        if doubt := doubt_of_mean(X, output, mean, shares):
            warn_user(
                f"The mean of output {k} misses a curve that is there: {doubt} "
                f"{advice}; if only the mean is needed, take GaussianProcessRegressor "
                "or KernelRidge.",
                FitWarning,
            )
            return


def bayes_losses(X, y, shares, parts):
    """Return log-losses of labels under Gaussian naive Bayes, fitted to other parts.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Labels.
    shares : ndarray of shape (n,)
        Weights.
    parts : ndarray of shape (n,)
        The part of each row; -1 for none.

    Returns
    -------
    ndarray of shape (n,)
        Log-losses; infinite in no part, and where a part has all rows of a label.
    """
    losses = np.full(len(X), np.inf)
    for part in np.unique(parts[parts >= 0]):
        out, taken = parts == part, (parts >= 0) & (parts != part)
        if not np.isin(y[out], y[taken]).all():
            continue
        model = GaussianNB().fit(X[taken], y[taken], shares[taken])
        places = np.searchsorted(model.classes_, y[out])
        logs = model.predict_log_proba(X[out])
        losses[out] = -logs[np.arange(len(places)), places]
    return losses
