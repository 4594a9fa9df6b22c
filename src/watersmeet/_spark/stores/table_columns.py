"""The visible part of a table that is a store: the columns of its DataFrame, and where they come from.

A checkpoint records it, so that stores can be read where the program is not (law 10: state is found by its name).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType, TimestampType

from watersmeet._engine.aggregates.registry import NamedFoldKernel
from watersmeet._plan import folds
from watersmeet._plan.declaration import BYTES, FLAG, HEADERS, NUMBER, TableSchema
from watersmeet._plan.operators.aggregates import AggregateParams
from watersmeet._plan.physical import Operator, Physical, with_recorded_stores, with_stores
from watersmeet._spark.checkpoint.record import Checkpoint, CheckpointFiles
from watersmeet._spark.dataflow.fusion import Fusion, group_numbers
from watersmeet._worker import ended_rows
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.wire import addresses, spread_labels
from watersmeet.windows import SlidingWindows, TimeWindows

_TIME = TimestampType()
_LAST_MS = (2**63 - 1) // 1_000
_TYPES = {NUMBER: _TIME, HEADERS: ended_rows.HEADERS}
"""Of columns whose types are the engine's own."""
_WINDOW = StructType([StructField("start", _TIME), StructField("end", _TIME)])


@dataclass(frozen=True)
class StoreColumns:
    """A store as it is shown."""

    node: str  # the operator that keeps it
    schema: StructType  # of its DataFrame
    columns: Mapping[str, str]  # for each column of the DataFrame but the window, the table's
    whole: bool = False  # whether every shard has all rows
    length: int | None = None  # of its windows from start to end, in ms, where the table does not say their ends
    # of aggregates by name, what they are made of: what is kept becomes the result
    fold: folds.NamedFold | None = None
    stored: str = ""  # name of the table with its rows, where another operator owns it; empty: its own

    @property
    def by_key(self) -> bool:
        """Whether rows lie by the hash of the key that is shown, and not of what it is serialized to."""
        return self.columns["key"] == "key"

    def recorded(self) -> dict[str, Any]:
        """The same as JSON has it, for the checkpoint."""
        record = {**self.__dict__, "schema": self.schema.jsonValue(), "columns": dict(self.columns)}
        if not self.stored:
            del record["stored"]
        if self.fold is not None:
            record["fold"] = self.fold.recorded()
        return record

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> StoreColumns:
        """What `recorded` gives, as it was."""
        fields = dict(record)
        if fields["fold"] is not None:
            fields["fold"] = folds.NamedFold.read(fields["fold"])
        return cls(**{**fields, "schema": StructType.fromJson(fields["schema"])})

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of the table as those of the DataFrame."""
        schema = arrow_schema(self.schema)
        for batch in table.to_batches():
            arrays = [self._column(batch, field).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

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
        name: replace(_store_columns(operator, store.schema), stored="" if name == lies else lies)
        for operator in physical.operators
        for name, store in physical.stores_of(operator.id)
        for lies in (store.schema.name,)
        if store.schema.shown
    }


def _store_columns(operator: Operator, table: TableSchema) -> StoreColumns:
    kinds = dict(table.columns)
    fold = operator.params.fold if isinstance(operator.params, AggregateParams) else None
    if fold is not None:
        kinds["value"] = _aggregate_type(fold)
    columns = _columns(kinds)
    fields = [StructField(name, _TYPES.get(kinds[column], kinds[column])) for name, column in columns.items()]
    if "start" in kinds:
        fields.insert(1, StructField("window", _WINDOW))
    aggregate = fold.how if fold is not None and isinstance(fold.how, folds.NamedFold) else None
    return StoreColumns(operator.node, StructType(fields), columns, table.everywhere, _length(operator), aggregate)


def _aggregate_type(fold: folds.Fold) -> Any:
    """Type of what is shown: of a user's own aggregate, which only the program can finish, what is kept."""
    aggregate = fold.how
    if not isinstance(aggregate, folds.NamedFold) or all(field.finished_anywhere for _, field in aggregate.fields):
        return fold.result
    parts = (
        StructField(name, (fold.result if field.finished_anywhere else fold.state)[name].dataType)
        for name, field in aggregate.fields
    )
    return StructType(list(parts))


def _columns(kinds: Mapping[str, Any]) -> dict[str, str]:
    """The visible columns: the key, its state, then the times; numbers and flags are the engine's own."""
    # what is held back under its serialized key has the key itself beside it
    key = "windowed" if kinds["key"] == BYTES and "windowed" in kinds else "key"
    state = {name: name for name, kind in kinds.items() if name not in ("key", key) and kind not in (FLAG, NUMBER)}
    due = {"due": "due"} if "due" in kinds else {}
    time = "ts" if "ts" in kinds else "end"
    return {"key": key, **state, **due, **({"timestamp": time} if time in kinds else {})}


def _length(operator: Operator) -> int | None:
    windows = getattr(operator.params, "windows", None)
    if isinstance(windows, TimeWindows):
        return windows.size_ms
    return windows.difference_ms if isinstance(windows, SlidingWindows) else None


def _times(column: pa.Array) -> pa.Array:
    """Times as Spark has them; those that it cannot have, beyond the year 294247, are null."""
    in_range = pc.and_(pc.less_equal(column, _LAST_MS), pc.greater_equal(column, -_LAST_MS))
    column = pc.if_else(in_range, column, pa.scalar(None, pa.int64()))
    return column.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


# Where a checkpoint has the tables of a topology, those that several joins read among them (docs/decisions/state.md).
#
# Tables that lie apart until now stay apart, in a changed topology, too: a join that goes on has the rows that it had.


def placement_facts(fusion: Fusion, files: CheckpointFiles, shards: int, tasks: int) -> dict[str, Any]:
    old_addresses = files.binding.addresses if files.binding else {}
    groups = files.binding.level_groups if files.binding else group_numbers(fusion, tasks)
    return _facts(with_recorded_stores(fusion.physical, old_addresses), files, shards, tasks, groups)


def with_placement(checkpoint: Checkpoint, physical: Physical, files: CheckpointFiles) -> Checkpoint:
    """The checkpoint of a changed topology, with the addresses and stores of its tables; unchanged: as it is."""
    if checkpoint.change is None or files.binding is None:
        return checkpoint
    old = files.binding

    def lies(node: str, table: str) -> tuple[object, ...]:
        return tuple(old.addresses.get(node, {}).get(table, ())), old.stored_name(table)

    plan = with_stores(
        physical, {(t.node, t.table): lies(t.from_node, t.from_table) for t in checkpoint.change.continued}
    )
    groups = group_numbers(Fusion(files.folder.spark, physical), checkpoint.facts.tasks)
    facts = replace(checkpoint.facts, **_facts(plan, files, checkpoint.facts.shards, checkpoint.facts.tasks, groups))
    return replace(checkpoint, facts=facts)


def _facts(
    physical: Physical, files: CheckpointFiles, shards: int, tasks: int, groups: Sequence[int]
) -> dict[str, Any]:
    labels = spread_labels(physical, shards, tasks, files.addresses(shards, tasks))
    stores = {name: columns.recorded() for name, columns in columns_of_stores(physical).items()}
    return {"addresses": addresses(physical, labels), "stores": stores, "level_groups": groups}
