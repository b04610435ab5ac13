"""Subjects as compiled code takes them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sktem.kernels.blocks import iterate_blocks
from sktem.mixed_effects.structural import StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["CompiledSubjects"]

#: Subjects per block of the compiled sweeps.
SUBJECTS_PER_BLOCK = 512
#: Errors where none is asked for.
ONE_ERROR = np.ones((1, 2))


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
        if None in codes or design.varies_by_row:
            return None
        plan = None
        if X.events is not None:
            plan = X.events.plan(structure, design.names)
        if plan is None and not isinstance(structure, StructuralModel):
            return None
        from sktem.mixed_effects.kernels import subjects

        error = None if model.error is None else model.error.code
        settings = subjects.SubjectModel(
            subjects.COMPARTMENTS if plan else structure.code,
            -1 if error is None else error,
            plan.sizes if plan else (0, 1, 0),
            plan.order if plan else np.empty(0, dtype=np.int64),
            np.array(codes, dtype=np.int64),
            design.random,
            float(params.sigma[0]),
            float(params.sigma[1]),
            model.least_prediction,
        )
        base = design.base(X.covariates, params.numeric)
        columns = X.inputs.T[:0] if plan else X.by_column
        rows = subjects.SubjectRows(
            np.ascontiguousarray(columns),
            X.y,
            X.offsets,
            base,
            *(plan[2:] if plan else _no_records()),
        )
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
            lambda start, stop: subjects.evaluate(
                self.model, self.rows, chains, what, errors, start, stop, sums, f
            ),
            len(chains),
        )
        if predicted:
            return f if Z.ndim == 3 else f[0]
        return sums if Z.ndim == 3 else sums[:, 0]

    def predictions_of_all(self, phi):
        """Return predictions, all parameters being given on the Gaussian scale."""
        everything = np.arange(phi.shape[-1])
        return self._replace(
            model=self.model._replace(positions=everything)
        ).predictions(phi)

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
        )
        Z = np.array(Z, order="C")
        counts = []

        def block(start, stop):
            accepted = np.zeros(len(moves.first), dtype=np.int64)
            counts.append(accepted)
            subjects.walk(
                self.model, self.rows, proposals, noise, log_uniforms, start, stop, Z,
                accepted,
            )  # fmt: skip

        self._in_blocks(block, len(Z))
        return Z, np.sum(counts, axis=0)

    def _in_blocks(self, function, n):
        for _ in iterate_blocks(function, n, SUBJECTS_PER_BLOCK, self.n_jobs):
            pass


@cache
def _no_records():
    """Return what rows without records have in their place."""
    from sktem.compartments.kernels.schedule import Steps

    none, reals = np.empty(0, dtype=np.int64), np.empty(0)
    steps = Steps(
        elapsed=reals,
        time=reals,
        action=none,
        record=none,
        compartment=none,
        value=reals,
        duration=reals,
        interval=reals,
        phase=reals,
        replaces=np.empty(0, dtype=bool),
        offsets=none,
    )
    return steps, none, reals, np.empty(0, dtype=bool)
