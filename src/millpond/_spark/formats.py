"""Formats as Spark columns: bytes to values and back, in the JVM alone.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. Called by `sources`, `sinks` and `functions`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from millpond.errors import TopologyError
from millpond.options import Format

_PLAIN = {"bytes": BinaryType(), "string": StringType(), "int": IntegerType(), "long": LongType()}
_WIDTH = {"int": 4, "long": 8}
_JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "timeZone": "UTC",
}


def type_of(format: Format) -> DataType:
    """The Spark type of the format's values.

    Raises
    ------
    TopologyError : the schema does not parse.
    """
    if format.kind != "json":
        return _PLAIN[format.kind]
    if isinstance(format.schema, DataType):
        return format.schema
    try:
        return DataType.fromDDL(format.schema)
    except Exception as error:
        raise TopologyError(
            "The schema of a JSON format does not parse.",
            given=repr(format.schema),
            hint=str(error).strip().split("\n")[0],
        ) from None


def format_for(kind: DataType) -> Format:
    """The format that a sink takes for values of this type, when none was named."""
    named = {StringType(): "string", IntegerType(): "int", LongType(): "long", BinaryType(): "bytes"}
    return Format(named[kind]) if kind in named else Format("json", kind)


def decode(format: Format, raw: Column) -> tuple[Column, Column]:
    """(value, reason) of bytes: reason is null where they are of the format, and where they are null."""
    return decoded(format, raw, parse(format, raw))


def parse(format: Format, raw: Column) -> Column:
    """What `decoded` needs, kept in a column of its own by callers who do not want it computed twice."""
    if format.kind != "json":
        return raw
    text = raw.cast("string")
    schema = StructType().add("v", type_of(format)).add("end", "boolean").add("_corrupt", "string")
    # from_json stops where the value ends and would not see what follows it: so something has to follow
    wrapped = F.concat(F.lit('{"v":'), text, F.lit(',"end":true}'))
    return F.from_json(wrapped, schema, _JSON_OPTIONS)


def decoded(format: Format, raw: Column, parsed: Column) -> tuple[Column, Column]:
    """(value, reason) from bytes and what `parse` made of them."""
    value, fault = _JUDGES[format.kind](format, raw, parsed)
    reason = F.when(raw.isNotNull(), fault)
    return F.when(raw.isNotNull() & fault.isNull(), value), reason


def _judge_bytes(format: Format, raw: Column, parsed: Column) -> tuple[Column, Column]:
    return raw, F.lit(None).cast("string")


def _judge_string(format: Format, raw: Column, parsed: Column) -> tuple[Column, Column]:
    text = raw.cast("string")
    return text, F.when(~F.is_valid_utf8(text), F.lit("not valid UTF-8"))


def _judge_number(format: Format, raw: Column, parsed: Column) -> tuple[Column, Column]:
    width = _WIDTH[format.kind]
    length = F.octet_length(raw)
    fault = F.when(
        length != width,
        F.concat(F.lit(f"{format.kind} takes {width} bytes, there are "), length.cast("string")),
    )
    # base -10: the bits are a signed number; of 4 bytes the sign has to be carried on to 8 first
    digits = F.hex(raw)
    if width == 4:
        digits = F.concat(
            F.when(F.substring(digits, 1, 1) >= "8", F.lit("FFFFFFFF")).otherwise(F.lit("")), digits
        )
    number = F.conv(F.when(length == width, digits), 16, -10).cast("bigint")
    return number.cast(_PLAIN[format.kind]), fault


def _judge_json(format: Format, raw: Column, parsed: Column) -> tuple[Column, Column]:
    text = raw.cast("string")
    fault = (
        F.when(~F.is_valid_utf8(text), F.lit("not valid UTF-8"))
        .when(
            parsed.isNull() | parsed["_corrupt"].isNotNull() | parsed["end"].isNull(),
            F.lit(f"not JSON of the schema {type_of(format).simpleString()}"),
        )
        .when(parsed["v"].isNull(), F.lit("JSON null (a tombstone has no bytes at all)"))
    )
    return parsed["v"], fault


_JUDGES = {
    "bytes": _judge_bytes,
    "string": _judge_string,
    "int": _judge_number,
    "long": _judge_number,
    "json": _judge_json,
}


def check_writable(format: Format, kind: DataType, what: str) -> None:
    """Raise TopologyError unless `format` writes values of type `kind`; `what` names them to the user."""
    if format.kind == "json":
        return
    if type_of(format) != kind:
        fitting = format_for(kind)
        raise TopologyError(
            f"The format {format.kind!r} does not write the {what}.",
            given=f"{kind.simpleString()}, where the format takes {type_of(format).simpleString()}",
            hint=f'Take the format "{fitting.kind}", or change the type with .cast("{type_of(format).simpleString()}").',
        )


def encode(format: Format, value: Column) -> Column:
    """The bytes of values, as Kafka's serializers write them; a null stays null."""
    if format.kind == "bytes":
        return value
    if format.kind == "string":
        return F.encode(value, "UTF-8")
    if format.kind in _WIDTH:
        digits = F.lpad(F.hex(value.cast("bigint")), 16, "0")
        return F.unhex(digits if format.kind == "long" else F.substring(digits, 9, 8))
    return _json_bytes(value)


def _json_bytes(value: Column) -> Column:
    # to_json takes no plain numbers and strings: write {"v":...} and cut the value out of it
    text = F.to_json(F.struct(value.alias("v")), {"ignoreNullFields": "false", "timeZone": "UTC"})
    return F.when(value.isNotNull(), F.encode(F.expr("1").cast("string") if False else _cut(text), "UTF-8"))


def _cut(text: Column) -> Column:
    return F.substring(text, F.lit(6), F.length(text) - 6)
