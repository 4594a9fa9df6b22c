"""Python values as Arrow's columns and back, as Spark takes and collects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import DataType, StructField, StructType

from watersmeet._worker.formats.arrow_types import arrow_schema

Columns = Sequence[tuple[str, DataType]]
"""Names and types."""


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: Columns) -> pa.Table:
    """The rows as columns, of the types of the workers."""
    schema = _schema(columns)
    return LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema))


def python_rows(rows: pa.Table, columns: Columns) -> list[tuple[Any, ...]]:
    """The columns' values as Spark collects them, row by row."""
    schema = _schema(columns)
    given = rows.select(schema.names).cast(arrow_schema(schema))
    return [tuple(row) for row in ArrowTableToRowsConversion.convert(given, schema)]


def _schema(columns: Columns) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in columns])
