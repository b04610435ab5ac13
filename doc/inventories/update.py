"""Keep, of other projects' inventories, the names that this documentation links to.

    python doc/inventories/update.py sklearn=objects.inv scipy=other/objects.inv

A complete inventory is what such a project publishes as ``objects.inv`` beside its
pages. The names that occur in the documentation, the examples and the docstrings are
written, one to a line, to ``<project>.txt`` beside this script, so that the pages are
built without a network. ``conf.py`` reads these files.
"""

import re
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
ROLES = ("py:class", "py:function", "py:exception")


def entries(path):
    """Yield name, role and address of each entry of an inventory."""
    header, body = path.read_bytes().split(b"zlib.\n", 1)
    del header
    for line in zlib.decompress(body).decode("utf-8").splitlines():
        match = re.match(r"(\S+) (\S+:\S+) -?\d+ (\S*) .*", line)
        if match:
            name, role, address = match.groups()
            yield name, role, address.replace("$", name)


def names_used():
    """Return the dotted names that pages, docstrings and examples write or import."""
    found = set()
    for folder, pattern in (
        ("doc", "*.rst"),
        ("examples", "*.py"),
        ("sktem", "*.py"),
    ):
        for path in (REPOSITORY / folder).rglob(pattern):
            text = path.read_text(encoding="utf-8")
            found.update(re.findall(r"[A-Za-z_]\w*(?:\.\w+)+", text))
            if folder == "sktem":
                continue
            for module, names in re.findall(
                r"^ *from (\S+) import \(?([\w\s,]+)", text, re.MULTILINE
            ):
                found.update(f"{module}.{name}" for name in re.findall(r"\w+", names))
    return found


def main():
    """Write one list for each inventory of the command line."""
    used = names_used()
    for argument in sys.argv[1:]:
        project, path = argument.split("=", 1)
        kept = sorted(
            f"{name} {role} {address}"
            for name, role, address in entries(Path(path))
            if role in ROLES and name in used
        )
        target = HERE / f"{project}.txt"
        target.write_text("\n".join(kept) + "\n", encoding="utf-8")
        print(f"{target.name}: {len(kept)} names")


if __name__ == "__main__":
    main()
