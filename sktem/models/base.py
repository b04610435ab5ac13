"""The contract between a complete-data model and the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sktem.rows import repeat_rows
from sktem.rows.base import can_repeat

__all__ = ["KINDS_OF_ROWS", "LatentModel", "average_statistics"]

#: Rows that a model may accept beyond dense matrices of finite numbers.
KINDS_OF_ROWS = ("nan", "sparse", "3d", "ragged")


class LatentModel(BaseEstimator, ABC):
    """A latent-variable model in the curved exponential family.

    Write a subclass with the three abstract methods; every solver whose requirements
    are met can then fit it. The other methods determine which samplers work with it:

    =============================================  =================================
    method                                         needed by
    =============================================  =================================
    ``posterior(X, params) -> Z``                  sampler ``"exact"``
    ``draw_posterior(X, params, n_draws, rng)``    sampler ``"mc"``
    ``initial_latents(X, params, rng) -> Z``       Markov samplers
    ``log_joint(X, Z, params) -> (n,)``            ``"rwm"``, ``"mala"``
    ``grad_log_joint(X, Z, params) -> like Z``     ``"ula"``, ``"mala"``
    ``log_likelihood(X, params) -> (n,)``          scores, convergence checks
    ``expected_statistics(X, params, weight)``     optional: E-step and statistics in
                                                   one go, ``(s, mean log-likelihood)``
    ``prepared(X, params)``                        rows in memory as passes of
                                                   ``expected_statistics`` read them;
                                                   default: as they are
    ``project(s) -> (s, left)``                    back into the feasible set; default:
                                                   everything is feasible
    ``penalty(params) -> float``                   r(theta) of the objective; default: 0
    ``degeneracies(params) -> int``                parts that were floored; default: 0
    ``annotate(Z, params) -> Z``                   the latents, with those parts of the
                                                   visit the statistics need; default:
                                                   nothing
    ``to_vector(params) -> (p,)``                  optional: free parameters, where not
    ``from_vector(vector, params)``                all entries are, for standard errors
    ``prior_moments(X, params)``                   optional: means (n, d) and Cholesky
                                                   factor (d, d) of a Gaussian prior,
                                                   for ``ComponentWalk`` and
                                                   ``preconditioner="prior"``
    =============================================  =================================

    A model does not depend on step sizes, batches or Markov chains. It holds settings
    only: learned values are in ``params``, which can be any object that can be pickled.

    Attributes
    ----------
    averages_draws : bool
        How several latents per row are represented. False (default): ``posterior``
        and ``draw_posterior`` return an array ``(n, n_draws, ...)`` whose second axis
        is averaged over with equal weights. True, for models whose statistics are
        linear in Z: they return one ``Z`` of shape ``(n, ...)`` that stands for the
        average itself (posterior probabilities, counts of draws).
    completes_rows : bool
        Whether statistics depend not only on the latents but also on the parameters at
        the time a row is visited, as when missing values are completed. If True,
        :meth:`mean_statistics` gets these parameters as a fourth argument, and solvers
        that remember rows remember them too. Only with ``averages_draws``.
    accepts : set of str
        Which rows the model accepts other than those of a dense matrix of finite
        numbers. "nan": NaN, for missing values. "sparse": a SciPy CSR matrix or array,
        which is passed to the model as such. "3d": an array of more than two axes.
        "ragged": a list of arrays of different lengths, one for each row; the model
        gets an array of objects, of shape ``(n,)``, whose entries are the arrays.
        Default: none of these.
    reads_blocks : bool
        Whether ``expected_statistics`` accepts rows that do not fit in memory as they
        are and reads them by their method ``blocks``. If False (default), it gets one
        block at a time.

    See Also
    --------
    sktem.models.RandomInterceptModel : A small, complete model.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, equations
    (2) to (4).
    """

    averages_draws: bool = False
    accepts: Collection[str] = frozenset()
    reads_blocks: bool = False

    @abstractmethod
    def initial_params(self, X, rng: np.random.Generator) -> Any:
        """Return starting parameters.

        Parameters
        ----------
        X : array-like
            The data, one row per sample.
        rng : numpy.random.Generator
            The generator of the initialisation.

        Returns
        -------
        object
            Parameters of the model.
        """

    @abstractmethod
    def mean_statistics(self, X, Z, sample_weight=None) -> np.ndarray:
        """Average the sufficient statistics over the given rows.

        Parameters
        ----------
        X : array-like
            Rows of the data.
        Z : ndarray of shape (n, ...)
            One latent per row.
        sample_weight : ndarray of shape (n,) or None, default=None
            Weights of the average.

        Returns
        -------
        ndarray of shape (n_statistics,)
            ``sum_i w_i S(x_i, z_i) / sum_i w_i`` in float64.
        """

    @abstractmethod
    def maximize(self, s: np.ndarray, params: Any) -> Any:
        """Do the M-step.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Averaged statistics.
        params : object
            The current parameters, for those that the statistics do not determine.

        Returns
        -------
        object
            New parameters ``theta_bar(s)``, equation (4) of Karimi and Li.
        """

    def project(self, s: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return statistics to the feasible set; here all are feasible.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Averaged statistics, which may be the result of a difference.

        Returns
        -------
        s : ndarray of shape (n_statistics,)
            Feasible statistics.
        left : bool
            Whether the given statistics were infeasible.
        """
        return s, False

    def penalty(self, params: Any) -> float:
        """Return the penalty r(theta), subtracted from the log-likelihood; here 0.

        Parameters
        ----------
        params : object
            Parameters.

        Returns
        -------
        float
            The penalty, per row.
        """
        return 0.0

    def degeneracies(self, params: Any) -> int:
        """Return how many parts of an M-step had to be floored; here none.

        Parameters
        ----------
        params : object
            Parameters from :meth:`maximize`.

        Returns
        -------
        int
            The count.
        """
        return 0

    def shares(self, params: Any) -> list[np.ndarray]:
        """Return tables of probabilities that EM may leave near zero; here none.

        Parameters
        ----------
        params : object
            Parameters.

        Returns
        -------
        list of ndarray of shape (..., n_categories)
            Probabilities, whose sums over the last axis are 1.
        """
        return []

    def with_shares(self, params: Any, shares: list[np.ndarray]) -> Any:
        """Return parameters with the probabilities of :meth:`shares` replaced.

        Parameters
        ----------
        params : object
            Parameters.
        shares : list of ndarray
            Tables of the same shapes.

        Returns
        -------
        object
            Parameters.
        """
        return params

    def prepared(self, X, params: Any) -> Any:
        """Return rows in memory as passes of ``expected_statistics`` read them.

        Parameters
        ----------
        X : array-like
            All rows of a fit.
        params : object
            Parameters of the first pass.

        Returns
        -------
        object
            Passed to ``expected_statistics``; here the rows themselves.
        """
        return X

    @property
    def completes_rows(self) -> bool:
        """Whether statistics depend on the parameters at the visit; here not."""
        return False

    def annotate(self, Z: np.ndarray, params: Any) -> np.ndarray:
        """Add further results of a visit that the statistics need; here none.

        Parameters
        ----------
        Z : ndarray
            Latents that were drawn.
        params : object
            Parameters at which they were drawn.

        Returns
        -------
        ndarray
            Annotated latents, which are remembered and passed to
            :meth:`mean_statistics`.
        """
        return Z


def average_statistics(
    model: LatentModel, X, Z, sample_weight=None, params: Any = None
) -> np.ndarray:
    """Average the statistics over rows and, where there are several, over draws.

    The parameters are those of the visit, for models that complete rows.
    """
    if model.completes_rows:
        completing: Any = model
        return completing.mean_statistics(X, Z, sample_weight, params)
    if model.averages_draws:
        return model.mean_statistics(X, Z, sample_weight)
    n_draws = Z.shape[1]
    if can_repeat(X):
        weights = None if sample_weight is None else np.repeat(sample_weight, n_draws)
        return model.mean_statistics(
            repeat_rows(X, n_draws), Z.reshape(-1, *Z.shape[2:]), weights
        )
    total = model.mean_statistics(X, Z[:, 0], sample_weight)
    for m in range(1, n_draws):
        total = total + model.mean_statistics(X, Z[:, m], sample_weight)
    return total / n_draws
