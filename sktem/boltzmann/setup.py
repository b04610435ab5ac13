"""From the parameters of a Boltzmann machine to a model and the settings of a run."""

from __future__ import annotations

import functools
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from sktem.boltzmann.arrays import NUMPY, arrays_of, input_arrays
from sktem.boltzmann.e_steps import (
    ExactPosterior,
    GibbsPosterior,
    HybridPosterior,
    MeanFieldPosterior,
)
from sktem.boltzmann.graph_machine import GraphMachine
from sktem.boltzmann.layered_machine import LayeredMachine
from sktem.boltzmann.solvers import CONTRASTIVE_SOLVERS, StepRule
from sktem.boltzmann.state import ContrastiveSettings
from sktem.choices import check_choice
from sktem.graphs import as_graph

__all__ = ["BoltzmannSetup", "one_blas_thread"]

E_STEPS = ("auto", "exact", "gibbs", "mean_field")
#: Parameters that are positive integers.
COUNTS = ("n_chains", "n_chains_e", "n_gibbs_e", "n_gibbs_m", "n_mean_field",
          "batch_size")  # fmt: skip

#: Defaults of the steps: a_t where posterior draws are averaged, and b_t, which is
#: adapted, over the root of the largest number of neighbours of a unit.
STEP_SIZE_E = (1.0, 0.05)
STEP_SIZE_M = (0.28, 0.0028)
#: Share of the past in the average of the gradient, with adapted steps.
ADAPTED_MOMENTUM = 0.9
#: Updates that max_iter="auto" allows: at least, at most, and times parameters between.
#: The most is half of it for the smallest machines, which need fewer.
FEWEST_UPDATES = 3500
MOST_UPDATES = 16000
UPDATES_PER_PARAMETER = 160
UPDATES_TIMES_PARAMETERS = 7.2e8


@functools.cache
def _controller():
    return ThreadpoolController()


def one_blas_thread(method):
    """Hold BLAS to one thread in a method: on shared cores its threads get in the way.

    Parameters
    ----------
    method : callable
        The method.

    Returns
    -------
    callable
        The method, wrapped.
    """

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        with _controller().limit(limits=1, user_api="blas"):
            return method(*args, **kwargs)

    return wrapped


class BoltzmannSetup:
    """Checks of parameters and data, and what is built from them."""

    def _check_parameters(self):
        for name in COUNTS:
            self._check_number(name, Integral, 1)
        if not (isinstance(self.max_iter, str) and self.max_iter == "auto"):
            self._check_number("max_iter", Integral, 0)
        if self.tol is not None:
            self._check_number("tol", Real, 0)
        self._check_number("pretrain", Integral, 0)
        self._check_number("weight_decay", Real, 0)
        if not (isinstance(self.momentum, str) and self.momentum == "auto"):
            self._check_number("momentum", Real, 0)
            if self.momentum >= 1:
                raise ValueError(f"momentum must be below 1, got {self.momentum!r}")
        self._check_number("variance_floor", Real, 0, strict=True)
        if self.variance_floor > 1:
            raise ValueError(
                f"variance_floor must be in (0, 1], got {self.variance_floor!r}"
            )
        if self.binarize is not None and self.binarize != "sample":
            threshold = isinstance(self.binarize, Real)
            if not threshold or isinstance(self.binarize, (bool, np.bool_)):
                raise ValueError(
                    "binarize must be None, 'sample' or a threshold, got "
                    f"{self.binarize!r}"
                )
        check_choice("visible", self.visible, ("binary", "gaussian"))
        check_choice("solver", self.solver, CONTRASTIVE_SOLVERS)
        check_choice("e_step", self.e_step, E_STEPS)
        if not isinstance(self.centering, (bool, np.bool_)):
            raise ValueError(f"centering must be a bool, got {self.centering!r}")
        if self.graph is not None and self.hidden_layer_sizes is not None:
            raise ValueError("give either graph or hidden_layer_sizes, not both")
        if self.graph is None and self.hidden is not None:
            number = isinstance(self.hidden, (Integral, tuple))
            meant = f"did you mean hidden_layer_sizes={self.hidden!r}?"
            raise ValueError(
                "hidden says which units of graph are hidden: "
                + (meant if number else "give graph")
            )
        if self.visible == "gaussian":
            if self.graph is not None:
                raise ValueError("visible='gaussian' needs layers, not a graph")
            if self.binarize is not None:
                raise ValueError("binarize needs visible='binary'")

    def _check_number(self, name, kind, low, *, strict=False):
        value = getattr(self, name)
        right = isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
        right = right and np.isfinite(value) and value >= low
        right = right and not (strict and value == low)
        if not right:
            what = "an integer" if kind is Integral else "a number"
            raise ValueError(
                f"{name} must be {what} {'>' if strict else '>='} {low}, got {value!r}"
            )

    def _validate(self, X, *, reset, method="fit", allow_nan=True):
        """Return what a method got as X, checked; float32 and float64 stay."""
        binary = self.visible == "binary"
        arrays = input_arrays(X)
        if not arrays.is_numpy and self.graph is not None:
            raise ValueError(
                "machines on a graph work on NumPy arrays only, got X as an array of "
                f"{arrays.xp.__name__}: give hidden_layer_sizes in place of graph, or "
                "X as a NumPy array"
            )
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr" if binary else False,
            dtype=[arrays.xp.float64, arrays.xp.float32],
            order="C" if arrays.is_numpy else None,
            ensure_all_finite="allow-nan" if allow_nan else True,
        )
        if not reset:
            self._check_arrays(X, method)
        if not binary:
            return X
        if isinstance(self.binarize, Real):
            return self._above(X, float(self.binarize))
        return self._in_range(X)

    def _above(self, X, threshold):
        """Return 1 where values are above a threshold and 0 elsewhere, NaN as it is."""
        if not sparse.issparse(X):
            xp = arrays_of(X).xp
            above = arrays_of(X).astype(X > threshold, X.dtype)
            return xp.where(xp.isnan(X), X, above)
        if threshold < 0:
            raise ValueError("binarize must be >= 0 for a sparse X")
        X = X.copy()
        X.data = (X.data > threshold).astype(X.dtype)
        X.eliminate_zeros()
        return X

    def _check_arrays(self, X, method):
        """Raise if X is not of the namespace and on the device of the fit."""
        fitted = arrays_of(self.params_)
        given = fitted if sparse.issparse(X) else arrays_of(X)
        same = (fitted.xp, fitted.device) == (given.xp, given.device)
        if not same or (sparse.issparse(X) and not fitted.is_numpy):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same "
                "namespace and the same device as those passed to fit(), which were "
                f"{fitted.xp.__name__} and {fitted.device}; got {type(X).__name__} of "
                f"{given.xp.__name__} and {given.device}. Arrays other than NumPy's "
                "need sklearn.config_context(array_api_dispatch=True)."
            )

    def _in_range(self, X):
        """Return values of binary units, checked to be in [0, 1]."""
        values = X.data if sparse.issparse(X) else X
        if sparse.issparse(X) and np.isnan(values).any():
            raise ValueError("a sparse X must not contain NaN")
        if 0 not in values.shape:
            xp = arrays_of(values).xp
            # Where a value is not observed, one that is in range.
            seen = xp.where(xp.isnan(values), xp.full_like(values, 0.5), values)
            low, high = float(xp.min(seen)), float(xp.max(seen))
            if low < 0 or high > 1:
                raise ValueError(
                    "X must be in [0, 1] for visible='binary', got values from "
                    f"{low:g} to {high:g}. {self._advice(values, low, high)}"
                )
        return X

    def _advice(self, values, low, high):
        """Return what to do about values that are out of range."""
        xp = arrays_of(values).xp
        if low == -1 and high == 1 and bool(xp.all(xp.abs(values) == 1)):
            return "For units in {-1, 1}, pass (X + 1) / 2."
        return (
            "Scale it, in a pipeline by MinMaxScaler(clip=True), which also bounds "
            "values that are outside of the training data; or set a threshold by "
            "binarize; or use visible='gaussian'."
        )

    def _new_model(self, n_features, arrays=NUMPY):
        """Return the model for data of so many columns, arrays of a namespace."""
        if self.graph is None:
            sizes = self._layer_sizes()
            return LayeredMachine(
                (n_features, *sizes),
                self.visible == "gaussian",
                self.n_jobs,
                float(self.variance_floor),
                eliminates=arrays.is_numpy,
            )
        graph = as_graph(self.graph)
        hidden = self._hidden_units(graph.n_units)
        if len(hidden) == graph.n_units:
            raise ValueError("all units are hidden: at least one has to be visible")
        if graph.n_units - len(hidden) != n_features:
            raise ValueError(
                f"graph has {graph.n_units - len(hidden)} visible units "
                f"({graph.n_units} less {len(hidden)} hidden), but X has {n_features} "
                "features"
            )
        return GraphMachine(graph, hidden, self.n_jobs)

    def _layer_sizes(self):
        sizes = (100,) if self.hidden_layer_sizes is None else self.hidden_layer_sizes
        sizes = (sizes,) if isinstance(sizes, Integral) else tuple(sizes)
        wrong = [s for s in sizes if not isinstance(s, Integral) or s < 1]
        if not sizes or wrong:
            raise ValueError(
                "hidden_layer_sizes must be one or more positive integers, got "
                f"{self.hidden_layer_sizes!r}"
            )
        return tuple(int(size) for size in sizes)

    def _hidden_units(self, n_units):
        """Return the numbers of the hidden units, increasing."""
        if self.hidden is None:
            return np.array([], np.int64)
        hidden = np.asarray(self.hidden)
        if hidden.dtype == bool:
            if hidden.shape != (n_units,):
                raise ValueError(
                    f"hidden as a mask must have shape ({n_units},), got {hidden.shape}"
                )
            return np.flatnonzero(hidden)
        if hidden.ndim != 1 or (hidden.size and hidden.dtype.kind not in "iu"):
            raise ValueError("hidden must be a mask or numbers of units")
        unique = np.unique(hidden).astype(np.int64)
        inside = not hidden.size or (unique[0] >= 0 and unique[-1] < n_units)
        if len(unique) != len(hidden) or not inside:
            raise ValueError(
                f"hidden must name each hidden unit once, from 0 to {n_units - 1}"
            )
        return unique

    def _posterior(self, model, missing):
        """Return the expectations of the E-step."""
        solver = CONTRASTIVE_SOLVERS[self.solver]
        gibbs = GibbsPosterior(self.n_gibbs_e, self.rao_blackwell)
        mean_field = MeanFieldPosterior(self.n_mean_field)
        exact = model.has_exact_posterior and not missing
        if solver.e_step == "hybrid":
            if self.e_step != "auto":
                raise ValueError(
                    "solver='hapcd' goes from mean field to Gibbs: it needs "
                    f"e_step='auto', got {self.e_step!r}"
                )
            return HybridPosterior(mean_field, gibbs)
        if solver.e_step == "mean_field" and self.e_step == "gibbs":
            raise ValueError(
                "solver='mfpcd' with e_step='gibbs' is solver='pcd': use that"
            )
        e_step = self.e_step
        if e_step == "auto":
            e_step = solver.e_step
        if e_step == "auto":
            e_step = "exact" if exact else "gibbs"
        if e_step == "exact" and not exact:
            raise ValueError(
                "e_step='exact' needs data without NaN"
                if missing
                else "e_step='exact' needs hidden units that can be summed out, whose "
                "connected parts have a small treewidth (with two or more hidden "
                "layers, also X as a NumPy array); use 'gibbs' or 'mean_field'"
            )
        choices = {"exact": ExactPosterior(), "gibbs": gibbs, "mean_field": mean_field}
        return choices[e_step]

    def _n_epochs(self, model, n_rows):
        """Return the largest number of epochs of a fit to so many rows."""
        if not isinstance(self.max_iter, str):
            return int(self.max_iter)
        n = model.n_parameters
        updates = min(max(UPDATES_TIMES_PARAMETERS / n, FEWEST_UPDATES), MOST_UPDATES)
        updates = min(updates, max(UPDATES_PER_PARAMETER * n, MOST_UPDATES // 2))
        size = min(self.batch_size, n_rows or self.batch_size)
        per_epoch = -(-(n_rows or size) // size)
        # At least a round of one epoch and one of the rest.
        return max(round(updates / per_epoch), 7)

    def _settings(self, model, missing, n_rows=None):
        """Return the settings of a run."""
        if self.pretrain and (self.graph is not None or len(model.sizes) < 3):
            raise ValueError("pretrain needs at least two hidden layers")
        posterior = self._posterior(model, missing)
        step_size_e, step_size_m = self.step_size_e, self.step_size_m
        solver = CONTRASTIVE_SOLVERS[self.solver]
        if isinstance(step_size_e, str) and step_size_e == "auto":
            step_size_e = STEP_SIZE_E if posterior.keeps_chains else 1.0
        elif not solver.averages:
            raise ValueError(
                f"solver={self.solver!r} does not average posterior statistics: "
                f"step_size_e must be 'auto', got {step_size_e!r}"
            )
        adaptive = isinstance(step_size_m, str) and step_size_m == "auto"
        if adaptive:
            scale = 1 / np.sqrt(max(model.largest_degree, 1))
            step_size_m = tuple(scale * step for step in STEP_SIZE_M)
        momentum = self.momentum
        if isinstance(momentum, str):
            momentum = ADAPTED_MOMENTUM if adaptive else 0.0
        return ContrastiveSettings(
            model=model,
            solver=solver,
            posterior=posterior,
            step_size_e=StepRule(step_size_e, "step_size_e", 1.0),
            step_size_m=StepRule(step_size_m, "step_size_m", np.inf),
            batch_size=int(self.batch_size),
            n_epochs=self._n_epochs(model, n_rows),
            n_pretrain=int(self.pretrain),
            n_chains=int(self.n_chains),
            n_chains_e=int(self.n_chains_e),
            n_gibbs_e=int(self.n_gibbs_e),
            n_gibbs_m=int(self.n_gibbs_m),
            momentum=float(momentum),
            weight_decay=float(self.weight_decay),
            adaptive=adaptive,
            tol=None if self.tol is None else float(self.tol),
            centering=bool(self.centering),
            rao_blackwell=bool(self.rao_blackwell),
            binarize=self.binarize == "sample",
        )
