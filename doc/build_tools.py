"""What ``conf.py`` needs besides settings: inventories, the order of the examples."""

import re
import zlib
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

HEADER = """\
# Sphinx inventory version 2
# Project: {project}
# Version:
# The remainder of this file is compressed using zlib.
"""


def write_inventories(source, target):
    """Write an inventory for each list; return their paths by project."""
    paths = {}
    for path in sorted(source.glob("*.txt")):
        lines = []
        for line in path.read_text(encoding="utf-8").splitlines():
            name, role, address = line.split()
            lines.append(f"{name} {role} 1 {address} -\n")
        body = zlib.compress("".join(lines).encode("utf-8"))
        paths[path.stem] = target / f"{path.stem}.inv"
        header = HEADER.format(project=path.stem).encode("utf-8")
        paths[path.stem].write_bytes(header + body)
    return paths


def listed_examples():
    """Return the names of the examples, in the order of ``examples/index.rst``."""
    text = (EXAMPLES / "index.rst").read_text(encoding="utf-8")
    return re.findall(r"^ +\.\./examples/(plot_\w+)\.py$", text, re.MULTILINE)


def example_order(path):
    """Return the key by which small galleries are sorted."""
    order = listed_examples()
    name = Path(path).stem
    return (order.index(name) if name in order else len(order), name)
