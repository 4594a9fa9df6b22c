"""Checks of users' functions of Columns besides their types: that they return times, headers, names of topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    StringType,
    StructType,
)

from watersmeet._spark.formats.records import RECORD_TYPE
from watersmeet._spark.functions.times import in_milliseconds
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, belonging, names_of


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
                f"The {role} must return a name, not {kind.simpleString():.200}.",
                hint="Return a text for each record: lambda value: F.concat(F.lit('orders-'), value['country']).",
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
                f"The {role} must return headers, not {kind.simpleString():.200}.",
                hint="Headers are an array of structs of a text and bytes: F.array(F.struct(F.lit('id').alias('key'), "
                "value.cast('binary').alias('value'))), or F.concat(record['headers'], F.array(...)).",
            )

        def as_headers(*columns: Column) -> Column:
            made: Column = function(*columns).cast(HEADERS)
            return made

        return belonging(as_headers, function, names_of(function, len(arguments)))


def _as_predicate(named: Function, function: Function, topic: str, count: int) -> Function:
    def chosen(*columns: Column) -> Column:
        made: Column = named(*columns) == topic
        return made

    return belonging(chosen, function, names_of(function, count))
