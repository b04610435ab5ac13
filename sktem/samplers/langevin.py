"""Langevin samplers: unadjusted (ULA) and Metropolis-adjusted (MALA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sktem.e_step.chains import ChainState
from sktem.samplers.base import accept_or_reject
from sktem.samplers.markov import MarkovSampler
from sktem.samplers.tuning import check_length, tuned

__all__ = ["MALA", "ULA"]

#: A drift of this many standard deviations of the noise is an explosion.
LARGEST_DRIFT = 100.0

#: Decades below the learned step, at most, of a short move.
DECADES = 3.0

#: Step of ULA where nothing says how long it may be.
DEFAULT_STEP = 0.1

#: Methods behind the preconditioners that have a name.
NEEDS_OF = {"prior": "prior_moments", "curvature": "curvature_scale"}


def _row_sum(values):
    return values.reshape(len(values), -1).sum(axis=1)


def _column(values, ndim):
    return values.reshape((-1,) + (1,) * (ndim - 1))


class Move(NamedTuple):
    """Settings shared by the transitions of one draw.

    Attributes
    ----------
    step : ndarray
        Langevin step, a number or one per coordinate.
    root, square, inverse : callable
        Multiply by L, L L' and the inverse of L, the root of the preconditioner.
    factors : ndarray of shape (n,) or None
        Factors of the step, one for each row.
    """

    step: np.ndarray
    root: Callable
    square: Callable
    inverse: Callable
    factors: np.ndarray | None = None

    def step_of(self, Z):
        """Return the step, for the rows of Z."""
        if self.factors is None:
            return self.step
        return self.step * _column(self.factors, Z.ndim)


class StepScale(NamedTuple):
    """Factor of a given step that has been learned, and from how many draws."""

    scale: float = 1.0
    n_draws: int = 0


class _Langevin(MarkovSampler):
    """Common base: the step, its schedule and the preconditioner."""

    learned = "step"
    moves_reals = True

    def __init__(self, step="auto", n_steps="auto", n_chains=1, preconditioner=None):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.step = step
        self.preconditioner = preconditioner

    def _draw_tuned(self, target, model, X, chains, params, generators):
        """Move with a step that is learned from the acceptance of its proposals."""
        n_steps = int(5 * np.ceil(np.cbrt(np.prod(chains.position.shape[2:]))))

        def drawn(length, units):
            units = units if self.preconditioner is None else 1.0
            move = self._move_by(0.5 * (length * units) ** 2, model, X, params)
            moved, info = self._moved(
                model, X, chains, params, generators, move, n_steps, self.accepts
            )
            biased = np.isfinite(info.bias)
            return moved, info, 1 - info.bias if biased else info.acceptance_rate

        return tuned(target, chains, drawn)

    def _move(self, model, X, params, iteration):
        """Return a move by the given step."""
        return self._move_by(self._step_at(iteration), model, X, params)

    def _step_at(self, iteration):
        return self.step(iteration) if callable(self.step) else self.step

    def _move_by(self, step, model, X, params):
        return Move(check_length("step", step), *self._scaled(model, X, params))

    def _preconditioner_needs(self):
        """Return the methods that a preconditioner given by name asks of the model."""
        preconditioner = self.preconditioner
        return (
            (NEEDS_OF[preconditioner],)
            if isinstance(preconditioner, str) and preconditioner in NEEDS_OF
            else ()
        )

    def _scaled(self, model, X, params):
        """Return functions that multiply by L, L L' and the inverse of L."""
        preconditioner = self.preconditioner
        if preconditioner is None:
            return (lambda v: v), (lambda v: v), (lambda v: v)
        if isinstance(preconditioner, str) and preconditioner == "prior":
            root = model.prior_moments(X, params)[1]
            return _multipliers(root)
        if isinstance(preconditioner, str) and preconditioner == "curvature":
            preconditioner = model.curvature_scale(X, params)
        elif isinstance(preconditioner, str):
            raise ValueError(
                'preconditioner must be None, "prior", "curvature" or a covariance, '
                f"got {preconditioner!r}"
            )
        preconditioner = np.asarray(preconditioner, dtype=float)
        if preconditioner.ndim == 1:
            root = np.sqrt(preconditioner)
            return (
                (lambda v: v * root),
                (lambda v: v * preconditioner),
                (lambda v: v / root),
            )
        return _multipliers(np.linalg.cholesky(preconditioner))


def _multipliers(root):
    square, inverse = root @ root.T, np.linalg.inv(root)
    return (
        (lambda v: v @ root.T),
        (lambda v: v @ square),
        (lambda v: v @ inverse.T),
    )


def _log_reversal(Z, proposed, gradient_proposed, noise, step, move):
    """Return the log-density of the way back less that of the proposal."""
    back = move.inverse(Z - proposed - step * move.square(gradient_proposed))
    return _row_sum(noise**2 / 2 - back**2 / (4 * step))


class ULA(_Langevin):
    """Unadjusted Langevin: a gradient step with noise and no accept-reject step.

    ``z' = z + step * grad log f(x, z) + sqrt(2 step) * noise``. The stationary
    distribution is biased by an amount that shrinks with the step; in exchange the
    chain never freezes.

    There is a safeguard: if the new state of a row is not finite, or the drift from it
    would be more than a hundred standard deviations of the noise, the row keeps its old
    state and takes steps of half the length from then on. The event is counted as
    ``"ula_restored"``.

    The bias can be estimated from the moves: an accept-reject step would reject a share
    ``1 - min(1, r)`` of them. Its mean is the total variation distance between a
    transition and one of :class:`MALA`, and falls as ``step ** 1.5``. For models with
    ``log_joint`` it is measured at the last transition of a draw and recorded as
    ``history_.bias``.

    Parameters
    ----------
    step : float, array-like, callable or "auto", default="auto"
        Langevin step eta: a number, one per coordinate, or a function of the iteration
        index (such as a schedule of :mod:`sktem.schedules`) that returns either.
        (Software that writes the drift with ``h / 2`` has ``h = 2 * step``.) "auto"
        adapts it during the run by vanishing steps, so that an accept-reject step would
        reject one move in fifty; for models without ``log_joint`` it is 0.1.
    n_steps : int or "auto", default="auto"
        Number of transitions per draw; "auto" is 1 for a given step, and a number that
        grows with the dimension of a latent for an adapted one.
    n_chains : int, default=1
        Number of parallel chains per row.
    preconditioner : None, "prior", "curvature" or array-like, default=None
        Matrix Gamma that multiplies the drift, and whose root multiplies the noise: a
        covariance ``(d, d)``; its diagonal ``(d,)``; "prior", the covariance of the
        latents under the current parameters, for models with ``prior_moments``; or
        "curvature", the diagonal returned by the model's ``curvature_scale``.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024, equation (11).

    Examples
    --------
    >>> from sktem.samplers import ULA
    >>> from sktem.schedules import Polynomial
    >>> ULA(step=0.01).requires
    ('initial_latents', 'grad_log_joint')
    >>> ULA(step=Polynomial(alpha=0.3, scale=0.1)).step(1)
    0.1
    """

    accepts = False

    def start(self, model, X, params, rng):
        """Return the model's initial latents, once per chain, and whole steps."""
        Z = super().start(model, X, params, rng)
        return ChainState(Z, {"step_factor": np.ones(Z.shape[:2])})

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions, and learn of the step."""
        if not self.is_learned:
            return super().draw(model, X, chains, params, generators, iteration)
        chains = ChainState.of(chains)
        if callable(getattr(model, "log_joint", None)):
            return self._draw_tuned(0.98, model, X, chains, params, generators)
        move = self._move_by(DEFAULT_STEP, model, X, params)
        return self._moved(model, X, chains, params, generators, move)

    @property
    def requires(self):  # type: ignore[override]
        """Methods that the model must offer."""
        return ("initial_latents", "grad_log_joint", *self._preconditioner_needs())

    def _begin(self, model, X, chain, params):
        factor = chain.tuning.get("step_factor", np.ones(len(chain.position)))
        return *self._start_chain(model, X, chain.position, params), factor, None

    def _start_chain(self, model, X, Z, params):
        with np.errstate(over="ignore", invalid="ignore"):
            return Z, self._gradient(model, X, Z, params)

    def _tuning(self, state):
        return {"step_factor": state[2]}

    def _transition(self, model, X, state, params, generators, move):
        Z, gradient, factor, _ = state
        root, square, inverse = move.root, move.square, move.inverse
        step = move.step * _column(factor, Z.ndim)
        noise = generators.sampling.standard_normal(Z.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            proposed = Z + step * square(gradient) + np.sqrt(2 * step) * root(noise)
            gradient_proposed = model.grad_log_joint(X, proposed, params)
            drift = inverse(step * square(gradient_proposed)) / np.sqrt(2 * step)
            sound = np.isfinite(_row_sum(np.abs(proposed)))
            sound &= (np.abs(drift) < LARGEST_DRIFT).reshape(len(Z), -1).all(axis=1)
        last = (Z, proposed, gradient_proposed, noise, step)
        restored = int(len(Z) - sound.sum())
        if not restored:
            return (proposed, gradient_proposed, factor, last), sound, {}
        mask = _column(sound, Z.ndim)
        state = (
            np.where(mask, proposed, Z),
            np.where(mask, gradient_proposed, gradient),
            np.where(sound, factor, factor / 2),
            last,
        )
        return state, sound, {"ula_restored": restored}

    def _bias(self, model, X, params, state, move):
        if not hasattr(model, "log_joint") or len(state[0]) == 0:
            return float("nan")
        Z, proposed, gradient, noise, step = state[3]
        with np.errstate(over="ignore", invalid="ignore"):
            log_ratio = model.log_joint(X, proposed, params)
            log_ratio = log_ratio - model.log_joint(X, Z, params)
            log_ratio = log_ratio + _log_reversal(
                Z, proposed, gradient, noise, step, move
            )
            accepted = np.exp(np.minimum(log_ratio, 0.0))
        return 1.0 - float(np.mean(np.where(np.isnan(accepted), 0.0, accepted)))


class MALA(_Langevin):
    """Metropolis-adjusted Langevin: ULA's proposal with an accept-reject step.

    Parameters
    ----------
    step : float, array-like, callable or "auto", default="auto"
        Langevin step eta: a number, one per coordinate, or a function of the iteration
        index, as in :class:`ULA`. "auto" adapts it during the run by vanishing steps,
        in proportion to the variances of the latents over the rows (unless there is a
        preconditioner), to the acceptance rate ``target`` among chains that have moved
        before.
    n_steps : int or "auto", default="auto"
        Number of transitions per draw; "auto" is 1 for a given step, and a number that
        grows with the dimension of a latent for one learned by "auto". Steps that are
        learned or adapted are followed by a shorter one, of a random length for each
        row. It frees chains in tails where the density falls so steeply that all usual
        moves are rejected.
    n_chains : int, default=1
        Number of parallel chains per row.
    preconditioner : None, "prior", "curvature" or array-like, default=None
        Matrix that multiplies the drift, and whose root multiplies the noise, as in
        :class:`ULA`.
    adapt : float or None, default=None
        Exponent alpha of the adaptation of a given step: after draw k, its logarithm
        changes by ``k ** -alpha`` times the excess of the acceptance rate over
        ``target``, so that the chains converge. None keeps the given step.
    target : float, default=0.574
        Target acceptance rate of the adaptation; the default is optimal in high
        dimensions (Roberts and Rosenthal 1998).

    References
    ----------
    G. O. Roberts and J. S. Rosenthal, Optimal scaling of discrete approximations to
    Langevin diffusions, Journal of the Royal Statistical Society B, 1998.

    C. Andrieu and J. Thoms, A tutorial on adaptive MCMC, Statistics and Computing,
    2008, algorithm 4.

    Examples
    --------
    >>> from sktem.samplers import MALA
    >>> MALA(step=0.05, n_steps=5)
    MALA(n_steps=5, step=0.05)
    """

    @property
    def requires(self):  # type: ignore[override]
        """Methods that the model must offer."""
        methods = ("initial_latents", "log_joint", "grad_log_joint")
        return (*methods, *self._preconditioner_needs())

    def __init__(
        self,
        step="auto",
        n_steps="auto",
        n_chains=1,
        preconditioner=None,
        adapt=None,
        target=0.574,
    ):
        super().__init__(
            step=step, n_steps=n_steps, n_chains=n_chains, preconditioner=preconditioner
        )
        self.adapt = adapt
        self.target = target

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions, and learn of the step."""
        chains = ChainState.of(chains)
        if self.is_learned:
            return self._draw_tuned(self.target, model, X, chains, params, generators)
        if self.adapt is None:
            return super().draw(model, X, chains, params, generators, iteration)
        scale, n_draws = chains.learned(StepScale)
        step = np.asarray(self._step_at(iteration), dtype=float) * scale
        move = self._move_by(step, model, X, params)
        chains, info = self._moved(
            model, X, chains, params, generators, move, short=True
        )
        if np.isfinite(info.acceptance_rate):
            n_draws += 1
            excess = info.acceptance_rate - self.target
            scale = scale * np.exp(excess * n_draws ** -float(self.adapt))
        return chains._replace(shared=StepScale(scale, n_draws)), info

    def _shortened(self, move, n, generators):
        """Return a move by a step of a random length for each row, on a log scale."""
        factors = 10 ** (-DECADES * generators.acceptance.random(n))
        return move._replace(factors=factors)

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint, gradient = state
        step, root, square = move.step_of(Z), move.root, move.square
        noise = generators.sampling.standard_normal(Z.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            proposed = Z + step * square(gradient) + np.sqrt(2 * step) * root(noise)
            log_proposed = model.log_joint(X, proposed, params)
            gradient_proposed = model.grad_log_joint(X, proposed, params)
            log_ratio = log_proposed - log_joint
            log_ratio = log_ratio + _log_reversal(
                Z, proposed, gradient_proposed, noise, step, move
            )
        Z, accepted = accept_or_reject(Z, proposed, log_ratio, generators.acceptance)
        mask = _column(accepted, Z.ndim)
        state = (
            Z,
            np.where(accepted, log_proposed, log_joint),
            np.where(mask, gradient_proposed, gradient),
        )
        return state, accepted, {}
