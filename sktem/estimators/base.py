"""Common base of the estimators: parts from names, runs, callbacks, checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import ClassVar

from sktem.choices import check_choice, check_folder, check_number, is_auto
from sktem.e_step.batches import SAMPLING_SCHEMES
from sktem.e_step.expectation import check_memory_of_rows
from sktem.estimators.fit_warnings import warn_of_run, warn_user
from sktem.estimators.runs import (
    CallbackSupportMixin,
    EpochEstimator,
    FitProgress,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.stream import StreamDefaults, StreamSettings
from sktem.exceptions import FitWarning
from sktem.loop.iterates import check_average
from sktem.loop.loop import run
from sktem.loop.state import RunSettings
from sktem.loop.stream import Stream
from sktem.rows.held import carrier_of
from sktem.samplers import SAMPLERS, ExactExpectation, Sampler
from sktem.samplers.compatibility import (
    check_compatible,
    check_implied_sampler,
    missing_methods,
    resolve_part,
)
from sktem.schedules import check_schedule
from sktem.solvers import SOLVERS, Solver

__all__ = [
    "CallbackSupportMixin",
    "FitProgress",
    "LoopEstimator",
    "unchanged_by_errors",
    "undone_if_refused",
    "with_callbacks",
]


#: Rows of a batch, at most, where the estimator chooses.
LARGEST_BATCH = 1024

#: Settings of the loop that a face may leave out, with their values then.
WITHOUT = {
    "batch_size": 1,
    "sampling": "fixed",
    "average": False,
    "tol": 0.0,
    "n_iter_no_change": 1,
    "memory": None,
}


class LoopEstimator(EpochEstimator):
    """Base of the estimators that run the loop.

    Subclasses have the parameters ``solver, sampler, step_size, max_iter, verbose,
    verbose_interval``, and those of :data:`WITHOUT` that they offer to the user.
    """

    _moved_parameters: ClassVar[Mapping[str, str]] = {
        "n_draws": "sampler=ExactDraws(n_draws=...)",
        "rho": "solver=VRTTEM(rho=...) or solver=FITTEM(rho=...)",
    }
    #: Samplers by name.
    _samplers: ClassVar[Mapping[str, type]] = SAMPLERS

    def _option(self, name):
        """Return a parameter, or its value where the estimator does not offer it."""
        return getattr(self, name, WITHOUT[name])

    def _check_number(self, name, kind, low, *, strict=False):
        value = getattr(self, name) if hasattr(self, name) else self._option(name)
        check_number(name, value, kind, low, strict=strict)

    def _parts(self, model):
        """Return sampler, solver and schedule for the parameters of the estimator."""
        name = self._solver_name(model)
        solvers = {"auto": None, **SOLVERS}
        if isinstance(name, str) and name not in solvers:
            # The message lists those that work with the samplers of the estimator.
            samplers = {None, *self._samplers}
            solvers = {"auto": None} | {
                key: part for key, part in SOLVERS.items() if part[1] in samplers
            }
        entry = resolve_part(name, solvers, Solver, "solver")
        sampler, step_size = self.sampler, self.step_size
        implied_sampler, known = None, self._samplers
        if isinstance(entry, tuple):
            solver_class, implied_sampler, implied_step = entry
            solver = solver_class()
            if implied_step is not None and is_auto(step_size):
                step_size = implied_step
        else:
            solver = entry
        if is_auto(sampler):
            sampler = implied_sampler or self._best_sampler(model, name)
        if implied_sampler is not None:
            check_implied_sampler(
                type(self).__name__, self.solver, implied_sampler, sampler, known,
                SOLVERS,
            )  # fmt: skip
        sampler = self._with_settings(
            resolve_part(sampler, known, Sampler, "sampler"), model
        )
        if is_auto(step_size):
            step_size = solver.default_step_size(sampler)
        return sampler, solver, check_schedule(step_size)

    def _solver_name(self, model):
        """Return the solver, or the name of the one that "auto" chooses."""
        return self._best_solver(model) if is_auto(self.solver) else self.solver

    def _best_solver(self, model):
        """Return "em" if all expectations are exact, else "saem"."""
        sampler = self.sampler
        if is_auto(sampler):
            sampler = self._best_sampler(model, self.solver)
        exact = sampler == "exact" or isinstance(sampler, ExactExpectation)
        return "em" if exact else "saem"

    def _best_sampler(self, model, solver):
        """Return the name of the sampler with the least noise; "saem" takes draws."""
        draws = ("mc", "hmc", "rwm")
        for name in draws if solver == "saem" else ("exact", *draws):
            if name in self._samplers:
                if not missing_methods(model, self._samplers[name]()):
                    return name
        raise ValueError(
            f"{type(model).__name__} offers no way to its latents for "
            f'sampler="auto" with solver={solver!r}: give it posterior or '
            "draw_posterior, or initial_latents and log_joint for Markov samplers"
        )

    def _with_settings(self, sampler, model):
        """Return an instance with the estimator's settings for a class of samplers."""
        return sampler() if isinstance(sampler, type) else sampler

    def _settings(self, model, n_rows=None, *, batch_size=None):
        """Return checked settings of a run over rows, or with batches of a stream."""
        self._check_number("max_iter", Integral, 0)
        self._check_number("n_iter_no_change", Integral, 1)
        self._check_number("verbose_interval", Integral, 1)
        sampling = self._option("sampling")
        check_choice("sampling", sampling, SAMPLING_SCHEMES)
        sampler, solver, step_size = self._parts(model)
        check_compatible(model, sampler)
        average = self._option("average")
        if batch_size is None:
            batch_size = min(self._resolved_batch_size(n_rows), n_rows)
        return RunSettings(
            model=model,
            sampler=sampler,
            solver=solver,
            step_size=step_size,
            batch_size=batch_size,
            sampling=sampling,
            max_passes=self.max_iter,
            tol=self._tolerance(),
            patience=self._option("n_iter_no_change"),
            memory=check_folder("memory", self._option("memory")),
            average=False if is_auto(average) else check_average(average),
        )

    def _stream_settings(self, defaults: StreamDefaults) -> StreamSettings:
        """Return the settings of a call of ``partial_fit``."""
        return StreamSettings(
            type(self).__name__,
            getattr(self, "random_state", None),
            self._option("average"),
            isinstance(self.step_size, str),
            self._tolerance(),
            partial(self._merger, defaults),
        )

    def _merger(self, defaults, model) -> Stream:
        """Return the stream that merges chunks into the statistics of a model."""
        batch_size = self._given_batch_size(defaults.batch_size)
        settings = self._settings(model, batch_size=batch_size)
        step_size = settings.step_size
        if isinstance(self.step_size, str):
            step_size = defaults.step_size
        max_passes = max(min(settings.max_passes, defaults.passes), 2)
        return Stream(replace(settings, step_size=step_size, max_passes=max_passes))

    def _tolerance(self):
        self._check_number("tol", Real, 0)
        return float(self._option("tol"))

    def _resolved_batch_size(self, n_rows):
        return self._given_batch_size(max(1, min(LARGEST_BATCH, n_rows // 20)))

    def _batch_size_of(self, X):
        """Return the rows of a batch of X."""
        rows = carrier_of(X)
        n_rows = len(rows)
        automatic = max(1, min(rows.largest_batch, n_rows // 20))
        return min(self._given_batch_size(automatic), n_rows)

    def _given_batch_size(self, automatic):
        """Return ``batch_size``, checked, or the meaning of "auto"."""
        if is_auto(self._option("batch_size")):
            return automatic
        self._check_number("batch_size", Integral, 1)
        return int(self._option("batch_size"))

    def _warn_of_unused(self, settings) -> None:
        """Warn if a size of batches was set and the solver visits all rows."""
        parameter = inspect.signature(type(self)).parameters.get("batch_size")
        if parameter is None or settings.solver.n_index_sets:
            return
        value, default = self._option("batch_size"), parameter.default
        if not (
            value is default or (type(value) is type(default) and value == default)
        ):
            warn_user(
                f"solver={self.solver!r} does not use batch_size, which therefore has "
                "no effect. Leave it at its default, or choose another solver.",
                FitWarning,
            )

    def _fit(self, settings, X, sample_weight, new_run, **options):
        self._warn_of_unused(settings)
        check_memory_of_rows(X, settings.sampler, settings.solver)
        return super()._fit(settings, X, sample_weight, new_run, **options)

    def _run_epochs(self, settings, X, state, sample_weight, on_epoch):
        """Run Algorithm 1 from one start."""
        history = state.history
        history.solver = _name_of(self._solver_name(settings.model), {})
        history.sampler = _name_of(settings.sampler, self._samplers)
        if not carrier_of(X).can_take and not hasattr(self, "sampling"):
            settings = replace(settings, sampling="shuffle")
        run(settings, X, state, sample_weight=sample_weight, on_epoch=on_epoch)

    def _epoch_count(self, settings, sample_weight):
        # Batches of a random number of distinct rows may visit fewer rows than was
        # reckoned, so that more epochs than passes fit in.
        unsure = sample_weight is not None or settings.sampling == "inclusion"
        passes = int(settings.max_passes)
        return None if unsure or passes == 0 else passes

    def _warn(self, state, settings):
        """Warn once about all problems of a fit."""
        warn_of_run(state, settings)


def _name_of(part, known):
    """Return the name of a part, or of its class if that has none."""
    if isinstance(part, str):
        return part
    names = [name for name, kind in known.items() if kind is type(part)]
    return names[0] if names else type(part).__name__
