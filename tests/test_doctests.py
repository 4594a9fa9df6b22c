"""The examples in the package's docstrings are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "watersmeet"
WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", [name_of(path) for path in WITH_EXAMPLES])
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_examples_are_run() -> None:
    parsed = [doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8")) for path in WITH_EXAMPLES]
    skipped = [doctest.SKIP in example.options for examples in parsed for example in examples]
    assert len(skipped) > 10
    assert sum(skipped) <= len(skipped) // 4


LITERAL = re.compile(r"::\n\n(.*)")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name_of)
def test_a_block_of_a_docstring_is_indented_below_its_colons(path: Path) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, documented)]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    first = [line for docstring in docstrings for line in LITERAL.findall(docstring)]
    assert [line for line in first if not line.startswith("    ")] == []


def test_the_modules_that_the_package_names_as_its_layers_exist() -> None:
    layers = (importlib.import_module("watersmeet").__doc__ or "").split("Layers; ")[1].split("\n\n")[1]
    named = [name for line in layers.splitlines() for name in re.split(r"  +", line.strip())[0].split(", ")]
    assert {"builder", "_spark", "_engine", "_plan"} <= set(named)
    for name in named:
        importlib.import_module(f"watersmeet.{name}")
