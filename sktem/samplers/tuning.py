"""Lengths of Markov moves that are learned during a run, by steps that vanish."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.e_step.chains import ChainState

__all__ = ["TUNING", "Tuning", "TuningRule", "check_length", "tuned"]


class TuningRule(NamedTuple):
    """Settings of the adaptation of the length of moves.

    Attributes
    ----------
    warm_up : int
        Draws of new chains at the starting parameters, before the first M-step: the
        length is found, and the chains forget where they began.
    longest_warm_up : int
        Such draws at most, where the length has to grow or fall by orders of magnitude.
    memory : float
        Rows whose latents count as much as all rows before them.
    rounding : float
        Spread of latents below which it is zero, as a share of their mean.
    exponent : float
        Exponent of the steps by which the logarithm of a length changes.
    """

    warm_up: int = 10
    longest_warm_up: int = 60
    memory: float = 5000.0
    rounding: float = 1e-12
    exponent: float = 0.6


TUNING = TuningRule()


class Tuning(NamedTuple):
    """Learned length of the moves of a run.

    Attributes
    ----------
    length : float
        Length of a move, on the scale of the latents; 0 before the first draw.
    turns : int
        How often the acceptance rate has crossed its target.
    sign : float
        On which side it was at the last draw.
    mass : float
        Rows behind the moments.
    mean, variance : ndarray
        Moments of the latents over rows and time, by coordinate.
    """

    length: float = 0.0
    turns: int = 0
    sign: float = 0.0
    mass: float = 0.0
    mean: np.ndarray = np.zeros(())
    variance: np.ndarray = np.zeros(())

    def seen(self, Z: np.ndarray) -> Tuning:
        """Return the tuning after a look at chain states."""
        rows = np.asarray(Z, dtype=float).reshape(-1, *Z.shape[2:])
        if len(rows) == 0:
            return self
        mass = min(self.mass, TUNING.memory) + len(rows)
        share = len(rows) / mass
        here = rows.mean(axis=0)
        mean = self.mean + share * (here - self.mean)
        spread = rows.var(axis=0) + (here - self.mean) * (here - mean)
        variance = self.variance + share * (spread - self.variance)
        # Chains that start at one point have a spread by rounding.
        variance = np.where(variance > (TUNING.rounding * mean) ** 2, variance, 0.0)
        tuning = self._replace(mass=mass, mean=mean, variance=variance)
        if tuning.length:
            return tuning
        return tuning._replace(length=_typical(np.sqrt(variance)) or 1.0)

    @property
    def has_settled(self) -> bool:
        """Whether the rate has crossed its target, or is not known."""
        return self.turns > 0 or self.sign == 0

    @property
    def units(self) -> np.ndarray:
        """Relative spread of the coordinates, with a geometric mean of one."""
        spread = np.sqrt(self.variance)
        typical = _typical(spread)
        if not typical:
            return np.ones(spread.shape)
        return np.where(spread > 0, spread, typical) / typical

    def learned(self, rate: float, target: float) -> Tuning:
        """Return the tuning after a draw.

        The logarithm of the length changes by one at most, and by less and less once
        the rate has crossed its target: the gain falls with the number of crossings
        (Kesten 1958), so that a start that is off by orders of magnitude costs a few
        draws, and the chains still converge.
        """
        if not np.isfinite(rate):
            return self
        excess = np.clip((rate - target) / min(target, 1 - target), -1.0, 1.0)
        sign = float(np.sign(excess))
        turns = self.turns + (sign * self.sign < 0)
        gain = (1.0 + turns) ** -TUNING.exponent
        length = float(np.clip(self.length * np.exp(gain * excess), 1e-150, 1e150))
        return self._replace(length=length, turns=turns, sign=sign)


def _typical(spread):
    """Return the geometric mean of the positive values, 0 if there is none."""
    positive = spread[spread > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else 0.0


def check_length(name: str, value) -> np.ndarray:
    """Return a length of moves as an array, or raise if it is not positive."""
    lengths = np.asarray(value)
    if (
        lengths.dtype.kind not in "iuf"
        or not (np.isfinite(lengths) & (lengths > 0)).all()
    ):
        raise ValueError(f'{name} must be positive or "auto", got {value!r}')
    return lengths.astype(float)


def tuned(target: float, chains: ChainState, drawn):
    """Draw with the learned length of moves, and learn of it.

    Parameters
    ----------
    target : float
        Acceptance rate aimed at.
    chains : ChainState
        Chain states, which share the tuning.
    drawn : callable
        ``drawn(length, units)`` draws with moves of this length; it returns chain
        states, a :class:`sktem.samplers.SamplerInfo` and the rate that counts.

    Returns
    -------
    chains : ChainState
        New chain states.
    info : SamplerInfo
        Report of the draw.
    """
    tuning = chains.learned(Tuning).seen(chains.position)
    chains, info, rate = drawn(tuning.length, tuning.units)
    return chains._replace(shared=tuning.learned(rate, target)), info
