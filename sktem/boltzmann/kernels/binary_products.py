"""Matrix products whose first factor is zeros and ones, by tables of sums.

Four rows of the second factor have 16 sums of some of them, so that four units of a
state of zeros and ones need one addition of a listed sum instead of four products
(Arlazarov, Dinic, Kronrod and Faradzev, 1970, "On economical construction of the
transitive closure of a directed graph", did so over the Boolean numbers). Beyond some
60 rows that share the tables this is faster than any product of floats on the same
vector units can be. BLAS keeps its sums in registers, and so must this: numba's
loops do not, hence the few functions that are written as instructions for LLVM.

An epoch of digits, 784-500 in batches of 100, takes 1.2 times as long without them, and
1.9 times without `sparse_products` as well.
"""

import numpy as np
from llvmlite import ir  # numba comes with it
from numba import njit, types
from numba.extending import intrinsic

from sktem.kernels.prefetch import LINE

__all__ = ["code_rows", "coded_product"]

#: Columns that are worked on at a time.
COLUMNS = 32
#: Tables at a time, one for four rows of the second factor; all together have 32 kB.
TABLES = 16
#: Rows of the first factor at a time; their sums have 32 kB as well.
ROWS = 256

_DEPTH = 4 * TABLES
_BYTES = 4 * COLUMNS
ROW_BYTES = np.uint64(_BYTES)
_TABLE = np.uint64(16 * _BYTES)
_ONE = np.float32(1.0)
_FLOAT, _BYTE, _WORD = ir.FloatType(), ir.IntType(8), ir.IntType(64)
_EIGHT, _ALL = ir.VectorType(_FLOAT, 8), ir.VectorType(_FLOAT, COLUMNS)
_ADDRESSES = types.void(types.uintp, types.uintp, types.uintp)


def _place(builder, address, offset, kind):
    """Return a pointer some bytes behind an address."""
    return builder.inttoptr(builder.add(address, _WORD(offset)), kind.as_pointer())


@intrinsic
def _fill_table(typingctx, table, rows, stride):
    """Equal ``table[code] = sum(rows[i] for i in range(4) if code >> i & 1)``.

    Addresses of float32 matrices with `COLUMNS` columns, and the bytes from one of the
    rows to the next.
    """

    def generate(context, builder, signature, arguments):
        table, rows, stride = arguments
        for begin in range(0, _BYTES, 32):
            sums, row = [ir.Constant(_EIGHT, [0.0] * 8)], rows
            for _ in range(4):
                value = builder.load(_place(builder, row, begin, _EIGHT), align=4)
                others = [builder.fadd(total, value) for total in sums[1:]]
                sums += [value, *others]
                row = builder.add(row, stride)
            for code, total in enumerate(sums):
                place = _place(builder, table, code * _BYTES + begin, _EIGHT)
                builder.store(total, place, align=4)
        return context.get_dummy_value()

    return _ADDRESSES, generate


def _adder(n_tables):
    """Return the function that adds one entry of each of some tables to sums."""

    @intrinsic
    def add_listed(typingctx, sums, tables, codes):
        """Equal ``sums += sum(tables[t, codes[t]] for t in range(n_tables))``.

        Addresses of `COLUMNS` float32, of tables of 16 such rows, and of bytes.
        """

        def generate(context, builder, signature, arguments):
            sums, tables, codes = arguments
            place = _place(builder, sums, 0, _ALL)
            total = builder.load(place, align=4)
            for table in range(n_tables):
                code = builder.load(_place(builder, codes, table, _BYTE))
                skipped = builder.mul(builder.zext(code, _WORD), _WORD(_BYTES))
                entry = builder.add(tables, skipped)
                entry = _place(builder, entry, table * 16 * _BYTES, _ALL)
                total = builder.fadd(total, builder.load(entry, align=4))
            builder.store(total, place, align=4)
            return context.get_dummy_value()

        return _ADDRESSES, generate

    return add_listed


_add_16, _add_4, _add_1 = _adder(TABLES), _adder(4), _adder(1)


@njit(cache=True, nogil=True)
def aligned_rows(n):
    """Return n rows of `COLUMNS` float32, none of which begins within a line."""
    values = np.empty(n * COLUMNS + LINE // 4, np.float32)
    skipped = np.int64(-values.ctypes.data % LINE) // 4
    return values[skipped : skipped + n * COLUMNS].reshape(n, COLUMNS)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_rest(n_tables, total_at, table_at, code_at):
    """Equal ``sums += sum(tables[t, codes[t]] for t in range(n_tables))``, for < 16."""
    for _ in range(n_tables // 4):
        _add_4(total_at, table_at, code_at)
        table_at += np.uint64(4) * _TABLE
        code_at += np.uint64(4)
    for _ in range(n_tables % 4):
        _add_1(total_at, table_at, code_at)
        table_at += _TABLE
        code_at += np.uint64(1)


@njit(inline="always")
def fill_tables(n_tables, table_at, row_at, stride):
    """Write the sums of four rows each, which are `stride` bytes apart."""
    for _ in range(n_tables):
        _fill_table(table_at, row_at, stride)
        table_at += _TABLE
        row_at += np.uint64(4) * stride


@njit(inline="always")
def add_tables(n_tables, total_at, table_at, code_at):
    """Equal ``sums += sum(tables[t, codes[t]] for t in range(n_tables))``."""
    if n_tables == TABLES:
        _add_16(total_at, table_at, code_at)
    else:
        _add_rest(n_tables, total_at, table_at, code_at)


@njit(cache=True, nogil=True, error_model="numpy")
def code_rows(a, codes):
    """Write four entries of a row as one number, if all are zeros and ones.

    Equal ``codes[:] = sum(2**i * padded[:, i::4] for i in range(4))`` for the matrix a
    with zeros appended to each row. Returns whether all entries are zeros and ones.
    """
    n, k = a.shape
    whole = k // 4
    for i in range(n):
        row, others = a[i], 0
        for group in range(whole):
            j = np.uint64(4 * group)
            v0, v1 = row[j], row[j + np.uint64(1)]
            v2, v3 = row[j + np.uint64(2)], row[j + np.uint64(3)]
            # Not "or" of the tests: this one has no branches.
            wrong = abs(v0 * (v0 - _ONE)) + abs(v1 * (v1 - _ONE))
            wrong += abs(v2 * (v2 - _ONE)) + abs(v3 * (v3 - _ONE))
            others += not wrong == 0
            codes[i, group] = np.uint8(v0 + 2 * v1 + 4 * v2 + 8 * v3)
        if codes.shape[1] > whole:
            code = np.float32(0)
            for last in range(4 * whole, k):
                others += not (row[last] == 0 or row[last] == _ONE)
                code += row[last] * (1 << (last - 4 * whole))
            codes[i, whole] = np.uint8(code)
        if others > 0:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _copy_part(part, b, transposed, begin, height, first, width):
    """Write a part of b, with zeros around it, into `part`; return where it is."""
    if not transposed and height == _DEPTH and width == COLUMNS:
        size = 4 * b.shape[1]
        skipped = begin * size + 4 * first
        return np.uint64(b.ctypes.data) + np.uint64(skipped), np.uint64(size)
    at = np.uint64(part.ctypes.data)
    if height < _DEPTH or width < COLUMNS:
        part[:] = 0
    if not transposed:
        for i in range(height):
            for j in range(width):
                part[i, j] = b[begin + i, first + j]
        return at, ROW_BYTES
    for j in range(width):
        for i in range(height):
            part[i, j] = b[first + j, begin + i]
    return at, ROW_BYTES


@njit(cache=True, nogil=True, error_model="numpy")
def coded_product(codes, b, transposed, out):
    """Equal ``out[:] = a @ (b.T if transposed else b)`` for a of which `codes` are.

    All of them are in C order, b and out of float32.
    """
    n, n_codes = codes.shape
    k, m = b.shape
    if transposed:
        k, m = m, k
    # From here on addresses replace numba's indexing.
    if n_codes != (k + 3) // 4 or out.shape[0] != n or out.shape[1] != m:
        raise ValueError("the shapes of codes, b and out do not fit")
    tables = aligned_rows(TABLES * 16)
    sums = aligned_rows(min(n, ROWS))
    part = aligned_rows(_DEPTH)
    table_at, sums_at = np.uint64(tables.ctypes.data), np.uint64(sums.ctypes.data)
    size = np.uint64(n_codes)
    for top in range(0, n, ROWS):
        rows = min(ROWS, n - top)
        for first in range(0, m, COLUMNS):
            width = min(COLUMNS, m - first)
            sums[:] = 0
            for begin in range(0, k, _DEPTH):
                height = min(_DEPTH, k - begin)
                n_tables = (height + 3) // 4
                at, stride = _copy_part(
                    part, b, transposed, begin, height, first, width
                )
                fill_tables(n_tables, table_at, at, stride)
                code_at = np.uint64(codes.ctypes.data)
                code_at += np.uint64(top * n_codes + begin // 4)
                total_at = sums_at
                for _ in range(rows):
                    add_tables(n_tables, total_at, table_at, code_at)
                    total_at += ROW_BYTES
                    code_at += size
            for i in range(rows):
                for j in range(width):
                    out[top + i, first + j] = sums[i, j]
    # numba frees an array after its last use by name, whoever has its address.
    tables[0, 0] = _ONE
