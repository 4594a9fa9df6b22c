"""Input and output of a run of piped records, in any driver: rows of one frame, and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, StringType, StructField, StructType

from watersmeet._engine.rows.columns import position_columns
from watersmeet._engine.rows.topic_slots import TOPIC
from watersmeet._plan.dead_letters import WITHIN
from watersmeet._plan.physical import Physical
from watersmeet._worker.formats.dead_letters import HEADERS, column
from watersmeet._worker.formats.deserializers import NEGATIVE_TIMESTAMP
from watersmeet.testing.piped import Header, Piped
from watersmeet.testing.values import arrow_rows


@dataclass(frozen=True)
class Collected:
    """One result: the record, the step that caused it, and its position."""

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None
    step: int
    position: tuple[int | bytes, ...]


def headers_of(given: Iterable[Any] | None) -> tuple[Header, ...]:
    """A record's headers as a test sees them."""
    found = ((each["key"], each["value"]) for each in given or ())
    return tuple((name, None if value is None else bytes(value)) for name, value in found)


@dataclass(frozen=True)
class PipedFrame:
    """The frame of piped records of all cases: one source partition, in the order in which they were piped.

    Parameters
    ----------
    physical : the plan.
    headers : whether records carry headers.
    """

    physical: Physical
    headers: bool

    @property
    def schema(self) -> StructType:
        """Names and types of its columns."""
        position = position_columns(self.physical.slots)
        fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("case", LongType())]
        fields += [(name, LongType()) for name in (*position, "ts")] + [("reason", ByteType())]
        fields += [("headers", HEADERS)] if self.headers else []
        fields += [(TOPIC, StringType())] if self.physical.plan.patterns else []
        for number, source in enumerate(self.physical.plan.sources):
            fields += [(f"s{number}_key", source.shape.key), (f"s{number}_value", source.shape.value)]
            fields += [(column(number, "headers"), HEADERS)] if source.dead_letters_of is not None else []
        return StructType([StructField(name, kind, True) for name, kind in fields])

    def frame(self, cases: Sequence[Sequence[Piped]]) -> pa.Table:
        """The rows as columns, case by case."""
        return arrow_rows(self.rows(cases), [(each.name, each.dataType) for each in self.schema])

    def rows(self, cases: Sequence[Sequence[Piped]]) -> list[tuple[Any, ...]]:
        """The rows, case by case."""
        return [self._row(piped, case) for case, records in enumerate(cases) for piped in records]

    def _row(self, piped: Piped, case: int) -> tuple[Any, ...]:
        reason = piped.reason or (NEGATIVE_TIMESTAMP if piped.ts < 0 else 0)
        paths = [0] * self.physical.slots
        row: list[Any] = [piped.source, case, piped.step, piped.place, piped.step, *paths, piped.ts, reason]
        row += [list(piped.headers)] if self.headers else []
        row += [piped.topic] if self.physical.plan.patterns else []
        for number, source in enumerate(self.physical.plan.sources):
            of, told = source.dead_letters_of, list(piped.headers)
            parts = [piped.key, piped.value, *([told] if of is not None else [])]
            if number == piped.source:
                row += parts
            elif piped.raw is not None and of in (WITHIN, self.physical.plan.sources[piped.source].name):
                row += [*piped.raw, told]
            else:
                row += [None] * len(parts)
        return tuple(row)
