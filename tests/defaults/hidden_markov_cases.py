"""Hidden Markov models with their defaults, against a run that starts at the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem import Durations, HiddenMarkovModel
from sktem.emissions import Gaussian
from tests.defaults.harness import Case

NAME = "HiddenMarkovModel"
#: A run to its end; the reference is the likelihood of a long one from the truth.
LONG = {"solver": "em", "tol": 1e-9, "max_iter": 3000}


class Chain(NamedTuple):
    """A chain whose rows are drawn.

    Attributes
    ----------
    K, d : int
        States and columns.
    n, length : int
        Sequences, and rows of each.
    kind : str
        "gaussian", "poisson" or "categorical".
    stay : float
        Probability of the same state again.
    apart : float
        Standard deviation of the means, in those of rows about them.
    spread : float
        Ratio of the standard deviations of neighbouring states.
    holes : float
        Share of values that are not observed.
    """

    K: int = 3
    d: int = 2
    n: int = 40
    length: int = 50
    kind: str = "gaussian"
    stay: float = 0.9
    apart: float = 2.0
    spread: float = 1.0
    holes: float = 0.0


def paths(chain, rng):
    """Return states of all rows, a sequence after the other, and the transitions."""
    K = chain.K
    off = rng.dirichlet(np.ones(K), size=K) * (1 - np.eye(K))
    A = (1 - chain.stay) * off / off.sum(axis=1, keepdims=True)
    A += chain.stay * np.eye(K)
    states = np.empty((chain.n, chain.length), int)
    states[:, 0] = rng.integers(K, size=chain.n)
    for t in range(1, chain.length):
        uniforms = rng.random((chain.n, 1))
        states[:, t] = (uniforms > A.cumsum(axis=1)[states[:, t - 1]]).sum(axis=1)
    return np.minimum(states, K - 1).ravel(), A


def rows(chain, seed):
    """Return rows, the settings of a model, and parameters to begin with: the truth."""
    rng = np.random.default_rng(3000 + seed)
    K, d = chain.K, chain.d
    states, A = paths(chain, rng)
    if chain.kind == "categorical":
        shares = rng.dirichlet(np.full(5, 0.5), size=K)
        shares = 0.98 * shares + 0.004
        uniforms = rng.random((len(states), 1))
        X = (uniforms > shares.cumsum(axis=1)[states]).sum(axis=1)[:, None]
        return np.minimum(X, 4), {"emission": "categorical"}, A, None
    if chain.kind == "poisson":
        rates = np.exp(1.5 + 0.4 * chain.apart * rng.normal(size=(K, d)))
        X = rng.poisson(rates[states])
        return X, {"emission": "poisson"}, A, {"rates": rates}
    means = chain.apart * rng.normal(size=(K, d))
    sizes = chain.spread ** np.arange(K)
    X = means[states] + sizes[states, None] * rng.normal(size=(len(states), d))
    X = np.where(rng.random(X.shape) < chain.holes, np.nan, X)
    covariances = np.repeat(sizes[:, None] ** 2, d, axis=1)
    truth = {"means": means, "covariances": covariances}
    return X, {"emission": Gaussian("diag")}, A, truth


def lost(chain, **settings):
    """Nats a row below a long run from the truth."""

    def distance(seed):
        X, options, A, truth = rows(chain, seed)
        lengths = np.full(chain.n, chain.length)
        fit = HiddenMarkovModel(chain.K, random_state=seed, **options, **settings)
        fit.fit(X, lengths=lengths)
        start = {"transitions_init": A}
        if truth is None:  # go on from the fit itself
            truth = fit.emission_params_._asdict()
        best = HiddenMarkovModel(chain.K, **options, **start, **LONG)
        best.set_params(emission_init=truth).fit(X, lengths=lengths)
        gap = best.score(X, lengths=lengths) - fit.score(X, lengths=lengths)
        return gap / chain.length

    return distance


def streamed(chain, solver, chunk=4):
    """The same for sequences that come a few at a time."""

    def distance(seed):
        X, options, A, truth = rows(chain, seed)
        X = X.reshape(chain.n, chain.length, -1)
        fit = HiddenMarkovModel(
            chain.K, solver=solver, random_state=seed, **options
        )  # fmt: skip
        for first in range(0, chain.n, chunk):
            fit.partial_fit([*X[first : first + chunk]])
        best = HiddenMarkovModel(
            chain.K, transitions_init=A, emission_init=truth, **options, **LONG
        ).fit([*X])
        return (best.score([*X]) - fit.score([*X])) / chain.length

    return distance


def decoded(seed):
    """Share of rows decoded wrongly, above that after a run from the truth."""
    chain = Chain()
    X, options, A, truth = rows(chain, seed)
    lengths = np.full(chain.n, chain.length)
    states = paths(chain, np.random.default_rng(3000 + seed))[0]
    fit = HiddenMarkovModel(chain.K, random_state=seed, **options)
    best = HiddenMarkovModel(
        chain.K, transitions_init=A, emission_init=truth, **options, **LONG
    )
    wrong = []
    for model in (fit, best):
        found = model.fit(X, lengths=lengths).predict(X, lengths=lengths)
        table = np.zeros((chain.K, chain.K))
        np.add.at(table, (found, states), 1)
        wrong.append(1 - table.max(axis=1).sum() / len(X))
    return wrong[0] - wrong[1]


def dwelling(seed):
    """Relative error of mean durations, of states that last 3 and 12 rows."""
    rng = np.random.default_rng(seed)
    states = np.concatenate(
        [np.full(rng.poisson((2, 11)[k % 2]) + 1, k % 2) for k in range(400)]
    )
    X = 4.0 * states[:, None] + rng.normal(size=(len(states), 1))
    fit = HiddenMarkovModel(2, durations=Durations("poisson"), random_state=seed)
    fit.fit(X)
    found = fit.durations_ @ np.arange(1, fit.durations_.shape[1] + 1)
    return np.abs(np.sort(found) / [3, 12] - 1).max()


def case(name, distance, limit=0.002, **options):
    options = {"may_warn": True, **options}
    return Case(
        name, NAME, "a run from the truth", "nats a row lost", limit, distance,
        **options,
    )  # fmt: skip


CASES = [
    case("three states", lost(Chain()), may_warn=False),
    case("one column, few rows", lost(Chain(2, 1, 20, 20)), slow=True),
    case("sequences of three rows", lost(Chain(2, 1, 400, 3)), slow=True),
    case("one long sequence", lost(Chain(n=1, length=4000)), slow=True),
    case("five states", lost(Chain(5, 3)), slow=True),
    case("ten states", lost(Chain(10, 2, apart=3.0, length=200)), slow=True),
    case("weak", lost(Chain(2, 1, apart=0.8, length=200)), slow=True),
    case("fast switching", lost(Chain(stay=0.34)), slow=True),
    case("long stays", lost(Chain(stay=0.995, length=400)), slow=True),
    case("spread only", lost(Chain(2, 2, apart=0.0, spread=3.0)), may_warn=False),
    case("values that are missing", lost(Chain(holes=0.2)), may_warn=False, slow=True),
    case("counts", lost(Chain(kind="poisson")), slow=True),
    case("labels", lost(Chain(kind="categorical", length=100)), slow=True),
    *(
        case(f"three states, {solver}", lost(Chain(), solver=solver), slow=True)
        for solver in ("online", "iem", "isaem", "vrttem", "fittem", "saem", "mcem",
                       "squarem", "daarem")
    ),
    *(
        case(f"stream, {solver}", streamed(Chain(n=200), solver), 0.01, slow=True)
        for solver in ("online", "em", "isaem")
    ),
    Case("decoded states", NAME, "a run from the truth", "share of rows", 0.005,
         decoded),
    Case("states that last 3 and 12 rows", NAME, "the truth", "relative error", 0.15,
         dwelling, slow=True),
]  # fmt: skip
