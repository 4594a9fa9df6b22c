"""The architecture, enforced: which module may import what (docs/laws.md, laws 7 and 8).

Imports are taken from the syntax tree, wherever they stand: a late import inside a function binds as much as
one at the top. Each rule is also tried on a small sample that breaks it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trees import tree_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "watersmeet"
PROOF = ROOT / "proof"

# One way down: a module imports from its own layer and from lower ones. A new top-level module goes in here.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "versions", "windows", "aggregates", "io", "functions", "hints", "processors"}),
    frozenset({"_plan"}),
    frozenset({"_engine"}),
    frozenset({"_worker"}),
    frozenset({"_spark"}),
    frozenset({"api", "session", "sql", "prepare", "testing", "provenance", "replay", "cli", "__init__", "__main__"}),
)
LAYER_OF = {name: depth for depth, names in enumerate(LAYERS) for name in names}
# Streams become tables and tables streams, and each method says so by its type, as Kafka Streams' interfaces do. At run
# time `api/handle.py` makes a handle by its kind, so that here, too, imports go one way.
NAME_EACH_OTHER = "watersmeet.api."
WITH_PYSPARK = frozenset({"_worker", "_spark", "api", "session", "sql", "prepare", "provenance", "replay"})
WITH_PYSPARK_TOO = frozenset(f"watersmeet.testing.{name}" for name in ("driver", "stores"))
ENGINE_PACKAGES = frozenset({"numpy", "pyarrow", "watersmeet"}) | sys.stdlib_module_names
# What makes things faster, or numbers exact through a kill; it falls back to the public API by itself, and is tested
# both ways (law 8); and what a start does with files elsewhere, which says so where it cannot: those of a changed
# topology, and a checkpoint on S3; and Kafka's own Java client, asked of a streams group by the command `init`.
WITH_JVM = frozenset(
    {
        "watersmeet._spark.columns",
        "watersmeet._spark.metrics.query_facts",
        "watersmeet._spark.query.progress",
        "watersmeet._spark.batches.batches",
        "watersmeet._spark.checkpoint.folders",
        "watersmeet._spark.streams_group",
    }
)
# What needs no session.
WORKERS_PYSPARK = ("pyspark.sql.types", "pyspark.errors", "pyspark.accumulators")
# Ways past the public API, which Spark Connect and managed Spark do not have.
JVM_NAMES = frozenset(
    {"py4j", "_jvm", "_jdf", "_jsc", "_jsparkSession", "_jsq", "_jc", "_jreader", "_jwrite", "_jconf"}
)


def imported(source: str, module: str, *, types_too: bool = True) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a module (a dotted name, a package's with `.__init__`) imports."""
    tree = tree_of(source)
    for_types = {each for node in ast.walk(tree) if is_type_checking(node) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if node in for_types and not types_too:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            # `from watersmeet import errors` may name a module as well as a name within one
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def is_type_checking(node: ast.AST) -> bool:
    """Whether it is an `if TYPE_CHECKING:`, whose imports do not happen at run time and so bind no layer."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def part_of(name: str) -> str | None:
    """The top-level part of watersmeet that a name lies in; `__init__` for the package's own; else None."""
    first, _, rest = name.partition(".")
    if first != "watersmeet":
        return None
    part = rest.partition(".")[0]
    known = part in LAYER_OF or (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists()
    return part if part and known else "__init__"


def of_the_proof(name: str) -> bool:
    """Whether a name is one of the proof, which is not shipped."""
    return name.partition(".")[0] == "proof"


def layer_breaches(source: str, module: str) -> list[str]:
    """Imports from a higher layer, and parts that have no layer."""
    if not module.startswith("watersmeet."):
        return []  # the proof stands above the package
    own = module.split(".")[1]
    if own not in LAYER_OF:
        return [f"{module}: watersmeet.{own} has no layer: put it into LAYERS"]
    targets = [(line, part_of(name)) for line, name in imported(source, module, types_too=False)]
    found = [f"{module}:{line} imports {name}" for line, name in imported(source, module) if of_the_proof(name)]
    return found + [
        f"{module}:{line} imports watersmeet.{part}, a higher layer"
        for line, part in targets
        if part is not None and LAYER_OF.get(part, len(LAYERS)) > LAYER_OF[own]
    ]


def package_breaches(source: str, module: str) -> list[str]:
    """PySpark where it may not be, and in the engine anything but numpy, pyarrow and the standard library."""
    if not module.startswith("watersmeet."):
        return []
    own = part_of(module) or "__init__"
    tops = [(line, name.partition(".")[0]) for line, name in imported(source, module)]
    free = own in WITH_PYSPARK or module in WITH_PYSPARK_TOO
    found = [f"{module}:{line} imports pyspark" for line, top in tops if top == "pyspark" and not free]
    if own == "_engine":
        found += [f"{module}:{line} imports {top}" for line, top in tops if top not in ENGINE_PACKAGES | {"pyspark"}]
    return found


def oracle_breaches(source: str, module: str) -> list[str]:
    """What the oracle borrows from the very code that it judges: only the vocabulary is common to both."""
    if not module.startswith("proof.oracle"):
        return []
    return [
        f"{module}:{line} imports {name}"
        for line, name in imported(source, module)
        if not name.startswith("proof.oracle")
        and (
            of_the_proof(name)
            or LAYER_OF.get(part_of(name) or "", 0) > 0
            or name.partition(".")[0] in {"numpy", "pyarrow", "pyspark"}
        )
    ]


def jvm_breaches(source: str, module: str) -> list[str]:
    """Uses of py4j and of PySpark's private handles on the JVM, by attribute, name, import or string."""
    if module in WITH_JVM:
        return []
    found = [f"{module}:{line} imports py4j" for line, name in imported(source, module) if "py4j" in name.split(".")]
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Attribute):
            used: object = node.attr
        elif isinstance(node, ast.Name):
            used = node.id
        else:
            used = node.value if isinstance(node, ast.Constant) else None
        if isinstance(used, str) and used in JVM_NAMES:
            found.append(f"{module}:{getattr(node, 'lineno', 0)} uses {used}")
    return found


def engine_test_breaches(source: str, module: str) -> list[str]:
    """What an engine test imports that needs a JVM or a layer above the engine. The proof may come in."""
    found = []
    for line, name in imported(source, module):
        part = part_of(name)
        above = part is not None and LAYER_OF.get(part, len(LAYERS)) > LAYER_OF["_engine"]
        if name.partition(".")[0] in {"pyspark", "dev"} or above:
            found.append(f"{module}:{line} imports {name}")
    return found


def private_reaches(source: str, module: str) -> list[str]:
    """What a handle takes from within another: private names on anything but itself that the module does not define."""
    if not module.startswith(NAME_EACH_OTHER):
        return []
    tree = tree_of(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            of_itself = ast.unparse(node.value) in {"self", "cls", "super()"}
            if of_itself and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif not of_itself:
                found.append((node.lineno, node.attr))
    return [f"{module}:{line} reaches for {name}" for line, name in found if name not in own]


def circles(found: list[tuple[str, str]]) -> list[str]:
    """Circles of imports among (source, module) pairs: those for types, and those within functions, count.

    Only handles may name one another in a circle, for types alone.
    """
    names = {module.removesuffix(".__init__") for _, module in found}
    reads: dict[str, set[str]] = {}
    for source, module in found:
        own = module.removesuffix(".__init__")
        at_run_time, targets = (
            {_module_of(name, names) for _, name in imported(source, module, types_too=types_too)} - {None, own}
            for types_too in (False, True)
        )
        reads[own] = {
            name
            for name in targets
            if name is not None
            and not (name not in at_run_time and all(each.startswith(NAME_EACH_OTHER) for each in (own, name)))
        }
    while True:
        # what reads nothing that is left lies on no circle
        ends = {name for name, targets in reads.items() if not targets & reads.keys()}
        if not ends:
            return sorted(name for name in reads if any(name in targets for targets in reads.values()))
        reads = {name: targets for name, targets in reads.items() if name not in ends}


def _module_of(name: str, names: set[str]) -> str | None:
    """The module that an imported name lies in, among those there are."""
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name or None


def modules() -> list[tuple[str, str]]:
    """Source and dotted name of every module of the package and of its proof."""
    files = [(root, file) for root in (PACKAGE, PROOF) for file in sorted(root.rglob("*.py"))]
    return [(file.read_text(), ".".join(file.relative_to(root.parent).with_suffix("").parts)) for root, file in files]


def worker_breaches(source: str, module: str) -> list[str]:
    """What a worker needs a session for: of PySpark it has types and errors, and the task in one file."""
    if part_of(module) != "_worker":
        return []
    free = (*WORKERS_PYSPARK, "pyspark.TaskContext") if module == "watersmeet._worker.process" else WORKERS_PYSPARK
    return [
        f"{module}:{line} imports {name}"
        for line, name in imported(source, module)
        if name.partition(".")[0] == "pyspark" and not name.startswith(free)
    ]


def folder_of(module: str) -> str:
    """The folder that a module lies in, as a package."""
    return module.rpartition(".")[0]


def mutual_folders(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of folders that import each other; a folder and one within it are no pair: one leads to the other."""
    names = {module.removesuffix(".__init__"): folder_of(module) for _, module in found}
    reads: set[tuple[str, str]] = set()
    for source, module in found:
        targets = {_module_of(name, set(names)) for _, name in imported(source, module)}
        reads |= {(folder_of(module), names[target]) for target in targets if target is not None}
    return sorted(
        (one, other)
        for one, other in reads
        if one < other and (other, one) in reads and not f"{other}.".startswith(f"{one}.")
    )


RULES = [layer_breaches, package_breaches, oracle_breaches, jvm_breaches, worker_breaches, private_reaches]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_of_the_package_keeps_the_rule(rule):
    found = modules()
    assert len(found) > 10
    assert [breach for source, name in found for breach in rule(source, name)] == []


def test_no_modules_import_one_another_in_a_circle_not_even_for_types_but_handles():
    assert circles(modules()) == []


def test_no_two_folders_import_each_other():
    assert mutual_folders(modules()) == []


def test_two_folders_that_import_each_other_are_found_whichever_modules_do():
    one, other, inner = "watersmeet.a.x", "watersmeet.b.y", "watersmeet.a.c.z"
    there, back = ("from watersmeet.b import y", one), ("def late():\n    import watersmeet.a.w", other)
    assert mutual_folders([there, back, ("", "watersmeet.a.w")]) == [("watersmeet.a", "watersmeet.b")]
    assert mutual_folders([there, ("", other)]) == []
    assert mutual_folders([("from watersmeet.a.c import z", one), ("from watersmeet.a import x", inner)]) == []


def test_a_circle_is_found_also_where_it_is_for_types_alone_or_within_a_function():
    a, b, c = "watersmeet.a", "watersmeet.b", "watersmeet.c"
    reads_b = ("from watersmeet.b import B", a)
    types = ("if TYPE_CHECKING:\n    from watersmeet.a import A", b)
    late = ("def late():\n    import watersmeet.a", b)
    assert circles([reads_b, ("import struct", b)]) == []
    assert circles([reads_b, types]) == [a, b]
    assert circles([reads_b, late]) == [a, b]
    assert circles([reads_b, ("from watersmeet import c", b), ("from . import a", c)]) == [a, b, c]


def test_handles_may_name_one_another_for_types_and_not_at_run_time():
    a, b = "watersmeet.api.a", "watersmeet.api.b"
    reads_b, types = (
        ("from watersmeet.api.b import B", a),
        "if TYPE_CHECKING:\n    from watersmeet.api.a import A",
    )
    assert circles([reads_b, (types, b)]) == []
    assert circles([reads_b, (f"{types}\ndef late():\n    from watersmeet.api.a import A", b)]) == [a, b]
    assert circles([("from watersmeet.api.b import B", "watersmeet.a"), (types, b), ("import watersmeet.a", a)]) == []


def test_tests_of_the_engine_need_no_spark():
    files = sorted((ROOT / "tests" / "engine").rglob("*.py"))
    assert files
    breaches = [engine_test_breaches(file.read_text(), f"tests.engine.{file.stem}") for file in files]
    assert [breach for found in breaches for breach in found] == []


def test_the_engine_can_be_imported_where_there_is_no_pyspark():
    inner = [name for _, name in modules() if part_of(name) in {"_engine", "_plan"}]
    program = f"""
import importlib, sys, types
package = types.ModuleType("watersmeet")  # its own __init__ brings the handles, and they bring PySpark
package.__path__ = [{str(PACKAGE)!r}]
sys.modules.update(watersmeet=package, pyspark=None)
for name in {inner!r}:
    importlib.import_module(name.removesuffix(".__init__"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
