"""Free entries of the covariance of the random effects."""

from __future__ import annotations

import numpy as np

from sktem.choices import check_names, did_you_mean
from sktem.estimators.routing import warn_of_routing

__all__ = ["covariance_pattern", "with_occasions"]


def covariance_pattern(omega, names, grouped):
    """Return which parameters are random, and the free entries of their covariance."""
    p = len(names)
    if isinstance(omega, str) and omega in ("diagonal", "full"):
        pattern = (
            np.eye(p, dtype=bool) if omega == "diagonal" else np.ones((p, p), bool)
        )
    elif isinstance(omega, (list, tuple)) and all(isinstance(o, str) for o in omega):
        check_names("omega", omega, names, "parameters")
        pattern = np.diag([name in omega for name in names])
    else:
        pattern = np.asarray(omega)
        if pattern.shape != (p, p) or pattern.dtype.kind not in "bif":
            raise ValueError(
                'omega must be "diagonal", "full", a list of the random parameters '
                "(empty for none) or "
                f"a {p} x {p} matrix of zeros and ones, got {omega!r}"
                f"{did_you_mean(omega, ('diagonal', 'full'))}"
            )
        pattern = pattern != 0
    random = np.flatnonzero(np.diag(pattern))
    if len(random) and not grouped:
        warn_of_routing(
            "without them there are no random effects, and no fold is fitted"
        )
        raise ValueError(
            f"groups is missing: {[names[r] for r in random]} have random effects. "
            "Pass fit(X, y, groups=...), the subject of each row. Searches and "
            "cross-validation pass it on after "
            "sklearn.set_config(enable_metadata_routing=True) and "
            "set_fit_request(groups=True) on this estimator. omega=[] asks for no "
            "random effects, that is for plain nonlinear regression."
        )
    outside = pattern.copy()
    outside[np.ix_(random, random)] = False
    inside = pattern[np.ix_(random, random)]
    blocks = (inside.astype(int) @ inside.astype(int)) > 0
    if (inside != inside.T).any() or outside.any() or (blocks != inside).any():
        raise ValueError(
            "omega must be symmetric, with full blocks on the diagonal (two parameters "
            "that correlate with a third must correlate), and without covariances of "
            "parameters that have no variance"
        )
    return random, inside


def with_occasions(pattern, occasions):
    """Return the free entries of a covariance, with those of effects of occasions."""
    if occasions is None:
        return pattern
    d, of_occasions = len(pattern), occasions.pattern
    joined = np.zeros((d + len(of_occasions),) * 2, dtype=bool)
    joined[:d, :d], joined[d:, d:] = pattern, of_occasions
    return joined
