"""The serdes of Debezium's change events: the envelope as a table's row or its deletion, and the key.

An envelope is decoded by the format that it is written in, with no more of its fields than are wanted here, and
judged as columns; so it does not matter which format that is. Law 6: an event of which a table could only be wrong
(truncated, a row that is not told whole) has a reason. The layout is that of Debezium's documentation ("Data change
events").
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from watersmeet._engine.rows import Bools, Int64s, array, gather, ints, joined
from watersmeet._plan.reasons import UNDECODABLE
from watersmeet._worker.formats import serdes
from watersmeet._worker.formats.connect import Report, absent_columns
from watersmeet._worker.formats.json import NULL_TEXT
from watersmeet._worker.formats.serdes import (
    Decoded,
    JsonSerde,
    Serde,
)
from watersmeet.errors import FunctionError, SinkError, TopologyError
from watersmeet.processors import BatchState

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a value that the database has not told, by Debezium's `unavailable.value.placeholder`."""
_PLACEHOLDERS = (
    UNAVAILABLE,
    # hstore as JSON, a UUID, bytes by binary.handling.mode
    f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
    "b68a35a7-17ad-35b3-af2a-ae46edb4545a",
    b64encode(UNAVAILABLE.encode()).decode(),
    UNAVAILABLE.encode().hex(),
)
"""The texts that Debezium makes of it. The UUID is the one of version 3 that Java makes of its bytes."""
NOT_SENT = "__unavailable"
"""The field of a row that says of each column whether the database has sent it; null: all of them."""
_OR_SCHEMA = "or have events with their schema, schemas.enable=true)"
_CURES = {
    "decimal": f" (Debezium writes bytes by default: set decimal.handling.mode=string, {_OR_SCHEMA}",
    "a timestamp": f" (Debezium writes a number of a unit that depends on the column: declare it as long, {_OR_SCHEMA}",
    "a date": f" (Debezium writes a number of days: declare it as int, {_OR_SCHEMA}",
}
"""What to do about values of these types without a schema."""
_ROWS, _KNOWN = ("c", "r", "u"), ("c", "r", "u", "d", "t", "m")
Flaw = tuple[Bools, str]


def envelope_type(row: DataType, *, documents: bool) -> StructType:
    """The fields to read of an envelope."""
    fields = [
        StructField("op", StringType()),
        StructField("after", StringType() if documents else row),
        StructField("source", StructType([StructField("ts_ms", LongType())])),
    ]
    return StructType(fields)


def row_type(envelope: DataType) -> DataType:
    """The type of the rows of envelopes with a complete schema."""
    kinds = {field.name: field.dataType for field in envelope.fields} if isinstance(envelope, StructType) else {}
    source = kinds.get("source")
    if not {"op", "after"} <= set(kinds) or not isinstance(source, StructType) or "ts_ms" not in source.names:
        raise TopologyError(
            "The schema is not a Debezium envelope.",
            given=envelope.simpleString()[:300],
            hint="It has no op, after or source.ts_ms; flattened events are read without wm.debezium.",
        )
    return kinds["after"]


@dataclass(frozen=True)
class EnvelopeSerde:
    """Envelopes as rows, null where the row was deleted."""

    inner: Serde  # reads envelopes as `envelope_type`
    document: Serde | None  # reads rows that are texts within the envelope; None: they are no texts
    tombstones: bool  # whether a null deletes; else it says nothing
    times: bool  # whether the change's time is the record's
    marks_unsent: bool = False  # whether rows say which columns the database has not sent, and are not refused for them

    def absent(self, values: pa.Array, raw: pa.Array) -> Report | None:
        """The columns that no row in JSON has; None: events are no JSON, or rows texts within it."""
        if not isinstance(self.inner, JsonSerde) or self.document is not None:
            return None
        names = [field.name for field in values.type]
        if self.marks_unsent:
            names.pop()
            values = pa.StructArray.from_arrays(values.flatten()[: len(names)], names=names)
        return absent_columns(names, values, serdes.texts(raw)[0], "after")

    def read(self, raw: pa.Array) -> Decoded:
        """Rows of c, r and u; null for d."""
        values, ts, flaws = self._judged(raw)
        bad = np.logical_or.reduce([wrong for wrong, _ in flaws])
        if bad.any():
            values = pc.if_else(pa.array(~bad), values, pa.scalar(None, values.type))
            # what is no event tells no time: it keeps that of its record
            ts = pc.if_else(pa.array(~bad), ts, pa.scalar(None, ts.type))
        ignored = None if self.tombstones else _where(raw.is_null())
        return Decoded(values, bad, ignored, ts if self.times else None)

    def fault(self, raw: bytes) -> str:
        """The first reason."""
        array = pa.array([raw], pa.binary())
        if self.inner.read(array).bad[0]:
            reason = self.inner.fault(raw)
            # with its schema the reason says more
            bare = isinstance(self.inner, JsonSerde) and not raw.startswith(b'{"schema"')
            return reason + (next((_CURES[each] for each in _CURES if each in reason), "") if bare else "")
        return next(reason for wrong, reason in self._judged(array)[2] if wrong[0])

    def write(self, values: pa.Array) -> pa.Array:
        raise _unwritten()

    def _judged(self, raw: pa.Array) -> tuple[pa.Array, pa.Array, list[Flaw]]:
        """Rows, times, and what is wrong with which events."""
        decoded = self.inner.read(raw)
        op, after, source = (_field(decoded.values, name) for name in ("op", "after", "source"))
        present = _where(raw.is_valid()) & ~decoded.bad
        ts, rows = _field(source, "ts_ms"), _where(pc.is_in(op, pa.array(_ROWS))) & present
        flaws = [(decoded.bad, ""), *self._wrong_events(op, after, ts, present, rows)]
        after = pc.if_else(pa.array(rows), after, pa.scalar(None, after.type))
        if self.document is not None:
            texts = after.cast(pa.binary())
            read = self.document.read(texts)
            # a fault is asked for one event alone
            reason = self.document.fault(texts[0].as_py()) if len(raw) == 1 and read.bad[0] else ""
            after = read.values
            flaws.append((read.bad, f"after: {reason}"))
            flaws.append((rows & _where(texts.is_valid()) & _where(after.is_null()), f"after: {NULL_TEXT}"))
        if self.marks_unsent:
            return _with_not_sent(after), ts, flaws
        return after, ts, flaws + _unavailable_flaws(after)

    def _wrong_events(self, op: pa.Array, after: pa.Array, ts: pa.Array, present: Bools, rows: Bools) -> list[Flaw]:
        has_row, operation = _where(after.is_valid()), op[0].as_py() if len(op) else None
        update = "without capture.mode=change_streams_update_full MongoDB's updates have none"
        return [
            (present & _where(op.is_null()), "there is no op: it is no change event of Debezium's"),
            (present & _where(pc.equal(op, "t")), "op t: the table was truncated, and its rows are unknown"),
            (present & _where(pc.equal(op, "m")), "op m: a message, which changes no row"),
            (present & ~_where(pc.is_in(op, pa.array(_KNOWN))), f"op {operation!r}: there is no such operation"),
            (rows & ~has_row, f"op {operation}: there is no row after it ({update})"),
            (present & _where(pc.equal(op, "d")) & has_row, "op d: there is a row after it"),
            (present & _where(ts.is_null()) & self.times, 'there is no source.ts_ms (time="record" needs none)'),
        ]


@dataclass(frozen=True)
class KeySerde:
    """Keys: the value of the one column of the primary key, or a struct of several."""

    inner: Serde  # reads keys as `key_type`
    names: tuple[str, ...]  # of the columns

    def read(self, raw: pa.Array) -> Decoded:
        """Keys with at least one column."""
        decoded = self.inner.read(raw)
        columns = [_field(decoded.values, name) for name in self.names]
        lost = np.logical_and.reduce([_where(column.is_null()) for column in columns])
        bad: Bools = decoded.bad | (lost & _where(raw.is_valid()))
        if len(columns) == 1:
            return Decoded(columns[0], bad)
        fields = [pa.field(name, column.type) for name, column in zip(self.names, columns, strict=True)]
        return Decoded(pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(lost)), bad)

    def fault(self, raw: bytes) -> str:
        if self.inner.read(pa.array([raw], pa.binary())).bad[0]:
            return self.inner.fault(raw)
        return f"there is none of the columns {', '.join(self.names)}"

    def write(self, values: pa.Array) -> pa.Array:
        raise _unwritten()


def _unwritten() -> SinkError:
    return SinkError(
        "watersmeet does not write Debezium events.", hint="Write them as bytes, as Debezium has written them."
    )


def _field(values: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(values, [values.type.get_field_index(name)])


def _with_not_sent(rows: pa.Array) -> pa.Array:
    """The rows with one more field (`NOT_SENT`); columns that were not sent are null."""
    masks = [_unavailable(column) for column in rows.flatten()]
    columns = [
        pc.if_else(pa.array(mask), pa.scalar(None, column.type), column) if mask.any() else column
        for mask, column in zip(masks, rows.flatten(), strict=True)
    ]
    all_sent = pa.array(~np.logical_or.reduce(masks))
    names = [field.name for field in rows.type]
    columns.append(pa.StructArray.from_arrays([pa.array(mask) for mask in masks], names=names, mask=all_sent))
    return pa.StructArray.from_arrays(columns, names=[*names, NOT_SENT], mask=rows.is_null())


class StoredColumns:
    """The processor that gives columns which the database did not send the values of the stored row of their key.

    Parameters
    ----------
    store : name of the store with the rows.
    fails : whether a row that has no stored one fails the query; else it ends, and is counted.
    """

    unsent_reason = UNDECODABLE

    def __init__(self, store: str, *, fails: bool) -> None:
        self._store, self._fails = store, fails

    def process_batch(self, records: pa.Table, states: Mapping[str, BatchState]) -> pa.Table:
        """Whole rows; see `watersmeet.processors.Processor`."""
        count, group, values = len(records), ints(records, "group"), array(records, "value")
        state = states[self._store].rows()
        prior = np.full(count, -1, dtype=np.int64)
        prior[ints(state, "group")] = np.arange(count, count + len(state))
        prior, first = prior[group], group.searchsorted(group)
        # a row that is sent whole, or deleted, says itself whether there is one
        not_sent, present = _field(values, NOT_SENT), _where(values.is_valid())
        partial = _where(not_sent.is_valid())
        decisive = _last(~partial, first)
        complete = ~partial | np.where(decisive >= 0, present[decisive], prior >= 0)
        if self._fails and not complete.all():
            raise _no_stored_row(records, int(complete.argmin()), not_sent)
        columns = []
        for field, state_column in zip(list(values.type)[:-1], array(state, "value").flatten(), strict=True):
            source = _last(present & complete & ~_where(_field(not_sent, field.name)), first)
            source = np.where(present, np.where(source >= 0, source, prior), -1)
            columns.append(gather(joined([_field(values, field.name), state_column], field.type), source))
        rows = pa.StructArray.from_arrays(columns, fields=list(values.type)[:-1], mask=pa.array(~present))
        last = np.maximum.reduceat(np.where(complete, np.arange(count), -1), np.unique(first)) if count else first
        last = last[last >= 0]
        states[self._store].put(pa.table({"group": group[last], "value": rows.take(pa.array(last))}))
        return pa.table({"record": np.flatnonzero(complete), "value": rows.filter(pa.array(complete))})


def _last(marked: Bools, first: Int64s) -> Int64s:
    """Of each row the last marked one of its key up to it, -1 where there is none; `first`: its key's first row."""
    last = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    return np.where(last >= first, last, -1)


def _no_stored_row(records: pa.Table, at: int, not_sent: pa.Array) -> FunctionError:
    column = next(name for name, missing in not_sent[at].as_py().items() if missing)
    key = records.column("key")[at].as_py()
    return FunctionError(
        f"The row of the key {key!r:.120} cannot be decoded: the database did not send the column {column!r}, and no "
        "row of this key is stored.",
        hint='set on_undecodable="skip" of the table, or wm.DeadLetter("topic"): the same checkpoint continues with '
        "either, and query.drops counts; the row comes with its next event that has all columns.",
    )


def _unavailable_flaws(rows: pa.Array) -> list[Flaw]:
    """Rows with a column of which the database has told no value: to take Debezium's word for it would be another."""
    flaws = []
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        reason = f"the database did not send the column {field.name!r} (PostgreSQL: REPLICA IDENTITY FULL)"
        flaws.append((_unavailable(column), reason))
    return list(compress(flaws, [wrong.any() for wrong, _ in flaws]))


def _unavailable(column: pa.Array) -> Bools:
    """Where a column has the placeholder, in the form that Debezium writes it in for the column's type."""
    kind, nowhere = column.type, np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_string(kind):
        return _where(pc.is_in(column, pa.array(_PLACEHOLDERS)))
    if pa.types.is_binary(kind):
        return _where(pc.equal(column, UNAVAILABLE.encode()))
    if pa.types.is_map(kind):
        return (
            _unavailable(pc.map_lookup(column, UNAVAILABLE, "first")) if pa.types.is_string(kind.item_type) else nowhere
        )
    if not pa.types.is_list(kind):
        return nowhere
    numbers = pa.types.is_integer(kind.value_type) or pa.types.is_date(kind.value_type)
    size = len(UNAVAILABLE) if numbers else 1
    rows = np.flatnonzero(_where(pc.equal(pc.list_value_length(column), size)))
    elements = column.take(pa.array(rows)).flatten()
    if numbers:
        given = elements.view(pa.int32()) if pa.types.is_date(kind.value_type) else elements
        codes = given.fill_null(0).to_numpy(zero_copy_only=False).reshape(-1, size)
        nowhere[rows] = (codes == np.frombuffer(UNAVAILABLE.encode(), dtype=np.uint8)).all(axis=1)
    else:
        nowhere[rows] = _unavailable(elements)
    return nowhere


def _where(mask: pa.Array) -> Bools:
    where: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return where
