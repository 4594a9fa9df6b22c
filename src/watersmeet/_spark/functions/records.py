"""The record as functions of Columns see it: a struct of its time, its headers and its place in a topic.

Behind an operator a record is its result: it has a time, and headers where a topic keeps them; it stands in no topic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from watersmeet._spark.functions.times import in_milliseconds
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, belonging, names_of, record_of, seeing_record

_FIELDS: dict[str, DataType] = {
    "timestamp": LongType(),
    "headers": HEADERS,
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
}
RECORD_TYPE = StructType([StructField(name, kind, True) for name, kind in _FIELDS.items()])


class RecordFunctions(ABC):
    """What `ColumnFunctions` answers of records: their times and headers, and what functions see of them."""

    @abstractmethod
    def value_type(self, function: Function, arguments: Sequence[DataType], role: str) -> DataType:
        """See `FunctionBackend`."""

    def record_type(self) -> DataType:
        """See `FunctionBackend`."""
        return RECORD_TYPE

    def milliseconds(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function`, which gives a timestamp or a long of milliseconds, as one of milliseconds."""
        return in_milliseconds(function, self.value_type(function, arguments, role), role, len(arguments))

    def chosen_topic(
        self, function: Function, arguments: Sequence[DataType], topics: Sequence[str]
    ) -> Mapping[str, Function]:
        """See `FunctionBackend`."""
        role = "topic selector"
        kind = self.value_type(function, arguments, role)
        if not isinstance(kind, StringType):
            raise FunctionError(
                f"The {role} gives no name but {kind.simpleString():.200}.",
                hint="It gives a text for each record: lambda value: F.concat(F.lit('orders-'), value['country']).",
            )

        def named(*columns: Column) -> Column:
            name = function(*columns)
            given = F.concat(F.lit("No topic of topics= has this name: "), F.coalesce(name, F.lit("null")))
            refused = F.raise_error(F.concat(given, F.lit(f"; there are {', '.join(topics)}.")))
            return F.when(name.isin(*topics), name).otherwise(refused)

        return {topic: _as_predicate(named, function, topic, len(arguments)) for topic in topics}

    def headers(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function`, which gives an array of structs of a text and bytes, as one of headers."""
        kind = self.value_type(function, arguments, role)
        entry = kind.elementType if isinstance(kind, ArrayType) else None
        kinds = [each.dataType for each in entry.fields] if isinstance(entry, StructType) else []
        if kinds != [StringType(), BinaryType()]:
            raise FunctionError(
                f"The {role} gives no headers but {kind.simpleString():.200}.",
                hint="Headers are an array of structs of a text and bytes: F.array(F.struct(F.lit('id').alias('key'), "
                "value.cast('binary').alias('value'))), or F.concat(record['headers'], F.array(...)).",
            )

        def as_headers(*columns: Column) -> Column:
            return function(*columns).cast(HEADERS)

        made = belonging(as_headers, function, names_of(function, len(arguments)))
        record = record_of(function)
        return made if record is None else seeing_record(made, function, record, names_of(function, len(arguments)))


def _as_predicate(named: Function, function: Function, topic: str, count: int) -> Function:
    def chosen(*columns: Column) -> Column:
        made: Column = named(*columns) == topic
        return made

    names, record = names_of(function, count), record_of(function)
    made = belonging(chosen, function, names)
    return made if record is None else seeing_record(made, function, record, names)


def record_column(columns: Collection[str], ts: Column, topic: str | None, headers: str | None = None) -> Column:
    """The record of each row.

    Parameters
    ----------
    columns : those of the frame.
    ts : the record's time, in ms.
    topic : where it stands; None: in no topic.
    headers : the column of its own headers; None: those that all rows have, if they have some.
    """
    found = {"timestamp": ts}
    if headers is not None or "headers" in columns:
        found["headers"] = F.col(headers or "headers")
    if topic is not None:
        # piped records are of one partition
        partition = F.col("partition") if "partition" in columns else F.lit(0)
        found |= {"topic": F.lit(topic), "partition": partition, "offset": F.col("offset")}
    parts = ((name, found.get(name, F.lit(None)).cast(kind)) for name, kind in _FIELDS.items())
    return F.struct(*(part.alias(name) for name, part in parts))
