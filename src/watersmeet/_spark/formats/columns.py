"""Formats as Spark columns: values to bytes, and bytes of plain formats to values.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. All but the plain formats are read in the workers (`serdes`).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType

from watersmeet._spark.formats.formats import serde_of
from watersmeet._spark.formats.serdes import NOT_TEXT, WIDTHS, Serde, wrong_width
from watersmeet.io.formats import Format

ENCODING = {"spark.sql.ansi.enabled": "false"}
"""What Spark is to be told while it takes up the columns that `encode` gives: else it casts no number to bytes."""
_JSON_OPTIONS = {
    "timeZone": "UTC",
    # Spark's own formats end at milliseconds, the types at microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


# -- from bytes --------------------------------------------------------------------------------------------


def decode(form: Format, raw: Column) -> tuple[Column, Column]:
    """(value, reason) of bytes of a plain format: reason is null where they are of it, and where they are null."""
    reason = reason_of(form, raw)
    return value_of(form, raw, reason), reason


def reason_of(form: Format, raw: Column) -> Column:
    """First step: why bytes are not of the format. Who keeps each step in a column of its own has it computed once."""
    if form.kind == "bytes":
        return F.lit(None).cast("string")
    if form.kind == "string":
        return F.when(~F.is_valid_utf8(raw.cast("string")), F.lit(NOT_TEXT))
    length = F.octet_length(raw)
    said = F.concat(F.lit(wrong_width(form.kind, "")), length.cast("string"))
    return F.when(length != WIDTHS[form.kind], said)


def value_of(form: Format, raw: Column, reason: Column) -> Column:
    """Second step: the value; null where there is a reason."""
    if form.kind == "bytes":
        return raw
    made = raw.cast("string") if form.kind == "string" else _number(form.kind, raw)
    return F.when(reason.isNull() & raw.isNotNull(), made)


def _number(kind: str, raw: Column) -> Column:
    # base -10 makes the bits of 8 bytes a signed number; 4 bytes never reach its sign
    digits = F.when(F.octet_length(raw) == WIDTHS[kind], F.hex(raw))
    number = F.conv(digits, 16, -10).cast("bigint")
    if WIDTHS[kind] == WIDTHS["long"]:
        return number
    return F.when(number >= 2**31, number - 2**32).otherwise(number).cast("int")


# -- to bytes ----------------------------------------------------------------------------------------------


def encode(form: Format, value: Column, kind: DataType | None = None) -> Column:
    """The bytes of values, as Kafka's serializers write them; a null stays null. Needs `ENCODING`.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    if form.kind in _EXPRESSIONS:
        return _EXPRESSIONS[form.kind](value)
    written: Column = F.arrow_udf(_writer(serde_of(form, kind)), BinaryType())(value)  # type: ignore[call-overload]
    return written


def encode_combined(prefix_form: Format, suffix_form: Format, key: Column) -> Column:
    """The bytes of a one-to-many join's keys as KIP-213 lays them out, so that "a" is no prefix of "ab".

    That is the length of the prefix's bytes as 4 bytes big-endian, these bytes, and those of the suffix.
    """
    prefix, suffix = encode(prefix_form, key["prefix"]), encode(suffix_form, key["suffix"])
    return F.concat(encode(Format("int"), F.octet_length(prefix)), prefix, suffix)


def encode_json(value: Column) -> Column:
    """UTF-8 of the JSON text of a value, also of types that cannot be read; null for null."""
    # to_json takes no plain strings and numbers: write {"v":...} and cut the value out of it
    text = F.to_json(F.struct(value.alias("v")), _JSON_OPTIONS)
    return F.when(value.isNotNull(), F.substring(text, F.lit(6), F.length(text) - 6).cast("binary"))


def _as_binary(value: Column) -> Column:
    """Text as UTF-8, numbers as their two's complement, the highest byte first."""
    return value.cast("binary")


_EXPRESSIONS: dict[str, Callable[[Column], Column]] = {
    "bytes": lambda value: value,
    "string": _as_binary,
    "int": _as_binary,
    "long": _as_binary,
    "json": encode_json,
}
"""By a format's kind, Spark's own expression for its bytes."""


def _writer(serde: Serde) -> Callable[[pa.Array], pa.Array]:
    """What writes values where Spark has no expression for it, and no wire rows are there to write straight from."""

    def write(values: pa.Array) -> pa.Array:
        return serde.write(values).cast(pa.binary())

    return write
