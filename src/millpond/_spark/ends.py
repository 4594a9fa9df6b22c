"""End rows: how a task that writes to the outside knows that it has seen all its rows.

When a stage above fails, or its task is killed, Spark merely closes the pipe to the Python worker below, and
Arrow reads a closed pipe as an orderly end: a function that then commits what it got commits half a batch.
So the last Python stage before a sink closes its output with two end rows, in batches of their own. Spark
looks for a failure above before each batch that it passes on, and at most one is under way when the failure
comes: who sees the second end row has seen everything. Called by `exchange`, `sinks` and `kafka_sink`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructType

END_COLUMN = "ends"
LAST = -2
"""Value of the second end row, which makes the rows whole; of the first one it is -1."""


def end_rows(schema: pa.Schema, column: str) -> Iterator[pa.RecordBatch]:
    """The two end rows: -1 and -2 in the integer column `column`, null in all others."""
    for value in (-1, LAST):
        arrays = [
            pa.array([value], field.type) if field.name == column else pa.nulls(1, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class CloseWithEnds:
    """mapInArrow function: the rows as they are, then end rows.

    Parameters
    ----------
    schema : of the rows, with `END_COLUMN` added.
    """

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        for batch in batches:
            nothing = pa.nulls(len(batch), pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=self.schema)
        yield from end_rows(self.schema, END_COLUMN)


def with_ends(frame: DataFrame) -> DataFrame:
    """The frame with end rows, told by its column `END_COLUMN`; costs a way through Python."""
    fields = StructType([*frame.schema.fields]).add(END_COLUMN, IntegerType())
    schema = StructType.fromJson(_all_nullable(fields.jsonValue()))
    arrow = to_arrow_schema(schema, timezone="UTC")
    return frame.mapInArrow(CloseWithEnds(arrow), schema)


def _all_nullable(given: dict) -> dict:  # type: ignore[type-arg]
    # an end row is null in every other column
    return {**given, "fields": [{**field, "nullable": True} for field in given["fields"]]}
