"""Statements in the text: where each begins, what it is, its syntax tree, and errors that show the place.

sqlglot parses Spark's dialect. Syntax that it does not know (streams, `EMIT`, `EXPLAIN`) is read off the tokens and
blanked out, so that every part keeps its place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from watersmeet.errors import SqlError
from watersmeet.hints import elsewhere

DIALECT = "spark"
logging.getLogger("sqlglot").setLevel(logging.ERROR)
SESSION = "SESSWIN"
STATEMENTS = "CREATE TABLE, CREATE STREAM, CREATE VIEW, DROP, EXPLAIN and SELECT are statements."
_EXPLAIN = "EXPLA1N"
"""A plain word of the same length, in whose place no command begins."""
_LONGEST_LINE = 160


def instead(kind: str, word: str, otherwise: str = "") -> str:
    """The cure for a word of ksqlDB, Flink SQL or another system; `otherwise`, if it is none."""
    cure = elsewhere()[f"SQL {kind}"].get(word if kind == "syntax" else word.lower())
    return f"{cure}." if cure else otherwise


@dataclass(frozen=True)
class Source:
    """The whole text, and what the statement at hand says beside its tree: EMIT, and options with their places."""

    text: str
    emit: str | None = None
    options: Mapping[str, tuple[str, int]] = field(default_factory=dict)

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
    """One statement: its text, its tree, whether it declares a stream or asks for the plan, where it begins."""

    source: Source
    tree: exp.Expression
    stream: bool = False
    explain: bool = False
    start: int = 0


@dataclass
class _Draft:
    text: list[str]
    tokens: list[Any]
    facts: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, Any] = field(default_factory=dict)

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
    """The statements of a text."""
    source = Source(text)
    explained: set[int] = set()
    try:
        tokens = _tokens(text, explained)
    except TokenError as error:
        raise source.error(0, "The text cannot be read as SQL.", f"Close every quotation mark: {error}"[:300]) from None
    local: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type != sqlglot.TokenType.SEMICOLON:
            local.append(token)
            continue
        if local:
            yield _statement(source, local, explained)
        local = []


def _tokens(text: str, explained: set[int]) -> list[Any]:
    """The tokens of a text; behind EXPLAIN at the head of a statement, which goes to `explained`, is one to sqlglot."""
    tokens = sqlglot.tokenize(text, read=DIALECT)
    heads = [
        token
        for number, token in enumerate(tokens)
        if token.text.upper() == "EXPLAIN"
        and (number == 0 or tokens[number - 1].token_type == sqlglot.TokenType.SEMICOLON)
        and token.start not in explained
    ]
    if not heads:
        return list(tokens)
    head = heads[0]
    explained.add(head.start)
    remainder = text[: head.start] + _EXPLAIN + text[head.end + 1 :]
    return _tokens(remainder, explained)


def _statement(source: Source, tokens: list[Any], explained: set[int]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    blank = re.sub(r"[^\n]", " ", source.text)
    draft = _Draft(list(blank[:start] + source.text[start:end] + blank[end:]), tokens)
    if start in explained:
        draft.facts["explain"] = True
        draft.drop(0)
        while draft.word(0) in ("EXTENDED", "FORMATTED", "ANALYZE", "VERBOSE", "PLAN", "FOR") and len(tokens) > 1:
            draft.drop(0)
    _take_words(source, draft)
    if not draft.tokens:
        raise source.error(start, "EXPLAIN has no query.", "EXPLAIN SELECT ... FROM ..., or EXPLAIN and a name.")
    if draft.facts.get("explain") and len(draft.tokens) == 1:
        return Statement(source, exp.select("*").from_(_table_of(draft.tokens[0])), start=start, **draft.facts)
    try:
        tree: Any = sqlglot.parse_one("".join(draft.text), read=DIALECT)
    except (ParseError, TokenError) as error:
        raise _syntax_error(source, error, start) from None
    if isinstance(tree, exp.Command):
        word = draft.word(0)
        raise no_statement(source, start, word)
    return Statement(replace(source, **draft.remarks), tree, start=start, **draft.facts)


def no_statement(source: Source, start: int, word: str) -> SqlError:
    """The error for a statement that begins with this word."""
    if word == "CREATE":
        kinds = (element.upper() for element in source.text[start:].split()[1:5])
        kind = next((element for element in kinds if element not in ("OR", "REPLACE", "TEMPORARY")), "")
        hint = instead("statement", kind, "CREATE TABLE t WITH (...) AS SELECT ...; CREATE STREAM and CREATE VIEW.")
        return source.error(start, f"CREATE {kind} is not taken.", hint)
    return source.error(start, f"{word} is no statement of watersmeet.", instead("statement", word, STATEMENTS))


def _table_of(token: Any) -> exp.Expression:
    """The table of one word, which stands where the word does."""
    table = exp.to_table(token.text, dialect=DIALECT)
    table.this.meta["start"] = token.start
    return table


def _take_words(source: Source, draft: _Draft) -> None:
    """Read off what sqlglot does not know, and blank it out."""
    places = [number for number in range(min(4, len(draft.tokens))) if draft.word(number) == "STREAM"]
    if draft.word(0) in ("CREATE", "DROP") and places:
        draft.facts["stream"] = True
        draft.blank(places[0], "TABLE")
    if draft.word(0) == "CREATE":
        _take_options(source, draft)
    depth = 0
    for number in range(len(draft.tokens)):
        depth += (draft.word(number) == "(") - (draft.word(number) == ")")
        if depth == 0 and draft.word(number).startswith("PARTITION "):
            draft.blank(number, "CLUSTER BY")  # which is this clause in Spark's dialect
    if draft.word(-2) == "EMIT":
        word = draft.word(-1)
        if word not in ("CHANGES", "FINAL"):
            raise source.error(draft.tokens[-1].start, f"EMIT {word} is unknown.", "Write EMIT CHANGES or EMIT FINAL.")
        draft.remarks["emit"] = word.lower()
        draft.drop(-1)
        draft.drop(-1)
    for number in range(len(draft.tokens) - 1, 0, -1):
        is_called = draft.word(number) == "TABLE" and draft.word(number + 1) == "("
        if is_called and draft.word(number - 1) in ("FROM", "JOIN", ","):
            _unwrap(draft, number)
    for number in range(2, len(draft.tokens)):
        if draft.word(number) == "TABLE" and draft.word(number - 1) == "(":
            draft.blank(number)
        if draft.word(number) == "(" and draft.word(number - 1) == "SESSION":
            draft.blank(number - 1, SESSION)  # a word of its own to the parser
        if draft.word(number) == "(" and draft.word(number - 1) in ("WINDOW", "SESSION_WINDOW"):
            message = f"{draft.word(number - 1).lower()}(...) is not taken: windows are made of a stream in FROM."
            hint = (
                "Write FROM TUMBLE(clicks, INTERVAL 1 HOUR) ... GROUP BY window_start, window_end; or HOP, or SESSION."
            )
            raise source.error(draft.tokens[number - 1].start, message, hint)


def _unwrap(draft: _Draft, number: int) -> None:
    """FROM TABLE(TUMBLE(...)) as FROM TUMBLE(...)."""
    depth = 0
    for place in range(number + 1, len(draft.tokens)):
        depth += (draft.word(place) == "(") - (draft.word(place) == ")")
        if depth == 0:
            draft.drop(place)
            draft.drop(number + 1)
            draft.drop(number)
            return


def _take_options(source: Source, draft: _Draft) -> None:
    """Read off WITH (name = 'text', ...): to sqlglot many of these names are words of its own."""
    starts = [n for n in range(len(draft.tokens)) if draft.word(n) == "WITH" and draft.word(n + 1) == "("]
    if not starts:
        return
    draft.drop(starts[0])
    draft.drop(starts[0])
    options: dict[str, tuple[str, int]] = {}
    closed = False
    while not closed:
        head, parts = starts[0], []
        while draft.word(head) not in ("=", "", ",", ")"):
            parts.append(draft.tokens[head])
            draft.drop(head)
        value = draft.tokens[head + 1] if draft.word(head) == "=" and draft.word(head + 1) else None
        if not parts or value is None or draft.word(head + 2) not in (",", ")"):
            place = parts[0] if parts else draft.tokens[min(head, len(draft.tokens) - 1)]
            hint = "Write WITH (topic = 'orders', format = 'json')."
            raise source.error(place.start, "An option in WITH needs a name, = and a text in quotes.", hint)
        name = "".join(part.text for part in parts).lower()
        if name in options:
            raise source.error(parts[0].start, f"The option {name} stands twice in WITH.", "Leave one out.")
        options[name] = (value.text, parts[0].start)
        closed = draft.word(head + 2) == ")"
        for _ in range(3):
            draft.drop(head)
    draft.remarks["options"] = options


def _syntax_error(source: Source, error: Exception, start: int) -> SqlError:
    entries = getattr(error, "errors", None) or [{}]
    line, column = entries[0].get("line"), entries[0].get("col")
    offset = start
    if line and column:
        offset = sum(len(element) + 1 for element in source.text.split("\n")[: line - 1]) + column
        offset = max(start, offset - len(entries[0].get("highlight") or ""))
    head = source.text.find(";", offset)
    for pattern in elsewhere()["SQL syntax"]:
        match = re.compile(pattern, re.IGNORECASE).search(source.text, start, len(source.text) if head < 0 else head)
        if match:
            hint = instead("syntax", pattern)
            raise source.error(match.start(), f"{match[0].strip().upper()} is not taken here.", hint)
    words = source.text[start:].upper().split(None, 2)
    if any(instead("statement", word) for word in (words[0], *(words[1:2] if words[0] == "CREATE" else ()))):
        raise no_statement(source, start, words[0])
    description = str(entries[0].get("description") or error).rstrip(".")
    return source.error(
        offset, f"This is no SQL of Spark: {description}.", "Look at the sign at the caret, and before it."
    )
