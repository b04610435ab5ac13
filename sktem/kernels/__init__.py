"""Compiled loops that families share; each states the NumPy expression it equals.

The package also says where numba keeps compiled code, so the ``kernels`` of a family
import it before anything else.
"""

import os
import sys
import tempfile
from pathlib import Path


def _writable(folder):
    """Return whether files can be made in a folder, or the folder itself can be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _cache_folder():
    """Return a folder for compiled code, None where numba finds one by itself.

    numba keeps compiled code next to the source or else in the user's cache folder, and
    refuses to compile when it can write to neither (a read-only image whose user has
    no home). Compiled code then goes to the temporary folder.
    """
    own = Path(__file__).parent
    folders = [own, *own.parent.glob("*/kernels")]
    beside = all(_writable(folder / "__pycache__") for folder in folders)
    home = Path(os.path.expanduser("~"))
    user = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    if "NUMBA_CACHE_DIR" in os.environ or beside or _writable(Path(user)):
        return None
    return os.path.join(tempfile.gettempdir(), "sktem-compiled")


_folder = _cache_folder()
if _folder is not None:
    os.environ["NUMBA_CACHE_DIR"] = _folder
    if "numba" in sys.modules:  # too late for the environment variable
        sys.modules["numba"].config.CACHE_DIR = _folder
