"""The function that writes a task's records to Kafka, those of all topics in one pass.

Each task writes its rows in their order, to all topics, in one transaction (or plainly), or hands them back where they
are few; the function always reads its input to the end, because the state of the levels before it is saved when it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.murmur import murmur2
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import array, stacked, valid
from watersmeet._worker import task
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.formats.placed import UNPLACED, Rules, taken_off, valid_partitions
from watersmeet._worker.secrets import received
from watersmeet._worker.wire.ends import LAST
from watersmeet._worker.writers.producers import BY_KEY, Headers, Sender, sender
from watersmeet._worker.writers.retries import RetriedTransaction
from watersmeet.errors import SinkError

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
    """mapInArrow function: writes the rows of a task, or hands them back where they are few.

    Parameters
    ----------
    client : how to reach Kafka, one half of it (see `handover`): no secret may be pickled.
    topics : names of the topics that the rows' column `topic` counts.
    group : what transactional ids and groups begin with; None: at least once.
    batch : number of the batch.
    limit : bytes of records up to which a task hands them back, for the driver to write (`driver_commit`).
    done : whether Kafka has the whole batch: then the rows are only read.
    plan : of the batch.
    rules : of topics with a partitioner, by their numbers (`placed`).
    """

    client: bytes = field(repr=False)
    topics: tuple[str, ...]
    group: str | None
    batch: int
    limit: int = 0
    done: bool = False
    plan: BatchPlan = UNKNOWN
    rules: Rules = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row."""
        number = task.partition()
        held, took, taken = self._write(number, (batch for batch in batches if len(batch)))
        content = blob.encode(stacked(held)) if held else None
        told = {"task": [number], "held": [content], "seconds": [took], "takeovers": [taken]}
        yield pa.RecordBatch.from_pydict(told, schema=_WRITTEN_ARROW)

    def _write(self, number: int, batches: Iterator[pa.RecordBatch]) -> tuple[list[pa.Table], float | None, int]:
        """The records that are not written here, few or none; of the transaction, if any, seconds and takeovers."""
        name = None if self.group is None else f"{self.group}-{number}"
        held: list[pa.Table] = []
        out: RetriedTransaction | None = None
        fresh = whole = False
        size, took, begin = 0, None, time.monotonic()
        try:
            for given in batches:
                batch, ended = _without_ends(given)
                whole = whole or ended
                # no transaction for a task without records: there is nothing that could be written twice
                if not len(batch) or self.done:
                    continue
                size += 0 if out else record_bytes(batch)
                if size <= self.limit:
                    held.append(_as_bytes(batch))
                    continue
                if out is None:
                    out, begin = self._transaction(name), time.monotonic()
                    fresh = out.begin()
                for part in (*held, batch) if fresh else ():
                    out.send(part)
                held = []
            # without a record there is nothing to lose; and a batch without records may have no task to send an end
            if (held or out) and name is not None and not whole:
                raise SinkError(
                    "The rows of a task broke off: something above it failed, or the task was stopped.",
                    hint="None of its rows are written; the error above, if there is one, gives the reason.",
                )
            if out and fresh:
                out.commit()
                took = None if name is None else time.monotonic() - begin
        except BaseException:
            if out:
                out.abandon()
            raise
        return held, took, out.takeovers if out else 0

    def _transaction(self, name: str | None) -> RetriedTransaction:
        """A task's own; without a `name` it is none, but written plainly."""
        out = sender(received(self.client), name, min(self.topics))
        send_all = partial(send, out, self.topics, rules=self.rules)
        begin, commit = partial(out.begin, self.batch, self.plan), partial(out.commit, self.batch, self.plan)
        return RetriedTransaction(out, begin, send_all, commit, is_once=name is not None)


def send(out: Sender, topics: Sequence[str], records: pa.RecordBatch | pa.Table, *, rules: Rules = _NO_RULES) -> int:
    """Write records with a column `topic`, which counts these topics; their number."""
    partitions = None
    if rules:
        records, partitions = taken_off(records, rules)
    names = [topics[0]] * len(records)
    if len(topics) > 1:
        names = np.array(topics, dtype=object)[records.column("topic").to_numpy()].tolist()
    keys, values = (_python_bytes(records.column(name)) for name in ("key", "value"))
    times = records.column("ts").to_numpy()
    # librdkafka takes time 0 for "now": 1 ms later is the nearest that it can write
    times = np.where(times == 0, 1, times).tolist()
    headers: list[Headers | None] = [None] * len(records)
    if "headers" in records.schema.names:
        given = records.column("headers").to_pylist()
        headers = [[(h["key"], h["value"]) for h in each] if each else None for each in given]
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
    made: list[bytes | None] = plain.to_pylist()
    return made


def _partitions(
    out: Sender,
    topics: Sequence[str],
    records: pa.RecordBatch | pa.Table,
    given: Int64s | None = None,
    rules: Rules = _NO_RULES,
) -> list[int]:
    """The partition of each record: that of a partitioner, or that of Kafka's own clients by its column `prefix`.

    Without such a column that is where the client puts it; but a given partition costs it less than its own choice.
    """
    if given is not None:
        numbers = records.column("topic").to_numpy()
        counts = np.array([out.partitions(name) for name in topics])[numbers]
        said = valid_partitions(given, topics, numbers, counts, rules)
        by_key = np.array(_partitions(out, topics, records))
        settled_places: list[int] = np.where(said == UNPLACED, by_key, said).tolist()
        return settled_places
    prefixed = "prefix" in records.schema.names
    if not prefixed and (len(records) < PLACED_ROWS or not out.partitions_by_murmur):
        return [BY_KEY] * len(records)
    prefixes, numbers = array(records, "prefix" if prefixed else "key"), records.column("topic").to_numpy()
    counts = np.array([out.partitions(name) for name in topics])
    placed = (murmur2(prefixes) & 0x7FFFFFFF) % counts[numbers]
    where: list[int] = np.where(valid(prefixes), placed, BY_KEY).tolist()
    return where


def _without_ends(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
    """The records of a batch, and whether the last end row is in it."""
    topics = batch.column("topic")
    low = pc.min(topics).as_py()
    if low is None or low >= 0:
        return batch, False
    return batch.filter(pc.greater_equal(topics, 0)), low == LAST
