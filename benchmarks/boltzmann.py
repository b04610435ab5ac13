"""Speed of Boltzmann machines: one thread, medians of CPU time, peers in the same run.

Rows that need a package that is not installed (dwave-pytorch-plugin, thrml, torch) say
so. The sizes are those of the papers: a grid of 30 x 30, layers of 784-500-1000, a
restricted machine of 784-500; and larger graphs, whose sweeps alone ``--graphs``
measures. Run: ``OMP_NUM_THREADS=1 python benchmarks/boltzmann.py``. With the option
``--device cpu`` or ``--device cuda`` only the deep machine on tensors of torch is
measured, on that device.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
from boltzmann_data import mnist
from machine import describe
from scipy.special import expit
from sklearn.base import clone
from sklearn.neural_network import BernoulliRBM

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.boltzmann.machines.layer_operations import operations_of
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.evaluation import annealed_importance_sampling
from sktem.graphs import Graph, as_graph, grid_graph

ROUNDS = 7


def timed(functions, rounds=ROUNDS, clock=time.process_time):
    """Return CPU seconds of each function, in turns so that all see the same load."""
    seconds = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return seconds


def report(title, seconds, work, unit, scale=1.0):
    """Print work per second of each, and the ratio of the first to it."""
    print(f"\n{title}")
    first = np.array(next(iter(seconds.values())))
    for name, values in seconds.items():
        rate = work[name] / np.array(values) / scale
        print(
            f"  {name:44s} {np.median(rate):10.4g} ({rate.min():.4g} to "
            f"{rate.max():.4g}) {unit}",
            end="",
        )
        if values is not seconds[next(iter(seconds))]:
            own = work[next(iter(seconds))] / first / (work[name] / np.array(values))
            print(f", ratio {np.median(own):.2f} ({own.min():.2f} to {own.max():.2f})")
        else:
            print()


def checkerboard(states, biases, right, down, n_sweeps, rng):
    """Sweep a grid by NumPy, one colour at a time: (height, width, n_chains)."""
    height, width, n = states.shape
    colour = np.add.outer(np.arange(height), np.arange(width)) % 2
    for _ in range(n_sweeps):
        for side in (0, 1):
            fields = np.broadcast_to(biases[..., None], states.shape).copy()
            fields[:, 1:] += right[..., None] * states[:, :-1]
            fields[:, :-1] += right[..., None] * states[:, 1:]
            fields[1:] += down[..., None] * states[:-1]
            fields[:-1] += down[..., None] * states[1:]
            where = colour == side
            draws = rng.random((int(where.sum()), n), np.float32)
            states[where] = draws < expit(fields[where])


def grid(n_chains=2000, n_sweeps=20):
    rng = np.random.default_rng(0)
    graph = Graph(grid_graph(30, 30))
    model = GraphMachine(graph, [], n_jobs=1)
    params = np.concatenate(
        [rng.uniform(-3, 3, 900), rng.normal(0, np.sqrt(0.5), graph.n_edges)]
    )
    chains = model.new_chains(n_chains, rng)
    states = chains.reshape(30, 30, n_chains).copy()
    weights = model.weights_by_unit(params)
    unit = np.arange(900).reshape(30, 30)
    right = weights[unit[:, :-1].ravel(), unit[:, 1:].ravel()].reshape(30, 29)
    down = weights[unit[:-1].ravel(), unit[1:].ravel()].reshape(29, 30)
    fields = [a.astype(np.float32) for a in (params[:900].reshape(30, 30), right, down)]
    functions = {
        "sktem": lambda: model.sweep(params, chains, n_sweeps, 1),
        "NumPy, float32, by colour": lambda: checkerboard(states, *fields, 1, rng),
    }
    work = {"sktem": 900 * n_chains * n_sweeps}
    work["NumPy, float32, by colour"] = 900 * n_chains
    for name, peer in (("thrml", thrml_grid), ("dwave, block sampler", dwave_grid)):
        try:
            functions[name], work[name] = peer(graph, params, 500, 20)
        except ImportError as error:
            print(f"{name}: {error}")
    seconds = timed(functions)
    report(f"Grid 30 x 30, {n_chains:,} chains", seconds, work, "1e9 updates/s", 1e9)


def as_spins(graph, params):
    """Return biases and weights of the machine in units -1 and 1: x = (1 + s) / 2."""
    weights = params[graph.n_units :] / 4
    biases = params[: graph.n_units] / 2
    np.add.at(biases, graph.first, weights)
    np.add.at(biases, graph.second, weights)
    return biases, weights


def dwave_grid(graph, params, n_chains, n_sweeps):
    """Return a function that samples the grid by dwave, and its number of updates."""
    import torch
    from dwave.plugins.torch.models import GraphRestrictedBoltzmannMachine
    from dwave.plugins.torch.samplers import BlockSampler

    torch.set_num_threads(1)
    biases, weights = as_spins(graph, params)
    edges = list(zip(graph.first.tolist(), graph.second.tolist(), strict=True))
    # Their parameters are those of an energy, with the opposite sign.
    machine = GraphRestrictedBoltzmannMachine(
        range(graph.n_units),
        edges,
        linear=dict(enumerate((-biases).tolist())),
        quadratic=dict(zip(edges, (-weights).tolist(), strict=True)),
    )
    colours = graph.colours().tolist()
    sampler = BlockSampler(
        machine, colours.__getitem__, n_chains, [1.0] * n_sweeps, seed=0
    )
    return sampler.sample, graph.n_units * n_chains * n_sweeps


def thrml_grid(graph, params, n_chains, n_sweeps):
    """Return a function that samples the grid by thrml, and its number of updates."""
    import jax
    import jax.numpy as jnp
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    nodes = [SpinNode() for _ in range(graph.n_units)]
    edges = [
        (nodes[a], nodes[b]) for a, b in zip(graph.first, graph.second, strict=True)
    ]
    biases, weights = as_spins(graph, params)
    model = IsingEBM(
        nodes, edges, jnp.array(biases), jnp.array(weights), jnp.array(1.0)
    )
    colours = graph.colours()
    blocks = [
        Block([n for n, c in zip(nodes, colours, strict=True) if c == side])
        for side in (0, 1)
    ]
    program = IsingSamplingProgram(model, blocks, clamped_blocks=[])
    schedule = SamplingSchedule(n_warmup=n_sweeps, n_samples=1, steps_per_sample=1)
    keys = jax.random.split(jax.random.key(0), n_chains)
    start = hinton_init(jax.random.key(1), model, blocks, (n_chains,))
    run = jax.jit(
        jax.vmap(
            lambda state, key: sample_states(
                key, program, schedule, state, [], [Block(nodes)]
            )
        )
    )

    def sample():
        jax.block_until_ready(run(start, keys))

    return sample, 900 * n_chains * n_sweeps


def sparse_graph(n_units, n_edges, rng):
    """Return a random graph of a number of edges."""
    pairs = rng.integers(n_units, size=(2 * n_edges, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    return as_graph(pairs[np.sort(rng.permutation(len(pairs))[:n_edges])])


def by_colour(model, params, states, n_sweeps, rng):
    """Return a function that sweeps a graph by SciPy, one colour at a time."""
    weights = model.weights_by_unit(params).tocsr().astype(np.float32)
    biases = params[: model.n_units].astype(np.float32)[:, None]
    colours = model.graph.colours()
    parts = [np.flatnonzero(colours == k) for k in range(colours.max() + 1)]
    rows = [weights[part] for part in parts]

    def sweep():
        for _ in range(n_sweeps):
            for part, matrix in zip(parts, rows, strict=True):
                fields = matrix @ states
                fields += biases[part]
                draws = rng.random(fields.shape, np.float32)
                states[part] = draws < expit(fields)

    return sweep


def graphs(n_chains=100, n_sweeps=20):
    """Sweeps of larger graphs."""
    rng = np.random.default_rng(0)
    kinds = {
        "Grid 100 x 100": Graph(grid_graph(100, 100)),
        "Random, 10,000 units and 40,000 edges": sparse_graph(10_000, 40_000, rng),
        "All pairs of 300 units": Graph(np.ones((300, 300)) - np.eye(300)),
    }
    for title, graph in kinds.items():
        model = GraphMachine(graph, [], n_jobs=1)
        scale = 1 / np.sqrt(graph.degrees().mean())
        params = scale * rng.standard_normal(model.n_parameters)
        chains = model.new_chains(n_chains, rng)
        peer, width = chains.copy(), 512
        wide = model.new_chains(width, rng)
        functions = {
            "sktem": partial(model.sweep, params, chains, n_sweeps, 1),
            "SciPy, float32, by colour": by_colour(model, params, peer, 1, rng),
            f"sktem, {width} chains": partial(model.sweep, params, wide, n_sweeps, 1),
            "sktem, one sweep a call": partial(model.sweep, params, chains, 1, 1),
        }
        counts = {"sktem": n_chains * n_sweeps, "SciPy, float32, by colour": n_chains}
        counts[f"sktem, {width} chains"] = width * n_sweeps
        counts["sktem, one sweep a call"] = n_chains
        if model.sweeps.is_dense:
            matrix = rng.standard_normal((300, 300)).astype(np.float32)
            functions["its matrix product alone"] = partial(np.matmul, matrix, peer)
            counts["its matrix product alone"] = n_chains
        work = {name: graph.n_units * count for name, count in counts.items()}
        title = f"{title}, {n_chains} chains, {n_sweeps} sweeps a call"
        report(title, timed(functions), work, "1e9 updates/s", 1e9)


def deep(n_chains=100, n_sweeps=20):
    rng = np.random.default_rng(0)
    model = LayeredMachine((784, 500, 1000), n_jobs=1)
    params = (0.05 * rng.standard_normal(model.n_parameters)).astype(np.float32)
    chains = model.new_chains(n_chains, rng)
    w1, w2 = (
        model.layout.weights_between(params, 0).copy(),
        model.layout.weights_between(params, 1),
    )
    w2 = np.ascontiguousarray(w2)
    b0, b1, b2 = (model.layout.layer_biases(params, k) for k in range(3))

    def textbook():
        h1 = chains
        for _ in range(n_sweeps):
            v = (rng.random((n_chains, 784), np.float32) < expit(h1 @ w1.T + b0)) * one
            h2 = (rng.random((n_chains, 1000), np.float32) < expit(h1 @ w2 + b2)) * one
            field = v @ w1 + h2 @ w2.T + b1
            h1 = (rng.random((n_chains, 500), np.float32) < expit(field)) * one

    one = np.float32(1)
    a = rng.standard_normal((n_chains, 1784)).astype(np.float32)
    b = rng.standard_normal((1784, 500)).astype(np.float32)

    def products():
        for _ in range(n_sweeps):
            c = a @ b
            c @ b.T

    draws = operations_of(params).draws(1)
    functions = {
        "sktem": lambda: model.dynamics.transitions(params, chains, n_sweeps, draws),
        "NumPy, float32": textbook,
        "matrix products alone": products,
    }
    try:
        functions["torch, float32"] = torch_sweeps(w1, w2, b0, b1, b2, chains, n_sweeps)
    except ImportError as error:
        print(f"torch: {error}")
    seconds = timed(functions)
    work = dict.fromkeys(functions, n_sweeps)
    report(f"Deep 784-500-1000, {n_chains} chains", seconds, work, "sweeps/s")
    if "torch, float32" in functions:
        on_device("cpu", n_chains)


def torch_sweeps(w1, w2, b0, b1, b2, chains, n_sweeps):
    """Return a function that sweeps by plain torch."""
    import torch

    torch.set_num_threads(1)
    w1, w2, b0, b1, b2, chains = map(torch.asarray, (w1, w2, b0, b1, b2, chains))

    def sweep():
        h1 = chains
        for _ in range(n_sweeps):
            v = torch.bernoulli(torch.sigmoid(h1 @ w1.T + b0))
            h2 = torch.bernoulli(torch.sigmoid(h1 @ w2 + b2))
            h1 = torch.bernoulli(torch.sigmoid(v @ w1 + h2 @ w2.T + b1))

    return sweep


def on_device(device, n_chains, n_sweeps=20):
    """Measure the deep machine on tensors, and what its matrix products take alone."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    model = LayeredMachine((784, 500, 1000))
    params = (0.05 * rng.standard_normal(model.n_parameters)).astype(np.float32)
    params = torch.asarray(params, device=device)
    chains = model.new_chains(n_chains, rng, like=params)
    w1, w2 = model.weights_by_unit(params)
    biases = model.biases_by_unit(params)
    plain = torch_sweeps(w1, w2, *biases, chains, n_sweeps)
    draws = operations_of(params).draws(1)
    a = torch.rand((n_chains, 1784), device=device)
    b = torch.rand((1784, 500), device=device)

    def products():
        for _ in range(n_sweeps):
            c = a @ b
            c @ b.T

    def finished(function):
        def run():
            function()
            if device != "cpu":
                torch.cuda.synchronize()

        return run

    functions = {
        "sktem, float32": lambda: model.dynamics.transitions(
            params, chains, n_sweeps, draws
        ),
        "plain loop of torch, float32": plain,
        "matrix products alone (floor)": products,
    }
    functions = {name: finished(function) for name, function in functions.items()}
    clock = time.process_time if device == "cpu" else time.perf_counter
    seconds = timed(functions, clock=clock)
    floor = np.median(seconds["matrix products alone (floor)"])
    flops = 4 * 1784 * 500 * n_chains * n_sweeps / floor
    name = "one thread of the CPU" if device == "cpu" else torch.cuda.get_device_name()
    title = (
        f"Deep 784-500-1000, {n_chains:,} chains, torch {torch.__version__}, {name} "
        f"(products at {flops / 1e9:,.0f} GF/s)"
    )
    report(title, seconds, dict.fromkeys(functions, n_sweeps), "sweeps/s")


def restricted(X):
    X = X[:6000]
    ours = LatentBoltzmannMachine(
        hidden_layer_sizes=500, solver="pcd", n_gibbs_m=1, step_size_m=0.05,
        max_iter=1, centering=False, weight_decay=0.0, tol=None, random_state=0,
    )  # fmt: skip
    centred = clone(ours).set_params(centering=True)
    theirs = BernoulliRBM(500, learning_rate=0.05, batch_size=100, n_iter=1)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((784, 500)).astype(np.float32)
    hidden = rng.random((100, 500), np.float32)

    def products():
        for begin in range(0, len(X), 100):
            batch = X[begin : begin + 100]
            for fields in (batch @ weights, hidden @ weights.T, batch @ weights):
                assert fields.dtype == np.float32
            for moments in (batch.T @ hidden, batch.T @ hidden):
                assert moments.dtype == np.float32

    functions = {
        "sktem": lambda: ours.fit(X), "BernoulliRBM": lambda: theirs.fit(X),
        "its matrix products alone, by BLAS": products,
        "sktem, centred": lambda: centred.fit(X),
    }  # fmt: skip
    seconds = timed(functions)
    work = dict.fromkeys(functions, len(X))
    report("Restricted 784-500, PCD-1, batch 100, float32", seconds, work, "rows/s")
    tens = clone(ours).set_params(batch_size=10)
    functions = {
        "sktem": lambda: tens.fit(X[:2000]),
        "sktem, n_chains=10": lambda: clone(tens).set_params(n_chains=10).fit(X[:2000]),
        "BernoulliRBM": lambda: clone(theirs).set_params(batch_size=10).fit(X[:2000]),
    }
    work = dict.fromkeys(functions, 2000)
    report("The same, batch 10", timed(functions, 5), work, "rows/s")
    work = {"sktem": len(X), "BernoulliRBM": len(X)}
    functions = {"sktem": lambda: ours.transform(X)}
    functions["BernoulliRBM"] = lambda: theirs.transform(X)
    report("transform", timed(functions, 5), work, "rows/s")


def importance(X):
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=500, solver="pcd", n_gibbs_m=1, max_iter=2, random_state=0,
        step_size_m=(0.05, 0.0005), centering=False, weight_decay=0.0, tol=None,
    ).fit(X[:20000])  # fmt: skip
    model = machine.fitted_.model
    for schedule in ("linear", "adaptive"):
        start = time.process_time()
        found = annealed_importance_sampling(
            model, machine.params_, np.random.default_rng(0), 100, 5000, schedule
        )
        print(
            f"  {schedule:10s} log Z {found.value:.2f}, error "
            f"{found.standard_error:.2f}, effective size "
            f"{found.effective_sample_size:.0f} of 100, "
            f"{time.process_time() - start:.1f} s CPU"
        )


def main():
    parser = argparse.ArgumentParser(description="Speed of Boltzmann machines.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=None)
    parser.add_argument("--graphs", action="store_true", help="only sweeps of graphs")
    options = parser.parse_args()
    device = options.device
    warnings.simplefilter("ignore")
    print(describe())
    if options.graphs:
        grid()
        graphs()
        return
    if device is not None:
        for n_chains in (100, 2000):
            on_device(device, n_chains)
        return
    a = np.ones((500, 500), np.float32)
    peak = timed({"product": lambda: a @ a})["product"]
    print(f"peak of a matrix product: {2 * 500**3 / np.median(peak) / 1e9:.0f} GF/s")
    grid()
    graphs()
    deep()
    X, _ = mnist()
    restricted(X)
    print("\nAnnealed importance sampling, 784-500, 100 runs of 5,000 temperatures")
    importance(X)


if __name__ == "__main__":
    main()
