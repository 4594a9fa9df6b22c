"""Formats in Python: a topic's bytes become values where they come into the workers.

Spark would look at every byte of a text, make numbers by way of hexadecimal text, and copy each value into a column of
its source's own; all of that for rows that go to Python anyway. So these get keys and values as they came, in one
column each. For functions of Spark's, the columns that `formats` makes of plain formats mean the same; JSON, which
Spark's own parser takes too loosely, is decoded here alone, and handed back where such a function needs it (`Decode`).
Law 6: bytes that are not of the format have a reason, and are neither a value nor a tombstone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from millpond._engine.arrays import Bools
from millpond._engine.keys import keyform
from millpond._engine.keys.big_endian import integers
from millpond._engine.rows.columns import ints
from millpond._spark.formats.json_decode import decode
from millpond._spark.session.worker import settle
from millpond.errors import SourceError

RAW = {"key": "raw_key", "value": "raw_value"}
"""The columns that have them as they came."""
_NUMBERS = {"int": pa.int32(), "long": pa.int64()}
WIDTHS = {kind: number.byte_width for kind, number in _NUMBERS.items()}
"""Of the formats of numbers, in bytes."""
NEGATIVE_TIMESTAMP, UNDECODABLE = 1, 2
"""Why a record does not pass; 0 where it does."""
NOT_TEXT = "not valid UTF-8"
HINT = (
    'set on_undecodable="skip", with which the same checkpoint goes on, and query.drops counts; or name the right '
    "format, with a new checkpoint."
)


@dataclass(frozen=True)
class Deserializer:
    """The keys, or the values, of one source.

    Parameters
    ----------
    root : the source's number.
    part : key or value.
    name : the column that has them decoded.
    kind : their format's.
    topic : where they come from.
    fails : whether what is not of the format fails the query, or is left out and counted.
    schema : type of JSON's values.
    """

    root: int
    part: str
    name: str
    kind: str
    topic: str
    fails: bool
    schema: DataType | None = None

    def decoded(self, raw: pa.Array) -> tuple[pa.Array, Bools]:
        """Values, null where there are none, and where bytes are not of the format."""
        if self.kind == "bytes":
            return raw, np.zeros(len(raw), dtype=np.bool_)
        if self.kind == "string":
            return _texts(raw)
        if self.schema is not None:
            texts, bad = _texts(raw)
            values, flaws = decode(self.schema, texts)
            bad[list(flaws)] = True
            return values, bad
        bad = self._of_other_width(raw)
        good = pc.if_else(pa.array(~bad), raw, None) if bad.any() else raw
        return integers(good, _NUMBERS[self.kind]), bad

    def refused(self, raw: bytes, partition: int, offset: int) -> SourceError:
        """The error for bytes that are not of the format."""
        return refused(self.part, self.topic, self.kind, partition, offset, self._fault(raw))

    def _of_other_width(self, raw: pa.Array) -> Bools:
        lengths = pc.binary_length(raw).fill_null(WIDTHS[self.kind])
        bad: Bools = lengths.to_numpy() != WIDTHS[self.kind]
        return bad

    def _fault(self, raw: bytes) -> str:
        if self.kind in WIDTHS:
            return wrong_width(self.kind, str(len(raw)))
        texts, bad = _texts(pa.array([raw], pa.binary()))
        if self.schema is None or bad[0]:
            return NOT_TEXT
        return decode(self.schema, texts)[1][0]


@dataclass(frozen=True)
class Deserializers:
    """Decodes the parts of sources whose formats are plain.

    Parameters
    ----------
    parts : what to decode.
    whole : whether these are all parts of all sources of a frame: then it is found here why a record does not pass,
        else the frame says so.
    """

    parts: tuple[Deserializer, ...] = field(repr=False)
    whole: bool

    def of(self, columns: Collection[str]) -> Deserializers:
        """What of it these columns need: everything is looked at, if it is not looked at before."""
        return self if self.whole else replace(self, parts=tuple(p for p in self.parts if p.name in columns))

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that this reads."""
        parts = {part.part for part in self.parts}
        return tuple(name for part, name in RAW.items() if part in parts)

    @property
    def made(self) -> frozenset[str]:
        """The columns that this makes."""
        return frozenset((*(part.name for part in self.parts), *(("reason",) if self.whole else ())))

    def __call__(self, frame: pa.Table) -> pa.Table:
        """The frame with its columns decoded.

        Raises
        ------
        SourceError : a record is not of its topic's format, and such a record is to fail the query.
        """
        root = frame.column("root").fill_null(-1).to_numpy()
        given = {part: keyform.flat(frame.column(RAW[part])) for part in {p.part for p in self.parts}}
        faults: list[tuple[Deserializer, Bools]] = []
        for part in self.parts:
            mine = root == part.root
            raw = given[part.part]
            values, bad = part.decoded(raw if mine.all() else pc.if_else(pa.array(mine), raw, None))
            frame = frame.append_column(part.name, values)
            faults.append((part, bad))
        frame = frame.drop_columns(list(self.needed))
        if self.whole:
            _raise_first([(part, bad) for part, bad in faults if part.fails], frame, given)
            return _with_reason(frame, [bad for _, bad in faults])
        # Spark has looked already; what only we cannot read must not pass for a tombstone
        passed = ints(frame, "reason") == 0
        _raise_first([(part, bad & passed) for part, bad in faults], frame, given)
        return frame


@dataclass(frozen=True)
class Decode:
    """mapInArrow function: rows with keys and values as they came to rows with them decoded.

    Parameters
    ----------
    plain : decodes all of them.
    schema : columns of the rows that it gives.
    """

    deserializers: Deserializers
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of one task."""
        settle()
        for batch in batches:
            if len(batch):
                decoded = self.deserializers(pa.Table.from_batches([batch]))
                yield from decoded.select(self.schema.names).cast(self.schema).combine_chunks().to_batches()


def _raise_first(faults: Sequence[tuple[Deserializer, Bools]], frame: pa.Table, given: dict[str, pa.Array]) -> None:
    """Raise for the first record with a fault, if there is one."""
    # of a record of which neither can be read, the value is complained of
    failing = [(int(bad.argmax()), part.part != "value", part) for part, bad in faults if bad.any()]
    for at, _, part in sorted(failing, key=lambda found: found[:2]):  # the first one
        partition, offset = (frame.column(name)[at].as_py() for name in ("partition", "offset"))
        raise part.refused(given[part.part][at].as_py(), partition, offset)


def _with_reason(frame: pa.Table, faults: Sequence[Bools]) -> pa.Table:
    skipped = reduce(np.logical_or, faults)
    negative = np.where(ints(frame, "ts") < 0, NEGATIVE_TIMESTAMP, 0)
    return frame.append_column("reason", pa.array(np.where(skipped, UNDECODABLE, negative).astype(np.int8)))


def refused(part: str, topic: str, kind: str, partition: object, offset: object, fault: object) -> SourceError:
    """The error for a record whose key or value is not of its topic's format, whoever found it."""
    return SourceError(
        f"The {part} of a Kafka record cannot be decoded.",
        given=f"topic {topic}, partition {partition}, offset {offset}, {part} as {kind}: {fault}",
        hint=HINT,
    )


def wrong_width(kind: str, length: str) -> str:
    """What is wrong with bytes that are not as long as a number of this format."""
    return f"{kind} takes {WIDTHS[kind]} bytes, there are {length}"


def _texts(raw: pa.Array) -> tuple[pa.Array, Bools]:
    """Byte strings as texts, and where they are none: looked for by halves, Arrow only says that there are some."""
    # what the session has made large stays so
    kind = pa.large_string() if pa.types.is_large_binary(raw.type) else pa.string()
    try:
        return raw.cast(kind), np.zeros(len(raw), dtype=np.bool_)
    except pa.ArrowInvalid:
        if len(raw) == 1:
            return pa.nulls(1, kind), np.ones(1, dtype=np.bool_)
        half = len(raw) // 2
        (first, bad), (second, worse) = _texts(raw[:half]), _texts(raw[half:])
        return pa.concat_arrays([first, second]), np.concatenate([bad, worse])
