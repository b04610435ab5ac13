"""One model against the expectations of solvers and samplers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sktem.loop.density_edges import rows_without_edge
from sktem.loop.monitor import objective_of
from sktem.loop.moved_latents import moved_latents
from sktem.models.base import average_statistics
from sktem.models.contract import (
    check_each_row,
    check_latents,
    checked_mean_statistics,
    has_nan,
    maximized,
)
from sktem.models.entries import neighbours
from sktem.rows.held import carrier_of

__all__: list[str] = []

#: Monte Carlo standard errors beyond which a difference is one.
LIMIT = 5.0

#: What ``project`` may make of a zero, as a share of the largest statistic.
LARGEST_FLOOR = 1e-4


class _ModelCheck:
    """Checks of one model on some rows.

    Parameters
    ----------
    model : LatentModel
        The model.
    X : array-like
        Rows.
    constrained : tuple of str
        Fields of the parameters whose entries are not moved alone.
    n_draws : int
        Draws per row of Monte Carlo comparisons.
    rng : numpy.random.Generator
        Random numbers.
    """

    def __init__(self, model, X, constrained, n_draws, rng):
        self.model, self.X, self.rng = model, X, rng
        self.constrained = constrained
        self.n_draws = n_draws
        self.n = len(carrier_of(X))
        self.name = type(model).__name__

    def fail(self, method, what):
        raise ValueError(f"{method} of {self.name} {what}")

    # ------------------------------------------------------------ shapes and averages

    def start(self, params):
        """Check parameters, latents and statistics."""
        model, rng = self.model, self.rng
        self.params = model.initial_params(self.X, rng) if params is None else params
        self.check_params("initial_params", self.params)
        self.Z = self.latents(self.params)
        self.mean_statistics()
        if params is None:
            s = self.average(self.Z)
            self.params = maximized(model, s, self.params)
            self.check_params("maximize", self.params)
            self.Z = self.latents(self.params)

    def check_params(self, method, params):
        if has_nan(params):
            self.fail(method, f"returned NaN: {params!r}")

    def latents(self, params):
        """Return latents of the rows from the first method that gives some."""
        model, latents = self.model, None
        for method in ("posterior", "draw_posterior", "initial_latents"):
            if not callable(getattr(model, method, None)):
                continue
            extra: tuple[Any, ...] = (self.rng,)
            if method == "posterior":
                extra = ()
            elif method == "draw_posterior":
                extra = (3, self.rng)
            candidate = getattr(model, method)(self.X, params, *extra)
            count = 3 if method == "draw_posterior" else None
            check_latents(model, method, candidate, self.n, count)
            if method == "initial_latents":
                candidate = moved_latents(model, self.X, candidate, params, self.rng)
                candidate = candidate if model.averages_draws else candidate[:, None]
            if latents is None:
                latents, self.source = candidate, method
        if latents is None:
            self.fail("the methods", "give no latents: see LatentModel for which can")
        return model.annotate(latents, params)

    def average(self, Z, weights=None):
        return average_statistics(self.model, self.X, Z, weights)

    def mean_statistics(self):
        """Check shape, weights, and that the average over rows is one."""
        model, latents = self.model, self.Z
        if not model.averages_draws:
            latents = latents[:, 0]
        checked_mean_statistics(model, self.X, latents, self.source, self.Z.shape)
        s = np.asarray(model.mean_statistics(self.X, latents, None))
        if s.dtype != np.float64:
            self.fail("mean_statistics", f"must return float64, got {s.dtype}")
        ones = model.mean_statistics(self.X, latents, np.ones(self.n))
        self.close("mean_statistics", ones, s, "with weights of one and without any")
        weights = self.rng.integers(1, 4, size=self.n)
        rows = np.repeat(np.arange(self.n), weights)
        repeated = model.mean_statistics(self.X[rows], latents[rows], None)
        weighted = model.mean_statistics(self.X, latents, weights.astype(float))
        what = "with weights and with rows repeated as often"
        self.close("mean_statistics", weighted, repeated, what)
        scaled = model.mean_statistics(self.X, latents, 0.01 * weights)
        self.close("mean_statistics", scaled, weighted, "with weights and a hundredth")

    def close(self, method, returned, expected, what, rtol=1e-7):
        scale = np.abs(expected).max(initial=1e-300)
        if np.shape(returned) != np.shape(expected):
            self.fail(method, f"has other shapes {what}")
        if not np.abs(returned - expected).max(initial=0.0) <= rtol * scale:
            self.fail(method, f"differs {what}: {returned} and {expected}")

    # ------------------------------------------------------------------------- E-step

    def expected_statistics(self):
        """Compare with posterior, mean_statistics and log_likelihood."""
        weights = self.rng.random(self.n) + 0.5
        for sample_weight in (None, weights):
            pair = self.model.expected_statistics(self.X, self.params, sample_weight)
            if not (
                isinstance(pair, tuple) and len(pair) == 2 and np.ndim(pair[1]) == 0
            ):
                self.fail("expected_statistics", "must return (s, mean log-likelihood)")
            expected = self.average(
                self.model.posterior(self.X, self.params), sample_weight
            )
            self.close("expected_statistics", pair[0], expected, "from the posterior's")
            values = self.log_likelihood()
            if values is not None:
                mean = np.atleast_1d(np.average(values, weights=sample_weight))
                returned_mean = np.atleast_1d(pair[1])
                self.close(
                    "expected_statistics", returned_mean, mean, "from log_likelihood"
                )

    def log_likelihood(self, params=None):
        """Return the log-likelihood of the rows, None if the model has none."""
        if not callable(getattr(self.model, "log_likelihood", None)):
            return None
        params = self.params if params is None else params
        values = self.model.log_likelihood(self.X, params)
        check_each_row(self.model, "log_likelihood", values, self.n)
        return values

    def hard_latents(self):
        """Return one latent per row that log_joint can be asked about, or None."""
        if callable(getattr(self.model, "initial_latents", None)):
            arguments = (self.params, self.rng)
            Z = self.model.initial_latents(self.X, *arguments)
            return moved_latents(self.model, self.X, Z, *arguments)
        if self.model.averages_draws:
            return None
        if callable(getattr(self.model, "draw_posterior", None)):
            return self.model.draw_posterior(self.X, self.params, 1, self.rng)[:, 0]
        return self.Z[:, 0]

    def log_joint(self, Z, params=None):
        params = self.params if params is None else params
        values = self.model.log_joint(self.X, Z, params)
        check_each_row(self.model, "log_joint", values, self.n)
        return values

    @np.errstate(invalid="ignore")  # of infinities around latents that are known
    def grad_log_joint(self):
        """Compare with finite differences along random directions."""
        Z = self.hard_latents()
        if Z is None or Z.dtype.kind != "f":
            return False
        gradient = self.model.grad_log_joint(self.X, Z, self.params)
        check_each_row(self.model, "grad_log_joint", gradient, self.n, like=Z)
        for _ in range(5):
            direction = self.rng.standard_normal(Z.shape)
            slope = (gradient * direction).reshape(self.n, -1).sum(axis=1)
            length = np.maximum(np.abs(gradient).mean(), 1e-300)
            # A step over which the density changes little, whatever the scale.
            step = 1e-4 * min(1 / length, np.abs(Z).max(initial=0.0) + 1 / length)
            coarse, fine = (
                (self.log_joint(Z + h * direction) - self.log_joint(Z - h * direction))
                / (2 * h)
                for h in (step, step / 2)
            )
            best = (4 * fine - coarse) / 3
            rounding = 1e-14 * (1 + np.abs(self.log_joint(Z))) / step
            allowed = 1e-5 * np.abs(slope).max() + np.abs(fine - coarse) + rounding
            wrong = np.isfinite(best) & ~(np.abs(best - slope) <= allowed)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                self.fail(
                    "grad_log_joint",
                    f"differs from finite differences of log_joint: in row {row}, "
                    f"{slope[row]:.6g} and {best[row]:.6g} along a random direction",
                )
        return True

    # ------------------------------------------------------------------------- M-step

    def objective(self):
        """Return the M-step's objective, its statistics, and whether entries count.

        With ``log_joint`` it is the complete likelihood at fixed latents. Otherwise it
        is the likelihood of the data at a fixed point of EM.
        """
        model = self.model
        if callable(getattr(model, "log_joint", None)):
            Z = self.hard_latents()
            if Z is not None:
                annotated = model.annotate(Z, self.params)
                shaped = annotated if model.averages_draws else annotated[:, None]

                def complete(params):
                    return objective_of(model, self.log_joint(Z, params).mean(), params)

                return complete, lambda w: self.average(shaped, w), True
        if not callable(getattr(model, "posterior", None)):
            return None
        if self.log_likelihood() is None:
            return None
        before = None
        for _ in range(3000):
            s = self.average(model.posterior(self.X, self.params))
            if before is not None and np.allclose(s, before, rtol=1e-13, atol=0):
                break
            self.params = maximized(model, s, self.params)
            before = s
        Z = model.posterior(self.X, self.params)

        def marginal(params):
            return objective_of(model, self.log_likelihood(params).mean(), params)

        return marginal, lambda w: self.average(Z, w), False

    def maximize(self):
        """Check that no parameters near those of the M-step are better."""
        objective = self.objective()
        if objective is None:
            return False
        value, statistics, entries = objective
        s = statistics(None)
        best = self.params
        for _ in range(200):  # where an M-step may go a part of the way only
            best = maximized(self.model, s, best)
        self.check_params("maximize", best)
        top = value(best)
        if not np.isfinite(top):
            return False
        slack = 1e-9 * (1 + abs(top))
        for size in (0.3, 0.03, 0.003):
            for _ in range(10):
                other = statistics(self.rng.dirichlet(np.ones(self.n)) * self.n)
                near = maximized(self.model, s + size * (other - s), best)
                self.not_better(value(near), top, slack, "of other statistics nearby")
        if entries:
            for what, near in neighbours(best, self.constrained):
                with np.errstate(all="ignore"):  # one may be outside of what is allowed
                    moved = value(near)
                self.not_better(moved, top, slack, what)
        return True

    def not_better(self, value, top, slack, what):
        if value > top + slack:
            self.fail(
                "maximize",
                f"is not at the maximum: parameters {what} have an objective of "
                f"{value:.10g}, its own have {top:.10g}",
            )

    def project(self):
        """Check that the projection keeps statistics of data, and its own results."""
        s = self.average(self.Z)
        same, left = self.project_checked(s)
        # Statistics that are exactly zero may be floored, and the others make room.
        zero = s == 0
        floors = np.abs(same[zero])
        allowed = 1e-9 * np.abs(s) + floors.sum()
        is_kept = (np.abs(same - s) <= allowed).all()
        small = floors.max(initial=0.0) <= LARGEST_FLOOR * np.abs(s).max(initial=0.0)
        if not (is_kept and small) or (left and not floors.any()):
            self.fail("project", "changes statistics that come from data")
        for _ in range(20):
            other = self.average(self.Z, self.rng.dirichlet(np.ones(self.n) / 5))
            for size in (-30.0, -3.0, 3.0):
                inside, _ = self.project_checked(s + size * (other - s))
                again, _ = self.project_checked(inside)
                scale = np.abs(inside).max(initial=1e-300)
                if not np.abs(again - inside).max(initial=0.0) <= 1e-6 * scale:
                    self.fail("project", "changes its own result")
                if has_nan(maximized(self.model, inside, self.params)):
                    self.fail("maximize", "returned NaN for statistics from project")
        return True

    def project_checked(self, s):
        pair = self.model.project(s)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            self.fail("project", "must return (statistics, whether they were outside)")
        if np.shape(pair[0]) != s.shape or np.isnan(pair[0]).any():
            self.fail("project", f"must return finite statistics of shape {s.shape}")
        return pair

    # -------------------------------------------------------------------------- draws

    def draws(self):
        """Compare the statistics of draws with those of the posterior."""
        expected = self.average(self.model.posterior(self.X, self.params))
        arguments = (self.X, self.params, 4, self.rng)
        draws = (self.model.draw_posterior(*arguments) for _ in range(self.n_draws))
        averages = np.array([self.average(Z) for Z in draws])
        self.standard_errors("draw_posterior", averages - expected, "from posterior's")
        return True

    def draws_log_joint(self):
        """Check moments of the score, which vanish under the posterior (Stein)."""
        draw = self.model.draw_posterior
        if self.model.averages_draws:
            return False
        Z = draw(self.X, self.params, self.n_draws, self.rng)
        if Z.dtype.kind != "f":
            return False
        smooth = rows_without_edge(self.log_joint, Z[:, 0], self.rng)
        if not smooth.any():
            return False
        # Functions of two draws of a row: z' is where z is judged from.
        terms = []
        for m in range(0, self.n_draws - 1, 2):
            here, there = Z[:, m], Z[:, m + 1]
            score = self.score(here)
            if score is None or not np.isfinite(score[smooth]).all():
                return False
            axes = tuple(range(1, here.ndim))
            size = int(np.prod(here.shape[1:]))
            terms.append(
                [
                    (score * (there - here)).sum(axis=axes)[smooth].mean() - size,
                    score.sum(axis=axes)[smooth].mean(),
                ]
            )
        self.standard_errors("draw_posterior", np.array(terms), "from log_joint")
        return True

    def score(self, Z):
        """Return the gradient of log_joint, by differences if need be."""
        if callable(getattr(self.model, "grad_log_joint", None)):
            return self.model.grad_log_joint(self.X, Z, self.params)
        if np.prod(Z.shape[1:]) > 20:
            return None
        gradient = np.empty_like(Z)
        step = 1e-5 * (Z.std() or 1.0)
        for place in np.ndindex(Z.shape[1:]):
            move = np.zeros_like(Z)
            move[(slice(None), *place)] = step
            rise = self.log_joint(Z + move) - self.log_joint(Z - move)
            gradient[(slice(None), *place)] = rise / (2 * step)
        return gradient

    def standard_errors(self, method, differences, what):
        error = differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
        mean = differences.mean(axis=0)
        floor = 1e-9 * np.abs(mean).max(initial=1e-300) + 1e-12
        ratio = np.abs(mean) / np.maximum(error, floor)
        if not (ratio <= LIMIT).all():
            self.fail(
                method,
                f"differs {what}: by {ratio.max():.1f} Monte Carlo standard errors",
            )
