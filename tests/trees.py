"""Syntax trees of sources, each made once for all rules that look into it, and the classes of the whole project."""

import ast
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ("src", "proof", "bench", "dev")

tree_of = lru_cache(maxsize=None)(ast.parse)


@lru_cache(maxsize=1)
def classes_by_name() -> dict[str, list[ast.ClassDef]]:
    """All classes of the project, by name."""
    found = defaultdict(list)
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(tree_of(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(node)
    return found
