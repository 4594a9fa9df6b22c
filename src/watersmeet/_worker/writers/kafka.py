"""Records of a batch for Kafka's topics: written by tasks, or where they are few by the driver, exactly once.

The driver has one producer, which lives as long as the query. A task with records of at most `limit` bytes hands them
back. When the job has succeeded, the driver writes those of all tasks in order of position; so tasks that ran twice or
that nobody waits for any more have no effect, and no transactional id wanders from worker to worker. Larger output is
written by its task, in a transaction of its own.

Exactly once, whichever way a task took: the driver's transaction is the last of a batch, so its marker says that the
whole batch is in, and tasks that run again only read. A batch that may have been run before (one that was planned
before this start, or with a producer that somebody else has fenced) can have been written by its tasks while they had
another limit or another function: there the driver first takes over the transactional ids of the tasks that hand
something back, and leaves out what their markers say is in (docs/decisions/outputs.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import ENCODED_KEY, PARTITION
from watersmeet._engine.keys import as_bytes, murmur2
from watersmeet._engine.rows import (
    HEADERS,
    HELD_KEY,
    Int64s,
    array,
    parts_by_position,
    position_columns,
    sort_by_position,
    stacked,
    valid,
)
from watersmeet._plan.nodes import SinkNode
from watersmeet._worker import process
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.formats.formats import check_writable, format_for, is_primitive, serde_of
from watersmeet._worker.formats.serdes import (
    UNPLACED,
    CombinedSerde,
    Rules,
    Serde,
    WindowedSerde,
    valid_partitions,
)
from watersmeet._worker.kafka_client import (
    BY_KEY,
    Faults,
    Headers,
    RetriedTransaction,
    Sender,
    TransactionalSender,
    client_settings,
    sender,
)
from watersmeet._worker.process import freeze_imports, give_back, in_background, received
from watersmeet._worker.wire import Exits
from watersmeet._worker.writers.rows import Shards
from watersmeet.errors import ConfigError, EncodingError, SinkError
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import TopicSink

# The function that writes a task's records to Kafka, those of all topics in one pass.
#
# Each task writes its rows in their order, to all topics, in one transaction (or plainly), or hands them back where
# they are few; the function always reads its input to the end, because the state of the levels before it is saved when
# it has.

WRITTEN = "task int, held binary, seconds double, takeovers int"
"""What a task says: its number, the records that it has not written itself, as a blob, how long its transaction
took, if it had one, and how often its transactional id was taken over for it."""
_WRITTEN_ARROW = pa.schema(
    [("task", pa.int32()), ("held", pa.binary()), ("seconds", pa.float64()), ("takeovers", pa.int32())]
)
RECORD_BYTES = 16
"""Of each record, besides what is in it."""
_NO_RULES: Rules = {}
PLACED_ROWS = 1_024
"""Records from which on it pays to ask Kafka how many partitions there are."""


@dataclass(frozen=True)
class KafkaWrite:
    """Writes the records of a task, or hands them back where they are few."""

    client: bytes = field(
        repr=False
    )  # how to reach Kafka, half of it (see `session.handed_over`): no secret may be pickled
    topics: tuple[str, ...]  # names of the topics that the rows' column `topic` counts
    group: str | None  # what transactional ids and groups begin with; None: at least once
    batch: int  # number of the batch
    limit: int = 0  # bytes of records up to which a task hands them back, for the driver to write (`DriverCommit`)
    done: bool = False  # whether Kafka has the whole batch: then the rows are only read
    plan: BatchPlan = UNKNOWN  # of the batch
    rules: Rules = field(default_factory=dict)  # of topics with a partitioner, by their numbers

    def __call__(self, batches: Iterator[pa.RecordBatch], is_complete: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row.

        Parameters
        ----------
        is_complete : whether these were all rows of the task; asked when they have been read.
        """
        number = process.partition()
        unwritten, took, takeovers = self._write(number, (batch for batch in batches if len(batch)), is_complete)
        content = row_sizes.encode(stacked(unwritten)) if unwritten else None
        report = {"task": [number], "held": [content], "seconds": [took], "takeovers": [takeovers]}
        yield pa.RecordBatch.from_pydict(report, schema=_WRITTEN_ARROW)

    def _write(
        self, number: int, batches: Iterator[pa.RecordBatch], is_complete: Callable[[], bool]
    ) -> tuple[list[pa.Table], float | None, int]:
        """The records that are not written here, few or none; of the transaction, if any, seconds and takeovers."""
        name = None if self.group is None else f"{self.group}-{number}"
        unwritten: list[pa.Table] = []
        out: RetriedTransaction | None = None
        fresh = False
        size, took, start = 0, None, time.monotonic()
        try:
            for batch in batches:
                # no transaction for a task without records: there is nothing that could be written twice
                if self.done:
                    continue
                size += 0 if out else record_bytes(batch)
                if size <= self.limit:
                    unwritten.append(_as_bytes(batch))
                    continue
                if out is None:
                    out, start = self._transaction(name), time.monotonic()
                    fresh = out.begin()
                for part in (*unwritten, batch) if fresh else ():
                    out.send(part)
                unwritten = []
            # without a record there is nothing to lose; and a batch without records may have no task to send an end
            if (unwritten or out) and name is not None and not is_complete():
                raise SinkError(
                    "The rows of a task broke off: something above it failed, or the task was stopped.",
                    hint="None of its rows are written; the error above, if there is one, gives the reason.",
                )
            if out and fresh:
                out.commit()
                took = None if name is None else time.monotonic() - start
        except BaseException:
            if out:
                out.abandon()
            raise
        return unwritten, took, out.takeovers if out else 0

    def _transaction(self, name: str | None) -> RetriedTransaction:
        """A task's own; without a `name` it is none, but written plainly."""
        out = sender(received(self.client), name, min(self.topics))
        send_all = partial(send, out, self.topics, rules=self.rules)
        start, commit = partial(out.begin, self.batch, self.plan), partial(out.commit, self.batch, self.plan)
        return RetriedTransaction(out, start, send_all, commit, is_once=name is not None)


def send(out: Sender, topics: Sequence[str], records: pa.RecordBatch | pa.Table, *, rules: Rules = _NO_RULES) -> int:
    """Write records with a column `topic`, which counts these topics; their number."""
    partitions: Int64s | None = None
    if rules and PARTITION in records.schema.names:
        partitions = pc.fill_null(records.column(PARTITION), UNPLACED).to_numpy()
    names = [topics[0]] * len(records)
    if len(topics) > 1:
        names = np.array(topics, dtype=object)[records.column("topic").to_numpy()].tolist()
    keys, values = (_python_bytes(records.column(name)) for name in ("key", "value"))
    times = records.column("ts").to_numpy()
    # librdkafka takes time 0 for "now": 1 ms later is the nearest that it can write
    times = np.where(times == 0, 1, times).tolist()
    headers: list[Headers | None] = [None] * len(records)
    if "headers" in records.schema.names:
        raw_headers = records.column("headers").to_pylist()
        headers = [[(h["key"], h["value"]) for h in pairs] if pairs else None for pairs in raw_headers]
    return out.send(names, keys, values, times, headers, _partitions(out, topics, records, partitions, rules))


def record_bytes(records: pa.RecordBatch | pa.Table) -> int:
    """How many bytes Kafka will have of the records, about; it follows from them alone, however they are cut."""
    columns = [records.column(name) for name in ("key", "value")]
    if "headers" in records.schema.names:
        headers = pc.list_flatten(records.column("headers"))
        columns += [pc.struct_field(headers, name) for name in ("key", "value")]
    return len(records) * RECORD_BYTES + sum(map(_content_bytes, columns))


def _content_bytes(column: pa.Array | pa.ChunkedArray) -> int:
    kind = column.type
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_integer(kind) or pa.types.is_fixed_size_binary(kind):
        return int((len(column) - column.null_count) * (kind.bit_width // 8))
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _as_bytes(records: pa.RecordBatch) -> pa.Table:
    """The same as a table with keys and values of the one type that those of all sinks have."""
    table = pa.Table.from_batches([records])
    for name in ("key", "value"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(pa.binary()))
    return table


def _python_bytes(column: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    # of byte strings of one width a list is made one by one, of others all at once
    plain = column.cast(pa.binary()) if pa.types.is_fixed_size_binary(column.type) else column
    contents: list[bytes | None] = plain.to_pylist()
    return contents


def _partitions(
    out: Sender,
    topics: Sequence[str],
    records: pa.RecordBatch | pa.Table,
    requested: Int64s | None = None,
    rules: Rules = _NO_RULES,
) -> list[int]:
    """The partition of each record: that of a partitioner, or that of Kafka's own clients by its column `prefix`.

    Without such a column that is where the client puts it; but a given partition costs it less than its own choice.
    """
    if requested is not None:
        numbers = records.column("topic").to_numpy()
        counts = np.array([out.partitions(name) for name in topics])[numbers]
        resolved = valid_partitions(requested, topics, numbers, counts, rules)
        by_key = np.array(_partitions(out, topics, records))
        settled_places: list[int] = np.where(resolved == UNPLACED, by_key, resolved).tolist()
        return settled_places
    prefixed = "prefix" in records.schema.names
    if not prefixed and (len(records) < PLACED_ROWS or not out.partitions_by_murmur):
        return [BY_KEY] * len(records)
    prefixes, numbers = array(records, "prefix" if prefixed else "key"), records.column("topic").to_numpy()
    counts = np.array([out.partitions(name) for name in topics])
    hashed = (murmur2(prefixes) & 0x7FFFFFFF) % counts[numbers]
    where: list[int] = np.where(valid(prefixes), hashed, BY_KEY).tolist()
    return where


T = TypeVar("T")

TASK_BYTES = 256 << 10
"""Of records that a task hands back, at most."""
BATCH_BYTES = 4 << 20
"""The same of all tasks together: the driver holds them, and writes them alone."""
_LOOKERS = 16
"""Transactional ids that are taken over at a time."""


def limit(tasks: int) -> int:
    """Bytes of records that one of so many tasks may hand back."""
    return min(TASK_BYTES, BATCH_BYTES // max(1, tasks))


def driver_name(identity: str) -> str:
    """The driver's transactional id and group."""
    return f"{identity}-driver"


def task_name(identity: str, task: int) -> str:
    """A task's transactional id and group."""
    return f"{identity}-{task}"


def has_it(
    sender_of: Callable[..., TransactionalSender], names: Sequence[str], batch: int, plan: BatchPlan = UNKNOWN
) -> list[bool]:
    """Whether Kafka has a batch of these transactional ids, which are taken over: their former owner writes no more.

    Parameters
    ----------
    sender_of : makes a sender of a `name`.
    """

    def is_in(name: str) -> bool:
        writer = sender_of(name=name)
        try:
            return writer.holds(batch, plan)
        finally:
            writer.abandon()

    with ThreadPoolExecutor(_LOOKERS) as pool:
        return list(pool.map(is_in, names))


@dataclass(frozen=True)
class Written:
    """The batches that earlier starts may have written."""

    planned: int  # number of the last batch that the checkpoint has a plan of; -1: none
    tasks: int  # tasks of each batch; 0: the checkpoint is new, and so is what it is called in Kafka
    marks: str = ""  # the topic with offsets that mark the batches; "": the first of those that are written

    def mark_of(self, topics: Sequence[TopicSink]) -> str:
        """The topic with offsets that mark the batches, if these are written."""
        return self.marks or min(sink.name for sink in topics)


def writers(identity: str, written: Written) -> list[str]:
    """The transactional ids of those that have written batches: the driver and its tasks."""
    return [task_name(identity, n) for n in range(written.tasks)] + [driver_name(identity)] if written.tasks else []


def is_unwritten(targets: Sequence[Any], kafka: Kafka | None, identity: str, written: Written, plan: BatchPlan) -> bool:
    """Whether Kafka has nothing of the last planned batch, and will not get anything of it any more.

    False where that cannot be known: where results are written plainly.

    Parameters
    ----------
    targets, kafka, identity, written : as of `prepared`.
    plan : of that batch.
    """
    topics = [target for target in targets if target.topic is not None]
    if kafka is None or not is_once(topics):
        return False
    sender_of = partial(TransactionalSender, client_settings(kafka), topic=written.mark_of(topics))
    return not any(has_it(sender_of, writers(identity, written), written.planned, plan))


def is_once(topics: Sequence[TopicSink]) -> bool:
    """Whether a task's records are one transaction: it holds all sinks, so the stronger wish decides."""
    return any(sink.delivery == "exactly_once" for sink in topics)


class DriverCommit:
    """Writes what the tasks of a batch hand back.

    Parameters
    ----------
    settings : of the Kafka client.
    identity : what transactional ids and groups begin with.
    topics : names of the topics that the records' column `topic` counts.
    planned : number of the last batch that was planned before this start: up to it a batch may have been run before.
    guard : raises where the checkpoint is this query's no more; asked behind each takeover, and before the commit.
    rules : of topics with a partitioner, by their numbers.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        identity: str,
        topics: Sequence[str],
        planned: int,
        guard: Callable[[], None] = lambda: None,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules or {}
        self._topics, self._planned, self._guard = topics, planned, guard
        self._sender_of = partial(TransactionalSender, settings, topic=min(topics))
        self._sender = self._sender_of(name=driver_name(identity))
        self._identity = identity
        self._takeover: Future[bool] | None = None
        self._takeovers = 0
        self._faults = Faults(self._sender.retry_seconds)

    @property
    def takeovers(self) -> int:
        """How often it has taken its own transactional id over."""
        return self._sender.takeovers

    def begins(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Called before the job of a batch: whether Kafka has all of it.

        Where it cannot have been run before, the producer is made ready while the job runs. A takeover that a batch
        without results has left under way goes on: two at once would fence each other.
        """
        if self._takeover is None or self._takeover.done():
            self._takeover = in_background(partial(self._sender.holds, batch, plan), "the driver's producer")
        self._faults = Faults(self._sender.retry_seconds)
        return batch <= self._planned and self._tried(self._holds, batch, plan)

    def write(self, batch: int, blobs: Mapping[int, bytes], slots: int | None, plan: BatchPlan = UNKNOWN) -> None:
        """Write the records that tasks hand back of a batch with a successful job.

        Parameters
        ----------
        blobs : by task; not empty.
        slots : path slots of the records' positions; None where they come without.
        plan : of the batch.
        """
        self._tried(self._write, batch, blobs, slots, plan)

    def _tried(self, call: Callable[..., T], *arguments: Any) -> T:
        """The call to repeat while Kafka does not answer: each attempt first asks which batch is in already."""
        while True:
            try:
                result = call(*arguments)
                self._faults.passed()
                return result
            except SinkError as error:
                self._sender.abandon()
                self._faults.again(error)
            except ConfigError as error:
                self._sender.abandon()
                raise self._cause(error) from None
            except BaseException:
                self._sender.abandon()
                raise

    def _holds(self, batch: int, plan: BatchPlan) -> bool:
        self._ready()
        # what was taken over may have been for a batch before this one
        return self._sender.holds(batch, plan)

    def _write(self, batch: int, blobs: Mapping[int, bytes], slots: int | None, plan: BatchPlan) -> None:
        self._ready()
        if not self._sender.begin(batch, plan):
            return
        if batch <= self._planned or self._sender.takeovers > self._takeovers:
            blobs = self._missing(batch, blobs, plan)
        send(self._sender, self._topics, _in_order(blobs, slots), rules=self._rules)
        # the id is ours since before this look: who takes the checkpoint over behind it takes the id over too
        self._guard()
        self._sender.commit(batch, plan)

    def _ready(self) -> None:
        """Wait for the takeover in the background; any that comes behind it, or where it fails, is noticed."""
        takeover, self._takeover = self._takeover, None
        if takeover is not None:
            self._takeovers = self._sender.takeovers
            takeover.result()
            self._takeovers = self._sender.takeovers

    def _cause(self, error: ConfigError) -> ConfigError:
        """The error to raise: that another query took over, if one did, otherwise the given one."""
        try:
            self._guard()
        except ConfigError as passed_by:
            return passed_by
        return error

    def close(self) -> None:
        """Give the producer up; no batch is under way."""
        if self._takeover is not None:
            self._takeover.exception()
        self._sender.abandon()

    def _missing(self, batch: int, blobs: Mapping[int, bytes], plan: BatchPlan) -> dict[int, bytes]:
        """The records that tasks have not written themselves; from now on no task can write them that began before."""

        present = has_it(self._sender_of, [task_name(self._identity, task) for task in blobs], batch, plan)
        return {task: content for (task, content), is_in in zip(blobs.items(), present, strict=True) if not is_in}


def _in_order(blobs: Mapping[int, bytes], slots: int | None) -> pa.Table:
    """The records of all tasks: in order of position, or where they come without one after the other's."""
    tables = [row_sizes.decode(blobs[task]) for task in sorted(blobs)]
    rows = stacked(tables) if tables else pa.table({name: [] for name in ("topic", "key", "value", "ts")})
    return rows if slots is None or not tables else sort_by_position(rows, position_columns(slots))


# Writing to Kafka from wire rows: blobs become records in the one function that writes them.
#
# A task's rows come sorted by label, so each sink's shard is put into its order and written before the next is read,
# and the ends (`wire`) stand behind all of them.

_KEPT = frozenset(("key", ENCODED_KEY, "value", PARTITION, "ts", "headers", "topic", "prefix"))


def _format(form: Format | FormatName | None, kind: DataType) -> Format:
    return format_for(kind) if form is None else Format.of(form)


def serdes_of(sink: SinkNode, *, combined: bool, encoded: Collection[str] = ()) -> dict[str, Serde]:
    """Of key and value what is written by a serde: all that is no text, bytes or integer.

    As `prefix` there is the serde of what places records in place of their keys, where something does.

    Parameters
    ----------
    combined : whether the keys are those of a one-to-many join, which Kafka keeps together by their prefix.
    encoded : key or value, where their bytes come already; the keys themselves come, too.
    """
    parts = {"key": (sink.target.key, sink.shape.key), "value": (sink.target.value, sink.shape.value)}
    serdes: dict[str, Serde] = {}
    for name, (declared, kind) in parts.items():
        form = _format(declared, kind)
        check_writable(form, kind, f"{name}s of the sink {sink.target.name!r}")
        if not is_primitive(form) and (name == "key" or name not in encoded):
            serdes[name] = serde_of(form, kind)
    if combined:
        serdes["prefix"] = CombinedSerde(*(serde_of(format_for(f.dataType), f.dataType) for f in sink.shape.key.fields))
        serdes |= {"key": serdes["prefix"]} if sink.target.key is None else {}
    elif isinstance(serdes.get("key"), WindowedSerde):
        serdes["prefix"] = serdes["key"]
    return serdes


@dataclass(frozen=True)
class WriteTopics:
    """mapInArrow function: writes what a task's wire rows bring to the sinks, and says how much."""

    write: KafkaWrite  # writes records, told apart by the number of their sink
    exits: Exits  # how sinks are told apart here
    serdes: tuple[Mapping[str, Serde], ...]  # of each sink, see `serdes_of`

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        shards = Shards(batches, self.exits.ports)
        yield from self.write((records for shard in shards for records in self._sorted(shard)), lambda: shards.ended)
        give_back()

    def _sorted(self, shard: dict[int, list[pa.Table]]) -> Iterator[pa.RecordBatch]:
        """Records of one sink, or of all sinks of one topic, in order."""
        single, position = len(shard) == 1, position_columns(self.exits.slots)
        first = next(iter(shard))
        serdes = self.serdes[first] if single else {}
        # nobody else holds the rows, so that what is no longer needed of them goes
        holder = [stacked([self._numbered(stacked(shard.pop(sink)), sink, single=single) for sink in sorted(shard)])]
        # whoever gets few rows of several tasks puts them in order once more; a JSON text may be shorter than its value
        size = len(holder[0]) * RECORD_BYTES if serdes else record_bytes(holder[0])
        needed = _KEPT.union(position, (HELD_KEY,)) if size <= self.write.limit else _KEPT
        for part in parts_by_position(holder.pop(), position, needed):
            columns = {name: array(part, name) for name in part.column_names}
            if self.exits.dead_letters and "headers" not in columns:
                # dead letters have some, and a task's records may be put together
                columns["headers"] = pa.nulls(len(part), HEADERS)
            written = {name: self._bytes(columns, name, serdes, first) for name in ("key", "value")}
            columns.pop(ENCODED_KEY, None)
            yield pa.RecordBatch.from_pydict(columns | written)

    def _numbered(self, rows: pa.Table, sink: int, *, single: bool) -> pa.Table:
        """Rows with the number of their sink; beside other sinks' their keys and values, of whatever type, as bytes."""
        if any("prefix" in parts for parts in self.serdes):
            rows = rows.append_column("prefix", _prefix(array(rows, "key"), self.serdes[sink].get("prefix")))
        if self.write.rules and PARTITION not in rows.column_names:
            # a task's records may be put together
            rows = rows.append_column(PARTITION, pa.nulls(len(rows), pa.int64()))
        if not single:
            columns = {name: array(rows, name) for name in ("key", ENCODED_KEY, "value") if name in rows.column_names}
            rows = rows.drop_columns(list(columns))
            for name in ("key", "value"):
                rows = rows.append_column(name, self._bytes(columns, name, self.serdes[sink], sink).cast(pa.binary()))
        return rows.append_column("topic", pa.array(np.full(len(rows), sink, dtype=np.int32)))

    def _bytes(self, columns: Mapping[str, pa.Array], name: str, serdes: Mapping[str, Serde], sink: int) -> pa.Array:
        if name == "key" and ENCODED_KEY in columns:
            return columns[ENCODED_KEY]
        try:
            return serdes[name].write(columns[name]) if name in serdes else as_bytes(columns[name])
        except EncodingError as error:
            detail = f"{error.given}, {name} of a record for the topic {self.write.topics[sink]}"
            raise EncodingError(error.message, given=detail, hint=error.hint) from None


def _prefix(keys: pa.Array, serde: Serde | None) -> pa.Array:
    """The bytes that place a record, instead of its key: of a windowed key the inner key, of a combined the prefix."""
    if isinstance(serde, CombinedSerde | WindowedSerde):
        return serde.inner_keys(keys)
    return pa.nulls(len(keys), pa.binary())
