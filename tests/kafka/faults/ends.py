"""End rows for frames of a test, which no exchange has closed with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructType

from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.sinks.functions import FunctionPass
from watersmeet._spark.sinks.kind import Chosen
from watersmeet._spark.sinks.sinks import BatchSinks
from watersmeet._spark.sinks.topics import TopicsFromColumns
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.wire.ends import end_rows
from watersmeet.io.outputs import SinkTarget

ENDS = "ends"


@dataclass(frozen=True)
class Close:
    """mapInArrow function: the rows as they are, then end rows."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(len(batch), pa.int32())], schema=self.schema)
        yield from end_rows(self.schema, ENDS)


def closed(frame: DataFrame) -> DataFrame:
    """The frame with end rows, told by the column `ends`."""
    schema = StructType()
    for field in (*frame.schema.fields, StructType().add(ENDS, IntegerType())[ENDS]):
        schema = schema.add(field.name, field.dataType, nullable=True)
    return frame.mapInArrow(Close(arrow_schema(schema)), schema)


class ClosingSinks(BatchSinks):
    """Sinks that close each frame first."""

    @property
    def identity(self) -> str:
        """What Kafka's groups and transactional ids begin with."""
        topics = self.passes[0]
        assert isinstance(topics, TopicsFromColumns)
        return topics.identity

    def __call__(self, frame: DataFrame, batch: int) -> None:
        super().__call__(closed(frame), batch)


def closing_sinks(
    chosen: Sequence[tuple[SinkTarget, Selection]], settings: Mapping[str, str], identity: str
) -> ClosingSinks:
    """What writes these topics, and functions of batches beside them."""
    topics = [(target, selection) for target, selection in chosen if target.topic is not None]
    targets, selections = zip(*topics, strict=True)
    others = [each for each in chosen if each not in topics]
    functions = [FunctionPass(Chosen(number, None, *each)) for number, each in enumerate(others)]
    return ClosingSinks((TopicsFromColumns(targets, settings, identity, selections=selections, ends=ENDS), *functions))
