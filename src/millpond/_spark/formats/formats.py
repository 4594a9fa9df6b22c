"""Formats: their types, and as Spark columns, values to bytes, and bytes of plain formats to values.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. All but the plain formats are read in the workers (`serdes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from millpond._spark.formats import serdes
from millpond._spark.formats.debezium import PAYLOAD, EnvelopeSerde, KeySerde, envelope_type, key_type, row_type
from millpond._spark.formats.json import encode_json, nullable, readable
from millpond._spark.formats.registered import schemas
from millpond._spark.formats.serdes import NOT_TEXT, WIDTHS, Serde, wrong_width
from millpond._spark.formats.windowed import FIELDS, WindowedSerde
from millpond.errors import TopologyError
from millpond.io.debezium import DebeziumFormat, DebeziumKeyFormat
from millpond.io.formats import DecimalFormat, Format, WrappingFormat
from millpond.io.schema_formats import SchemaFormat
from millpond.io.windowed_formats import WindowedFormat

_PLAIN: dict[str, DataType] = {
    "bytes": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
}
_SIMPLE: dict[str, DataType] = _PLAIN | {
    "short": ShortType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "uuid": StringType(),
}
_SERDES: dict[str, type[Serde]] = {
    "bytes": serdes.BytesSerde,
    "string": serdes.TextSerde,
    "boolean": serdes.BooleanSerde,
    "uuid": serdes.UuidSerde,
}
ENCODING = {"spark.sql.ansi.enabled": "false"}
"""What Spark is to be told while it takes up the columns that `encode` gives: else it casts no number to bytes."""


def type_of(form: Format) -> DataType:
    """The Spark type of the format's values; all fields within it may be null.

    Raises
    ------
    TopologyError : the schema does not parse, or JSON cannot be read as this type.
    """
    if isinstance(form, DecimalFormat):
        return DecimalType(form.precision, form.scale)
    if isinstance(form, SchemaFormat):
        return schemas.type_of(form)
    if isinstance(form, DebeziumFormat | DebeziumKeyFormat):
        columns = _columns_of(form)
        alone = isinstance(form, DebeziumKeyFormat) and len(columns) == 1
        return columns[0].dataType if alone else columns
    if isinstance(form, WindowedFormat):
        fields = zip(FIELDS, (type_of(form.inner), LongType(), LongType()), strict=True)
        return StructType([StructField(name, kind) for name, kind in fields])
    if form.kind != "json":
        return _SIMPLE[form.kind]
    kind = _schema(form)
    if not readable(kind):
        raise TopologyError(
            "JSON cannot be read as this type.",
            given=kind.simpleString(),
            hint="Maps need string keys; intervals, variants and void have no JSON of their own.",
        )
    return nullable(kind)


def _columns_of(form: DebeziumFormat | DebeziumKeyFormat) -> StructType:
    """The columns of a row, or of a primary key."""
    kind = type_of(form.inner)
    if isinstance(form.inner, SchemaFormat) and isinstance(form, DebeziumFormat):
        # its schema is the envelope's
        kind = row_type(kind)
    if not isinstance(kind, StructType) or not kind.fields:
        what, hint = "Debezium's rows and keys have columns.", 'Name them: "id long, first_name string".'
        raise TopologyError(what, given=kind.simpleString(), hint=hint)
    if isinstance(form.inner, SchemaFormat):
        return kind
    if isinstance(form, DebeziumKeyFormat) and PAYLOAD in kind.names:
        what = f"A key with a column {PAYLOAD!r} cannot be told from one with its schema."
        hint = 'Without schemas (key.converter.schemas.enable=false) read it as mp.json("payload string").'
        raise TopologyError(what, given=kind.simpleString(), hint=hint)
    return kind


def _schema(form: Format) -> DataType:
    if isinstance(form.schema, DataType):
        return form.schema
    try:
        return DataType.fromDDL(str(form.schema))
    except (PySparkException, ValueError) as error:
        raise TopologyError(
            "The schema of a JSON format does not parse.",
            given=repr(form.schema),
            hint=f'Fields and types: "id long, name string". {str(error).strip().splitlines()[0]}',
        ) from None


def format_for(kind: DataType) -> Format:
    """The format that a sink takes for values of this type, when none was named."""
    names = {type(plain): name for name, plain in _PLAIN.items()}
    return Format(names.get(type(kind), "json"))


def is_primitive(form: Format) -> bool:
    """Whether values of the format are texts, bytes or integers, which Spark has expressions to read."""
    return form.kind in _PLAIN


def serde_of(form: Format, kind: DataType | None = None) -> Serde:
    """What reads and writes the format in the workers.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    if isinstance(form, DecimalFormat):
        return serdes.DecimalSerde(form.precision, form.scale)
    if isinstance(form, SchemaFormat):
        return schemas.serde_of(form, None if kind is None else nullable(kind))
    if isinstance(form, WindowedFormat):
        within = serde_of(form.inner, None if kind is None else _windowed(kind)[0])
        return WindowedSerde(form.kind, within, form.kind == "session_windowed", form.size_ms)
    if isinstance(form, DebeziumFormat):
        row, times = _columns_of(form), form.time == "source"
        if isinstance(form.inner, SchemaFormat):
            return EnvelopeSerde(serde_of(form.inner), None, form.tombstones, times)
        envelope = serdes.JsonSerde(envelope_type(row, documents=form.documents))
        document = serdes.JsonSerde(row) if form.documents else None
        return EnvelopeSerde(envelope, document, form.tombstones, times)
    if isinstance(form, DebeziumKeyFormat):
        columns = _columns_of(form)
        if isinstance(form.inner, SchemaFormat):
            return KeySerde(serde_of(form.inner), tuple(columns.names))
        return KeySerde(serdes.JsonSerde(key_type(columns)), tuple(columns.names))
    if form.kind in serdes.NUMBERS:
        return serdes.NumberSerde(form.kind)
    if form.kind == "json":
        return serdes.JsonSerde(type_of(form) if kind is None else kind)
    return _SERDES[form.kind]()


def describe_format(form: Format | None) -> str:
    """A format in describe() and in a checkpoint: however its schema was spelt."""
    if form is None:
        return "by type"
    if isinstance(form, SchemaFormat):
        return schemas.described(form)
    if isinstance(form, WrappingFormat):
        if isinstance(form.inner, SchemaFormat):
            return str(form).replace(str(form.inner), schemas.described(form.inner), 1)
        return str(replace(form, inner=Format("json", type_of(form.inner)))) if form.inner.schema else str(form)
    return str(form) if form.schema is None else f"{form.kind}({type_of(form).simpleString()})"


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
    value = raw.cast("string") if form.kind == "string" else _number(form, raw)
    return F.when(reason.isNull() & raw.isNotNull(), value)


def _number(form: Format, raw: Column) -> Column:
    # base -10 makes the bits of 8 bytes a signed number; 4 bytes never reach its sign
    digits = F.when(F.octet_length(raw) == WIDTHS[form.kind], F.hex(raw))
    number = F.conv(digits, 16, -10).cast("bigint")
    if form.kind == "int":
        return F.when(number >= 2**31, number - 2**32).otherwise(number).cast("int")
    return number


# -- to bytes ----------------------------------------------------------------------------------------------


def check_writable(form: Format, kind: DataType, what: str) -> None:
    """Raise unless the format writes values of this type.

    Parameters
    ----------
    what : names the values to the user.

    Raises
    ------
    TopologyError : it does not; the hint names a format or a cast that does.
    """
    if _fits(form, kind):
        return
    if form.kind == "json":
        hint = "A sink's JSON needs no schema: mp.json()."
    elif isinstance(form, SchemaFormat):
        hint = "Make values of the schema's types, its fields in its order; without a schema one is made of the type."
    elif isinstance(form, WindowedFormat):
        hint = f'It is for keys of windows, structs of key, start and end; here take "{format_for(kind).kind}".'
    else:
        cast = type_of(form).simpleString()
        hint = f'Take the format "{format_for(kind).kind}", or change the values with .cast("{cast}").'
    raise TopologyError(
        f"The format {form.kind!r} does not write the {what}.",
        given=f"{kind.simpleString()}, where the format is of {_written_type(form)}",
        hint=hint,
    )


def _fits(form: Format, kind: DataType) -> bool:
    if form.kind == "json":
        return form.schema is None or type_of(form) == nullable(kind)
    if isinstance(form, SchemaFormat):
        return schemas.misfit(form, nullable(kind)) is None
    if isinstance(form, WindowedFormat):
        found = _windowed(kind)
        return len(found) == len(FIELDS) and _fits(form.inner, found[0])
    return type(type_of(form)) is type(kind) and (type_of(form) == kind or isinstance(kind, StringType))


def written_by_workers(form: Format, kind: DataType) -> bool:
    """Whether no expression of Spark's is needed to write values of this type."""
    if form.kind == "json":
        return readable(kind) and _fits(form, kind)
    if isinstance(form, WindowedFormat):
        found = _windowed(kind)
        return len(found) == len(FIELDS) and written_by_workers(form.inner, found[0])
    return _fits(form, kind) if isinstance(form, SchemaFormat) else type_of(form) == kind


def _windowed(kind: DataType) -> list[DataType]:
    """The types of key, start and end of windowed keys; nothing where it is no type of such keys."""
    if not isinstance(kind, StructType) or tuple(kind.names) != FIELDS:
        return []
    key, *times = (each.dataType for each in kind.fields)
    return [key, *times] if all(isinstance(time, LongType) for time in times) else []


def _written_type(form: Format) -> str:
    if isinstance(form, WindowedFormat):
        return f"struct<key:{_written_type(form.inner)},start:bigint,end:bigint>"
    if isinstance(form, SchemaFormat) and form.schema is None:
        return "types that its language has"
    return "any type" if form.kind == "json" and form.schema is None else type_of(form).simpleString()


def encode(form: Format, value: Column, kind: DataType | None = None) -> Column:
    """The bytes of values, as Kafka's serializers write them; a null stays null. Needs `ENCODING`.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    if form.kind == "bytes":
        return value
    if form.kind == "json":
        return encode_json(value)
    if is_primitive(form):
        # text as UTF-8, numbers as their two's complement, the highest byte first
        return value.cast("binary")
    written: Column = F.arrow_udf(_writer(serde_of(form, kind)), BinaryType())(value)  # type: ignore[call-overload]
    return written


def _writer(serde: Serde) -> Callable[[pa.Array], pa.Array]:
    """What writes values where Spark has no expression for it, and no wire rows are there to write straight from."""

    def write(values: pa.Array) -> pa.Array:
        return serde.write(values).cast(pa.binary())

    return write


def encode_combined(prefix_form: Format, suffix_form: Format, key: Column) -> Column:
    """The bytes of a one-to-many join's keys as KIP-213 lays them out, so that "a" is no prefix of "ab".

    That is the length of the prefix's bytes as 4 bytes big-endian, these bytes, and those of the suffix.
    """
    prefix, suffix = encode(prefix_form, key["prefix"]), encode(suffix_form, key["suffix"])
    return F.concat(encode(Format("int"), F.octet_length(prefix)), prefix, suffix)
