"""Checks of a user's own emission, before any fit."""

from __future__ import annotations

import numpy as np

from sktem.emissions.base import Emission

__all__ = ["check_emission"]

#: Monte Carlo standard errors beyond which a difference is one.
LIMIT = 5.0


def check_emission(emission, X, *, n_states=2, random_state=0) -> list[str]:
    """Check an emission against the expectations of the models that use it.

    The methods are called on the given rows, and their results are compared. Shapes
    must be those required. Densities of rows with holes are compared with those of the
    marginal, and joint densities with conditional ones (a TypeError says that there are
    none, as for means). Statistics are compared with sums over parts of the rows and
    with multiples of the weights. The M-step must not decrease the likelihood, and no
    parameters from slightly different weights may be more likely where it ends.
    ``project`` is compared with itself, and draws with the likelihood. A few dozen rows
    are enough.

    Parameters
    ----------
    emission : Emission
        The emission.
    X : ndarray of shape (n, d)
        Rows without NaN that the emission can produce.
    n_states : int, default=2
        Number of states.
    random_state : int, default=0
        Seed.

    Returns
    -------
    list of str
        The checks that were done.

    Raises
    ------
    TypeError
        If the emission is not an :class:`Emission`.
    ValueError
        If a check fails, naming the method.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Poisson, check_emission
    >>> X = np.random.default_rng(0).poisson(3.0, size=(50, 2)).astype(float)
    >>> check_emission(Poisson(), X)[:3]
    ['start', 'log_density', 'statistics']
    """
    if not isinstance(emission, Emission):
        raise TypeError(f"emission must be an instance of Emission, got {emission!r}")
    check = _EmissionCheck(emission, np.asarray(X, dtype=np.float64), n_states)
    rng = np.random.default_rng(random_state)
    check.begin(rng)
    done = ["start"]
    for name in (
        "log_density",
        "statistics",
        "maximize",
        "project",
        "marginal",
        "condition",
        "sample",
        "draw",
        "n_parameters",
    ):
        getattr(check, name)(rng)
        done.append(name)
    return done


class _EmissionCheck:
    """Checks of one emission on some rows."""

    def __init__(self, emission, X, n_states):
        self.emission, self.X, self.K = emission, X, n_states
        self.n, self.d = X.shape

    def fail(self, method, what):
        raise ValueError(f"{method} of {type(self.emission).__name__} {what}")

    def close(self, method, returned, expected, what, rtol=1e-8):
        scale = np.abs(expected).max(initial=0.0) + 1e-300
        if np.shape(returned) != np.shape(expected):
            self.fail(method, f"returned shape {np.shape(returned)} {what}")
        if not np.allclose(returned, expected, rtol=rtol, atol=rtol * scale):
            self.fail(method, f"differs {what}")

    def begin(self, rng):
        """Create parameters, and rows with holes."""
        self.emission.check(self.X)
        self.R = rng.dirichlet(np.ones(self.K), size=self.n)
        self.params = self.emission.start(self.X, self.R)
        if not (isinstance(self.params, tuple) and hasattr(self.params, "_fields")):
            self.fail("start", "must return a NamedTuple")
        self.holes = self.X.copy()
        self.holes[rng.random(self.X.shape) < 0.3] = np.nan
        self.holes[:2] = np.nan

    def log_density(self, rng):
        """Check shapes, and that a row of which nothing is observed has density 1."""
        for X in (self.X, self.holes):
            values = self.emission.log_density(X, self.params)
            if np.shape(values) != (self.n, self.K):
                self.fail(
                    "log_density",
                    f"must return the shape (n, K) = {(self.n, self.K)}, got "
                    f"{np.shape(values)}",
                )
            if np.isnan(values).any():
                self.fail("log_density", "returned NaN")
        if np.abs(values[:2]).max() > 1e-9:
            self.fail("log_density", "is not 0 for a row of which nothing is observed")

    def statistics(self, rng):
        """Check that statistics are sums over rows, linear in the weights."""
        sums = self.emission.statistics
        for X in (self.X, self.holes):
            s = sums(X, self.R, self.params)
            if np.ndim(s) != 1 or np.asarray(s).dtype != np.float64:
                self.fail("statistics", "must return a vector of float64")
            if np.isnan(s).any():
                self.fail("statistics", "returned NaN")
            parts = sums(X[::2], self.R[::2], self.params) + sums(
                X[1::2], self.R[1::2], self.params
            )
            self.close("statistics", parts, s, "from the sum over two halves")
            both = sums(X, 3 * self.R, self.params)
            self.close("statistics", both, 3 * s, "with weights that are multiplied")
        none = np.full((3, self.d), np.nan)
        s = sums(none, self.R[:3], self.params)
        if np.abs(s).max() > 0:
            self.fail("statistics", "counts rows of which nothing is observed")

    def likelihood(self, X, params):
        return float((self.R * self.emission.log_density(X, params)).sum())

    def maximize(self, rng):
        """Check that the likelihood rises, to a maximum, whatever the scale."""
        for X in (self.X, self.holes):
            params = self.params
            slack = 1e-8 * (1 + abs(self.likelihood(X, params)))
            for _ in range(500):
                before = self.likelihood(X, params)
                s = self.emission.statistics(X, self.R, params)
                params = self.emission.maximize(s, params)
                gain = self.likelihood(X, params) - before
                if gain < -slack:
                    self.fail("maximize", f"decreases the likelihood by {-gain:.3g}")
                if gain < 1e-3 * slack:
                    break
            top = self.likelihood(X, params)
            for size in (0.1, 0.01):
                for _ in range(10):
                    noise = np.exp(size * rng.standard_normal(self.R.shape))
                    s = self.emission.statistics(X, self.R * noise, params)
                    near = self.likelihood(X, self.emission.maximize(s, params))
                    if near > top + 100 * slack:
                        self.fail(
                            "maximize",
                            "is not at the maximum: parameters of other weights have a "
                            f"log-likelihood of {near:.10g}, its own have {top:.10g}",
                        )
        s = self.emission.statistics(self.X, self.R, self.params)
        densities = [
            self.emission.log_density(
                self.X, self.emission.maximize(scale * s, self.params)
            )
            for scale in (1.0, 1.0 / self.n)
        ]
        raw, mean = densities
        self.close("maximize", raw, mean, "for statistics that are multiplied", 1e-6)

    def project(self, rng):
        """Check that statistics of data stay, and that results stay."""
        s = self.emission.statistics(self.X, self.R, self.params)
        same, left = self.emission.project(s, self.params)
        if left or not np.allclose(same, s, rtol=1e-9, atol=0):
            self.fail("project", "changes statistics that come from data")
        for size in (-30.0, -3.0, 3.0):
            other = rng.dirichlet(np.ones(self.K), size=self.n)
            step = size * (self.emission.statistics(self.X, other, self.params) - s)
            inside, _ = self.emission.project(s + step, self.params)
            again, _ = self.emission.project(inside, self.params)
            self.close("project", again, inside, "from its own result", 1e-6)
            params = self.emission.maximize(inside, self.params)
            if np.isnan(self.emission.log_density(self.X, params)).any():
                self.fail("maximize", "gives NaN for statistics from project")

    def marginal(self, rng):
        """Check densities of some columns against those of rows with holes."""
        for column in range(self.d if self.d > 1 else 0):
            columns = np.delete(np.arange(self.d), column)
            X = self.X.copy()
            X[:, column] = np.nan
            returned = self.emission.log_density(
                X[:, columns], self.emission.marginal(self.params, columns)
            )
            expected = self.emission.log_density(X, self.params)
            self.close("marginal", returned, expected, "from rows with holes")

    def condition(self, rng):
        """Check densities given a column: those of the joint over the marginal."""
        X, params = self.X[:5], self.params
        for column in range(self.d if self.d > 1 else 0):
            known, others = np.array([column]), np.delete(np.arange(self.d), column)
            alone = X.copy()
            alone[:, others] = np.nan
            expected = self.emission.log_density(X, params)
            expected = expected - self.emission.log_density(alone, params)
            for row in range(len(X)):
                try:
                    emission, conditional = self.emission.condition(
                        params, known, X[row, known], others
                    )
                except TypeError:
                    return
                values = emission.log_density(X[row : row + 1, others], conditional)[0]
                self.close("condition", values, expected[row], "from joint / marginal")

    def sample(self, rng):
        """Check that no other parameters are likelier for draws, beyond chance."""
        states = np.repeat(np.arange(self.K), 2000)
        X = self.emission.sample(self.params, states, rng)
        if np.shape(X) != (len(states), self.d):
            self.fail("sample", f"returned shape {np.shape(X)}")
        self.emission.check(X)
        R, params = np.eye(self.K)[states], self.params
        for _ in range(50):
            params = self.emission.maximize(
                self.emission.statistics(X, R, params), params
            )
        gains = self.emission.log_density(X, params) - self.emission.log_density(
            X, self.params
        )
        gain = 2 * float((R * gains).sum())
        free = self.emission.n_parameters(self.K, self.d, self.params)
        # Wilks: a chi-square variable.
        if gain > free + LIMIT * np.sqrt(2 * free) + 10:
            self.fail(
                "sample",
                f"has draws for which other parameters are likelier by {gain / 2:.3g}",
            )

    def draw(self, rng):
        """Check that holes of rows are filled and observed values kept."""
        states = rng.integers(self.K, size=self.n)
        arguments = {
            "draw": (states, self.params, rng),
            "expected": (self.R, self.params),
            "mode": (self.R, self.params),
        }
        for name, rest in arguments.items():
            try:
                filled = getattr(self.emission, name)(self.holes, *rest)
            except TypeError:
                if name == "draw":
                    raise
                continue  # there are no means
            if np.shape(filled) != self.X.shape or np.isnan(filled).any():
                self.fail(name, "must return rows without NaN")
            observed = ~np.isnan(self.holes)
            if (filled[observed] != self.X[observed]).any():
                self.fail(name, "changes what is observed")

    def n_parameters(self, rng):
        """Check that the number of parameters is a whole number."""
        count = self.emission.n_parameters(self.K, self.d, self.params)
        if not (isinstance(count, (int, np.integer)) and count >= 0):
            self.fail("n_parameters", f"must return an integer, got {count!r}")
        try:
            free = self.emission.free_directions(self.params, self.params, self.X)
            n_free = sum(1 for _ in free)
        except NotImplementedError:
            return
        if n_free > count:
            self.fail("n_parameters", f"is {count}, and {n_free} directions are free")
