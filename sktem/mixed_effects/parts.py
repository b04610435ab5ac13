"""From the settings of the mixed-effects estimator to the parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar

from sktem.choices import check_choice
from sktem.estimators.base import LoopEstimator
from sktem.mixed_effects.m_step import Annealing
from sktem.mixed_effects.model import NonlinearMixedEffectsModel
from sktem.mixed_effects.residual_errors import RESIDUAL_ERRORS, least_prediction
from sktem.mixed_effects.start import start_from_data, starting_params
from sktem.samplers import MALA, ULA, ComponentWalk, Sampler
from sktem.schedules import Constant

__all__ = [
    "ENOUGH_CHAINS",
    "LEAST_CHAINS",
    "MOST_CHAIN_ROWS",
    "MixedEffectsParts",
]

#: Samplers by name, for latents whose prior is Gaussian.
SAMPLERS = {"rwm": ComponentWalk, "mala": MALA, "ula": ULA}
#: What the named ones are made with.
OPTIONS: dict[type, dict] = {
    ComponentWalk: {},
    MALA: {"step": 0.03, "n_steps": 5, "preconditioner": "prior", "adapt": 0.6},
    ULA: {"step": 0.005, "n_steps": 10, "preconditioner": "prior"},
}
#: Chains of all subjects together, at least.
LEAST_CHAINS = 240
#: Chains of a subject that are enough where subjects have many rows, and rows times
#: chains for which there are more.
ENOUGH_CHAINS, MOST_CHAIN_ROWS = 4, 100_000
#: Exponent of the steps after the burn-in.
DECAY = 0.7


class DecayAfterBurnIn(Constant):
    """Step 1 while the burn-in lasts, then a decay."""

    def in_phase(self, phase):
        """Return the schedule of the burn-in, or of what comes after it."""
        end = phase.burn_in_end
        if end is None:
            return self
        return lambda k: float(max(k - end, 1) ** -DECAY)


class MixedEffectsParts(LoopEstimator):
    """Checks settings and makes sampler, solver, schedule and model of them."""

    _samplers: ClassVar[Mapping[str, type]] = SAMPLERS

    def _best_sampler(self, model):
        return "rwm"

    def _with_settings(self, sampler, model):
        if isinstance(sampler, type):
            chains = 1 if self.n_chains == "auto" else self.n_chains
            return sampler(**OPTIONS[sampler], n_chains=chains)
        if self.n_chains != "auto":
            raise ValueError(
                "n_chains is a parameter of the sampler: set it there, not on the "
                "estimator, when sampler is an instance"
            )
        return sampler

    def _check(self):
        if self.log_density is None:
            check_choice("residual_error", self.residual_error, RESIDUAL_ERRORS)
            if self.model is None:
                raise ValueError("model=None needs log_density")
        elif not callable(self.log_density):
            raise TypeError(f"log_density must be callable, got {self.log_density!r}")
        self._check_number("n_burn_in", Integral, 0)
        self._check_number("tol", Real, 0)
        if self.n_chains != "auto":
            self._check_number("n_chains", Integral, 1)

    def _model_of(self, structure, layout, rows):
        self._check_number("max_iter", Integral, 1)
        start = starting_params(self, layout, rows, structure)
        if len(layout.design.random) + len(layout.design.numeric) == 0:
            raise ValueError("all parameters are fixed: there is nothing to estimate")
        error = None
        if self.log_density is None:
            error = RESIDUAL_ERRORS[self.residual_error]
        full = self.solver in ("saem", "biased-saem")
        batch = min(self._resolved_batch_size(len(rows)), len(rows))
        per_step = 1.0 if full else batch / len(rows)
        model = NonlinearMixedEffectsModel(
            structure,
            layout.design,
            start,
            error,
            log_density=self.log_density,
            gradient=self.gradient,
            annealing=Annealing(
                0.6 * self.n_burn_in if self.annealing else 0.0, per_step=per_step
            ),
            residual_floor=1e-12 if error is None else error.floor(rows.y),
            least_prediction=least_prediction(rows.y),
            n_jobs=self.n_jobs,
        )
        start, units = start_from_data(self, model, rows)
        return model.set_params(start=start, numeric_units=units)

    def _with_chains(self, settings, n_chains):
        """Return settings whose sampler has as many chains, where that is "auto"."""
        if self.n_chains != "auto" or isinstance(self.sampler, Sampler):
            return settings
        sampler = settings.sampler
        values = {**sampler.get_params(), "n_chains": n_chains}
        return replace(settings, sampler=type(sampler)(**values))

    def _settings(self, model, n_rows):
        settings = super()._settings(model, n_rows)
        step_size = settings.step_size
        if isinstance(self.step_size, str):
            step_size = DecayAfterBurnIn()
        return replace(settings, step_size=step_size, tol=0.0, monitor=False)
