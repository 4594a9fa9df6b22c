"""JSON text to columns and back, strictly: what Spark's reader would swallow or change gets a reason.

Tried with Spark 4.3's `from_json`: it stops after the first value and ignores what follows; gives null for an
empty text; takes a number or an object for a string; rounds decimals to their scale; turns 200 into the byte
-56 and 1e400 into infinity; takes a number for a timestamp and lets it overflow. So the text is parsed inside
an object with a sentinel behind it, strings as variants (which know what they were, and cost the same),
decimals and bytes as something wider, and the result is looked through (law 6). Called by `formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

_READ = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    # a text must mean the same wherever the query runs
    "timeZone": "UTC",
    "allowSingleQuotes": "false",
}
_WRITE = {
    "timeZone": "UTC",
    # Spark's own formats end at milliseconds, the types at microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
_PLAIN = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType)
_LEAVES = (*_PLAIN, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)
_NUMBER = r"^[-+.\deE]+$"
_SHOWN = 200
Flaw = Callable[[DataType, Column], "Column | None"]


def parse_json(kind: DataType, raw: Column) -> Column:
    """What `judge_json` needs, as one column: the parsed text and the parser's own complaints."""
    read = StructType(
        [
            StructField("value", _as_read(kind)),
            StructField("end", LongType()),
            StructField("corrupt", StringType()),
        ]
    )
    return _from_json(raw, read)


def json_reason(kind: DataType, raw: Column, parsed: Column) -> Column:
    """Why bytes are not JSON text of this type in UTF-8; null where they are, and where they are null."""
    value = parsed["value"]
    # an object that the text itself has closed too early does not end in the length of the text
    whole = parsed["corrupt"].isNull() & parsed["end"].eqNullSafe(F.octet_length(raw).cast("bigint"))
    shown = kind.simpleString()
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    reason = (
        F.when(raw.isNull(), F.lit(None).cast("string"))
        .when(~F.is_valid_utf8(raw.cast("string")), F.lit("not valid UTF-8"))
        .when(~whole, F.lit(f"not JSON of the type {shown}"))
        .when(_is_null(kind, value), F.lit("the JSON text null (a tombstone has no bytes at all)"))
    )
    for flaw, what in _flaws(kind, value, raw):  # one turn per kind of flaw
        reason = reason.when(flaw, F.lit(what))
    return reason


def json_value(kind: DataType, parsed: Column) -> Column:
    """The value, of the type that was asked for; means nothing where there is a reason."""
    return _restored(kind, parsed["value"])


def encode_json(value: Column) -> Column:
    """UTF-8 of the JSON text of a value; null for null."""
    # to_json takes no plain strings and numbers: write {"v":...} and cut the value out of it
    text = F.to_json(F.struct(value.alias("v")), _WRITE)
    return F.when(value.isNotNull(), F.substring(text, F.lit(6), F.length(text) - 6).cast("binary"))


def readable(kind: DataType) -> bool:
    """Whether JSON text can be read as this type: maps have string keys, and every leaf has a plain type."""
    if isinstance(kind, MapType) and not isinstance(kind.keyType, StringType):
        return False
    return isinstance(kind, _LEAVES) or (bool(_inner(kind)) and all(readable(k) for k in _inner(kind)))


def nullable(kind: DataType) -> DataType:
    """The type with all its fields, elements and values nullable: what a text can leave out."""
    return _mapped(kind, lambda leaf: leaf)


# -- types -------------------------------------------------------------------------------------------------


def _inner(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, MapType) else []


def _has(kind: DataType, *wanted: type[DataType]) -> bool:
    return isinstance(kind, wanted) or any(_has(inner, *wanted) for inner in _inner(kind))


def _mapped(kind: DataType, of_leaf: Callable[[DataType], DataType]) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _mapped(f.dataType, of_leaf)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_mapped(kind.elementType, of_leaf))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _mapped(kind.valueType, of_leaf))
    return of_leaf(kind)


def _as_read(kind: DataType) -> DataType:
    """The type that text is parsed as: strings as variants, decimals as their text, bytes as shorts."""
    return _mapped(kind, _leaf_as_read)


def _leaf_as_read(leaf: DataType) -> DataType:
    if isinstance(leaf, StringType):
        return VariantType()
    if isinstance(leaf, DecimalType):
        return StringType()
    return ShortType() if isinstance(leaf, ByteType) else leaf


def _only(kind: DataType, wanted: tuple[type[DataType], ...], read_as: DataType) -> DataType:
    """The type without the struct fields that hold none of the wanted leaves; those are read as `read_as`."""
    if isinstance(kind, StructType):
        kept = [f for f in kind.fields if _has(f.dataType, *wanted)]
        return StructType([StructField(f.name, _only(f.dataType, wanted, read_as)) for f in kept])
    if isinstance(kind, ArrayType):
        return ArrayType(_only(kind.elementType, wanted, read_as))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _only(kind.valueType, wanted, read_as))
    return read_as


# -- values ------------------------------------------------------------------------------------------------


def _from_json(raw: Column, read: StructType) -> Column:
    """The text's value as field `value` of an object whose field `end` follows it."""
    length = F.octet_length(raw).cast("string")
    text = F.concat(F.lit('{"value":'), raw.cast("string"), F.lit(',"end":'), length, F.lit("}"))
    return F.from_json(text, read, _READ)


def _restored(kind: DataType, value: Column) -> Column:
    """The value of the type that was asked for, from the one it was parsed as."""
    if not _has(kind, StringType, DecimalType, ByteType):
        return value
    if isinstance(kind, StructType):
        fields = [_restored(f.dataType, value[f.name]).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda element: _restored(kind.elementType, element))
    if isinstance(kind, MapType):
        return F.transform_values(value, lambda _, inner: _restored(kind.valueType, inner))
    if isinstance(kind, StringType):
        return F.try_variant_get(value, "$", "string")
    return value.try_cast(kind)


def _is_null(kind: DataType, value: Column) -> Column:
    return (
        F.coalesce(F.is_variant_null(value), F.lit(True)) if isinstance(kind, StringType) else value.isNull()
    )


def _any(kind: DataType, value: Column, flaw: Flaw) -> Column:
    """Whether a leaf of the value has the flaw."""
    found: list[Column] = []
    if isinstance(kind, StructType):
        found = [_any(f.dataType, value[f.name], flaw) for f in kind.fields if _may(f.dataType, flaw)]
    elif isinstance(kind, ArrayType):
        found = [F.exists(value, lambda element: _any(kind.elementType, element, flaw))]
    elif isinstance(kind, MapType):
        found = [F.exists(F.map_values(value), lambda inner: _any(kind.valueType, inner, flaw))]
    else:
        leaf = flaw(kind, value)
        found = [] if leaf is None else [leaf]
    return reduce(or_, [F.coalesce(one, F.lit(False)) for one in found], F.lit(False))


def _may(kind: DataType, flaw: Flaw) -> bool:
    """Whether values of the type have a leaf that the flaw is about at all."""
    inner = _inner(kind)
    return any(_may(k, flaw) for k in inner) if inner else flaw(kind, F.lit(None)) is not None


# -- flaws -------------------------------------------------------------------------------------------------


def _flaws(kind: DataType, value: Column, raw: Column) -> list[tuple[Column, str]]:
    """(condition, reason) pairs of what the parser has let through."""
    found = []
    if _has(kind, StringType):
        found.append((_any(kind, value, _no_string), "a string is wanted where there is something else"))
    if _has(kind, DecimalType):
        found.append((_any(kind, value, _decimal_flaw), "a number does not fit its decimal type exactly"))
    if _has(kind, ByteType):
        found.append((_any(kind, value, _byte_flaw), "a number does not fit into a byte"))
    if _has(kind, FloatType, DoubleType):
        # an infinity that is written as one is as it was meant
        flaw = _any(kind, value, _infinite) & ~raw.cast("string").rlike("(?i)inf")
        found.append((flaw, "a number is beyond the range of its type"))
    if _has(kind, TimestampType, TimestampNTZType):
        found.append((_timestamp_flaw(kind, raw), "a timestamp is a string, not a number"))
    return found


def _decimal_flaw(kind: DataType, text: Column) -> Column | None:
    if not isinstance(kind, DecimalType):
        return None
    # zeros behind the scale change nothing; an exponent is not worth the trouble of reading it
    exact = rf"^-?\d+(\.\d{{0,{kind.scale}}}0*)?$"
    return ~text.rlike(exact) | (text.isNotNull() & text.try_cast(kind).isNull())


def _byte_flaw(kind: DataType, number: Column) -> Column | None:
    return ~number.between(-128, 127) if isinstance(kind, ByteType) else None


def _infinite(kind: DataType, number: Column) -> Column | None:
    return F.abs(number) == float("inf") if isinstance(kind, FloatType | DoubleType) else None


def _no_string(kind: DataType, token: Column) -> Column | None:
    is_text = (F.schema_of_variant(token) == "STRING") | F.is_variant_null(token)
    return ~is_text if isinstance(kind, StringType) else None


def _timestamp_flaw(kind: DataType, raw: Column) -> Column:
    """Whether a timestamp was a number: nothing but the timestamps is parsed once more, as strings."""
    texts = _only(kind, (TimestampType, TimestampNTZType), StringType())
    parsed = _from_json(raw, StructType([StructField("value", texts)]))
    # an array of one binds the parsed value to a name: it is needed once per leaf, and to be made once
    return F.exists(F.array(parsed), lambda once: _any(texts, once["value"], _number))


def _number(kind: DataType, text: Column) -> Column | None:
    return text.rlike(_NUMBER) if isinstance(kind, StringType) else None
