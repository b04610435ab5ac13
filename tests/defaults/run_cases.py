"""What a run claims: by samples of rows, on streams, with weights, of log Z."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.mixture import GaussianMixture

from sktem import (
    HiddenMarkovModel,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.boltzmann.fitted import FittedMachine
from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.normalisation.partition import LogPartition
from sktem.graphs import Graph, grid_graph
from sktem.models import RandomInterceptModel
from tests.defaults.harness import Case

MIXTURE = "StochasticEMGaussianMixture"

# ---------------------------------------------------------------- monitors of a sample


@cache
def pixels(seed, n=4000):
    """Rows of clipped and rounded noise: slow, and unlike in every 2,000 of them."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(120, 60, size=(n, 9)), 0, 255).round()


@cache
def end_of_em(seed):
    options = {"covariance_type": "diag", "random_state": seed}
    return StochasticEMGaussianMixture(5, **options).fit(pixels(seed)).score(
        pixels(seed)
    )  # fmt: skip


def pixel_claim(solver):
    """Nats below the end of EM, where the run says that it has converged."""

    def distance(seed):
        X = pixels(seed)
        mixture = StochasticEMGaussianMixture(
            5, covariance_type="diag", solver=solver, random_state=seed
        ).fit(X)
        return end_of_em(seed) - mixture.score(X) if mixture.converged_ else 0.0

    return distance


def bound_claim(solver):
    """Difference of ``lower_bound_`` and the score on all rows."""

    def distance(seed):
        X = np.random.default_rng(seed).standard_t(3, size=(20_000, 4))
        mixture = StochasticEMGaussianMixture(3, solver=solver, random_state=seed)
        mixture.fit(X)
        return abs(mixture.lower_bound_ - mixture.score(X))

    return distance


# ------------------------------------------------------------------------------ streams


def two_clouds(seed, n):
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < 0.15
    noise = rng.normal(size=(n, 2))
    return np.where(rare[:, None], noise * [4, 0.3], noise * [0.5, 2])


def short_stream(n, **settings):
    """Nats on new rows below a fit of the same rows."""

    def distance(seed):
        X, new = two_clouds(seed, n), two_clouds(9999, 20_000)
        streamed = StochasticEMGaussianMixture(2, random_state=seed, **settings)
        for chunk in np.array_split(X, max(1, n // 100)):
            streamed.partial_fit(chunk)
        whole = GaussianMixture(2, n_init=5, tol=1e-8, max_iter=1000, random_state=seed)
        return whole.fit(X).score(new) - streamed.score(new)

    return distance


def idle_chunks(seed):
    """A chunk whose rows have no weight counts for nothing."""
    X = two_clouds(seed, 3000)
    fits = []
    for idle in (False, True):
        mixture = StochasticEMGaussianMixture(2, random_state=seed)
        for chunk in np.split(X, 6):
            mixture.partial_fit(chunk)
            if idle:
                mixture.partial_fit(100 + chunk, sample_weight=np.zeros(len(chunk)))
        fits.append(mixture.score(X))
    return abs(fits[0] - fits[1])


def single_rows(seed):
    """ "online" with batches of one row, far from the origin."""
    X = np.random.default_rng(seed).normal(3000, 5, size=(3000, 3))
    options = {"random_state": seed}
    online = StochasticEMGaussianMixture(3, solver="online", batch_size=1, **options)
    whole = StochasticEMGaussianMixture(3, **options).fit(X)
    return whole.score(X) - online.fit(X).score(X)


# -------------------------------------------------------------- weights are repetition


def repeated_rows(make, solver=None, y=None):
    """Difference of the mean scores after weighted and after repeated rows."""

    def distance(seed):
        rng = np.random.default_rng(seed)
        X = np.concatenate([rng.normal(size=(150, 2)), rng.normal(4, 2, size=(90, 2))])
        weights = rng.integers(0, 4, size=len(X))
        estimator = make()
        if solver is not None:
            estimator.set_params(solver=solver)
        estimator.set_params(random_state=seed)
        times = np.repeat(np.arange(len(X)), weights)
        if y is None:
            one = estimator.fit(X, sample_weight=weights).score(X[times])
            return abs(one - estimator.fit(X[times]).score(X[times]))
        target = rng.poisson(np.exp(0.2 * X[:, 0]))
        one = estimator.fit(X, target, sample_weight=weights).predict(X)
        return np.abs(one - estimator.fit(X[times], target[times]).predict(X)).max()

    return distance


def repeated_sequences(seed):
    rng = np.random.default_rng(seed)
    X = [4.0 * (rng.random() < 0.5) + rng.normal(size=(20, 1)) for _ in range(30)]
    weights = rng.integers(1, 4, size=30)
    fit = HiddenMarkovModel(2, random_state=seed)
    one = fit.fit(X, sample_weight=weights).score(X)
    times = [x for x, w in zip(X, weights, strict=True) for _ in range(w)]
    return abs(one - fit.fit(times).score(X)) / 20


# --------------------------------------------------------------------------- log Z


@cache
def ising(coupling, n=8):
    """Return an Ising model of n x n spins, its parameters and log Z."""
    graph = Graph(grid_graph(n, n))
    biases = -2 * coupling * graph.degrees()
    params = np.concatenate([biases, np.full(graph.n_edges, 4 * coupling)])
    exact = plan_elimination(graph).log_sum(params[: n * n], params[n * n :])
    return GraphMachine(graph, np.array([], int)), params, exact


def log_z(coupling, how):
    """Standard errors that log Z is off, beyond its bounds where it has some."""

    def distance(seed):
        model, params, exact = ising(coupling)
        machine = FittedMachine(model, None, params, None, LogPartition(model))
        found = machine.partition.estimate(
            machine, np.random.default_rng(seed), how, 100, 400, "adaptive", 0
        )
        return abs(found.value - exact) / max(found.standard_error, 1e-3)

    return distance


def case(name, distance, limit, unit, reference, estimator=MIXTURE, **options):
    return Case(name, estimator, reference, unit, limit, distance, **options)


def repetition(name, make, estimator, solver=None, y=None, limit=1e-4, **options):
    name = f"weights, {name}" + (f", {solver}" if solver else "")
    return case(
        name, repeated_rows(make, solver, y), limit, "difference of scores",
        "repeated rows", estimator, **options,
    )  # fmt: skip


CASES = [
    *(
        case(f"clipped noise, {s}", pixel_claim(s), 0.01, "nats, where converged_",
             "the end of EM", slow=True)
        for s in ("iem", "isaem", "vrttem", "fittem", "online", "saem", "mcem")
    ),
    *(
        case(f"lower bound of {s}", bound_claim(s), 1e-3, "nats a row",
             "the score of all rows", slow=s != "isaem")
        for s in ("em", "iem", "isaem", "vrttem", "fittem", "online")
    ),
    *(
        case(f"stream that ends after {n}", short_stream(n), 0.05, "nats a row",
             "a fit of these rows", slow=n != 1000, may_warn=True)
        for n in (200, 1000, 1023, 1024, 5000)
    ),
    *(
        case(f"stream that ends after 1000, {s}", short_stream(1000, solver=s), 0.05,
             "nats a row", "a fit of these rows", slow=True, may_warn=True)
        for s in ("online", "isaem", "vrttem", "fittem")
    ),
    case("stream with chunks of no weight", idle_chunks, 1e-12, "nats a row",
         "a stream without them"),
    case("batches of single rows, online", single_rows, 0.02, "nats a row",
         "the default solver", slow=True, may_warn=True),
    *(
        repetition("two components", lambda: StochasticEMGaussianMixture(2), MIXTURE,
                   solver, slow=solver != "em")
        for solver in ("em", "iem", "vrttem", "fittem", "online", "squarem")
    ),
    repetition("two components", lambda: StochasticEMMixture(2), "StochasticEMMixture",
               slow=True),
    repetition("intercepts", lambda: StochasticEM(
        RandomInterceptModel(), solver="em", tol=1e-10, max_iter=3000), "StochasticEM"),
    repetition("counts", RobustPoissonRegressor, "RobustPoissonRegressor", y="counts"),
    case("weights, sequences", repeated_sequences, 1e-4, "nats a row",
         "repeated sequences", "HiddenMarkovModel", slow=True),
    *(
        case(f"Ising 8 x 8, J = {coupling}, {how}", log_z(coupling, how), 4.0,
             "standard errors of log Z", "elimination", "LatentBoltzmannMachine",
             slow=True, may_warn=True)
        for coupling in (0.44, 0.7) for how in ("ais", "bracket")
    ),
]  # fmt: skip
