"""Formats as Spark columns: values to bytes, and bytes of plain formats to values.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. All but the plain formats are read in the workers (`serdes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType

from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.serdes import NOT_TEXT, WIDTHS, Serde, wrong_width
from watersmeet.io.formats import Format

ENCODING = {"spark.sql.ansi.enabled": "false"}
"""Spark settings for columns of `encode`: in ANSI mode Spark does not cast numbers to bytes."""
_JSON_OPTIONS = {
    "timeZone": "UTC",
    # Spark's own formats end at milliseconds, the types at microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


# -- from bytes --------------------------------------------------------------------------------------------


def reason_of(form: Format, raw: Column) -> Column:
    """Why bytes are not of the format; null where they are. Keep it in a column, so that Spark computes it once."""
    return _PLAIN[form.kind].reason(raw)


def value_of(form: Format, raw: Column, reason: Column) -> Column:
    """The value of bytes; null where `reason`, the column of `reason_of`, is not null."""
    return F.when(reason.isNull() & raw.isNotNull(), _PLAIN[form.kind].value(raw))


@dataclass(frozen=True)
class _Plain:
    """Spark's expressions for a plain format.

    Parameters
    ----------
    reason : of bytes, why they are not of the format.
    value : the value of bytes that are of it.
    write : the bytes of a value: text as UTF-8, numbers as big-endian two's complement.
    """

    reason: Callable[[Column], Column]
    value: Callable[[Column], Column]
    write: Callable[[Column], Column] = lambda value: value.cast("binary")


def _number(kind: str) -> _Plain:
    width = WIDTHS[kind]

    def reason(raw: Column) -> Column:
        length = F.octet_length(raw)
        return F.when(length != width, F.concat(F.lit(wrong_width(kind, "")), length.cast("string")))

    def value(raw: Column) -> Column:
        # base -10 makes the bits of 8 bytes a signed number; 4 bytes never reach its sign
        number = F.conv(F.when(F.octet_length(raw) == width, F.hex(raw)), 16, -10).cast("bigint")
        if width == WIDTHS["long"]:
            return number
        return F.when(number >= 2**31, number - 2**32).otherwise(number).cast("int")

    return _Plain(reason, value)


_PLAIN = {
    "bytes": _Plain(lambda raw: F.lit(None).cast("string"), lambda raw: raw, lambda value: value),
    "string": _Plain(
        lambda raw: F.when(~F.is_valid_utf8(raw.cast("string")), F.lit(NOT_TEXT)), lambda raw: raw.cast("string")
    ),
    "int": _number("int"),
    "long": _number("long"),
}
"""By a format's kind."""


# -- to bytes ----------------------------------------------------------------------------------------------


def encode(form: Format, value: Column, kind: DataType | None = None) -> Column:
    """The bytes of values, as Kafka's serializers write them; a null stays null. Needs `ENCODING`.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    expression = _WRITES.get(form.kind)
    if expression is not None:
        return expression(value)
    written: Column = F.arrow_udf(_writer(serde_of(form, kind)), BinaryType())(value)  # type: ignore[call-overload]
    return written


def encode_combined(prefix_form: Format, suffix_form: Format, key: Column) -> Column:
    """The bytes of a one-to-many join's keys as KIP-213 lays them out, so that "a" is no prefix of "ab".

    That is the length of the prefix's bytes as 4 bytes big-endian, these bytes, and those of the suffix.
    """
    prefix, suffix = encode(prefix_form, key["prefix"]), encode(suffix_form, key["suffix"])
    return F.concat(encode(Format("int"), F.octet_length(prefix)), prefix, suffix)


def encode_json(value: Column) -> Column:
    """The JSON text of a value as UTF-8, also of types that JSON cannot be read as; null for null."""
    # to_json takes no plain strings and numbers: write {"v":...} and cut the value out of it
    text = F.to_json(F.struct(value.alias("v")), _JSON_OPTIONS)
    return F.when(value.isNotNull(), F.substring(text, F.lit(6), F.length(text) - 6).cast("binary"))


_WRITES = {**{kind: plain.write for kind, plain in _PLAIN.items()}, "json": encode_json}
"""Spark's expression for the bytes of a format, by the format's kind; the others are written by their serde."""


def _writer(serde: Serde) -> Callable[[pa.Array], pa.Array]:
    """A function that writes an array of values by a serde."""

    def write(values: pa.Array) -> pa.Array:
        return serde.write(values).cast(pa.binary())

    return write
