"""Debezium's change events as formats: the envelope of a changed row, and its key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.hints import answered
from watersmeet.io.formats import Format, MissingColumns, SchemaFormat, WrappingFormat, json

EventTime = Literal["source", "record"]
UnavailableColumns = Literal["error", "stored"]
_ROW_HINT = 'Name the table\'s columns: wm.debezium("id long, first_name string, email string").'
_KEY_HINT = 'Name the columns of the primary key: wm.debezium_key("id long").'


@dataclass(frozen=True)
class DebeziumFormat(WrappingFormat):
    """Values of a topic that Debezium writes; see `debezium`.

    Parameters
    ----------
    inner : the format of a row, which is that of the envelope around it.
    tombstones : whether a null value deletes.
    time : what a record's time is.
    documents : whether a row is a text of its own within the envelope.
    unavailable_columns : what columns are that the database did not send.
    """

    kind: str = "debezium"
    inner: Format = field(default_factory=json)
    tombstones: bool = False
    time: EventTime = "source"
    documents: bool = False
    unavailable_columns: UnavailableColumns = "error"

    def __post_init__(self) -> None:
        if self.time not in get_args(EventTime):
            hint = '"source": when the database made the change; "record": the time of the Kafka record.'
            raise TopologyError(f"Unknown time={self.time!r} of a change.", hint=hint)
        if self.unavailable_columns not in get_args(UnavailableColumns):
            hint = '"error": a record without the value is refused; "stored": a table keeps its value.'
            raise TopologyError(f"Unknown unavailable_columns={self.unavailable_columns!r} of a format.", hint=hint)
        _check(self.inner, _ROW_HINT)
        if self.documents and isinstance(self.inner, SchemaFormat):
            message, hint = (
                "documents=True takes envelopes in JSON, and not in Avro.",
                "Have events written as JSON.",
            )
            raise TopologyError(message, given=str(self), hint=hint)

    @property
    def gives_time(self) -> bool:
        return self.time == "source"

    @property
    def names_transactions(self) -> bool:
        return not isinstance(self.inner, SchemaFormat)

    @property
    def takes_stored(self) -> bool:
        return self.unavailable_columns == "stored"

    @property
    def unwritable(self) -> str | None:
        return "watersmeet reads Debezium's events; Debezium alone writes them."

    def __str__(self) -> str:
        flags = {"tombstones": self.tombstones, "record time": self.time == "record", "documents": self.documents}
        flags["stored columns"] = self.takes_stored
        return f"debezium({', '.join((str(self.inner), *(name for name, flag in flags.items() if flag)))})"


@dataclass(frozen=True)
class DebeziumKeyFormat(WrappingFormat):
    """Keys of a topic that Debezium writes; see `debezium_key`."""

    kind: str = "debezium_key"
    inner: Format = field(default_factory=json)

    def __post_init__(self) -> None:
        _check(self.inner, _KEY_HINT)

    @property
    def unwritable(self) -> str | None:
        return "watersmeet reads Debezium's keys; Debezium alone writes them."

    def __str__(self) -> str:
        return f"debezium_key({self.inner})"


@answered
def debezium(
    row: Any,
    *,
    tombstones: bool = False,
    time: EventTime = "source",
    documents: bool = False,
    missing_columns: MissingColumns = "error",
    unavailable_columns: UnavailableColumns = "error",
) -> Format:
    """The format of Debezium's change events in JSON or Avro, read as rows of the table that they tell of.

    A value is the row as it is after the change (`after` of the events c, r and u), or null where the row was deleted
    (d). So `builder.table` has the database's table. Events come as Kafka Connect's JsonConverter writes them, with
    their schema or without. Truncations (t), messages (m) and an update that does not tell its row are refused by the
    topic's `on_undecodable`: a table has no operation for the one, and would have a wrong row by the other.

    Parameters
    ----------
    row : of JSON the columns that are wanted, in DDL ("id long, first_name string"), or a StructType; types are those
        of docs/debezium.md: without the events' schema those that Debezium writes (dates as days, say). Or the format
        of events in Avro, such as `wm.avro(registry=...)`: all columns of its schema.
    tombstones : whether a null value, which Debezium writes behind each deletion, is one more deletion. By default it
        ends there, and is no drop, since the event d before it has deleted the row.
    time : a record's event time: "source" is when the database made the change (`source.ts_ms`), "record" the time
        of the Kafka record.
    documents : whether `after` is a text of JSON itself, as the connector for MongoDB writes it.
    missing_columns : of an event with its schema, where this has no such column: see `json`.
    unavailable_columns : of an update that does not send a large value that it has not changed (PostgreSQL): "error"
        refuses the record, "stored" has `builder.table` keep the value of its row.

    Examples
    --------
    >>> str(debezium("id long, first_name string"))
    'debezium(json(id long, first_name string))'
    """
    if isinstance(row, Format) and missing_columns != "error":
        given, hint = f"missing_columns={missing_columns!r}", 'Name the columns: wm.debezium("id long", ...).'
        raise TopologyError(
            f"wm.debezium takes missing_columns= with columns, not with {row!s:.120}.", given=given, hint=hint
        )
    events = re.search(
        r"\b(before|after|payload)[ :]+struct<", str(getattr(row, "simpleString", lambda: row)()).lower()
    )
    if events is not None:
        raise TopologyError(
            f"wm.debezium takes the columns of a table, and not {events[1]!r}, which is a part of its events.",
            hint=_ROW_HINT,
        )
    inner = row if isinstance(row, Format) else json(row, missing_columns=missing_columns)
    options: dict[str, Any] = {"documents": documents, "unavailable_columns": unavailable_columns}
    return DebeziumFormat(inner=inner, tombstones=tombstones, time=time, **options)


@answered
def debezium_key(columns: Any) -> Format:
    """The format of the keys of Debezium's change events, in JSON with their schema or without, or in Avro.

    Parameters
    ----------
    columns : of the primary key, in DDL or as a StructType, or the format of keys in Avro. A key of one column is that
        column's value, one of several is a struct of them.

    Examples
    --------
    >>> str(debezium_key("id long"))
    'debezium_key(json(id long))'
    """
    return DebeziumKeyFormat(inner=columns if isinstance(columns, Format) else json(columns))


def _check(inner: Format, hint: str) -> None:
    if not isinstance(inner, SchemaFormat) and (inner.kind != "json" or inner.schema is None):
        raise TopologyError(f"wm.debezium takes JSON or Avro with a schema, and not {inner!s:.120}.", hint=hint)
