"""Gibbs sampling on graphs of many edges: listed sums between blocks of units.

The fields of `COLUMNS` units from all others are a product with zeros and ones, as in
`binary_products`. Those units are then drawn one after the other, for `LANES` chains
at a time, each field with what the draws before it changed. numba's loops would keep
that sum in memory, hence the function that is written as instructions for LLVM.
"""

import numpy as np
from llvmlite import ir  # numba comes with it
from numba import njit, types
from numba.extending import intrinsic

from sktem.boltzmann.kernels.binary_products import (
    COLUMNS,
    ROW_BYTES,
    TABLES,
    add_tables,
    aligned_rows,
    fill_tables,
    transpose_block,
)
from sktem.kernels.counter import (
    MINUS_LOG2_E,
    TWO_24,
    halves,
    hashed,
    lane_number,
    mixed,
    odds,
)

__all__ = ["COLUMNS", "arrange_weights", "dense_sweeps"]

#: Chains that are drawn at a time. A block of units and chains is square.
LANES = COLUMNS

_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
_FLOAT, _WORD = ir.FloatType(), ir.IntType(64)
_CHAINS = ir.VectorType(_FLOAT, LANES)


@intrinsic
def _add_changes(typingctx, fields, weights, changes, count):
    """Equal ``fields += weights[:count] @ changes[:count]``.

    Addresses of float32: `LANES` fields, weights, and rows of `LANES` changes.
    """

    def generate(context, builder, signature, arguments):
        fields, weights, changes, count = arguments
        fields = builder.inttoptr(fields, _CHAINS.as_pointer())
        first, start = builder.load(fields, align=4), builder.block
        loop = builder.append_basic_block("changes")
        end = builder.append_basic_block("end")
        empty = builder.icmp_unsigned("==", count, _WORD(0))
        builder.cbranch(empty, end, loop)
        builder.position_at_end(loop)
        index, sums = builder.phi(_WORD), builder.phi(_CHAINS)
        place = builder.add(weights, builder.shl(index, _WORD(2)))
        weight = builder.load(builder.inttoptr(place, _FLOAT.as_pointer()), align=4)
        one = ir.Constant(_CHAINS, None)
        one = builder.insert_element(one, weight, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        place = builder.add(changes, builder.mul(index, _WORD(4 * LANES)))
        change = builder.load(builder.inttoptr(place, _CHAINS.as_pointer()), align=4)
        factor = builder.shuffle_vector(one, one, lanes)
        terms = builder.fmul(factor, change, flags=("contract",))
        more = builder.fadd(sums, terms, flags=("contract",))
        following = builder.add(index, _WORD(1))
        for phi, begin, later in ((index, _WORD(0), following), (sums, first, more)):
            phi.add_incoming(begin, start)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_unsigned("==", following, count), end, loop)
        builder.position_at_end(end)
        total = builder.phi(_CHAINS)
        total.add_incoming(first, start)
        total.add_incoming(more, loop)
        builder.store(total, fields, align=4)
        return context.get_dummy_value()

    return types.void(*[types.uintp] * 4), generate


@njit(cache=True, nogil=True)
def arrange_weights(blocks, position, first, second, values):
    """Equal ``blocks[p // COLUMNS, q, p % COLUMNS] = weights[p, q]``.

    The weights are symmetric, of units in another order, and zero where there is no
    edge. The columns p of some of the units only are wanted.
    """
    n_wanted, flat = blocks.shape[0] * COLUMNS, blocks.reshape(-1)
    # Of the first entry of a unit's column.
    places = np.empty(position.shape[0], np.int64)
    for unit in range(position.shape[0]):
        p = position[unit]
        places[unit] = p // COLUMNS * blocks[0].size + p % COLUMNS
    for e in range(first.shape[0]):
        a, b, value = first[e], second[e], values[e]
        p, q = position[a], position[b]
        if p < n_wanted:
            flat[places[a] + COLUMNS * q] = value
        if q < n_wanted:
            flat[places[b] + COLUMNS * p] = value


@njit(cache=True, nogil=True)
def _load_blocks(blocks, states, order, start, stop):
    """Write states into blocks of units and chains; return whether all are 0 or 1."""
    wrong = _ZERO
    for p in range(order.shape[0]):
        row = states[order[p], start:stop]
        for begin in range(0, row.shape[0], LANES):
            target = blocks[p // COLUMNS, begin // LANES, p % COLUMNS]
            for c in range(min(LANES, row.shape[0] - begin)):
                state = row[begin + c]
                target[c] = state
                wrong += abs(state * (state - _ONE))
    return wrong == _ZERO


@njit(cache=True, nogil=True)
def _store_blocks(blocks, states, order, start, stop):
    """Write blocks back into the states."""
    for p in range(order.shape[0]):
        row = states[order[p], start:stop]
        for begin in range(0, row.shape[0], LANES):
            source = blocks[p // COLUMNS, begin // LANES, p % COLUMNS]
            for c in range(min(LANES, row.shape[0] - begin)):
                row[begin + c] = source[c]


@njit(cache=True, nogil=True)
def _write_codes(codes, block, first_chain, first_code):
    """Write the states of a block as codes of four units each."""
    for code in range(min(COLUMNS // 4, codes.shape[1] - first_code)):
        s0, s1, s2, s3 = block[4 * code : 4 * code + 4]
        for c in range(min(LANES, codes.shape[0] - first_chain)):
            value = s0[c] + 2 * s1[c] + 4 * s2[c] + 8 * s3[c]
            codes[first_chain + c, first_code + code] = np.uint8(value)


@njit(cache=True, nogil=True)
def _transpose(target, source):
    """Equal ``target[:] = source.T`` for square blocks."""
    to, at = np.uint64(target.ctypes.data), np.uint64(source.ctypes.data)
    for i in range(0, COLUMNS, 8):
        for c in range(0, LANES, 8):
            transpose_block(
                to + np.uint64(i) * ROW_BYTES + np.uint64(4 * c),
                at + np.uint64(c) * ROW_BYTES + np.uint64(4 * i), ROW_BYTES,
            )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _add_fields(sums, tables, codes, weights):
    """Equal ``sums[:n] += states @ weights`` for n states of which `codes` are."""
    sum_at, table_at = np.uint64(sums.ctypes.data), np.uint64(tables.ctypes.data)
    row_at = np.uint64(weights.ctypes.data)
    n, size = codes.shape
    for begin in range(0, size, TABLES):
        n_tables = min(TABLES, size - begin)
        first = row_at + np.uint64(4 * begin) * ROW_BYTES
        fill_tables(n_tables, table_at, first, ROW_BYTES)
        total_at = sum_at
        code_at = np.uint64(codes.ctypes.data) + np.uint64(begin)
        for _ in range(n):
            add_tables(n_tables, total_at, table_at, code_at)
            total_at += ROW_BYTES
            code_at += np.uint64(size)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _draw_in_turn(states, fields, changes, weights, lows, highs, lanes):
    """Draw the units of a block one after the other.

    The fields are those from all units as they were before the call.
    """
    field_at = np.uint64(fields.ctypes.data)
    change_at = np.uint64(changes.ctypes.data)
    weight_at = np.uint64(weights.ctypes.data)
    for i in range(lows.shape[0]):
        place = np.uint64(i)
        skipped = place * ROW_BYTES
        _add_changes(field_at + skipped, weight_at + skipped, change_at, place)
        low, high = lows[i], highs[i]
        for c in range(LANES):
            h = hashed(low, high, lanes[c]) + _HALF
            new = _ONE if h * odds(fields[i, c] * MINUS_LOG2_E) < TWO_24 else _ZERO
            changes[i, c] = new - states[i, c]
            states[i, c] = new


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _write_means(states, fields, n_units):
    """Equal ``states[:n_units] = 1 / (1 + np.exp(-fields[:n_units]))``."""
    for i in range(n_units):
        for c in range(LANES):
            states[i, c] = _ONE / odds(fields[i, c] * MINUS_LOG2_E)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def dense_sweeps(states, order, weights, fixed, n_sweeps, means, seed, start, stop):
    """Sweep the chains from `start` to `stop` over the units in `order`, in place.

    As `graph_sweeps.sweeps` without clamps and offsets, and each unit's mean from the
    states at the beginning, up to rounding, with the weights as `arrange_weights`
    writes them, the units in `order` first. `fixed` are their fields from all else,
    (n_blocks, n or 1, COLUMNS). Return False, with nothing changed, if a state is not
    0 or 1. The array of weights has three rows more than units.
    """
    n, n_drawn, n_blocks = stop - start, order.shape[0], weights.shape[0]
    n_groups, each = (n + LANES - 1) // LANES, fixed.shape[1] > 1
    # From here on addresses replace numba's indexing.
    if (
        n_blocks != (n_drawn + COLUMNS - 1) // COLUMNS
        or weights.shape[1] < n_drawn + 3
        or weights.shape[2] != COLUMNS
        or fixed.shape != (n_blocks, n if each else 1, COLUMNS)
    ):
        raise ValueError("the shapes of states, weights and fixed do not fit")
    blocks = np.zeros((n_blocks, n_groups, COLUMNS, LANES), np.float32)
    if not _load_blocks(blocks, states, order, start, stop):
        return False
    codes = np.empty((n, (n_drawn + 3) // 4), np.uint8)
    for block in range(n_blocks):
        for group in range(n_groups):
            _write_codes(
                codes, blocks[block, group], LANES * group, COLUMNS // 4 * block
            )
    lanes = np.zeros(n_groups * LANES, np.uint32)
    for c in range(n):
        lanes[c] = lane_number(start + c)
    sums, tables = aligned_rows(n_groups * LANES), aligned_rows(16 * TABLES)
    sums[n:] = _ZERO
    fields, changes = aligned_rows(COLUMNS), aligned_rows(COLUMNS)
    lows, highs = np.empty(COLUMNS, np.uint32), np.empty(COLUMNS, np.uint32)
    for sweep in range(n_sweeps):
        for block in range(n_blocks):
            begin = COLUMNS * block
            width = min(COLUMNS, n_drawn - begin)
            for c in range(n):
                row, others = sums[c], fixed[block, c if each else 0]
                for i in range(COLUMNS):
                    row[i] = others[i]
            _add_fields(sums, tables, codes, weights[block])
            for i in range(width):
                unit = np.uint64(order[begin + i])
                lows[i], highs[i] = halves(mixed(seed, np.uint64(sweep), unit))
            within = weights[block, begin : begin + width]
            for group in range(n_groups):
                first = LANES * group
                _transpose(fields, sums[first : first + LANES])
                if means:
                    _write_means(blocks[block, group], fields, width)
                    continue
                _draw_in_turn(
                    blocks[block, group], fields, changes, within, lows[:width],
                    highs[:width], lanes[first : first + LANES],
                )  # fmt: skip
                _write_codes(codes, blocks[block, group], first, COLUMNS // 4 * block)
    _store_blocks(blocks, states, order, start, stop)
    return True
