"""Words of SQL that SQLite and Postgres have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet._engine.databases.columns import DatabaseColumn


def quoted(*names: str) -> str:
    """Names, one within the other: schema and table."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def listed(columns: Iterable[DatabaseColumn]) -> str:
    """Names of columns."""
    return ", ".join(quoted(column.name) for column in columns)


def conflict(columns: Sequence[DatabaseColumn]) -> str:
    """The clause of an insert for an existing key: the row gets the new values."""
    keys = [column for column in columns if column.is_key]
    values = ", ".join(f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in columns if not c.is_key)
    return f"ON CONFLICT ({listed(keys)}) DO " + (f"UPDATE SET {values}" if values else "NOTHING")


def definition(table: str, columns: Sequence[DatabaseColumn], types: Sequence[str]) -> str:
    """The statement that makes the table."""
    keys = [column for column in columns if column.is_key]
    lines = [
        f"{quoted(column.name)} {kind}{' NOT NULL' if column.is_key else ''}"
        for column, kind in zip(columns, types, strict=True)
    ]
    return f"CREATE TABLE {table} ({', '.join([*lines, f'PRIMARY KEY ({listed(keys)})'])})"
