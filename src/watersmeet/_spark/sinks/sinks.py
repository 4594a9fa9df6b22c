"""The one streaming query of a topology, ready to be started: every sink's rows leave through it.

One Spark writer alone is Spark's own sink. Anything else is one foreachBatch: all Kafka sinks in one pass, all files
that tasks write themselves in another, each table of a database or a catalog in one of its own, and the frame persisted
where more than one reader needs it, so that nothing upstream is computed twice. Where all sinks are topics or all are
files, they may be written from wire rows. A batch that is run again leaves the same output once: Kafka and tables by
their markers, files by a folder per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.logical import Plan
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.databases.tables import TableWriter, table_writers
from watersmeet._spark.dataflow.compile import Compiled
from watersmeet._spark.dataflow.selection import Selection, columns_of
from watersmeet._spark.fencing.asked import Lease, Nobodys, always, untold
from watersmeet._spark.session.credentials import handed_over
from watersmeet._spark.session.origins import unnamed
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._spark.sinks.batch_writer import check_format, memory_table, warn_of_replays, write_batch
from watersmeet._spark.sinks.file_batch import publish, written, written_by_tasks
from watersmeet._spark.sinks.kafka_rows import check_formats, kafka_rows
from watersmeet._worker.batch_plan import BatchPlan
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.wire.wire import Exits
from watersmeet._worker.writers.direct_sink import WriteDirectly, can_write_directly, serdes_of
from watersmeet._worker.writers.driver_commit import DriverCommit, Written, is_once, limit, writers
from watersmeet._worker.writers.file_sink import WRITTEN as FILES_WRITTEN
from watersmeet._worker.writers.file_sink import FileOutput, FilesFromBlobs, FilesFromColumns
from watersmeet._worker.writers.kafka_client import MARKS, check_topics, client_settings
from watersmeet._worker.writers.kafka_sink import WRITTEN, KafkaWrite
from watersmeet._worker.writers.producers import refuse_later
from watersmeet.errors import ConfigError, CorruptData
from watersmeet.io.databases import TableTarget
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.kafka import Kafka
from watersmeet.io.origins import SinkTarget
from watersmeet.io.topics import TopicSink

Chosen = tuple[SinkTarget, Selection]
EVERY_BATCH = 2**62
"""As the last batch that may have been run before: nothing is known of any."""


def prepared(
    compiled: Compiled,
    sinks: Sequence[tuple[Any, SinkTarget]],
    *,
    kafka: Kafka | None,
    query_name: str | None,
    checkpoint: str,
    trigger: dict[str, Any],
    identity: str,
    barrier: StopBarrier | None = None,
    written: Written | None = None,
    lease: Lease = Nobodys(),  # noqa: B008  it has no state
    plans: Callable[[int], BatchPlan] = untold,
    secure: Callable[[], None] = always,
) -> DataStreamWriter:
    """The query that writes all sinks, checked and yet to be started.

    Parameters
    ----------
    compiled : the frame of all sinks' rows.
    sinks : Sink nodes and their targets, in the plan's order.
    kafka : the connection; needed where a target is a topic.
    trigger : what `DataStreamWriter.trigger` takes.
    identity : names the application and this checkpoint (`Checkpoint.identity`): Kafka's groups and
        transactional ids begin with it.
    barrier : stands behind each batch; one Spark writer alone has no such place.
    written : what the checkpoint says of earlier starts; None: nothing is to be checked.
    lease : the query's upon its checkpoint.
    plans : the plan of each batch.
    secure : takes the lease; called when all is checked, before tables are taken over.

    Raises
    ------
    ConfigError : Kafka lacks a topic, its connection is missing, or it has batches that the checkpoint has not.
    CorruptData : a file sink has batches that the checkpoint has not.
    TopologyError : a format that cannot write what the sink gets.
    """
    direct_sinks = _direct_sinks(compiled, sinks)
    chosen = [] if direct_sinks else [(target, compiled.selectors[node.name]) for node, target in sinks]
    target = sinks[0][1]
    if len(chosen) == 1 and isinstance(target, Writer):
        if written is not None and target.path is not None:
            _check_list(compiled.frame.sparkSession, target.path, written.planned)
        writer = _native(chosen[0][1].visible(compiled.frame), target)
    else:
        topics = [target for _, target in sinks if isinstance(target, TopicSink)]
        check_formats(compiled.frame, [(t, s) for t, s in chosen if isinstance(t, TopicSink)])
        _check_kafka(topics, kafka, identity, written)
        settings = _settings(topics, kafka, written)
        spark, barrier = compiled.frame.sparkSession, barrier or StopBarrier()
        barrier.stands = True
        files, planned = _file_outputs(compiled.frame, chosen), EVERY_BATCH if written is None else written.planned
        given = (tuple(chosen), settings, identity, compiled.ends, spark, barrier, direct_sinks, files, planned)
        secure()
        tables = table_writers(spark, sinks, identity, written.planned if written else None)
        batch = BatchSinks(*given, tables, plans, lease.check)
        lease.at_end(batch.close)
        writer = compiled.frame.writeStream.foreachBatch(batch)
    # a memory sink's table is the query's name
    if query_name is not None and not (isinstance(target, Writer) and target.format == "memory"):
        writer = writer.queryName(query_name)
    return writer.outputMode("append").option("checkpointLocation", checkpoint).trigger(**trigger)


def _settings(topics: Sequence[TopicSink], kafka: Kafka | None, written: Written | None) -> dict[str, str]:
    """Of the client that writes these topics."""
    marks = {MARKS: written.mark_of(topics)} if written is not None and topics else {}
    return {**client_settings(kafka), **marks} if kafka else {}


def check_writers(spark: SparkSession, targets: Sequence[SinkTarget]) -> None:
    """Raise where a writer's format is unknown; warn of one that may write a replayed batch twice.

    Raises
    ------
    ConfigError : a format is unknown.
    """
    for target in (each for each in targets if isinstance(each, Writer)):
        check_format(spark, target)
        warn_of_replays(target, alone=len(targets) == 1)


@dataclass(frozen=True)
class DirectSinks:
    """Sinks that are written straight from wire rows: topics, or files.

    Parameters
    ----------
    exits : how they are told apart.
    topics : the sinks, by their numbers there, if they are topics.
    serdes : write each topic's keys and values, where these are no text, bytes or integers.
    files : the sinks, if they are files.
    """

    exits: Exits
    topics: tuple[TopicSink, ...] = ()
    serdes: tuple[Mapping[str, Serde], ...] = ()
    files: tuple[FileOutput, ...] = ()


@unnamed()
def in_order(frame: DataFrame) -> DataFrame:
    """Wire rows by label, as `WriteDirectly` needs them. A sorted task has read its last row before it gives one."""
    return frame.sortWithinPartitions("label")


def can_be_direct(spark: SparkSession, plan: Plan) -> bool:
    """Whether the sinks can be written from wire rows."""
    return can_write_directly(plan, plan.sinks) or _direct_files(spark, plan.sinks) is not None


def _direct_files(spark: SparkSession, sinks: Sequence[Any], headers: bool = False) -> tuple[FileOutput, ...] | None:
    """The outputs of these Sink nodes, if all are files that tasks write; one alone is Spark's own sink."""
    if len(sinks) < 2 or not all(isinstance(sink.target, Writer) for sink in sinks):
        return None
    told = HEADERS if headers else None
    found = [written_by_tasks(spark, sink.target, sink.shape.key, sink.shape.value, told) for sink in sinks]
    return tuple(each for each in found if each is not None) if all(found) else None


def _direct_sinks(compiled: Compiled, sinks: Sequence[tuple[Any, SinkTarget]]) -> DirectSinks | None:
    if compiled.exits is None:
        return None
    nodes = {node.name: node for node, _ in sinks}
    ordered = [nodes[name] for name in compiled.exits.names]
    files = _direct_files(compiled.frame.sparkSession, ordered, compiled.headers)
    if files is not None:
        return DirectSinks(compiled.exits, files=files)
    serdes = tuple(serdes_of(node, compiled.encoded.get(node.name, ())) for node in ordered)
    return DirectSinks(compiled.exits, tuple(node.target for node in ordered), serdes)


def _file_outputs(frame: DataFrame, chosen: Sequence[Chosen]) -> dict[Writer, FileOutput]:
    """Those of the sinks whose files tasks write from the frame's columns."""
    kinds = {field.name: field.dataType for field in frame.schema}
    found: dict[Writer, FileOutput] = {}
    for target, selection in chosen:
        if isinstance(target, Writer):
            key, value = kinds[selection.key], kinds[selection.value]
            output = written_by_tasks(frame.sparkSession, target, key, value, kinds.get("headers"))
            if output is not None:
                found[target] = output
    return found


def _check_list(spark: SparkSession, path: str, planned: int) -> None:
    """Raise where Spark's file sink has listed later batches: it would leave out those of the same numbers."""
    listed = max((int(name.split(".")[0]) for name in Folder(spark, path).names("_spark_metadata/[0-9]*")), default=-1)
    if listed > planned:
        raise CorruptData(
            "The output has batches that the checkpoint has not: those of the same numbers would not be written.",
            given=f"{path}: batch {listed} is there, the last one planned is {planned}",
            hint="Write to another folder with a new checkpoint; or restore the newest checkpoint.",
        )


def _native(frame: DataFrame, target: Writer) -> DataStreamWriter:
    writer = frame.writeStream.format(target.format).options(**target.options)
    if target.format == "memory":
        return writer.queryName(memory_table(target))
    return writer if target.path is None else writer.option("path", target.path)


def _check_kafka(topics: Sequence[TopicSink], kafka: Kafka | None, identity: str, written: Written | None) -> None:
    if not topics:
        return
    if kafka is None:
        raise ConfigError(
            "A topic is written, but no Kafka is named.",
            given=", ".join(sink.name for sink in topics),
            hint='topology.start(..., kafka=wm.Kafka("host:9092"))',
        )
    check_topics(kafka, [sink.name for sink in topics])
    # of a batch that would now be planned anew its task would skip what it has not written
    if written is not None and is_once(topics):
        refuse_later(kafka, writers(identity, written), written.mark_of(topics), written.planned)


@dataclass(frozen=True, repr=False)
class BatchSinks:
    """The foreachBatch function: one batch to all sinks.

    Parameters
    ----------
    chosen : targets and their parts of the frame.
    settings : of the Kafka client; never shown.
    identity : what Kafka's groups and transactional ids begin with.
    ends : the column of the frame that tells end rows (see `ends`).
    spark : the user's session; a batch has one of its own.
    barrier : behind each batch.
    direct_sinks : all sinks, where they are written from wire rows.
    files : of the sinks those that tasks write.
    planned : number of the last batch that may have been run before.
    tables : of the sinks those that are kept as tables, in databases and catalogs.
    plans : the plan of each batch.
    guard : raises where the checkpoint is another query's.
    """

    chosen: tuple[Chosen, ...]
    settings: dict[str, str]
    identity: str
    ends: str
    spark: SparkSession | None = None
    barrier: StopBarrier = field(default_factory=StopBarrier)
    direct_sinks: DirectSinks | None = None
    files: Mapping[Writer, FileOutput] = field(default_factory=dict)
    planned: int = EVERY_BATCH
    tables: Mapping[TableTarget, TableWriter] = field(default_factory=dict)
    plans: Callable[[int], BatchPlan] = untold
    guard: Callable[[], None] = always

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write the batch; called by Spark on the driver."""
        self.barrier.before(batch)
        # who was passed by begins no job: its tasks would take transactional ids that are another's now
        self.guard()
        self._write(frame, batch, self.plans(batch))
        # what follows is Spark's commit
        self.guard()
        self.barrier.behind_batch(batch)

    def _write(self, frame: DataFrame, batch: int, plan: BatchPlan) -> None:
        if self.direct_sinks is not None:
            self._write_directly(frame, batch, plan, self.direct_sinks)
            return
        topics = [(t, s) for t, s in self.chosen if isinstance(t, TopicSink)]
        files = [(self.files[t], s) for t, s in self.chosen if isinstance(t, Writer) and t in self.files]
        kept = [(self.tables[t], s) for t, s in self.chosen if isinstance(t, TableTarget)]
        others = [(t, s) for t, s in self.chosen if isinstance(t, ForeachBatch | Writer) and t not in self.files]
        readers = len(others) + bool(topics) + bool(files) + len(kept)
        with _held(frame, readers, whole=_may_leave_rows(others)) as shared:
            if topics:
                self._write_topics(shared, topics, batch, plan)
            if files:
                self._write_files(shared, files, batch)
            for table, selection in kept:
                table.write(selection.visible(shared, batch), batch, plan, self.guard)
            for target, selection in others:
                self._write_other(selection.visible(shared, batch), target, batch)

    def _write_directly(self, frame: DataFrame, batch: int, plan: BatchPlan, sinks: DirectSinks) -> None:
        if not sinks.files:
            self._run(in_order(frame), sinks.topics, batch, plan, sinks)
            return
        with written(sinks.files, batch) as write:
            job = in_order(frame).mapInArrow(FilesFromBlobs(write, sinks.exits), FILES_WRITTEN)
            publish(write, job, self.guard)

    def _write_files(self, frame: DataFrame, files: Sequence[tuple[FileOutput, Selection]], batch: int) -> None:
        with written([output for output, _ in files], batch) as write:
            rows = columns_of(frame, [selection for _, selection in files], batch)
            publish(write, rows.mapInArrow(FilesFromColumns(write), FILES_WRITTEN), self.guard)

    def _write_topics(
        self, frame: DataFrame, topics: Sequence[tuple[TopicSink, Selection]], batch: int, plan: BatchPlan
    ) -> None:
        targets = [target for target, _ in topics]
        rows = kafka_rows(frame, topics, self.ends if is_once(targets) else None)
        self._run(rows, targets, batch, plan)

    def _run(
        self,
        rows: DataFrame,
        topics: Sequence[TopicSink],
        batch: int,
        plan: BatchPlan,
        direct: DirectSinks | None = None,
    ) -> None:
        """Write records, or what wire rows bring to these sinks."""
        names, driver = tuple(sink.name for sink in topics), self._driver if is_once(topics) else None
        with handed_over(rows.sparkSession, self.settings) as client:
            if driver is None:
                write = KafkaWrite(client, names, None, batch)
            else:
                tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
                begun = driver.begins(batch, plan)
                write = KafkaWrite(client, names, self.identity, batch, limit(tasks), begun, plan)
            made = write if direct is None else WriteDirectly(write, direct.exits, direct.serdes)
            told = rows.mapInArrow(made, WRITTEN).collect()
        held = {row["task"]: bytes(row["held"]) for row in told if row["held"] is not None}
        if driver is not None and held:
            driver.write(batch, held, None if direct is None else direct.exits.slots, plan)

    @cached_property
    def _driver(self) -> DriverCommit:
        """What writes small output: one for all batches, which have the same topics."""
        direct = self.direct_sinks.topics if self.direct_sinks is not None else ()
        topics = [sink.name for sink in (*direct, *(t for t, _ in self.chosen)) if isinstance(sink, TopicSink)]
        return DriverCommit(self.settings, self.identity, topics, self.planned, self.guard)

    def close(self) -> None:
        """Called when the query has ended."""
        if "_driver" in vars(self):
            self._driver.close()

    def _write_other(self, rows: DataFrame, target: SinkTarget, batch: int) -> None:
        self.guard()
        if isinstance(target, ForeachBatch):
            target.function(rows, batch)
        elif isinstance(target, Writer):
            write_batch(rows, target, batch, self.identity, self.spark)


def _may_leave_rows(others: Sequence[Chosen]) -> bool:
    """Whether a reader may stop before the end: then the levels' state would not be saved."""
    return any(isinstance(target, ForeachBatch) or target.format == "console" for target, _ in others)  # type: ignore[union-attr]


class _held:
    """The frame, computed once for all its readers."""

    def __init__(self, frame: DataFrame, readers: int, *, whole: bool) -> None:
        self._frame, self._persist, self._whole = frame, readers > 1 or whole, whole

    def __enter__(self) -> DataFrame:
        if self._persist:
            self._frame = self._frame.persist(StorageLevel.MEMORY_AND_DISK)
        if self._whole:
            self._frame.write.format("noop").mode("overwrite").save()
        return self._frame

    def __exit__(self, *failure: object) -> None:
        if self._persist:
            self._frame.unpersist()
