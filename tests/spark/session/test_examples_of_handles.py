"""Each public method of streams, tables and groups has an example in its docstring, and all examples are true.

Their names are those of the block in docs/reference/README.md, which is run anew for each docstring. They run in the
test driver's own process; Spark only reads their functions.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[3]
HANDLES = ROOT / "src" / "watersmeet" / "handles"
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


def scene() -> CodeType:
    """The block of the page, for a session that is there."""
    block = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[-1]
    return compile(block.replace('spark = wm.session("examples")\n', ""), "docs/reference/README.md", "exec")


def examples(module: str) -> list[doctest.DocTest]:
    return [each for each in doctest.DocTestFinder().find(importlib.import_module(module)) if each.examples]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_streams_tables_and_groups_give_what_they_say(module: str, spark: SparkSession) -> None:
    block, runner = scene(), doctest.DocTestRunner()
    found = examples(module)
    assert found
    for each in found:
        names: dict[str, Any] = {}
        exec(block, names)
        each.globs = names
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
