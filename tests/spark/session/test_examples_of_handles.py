"""Each public method of streams, tables and groups has an example in its docstring, and all examples are true.

Their names are those of the block in docs/reference/README.md, made anew for each docstring. They run in the
test driver's own process; Spark only reads their functions.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[3]
HANDLES = ROOT / "src" / "watersmeet" / "api"
PAGE = (ROOT / "docs" / "reference" / "README.md").read_text(encoding="utf-8")
KINDS = (
    *(wm.KStream, wm.KTable, wm.WTable, wm.GlobalKTable, wm.KGroupedStream, wm.KGroupedTable),
    *(wm.TimeWindowedKStream, wm.SessionWindowedKStream, wm.CogroupedKStream),
)
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in sorted(HANDLES.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


BLOCK = ast.parse(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[-1])


def read_by(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def made_by(statement: ast.stmt) -> str | None:
    """The name that a statement of the block gives something."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else None


def scene(example: str) -> dict[str, Any]:
    """The names of the block that an example uses, and what they are made of: fewer inputs take less time."""
    needed, kept = {*read_by(ast.parse(example)), "builder", "RECORDS"}, []
    for statement in reversed(BLOCK.body):
        name = made_by(statement)
        if name == "spark":  # the session is there
            continue
        if name is None or name in needed:
            kept.insert(0, statement)
            needed |= read_by(statement) if name is not None else set()
    names: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), "docs/reference/README.md", "exec"), names)
    names["RECORDS"] = [record for record in names["RECORDS"] if record[0] in names]
    return names


def examples(module: str) -> list[doctest.DocTest]:
    return [each for each in doctest.DocTestFinder().find(importlib.import_module(module)) if each.examples]


class Checker(doctest.OutputChecker):
    """An example of `to` does not show what it returns, which answers wrong calls alone."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, "" if got == "StreamEnd()\n" else got, optionflags)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_streams_tables_and_groups_give_what_they_say(module: str, spark: SparkSession) -> None:
    runner = doctest.DocTestRunner(Checker())
    found = examples(module)
    assert found
    for each in found:
        each.globs = {"StreamsBuilder": wm.StreamsBuilder} | scene("".join(example.source for example in each.examples))
        assert runner.run(each).failed == 0, each.name


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def runs(docstring: str | None) -> bool:
    parsed = doctest.DocTestParser().get_examples(docstring or "")
    return any(doctest.SKIP not in each.options for each in parsed)


@pytest.mark.parametrize("kind", KINDS)
def test_each_public_method_of_a_handle_has_an_example_that_is_run(kind: type) -> None:
    names = public(kind)
    assert names
    assert [name for name in names if not runs(inspect.getdoc(getattr(kind, name)))] == []
    homes = {getattr(inspect.unwrap(getattr(kind, name)), "__module__", None) for name in names} - {None}
    assert homes <= {*MODULES, None}
