"""Own models whose rows are sparse, have missing values, more axes or own lengths.

Each is fitted beside a model of the same likelihood on rows that every model takes.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.model_selection import cross_val_score

from sktem import StochasticEM
from sktem.models import LatentModel, RandomInterceptModel, check_model

rng = np.random.default_rng(0)
SUBJECTS = rng.normal(2.0, 1.0, size=(300, 1)) + rng.normal(size=(300, 4))
RATES = rng.dirichlet(np.full(40, 0.3), size=2)
COUNTS = np.array([rng.multinomial(30, RATES[k]) for k in rng.integers(2, size=400)])
SOLVERS = [("em", "exact"), ("vrttem", "exact"), ("isaem", "mc"), ("saem", "rwm")]


class Params(NamedTuple):
    mean: float
    variance: float
    noise_variance: float


class Unbalanced(LatentModel):
    """Random intercepts from sums over the observations of a row."""

    def sums(self, X):
        """Return counts, sums and sums of squares of the rows."""
        observed = ~np.isnan(X)
        X = np.where(observed, X, 0.0)
        return observed.sum(axis=1), X.sum(axis=1), (X**2).sum(axis=1)

    def initial_params(self, X, rng):
        count, total, _ = self.sums(X)
        return Params(total.sum() / count.sum(), 1.0, 1.0)

    def mean_statistics(self, X, Z, sample_weight=None):
        (count, total, square), z = self.sums(X), Z[:, 0]
        rest = square - 2 * z * total + count * z**2
        terms = np.column_stack([z, z**2, rest, count])
        return np.average(terms, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return Params(s[0], max(s[1] - s[0] ** 2, 1e-8), s[2] / s[3])

    def moments(self, X, params):
        count, total, _ = self.sums(X)
        precision = 1 / params.variance + count / params.noise_variance
        pull = params.mean / params.variance + total / params.noise_variance
        return pull / precision, 1 / np.sqrt(precision)

    def posterior(self, X, params):
        mean, width = self.moments(X, params)
        return (mean[:, None] + width[:, None] * np.array([-1.0, 1.0]))[:, :, None]

    def draw_posterior(self, X, params, n_draws, rng):
        mean, width = self.moments(X, params)
        noise = rng.standard_normal((len(mean), n_draws, 1))
        return mean[:, None, None] + width[:, None, None] * noise

    def initial_latents(self, X, params, rng):
        return np.full((X.shape[0], 1), params.mean)

    def log_joint(self, X, Z, params):
        (count, total, square), z = self.sums(X), Z[:, 0]
        mean, variance, noise = params
        rest = (square - 2 * z * total + count * z**2) / noise
        prior = (z - mean) ** 2 / variance + np.log(2 * np.pi * variance)
        return -0.5 * (rest + count * np.log(2 * np.pi * noise) + prior)

    def grad_log_joint(self, X, Z, params):
        (count, total, _), z = self.sums(X), Z[:, 0]
        slope = (total - count * z) / params.noise_variance
        return (slope - (z - params.mean) / params.variance)[:, None]

    def log_likelihood(self, X, params):
        mean, width = self.moments(X, params)
        at_mean = self.log_joint(X, mean[:, None], params)
        return at_mean + np.log(width) + 0.5 * np.log(2 * np.pi)


class WithHoles(Unbalanced):
    accepts = frozenset({"nan"})


class Ragged(Unbalanced):
    accepts = frozenset({"ragged"})

    def sums(self, X):
        assert X.dtype == object and X.ndim == 1
        return tuple(
            np.array([f(x) for x in X]) for f in (len, np.sum, lambda x: x @ x)
        )


class Pairs(Unbalanced):
    """Rows are matrices of observations."""

    accepts = frozenset({"3d"})

    def sums(self, X):
        assert X.ndim == 3
        return super().sums(X.reshape(len(X), -1))


class Sparse(Unbalanced):
    accepts = frozenset({"sparse"})

    def sums(self, X):
        dense = X.toarray() if sparse.issparse(X) else X
        return super().sums(dense)


HOLES = np.where(rng.random(SUBJECTS.shape) < 0.3, np.nan, SUBJECTS)
HOLES[:, 0] = SUBJECTS[:, 0]
LISTS = [row[~np.isnan(row)] for row in HOLES]

KINDS = {
    "nan": (WithHoles(), HOLES, WithHoles(), HOLES),
    "ragged": (Ragged(), LISTS, WithHoles(), HOLES),
    "3d": (Pairs(), SUBJECTS.reshape(-1, 2, 2), Unbalanced(), SUBJECTS),
    "sparse matrix": (Sparse(), sparse.csr_matrix(SUBJECTS), Unbalanced(), SUBJECTS),
    "sparse array": (Sparse(), sparse.coo_array(SUBJECTS), Unbalanced(), SUBJECTS),
}


@pytest.mark.parametrize("solver, sampler", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_fits_are_those_of_rows_that_every_model_takes(kind, solver, sampler):
    model, X, plain, same = KINDS[kind]
    options = {"solver": solver, "sampler": sampler, "tol": 0, "max_iter": 4}
    options |= {"random_state": 0}
    if solver in ("vrttem", "isaem"):
        options["batch_size"] = 40
    found = StochasticEM(model, **options).fit(X)
    expected = StochasticEM(plain, **options).fit(same)
    np.testing.assert_allclose(found.params_, expected.params_, rtol=1e-10)
    np.testing.assert_allclose(found.score(X), expected.score(same), rtol=1e-12)
    first, second = list(range(100)), list(range(100, 300))
    for part in (first, second):
        chunk = (
            [X[i] for i in part]
            if kind == "ragged"
            else X.tocsr()[part]
            if ("sparse" in kind)
            else X[part]
        )
        found.partial_fit(chunk)
        expected.partial_fit(same[part])
    np.testing.assert_allclose(found.params_, expected.params_, rtol=1e-10)


def test_weights_and_a_maximum_of_ragged_rows():
    weights = rng.integers(0, 3, size=len(LISTS))
    repeated = [row for row, w in zip(LISTS, weights, strict=True) for _ in range(w)]
    options = {"solver": "em", "tol": 1e-12, "max_iter": 2000}
    found = StochasticEM(Ragged(), **options).fit(LISTS, sample_weight=weights)
    copies = StochasticEM(Ragged(), **options).fit(repeated)
    np.testing.assert_allclose(found.params_, copies.params_, rtol=1e-5)
    best = found.score(repeated)
    for k in range(3):
        for size in (-0.03, 0.03):
            moved = np.array(found.params_)
            moved[k] *= 1 + size
            values = Ragged().log_likelihood(np.array(repeated, object), Params(*moved))
            assert values.mean() < best


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_checked_on_their_own_rows(kind):
    model, X, *_ = KINDS[kind]
    done = check_model(model, X[:60] if kind == "ragged" else X)
    assert {"maximize", "draws", "draws_log_joint", "grad_log_joint"} <= set(done)


@pytest.mark.parametrize("kind", ["nan", "ragged", "sparse matrix"])
def test_cross_validation(kind):
    model, X, *_ = KINDS[kind]
    scores = cross_val_score(StochasticEM(model, solver="em"), X, cv=3)
    assert np.isfinite(scores).all() and scores.std() < 1


def test_others_refuse_them():
    for X in (HOLES, sparse.csr_matrix(SUBJECTS), SUBJECTS.reshape(-1, 2, 2), LISTS):
        with pytest.raises((ValueError, TypeError)):
            StochasticEM(RandomInterceptModel()).fit(X)
    with pytest.raises(ValueError, match="NaN: in row 1"):
        StochasticEM(Ragged()).fit([np.ones(3), np.array([1.0, np.nan])])
    with pytest.raises(ValueError, match="equally many columns"):
        StochasticEM(Ragged()).fit([np.ones((3, 2)), np.ones((3, 1))])
    with pytest.raises(ValueError, match="row 1 of X does not hold numbers"):
        StochasticEM(Ragged()).fit([np.ones(3), ["a"]])
    with pytest.raises(ValueError, match="infinity"):
        StochasticEM(WithHoles()).fit(np.where(np.isnan(HOLES), np.inf, HOLES))


def test_names_of_kinds():
    wrong = type("Wrong", (Unbalanced,), {"accepts": {"NaN"}})
    with pytest.raises(ValueError, match="accepts of Wrong.*'ragged'"):
        StochasticEM(wrong()).fit(SUBJECTS)


def test_tags_are_those_of_the_model():
    def tags(model):
        found = StochasticEM(model).__sklearn_tags__().input_tags
        return found.allow_nan, found.sparse, found.three_d_array

    assert tags(Unbalanced()) == (False, False, False)
    assert tags(WithHoles()) == (True, False, False)
    assert tags(Sparse()) == (False, True, False)
    assert tags(Pairs()) == (False, False, True)


class Topics(LatentModel):
    """A mixture of multinomials on sparse counts."""

    averages_draws = True
    accepts = frozenset({"sparse"})

    def initial_params(self, X, rng):
        return np.full(2, 0.5), rng.dirichlet(np.ones(X.shape[1]), size=2)

    def mean_statistics(self, X, Z, sample_weight=None):
        w = np.ones(len(Z)) if sample_weight is None else sample_weight
        Z = Z * (w / w.sum())[:, None]
        return np.concatenate([Z.sum(axis=0), (X.T @ Z).T.ravel()])

    def maximize(self, s, params):
        rates = np.maximum(s[2:].reshape(2, -1), 1e-12)
        return s[:2], rates / rates.sum(axis=1, keepdims=True)

    def _terms(self, X, params):
        return np.asarray(X @ np.log(params[1]).T) + np.log(params[0])

    def posterior(self, X, params):
        return softmax(self._terms(X, params), axis=1)

    def log_likelihood(self, X, params):
        return logsumexp(self._terms(X, params), axis=1)


def test_topics_of_sparse_counts():
    X = sparse.csr_matrix(COUNTS.astype(float))
    fits = [
        StochasticEM(Topics(), solver=solver, random_state=0, tol=1e-8, **more).fit(X)
        for solver, more in (("em", {}), ("vrttem", {"batch_size": 50}))
    ]
    dense = type("Dense", (Topics,), {"accepts": ()})()
    same = StochasticEM(dense, solver="em", random_state=0, tol=1e-8).fit(COUNTS)
    np.testing.assert_allclose(fits[0].params_[1], same.params_[1], rtol=1e-9)
    np.testing.assert_allclose(fits[0].score(X), fits[1].score(X), atol=1e-6)
    order = np.argsort(fits[0].params_[1][:, 0])
    assert (
        np.abs(fits[0].params_[1][order] - RATES[np.argsort(RATES[:, 0])]).max() < 0.03
    )
