"""Stores of a checkpoint, read through Spark's own reader of state: `watersmeet.read_state`, `watersmeet.stores`.

Each reading is of one batch, that was committed, and takes no part in the query: it may run or have ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from watersmeet._engine.state import manifest as mf
from watersmeet._spark.checkpoint.checkpoint import Checkpoint, started_in
from watersmeet._spark.checkpoint.facts import CheckpointFacts
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.session.check import check_session
from watersmeet._spark.session.settings import AT_START
from watersmeet._spark.stores.keyed import SERIALIZED, Serialized, collected, deserialized, partition_of
from watersmeet._spark.stores.keys import AskedKeys
from watersmeet._spark.stores.shards import EngineRows, StoreRows
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.state import CHUNKS, MANIFEST
from watersmeet.errors import ConfigError
from watersmeet.names import answered

_KEPT = int(AT_START["spark.sql.streaming.minBatchesToRetain"])
_LEVEL = re.compile(r"/state/(\d+)/_metadata/v2/\d+$")


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
    begun = _begun(Folder(spark, os.fspath(checkpoint)))
    facts, folder = begun.facts, begun.place
    shown = _columns_of(facts, store)
    number = _batch(folder, batch)
    if number is None:
        return spark.createDataFrame([], shown.schema)
    tables = facts.addresses[shown.node]
    labels = tables[store][:1] if shown.whole else tables[store]
    if keys is None:
        return StateReader(folder, number).rows(store, shown, labels)
    wanted = AskedKeys.of(keys, shown.schema)
    if not shown.by_key:
        everything = StateReader(folder, number).rows(store, shown, labels)
        return everything.join(wanted.frame(spark, shown.schema), "key", "left_semi")
    return StateReader(folder, number, facts.tasks).rows_of_keys(store, shown, wanted.by_label(labels))


def key_values(spark: SparkSession, checkpoint: str, store: str, texts: Sequence[str]) -> list[Any]:
    """The keys of a store that texts stand for; see `AskedKeys.of_text`.

    Raises
    ------
    ConfigError : as `read_state` does.
    """
    return AskedKeys.of_text(texts, _columns_of(_begun(Folder(spark, checkpoint)).facts, store).schema)


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
    begun = _begun(Folder(spark, os.fspath(checkpoint)))
    facts, folder = begun.facts, begun.place
    number = _batch(folder, batch)
    manifests = {} if number is None else StateReader(folder, number).manifests()
    found = []
    for name, said in facts.stores.items():
        shown = StoreColumns.read(said)
        labels = facts.addresses[shown.node][name]
        tables = [manifests[label][1].tables for label in labels[: 1 if shown.whole else None] if label in manifests]
        stored = facts.stored_name(name)
        levels = [level for entries in tables if stored in entries for level in entries[stored].levels]
        size = sum(piece.size for level in levels for piece in level.pieces())
        found.append(Store(name, shown.node, sum(level.rows for level in levels), size, shown.schema, number))
    return found


@dataclass(frozen=True)
class StateReader:
    """Spark's reader of one batch's state.

    Parameters
    ----------
    folder : the checkpoint's.
    batch : the batch.
    tasks : partitions of the state, where some of them alone are to be read.
    """

    folder: Folder
    batch: int
    tasks: int = 0

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
        both = reduce(DataFrame.union, frames)
        rows = both.collect() if labels is None else self._collected(both, labels, len(levels))
        return {row.label: (row.level, mf.read(bytes(row.content)), bytes(row.content)) for row in rows}

    def rows(self, store: str, shown: StoreColumns, labels: Sequence[int]) -> DataFrame:
        """The rows that lie under these labels."""
        manifests, store = self.manifests(), shown.stored or store
        runs = {label: _runs(manifests[label][1], store) for label in labels if label in manifests}
        held = {label: some for label, some in runs.items() if some}
        if not held:
            return self.folder.spark.createDataFrame([], shown.schema)
        place = F.array_position(F.array(*map(F.lit, held)), F.col("label")).cast("int") - 1
        return (
            self._chunks(manifests[next(iter(held))][0], held)
            .repartitionById(len(held), place)
            .mapInArrow(StoreRows(store, shown, {label: manifests[label][2] for label in held}), shown.schema)
        )

    def engine_rows(self, store: str, labels: Sequence[int]) -> DataFrame:
        """The rows of a table in state, by its name there and its labels, as the engine's blobs (`content`)."""
        manifests = self.manifests()
        runs = {label: _runs(manifests[label][1], store) for label in labels if label in manifests}
        held = {label: some for label, some in runs.items() if some}
        if not held:
            return self.folder.spark.createDataFrame([], SERIALIZED)
        place = F.array_position(F.array(*map(F.lit, held)), F.col("label")).cast("int") - 1
        chunks = self._chunks(manifests[next(iter(held))][0], held).repartitionById(len(held), place)
        rows = StoreRows(store, EngineRows(), {label: manifests[label][2] for label in held})
        return chunks.mapInArrow(Serialized(rows), SERIALIZED)

    def rows_of_keys(self, store: str, shown: StoreColumns, keys: Mapping[int, AskedKeys]) -> DataFrame:
        """The rows of some keys, by the labels under which they lie."""
        manifests, store = self.manifests(list(keys)), shown.stored or store
        asked = {label: (manifests[label][1], some) for label, some in keys.items() if label in manifests}
        runs = {label: [r for r in _runs(entry, store) if some.may_lie_in(r)] for label, (entry, some) in asked.items()}
        held = {label: some for label, some in runs.items() if some}
        schema = arrow_schema(shown.schema)
        if not held:
            return self.folder.spark.createDataFrame([], shown.schema)
        rows = StoreRows(store, shown, {label: manifests[label][2] for label in held}, keys)
        made = self._chunks(manifests[next(iter(held))][0], held).mapInArrow(Serialized(rows), SERIALIZED)
        found = deserialized(self._collected(made, list(held)), schema)
        return self.folder.spark.createDataFrame(found, shown.schema)

    def _collected(self, frame: DataFrame, labels: Sequence[int], levels: int = 1) -> list[Row]:
        """Rows of the partitions in which labels lie, of a frame with those of each level behind one another."""
        own = [partition_of(label, self.tasks) for label in labels]
        return collected(frame, [n * self.tasks + each for n in range(levels) for each in own], levels * self.tasks)

    def _chunks(self, level: int, held: Mapping[int, Sequence[mf.Run]]) -> DataFrame:
        """The chunks of runs, by label: (label, run, chunk, content)."""
        key = "user_map_key"
        chunks = self.state(level, CHUNKS).select(
            "key.label", f"{key}.run", f"{key}.chunk", F.col("user_map_value.content").alias("content")
        )
        wanted = sorted({run.id for runs in held.values() for run in runs})
        return chunks.filter(F.col("label").isin(*held) & F.col("run").isin(*wanted))

    def levels(self) -> list[int]:
        """The numbers that Spark gives the levels."""
        files = self.folder.contents("state/[0-9]*/_metadata/v2/[0-9]*")
        return sorted({int(found[1]) for path in files if (found := _LEVEL.search(path))})

    def state(self, level: int, variable: str) -> DataFrame:
        """A variable of a level."""
        reader = self.folder.spark.read.format("statestore").option("batchId", self.batch)
        return reader.option("operatorId", level).option("stateVarName", variable).load(self.folder.path)


def _runs(manifest: mf.Manifest, store: str) -> list[mf.Run]:
    entry = manifest.tables.get(store)
    return [] if entry is None else list(entry.runs())


def _begun(folder: Folder) -> Checkpoint:
    """The checkpoint, with what it records.

    Raises
    ------
    ConfigError : it records nothing, or was begun by a watersmeet that recorded no stores.
    """
    last = started_in(folder)
    if not last.facts.stores and any(last.facts.addresses.values()):
        raise ConfigError(
            "An earlier watersmeet wrote the checkpoint. It does not record how to read its stores.",
            given=folder,
            hint="Start the topology with it once.",
        )
    return last


def _columns_of(facts: CheckpointFacts, store: str) -> StoreColumns:
    if store in facts.stores:
        return StoreColumns.read(facts.stores[store])
    raise ConfigError(
        f"Unknown store {store!r}: the checkpoint does not have it.",
        given=repr(store),
        hint=f"Stores: {', '.join(sorted(facts.stores)) or 'none'}.",
    )


def _batch(folder: Folder, wanted: int | None) -> int | None:
    """The batch to read; None: none has been committed.

    Raises
    ------
    ConfigError : Spark does not keep the state of the one that is wanted.
    """
    kept = sorted(int(name) for name in folder.names("commits/[0-9]*"))[-_KEPT:]
    if wanted is None:
        return kept[-1] if kept else None
    if wanted in kept:
        return wanted
    raise ConfigError(
        f"The checkpoint does not have the state of batch={wanted!r}.",
        given=f"batch={wanted!r}",
        hint=f"It has the batches {kept[0]} to {kept[-1]}." if kept else "No batch has been committed yet.",
    )
