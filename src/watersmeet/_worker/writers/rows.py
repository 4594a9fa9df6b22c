"""Behind the last exchange: a task's wire rows as what writes sinks needs them, of each sink in order (law 2).

Writers in tasks take shard after shard of wire rows that are sorted by label; what needs a DataFrame gets one of all.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import row_sizes
from watersmeet._engine.rows import SHARD, array, parts_by_position, position_columns, stacked
from watersmeet._worker import process
from watersmeet._worker.batch_plan import older
from watersmeet._worker.pack import fitted
from watersmeet._worker.process import freeze_imports, give_back
from watersmeet._worker.wire import END, SEQUENCE, Exits, Numbers
from watersmeet.errors import SinkError
from watersmeet.io.outputs import BatchInfo, Output

TOGETHER_ROWS, TOGETHER_BYTES = 4_096, 1 << 20
"""Of small shards that are put into order together: that costs as much for one with a few rows as for all of them."""

SinkRows = dict[int, list[pa.Table]]
"""Rows by number of the sink."""


def small_together(shards: Iterator[SinkRows]) -> Iterator[SinkRows]:
    """The rows of shards as they come; small ones of the same sinks with the column `SHARD`, several together."""
    buffer: list[SinkRows] = []
    rows = size = 0
    for shard in shards:
        tables = [table for group in shard.values() for table in group]
        count, larger = sum(map(len, tables)), sum(table.get_total_buffer_size() for table in tables)
        if buffer and (
            rows + count > TOGETHER_ROWS or size + larger > TOGETHER_BYTES or shard.keys() != buffer[-1].keys()
        ):
            yield _as_one(buffer)
            buffer, rows, size = [], 0, 0
        del tables
        buffer.append(shard)
        rows, size = rows + count, size + larger
    if buffer:
        yield _as_one(buffer)


def _as_one(shards: list[SinkRows]) -> SinkRows:
    """Shards of the same sinks as one; the list is used up."""
    if len(shards) == 1:
        return shards.pop()
    combined: SinkRows = {sink: [] for sink in shards[0]}
    for number, shard in enumerate(shards):
        for sink, tables in shard.items():
            rows = stacked(tables)
            combined[sink].append(rows.append_column(SHARD, pa.array(np.full(len(rows), number, dtype=np.int64))))
    shards.clear()
    return combined


class Shards:
    """The shards that a task gets, one after the other, small ones together: by number of the sink their rows.

    The reader of large rows has them alone: none of them is held here.

    Parameters
    ----------
    batches : wire rows.
    sinks : number of the sink of each port.

    Attributes
    ----------
    ended : whether the end has come, which stands behind all rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], sinks: Mapping[int, int]) -> None:
        self._batches, self._sinks = batches, sinks
        self.ended = False

    def __iter__(self) -> Iterator[SinkRows]:
        return small_together(self._single())

    def _single(self) -> Iterator[SinkRows]:
        shard: SinkRows = {}
        at = -1
        for batch in self._batches:
            labels, ports = (batch.column(name).to_pylist() for name in ("label", "port"))
            for row, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if label != at and shard:
                    yield shard
                    shard = {}
                at = label
                if port == END:
                    self.ended = True
                else:
                    rows = row_sizes.decode(batch.column("blob")[row].as_buffer())
                    shard.setdefault(self._sinks[port], []).append(rows)
        if shard:
            yield shard


def in_order(rows: pa.Table, slots: int, schema: pa.Schema, numbers: Numbers) -> Iterator[pa.RecordBatch]:
    """The rows of some shards of one output in order of position, in these columns; nobody else holds the rows.

    Parameters
    ----------
    slots : path slots of the plan.
    schema : what it names beside the rows' own columns: `timestamp`, made of `ts`, and `sequence`.
    """
    holder = [rows]
    del rows
    for part in parts_by_position(holder.pop(), position_columns(slots), frozenset(("ts", *schema.names))):
        columns = {name: array(part, name) for name in part.column_names}
        columns[SEQUENCE] = numbers.of(len(part))
        if "timestamp" in schema.names:
            columns["timestamp"] = pc.multiply_checked(columns["ts"].cast(pa.int64()), pa.scalar(1_000, pa.int64()))
        yield fitted(columns, schema, len(part))


@dataclass(frozen=True)
class UnpackExits:
    """mapInArrow function: what a task's wire rows bring to one output, each key's rows in order of position."""

    schema: pa.Schema  # see `in_order`
    exits: Exits  # how outputs are told apart
    sink: int  # number of the output
    batch: int | None = None  # number of the batch; None: the one that the task gets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        by_label: dict[int, SinkRows] = {}
        for batch in batches:
            labels, ports = batch.column("label").to_pylist(), batch.column("port").to_pylist()
            for at, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if self.exits.ports.get(port) == self.sink:
                    rows = row_sizes.decode(batch.column("blob")[at].as_buffer())
                    by_label.setdefault(label, {}).setdefault(self.sink, []).append(rows)
        numbers, slots = Numbers(self.batch), self.exits.slots
        for case, shard in self._by_label(by_label):
            for part in in_order(stacked(shard.pop(self.sink)), slots, self.schema, numbers):
                yield part if case is None else _of_case(part, case)
        give_back()

    def _by_label(self, by_label: dict[int, SinkRows]) -> Iterator[tuple[int | None, SinkRows]]:
        """Rows in order of labels, and their case, if it is asked for; the mapping is emptied."""
        labels, exit_labels = sorted(by_label), self.exits.labels
        if "case" not in self.schema.names:
            yield from ((None, rows) for rows in small_together(by_label.pop(label) for label in labels))
            return
        for label in labels:
            yield exit_labels.place(label)[1] // exit_labels.shards, by_label.pop(label)


def _of_case(rows: pa.RecordBatch, case: int) -> pa.RecordBatch:
    at = rows.schema.get_field_index("case")
    return rows.set_column(at, rows.schema.field(at), pa.array(np.full(len(rows), case, dtype=np.int64)))


# Calls outputs of the user's own: on the driver, or as the mapInArrow function of a task.
#
# An error of such an output is raised as a `SinkError` with the line of its own file; a batch that it already has is
# left out.

T = TypeVar("T")
CALLED = "rows bigint"
_LONGEST = 500


@dataclass(frozen=True)
class UserOutput:
    """An output of the user's own."""

    output: Output  # as he wrote it
    name: str  # the output's name
    identity: str  # names the application and its checkpoint

    def writer(self, task: int | None) -> str:
        """Who writes: the driver (None), or a task."""
        return self.identity if task is None else f"{self.identity}-{task}"

    def write(self, rows: pa.Table, batch: int, task: int | None = None) -> None:
        """Write rows of a batch, unless there are none, or the output has the batch."""
        if not rows.num_rows:
            return
        writer = self.writer(task)
        last = last_batch_of(self, batch, writer)
        if last is not None and last > batch:
            raise older(f"output {self.name!r}: batch {batch} is to be written, batch {last} is in")
        if last is None or last < batch:
            _on_their_line(self, "write", batch, lambda: self.output.write(rows, BatchInfo(batch, writer, task)))


def last_batch_of(output_writer: UserOutput, batch: int, writer: str) -> int | None:
    """The last batch that the output says it has of a writer's; None: it does not know.

    Parameters
    ----------
    batch : that it is asked for.
    """
    last: object = _on_their_line(output_writer, "last_batch", batch, lambda: output_writer.output.last_batch(writer))
    if last is None or (isinstance(last, int) and not isinstance(last, bool)):
        return last
    raise SinkError(
        f"{type(output_writer.output).__name__}.last_batch must return the number of a batch, -1 or None, "
        f"not {last!r:.80}.",
        hint="Return int(...) of what is stored.",
    )


@dataclass(frozen=True)
class WriteUserOutput:
    """mapInArrow function: has the output write a task's rows, and says how many these were."""

    own: UserOutput  # the output
    batch: int  # number of the batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all rows, write them, and yield one row."""
        freeze_imports()
        parts = [rows for rows in batches if len(rows)]
        if parts:
            self.own.write(pa.Table.from_batches(parts), self.batch, process.partition())
        yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(map(len, parts))], pa.int64())})
        give_back()


def _on_their_line(output_writer: UserOutput, method: str, batch: int, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:
        kind = type(output_writer.output)
        raise raised(output_writer.name, f"{kind.__name__}.{method}", getattr(kind, method), batch, error) from error


def raised(output: str, method: str, function: Callable[..., Any], batch: int, error: Exception) -> SinkError:
    """The error of an output that raises, with the line of its own file.

    Parameters
    ----------
    output : its name.
    method : what was called, as text.
    function : that.
    """
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    file = getattr(code, "co_filename", None)
    frames = traceback.extract_tb(error.__traceback__)
    # the last line of the output's own file; what it calls is somebody else's
    frame = next((entry for entry in reversed(frames) if entry.filename == file), frames[-1])
    message = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
    return SinkError(
        f"The output {output!r} raised {message}",
        given=f"{method}, line {frame.lineno} of {frame.filename}, batch {batch}",
        hint="Remove the cause, then start again with the same checkpoint: the batch runs again, with the same "
        "rows and the same number.",
    )
