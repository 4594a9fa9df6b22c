"""JSON text of values, as a Spark column, and which types JSON has values of.

Reading is the workers' (`json_decode`): Spark's own reader swallows or changes much of what is not of the type (law 6).
"""

from __future__ import annotations

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
)

_WRITE = {
    "timeZone": "UTC",
    # Spark's own formats end at milliseconds, the types at microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
_PLAIN = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType)
_LEAVES = (*_PLAIN, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)


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
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, nullable(kind.valueType))
    return kind


def _inner(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, MapType) else []
