"""
Hidden units on a grid: three E-steps
=====================================

Half of the units of a 10 x 10 grid, chosen at random, are hidden. The edges between
them form small parts, so that their posterior can be summed exactly, and so can the
likelihood of the whole machine. The exact E-step is compared with Gibbs chains for each
row (APCD) and with mean field (MFPCD), from the same start. Weights are strong and
biases weak, so that hidden units depend on each other given the visible ones. Mean
field ignores this dependence and ends lower.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.machines.elimination import plan_elimination
from sktem.boltzmann.machines.graph_machine import GraphMachine
from sktem.graphs import Graph, grid_graph

side, n_rows = 10, 2000
rng = np.random.default_rng(0)
graph = Graph(grid_graph(side, side))
hidden = np.sort(rng.choice(side**2, side**2 // 2, replace=False))
visible = np.setdiff1d(np.arange(side**2), hidden)

# The machine that makes the data: its chains are the columns of a matrix.
weights = rng.normal(0, 2.8, graph.n_edges)
biases = rng.normal(0, 0.2, side**2)
# So that zeros and ones are about as frequent.
np.subtract.at(biases, graph.first, weights / 2)
np.subtract.at(biases, graph.second, weights / 2)
theta = np.concatenate([biases, weights])
truth = GraphMachine(graph, hidden)
chains = truth.new_chains(2 * n_rows, rng)
truth.sweep(theta, chains, 2000, seed=1)
train, test = chains[visible].T[:n_rows], chains[visible].T[n_rows:]

# Its own log-likelihood: log Z is summed by eliminating unit by unit.
log_z = plan_elimination(graph).log_sum(biases, weights)
best = truth.log_unnormalised(theta, test.astype(float)).mean() - log_z

# %%
# ``warm_start`` continues from the parameters and the chains of the model, so that the
# held-out log-likelihood can be computed during the fit; log Z is exact.
solvers = {
    "exact E-step": dict(solver="pcd"),
    "APCD, Gibbs chains": dict(solver="apcd", e_step="gibbs", step_size_e=0.3),
    "MFPCD, mean field": dict(solver="mfpcd"),
}
epochs = np.arange(10, 81, 10)
below = {}
for name, settings in solvers.items():
    machine = LatentBoltzmannMachine(
        graph,
        hidden,
        step_size_m=0.5,
        n_chains=500,
        max_iter=10,
        batch_size=200,
        tol=None,
        warm_start=True,
        random_state=0,
        **settings,
    )
    below[name] = np.array([best - machine.fit(train).score(test) for _ in epochs])
    print(f"{name:20s} {below[name][-1]:.3f} nats per row below the true machine")

# %%
rates = np.clip(train.mean(axis=0), 0.002, 0.998)
independent = (test * np.log(rates) + (1 - test) * np.log1p(-rates)).sum(axis=1).mean()
print(f"independent units    {best - independent:.3f}")
fig, (left, right) = plt.subplots(
    1, 2, figsize=(8.5, 3.6), layout="constrained", width_ratios=[1, 1.7]
)
picture = np.zeros((side, side))
picture.ravel()[hidden] = 1
left.imshow(picture, cmap="Greys", vmax=2)
left.set(title="hidden units (grey)", xticks=[], yticks=[])
for (name, values), style in zip(below.items(), ("-", "--", ":"), strict=True):
    right.semilogy(epochs, values, style, label=name)
right.set(xlabel="epochs", ylabel="held-out nats per row\nbelow the true machine")
right.legend()
plt.show()
