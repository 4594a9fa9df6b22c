"""The serdes of Debezium's change events: the envelope as a table's row or its deletion, and the key.

An envelope is decoded by the format that it is written in, with no more of its fields than are wanted here, and judged
as columns; so it does not matter which format that is. Law 6: an event of which a table could only be wrong (truncated,
a row that is not told whole) has a reason. The layout is that of Debezium's documentation ("Data change events").
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from watersmeet._engine.arrays import Bools
from watersmeet._worker.formats.serdes import Decoded, Serde
from watersmeet.errors import SinkError, TopologyError

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a value that the database has not told, by Debezium's `unavailable.value.placeholder`."""
PAYLOAD = "payload"
"""Where Kafka Connect's JSON has what is meant, beside its schema."""
_ROWS, _KNOWN = ("c", "r", "u"), ("c", "r", "u", "d", "t", "m")
Flaw = tuple[Bools, str]


def envelope_type(row: DataType, *, documents: bool) -> StructType:
    """The fields to read of an envelope; of Kafka Connect's JSON with schemas it lies within `payload`."""
    fields = [
        StructField("op", StringType()),
        StructField("after", StringType() if documents else row),
        StructField("source", StructType([StructField("ts_ms", LongType())])),
    ]
    return StructType([*fields, StructField(PAYLOAD, StructType(fields))])


def row_type(envelope: DataType) -> DataType:
    """The type of the rows of envelopes with a complete schema.

    Raises
    ------
    TopologyError : it is no schema of envelopes.
    """
    kinds = {field.name: field.dataType for field in envelope.fields} if isinstance(envelope, StructType) else {}
    source = kinds.get("source")
    if not {"op", "after"} <= set(kinds) or not isinstance(source, StructType) or "ts_ms" not in source.names:
        raise TopologyError(
            "The schema is not a Debezium envelope.",
            given=envelope.simpleString()[:300],
            hint="It has no op, after or source.ts_ms; flattened events are read without wm.debezium.",
        )
    return kinds["after"]


def key_type(columns: StructType) -> StructType:
    """The same of a key."""
    return StructType([*columns.fields, StructField(PAYLOAD, columns)])


@dataclass(frozen=True)
class EnvelopeSerde:
    """Envelopes as rows, null where the row was deleted.

    Parameters
    ----------
    inner : reads envelopes as `envelope_type`.
    document : reads rows that are texts within the envelope; None: they are no texts.
    tombstones : whether a null deletes; else it says nothing.
    times : whether the change's time is the record's.
    """

    inner: Serde
    document: Serde | None
    tombstones: bool
    times: bool

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
        one = pa.array([raw], pa.binary())
        if self.inner.read(one).bad[0]:
            return self.inner.fault(raw)
        return next(why for wrong, why in self._judged(one)[2] if wrong[0])

    def write(self, values: pa.Array) -> pa.Array:
        """Never: no sink takes the format."""
        raise _unwritten()

    def _judged(self, raw: pa.Array) -> tuple[pa.Array, pa.Array, list[Flaw]]:
        """Rows, times, and what is wrong with which events."""
        found = self.inner.read(raw)
        op, after, source = _opened(found.values, ("op", "after", "source"))
        there = _where(raw.is_valid()) & ~found.bad
        ts, rows = _field(source, "ts_ms"), _where(pc.is_in(op, pa.array(_ROWS))) & there
        flaws = [(found.bad, ""), *self._wrong_events(op, after, ts, there, rows)]
        after = pc.if_else(pa.array(rows), after, pa.scalar(None, after.type))
        if self.document is not None:
            texts = after.cast(pa.binary())
            read = self.document.read(texts)
            # a fault is asked for one event alone
            said = self.document.fault(texts[0].as_py()) if len(raw) == 1 and read.bad[0] else ""
            after = read.values
            flaws.append((read.bad, f"after: {said}"))
        flaws += _untold(after)
        return after, ts, flaws

    def _wrong_events(self, op: pa.Array, after: pa.Array, ts: pa.Array, there: Bools, rows: Bools) -> list[Flaw]:
        has_row, said = _where(after.is_valid()), op[0].as_py() if len(op) else None
        update = "without capture.mode=change_streams_update_full MongoDB's updates have none"
        return [
            (there & _where(op.is_null()), "there is no op: it is no change event of Debezium's"),
            (there & _where(pc.equal(op, "t")), "op t: the table was truncated, and its rows are unknown"),
            (there & _where(pc.equal(op, "m")), "op m: a message, which changes no row"),
            (there & ~_where(pc.is_in(op, pa.array(_KNOWN))), f"op {said!r}: there is no such operation"),
            (rows & ~has_row, f"op {said}: there is no row after it ({update})"),
            (there & _where(pc.equal(op, "d")) & has_row, "op d: there is a row after it"),
            (there & _where(ts.is_null()) & self.times, 'there is no source.ts_ms (time="record" needs none)'),
        ]


@dataclass(frozen=True)
class KeySerde:
    """Keys: the value of the one column of the primary key, or a struct of several.

    Parameters
    ----------
    inner : reads keys as `key_type`.
    names : of the columns.
    """

    inner: Serde
    names: tuple[str, ...]

    def read(self, raw: pa.Array) -> Decoded:
        """Keys with at least one column."""
        found = self.inner.read(raw)
        columns = _opened(found.values, self.names)
        lost = np.logical_and.reduce([_where(column.is_null()) for column in columns])
        bad: Bools = found.bad | (lost & _where(raw.is_valid()))
        if len(columns) == 1:
            return Decoded(columns[0], bad)
        fields = [pa.field(name, column.type) for name, column in zip(self.names, columns, strict=True)]
        return Decoded(pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(lost)), bad)

    def fault(self, raw: bytes) -> str:
        """The error of the inner format, or that no column is there."""
        if self.inner.read(pa.array([raw], pa.binary())).bad[0]:
            return self.inner.fault(raw)
        return f"there is none of the columns {', '.join(self.names)}"

    def write(self, values: pa.Array) -> pa.Array:
        """Never: no sink takes the format."""
        raise _unwritten()


def _unwritten() -> SinkError:
    return SinkError(
        "watersmeet does not write Debezium events.", hint="Write them as bytes, as Debezium has written them."
    )


def _opened(values: pa.Array, names: tuple[str, ...]) -> list[pa.Array]:
    """The fields of each event, or of its payload where it has one."""
    plain = [_field(values, name) for name in names]
    if values.type.get_field_index(PAYLOAD) < 0:
        return plain
    payload = _field(values, PAYLOAD)
    if payload.null_count == len(payload):
        return plain
    within = [_field(payload, name) for name in names]
    wrapped = payload.is_valid()
    return [pc.if_else(wrapped, one, other) for one, other in zip(within, plain, strict=True)]


def _field(values: pa.Array, name: str) -> pa.Array:
    """A field, null where the struct is."""
    return pc.struct_field(values, [values.type.get_field_index(name)])


def _untold(rows: pa.Array) -> list[Flaw]:
    """Rows with a column of which the database has told no value: to take Debezium's word for it would be another."""
    flaws = []
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        if pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            filled = pc.greater(pc.list_value_length(column), 0)
            column = pc.list_element(pc.if_else(filled, column, pa.scalar(None, column.type)), 0)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            found = _where(pc.equal(column, pa.scalar(UNAVAILABLE).cast(column.type)))
            why = f"the database did not send the column {field.name!r} (PostgreSQL: REPLICA IDENTITY FULL)"
            flaws.append((found, why))
    return list(compress(flaws, [wrong.any() for wrong, _ in flaws]))


def _where(found: pa.Array) -> Bools:
    where: Bools = found.fill_null(False).to_numpy(zero_copy_only=False)
    return where
