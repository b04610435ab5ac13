"""The prior of the parameters of a Boltzmann machine: of weights and of fields."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sktem.arrays import arrays_of

__all__ = ["Prior"]


@dataclass(frozen=True)
class Prior:
    """Minus the log-density of a prior of the parameters, for the mean of the rows.

    Attributes
    ----------
    strength : float
        One over the number of rows, or weight decay.
    fields : bool
        Whether fields have a prior as well: that of half a row in which a unit is 1,
        and half a row in which it is 0, were no unit joined to another one. The field
        of a binary unit is its logit where its neighbours are 1 half of the time,
        which does not depend on what is called 0 and what 1.
    n_determined : float, default=inf
        Weights that the rows can determine, at most. Where the squares of the weights
        add up to more than that, their prior is wider: the normal density with mean 0
        under which as many weights of that size are most likely.
    offset : float, default=0.0
        What `value` counts from, see `counted_from`.
    """

    strength: float
    fields: bool = False
    n_determined: float = np.inf
    offset: float = 0.0

    def counted_from(self, model, params) -> Prior:
        """Return the prior whose value is zero for some parameters."""
        return replace(self, offset=self.offset + self.value(model, params))

    def value(self, model, params) -> float:
        """Return minus the log-density, up to a constant."""
        if not self.strength:
            return 0.0
        weights = params[model.weights_from :]
        squares, n = float(weights @ weights), self.n_determined
        total = squares if squares <= n else n * (1.0 + np.log(squares / n))
        if self.fields:
            fields, _ = model.fields(params)
            xp = arrays_of(fields).xp
            size = xp.abs(fields)
            halves = size + 2.0 * xp.log1p(xp.exp(-size))
            total += float(xp.sum(halves)) - 2.0 * np.log(2.0) * fields.shape[0]
        return 0.5 * self.strength * total - self.offset

    def descend(self, model, params, gradient) -> None:
        """Subtract the gradient of `value` from another one, in place."""
        if not self.strength:
            return
        n_biases = model.weights_from
        weights = params[n_biases:]
        decay = self.strength
        if self.n_determined < np.inf:
            decay /= max(1.0, float(weights @ weights) / self.n_determined)
        gradient[n_biases:] -= decay * weights
        if self.fields:
            arrays = arrays_of(params)
            fields, centre = model.fields(params)
            slopes = 0.5 * self.strength * arrays.xp.tanh(0.5 * fields)
            biases = arrays.copy(gradient[:n_biases])
            gradient[:n_biases] = -slopes
            model.centre_weights(gradient, -centre)
            gradient[:n_biases] = biases - slopes
