"""Compiled loops that families share; each states the NumPy expression it equals.

The package also says where numba keeps compiled code, so the ``kernels`` of a family
import it before anything else.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from types import FunctionType

#: Name of the file that says from which sources the code beside it was compiled.
_STAMP = "sktem-sources"


def _writable(folder):
    """Return whether files can be made in a folder, or the folder itself can be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _kernel_folders():
    """Return the folders of compiled loops, of the core and of all families."""
    core = Path(__file__).parent
    return [core, *sorted(core.parent.glob("*/kernels"))]


def _cache_folder():
    """Return a folder for compiled code, None where numba finds one by itself.

    numba keeps compiled code next to the source or else in the user's cache folder, and
    refuses to compile when it can write to neither (a read-only image whose user has
    no home). Compiled code then goes to the temporary folder.
    """
    beside = all(_writable(folder / "__pycache__") for folder in _kernel_folders())
    home = Path(os.path.expanduser("~"))
    user = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    if "NUMBA_CACHE_DIR" in os.environ or beside or _writable(Path(user)):
        return None
    return os.path.join(tempfile.gettempdir(), "sktem-compiled")


def _compiled_in(folder):
    """Return where numba keeps the code that it compiles from the files of a folder."""
    from numba.core.caching import FunctionCache

    code = _compiled_in.__code__.replace(co_filename=str(folder / "__init__.py"))
    return Path(FunctionCache(FunctionType(code, {})).cache_path)


def _drop_stale_code():
    """Delete compiled code of other sources than those of this version.

    numba compares the file of a function alone, but compiled code holds also the
    functions that it calls, and the index of a file the classes of their arguments:
    a new version would go on with old code, or fail where a class has moved.
    """
    folders, digest = _kernel_folders(), hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        place = path.relative_to(folders[0].parent).as_posix()
        digest.update(place.encode() + path.read_bytes())
    sources = digest.hexdigest()
    for folder in map(_compiled_in, folders):
        stamp = folder / _STAMP
        if stamp.exists() and stamp.read_text(encoding="ascii") == sources:
            continue
        for path in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
            path.unlink(missing_ok=True)  # another process may be at it, too
        stamp.write_text(sources, encoding="ascii")


_folder = _cache_folder()
if _folder is not None:
    os.environ["NUMBA_CACHE_DIR"] = _folder
    if "numba" in sys.modules:  # too late for the environment variable
        sys.modules["numba"].config.CACHE_DIR = _folder
_drop_stale_code()
