"""Subjects as compiled code takes them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sktem.compartments.models import LinearPlan
from sktem.compartments.schedules import no_steps
from sktem.kernels.blocks import iterate_blocks
from sktem.mixed_effects.structural import StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["CompiledSubjects"]

#: Subjects per block of the compiled sweeps.
SUBJECTS_PER_BLOCK = 512
#: Errors, sums and predictions where none is asked for.
ONE_ERROR, NO_SUMS = np.ones((1, 2)), np.empty((0, 0, 0))
NO_PREDICTIONS = np.empty((0, 0))


class CompiledSubjects(NamedTuple):
    """A model and the rows of subjects, for sweeps of compiled code.

    Attributes
    ----------
    model : SubjectModel
        Settings of the model.
    rows : SubjectRows
        The rows.
    has_density : bool
        Whether the compiled code knows the density of the observations too.
    n_jobs : int or None
        Threads.
    """

    model: Any
    rows: Any
    has_density: bool
    n_jobs: int | None

    @classmethod
    def of(cls, model, X, params) -> CompiledSubjects | None:
        """Return the subjects, None where compiled code does not know the model."""
        design, structure = model.design, model.structure
        codes = [TRANSFORMS[kind].code for kind in design.transforms]
        if None in codes:
            return None
        plan = None
        if X.events is not None:
            plan = X.events.plan(structure, design.names)
        if plan is None and not isinstance(structure, StructuralModel):
            return None
        from sktem.mixed_effects.kernels import subjects

        error = None if model.error is None else model.error.code
        a, b = np.r_[params.sigma, 0.0, 0.0][:2]  # outcomes have fewer, and no code
        settings = subjects.SubjectModel(
            subjects.COMPARTMENTS if plan else structure.code,
            -1 if error is None else error,
            np.array(codes, dtype=np.int64),
            design.random,
            float(a),
            float(b),
            model.least_prediction,
        )
        base = design.base(X.covariates, params.numeric)
        columns = X.inputs.T[:0] if plan else X.by_column
        lines = _lines(design, X.events.rows if plan else X, params.numeric)
        if plan and design.varies_by_row:
            plan = plan.anew()
        rows = subjects.SubjectRows(
            np.ascontiguousarray(columns), X.y, X.offsets, base, lines,
            plan.for_kernels() if plan else _no_plan(),
        )  # fmt: skip
        known = error is not None and X.censored is None
        return cls(settings, rows, known, model.n_jobs)

    def log_likelihoods(self, Z):
        """Return the log-likelihood of each subject, or of each chain of it."""
        values = self.log_likelihoods_of_errors(Z, [[self.model.a, self.model.b]])
        return values[..., 0]

    def log_likelihoods_of_errors(self, Z, errors):
        """Return log-likelihoods at several errors (a, b), along the last axis."""
        from sktem.mixed_effects.kernels.subjects import DENSITIES

        return self._evaluated(Z, DENSITIES, np.array(errors))

    def residual_sums(self, Z):
        """Return the sum of squared residuals of each subject or chain."""
        from sktem.mixed_effects.kernels.subjects import SQUARES

        return self._evaluated(Z, SQUARES)[..., 0]

    def predictions(self, Z):
        """Return the predictions of all rows, one line for each chain if there are."""
        from sktem.mixed_effects.kernels.subjects import PREDICTIONS

        return self._evaluated(Z, PREDICTIONS)

    def _evaluated(self, Z, what, errors=ONE_ERROR):
        """Return sums of subjects, or predictions, without an axis for one chain."""
        from sktem.mixed_effects.kernels import subjects

        chains = np.ascontiguousarray(Z if Z.ndim == 3 else Z[:, None])
        predicted, m = what == subjects.PREDICTIONS, chains.shape[1]
        sums = np.empty((*chains.shape[:2], 0 if predicted else len(errors)))
        f = np.empty((m, len(self.rows.y) if predicted else 0))
        self._in_blocks(
            lambda start, stop: subjects.sweep(
                self.model,
                self.rows,
                _no_moves(),
                what,
                errors,
                start,
                stop,
                chains,
                sums,
                f,
            ),
            len(chains),
        )
        if predicted:
            return f if Z.ndim == 3 else f[0]
        return sums if Z.ndim == 3 else sums[:, 0]

    def walk(self, Z, prior, moves, noise, log_uniforms):
        """Return chains after the moves, and how often each was accepted."""
        from sktem.mixed_effects.kernels import subjects

        means, root = prior
        proposals = subjects.WalkMoves(
            means,
            root,
            np.linalg.inv(root),
            moves.from_prior,
            moves.scales,
            moves.first,
            noise,
            log_uniforms,
            np.empty(0, dtype=np.int64),
        )
        Z = np.array(Z, order="C")
        counts = []

        def block(start, stop):
            accepted = np.zeros(len(moves.first), dtype=np.int64)
            counts.append(accepted)
            subjects.sweep(
                self.model, self.rows, proposals._replace(accepted=accepted),
                subjects.WALK, ONE_ERROR, start, stop, Z, NO_SUMS, NO_PREDICTIONS,
            )  # fmt: skip

        self._in_blocks(block, len(Z))
        return Z, np.sum(counts, axis=0)

    def _in_blocks(self, function, n):
        for _ in iterate_blocks(function, n, SUBJECTS_PER_BLOCK, self.n_jobs):
            pass


def _lines(design, rows, numeric):
    """Return which rows of subjects have the same parameters."""
    from sktem.mixed_effects.kernels.subjects import Lines

    n, none = len(rows.subject_of_row), np.empty(0, dtype=np.int64)
    if not design.varies_by_row:
        return Lines(
            np.arange(len(rows) + 1), rows.subject_of_row, rows.offsets,
            np.empty((0, len(design.names))), np.full(len(rows), -1), none,
        )  # fmt: skip
    without, effects = design._replace(occasions=None), np.empty((len(rows), 0))
    shifts = np.zeros((n, len(design.names)))
    for p, change in without.shifts(rows, effects, numeric).items():
        shifts[:, p] = change
    latents, parameters = np.full(n, -1), none
    if design.occasions is not None:
        parameters = np.array(design.occasions.parameters)
        latents = len(design.random) + len(parameters) * rows.occasions
        latents = np.where(rows.occasions < 0, -1, latents)
    begin = np.zeros(n, dtype=bool)
    begin[rows.offsets[:-1]] = True
    begin[1:] |= latents[1:] != latents[:-1]
    begin[1:] |= (shifts[1:] != shifts[:-1]).any(axis=1)
    begins = np.flatnonzero(begin)
    return Lines(
        np.searchsorted(begins, rows.offsets), np.cumsum(begin) - 1,
        np.append(begins, n), shifts[begins], latents[begins], parameters,
    )  # fmt: skip


@cache
def _no_moves():
    """Return empty moves, for evaluations."""
    from sktem.mixed_effects.kernels.subjects import WalkMoves

    none, numbers = np.empty(0, dtype=np.int64), np.empty((0, 0))
    draws = np.empty((0, 0, 0))
    return WalkMoves(
        numbers, numbers, numbers, np.empty(0, dtype=bool), numbers, none, draws, draws,
        none,
    )  # fmt: skip


@cache
def _no_plan():
    """Return an empty plan, for rows without records."""
    none, reals = np.empty(0, dtype=np.int64), np.empty(0)
    never = np.empty(0, dtype=bool)
    places = np.empty((4, 0), dtype=np.int64)
    steps = no_steps().without_steady_states()
    return LinearPlan(
        (0, 1, 0), none, steps, none, reals, never, None, never, places, 0
    )
