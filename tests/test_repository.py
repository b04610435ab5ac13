"""Rules on the repository as a whole: sizes, leftovers, versions."""

import ast
import io
import keyword
import re
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest

import sktem
import sktem.evaluation
import sktem.plotting

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = sorted((REPOSITORY / "sktem").rglob("*.py"))
# Not the tests: this file names what it looks for.
SCRIPTS = [
    *SOURCES,
    *sorted((REPOSITORY / "examples").rglob("*.py")),
    *sorted((REPOSITORY / "benchmarks").rglob("*.py")),
]
LEFTOVERS = re.compile(
    r"\b(TODO|FIXME|XXX|HACK|WIP)\b|(?i:\bplaceholder|\bnot (yet )?implemented)"
)
ABSOLUTE_PATHS = re.compile(r"(?<![\w./:])/(home|mnt|opt|root|tmp|Users|work)/")
#: Words of summaries that go around a thing instead of naming it.
VAGUE = re.compile(
    r"\b(beside|by turns|for nothing|goes on|mend(s|ed|ing)?|of (its|their) own|so many"
    r"|so much|stands? for|such as it|tells|that which|those that|told|what)\b",
    re.IGNORECASE,
)
#: First words of summaries that are questions rather than names of a thing. Properties
#: may begin with "Whether".
QUESTIONS = re.compile(r"(From|How|Wh(at|en|ere|ether|ich|o|y))\b")
#: Verbs without a noun.
PRONOUNS = re.compile(r"\w+ (it|its|them|their|those|that of)\b")
#: Kernels with more arguments than the limit. No name may be added.
STILL_WIDE = {
    "_importance_terms",
    "_langevin",
    "_modes",
    "_period",
    "_spread",
    "_walks",
    "compared",
    "eliminate",
    "marginalise",
    "sweeps",
}

#: Files whose functions take an estimator, and why. No name may be added.
TAKE_ESTIMATORS = {
    # They set and check numbers and names of columns, as scikit-learn's validate_data.
    "validation.py", "rows/checked.py", "estimators/by_blocks.py",
    "estimators/own_rows.py", "images/rows.py", "images/units.py",
    "mixed_effects/given_data.py",
    # scikit-learn's callbacks are passed the estimator.
    "callbacks.py", "estimators/progress.py",
    # The check of what users pass to the functions of sktem.evaluation.
    "mixed_effects/checks/rows.py",
}  # fmt: skip
#: Private members that files read of objects of other files. No name may be added.
FOREIGN = {
    # Of other packages.
    ("estimators/progress.py", "_init_callback_context"),
    ("estimators/routing.py", "_getframe"),
    ("exceptions.py", "_getframe"),
    ("template/kernels/addresses.py", "_numba_type_"),
    # The hooks of an estimator by which rows are read by blocks.
    ("estimators/by_blocks.py", "_validate"),
    ("images/rows.py", "_checked"),
    # Models of compartments, whose predictions for users are checked.
    ("compartments/gradients.py", "_predictions"),
    ("compartments/scipy_amounts.py", "_record"),
    ("mixed_effects/rows.py", "_predictions"),
    # Mixtures that answer through, or are made of, another estimator of their family.
    ("mixture/imputer.py", "_completed"),
    ("mixture/imputer.py", "_rows_of_fit"),
    ("mixture/imputer.py", "_table"),
    ("mixture/scaled.py", "_estimator_of"),
    # Fits of the classes, in threads, in which no warnings can be caught.
    ("template/classifier.py", "_learn"),
}
#: Public members of named tuples.
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}

#: Tokens that are no code; docstrings are left out as well.
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@cache
def coded_lines(text):
    """Return the numbers of lines of code: no docstrings, comments and blank lines."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ) and (ast.get_docstring(node, clean=False) is not None):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstrings


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def lines_matching(pattern, paths):
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(lines_of(path), start=1)
        if pattern.search(line)
    ]


def test_files_are_short():
    # The face of a family documents and delegates: it may have more.
    too_long = {
        str(path.relative_to(REPOSITORY)): length
        for path in SOURCES
        if (length := len(coded_lines(path.read_text(encoding="utf-8"))))
        > (500 if path.name == "estimator.py" else 300)
    }
    assert not too_long


def functions_of(path):
    """Yield the functions of a file, with their lines of code and arguments."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = coded_lines(text) & {*range(node.lineno, node.end_lineno + 1)}
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(one.arg not in ("self", "cls") for one in given)
            yield node, len(own), count


def test_functions_are_short():
    """At most 80 lines of code, and 10 arguments but for users' own settings."""
    long, wide = {}, {}
    for path in SOURCES:
        for node, length, count in functions_of(path):
            if length > 80:
                long[node.name] = f"{length} lines in {path.name}"
            documented = "Parameters\n" in (ast.get_docstring(node) or "")
            if count > 10 and not (documented or node.name == "__init__"):
                wide[node.name] = f"{count} arguments in {path.name}"
    assert not long
    assert not {name: wide[name] for name in wide.keys() - STILL_WIDE}


def methods_of(tree):
    """Return the functions that are defined in the body of a class."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node for owner in classes for node in owner.body}


def estimators_taken(text, public=frozenset()):
    """Return functions with an argument that is an estimator, but for public ones.

    It is called so, or its fitted attributes are read.
    """
    tree = ast.parse(text)
    taking, methods = [], methods_of(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name in public:
            continue
        names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        names = set(names[1:] if function in methods else names)
        read = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and re.fullmatch("[a-z].*[^_]_", node.attr)
            and not keyword.iskeyword(node.attr[:-1])
        }
        if names & (read | {"estimator"}):
            taking.append(function.name)
    return taking


def foreign_members(text):
    """Return private members of objects that the classes of a file do not have."""
    tree, defined, read = ast.parse(text), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
            owner = node.value
            if isinstance(owner, ast.Call):
                owner = owner.func
            name = owner.id if isinstance(owner, ast.Name) else ""
            if name not in ("self", "cls", "super", "type"):
                read.add(node.attr)
            elif isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
    return read - defined - OF_TUPLES


def test_functions_take_settings_and_fitted_objects():
    """Estimators are for users: functions take what they need of one."""
    public = {*sktem.evaluation.__all__, *sktem.plotting.__all__}
    taking = {}
    for path in SOURCES:
        file = path.relative_to(REPOSITORY / "sktem").as_posix()
        names = estimators_taken(path.read_text(encoding="utf-8"), public)
        if names and "display" not in file:
            taking[file] = names
    assert set(taking) == TAKE_ESTIMATORS, taking


def test_private_members_are_those_of_the_file():
    foreign = {
        (path.relative_to(REPOSITORY / "sktem").as_posix(), name)
        for path in SOURCES
        for name in foreign_members(path.read_text(encoding="utf-8"))
    }
    assert foreign == FOREIGN


def test_coupling_is_found():
    text = """
class A:
    def a(self, estimator):
        self._b = self.c_
        return estimator._c, self.d._b, super()._e
def b(fit, other):
    return fit.params_ + other.__len__() + np.add.sum
def e(fit):
    return fit._replace(a=fit.and_)
def f(rule, fit):
    return rule.name, [one._d for one in fit]
"""
    assert sorted(estimators_taken(text)) == ["a", "b"]
    assert estimators_taken(text, {"b"}) == ["a"]
    assert foreign_members(text) == {"_c", "_d"}


def summaries_of(text):
    """Yield the summaries of all docstrings, and whether each is of a property."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            summary = (ast.get_docstring(node) or "").split("\n\n")[0]
            decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
            is_property = any("property" in decorator for decorator in decorators)
            yield " ".join(summary.split()), is_property


def vague_summaries(text):
    return [
        summary
        for summary, is_property in summaries_of(text)
        if (VAGUE.search(summary) or PRONOUNS.match(summary))
        or (
            QUESTIONS.match(summary)
            and not (is_property and summary.startswith("Whether"))
        )
    ]


def test_summaries_name_things():
    """Those of private functions too: a name says more than "what it has found"."""
    vague = [
        f"{path.relative_to(REPOSITORY)}: {summary}"
        for path in SOURCES
        for summary in vague_summaries(path.read_text(encoding="utf-8"))
    ]
    assert not vague, "\n".join(["Name the thing:", *vague])


def test_vague_summaries_are_found():
    text = """
class A:
    '''How steps are made.'''

    @property
    def b(self):
        '''Whether there is a step.'''

    async def _c(self):
        '''Return the rows, and
        what they tell.

        What follows is not read.
        '''

    def d(self):
        '''Return those of the rows.'''

    def e(self):
        '''Return the rows.'''
"""
    assert vague_summaries(text) == [
        "How steps are made.",
        "Return the rows, and what they tell.",
        "Return those of the rows.",
    ]


def test_lines_of_code():
    text = '"""Doc.\n\nMore.\n"""\n\nx = """a\n\nb"""  # three lines\n# none\n\n\n'
    assert len(coded_lines(text)) == 3
    text += "def f(\n    a,\n):\n    '''Doc.'''\n    'code'\n"
    assert len(coded_lines(text)) == 7


def test_no_leftovers():
    assert lines_matching(LEFTOVERS, SCRIPTS) == []


def test_no_absolute_paths():
    assert lines_matching(ABSOLUTE_PATHS, SCRIPTS) == []


@pytest.mark.parametrize(
    "pattern, line, found",
    [
        (LEFTOVERS, "# TODO: later", True),
        (LEFTOVERS, "raise NotImplementedError('Not implemented yet')", True),
        (LEFTOVERS, "raise NotImplementedError", False),
        (ABSOLUTE_PATHS, 'open("/home/me/a.npz")', True),
        (ABSOLUTE_PATHS, "../work/a, https://a.org/home/b", False),
    ],
)
def test_patterns(pattern, line, found):
    assert bool(pattern.search(line)) == found


def test_version_is_the_same_everywhere():
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert sktem.__version__ == tomllib.loads(text)["project"]["version"]
    for name, pattern in (
        ("CITATION.cff", r"^version: (.+)$"),
        ("recipe/recipe.yaml", r'^  version: "(.+)"$'),
        ("doc/switcher.json", r'"version": "(.+)"'),
    ):
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        assert sktem.__version__ in re.findall(pattern, text, re.MULTILINE), name


def test_recipe_has_the_dependencies():
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    required = tomllib.loads(text)["project"]["dependencies"]
    recipe = (REPOSITORY / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    listed = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    assert listed - {"python>=${{python_min}}"} == set(required)


def test_changelog_has_an_entry():
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert {"Unreleased", sktem.__version__} & set(headings)
