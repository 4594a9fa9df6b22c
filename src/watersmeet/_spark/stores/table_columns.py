"""The visible part of a table that is a store: the columns of its DataFrame, and where they come from.

A checkpoint records it, so that stores can be read where the program is not (law 10: state is found by its name).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType, TimestampType

from watersmeet._engine.aggregates.named import NamedFoldKernel
from watersmeet._plan import folds
from watersmeet._plan.operators.aggregates.aggregate import AggregateParams
from watersmeet._plan.operators.spec import BYTES, FLAG, HEADERS, NUMBER, TableSchema
from watersmeet._plan.physical import Operator, Physical
from watersmeet._worker.formats import dead_letters
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet.windows import SlidingWindows, TimeWindows

_TIME = TimestampType()
_TYPES = {NUMBER: _TIME, HEADERS: dead_letters.HEADERS}
"""Of columns whose types are the engine's own."""
_WINDOW = StructType([StructField("start", _TIME), StructField("end", _TIME)])


@dataclass(frozen=True)
class StoreColumns:
    """A store as it is shown.

    Parameters
    ----------
    node : the operator that keeps it.
    schema : of its DataFrame.
    columns : for each column of the DataFrame but the window, the table's.
    whole : whether every shard has all rows.
    length : of its windows from start to end, in ms, where the table does not say their ends.
    fold : of aggregates by name, what they are made of: what is kept becomes the result.
    stored : name of the table with its rows, where another operator lends it; empty: its own.
    """

    node: str
    schema: StructType
    columns: Mapping[str, str]
    whole: bool = False
    length: int | None = None
    fold: folds.NamedFold | None = None
    stored: str = ""

    @property
    def by_key(self) -> bool:
        """Whether rows lie by the hash of the key that is shown, and not of what it is serialized to."""
        return self.columns["key"] == "key"

    def recorded(self) -> dict[str, Any]:
        """The same as JSON has it, for the checkpoint."""
        said = {**self.__dict__, "schema": self.schema.jsonValue(), "columns": dict(self.columns)}
        if not self.stored:
            del said["stored"]
        if self.fold is not None:
            said["fold"] = self.fold.recorded()
        return said

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> StoreColumns:
        """What `recorded` gives, as it was."""
        given = dict(said)
        if given["fold"] is not None:
            given["fold"] = folds.NamedFold.read(given["fold"])
        return cls(**{**given, "schema": StructType.fromJson(given["schema"])})

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of the table as those of the DataFrame."""
        wanted = arrow_schema(self.schema)
        for batch in table.to_batches():
            made = [self._column(batch, field).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(made, schema=wanted)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name == "window":
            return self._windows(batch)
        column = batch.column(self.columns[field.name])
        if pa.types.is_timestamp(field.type) and pa.types.is_int64(column.type):
            return _times(column)
        if self.fold is not None and field.name == "value":
            return NamedFoldKernel(self.fold, column.type, field.type).finish(column)
        return column

    def _windows(self, batch: pa.RecordBatch) -> pa.Array:
        start = batch.column("start")
        if "end" in batch.schema.names:
            end = batch.column("end")
        elif self.length is None:
            end = pa.nulls(len(batch), pa.int64())
        else:
            end = pa.array(start.to_numpy() + np.int64(self.length))
        return pa.StructArray.from_arrays([_times(start), _times(end)], ["start", "end"])


def columns_of_stores(physical: Physical) -> dict[str, StoreColumns]:
    """The stores of a topology that users see, by name."""
    return {
        table.name: replace(_store_columns(operator, table), stored=lent.name if lent else "")
        for operator in physical.operators
        for lent in (physical.lent_table(operator),)
        for table in operator.keeps
        if table.shown
    }


def _store_columns(operator: Operator, table: TableSchema) -> StoreColumns:
    kinds = dict(table.columns)
    fold = operator.params.fold if isinstance(operator.params, AggregateParams) else None
    if fold is not None:
        kinds["value"] = _aggregate_type(fold)
    columns = _columns(kinds)
    fields = [StructField(called, _TYPES.get(kinds[own], kinds[own])) for called, own in columns.items()]
    if "start" in kinds:
        fields.insert(1, StructField("window", _WINDOW))
    named = fold.how if fold is not None and isinstance(fold.how, folds.NamedFold) else None
    return StoreColumns(operator.node, StructType(fields), columns, table.everywhere, _length(operator), named)


def _aggregate_type(fold: folds.Fold) -> Any:
    """Type of what is shown: of a user's own aggregate, which only the program can finish, what is kept."""
    how = fold.how
    if not isinstance(how, folds.NamedFold) or all(each.finished_anywhere for _, each in how.fields):
        return fold.result
    parts = (
        StructField(name, (fold.result if each.finished_anywhere else fold.state)[name].dataType)
        for name, each in how.fields
    )
    return StructType(list(parts))


def _columns(kinds: Mapping[str, Any]) -> dict[str, str]:
    """The visible columns: the key, its state, then the times; numbers and flags are the engine's own."""
    # what is held back under its serialized key has the key itself beside it
    key = "windowed" if kinds["key"] == BYTES and "windowed" in kinds else "key"
    kept = {name: name for name, kind in kinds.items() if name not in ("key", key) and kind not in (FLAG, NUMBER)}
    due = {"due": "due"} if "due" in kinds else {}
    time = "ts" if "ts" in kinds else "end"
    return {"key": key, **kept, **due, **({"timestamp": time} if time in kinds else {})}


def _length(operator: Operator) -> int | None:
    windows = getattr(operator.params, "windows", None)
    if isinstance(windows, TimeWindows):
        return windows.size_ms
    return windows.difference_ms if isinstance(windows, SlidingWindows) else None


def _times(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
