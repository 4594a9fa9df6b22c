"""Dead letters: records as they came, with headers that say why they ended, as rows of a source of their own.

Law 6: nothing vanishes silently. Who reads the dead-letter topic finds key, value and headers byte for byte, and behind
the record's own headers those that Kafka Streams writes (KIP-1034, `__streams.errors.*`), as UTF-8 text. There is no
stack trace, since what was wrong is in the bytes, and three that Kafka Streams does not have: the record's timestamp
(the letter's own cannot be before 1970), the operator where the record ended, and the reason as `query.drops` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.operators.operator import HEADERS as HEADERS_ARROW
from millpond._engine.rows.columns import array
from millpond.errors import MillpondError

HEADERS = ArrayType(StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)]))
RAW_HEADERS = "raw_headers"
"""The column that has a record's headers as they came, whatever its topic keeps of them."""
PREFIX = "__streams.errors."
Header = tuple[str, bytes | None]


class Part(Protocol):
    """The keys, or the values, of one source, as `Deserializer` has them."""

    @property
    def part(self) -> str:
        """Key or value."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def source(self) -> str:
        """The source's name."""

    @property
    def letters(self) -> int | None:
        """Number of the source of its dead letters, where it has any."""

    def errors(self, raw: pa.Array, partitions: Sequence[int], offsets: Sequence[int]) -> Sequence[MillpondError]:
        """The errors for bytes that are not of the format."""


Faults = Sequence[tuple[Part, Bools]]


def column(source: int, part: str) -> str:
    """Name of the column that has a part of the dead letters of this source."""
    return f"s{source}_{part}"


def letter_headers(sink: int) -> str:
    """Name of the column that has the headers of a sink's dead letters, in the frame of all sinks."""
    return f"k{sink}_headers"


def letter_columns(parts: Sequence[Part]) -> list[tuple[str, DataType]]:
    """Names and types of the columns that hold dead letters, where these parts of sources have some."""
    sources = dict.fromkeys(part.letters for part in parts if part.letters is not None)
    kinds = {"key": BinaryType(), "value": BinaryType(), "headers": HEADERS}
    return [(column(source, part), kind) for source in sources for part, kind in kinds.items()]


@dataclass(frozen=True)
class Origin:
    """Where a bad record came from, and where it ended.

    Parameters
    ----------
    topic, partition, offset, ts : of the record; the time in ms.
    operator : the operator's name.
    reason : why it ended, as `query.drops` would name it.
    """

    topic: str
    partition: int
    offset: int
    ts: int
    operator: str
    reason: str

    def headers(self, error: MillpondError) -> list[Header]:
        """What a dead letter says of itself, behind the record's own headers."""
        said = {
            "exception": f"{type(error).__module__}.{type(error).__name__}",
            "message": error.message if error.given is None else f"{error.message} Given: {error.given}",
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "timestamp": str(self.ts),
            "operator": self.operator,
            "reason": self.reason,
        }
        return [(PREFIX + name, text.encode()) for name, text in said.items()]


def sorted_out(frame: pa.Table, faults: Faults, given: Mapping[str, pa.Array], reason: str) -> pa.Table:
    """The frame with the records that cannot be decoded as rows of the sources of dead letters.

    Parameters
    ----------
    frame : root, partition, offset, ts, reason, raw_headers, and what has been decoded.
    faults : which records each part of a source cannot be decoded of.
    given : keys and values as they came.
    reason : why they end, as text.
    """
    numbers = {name: array(frame, name).fill_null(-1).to_numpy() for name in ("root", "reason", "ts")}
    sources = dict.fromkeys(part.letters for part, _ in faults if part.letters is not None)
    for source in sources:
        mine = [(part, bad) for part, bad in faults if part.letters == source]
        dead = np.logical_or.reduce([bad for _, bad in mine])
        columns = {name: pc.if_else(pa.array(dead), given[name], None) for name in ("key", "value")}
        columns["headers"] = _headers(frame, mine, np.flatnonzero(dead), given, reason)
        for name, values in columns.items():
            frame = frame.append_column(column(source, name), values)
        numbers["root"] = np.where(dead, source, numbers["root"])
        numbers["reason"] = np.where(dead, 0, numbers["reason"])
        # Kafka takes no time before 1970
        numbers["ts"] = np.where(dead, np.maximum(numbers["ts"], 0), numbers["ts"])
    for name, values in numbers.items():
        at = frame.schema.get_field_index(name)
        frame = frame.set_column(at, name, pa.array(values).cast(frame.schema.field(name).type))
    return frame.drop_columns([RAW_HEADERS])


def _headers(frame: pa.Table, parts: Faults, rows: Int64s, given: Mapping[str, pa.Array], reason: str) -> pa.Array:
    """The headers of the dead letters in these rows; null in all others."""
    found: list[list[Header] | None] = [None] * len(frame)
    where = {name: array(frame, name) for name in ("partition", "offset", "ts", RAW_HEADERS)} if len(rows) else {}
    # of a record of which neither can be read, the value is complained of
    for part, bad in sorted(parts, key=lambda each: each[0].part) if len(rows) else ():
        mine = pa.array(np.flatnonzero(bad))
        partitions, offsets, times, own = (where[name].take(mine).to_pylist() for name in where)
        errors = part.errors(given[part.part].take(mine), partitions, offsets)
        told = zip(mine.to_pylist(), partitions, offsets, times, own, errors, strict=True)
        for row, partition, offset, ts, headers, error in told:
            origin = Origin(part.topic, partition, offset, ts, part.source, reason)
            found[row] = [(each["key"], each["value"]) for each in headers or ()] + origin.headers(error)
    return pa.array(found, HEADERS_ARROW)
