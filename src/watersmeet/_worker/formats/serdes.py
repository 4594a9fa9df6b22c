"""Serdes: between the bytes of keys or values and Arrow columns, in the workers, a column at a time.

Law 6: bytes that are not of the format have a reason, and are neither a value nor a tombstone. The written bytes are
those of Kafka's own serializers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructType

from watersmeet._engine import keys
from watersmeet._engine.keys import as_bytes, decimal_bytes, decimals, numbers
from watersmeet._engine.rows import Bools, Int64s
from watersmeet._worker.formats.connect import Report, absent_columns, decoded
from watersmeet._worker.formats.json import encoded
from watersmeet.errors import EncodingError, SinkError

NUMBERS = {"short": pa.int16(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
WIDTHS = {kind: number.bit_width // 8 for kind, number in NUMBERS.items()} | {"boolean": 1}
"""Of the formats of one width, in bytes."""
POLICY = (
    'on_error="skip" leaves such records out, wm.DeadLetter("topic") writes them there. '
    "Usually the same checkpoint continues."
)
"""What every hint of an `EncodingError` ends with."""
NOT_TEXT = "not valid UTF-8"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@dataclass(frozen=True)
class Decoded:
    """A column of bytes, read."""

    values: pa.Array  # null where there are none, and where bytes are not of the format
    bad: Bools  # where they are not
    ignored: Bools | None = None  # of records that say nothing; None: there are none
    # event time in ms that the bytes themselves tell, null where they tell none; None: nowhere
    ts: pa.Array | None = None


class Serde(Protocol):
    """How the bytes of a format are read and written; picklable, since workers do it."""

    def read(self, raw: pa.Array) -> Decoded:
        """The values of byte strings; a null is a tombstone."""
        ...

    def fault(self, raw: bytes) -> str: ...

    def write(self, values: pa.Array) -> pa.Array: ...


@dataclass(frozen=True)
class BytesSerde:
    """Bytes as they are."""

    def read(self, raw: pa.Array) -> Decoded:
        return Decoded(raw, np.zeros(len(raw), dtype=np.bool_))

    def fault(self, raw: bytes) -> str:
        return ""

    def write(self, values: pa.Array) -> pa.Array:
        return as_bytes(values)


@dataclass(frozen=True)
class TextSerde:
    """Text as UTF-8."""

    def read(self, raw: pa.Array) -> Decoded:
        return Decoded(*texts(raw))

    def fault(self, raw: bytes) -> str:
        return NOT_TEXT

    def write(self, values: pa.Array) -> pa.Array:
        return as_bytes(values)


@dataclass(frozen=True)
class NumberSerde:
    """Numbers of one width, the highest byte first: two's complement, or IEEE."""

    kind: str

    def read(self, raw: pa.Array) -> Decoded:
        """Numbers of as many bytes as the format has."""
        bad = of_other_width(raw, self.kind)
        good = pc.if_else(pa.array(~bad), raw, None) if bad.any() else raw
        return Decoded(numbers(good, NUMBERS[self.kind]), bad)

    def fault(self, raw: bytes) -> str:
        return wrong_width(self.kind, str(len(raw)))

    def write(self, values: pa.Array) -> pa.Array:
        return as_bytes(values)


@dataclass(frozen=True)
class BooleanSerde:
    """One byte: 1 for true, 0 for false, as Kafka's BooleanSerializer has it (KIP-907)."""

    def read(self, raw: pa.Array) -> Decoded:
        data = raw.cast(pa.binary())
        values = pc.if_else(pc.equal(data, b"\x01"), True, pc.if_else(pc.equal(data, b"\x00"), False, None))
        return Decoded(values, _lost(raw, values))

    def fault(self, raw: bytes) -> str:
        return f"boolean is the byte 00 or 01, there is {raw.hex()}" if len(raw) == 1 else _width_of(raw, "boolean")

    def write(self, values: pa.Array) -> pa.Array:
        return pc.if_else(values, pa.scalar(b"\x01"), pa.scalar(b"\x00"))


@dataclass(frozen=True)
class UuidSerde:
    """The text of a UUID, 36 characters, as Kafka's UUIDSerializer writes it; here a string in small letters."""

    def read(self, raw: pa.Array) -> Decoded:
        """UUIDs in full length; what Java shortens (1-1-1-1-1) is none."""
        values, _ = texts(raw)
        values = _uuids(values)
        return Decoded(values, _lost(raw, values))

    def fault(self, raw: bytes) -> str:
        """It is no text, or another one."""
        return "a UUID is 36 characters such as 123e4567-e89b-12d3-a456-426614174000"

    def write(self, values: pa.Array) -> pa.Array:
        """Their text."""
        uuids = _uuids(values)
        lost = _lost(values, uuids)
        if lost.any():
            raise EncodingError(
                "A sink of UUIDs gets a text that is not a UUID.",
                given=repr(values[int(lost.argmax())].as_py())[:100],
                hint=f'Filter such records out, or take the format "string"; {POLICY}',
            )
        return as_bytes(uuids)


@dataclass(frozen=True)
class DecimalSerde:
    """Decimals as Kafka Connect's `Decimal` writes them: the digits in two's complement, the scale in the type."""

    precision: int
    scale: int

    def read(self, raw: pa.Array) -> Decoded:
        """Decimals of so many digits."""
        return Decoded(*decimals(raw, pa.decimal128(self.precision, self.scale)))

    def fault(self, raw: bytes) -> str:
        return f"more digits than decimal({self.precision}, {self.scale})" if raw else "there is no byte"

    def write(self, values: pa.Array) -> pa.Array:
        """As few bytes as each takes."""
        return decimal_bytes(values)


@dataclass(frozen=True)
class JsonSerde:
    """JSON texts."""

    kind: DataType  # what they are read and written as
    # whether a column that the schema of Kafka Connect's JSON has not is null; else it is refused
    missing: bool = False

    def absent(self, values: pa.Array, raw: pa.Array) -> Report | None:
        """The columns that no text has; None: it has no columns."""
        names = self.kind.names if isinstance(self.kind, StructType) else []
        return absent_columns(names, values, texts(raw)[0]) if names else None

    def read(self, raw: pa.Array) -> Decoded:
        """Values of the type, and of Kafka Connect's JSON those within it (`connect`)."""
        documents, bad = texts(raw)
        values, flaws = decoded(self.kind, documents, missing=self.missing)
        bad[list(flaws)] = True
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        """It is no text, or what the parser says."""
        documents, bad = texts(pa.array([raw], pa.binary()))
        return NOT_TEXT if bad[0] else decoded(self.kind, documents, missing=self.missing)[1][0]

    def write(self, values: pa.Array) -> pa.Array:
        return encoded(values, self.kind)


def texts(raw: pa.Array) -> tuple[pa.Array, Bools]:
    """Byte strings as texts, and where they are none: looked for one by one, Arrow only says that there are some."""
    # what the session has made large stays so
    kind = pa.large_string() if pa.types.is_large_binary(raw.type) else pa.string()
    try:
        return raw.cast(kind), np.zeros(len(raw), dtype=np.bool_)
    except pa.ArrowInvalid:
        bad = np.fromiter((not _is_text(scalar.as_buffer()) for scalar in raw), np.bool_, len(raw))
        return pc.if_else(pa.array(~bad), raw, None).cast(kind), bad


def _is_text(buffer: pa.Buffer | None) -> bool:
    try:
        str(b"" if buffer is None else buffer, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def of_other_width(raw: pa.Array, kind: str) -> Bools:
    """Where bytes are not as long as a format of one width has them."""
    lengths = pc.binary_length(raw).fill_null(WIDTHS[kind])
    bad: Bools = lengths.to_numpy() != WIDTHS[kind]
    return bad


def wrong_width(kind: str, length: str) -> str:
    return f"{kind} takes {WIDTHS[kind]} byte{'s' if WIDTHS[kind] > 1 else ''}, there are {length}"


def _width_of(raw: bytes, kind: str) -> str:
    return wrong_width(kind, str(len(raw)))


def _uuids(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(values, _UUID), pc.ascii_lower(values), None)


def _lost(source: pa.Array, converted: pa.Array) -> Bools:
    """Where there were bytes and is no value."""
    lost: Bools = pc.and_(source.is_valid(), converted.is_null()).to_numpy(zero_copy_only=False)
    return lost


# The serde of windowed keys: the key's bytes, then the window's times, as Kafka Streams' serializers lay them out.
#
# A time window is written by its start alone, a session by its end and its start (`WindowKeySchema`,
# `SessionKeySchema`). Law 6: a window that Kafka Streams could not make has a reason.

WINDOWED_FIELDS = ("key", "start", "end")
_LONGEST = 2**63 - 1
_NUMBER = 8


@dataclass(frozen=True)
class WindowedSerde:
    """Windowed keys as structs of key, start and end."""

    kind: str  # the format's name
    inner: Serde  # reads and writes the keys within
    sessions: bool  # whether the end is written too
    size_ms: int | None = None  # of time windows; None: they are only written

    def read(self, raw: pa.Array) -> Decoded:
        """Keys of windows that are not empty and begin in 1970 or later."""
        lengths = pc.binary_length(raw).fill_null(self._tail).to_numpy()
        short = lengths < self._tail
        complete = pc.if_else(pa.array(~short), raw, None) if short.any() else raw
        found = self.inner.read(pc.binary_slice(complete, 0, -self._tail))
        start = numbers(pc.binary_slice(complete, -_NUMBER), pa.int64())
        if self.sessions:
            end = numbers(pc.binary_slice(complete, -2 * _NUMBER, -_NUMBER), pa.int64())
        else:
            end = self._ends(start)
        ends, starts = end.fill_null(0).to_numpy(), start.fill_null(0).to_numpy()
        bad = short | found.bad | (starts < 0) | (ends < starts)
        present = raw.is_valid().to_numpy(zero_copy_only=False) & ~bad
        fields = [
            pa.field(name, column.type)
            for name, column in zip(WINDOWED_FIELDS, (found.values, start, end), strict=True)
        ]
        values = pa.StructArray.from_arrays([found.values, start, end], fields=fields, mask=pa.array(~present))
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        """It is too short, its key has a reason, or its window cannot be."""
        if len(raw) < self._tail:
            return f"{self.kind} takes {self._tail} bytes and those of the key, there are {len(raw)}"
        key = raw[: -self._tail]
        if self.inner.read(pa.array([key], pa.binary())).bad[0]:
            return f"the key within: {self.inner.fault(key)}"
        return "its window begins before 1970, or ends before it begins"

    def write(self, values: pa.Array) -> pa.Array:
        """Their bytes."""
        key, start, end = _fields(values)
        valid = values.is_valid()
        written = [self.inner.write(key), *(as_bytes(end) for _ in range(self.sessions)), as_bytes(start)]
        joined = pc.binary_join_element_wise(*(part.cast(pa.binary()) for part in written), pa.scalar(b"", pa.binary()))
        self._refuse(values, pc.and_(valid, joined.is_null()), "A windowed key lacks its key, or a time of its window.")
        if self.size_ms is not None:
            mismatched = pc.not_equal(end, self._ends(start))
            message = f"A window has another size than its sink's format, {self.size_ms} ms."
            self._refuse(values, pc.and_(valid, mismatched).fill_null(False), message)
        return pc.if_else(valid, joined, pa.scalar(None, pa.binary()))

    def inner_keys(self, values: pa.Array) -> pa.Array:
        """The bytes of the keys within, by which records are placed; null for null."""
        key, *_ = _fields(values)
        return pc.if_else(values.is_valid(), self.inner.write(key).cast(pa.binary()), pa.scalar(None, pa.binary()))

    @property
    def _tail(self) -> int:
        return 2 * _NUMBER if self.sessions else _NUMBER

    def _ends(self, start: pa.Array) -> pa.Array:
        """Of time windows; the end of one that is too large is the last time there is, as in Kafka Streams."""
        size = self.size_ms or 0
        overflow = pc.greater(start, _LONGEST - size)
        return pc.if_else(overflow, _LONGEST, pc.add(start, size))

    def _refuse(self, values: pa.Array, wrong: pa.Array, message: str) -> None:
        rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if len(rows):
            sample = repr(values[int(rows[0])].as_py())[:100]
            hint = f"Write the keys as JSON (wm.json()), or set them right before; {POLICY}"
            raise EncodingError(message, given=sample, hint=hint)


def _fields(values: pa.Array) -> list[pa.Array]:
    """The fields of struct keys; null where there is no key, whatever lies there in memory."""
    fields = keys.struct_fields(values)
    valid = values.is_valid()
    return [pc.if_else(valid, field, pa.scalar(None, field.type)) for field in fields] if values.null_count else fields


@dataclass(frozen=True)
class CombinedSerde:
    """Keys of a one-to-many join as KIP-213 lays them out, so that "a" is no prefix of "ab"; they are only written."""

    # of the two fields of a key
    prefix: Serde
    suffix: Serde

    def read(self, raw: pa.Array) -> Decoded:
        raise NotImplementedError

    def fault(self, raw: bytes) -> str:
        """Nothing reads them."""
        raise NotImplementedError

    def write(self, values: pa.Array) -> pa.Array:
        """The length of the prefix's bytes as 4 bytes big-endian, these bytes, and those of the suffix."""
        suffix = self.suffix.write(_fields(values)[1]).cast(pa.binary())
        prefix = self.inner_keys(values)
        length = as_bytes(pc.binary_length(prefix)).cast(pa.binary())
        return pc.binary_join_element_wise(length, prefix, suffix, pa.scalar(b"", pa.binary()))

    def inner_keys(self, values: pa.Array) -> pa.Array:
        """The bytes of the prefixes, by which records are placed; null for null."""
        return self.prefix.write(_fields(values)[0]).cast(pa.binary())


# The partitions that a partitioner gives records: a column beside their values, from the stage to the writer.
#
# Law 6: a partition that the topic has not is an error, or what the output's policy makes of it.

UNPLACED = -(2**63)
"""In place of a partition where the partitioner gives null: the key decides."""
Rules = Mapping[int, str]
"""Of the sinks with a partitioner, by their numbers: what becomes of a partition that the topic has not."""


def valid_partitions(
    partitions: Int64s, topics: Sequence[str], numbers: Int64s, counts: Int64s, rules: Rules
) -> Int64s:
    """The partitions that are given, each one that its topic has; `UNPLACED`: none is given.

    Parameters
    ----------
    partitions : of each record.
    topics : the names of the sinks' topics.
    numbers : of each record, the number of its sink.
    counts : of each record, how many partitions its topic has.
    """
    outside = (partitions != UNPLACED) & ((partitions < 0) | (partitions >= counts))
    rule = np.array([rules.get(number, "") for number in range(len(topics))], dtype=object)[numbers]
    wrong = np.flatnonzero(outside & (rule == "fail"))
    if len(wrong):
        row = int(wrong[0])
        raise SinkError(
            f"The partitioner gives a partition that the topic {topics[numbers[row]]!r} has not: {partitions[row]}.",
            given=f"it has the partitions 0 to {counts[row] - 1}",
            hint='to(..., on_invalid_partition="modulo") takes the rest of the division by the number of partitions, '
            '"key" goes by the key; a partitioner that gives null leaves it to the key, too.',
        )
    resolved = np.where(outside & (rule == "key"), UNPLACED, partitions)
    resolved[outside & (rule == "modulo")] %= counts[outside & (rule == "modulo")]
    return resolved
