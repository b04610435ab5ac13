"""LatentBoltzmannMachine with its defaults on data that nobody tuned to.

The reference of enumerable machines is the maximum of the enumerated log-likelihood,
with the default prior of weights and fields, by L-BFGS from several starts; the
distance is the share of its rise above independent units that the fit leaves. Where
rows are few it is the log-likelihood of new ones under independent units.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy import optimize
from sklearn.datasets import load_digits, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline

from sktem import BoltzmannMachineClassifier, LatentBoltzmannMachine
from sktem.evaluation import enumerate_states
from sktem.graphs import Graph, grid_graph, layered_graph
from tests.defaults.harness import Case, shared_path

SOLVERS = ("apcd", "hapcd", "mfpcd", "pcd", "cd")
#: No parameter of the reference is beyond, so that it exists for separable rows too.
LARGEST = 12.0


def independent(X):
    """Return the mean log-likelihood of independent columns."""
    p = np.clip(X.mean(axis=0), 1e-12, 1 - 1e-12)
    return float(np.sum(p * np.log(p) + (1 - p) * np.log1p(-p)))


def potentials(graph, states):
    """Return the statistics of all states, (n_states, n_parameters)."""
    return np.hstack([states, states[:, graph.first] * states[:, graph.second]])


def draw(graph, params, n, rng):
    """Return exact draws of all units."""
    states = enumerate_states(graph.n_units)
    energy = potentials(graph, states) @ params
    mass = np.exp(energy - energy.max())
    return states[rng.choice(len(states), n, p=mass / mass.sum())]


class Enumerated:
    """The mean log-likelihood of rows and its gradient, by sums over all states.

    The energies are those of the visible states, of the hidden states, and of the edges
    between both, so that no array has a row for each state of all units.
    """

    def __init__(self, graph, hidden, X, decay=0.0):
        self.hidden = np.asarray(hidden, int)
        self.graph, self.weights, self.decay = graph, slice(graph.n_units, None), decay
        self.visible = np.setdiff1d(np.arange(graph.n_units), self.hidden)
        self.parts = [self.part(graph, units) for units in (self.visible, self.hidden)]
        place = np.zeros(graph.n_units, int)
        for units in (self.visible, self.hidden):
            place[units] = np.arange(len(units))
        is_hidden = np.isin(np.arange(graph.n_units), self.hidden)
        first, second = graph.first, graph.second
        between = np.flatnonzero(is_hidden[first] != is_hidden[second])
        turned = is_hidden[first[between]]
        ends = place[first[between]], place[second[between]]
        self.ends = np.where(turned, ends[1], ends[0]), np.where(turned, *ends)
        self.between = graph.n_units + between
        powers = 2.0 ** np.arange(len(self.visible))
        states = self.parts[0][0]
        codes = {code: k for k, code in enumerate((states @ powers).astype(int))}
        rows = [codes[code] for code in (X @ powers).astype(int)]
        self.n_rows = len(X)
        self.shares = np.bincount(rows, minlength=len(states)) / len(X)

    @staticmethod
    def part(graph, units):
        """Return states of some units, their statistics, and where these stand."""
        subgraph, edges = graph.subgraph(units)
        states = enumerate_states(len(units)) if len(units) else np.zeros((1, 0))
        return (
            states,
            potentials(subgraph, states),
            np.concatenate([units, graph.n_units + edges]),
        )

    def loss(self, params):
        """Return minus the penalised mean log-likelihood, and its gradient."""
        (of_visible, phi, places), (of_hidden, psi, others) = self.parts
        weights = np.zeros((of_visible.shape[1], of_hidden.shape[1]))
        weights[self.ends] = params[self.between]
        energy = of_visible @ weights @ of_hidden.T
        energy += (phi @ params[places])[:, None] + psi @ params[others]
        mass = np.exp(energy - energy.max())
        mass /= mass.sum()
        marginal = mass.sum(axis=1)
        seen = self.shares > 0
        ratio = np.zeros_like(marginal)
        ratio[seen] = self.shares[seen] / np.maximum(marginal[seen], 1e-300)
        value = self.shares[seen] @ np.log(np.maximum(marginal[seen], 1e-300))
        mass *= (ratio - 1.0)[:, None]
        gradient = np.empty_like(params)
        gradient[places] = mass.sum(axis=1) @ phi
        gradient[others] = mass.sum(axis=0) @ psi
        gradient[self.between] = (of_visible.T @ mass @ of_hidden)[self.ends]
        penalty, slope = self.penalty(params)
        return self.decay * penalty - value, self.decay * slope - gradient

    def penalty(self, params):
        """Return minus the log-density of the default prior, and its gradient."""
        n, weights = self.graph.n_units, params[self.weights]
        squares, d = weights @ weights, len(self.visible)
        most = min(len(weights), 2**d - 1 - d)
        most = most if self.n_rows >= 5 * most else np.inf
        wider = most < squares
        value = 0.5 * (most * (1 + np.log(squares / most)) if wider else squares)
        slope = np.zeros_like(params)
        slope[self.weights] = weights / max(1, squares / most)
        joined = np.zeros((n, len(weights)))
        edges = np.arange(len(weights))
        joined[self.graph.first, edges] = joined[self.graph.second, edges] = 0.5
        fields = params[:n] + joined @ weights
        value += np.log(np.cosh(fields / 2)).sum()
        slope[:n] = 0.5 * np.tanh(fields / 2)
        slope[self.weights] += slope[:n] @ joined
        return float(value), slope


def maximum(graph, hidden, X, n_starts=4, decay=0.0):
    """Return the largest penalised log-likelihood of a machine, by enumeration."""
    enumerated = Enumerated(graph, hidden, X, decay)
    rng = np.random.default_rng(0)
    n_parameters = graph.n_units + graph.n_edges
    bounds = [(-LARGEST, LARGEST)] * n_parameters
    found = [
        optimize.minimize(
            enumerated.loss,
            rng.normal(0, (0.5, 2.0)[start % 2], n_parameters),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 2000},
        )  # fmt: skip
        for start in range(n_starts)
    ]
    return -min(result.fun for result in found)


@functools.cache
def rows_and_maximum(data, seed):
    """Return rows, the settings of their machine, and the largest objective."""
    graph, hidden, X, settings = data(np.random.default_rng(seed))
    n_starts = 4 if len(hidden) else 1
    return X, settings, maximum(graph, hidden, X, n_starts, 1 / len(X))


def share_left(data, seed, solver="apcd"):
    """Return the share of the possible rise that a default fit leaves."""
    X, settings, best = rows_and_maximum(data, seed)
    fitted = LatentBoltzmannMachine(**settings, solver=solver, random_state=seed)
    value = fitted.fit(X).score(X)
    graph, hidden, *_ = data(np.random.default_rng(seed))
    prior, model = Enumerated(graph, hidden, X), fitted.fitted_.model
    _, *parts = model.as_graph(fitted.params_)
    value -= prior.penalty(np.concatenate(parts[:2]))[0] / len(X)
    return (best - value) / (best - independent(X))


def random_graph(rng, n_units, n_edges, n_hidden, n, spread, bias=0.0):
    """Rows of a random graph that has the fitted form."""
    a, b = np.triu_indices(n_units, 1)
    chosen = rng.choice(len(a), n_edges, replace=False)
    graph = Graph.from_edges(n_units, a[chosen], b[chosen])
    params = np.concatenate(
        [rng.normal(bias, 0.5, n_units), rng.normal(0, spread, n_edges)]
    )
    hidden = np.sort(rng.choice(n_units, n_hidden, replace=False))
    visible = np.setdiff1d(np.arange(n_units), hidden)
    X = draw(graph, params, n, rng)[:, visible]
    return graph, hidden, X, dict(graph=graph, hidden=hidden)


def grid(rng, n=2000):
    """Rows of a 4 x 4 grid with five hidden units."""
    graph, hidden = Graph(grid_graph(4, 4)), np.array([1, 6, 8, 11, 14])
    params = np.concatenate([rng.normal(0, 0.5, 16), rng.normal(0, 1.5, graph.n_edges)])
    X = draw(graph, params, n, rng)[:, np.setdiff1d(np.arange(16), hidden)]
    return graph, hidden, X, dict(graph=graph, hidden=hidden)


def prototypes(rng, n, d, sizes, off=0.1):
    """Rows of four prototypes with some bits turned over, for a machine in layers."""
    patterns = rng.random((4, d)) < 0.5
    p = np.where(patterns[rng.integers(4, size=n)], 1 - off, off)
    X = (rng.random(p.shape) < p).astype(float)
    graph = Graph(layered_graph([d, *sizes]))
    hidden = np.arange(d, graph.n_units)
    return graph, hidden, X, dict(hidden_layer_sizes=sizes)


def in_layers(X, *sizes):
    """Rows for a machine in layers."""
    graph = Graph(layered_graph([X.shape[1], *sizes]))
    hidden = np.arange(X.shape[1], graph.n_units)
    return graph, hidden, X, dict(hidden_layer_sizes=sizes)


def exclusive_or(rng, n=1000):
    """Two coins, whether they differ, and a third coin."""
    coins = rng.integers(0, 2, (n, 3))
    return in_layers(np.column_stack([coins, coins[:, 0] ^ coins[:, 1]]) * 1.0, 3)


def parity(rng, n=800):
    """Three coins and whether an odd number of them is 1."""
    coins = rng.integers(0, 2, (n, 3))
    return in_layers(np.column_stack([coins, coins.sum(axis=1) % 2]) * 1.0, 6)


def repeated_rows(rng):
    """Twenty rows, each 25 times."""
    return in_layers(np.repeat((rng.random((20, 6)) < 0.5) * 1.0, 25, axis=0), 4)


def rare_cluster(rng, n=3000):
    """Columns that are mostly zero, and four that are one together in a few rows."""
    X = (rng.random((n, 9)) < 0.02) * 1.0
    X[rng.random(n) < 0.03, :4] = 1.0
    return in_layers(X, 3)


def new_below_independent(data, n, seed, **settings):
    """Return how far new rows are below independent columns after a fit to n rows."""
    X = data(np.random.default_rng(seed)).astype(float)
    train, new = X[:n], X[n:]
    share = (train.sum(axis=0) + 0.5) / (n + 1)
    alone = (new * np.log(share) + (1 - new) * np.log1p(-share)).sum(axis=1).mean()
    fitted = LatentBoltzmannMachine(random_state=seed, **settings).fit(train)
    return alone - fitted.score(new)


def rare_columns(rng, n=2020):
    """Return rows of columns of which some are constant in the first twenty."""
    return rng.random((n, 10)) < np.linspace(0.03, 0.3, 10)


def tossed(rng, n, d):
    """Return rows of independent columns."""
    return rng.random((n, d)) < rng.uniform(0.2, 0.8, d)


def shuffled_digits(rng):
    """Return digits, thresholded, in random order."""
    return rng.permutation(load_digits().data > 7)


def worse_features(seed):
    """Return the accuracy lost to BernoulliRBM, whose step and epochs were chosen."""
    X, y = load_digits(return_X_y=True)
    train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [1347])
    found = []
    for machine in (
        BernoulliRBM(100, learning_rate=0.06, n_iter=30, random_state=seed),
        LatentBoltzmannMachine(random_state=seed),
    ):
        pipeline = make_pipeline(machine, LogisticRegression(C=100, max_iter=2000))
        pipeline.fit(X[train] / 16, y[train])
        found.append(pipeline.score(X[test] / 16, y[test]))
    return found[0] - found[1]


def awkward_columns(rng, n=200):
    """Independent columns, one of them twice, and a constant one."""
    X = (rng.random((n, 6)) < 0.4).astype(float)
    X = np.column_stack([X, X[:, 0], np.ones(n)])
    graph = Graph(layered_graph([8, 3]))
    return graph, np.arange(8, 11), X, dict(hidden_layer_sizes=3)


def maximum_entropy(rng, n_units, n, spread, bias=0.0):
    """Rows of a complete graph without hidden units: a convex problem."""
    n_edges = n_units * (n_units - 1) // 2
    return random_graph(rng, n_units, n_edges, 0, n, spread, bias)


def clusters(rng, apart):
    """Three clusters in the plane, `apart` standard deviations from each other."""
    centres = np.array([[0, 0], [1, 0], [0, 1]]) * apart
    return centres[rng.integers(3, size=1000)] + rng.normal(size=(1000, 2))


def factors(rng, n=500, d=8):
    """Correlated normal columns of very different scales."""
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * np.logspace(-2, 3, d)


def below_one_normal(data, seed, **settings):
    """Return how far a Gaussian-visible machine is below one normal density."""
    X = data(np.random.default_rng(seed))
    fitted = LatentBoltzmannMachine(
        visible="gaussian", random_state=seed, **settings
    ).fit(X)
    log_det = np.linalg.slogdet(np.cov(X.T, bias=True))[1]
    single = -0.5 * (log_det + X.shape[1] * (np.log(2 * np.pi) + 1))
    return single - fitted.score(X)


def below_independent(data, seed, **settings):
    """Return how far a fit to rows is below independent columns, in nats."""
    X = data(np.random.default_rng(seed))
    fitted = LatentBoltzmannMachine(random_state=seed, **settings).fit(X)
    return independent(X) - fitted.score(X)


def digits_below(seed):
    """Return minus the log-likelihood of held-out digits, thresholded."""
    X = (load_digits().data > 7).astype(float)
    order = np.random.default_rng(seed).permutation(len(X))
    fitted = LatentBoltzmannMachine(random_state=seed).fit(X[order[:1437]])
    return -fitted.score(X[order[1437:]])


def mnist_below(seed):
    """Return minus the log-likelihood of 2,000 test images after 10,000."""
    rng = np.random.default_rng(seed)
    with np.load(shared_path("images/mnist.npz")) as file:
        images = [file["X_train"][:10_000], file["X_test"][:2000]]
    train, test = (
        (rng.random((len(x), 784), np.float32) < x.reshape(-1, 784) / 255).astype(
            np.float32
        )
        for x in images
    )
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=256, random_state=seed)
    return -fitted.fit(train).score(test)


def in_clusters(seed, n=1000, d=100, kinds=10, flip=0.05):
    """Return how far new rows near a few patterns are below the distribution itself."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random((kinds, d)) < 0.5, 1 - flip, flip)
    X = (rng.random((2 * n, d)) < p[rng.integers(kinds, size=2 * n)]) * 1.0
    fitted = LatentBoltzmannMachine(random_state=seed).fit(X[:n])
    logs = X[n:] @ np.log(p).T + (1 - X[n:]) @ np.log1p(-p).T
    truth = np.logaddexp.reduce(logs - np.log(kinds), axis=1).mean()
    return truth - fitted.score(X[n:])


def exclusive_or_with_holes(seed, n=800, share=0.15):
    """Return how far complete new rows are below the truth after a fit with holes."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, (2 * n, 3))
    pairs = [coins[:, i] ^ coins[:, j] for i, j in ((0, 1), (1, 2))]
    X = np.column_stack([coins, *pairs]).astype(float)
    train = np.where(rng.random((n, X.shape[1])) < share, np.nan, X[:n])
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=12, random_state=seed)
    return -3 * np.log(2) - fitted.fit(train).score(X[n:])


def one_hot_below_truth(seed, n=1500, d=4, levels=4):
    """Return how far new rows of indicators are below the latent classes themselves."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(levels, 0.3), (3, d))
    kind = rng.integers(3, size=2 * n)
    codes = (rng.random((2 * n, d, 1)) > p[kind].cumsum(axis=2)).sum(axis=2)
    X = np.eye(levels)[np.minimum(codes, levels - 1)]
    logs = np.einsum("ndl,kdl->nk", X[n:], np.log(p + 1e-300))
    truth = np.logaddexp.reduce(logs - np.log(3), axis=1).mean()
    X = X.reshape(2 * n, -1)
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=10, random_state=seed)
    return truth - fitted.fit(X[:n]).score(X[n:])


def rings_below_best(seed):
    """Return the loss of a classifier of rings above that of the best of 8 seeds."""
    X, y = make_circles(200, noise=0.1, factor=0.5, random_state=seed)

    def loss(start):
        machine = BoltzmannMachineClassifier(weight_decay=1e-3, random_state=start)
        return -machine.fit(X, y).log_likelihood(X, y) / len(X)

    losses = [loss(start) for start in range(8)]
    return max(losses) - min(losses)


def copies_above_once(seed, n=40, n_rows=400):
    """Return the log-loss of new rows of copies above that of each row once."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n + 2000)
    X = rng.normal(size=(n + 2000, 6)) + 0.6 * y[:, None]

    def loss(rows):
        machine = BoltzmannMachineClassifier(random_state=seed).fit(X[rows], y[rows])
        return -machine.log_likelihood(X[n:], y[n:]) / 2000

    return loss(rng.integers(0, n, n_rows)) - loss(np.arange(n))


def new_below_without(seed, n=300, off=300.0):
    """Return how far new rows are below a fit without two values that are far out."""
    rng = np.random.default_rng([2, seed])
    X, new = np.split(
        rng.normal(size=(2 * n, 2)) + 6.0 * rng.integers(2, size=(2 * n, 1)), 2
    )
    far = X.copy()
    far[-2:, 1] = -off, off

    def score(rows):
        machine = LatentBoltzmannMachine(hidden_layer_sizes=1, random_state=seed)
        return machine.fit(rows).score(new)

    return score(X) - score(far)


def streamed(seed, n_chunks=300, in_order=False):
    """Return how far a stream of 30,000 rows is below a fit to 2,000."""
    p = np.random.default_rng(0).beta(0.3, 0.3, (6, 16))

    def rows(n, rng):
        kinds = rng.integers(6, size=n)
        return (rng.random((n, 16)) < p[np.sort(kinds) if in_order else kinds]) * 1.0

    rng = np.random.default_rng([1, seed])
    new, whole = (
        rows(3000, rng),
        LatentBoltzmannMachine(hidden_layer_sizes=8, random_state=seed),
    )
    stream = LatentBoltzmannMachine(hidden_layer_sizes=8, random_state=seed)
    stream.partial_fit(rows(100 * n_chunks, rng))
    return whole.fit(rows(2000, rng)).score(new) - stream.score(new)


def parity_below_truth(seed, n=1000, n_coins=5):
    """Return how far new coins with their parity are below the truth."""
    coins = np.random.default_rng(seed).integers(0, 2, (2 * n, n_coins))
    X = np.column_stack([coins, coins.sum(axis=1) % 2]).astype(float)
    fitted = LatentBoltzmannMachine(random_state=seed).fit(X[:n])
    return -n_coins * np.log(2) - fitted.score(X[n:])


def triples_below_truth(seed, n, copies=1, n_triples=2):
    """Return how far new triples of exclusive or are below the truth."""
    coins = np.random.default_rng(seed).integers(0, 2, (n + 2000, n_triples, 2))
    X = np.dstack([coins, coins[..., 0] ^ coins[..., 1]]).reshape(n + 2000, -1) * 1.0
    fitted = LatentBoltzmannMachine(random_state=seed)
    fitted.fit(np.repeat(X[:n], copies, axis=0))
    return -2 * n_triples * np.log(2) - fitted.score(X[n:])


def enumerated(name, data, solver="apcd", limit=0.1, **options):
    return Case(
        f"{name}, {solver}", "LatentBoltzmannMachine", "enumeration",
        "share of the gain left", limit,
        functools.partial(share_left, data, solver=solver), **options,
    )  # fmt: skip


def compared(name, reference, distance, limit=0.0, **options):
    return Case(
        name, "LatentBoltzmannMachine", reference, "nats below", limit, distance,
        **options,
    )  # fmt: skip


PART = functools.partial
GRAPH = PART(random_graph, n_units=10, n_edges=24, n_hidden=3, n=2000, spread=1.0)
STRONG = PART(random_graph, n_units=8, n_edges=20, n_hidden=4, n=200, spread=2.0)
MANY_HIDDEN = PART(random_graph, n_units=10, n_edges=24, n_hidden=6, n=50, spread=1.0)
SHARP = PART(random_graph, n_units=10, n_edges=20, n_hidden=3, n=1000, spread=5.0)
DEEP = PART(prototypes, n=1000, d=9, sizes=(3, 2))

CASES = [
    *[enumerated("random graph 7 + 3", GRAPH, solver) for solver in SOLVERS],
    *[
        enumerated("dense graph 4 + 4, 200 rows", STRONG, solver, slow=solver != "apcd")
        for solver in SOLVERS
    ],
    *[
        enumerated("deep 9-3-2", DEEP, solver, slow=solver not in ("apcd", "mfpcd"))
        for solver in SOLVERS
    ],
    enumerated("restricted 9-4", PART(prototypes, n=1000, d=9, sizes=(4,))),
    enumerated("restricted 9-2, 20 rows", PART(prototypes, n=20, d=9, sizes=(2,))),
    enumerated(
        "restricted 6-3, 10,000 rows", PART(prototypes, n=10_000, d=6, sizes=(3,)),
        slow=True,
    ),  # fmt: skip
    enumerated("grid 4 x 4, 5 hidden", grid),
    enumerated("grid 4 x 4, 5 hidden", grid, "cd", slow=True),
    enumerated("maximum entropy, 14", PART(maximum_entropy, n_units=14, n=5000,
                                           spread=0.4), slow=True),
    enumerated("maximum entropy, 6", PART(maximum_entropy, n_units=6, n=300,
                                          spread=1.0)),
    enumerated("rare units, 10", PART(maximum_entropy, n_units=10, n=3000, spread=1.0,
                                      bias=-4.0), slow=True),
    enumerated("dense graph 4 + 6, 50 rows", MANY_HIDDEN, slow=True),
    enumerated("sharp weights, 7 + 3", SHARP),
    enumerated("sharp weights, 7 + 3", SHARP, "cd", slow=True),
    enumerated("exclusive or, 4-3", exclusive_or),
    enumerated("parity, 4-6", parity),
    enumerated("twenty rows, each 25 times", repeated_rows, slow=True),
    enumerated("a rare cluster, 9-3", rare_cluster, slow=True),
    enumerated("restricted 7-3, 30 rows", PART(prototypes, n=30, d=7, sizes=(3,))),
    enumerated("deep 7-2-2, 5,000 rows", PART(prototypes, n=5000, d=7, sizes=(2, 2)),
               slow=True),
    enumerated("maximum entropy, 12, 100 rows", PART(maximum_entropy, n_units=12,
                                                     n=100, spread=1.0), slow=True),
    compared("new rows of 10 independent columns after 30", "independent units",
             PART(new_below_independent, PART(tossed, n=2030, d=10), 30), limit=0.4),
    compared("new rows of 6 independent columns after 200", "independent units",
             PART(new_below_independent, PART(tossed, n=2200, d=6), 200), limit=0.2),
    compared("new rows of 10 rare columns after 20", "independent units",
             PART(new_below_independent, rare_columns, 20), limit=0.1),
    compared("new digits after 50", "independent units",
             PART(new_below_independent, shuffled_digits, 50), limit=-1.0,
             slow=True),
    compared("new digits after 500", "independent units",
             PART(new_below_independent, shuffled_digits, 500), limit=-6.0,
             may_warn=True, slow=True),
    Case("features of digits, 64-100", "LatentBoltzmannMachine",
         "BernoulliRBM, tuned", "accuracy lost", 0.02, worse_features, slow=True,
         may_warn=True),
    enumerated("a column twice, one constant", awkward_columns, slow=True,
               may_warn=True),
    compared(
        "independent columns, 300 x 12", "independent units",
        PART(below_independent, lambda rng: (rng.random((300, 12)) < 0.3) * 1.0,
             hidden_layer_sizes=5), limit=0.002,
    ),
    compared(
        "rare columns, 2,000 x 50", "independent units",
        PART(below_independent, lambda rng: (rng.random((2000, 50)) < 0.02) * 1.0,
             hidden_layer_sizes=5), limit=0.05, slow=True,
    ),
    compared("clusters 10 sd apart", "one normal density",
             PART(below_one_normal, PART(clusters, apart=10.0),
                  hidden_layer_sizes=4)),
    compared("clusters 4 sd apart", "one normal density",
             PART(below_one_normal, PART(clusters, apart=4.0),
                  hidden_layer_sizes=10), limit=0.02),
    compared("clusters 10 sd apart, 100 hidden", "one normal density",
             PART(below_one_normal, PART(clusters, apart=10.0)), slow=True),
    compared("8 correlated columns", "one normal density",
             PART(below_one_normal, factors, hidden_layer_sizes=12), slow=True,
             limit=1.0, may_warn=True),
    compared("8 correlated columns, 20 hidden", "one normal density",
             PART(below_one_normal, factors, hidden_layer_sizes=20), slow=True,
             limit=1.0, may_warn=True),
    compared("100 columns in ten clusters, 100 hidden", "the truth", in_clusters,
             limit=1.0, slow=True),
    compared("80 columns in four narrow clusters, 100 hidden", "the truth",
             PART(in_clusters, d=80, kinds=4, flip=0.01), limit=1.0, may_warn=True,
             slow=True),
    compared("rings, eight starts of a classifier", "the best of them",
             rings_below_best, limit=0.05, slow=True),
    Case("40 rows in 400 copies", "BoltzmannMachineClassifier", "each row once",
         "nats above", 0.1, copies_above_once, may_warn=True),
    compared("exclusive or with 15 % of values missing, 5-12", "the truth",
             exclusive_or_with_holes, limit=0.15, may_warn=True, slow=True),
    compared("indicators of 4 columns of 4 labels", "the truth",
             one_hot_below_truth, limit=0.3, may_warn=True, slow=True),
    compared("two clusters, two values far out", "a fit without them",
             new_below_without, limit=0.5, may_warn=True),
    compared("a stream of 30,000 rows", "a fit to 2,000", streamed, limit=0.5),
    compared("a stream of 30,000 rows in order", "a fit to 2,000",
             PART(streamed, in_order=True), limit=0.5, may_warn=True),
    compared("five coins and their parity", "the truth", parity_below_truth,
             limit=0.1, may_warn=True),
    compared("two exclusive ors, 60 rows", "the truth",
             PART(triples_below_truth, n=60), limit=0.3, may_warn=True),
    compared("one exclusive or, 60 rows", "the truth",
             PART(triples_below_truth, n=60, n_triples=1), limit=0.1),
    compared("two exclusive ors, 25 rows, each 24 times", "the truth",
             PART(triples_below_truth, n=25, copies=24), limit=0.3, may_warn=True),
    compared("new rows of 40 independent columns after 60, 12 hidden",
             "independent units",
             PART(new_below_independent, PART(tossed, n=2060, d=40), 60,
                  hidden_layer_sizes=12), limit=0.5, may_warn=True, slow=True),
    # A machine with longer steps and 60 epochs reaches -17.7.
    compared("digits, 64-100", "zero", digits_below, limit=18.5, slow=True),
    compared("MNIST, 784-256, 10,000 rows", "zero", mnist_below, limit=101.0,
             slow=True),
]  # fmt: skip
