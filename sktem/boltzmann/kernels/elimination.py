"""Exact sums over hidden units by elimination, for many rows at once.

The units are eliminated one by one. Step s eliminates a unit whose remaining
neighbours are its separator, the units of k later steps; a table over the 2**k states
of the separator (bit j: its j-th unit, by step) holds the message. The table
begins at ``offsets[s]`` and goes to the step that eliminates the first unit of the
separator. ``places`` says which bit of the clique of that step each unit of the
separator is: 0 for the unit eliminated there, 1 + j for the j-th of its separator.
"""

import numpy as np
from numba import njit

from sktem.kernels.exponential import exponential, logarithm


@njit(cache=True, nogil=True)
def table_index(state, clique, begin, end, places):
    """Return the entry of a child's table for a state of the parent's clique.

    `clique` is the bit of the unit that the parent eliminates, `state` has the bits of
    the parent's separator.
    """
    index = 0
    for j in range(begin, end):
        place = places[j]
        bit = clique if place == 0 else (state >> (place - 1)) & 1
        index |= bit << (j - begin)
    return index


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def eliminate(
    fields, order, starts, places, offsets, children, child_starts, edge_starts,
    edge_places, edge_weights, start, stop,
):  # fmt: skip
    """Sum over all units, for the rows from `start` to `stop`.

    `fields` is (n_hidden, n_rows). Equal ``np.log(sum over h of np.exp(fields.T @ h +
    sum of weights * h_i * h_j))``.

    Returns
    -------
    log_sum : ndarray of shape (stop - start,)
    on : ndarray of shape (offsets[-1], stop - start)
        The probability that a unit is 1 given its separator, for each table entry.
    """
    lanes = stop - start
    n_steps = order.shape[0]
    message = np.zeros((offsets[n_steps], lanes))
    on = np.empty((offsets[n_steps], lanes))
    log_sum = np.zeros(lanes)
    field = np.empty(lanes)
    for s in range(n_steps):
        source = fields[order[s]]
        for state in range(offsets[s + 1] - offsets[s]):
            entry = offsets[s] + state
            out, probability = message[entry], on[entry]
            shift = 0.0
            for e in range(edge_starts[s], edge_starts[s + 1]):
                shift += edge_weights[e] * ((state >> (edge_places[e] - 1)) & 1)
            for c in range(lanes):
                field[c] = source[start + c] + shift
                out[c] = 0.0
            for position in range(child_starts[s], child_starts[s + 1]):
                t = children[position]
                begin, end = starts[t], starts[t + 1]
                off = message[offsets[t] + table_index(state, 0, begin, end, places)]
                up = message[offsets[t] + table_index(state, 1, begin, end, places)]
                for c in range(lanes):
                    out[c] += off[c]
                    field[c] += up[c] - off[c]
            for c in range(lanes):
                x = field[c]
                small = exponential(-abs(x))
                p = 1.0 / (1.0 + small)
                probability[c] = p if x >= 0 else small * p
                out[c] += max(x, 0.0) + logarithm(1.0 + small)
        if starts[s + 1] == starts[s]:
            root = message[offsets[s]]
            for c in range(lanes):
                log_sum[c] += root[c]
    return log_sum, on


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def marginalise(
    on, order, starts, places, offsets, children, child_starts, edge_starts,
    edge_places, edge_numbers, means, pairs, start,
):  # fmt: skip
    """Compute marginals from the conditional probabilities of `eliminate`.

    Writes the mean of each unit into ``means[order[s], start:]`` and adds the mean of
    each product, summed over the rows, to ``pairs[edge]``.
    """
    n_steps, lanes = order.shape[0], on.shape[1]
    weight = np.zeros((offsets[n_steps], lanes))
    mass_on, mass_off = np.empty(lanes), np.empty(lanes)
    for s in range(n_steps - 1, -1, -1):
        if starts[s + 1] == starts[s]:
            weight[offsets[s], :] = 1.0
        mean = means[order[s]]
        for c in range(lanes):
            mean[start + c] = 0.0
        for state in range(offsets[s + 1] - offsets[s]):
            here, probability = weight[offsets[s] + state], on[offsets[s] + state]
            total = 0.0
            for c in range(lanes):
                mass_on[c] = here[c] * probability[c]
                mass_off[c] = here[c] - mass_on[c]
                mean[start + c] += mass_on[c]
                total += mass_on[c]
            for position in range(child_starts[s], child_starts[s + 1]):
                t = children[position]
                begin, end = starts[t], starts[t + 1]
                off = weight[offsets[t] + table_index(state, 0, begin, end, places)]
                for c in range(lanes):
                    off[c] += mass_off[c]
                up = weight[offsets[t] + table_index(state, 1, begin, end, places)]
                for c in range(lanes):
                    up[c] += mass_on[c]
            for e in range(edge_starts[s], edge_starts[s + 1]):
                if (state >> (edge_places[e] - 1)) & 1:
                    pairs[edge_numbers[e]] += total


@njit(cache=True, nogil=True)
def draw_exactly(on, order, starts, separators, offsets, uniforms, states, start, stop):
    """Draw the units, last eliminated first, each given its separator.

    Equal ``states[order[s]] = uniforms[s] < on[offsets[s] + bits of the separator]``;
    `separators` has the steps that the separator's units are eliminated in. If `on` is
    of one row, all draws are of that one.
    """
    shared = on.shape[1] == 1
    for s in range(order.shape[0] - 1, -1, -1):
        row = states[order[s]]
        for c in range(stop - start):
            index = 0
            for j in range(starts[s], starts[s + 1]):
                if states[order[separators[j]], start + c] != 0:
                    index |= 1 << (j - starts[s])
            drawn = uniforms[s, start + c] < on[offsets[s] + index, 0 if shared else c]
            row[start + c] = 1 if drawn else 0
