"""Common base of Markov samplers: chains, steps and their bookkeeping."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from numbers import Integral
from typing import ClassVar

import numpy as np

from sktem.choices import check_number, is_auto
from sktem.e_step.chains import ChainState
from sktem.models.contract import check_each_row
from sktem.rows.base import can_repeat
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.tuning import TUNING, Tuning

__all__ = ["MarkovSampler", "check_counts", "first_positions"]


def check_counts(sampler, names=("n_steps", "n_chains")) -> None:
    """Check numbers such as those of transitions and of chains."""
    for name in names:
        check_number(name, getattr(sampler, name), Integral, 1)


def first_positions(sampler, model, X, params, rng):
    """Return the model's initial latents, once per chain, which moves can change."""
    Z = np.stack(
        [model.initial_latents(X, params, rng) for _ in range(sampler.n_chains)],
        axis=1,
    )
    if sampler.moves_reals and Z.dtype.kind in "biu":
        raise TypeError(
            f"initial_latents of {type(model).__name__} returns latents of type "
            f"{Z.dtype}, and the moves of {type(sampler).__name__} are real numbers: "
            "return floats, or, for latents that are labels or counts, give the "
            "model draw_posterior or take a sampler of your own"
        )
    return Z


class MarkovSampler(Sampler):
    """Base of samplers that move one chain (or several) per row.

    Subclasses define ``_transition``, one step of all rows at once.

    Parameters
    ----------
    n_steps : int, default=1
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per row; the statistics are averaged over them.
    """

    requires: tuple[str, ...] = ("initial_latents",)
    markov = True
    accepts = True
    #: Whether moves are real numbers, which latents have to be then.
    moves_reals: ClassVar[bool] = False
    #: Name of the parameter that "auto" leaves to the run, if there is one.
    learned: ClassVar[str] = ""

    def __init__(self, n_steps=1, n_chains=1):
        self.n_steps = n_steps
        self.n_chains = n_chains

    def start(self, model, X, params, rng):
        """Return the model's initial latents, once per chain."""
        check_counts(
            self, ["n_chains"] if is_auto(self.n_steps) else ["n_steps", "n_chains"]
        )
        return first_positions(self, model, X, params, rng)

    @property
    def is_learned(self) -> bool:
        """Whether the length of moves is learned during the run."""
        return bool(self.learned) and is_auto(getattr(self, self.learned))

    @property
    def warm_up(self):
        """Draws with which new chains begin: some where a length is learned."""
        return TUNING.warm_up if self.is_learned else 0

    def is_warm(self, chains, n_draws):
        """Return whether draws were enough, and a learned length is found."""
        if n_draws < self.warm_up:
            return False
        shared = ChainState.of(chains).shared
        settled = not isinstance(shared, Tuning) or shared.has_settled
        return not self.warm_up or settled or n_draws >= TUNING.longest_warm_up

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions."""
        move = self._move(model, X, params, iteration)
        chains = ChainState.of(chains)
        chains, info = self._moved(model, X, chains, params, generators, move)
        return chains.plain, info

    def _moved(
        self, model, X, chains, params, generators, move, n_steps="auto", short=False
    ):
        """Move every chain; ``n_steps`` counts where the sampler leaves it open.

        With ``short`` a shorter move is done at the end, and not counted: it frees
        chains that stand where a density falls so steeply that moves of the usual
        length are rejected. Where moves are learned, chains that have moved before say
        how often moves are accepted: rows whose latents are known never move, and
        say nothing.
        """
        n, m = chains.position.shape[:2]
        if m > 1 and not isinstance(X, np.ndarray) and can_repeat(X):
            # All chains at once, as those of repeated rows.
            many = chains.reshaped(n * m, 1)
            many, info = self._moved(
                model,
                X.repeat(m),
                many,
                params,
                generators.repeated(m),
                move,
                n_steps,
                short,
            )
            return many.reshaped(n, m), info
        Z_new = np.empty_like(chains.position)
        tunings: list[Mapping[str, np.ndarray]] = []
        counts = np.zeros(Z_new.shape[:2])
        moved = chains.tuning.get("moved", np.zeros(counts.shape, dtype=bool))
        counted = moved if moved.any() else np.ones_like(moved)
        moves_now = np.zeros_like(moved)
        biases: list[float] = []
        events: Counter = Counter()
        if not is_auto(self.n_steps):
            n_steps = self.n_steps
        count = 1 if is_auto(n_steps) else n_steps
        for m in range(Z_new.shape[1]):
            state = self._begin(model, X, chains.chain(m), params)
            for k in range(count + short):
                transition = move if k < count else self._shortened(move, n, generators)
                state, accepted, repaired = self._transition(
                    model, X, state, params, generators, transition
                )
                counts[:, m] += accepted & (k < count)
                moves_now[:, m] |= accepted
                events.update(repaired)
            Z_new[:, m] = state[0]
            tunings.append(self._tuning(state))
            biases.append(self._bias(model, X, params, state, move))
        tuning = {
            name: np.stack([transition[name] for transition in tunings], axis=1)
            for name in tunings[0]
        }
        if self.accepts and self.warm_up:
            tuning["moved"] = moved | moves_now
        rate = counts[counted].mean() / count if counted.any() else np.nan
        info = SamplerInfo(float(rate), events, float(np.mean(biases)))
        return chains._replace(position=Z_new, tuning=tuning), info

    @staticmethod
    def _log_joint(model, X, Z, params):
        """Return the log-density at the start of a draw, of a shape that is checked."""
        values = model.log_joint(X, Z, params)
        check_each_row(model, "log_joint", values, len(Z))
        return values

    @staticmethod
    def _gradient(model, X, Z, params):
        """Return the gradient at the start of a draw, of a shape that is checked."""
        values = model.grad_log_joint(X, Z, params)
        check_each_row(model, "grad_log_joint", values, len(Z), like=Z)
        return values

    def _move(self, model, X, params, iteration):
        """Return the settings shared by the transitions of a draw, such as a step."""
        return None

    def _shortened(self, move, n, generators):
        """Return a shorter move, where there are some; its length is a random one."""
        return move

    def _begin(self, model, X, chain, params):
        """Return the state in which the transitions of one chain per row begin."""
        return self._start_chain(model, X, chain.position, params)

    def _tuning(self, state):
        """Return the tuning of each row's chain, by name."""
        return {}

    def _bias(self, model, X, params, state, move):
        """Return how far the last transition is from an exact one, NaN if it is one."""
        return float("nan")

    def _start_chain(self, model, X, Z, params):
        """Return the position and values cached at these parameters, as a tuple."""
        return (
            Z,
            self._log_joint(model, X, Z, params),
            self._gradient(model, X, Z, params),
        )

    @abstractmethod
    def _transition(self, model, X, state, params, generators, move):
        """Return (new state, accepted, events) for a move of the draw."""
