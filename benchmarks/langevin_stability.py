"""Langevin steps: how far ULA and MALA can go, on four problems.

After Gruffaz, Kim, Durmus and Gardner (2024): SAEM with 5 transitions per iteration,
one chain and steps k ** -0.5, over a grid of Langevin steps eta (their h
is 2 eta). The quality is the distance to the maximum-likelihood solution, by quadrature
or a long run with a random walk: the mean difference in log-likelihood per observation
on the training data where that is at hand, else the distance of the parameters. Shown
are median and range over trials, MALA's acceptance, and how often ULA's guard acted.

Usage: ``python benchmarks/langevin_stability.py [--trials 3] [--problems ...]``
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from machine import describe
from shared_data import locate

from sktem import (
    ARDLogisticClassifier,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
)
from sktem.samplers import MALA, ULA
from sktem.schedules import Polynomial

STEPS = Polynomial(alpha=0.5)


class Poisson:
    """Robust Poisson regression: loss of log-likelihood per row."""

    etas = np.geomspace(1e-3, 1e-1, 7)

    def __init__(self, name, columns):
        data = pd.read_csv(locate(f"glm/{name}.csv.gz"))
        self.X, self.y = data[columns].to_numpy(float), data.los.to_numpy(float)
        best = RobustPoissonRegressor(tol=1e-9, max_iter=2000).fit(self.X, self.y)
        self.best = best.log_likelihood(self.X, self.y).mean()

    def run(self, sampler, seed):
        fit = RobustPoissonRegressor(
            sampler=sampler, step_size=STEPS, max_iter=100, tol=0, random_state=seed
        ).fit(self.X, self.y)
        loss = self.best - fit.log_likelihood(self.X, self.y).mean()
        return loss, fit.history_


class Theophylline:
    """Pharmacokinetics of 9 of 12 subjects: loss of log-likelihood per subject."""

    etas = np.geomspace(1e-4, 1e-1, 7)

    def __init__(self):
        self.data = pd.read_csv(locate("nlme/saemix_theo.csv.gz"))
        self.best = {}

    def fit(self, seed, **options):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(self.data.Id.unique(), 9, replace=False)
        part = self.data[self.data.Id.isin(chosen)]
        return NonlinearMixedEffectsRegressor(
            "one_compartment_oral", parameters={"ka": 1.0, "V": 20.0, "CL": 0.5},
            annealing=False, random_state=seed, tol=0, **options,
        ).fit(part[["Dose", "Time"]], part.Concentration, groups=part.Id)  # fmt: skip

    def run(self, sampler, seed):
        if seed not in self.best:
            self.best[seed] = self.fit(seed, max_iter=400).log_likelihood("quadrature")
        fit = self.fit(seed, sampler=sampler, step_size=STEPS, max_iter=300)
        loss = (self.best[seed] - fit.log_likelihood("quadrature")) / 9
        return loss, fit.history_


class Relevance:
    """ARD logistic regression: distance of log theta to a long run with MALA."""

    etas = np.geomspace(1e-5, 1e-1, 7)

    def __init__(self, name):
        if name == "german":
            data = pd.read_csv(locate("glm/german_credit.csv.gz"))
            X = data.select_dtypes("number").drop(columns="bad").to_numpy(float)
            self.X, self.y = X, data.bad.to_numpy()
        else:
            data = np.load(locate("glm/ionosphere.npz"))
            self.X, self.y = data["X"].astype(float), data["y"]
        long = ARDLogisticClassifier(max_iter=1500, random_state=99)
        self.best = 1 / long.fit(self.X, self.y).theta_

    def run(self, sampler, seed):
        fit = ARDLogisticClassifier(
            sampler=sampler, step_size=STEPS, max_iter=300, random_state=seed,
            n_posterior_draws=10,
        ).fit(self.X, self.y)  # fmt: skip
        difference = 1 / fit.theta_ - self.best
        return float(np.sqrt(np.mean(difference**2))), fit.history_


PROBLEMS = {
    "robust Poisson, medpar": lambda: Poisson(
        "medpar", ["hmo", "white", "age80", "type2", "type3"]
    ),
    "robust Poisson, azpro": lambda: Poisson(
        "azpro", ["procedure", "sex", "admit", "age75"]
    ),
    "theophylline, 9 subjects": Theophylline,
    "ARD logistic, german credit": lambda: Relevance("german"),
    "ARD logistic, ionosphere": lambda: Relevance("ionosphere"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--problems", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    print(f"\nLoss against the maximum: median [least, largest] of {options.trials} "
          "trials")  # fmt: skip
    for name, make in PROBLEMS.items():
        if options.problems not in name:
            continue
        problem = make()
        print(f"\n{name}")
        head = f"{'eta':>10s}{'ULA':>32s}{'restored':>10s}{'MALA':>32s}"
        print(head + f"{'accepted':>10s}")
        for eta in problem.etas:
            line = f"{eta:10.2g}"
            for kind in (ULA, MALA):
                runs = [
                    problem.run(kind(step=eta, n_steps=5), seed)
                    for seed in range(options.trials)
                ]
                loss = np.array([run[0] for run in runs])
                middle = f"{np.median(loss):.3g} [{loss.min():.3g}, {loss.max():.3g}]"
                line += f"{middle:>32s}"
                if kind is ULA:
                    count = np.mean([r[1].events["ula_restored"] for r in runs])
                    line += f"{count:10.0f}"
                else:
                    rates = [np.mean(r[1].acceptance_rate[-20:]) for r in runs]
                    line += f"{np.mean(rates):10.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
