"""Starts that a few passes of EM choose from."""

import numpy as np
import pytest

from sktem import StochasticEMMixture
from sktem.emissions import Bernoulli, Columns, Gaussian, Poisson
from sktem.mixture import short_runs
from sktem.mixture.emission_model import EmissionMixtureModel

EMISSION = Columns(
    [
        ("flags", Bernoulli(), slice(0, 3)),
        ("numbers", Gaussian(), slice(3, 6)),
        ("count", Poisson(), [6]),
    ]
)


def problem(seed, n=600, K=4):
    """Return rows of which the flags tell components apart, and these."""
    rng = np.random.default_rng(seed)
    labels, centres = rng.integers(K, size=n), rng.normal(size=(K, 7))
    rates = 1 / (1 + np.exp(-2 * centres[labels, :3]))
    numbers = 2 * centres[labels, 3:6] + rng.normal(size=(n, 3))
    counts = rng.poisson(np.exp(1 + centres[labels, 6:]))
    return np.hstack([rng.random((n, 3)) < rates, numbers, counts]), labels


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_fits_end_where_the_truth_leads(monkeypatch):
    behind = []
    for seed in range(12):
        X, labels = problem(seed)
        mixture = StochasticEMMixture(4, emission=EMISSION, random_state=seed)
        best = mixture.set_params(init_params=lambda *_, z=labels: z).fit(X).score(X)
        found = mixture.set_params(init_params="kmeans").fit(X).score(X)
        with monkeypatch.context() as patch:  # the negative control: clusters alone
            patch.setattr(short_runs, "SHORT_RUNS", short_runs.ShortRuns(random=0))
            control = mixture.fit(X).score(X)
        behind.append(np.array([found, control]) < best - 0.01)
    own, control = np.sum(behind, axis=0)
    assert own < control, (own, control)


@pytest.mark.parametrize("n_components, n", [(1, 600), (3, 600), (3, 3000)])
def test_the_best_sound_run_is_returned(n_components, n):
    X, _ = problem(0, n)
    model = EmissionMixtureModel(EMISSION, n_components)
    weights = np.random.default_rng(0).uniform(size=len(X))
    run = short_runs.best_of_short_runs(model, X, np.random.RandomState(0), weights)
    assert run.is_sound
    before = run.params
    s, value = model.expected_statistics(X, before, weights)
    assert value - model.penalty(before) >= run.objective - 1e-12
    np.testing.assert_allclose(model.maximize(run.s, before).weights, before.weights)
    if n_components == 1:
        np.testing.assert_allclose(s[0], 1.0)


def run_from(model, X, R):
    """Return where a short run from responsibilities ends."""
    start = model.start_of(X, R)
    model.like = start.emission
    return short_runs.short_run(model, X, start, None, 15)


def test_a_component_on_copies_of_one_row_is_not_sound():
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[:2] = 7.0
    model = EmissionMixtureModel(Columns([("both", Gaussian(), [0, 1])]), 2)
    alone = np.eye(2)[(np.arange(200) < 2).astype(int)]
    spike = run_from(model, X, alone)
    half = np.eye(2)[(X[:, 0] > 0).astype(int)]
    plain = run_from(model, X, half)
    assert spike.objective > plain.objective  # so that the highest would be this one
    assert plain.is_sound and not spike.is_sound
