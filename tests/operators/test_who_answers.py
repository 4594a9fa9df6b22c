"""Operators and nodes answer for themselves: nobody asks which operator or node something is.

Taken from the syntax tree; the rule is also tried on small samples that break it and on some that keep it.
"""

from __future__ import annotations

import ast

import pytest

from tests.test_architecture import modules, of_the_proof, part_of
from watersmeet._engine.operators import OPERATORS
from watersmeet._plan.nodes import Node


def nodes_below(kind: type) -> set[str]:
    """Names of the classes of nodes of the package."""
    own = {kind.__name__} if kind.__module__.startswith("watersmeet.") else set()
    return own.union(*map(nodes_below, kind.__subclasses__()))


NODES = frozenset(nodes_below(Node))
# "table" is a kind of a node's output, too, and "process" what a metric counts
STEMS = OPERATORS.keys() - {"table", "process"}
FREE = tuple(f"watersmeet._plan.{part}" for part in ("nodes", "operators"))
FREE += ("proof.oracle",)
# Where a stem leads to its engine file.
DISPATCHERS = frozenset({"watersmeet._engine.operators", "watersmeet._engine.operators.__init__"})


def breaches(source: str, module: str) -> list[str]:
    """Questions of which operator or node something is, where its declaration has to answer.

    Free to ask are the modules of nodes and operators. Handles make nodes and may know them; tables that lead from a
    stem or a type to what runs it are looked up, not compared.
    """
    inner = part_of(module) in {"_plan", "_engine", "_spark"} and module not in DISPATCHERS
    if module.startswith(FREE) or not (inner or part_of(module) == "testing" or of_the_proof(module)):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        if asks(node):
            found.append(f"{module}:{getattr(node, 'lineno', 0)} asks which operator or node something is")
        if inner and isinstance(node, ast.Constant) and node.value in STEMS:
            found.append(f"{module}:{node.lineno} names the operator {node.value!r}")
    return found


def asks(node: ast.AST) -> bool:
    """Whether it is a test of a node's type, or a comparison of a stem, a class or a type of nodes."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
        return bool(names_in(node.args[1]) & NODES)
    if isinstance(node, ast.MatchClass):
        return bool(names_in(node.cls) & NODES)
    if isinstance(node, ast.Match):
        return bool(names_in(node.subject) & {"stem", "declaration"})
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        asked = {getattr(side, "attr", "") for side in sides} | {getattr(side, "id", "") for side in sides} - {
            "declaration"
        }
        types = any(isinstance(side, ast.Call) and getattr(side.func, "id", "") == "type" for side in sides)
        return bool(asked & {"stem", "declaration"}) or (types and any(names_in(side) & NODES for side in sides))
    return False


def names_in(node: ast.AST) -> set[str]:
    """All names and attributes in an expression."""
    return {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node)}


def test_nobody_asks_which_operator_or_node_something_is() -> None:
    assert [breach for source, name in modules() for breach in breaches(source, name)] == []


BAD = [
    ("watersmeet._plan.rewrite", "if operator.stem == kind:\n    pass"),
    ("watersmeet._plan.rewrite", "keeps = operator.stem in KEEPING"),
    ("watersmeet._engine.exchange", "stem = operator.stem\nif stem != other:\n    pass"),
    ("watersmeet._spark.dataflow.compile", "found = [o for o in operators if o.declaration is CurrentTable]"),
    ("watersmeet._spark.dataflow.compile", "JOINS = ('foreign_key_send',)"),
    ("watersmeet._plan.logical", "if isinstance(node, StreamTableNode | ReferenceNode):\n    pass"),
    ("watersmeet._spark.dataflow.stage", "if isinstance(node, nodes.GlobalLookupNode):\n    pass"),
    ("watersmeet._spark.dataflow.stage", "if type(node) in (MapNode, FlatMapNode):\n    pass"),
    ("watersmeet._plan.rewrite", "match node:\n    case SinkNode():\n        pass"),
    ("watersmeet._plan.rewrite", "match operator.stem:\n    case other:\n        pass"),
    ("proof.engine", "if isinstance(node, TableTableNode):\n    pass"),
]
GOOD = [
    ("watersmeet._plan.operators.tables", "if isinstance(node, Filter):\n    pass"),
    (
        "watersmeet._engine.operators",
        "OPERATORS = {'table_table': table_table.run}\nrun = OPERATORS[operator.stem]",
    ),
    ("watersmeet._spark.dataflow.stage", "_STEPS = {FilterNode: _filter}\nstep = _STEPS.get(type(node))"),
    ("watersmeet.api.streams", "if isinstance(node, GlobalViewNode):\n    pass"),
    ("watersmeet._plan.explain", "text = f'{node.stem} {node.name}'"),
]


@pytest.mark.parametrize(("module", "source"), BAD)
def test_a_sample_that_asks_is_found(module: str, source: str) -> None:
    assert len(breaches(source, module)) == 1


@pytest.mark.parametrize(("module", "source"), GOOD)
def test_a_sample_that_does_not_ask_passes(module: str, source: str) -> None:
    assert breaches(source, module) == []
