"""Rounds of a contrastive run: their lengths, and when a run has converged."""

import numpy as np
import pytest

from sktem.boltzmann.learning.rounds import Measure, Rounds, round_ends


def rounds(*values, error=0.0):
    measures = [Measure(100 * k, value, error) for k, value in enumerate(values)]
    return Rounds(base=-10.0, tol=0.02, n_visible=5, measures=measures)


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
    assert rounds(-9.9, -9.0, -8.99).has_settled
    assert not rounds(-9.9, -9.0, -8.9).has_settled
    assert not rounds(-9.0, -8.99).has_settled  # nothing to compare with
    # A loss is no convergence, nor is a return to where an earlier round has been.
    assert not rounds(-9.9, -8.9, -9.0).has_settled
    assert rounds(-9.9, -8.9, -9.0).is_worse
    assert not rounds(-9.9, -9.0, -9.0).is_worse
    assert rounds(-9.9, -8.9, -9.5, -8.7).rise == pytest.approx(0.2)
    assert not rounds(-10.0, -12.0, -12.0).has_settled
    assert rounds(-12.0).has_fallen(-12.0) and not rounds(-12.0).has_fallen(-10.0)
    for value in (np.nan, -np.inf):
        assert rounds(value).has_fallen(value) and rounds(-9.0, -8.0, value).is_worse
        assert not rounds(-9.0, -8.0, value).has_settled
    # Units that are independent: there is nothing to rise.
    assert rounds(-10.001, -10.0, -9.9995).has_settled


def test_changes_within_the_errors_are_none():
    """Two values, each with its error, differ by a standard error of both together."""
    assert rounds(-9.9, -9.0, -8.9, error=0.1).has_settled
    assert not rounds(-9.9, -9.0, -8.8, error=0.1).has_settled
    assert not rounds(-9.9, -9.0, -9.1, error=0.1).is_worse
    assert rounds(-9.9, -9.0, -9.2, error=0.1).is_worse
