"""The oracle is an independent witness: it imports the standard library and itself alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import proof.oracle

FILES = sorted(Path(proof.oracle.__file__).parent.glob("*.py"))


def imported(source: str) -> set[str]:
    """Every module that a source imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def foreign(names: set[str]) -> set[str]:
    """Those that are neither the standard library's nor the oracle's."""
    return {
        name
        for name in names
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("proof.oracle")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_module_of_the_oracle_imports_nothing_of_the_engine(path: Path) -> None:
    assert foreign(imported(path.read_text(encoding="utf-8"))) == set()


def test_a_foreign_import_is_found() -> None:
    source = "def f():\n    from watersmeet._engine import runs\nimport json, numpy\n"
    assert foreign(imported(source)) == {"watersmeet._engine", "numpy"}
