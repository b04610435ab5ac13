"""
Hidden units on a grid: three E-steps
=====================================

Half of the units of a 10 x 10 grid are hidden, at random. What is left of the grid
between them falls into small parts, so that their posterior can be summed exactly, and
the likelihood of the whole machine as well. The exact E-step is compared with Gibbs
chains for each row (APCD) and with mean field (MFPCD), from the same start.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sktem import LatentBoltzmannMachine
from sktem.graphs import Graph, grid_graph
from sktem.models.boltzmann_graph import GraphMachine

side, n_rows = 10, 1000
rng = np.random.default_rng(0)
graph = Graph(grid_graph(side, side))
hidden = np.sort(rng.choice(side**2, side**2 // 2, replace=False))
visible = np.setdiff1d(np.arange(side**2), hidden)

# The machine that makes the data: its chains are the columns of a matrix.
truth = GraphMachine(graph, hidden)
weights = rng.normal(0, 2.0, graph.n_edges)
biases = rng.normal(0, 0.3, side**2)
# So that zeros and ones are about as frequent.
np.subtract.at(biases, graph.first, weights / 2)
np.subtract.at(biases, graph.second, weights / 2)
chains = truth.new_chains(2 * n_rows, rng)
truth.sweep(np.concatenate([biases, weights]), chains, 2000, seed=1)
train, test = chains[visible].T[:n_rows], chains[visible].T[n_rows:]

# %%
# ``warm_start`` goes on from the parameters and the chains of the model, so that the
# held-out log-likelihood can be taken on the way; log Z is exact.
solvers = {
    "exact E-step": dict(solver="pcd"),
    "APCD, Gibbs chains": dict(solver="apcd", e_step="gibbs", step_size_e=0.3),
    "MFPCD, mean field": dict(solver="mfpcd"),
}
epochs = np.arange(10, 161, 10)
scores = {}
for name, settings in solvers.items():
    machine = LatentBoltzmannMachine(
        graph,
        hidden,
        step_size_m=0.3,
        n_chains=200,
        max_iter=10,
        warm_start=True,
        random_state=0,
        **settings,
    )
    scores[name] = [machine.fit(train).score(test) for _ in epochs]
    print(f"{name:20s} {scores[name][-1]:.3f} nats per row")

# %%
rates = np.clip(train.mean(axis=0), 0.002, 0.998)
independent = (test * np.log(rates) + (1 - test) * np.log1p(-rates)).sum(axis=1).mean()
fig, (left, right) = plt.subplots(
    1, 2, figsize=(8.5, 3.6), layout="constrained", width_ratios=[1, 1.7]
)
picture = np.zeros((side, side))
picture.ravel()[hidden] = 1
left.imshow(picture, cmap="Greys", vmax=2)
left.set(title="hidden units (grey)", xticks=[], yticks=[])
for (name, values), style in zip(scores.items(), ("-", "--", ":"), strict=True):
    right.plot(epochs, values, style, label=name)
right.axhline(independent, color="0.6", linewidth=1, label="independent units")
right.set(xlabel="epochs", ylabel="held-out log-likelihood\n(nats per row)")
right.legend()
plt.show()
