"""How the rows of a table lie in its runs: the stored columns, and which of them name, sort and expire a row."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows import types
from watersmeet._engine.rows.columns import bools
from watersmeet._plan.operators.spec import BYTES, FLAG, HEADERS, NUMBER, Retention, TableSchema

TOMBSTONE = "__tombstone"
DUE = "__due"
"""The column, of runs alone, with the places of the rows that are found by time, in order of time; then -1."""
PLACES = b"table"
"""Where a stored schema says how rows are told apart, sorted and let go."""
_TYPES = {FLAG: pa.bool_(), NUMBER: pa.int64(), BYTES: pa.large_binary(), HEADERS: types.HEADERS}


@dataclass(frozen=True)
class TableLayout:
    """How the rows of a table are told apart and sorted.

    Parameters
    ----------
    schema : stored columns, `hash` and the tombstone flag included.
    identity : columns that name a row, `key` first; none where rows are only appended.
    order : columns of numbers that rows of one hash are sorted by.
    time, domain : columns by which rows are let go; without `retained` the time says only what runs are read.
    retained : whether rows are let go by time.
    due : flags of the rows that are found by time, as in `TableSchema`.
    ends : of versions of a key, the flag of those that delete it, as in `Retention`.
    """

    schema: pa.Schema
    identity: tuple[str, ...] = ("key",)
    order: tuple[str, ...] = ()
    time: str | None = None
    domain: str | None = None
    retained: bool = False
    due: tuple[str, ...] | None = None
    ends: str | None = None

    @classmethod
    def of(cls, table: TableSchema) -> TableLayout:
        """The layout of a declared table."""
        columns = [(name, arrow_type(kind)) for name, kind in table.columns]
        schema = pa.schema([("hash", pa.int64()), *columns, (TOMBSTONE, pa.bool_())]).remove_metadata()
        retention = table.retention
        if retention is None:
            return cls(schema, table.identity, table.order, next(iter(table.order), None))
        return cls(
            schema,
            table.identity,
            table.order,
            retention.time,
            retention.domain,
            retained=True,
            due=table.due,
            ends=retention.ends,
        )

    @property
    def stored(self) -> pa.Schema:
        """The layout of the table in the manifest: the columns, and how rows are told apart, sorted and let go."""
        retention = (self.time, self.domain) if self.retained else None
        said: dict[str, Any] = {"identity": self.identity, "order": self.order, "retention": retention, "due": self.due}
        if self.ends is not None:
            said |= {"ends": self.ends}
        return self.schema.with_metadata({PLACES: json.dumps(said)})

    @cached_property
    def in_runs(self) -> pa.Schema:
        """The columns of its runs."""
        return self.schema if self.due is None else self.schema.append(pa.field(DUE, pa.int32()))

    @property
    def appended(self) -> bool:
        """Whether rows are only added."""
        return not self.identity

    @property
    def named(self) -> frozenset[str]:
        """Columns that a tombstone keeps."""
        return frozenset({"hash", *self.identity, *self.order, *filter(None, (self.time, self.domain))})


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a declared column."""
    return _TYPES[kind] if isinstance(kind, str) else kind


def with_due(rows: pa.RecordBatch, layout: TableLayout) -> pa.RecordBatch:
    """The rows of a run with the column `DUE`, where the table has one.

    Of rows that can be replaced all are in it: a newer version hides an older one, whatever its flags are.
    """
    if layout.due is None:
        return rows
    if layout.appended and layout.due:
        places = np.flatnonzero(np.logical_or.reduce([bools(rows, flag) for flag in layout.due]))
    else:
        places = np.arange(len(rows), dtype=np.int64)
    time = rows.column(layout.time).to_numpy(zero_copy_only=False)
    column = np.full(len(rows), -1, dtype=np.int32)
    column[: len(places)] = places[np.argsort(time[places], kind="stable")]
    return rows.append_column(DUE, pa.array(column))


def contradiction(rows: pa.RecordBatch, layout: TableLayout) -> str | None:
    """The fault of a run's rows, if they break an assumption of lookups and merges; None: no fault."""
    numbers = ("hash", TOMBSTONE, *layout.order, *filter(None, (layout.time, layout.domain)))
    missing = [name for name in numbers if rows.column(name).null_count]
    if missing:
        return f"nulls in {', '.join(missing)}"
    by_hash = rows.column("hash").to_numpy(zero_copy_only=True)
    if np.any(by_hash[1:] < by_hash[:-1]):
        return "rows that are not in order of their hashes"
    if layout.due is None:
        return None
    places = rows.column(DUE)
    if places.null_count:
        return "nulls among the places by time"
    found = places.to_numpy(zero_copy_only=True)
    if np.any((found < -1) | (found >= len(rows))):
        return "places by time that it has no rows for"
    return None


def due_between(rows: pa.RecordBatch, layout: TableLayout, low: int, high: int) -> Int64s:
    """Places of the rows of a run that are found by time, low <= time < high, in order of time.

    It touches these rows and as many more as a bisection does, not the run's.
    """
    places = rows.column(DUE).to_numpy(zero_copy_only=True)
    time = rows.column(layout.time).to_numpy(zero_copy_only=True)
    count = bisect_left(range(len(places)), True, key=lambda at: bool(places[at] < 0))
    begin = bisect_left(range(count), low, key=lambda at: int(time[places[at]]))
    end = bisect_left(range(count), high, key=lambda at: int(time[places[at]]))
    return np.asarray(places[begin:end], dtype=np.int64)


def declared(name: str, stored: pa.Schema) -> TableSchema:
    """The table as it was declared, from what a manifest has of it."""
    said = json.loads(stored.metadata[PLACES])
    columns = tuple((field.name, field.type) for field in stored if field.name not in ("hash", TOMBSTONE))
    retention, due = said["retention"], said["due"]
    return TableSchema(
        name,
        columns,
        identity=tuple(said["identity"]),
        order=tuple(said["order"]),
        retention=None if retention is None else Retention(retention[0], retention[1], said.get("ends")),
        appended=not said["identity"],
        due=None if due is None else tuple(due),
    )
