"""Memory that is read before it is needed."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: Bytes of a cache line.
LINE = 64


#: How near to the processor LLVM is asked to bring a line.
_ALL_CACHES, _OUTER_CACHES = 3, 2


def _generate(builder, context, address, nearness):
    """Write the instruction; processors may take it as a hint only."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
    place = builder.inttoptr(address, pointer)
    # For reading (0), data (1).
    builder.call(function, [place, number(0), number(nearness), number(1)])
    return context.get_dummy_value()


@intrinsic
def prefetch(typingctx, address):
    """Have the cache line of an address read before it is needed."""

    def generate(context, builder, signature, arguments):
        return _generate(builder, context, arguments[0], _ALL_CACHES)

    return types.void(types.uintp), generate


@intrinsic
def prefetch_outer(typingctx, address):
    """Have a cache line read that is needed later, and spare the innermost cache.

    Lines that are asked for long before would push out of it what is being computed.
    """

    def generate(context, builder, signature, arguments):
        return _generate(builder, context, arguments[0], _OUTER_CACHES)

    return types.void(types.uintp), generate
