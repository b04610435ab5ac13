"""Memory that is read before it is needed."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: Bytes of a cache line.
LINE = 64


@intrinsic
def prefetch(typingctx, address):
    """Have the cache line of an address read before it is needed."""

    def generate(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        place = builder.inttoptr(arguments[0], pointer)
        # For reading (0), to be kept in all caches (3), data (1).
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
