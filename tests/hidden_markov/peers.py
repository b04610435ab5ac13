"""Fits of statsmodels, and models at their parameters."""

import warnings

import numpy as np
import pytest

from sktem import HiddenMarkovModel

__all__ = ["at", "growth", "optimum"]


def growth():
    """Return a series of quarterly growth, (n,)."""
    api = pytest.importorskip("statsmodels.api")
    macro = api.datasets.macrodata.load_pandas().data
    return 100 * np.diff(np.log(macro["realgdp"].to_numpy()))


def optimum(peer, **options):
    """Return the fit of statsmodels, parameters by name, start and transitions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs, on the way
        found = peer.fit(disp=0, **options)
    values = dict(zip(peer.param_names, found.params, strict=True))
    transitions = found.regime_transition[:, :, 0].T
    transitions = transitions / transitions.sum(axis=1, keepdims=True)
    return found, values, peer.initial_probabilities(found.params), transitions


def at(emission, start, transitions, params, X, lengths=None, **options):
    """Return a model with these parameters."""
    hmm = HiddenMarkovModel(
        len(transitions), emission=emission, start_init=start, random_state=0,
        transitions_init=transitions, emission_init=params, max_iter=1,
        fixed=["start", "transitions", "emission"], **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of passes that nothing follows
        return hmm.fit(X, lengths=lengths)
