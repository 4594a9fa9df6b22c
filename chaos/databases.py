"""Rounds whose results are kept as a table in a database: where it is, and what it should hold in the end.

A table has no history to compare, so the judge asks for its rows: of each key the value of the last result that the
oracle gives, and no row where that is null.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from chaos.judge import Expected, Verdict
from dev.postgres import Postgres

DATABASES = ("sqlite", "postgres")
TABLE = "kept"
_ROWS = f"SELECT key, value FROM {TABLE}"
_SHOWN = 20


@contextmanager
def database(name: str, folder: Path) -> Iterator[str]:
    """The address of a database for one round; nothing where there is none."""
    if name == "postgres":
        with Postgres() as server:
            yield server.url
    else:
        yield f"sqlite:///{folder}/kept.db" if name else ""


def rows_of(url: str) -> dict[str, str]:
    """The table's values by their keys."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return {str(key): str(value) for key, value in file.execute(_ROWS)}
    import psycopg

    with psycopg.connect(url) as connection:
        return {str(key): str(value) for key, value in connection.execute(_ROWS)}


def judge_table(wanted: Sequence[Expected], found: Mapping[str, str]) -> Verdict:
    """Compare a table with the last results of the oracle: rows that are missing, and rows that should be others."""
    last = {each.key: each.said.value for each in wanted}
    should = {key: value for key, value in last.items() if value is not None}
    lost = sorted(should.keys() - found.keys())
    wrong = sorted(key for key, value in found.items() if should.get(key) != value)
    details = [f"{key!r}: {found.get(key)!r}, not {should.get(key)!r}" for key in (*lost, *wrong)][:_SHOWN]
    return Verdict(len(wanted), lost=len(lost), wrong=len(wrong), details=tuple(details))
