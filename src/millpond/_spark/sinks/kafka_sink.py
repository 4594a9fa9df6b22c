"""All Kafka sinks of a topology in one pass: encoded records, and the function that writes a task's.

Each task writes its rows in their order, to all topics, in one transaction (or plainly); the function always
reads its input to the end, because the state of the levels before it is saved when it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from millpond._engine.keys.murmur import murmur2
from millpond._engine.rows.columns import valid
from millpond._spark.formats.formats import ENCODING, check_writable, encode, encode_combined, format_for
from millpond._spark.session.credentials import received
from millpond._spark.session.settings import overridden
from millpond._spark.sinks.ends import LAST
from millpond._spark.sinks.producers import BY_KEY, Headers, Sender, sender
from millpond._spark.sinks.selection import Selection
from millpond.errors import SinkError
from millpond.io.formats import Format
from millpond.io.topics import TopicSink

WRITTEN = "task int, written bigint, skipped bigint"
_WRITTEN_ARROW = pa.schema([("task", pa.int32()), ("written", pa.int64()), ("skipped", pa.int64())])


@dataclass(frozen=True)
class KafkaWrite:
    """mapInArrow function: writes the rows of a task and says how many.

    Parameters
    ----------
    client : how to reach Kafka, one half of it (see `handover`): no secret may be pickled.
    topics : names of the topics that the rows' column `topic` counts.
    group : what transactional ids and groups begin with; None: at least once.
    batch : number of the batch.
    """

    client: bytes = field(repr=False)
    topics: tuple[str, ...]
    group: str | None
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row."""
        task = TaskContext.get().partitionId()  # type: ignore[union-attr]
        written, skipped = self._write(task, (batch for batch in batches if len(batch)))
        yield pa.RecordBatch.from_pydict(
            {"task": [task], "written": [written], "skipped": [skipped]}, schema=_WRITTEN_ARROW
        )

    def _write(self, task: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
        """(written, skipped) records."""
        name = None if self.group is None else f"{self.group}-{task}"
        out = sender(received(self.client), name, min(self.topics))
        begun = fresh = whole = False
        count = 0
        try:
            for given in batches:
                batch, ended = _without_ends(given)
                whole = whole or ended
                # no transaction for a task without records: there is nothing that could be written twice
                if not len(batch):
                    continue
                if not begun:
                    begun, fresh = True, out.begin(self.batch)
                count += self._send(out, batch) if fresh else len(batch)
            # without a record there is nothing to lose; and a batch without records may have no task to send an end
            if begun and name is not None and not whole:
                raise SinkError(
                    "The rows of a task broke off: something above it failed, or the task was stopped.",
                    hint="Nothing of it is written; the error above, if there is one, says why.",
                )
            if fresh:
                out.commit(self.batch)
        except BaseException:
            out.abandon()
            raise
        return (count, 0) if fresh else (0, count)

    def _send(self, out: Sender, batch: pa.RecordBatch) -> int:
        names = [self.topics[0]] * len(batch)
        if len(self.topics) > 1:
            names = np.array(self.topics, dtype=object)[batch.column("topic").to_numpy()].tolist()
        keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
        times = batch.column("ts").to_numpy()
        # librdkafka takes time 0 for "now": 1 ms later is the nearest that it can write
        times = np.where(times == 0, 1, times).tolist()
        headers: list[Headers | None] = [None] * len(batch)
        if "headers" in batch.schema.names:
            given = batch.column("headers").to_pylist()
            headers = [[(h["key"], h["value"]) for h in each] if each else None for each in given]
        return out.send(names, keys, values, times, headers, self._partitions(out, batch))

    def _partitions(self, out: Sender, batch: pa.RecordBatch) -> list[int]:
        """Where each record goes, as Kafka's own clients would place a record whose key is its column `prefix`."""
        if "prefix" not in batch.schema.names:
            return [BY_KEY] * len(batch)
        prefixes, topics = batch.column("prefix"), batch.column("topic").to_numpy()
        counts = np.array([out.partitions(name) for name in self.topics])
        placed = (murmur2(prefixes) & 0x7FFFFFFF) % counts[topics]
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
    keys are combined, also prefix: the bytes that decide the partition, null where the key does. End rows, told
    by the column `ends`, keep their number in `topic`.
    """
    parts_of = ["key", "value", *(["prefix"] if any(chosen.combined for _, chosen in sinks) else [])]
    carried = ["ts", *(["headers"] if "headers" in frame.columns else [])]
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
            nothing = [F.lit(None).cast("binary").alias(name) for name in parts_of]
            parts.append(F.when(number < 0, F.struct(number.alias("topic"), *nothing)))
        several = frame.select(*carried, F.explode(F.array_compact(F.array(*parts))).alias("record"))
        return several.select("record.*", *carried)


def check_formats(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]]) -> None:
    """Raise unless each sink's formats can write what the frame has."""
    for sink, chosen in sinks:
        for part in ("key", "value"):
            _format(frame, sink, chosen, part)


def _record(frame: DataFrame, number: int, sink: TopicSink, chosen: Selection, parts: Sequence[str]) -> list[Column]:
    encoded = {"value": encode(_format(frame, sink, chosen, "value"), F.col(chosen.value))}
    encoded["prefix"] = F.lit(None).cast("binary")
    if chosen.combined:
        prefix, suffix = (format_for(field.dataType) for field in _key_fields(frame, chosen))
        encoded["prefix"] = encode(prefix, F.col(chosen.key)["prefix"])
    if chosen.combined and sink.key is None:
        encoded["key"] = encode_combined(prefix, suffix, F.col(chosen.key))
    else:
        encoded["key"] = encode(_format(frame, sink, chosen, "key"), F.col(chosen.key))
    return [F.lit(number).cast("int").alias("topic"), *(encoded[part].alias(part) for part in parts)]


def _key_fields(frame: DataFrame, chosen: Selection) -> list[StructField]:
    """Prefix and suffix of combined keys."""
    kind = frame.schema[chosen.key].dataType
    assert isinstance(kind, StructType)
    return kind.fields


def _format(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Format:
    kind = frame.schema[getattr(chosen, part)].dataType
    format: Format = getattr(sink, part) or format_for(kind)
    check_writable(format, kind, f"{part}s of the sink {sink.name!r}")
    return format
