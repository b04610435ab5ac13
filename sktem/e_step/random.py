"""Random generators, one for each purpose.

A fit uses several independent generators spawned from one seed, so that for example
the rows that are visited do not change when the sampler draws more numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from sklearn.utils import check_random_state

from sktem.e_step.row_random import BATCH, MONITOR, START, RowGenerator

__all__ = [
    "Generators",
    "drawing_generator",
    "seed_sequence",
    "spawn_generators",
]


@dataclass
class Generators:
    """Independent generators of one fit.

    Attributes
    ----------
    initialisation : numpy.random.Generator
        Starting parameters and latents.
    indices : numpy.random.Generator
        Which rows are visited.
    sampling : numpy.random.Generator
        Draws of the latents (proposals, for a Markov kernel).
    acceptance : numpy.random.Generator
        The uniforms of accept steps.
    termination : numpy.random.Generator
        The random choice of the returned iterate.
    monitoring : numpy.random.Generator
        The rows on which progress is measured.
    row_seed : int
        Seed of the draws that belong to rows.
    """

    initialisation: np.random.Generator
    indices: np.random.Generator
    sampling: np.random.Generator
    acceptance: np.random.Generator
    termination: np.random.Generator
    monitoring: np.random.Generator
    row_seed: int = 0

    def of_rows(self, purpose: int, iteration: int, rows: np.ndarray) -> Generators:
        """Return generators for draws of the latents of some rows.

        Parameters
        ----------
        purpose : int
            One of those of :mod:`sktem.e_step.row_random`.
        iteration : int
            Iteration index.
        rows : ndarray of int64
            Row indices.

        Returns
        -------
        Generators
            ``initialisation`` is of the rows where chains start, else ``sampling`` and
            ``acceptance`` are.
        """
        monitored = MONITOR <= purpose < BATCH
        seed = np.uint64(self.row_seed)

        def of(k, generator):
            bits = (self.monitoring if monitored else generator).bit_generator
            return RowGenerator(bits, (seed, iteration, purpose + (k << 32)), rows)

        if purpose == START:
            return replace(self, initialisation=of(0, self.initialisation))
        return replace(
            self, sampling=of(0, self.sampling), acceptance=of(1, self.acceptance)
        )

    def repeated(self, count: int) -> Generators:
        """Return generators of rows of which there are several copies."""

        def of(rng):
            return rng.repeated(count) if isinstance(rng, RowGenerator) else rng

        return replace(self, sampling=of(self.sampling), acceptance=of(self.acceptance))


class Seed(np.random.SeedSequence):
    """A seed sequence that skops can save too: NumPy's keeps its state from Python."""

    def __reduce__(self):
        return _restored_seed, (self.state,)

    def __getstate__(self):
        return self.state

    def __setstate__(self, state):
        np.random.SeedSequence.__init__(self, **state)


def _restored_seed(state):
    return Seed(**state)


def seed_sequence(random_state) -> np.random.SeedSequence:
    """Turn a ``random_state`` as in scikit-learn into a seed sequence.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        As in scikit-learn, and a ``Generator`` as well. A generator or a
        ``RandomState`` advances; None means NumPy's global random state.

    Returns
    -------
    numpy.random.SeedSequence
        The root from which the generators are spawned.
    """
    if isinstance(random_state, np.random.Generator):
        return Seed(random_state.integers(2**32, size=4, dtype=np.uint32).tolist())
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return Seed(int(random_state))
    legacy = check_random_state(random_state)
    return Seed(legacy.randint(0, 2**32, size=4, dtype=np.uint32).tolist())


def spawn_generators(random_state) -> Generators:
    """Spawn the generators of one fit.

    Parameters
    ----------
    random_state : None, int, RandomState, Generator or SeedSequence
        The seed.

    Returns
    -------
    Generators
        One independent generator for each purpose.
    """
    if not isinstance(random_state, np.random.SeedSequence):
        random_state = seed_sequence(random_state)
    names = [field.name for field in fields(Generators) if field.name != "row_seed"]
    children = dict(zip(names, random_state.spawn(len(names)), strict=True))
    (of_rows,) = children["sampling"].spawn(1)
    return Generators(
        **{name: np.random.default_rng(child) for name, child in children.items()},
        row_seed=int(of_rows.generate_state(1, np.uint64)[0]),
    )


def drawing_generator(random_state) -> np.random.Generator:
    """Return a generator for the draws of a fitted estimator.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        As for :func:`seed_sequence`: an integer gives the same draws at each call.

    Returns
    -------
    numpy.random.Generator
        A new generator.
    """
    return np.random.default_rng(seed_sequence(random_state))
