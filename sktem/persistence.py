"""Types of the parts of saved estimators, for skops."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["trusted_types"]

#: Types of other packages that fitted estimators hold and that skops does not know.
OTHERS = frozenset(
    {
        "builtins.frozenset",
        "collections.Counter",
        "scipy.sparse._csr.csr_array",
    }
)


def trusted_types(types: Iterable[str]) -> list[str]:
    """Return the types of which estimators of sktem consist.

    These are the types of this package, and ``builtins.frozenset``,
    ``collections.Counter`` and ``scipy.sparse._csr.csr_array``. Anything else, such as
    a user's own function as ``model``, is left out, and ``skops.io.load`` then refuses
    the file.

    Parameters
    ----------
    types : iterable of str
        The result of ``skops.io.get_untrusted_types``.

    Returns
    -------
    list of str
        For the parameter ``trusted`` of ``skops.io.load``.

    Examples
    --------
    >>> from sktem.persistence import trusted_types
    >>> trusted_types(["sktem.history.History", "collections.Counter", "os.system"])
    ['sktem.history.History', 'collections.Counter']
    """
    return [name for name in types if name.startswith("sktem.") or name in OTHERS]
