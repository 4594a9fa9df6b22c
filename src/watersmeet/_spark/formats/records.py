"""The record as functions of Columns see it: a struct of its time, its headers and its place in a topic.

Behind an operator a record is its result: it has a time, and headers where a topic keeps them; it stands in no topic.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from watersmeet._engine.rows.topic_slots import TOPIC
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet.io.inputs import Origin

_FIELDS: dict[str, DataType] = {
    "timestamp": LongType(),
    "headers": HEADERS,
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
}
RECORD_TYPE = StructType([StructField(name, kind, True) for name, kind in _FIELDS.items()])


def record_column(columns: Collection[str], ts: Column, origin: Origin | None, headers: str | None = None) -> Column:
    """The record of each row.

    Parameters
    ----------
    columns : those of the frame.
    ts : the record's time, in ms.
    origin : the input that it stands in; None: in none.
    headers : the column of its own headers; None: those that all rows have, if they have some.
    """
    found = {"timestamp": ts}
    if headers is not None or "headers" in columns:
        found["headers"] = F.col(headers or "headers")
    if origin is not None and origin.topic is not None:
        # piped records are of one partition
        partition = F.col("partition") if "partition" in columns else F.lit(0)
        topic = F.lit(origin.topic) if origin.pattern is None else F.col(TOPIC)
        found |= {"topic": topic, "partition": partition, "offset": F.col("offset")}
    parts = ((name, found.get(name, F.lit(None)).cast(kind)) for name, kind in _FIELDS.items())
    return F.struct(*(part.alias(name) for name, part in parts))
