"""Formats in Python: a topic's bytes become values where they come into the workers.

Spark would look at every byte of a text, make numbers by way of hexadecimal text, and copy each value into a column of
its source's own; all of that for rows that go to Python anyway. So these get keys and values as they came, in one
column each. For functions of Spark's, `_spark/formats.py` makes the same values of primitive formats as Columns; those
of other formats are decoded here and handed back to Spark (`Decode`).
Law 6: bytes that are not of the format have a reason, and are neither a value nor a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from watersmeet._engine import keys
from watersmeet._engine.rows import Bools, array, ints
from watersmeet._plan.reasons import IGNORED, NEGATIVE_TIMESTAMP, UNDECODABLE
from watersmeet._worker.ended_rows import RAW_HEADERS, letter_columns, sorted_out, topics_of
from watersmeet._worker.formats import guard
from watersmeet._worker.formats.connect import LOOKS, Report
from watersmeet._worker.formats.serdes import Decoded, Serde
from watersmeet._worker.process import freeze_imports
from watersmeet.errors import SourceError

RAW = {"key": "raw_key", "value": "raw_value"}
"""The columns that have them as they came."""
REFUSED = "of a Kafka record cannot be decoded."
HINT = (
    'set on_undecodable="skip", or wm.DeadLetter("topic") to write such records there: the same '
    "checkpoint continues with either, and query.drops counts; or name the right format, with a new checkpoint."
)


@dataclass(frozen=True)
class Deserializer:
    """The keys, or the values, of one source."""

    source_number: int
    part: str  # key or value
    name: str  # the column that has them decoded
    kind: str  # their format's, as errors name it
    topic: str  # where they come from
    fails: bool  # whether what is not of the format fails the query, or is left out and counted
    serde: Serde  # reads them
    # number of the source that has the dead letters of this one, where it has any
    dead_letter_source: int | None = None
    source: str = ""  # this one's name

    def refused(self, raw: bytes, topic: str, partition: int, offset: int) -> SourceError:
        return refused(self.part, topic, self.kind, partition, offset, guard.fault_guard(self.serde, raw))

    def errors(self, raw: pa.Array, places: Sequence[tuple[str, int, int]]) -> list[SourceError]:
        """The same of many records, by topic, partition and offset."""
        return [self.refused(content, *place) for content, place in zip(raw.to_pylist(), places, strict=True)]


@dataclass(frozen=True)
class Deserializers:
    """Decodes the keys and values of a frame's topics, and says why where that fails."""

    parts: tuple[Deserializer, ...] = field(repr=False)  # all parts of all sources of a frame
    # by the number of a source those of the sources of dead letters for which its records are kept as they came,
    # though they can be decoded: they may end later
    kept: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that this reads."""
        parts = {part.part for part in self.parts}
        return (
            *(name for part, name in RAW.items() if part in parts),
            *([RAW_HEADERS] if self.dead_letter_columns else []),
        )

    @property
    def made(self) -> frozenset[str]:
        letters = [name for name, _ in self.dead_letter_columns]
        return frozenset((*(part.name for part in self.parts), *letters, "reason"))

    @property
    def dead_letter_columns(self) -> list[tuple[str, DataType]]:
        return letter_columns(self.parts, self.kept)

    def __call__(self, frame: pa.Table) -> pa.Table:
        """The frame with its columns decoded."""
        root = frame.column("root").fill_null(-1).to_numpy()
        raw_parts = {part: keys.flat_keys(frame.column(RAW[part])) for part in {p.part for p in self.parts}}
        faults: list[tuple[Deserializer, Bools]] = []
        ignored = np.zeros(len(frame), dtype=np.bool_)
        for part in self.parts:
            mask, raw = root == part.source_number, raw_parts[part.part]
            decoded = _read(part, raw, mask, frame)
            frame = frame.append_column(part.name, decoded.values)
            faults.append((part, decoded.bad))
            if decoded.ignored is not None:
                ignored |= decoded.ignored & mask
            if decoded.ts is not None:
                frame = _with_times(frame, decoded.ts)
        frame = frame.drop_columns([name for name in self.needed if name != RAW_HEADERS])
        _raise_first([(part, bad) for part, bad in faults if part.fails], frame, raw_parts)
        frame = _with_reason(frame, [bad for _, bad in faults], ignored)
        return sorted_out(frame, faults, raw_parts, self.kept) if self.dead_letter_columns else frame

    def absent(self, given: pa.Table, decoded: pa.Table) -> Iterator[tuple[Deserializer, Report]]:
        """The columns of formats that no record has.

        Parameters
        ----------
        given, decoded : a frame before and after.
        """
        root = given.column("root").fill_null(-1)
        for part in self.parts:
            absent = getattr(part.serde, "absent", None)
            if absent is not None:
                raw = (
                    given.column(RAW[part.part]).filter(pc.equal(root, part.source_number)).drop_null().slice(0, LOOKS)
                )
                report = absent(array(decoded, part.name), keys.flat_keys(raw))
                if report is not None:
                    yield part, report


@dataclass(frozen=True)
class Decode:
    """mapInArrow function: rows with keys and values as they came to rows with them decoded."""

    deserializers: Deserializers  # decode all of them
    schema: pa.Schema  # columns of the rows that it gives

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of one task."""
        freeze_imports()
        for batch in batches:
            if len(batch):
                decoded = self.deserializers(pa.Table.from_batches([batch]))
                yield from decoded.select(self.schema.names).cast(self.schema).combine_chunks().to_batches()


def _read(part: Deserializer, raw: pa.Array, mask: Bools, frame: pa.Table) -> Decoded:
    """The values of these rows' bytes; of the others, nothing. Rows of one source mostly come together."""
    if mask.any():
        subset = raw if mask.all() else pc.if_else(pa.array(mask), raw, None)
        return guard.read_guard(part.serde, subset, f"{part.topic}/{part.part}", frame)
    nothing = part.serde.read(pa.nulls(1, raw.type))
    return Decoded(pa.nulls(len(raw), nothing.values.type), np.zeros(len(raw), dtype=np.bool_))


def _raise_first(faults: Sequence[tuple[Deserializer, Bools]], frame: pa.Table, raw_parts: dict[str, pa.Array]) -> None:
    """Raise for the first record with a fault, if there is one."""
    # of a record of which neither can be read, the value is complained of
    failing = [(int(bad.argmax()), part.part != "value", part) for part, bad in faults if bad.any()]
    for at, _, part in sorted(failing, key=lambda entry: entry[:2]):  # the first one
        partition, offset = (frame.column(name)[at].as_py() for name in ("partition", "offset"))
        (topic,) = topics_of(frame, np.array([at]), part.topic)
        raise part.refused(raw_parts[part.part][at].as_py(), topic, partition, offset)


def _with_times(frame: pa.Table, times: pa.Array) -> pa.Table:
    """The frame with the times that its records tell, where they tell one."""
    at, ts = frame.schema.get_field_index("ts"), frame.column("ts")
    return frame.set_column(at, frame.schema.field(at), pc.coalesce(times, ts))


def _with_reason(frame: pa.Table, faults: Sequence[Bools], ignored: Bools) -> pa.Table:
    skipped = reduce(np.logical_or, faults)
    negative = np.where(ints(frame, "ts") < 0, NEGATIVE_TIMESTAMP.code, 0)
    reasons = np.where(skipped, UNDECODABLE.code, np.where(ignored, IGNORED.code, negative))
    return frame.append_column("reason", pa.array(reasons.astype(np.int8)))


def refused(part: str, topic: str, kind: str, partition: object, offset: object, fault: object) -> SourceError:
    """The error for a record with a key or value that is not of its topic's format."""
    return SourceError(
        f"The {part} {REFUSED}",
        given=f"topic {topic}, partition {partition}, offset {offset}, {part} as {kind}: {fault}",
        hint=HINT,
    )
