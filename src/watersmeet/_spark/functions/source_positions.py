"""Where in the user's source something was done: the text of the expression, and the word of Python around it."""

from __future__ import annotations

import ast
import linecache
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import pyspark

_OWN = str(Path(__file__).resolve().parents[2])
_LIBRARY = sysconfig.get_path("stdlib")
_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_OTHERS = (
    _OWN,
    str(Path(pyspark.__file__).parent),
    # a Column may be given to these, which fall over it
    *(str(Path(site, name)) for site in _INSTALLED for name in ("numpy", "pandas", "pyarrow")),
)
_LONGEST = 120


@dataclass(frozen=True)
class SourcePlace:
    """An expression of the user's.

    Parameters
    ----------
    file, line : where it stands.
    text : as it is written; empty where there is no source.
    node : its tree.
    above : the nodes around it, the nearest first.
    names : what names stand for there.
    """

    file: str
    line: int
    text: str = ""
    node: ast.AST | None = None
    above: tuple[ast.AST, ...] = ()
    names: dict[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"line {self.line} of {self.file}"


def place_of(error: BaseException) -> SourcePlace | None:
    """Where the user's own code raised an error, or called what did."""
    found = None
    for trace in _traces(error.__traceback__):
        if not _is_others(trace.tb_frame.f_code.co_filename):
            found = trace
    return None if found is None else _place(found.tb_frame, found.tb_lasti, found.tb_lineno)


def place_of_function(function: Callable[..., Any]) -> SourcePlace | None:
    """Where a function of the user's begins; None for one that has no source."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CodeType) or _is_others(code.co_filename):
        return None
    return SourcePlace(code.co_filename, code.co_firstlineno)


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_others(file: str) -> bool:
    """Whether a file is none of the user's: the package's own, Spark's, Python's."""
    if file.startswith("<frozen"):
        return True
    return file.startswith(_OTHERS) or (file.startswith(_LIBRARY) and not file.startswith(_INSTALLED))


def _place(frame: FrameType, instruction: int, line: int) -> SourcePlace:
    code = frame.f_code
    begin, end, left, right = next(islice(code.co_positions(), instruction // 2, None))
    names = {**frame.f_globals, **frame.f_locals}
    tree = _tree(code.co_filename)
    if tree is None or begin is None or end is None or left is None or right is None:
        return SourcePlace(code.co_filename, line, names=names)
    chain = _around(tree, (begin, left), (end, right))
    if not chain:
        return SourcePlace(code.co_filename, line, names=names)
    lines = linecache.getlines(code.co_filename)
    text = ast.get_source_segment("".join(lines), chain[0]) or ""
    return SourcePlace(code.co_filename, begin, shortened(text), chain[0], tuple(chain[1:]), names)


@lru_cache(maxsize=8)
def _tree_of(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _tree(file: str) -> ast.Module | None:
    lines = linecache.getlines(file)
    return _tree_of("".join(lines)) if lines else None


def _around(tree: ast.AST, begin: tuple[int, int], end: tuple[int, int]) -> list[ast.AST]:
    """The nodes that hold a piece of source, the smallest first."""
    found: list[ast.AST] = []
    wanted: ast.AST | None = tree
    while wanted is not None:
        found.insert(0, wanted)
        wanted = next((each for each in ast.iter_child_nodes(wanted) if _holds(each, begin, end)), None)
    return [each for each in found if not isinstance(each, ast.Module)]


def _holds(node: ast.AST, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    if not hasattr(node, "lineno"):
        # arguments and comprehensions have no place of their own, but what is in them has
        return any(_holds(each, begin, end) for each in ast.iter_child_nodes(node))
    last = (node.end_lineno or 0, node.end_col_offset or 0)  # type: ignore[attr-defined]
    return (node.lineno, node.col_offset) <= begin and end <= last  # type: ignore[attr-defined]


def shortened(text: str) -> str:
    """A text on one line, and not too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}..."
