"""Databases for tests: a file of SQLite's, or a schema of a running Postgres."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import watersmeet as wm


@dataclass(frozen=True)
class Place:
    """Where a test keeps its tables.

    Parameters
    ----------
    dialect : which database.
    url : of it.
    schema : of Postgres.
    """

    dialect: Literal["sqlite", "postgresql"]
    url: str
    schema: str = ""

    def table(self, name: str, **options: Any) -> wm.DatabaseTable:
        return wm.DatabaseTable(self.url, table=name, **options)

    def execute(self, statement: str) -> list[dict[str, Any]]:
        """Run it; the rows that it gives."""
        if self.dialect == "sqlite":
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)) as file:
                file.row_factory = sqlite3.Row
                return [dict(row) for row in file.execute(statement).fetchall()]
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


def all_rows(place: Place, table: str) -> list[dict[str, Any]]:
    """The rows in order of their first column."""
    return place.execute(f"SELECT * FROM {table} ORDER BY 1")
