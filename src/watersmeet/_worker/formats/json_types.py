"""Which types JSON has values of, and what of them a text can leave out.

Reading is the workers' (`json_decode`): Spark's own reader swallows or changes much of what is not of the type (law 6).
"""

from __future__ import annotations

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

_PLAIN = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType)
_LEAVES = (*_PLAIN, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)


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
