"""Behind the last exchange: a task's wire rows as what writes sinks needs them, of each sink in order (law 2).

Writers from wire rows, sorted by label, take shard after shard; Spark's writers take a frame of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import SHARD, array, position_columns, stacked
from watersmeet._engine.rows.position import parts_by_position
from watersmeet._worker.formats.dead_letters import letter_headers
from watersmeet._worker.packing.packing import fitted
from watersmeet._worker.process import give_back, settle
from watersmeet._worker.wire.encoding import ENCODED_KEY
from watersmeet._worker.wire.ends import end_rows
from watersmeet._worker.wire.sequence import SEQUENCE, Numbers
from watersmeet._worker.wire.wire import END, Exits

TOGETHER_ROWS, TOGETHER_BYTES = 4_096, 1 << 20
"""Of small shards that are put into order together: that costs as much for one with a few rows as for all of them."""

SinkRows = dict[int, list[pa.Table]]
"""Rows by number of the sink."""


def small_together(shards: Iterator[SinkRows]) -> Iterator[SinkRows]:
    """The rows of shards as they come; small ones of the same sinks with the column `SHARD`, several together."""
    held: list[SinkRows] = []
    rows = size = 0
    for shard in shards:
        tables = [table for given in shard.values() for table in given]
        more, larger = sum(map(len, tables)), sum(table.get_total_buffer_size() for table in tables)
        if held and (rows + more > TOGETHER_ROWS or size + larger > TOGETHER_BYTES or shard.keys() != held[-1].keys()):
            yield _as_one(held)
            held, rows, size = [], 0, 0
        del tables
        held.append(shard)
        rows, size = rows + more, size + larger
    if held:
        yield _as_one(held)


def _as_one(shards: list[SinkRows]) -> SinkRows:
    """Shards of the same sinks as one; the list is used up."""
    if len(shards) == 1:
        return shards.pop()
    found: SinkRows = {sink: [] for sink in shards[0]}
    for number, shard in enumerate(shards):
        for sink, tables in shard.items():
            rows = stacked(tables)
            found[sink].append(rows.append_column(SHARD, pa.array(np.full(len(rows), number, dtype=np.int64))))
    shards.clear()
    return found


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
        held: SinkRows = {}
        at = -1
        for batch in self._batches:
            labels, ports = (batch.column(name).to_pylist() for name in ("label", "port"))
            for row, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if label != at and held:
                    yield held
                    held = {}
                at = label
                if port == END:
                    self.ended = True
                else:
                    rows = blob.decode(batch.column("blob")[row].as_buffer())
                    held.setdefault(self._sinks[port], []).append(rows)
        if held:
            yield held


@dataclass(frozen=True)
class UnpackExits:
    """mapInArrow function behind the last exchange: each sink's rows in order of position, then end rows.

    Parameters
    ----------
    schema : columns of the frame that the sinks read: `sink`, and per sink `k{n}_key`, `k{n}_value`, and
        `k{n}_encoded_key` where keys are written already.
    exits : how sinks are told apart.

    The rows are numbered where the schema has the column `sequence`.
    """

    schema: pa.Schema
    exits: Exits

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sinks' rows of one task."""
        settle()
        mail: dict[int, SinkRows] = {}
        for batch in batches:
            labels, ports = batch.column("label").to_pylist(), batch.column("port").to_pylist()
            for at, (label, port) in enumerate(zip(labels, ports, strict=True)):
                rows = blob.decode(batch.column("blob")[at].as_buffer())
                mail.setdefault(label, {}).setdefault(self.exits.ports[port], []).append(rows)
        numbers = Numbers()
        for case, rows in self._in_order(mail):
            yield from self._sink_rows(rows, case, numbers)
        yield from end_rows(self.schema, "sink")
        give_back()

    def _in_order(self, mail: dict[int, SinkRows]) -> Iterator[tuple[int, SinkRows]]:
        """The case of some rows, and the rows, in order of labels; the mail is used up."""
        labels, within = sorted(mail), self.exits.labels
        if "case" not in self.schema.names:
            yield from ((0, rows) for rows in small_together(mail.pop(label) for label in labels))
            return
        for label in labels:
            yield within.place(label)[1] // within.shards, mail.pop(label)

    def _sink_rows(self, mail: SinkRows, case: int, numbers: Numbers) -> Iterator[pa.RecordBatch]:
        """Rows of one sink, or of all sinks of one topic, which have keys of one type."""
        sinks = sorted(mail)
        kind = self.schema.field(f"k{sinks[0]}_key").type
        rows = together({sink: stacked(mail.pop(sink)) for sink in sinks}, kind)
        read = frozenset(("key", "headers", ENCODED_KEY, *(f"value{sink}" for sink in sinks), *self.schema.names))
        for part in parts_by_position(rows, position_columns(self.exits.slots), read):
            given = {name: array(part, name) for name in part.column_names}
            # those of dead letters have a column of their own, since other outputs may be none with headers
            given |= {letter_headers(sink): given["headers"] for sink in sinks if "headers" in given}
            given |= {f"k{sink}_{ENCODED_KEY}": given[ENCODED_KEY] for sink in sinks if ENCODED_KEY in given}
            for sink in sinks:  # each of them; rows of another are never read as its own
                given[f"k{sink}_key"], given[f"k{sink}_value"] = given["key"], given.pop(f"value{sink}")
            given[SEQUENCE] = numbers.of(len(part))
            if "case" in self.schema.names:
                given["case"] = pa.array(np.full(len(part), case, dtype=np.int64))
            yield fitted(given, self.schema, len(part))


def together(rows: Mapping[int, pa.Table], kind: pa.DataType) -> pa.Table:
    """Rows of sinks of one topic in one table, with the number of each one's `sink`; their values in `value{sink}`.

    Parameters
    ----------
    rows : by number of the sink.
    kind : of the keys.
    """
    parts = []
    for sink, table in rows.items():
        columns = {name: table.column(name) for name in table.column_names if name not in ("key", "value")}
        columns |= {"key": table.column("key").cast(kind), f"value{sink}": table.column("value")}
        columns["sink"] = pa.array(np.full(len(table), sink, dtype=np.int32))
        parts.append(pa.table(columns))
    return stacked(parts)
