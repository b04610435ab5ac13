"""The end of a fit: Newton steps to the maximum of the likelihood, and doubts of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sktem.mixed_effects.ascent import (
    Ascent,
    ByNodes,
    Resolution,
    ascend,
    likelihood_at,
)
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import single_point, thin_latents
from sktem.mixed_effects.inference.node_numbers import covariance_of, least_share
from sktem.mixed_effects.inference.quadratic import is_quadratic
from sktem.mixed_effects.inference.standard_errors import at_bounds, noise
from sktem.mixed_effects.m_step import repaired_covariance
from sktem.mixed_effects.narrow_inputs import is_far_from_zero
from sktem.mixed_effects.open_directions import exchanged, open_directions

__all__ = ["ClimbRule", "LastClimb", "NodeRule"]


@dataclass(frozen=True)
class NodeRule:
    """Quadrature nodes of the likelihood at the end.

    Attributes
    ----------
    first : Resolution
        Nodes of the first steps.
    more : int
        How many more there are then, at least, until these change nothing; up to twice
        as many, where the points of a subject are not more than at first.
    most_of_subject, most_in_all : int
        Points of a subject, and of all together, at most.
    most : int
        Nodes of a random effect, beyond which their weights underflow.
    same, alike : tuple of float
        Gain, relative change of a standard error, and change of the log-likelihood at
        the same parameters, that are none; and those that are none where there cannot
        be more nodes.
    n_draws : int
        Draws of a subject, at most, by which the last steps are made where nodes are
        too few.
    most_draws : int
        Draws of all subjects, at most.
    least_share : float
        Share of the information about a variance that the observations have, at least,
        where draws show it.
    """

    first: Resolution = Resolution(per_subject=700, most=7)
    more: int = 2
    most_of_subject: int = 10_000
    most_in_all: int = 1_500_000
    most: int = 300
    same: tuple[float, float, float] = (0.01, 0.15, 0.05)
    alike: tuple[float, float, float] = (0.05, 0.2, 0.1)
    n_draws: int = 2000
    most_draws: int = 400_000
    least_share: float = 1e-3

    def after(self, n_nodes: int, d: int) -> int:
        """Return the nodes per random effect that are tried after this number."""
        cheap = int(self.first.per_subject ** (1 / d) + 1e-9)
        return max(n_nodes + self.more, min(2 * n_nodes + 1, cheap))


@dataclass(frozen=True)
class ClimbRule:
    """Limits of the last Newton steps, and thresholds of doubtful maxima.

    Attributes
    ----------
    most_steps : int
        Steps, at most.
    least_gain : float
        Gain of the log-likelihood for which steps continue.
    least_rough_gain : float
        The same of first steps, which are finished only where they lead elsewhere.
    few : Resolution
        Nodes of the first steps from the start, and of first looks at bounds.
    hopeless, worth_a_try, at_bound, at_bound_by_draws : float
        Loss in log-likelihood by such a look that ends it, and losses allowed at a
        bound before and after the other parameters have moved, the last one with the
        noise of draws.
    same : float
        Differences of parameters, in units of them, up to which places are the same.
    much_less : float
        Log-likelihood by which a place may be behind after first steps.
    larger : float
        By how much the likelihood that is reached from the start must be larger.
    promise : float
        Gain that another step may promise at a maximum.
    flat : float
        Information about a parameter, in its own units, that counts as none.
    indistinct : float
        Eigenvalue of the correlations of effects from which rounding hides the maximum.
    narrow : float
        Range of an input, as a share of its values, below which squares are rounding.
    clear_share, no_share : float
        Share of the complete information that the observations have in any direction,
        which is no rounding, and of a parameter, which is.
    nodes : NodeRule
        How finely the likelihood is integrated.
    """

    most_steps: int = 40
    least_gain: float = 1e-8
    least_rough_gain: float = 1e-3
    few: Resolution = Resolution(per_subject=64)
    hopeless: float = 2.0
    worth_a_try: float = 0.1
    at_bound: float = 1e-4
    at_bound_by_draws: float = 0.02
    same: float = 0.1
    much_less: float = 1.0
    larger: float = 0.01
    promise: float = 0.01
    flat: float = 1e-9
    indistinct: float = 1e-8
    narrow: float = 1e-7
    clear_share: float = 1e-6
    no_share: float = 1e-11
    nodes: NodeRule = NodeRule()


#: The rule of every fit.
CLIMB = ClimbRule()


class LastClimb:
    """Newton steps on the likelihood, from estimates and from the start.

    Parameters
    ----------
    problem : Problem
        The problem that is fitted.
    vector : ParameterVector
        Its parameters.
    rule : ClimbRule
        How far steps go, and what makes their end doubtful.
    """

    def __init__(self, problem, vector, rule=CLIMB):
        self.model, self.rows, self.vector = problem.model, problem.rows, vector
        self.rule = rule

    @property
    def is_by_nodes(self) -> bool:
        """Whether the likelihood is integrated without draws and their noise."""
        first = self.rule.nodes.first
        return first.nodes(len(self.rows), self.model.design.n_latents) > 0

    def ascended(self, params, rng, modes=None):
        """Return the end of Newton steps from the estimates, or from the start.

        Parameters
        ----------
        params : MixedEffectsParams
            Estimates.
        rng : Generator
            Random generator of draws, where nodes would be too many.
        modes : ndarray or None, default=None
            Values near the conditional modes.

        Returns
        -------
        Ascent
            The end; its value is minus infinity where no step was possible.
        """
        model, rows, rule = self.model, self.rows, self.rule
        most_steps = {"most_steps": rule.most_steps}
        rough = most_steps | {"least_gain": rule.least_rough_gain}
        seed = rng.integers(2**63)  # the noise of draws is the same everywhere
        fine = most_steps | {"least_gain": rule.least_gain}
        first = (fine if self.is_by_nodes else rough) | {"resolution": rule.nodes.first}

        def finely(there):
            return ascend(model, rows, there.params, seed, there.modes, **first)

        ascent = ascend(model, rows, params, seed, modes, **rough)
        other = ascend(model, rows, model.start, seed, **rough, resolution=rule.few)
        better = self._may_be_better(other, ascent)
        if ascent.is_finite:
            ascent = finely(ascent)
        if better:
            other = finely(other)
            if other.value > ascent.value + rule.larger or not ascent.is_finite:
                ascent = other
        if ascent.is_finite:
            inside = ascent
            ascent, first = self._to_the_bounds(ascent, seed, first)
            if ascent is not inside:
                ascent = finely(ascent)
            ascent = self._ascend_finely(ascent, seed, fine)
        return ascent

    def _to_the_bounds(self, ascent, seed, options):
        """Move superfluous parameters to their bounds.

        Newton steps approach such a bound without reaching it. A variance, or the part
        not explained by others, or one of two parameters of the residual error, goes to
        its least value if the likelihood does not fall, and the rest moves on.
        """
        model, rows, rule = self.model, self.rows, self.rule
        variances = model.design.free_variances
        if not self.is_by_nodes:  # nodes may do when the small ones are at bounds
            spare = np.diag(ascent.params.omega) / model.floors.variances
            variances = variances[np.argsort(spare[variances])]
        moves = [partial(_bounded, model, j) for j in variances]
        moves += [
            partial(_without, model, entry.parameter)
            for entry in model.design.numeric
            if entry.kind == "residual"
        ]

        def value_at(params, modes, resolution):
            return likelihood_at(model, rows, params, modes, seed, resolution)

        ascent, options = self._thinned(ascent, seed, options)
        for move in moves:
            for params in move(ascent.params):
                rough = value_at(params, ascent.modes, rule.few)
                if not rough.value >= ascent.value - rule.hopeless:
                    continue
                there = value_at(params, rough.modes, options["resolution"])
                if not there.value >= ascent.value - rule.worth_a_try:
                    continue
                other = ascend(model, rows, params, seed, ascent.modes, **options)
                by_nodes = options["resolution"].nodes(*ascent.modes.shape) > 0
                loss = rule.at_bound if by_nodes else rule.at_bound_by_draws
                if other.value >= ascent.value - loss:
                    gain = ascent.gain + other.value - ascent.value
                    ascent = other._replace(gain=gain)
                    ascent, options = self._thinned(ascent, seed, options)
                    break
        return ascent, options

    def _thinned(self, ascent, seed, options):
        """Return an ascent and its options with few nodes for variances at bounds."""
        thin = thin_latents(self.model, ascent.params)
        resolution = options["resolution"]._replace(thin=thin)
        if resolution == options["resolution"]:
            return ascent, options
        options = options | {"resolution": resolution}
        if resolution.nodes(*ascent.modes.shape):
            options["least_gain"] = self.rule.least_gain
        params, modes = ascent.params, ascent.modes
        return ascend(self.model, self.rows, params, seed, modes, **options), options

    def _ascend_finely(self, ascent, seed, options):
        """Do Newton steps with more nodes, until these change nothing."""
        model, rows = self.model, self.rows
        n, d = len(rows), model.design.n_latents
        nodes, thin = self.rule.nodes, thin_latents(model, ascent.params)
        n_nodes, differ = nodes.first._replace(thin=thin).nodes(n, d), False
        while n_nodes and (differ or not ascent.by_nodes.within(*nodes.same)):
            n_nodes = nodes.after(n_nodes, max(d - len(thin), 1))
            most = min(nodes.most_of_subject, nodes.most_in_all / n)
            resolution = Resolution.of(n_nodes, d, thin)
            if resolution.n_points(n, d) > most or n_nodes > nodes.most:
                break
            finer = ascend(
                model, rows, ascent.params, seed, ascent.modes, **options,
                resolution=resolution,
            )  # fmt: skip
            if not finer.is_finite:
                break
            errors = [self._standard_errors(there) for there in (ascent, finer)]
            with np.errstate(invalid="ignore", divide="ignore"):
                change = np.abs(errors[1] / errors[0] - 1)
            largest = float(np.nan_to_num(change, posinf=0.0).max(initial=0.0))
            # Whether the data determine the parameters may be a matter of few nodes.
            differ = np.isnan(errors[0]).any() != np.isnan(errors[1]).any()
            shares = [least_share(there.information) for there in (ascent, finer)]
            differ &= max(shares) > self.rule.clear_share
            shift = finer.value - finer.gain - ascent.value
            by_nodes = ByNodes(finer.gain, largest, shift, ascent.information)
            ascent = finer._replace(by_nodes=by_nodes)
        if ascent.by_nodes.within(*nodes.alike):
            return ascent
        return self._ascend_by_draws(ascent, seed)

    def _ascend_by_draws(self, ascent, seed):
        """Do Newton steps with draws, whose noise is known, unlike the error of nodes.

        It moves the estimates by the same share of their standard errors however many
        subjects there are, while the error of nodes adds up.
        """
        model, rows, rule = self.model, self.rows, self.rule
        n_draws = min(rule.nodes.n_draws, rule.nodes.most_draws // len(rows))
        seed, other = np.random.default_rng(seed).integers(2**63, size=2)
        resolution = Resolution.by_draws(n_draws)
        drawn = ascend(
            model, rows, ascent.params, seed, ascent.modes, most_steps=rule.most_steps,
            least_gain=rule.least_rough_gain, resolution=resolution,
        )  # fmt: skip
        if drawn.information is None:  # the likelihood is not finite
            return ascent
        params = drawn.params
        here = likelihood_at(model, rows, params, drawn.modes, other, resolution)
        information, is_held = drawn.information, at_bounds(self.vector, params)
        # The information about variances near their bounds is noise.
        least = rule.nodes.least_share * np.diag(information.complete)
        is_held |= self.vector.is_variance & (np.diag(information.observed) < least)
        covariance = covariance_of(information.observed, is_held)
        errors, loss = noise(model, rows, params, here.draws, covariance)
        by_nodes = ByNodes(loss, float(errors.max(initial=0.0)), 0.0)
        # Noise alone promises as much, on average.
        promise = max(drawn.promise - 2 * loss, 0.0)
        return drawn._replace(promise=promise, by_nodes=by_nodes)

    def _standard_errors(self, ascent):
        """Return standard errors where the last of Newton steps began, or NaN."""
        is_held = at_bounds(self.vector, ascent.params)
        covariance = covariance_of(ascent.information.observed, is_held)
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.diag(covariance))

    def _may_be_better(self, other, ascent):
        """Return whether rough steps may lead to another and better maximum."""
        if not ascent.is_finite:
            return True
        vector = self.vector
        change = np.abs(vector.of(other.params) - vector.of(ascent.params))
        units = vector.units(ascent.params, self.rows.covariates)
        same = (change < self.rule.same * units).all()
        return not same and other.value > ascent.value - self.rule.much_less

    def doubt_of_regression(self, params) -> str:
        """Return doubts about estimates without random effects, empty if none."""
        point = single_point(len(self.rows))
        log_joint = point.log_joint(self.model, self.rows, params)
        louis = louis_information(self.model, self.rows, params, point, log_joint)
        is_held = at_bounds(self.vector, params)
        step = np.nan_to_num(covariance_of(louis.observed, is_held)) @ louis.slope
        promise, value = 0.5 * float(louis.slope @ step), float(log_joint.sum())
        none = np.empty((len(self.rows), 0))
        return self.doubt(Ascent(params, 0.0, value, promise, True, none, louis))

    def doubt(self, ascent) -> str:
        """Return why the end of Newton steps may not be a maximum, empty if it is."""
        if not ascent.is_finite:
            return "The likelihood is not finite at the estimates."
        if is_far_from_zero(self.model, self.rows, ascent.params, self.rule.narrow):
            return (
                "An input hardly varies beside its values, so that rounding hides its "
                "effect: subtract a typical value from inputs whose range is small "
                "beside their values, such as dates."
            )
        if self.model.floors.own_part < self.rule.indistinct:
            design = self.model.design
            random = [design.names[p] for p in design.latents]
            return (
                f"The random effects of {random} are the same to the observations, up "
                "to rounding: subtract a typical value from inputs whose range is "
                "small beside their values, such as dates."
            )
        if not ascent.reliable:
            return "The conditional modes of some subjects were not found."
        if ascent.promise > self.rule.promise:
            return (
                "The estimates are not at a maximum of the likelihood: a Newton step "
                f"would raise its logarithm by about {ascent.promise:.2g}."
            )
        gain, change, *_ = ascent.by_nodes
        if not (np.isnan(gain) or ascent.by_nodes.within(*self.rule.nodes.alike)):
            return (
                "The likelihood of some subjects, whose observations say little of "
                "them, is not integrated exactly: more quadrature nodes, or other "
                f"draws, raise its logarithm by about {gain:.2g} and change a standard "
                f"error by {change:.0%}. Leave random effects out by omega."
            )
        vector = self.vector
        if vector.passes_through(ascent.params):
            return "The likelihood has no maximum: the residual error is at its bound."
        units = vector.units(ascent.params, self.rows.covariates)
        known = np.diag(ascent.information.complete) * units**2
        open_ = (known < self.rule.flat) & ~vector.residual_at_floor(ascent.params)
        flat = np.array(vector.names)[open_].tolist()
        if flat:
            return f"The likelihood does not depend on {flat} at the estimates."
        return self._undetermined(ascent)

    def _undetermined(self, ascent):
        """Return a message on undetermined population values and effects, or ""."""
        vector, open_ = self.vector, np.zeros(len(self.vector), dtype=bool)
        is_held = at_bounds(vector, ascent.params)
        by_differences = not is_quadratic(self.model, self.rows, ascent.params)
        for information in (ascent.information, ascent.by_nodes.information):
            if information is None:
                continue
            open_ |= np.isnan(np.diag(covariance_of(information.observed, is_held)))
            share = self.rule.no_share * np.diag(information.complete)
            open_ |= np.diag(information.observed) <= share
            open_ |= exchanged(vector, information, is_held, by_differences)
        # Variances near their bounds do not count, nor what correlates with them.
        open_[vector.omega] = open_[vector.is_residual] = False
        open_ &= ~vector.at_box(ascent.params)
        unknown = np.array(vector.names)[open_].tolist()
        unknown = unknown or open_directions(self.model, self.rows, vector, ascent)
        if unknown:
            return (
                f"The data do not determine {unknown}: other values of them, together, "
                "give the same likelihood. Leave one of them out or hold it by fixed, "
                "or, if inputs are far from zero for their range, subtract a typical "
                "value from them."
            )
        return ""


def _without(model, j, params):
    """Yield parameters with one of the residual error at its bound."""
    least = model.residual_floors[j]
    if least < 0.9 * params.sigma[j]:
        sigma = params.sigma.copy()
        sigma[j] = least
        yield model.design.with_sigma(params, sigma)


def _bounded(model, j, params):
    """Yield parameters with a variance, and a conditional variance, at its bound."""
    omega = params.omega
    share = np.sqrt(model.floors.variances[j] / omega[j, j])
    if share < 0.9:
        scale = np.where(model.design.tied == j, share, 1.0)
        yield params._replace(omega=omega * scale[:, None] * scale)
    others = np.flatnonzero(model.design.pattern[j])
    if len(others) > 1:
        repaired = repaired_covariance(_singular(omega, j), model.floors)
        yield params._replace(omega=repaired)


def _singular(omega, j):
    """Return the covariance with a conditional variance of zero."""
    rest = np.flatnonzero(np.arange(len(omega)) != j)
    explained = omega[j, rest] @ np.linalg.solve(
        omega[np.ix_(rest, rest)], omega[rest, j]
    )
    singular = omega.copy()
    if explained > 0:
        factor = np.sqrt(omega[j, j] / explained)
        singular[j, rest] *= factor
        singular[rest, j] *= factor
    return singular
