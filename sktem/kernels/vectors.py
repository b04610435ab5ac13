"""Rows of four or eight numbers that compiled functions hold in registers.

The compiler unrolls loops of such a length before it looks for vectors, and computes
one number at a time; rows in memory would make each step of a recursion wait until the
one before has passed through it.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from sktem.kernels import exponential

__all__ = [
    "add",
    "counted",
    "exponentials",
    "largest",
    "load",
    "multiply",
    "scaled",
    "shifted",
    "store",
    "times",
    "total",
    "zeros",
]

_FLAGS = ("contract", "reassoc", "nsz")
_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(32)
#: Bytes to a multiple of which rows in memory are aligned.
_ALIGN = 8


class Row(types.Type):
    """Some numbers in a register.

    Parameters
    ----------
    width : int
        How many.
    """

    def __init__(self, width):
        self.width = width
        super().__init__(name=f"Row({width})")


@register_model(Row)
class RowModel(models.PrimitiveModel):
    """A row is a vector of LLVM."""

    def __init__(self, manager, row):
        super().__init__(manager, row, ir.VectorType(_DOUBLE, row.width))


def _address(context, builder, kind, value, index, width):
    """Return the address of a row of an array, of which the last index is 0."""
    array = context.make_array(kind)(context, builder, value)
    zeros = [context.get_constant(types.intp, 0)] * (kind.ndim - len(index))
    place = cgutils.get_item_pointer(
        context, builder, kind, array, [*index, *zeros], wraparound=False
    )
    return builder.bitcast(place, ir.VectorType(_DOUBLE, width).as_pointer())


def _repeated(builder, row, i):
    """Return a row that has the entry i of a row everywhere."""
    places = ir.Constant(ir.VectorType(_INDEX, row.type.count), [i] * row.type.count)
    return builder.shuffle_vector(row, row, places)


def _of_number(builder, number, width):
    """Return a row that has a number everywhere."""
    blank = ir.Constant(ir.VectorType(_DOUBLE, width), ir.Undefined)
    return _repeated(builder, builder.insert_element(blank, number, _INDEX(0)), 0)


@intrinsic
def zeros(typingctx, like):
    """Equal ``np.zeros(len(like))``."""
    row = Row(like.count)

    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.VectorType(_DOUBLE, row.width), [0.0] * row.width)

    return row(like), generate


@intrinsic
def load(typingctx, like, array, t):
    """Equal ``array[t, : len(like)]``."""
    row = Row(like.count)

    def generate(context, builder, signature, arguments):
        _, value, t = arguments
        place = _address(context, builder, array, value, [t], row.width)
        return builder.load(place, align=_ALIGN)

    return row(like, array, types.intp), generate


@intrinsic
def store(typingctx, array, t, x):
    """Equal ``array[t, : len(x)] = x``."""

    def generate(context, builder, signature, arguments):
        value, t, row = arguments
        place = _address(context, builder, array, value, [t], x.width)
        builder.store(row, place, align=_ALIGN)
        return context.get_dummy_value()

    return types.void(array, types.intp, x), generate


@intrinsic
def add(typingctx, x, y):
    """Equal ``x + y``, in one step with a product that is an argument."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=_FLAGS)

    return x(x, y), generate


@intrinsic
def multiply(typingctx, x, y):
    """Equal ``x * y``."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments, flags=_FLAGS)

    return x(x, y), generate


@intrinsic
def scaled(typingctx, x, number):
    """Equal ``x * number``."""

    def generate(context, builder, signature, arguments):
        row, number = arguments
        return builder.fmul(row, _of_number(builder, number, x.width), flags=_FLAGS)

    return x(x, types.float64), generate


@intrinsic
def shifted(typingctx, x, number):
    """Equal ``x - number``."""

    def generate(context, builder, signature, arguments):
        row, number = arguments
        return builder.fsub(row, _of_number(builder, number, x.width), flags=_FLAGS)

    return x(x, types.float64), generate


@intrinsic
def times(typingctx, x, matrices, side):
    """Equal ``x @ matrices[side, 0, : len(x), : len(x)]``."""

    def generate(context, builder, signature, arguments):
        row, value, side = arguments
        sums = []
        for i in range(x.width):
            index = [side, *(context.get_constant(types.intp, j) for j in (0, i))]
            place = _address(context, builder, matrices, value, index, x.width)
            line = builder.load(place, align=_ALIGN)
            term = builder.fmul(_repeated(builder, row, i), line, flags=_FLAGS)
            # Of two sums, additions to one need not wait for the other's.
            if i < 2:
                sums.append(term)
            else:
                sums[i % 2] = builder.fadd(sums[i % 2], term, flags=_FLAGS)
        return builder.fadd(*sums, flags=_FLAGS)

    return x(x, matrices, types.intp), generate


@intrinsic
def total(typingctx, x):
    """Equal ``x.sum()``."""

    def generate(context, builder, signature, arguments):
        (row,) = arguments
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE, row.type])
        name = f"llvm.vector.reduce.fadd.v{x.width}f64"
        add = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(add, [_DOUBLE(0.0), row], fastmath=_FLAGS)

    return types.float64(x), generate


@intrinsic
def largest(typingctx, x):
    """Equal ``np.fmax.reduce(x)``."""

    def generate(context, builder, signature, arguments):
        (row,) = arguments
        kind = ir.FunctionType(_DOUBLE, [row.type])
        name = f"llvm.vector.reduce.fmax.v{x.width}f64"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [row])

    return types.float64(x), generate


@intrinsic
def counted(typingctx, counts, y, low, x, high):
    """Equal ``counts + ((y < low) & ~(x < high))``."""

    def generate(context, builder, signature, arguments):
        counts, y, low, x, high = arguments
        width = y.type.count
        is_low = builder.fcmp_ordered("<", y, _of_number(builder, low, width))
        is_high = builder.fcmp_unordered(">=", x, _of_number(builder, high, width))
        one, zero = (_of_number(builder, _DOUBLE(z), width) for z in (1.0, 0.0))
        both = builder.and_(is_low, is_high)
        return builder.fadd(counts, builder.select(both, one, zero))

    return counts(counts, y, types.float64, x, types.float64), generate


@intrinsic
def exponentials(typingctx, x):
    """Equal ``np.exp(x)``, 0 below -708 and at NaN, as `exponential` computes it."""

    def generate(context, builder, signature, arguments):
        (row,) = arguments
        kind, bits = row.type, ir.VectorType(ir.IntType(64), x.width)

        def of(number):
            return ir.Constant(kind, [number] * x.width)

        def plus(left, right):
            return builder.fadd(left, right, flags=("contract",))

        def product(left, right):
            return builder.fmul(left, right, flags=("contract",))

        def least(value, bound):
            return builder.fcmp_ordered(">", value, of(bound))

        above = least(row, exponential.SMALLEST)
        row = builder.select(above, row, of(exponential.SMALLEST))
        rounder = exponential.ROUNDER
        shifted = plus(product(row, of(exponential.LOG2_E)), of(rounder))
        n = plus(shifted, of(-rounder))
        r = plus(row, product(n, of(-exponential.LN2_HIGH)))
        r = plus(r, product(n, of(-exponential.LN2_LOW)))
        square = product(r, r)
        fourth = product(square, square)
        pairs = [
            plus(of(even), product(of(odd), r))
            for even, odd in exponential.COEFFICIENTS
        ]
        low = plus(pairs[0], product(pairs[1], square))
        high = plus(pairs[2], product(pairs[3], square))
        high = plus(high, product(pairs[4], fourth))
        series = product(square, plus(low, product(high, fourth)))
        value = builder.bitcast(plus(of(1.0), plus(r, series)), bits)
        exponent = builder.shl(
            builder.bitcast(shifted, bits), ir.Constant(bits, [52] * x.width)
        )
        value = builder.bitcast(builder.add(value, exponent), kind)
        return builder.select(above, value, of(0.0))

    return x(x), generate
