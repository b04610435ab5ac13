"""Random effects of subjects and of occasions: which there are, and their order."""

from __future__ import annotations

import numpy as np

from sktem.choices import check_names, did_you_mean
from sktem.estimators.routing import warn_of_routing
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import Occasions
from sktem.sequences.labels import column_of

__all__ = [
    "block_of",
    "covariance_pattern",
    "covariances_by_name",
    "matched",
    "numbered",
    "occasions_of",
    "with_occasions",
]


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


def covariances_by_name(variances, pattern):
    """Return row and column of free covariances by name, given names of variances."""
    kinds = {"omega2": "cov", "kappa2": "kappa_cov"}
    parts, d = [name.split("_", 1) for name in variances], len(variances)
    places = np.argwhere(np.tril(pattern[:d, :d], -1)).tolist()
    return {
        f"{kinds[parts[j][0]]}_{parts[k][1]}_{parts[j][1]}": (j, k) for j, k in places
    }


def block_of(name, variances, covariances, pattern):
    """Return the names of the entries of the block of a variance or covariance."""
    place = covariances[name][0] if name in covariances else variances.get(name)
    if place is None:
        return []
    block = set(np.flatnonzero(pattern[place]).tolist())
    names = [other for other, j in variances.items() if j in block]
    return names + [other for other, (j, _) in covariances.items() if j in block]


def with_occasions(pattern, occasions):
    """Return the free entries of a covariance, with those of effects of occasions."""
    if occasions is None:
        return pattern
    d, of_occasions = len(pattern), occasions.pattern
    joined = np.zeros((d + len(of_occasions),) * 2, dtype=bool)
    joined[:d, :d], joined[d:, d:] = pattern, of_occasions
    return joined


def occasions_of(occasions, data, names, title):
    """Return the column of the occasions and their effects, or None and None."""
    if occasions is None:
        return None, None
    if not isinstance(occasions, dict) or len(occasions) != 1:
        raise ValueError(
            "occasions must be a dict with one column of X and the parameters that "
            f'vary between its values, such as {{"OCC": ["CL"]}}, got {occasions!r}'
        )
    if data.blocks is not None:
        raise ValueError("occasions need X in memory")
    ((key, parameters),) = occasions.items()
    column = column_of(key, data.names, data.n_columns, "occasions")
    groups = listed(parameters) if isinstance(parameters, str) else list(parameters)
    groups = [list(listed(group)) for group in groups]
    parameters = [name for group in groups for name in group]
    blocks = tuple(b for b, group in enumerate(groups) for _ in group)
    check_names("occasions", parameters, names, "parameters")
    if not parameters:
        raise ValueError("occasions must name a parameter that varies between them")
    places = tuple(names.index(name) for name in parameters)
    if len(set(places)) < len(places):
        raise ValueError(f"occasions name a parameter twice: {parameters}")
    count = data.occasions(column).shape[1]
    return column, Occasions(places, count, title(column), blocks)


def numbered(values, subjects):
    """Return the index of each row's occasion in its subject, and labels by subject.

    Occasions are in the order of their first rows; the labels have the shape
    (n_subjects, n_occasions), NaN for those that a subject does not have.
    """
    pairs = np.column_stack([subjects, values])
    distinct, first, inverse = np.unique(
        pairs, axis=0, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, distinct[:, 0]))
    owners = distinct[order, 0].astype(np.int64)
    begins = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    ranks = np.arange(len(order)) - np.repeat(
        begins, np.diff(np.r_[begins, len(order)])
    )
    labels = np.full((int(subjects.max()) + 1, int(ranks.max()) + 1), np.nan)
    labels[owners, ranks] = distinct[order, 1]
    rank_of_pair = np.empty(len(order), dtype=np.int64)
    rank_of_pair[order] = ranks
    return rank_of_pair[inverse.ravel()], labels


def matched(values, subjects, labels):
    """Return indices of occasions by labels of known subjects, -1 for unknown ones."""
    indices = np.full(len(values), -1, dtype=np.int64)
    known = subjects >= 0
    same = labels[subjects[known]] == values[known, None]
    indices[known] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
    return indices
