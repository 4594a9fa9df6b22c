"""Counts of workers in a batch beside dropped records: records, times, rows of tables, memory.

Everything is known without reading state, and costs a number or a scan of one column for some ten thousand rows. A
count leaves a task as a count of dropped records does (`wire`): a row without blob, with the number of the measure as
its port, and the place that counted as its label. A task that runs again counts the same once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange.routing import RoutedBatch
from watersmeet._engine.operator import silent_rows
from watersmeet._engine.rows.columns import PARTITION_BITS, bools, ints
from watersmeet._engine.state.runs import State
from watersmeet._plan.physical import Operator, Physical
from watersmeet._worker.process import own_bytes
from watersmeet._worker.wire.ages import begun_ms, buckets_of
from watersmeet._worker.wire.hot_keys import hottest, key_pieces

CONSUMED, PRODUCED = "consumed", "produced"
"""Records of a source; of a sink."""
PROCESSED, FORWARDED = "processed", "forwarded"
"""Records that an operator was given; that it gave."""
ROWS, BYTES = "rows", "bytes"
"""Of a table's range of hashes, as its manifest says: overwritten rows that are not merged yet, and tombstones, count.
"""
STREAM_TIME, LATENESS, LATE = "stream_time", "lateness", "late"
"""Of a source, in ms: the largest timestamp; how far behind the time of its partition a record came at most, and all of
them together."""
AGE, BEGUN = "age", "begun"
"""Records of a source by their age at the begin of the batch, in buckets (`ages`); when the batch began, in ms."""
MEMORY = "memory"
"""Resident bytes of the process that ran a level."""
SENT = "sent"
"""Bytes of the blobs that packing and levels have made."""
HOT_KEY = "hot_key"
"""Of an operator: rows and text of a key that has many of them, in pieces (`hot_keys`)."""


_OF_SOURCES = (CONSUMED, STREAM_TIME, LATENESS, LATE, AGE)
_COUNT_BITS = 40


def aged(count: int) -> tuple[int, int]:
    """The bucket, and the number of records in it, of a count of `AGE`."""
    return count >> _COUNT_BITS, count & ((1 << _COUNT_BITS) - 1)


class Measure(NamedTuple):
    """The counted things: of which node, and of which of its parts (operators, tables)."""

    kind: str
    node: str = ""
    part: str = ""


Tally = Counter[Measure]
"""What one place has counted in a batch."""
WireCount = tuple[int, int, None, int]
WireRow = tuple[int, int, bytes | None, int]
"""Label, port, blob, count."""
_OF_RANGES = (ROWS, BYTES, HOT_KEY)


def into_task(tally: Tally, task: Tally) -> Tally:
    """The sizes of a label's tables, and its hot keys; all else that it has counted is added to its task's."""
    for measure, count in tally.items():
        if measure.kind == MEMORY:
            task[measure] = max(task[measure], count)
        elif measure.kind not in _OF_RANGES:
            task[measure] += count
    return Tally({measure: count for measure, count in tally.items() if measure.kind in _OF_RANGES})


@dataclass(frozen=True)
class Measures:
    """The counts of a plan's workers.

    Parameters
    ----------
    first : number of the first measure: those of dropped records come before.
    names : by number, from `first` on.
    sinks : name of the sink of the records on a port.
    copies : (operator, side) with records that every shard gets; their first shard counts them.
    """

    first: int
    names: tuple[Measure, ...]
    sinks: Mapping[int, str]
    copies: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, physical: Physical, first: int) -> Measures:
        """The measures of a plan."""
        # what becomes dead letters is read by the source whose these are
        sources = [source.name for source in physical.plan.sources if source.dead_letters_of is None]
        names = [Measure(kind, source) for source in sources for kind in _OF_SOURCES]
        for operator in physical.operators:
            names += [Measure(kind, operator.node, operator.stem) for kind in (PROCESSED, FORWARDED, HOT_KEY)]
            names += [Measure(kind, operator.node, table.name) for table in operator.stored for kind in (ROWS, BYTES)]
        ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
        names += [Measure(PRODUCED, sink) for sink in physical.sinks]
        copies = frozenset((edge.target, edge.side) for edge in physical.edges if edge.reads.broadcast)
        return cls(first, (*dict.fromkeys(names), Measure(MEMORY), Measure(BEGUN), Measure(SENT)), ports, copies)

    @cached_property
    def _numbers(self) -> dict[Measure, int]:
        return {measure: number for number, measure in enumerate(self.names, self.first)}

    def wire(self, tally: Tally, place: int) -> Iterator[WireCount]:
        """The counts of one place, a task or a label, as wire rows."""
        for measure, count in tally.items():
            if measure.kind == AGE:
                # a row for each bucket, all of them of one measure
                count, measure = int(measure.part) << _COUNT_BITS | count, measure._replace(part="")
            for each in key_pieces(count) if measure.kind == HOT_KEY else (count,):
                yield place, self._numbers[measure], None, each

    def read(self, number: int) -> Measure:
        """The measure of a number."""
        return self.names[number - self.first]

    def produced(self, routed: Iterable[RoutedBatch], tally: Tally) -> Iterator[RoutedBatch]:
        """Routed batches as they come, those on their way to sinks counted."""
        for each in routed:
            sink = self.sinks.get(each.port)
            if sink is not None:
                tally[Measure(PRODUCED, sink)] += len(each.rows)
            yield each

    def sent(self, rows: Iterable[WireRow], tally: Tally) -> Iterator[WireRow]:
        """Wire rows as they come, with the bytes of their blobs counted."""
        size = 0
        for row in rows:
            size += len(row[2] or b"")
            yield row
        tally[Measure(SENT)] += size

    def processed(self, operator: Operator, shard: int, inputs: Mapping[int, pa.Table], tally: Tally) -> None:
        """Count the records of an operator; rows of time, and rows for lookups only, are no records."""
        own = {side: rows for side, rows in inputs.items() if side >= 0 and (operator.id, side) not in self.copies}
        counted = {side: rows for side, rows in inputs.items() if side >= 0} if shard == 0 else own
        records = sum(len(rows) - int(silent_rows(rows).sum()) for rows in counted.values())
        tally[Measure(PROCESSED, operator.node, operator.stem)] += records
        found = hottest(own)
        if found is not None:
            tally[Measure(HOT_KEY, operator.node, operator.stem)] = found

    def forwarded(self, operator: Operator, results: Iterable[pa.Table], tally: Tally) -> Iterator[pa.Table]:
        """An operator's results as they come, counted."""
        for rows in results:
            tally[Measure(FORWARDED, operator.node, operator.stem)] += len(rows) - int(silent_rows(rows).sum())
            yield rows

    def note_state(self, operator: Operator, shard: int, state: State, tally: Tally) -> None:
        """Note how large an operator's tables are behind its commit, and the process."""
        for table in (each for each in operator.stored if shard == 0 or not each.everywhere):
            entry = state.manifest.tables.get(table.name)
            pieces = () if entry is None else tuple(piece for level in entry.levels for piece in level.pieces())
            tally[Measure(ROWS, operator.node, table.name)] = sum(piece.rows for piece in pieces)
            tally[Measure(BYTES, operator.node, table.name)] = sum(piece.size for piece in pieces)
        tally[Measure(MEMORY)] = own_bytes()

    def consumed(self, frame: pa.Table, roots: Mapping[int, str], letters: Mapping[int, str], tally: Tally) -> None:
        """Count what a source stage has read, and note its times.

        Parameters
        ----------
        frame : its rows, stamped.
        roots : name of each source, by its number; none where the rows are an operator's.
        letters : of those that are dead letters the name of the source that has read them, which no longer has them.
        """
        if not roots or not len(frame):
            return
        begun = begun_ms()
        if begun is not None:
            tally[Measure(BEGUN)] = begun
        root, order_ts, ts = ints(frame, "srcpart") >> PARTITION_BITS, ints(frame, "order_ts"), ints(frame, "ts")
        for number, name in roots.items():
            tally[Measure(CONSUMED, letters.get(number, name))] += int((root == number).sum())
            timed = bools(frame, f"root:{number}") & (order_ts >= 0)
            if number in letters or not timed.any():
                continue
            late = np.maximum(order_ts[timed] - ts[timed], 0)
            for kind, value in ((STREAM_TIME, order_ts[timed].max()), (LATENESS, late.max())):
                measure = Measure(kind, name)
                tally[measure] = max(tally.get(measure, int(value)), int(value))
            tally[Measure(LATE, name)] += int(late.sum())
            for bucket, count in buckets_of(begun - ts[timed]).items() if begun is not None else ():
                tally[Measure(AGE, name, str(bucket))] += count
