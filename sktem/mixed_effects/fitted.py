"""A fitted mixed-effects model: likelihoods, errors, and draws of subjects."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.likelihood import log_likelihood
from sktem.mixed_effects.inference.marginal_likelihood import importance_draws
from sktem.mixed_effects.inference.standard_errors import standard_errors
from sktem.mixed_effects.layout import group_rows
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["FittedMixedEffects"]

#: Importance draws of a conditional mean, at least.
LEAST_DRAWS = 1000


class FittedMixedEffects:
    """Parameters of a problem, and quantities derived from them.

    Costly answers are computed once and kept.

    Parameters
    ----------
    problem : Problem
        The problem that was fitted.
    params : MixedEffectsParams
        Parameters.
    chains : ndarray of shape (n_subjects, n_chains, d) or None, default=None
        Draws of the random parameters, near which their modes are looked for.
    random_state : int, RandomState, Generator or None, default=None
        Seed of importance draws.
    """

    def __init__(self, problem, params, chains=None, random_state=None):
        self.problem, self.params = problem, params
        self.chains, self.random_state = chains, random_state
        self.model, self.rows = problem.model, problem.rows
        self.vector = ParameterVector(problem.model)
        self._kept: dict = {}

    def at(self, params) -> FittedMixedEffects:
        """Return the same problem with other parameters."""
        return FittedMixedEffects(self.problem, params, self.chains, self.random_state)

    def on(self, problem) -> FittedMixedEffects:
        """Return the same parameters with the data of another problem."""
        return FittedMixedEffects(problem, self.params, None, self.random_state)

    def _once(self, function, *arguments):
        """Return ``function(self, *arguments)``, which is called once."""
        key = function.__name__, *arguments
        if key not in self._kept:
            self._kept[key] = function(self, *arguments)
        return self._kept[key]

    # ------------------------------------------------------------------ the parameters

    def attributes(self) -> dict:
        """Return the fitted attributes that name the parameters."""
        model, params, design = self.model, self.params, self.model.design
        subject, by_row = design.covariate_names, design.row_covariate_names
        base = design.constant[:, 0].copy()
        matrix = design.matrix(params.coefficients)
        base[design.random] += matrix[:, 0]
        effects = {}
        for position, column, value in zip(
            design.positions, design.columns, params.coefficients, strict=True
        ):
            if column:
                name = design.names[design.random[position]]
                effects[name, subject[column]] = float(value)
        for name, column, value in design.given_effects:
            effects[name, column] = value
        for entry, value in zip(design.numeric, params.numeric, strict=True):
            if entry.kind == "residual":
                continue
            if entry.kind == "subject" and entry.column == 0:
                base[entry.parameter] += value
            else:
                labels = by_row if entry.kind == "row" else subject
                name = design.names[entry.parameter]
                effects[name, labels[entry.column]] = float(value)
        residual = {}
        if model.error is not None:
            sigma = params.sigma[list(model.error.indices)].tolist()
            residual = dict(zip(model.error.names, sigma, strict=True))
        return {
            "population_parameters_": {
                name: float(TRANSFORMS[kind].forward(value))
                for name, kind, value in zip(
                    design.names, design.transforms, base, strict=True
                )
            },
            "covariate_effects_": effects,
            "omega_": params.omega,
            "random_effects_": [design.names[p] for p in design.random],
            "residual_error_": residual,
        }

    def log_likelihood(self, method="auto", n_draws=2000, n_nodes="auto"):
        """Return the log-likelihood of the data and its error."""
        return self._once(log_likelihood, method, n_draws, n_nodes)

    def standard_errors(self, method="louis", n_draws="auto"):
        """Return standard errors by name, their errors, and unusual findings."""
        return self._once(standard_errors, method, n_draws)

    # ------------------------------------------------------- conditional distributions

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return modes and covariances of the random parameters."""
        return self._once(_modes)

    def random_effects(self):
        """Return the modes of the random effects."""
        return self.modes()[0] - self.model.prior_moments(self.rows, self.params)[0]

    def rng(self):
        """Return a generator, from the seed."""
        return np.random.default_rng(seed_sequence(self.random_state))

    def draws(self, n_draws):
        """Return importance draws and their log-joint densities."""
        modes, covariances = self.modes()
        draws = importance_draws(modes, covariances, n_draws, self.rng())
        return draws, draws.log_joint(self.model, self.rows, self.params)

    def individual_parameters(self, method="mode", n_draws=LEAST_DRAWS):
        """Return parameters of the subjects on the natural scale, by name."""
        if method == "mode":
            return self._natural(self.modes()[0])
        draws, log_joint = self.draws(max(n_draws, LEAST_DRAWS))
        terms = log_joint + draws.log_weights
        weights = np.exp(terms - logsumexp(terms, axis=0))
        if method == "mean":
            natural = self._natural(draws.points)
            return {name: (weights * v).sum(axis=0) for name, v in natural.items()}
        rng = self.rng()
        chosen = np.empty((n_draws, *draws.points.shape[1:]))
        for i in range(chosen.shape[1]):
            # Systematic resampling, in random order.
            uniforms = (rng.random() + np.arange(n_draws)) / n_draws
            ends = np.cumsum(weights[:, i])
            picked = np.searchsorted(ends / ends[-1], uniforms)
            chosen[:, i] = draws.points[rng.permutation(picked), i]
        return self._natural(chosen)

    def _natural(self, Z):
        """Return all parameters for given random ones."""
        design = self.model.design
        phi = design.base(self.rows.covariates, self.params.numeric)
        shape = (*Z.shape[:-1], len(design.names))
        phi = np.broadcast_to(phi, shape).copy()
        phi[..., design.random] = Z
        return {
            name: TRANSFORMS[kind].forward(phi[..., p])
            for p, (name, kind) in enumerate(
                zip(design.names, design.transforms, strict=True)
            )
        }

    def shrinkage(self):
        """Return how far the modes of random effects are drawn to zero."""
        design, variances = self.model.design, self.random_effects().var(axis=0)
        share = 1 - variances / np.diag(self.params.omega)
        names = [design.names[p] for p in design.random]
        return dict(zip(names, share.tolist(), strict=True))

    # ------------------------------------------------------------------------ new rows

    def _new_rows(self, X):
        """Return rows, each of which is a subject, and the means of their latents."""
        rows = group_rows(self.problem.layout, X, np.zeros(len(X)), np.arange(len(X)))
        return rows, self.model.prior_moments(rows, self.params)[0]

    def predict(self, X, groups=None):
        """Return predictions, with the random effects of known subjects."""
        rows, Z = self._new_rows(X)
        subjects = self.problem.subjects(groups, len(X))
        known = subjects >= 0
        if known.any() and Z.shape[1]:
            Z = Z.copy()
            Z[known] += self.random_effects()[subjects[known]]
        return self.model.predict_rows(rows, Z, self.params.numeric)

    def _all_records(self, given):
        """Return the rows of all records, their subjects, and means of the latents."""
        problem = self.problem.on(given.X, given.y, given.groups, given.records)
        subjects = self.problem.subjects(problem.labels, len(problem.labels))
        return (
            problem.rows,
            subjects,
            self.model.prior_moments(problem.rows, self.params)[0],
        )

    def predict_records(self, given):
        """Return predictions at all records, with the effects of known subjects."""
        rows, subjects, Z = self._all_records(given)
        known = subjects >= 0
        if known.any() and Z.shape[1]:
            Z[known] += self.random_effects()[subjects[known]]
        return self.model.predict_rows(rows, Z, self.params.numeric)

    def simulate_records(self, given, rng):
        """Draw observations of new subjects, NaN in records of other kinds."""
        rows, _, Z = self._all_records(given)
        root = np.linalg.cholesky(self.params.omega)
        Z = Z + rng.standard_normal(Z.shape) @ root.T
        f = self.model.predict_rows(rows, Z, self.params.numeric)
        g = self.model.residual_scale(rows, f, self.params)
        drawn = self.model.error.draw(f, g, rng.standard_normal(len(f)))
        return np.where(given.records["EVID"] == 0, drawn, np.nan)

    def simulate(self, X, groups, rng):
        """Draw observations of new subjects."""
        rows, means = self._new_rows(X)
        root = np.linalg.cholesky(self.params.omega)
        subjects = np.arange(len(X))
        if groups is not None:
            subjects = np.unique(np.asarray(groups), return_inverse=True)[1]
        effects = rng.standard_normal((subjects.max() + 1, len(root))) @ root.T
        f = self.model.predict_rows(
            rows, means + effects[subjects], self.params.numeric
        )
        g = self.model.residual_scale(rows, f, self.params)
        return self.model.error.draw(f, g, rng.standard_normal(len(f)))


def _modes(fitted):
    """Return conditional modes and covariances, found from the chains or the means."""
    start = fitted.model.prior_moments(fitted.rows, fitted.params)[0]
    if fitted.chains is not None and fitted.chains.shape[-1]:
        start = fitted.chains.mean(axis=1)
    return conditional_modes(fitted.model, fitted.rows, fitted.params, start)[:2]
