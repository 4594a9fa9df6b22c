"""Serdes: between the bytes of keys or values and Arrow columns, in the workers, a column at a time.

Law 6: bytes that are not of the format have a reason, and are neither a value nor a tombstone. The written bytes are
those of Kafka's own serializers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from watersmeet._engine.arrays import Bools
from watersmeet._engine.keys.big_endian import as_bytes, decimal_bytes, decimals, numbers
from watersmeet._worker.formats.json_decode import decode
from watersmeet._worker.formats.json_encode import encoded
from watersmeet.errors import EncodingError

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
    """A column of bytes, read.

    Parameters
    ----------
    values : null where there are none, and where bytes are not of the format.
    bad : where they are not.
    ignored : of records that say nothing; None: there are none.
    ts : event time in ms that the bytes themselves tell, null where they tell none; None: nowhere.
    """

    values: pa.Array
    bad: Bools
    ignored: Bools | None = None
    ts: pa.Array | None = None


class Serde(Protocol):
    """How the bytes of a format are read and written; picklable, since workers do it."""

    def read(self, raw: pa.Array) -> Decoded:
        """The values of byte strings; a null is a tombstone."""
        ...

    def fault(self, raw: bytes) -> str:
        """Why bytes are not of the format."""
        ...

    def write(self, values: pa.Array) -> pa.Array:
        """The bytes of values; null for null."""
        ...


@dataclass(frozen=True)
class BytesSerde:
    """Bytes as they are."""

    def read(self, raw: pa.Array) -> Decoded:
        """All of them."""
        return Decoded(raw, np.zeros(len(raw), dtype=np.bool_))

    def fault(self, raw: bytes) -> str:
        """Nothing is wrong with any."""
        return ""

    def write(self, values: pa.Array) -> pa.Array:
        """Themselves."""
        return as_bytes(values)


@dataclass(frozen=True)
class TextSerde:
    """Text as UTF-8."""

    def read(self, raw: pa.Array) -> Decoded:
        """Texts."""
        return Decoded(*texts(raw))

    def fault(self, raw: bytes) -> str:
        """It is not UTF-8."""
        return NOT_TEXT

    def write(self, values: pa.Array) -> pa.Array:
        """Their UTF-8."""
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
        """It has another width."""
        return wrong_width(self.kind, str(len(raw)))

    def write(self, values: pa.Array) -> pa.Array:
        """Their bytes."""
        return as_bytes(values)


@dataclass(frozen=True)
class BooleanSerde:
    """One byte: 1 for true, 0 for false, as Kafka's BooleanSerializer has it (KIP-907)."""

    def read(self, raw: pa.Array) -> Decoded:
        """Booleans of one byte that is 0 or 1."""
        given = raw.cast(pa.binary())
        values = pc.if_else(pc.equal(given, b"\x01"), True, pc.if_else(pc.equal(given, b"\x00"), False, None))
        return Decoded(values, _lost(raw, values))

    def fault(self, raw: bytes) -> str:
        """It has another width, or is another byte."""
        return f"boolean is the byte 00 or 01, there is {raw.hex()}" if len(raw) == 1 else _width_of(raw, "boolean")

    def write(self, values: pa.Array) -> pa.Array:
        """A byte each."""
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
        """Their text.

        Raises
        ------
        EncodingError : a text is no UUID.
        """
        found = _uuids(values)
        lost = _lost(values, found)
        if lost.any():
            raise EncodingError(
                "A sink of UUIDs gets a text that is not a UUID.",
                given=repr(values[int(lost.argmax())].as_py())[:100],
                hint=f'Filter such records out, or take the format "string"; {POLICY}',
            )
        return as_bytes(found)


@dataclass(frozen=True)
class DecimalSerde:
    """Decimals as Kafka Connect's `Decimal` writes them: the digits in two's complement, the scale in the type."""

    precision: int
    scale: int

    def read(self, raw: pa.Array) -> Decoded:
        """Decimals of so many digits."""
        return Decoded(*decimals(raw, pa.decimal128(self.precision, self.scale)))

    def fault(self, raw: bytes) -> str:
        """It has no byte, or too many digits."""
        return f"more digits than decimal({self.precision}, {self.scale})" if raw else "there is no byte"

    def write(self, values: pa.Array) -> pa.Array:
        """As few bytes as each takes."""
        return decimal_bytes(values)


@dataclass(frozen=True)
class JsonSerde:
    """JSON texts.

    Parameters
    ----------
    kind : what they are read and written as.
    """

    kind: DataType

    def read(self, raw: pa.Array) -> Decoded:
        """Values of the type (`json_decode`)."""
        given, bad = texts(raw)
        values, flaws = decode(self.kind, given)
        bad[list(flaws)] = True
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        """It is no text, or what the parser says."""
        given, bad = texts(pa.array([raw], pa.binary()))
        return NOT_TEXT if bad[0] else decode(self.kind, given)[1][0]

    def write(self, values: pa.Array) -> pa.Array:
        """Their text (`json_encode`)."""
        return encoded(values, self.kind)


def texts(raw: pa.Array) -> tuple[pa.Array, Bools]:
    """Byte strings as texts, and where they are none: looked for one by one, Arrow only says that there are some."""
    # what the session has made large stays so
    kind = pa.large_string() if pa.types.is_large_binary(raw.type) else pa.string()
    try:
        return raw.cast(kind), np.zeros(len(raw), dtype=np.bool_)
    except pa.ArrowInvalid:
        bad = np.fromiter((not _is_text(each.as_buffer()) for each in raw), np.bool_, len(raw))
        return pc.if_else(pa.array(~bad), raw, None).cast(kind), bad


def _is_text(given: pa.Buffer | None) -> bool:
    try:
        str(b"" if given is None else given, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def of_other_width(raw: pa.Array, kind: str) -> Bools:
    """Where bytes are not as long as a format of one width has them."""
    lengths = pc.binary_length(raw).fill_null(WIDTHS[kind])
    bad: Bools = lengths.to_numpy() != WIDTHS[kind]
    return bad


def wrong_width(kind: str, length: str) -> str:
    """The fault of bytes with another length than a format of one width has."""
    return f"{kind} takes {WIDTHS[kind]} byte{'s' if WIDTHS[kind] > 1 else ''}, there are {length}"


def _width_of(raw: bytes, kind: str) -> str:
    return wrong_width(kind, str(len(raw)))


def _uuids(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(values, _UUID), pc.ascii_lower(values), None)


def _lost(given: pa.Array, made: pa.Array) -> Bools:
    """Where there were bytes and is no value."""
    lost: Bools = pc.and_(given.is_valid(), made.is_null()).to_numpy(zero_copy_only=False)
    return lost
