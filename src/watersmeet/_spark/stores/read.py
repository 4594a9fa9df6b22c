"""Stores of a checkpoint, read through Spark's own reader of state: `watersmeet.read_state`, `watersmeet.stores`.

Each reading is of one batch, that was committed, and takes no part in the query: it may run or have ended.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from watersmeet._engine.exchange import shard_of
from watersmeet._engine.keys import group_keys, hash_keys
from watersmeet._engine.operators.process_state import lasting
from watersmeet._engine.row_sizes import decode, encode
from watersmeet._engine.rows import Int64s
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.manifest import Run, declared
from watersmeet._engine.state.runs import FolderChunkStore, State
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import CheckpointFacts, started_in
from watersmeet._spark.session import AT_START, check_session
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.process import freeze_imports, give_back
from watersmeet._worker.spark_worker import CHUNKS, MANIFEST
from watersmeet._worker.wire import sparks_hash
from watersmeet.errors import ConfigError
from watersmeet.hints import ByPlace, answered, answering_as, refusing

# Keys of a store that somebody asks for: what they are, and where they lie.


def check_listed(keys: Any, call: str) -> None:
    """Raise where one key stands in place of a list of keys."""
    if isinstance(keys, str | bytes | int | float):
        raise ConfigError(f"keys of {call} must be a list of keys, not {keys!r:.80}.", hint=f"[{keys!r:.80}]")


@dataclass(frozen=True)
class AskedKeys:
    """Keys that are asked for, distinct and in order of their hashes."""

    hashes: Int64s  # their hashes, which ascend
    values: pa.Array  # the keys

    @classmethod
    def of(cls, keys: Sequence[Any], schema: StructType) -> AskedKeys:
        """The keys of a store with this schema."""
        kind = schema["key"].dataType
        plain_keys = [key.asDict(recursive=True) if isinstance(key, Row) else key for key in keys]
        try:
            values = pa.array(plain_keys, type=arrow_type(kind))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"A key is not of the type of the store's keys: {keys!r:.120}.",
                given=", ".join(map(repr, keys)),
                hint=f"They are of the type {kind.simpleString()}; a struct is given as a dict or a Row.",
            ) from error
        groups = group_keys(hash_keys(values), values)
        distinct = values.take(pa.array(groups.first))
        return cls(hash_keys(distinct), distinct)

    @staticmethod
    def of_text(texts: Sequence[str], schema: StructType) -> list[Any]:
        """The keys that these texts stand for: numbers, dates and the like as Arrow reads them, structs as JSON."""
        kind = schema["key"].dataType
        try:
            if isinstance(kind, StructType):
                return [json.loads(text) for text in texts]
            keys: list[Any] = pa.array(texts, pa.string()).cast(arrow_type(kind)).to_pylist()
        except (pa.ArrowException, ValueError) as error:
            raise ConfigError(
                f"A key does not have the type of the store's keys: {', '.join(texts):.120}.",
                given=", ".join(texts),
                hint=f"Its keys are of the type {kind.simpleString()}; a struct is given as JSON.",
            ) from error
        return keys

    def by_label(self, labels: Sequence[int]) -> dict[int, AskedKeys]:
        """Those that lie under each of a table's labels, one for each range of the hash in order."""
        shards = shard_of(self.hashes, len(labels))
        places = {labels[shard]: np.flatnonzero(shards == shard) for shard in np.unique(shards).tolist()}
        return {
            label: AskedKeys(self.hashes[positions], self.values.take(pa.array(positions)))
            for label, positions in places.items()
        }

    def frame(self, spark: SparkSession, schema: StructType) -> DataFrame:
        return spark.createDataFrame(pa.table({"key": self.values}), StructType([schema["key"]]))

    def may_lie_in(self, run: Run) -> bool:
        return bool(((self.hashes >= run.low) & (self.hashes <= run.high)).any())


# Rows of a store in the workers: a hash range's chunks go to the disk of the task, and come back merged.
#
# Law 9: a task holds some megabytes of a range at a time, however large it is, since all runs lie in files.


class RowsView(Protocol):
    """The way in which a table's rows are shown."""

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]: ...


class EngineRows:
    """Rows as the engine keeps them, all columns."""

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()


@dataclass(frozen=True)
class StoreRows:
    """mapInArrow function: chunks of hash ranges, as (label, run, chunk, content), to rows of the store's DataFrame."""

    store: str  # the store's name
    shown: RowsView  # what is shown of it
    manifests: Mapping[int, bytes]  # of each range, by its label
    keys: Mapping[int, AskedKeys] | None = None  # of each range the keys that are asked for; None: all

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's ranges."""
        freeze_imports()
        with tempfile.TemporaryDirectory(prefix="watersmeet-state-") as name:
            folder = Path(name)
            for label, chunks in sorted(self._stores_in(batches, folder).items()):
                yield from self._rows(chunks, folder / "runs", None if self.keys is None else self.keys[label])
        give_back()

    def _stores_in(self, batches: Iterator[pa.RecordBatch], folder: Path) -> dict[int, FolderChunkStore]:
        """The ranges with chunks in the folder now, by label, each in one of its own."""
        by_label: dict[int, FolderChunkStore] = {}
        for batch in batches:
            for at, label in enumerate(batch.column("label").to_pylist()):
                if label not in by_label:
                    by_label[label] = FolderChunkStore(folder / str(label), self.manifests[label])
                    by_label[label].folder.mkdir()
                run, chunk, content = (batch.column(name)[at] for name in ("run", "chunk", "content"))
                by_label[label].put_chunk(run.as_py(), chunk.as_py(), content.as_buffer())
        return by_label

    def _rows(self, chunks: FolderChunkStore, runs: Path, keys: AskedKeys | None) -> Iterator[pa.RecordBatch]:
        entry = mf.read(chunks.manifest or b"").tables[self.store]
        state = State(chunks, RunCache(runs))
        table = state.table(declared(self.store, entry.schema))
        if keys is None:
            tables = table.scan()
        else:
            tables = iter([table.rows(keys.hashes, keys.values.cast(entry.schema.field("key").type)).rows])
        for rows in tables:
            yield from self.shown.rows(lasting(state, rows).replace_schema_metadata(entry.schema.metadata))


# A job over some partitions of a frame: those of Spark's state in which the hash ranges of some keys lie (law 10).
#
# Spark's reader of state has no predicates, and a DataFrame no way to leave partitions out; a job has.

SERIALIZED = "content binary"
_ARROW = pa.schema([("content", pa.binary())])


@dataclass(frozen=True)
class Serialized:
    """mapInArrow function: rows of a store, each batch as one value, so that a job can give them back."""

    rows: StoreRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.rows(batches):
            yield pa.RecordBatch.from_arrays([pa.array([encode(batch)], pa.binary())], schema=_ARROW)


def partition_of(label: int, tasks: int) -> int:
    return int(sparks_hash(np.array([label], dtype=np.int32))[0] % tasks)


def collected(frame: DataFrame, partitions: Sequence[int], count: int) -> list[Row]:
    """The rows of some partitions of a frame that has `count`; the others are not touched.

    Where Spark has made other partitions of them, all are read.
    """
    rows = frame.rdd
    if rows.getNumPartitions() != count:
        return frame.collect()
    result: list[Row] = frame.sparkSession.sparkContext.runJob(rows, list, sorted(set(partitions)))
    return result


def deserialized(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """What `Serialized` has given."""
    return pa.concat_tables([schema.empty_table(), *(decode(bytes(row["content"])) for row in rows)])


_KEPT = int(AT_START["spark.sql.streaming.minBatchesToRetain"])
_LEVEL = re.compile(r"/state/(\d+)/_metadata/v2/\d+$")


@refusing("[...]")
@answering_as(None)
@dataclass(frozen=True)
class Store:
    """A store of a checkpoint.

    Parameters
    ----------
    name : as `store=` names it, or as `describe` does.
    node : the operator that keeps it.
    rows : how many rows lie in it, those among them that newer ones replace or delete and no merge has removed yet.
    bytes : their size in memory; in the checkpoint they are compressed.
    schema : columns of `read_state`.
    batch : the batch that has left it so; None: there was none yet.
    """

    name: str
    node: str
    rows: int
    bytes: int
    schema: StructType
    batch: int | None


@answered
def read_state(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    store: str,
    *,
    batch: int | None = None,
    keys: Sequence[Any] | None = None,
) -> DataFrame:
    """A store as a DataFrame, as a batch has left it; the query may run meanwhile, or have ended.

    Parameters
    ----------
    spark : the session that reads.
    checkpoint : the folder that the query was started with.
    store : name of the store, as `store=` names it, or as `describe` does (`stores` lists them).
    batch : number of a batch with state that Spark still keeps, the last ten; None: the last that was committed.
    keys : keys of the wanted rows, a struct as a dict or a Row; None: all. Only the hash ranges in which they lie
        are read, at once: the DataFrame holds their rows.

    Returns
    -------
    DataFrame : key, value and timestamp; of windows the column window (start and end), of a join's stores also what
        it keeps beside. The batch is the same whenever the DataFrame is evaluated; once Spark has let go of its state,
        evaluation fails.

    Raises
    ------
    ConfigError : the folder has no topology of watersmeet, no such store or no such batch, or a key is of another type.

    Examples
    --------
    >>> wm.read_state(spark, "/data/orders", "open").orderBy("key").show()  # doctest: +SKIP
    """
    check_session(spark, "wm.read_state(spark, checkpoint, store)")
    check_listed(keys, "read_state")
    metadata = started_in(Folder(spark, _checkpoint_path(checkpoint)))
    facts, folder = metadata.facts, metadata.spark_folder
    columns = _columns_of(facts, store)
    number = _batch(folder, batch)
    if number is None:
        return spark.createDataFrame([], columns.schema)
    tables = facts.addresses[columns.node]
    labels = tables[store][:1] if columns.whole else tables[store]
    if keys is None:
        return StateReader(folder, number).rows(store, columns, labels)
    lookup = AskedKeys.of(keys, columns.schema)
    if not columns.by_key:
        everything = StateReader(folder, number).rows(store, columns, labels)
        return everything.join(lookup.frame(spark, columns.schema), "key", "left_semi")
    return StateReader(folder, number, facts.tasks).rows_of_keys(store, columns, lookup.by_label(labels))


def key_values(spark: SparkSession, checkpoint: str, store: str, texts: Sequence[str]) -> list[Any]:
    """The keys of a store that texts stand for; see `AskedKeys.of_text`."""
    return AskedKeys.of_text(texts, _columns_of(started_in(Folder(spark, checkpoint)).facts, store).schema)


@answered
def stores(spark: SparkSession, checkpoint: str | os.PathLike[str], *, batch: int | None = None) -> list[Store]:
    """The stores of a checkpoint, as a batch has left them.

    Parameters
    ----------
    spark : the session that reads.
    checkpoint : the folder that the query was started with.
    batch : as in `read_state`.

    Raises
    ------
    ConfigError : the folder has no topology of watersmeet, or no such batch.
    """
    check_session(spark, "wm.stores(spark, checkpoint)")
    metadata = started_in(Folder(spark, _checkpoint_path(checkpoint)))
    facts, folder = metadata.facts, metadata.spark_folder
    number = _batch(folder, batch)
    manifests = {} if number is None else StateReader(folder, number).manifests()
    listing = []
    for name, record in facts.stores.items():
        columns = StoreColumns.read(record)
        labels = facts.addresses[columns.node][name]
        tables = [manifests[label][1].tables for label in labels[: 1 if columns.whole else None] if label in manifests]
        table_name = facts.stored_name(name)
        levels = [level for entries in tables if table_name in entries for level in entries[table_name].levels]
        size = sum(piece.size for level in levels for piece in level.pieces())
        listing.append(Store(name, columns.node, sum(level.rows for level in levels), size, columns.schema, number))
    by_name = "next(store for store in wm.stores(...) if store.name == {0!r}); rows: wm.read_state(spark, '...', {0!r})"
    return ByPlace(listing, "wm.stores(...)", by_name)


@dataclass(frozen=True)
class StateReader:
    """Spark's reader of one batch's state."""

    folder: Folder  # the checkpoint's
    batch: int  # the batch
    tasks: int = 0  # partitions of the state, where some of them alone are to be read

    def manifests(self, labels: Sequence[int] | None = None) -> dict[int, tuple[int, mf.Manifest, bytes]]:
        """Of each label the number that Spark gives its level, and its manifest, also as it is stored.

        Parameters
        ----------
        labels : the wanted ones, so that only their partitions are read; None: all.
        """
        levels = self.levels()
        frames = [
            self.state(level, MANIFEST).select(F.lit(level).alias("level"), "key.label", "value.content")
            for level in levels
        ]
        if not frames:
            return {}
        union = reduce(DataFrame.union, frames)
        rows = union.collect() if labels is None else self._collected(union, labels, len(levels))
        return {row.label: (row.level, mf.read(bytes(row.content)), bytes(row.content)) for row in rows}

    def rows(self, store: str, columns: StoreColumns, labels: Sequence[int]) -> DataFrame:
        """The rows that lie under these labels."""
        manifests, store = self.manifests(), columns.stored or store
        runs = {label: _runs(manifests[label][1], store) for label in labels if label in manifests}
        runs_by_label = {label: shard_runs for label, shard_runs in runs.items() if shard_runs}
        if not runs_by_label:
            return self.folder.spark.createDataFrame([], columns.schema)
        place = F.array_position(F.array(*map(F.lit, runs_by_label)), F.col("label")).cast("int") - 1
        return (
            self._chunks(manifests[next(iter(runs_by_label))][0], runs_by_label)
            .repartitionById(len(runs_by_label), place)
            .mapInArrow(
                StoreRows(store, columns, {label: manifests[label][2] for label in runs_by_label}), columns.schema
            )
        )

    def engine_rows(self, store: str, labels: Sequence[int]) -> DataFrame:
        """The rows of a table in state, by its name there and its labels, as the engine's blobs (`content`)."""
        manifests = self.manifests()
        runs = {label: _runs(manifests[label][1], store) for label in labels if label in manifests}
        runs_by_label = {label: shard_runs for label, shard_runs in runs.items() if shard_runs}
        if not runs_by_label:
            return self.folder.spark.createDataFrame([], SERIALIZED)
        place = F.array_position(F.array(*map(F.lit, runs_by_label)), F.col("label")).cast("int") - 1
        chunks = self._chunks(manifests[next(iter(runs_by_label))][0], runs_by_label).repartitionById(
            len(runs_by_label), place
        )
        rows = StoreRows(store, EngineRows(), {label: manifests[label][2] for label in runs_by_label})
        return chunks.mapInArrow(Serialized(rows), SERIALIZED)

    def rows_of_keys(self, store: str, columns: StoreColumns, keys: Mapping[int, AskedKeys]) -> DataFrame:
        """The rows of some keys, by the labels under which they lie."""
        manifests, store = self.manifests(list(keys)), columns.stored or store
        lookups = {label: (manifests[label][1], subset) for label, subset in keys.items() if label in manifests}
        runs = {
            label: [r for r in _runs(entry, store) if subset.may_lie_in(r)]
            for label, (entry, subset) in lookups.items()
        }
        runs_by_label = {label: shard_runs for label, shard_runs in runs.items() if shard_runs}
        schema = arrow_schema(columns.schema)
        if not runs_by_label:
            return self.folder.spark.createDataFrame([], columns.schema)
        rows = StoreRows(store, columns, {label: manifests[label][2] for label in runs_by_label}, keys)
        frame = self._chunks(manifests[next(iter(runs_by_label))][0], runs_by_label).mapInArrow(
            Serialized(rows), SERIALIZED
        )
        table = deserialized(self._collected(frame, list(runs_by_label)), schema)
        return self.folder.spark.createDataFrame(table, columns.schema)

    def _collected(self, frame: DataFrame, labels: Sequence[int], levels: int = 1) -> list[Row]:
        partitions = [partition_of(label, self.tasks) for label in labels]
        return collected(
            frame, [n * self.tasks + partition for n in range(levels) for partition in partitions], levels * self.tasks
        )

    def _chunks(self, level: int, runs_by_label: Mapping[int, Sequence[mf.Run]]) -> DataFrame:
        """The chunks of runs, by label: (label, run, chunk, content)."""
        key = "user_map_key"
        chunks = self.state(level, CHUNKS).select(
            "key.label", f"{key}.run", f"{key}.chunk", F.col("user_map_value.content").alias("content")
        )
        run_ids = sorted({run.id for runs in runs_by_label.values() for run in runs})
        return chunks.filter(F.col("label").isin(*runs_by_label) & F.col("run").isin(*run_ids))

    def levels(self) -> list[int]:
        files = self.folder.contents("state/[0-9]*/_metadata/v2/[0-9]*")
        return sorted({int(match[1]) for path in files if (match := _LEVEL.search(path))})

    def state(self, level: int, variable: str) -> DataFrame:
        reader = self.folder.spark.read.format("statestore").option("batchId", self.batch)
        return reader.option("operatorId", level).option("stateVarName", variable).load(self.folder.path)


def _runs(manifest: mf.Manifest, store: str) -> list[mf.Run]:
    entry = manifest.tables.get(store)
    return [] if entry is None else list(entry.runs())


def _checkpoint_path(checkpoint: Any) -> str:
    """The folder of a checkpoint, as a text."""
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise ConfigError(
            f"checkpoint must be the folder of a query: checkpoint={checkpoint!r:.80}.",
            hint="The one that was given to topology.start(spark, checkpoint='/data/orders').",
        )
    return os.fspath(checkpoint)


def _columns_of(facts: CheckpointFacts, store: str) -> StoreColumns:
    if store in facts.stores:
        return StoreColumns.read(facts.stores[store])
    raise ConfigError(
        f"Unknown store {store!r}: the checkpoint does not have it.",
        hint=f"Stores: {', '.join(sorted(facts.stores)) or 'none'}.",
    )


def _batch(folder: Folder, number: int | None) -> int | None:
    """The batch to read; None: none has been committed."""
    batches = sorted(int(name) for name in folder.names("commits/[0-9]*"))[-_KEPT:]
    if number is None:
        return batches[-1] if batches else None
    if number in batches:
        return number
    raise ConfigError(
        f"The checkpoint does not have the state of batch={number!r}.",
        hint=f"It has the batches {batches[0]} to {batches[-1]}." if batches else "No batch has been committed yet.",
    )
