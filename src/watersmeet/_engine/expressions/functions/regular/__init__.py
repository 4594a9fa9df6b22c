"""Regular expressions that are constants: whether a text has a match, which, and what stands in its place or between.

Where the pattern may match nothing at all, and more than its first match counts, it is Spark's: Java goes on within a
character then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from watersmeet._engine.expressions.functions.regular.java import Pattern, pattern_of
from watersmeet._engine.expressions.functions.regular.replacement import replacement_of
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.rowwise import by_row
from watersmeet._engine.expressions.tree import Call, type_of


def fits(call: Call) -> bool:
    """See `kernel`."""
    pattern = _pattern(call)
    if pattern is None or type_of(call.arguments[0]) != pa.string():
        return False
    if call.function in ("RLike", "RegExpSubStr"):
        return True
    if call.function == "RegExpCount":
        return pattern.least > 0
    if call.function == "RegExpReplace":
        _, _, by, position = call.arguments
        return pattern.least > 0 and constant(position) == 1 and _replacement(pattern, by) is not None
    group = constant(call.arguments[2])
    known = isinstance(group, int) and 0 <= group <= pattern.compiled.groups
    once = call.function == "RegExpExtract"
    return known and (once or pattern.least > 0) and (group == 0 or not pattern.repeats_groups)


def _pattern(call: Call) -> Pattern | None:
    text = constant(call.arguments[1])
    return pattern_of(text) if isinstance(text, str) else None


def _replacement(pattern: Pattern, by: Any) -> Callable[[Any], str] | None:
    text = constant(by)
    return replacement_of(text, pattern) if isinstance(text, str) else None


def _known(call: Call) -> Pattern:
    pattern = _pattern(call)
    assert pattern is not None, "the call fits"
    return pattern


def _matches(call: Call, arguments: list[pa.Array]) -> pa.Array:
    search = _known(call).compiled.search
    return by_row(call, arguments[:1], lambda text: search(text) is not None)


def _count(call: Call, arguments: list[pa.Array]) -> pa.Array:
    matches = _known(call).compiled.finditer
    return by_row(call, arguments[:1], lambda text: sum(1 for _ in matches(text)))


def _first(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The first match; null where there is none, or it is empty."""
    search = _known(call).compiled.search

    def found(text: str) -> str | None:
        match = search(text)
        return (match.group() or None) if match is not None else None

    return by_row(call, arguments[:1], found)


def _group(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A group of the first match; empty where there is none, or the group has none."""
    search, group = _known(call).compiled.search, int(str(constant(call.arguments[2])))

    def found(text: str) -> str:
        match = search(text)
        return (match.group(group) or "") if match is not None else ""

    return by_row(call, arguments[:1], found)


def _groups(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A group of each match."""
    matches, group = _known(call).compiled.finditer, int(str(constant(call.arguments[2])))
    return by_row(call, arguments[:1], lambda text: [match.group(group) or "" for match in matches(text)])


def _replaced(call: Call, arguments: list[pa.Array]) -> pa.Array:
    pattern = _known(call)
    by = _replacement(pattern, call.arguments[2])
    assert by is not None, "the call fits"
    return by_row(call, arguments[:1], lambda text: pattern.compiled.sub(by, text))


def parts(pattern: Pattern, limit: int) -> Callable[[str], list[str]]:
    """A function that splits a text at the matches of a pattern: at most `limit` parts, if that is more than zero."""
    matches = pattern.compiled.finditer

    def split(text: str) -> list[str]:
        found, begin = list[str](), 0
        for match in matches(text):
            if len(found) + 1 == limit:
                break
            found.append(text[begin : match.start()])
            begin = match.end()
        found.append(text[begin:])
        return found

    return split


KERNELS: Mapping[str, Kernel] = {
    "RLike": _matches,
    "RegExpCount": _count,
    "RegExpSubStr": _first,
    "RegExpExtract": _group,
    "RegExpExtractAll": _groups,
    "RegExpReplace": _replaced,
}
LAZY: Mapping[str, LazyKernel] = {}
