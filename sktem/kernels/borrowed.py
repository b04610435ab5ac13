"""Arrays that compiled functions pass on without counting references."""

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def _without_owner(context, builder, kind, value):
    """Return a value in which no array has an owner, tuples of them included."""
    if isinstance(kind, types.Array):
        array = make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        for k, inner in enumerate(kind):
            part = builder.extract_value(value, k)
            part = _without_owner(context, builder, inner, part)
            value = builder.insert_value(value, part, k)
    return value


@intrinsic
def borrowed(typingctx, arrays):
    """Equal ``arrays``, an array or a tuple of them, whose owner lives elsewhere.

    A compiled function counts references to each array of its arguments, which takes
    longer than a few rows of arithmetic where there are dozens of them. These are not
    counted: the originals have to be used after the last of them.
    """

    def codegen(context, builder, signature, arguments):
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return arrays(arrays), codegen


@intrinsic
def address(typingctx, array):
    """Return the address of the first entry of an array, as C passes it."""

    def codegen(context, builder, signature, arguments):
        return make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer = types.CPointer(array.dtype)  # type: ignore[attr-defined]
    return pointer(array), codegen
