"""The shell of `watersmeet sql`: statements over the tables of a running query, from a terminal or standard input."""

from __future__ import annotations

import atexit
import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from watersmeet._spark.serving.client import TableServerAddress, connect
from watersmeet.errors import WatersmeetError
from watersmeet.sql.served import ServedTables
from watersmeet.sql.text import Source

HISTORY = "~/.watersmeet_history"
_WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "BETWEEN", "AND", "IN", "COUNT(*)", "SUM(", "AVG("),
    *("SHOW TABLES", "SHOW TOPOLOGY", "DESCRIBE", "EXPLAIN", "HELP", "EXIT"),
)
_HELP = """SHOW TABLES;                    the tables that the query serves
DESCRIBE name;                  the columns of a table; `key` is the key of its rows
SELECT ... FROM name ...;       rows: WHERE key = 1, key IN (1, 2) and key BETWEEN 1 AND 9 fetch these alone
EXPLAIN SELECT ...;             how the rows are fetched
SHOW TOPOLOGY;                  the running topology
EXIT;                           or Ctrl-D
"""


class Shell:
    """Statements over the tables that a query serves.

    Parameters
    ----------
    address : of the query.
    master : of the Spark that computes what is more than columns of rows.
    as_json : whether rows are printed as JSON, one a line.
    """

    def __init__(self, address: TableServerAddress, *, master: str | None = None, as_json: bool = False) -> None:
        self._address, self._as_json = address, as_json
        self._client = connect(address.url, token=address.token, tls_roots=address.tls_roots)
        self._tables = ServedTables(self._client, master or "local[1]")

    def words(self) -> list[str]:
        """The words that can be completed: those of SQL, tables, and the columns of tables that were read."""
        return sorted({*_WORDS, *self._tables.names()})

    def run(self, text: str) -> Iterator[str]:
        """The lines of the answers to statements; raises where one cannot be answered."""
        for start, piece in pieces(text):
            yield from self._answer(Source(text), start, piece)

    def _answer(self, source: Source, start: int, piece: str) -> Iterator[str]:
        words = piece.split()
        head = " ".join(words[:2]).upper()
        if re.fullmatch(r"(SHOW|LIST) (MATERIALIZED )?(TABLES|VIEWS|STREAMS)|\\DT?", " ".join(words).upper()):
            yield from self._client.tables
        elif head == "SHOW TOPOLOGY":
            yield self._address.text("topology.txt").rstrip()
        elif head == "HELP":
            yield _HELP.rstrip()
        elif words[0].upper() in ("DESCRIBE", "DESC") and len(words) in (2, 3):  # DESCRIBE EXTENDED t, too
            yield from self._tables.described(source, start + piece.rindex(words[-1]), words[-1].strip("`"))
        else:
            answer = self._tables.query(source, start, piece)
            yield from printed(answer, self._as_json) if isinstance(answer, pa.Table) else answer


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a text, each with its offset; semicolons in quotation marks and comments end none."""
    start = 0
    for match in re.finditer(
        r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|\Z", text, re.DOTALL
    ):
        if match[0] in (";", ""):
            piece = text[start : match.start()]
            if re.sub(r"--[^\n]*|/\*.*?\*/", "", piece, flags=re.DOTALL).strip():
                yield start, piece
            start = match.end()


def printed(rows: pa.Table, as_json: bool) -> Iterator[str]:
    """The lines that show rows."""
    if as_json:
        # a line for each row of an answer, which is small
        yield from (json.dumps(row, default=plain_value) for row in rows.to_pylist())
        return
    # printed a row at a time
    texts = [[cell_text(value) for value in column.to_pylist()] for column in rows.columns]
    widths = [max(len(name), *map(len, column), 1) for name, column in zip(rows.column_names, texts, strict=True)]
    for line in (rows.column_names, ["-" * width for width in widths], *zip(*texts, strict=True)):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
    yield f"({len(rows):,} row{'s' * (len(rows) != 1)})"


def plain_value(value: Any) -> Any:
    """What JSON has for a value."""
    if isinstance(value, datetime):
        return value.isoformat()
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def cell_text(value: Any) -> str:
    """A value in a column of text."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return value
    return json.dumps(value, default=plain_value) if isinstance(value, dict | list | bool) else str(plain_value(value))


# The loop: lines of a terminal with history and completion, or all of standard input.


def interact(shell: Shell, ask: Callable[[str], str] = input, say: Callable[[str], None] = click.echo) -> None:
    """Answer statements, which end with a semicolon, until EXIT or the end of the input; an error ends none."""
    text = ""
    while True:
        try:
            text += ask("... " if text else "sql> ") + "\n"
        except EOFError:
            return
        except KeyboardInterrupt:
            text = ""
            say("")
            continue
        word = text.strip().rstrip(";").upper()
        if word in ("EXIT", "QUIT", "\\Q"):
            return
        if not text.rstrip().endswith(";") and word not in ("HELP", "SHOW TABLES", ""):
            continue
        try:
            for line in shell.run(text):
                say(line)
        except WatersmeetError as error:
            say(f"Error: {error}")
        text = ""


def with_history(shell: Shell) -> None:
    """Let Python's readline keep the history in a file, and complete words, where it is there."""
    with suppress(ImportError):
        import readline

        file = Path(HISTORY).expanduser()
        with suppress(OSError):
            readline.read_history_file(file)
        readline.set_completer_delims(" \t\n(),;")
        readline.set_completer(lambda prefix, number: completion(shell.words(), prefix, number))
        readline.parse_and_bind("tab: complete")
        atexit.register(lambda: _written_history(readline, file))


def _written_history(readline: Any, file: Path) -> None:
    with suppress(OSError):
        readline.set_history_length(1_000)
        readline.write_history_file(file)
        file.chmod(0o600)


def completion(words: Sequence[str], prefix: str, number: int) -> str | None:
    """The word of a number among those that begin so; None: there are no more."""
    matches = [word for word in words if word.lower().startswith(prefix.lower())]
    return matches[number] if number < len(matches) else None


def run_shell(address: TableServerAddress, *, master: str | None, as_json: bool) -> None:
    """Answer what stands in standard input: a terminal's lines, or all of it, until the first error."""
    shell = Shell(address, master=master, as_json=as_json)
    if not sys.stdin.isatty():
        for line in shell.run(sys.stdin.read()):
            click.echo(line)
        return
    with_history(shell)
    click.echo(f"{address.url}: SHOW TABLES; DESCRIBE name; SELECT ...; HELP; EXIT")
    interact(shell)
