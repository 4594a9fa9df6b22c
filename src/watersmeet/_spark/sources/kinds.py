"""What Spark's side answers for each kind of input: the types of its records, and its line in a checkpoint.

One table leads from an input's class to it. That a topic's records come through the one Kafka source, and a
DataFrame's through one of their own, the input says itself (`Origin.topic`, `Origin.frame`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pyspark.sql.types import DataType

from watersmeet._spark.sources import bootstrap
from watersmeet._spark.sources.rows import row_types
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.json_types import nullable
from watersmeet.io.bootstrap import Backfill, Snapshot
from watersmeet.io.dataframes import Rows
from watersmeet.io.formats import Format
from watersmeet.io.inputs import Origin
from watersmeet.io.topics import PatternTopics, Topic


class OriginReading(Protocol):
    """The answers for one kind."""

    def types(self, origin: Any) -> tuple[DataType, DataType]:
        """Types of keys and values.

        Raises
        ------
        TopologyError : a schema or a column that is not there.
        """

    def described(self, origin: Any) -> str:
        """One line, without secrets, the same at every start."""


class _Topics:
    """See `OriginReading`: a topic has the types of its formats."""

    def types(self, origin: Topic) -> tuple[DataType, DataType]:
        key, value = (formats.type_of(Format.of(form)) for form in (origin.key, origin.value) if form is not None)
        return key, value

    def described(self, origin: Topic) -> str:
        parts = [f"{part} {formats.describe_format(getattr(origin, part))}" for part in ("key", "value")]
        # what becomes of undecodable records changes nothing of what is kept, so it may change
        return f"{origin.shown} {origin.name} ({', '.join([*parts, *(['headers'] if origin.headers else [])])})"


class _Frames:
    """See `OriginReading`: a DataFrame has the types of the columns that key and value name."""

    def types(self, origin: Rows) -> tuple[DataType, DataType]:
        key, value = map(nullable, row_types(origin))
        return key, value

    def described(self, origin: Rows) -> str:
        kind = "streaming" if origin.frame.isStreaming else "static"
        parts = [f"{p} {_column_text(getattr(origin, p))}" for p in ("key", "value", "timestamp", "order")]
        return f"{kind} DataFrame ({', '.join(parts)})"


class _Begins:
    """See `OriginReading`: what an input begins with is no input itself, and has no line."""

    def types(self, origin: Snapshot | Backfill) -> tuple[DataType, DataType]:
        key, value = map(nullable, bootstrap.types_of(origin))
        return key, value

    def described(self, origin: Snapshot | Backfill) -> str:
        return ""


READINGS: Mapping[type, OriginReading] = {
    **dict.fromkeys((Topic, PatternTopics), _Topics()),
    **{Rows: _Frames(), Snapshot: _Begins(), Backfill: _Begins()},
}
"""By the class of an input, or of what it begins with."""


def reading_of(origin: Any) -> OriginReading:
    """The kind of an input."""
    return next(READINGS[each] for each in type(origin).__mro__ if each in READINGS)


def describe_origin(origin: Origin) -> str:
    """An origin in describe() and in the checkpoint: one line, without secrets, the same at every start."""
    return reading_of(origin).described(origin)


def _column_text(given: Any) -> str:
    if given is None:
        return "by default"
    if isinstance(given, str):
        return given
    # the text of an expression is another in another version of Spark
    return "+".join(given) if isinstance(given, list | tuple) else "of an expression"
