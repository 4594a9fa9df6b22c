"""Regular expressions of Java's as Python's, where both surely find the same.

A pattern is read here from its text, and only what is listed here passes: characters, classes of them, `.`, `^`, `$`,
groups, alternatives, lookaheads and quantifiers. `\\d`, `\\s` and `\\w` are ASCII's in Java, so `re.ASCII` is set. A
part with another meaning in Python is rewritten: `.` and `$` know more ends of lines in Java. All other differences
are refused:
`\\b`, with the letters of Unicode in Java 17 and of ASCII in 19, back references, lookbehinds, quantifiers of what may
be empty, and characters beyond U+D7FF, which Java's classes split into halves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.expressions.texts import constant
from watersmeet._engine.expressions.tree import (
    Call,
    Kernel,
    LazyKernel,
    Literal,
    all_valid,
    by_row,
    fixed_array,
    numbers,
    shaped,
    type_of,
)
from watersmeet._engine.keys import spans

_LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
_ANY = f"[^{_LINE_ENDS}]"
_END = "(?=(?:\\r\\n|(?<!\\r)\\n|[\\r\\u0085\\u2028\\u2029])?\\Z)"
_CLASSES = frozenset("dDsSwW")
_CONTROLS = frozenset("tnrf")
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})[?+]?")
_HIGHEST = "\ud7ff"
_GROUPS = ("(?:", "(?=", "(?!")


class _RefusedPattern(Exception):
    """The pattern holds what is not known to be the same."""


@dataclass(frozen=True)
class Pattern:
    """A pattern that Java and Python understand alike."""

    compiled: re.Pattern[str]  # Python's
    least: int  # characters that it matches at least
    repeats_groups: bool  # whether one of its groups may match several times: which match is meant is not asked for


@lru_cache(maxsize=256)
def pattern_of(text: str) -> Pattern | None:
    """The pattern of Java's text; None where it is not known to be the same."""
    try:
        reader = _PatternReader(text)
        least = reader.alternatives()
        if reader.at < len(text):
            raise _RefusedPattern(text[reader.at :])
        flags = re.ASCII | (re.IGNORECASE if reader.ignores_case else 0)
        return Pattern(re.compile("".join(reader.out), flags), least, reader.repeats_groups)
    except (_RefusedPattern, re.error, IndexError, OverflowError):
        return None


class _PatternReader:
    """Reads a pattern, and writes Python's.

    Parameters
    ----------
    text : Java's.
    """

    def __init__(self, text: str) -> None:
        self.ignores_case = text.startswith("(?i)") and text.isascii()
        self.at = 4 if self.ignores_case else 0
        self.out: list[str] = []
        self.repeats_groups = False
        self._text = text

    def alternatives(self) -> int:
        """The characters that what stands up to the end, or the next parenthesis, matches at least."""
        widths = [self._sequence()]
        while self._next("|"):
            self.out.append("|")
            widths.append(self._sequence())
        return min(widths)

    def _sequence(self) -> int:
        least = 0
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            start = len(self.out)
            width, repeatable = self._atom()
            times = _QUANTIFIER.match(self._text, self.at)
            if times is not None:
                if not repeatable or width == 0:
                    # what an empty turn of a loop does, Java and Python see differently
                    raise _RefusedPattern(times.group())
                self.at = times.end()
                if times.group()[0] != "?":
                    self.repeats_groups |= "(" in self.out[start:]
                self.out.append(times.group())
                width *= _fewest(times.group())
            least += width
        return least

    def _atom(self) -> tuple[int, bool]:
        """The characters that it matches at least, and whether a quantifier may stand behind it."""
        character = self._text[self.at]
        if character == "(":
            return self._group()
        if character == "[":
            self.out.append(self._class())
            return 1, True
        self.at += 1
        if character in "^$":
            self.out.append("\\A" if character == "^" else _END)
            return 0, False
        if character == ".":
            self.out.append(_ANY)
        elif character == "\\":
            self.out.append(self._escape())
        elif character in _SPECIAL:
            raise _RefusedPattern(character)
        else:
            self.out.append(self._literal(character))
        return 1, True

    def _group(self) -> tuple[int, bool]:
        opened = next((prefix for prefix in _GROUPS if self._text.startswith(prefix, self.at)), "(")
        if opened == "(" and self._text.startswith("(?", self.at):
            raise _RefusedPattern("(?")
        self.at += len(opened)
        self.out.append(opened)
        inside = len(self.out)
        width = self.alternatives()
        looks = opened in ("(?=", "(?!")
        if not self._next(")") or (looks and "(" in self.out[inside:]):
            raise _RefusedPattern(opened)
        self.out.append(")")
        return (0, False) if looks else (width, True)

    def _class(self) -> str:
        """A class of characters; a class within a class is refused."""
        self.at += 1
        parts = ["[^" if self._next("^") else "["]
        if self._text[self.at] in "]&":
            raise _RefusedPattern("[")
        while not self._next("]"):
            member, single = self._member()
            if self._text[self.at] == "-" and self._text[self.at + 1] != "]":
                self.at += 1
                upper, also = self._member()
                if not (single and also):
                    raise _RefusedPattern("-")
                member = f"{member}-{upper}"
            parts.append(member)
        return "".join([*parts, "]"])

    def _member(self) -> tuple[str, bool]:
        """The content of a class, and whether it is one character."""
        character = self._text[self.at]
        self.at += 1
        if character == "\\":
            escaped = self._text[self.at]
            return self._escape(), escaped not in _CLASSES
        if character in "[^" or (character == "&" and self._text[self.at] == "&"):
            raise _RefusedPattern(character)
        return self._literal(character), True

    def _escape(self) -> str:
        character = self._text[self.at]
        self.at += 1
        if character in _CLASSES or character in _CONTROLS:
            return "\\" + character
        if character.isalnum() or not character.isascii():
            raise _RefusedPattern("\\" + character)
        return re.escape(character)

    def _literal(self, character: str) -> str:
        if character > _HIGHEST:
            raise _RefusedPattern(character)
        return re.escape(character)

    def _next(self, character: str) -> bool:
        matches = self._text.startswith(character, self.at)
        self.at += len(character) if matches else 0
        return matches


def _fewest(quantifier: str) -> int:
    if quantifier[0] == "{":
        return int(re.split("[,}]", quantifier[1:])[0])
    return int(quantifier[0] == "+")


# The replacement of a match: Java's text of it, with `$1` for groups and a backslash before literal characters.

_PARTS = re.compile(r"\$(\d)(?!\d)|\\([^0-9A-Za-z])|([^$\\])")


def replacement_of(text: str, pattern: Pattern) -> Callable[[re.Match[str]], str] | None:
    """A function that returns the replacement of a match; None if Java may see more in it, or would fail."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        token = _PARTS.match(text, at)
        if token is None:
            return None
        at = token.end()
        group, escaped, plain = token.groups()
        parts.append(int(group) if group is not None else escaped if escaped is not None else plain)
    groups = [part for part in parts if isinstance(part, int)]
    if any(group > pattern.compiled.groups for group in groups) or (any(groups) and pattern.repeats_groups):
        return None
    if not groups:
        replacement = "".join(map(str, parts))
        return lambda match: replacement
    return lambda match: "".join((match.group(part) or "") if isinstance(part, int) else part for part in parts)


# Regular expressions that are constants: whether a text has a match, which, and what stands in its place or between.
#
# Where the pattern may match nothing at all, and more than its first match counts, it is Spark's: Java goes on within a
# character then.


def fits_regular(call: Call) -> bool:
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
    group_exists = isinstance(group, int) and 0 <= group <= pattern.compiled.groups
    once = call.function == "RegExpExtract"
    return group_exists and (once or pattern.least > 0) and (group == 0 or not pattern.repeats_groups)


def _pattern(call: Call) -> Pattern | None:
    text = constant(call.arguments[1])
    return pattern_of(text) if isinstance(text, str) else None


def _replacement(pattern: Pattern, by: Any) -> Callable[[Any], str] | None:
    text = constant(by)
    return replacement_of(text, pattern) if isinstance(text, str) else None


def _valid_pattern(call: Call) -> Pattern:
    pattern = _pattern(call)
    assert pattern is not None, "the call fits"
    return pattern


def _matches(call: Call, arguments: list[pa.Array]) -> pa.Array:
    search = _valid_pattern(call).compiled.search
    return by_row(call, arguments[:1], lambda text: search(text) is not None)


def _count(call: Call, arguments: list[pa.Array]) -> pa.Array:
    matches = _valid_pattern(call).compiled.finditer
    return by_row(call, arguments[:1], lambda text: sum(1 for _ in matches(text)))


def _first(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The first match; null where there is none, or it is empty."""
    search = _valid_pattern(call).compiled.search

    def extract(text: str) -> str | None:
        match = search(text)
        return (match.group() or None) if match is not None else None

    return by_row(call, arguments[:1], extract)


def _group(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A group of the first match; empty where there is none, or the group has none."""
    search, group = _valid_pattern(call).compiled.search, int(str(constant(call.arguments[2])))

    def extract(text: str) -> str:
        match = search(text)
        return (match.group(group) or "") if match is not None else ""

    return by_row(call, arguments[:1], extract)


def _groups(call: Call, arguments: list[pa.Array]) -> pa.Array:
    matches, group = _valid_pattern(call).compiled.finditer, int(str(constant(call.arguments[2])))
    return by_row(call, arguments[:1], lambda text: [match.group(group) or "" for match in matches(text)])


def _replaced(call: Call, arguments: list[pa.Array]) -> pa.Array:
    pattern = _valid_pattern(call)
    by = _replacement(pattern, call.arguments[2])
    assert by is not None, "the call fits"
    return by_row(call, arguments[:1], lambda text: pattern.compiled.sub(by, text))


def regular_parts(pattern: Pattern, limit: int) -> Callable[[str], list[str]]:
    """A function that splits a text at the matches of a pattern: at most `limit` parts, if that is more than zero."""
    matches = pattern.compiled.finditer

    def split(text: str) -> list[str]:
        parts, start = list[str](), 0
        for match in matches(text):
            if len(parts) + 1 == limit:
                break
            parts.append(text[start : match.start()])
            start = match.end()
        parts.append(text[start:])
        return parts

    return split


REGULAR_KERNELS: Mapping[str, Kernel] = {
    "RLike": _matches,
    "RegExpCount": _count,
    "RegExpSubStr": _first,
    "RegExpExtract": _group,
    "RegExpExtractAll": _groups,
    "RegExpReplace": _replaced,
}
LAZY: Mapping[str, LazyKernel] = {}


# Texts in texts: what begins with, ends with, holds or is like a constant text, where that is, what replaces it.

_ESCAPED = re.compile(r"\\[^A-Za-z0-9]")
_SINGLE = re.compile(r"\[[^\\^\[\]&-]\]")


def fits_searches(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    texts, text_kinds = call.arguments[1:], kinds[1:]
    if call.function == "StringSplit":
        pattern, limit = texts
        constants = isinstance(constant(pattern), str) and isinstance(constant(limit), int)
        return kinds[0] == pa.string() and constants and _splits(str(constant(pattern)))
    if call.function == "StringLocate":
        substring, text, start = call.arguments
        return constant(substring) is not None and type_of(text) == pa.string() and constant(start) == 1
    plain = kinds[0] == pa.string() and all(kind == pa.string() for kind in text_kinds)
    if not plain or not all(isinstance(argument, Literal) and argument.value.is_valid for argument in texts):
        return False
    if call.function == "Like":
        # what an escape stands for is Spark's
        return call.option("escapeChar") == "\\" and "\\" not in str(constant(texts[0]))
    return True


def _literal(pattern: str) -> str | None:
    """The text that a regular expression of Java's stands for, where it stands for one alone."""
    bare = _SINGLE.sub(lambda match: "\\" + match.group()[1], pattern)
    if _SPECIAL & set(_ESCAPED.sub("", bare)):
        return None
    return _ESCAPED.sub(lambda match: match.group()[1], bare)


def _splits(text: str) -> bool:
    """Whether a pattern stands for a text, or is one that Python understands as Java does and matches no empty text."""
    if _literal(text):
        return True
    pattern = pattern_of(text)
    return pattern is not None and pattern.least > 0


def _begins(call: Call, arguments: list[pa.Array]) -> pa.Array:
    looked = str(constant(call.arguments[1]))
    search = {"StartsWith": pc.starts_with, "EndsWith": pc.ends_with, "Contains": pc.match_substring}
    return search[call.function](arguments[0], looked)


def _like(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """% stands for any characters, _ for one."""
    return pc.match_like(arguments[0], str(constant(call.arguments[1])))


def _place(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The number of the character at which a text begins, 0 where it does not occur."""
    where, needle = (1, 0) if call.function == "StringLocate" else (0, 1)
    values = arguments[where]
    octet = numbers(pc.find_substring(values, str(constant(call.arguments[needle])))).astype(np.int64)
    starts, _, data = spans(values)
    counts = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    offset = np.clip(octet, 0, None)
    index = counts[np.minimum(starts + offset, len(data))] - counts[starts]
    return fixed_array(np.where(octet < 0, 0, index + 1), all_valid(values), call.type)


def _replace(call: Call, arguments: list[pa.Array]) -> pa.Array:
    search, by = (str(constant(argument)) for argument in call.arguments[1:])
    return pc.replace_substring(arguments[0], search, by) if search else arguments[0]


def _split(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The parts between the places of a text: at most so many, if the number is greater than zero."""
    limit, text = int(str(constant(call.arguments[2]))), str(constant(call.arguments[1]))
    between = _literal(text)
    if not between:
        pattern = pattern_of(text)
        assert pattern is not None, "the call fits"
        return by_row(call, arguments[:1], regular_parts(pattern, limit))
    parts = pc.split_pattern(arguments[0], between, max_splits=limit - 1 if limit > 0 else None)
    return shaped(parts, call.type)


SEARCHES_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(("StartsWith", "EndsWith", "Contains"), _begins),
    "Like": _like,
    **dict.fromkeys(("StringInstr", "StringLocate"), _place),
    "StringReplace": _replace,
    "StringSplit": _split,
}
