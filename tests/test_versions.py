"""What is installed is printed for reports of problems."""

import sklearn
import threadpoolctl

import sktem
from sktem.versions import DISTRIBUTIONS, installed_versions


def test_show_versions(capsys):
    assert sktem.show_versions() is None
    printed = capsys.readouterr().out
    assert f"scikit-learn: {sklearn.__version__}\n" in printed
    assert f"threadpoolctl: {threadpoolctl.__version__}\n" in printed
    for name in DISTRIBUTIONS:
        assert f"{name}: " in printed
    for part in ("System:", "Packages:", "Thread pools:"):
        assert part in printed


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr("sktem.versions.DISTRIBUTIONS", ("numpy", "no-such-package"))
    assert installed_versions()["no-such-package"] is None
    sktem.show_versions()
    assert "no-such-package: not installed\n" in capsys.readouterr().out
