"""Averages of the parameters of Boltzmann machines over the updates."""

import numpy as np
import pytest
from scipy.special import poch

from sktem import ContrastiveSolver, LatentBoltzmannMachine


def rows(n, seed, d=10):
    """Return rows of a mixture of products, some of whose columns go together."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(0).choice([0.1, 0.9], (4, d))
    return (rng.random((n, d)) < means[rng.integers(4, size=n)]).astype(np.float64)


def machine(averaging=False, **options):
    solver = ContrastiveSolver("pcd", averaging=averaging)
    values = dict(
        hidden_layer_sizes=6, solver=solver, step_size_m=0.3, batch_size=20, tol=None,
        n_chains=20, random_state=0,
    )  # fmt: skip
    return LatentBoltzmannMachine(**{**values, **options})


def test_weights_of_the_average():
    """Update n has the weight n (n + 1) ... (n + 7)."""
    X = rows(20, 1)  # one update an epoch
    plain = machine(max_iter=1, warm_start=True)
    seen = np.array([plain.fit(X).params_.copy() for _ in range(30)], np.float64)
    for n in (1, 7, 30):
        weights = poch(np.arange(1.0, n + 1), 8)
        expected = weights @ seen[:n] / weights.sum()
        found = machine(max_iter=n, averaging=True).fit(X).params_
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_average_of_a_stream():
    X = rows(60, 1)
    plain, averaged = machine(), machine(averaging=True)
    seen = []
    for begin in range(0, 60, 20):
        seen.append(plain.partial_fit(X[begin : begin + 20]).params_.copy())
        averaged.partial_fit(X[begin : begin + 20])
    weights = poch(np.arange(1.0, 4.0), 8)
    expected = weights @ np.array(seen, np.float64) / weights.sum()
    np.testing.assert_allclose(averaged.params_, expected, atol=1e-5)
    # Without it, what follows is of the parameters themselves.
    plain.partial_fit(X[:20])
    averaged.set_params(solver__averaging=False).partial_fit(X[:20])
    np.testing.assert_array_equal(averaged.params_, plain.params_)


def test_adapted_steps_of_a_stream_are_averaged():
    """Nothing chosen: chains and long steps are noise, which the average is without."""
    new = rows(2000, 3, 18)
    machine = LatentBoltzmannMachine(hidden_layer_sizes=17, random_state=0)
    machine.partial_fit(rows(10_000, 2, 18))
    averaged = machine.score(new)
    machine.params_ = machine._stream.state.params
    assert averaged > machine.score(new) + 0.2
    whole = LatentBoltzmannMachine(hidden_layer_sizes=17, random_state=0)
    assert averaged > whole.fit(rows(2000, 4, 18)).score(new) - 0.3


def test_few_states_are_summed_at_the_updates_of_a_stream():
    X = rows(1000, 2)

    def params(n_hidden, n_chains):
        machine = LatentBoltzmannMachine(
            hidden_layer_sizes=n_hidden, n_chains=n_chains, random_state=0
        )
        return machine.partial_fit(X).params_

    np.testing.assert_array_equal(params(6, 2), params(6, 100))
    # The sums of more states are dear, so that chains count.
    X = rows(1000, 2, 17)
    assert (params(17, 2) != params(17, 100)).any()


def test_long_steps_lose_less_where_parameters_are_averaged():
    """Exact likelihoods of new rows, in standard errors over seeds."""
    train, test = rows(1000, 2), rows(2000, 3)

    def gain(step, seed):
        options = {"step_size_m": step, "max_iter": 15, "random_state": seed}
        options.update(batch_size=50, n_chains=10)
        averaged = machine(averaging=True, **options).fit(train)
        return averaged.score(test) - machine(**options).fit(train).score(test)

    gains = [gain(1.0, seed) for seed in range(10)]
    error = np.std(gains, ddof=1) / np.sqrt(10)
    assert np.mean(gains) > max(3 * error, 0.05)
    # Short steps have no noise that an average could take away, and it lags behind.
    assert gain(0.0005, 0) < 0


def test_adapted_steps_are_refused():
    with pytest.raises(ValueError, match="averaging=True needs a given step_size_m"):
        machine(step_size_m="auto", averaging=True).fit(rows(20, 0))
    with pytest.raises(ValueError, match="averaging must be a bool"):
        machine(averaging=3).fit(rows(20, 0))
