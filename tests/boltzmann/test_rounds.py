"""Rounds of a contrastive run: their lengths, and when a run has converged."""

import numpy as np
import pytest

from sktem.boltzmann.rounds import (
    Measure,
    has_converged,
    has_fallen,
    is_worse,
    rise,
    round_ends,
)


def measures(*values):
    return [Measure(100 * k, value, 0.0) for k, value in enumerate(values)]


@pytest.mark.parametrize("n_epochs", [1, 2, 3, 7, 100, 1600, 16000])
@pytest.mark.parametrize("n_updates", [1, 10, 600, 10_000])
@pytest.mark.parametrize("ascends, growth", [(True, 2), (False, 3)])
def test_rounds_grow_and_fill_the_run(n_epochs, n_updates, ascends, growth):
    ends = round_ends(n_epochs, n_updates, adaptive=True, ascends=ascends)
    lengths = np.diff([0, *ends])
    assert ends[-1] == n_epochs and (lengths > 0).all()
    # The last one takes what is left over.
    assert (lengths[1:-1] == growth * lengths[:-2]).all()
    if len(lengths) > 1:
        most = growth * (growth + 1)
        assert growth * lengths[-2] <= lengths[-1] < most * lengths[-2]
    assert round_ends(n_epochs, n_updates, adaptive=False) == [n_epochs]


def test_convergence_is_about_what_the_last_round_added():
    base, tol, n_visible = -10.0, 0.02, 5
    rest = (base, tol, n_visible)
    assert has_converged(measures(-9.9, -9.0, -8.99), *rest)
    assert not has_converged(measures(-9.9, -9.0, -8.9), *rest)
    assert not has_converged(measures(-9.0, -8.99), *rest)  # nothing to compare with
    # A loss is no convergence, nor is a return to where an earlier round has been.
    assert not has_converged(measures(-9.9, -8.9, -9.0), *rest)
    assert is_worse(measures(-9.9, -8.9, -9.0), *rest)
    assert not is_worse(measures(-9.9, -9.0, -9.0), *rest)
    assert rise(measures(-9.9, -8.9, -9.5, -8.7)) == pytest.approx(0.2)
    assert not has_converged(measures(-10.0, -12.0, -12.0), *rest)
    assert has_fallen(-12.0, *rest) and not has_fallen(-10.0, *rest)
    for value in (np.nan, -np.inf):
        assert has_fallen(value, *rest) and is_worse(measures(-9.0, -8.0, value), *rest)
        assert not has_converged(measures(-9.0, -8.0, value), *rest)
    # Units that are independent: there is nothing to rise.
    assert has_converged(measures(-10.001, -10.0, -9.9995), *rest)
