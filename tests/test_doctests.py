"""The examples in docstrings of the package and of proof/ are true, and the one that help() shows compiles."""

from __future__ import annotations

import ast
import doctest
import importlib
import pydoc
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, PROOF = ROOT / "src" / "watersmeet", ROOT / "proof"
MODULES = sorted([*PACKAGE.rglob("*.py"), *PROOF.rglob("*.py")])
WITH_EXAMPLES = [path for path in MODULES if ">>> " in path.read_text(encoding="utf-8")]
HANDLES = PACKAGE / "api"
"""Their examples need a session, and are run in tests/spark/session/test_examples_of_handles.py."""


def name_of(path: Path) -> str:
    above = PROOF.parent if path.is_relative_to(PROOF) else PACKAGE.parent
    return ".".join(path.relative_to(above).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", [name_of(path) for path in WITH_EXAMPLES if HANDLES not in path.parents])
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_examples_are_run() -> None:
    parsed = [doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8")) for path in WITH_EXAMPLES]
    skipped = [doctest.SKIP in example.options for examples in parsed for example in examples]
    assert len(skipped) > 10
    assert sum(skipped) <= len(skipped) // 4


LITERAL = re.compile(r"::\n\n(.*)")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_block_of_a_docstring_is_indented_below_its_colons(path: Path) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, documented)]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    first = [line for docstring in docstrings for line in LITERAL.findall(docstring)]
    assert [line for line in first if not line.startswith("    ")] == []


def test_the_modules_that_the_package_names_as_its_layers_exist() -> None:
    layers = (importlib.import_module("watersmeet").__doc__ or "").split("Layers; ")[1].split("\n\n")[1]
    named = [name for line in layers.splitlines() for name in re.split(r"  +", line.strip())[0].split(", ")]
    assert {"api", "_spark", "_worker", "_engine", "_plan"} <= set(named)
    for name in named:
        importlib.import_module(f"watersmeet.{name}")


def test_help_of_the_package_shows_an_example_that_compiles() -> None:
    shown = pydoc.plain(pydoc.render_doc("watersmeet"))
    example = textwrap.dedent(shown.split("Example::\n")[1].split("\nPACKAGE CONTENTS")[0])
    assert ast.unparse(ast.parse(textwrap.dedent(example)).body[0]) == "import watersmeet as wm"
