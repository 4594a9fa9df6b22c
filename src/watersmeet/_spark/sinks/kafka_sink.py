"""All Kafka sinks of a topology in one pass: encoded records, and the function that writes a task's.

Each task writes its rows in their order, to all topics, in one transaction (or plainly), or hands them back where they
are few; the function always reads its input to the end, because the state of the levels before it is saved when it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from watersmeet._engine.keys.murmur import murmur2
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import array, stacked, valid
from watersmeet._spark.fencing.plans import UNKNOWN, BatchPlan
from watersmeet._spark.formats.dead_letters import HEADERS
from watersmeet._spark.formats.formats import ENCODING, check_writable, encode, encode_combined, format_for
from watersmeet._spark.session.credentials import received
from watersmeet._spark.session.settings import overridden
from watersmeet._spark.sinks.encoding import ENCODED_KEY
from watersmeet._spark.sinks.ends import LAST
from watersmeet._spark.sinks.producers import BY_KEY, Headers, Sender, sender
from watersmeet._spark.sinks.selection import Selection
from watersmeet._spark.sinks.transactions.retries import Transaction
from watersmeet.errors import SinkError
from watersmeet.io.formats import Format
from watersmeet.io.topics import TopicSink

WRITTEN = "task int, held binary"
"""What a task says: its number, and the records that it has not written itself, as a blob."""
_WRITTEN_ARROW = pa.schema([("task", pa.int32()), ("held", pa.binary())])
RECORD_BYTES = 16
"""Of each record, besides what is in it."""
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
    """

    client: bytes = field(repr=False)
    topics: tuple[str, ...]
    group: str | None
    batch: int
    limit: int = 0
    done: bool = False
    plan: BatchPlan = UNKNOWN

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row."""
        task = TaskContext.get().partitionId()  # type: ignore[union-attr]
        held = self._write(task, (batch for batch in batches if len(batch)))
        content = blob.encode(stacked(held)) if held else None
        yield pa.RecordBatch.from_pydict({"task": [task], "held": [content]}, schema=_WRITTEN_ARROW)

    def _write(self, task: int, batches: Iterator[pa.RecordBatch]) -> list[pa.Table]:
        """The records that are not written here, few or none."""
        name = None if self.group is None else f"{self.group}-{task}"
        held: list[pa.Table] = []
        out: Transaction | None = None
        fresh = whole = False
        size = 0
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
                    out = self._transaction(name)
                    fresh = out.begin()
                for part in (*held, batch) if fresh else ():
                    out.send(part)
                held = []
            # without a record there is nothing to lose; and a batch without records may have no task to send an end
            if (held or out) and name is not None and not whole:
                raise SinkError(
                    "The rows of a task broke off: something above it failed, or the task was stopped.",
                    hint="Nothing of it is written; the error above, if there is one, says why.",
                )
            if out and fresh:
                out.commit()
        except BaseException:
            if out:
                out.abandon()
            raise
        return held

    def _transaction(self, name: str | None) -> Transaction:
        """A task's own; without a `name` it is none, but written plainly."""
        out = sender(received(self.client), name, min(self.topics))
        send_all = partial(send, out, self.topics)
        begin, commit = partial(out.begin, self.batch, self.plan), partial(out.commit, self.batch, self.plan)
        return Transaction(out, begin, send_all, commit, is_once=name is not None)


def send(out: Sender, topics: Sequence[str], records: pa.RecordBatch | pa.Table) -> int:
    """Write records whose column `topic` counts these topics; their number."""
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
    return out.send(names, keys, values, times, headers, _partitions(out, topics, records))


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
    """The same as a table whose keys and values are of the one type that those of all sinks have."""
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


def _partitions(out: Sender, topics: Sequence[str], records: pa.RecordBatch | pa.Table) -> list[int]:
    """Where each record goes, as Kafka's own clients would place a record whose key is its column `prefix`.

    Without such a column that is where the client puts it; but to be told takes it less than to find it out.
    """
    prefixed = "prefix" in records.schema.names
    if not prefixed and (len(records) < PLACED_ROWS or not out.places_by_murmur):
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


def kafka_rows(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]], ends: str | None = None) -> DataFrame:
    """Encoded records of all these sinks, of each row in the sinks' order.

    Columns are topic (number of the sink), key, value, ts and, where the frame has them, headers; where a sink's
    keys are combined or windowed, also prefix: the bytes that decide the partition, null where the key does. End rows,
    told by the column `ends`, keep their number in `topic`.
    """
    placed = any(chosen.combined or _placed_by(sink) for sink, chosen in sinks)
    letters = any(chosen.headers for _, chosen in sinks)
    parts_of = ["key", "value", *(["prefix"] if placed else []), *(["headers"] if letters else [])]
    carried = ["ts", *(["headers"] if "headers" in frame.columns and not letters else [])]
    # the frame's own numbers of end rows are negative
    number = F.lit(0) if ends is None else F.least(F.coalesce(F.col(ends).cast("int"), F.lit(0)), F.lit(0))
    with overridden(frame.sparkSession, ENCODING):
        if len(sinks) == 1:
            # a row is a record or an end, in which all columns are null
            (sink, chosen) = sinks[0]
            _, *columns = _record(frame, 0, sink, chosen, parts_of)
            return frame.filter((number < 0) | chosen.condition).select(number.alias("topic"), *columns, *carried)
        parts = [
            F.when((number == 0) & chosen.condition, F.struct(*_record(frame, place, sink, chosen, parts_of)))
            for place, (sink, chosen) in enumerate(sinks)
        ]
        if ends is not None:
            nothing = [F.lit(None).cast(HEADERS if name == "headers" else "binary").alias(name) for name in parts_of]
            parts.append(F.when(number < 0, F.struct(number.alias("topic"), *nothing)))
        several = frame.select(*carried, F.explode(F.array_compact(F.array(*parts))).alias("record"))
        return several.select("record.*", *carried)


def check_formats(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]]) -> None:
    """Raise unless each sink's formats can write what the frame has."""
    for sink, chosen in sinks:
        for part in ("key", "value"):
            if part not in chosen.encoded:
                _format(frame, sink, chosen, part)


def _record(frame: DataFrame, number: int, sink: TopicSink, chosen: Selection, parts: Sequence[str]) -> list[Column]:
    encoded = {"value": _encoded(frame, sink, chosen, "value"), "prefix": F.lit(None).cast("binary")}
    headers = chosen.headers or ("headers" if "headers" in frame.columns else None)
    encoded["headers"] = F.lit(None).cast(HEADERS) if headers is None else F.col(headers)
    if chosen.combined:
        prefix, suffix = (format_for(field.dataType) for field in _key_fields(frame, chosen))
        encoded["prefix"] = encode(prefix, F.col(chosen.key)["prefix"])
    elif (within := _placed_by(sink)) is not None:
        # as Kafka Streams' WindowedStreamPartitioner
        key, *_ = _key_fields(frame, chosen)
        encoded["prefix"] = encode(within, F.col(chosen.key)["key"], key.dataType)
    if "key" in chosen.encoded:
        encoded["key"] = F.col(f"{chosen.key.removesuffix('_key')}_{ENCODED_KEY}")
    elif chosen.combined and sink.key is None:
        encoded["key"] = encode_combined(prefix, suffix, F.col(chosen.key))
    else:
        encoded["key"] = _encoded(frame, sink, chosen, "key")
    return [F.lit(number).cast("int").alias("topic"), *(encoded[part].alias(part) for part in parts)]


def _placed_by(sink: TopicSink) -> Format | None:
    return sink.key.placed_by if isinstance(sink.key, Format) else None


def _key_fields(frame: DataFrame, chosen: Selection) -> list[StructField]:
    """Prefix and suffix of combined keys; key, start and end of windowed ones."""
    kind = frame.schema[chosen.key].dataType
    assert isinstance(kind, StructType)
    return kind.fields


def _encoded(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Column:
    name = getattr(chosen, part)
    if part in chosen.encoded:
        return F.col(name)
    return encode(_format(frame, sink, chosen, part), F.col(name), frame.schema[name].dataType)


def _format(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Format:
    kind = frame.schema[getattr(chosen, part)].dataType
    format: Format = getattr(sink, part) or format_for(kind)
    check_writable(format, kind, f"{part}s of the sink {sink.name!r}")
    return format
