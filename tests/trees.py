"""Syntax trees of sources, each made once for all rules that look into it."""

import ast
from functools import lru_cache

tree_of = lru_cache(maxsize=None)(ast.parse)
