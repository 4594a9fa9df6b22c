"""All Kafka sinks of a topology in one pass: encoded records, and the function that writes a task's.

Each task writes its rows in their order, to all topics, in one transaction (or plainly); the function always
reads its input to the end, because the state of the levels before it is saved when it has. Called by `sinks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millpond._spark.formats import check_writable, encode, format_for
from millpond._spark.producers import Headers, Sender, sender
from millpond._spark.selection import Selection
from millpond.options import Format, TopicSink

WRITTEN = "task int, written bigint, skipped bigint"
_WRITTEN_ARROW = pa.schema([("task", pa.int32()), ("written", pa.int64()), ("skipped", pa.int64())])


@dataclass(frozen=True, repr=False)
class KafkaWrite:
    """mapInArrow function: writes the rows of a task and says how many.

    Parameters
    ----------
    settings : the client's settings; never shown, they may hold secrets.
    topics : names of the topics that the rows' column `topic` counts.
    group : what transactional ids and groups begin with; None: at least once.
    batch : number of the batch.
    """

    settings: Mapping[str, Any]
    topics: tuple[str, ...]
    group: str | None
    batch: int

    def __repr__(self) -> str:
        return f"KafkaWrite(topics={self.topics!r}, group={self.group!r}, batch={self.batch})"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row."""
        task = TaskContext.get().partitionId()  # type: ignore[union-attr]
        written, skipped = self._write(task, (batch for batch in batches if len(batch)))
        yield pa.RecordBatch.from_pydict(
            {"task": [task], "written": [written], "skipped": [skipped]}, schema=_WRITTEN_ARROW
        )

    def _write(self, task: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
        first = next(batches, None)
        if first is None:
            return 0, 0
        name = None if self.group is None else f"{self.group}-{task}"
        out = sender(self.settings, name, min(self.topics))
        try:
            if not out.begin(self.batch):
                return 0, len(first) + sum(len(batch) for batch in batches)
            written = self._send(out, first) + sum(self._send(out, batch) for batch in batches)
            out.commit(self.batch)
            return written, 0
        except BaseException:
            out.abandon()
            raise

    def _send(self, out: Sender, batch: pa.RecordBatch) -> int:
        names: Iterable[str] = repeat(self.topics[0], len(batch))
        if len(self.topics) > 1:
            names = map(self.topics.__getitem__, batch.column("topic").to_pylist())
        keys, values, times = (batch.column(name).to_pylist() for name in ("key", "value", "ts"))
        headers: Iterable[Headers | None] = repeat(None)
        if "headers" in batch.schema.names:
            # One turn per record: the client takes pairs, Arrow gives dictionaries.
            given = batch.column("headers").to_pylist()
            headers = [[(h["key"], h["value"]) for h in each] if each else None for each in given]
        return out.send(names, keys, values, times, headers)


def kafka_rows(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]]) -> DataFrame:
    """Encoded records of all these sinks, of each row in the sinks' order.

    Columns are topic (number of the sink), key, value, ts and, where the frame has them, headers.
    """
    carried = ["ts", *(["headers"] if "headers" in frame.columns else [])]
    if len(sinks) == 1:
        sink, chosen = sinks[0]
        return frame.filter(chosen.condition).select(*_record(frame, 0, sink, chosen), *carried)
    records = [
        F.when(chosen.condition, F.struct(*_record(frame, number, sink, chosen)))
        for number, (sink, chosen) in enumerate(sinks)
    ]
    one_each = frame.select(*carried, F.explode(F.array_compact(F.array(*records))).alias("record"))
    return one_each.select("record.*", *carried)


def check_formats(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]]) -> None:
    """Raise unless each sink's formats can write what the frame has."""
    for sink, chosen in sinks:
        for part in ("key", "value"):
            _format(frame, sink, chosen, part)


def _record(frame: DataFrame, number: int, sink: TopicSink, chosen: Selection) -> list[Column]:
    parts = []
    for part in ("key", "value"):
        name = getattr(chosen, part)
        parts.append(encode(_format(frame, sink, chosen, part), F.col(name)).alias(part))
    return [F.lit(number).cast("int").alias("topic"), *parts]


def _format(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Format:
    kind = frame.schema[getattr(chosen, part)].dataType
    format: Format = getattr(sink, part) or format_for(kind)
    check_writable(format, kind, f"{part}s of the sink {sink.name!r}")
    return format
