"""Arrays that compiled functions pass on as addresses."""

from typing import Any

from llvmlite import ir
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

#: Numba adds its types to the module where checks of types do not see them.
types: Any = numba_types


def _pointer_kind(kind):
    """Return the type of a value with pointers in place of arrays."""
    if isinstance(kind, types.Array):
        dtype = types.uint8 if kind.dtype == types.boolean else kind.dtype
        return types.CPointer(dtype)
    if isinstance(kind, types.BaseNamedTuple):
        inner = [_pointer_kind(item) for item in kind]
        return types.BaseTuple.from_types(inner, kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_pointer_kind(item) for item in kind])
    return kind


def _pointers(context, builder, kind, value):
    """Return a value with the addresses of its arrays in place of them."""
    if isinstance(kind, types.Array):
        return make_array(kind)(context, builder, value).data
    if isinstance(kind, types.BaseTuple):
        parts = [
            _pointers(context, builder, inner, builder.extract_value(value, k))
            for k, inner in enumerate(kind)
        ]
        return context.make_tuple(builder, _pointer_kind(kind), parts)
    return value


@intrinsic
def address(typingctx, arrays):
    """Return the address of the first entry of an array, as C passes it.

    Of tuples of arrays, named ones too, a tuple of the same kind. An array is seven
    values with a count of its references, which take longer to compile and to pass on
    than a few rows of arithmetic. The originals have to be used after the last use of
    their addresses; truths are bytes.
    """

    def codegen(context, builder, signature, arguments):
        return _pointers(context, builder, signature.args[0], arguments[0])

    return _pointer_kind(arrays)(arrays), codegen


@intrinsic
def offset(typingctx, pointer, count):
    """Return the address of an entry behind another."""

    def codegen(context, builder, signature, arguments):
        return builder.gep(*arguments[:1], [arguments[1]])

    return pointer(pointer, types.intp), codegen


@intrinsic
def fields(typingctx, pointer, kind):
    """Return the numbers from an address on as a named tuple of a class."""
    named = kind.instance_class
    count = len(named._fields)

    def codegen(context, builder, signature, arguments):
        places = [ir.Constant(ir.IntType(64), k) for k in range(count)]
        values = [builder.load(builder.gep(arguments[0], [k])) for k in places]
        return context.make_tuple(builder, signature.return_type, values)

    return types.NamedUniTuple(pointer.dtype, count, named)(pointer, kind), codegen


@intrinsic
def call(typingctx, function, t, amounts, psi, result):
    """Call a compiled function at an address, ``f(t, amounts, psi, result)``.

    The first result is NaN where it raised something. Numba's own pointers to functions
    take longer than a short function.
    """

    def codegen(context, builder, signature, arguments):
        convention, kinds = context.call_conv, signature.args[1:]
        kind = convention.get_function_type(types.none, kinds).as_pointer()
        place = builder.inttoptr(arguments[0], kind)
        status, _ = convention.call_function(
            builder, place, types.none, kinds, arguments[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            builder.store(ir.Constant(ir.DoubleType(), float("nan")), arguments[-1])
        return context.get_dummy_value()

    return types.void(function, t, amounts, psi, result), codegen


def is_none(kind, name) -> bool:
    """Return whether a field of a type of named tuples holds None.

    By it a function compiles a part only for those who use it.
    """
    return isinstance(kind.types[kind.fields.index(name)], types.NoneType)
