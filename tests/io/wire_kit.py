"""Rows of a test's own frame as an exchange brings them to outputs: wire rows, and an end behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet._engine import row_sizes
from watersmeet._plan.nodes import Shape
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.outputs.output import OutputContext, OutputWriter, TopicsWriter
from watersmeet._spark.outputs.outputs import BatchSinks, writer_of
from watersmeet._worker.pack import wire_batches
from watersmeet._worker.wire import END, WIRE, Exits, Labels
from watersmeet.io.outputs import SinkTarget


@dataclass(frozen=True)
class Part:
    """The rows of a frame that an output gets, and its columns for keys and values."""

    key: str = "key"
    value: str = "value"
    where: Callable[[pa.RecordBatch], pa.Array] | None = None


@dataclass(frozen=True)
class Wire:
    """mapInArrow function: rows as wire rows of each output, then the end."""

    parts: tuple[Part, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            zeros = pa.array([0] * len(batch), pa.int64())
            columns: dict[str, Any] = dict.fromkeys(("order_ts", "srcpart", "p0"), zeros)
            columns |= {"offset": pa.array(range(first, first + len(batch)), pa.int64()), "ts": batch.column("ts")}
            columns |= {name: batch.column(name) for name in ("headers",) if name in batch.schema.names}
            first += len(batch)
            for number, part in enumerate(self.parts):
                rows = pa.table({**columns, "key": batch.column(part.key), "value": batch.column(part.value)})
                rows = rows if part.where is None else rows.filter(part.where(batch))
                if len(rows):
                    yield from wire_batches([(number, number, row_sizes.encode(rows))])
        yield from wire_batches([(len(self.parts), END, b"")])


def wired(frame: DataFrame, *parts: Part) -> DataFrame:
    """The wire rows of outputs with these parts of the frame."""
    return frame.mapInArrow(Wire(parts), WIRE)


def compiled_of(frame: DataFrame, parts: Mapping[str, Part]) -> CompiledFrame:
    """The outputs of these names, over wire rows that are made of such a frame."""
    kinds, count = {each.name: each.dataType for each in frame.schema}, len(parts)
    exits = Exits(Labels(1, count, tuple(range(count)), (count,)), tuple(parts), {n: n for n in range(count)}, slots=1)
    shapes = [Shape("stream", kinds[part.key], kinds[part.value]) for part in parts.values()]
    return CompiledFrame(wired(frame, *parts.values()), exits, shapes, headers="headers" in kinds)


def sinks_of(compiled: CompiledFrame, targets: Mapping[str, SinkTarget]) -> list[Any]:
    """Sink nodes of these targets, by their names."""
    shapes = dict(zip(compiled.exits.names, compiled.shapes, strict=True))
    return [
        SimpleNamespace(name=name, output=name, target=target, shape=shapes[name]) for name, target in targets.items()
    ]


@dataclass
class Written:
    """Writes batches of a test's frames: called with the frame and the number of a batch."""

    outputs: list[tuple[SinkTarget, Part]]
    identity: str = "app-1"
    settings: dict[str, str] = field(default_factory=dict)  # of a Kafka client
    frame: DataFrame | None = None  # the wire rows of the last batch
    _sinks: BatchSinks | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self._sinks is None:
            self._sinks = BatchSinks(self._compiled(frame), self._writers(frame))
        self.frame = self._compiled(frame).frame
        self._sinks(self.frame, batch)

    def _parts(self) -> dict[str, Part]:
        return {f"out{number}": part for number, (_, part) in enumerate(self.outputs)}

    def _compiled(self, frame: DataFrame) -> CompiledFrame:
        return compiled_of(frame, self._parts())

    def _writers(self, frame: DataFrame) -> tuple[OutputWriter, ...]:
        compiled = self._compiled(frame)
        context = OutputContext(compiled, self.identity)
        sinks = sinks_of(compiled, {f"out{number}": target for number, (target, _) in enumerate(self.outputs)})
        topics = [sink for sink in sinks if sink.target.topic is not None]
        writers: list[OutputWriter] = []
        if topics:
            written = TopicsWriter(context, tuple(topics))
            vars(written)["_settings"] = self.settings
            writers.append(written)
        return (*writers, *(writer_of(s.target)(context, (s,)) for s in sinks if s not in topics))
