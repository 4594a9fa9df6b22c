"""The replacement of a match: Java's text of it, with `$1` for groups and a backslash before literal characters."""

from __future__ import annotations

import re
from collections.abc import Callable

from watersmeet._engine.expressions.functions.regular.java import Pattern

_PARTS = re.compile(r"\$(\d)(?!\d)|\\([^0-9A-Za-z])|([^$\\])")


def replacement_of(text: str, pattern: Pattern) -> Callable[[re.Match[str]], str] | None:
    """A function that returns the replacement of a match; None if Java may see more in it, or would fail."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PARTS.match(text, at)
        if found is None:
            return None
        at = found.end()
        group, escaped, plain = found.groups()
        parts.append(int(group) if group is not None else escaped if escaped is not None else plain)
    groups = [part for part in parts if isinstance(part, int)]
    if any(group > pattern.compiled.groups for group in groups) or (any(groups) and pattern.repeats_groups):
        return None
    if not groups:
        whole = "".join(map(str, parts))
        return lambda match: whole
    return lambda match: "".join((match.group(part) or "") if isinstance(part, int) else part for part in parts)
