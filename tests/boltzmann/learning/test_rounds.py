"""Rounds of a contrastive run: their lengths, and when a run has converged."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.rounds import (
    Measure,
    Reference,
    RoundPolicy,
    Rounds,
    round_ends,
)
from sktem.boltzmann.learning.state import ContrastiveState
from sktem.boltzmann.machines.layered_machine import LayeredMachine
from sktem.boltzmann.settings import MachineSettings
from sktem.e_step.random import spawn_generators

REFERENCE = Reference(-10.0, tol=0.02, n_visible=5)


def rounds(*values, error=0.0):
    measures = [Measure(100 * k, value, error) for k, value in enumerate(values)]
    return Rounds(reference=REFERENCE, measures=measures)


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


@pytest.mark.parametrize("n_epochs", [200, 400, 700, 1100, 1600, 2600])
@pytest.mark.parametrize("gain, settles", [(0.8, True), (1.25, False)])
def test_convergence_does_not_depend_on_what_the_last_round_takes(
    n_epochs, gain, settles
):
    """Of log-likelihoods that rise with the logarithm of the number of updates."""
    ends = 10 * np.array(round_ends(n_epochs, 10, adaptive=True))
    usual = 4 * ends[-2] - 3 * (ends[-3] if len(ends) > 2 else 0)
    assert ends[-1] >= usual
    # A round of the usual length would add this many times what is worth another one.
    slope = gain * 0.02 / np.log(usual / ends[-2])
    values = -9.0 + slope * np.log(ends / ends[-1])
    found = rounds(-10.0, *values)
    found.measures = [
        measure._replace(n_updates=n)
        for measure, n in zip(found.measures, [0, *ends], strict=True)
    ]
    assert found.has_settled == settles


def test_changes_within_the_errors_are_none():
    """Two values, each with its error, differ by a standard error of both together."""
    assert rounds(-9.9, -9.0, -8.9, error=0.1).has_settled
    assert not rounds(-9.9, -9.0, -8.8, error=0.1).has_settled
    assert not rounds(-9.9, -9.0, -9.1, error=0.1).is_worse
    assert rounds(-9.9, -9.0, -9.2, error=0.1).is_worse


def test_a_loss_on_rows_that_are_learned_from_is_no_convergence():
    """Rows that are left out fall where noise is fitted, others where steps fail."""

    def seen(*learned):
        found = rounds(-9.9, -8.0, -8.5)
        found.reference = REFERENCE._replace(n_left_out=50)
        found.measures = [
            measure._replace(learned=value)
            for measure, value in zip(found.measures, learned, strict=True)
        ]
        return found

    assert seen(np.nan, -7.9, -7.5).has_settled
    assert not seen(np.nan, -7.9, -8.6).has_settled


class Watch:
    """What a round asks of a measure."""

    ascent = None


@pytest.mark.parametrize("growth_of_cost, n_updates", [(2.5, 9), (2.5, 40), (5.0, 4)])
def test_rounds_with_replicas_cost_as_much_as_without(growth_of_cost, n_updates):
    """At two of five transitions: half as much for each temperature, 3,000 at least."""
    defaults = MachineSettings.of(LatentBoltzmannMachine().get_params())
    model = LayeredMachine((30, 100))
    settings = defaults.of_run(model, False, 100 * n_updates)
    assert settings.by_cost
    plan = Rounds()
    plan.begin(settings, n_updates, False, None)
    in_all = n_updates * settings.n_epochs
    assert plan.n_epochs == settings.n_epochs  # no replicas yet
    end = plan.ends[1]
    plan.measures = [Measure(0, -9.0, 0.0), Measure(end * n_updates, -8.0, 0.0)]
    plan.update_budget -= end * n_updates
    plan.n_replicas = int(2 * growth_of_cost)
    length = plan.ends[1] - plan.ends[0]
    plan._plan_rest(end, plan._affordable(settings, end, n_updates), 3 * length)
    rest = n_updates * (plan.n_epochs - end)
    spent = n_updates * (end + growth_of_cost * (plan.n_epochs - end))
    assert abs(spent - in_all) <= growth_of_cost * n_updates or (
        abs(end * n_updates + rest - RoundPolicy().fewest) <= n_updates
    )
    lengths = np.diff([end, *plan.ends[2:]])
    assert len(lengths) > 1 or lengths[0] < 6 * length
    assert (lengths[1:] >= lengths[:-1]).all()
    # Temperatures that are given cost as much from the beginning on.
    given = replace(defaults, n_replicas=8).of_run(model, False, 900)
    plan = Rounds()
    plan.begin(given, 9, False, None)
    assert 9 * plan.n_epochs == pytest.approx(RoundPolicy().fewest, abs=9)
    assert len(plan.ends) == 3
    # Epochs that were asked for are all taken.
    asked = replace(defaults, max_iter=500).of_run(model, False, 900)
    assert not asked.by_cost


def test_chains_that_move_between_modes_in_a_round_have_no_replicas():
    """Two modes and a known share of chains that change them at a transition."""
    model, n = LayeredMachine((6, 1)), 400
    settings = MachineSettings.of(LatentBoltzmannMachine().get_params())
    settings = settings.of_run(model, False, 1000)

    def replicas_after(n_updates, weight):
        # All units are mostly on, or mostly off, both half of the time.
        params = np.full(model.n_parameters, weight, np.float32)
        params[:6], params[6] = -weight / 2, -3.0 * weight
        rng = np.random.default_rng(0)
        state = ContrastiveState(params, spawn_generators(0), epoch=1)
        state.chains = (rng.random((n, 1)) < 0.5).astype(np.float32)
        found = Rounds(seed=0, ends=[1, 2], update_budget=1e4)
        found.measures = [Measure(0, -9.0, 0.0), Measure(n_updates, -8.0, 0.0)]
        found._look_at_chains(settings, state, Watch())
        return found.n_replicas

    def changing(weight):
        # Visible units are drawn given the hidden one, and that from their number.
        p = 1 / (1 + np.exp(-weight / 2))
        on = np.array([comb(6, k) * p**k * (1 - p) ** (6 - k) for k in range(7)])
        return float(on @ (1 / (1 + np.exp(weight * (np.arange(7) - 3.0)))))

    slow = 5.5
    assert 0.4 < (1 - 2 * changing(slow)) ** 200
    assert (1 - 2 * changing(slow)) ** 1000 < 0.05
    assert replicas_after(2000, slow) == 1
    # In a round of a tenth of that length they do not.
    assert replicas_after(200, slow) == 5
    assert replicas_after(2000, 12.0) == 5
