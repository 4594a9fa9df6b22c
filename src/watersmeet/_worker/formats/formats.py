"""Formats: their types, and who reads and writes them in the workers.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. What Spark's own expressions read and write is in
`_spark/formats.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from watersmeet._engine.rows import Bools, Int64s, array, gather, ints, joined
from watersmeet._plan.reasons import UNDECODABLE
from watersmeet._worker.formats import schemas, serdes
from watersmeet._worker.formats.arrow_types import field_twice
from watersmeet._worker.formats.connect import PAYLOAD, Report, absent_columns
from watersmeet._worker.formats.json import NULL_TEXT, nullable, readable
from watersmeet._worker.formats.serdes import (
    WINDOWED_FIELDS,
    DecimalSerde,
    Decoded,
    JsonSerde,
    NumberSerde,
    Serde,
    WindowedSerde,
)
from watersmeet.errors import FunctionError, SinkError, TopologyError
from watersmeet.io.formats import (
    DebeziumFormat,
    DebeziumKeyFormat,
    DecimalFormat,
    Format,
    SchemaFormat,
    WindowedFormat,
    meant_type,
)
from watersmeet.processors import BatchState

# The serdes of Debezium's change events: the envelope as a table's row or its deletion, and the key.
#
# An envelope is decoded by the format that it is written in, with no more of its fields than are wanted here, and
# judged as columns; so it does not matter which format that is. Law 6: an event of which a table could only be wrong
# (truncated, a row that is not told whole) has a reason. The layout is that of Debezium's documentation ("Data change
# events").

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


# The interface of a family of formats: its types, its serdes, and its texts.
#
# A format is a class of `io` that the user makes, and one line in the table of `formats`; what it shares with others it
# has from here. Law 6: what a format does not write is refused when the topology is built.


class Family(ABC):
    """Formats of one kind, or of some that differ in nothing that matters here. It has no state."""

    is_primitive: ClassVar[bool] = False
    """Whether Spark has expressions to read and write the values."""

    @abstractmethod
    def type_of(self, form: Any) -> DataType:
        """The Spark type of the format's values; all fields within it may be null."""

    @abstractmethod
    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        """The serde of the format in the workers.

        Parameters
        ----------
        kind : type of the values; None: the format's own.
        """

    def described(self, form: Any) -> str:
        """The format in describe() and in a checkpoint, however it is spelt."""
        return str(form)

    def fits(self, form: Any, kind: DataType) -> bool:
        """Whether the format writes values of this type."""
        expected = self.type_of(form)
        # collations are types of their own
        return type(expected) is type(kind) and (expected == kind or isinstance(kind, StringType))

    def refuses(self, form: Any) -> bool:
        """Whether there are values of its type that the format does not write."""
        return False

    def is_left_to_spark(self, kind: DataType) -> bool:
        """Whether Spark alone writes values of this type in it."""
        return False

    def written_type(self, form: Any) -> str:
        """Values of what type it writes, as errors say it."""
        return self.type_of(form).simpleString()

    def hint(self, form: Any, alternative: str) -> str:
        """The hint if it does not write values of a type.

        Parameters
        ----------
        alternative : name of a format that does.
        """
        return (
            f'Take the format "{alternative}", or change the values with .cast("{self.type_of(form).simpleString()}").'
        )


FamilyOf = Callable[[Any], Family]
"""A format's family: what those that hold other formats are made with."""


# Debezium's events and their keys: rows of a table, in JSON or in a format with a schema.


@dataclass(frozen=True)
class _Debezium(Family):
    """What Debezium writes."""

    of: FamilyOf  # the family of the format that it writes in

    def type_of(self, form: Any) -> DataType:
        return self.columns_of(form)

    def described(self, form: Any) -> str:
        """With what is within, however that is spelt."""
        inner = form.inner
        if isinstance(inner, SchemaFormat):
            return str(form).replace(str(inner), self.of(inner).described(inner), 1)
        return str(replace(form, inner=Format("json", self._row_type(form)))) if inner.schema else str(form)

    def columns_of(self, form: Any) -> StructType:
        """The columns of a row, or of a primary key."""
        kind = self._row_type(form)
        if not isinstance(kind, StructType) or not kind.fields:
            message, hint = "Debezium's rows and keys have columns.", 'Name them: "id long, first_name string".'
            raise TopologyError(message, given=kind.simpleString(), hint=hint)
        return kind

    def _row_type(self, form: Any) -> DataType:
        return self.of(form.inner).type_of(form.inner)


class Envelopes(_Debezium):
    """Change events as rows."""

    def serde_of(self, form: DebeziumFormat, kind: DataType | None) -> Serde:
        row, times = self.columns_of(form), form.time == "source"
        options = (form.tombstones, times, form.takes_stored)
        if isinstance(form.inner, SchemaFormat):
            return EnvelopeSerde(self.of(form.inner).serde_of(form.inner, None), None, *options)
        missing = form.inner.missing_columns == "null"
        envelope = JsonSerde(envelope_type(row, documents=form.documents), missing)
        return EnvelopeSerde(envelope, JsonSerde(row) if form.documents else None, *options)

    def type_of(self, form: DebeziumFormat) -> DataType:
        row = self.columns_of(form)
        if not form.takes_stored:
            return row
        flags = StructType([StructField(name, BooleanType()) for name in row.names])
        return StructType([*row.fields, StructField(NOT_SENT, flags)])

    def _row_type(self, form: DebeziumFormat) -> DataType:
        kind = super()._row_type(form)
        # its schema is the envelope's
        return row_type(kind) if isinstance(form.inner, SchemaFormat) else kind


class DebeziumKeys(_Debezium):
    """Keys of change events: the one column, or a struct of several."""

    def type_of(self, form: DebeziumKeyFormat) -> DataType:
        columns = self.columns_of(form)
        return columns[0].dataType if len(columns) == 1 else columns

    def serde_of(self, form: DebeziumKeyFormat, kind: DataType | None) -> Serde:
        columns = self.columns_of(form)
        if isinstance(form.inner, SchemaFormat):
            return KeySerde(self.of(form.inner).serde_of(form.inner, None), tuple(columns.names))
        return KeySerde(JsonSerde(columns), tuple(columns.names))

    def columns_of(self, form: DebeziumKeyFormat) -> StructType:
        """The columns of a primary key."""
        kind = super().columns_of(form)
        if PAYLOAD in kind.names and not isinstance(form.inner, SchemaFormat):
            message = f"A key with a column {PAYLOAD!r} cannot be told from one with its schema."
            hint = 'Without schemas (key.converter.schemas.enable=false) read it as wm.json("payload string").'
            raise TopologyError(message, given=kind.simpleString(), hint=hint)
        return kind


# Windowed keys: a key of any other format, and the times of its window.


@dataclass(frozen=True)
class Windowed(Family):
    """Keys of windows."""

    of: FamilyOf  # the family of the key within
    sessions: bool  # whether a window's end is written too

    def type_of(self, form: WindowedFormat) -> DataType:
        kinds = (self.of(form.inner).type_of(form.inner), LongType(), LongType())
        return StructType([StructField(name, kind) for name, kind in zip(WINDOWED_FIELDS, kinds, strict=True)])

    def serde_of(self, form: WindowedFormat, kind: DataType | None) -> Serde:
        inner = self.of(form.inner).serde_of(form.inner, None if kind is None else _windowed(kind)[0])
        return WindowedSerde(form.kind, inner, self.sessions, form.size_ms)

    def described(self, form: WindowedFormat) -> str:
        """With what is within, however that is spelt."""
        return str(form).replace(str(form.inner), self.of(form.inner).described(form.inner), 1)

    def fits(self, form: WindowedFormat, kind: DataType) -> bool:
        kinds = _windowed(kind)
        return bool(kinds) and self.of(form.inner).fits(form.inner, kinds[0])

    def refuses(self, form: WindowedFormat) -> bool:
        return True

    def written_type(self, form: WindowedFormat) -> str:
        return f"struct<key:{self.of(form.inner).written_type(form.inner)},start:bigint,end:bigint>"

    def hint(self, form: WindowedFormat, alternative: str) -> str:
        return f'It is for keys of windows, structs of key, start and end; here take "{alternative}".'


def _windowed(kind: DataType) -> list[DataType]:
    """The types of key, start and end of windowed keys; nothing where it is no type of such keys."""
    if not isinstance(kind, StructType) or tuple(kind.names) != WINDOWED_FIELDS:
        return []
    key, *times = (field.dataType for field in kind.fields)
    return [key, *times] if all(isinstance(time, LongType) for time in times) else []


# JSON texts: with the type that a user names, or of whatever a sink gets.


class Json(Family):
    """JSON texts."""

    def type_of(self, form: Format) -> DataType:
        kind = _schema(form)
        if not readable(kind):
            raise TopologyError(
                f"JSON cannot be read as {kind.simpleString():.200}.",
                given=kind.simpleString(),
                hint="Maps need string keys; intervals, variants and void have no JSON of their own.",
            )
        return nullable(kind)

    def serde_of(self, form: Format, kind: DataType | None) -> Serde:
        return JsonSerde(self.type_of(form) if kind is None else kind, form.missing_columns == "null")

    def described(self, form: Format) -> str:
        return str(form) if form.schema is None else f"{form.kind}({self.type_of(form).simpleString()})"

    def fits(self, form: Format, kind: DataType) -> bool:
        return form.schema is None or self.type_of(form) == nullable(kind)

    def is_left_to_spark(self, kind: DataType) -> bool:
        return not readable(kind)

    def written_type(self, form: Format) -> str:
        return "any type" if form.schema is None else super().written_type(form)

    def hint(self, form: Format, alternative: str) -> str:
        return "A sink's JSON needs no schema: wm.json()."


def _schema(form: Format) -> DataType:
    if isinstance(form.schema, DataType):
        return form.schema
    try:
        return DataType.fromDDL(str(form.schema))
    except (PySparkException, ValueError) as error:
        unknown = re.search(r'Unsupported data type "(\w+)', str(error))
        meant = meant_type(unknown[1]) if unknown is not None else None
        raise TopologyError(
            f"The schema of a JSON format does not parse: {form.schema!r:.200}.",
            hint=(f"Did you mean {meant} for {unknown[1].lower()}? " if unknown is not None and meant else "")
            + f'Give fields and types: "id long, name string"; a schema of Avro is wm.avro(...), a JSON Schema '
            f"wm.json_schema(...). {str(error).strip().splitlines()[0]}",
        ) from None


# Formats of single values, written as Kafka's own serializers write them.


@dataclass(frozen=True)
class Simple(Family):
    """Values of one type."""

    kind: DataType  # the type
    serde: Serde  # reads and writes them
    some: bool = False  # whether some values of the type alone are written

    def type_of(self, form: Any) -> DataType:
        return self.kind

    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        return self.serde

    def refuses(self, form: Any) -> bool:
        return self.some


class Decimals(Family):
    """Decimals of the format's precision and scale."""

    def type_of(self, form: DecimalFormat) -> DataType:
        return DecimalType(form.precision, form.scale)

    def serde_of(self, form: DecimalFormat, kind: DataType | None) -> Serde:
        return DecimalSerde(form.precision, form.scale)


class Primitive(Simple):
    """Values that Spark's expressions can read and write (`_spark/formats.py`)."""

    is_primitive: ClassVar[bool] = True


# Formats with a schema of a language of its own, such as Avro.


class RegisteredFamily(Family):
    """Values with a schema, alone or in a Schema Registry."""

    def type_of(self, form: SchemaFormat) -> DataType:
        return schemas.type_of(form)

    def serde_of(self, form: SchemaFormat, kind: DataType | None) -> Serde:
        return schemas.serde_of(form, None if kind is None else nullable(kind))

    def described(self, form: SchemaFormat) -> str:
        """With its type, where that is known."""
        return schemas.described(form)

    def fits(self, form: SchemaFormat, kind: DataType) -> bool:
        return schemas.misfit(form, nullable(kind)) is None

    def refuses(self, form: SchemaFormat) -> bool:
        return True

    def written_type(self, form: SchemaFormat) -> str:
        return "types that its language has" if form.schema is None else super().written_type(form)

    def hint(self, form: SchemaFormat, alternative: str) -> str:
        return "Make values of the schema's types, its fields in its order; without a schema one is made of the type."


def family_of(form: Format) -> Family:
    return FAMILIES[form.kind]


_PRIMITIVE: dict[str, Primitive] = {
    "bytes": Primitive(BinaryType(), serdes.BytesSerde()),
    "string": Primitive(StringType(), serdes.TextSerde()),
    "int": Primitive(IntegerType(), NumberSerde("int")),
    "long": Primitive(LongType(), NumberSerde("long")),
}
FAMILIES: dict[str, Family] = {
    **_PRIMITIVE,
    "short": Simple(ShortType(), NumberSerde("short")),
    "float": Simple(FloatType(), NumberSerde("float")),
    "double": Simple(DoubleType(), NumberSerde("double")),
    "boolean": Simple(BooleanType(), serdes.BooleanSerde()),
    "uuid": Simple(StringType(), serdes.UuidSerde(), some=True),
    "decimal": Decimals(),
    "json": Json(),
    "avro": RegisteredFamily(),
    "protobuf": RegisteredFamily(),
    "json_schema": RegisteredFamily(),
    "time_windowed": Windowed(family_of, sessions=False),
    "session_windowed": Windowed(family_of, sessions=True),
    "debezium": Envelopes(family_of),
    "debezium_key": DebeziumKeys(family_of),
}
"""By `Format.kind`."""


def type_of(form: Format) -> DataType:
    """The Spark type of the format's values; all fields within it may be null.

    Raises
    ------
    TopologyError : the schema has none, or two fields of one name.
    """
    kind = family_of(form).type_of(form)
    twice = field_twice(kind)
    if twice is not None:
        raise TopologyError(
            f"The schema of a format names the field {twice!r} twice: {kind.simpleString():.160}.",
            hint="Leave one of them out, or give it the name that it has in the records.",
        )
    return kind


def format_for(kind: DataType) -> Format:
    names = {type(family.kind): name for name, family in _PRIMITIVE.items()}
    return Format(names.get(type(kind), "json"))


def is_primitive(form: Format) -> bool:
    """Whether values of the format are texts, bytes or integers, which Spark has expressions to read."""
    return family_of(form).is_primitive


def serde_of(form: Format, kind: DataType | None = None) -> Serde:
    """The serde of the format in the workers.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    return family_of(form).serde_of(form, kind)


def describe_format(form: Format | None) -> str:
    """A format in describe() and in a checkpoint: however its schema was spelt."""
    return "by type" if form is None else family_of(form).described(form)


def check_writable(form: Format, kind: DataType, subject: str) -> None:
    """Raise unless the format writes values of this type.

    Parameters
    ----------
    subject : names the values to the user.
    """
    family = family_of(form)
    if family.fits(form, kind):
        return
    raise TopologyError(
        f"The format {form.kind!r} cannot write the {subject}, which are {kind.simpleString():.200}: it writes "
        f"{family.written_type(form):.200}.",
        hint=family.hint(form, format_for(kind).kind),
    )


def refuses(form: Format) -> bool:
    """Whether there are values of its type that the format does not write, as a text that is no UUID."""
    return family_of(form).refuses(form)
