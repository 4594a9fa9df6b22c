"""process_batch: a user's class called with the records of many keys at once, and their states (docs/processors.md).

Records, entries and results are Arrow tables. All records that a batch has of a key come in one call, together and in
order; so what is done for each key by itself, in order, does not depend on shards. Batches show: that the result does
not depend on them either is up to the user's class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.operators.processors.members import Member
from watersmeet._engine.operators.processors.sent import SentResults
from watersmeet._engine.state.table import Table
from watersmeet._plan.nodes.processors import ProcessorStore
from watersmeet._plan.operators.process import ENTRY, MemberParams
from watersmeet.errors import FunctionError


class BulkState:
    """See `watersmeet.processors.BatchState`."""

    def __init__(
        self, store: ProcessorStore, table: Table, hashes: Int64s, keys: pa.Array, last: Int64s, called: str
    ) -> None:
        self._store, self._table, self._called = store, table, called
        self._hashes, self._keys, self._last = hashes, keys, last
        found = table.rows(hashes, keys)
        own = [ENTRY] if store.entry is not None else []
        rows = found.take([*own, "value"])
        columns = {"group": pa.array(found.query), "key": keys.take(pa.array(found.query))}
        rows = pa.table(columns | {name: rows.column(name) for name in (*own, "value")})
        self._rows = rows.sort_by([(name, "ascending") for name in ("group", *own)])
        self._put = False

    def rows(self) -> pa.Table:
        """The entries of the call's keys, as they were before it."""
        return self._rows

    def put(self, rows: pa.Table) -> None:
        """Other entries; a value that is null deletes one."""
        if self._put:
            raise self._unfit("puts rows twice in one call", "Put all rows of a call together.")
        self._put = True
        own = [ENTRY] if self._store.entry is not None else []
        names = ("group", *own, "value")
        if not isinstance(rows, pa.Table) or set(rows.column_names) - {"key"} != set(names):
            given = rows.column_names if isinstance(rows, pa.Table) else type(rows).__name__
            raise self._unfit(f"puts {given}", f"Put a pyarrow.Table of the columns {', '.join(names)}.")
        group = _numbers(rows, "group", len(self._hashes), self._called)
        columns = {"value": _as(rows, "value", self._store.value, self._called)}
        if own:
            columns[ENTRY] = _as(rows, ENTRY, self._store.entry, self._called)
            if columns[ENTRY].null_count:
                raise self._unfit("puts an entry whose key is null", "Leave it out.")
        gone, known = np.asarray(columns["value"].is_null()), self._known(group, columns)
        told = known >= 0
        if len(np.unique(known[told])) < told.sum() or self._repeats(group, columns):
            raise self._unfit("puts one entry twice", "Put of each entry the last value.")
        wanted = np.flatnonzero(~gone | told)
        columns |= {"hash": pa.array(self._hashes[group]), "key": self._keys.take(pa.array(group))}
        columns |= {"ts": pa.array(self._last[group])}
        picked = {name: columns[name].take(pa.array(wanted)) for name in self._table.schema.names}
        self._table.put(picked, gone[wanted])

    def _known(self, group: Int64s, columns: dict[str, pa.Array]) -> Int64s:
        """Which stored row is each entry's; -1 for none."""
        place = {each: at for at, each in enumerate(self._entries(np.asarray(self._rows["group"]), self._rows))}
        return np.array([place.get(each, -1) for each in self._entries(group, columns)], dtype=np.int64)

    def _repeats(self, group: Int64s, columns: dict[str, pa.Array]) -> bool:
        return len(set(self._entries(group, columns))) < len(group)

    def _entries(self, group: Int64s, columns: Any) -> list[Any]:
        own: list[Any] = group.tolist()
        return own if self._store.entry is None else list(zip(own, columns[ENTRY].to_pylist(), strict=True))

    def _unfit(self, does: str, hint: str) -> FunctionError:
        return FunctionError(f"The processor {self._called} {does}, into the store {self._store.name!r}.", hint=hint)


def in_bulk(
    member: Member,
    events: Events,
    rows: Int64s,
    ends: Int64s,
    kept: list[tuple[ProcessorStore, Table]],
    results: SentResults,
) -> Iterator[pa.Table]:
    """One call with the records of a slice's keys, and its results.

    Parameters
    ----------
    rows, ends : the records, by key, and where those of each key begin and end.
    kept : the stores, and where they are.
    """
    params, group = member.params, np.repeat(np.arange(len(ends) - 1, dtype=np.int64), np.diff(ends))
    first, last = rows[ends[:-1]], rows[ends[1:] - 1]
    hashes, keys = events.hash[first], events.key.take(pa.array(first))
    states = {
        store.name: BulkState(store, table, hashes, keys, events.ts[last], params.called) for store, table in kept
    }
    records = {
        "group": pa.array(group),
        "key": events.key.take(pa.array(rows)),
        "value": events.tables[0].column("value").take(pa.array(events.own[rows])),
        "timestamp": pa.array(events.ts[rows]),
    }
    try:
        given = member.processor.process_batch(pa.table(records), states)
        sent = None if given is None else _sent(params, given, events.ts[rows], records["key"])
    except Exception as error:
        raise member.raised(error, "process_batch") from None
    if sent is not None:
        record, values, ts = sent
        yield from results.of_records(rows[record], values, ts)


def _sent(params: MemberParams, given: Any, stamps: Int64s, keys: pa.Array) -> tuple[Int64s, pa.Array, Int64s]:
    """Record, value and timestamp of each result."""
    called, names = params.called, {"record", "value"} | ({"key"} if params.sent_key is not None else set())
    if not isinstance(given, pa.Table) or not names <= set(given.column_names) <= names | {"timestamp"}:
        what = given.column_names if isinstance(given, pa.Table) else type(given).__name__
        raise FunctionError(
            f"The processor {called} gives {what} for a batch.",
            hint=f"Give a pyarrow.Table of the columns {', '.join(sorted(names))}, perhaps timestamp; or None.",
        )
    record = _numbers(given, "record", len(stamps), called)
    values = _as(given, "value", params.sent_value, called)
    if params.sent_key is not None:
        fields = [pa.field("key", params.sent_key), pa.field("value", params.sent_value)]
        values = pa.StructArray.from_arrays([_as(given, "key", params.sent_key, called), values], fields=fields)
    if "timestamp" not in given.column_names:
        return record, values, stamps[record]
    return record, values, _numbers(given, "timestamp", 2**60, called)


def _as(rows: pa.Table, name: str, kind: pa.DataType, called: str) -> pa.Array:
    """A column in its declared type."""
    column = rows.column(name)
    try:
        cast = column if column.type == kind else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise _no_type(called, name, column.type, kind, str(error)) from None
    except pa.ArrowNotImplementedError:
        raise _no_type(called, name, column.type, kind, None) from None
    return cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast


def _no_type(called: str, name: str, given: Any, kind: Any, why: str | None) -> FunctionError:
    return FunctionError(
        f"The processor {called} gives a column {name!r} of the type {given}, which is declared as {kind}.",
        given=None if why is None else why[:200],
        hint="Make it one of the declared type, or declare the type that is meant.",
    )


def _numbers(rows: pa.Table, name: str, end: int, called: str) -> Int64s:
    """A column of numbers from 0 on."""
    column = _as(rows, name, pa.int64(), called)
    numbers = column.to_numpy(zero_copy_only=False)
    if column.null_count or (len(numbers) and not (numbers.min() >= 0 and numbers.max() < end)):
        raise FunctionError(
            f"The processor {called} gives a column {name!r} with numbers that are none of those it was given.",
            hint="group and record are numbers of keys and rows of `records`, timestamps are ms since 1970.",
        )
    return np.asarray(numbers, dtype=np.int64)
