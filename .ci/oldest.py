"""Print constraints that hold the dependencies at their lower bounds.

    python .ci/oldest.py > oldest.txt
    python -m pip install ".[plot,progress,test]" -c oldest.txt

The bounds of the package itself and of the extras "plot" and "arrow" are read from
pyproject.toml; "numpy>=1.25" becomes "numpy==1.25.*", so that pip takes the last of
these.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def constraints(path=PROJECT):
    """Return one constraint for each lower bound."""
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # pyarrow among them: newer ones refuse NumPy 1 when they are imported.
    requirements = project["dependencies"] + extras["plot"] + extras["arrow"]
    lines = []
    for requirement in requirements:
        match = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
        if match is None:
            raise ValueError(f"no lower bound can be read from {requirement!r}")
        lines.append(f"{match[1]}=={match[2]}.*")
    # Newer ones warn of what scikit-learn 1.6 does in its checks of estimators, and of
    # how Matplotlib 3.7 calls pyparsing.
    return [*lines, "pytest==8.*", "pyparsing==3.1.*"]


if __name__ == "__main__":
    print("\n".join(constraints()))
