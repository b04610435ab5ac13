"""Solvers: how statistics are averaged."""

from sktem.solvers.base import Solver, SolverState
from sktem.solvers.daarem import DAAREM
from sktem.solvers.fittem import FITTEM
from sktem.solvers.full_batch import FullBatch
from sktem.solvers.isaem import ISAEM
from sktem.solvers.online import OnlineEM
from sktem.solvers.squarem import SQUAREM
from sktem.solvers.vrttem import VRTTEM

__all__ = [
    "DAAREM",
    "FITTEM",
    "ISAEM",
    "SOLVERS",
    "SQUAREM",
    "VRTTEM",
    "FullBatch",
    "OnlineEM",
    "Solver",
    "SolverState",
]

#: Solvers by the name that estimators accept, with the sampler that the name implies
#: (None: the estimator's choice) and the step size (None: the solver's default).
#: A solver is added by one line.
SOLVERS = {
    "em": (FullBatch, "exact", 1.0),
    "squarem": (SQUAREM, "exact", 1.0),
    "daarem": (DAAREM, "exact", 1.0),
    "mcem": (FullBatch, "mc", 1.0),
    "saem": (FullBatch, None, None),
    "online": (OnlineEM, None, None),
    "iem": (ISAEM, "exact", 1.0),
    "isaem": (ISAEM, None, None),
    "vrttem": (VRTTEM, None, None),
    "fittem": (FITTEM, None, None),
    "biased-saem": (FullBatch, "ula", None),
}
