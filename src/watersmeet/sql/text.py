"""Statements in the text: where each begins, what it is, its syntax tree, and errors that show the place.

sqlglot parses Spark's dialect. Syntax that it does not know (streams, `EMIT`, `EXPLAIN`) is read off the tokens and
blanked out, so that every part keeps its place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from watersmeet.errors import SqlError

DIALECT = "spark"
logging.getLogger("sqlglot").setLevel(logging.ERROR)
SESSION = "SESSWIN"
_LONGEST_LINE = 160


@dataclass(frozen=True)
class Source:
    """The whole text that statements stand in, and what the statement at hand says of its results."""

    text: str
    emit: str | None = None

    def error(self, place: Any, message: str, hint: str) -> SqlError:
        """The error for a node or an offset of the text."""
        offset = place if isinstance(place, int) else offset_of(place)
        return SqlError(message, given=self.excerpt(offset), hint=hint)

    def excerpt(self, offset: int) -> str:
        """The line around an offset, with a caret under it."""
        offset = min(offset, len(self.text))
        head = self.text[:offset]
        line, column = head.count("\n") + 1, offset - (head.rfind("\n") + 1)
        entries = self.text.split("\n")[line - 1] if self.text else ""
        start = max(0, column - _LONGEST_LINE // 2)
        excerpt = entries[start : start + _LONGEST_LINE]
        return f"line {line}, column {column + 1}:\n  {excerpt}\n  {' ' * (column - start)}^"


def offset_of(node: Any) -> int:
    """Where a node begins; one without a place of its own is where its first part, or what is around it, stands."""
    while node is not None:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return 0


@dataclass(frozen=True)
class Statement:
    """One statement.

    Parameters
    ----------
    source : the text around it.
    tree : its syntax tree.
    stream : whether it declares a stream.
    emit : "changes" or "final", if EMIT is written.
    explain : whether it asks for the plan alone.
    start : where it begins.
    """

    source: Source
    tree: exp.Expression
    stream: bool = False
    emit: str | None = None
    explain: bool = False
    start: int = 0


@dataclass
class _Draft:
    text: list[str]
    tokens: list[Any]
    facts: dict[str, Any] = field(default_factory=dict)

    def word(self, number: int) -> str:
        return str(self.tokens[number].text).upper() if -len(self.tokens) <= number < len(self.tokens) else ""

    def blank(self, number: int, instead: str = "") -> None:
        token = self.tokens[number]
        width = token.end + 1 - token.start
        self.text[token.start : token.end + 1] = list(instead.ljust(width)[:width])

    def drop(self, number: int) -> None:
        self.blank(number)
        del self.tokens[number]


def statements(text: str) -> Iterator[Statement]:
    """The statements of a text.

    Raises
    ------
    SqlError : it is no SQL.
    """
    source = Source(text)
    try:
        tokens = sqlglot.tokenize(text, read=DIALECT)
    except TokenError as error:
        raise source.error(0, "The text cannot be read as SQL.", f"Close every quotation mark: {error}"[:300]) from None
    local: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type != sqlglot.TokenType.SEMICOLON:
            local.append(token)
            continue
        if local:
            yield _statement(source, local)
        local = []


def _statement(source: Source, tokens: list[Any]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    blank = re.sub(r"[^\n]", " ", source.text)
    draft = _Draft(list(blank[:start] + source.text[start:end] + blank[end:]), tokens)
    _take_words(source, draft)
    if not draft.tokens:
        raise source.error(start, "EXPLAIN has no query.", "EXPLAIN SELECT ... FROM ...")
    try:
        tree: Any = sqlglot.parse_one("".join(draft.text), read=DIALECT)
    except (ParseError, TokenError) as error:
        raise _syntax_error(source, error, start) from None
    if isinstance(tree, exp.Command):
        word = draft.word(0)
        hint = "CREATE TABLE, CREATE STREAM, CREATE VIEW, DROP, EXPLAIN and SELECT are statements."
        raise source.error(start, f"{word} is no statement of watersmeet, or is not written as it is read.", hint)
    return Statement(source, tree, start=start, **draft.facts)


def _take_words(source: Source, draft: _Draft) -> None:
    """Read off what sqlglot does not know, and blank it out."""
    if draft.word(0) == "EXPLAIN":
        draft.facts["explain"] = True
        draft.drop(0)
    places = [number for number in range(min(4, len(draft.tokens))) if draft.word(number) == "STREAM"]
    if draft.word(0) == "CREATE" and places and places[0] <= 3:
        draft.facts["stream"] = True
        draft.blank(places[0], "TABLE")
    if draft.word(-2) == "EMIT":
        word = draft.word(-1)
        if word not in ("CHANGES", "FINAL"):
            raise source.error(draft.tokens[-1].start, f"EMIT {word} is unknown.", "Write EMIT CHANGES or EMIT FINAL.")
        draft.facts["emit"] = word.lower()
        draft.drop(-1)
        draft.drop(-1)
    for number in range(2, len(draft.tokens)):
        if draft.word(number) == "TABLE" and draft.word(number - 1) == "(":
            draft.blank(number)
        if draft.word(number) == "(" and draft.word(number - 1) == "SESSION":
            draft.blank(number - 1, SESSION)  # a word of its own to the parser
        if draft.word(number) == "(" and draft.word(number - 1) in ("WINDOW", "SESSION_WINDOW"):
            raise source.error(
                draft.tokens[number - 1].start,
                f"{draft.word(number - 1).lower()}(...) is not taken: windows are made of a stream in FROM.",
                "FROM TUMBLE(clicks, INTERVAL 1 HOUR) ... GROUP BY window_start, window_end; HOP and SESSION, too.",
            )


def _syntax_error(source: Source, error: Exception, start: int) -> SqlError:
    entries = getattr(error, "errors", None) or [{}]
    line, column = entries[0].get("line"), entries[0].get("col")
    offset = start
    if line and column:
        offset = sum(len(element) + 1 for element in source.text.split("\n")[: line - 1]) + column
        offset = max(start, offset - len(entries[0].get("highlight") or ""))
    description = str(entries[0].get("description") or error).rstrip(".")
    return source.error(
        offset, f"This is no SQL of Spark: {description}.", "Look at the sign at the caret, and before it."
    )
