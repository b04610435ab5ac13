"""Log Z along the path of the parameters against exact sums and long runs."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.objective import Objective
from sktem.boltzmann.partition import ExactPartition
from sktem.boltzmann.tracking import PartitionTrack
from sktem.evaluation import annealed_importance_sampling
from tests.boltzmann.test_ais import problem


def digits():
    return (load_digits().data > 7).astype(np.float64)


def paths(kind, seed, moves=True):
    """Follow random parameters; return scores of log Z, and its errors, at the ends."""
    model, params, _ = problem(kind)
    rng = np.random.default_rng(seed)
    exact = ExactPartition(model)
    start = (0.3 * params).astype(params.dtype)
    if model.gaussian:
        start[...] = params
        start[model.weights_from :] *= 0.3
    draws = exact.draw(start, 100, rng)
    track = PartitionTrack.begin(model, start, draws, exact.value(start), 0.0, rng, 0)
    if not moves:
        model.moved = lambda params, chains, n_sweeps, seed: chains
    for share in (0.5, 1.0):
        track.follow(model, start + share * (params - start), 20, rng)
    return (track.value - exact.value(params)) / track.standard_error


@pytest.mark.parametrize("kind", ["grid", "restricted", "deep", "gaussian"])
def test_errors_are_right(kind):
    scores = np.array([paths(kind, seed) for seed in range(24)])
    assert abs(scores.mean()) < 0.6 and 0.6 < scores.std() < 1.4


def test_states_that_do_not_move_are_wrong():
    scores = np.array([paths("restricted", seed, moves=False) for seed in range(24)])
    assert abs(scores.mean()) > 0.6 or scores.std() > 1.4


@pytest.mark.parametrize("averaging", [False, True])
def test_the_objective_along_a_run_of_digits(averaging, monkeypatch):
    """A run of 60 epochs against the exact log-likelihood of shorter ones."""
    X = digits()[:1000]

    def machine(n_epochs, tol):
        return LatentBoltzmannMachine(
            hidden_layer_sizes=10, solver="pcd", step_size_m=0.1, max_iter=n_epochs,
            tol=tol, averaging=averaging, weight_decay=0.0, random_state=0,
        )  # fmt: skip

    ends = [10, 20, 40, 60]
    exact = np.array([machine(n, None).fit(X).score(X) for n in ends])
    monkeypatch.setattr("sktem.boltzmann.objective.OPERATIONS", 0.0)
    fitted = machine(60, 1.0).fit(X)
    found = np.array(fitted.history_.objective)
    assert len(np.unique(found)) >= 6  # every 100 updates
    differences = found[np.array(ends) - 1] - exact
    assert np.abs(differences).max() < 0.2
    # The values of twenty epochs before or after are not within that.
    assert np.abs(found[np.array(ends[:-1]) - 1] - exact[1:]).min() > 0.5
    assert fitted.converged_


def test_the_objective_of_a_larger_machine():
    X = digits()[:1000]
    fitted = LatentBoltzmannMachine(
        hidden_layer_sizes=40, solver="pcd", step_size_m=0.1, max_iter=40, tol=1.0,
        weight_decay=0.0, random_state=0,
    ).fit(X)  # fmt: skip
    found = annealed_importance_sampling(
        fitted.fitted_.model, fitted.params_, np.random.default_rng(0), 100, 3000
    )
    score = fitted.score_samples(X, log_partition=found.value).mean()
    assert found.standard_error < 0.1
    assert abs(fitted.history_.objective[-1] - score) < 0.5


def test_the_objective_of_a_deep_machine(monkeypatch, capsys):
    """Hidden units that are sampled, against sums over all of them."""
    X = digits()[:100]
    monkeypatch.setattr("sktem.boltzmann.layered_machine.POSTERIOR_WIDTH", 0)
    monkeypatch.setattr("sktem.boltzmann.objective.OPERATIONS", 0.0)
    monkeypatch.setattr("sktem.boltzmann.objective.SECONDS", 0.0)

    def machine(n_epochs, **options):
        return LatentBoltzmannMachine(
            hidden_layer_sizes=(10, 4), solver="pcd", step_size_m=0.1, batch_size=20,
            max_iter=n_epochs, weight_decay=0.0, random_state=0, **options,
        ).fit(X)  # fmt: skip

    ends = [60, 180]
    params = [machine(n, tol=None).params_ for n in ends]
    fitted = machine(240, tol=1.0, verbose=1, verbose_interval=60)
    found = np.array(fitted.history_.objective)
    assert not fitted.fitted_.model.has_exact_posterior
    # Every 300 updates, and at the middle and the end of the run.
    assert (np.flatnonzero(np.diff(found)) + 2).tolist() == [60, 120, 180, 240]
    assert "annealed importance sampling: 250 of 250" in capsys.readouterr().out
    monkeypatch.undo()
    exact = LatentBoltzmannMachine(hidden_layer_sizes=(10, 4), max_iter=0, tol=None)
    exact.fit(X)
    values = []
    for values_of in params:
        exact.params_ = values_of
        values.append(exact.score(X, method="exact"))
    differences = found[[59, 179]] - values
    assert np.abs(differences).max() < 0.5
    # What they were measured for matters.
    assert abs(found[59] - values[1]) > 1.0


def errors_of_rounds(seed, monkeypatch):
    """Return the errors of the objective at the ends of rounds, by exact sums."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(9).random((4, 12)) < 0.5
    X = (means[rng.integers(4, size=50)] ^ (rng.random((50, 12)) < 0.1)).astype(float)
    measure, errors = Objective.measure, []

    def measured(self, params, number, state=None, ends=True):
        value, error = measure(self, params, number, state, ends)
        if ends:
            wide = params.astype(np.float64)
            exact = self.model.log_unnormalised(wide, self.X).mean()
            exact -= ExactPartition(self.model).value(wide)
            errors.append(value + self.weight_decay * self.model.penalty(wide) - exact)
        return value, error

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(Objective, "measure", measured)
        patch.setattr("sktem.boltzmann.objective.OPERATIONS", 0.0)
        patch.setattr("sktem.boltzmann.ascent.NANOSECONDS", 0.0)
        LatentBoltzmannMachine(
            hidden_layer_sizes=50, max_iter=3300, random_state=seed
        ).fit(X)
    return np.array(errors)


def test_rounds_are_compared_along_the_way_between_them(monkeypatch):
    """The error that two rounds have in common does not count."""

    def changes():
        found = [errors_of_rounds(seed, monkeypatch) for seed in range(4)]
        assert all(3 <= len(errors) <= 4 for errors in found)
        return np.abs([errors[-1] - errors[-2] for errors in found])

    straight = changes()
    assert straight.max() < 0.03
    # Along the path of all updates, which is longer, it grows.
    monkeypatch.setattr(Objective, "_shorter", lambda self, *rest: rest[2].track)
    assert np.mean(changes() ** 2) > 9 * np.mean(straight**2)
