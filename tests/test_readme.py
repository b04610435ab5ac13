"""Every Python example of the README, the documentation and the docstrings runs."""

import contextlib
import doctest
import importlib
import pkgutil
import re
import sys
import textwrap
from pathlib import Path

import pytest

import sktem

REPOSITORY = Path(__file__).resolve().parent.parent
GENERATED = ("_build", "auto_examples", "api")
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "doc").rglob("*.rst")
        if path.relative_to(REPOSITORY / "doc").parts[0] not in GENERATED
    ),
]
# A page may show what the test extra does not bring.
OPTIONAL = {"dask", "distributed", "pyarrow", "skops", "torch"}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks_of_markdown(text):
    """Yield (line number from 0, code) of each ```python block."""
    pattern = r"^```python[^\n]*\n(.*?)^```"
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start(1)), match[1]


def blocks_of_rst(text):
    """Yield (line number from 0, code) of python code-blocks and doctest blocks."""
    lines = text.splitlines()
    number = 0

    def indentation(line):
        return len(line) - len(line.lstrip())

    while number < len(lines):
        line = lines[number]
        if re.match(r"\s*\.\. code-block:: (python|pycon)\s*$", line):
            start = number = number + 1
            # The block ends before the first line that is indented no deeper.
            while number < len(lines) and (
                not lines[number].strip()
                or indentation(lines[number]) > indentation(line)
            ):
                number += 1
            # The options of the directive come before the first empty line.
            while start < number and lines[start].strip():
                start += 1
        elif line.lstrip().startswith(">>>"):
            start = number
            while number < len(lines) and lines[number].strip():
                number += 1
        else:
            number += 1
            continue
        yield start, textwrap.dedent("\n".join(lines[start:number])) + "\n"


def run_doctest(test):
    """Run a doctest; a failure shows the example, what it gave and its line."""
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=report.append, clear_globs=False)
    if runner.failures:
        pytest.fail("".join(report), pytrace=False)


def run_block(page, line, code, namespace):
    if ">>>" in code:
        parser = doctest.DocTestParser()
        test = parser.get_doctest(code, {}, page, page, line)
        test.globs = namespace  # get_doctest copies, but later blocks share it
        run_doctest(test)
    else:
        # The empty lines make a traceback show the line of the page.
        source = compile("\n" * line + code, str(REPOSITORY / page), "exec")
        exec(source, namespace)


@pytest.fixture
def _no_cluster_left():
    """Close the cluster of a page, which other tests would work on."""
    yield
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with contextlib.suppress(ValueError):  # there is none
            distributed.default_client().close()


@pytest.mark.usefixtures("_no_cluster_left")
@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch, pyplot):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    find = blocks_of_markdown if page.endswith(".md") else blocks_of_rst
    monkeypatch.chdir(tmp_path)
    namespace, missing = {"__name__": "__main__"}, []
    for line, code in find(text):
        try:
            run_block(page, line, code, namespace)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            missing.append(f"{error.name} in line {line + 1}")
    if missing:
        pytest.skip(f"all other blocks of {page} have run: no {', '.join(missing)}")


def public_modules():
    """Return the names of all modules of sktem without a leading underscore."""

    def fail(name):
        raise ImportError(f"cannot import {name}")

    found = pkgutil.walk_packages(sktem.__path__, "sktem.", onerror=fail)
    names = ["sktem", *(module.name for module in found)]
    return [name for name in names if "._" not in name]


@pytest.mark.parametrize("module", public_modules())
def test_docstring_examples(module, tmp_path, monkeypatch, pyplot):
    monkeypatch.chdir(tmp_path)
    if module == "sktem.callbacks":
        pytest.importorskip("sklearn.callback")  # scikit-learn 1.9
    finder = doctest.DocTestFinder()
    for test in finder.find(importlib.import_module(module), module):
        if test.examples:
            run_doctest(test)


def test_blocks_are_found():
    markdown = "text\n```bash\nls\n```\n\n```python\nx = 1\n```\n"
    assert list(blocks_of_markdown(markdown)) == [(6, "x = 1\n")]

    rst = """\
.. code-block:: python
   :caption: a

   if x:

       y = 1

Text, and a doctest:

>>> y
1

- .. code-block:: bash

     ls

  .. code-block:: python

     z = 2
"""
    blocks = [(line, code.strip()) for line, code in blocks_of_rst(rst)]
    assert blocks == [(2, "if x:\n\n    y = 1"), (9, ">>> y\n1"), (17, "z = 2")]


def test_a_wrong_example_fails():
    namespace = {}
    run_block("page", 0, "y = 1\n", namespace)
    run_block("page", 0, ">>> y = y + 1\n>>> y\n2\n", namespace)
    assert namespace["y"] == 2
    with pytest.raises(pytest.fail.Exception, match="Got:"):
        run_block("page", 0, ">>> y\n3\n", namespace)
