"""Newton steps on the likelihood, for estimates that EM would reach too slowly."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.mixed_effects.design import MixedEffectsParams
from sktem.mixed_effects.differences import numerical_hessian
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.louis import LouisInformation, louis_information
from sktem.mixed_effects.inference.marginal_likelihood import (
    ImportanceDraws,
    importance_draws,
    quadrature_draws,
    single_point,
    thin_size,
)
from sktem.mixed_effects.priors import log_prior
from sktem.mixed_effects.vector import ParameterVector
from sktem.sequences.rows import each_block

__all__ = [
    "Ascent",
    "ByNodes",
    "Coordinates",
    "Resolution",
    "ascend",
    "can_climb",
    "likelihood_at",
]


class NewtonRule(NamedTuple):
    """Limits of Newton steps on the likelihood.

    Attributes
    ----------
    most_points : int
        Quadrature points of all subjects together, at most.
    most_differences : int
        Evaluations of points for differences, at most.
    most_steps : int
        Newton steps, at most.
    halvings : int
        Lengths of a step that are tried.
    worth_halving : float
        Promised gain of the log-likelihood from which shorter steps are tried.
    longest : float
        Longest step of a logarithm.
    least_gain : float
        Gain of the log-likelihood for which steps continue, at least.
    resolution : float
        Gain that rounding lets one see, as a share of the log-likelihood.
    least_curvature : float
        Curvature, in units of that of the complete data, which is rounding.
    shift : float
        The least curvature that it gets then.
    least_value : float
        Curvature of the complete data, in units of that of each parameter alone, at
        least.
    at_least : float
        Distance of a logarithm from its bound that counts as none.
    own_part : float
        Share of a random effect's standard deviation that correlations do not explain,
        in units of that of wide ones, at least.
    """

    most_points: int = 100_000
    most_differences: int = 4_000_000
    most_steps: int = 12
    halvings: int = 4
    worth_halving: float = 1e-4
    longest: float = 0.7
    least_gain: float = 0.02
    resolution: float = 1e-12
    least_curvature: float = 1e-10
    shift: float = 0.05
    least_value: float = 1e-10
    at_least: float = 1e-3
    own_part: float = 1e-3


#: The rule of every fit.
NEWTON = NewtonRule()


class Resolution(NamedTuple):
    """Resolution of the integrals over the latents of subjects.

    Attributes
    ----------
    per_subject : int
        Quadrature points per subject, at most.
    in_all : int
        Points of all subjects together for which there are more than the least.
    least, most, most_of_one : int
        Quadrature nodes per random effect, and the most of a single one.
    n_draws : int
        Importance draws per subject where there would be more quadrature points.
    thin : tuple of int
        Latents with few nodes.
    """

    per_subject: int = 300
    in_all: int = 60_000
    least: int = 3
    most: int = 7
    most_of_one: int = 41
    n_draws: int = 300
    thin: tuple[int, ...] = ()

    @classmethod
    def of(cls, n_nodes: int, d: int, thin=()) -> Resolution:
        """Return the resolution with this number of nodes per random effect."""
        all_nodes = {"least": n_nodes, "most": n_nodes, "most_of_one": n_nodes}
        return cls(**all_nodes, n_draws=n_nodes**d, thin=thin)

    @classmethod
    def by_draws(cls, n_draws: int) -> Resolution:
        """Return the resolution with importance draws alone."""
        return cls(least=n_draws + 1, n_draws=n_draws)

    def nodes(self, n: int, d: int) -> int:
        """Return the nodes per random effect, 0 for importance draws."""
        d, size = self._grid(d)
        most = max(self.n_draws, self.per_subject if self.thin else 0)
        if self.least**d * size > most:
            return 0
        share = min(self.in_all / n, self.per_subject) / size
        nodes = int(share ** (1 / max(d, 1)) + 1e-9)
        return min(max(nodes, self.least), self.most_of_one if d == 1 else self.most)

    def n_points(self, n: int, d: int) -> int:
        """Return the points per subject."""
        nodes, (d, size) = self.nodes(n, d), self._grid(d)
        return nodes**d * size if nodes else self.n_draws

    def _grid(self, d: int) -> tuple[int, int]:
        """Return the random effects of the grid, and how often it is repeated."""
        return d - len(self.thin), thin_size(len(self.thin))


#: For first steps.
QUICK = Resolution()


def can_climb(n: int, d: int, k: int = 0) -> bool:
    """Return whether a climb is worth its time: never without random effects."""
    if d == 0:
        return False
    points = n * QUICK.n_points(n, d)
    return points <= NEWTON.most_points and points * k * k <= NEWTON.most_differences


class ByNodes(NamedTuple):
    """Changes by a larger number of quadrature nodes, NaN where it was not tried.

    Or what other draws may change.

    Attributes
    ----------
    gain : float
        Gain in log-likelihood by steps with them.
    errors : float
        Largest relative change of a standard error.
    shift : float
        Change of the log-likelihood at the same parameters; 0 for draws.
    information : LouisInformation or None
        Information by the smaller number.
    """

    gain: float = np.nan
    errors: float = np.nan
    shift: float = np.nan
    information: LouisInformation | None = None

    def within(self, gain: float, errors: float, shift: float) -> bool:
        """Return whether none is larger, False for NaN."""
        small = self.gain <= gain and self.errors <= errors
        return small and abs(self.shift) <= shift


class Ascent(NamedTuple):
    """Result of Newton steps on the likelihood.

    Attributes
    ----------
    params : MixedEffectsParams
        Where they ended.
    gain : float
        Gain in log-likelihood so far.
    value : float
        The log-likelihood there.
    promise : float
        Gain that another step promises; infinite if the likelihood is not finite.
    reliable : bool
        Whether the modes of all subjects were found.
    modes : ndarray of shape (n, d)
        These modes.
    information : LouisInformation or None
        Information about the parameters where the last step began.
    by_nodes : ByNodes
        What the last rise of the number of nodes has changed.
    """

    params: MixedEffectsParams
    gain: float
    value: float
    promise: float
    reliable: bool
    modes: np.ndarray
    information: LouisInformation | None = None
    by_nodes: ByNodes = ByNodes()

    @property
    def is_finite(self) -> bool:
        """Whether the likelihood is finite there."""
        return self.value > -np.inf


def ascend(
    model,
    rows,
    params,
    seed,
    start=None,
    most_steps=NEWTON.most_steps,
    least_gain=NEWTON.least_gain,
    resolution=QUICK,
) -> Ascent:
    """Do Newton steps on the likelihood while it gains.

    Slope and information are conditional means over adaptive quadrature points
    (importance draws, for more than five random effects). The covariance moves by its
    Cholesky factor, and scales by their logarithms. A step that does not raise the
    likelihood, and promised to, is halved, and if that does not help, an EM step takes
    its place.
    """
    modes = model.prior_moments(rows, params)[0] if start is None else start
    here = likelihood_at(model, rows, params, modes, seed, resolution)
    first, promise, louis = here.value, np.inf, None
    least_gain = max(least_gain, NEWTON.resolution * abs(first))
    for _ in range(most_steps if np.isfinite(first) else 0):
        louis = louis_information(model, rows, params, here.draws, here.log_joint)
        if not np.isfinite(louis.observed).all():
            break
        before, coordinates = here.value, Coordinates(model, params, rows)
        stay = here.draws.random or bool(resolution.thin)
        step, promise = _newton_step(louis, coordinates, stay)
        if promise < least_gain / 2:
            break
        lengths = NEWTON.halvings if promise > NEWTON.worth_halving else 1
        candidates = (coordinates.params(step / 2**h) for h in range(lengths))
        others = _em_steps(model, rows, params, here, stay) if lengths > 1 else ()
        for changed in chain(candidates, others):
            there = likelihood_at(model, rows, changed, here.modes, seed, resolution)
            if there.value > here.value:  # False for NaN
                params, here = changed, there
                break
        if here.value - before < least_gain:
            break
    value = float(here.value)
    gain = value - float(first) if np.isfinite(first) else -np.inf
    return Ascent(params, gain, value, float(promise), here.reliable, here.modes, louis)


class _Likelihood(NamedTuple):
    """The log-likelihood somewhere, and the points of the latents that give it.

    With priors of population parameters it includes their log-density.
    """

    value: float
    draws: ImportanceDraws
    log_joint: np.ndarray
    modes: np.ndarray
    reliable: bool


def likelihood_at(model, rows, params, modes, seed, resolution):
    """Return the log-likelihood, with modes that are looked for near the given ones."""
    modes, covariances, converged = conditional_modes(model, rows, params, modes)
    n, d = modes.shape
    if d == 0:
        draws = single_point(n)
    elif nodes := resolution.nodes(n, d):
        draws = quadrature_draws(modes, covariances, nodes, resolution.thin)
    else:
        rng = np.random.default_rng(seed)  # the same noise at every step
        prior = model.prior_moments(rows, params)
        draws = importance_draws(modes, covariances, resolution.n_draws, rng, prior)
    log_joint = draws.log_joint(model, rows, params)
    value = draws.log_likelihood(log_joint)[0].sum()
    value += log_prior(ParameterVector(model), params)[0]
    return _Likelihood(value, draws, log_joint, modes, bool(converged.all()))


class Coordinates:
    """Parameters as functions of steps that can go anywhere.

    Residual errors and the diagonal of the Cholesky factor of the covariance move by
    their logarithms; all else moves by the step.
    """

    def __init__(self, model, params, rows):
        self.vector, self.origin = ParameterVector(model), params
        self.values = self.vector.of(params)
        self.root = np.linalg.cholesky(params.omega)
        self.lower = tuple(self.vector.lower.T)
        self.units = self.vector.units(params, rows.covariates)
        # Entries of the root have the size of a standard deviation.
        spread = np.sqrt(np.diag(params.omega))
        self.root_units = spread[self.lower[0]]
        self.least, self.most = self._least(), self.vector.room(params)[1]

    def _least(self):
        """Return the least steps: those of logarithms that lead to the bounds."""
        vector, model = self.vector, self.vector.model
        least = vector.room(self.origin)[0]
        residual = vector.is_residual
        least[residual] = np.log(vector.least_residual / self.values[residual])
        # A random effect that correlates with others keeps a part of its own.
        alone = model.design.pattern.sum(axis=0) == 1
        spread = np.sqrt(np.diag(self.origin.omega))
        least_spread = NEWTON.own_part * spread * model.floors.own_shares
        bounds = np.where(alone, np.sqrt(model.floors.variances), least_spread)
        j, k = self.lower
        log_bounds = np.log(bounds / np.diag(self.root))[j]
        least[vector.omega] = np.where(j == k, log_bounds, -np.inf)
        return np.minimum(least, 0.0)

    def natural(self, step):
        """Return the vector of the parameters after a step, which has no unit."""
        logs, omega = self.vector.is_residual, self.vector.omega
        values = np.where(logs, self.values * np.exp(logs * step), 0.0)
        values += np.where(logs, 0.0, self.values + self.units * step)
        j, k = self.lower
        root, change = self.root.copy(), step[omega]
        growth = np.where(j == k, np.exp(np.where(j == k, change, 0.0)), 1.0)
        change = np.where(j == k, 0.0, self.root_units * change)
        root[j, k] = root[j, k] * growth + change
        values[omega] = (root @ root.T)[j, k]
        return values

    def derivatives(self, slope):
        """Return the vector's derivatives by the step, and bends along a slope."""
        p, tiny = len(self.vector), 1e-4
        J, bend = np.diag(self.units), np.zeros((p, p))
        # Only the covariance and logarithms are not linear in the step.
        curved = self.vector.is_residual.copy()
        curved[self.vector.omega] = True
        curved = np.flatnonzero(curved)
        axes = np.eye(p)[curved]
        for j, axis in zip(curved, axes, strict=True):
            change = self.natural(tiny * axis) - self.natural(-tiny * axis)
            J[:, j] = change / (2 * tiny)
        bend[np.ix_(curved, curved)] = numerical_hessian(
            lambda step: slope @ (self.natural(step @ axes) - self.values),
            np.zeros(len(curved)),
            np.full(len(curved), tiny),
        )
        return J, bend

    def params(self, step):
        """Return the parameters after a step, not beyond their bounds."""
        step = np.clip(step, self.least, self.most)
        return self.vector.params(self.natural(step), self.origin)


def _newton_step(louis, coordinates, stay=False):
    """Return Newton's step, and the gain that it promises.

    Directions in which the likelihood is not concave get a curvature. Parameters that
    it would take beyond their bounds, where they are, stay; or all that are there.
    """
    J, bend = coordinates.derivatives(louis.slope)
    slope = J.T @ louis.slope
    complete, curvature = J.T @ louis.complete @ J, J.T @ louis.observed @ J - bend
    is_held = coordinates.least > -NEWTON.at_least
    is_held &= (slope <= 0) | stay
    is_held |= (coordinates.most < NEWTON.at_least) & (slope >= 0)
    is_held |= (np.diag(complete) == 0) & (slope == 0)  # nothing depends on it
    slope[is_held] = curvature[is_held] = curvature[:, is_held] = 0.0
    units = _units(complete, is_held)
    values, vectors = np.linalg.eigh(units.T @ curvature @ units)
    bent = np.maximum(np.abs(values), NEWTON.shift)
    values = np.where(values < NEWTON.least_curvature, bent, values)
    along = vectors.T @ (units.T @ slope)
    step = units @ (vectors @ (along / values))
    longest = np.abs(step[coordinates.vector.positive]).max(initial=0.0)
    step /= max(1.0, longest / NEWTON.longest)
    return step, 0.5 * float(along**2 @ (1 / values))


def _units(complete, is_held):
    """Return directions, as columns, in which the complete data have unit curvature."""
    scale = np.where(is_held, 0.0, 1 / np.sqrt(np.abs(np.diag(complete)) + 1e-300))
    matrix = complete * scale[:, None] * scale
    matrix[is_held] = matrix[:, is_held] = 0.0
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(np.abs(values), NEWTON.least_value)
    return scale[:, None] * vectors / np.sqrt(values)


def _statistics(model, params, n, block, points, weights):
    """Return the share of some subjects in the mean statistics of n, at points."""
    Z = points.transpose(1, 0, 2).reshape(weights.size, -1)
    repeated, Z = block.repeat(weights.shape[1]), model.annotate(Z, params)
    return len(block) / n * model.mean_statistics(repeated, Z, weights.ravel())


def _em_steps(model, rows, params, here, stay):
    """Yield the parameters after an EM step, which leads upwards from anywhere.

    Variances at their bounds stay there, if they shall.
    """
    draws = here.draws
    terms = (here.log_joint + draws.log_weights).T
    all_weights = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
    sums = each_block(
        rows,
        partial(_statistics, model, params, len(rows)),
        lambda subjects: (draws.points[:, subjects], all_weights[subjects]),
    )
    s = sum(sums, start=0.0)
    there = model.maximize(s, params._replace(steps=np.inf))
    omega, low = there.omega, model.at_floor(params)
    if stay and low.any():
        ratios = np.diag(params.omega) / np.diag(omega)
        scale = np.sqrt(np.where(low, ratios, 1.0))
        omega = omega * scale[:, None] * scale
    yield there._replace(steps=params.steps, omega=omega)
