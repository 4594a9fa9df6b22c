"""A changed topology upon the checkpoint of the one before.

The checkpoint is *handed over* (`Handover`): state, offsets and numbers of batches. A table *continues* where it has
rows of the topology before (`ContinuedTable`). Its state is *carried* into the shards of the new levels, by one batch
(`CarryingProcessor`); on the way it may be divided over another number of shards (`Rescales`).

Everything is made ready in a folder of its own, which nobody reads before the checkpoint's record names it: the record
is written last, in one piece, so that a start after a crash finds the old topology or the new one
(docs/decisions/changes.md). In that folder Spark finds a batch that was committed, with the number of the last one,
state as of its end, and where each source is.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from watersmeet._engine.operators.recompute import differing_rows, run_anew
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.carry import CarriedTables, carry, divide, put_together
from watersmeet._engine.state.runs import FolderChunkStore, State
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.evolve import Change, ContinuedTable, Difference, Recomputation, Replacement, replacement
from watersmeet._plan.physical import Physical, with_recorded_stores
from watersmeet._plan.reasons import FUNCTION_ERROR
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import (
    CHANGED,
    REPLACED,
    VOID,
    Begin,
    Checkpoint,
    CheckpointFacts,
    CheckpointFiles,
    binding_facts,
    carried_offsets,
    changed_functions,
    source_indexes,
    with_tasks,
)
from watersmeet._spark.dataflow.compile import SparkLayout, compile_levels
from watersmeet._spark.dataflow.level import (
    DEFAULT_CACHE,
    LevelOperators,
    LevelProcessor,
    in_blobs,
    passed_on,
    pickled_small,
)
from watersmeet._spark.session import exclusive_settings
from watersmeet._spark.sources.bootstrap import source_rows
from watersmeet._spark.sources.rows import Scan
from watersmeet._spark.stores.read import StateReader
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.ended_rows import HEADERS, DeadLetterWriter
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.process import freeze_imports, give_back
from watersmeet._worker.spark_worker import CHUNKS, SparkChunkStore
from watersmeet._worker.wire import END, WIRE, Labels, WireRow, WireSettings, output_port, spread_labels
from watersmeet.errors import ChangedTopology, FunctionError

if TYPE_CHECKING:
    import pandas as pd


# Levels that carry state: the first batch of a changed topology's state, made of what the one before has left.
#
# The query that runs them has the levels of the topology, with the same variables, and nothing else: chunks come in,
# each under the label that it has from now on, and every level keeps its own and passes on the rest.

Parts = Mapping[int, Sequence[tuple[bytes, CarriedTables]]]
"""By its label what is carried into a shard: manifests, and what of each."""

PIECE = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("level", IntegerType(), True),
        StructField("run", StringType(), True),
        StructField("chunk", IntegerType(), True),
        StructField("content", BinaryType(), True),
    ]
)
"""A chunk and the label and level under which it lies from now on.

A shard without chunks has a row without one. A manifest of a shard's part has no run; the number of its chunk gives the
order of the parts (`Rescales`).
"""


class CarryingProcessor(StatefulProcessor):
    """A level that keeps what is its own.

    Parameters
    ----------
    level : its number, 1 for the first.
    parts : what is carried into its shards.
    """

    def __init__(self, level: int, parts: Parts) -> None:
        self._level = level
        self._parts = parts
        self._store: SparkChunkStore | None = None

    def init(self, handle: Any) -> None:
        """Declare the state variables."""
        self._store = SparkChunkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Keep the chunks of a shard of this level; pass on those of the others."""
        freeze_imports()
        label, store, owned = int(key[0]), self._store, False
        manifests: dict[int, list[bytes]] = {}
        assert store is not None
        for frame in rows:
            if frame["level"].iloc[0] != self._level:
                yield frame
                continue
            owned = True
            for run, chunk, content in zip(frame["run"], frame["chunk"], frame["content"], strict=True):
                if run is not None:
                    store.put_chunk(run, int(chunk), bytes(content))
                elif content is not None:
                    manifests.setdefault(int(chunk), []).append(bytes(content))
        if manifests:
            # the parts of one old shard, of several operators, have tables of their own
            in_order = [part for number in sorted(manifests) for part in sorted(manifests[number])]
            store.put_manifest(put_together(in_order))
        elif owned:
            with tempfile.TemporaryDirectory(prefix="watersmeet-change-") as folder:
                carry(store, self._parts[label], RunCache(Path(folder) / "runs"))
        if owned:
            give_back()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class CarryingLevels:
    """The levels of a topology, which carry its state."""

    levels: int  # of the topology
    parts: Mapping[int, Parts] = field(repr=False)  # what is carried into each shard, by level

    def over(self, pieces: DataFrame) -> DataFrame:
        """The levels over a stream of pieces."""
        # as the rows of a query are: state knows whether its key may be null
        frame: DataFrame = pieces.withColumn("label", F.coalesce("label", F.lit(0)))
        for level in range(1, self.levels + 1):
            keeps = pickled_small(CarryingProcessor(level, self.parts.get(level, {})))
            frame = frame.groupBy("label").transformWithStateInPandas(
                statefulProcessor=keeps, outputStructType=PIECE, outputMode="append", timeMode="None"
            )
        return frame


# Levels that compute tables anew: run once, over the state that was carried into a changed topology.
#
# Each shard of an operator that has a part in it gets a row of its own, on which it begins. A replaced table's shards
# send the rows that differ, as wire rows for their own side: these leave the levels, and the query's first batch reads
# them.

BEGIN = 2**31 - 2
"""Port of the row that tells a shard to begin."""
COUNTS = 2**31 - 3
"""Port of how many rows of a shard differ, as JSON."""


class ReplacingProcessor(LevelProcessor):
    """Computes operators of one level anew, and compares tables; other operators of the level do nothing.

    Parameters
    ----------
    roles : by the id of the operator, what it does.
    options : as of every level; results are packed where they are made.
    """

    def __init__(
        self,
        roles: Mapping[int, Recomputation | Difference],
        operators: LevelOperators,
        common: WireSettings,
        **options: Any,
    ) -> None:
        super().__init__(operators, common, cache_root=options["cache_root"], gathers=False)
        self._roles = roles

    def ran(self, label: int, blobs: Iterator[tuple[int, bytes]], state_of: Callable[[], State]) -> Iterator[WireRow]:
        target, shard = self._common.labels.place(label)
        context, role = self._operators.settings.get(target), self._roles.get(target)
        if context is None:
            yield from passed_on(label, blobs)
            return
        if role is None:
            return
        rows = self._operators.inputs(target, ((port, content) for port, content in blobs if port != BEGIN))
        inputs = rows.get(target, {})
        if isinstance(role, Difference):
            counts, tables = differing_rows(context, role, inputs, state_of())
            yield label, COUNTS, json.dumps(asdict(counts)).encode()
            yield from in_blobs(tables, label, role.port)
            return
        drops, fused = DeadLetterWriter(), self._operators.fused.get(target)
        results = run_anew(context, role, inputs, state_of(), drops)
        if fused is None:
            yield from in_blobs(results, label, output_port(target))
        else:
            for table in results:
                yield from self._fused_rows(table, fused, shard, context, drops)
        _refuse_raised(drops)


def _refuse_raised(drops: DeadLetterWriter) -> None:
    """Raise where a function has failed: a row would be gone that nobody has deleted."""
    for (node, reason), count in drops.items():
        if reason == FUNCTION_ERROR.name and count:
            raise FunctionError(
                f"A function of {node!r} raises for {count} rows of a table that replace= computes anew.",
                hint="on_error= holds for records, and not for a table's rows: correct the function.",
            )


def replacing_frame(
    physical: Physical,
    wire: DataFrame,
    inputs: Sequence[Scan],
    spread: tuple[Labels, int],
    roles: Mapping[int, Recomputation | Difference],
) -> DataFrame:
    """The wire rows that leave the levels.

    Parameters
    ----------
    wire : wire rows that tell shards to begin.
    inputs : the rows of tables that are read.
    spread : the labels, and the number of tasks.
    """
    labels, tasks = spread
    layout = SparkLayout(
        labels=labels,
        tasks=tasks,
        cache_root=DEFAULT_CACHE,
        headers=physical.plan.headers,
        cases=False,
        processor=partial(ReplacingProcessor, dict(roles)),
    )
    return compile_levels(physical, wire, inputs, layout)


# The rows by which replaced tables differ from their new contents: computed, counted, read by the first batch.
#
# They lie beside the changed topology's logs and state, in a folder that nobody reads before the record names it.

PLACE = "replaced"
"""Among the folders of a changed topology: the rows that differ."""


@dataclass(frozen=True)
class ReplacedTables:
    """The replaced tables of a changed topology."""

    physical: Physical  # the topology from now on
    facts: CheckpointFacts  # what the checkpoint is to record of it
    target: Folder  # where its logs and state lie
    replacement: Replacement = field(repr=False)  # what is computed
    rows: Callable[[str], DataFrame]  # gives the rows of a store until now: key, value and timestamp

    def compute(self, pieces: Folder) -> dict[str, Counter[str]]:
        """Run one batch of the levels, which leaves the rows that differ; how many each table has, by store.

        Parameters
        ----------
        pieces : what the levels have read before; this batch reads what is added.
        """
        spark, labels, output = self.target.spark, self._labels, self.target.below("found")
        begins = [(label, None, None, None, None) for number in self._roles for label in labels.of_target(number)]
        spark.createDataFrame(begins, PIECE).write.mode("append").parquet(pieces.path)
        read = spark.readStream.schema(PIECE).parquet(pieces.path)
        start_rows = read.select(
            F.coalesce("label", F.lit(0)).alias("label"),
            F.lit(BEGIN).alias("port"),
            F.lit(b"").alias("blob"),
        )
        inputs = self._inputs()
        frame = replacing_frame(self.physical, start_rows, inputs, (labels, self.facts.tasks), self._roles)
        ports = [role.port for role in self._roles.values() if isinstance(role, Difference)]
        results = frame.filter(F.col("port").isin(COUNTS, *ports)).select(*WIRE.names)

        def write(rows: DataFrame, _: int) -> None:
            rows.write.mode("overwrite").parquet(output.path)

        self._expect(len(inputs))
        # Spark's own sink of files would look for those of the batch before, which it has not written
        writer = results.writeStream.foreachBatch(write).trigger(once=True)
        writer.option("checkpointLocation", self.target.path).start().awaitTermination()
        return self._with_ends(spark.read.schema(WIRE).parquet(output.path), labels)

    def _inputs(self) -> list[Scan]:
        """The rows of the tables that are read, as a query reads what an input begins with."""
        numbers = {source.name: number for number, source in enumerate(self.physical.plan.sources)}
        scans = []
        for name, store in self.replacement.inputs.items():
            number, copy = numbers[name], self.target.below(f"rows/{numbers[name]}")
            snapshot = self.rows(store).select(F.unix_millis("timestamp").alias("ts"), "key", "value")
            snapshot.write.parquet(copy.path)
            read = self.target.spark.readStream.schema(snapshot.schema).parquet(copy.path)
            frame = source_rows(read.withColumn("order_0", F.col("ts")), number, ["order_0"])
            frame = frame.withColumn("headers", F.lit(None).cast(HEADERS)) if self.physical.plan.headers else frame
            scans.append(Scan(frame.coalesce(1), (name,), ("order_0",), begins=True, snapshot=True))
        return scans

    def _expect(self, inputs: int) -> None:
        """Give the batch before more sources, of which it has read nothing: Spark wants as many as there are now."""
        plan = "offsets/0"
        self.target.put(plan, self.target.text(plan).rstrip("\n") + f"\n{VOID}" * inputs)

    def _with_ends(self, wire: DataFrame, labels: Labels) -> dict[str, Counter[str]]:
        """Write the rows to where the query reads them, with the ends that each batch's rows have behind them."""
        ends = wire.sparkSession.createDataFrame([(label, END, b"") for label in labels.ends], WIRE)
        rows = wire.filter(F.col("port") != COUNTS).unionByName(ends)
        rows.coalesce(self.facts.tasks).write.mode("overwrite").parquet(self.target.below(PLACE).path)
        counts: dict[str, Counter[str]] = {}
        for row in wire.filter(F.col("port") == COUNTS).select("label", "blob").collect():
            operator = self.physical.operators[labels.place(row["label"])[0]]
            differences: Mapping[str, int] = json.loads(bytes(row["blob"]))
            counts.setdefault(operator.tables[0].name, Counter()).update(differences)
        return counts

    @property
    def _roles(self) -> Mapping[int, Recomputation | Difference]:
        return self.replacement.roles

    @property
    def _labels(self) -> Labels:
        return spread_labels(self.physical, self.facts.shards, self.facts.tasks, self.facts.addresses)


def asked_replacement(
    physical: Physical, names: Sequence[str], files: CheckpointFiles, facts: CheckpointFacts
) -> Replacement | None:
    """The operators that are computed anew to replace tables of a checkpoint; None if no definition has changed.

    Parameters
    ----------
    names : as `replace=` has them.
    facts : what the checkpoint is to record.
    """
    old = files.binding
    if not names or old is None:
        return None
    functions = changed_functions(binding_facts(old, facts), facts)
    request = replacement(physical, names, old.described, facts.described, functions.keys())
    return request if request.roles or request.refused else None


def with_counts(change: Change, differing: Mapping[str, Mapping[str, int]]) -> Change:
    """A change that says how many rows of each replaced table differ."""
    items = (
        replace(item, reason=", ".join(f"{count} rows {kind}" for kind, count in differing[item.name].items()))
        if item.outcome == "replaced" and item.name in differing
        else item
        for item in change.items
    )
    return replace(change, items=tuple(items))


def replaced_rows(checkpoint: Checkpoint) -> list[DataFrame]:
    """The rows as a stream of wire rows, if the checkpoint has replaced tables, or is to have them."""
    if REPLACED not in checkpoint.facts.inputs:
        return []
    folder = checkpoint.spark_folder.below(PLACE)
    if checkpoint.change is not None:
        # the query is made before its rows are; Spark reads no folder that is not there
        folder.create("_begun", "")
    return [folder.spark.readStream.schema(WIRE).parquet(folder.path)]


# State of one number of shards divided over another: chunks of old shards in, chunks and manifests of parts out.
#
# A task takes one old shard after the other. Its chunks go to the task's disk, its rows come back in order of hash, and
# each new shard that overlaps it gets a part of its own: chunks, and a manifest (`_engine.state.carry`). The levels
# that carry state put the parts together (`CarryingProcessor`). Law 9: a task holds some megabytes at a time.


@dataclass(frozen=True)
class OldShard:
    """An old shard, and what becomes of it."""

    number: int  # of the shard
    of: int  # among how many
    manifest: bytes = field(repr=False)  # its manifest, as it is stored
    # of each operator that continues tables of this shard: its level, the labels of its shards, and the tables
    parts: Mapping[tuple[int, tuple[int, ...]], CarriedTables]


@dataclass(frozen=True)
class Rescales:
    """mapInArrow function: chunks of old shards, as (old, run, chunk, content), to pieces.

    The rows of an old shard stand together; one without chunks has a row without any.
    """

    old: Mapping[int, OldShard]  # the old shards, by their labels

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pieces of a task's old shards."""
        freeze_imports()
        with tempfile.TemporaryDirectory(prefix="watersmeet-rescale-") as name:
            label: int | None = None
            for batch in batches:
                for at, current in enumerate(batch.column("old").to_pylist()):
                    if current != label and label is not None:
                        yield from self._pieces(label, Path(name) / str(label))
                    label = current
                    store = self._store(label, Path(name) / str(label))
                    run, chunk, content = (batch.column(column)[at] for column in ("run", "chunk", "content"))
                    if run.is_valid:
                        store.put_chunk(run.as_py(), chunk.as_py(), content.as_buffer())
            if label is not None:
                yield from self._pieces(label, Path(name) / str(label))
        give_back()

    def _store(self, label: int, folder: Path) -> FolderChunkStore:
        folder.mkdir(exist_ok=True)
        return FolderChunkStore(folder, self.old[label].manifest)

    def _pieces(self, label: int, folder: Path) -> Iterator[pa.RecordBatch]:
        shard, store = self.old[label], self._store(label, folder)
        for number, ((level, labels), tables) in enumerate(shard.parts.items()):
            stores: dict[int, FolderChunkStore] = {}
            parts = partial(_part, stores, folder / f"parts-{number}")
            divide(store, tables, shard.number, (shard.of, len(labels)), parts, RunCache(folder / "runs"))
            for new, part in stores.items():
                yield from _pieces_of(part, labels[new], level, shard.number)
        shutil.rmtree(folder)


def _part(stores: dict[int, FolderChunkStore], folder: Path, shard: int) -> FolderChunkStore:
    """The store of a new shard's part, in a folder of its own."""
    directory = folder / str(shard)
    directory.mkdir(parents=True)
    stores[shard] = FolderChunkStore(directory)
    return stores[shard]


def _pieces_of(part: FolderChunkStore, label: int, level: int, shard: int) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(PIECE)
    manifest = part.get_manifest()
    if manifest is None:
        return
    yield pa.RecordBatch.from_pylist(
        [{"label": label, "level": level, "run": None, "chunk": shard, "content": manifest}], schema=schema
    )
    for run, chunk, content in part.chunks():
        row = {"label": label, "level": level, "run": run, "chunk": chunk, "content": content}
        yield pa.RecordBatch.from_pylist([row], schema=schema)


_FIRST = 0
"""The batch that carries state into the levels, before it gets the number of the last batch."""
_WHOLE_STATE = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
"""Each shard's state in one piece: what has been changed since would be numbered from the beginning."""
_NOBODY = 2**31 - 1
"""A label that no shard has: without any row Spark would run no batch."""


@dataclass(frozen=True)
class Handover:
    """One change."""

    physical: Physical  # the topology from now on
    source: Folder  # where Spark's logs and state lie until now
    old: CheckpointFacts  # what the checkpoint records until now
    checkpoint: Checkpoint  # the checkpoint as it is to be
    batch: int  # number of the last batch, which is committed
    topics: Mapping[str, Begin] = field(default_factory=dict)  # what each Kafka source reads from now on
    # by store, how many rows of each replaced table differ, when that is known
    differing: dict[str, Counter[str]] = field(default_factory=dict)

    def run(self) -> None:
        """Make everything ready; the record is yet to be written."""
        for step in self.steps():
            step()

    def run_beside(self) -> None:
        """The same while a query runs on the checkpoint: what lies beside the target stays."""
        for step in self.steps()[1:]:
            step()

    def counted(self) -> dict[str, Counter[str]]:
        """Count, by store, the rows of each replaced table that differ, and remove the files that this needs."""
        try:
            for step in self._of_state:
                step()
        finally:
            self.target.remove()
        return self.differing

    def steps(self) -> tuple[Callable[[], None], ...]:
        """The steps, one after the other; none of them touches existing files."""
        state = (*self._of_state, self.number_state) if self.physical.levels else ()
        return (self.clear, *state, self.write_logs)

    @property
    def _of_state(self) -> tuple[Callable[[], None], ...]:
        return (self.gather, self.carry_state, *((self.replace_tables,) if self._replacement else ()))

    @property
    def _replacement(self) -> Replacement | None:
        assert self.checkpoint.change is not None
        return self.checkpoint.change.replacement

    @property
    def target(self) -> Folder:
        """Where Spark's logs and state lie from now on."""
        return self.checkpoint.spark_folder

    # -- what earlier changes have left ----------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what changes that broke off have left."""
        root = self.checkpoint.folder.below(CHANGED)
        for name in root.names():
            if not self.source.path.rstrip("/").endswith(f"{CHANGED}/{name}"):
                root.remove(name)

    # -- state -------------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Write the chunks that go on, each under the label that it gets."""
        nothing = self.source.spark.createDataFrame([(_NOBODY, 0, None, None, None)], PIECE)
        frames = self._divided() if self._rescales else self._as_they_are()
        pieces = reduce(DataFrame.unionByName, frames, nothing)
        # chunks have a megabyte each
        with exclusive_settings(self.source.spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "16"}):
            pieces.write.parquet(self._pieces.path)

    @property
    def _rescales(self) -> bool:
        """Whether some table lies in another number of shards from now on."""
        new, old = self.checkpoint.facts.addresses, self.old.addresses
        return any(
            len(old[continued.from_node][continued.from_table]) != len(new[continued.node][continued.table])
            for continued, _, _ in self._continued_tables
        )

    def _as_they_are(self) -> Iterator[DataFrame]:
        """Chunks for as many shards as before: a row for each shard, and the chunks of runs that go on."""
        start_rows = [(label, level, None, None, None) for level, parts in self._parts.items() for label in parts]
        if start_rows:
            yield self.source.spark.createDataFrame(start_rows, PIECE)
        if moves := sorted(self._moves()):
            schema = "old int, run string, label int, level int"
            places = F.broadcast(self.source.spark.createDataFrame(moves, schema))
            for level in self._reading.levels():
                yield self._all_chunks(level).join(places, ["old", "run"]).select(*PIECE.names)

    def _divided(self) -> Iterator[DataFrame]:
        """Chunks and manifests for another number of shards."""
        old = self._old_shards
        if old:
            spark, chunk = self.source.spark, "old int, run string, chunk int, content binary"
            frames = [self._all_chunks(level).filter(F.col("old").isin(*old)) for level in self._reading.levels()]
            start_rows = spark.createDataFrame([(label, None, None, None) for label in old], chunk)
            chunks = reduce(DataFrame.unionByName, frames, start_rows)
            by_shard = chunks.repartition(len(old), "old").sortWithinPartitions("old")
            yield by_shard.mapInArrow(Rescales(old), PIECE)

    @cached_property
    def _old_shards(self) -> dict[int, OldShard]:
        """The shards with state until now, by label, and where their tables go."""
        targets: dict[int, dict[tuple[int, tuple[int, ...]], CarriedTables]] = {}
        numbers: dict[int, tuple[int, int]] = {}
        for continued, level, table in self._continued_tables:
            shards = level, tuple(self.checkpoint.facts.addresses[continued.node][continued.table])
            name = self.old.stored_name(continued.from_table)
            old_labels = self.old.addresses[continued.from_node][continued.from_table]
            for number, old in enumerate(old_labels):
                if old in self._manifests:
                    parts, numbers[old] = targets.setdefault(old, {}), (number, len(old_labels))
                    parts[shards] = parts.get(shards, CarriedTables()).with_table(name, table, continued.scalars)
        return {old: OldShard(*numbers[old], self._manifests[old][2], parts) for old, parts in targets.items()}

    @property
    def _pieces(self) -> Folder:
        return self.target.below("pieces")

    def _all_chunks(self, level: int) -> DataFrame:
        """The chunks of a level: (old, run, chunk, content)."""
        return self._reading.state(level, CHUNKS).select(
            F.col("key.label").alias("old"),
            "user_map_key.run",
            "user_map_key.chunk",
            F.col("user_map_value.content").alias("content"),
        )

    def _moves(self) -> set[tuple[int, str, int, int]]:
        """(label until now, run, label, level) of the runs that go on."""
        return {
            (old, run.id, label, level)
            for continued, level, _ in self._continued_tables
            for old, label in self._labels(continued)
            if old in self._manifests
            if (entry := self._manifests[old][1].tables.get(self.old.stored_name(continued.from_table))) is not None
            for run in entry.runs()
        }

    @cached_property
    def _reading(self) -> StateReader:
        return StateReader(self.source, self.batch)

    @cached_property
    def _manifests(self) -> dict[int, tuple[int, mf.Manifest, bytes]]:
        return self._reading.manifests()

    @property
    def _continued_tables(self) -> Iterator[tuple[ContinuedTable, int, TableSchema]]:
        """The tables that continue, each with its level and its schema from now on."""
        assert self.checkpoint.change is not None
        operators = self._topology.operators
        stores = {(operators[store.owner].node, store.schema.name): store for store in self._topology.stores}
        for continued in self.checkpoint.change.continued:
            # of a reader none are carried, since they are of the owner
            store = stores.get((continued.node, continued.table))
            if store is not None:
                level = self._topology.group_of(operators[store.owner].level)
                yield continued, level, store.schema.typed(arrow_type)

    @cached_property
    def _topology(self) -> Physical:
        facts = self.checkpoint.facts
        return with_recorded_stores(self.physical, facts.addresses).in_groups(facts.level_groups)

    def _labels(self, continued: ContinuedTable) -> Iterator[tuple[int, int]]:
        """The label of each range of the hash, until now and from now on."""
        old = self.old.addresses[continued.from_node][continued.from_table]
        new = self.checkpoint.facts.addresses[continued.node][continued.table]
        return zip(old, new, strict=True)

    @cached_property
    def _parts(self) -> dict[int, Parts]:
        """By level and label what is carried into a shard."""
        by_level: dict[int, dict[int, dict[int, CarriedTables]]] = {}
        for continued, level, table in self._continued_tables:
            for old, label in self._labels(continued):
                if old in self._manifests:
                    parts = by_level.setdefault(level, {}).setdefault(label, {})
                    name = self.old.stored_name(continued.from_table)
                    parts[old] = parts.get(old, CarriedTables()).with_table(name, table, continued.scalars)
        return {
            level: {
                label: [(self._manifests[old][2], part) for old, part in parts.items()]
                for label, parts in labels.items()
            }
            for level, labels in by_level.items()
        }

    def carry_state(self) -> None:
        """Run one batch of the levels alone, into which their state is carried."""
        spark = self.source.spark
        with exclusive_settings(spark, _WHOLE_STATE):
            pieces = spark.readStream.schema(PIECE).parquet(self._pieces.path)
            frame = CarryingLevels(len(self._topology.level_groups), {} if self._rescales else self._parts).over(pieces)
            writer = frame.writeStream.format("noop").outputMode("append").trigger(once=True)
            query = writer.option("checkpointLocation", self.target.path).start()
            query.awaitTermination()

    def replace_tables(self) -> None:
        """Run one more batch of the levels, which computes tables anew that are replaced."""
        assert self._replacement is not None
        tables = ReplacedTables(self._topology, self.checkpoint.facts, self.target, self._replacement, self._rows)
        with exclusive_settings(self.source.spark, _WHOLE_STATE):
            self.differing.update(tables.compute(self._pieces))

    def _rows(self, store: str) -> DataFrame:
        columns = StoreColumns.read(self.old.stores[store])
        return self._reading.rows(store, columns, self.old.addresses[columns.node][store])

    def number_state(self) -> None:
        """Give the state the number that the last batch has left it with."""
        state = self.target.below("state")
        version = _FIRST + 1 if self._replacement is None else _FIRST + 2
        for level in range(len(self._topology.level_groups)):
            for name in state.names(f"{level}/*"):
                shard = f"{level}/{name}"
                if name.isdecimal() and self.batch + 1 != version:
                    state.remove(f"{shard}/{self.batch + 1}.zip")
                    state.move(f"{shard}/{version}.zip", f"{shard}/{self.batch + 1}.zip")
                    state.remove(f"{shard}/{version}.changelog")
            metadata = state.below(f"{level}/_metadata/v2")
            *older, last = sorted(metadata.names("[0-9]*"), key=int)
            for entry in older:
                metadata.remove(entry)
            if int(last) != self.batch:
                metadata.move(last, str(self.batch))

    # -- Spark's logs ------------------------------------------------------------------------------------------

    def write_logs(self) -> None:
        """Write the plan and the commit of the last batch, and what sources have noted, as they go on from there."""
        target, new = self.target, self.checkpoint.facts.inputs
        # the rows of tables that were replaced before are no input any more
        old = [name if name != REPLACED else "" for name in self.old.inputs]
        for name in ("offsets", "commits", "sources", "pieces", "rows", "found", "metadata"):
            target.remove(name)
        for old_index, new_index in source_indexes(old, new).items():
            self.source.copy(f"sources/{old_index}", target, f"sources/{new_index}")
        plan = carried_offsets(self.source.text(f"offsets/{self.batch}"), old, new, self.topics)
        plan = with_tasks(plan, self.checkpoint.facts.tasks)
        for number in range(max(self.batch - 1, 0), self.batch + 1):
            # Spark reads the last two; the one before went as far, so that nothing is read again
            target.create(f"offsets/{number}", plan)
        for name in (f"commits/{self.batch}", "metadata"):
            self.source.copy(name, target, name)


def check_change(checkpoint: Checkpoint, change: Change, *, unfinished: bool) -> None:
    """Raise unless the checkpoint goes on under the changed topology."""
    if not change.possible:
        raise ChangedTopology(
            "The checkpoint cannot go on under the changed topology.",
            given="\n".join([str(checkpoint.folder), *map(str, change.refused)]),
            hint="wm.plan_change(checkpoint, topology) lists the effects of a change in advance. Undo the refused "
            "changes, or start with a new checkpoint.",
        )
    if unfinished:
        raise ChangedTopology(
            "A planned batch is not finished: only the topology that planned it can finish it.",
            given=checkpoint.folder,
            hint="Start it once more as it was, with available_now=True, or end it with query.drain(); then change it.",
        )
