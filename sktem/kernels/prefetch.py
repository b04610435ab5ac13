"""Memory that is read before it is needed."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: Bytes of a cache line.
LINE = 64


#: The level of the cache, of three, to which a line is to come.
_OUTER_CACHES = 2


@intrinsic
def prefetch_outer(typingctx, address):
    """Prefetch a cache line into the outer caches only.

    Lines that are asked for long before would push out of it what is being computed.
    """

    def generate(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        place = builder.inttoptr(arguments[0], pointer)
        # For reading (0), data (1).
        builder.call(function, [place, number(0), number(_OUTER_CACHES), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
