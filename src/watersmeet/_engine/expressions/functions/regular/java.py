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
from dataclasses import dataclass
from functools import lru_cache

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
    """A pattern that Java and Python understand alike.

    Parameters
    ----------
    compiled : Python's.
    least : characters that it matches at least.
    repeats_groups : whether one of its groups may match several times: which match is meant is not asked for.
    """

    compiled: re.Pattern[str]
    least: int
    repeats_groups: bool


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
        found = [self._sequence()]
        while self._next("|"):
            self.out.append("|")
            found.append(self._sequence())
        return min(found)

    def _sequence(self) -> int:
        least = 0
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            begin = len(self.out)
            width, repeatable = self._atom()
            times = _QUANTIFIER.match(self._text, self.at)
            if times is not None:
                if not repeatable or width == 0:
                    # what an empty turn of a loop does, Java and Python see differently
                    raise _RefusedPattern(times.group())
                self.at = times.end()
                if times.group()[0] != "?":
                    self.repeats_groups |= "(" in self.out[begin:]
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
        opened = next((each for each in _GROUPS if self._text.startswith(each, self.at)), "(")
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
        """A class of characters, which has no other within."""
        self.at += 1
        made = ["[^" if self._next("^") else "["]
        if self._text[self.at] in "]&":
            raise _RefusedPattern("[")
        while not self._next("]"):
            one, single = self._member()
            if self._text[self.at] == "-" and self._text[self.at + 1] != "]":
                self.at += 1
                other, also = self._member()
                if not (single and also):
                    raise _RefusedPattern("-")
                one = f"{one}-{other}"
            made.append(one)
        return "".join([*made, "]"])

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
        there = self._text.startswith(character, self.at)
        self.at += len(character) if there else 0
        return there


def _fewest(quantifier: str) -> int:
    if quantifier[0] == "{":
        return int(re.split("[,}]", quantifier[1:])[0])
    return int(quantifier[0] == "+")
