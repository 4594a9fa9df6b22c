"""Into and out of the exchange: wide frames to blobs and back, in the Python workers (mapInArrow).

The callables are plain picklable dataclasses; the work is `_engine.exchange`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange.clock import Clock, refuse_far
from watersmeet._engine.exchange.routing import Drops, Outlet, RoutedBatch, stamp_piped, stamp_sources
from watersmeet._engine.exchange.watermark import Watermark, times
from watersmeet._engine.expressions.explosion import TooManyRows
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import ints, position_columns, visible_columns
from watersmeet._engine.rows.position import PART_ROWS
from watersmeet._engine.rows.sizes import refuse_large
from watersmeet._engine.rows.topic_slots import with_topics
from watersmeet._worker import task
from watersmeet._worker.formats.arrow_types import loosened
from watersmeet._worker.formats.dead_letters import OnError, evaluated, without
from watersmeet._worker.formats.deserializers import FUNCTION_ERROR, NEGATIVE_TIMESTAMP, REASONS, Deserializers
from watersmeet._worker.packing.extracted import Extraction
from watersmeet._worker.packing.journaled import JournalFile
from watersmeet._worker.packing.spool import LARGE, in_order
from watersmeet._worker.pattern_topics import take_topics
from watersmeet._worker.process import SPOOL, give_back, say, settle
from watersmeet._worker.wire.common import Common
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet._worker.wire.encoding import packed
from watersmeet._worker.wire.ends import end_rows
from watersmeet._worker.wire.measures import Tally, WireRow
from watersmeet._worker.wire.peeks import PeekCall, rooted, show
from watersmeet._worker.wire.sequence import SEQUENCE, Numbers
from watersmeet._worker.wire.wire import DEAD_LETTER, END, Labels, operator_of

if TYPE_CHECKING:
    import pandas as pd

WIRE_ARROW = pa.schema([("label", pa.int32()), ("port", pa.int32()), ("blob", pa.binary()), ("count", pa.int64())])
PACK_ROWS = 65_536
"""Rows gathered before blobs are cut: enough that a blob's fixed cost does not matter, and not more."""
PACK_BYTES = 256 << 20
"""The same of large rows, whatever their number: an Arrow column of bytes ends at 2 GB."""
FRAME_BYTES = 4 << 20
"""Of one frame behind a level, about: Spark makes a batch of each, and what it costs beside its bytes is half of a
millisecond."""
WIRE_ROWS = 1_024
"""Of one Arrow batch behind packing, at most."""


@dataclass(frozen=True)
class PackedStage:
    """The facts of the plan for the packing of a stage.

    Parameters
    ----------
    outlets : where rows go.
    slots : path slots of the plan.
    roots : name of each root number, for counting what sources drop.
    peeks : functions to be shown rows.
    watermarks : the rows of time for operators.
    first : numbers of the roots that are global tables.
    dead_letters : by the number of a root that has dead letters, the name that they are counted under.
    patterns : numbers of the roots that have the topics of a pattern.
    """

    outlets: tuple[Outlet, ...]
    slots: int
    roots: Mapping[int, str]
    peeks: tuple[PeekCall, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    first: tuple[int, ...] = ()
    dead_letters: Mapping[int, str] = field(default_factory=dict)
    patterns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pack:
    """mapInArrow function: a stage's wide frame to wire rows.

    Parameters
    ----------
    stage : the facts of the plan.
    common : the settings that all packings share.
    sources : whether this is a source stage: its rows have no position yet.
    order : ordering columns, where the whole batch comes through one task and is numbered here.
    program : makes the columns that functions give, where Spark has not.
    snapshot : whether the rows are a table's snapshot.
    deserializers : of what comes as bytes; None: nothing does.
    ends : whether to send ends behind the rows (see `wire`).
    outliving : what becomes of records for which a function raises, by the number of their root; else the batch fails.
    extraction : gives records their times, where these are not their own.
    """

    stage: PackedStage
    common: Common
    sources: bool
    order: tuple[str, ...] = ()
    program: Program = field(default_factory=Program)
    snapshot: bool = False
    deserializers: Deserializers | None = None
    ends: bool = False
    outliving: Mapping[int, OnError] = field(default_factory=dict)
    extraction: Extraction = field(default_factory=Extraction)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wire rows of one task."""
        settle()
        take_topics()
        drops, tally, clock = DeadLetterWriter(self.common.dead_letters), Tally(), Clock()
        journal = JournalFile.begun(self.stage.roots, snapshot=self.snapshot) if self.sources else None
        for gathered in self._gathered(batches):
            if journal is not None:
                journal.write(gathered)
            yield from wire_batches(self.packed(gathered, clock, drops, tally))
            yield from _passed_on(gathered)
        if journal is not None:
            journal.end()
        yield from wire_batches(count_rows(drops, self.common.metrics, task.partition()))
        if self.common.measures:
            yield from wire_batches(self.common.measures.wire(tally, task.partition()))
        if self.ends:
            yield from wire_batches(ends_for_all_tasks(self.common.labels))
        give_back()

    def packed(
        self, gathered: pa.Table, clock: Clock, drops: DeadLetterWriter, tally: Tally | None = None
    ) -> Iterator[WireRow]:
        """The rows on their way to operators and sinks, then the rows of time."""
        try:
            frame = self._prepared(loosened(gathered), clock, drops)
        except TooManyRows as many:
            for part in many.slices(gathered):
                yield from self.packed(part, clock, drops, tally)
            return
        if self.sources:
            drops.refused(frame, self.stage.roots)
        live = packed(
            frame, self.stage.outlets, self.common.labels.counts, self.stage.slots, drops, self.common.encodings
        )
        routed: Iterable[RoutedBatch] = chain(live, drops.routed(self.common.labels.counts))
        if self.common.measures and tally is not None:
            routed = self.common.measures.produced(routed, tally)
            self.common.measures.consumed(
                frame, self.stage.roots if self.sources else {}, self.stage.dead_letters, tally
            )
        rows = wire_rows(routed, self.common.labels)
        if self.common.measures and tally is not None:
            rows = self.common.measures.sent(rows, tally)
        yield from rows
        yield from wire_rows(times(frame, self.stage.watermarks, self.common.labels.counts), self.common.labels)

    def _gathered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        if not self.order:
            return _gather(batches, PACK_ROWS)
        return in_order(
            batches, self.order, large=lambda: say(SPOOL, LARGE.format(", ".join(self.stage.roots.values())))
        )

    def _prepared(self, frame: pa.Table, clock: Clock, drops: DeadLetterWriter) -> pa.Table:
        if self.sources:
            refuse_large(frame, self.stage.roots)
        if self.deserializers:
            frame = self.deserializers(frame)
            # what is kept as it came may be there twice
            refuse_large(
                frame.drop_columns([name for name, _ in self.deserializers.dead_letter_columns]), self.stage.roots
            )
        frame = self.extraction(frame)
        frame = self._marked_roots(*evaluated(frame, self.program, self.outliving, FUNCTION_ERROR))
        if not self.sources:
            return frame
        self._count_reasons(frame, drops)
        refuse_far(frame, self.stage.roots)
        if "order_ts" in frame.column_names:
            return stamp_piped(frame, self.stage.outlets)
        frame = with_topics(_in_types(frame), self.stage.patterns)
        given = (frame, self.stage.outlets, clock, self.stage.slots, self.stage.first)
        return stamp_sources(*given, snapshot=self.snapshot)

    def _marked_roots(self, given: pa.Table, frame: pa.Table) -> pa.Table:
        """The frame with its roots marked, less the rows that end since a function that is shown them raises."""
        marked, failed = rooted(frame, self.stage.roots), dict[int, Exception]()
        show(marked, self.stage.peeks, ", ".join(sorted(self.stage.roots.values())), failed if self.outliving else None)
        if not failed:
            return marked
        failed = self.program.given(marked, failed)
        return rooted(without(given, failed, self.program, self.outliving, FUNCTION_ERROR), self.stage.roots)

    def _count_reasons(self, frame: pa.Table, drops: DeadLetterWriter) -> None:
        root, reason = frame.column("root").fill_null(-1).to_numpy(), frame.column("reason").to_numpy()
        for code in np.unique(reason[reason > (NEGATIVE_TIMESTAMP if drops.takes_refused else 0)]):
            for number in np.unique(root[reason == code]):
                drops[(self.stage.roots[int(number)], REASONS[int(code)])] += int(
                    ((reason == code) & (root == number)).sum()
                )
        for number, name in self.stage.dead_letters.items():
            drops[(name, DEAD_LETTER)] += int((root == number).sum())


@dataclass(frozen=True)
class Unpack:
    """mapInArrow function: wire rows to a stage's wide frame.

    Parameters
    ----------
    schema : the wide frame's.
    operators : the operators with results in this stage.
    labels : gives the case of a row, where there are several.
    ends : whether end rows follow, numbered in the column `root` (see `ends`).
    """

    schema: pa.Schema
    operators: frozenset[int]
    labels: Labels
    ends: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wide rows of one task."""
        settle()
        numbers = Numbers()
        for batch in batches:
            labels, ports = batch.column("label").to_pylist(), batch.column("port").to_pylist()
            passing = []
            for at, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if port < 0 and operator_of(port) in self.operators:
                    rows = blob.decode(batch.column("blob")[at].as_buffer())
                    yield from self._widened(rows, operator_of(port), label, numbers)
                else:
                    passing.append(at)
            if passing:
                yield self._passing(batch.take(pa.array(passing)))
        if self.ends:
            yield from end_rows(self.schema, "root")
        give_back()

    def _widened(self, rows: pa.Table, operator: int, label: int, numbers: Numbers) -> Iterator[pa.RecordBatch]:
        for part in rows.combine_chunks().to_batches(max_chunksize=PART_ROWS):
            given = {name: part.column(name) for name in part.schema.names}
            given["root"] = pa.array(np.full(len(part), operator, dtype=np.int32))
            given[SEQUENCE] = numbers.of(len(part))
            if "case" in self.schema.names:
                case = self.labels.place(label)[1] // self.labels.shards
                given["case"] = pa.array(np.full(len(part), case, dtype=np.int64))
            wide, own = self.schema.names, f"o{operator}_"
            renamed = {(own + name if own + name in wide else name): column for name, column in given.items()}
            yield fitted(renamed, self.schema, len(part))

    def _passing(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return fitted({n: rows.column(n) for n in ("label", "port", "blob")}, self.schema, len(rows))


def fitted(given: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    columns = [fitted_column(given.get(wanted.name), wanted.type, rows) for wanted in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fitted_column(column: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of the type; null where it is not given."""
    if column is None:
        return pa.nulls(rows, type=kind)
    return column if column.type == kind else column.cast(kind)


def _in_types(frame: pa.Table) -> pa.Table:
    for name in ("root", "partition", "offset", "ts"):
        at = frame.schema.get_field_index(name)
        frame = frame.set_column(at, name, pa.array(ints(frame, name)))
    return frame


def _gather(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Tables of at least `rows` rows or PACK_BYTES each, the last one apart."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        count += len(batch)
        size += batch.nbytes
        if count >= rows or size >= PACK_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, count, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _passed_on(frame: pa.Table) -> Iterator[pa.RecordBatch]:
    """Blobs on their way to a later level, untouched."""
    if "blob" not in frame.column_names:
        return
    rows = frame.select(["label", "port", "blob"]).filter(frame.column("blob").is_valid())
    if len(rows):
        rows = rows.append_column("count", pa.nulls(len(rows), pa.int64()))
        yield from rows.cast(WIRE_ARROW).to_batches()


def wire_rows(routed_batches: Iterable[RoutedBatch], labels: Labels) -> Iterator[WireRow]:
    """Routed batches as rows for the shuffle."""
    told: pa.Table | None = None
    blobs: list[bytes] = []
    for routed_batch in routed_batches:
        if routed_batch.rows is not told:
            told, blobs = routed_batch.rows, [blob.encode(piece) for piece in blob.pieces(routed_batch.rows)]
        label = labels.label(routed_batch.target, routed_batch.shard)
        for content in blobs:
            yield label, routed_batch.port, content, 0


def count_rows(drops: Drops, metrics: Sequence[tuple[str, str]], place: int) -> Iterator[WireRow]:
    """Counts of dropped records as rows for `counting`; metrics are (node, reason) by number.

    Parameters
    ----------
    drops : all that one place has counted in the batch.
    place : the number of the task, or the label: a task that runs again says the same of it, and counts once.
    """
    for what, count in drops.items():
        if count:
            yield place, metrics.index(what), None, count


def ends_for_all_tasks(labels: Labels) -> Iterator[WireRow]:
    """An end for every task of the last exchange."""
    for label in labels.ends:
        yield label, END, b"", 0


def wire_batches(rows: Iterable[WireRow]) -> Iterator[pa.RecordBatch]:
    """The rows as batches, each of at most WIRE_ROWS rows and about one blob's bytes."""
    return map(_wire_batch, _together(rows, blob.PIECE_BYTES))


def wire_together(rows: Iterable[WireRow]) -> Iterator[pa.RecordBatch]:
    """The rows behind a level as batches, each of at most WIRE_ROWS rows and about `FRAME_BYTES`."""
    return map(_wire_batch, _together(rows, FRAME_BYTES))


def wire_frames(rows: Iterable[WireRow]) -> Iterator[pd.DataFrame]:
    """The rows as pandas frames, each of at most WIRE_ROWS rows and about `FRAME_BYTES`."""
    return map(_wire_frame, _together(rows, FRAME_BYTES))


def _together(rows: Iterable[WireRow], limit: int) -> Iterator[list[WireRow]]:
    held: list[WireRow] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[2] or b"")
        if size >= limit or len(held) == WIRE_ROWS:
            yield held
            held, size = [], 0
    if held:
        yield held


def _wire_batch(rows: Sequence[WireRow]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), WIRE_ARROW, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(each, type=field.type) for each, field in columns], schema=WIRE_ARROW)


def _wire_frame(rows: Sequence[WireRow]) -> pd.DataFrame:
    import pandas as pd  # only a level needs it, and it takes a fifth of the time of `import watersmeet`

    label, port, content, count = zip(*rows, strict=True)
    numbers = {"label": np.array(label, dtype=np.int32), "port": np.array(port, dtype=np.int32)}
    return pd.DataFrame({**numbers, "blob": pd.Series(content, dtype=object), "count": np.array(count, dtype=np.int64)})


def wide_schema_names(slots: int, *, visible: bool) -> tuple[str, ...]:
    """Names of the position columns of a wide frame."""
    names = (*position_columns(slots), "ts")
    return (*names, *visible_columns(slots)) if visible else names
