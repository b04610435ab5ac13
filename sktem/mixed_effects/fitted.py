"""A fitted mixed-effects model: likelihoods, errors, and draws of subjects."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.effects import matched, numbered
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.likelihood import log_likelihood
from sktem.mixed_effects.inference.marginal_likelihood import importance_draws
from sktem.mixed_effects.inference.standard_errors import (
    information_of,
    standard_errors,
)
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
        omega = problem.model.design.spread_out(self.params.omega)
        params = self.params._replace(omega=omega)
        return FittedMixedEffects(problem, params, None, self.random_state)

    def _once(self, function, *arguments):
        """Return ``function(self, *arguments)``, which is called once."""
        key = function.__name__, *arguments
        if key not in self._kept:
            self._kept[key] = function(self, *arguments)
        return self._kept[key]

    # ------------------------------------------------------------------ the parameters

    def attributes(self) -> dict:
        """Return the fitted attributes that follow from the parameters."""
        model, params, design = self.model, self.params, self.model.design
        base, effects = design.constant[:, 0].copy(), {}
        d, parameters = len(design.random), design.random[design.positions]
        known = parameters, design.covariates, params.coefficients
        terms = list(zip(*known, strict=True))
        terms += [
            (entry.parameter, entry.covariate, value)
            for entry, value in zip(design.numeric, params.numeric, strict=True)
            if entry.kind != "residual"
        ]
        for p, covariate, value in terms:
            if covariate is None:
                base[p] += value
            else:
                effects[design.names[p], covariate] = float(value)
        for name, covariate, value in design.given_effects:
            effects[name, covariate] = value
        residual = {}
        if model.error is not None:
            sigma = params.sigma[list(model.error.indices)].tolist()
            residual = dict(zip(model.error.names, sigma, strict=True))
        with np.errstate(over="ignore"):
            population = {
                name: float(TRANSFORMS[kind].forward(value))
                for name, kind, value in zip(
                    design.names, design.transforms, base, strict=True
                )
            }
        return {
            "fitted_": self,
            "groups_": self.problem.labels,
            "params_": params,
            "population_parameters_": population,
            "covariate_effects_": effects,
            "omega_": params.omega[:d, :d],
            "occasion_variances_": {
                design.names[p]: float(params.omega[d + j, d + j])
                for j, p in enumerate(design.latents[d:])
            },
            "random_effects_": [design.names[p] for p in design.random],
            "residual_error_": residual,
        }

    def log_likelihood(self, method="auto", n_draws=2000, n_nodes="auto"):
        """Return the log-likelihood of the data and its error."""
        return self._once(log_likelihood, method, n_draws, n_nodes)

    def information(self, method="louis", n_draws="auto"):
        """Return the observed information about the parameters."""
        return self._once(information_of, method, n_draws)

    def covariance(self):
        """Return the covariance of the estimates as the vector has them."""
        return self.information().covariance()

    def natural_scale(self, name):
        """Return the function from the scale of the vector to the natural one."""
        transform = self.model.design.transform_of(name)
        return np.asarray if transform is None else transform.forward

    def individual_rows(self):
        """Return predictions of the rows by the modes, and weighted residuals."""
        model, params = self.model, self.params
        f = model.predict_rows(self.rows, self.modes()[0], params.numeric)
        return f, model.weighted_residuals(self.rows, f, params)

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
        prior = self.model.prior_moments(self.rows, self.params)
        draws = importance_draws(modes, covariances, n_draws, self.rng(), prior)
        return draws, draws.log_joint(self.model, self.rows, self.params)

    def individual_parameters(
        self, method="mode", n_draws=LEAST_DRAWS, by_occasion=False
    ):
        """Return parameters of the subjects on the natural scale, by name.

        The last axis is that of subjects, or of occasions.
        """
        points, weights = self._posterior(method, n_draws)
        if by_occasion:
            natural, owners = self._by_occasion(points)
            weights = weights[:, owners]
        else:
            natural = self._natural(points)
        if method == "draws":
            return natural
        return {name: (weights * v).sum(axis=0) for name, v in natural.items()}

    def conditional_draws(self, n_draws):
        """Return draws of the latents given the observations, with equal weights."""
        return self._posterior("draws", n_draws)[0]

    def completed(self, rng):
        """Return the observations, with draws in place of bounds.

        They are draws given all observations and bounds of a subject, so that what is
        returned is as if nothing had been bounded.
        """
        model, rows, params = self.model, self.rows, self.params
        if rows.censored is None:
            return rows.y
        Z = np.empty((len(rows), 0))
        if model.design.n_latents:
            seeded = FittedMixedEffects(self.problem, params, self.chains, rng)
            Z = seeded.conditional_draws(1)[0]
        f = model.predict_rows(rows, Z, params.numeric)
        uniform = 1 - rng.random(len(rows.y))  # above zero
        drawn = model.error.on(rows).draw_beyond(
            rows.y, f, params.sigma, model.least_prediction, rows.censored,
            rows.limits, uniform,
        )  # fmt: skip
        return np.where(rows.censored == 0, rows.y, drawn)

    def _posterior(self, method, n_draws):
        """Return points of the latents and their weights, which draws do not need."""
        if method == "mode":
            points = self.modes()[0][None]
            return points, np.ones(points.shape[:2])
        draws, log_joint = self.draws(max(n_draws, LEAST_DRAWS))
        terms = log_joint + draws.log_weights
        weights = np.exp(terms - logsumexp(terms, axis=0))
        if method == "mean":
            return draws.points, weights
        rng = self.rng()
        chosen = np.empty((n_draws, *draws.points.shape[1:]))
        for i in range(chosen.shape[1]):
            # Systematic resampling, in random order.
            uniforms = (rng.random() + np.arange(n_draws)) / n_draws
            ends = np.cumsum(weights[:, i])
            picked = np.searchsorted(ends / ends[-1], uniforms)
            chosen[:, i] = draws.points[rng.permutation(picked), i]
        return chosen, weights

    def _by_occasion(self, points):
        """Return parameters of all occasions of subjects, and the subject of each."""
        if self.model.design.occasions is None:
            raise ValueError("by_occasion=True needs a model with occasions")
        places = np.argwhere(~np.isnan(self.problem.occasions))
        by_number = [self._natural(points, k) for k in range(places[:, 1].max() + 1)]
        natural = {
            name: np.stack([by_number[k][name][:, i] for i, k in places], axis=-1)
            for name in self.model.design.names
        }
        return natural, places[:, 0]

    def _natural(self, Z, occasion=None):
        """Return all parameters for given random ones, of subjects or an occasion."""
        design = self.model.design
        d = len(design.random)
        phi = design.base(self.rows.covariates, self.params.numeric)
        shape = (*Z.shape[:-1], len(design.names))
        phi = np.broadcast_to(phi, shape).copy()
        phi[..., design.random] = Z[..., :d]
        if occasion is not None:
            for j, p in enumerate(design.occasions.parameters):
                m = len(design.occasions.parameters)
                phi[..., p] += Z[..., d + occasion * m + j]
        return {
            name: TRANSFORMS[kind].forward(phi[..., p])
            for p, (name, kind) in enumerate(
                zip(design.names, design.transforms, strict=True)
            )
        }

    def shrinkage(self):
        """Return how far the modes of random effects are drawn to zero, by variance."""
        design, effects = self.model.design, self.random_effects()
        d, m = len(design.random), len(design.latents) - len(design.random)
        variances = effects[:, :d].var(axis=0).tolist()
        if m:
            has = ~np.isnan(self.problem.occasions)
            of_occasions = effects[:, d:].reshape(len(effects), -1, m)
            variances += of_occasions[:, : has.shape[1]][has].var(axis=0).tolist()
        share = 1 - np.array(variances) / np.diag(self.params.omega)[: d + m]
        return dict(zip(design.variance_names, share.tolist(), strict=True))

    # ------------------------------------------------------------------------ new rows

    def _new_rows(self, X):
        """Return rows, each of which is a subject, and the means of their latents."""
        rows = group_rows(self.problem.layout, X, np.zeros(len(X)), np.arange(len(X)))
        return rows, self.model.prior_moments(rows, self.params)[0]

    def predict(self, X, groups=None):
        """Return predictions, with the random effects of known subjects."""
        if self.model.structure is None:
            raise ValueError("model is None: there is no function to predict with")
        rows, means = self._new_rows(X)
        subjects = self.problem.subjects(groups, len(X))
        Z, rows = self._with_effects(means, subjects, rows, X, subjects)
        return self.model.predict_rows(rows, Z, self.params.numeric)

    def _with_effects(self, Z, subjects, rows, X, subject_of_row):
        """Return latents and rows with effects and occasions of known subjects."""
        column, known = self.problem.layout.occasion_column, subjects >= 0
        if column is not None:
            of_row = matched(X[:, column], subject_of_row, self.problem.occasions)
            rows = rows.with_occasions(of_row)
        if known.any() and Z.shape[1]:
            Z = Z.copy()
            Z[known] += self.random_effects()[subjects[known]]
        return Z, rows

    def predict_records(self, data, individual=True):
        """Return predictions at all records, with the effects of known subjects."""
        problem = self.problem.on(data)
        rows = problem.rows
        subjects = self.problem.subjects(problem.labels, len(problem.labels))
        subjects = subjects if individual else np.full_like(subjects, -1)
        Z = self.model.prior_moments(rows, self.params)[0]
        of_row = subjects[rows.subject_of_row]
        Z, rows = self._with_effects(Z, subjects, rows, data.X, of_row)
        return self.model.predict_rows(rows, Z, self.params.numeric)

    def simulate_records(self, data, rng):
        """Draw observations of new subjects, NaN in records of other kinds."""
        problem = self.problem.on(data)
        drawn = self.on(problem).simulate_rows(problem.rows, rng)
        return np.where(data.records["EVID"] == 0, drawn, np.nan)

    def simulate_subjects(self, subjects, n_copies, rng):
        """Draw the observations of new subjects with the rows of some."""
        rows = self.rows[np.tile(subjects, n_copies)]
        return self.simulate_rows(rows, rng).reshape(n_copies, -1)

    def simulate_rows(self, rows, rng):
        """Draw the observations of new subjects with rows."""
        means, root = self.model.prior_moments(rows, self.params)
        Z = means + rng.standard_normal(means.shape) @ root.T
        return self._drawn(rows, Z, rng)

    def _drawn(self, rows, Z, rng):
        """Draw observations given the latents."""
        model, sigma, numeric = self.model, self.params.sigma, self.params.numeric
        n = len(rows.y)
        if model.error is not None:
            f = model.predict_rows(rows, Z, numeric)
            normal, least = rng.standard_normal(n), model.least_prediction
            return model.error.on(rows).draw(f, sigma, least, normal)
        if model.draw is None:
            raise ValueError(
                "log_density does not define how observations are drawn: pass draw, a "
                f"function draw(psi, X, rng{'' if rows.events is None else ', f'})"
            )
        psi, f = model.for_density(rows, Z, numeric)
        values = np.asarray(model.draw(psi, rows.columns, rng, *f), dtype=float)
        if values.shape != (n,):
            raise ValueError(f"draw must return the shape ({n},), got {values.shape}")
        return values

    def simulate(self, X, groups, rng):
        """Draw observations of new subjects."""
        subjects, there = np.arange(len(X)), self
        if groups is not None:
            subjects = np.unique(np.asarray(groups), return_inverse=True)[1]
        column, occasions = self.problem.layout.occasion_column, None
        if column is not None:
            occasions, labels = numbered(X[:, column], subjects)
            there = self.on(self.problem.with_occasions(labels.shape[1]))
        rows, means = there._new_rows(X)
        rows = rows.with_occasions(occasions)
        root = np.linalg.cholesky(there.params.omega)
        effects = rng.standard_normal((subjects.max() + 1, len(root))) @ root.T
        return there._drawn(rows, means + effects[subjects], rng)


def _modes(fitted):
    """Return conditional modes and covariances, found from the chains or the means."""
    start = fitted.model.prior_moments(fitted.rows, fitted.params)[0]
    if fitted.chains is not None and fitted.chains.shape[-1]:
        start = fitted.chains.mean(axis=1)
    return conditional_modes(fitted.model, fitted.rows, fitted.params, start)[:2]
