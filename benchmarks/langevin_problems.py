"""The problems of ``langevin_stability.py``, with the settings of the authors' code.

Each has ``run(sampler, trial)``, which returns a loss against the maximum-likelihood
solution and the history of the run, and a ``tolerance``, below which losses do not
matter: one unit of log-likelihood of all data, or the noise of the solution itself. The
M-steps are the exact ones of the package.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from shared_data import locate

from sktem import (
    ARDLogisticClassifier,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
)
from sktem.e_step.random import spawn_generators
from sktem.loop.loop import run as run_loop
from sktem.loop.state import RunSettings, RunState
from sktem.models import ARDLogisticModel, RobustPoissonModel
from sktem.models.base import LatentModel
from sktem.regression.ard_logistic_model import ARDLogisticParams, WholeData
from sktem.regression.robust_poisson_model import RobustPoissonParams
from sktem.schedules import Polynomial
from sktem.solvers import FullBatch

__all__ = ["PROBLEMS"]

STEPS = Polynomial(alpha=0.5)
N_TRANSITIONS = 5


def saem(model, X, start, sampler, n_first, n_iterations, seed):
    """Return parameters and history of SAEM with steps ``k ** -0.5``."""
    sampler.warm_up = n_first // N_TRANSITIONS
    settings = RunSettings(
        model=model, sampler=sampler, solver=FullBatch(), step_size=STEPS,
        batch_size=1, sampling="fixed", max_passes=n_iterations, tol=0.0,
        monitor=False,
    )  # fmt: skip
    state = RunState(start, spawn_generators(seed))
    run_loop(settings, X, state)
    return state.params, state.history


class HierarchicalLogistic(LatentModel):
    """Labels by a logistic regression with ``beta_j ~ N(mu, sigma^2)``; one row."""

    def initial_params(self, X, rng):
        """Return mu = 0 and sigma = 1."""
        return np.array([0.0, 1.0])

    def initial_latents(self, X, params, rng):
        """Return standard normal coefficients."""
        return rng.standard_normal((len(X), X.X.shape[1]))

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the coefficients and their squares."""
        return np.array([Z.mean(), (Z**2).mean()])

    def maximize(self, s, params):
        """Return mean and standard deviation."""
        return np.array([s[0], np.sqrt(max(s[1] - s[0] ** 2, 1e-8))])

    def log_joint(self, X, Z, params):
        """Return ``log p(y, beta)``."""
        logits = Z @ X.X.T
        log_likelihood = logits @ X.y - np.logaddexp(0.0, logits).sum(axis=1)
        deviation = (Z - params[0]) / params[1]
        constant = Z.shape[1] * np.log(params[1] * np.sqrt(2 * np.pi))
        return log_likelihood - 0.5 * (deviation**2).sum(axis=1) - constant

    def grad_log_joint(self, X, Z, params):
        """Return the gradient in beta."""
        return (X.y - expit(Z @ X.X.T)) @ X.X - (Z - params[0]) / params[1] ** 2


class SyntheticLogistic:
    """1,000 rows, 100 coefficients of mean 1 and deviation 0.1; new data each trial."""

    name = "synthetic logistic"
    loss = "log-likelihood"
    tolerance = 1.0
    etas = np.geomspace(1e-4, 3e-2, 10)
    samplers = ("ULA", "bare ULA", "MALA")
    trials = 16

    def __init__(self):
        self.model = HierarchicalLogistic()
        normal = np.random.default_rng(0).standard_normal((500, 100))
        self.noise = np.concatenate([normal, -normal])
        self.sets: dict = {}

    def data(self, trial):
        """Return the data of a trial and the maximum of its likelihood."""
        if trial not in self.sets:
            rng = np.random.default_rng([trial, 7])
            U, _, V = np.linalg.svd(
                rng.standard_normal((1000, 100)), full_matrices=False
            )
            X = (U * np.linspace(100, 100 / np.sqrt(1000), 100)) @ V
            beta = 1 + 0.1 * rng.standard_normal(100)
            data = WholeData(X, (rng.random(1000) < expit(X @ beta)).astype(float))
            found = minimize(
                lambda v: -self.log_likelihood(data, [v[0], np.exp(v[1])]),
                [1.0, np.log(0.1)],
                method="Nelder-Mead",
                options={"xatol": 1e-3, "fatol": 1e-3},
            )
            self.sets[trial] = data, -found.fun
        return self.sets[trial]

    def log_likelihood(self, data, params):
        """Return the marginal log-likelihood, by importance draws around the mode."""
        X, (mu, sigma) = data.X, params
        sigma = max(sigma, 1e-3)
        beta, value = np.full(X.shape[1], mu), -np.inf
        objective = self.model.log_joint
        for _ in range(100):
            p = expit(X @ beta)
            H = (X.T * (p * (1 - p))) @ X + np.eye(len(beta)) / sigma**2
            before, value = value, objective(data, beta[None], (mu, sigma))[0]
            if value - before < 1e-8 * abs(value):
                break
            step = np.linalg.solve(
                H, self.model.grad_log_joint(data, beta[None], (mu, sigma))[0]
            )
            size = 1.0
            while (
                objective(data, (beta + size * step)[None], (mu, sigma))[0] < value
                and size > 1e-6
            ):
                size /= 2
            beta = beta + size * step
        root = np.linalg.cholesky(H)
        Z = beta + np.linalg.solve(root.T, self.noise.T).T
        constant = np.log(np.diag(root)).sum() - 0.5 * len(beta) * np.log(2 * np.pi)
        log_proposal = constant - 0.5 * (self.noise**2).sum(axis=1)
        ratio = objective(data, Z, (mu, sigma)) - log_proposal
        return float(logsumexp(ratio) - np.log(len(ratio)))

    def run(self, sampler, trial):
        """Return the loss and the history."""
        data, best = self.data(trial)
        start = np.array([0.0, 1.0])
        params, history = saem(self.model, data, start, sampler, 10, 100, trial)
        return best - self.log_likelihood(data, params), history


class FromZero(RobustPoissonModel):
    """Robust Poisson regression with latents that start near 0."""

    def initial_latents(self, X, params, rng):
        """Return latents of standard deviation 0.1."""
        return 0.1 * rng.standard_normal((len(X), 1))


class Poisson:
    """Robust Poisson regression: the loss is that of the log-likelihood per row."""

    loss = "log-likelihood per row"
    etas = np.geomspace(5e-4, 1e-1, 10)
    samplers = ("ULA", "bare ULA", "MALA", "joint MALA")
    trials = 10

    def __init__(self, name, columns):
        data = pd.read_csv(locate(f"glm/{name}.csv.gz"))
        self.name = f"robust Poisson, {name}"
        X, y = data[columns].to_numpy(float), data.los.to_numpy(float)
        self.model = FromZero()
        self.rows = np.column_stack([y, np.ones(len(X)), X])
        exact = RobustPoissonRegressor(tol=1e-10, max_iter=5000).fit(X, y)
        self.best = self.model.log_likelihood(self.rows, exact.params_).mean()
        self.tolerance = 1 / len(X)

    def run(self, sampler, trial):
        """Return the loss and the history."""
        start = RobustPoissonParams(np.zeros(self.rows.shape[1] - 1), 0.01)
        params, history = saem(self.model, self.rows, start, sampler, 10, 100, trial)
        return self.best - self.model.log_likelihood(self.rows, params).mean(), history


class Study(NonlinearMixedEffectsRegressor):
    """The mixed-effects estimator with a given residual error at the start."""

    sigma_start = 1.0

    def _model_of(self, structure, layout, rows):
        model = super()._model_of(structure, layout, rows)
        model.start = model.start._replace(sigma=np.array([self.sigma_start, 0.0]))
        return model


def oral_gradient(psi, X):
    """Return the derivatives of the one-compartment model."""
    dose, t = X[:, 0], X[:, 1]
    ka, V, CL = psi["ka"], psi["V"], psi["CL"]
    k = CL / V
    ka = np.where(np.abs(ka - k) < 1e-4 * k, 1.0001 * k, ka)  # a removable singularity
    difference = ka - k
    slow, fast = np.exp(-k * t), np.exp(-ka * t)
    f = dose * ka / (V * difference) * (slow - fast)
    by_k = f / difference - dose * ka / (V * difference) * t * slow
    by_ka = f / ka - f / difference + dose * ka / (V * difference) * t * fast
    return {"ka": by_ka, "V": -f / V - by_k * k / V, "CL": by_k / V}


class Theophylline:
    """9 of 12 subjects, others in each trial: loss of log-likelihood per subject.

    The likelihood has two maxima, where absorption is the faster or the slower process;
    the start decides between them, and the loss is against the one on its side.
    """

    loss = "log-likelihood per subject"
    etas = np.geomspace(5e-5, 3e-2, 7)
    samplers = ("ULA", "bare ULA", "MALA", "joint MALA")
    trials = 6
    tolerance = 1 / 9
    n_iterations = 200

    def __init__(self, name, start, deviation, sigma, maximum):
        self.data = pd.read_csv(locate("nlme/saemix_theo.csv.gz"))
        self.name = f"theophylline, {name}"
        self.maximum = dict(zip(("ka", "V", "CL"), maximum, strict=True))
        self.best: dict = {}
        self.start = dict(zip(("ka", "V", "CL"), start, strict=True))
        self.variance, self.sigma = deviation**2, sigma

    def part(self, trial):
        """Return the rows of the subjects of a trial."""
        rng = np.random.default_rng(trial)
        chosen = rng.choice(self.data.Id.unique(), 9, replace=False)
        part = self.data[self.data.Id.isin(chosen)]
        return part[["Dose", "Time"]], part.Concentration, part.Id

    def run(self, sampler, trial):
        """Return the loss and the history."""
        X, y, groups = self.part(trial)
        if trial not in self.best:
            exact = NonlinearMixedEffectsRegressor(
                "one_compartment_oral", tol=0, max_iter=400, random_state=0,
                omega_start=0.3,
                parameters=self.maximum,
            ).fit(X, y, groups=groups)  # fmt: skip
            self.best[trial] = exact.log_likelihood(method="quadrature")
        sampler.warm_up = 100 // N_TRANSITIONS
        study = Study(
            "one_compartment_oral", parameters=self.start, omega_start=self.variance,
            annealing=False, gradient=oral_gradient, sampler=sampler, tol=0,
            step_size=STEPS, max_iter=self.n_iterations,
            n_burn_in=2 * self.n_iterations, random_state=trial,
        )  # fmt: skip
        study.sigma_start = self.sigma
        study.fit(X, y, groups=groups)
        return (self.best[trial] - study.log_likelihood(method="quadrature")) / 9, (
            study.history_
        )


class PriorScaled(ARDLogisticModel):
    """ARD with the authors' start and preconditioner, ``1 / (theta^2 + 0.01)``."""

    def initial_latents(self, X, params, rng):
        """Return an intercept of 0 and standard normal coefficients."""
        Z = rng.standard_normal((len(X), 1 + X.X.shape[1]))
        Z[:, 0] = 0.0
        return Z

    def curvature_scale(self, X, params):
        """Return the diagonal of the preconditioner."""
        return np.append(1.0, params.variances / (1 + 0.01 * params.variances))


class Relevance:
    """ARD logistic regression: relative distance of the prior deviations 1 / theta."""

    loss = "relative distance of 1 / theta"
    etas = np.geomspace(1e-5, 1e-1, 9)[1:]
    samplers = ("ULA", "bare ULA", "MALA")
    trials = 5
    n_iterations = 400

    def __init__(self, name):
        if name == "german credit":
            table = pd.read_csv(locate("glm/german_credit.csv.gz"))
            y = table.pop("bad").to_numpy()
            X = pd.get_dummies(table, drop_first=True).to_numpy(float)
        else:
            file = np.load(locate(f"glm/{name}.npz"))
            X, y = file["X"].astype(float), file["y"]
        if name == "colon":
            X = np.log(X)
        self.name = f"ARD logistic, {name}"
        scale = X.std(axis=0)
        X = X[:, scale > 0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        self.data = WholeData(X, y.astype(float))
        self.model = PriorScaled()
        ends = []
        for seed in (98, 99):
            long = ARDLogisticClassifier(
                max_iter=600, random_state=seed, n_posterior_draws=1
            )
            ends.append(1 / long.fit(X, y).theta_)
        self.best = np.mean(ends, axis=0)
        apart = np.linalg.norm(ends[1] - ends[0]) / np.linalg.norm(self.best)
        self.name += f" (two long runs differ by {apart:.2f})"
        self.tolerance = float(apart)

    def run(self, sampler, trial):
        """Return the loss and the history."""
        sampler.preconditioner = "curvature"
        start = ARDLogisticParams(np.ones(self.data.X.shape[1]))
        params, history = saem(
            self.model, self.data, start, sampler, 100, self.n_iterations, trial
        )
        away = np.sqrt(params.variances) - self.best
        return np.linalg.norm(away) / np.linalg.norm(self.best), history


PROBLEMS = {
    "synthetic": SyntheticLogistic,
    "medpar": lambda: Poisson(
        "medpar", ["hmo", "white", "age80", "type2", "type3"]
    ),
    "azpro": lambda: Poisson("azpro", ["procedure", "sex", "admit", "age75"]),
    "theo-far": lambda: Theophylline(
        "authors' start", (1, 1, 1), 0.1, 2.0, (0.085, 2.0, 2.65)
    ),
    "theo-near": lambda: Theophylline(
        "nearer start", (1, 20, 0.5), 1.0, 1.0, (1.5, 30.0, 2.7)
    ),
    "german": lambda: Relevance("german credit"),
    "colon": lambda: Relevance("colon"),
    "ionosphere": lambda: Relevance("ionosphere"),
}  # fmt: skip
