"""Spark's types as Arrow's: what the workers get and give.

Own, since PySpark keeps its mapping to itself and changes it from version to version. Timestamps are in UTC, whatever
the session's zone: a value must mean the same wherever the query runs.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from watersmeet._engine.rows import with_nulls
from watersmeet.errors import TopologyError

_LEAVES: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    DayTimeIntervalType: pa.duration("us"),
    NullType: pa.null(),
}


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type."""
    if isinstance(kind, StructType):
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), nullable=kind.containsNull))
    if isinstance(kind, MapType):
        key = pa.field("key", arrow_type(kind.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(kind.valueType), nullable=kind.valueContainsNull))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, UserDefinedType):
        return arrow_type(kind.sqlType())
    return _LEAVES.get(type(kind)) or _special(kind)


def spark_type(kind: pa.DataType) -> DataType:
    """The Spark type of an Arrow type that `arrow_type` gives."""
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, spark_type(field.type), True) for field in kind])
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type), True)
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type), True)
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_string(kind):
        return StringType()
    return next(spark() for spark, arrow in _LEAVES.items() if arrow == kind)


def arrow_schema(kind: StructType) -> pa.Schema:
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), nullable=f.nullable) for f in kind.fields])


def field_twice(kind: DataType) -> str | None:
    """A name that two fields of one struct within a type have; None: there is none."""
    if isinstance(kind, StructType):
        twice = next((name for name in kind.names if kind.names.count(name) > 1), None)
        return twice or next(filter(None, (field_twice(member.dataType) for member in kind.fields)), None)
    if isinstance(kind, ArrayType):
        return field_twice(kind.elementType)
    return field_twice(kind.valueType) or field_twice(kind.keyType) if isinstance(kind, MapType) else None


def loosened(frame: pa.Table) -> pa.Table:
    """The frame with columns of types as `with_nulls` has them: what an expression cannot leave null, another can."""
    fields = [field.with_type(with_nulls(field.type)).with_nullable(True) for field in frame.schema]
    schema = pa.schema(fields)
    return frame if frame.schema.equals(schema) else frame.cast(schema)


def _special(kind: DataType) -> pa.DataType:
    # collations are types of their own
    if isinstance(kind, StringType):
        return pa.string()
    if isinstance(kind, VariantType):
        # by the mark Spark knows what the struct stands for
        marked = pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"})
        return pa.struct([pa.field("value", pa.binary(), nullable=False), marked])
    # Spark 4.1 brought it
    if kind.typeName() == "time":
        return pa.time64("ns")
    raise TopologyError(
        f"watersmeet does not support values of the type {kind.simpleString():.200}.",
        given=kind.simpleString(),
        hint="Cast it to a supported type: a string, bytes, numbers, or a struct of them.",
    )
