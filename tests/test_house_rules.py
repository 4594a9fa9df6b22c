"""The house rules that a program can check: docstrings, sizes, loops over rows, and what no file may mention.

Each checker takes a source or a text, so that it is also tried on a small sample that breaks its rule.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trees import classes_by_name, tree_of

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES_OF_A_FILE = 1_500
MOST_LINES_OF_A_FUNCTION = 40
SHORT_FUNCTION = 3
PUBLIC = ("__init__", "aggregates", "api", "cli", "errors", "functions", "hints", "io", "pr", "session", "testing", "w")
# a file of so few lines has more than one importer in its folder, or another place to be
LEAST_LINES_OF_A_FILE = 150
# Ratchets: what the package has today. They go down only.
MOST_FILES_OF_SRC = 236
MOST_LINES_OF_SRC = 92_130
MOST_VAGUE_NAMES = 488
# Bare participles, pronouns and adverbs: names that do not say what a thing is.
VAGUE = frozenset(
    re.findall(
        r"\w+",
        """
found given told made kept held known wanted mine own said seen asked begun shown each others other rest there
several taken stored called left_ what which why how more few some all_ both one before behind after late early gone
ended placed named chosen settled lent stands stood waits together apart anew alone whole begin goes lets now then
here within
""",
    )
)
# in `name.part`: objects that users have, settings, classes of Spark and Kafka Streams, the package itself
ELSEWHERE = frozenset(
    re.findall(
        r"\w+",
        "wm watersmeet _engine query spark builder context value batch name json connect asyncio pyspark fetchOffset "
        "DataType StatefulProcessor Windowed",
    )
)
ROW_BY_ROW = frozenset({"to_pylist", "to_pydict", "tolist"})
# Put together from pieces, so that this file does not break the rule that it checks.
HOSTS = tuple(
    ".".join(pieces)
    for pieces in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("repo", "maven", "apache"),
        ("repository", "apache"),
        ("packages", "confluent"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang"),
        ("deb", "debian"),
    ]
)
# the project's until November 2026: another project has it
FORMER_NAME = "mill" + "pond"
MACHINE_PATH = re.compile(r"(?<![\w.:/-])(?:/(?:work|root|home|Users)/[\w.-]+|/tmp/(?:v)\b|[A-Z]:\\Users\\)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def without_module_docstring(source: str) -> list[str]:
    """A line when the module does not open with a docstring."""
    return [] if ast.get_docstring(tree_of(source)) else ["1: no module docstring"]


def without_docstring(source: str) -> list[str]:
    """Public functions, classes and methods that have no docstring, nor take one from a base class."""
    tree = tree_of(source)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return [f"{node.lineno}: {node.name} has no docstring" for node in _undocumented(tree, classes)]


def without_docstring_where_it_is_needed(source: str) -> list[str]:
    """Of an inner layer: a function of three lines has a good name instead."""
    lines = {node.lineno: node for node in ast.walk(tree_of(source)) if isinstance(node, Function | ast.ClassDef)}
    return [
        breach
        for breach in without_docstring(source)
        for node in [lines[int(breach.partition(":")[0])]]
        if isinstance(node, ast.ClassDef) or (node.end_lineno or 0) - node.body[0].lineno >= SHORT_FUNCTION
    ]


def _undocumented(
    parent: ast.Module | ast.ClassDef, classes: dict[str, ast.ClassDef]
) -> Iterator[Function | ast.ClassDef]:
    for node in parent.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
        # the property, and the function that the overloads describe, carry the docstring
        excused = bool(marks & {"overload", "setter"}) or _documented_in_base(node.name, parent, classes)
        if not excused and not ast.get_docstring(node):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node, classes)


def _documented_in_base(name: str, owner: ast.Module | ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    names = {_name_of(base) for base in owner.bases} - {owner.name} if isinstance(owner, ast.ClassDef) else set()
    bases = [each for base in names for each in ([classes[base]] if base in classes else classes_by_name()[base])]
    own = [node for base in bases for node in base.body if isinstance(node, Function) and node.name == name]
    return any(map(ast.get_docstring, own)) or any(_documented_in_base(name, base, classes) for base in bases)


def _name_of(base: ast.expr) -> str:
    """Of `module.Base[Kind]`: Base."""
    base = base.value if isinstance(base, ast.Subscript) else base
    return getattr(base, "id", getattr(base, "attr", ""))


def too_long_file(source: str) -> list[str]:
    """A line when the file is longer than a file may be."""
    lines = len(source.splitlines())
    return [f"{lines} lines, {MOST_LINES_OF_A_FILE} at most"] if lines > MOST_LINES_OF_A_FILE else []


def too_long_functions(source: str) -> list[str]:
    """Functions longer than a function may be; the lines of docstrings do not count."""
    found = []
    for node in ast.walk(tree_of(source)):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            if lines > MOST_LINES_OF_A_FUNCTION:
                found.append(f"{node.lineno}: {node.name} has {lines} lines, {MOST_LINES_OF_A_FUNCTION} at most")
    return found


def _docstring_lines(function: Function) -> int:
    inner = [
        node for node in ast.walk(function) if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node)
    ]
    return sum((node.body[0].end_lineno or 0) - node.body[0].lineno + 1 for node in inner)


def loops_over_rows(source: str) -> list[str]:
    """Loops over a column's values as Python objects, with no comment in their head or before it that says why."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    loops = [node for node in ast.walk(tree_of(source)) if isinstance(node, ast.For | ast.comprehension)]
    called = {
        node.iter: {getattr(call.func, "attr", "") for call in ast.walk(node.iter) if isinstance(call, ast.Call)}
        for node in loops
    }
    return [
        f"{values.lineno}: a loop over rows without a comment that says why"
        for values, names in called.items()
        if names & ROW_BY_ROW and commented.isdisjoint(range(values.lineno - 1, (values.end_lineno or 0) + 1))
    ]


def names_given(source: str) -> Iterator[str]:
    """Names that a module gives: to variables, attributes, parameters, functions and classes."""
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def vague_names(source: str) -> list[str]:
    """Names that are bare participles, pronouns or adverbs."""
    return [name for name in names_given(source) if name.strip("_") in VAGUE]


def importers_of(files: list[tuple[str, str]]) -> dict[str, set[str]]:
    """Which files import each file of the package."""
    module = {name.removeprefix("src/").removesuffix(".py").replace("/", "."): name for name, _ in files}
    module |= {name.removesuffix(".__init__"): path for name, path in module.items()}
    importers: dict[str, set[str]] = {name: set() for name, _ in files}
    for name, text in files:
        for node in ast.walk(tree_of(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = {module.get(f"{node.module}.{alias.name}", module.get(node.module)) for alias in node.names}
                for target in targets - {name}:
                    if target is not None:
                        importers[target].add(name)
    return importers


def small_files_with_one_importer_beside_them(files: list[tuple[str, str]]) -> list[str]:
    """Files that could stand in the only file that imports them; a list of a family is none."""
    # a command may have a file of its own
    lists = {"__init__.py", "registry.py", "commands.py"}
    return [
        name
        for name, by in importers_of(files).items()
        if len(dict(files)[name].splitlines()) < LEAST_LINES_OF_A_FILE and len(by) == 1
        if all(Path(other).parent == Path(name).parent and Path(other).name not in lists for other in by)
    ]


def base_names_used_twice(files: list[tuple[str, str]]) -> list[str]:
    """Files of one base name within one layer."""
    places = Counter((Path(name).parts[2], Path(name).name) for name, _ in files if not name.endswith("__init__.py"))
    return [f"{layer}: {name}" for (layer, name), count in places.items() if count > 1]


def producers_that_may_change_the_order(source: str) -> list[str]:
    """Clients of Kafka that send a record again and put it behind later ones: made without idempotence."""
    settings = (
        (node.lineno, {key.value for key in node.args[0].keys if isinstance(key, ast.Constant)})
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Producer" and node.args
        if isinstance(node.args[0], ast.Dict) and all(node.args[0].keys)
    )
    return [f"{line}: a producer" for line, names in settings if not names & {"enable.idempotence", "transactional.id"}]


def says_who_calls(source: str) -> list[str]:
    """A line when the module's docstring says who calls it: imports say that, and they are kept true."""
    text = " ".join((ast.get_docstring(tree_of(source)) or "").split())
    return ["1: says who calls it"] if re.search(r"(^|[.:;] )(Called|Used|Read|Imported) (only )?by ", text) else []


def parameters_that_are_not_there(source: str) -> list[str]:
    """Parameters that a docstring lists, and that its function or class, or one that it is made of, does not have."""
    tree = tree_of(source)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            has = _parameters(node, classes)
            listed = _listed_parameters(ast.get_docstring(node) or "") if has is not None else []
            found += [f"{node.lineno}: {node.name} has no {name}" for name in listed if has and name not in has]
    return found


def _listed_parameters(docstring: str) -> list[str]:
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^(\w+(?:, \w+)*) : ", section[1], re.MULTILINE) if section else []
    return [name for line in lines for name in line.split(", ")]


def _parameters(node: Function | ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str] | None:
    """Names of parameters, or fields; None: a base class that stands elsewhere may have more, or overloads have."""
    if isinstance(node, Function):
        if node.args.kwarg is not None and node.args.kwarg.arg == "options":
            return None  # tests/api/test_shared_parameters.py asks the program
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        return {each.arg for each in given if each}
    own = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    made = [_parameters(each, classes) for each in node.body if getattr(each, "name", "") == "__init__"]
    above = [_parameters(classes[name], classes) if name in classes else None for name in map(_base, node.bases)]
    return None if None in (*made, *above) else own.union(*made, *above)


def _base(base: ast.expr) -> str:
    return getattr(base, "id", "")


def names_that_lead_to_nothing(source: str, modules: dict[str, set[str]]) -> list[str]:
    """Of `module.name` in comments and docstrings those that no module or class of the package has.

    Parameters
    ----------
    modules : the names in each module and class, and in modules of one name together.
    """
    code = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(tree_of(source))}
    found = []
    for line, text in _remarks(source):
        for name, part in re.findall(r"(?<!`)`([A-Za-z_]\w*)\.(\w+)(?:\(\))?`", text):
            if name not in ELSEWHERE and part not in modules.get(name, code):
                found.append(f"{line}: `{name}.{part}` leads to nothing")
    return found


def _remarks(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield from enumerate(token.string.splitlines(), token.start[0])


def names_by_module(files: list[tuple[str, str]]) -> dict[str, set[str]]:
    """The names that each module gives, by the module's name and by those of its classes."""
    names: dict[str, set[str]] = {}
    for file, text in files:
        path, given = Path(file), set(names_given(text))
        classes = [node.name for node in ast.walk(tree_of(text)) if isinstance(node, ast.ClassDef)]
        for name in (path.parent.name if path.stem == "__init__" else path.stem, *classes):
            names[name] = names.get(name, set()) | given
    return names


def places_named(text: str) -> list[str]:
    """Hosts of package registries, and paths that exist on one machine only."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [f"{number}: names the host {host}" for host in HOSTS if host in line]
        found += [f"{number}: names the path {path}" for path in MACHINE_PATH.findall(line)]
    return found


def tracked_files() -> list[Path]:
    """The repository's files, and those about to be: all that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        # an unpacked archive of the sources has no git; what tools leave there is hidden or called so
        parts = [(file, file.relative_to(ROOT).parts) for file in ROOT.rglob("*")]
        files = [file for file, path in parts if path[0] == ".ci" or not _made_by_tools(path)]
    return sorted(file for file in files if file.is_file())


def _made_by_tools(path: tuple[str, ...]) -> bool:
    return any(part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info") for part in path)


def texts() -> list[tuple[str, str]]:
    """Name and text of each tracked file that is text."""
    found = []
    for file in tracked_files():
        content = file.read_bytes()
        if b"\0" not in content[:8192] and file.suffix != ".gz":
            found.append((str(file.relative_to(ROOT)), content.decode("utf-8", errors="replace")))
    return found


def pythons(under: str = "") -> list[tuple[str, str]]:
    """Name and text of each tracked Python file under a folder."""
    return [(name, text) for name, text in texts() if name.endswith(".py") and name.startswith(under)]


RULES = [
    (without_module_docstring, ""),
    (without_docstring_where_it_is_needed, "src/watersmeet/_"),
    *((without_docstring, f"src/watersmeet/{part}") for part in PUBLIC),
    (without_docstring, "dev/"),
    (without_docstring, "proof/"),
    (too_long_file, ""),
    (too_long_functions, ""),
    (loops_over_rows, "src/watersmeet/_engine/"),
    (says_who_calls, ""),
    (parameters_that_are_not_there, ""),
    (producers_that_may_change_the_order, ""),
]


@pytest.mark.parametrize(("rule", "under"), RULES, ids=lambda value: getattr(value, "__name__", value or "all"))
def test_every_python_file_keeps_the_rule(rule, under):
    files = pythons(under)
    assert files
    assert [f"{name}:{breach}" for name, text in files for breach in rule(text)] == []


def test_no_two_classes_of_the_package_have_one_name():
    trees = [tree_of(text) for _, text in pythons("src/watersmeet/")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("rule", [small_files_with_one_importer_beside_them, base_names_used_twice])
def test_each_subject_of_the_package_has_one_file(rule):
    assert rule(pythons("src/watersmeet/")) == []


def test_the_package_grows_in_no_figure_of_the_house():
    files = pythons("src/watersmeet/")
    assert len(files) <= MOST_FILES_OF_SRC
    assert sum(len(text.splitlines()) for _, text in files) <= MOST_LINES_OF_SRC
    assert sum(len(vague_names(text)) for _, text in files) <= MOST_VAGUE_NAMES


def test_each_name_that_a_remark_refers_to_is_there():
    files = pythons("src/watersmeet/_")
    modules = names_by_module(pythons("src/watersmeet/"))
    assert [f"{name}:{breach}" for name, text in files for breach in names_that_lead_to_nothing(text, modules)] == []
    sample = 'def f(a):\n    """See `a.b`, `one.y` and `One.x`."""\n    return a.b  # as `one.x`, `a.c` and `wm.sum`'
    names = names_by_module([("src/watersmeet/_engine/one.py", "class One:\n    x = 1")])
    assert names_that_lead_to_nothing(sample, names) == ["2: `one.y` leads to nothing", "3: `a.c` leads to nothing"]


def test_a_vague_name_a_small_file_and_a_second_base_name_are_found():
    assert sorted(vague_names("found = 1\ndef _given(a, told): ...\nself.held = [row for each in rows]")) == sorted(
        [
            "_given",
            "found",
            "held",
            "told",
            "each",
        ]
    )
    one, other = (
        ("src/watersmeet/_engine/a/one.py", "from watersmeet._engine.a.two import x"),
        "src/watersmeet/_engine/",
    )
    assert small_files_with_one_importer_beside_them([one, (f"{other}a/two.py", "x = 1")]) == [f"{other}a/two.py"]
    assert small_files_with_one_importer_beside_them([one, (f"{other}a/two.py", "x = 1\n" * 150)]) == []
    assert base_names_used_twice([one, (f"{other}b/one.py", "")]) == ["_engine: one.py"]


def test_no_file_names_a_registry_host_or_a_path_of_one_machine():
    found = texts()
    assert {"pyproject.toml", "dev/ivy.xml", "requirements/dev.txt"} <= {name for name, _ in found}
    assert [f"{name}:{breach}" for name, text in found for breach in places_named(text)] == []


def test_the_former_name_is_nowhere():
    assert [name for name, text in texts() if FORMER_NAME in f"{name}\n{text}".lower()] == []


def test_each_page_of_the_docs_has_its_line_in_the_menu_of_the_site():
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r"([\w./-]+(?:\.md|/))$", menu, re.MULTILINE))
    docs = ROOT / "docs"
    pages = [page.relative_to(docs) for page in docs.rglob("*.md")]
    assert [str(page) for page in pages if not {str(page), f"{page.parent}/"} & listed] == []


LONG_BODY = "    x = 1\n" * MOST_LINES_OF_A_FUNCTION
LONG_DOCSTRING = '    """One.\n' + "    more\n" * 50 + '    """\n'
LISTED = '"""F.\n\n    Parameters\n    ----------\n    a, b : some.\n    c : more.\n    """'
BASE = "class A:\n    '''A.'''\n    def shown(self):\n        '''Shown.'''\n"
BAD = [
    (without_module_docstring, "import struct\n'''Too late.'''"),
    (without_module_docstring, ""),
    (without_docstring, "def shown():\n    pass"),
    (without_docstring, "class Shown:\n    '''Fine.'''\n    def shown(self):\n        pass"),
    (without_docstring, "class Shown:\n    pass"),
    (without_docstring, BASE + "class B:\n    '''B.'''\n    def shown(self):\n        pass"),
    (without_docstring_where_it_is_needed, "def shown():\n    a = 1\n    b = 2\n    c = 3\n    return a"),
    (without_docstring_where_it_is_needed, "class Shown:\n    a: int"),
    (too_long_file, "\n" * (MOST_LINES_OF_A_FILE + 1)),
    (too_long_functions, "def long():\n" + LONG_BODY),
    (too_long_functions, "class Some:\n  async def long(self):\n" + LONG_BODY),
    (loops_over_rows, "for row in column.to_pylist():\n    pass  # too late"),
    (loops_over_rows, "# about x\nx = 1\nfor a, b in zip(c, d.tolist()):\n    pass"),
    (loops_over_rows, "x = [y for y in table.to_pylist()]"),
    (says_who_calls, "'''Fine.\n\nMore. Called by\n`some`.'''"),
    (parameters_that_are_not_there, f"def f(a, *, b):\n    {LISTED}"),
    (parameters_that_are_not_there, f"class F:\n    {LISTED}\n    a: int\n    b: int"),
    (parameters_that_are_not_there, f"class B:\n    a: int\nclass F(B):\n    {LISTED}\n    b: int"),
    (producers_that_may_change_the_order, "p = Producer({'bootstrap.servers': servers, 'linger.ms': 50})"),
    (places_named, "see https://" + HOSTS[0] + "/simple"),
    (places_named, "resolver " + HOSTS[3] + ".org"),
    (places_named, 'open("/wo' + 'rk/main/x")'),
    (places_named, "cd /ro" + "ot/.cache"),
    (places_named, "python=/home/" + "somebody/bin/python"),
    (places_named, "/tmp/" + "v/bin/python"),
    (places_named, "C:\\" + "Users\\somebody"),
]
GOOD = [
    (without_docstring_where_it_is_needed, "def shown():\n    a = 1\n    return a"),
    (without_module_docstring, "'''Fine.'''"),
    (without_docstring, "def _hidden():\n    pass\nclass _Hidden:\n    def shown(self):\n        pass"),
    (without_docstring, "class S:\n    '''S.'''\n    @p.setter\n    def p(self, v):\n        pass"),
    (without_docstring, BASE + "class B(A):\n    '''B.'''\n    def shown(self):\n        pass"),
    (
        without_docstring,
        "class B(declaration.OperatorDeclaration):\n    '''B.'''\n    def params(self, site):\n        pass",
    ),
    (too_long_file, "\n" * MOST_LINES_OF_A_FILE),
    (too_long_functions, "def fine():\n" + LONG_DOCSTRING + LONG_BODY[10:]),
    (loops_over_rows, "for label in labels.tolist():  # of shards, not of rows\n    pass"),
    (loops_over_rows, "# few: one a domain\nfor domain in domains.tolist():\n    pass"),
    (loops_over_rows, "for run in runs:\n    pass\nx = [y for y in z]"),
    (says_who_calls, "'''A message that is called by name.'''"),
    (parameters_that_are_not_there, f"def f(a, *, b, c=None):\n    {LISTED}"),
    (parameters_that_are_not_there, f"class F:\n    {LISTED}\n    a: int\n    def __init__(self, b, c): pass"),
    (parameters_that_are_not_there, f"class F(elsewhere.B):\n    {LISTED}"),
    (producers_that_may_change_the_order, "p = Producer({'enable.idempotence': True})\nq = Producer(settings)"),
    (
        places_named,
        "spark.read.parquet('/tmp/orders') and https://spark.apache.org/docs and ./work/x and a/home/b",
    ),
]


@pytest.mark.parametrize(("rule", "sample"), BAD)
def test_a_sample_that_breaks_a_rule_is_found(rule, sample):
    assert len(rule(sample)) == 1


@pytest.mark.parametrize(("rule", "sample"), GOOD)
def test_a_sample_that_keeps_a_rule_passes(rule, sample):
    assert rule(sample) == []
