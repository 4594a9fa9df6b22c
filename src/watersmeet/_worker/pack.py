"""Into and out of the exchange: frames of a stage's rows to blobs and back, in the Python workers (mapInArrow).

The callables are plain picklable dataclasses. Before packing, a source's records get their times (`Extraction`, for
`timestamp=`) and are written to the journal (`JournalFile`, for `explain=`); behind it lie the steps that a level does
itself (`Fused`). `_engine.exchange` routes rows to shards.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import (
    Clock,
    Outlet,
    RoutedBatch,
    Watermark,
    refuse_far,
    stamp_piped,
    stamp_sources,
    watermark_batches,
)
from watersmeet._engine.expressions.program import Fields, Program, TooManyRows
from watersmeet._engine.expressions.tree import EvaluationError
from watersmeet._engine.row_sizes import refuse_large
from watersmeet._engine.rows import (
    PART_ROWS,
    Bools,
    array,
    ints,
    place_of,
    position_columns,
    stacked,
    visible_columns,
    with_topics,
    without,
)
from watersmeet._plan.reasons import INVALID_TIMESTAMP, NEGATIVE_TIMESTAMP
from watersmeet._worker import process
from watersmeet._worker.counts import AgeLimits, Counts, count_source, note_absent
from watersmeet._worker.ended_rows import (
    DeadLetterWriter,
    OnError,
    divert_failures,
    error_text,
    evaluated,
    of_peek,
    set_numbers,
    topics_of,
    without_failures,
)
from watersmeet._worker.formats.arrow_types import loosened
from watersmeet._worker.formats.decode import Deserializers
from watersmeet._worker.process import SPOOL, freeze_imports, give_back, say
from watersmeet._worker.spill import LARGE, in_order
from watersmeet._worker.task_reports import BatchRequest, TaskReport
from watersmeet._worker.wire import (
    END,
    Labels,
    PeekCall,
    WireRow,
    WireSettings,
    counting_bytes,
    encode_and_route,
    operator_of,
    rooted,
    show,
)
from watersmeet.errors import SourceError
from watersmeet.windows import LONGEST_MS

if TYPE_CHECKING:
    import pandas as pd


# Times that users' functions give to records of topics, before a record's place in the sequence is known.
#
# Law 1: the times decide the order in which inputs are merged, so they are known before rows are stamped. Law 6: a
# record without a time goes by its input's policy, and is counted.

_ELSEWHERE = -1
"""The root of no source: a function of a source's records is not called there."""
_OF_TIMES = (NEGATIVE_TIMESTAMP.code, INVALID_TIMESTAMP.code)
_HINT = (
    'set on_invalid_timestamp="own" to take the topic\'s own time, "skip", or wm.DeadLetter("topic") to have such '
    "records there; a time is a timestamp, or a long of milliseconds since 1970."
)


YEAR_3000 = 32_503_680_000_000
_UNITS = (
    (0, 365 * 86_400_000, "in 1970", "seconds", "{} * 1000"),
    (YEAR_3000, LONGEST_MS + 1, "beyond the year 3000", "microseconds", "F.floor({} / 1000)"),
)
"""Times that look like those of another unit: the first one, the end, where they lie, the unit, and the cure."""


def unit_warnings(source: str, times: Iterable[int], *, extracted: bool) -> Iterator[tuple[str, str]]:
    """The warnings of times that look like those of another unit: message and cure.

    Parameters
    ----------
    source : the input.
    times : in ms.
    extracted : whether its function `timestamp=` has made them; else they are those of its records.
    """
    what = (
        f"The timestamp= of {source!r} gives a record a"
        if extracted
        else f"The topic of {source!r} has a record with a"
    )
    for first, end, where, unit, cure in _UNITS:
        ms = next((time for time in times if first <= time < end), None)
        if ms is not None:
            made = cure.format('value["at"]' if extracted else 'record["timestamp"]')
            function = f"lambda value: {made}" if extracted else f"lambda value, record: {made}"
            yield (
                f"{what} time {where}: {ms} is read as milliseconds.",
                f"If these are {unit}, write timestamp={function}.",
            )


def time_column(number: int) -> str:
    """Name of the column that has the times which a source's extractor gives."""
    return f"s{number}_ts"


@dataclass(frozen=True)
class Extractor:
    """The policy for the times that the extractor of one source makes."""

    # number, source, topic: its source
    number: int
    source: str
    topic: str
    policy: str = "fail"  # what becomes of a record that it gives no time: "fail", "skip", "own", or "letter"
    dead_letter_source: int | None = None  # number of the source of dead letters that they become rows of

    def resolved(self, frame: pa.Table, errors: Mapping[int, Exception]) -> pa.Table:
        """The frame with these times in place of the records' own."""
        extracted, ts = array(frame, time_column(self.number)), ints(frame, "ts")
        times = pc.fill_null(extracted, _ELSEWHERE).to_numpy(zero_copy_only=False).astype(np.int64)
        of_source = (ints(frame, "root") == self.number) & (ints(frame, "reason") == 0)
        good = of_source & (times >= 0) & (times <= LONGEST_MS)
        if good.any() and not process.in_task():
            # the driver of a query looks at what its tasks count
            few = (int(times[good].min()), int(times[good].max()))
            for what, cure in unit_warnings(self.source, few, extracted=True):
                warnings.warn(f"{what}\nHint: {cure}", stacklevel=2)
        frame = set_numbers(frame, "ts", np.where(good, times, ts))
        bad = of_source & ~good
        return self._left(frame, bad, extracted, errors) if bad.any() else frame

    def _left(self, frame: pa.Table, bad: Bools, extracted: pa.Array, errors: Mapping[int, Exception]) -> pa.Table:
        """The frame, when these records have been given no time."""
        rows = np.flatnonzero(bad)
        if self.policy == "fail":
            first, topic = int(rows[0]), topics_of(frame, rows, self.topic)[0]
            raise SourceError(
                f"The timestamp extractor of {self.source} returns no time for a record.",
                given=f"topic {topic}, {_place(frame, first)}: {_explain(extracted, errors, first)}",
                hint=_HINT,
            )
        if self.policy == "own":
            negative = bad & (ints(frame, "ts") < 0)
            return set_numbers(frame, "reason", np.where(negative, NEGATIVE_TIMESTAMP.code, ints(frame, "reason")))
        texts = {
            row: f"The timestamp extractor returns no time: {_explain(extracted, errors, row)}."
            for row in rows.tolist()
        }
        way = OnError(self.topic, self.source, self.dead_letter_source, INVALID_TIMESTAMP, SourceError)
        return divert_failures(frame, texts, {self.number: way})


@dataclass(frozen=True)
class Extraction:
    """The times of the records of a source stage."""

    extractors: tuple[Extractor, ...] = ()  # one for each source that has its times by a function
    program: Program = field(default_factory=Program)  # makes their columns, where Spark has not

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that it reads: of times, where Spark has made them; else what these are made of."""
        columns = tuple(time_column(extractor.number) for extractor in self.extractors)
        return columns if self.program.idle else self.program.reads

    def __call__(self, frame: pa.Table) -> pa.Table:
        """The frame with all records' times."""
        if not self.extractors:
            return frame
        frame, errors = self._with_times(self._opened(frame))
        for extractor in self.extractors:
            frame = extractor.resolved(frame, errors)
        return frame.drop_columns([time_column(extractor.number) for extractor in self.extractors])

    def _opened(self, frame: pa.Table) -> pa.Table:
        """The frame with nothing said of the times: the own ones do not count, and `resolved` judges the others."""
        reason, affected = ints(frame, "reason"), np.isin(ints(frame, "root"), [e.number for e in self.extractors])
        return set_numbers(frame, "reason", np.where(affected & np.isin(reason, _OF_TIMES), 0, reason))

    def _with_times(self, frame: pa.Table) -> tuple[pa.Table, Mapping[int, Exception]]:
        """The frame with the columns of times, and what is raised for which rows."""
        if self.program.idle:
            return frame, {}
        try:
            return self.program(frame), {}
        except EvaluationError:
            errors = self.program.failing(frame)
            if not errors:
                raise
        root = ints(frame, "root")
        roots = np.array(root)
        roots[list(errors)] = _ELSEWHERE
        computed = self.program(set_numbers(frame, "root", roots))
        return set_numbers(computed, "root", root), errors


def _place(frame: pa.Table, row: int) -> str:
    if "partition" in frame.column_names:
        return f"partition {frame.column('partition')[row].as_py()}, offset {frame.column('offset')[row].as_py()}"
    _, partition = place_of(int(ints(frame, "srcpart")[row]))
    return f"partition {partition}, offset {frame.column('offset')[row].as_py()}"


def _explain(timestamps: pa.Array, errors: Mapping[int, Exception], row: int) -> str:
    if row in errors:
        return error_text(errors[row]).rstrip(".")
    value = timestamps[row].as_py()
    if value is None:
        return "it gives null"
    return f"it gives {value} ms, and 0 to {LONGEST_MS} are allowed"


# The input records of a batch, as tasks write them into the journal of a query that explains its tables.
#
# The driver's request names the batch's folder; without it nothing is done. A task's file has its name only when it is
# whole, and a task that runs again writes the same once more. Plain Arrow (law 5).

SUFFIX = ".arrow"


@dataclass
class JournalFile:
    """The file of a task."""

    path: Path  # where it lies when it is whole
    _writer: pa.ipc.RecordBatchFileWriter | None = field(default=None)

    @classmethod
    def begun(cls, roots: Mapping[int, str], *, snapshot: bool) -> JournalFile | None:
        """The file for rows of these sources; None where nobody asks for it."""
        folder = BatchRequest.of_task().journal
        if not folder:
            return None
        kind = "snapshot" if snapshot else "records"
        return cls(Path(folder) / f"{kind}-{min(roots, default=0)}-{process.partition()}{SUFFIX}")

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(f".{process.attempt_id()}.new")

    def write(self, rows: pa.Table) -> None:
        """Put rows behind those already there."""
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = pa.ipc.new_file(str(self._beside), rows.schema, options=options)
        self._writer.write_table(rows)

    def end(self) -> None:
        """Give the file its name, if there were rows."""
        if self._writer is not None:
            self._writer.close()
            os.replace(self._beside, self.path)


WIRE_ARROW = pa.schema([("label", pa.int32()), ("port", pa.int32()), ("blob", pa.binary())])
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
    """The facts of the plan for the packing of a stage."""

    outlets: tuple[Outlet, ...]  # where rows go
    slots: int  # path slots of the plan
    roots: Mapping[int, str]  # name of each root number, for counting what sources drop
    peeks: tuple[PeekCall, ...] = ()  # functions to be shown rows
    watermarks: tuple[Watermark, ...] = ()  # the rows of time for operators
    first: tuple[int, ...] = ()  # numbers of the roots that are global tables
    # by the number of a root that has dead letters, the name that they are counted under
    dead_letters: Mapping[int, str] = field(default_factory=dict)
    patterns: tuple[int, ...] = ()  # numbers of the roots that have the topics of a pattern


@dataclass(frozen=True)
class Pack:
    """mapInArrow function: a stage's wide frame to wire rows."""

    stage: PackedStage  # the facts of the plan
    common: WireSettings  # the settings that all packings share
    sources: bool  # whether this is a source stage: its rows have no position yet
    order: tuple[str, ...] = ()  # ordering columns, where whole partitions of the batch come here and are numbered
    partitioned: bool = False  # whether there are several partitions
    changes: bool = False  # whether these are changes of a table; see `in_order`
    program: Program = field(default_factory=Program)  # makes the columns that functions give, where Spark has not
    snapshot: bool = False  # whether the rows are a table's snapshot
    deserializers: Deserializers | None = None  # of what comes as bytes; None: nothing does
    # what becomes of records for which a function raises, by the number of their root; else the batch fails
    error_policies: Mapping[int, OnError] = field(default_factory=dict)
    # gives records their times, where these are not their own
    extraction: Extraction = field(default_factory=Extraction)
    step: str = "pack"  # its name among the packings of the plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wire rows of one task."""
        freeze_imports()
        self.common.check_tasks()
        BatchRequest.of_task().take_topics()
        drops, counts, clock = DeadLetterWriter(self.common.dead_letters), Counts(), Clock()
        journal = JournalFile.begun(self.stage.roots, snapshot=self.snapshot) if self.sources else None
        for gathered in self._gathered(batches):
            if journal is not None:
                journal.write(gathered)
            yield from wire_batches(self.pack(gathered, clock, drops, counts))
            yield from _passed_on(gathered)
        if journal is not None:
            journal.end()
        if self.sources:
            yield from wire_batches(ends_for_all_tasks(self.common.labels))
        counts.drops.update(drops)
        TaskReport(counts).send(self.common.reports, self.step)
        give_back()

    def pack(self, gathered: pa.Table, clock: Clock, drops: DeadLetterWriter, counts: Counts) -> Iterator[WireRow]:
        """The rows on their way to operators and sinks, then the rows of time."""
        try:
            frame = self._prepared(loosened(gathered), clock, counts)
        except TooManyRows as many:
            for part in many.slices(gathered):
                yield from self.pack(part, clock, drops, counts)
            return
        if self.sources:
            drops.refused(frame, self.stage.roots, self.stage.dead_letters)
        live = encode_and_route(
            frame, self.stage.outlets, self.common.labels.counts, self.stage.slots, drops, self.common.encodings
        )
        routed: Iterable[RoutedBatch] = chain(live, drops.routed(self.common.labels.counts))
        if self.sources:
            request = BatchRequest.of_task()
            since = None if request.begun_ms is None else AgeLimits(request.live_ms, request.begun_ms)
            count_source(frame, self.stage.roots, self.stage.dead_letters, since, counts)
        routed = self.common.measures.produced(routed, counts)
        yield from counting_bytes(wire_rows(routed, self.common.labels), counts)
        yield from wire_rows(
            watermark_batches(frame, self.stage.watermarks, self.common.labels.counts), self.common.labels
        )

    def _gathered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        if not self.order:
            return _gather(batches, PACK_ROWS)
        names = ", ".join(self.stage.roots.values())
        facts = {"changes": self.changes, "partitioned": self.partitioned}
        return in_order(batches, self.order, large=lambda: say(SPOOL, LARGE.format(names)), **facts)

    def _prepared(self, frame: pa.Table, clock: Clock, counts: Counts) -> pa.Table:
        if self.sources:
            refuse_large(frame, self.stage.roots)
        if self.deserializers:
            arguments, frame = frame, self.deserializers(frame)
            if BatchRequest.of_task().absent:
                note_absent(self.deserializers.absent(arguments, frame), self.stage.roots, counts)
            # what is kept as it came may be there twice
            refuse_large(
                frame.drop_columns([name for name, _ in self.deserializers.dead_letter_columns]), self.stage.roots
            )
        frame = self.extraction(frame)
        frame = self._marked_roots(*evaluated(frame, self.program, self.error_policies))
        if not self.sources:
            return frame
        refuse_far(frame, self.stage.roots)
        if "order_ts" in frame.column_names:
            return stamp_piped(frame, self.stage.outlets)
        frame = with_topics(_in_types(frame), self.stage.patterns)
        arguments = (frame, self.stage.outlets, clock, self.stage.slots, self.stage.first)
        return stamp_sources(*arguments, snapshot=self.snapshot)

    def _marked_roots(self, original: pa.Table, frame: pa.Table) -> pa.Table:
        """The frame with its roots marked, less the rows that end since a function that is shown them raises."""
        marked, failed = rooted(frame, self.stage.roots), dict[int, Exception]()
        names = ", ".join(sorted(self.stage.roots.values()))
        show(marked, self.stage.peeks, names, failed if self.error_policies else None)
        if not failed:
            return marked
        failed = self.program.given(marked, failed)
        return rooted(without_failures(original, failed, self.program, self.error_policies), self.stage.roots)


@dataclass(frozen=True)
class Unpack:
    """mapInArrow function: wire rows to a stage's wide frame."""

    schema: pa.Schema  # the wide frame's
    operators: frozenset[int]  # the operators with results in this stage
    labels: Labels  # gives the case of a row, where there are several

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wide rows of one task."""
        freeze_imports()
        for batch in batches:
            labels, ports = batch.column("label").to_pylist(), batch.column("port").to_pylist()
            passing = []
            for at, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if port < 0 and operator_of(port) in self.operators:
                    rows = row_sizes.decode(batch.column("blob")[at].as_buffer())
                    yield from self._widened(rows, operator_of(port), label)
                else:
                    passing.append(at)
            if passing:
                yield self._passing(batch.take(pa.array(passing)))
        give_back()

    def _widened(self, rows: pa.Table, operator: int, label: int) -> Iterator[pa.RecordBatch]:
        for part in rows.combine_chunks().to_batches(max_chunksize=PART_ROWS):
            columns = {name: part.column(name) for name in part.schema.names}
            columns["root"] = pa.array(np.full(len(part), operator, dtype=np.int32))
            if "case" in self.schema.names:
                case = self.labels.place(label)[1] // self.labels.shards
                columns["case"] = pa.array(np.full(len(part), case, dtype=np.int64))
            wide, prefix = self.schema.names, f"o{operator}_"
            renamed = {(prefix + name if prefix + name in wide else name): column for name, column in columns.items()}
            yield fitted(renamed, self.schema, len(part))

    def _passing(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return fitted({n: rows.column(n) for n in ("label", "port", "blob")}, self.schema, len(rows))


def fitted(arrays: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    columns = [fitted_column(arrays.get(target.name), target.type, rows) for target in schema]
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
    buffer: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not len(batch):
            continue
        buffer.append(batch)
        count += len(batch)
        size += batch.nbytes
        if count >= rows or size >= PACK_BYTES:
            yield pa.Table.from_batches(buffer).combine_chunks()
            buffer, count, size = [], 0, 0
    if buffer:
        yield pa.Table.from_batches(buffer).combine_chunks()


def _passed_on(frame: pa.Table) -> Iterator[pa.RecordBatch]:
    """Blobs on their way to a later level, untouched."""
    if "blob" not in frame.column_names:
        return
    rows = frame.select(["label", "port", "blob"]).filter(frame.column("blob").is_valid())
    if len(rows):
        yield from rows.cast(WIRE_ARROW).to_batches()


def wire_rows(routed_batches: Iterable[RoutedBatch], labels: Labels) -> Iterator[WireRow]:
    """Routed batches as rows for the shuffle."""
    previous: pa.Table | None = None
    blobs: list[bytes] = []
    for routed_batch in routed_batches:
        if routed_batch.rows is not previous:
            previous, blobs = (
                routed_batch.rows,
                [row_sizes.encode(piece) for piece in row_sizes.pieces(routed_batch.rows)],
            )
        label = labels.label(routed_batch.target, routed_batch.shard)
        for content in blobs:
            yield label, routed_batch.port, content


def ends_for_all_tasks(labels: Labels) -> Iterator[WireRow]:
    for label in labels.ends:
        yield label, END, b""


def wire_batches(rows: Iterable[WireRow]) -> Iterator[pa.RecordBatch]:
    return map(_wire_batch, _batched(rows, row_sizes.PIECE_BYTES))


def wire_together(rows: Iterable[WireRow]) -> Iterator[pa.RecordBatch]:
    """The rows behind a level as batches, each of at most WIRE_ROWS rows and about `FRAME_BYTES`."""
    return map(_wire_batch, _batched(rows, FRAME_BYTES))


def wire_frames(rows: Iterable[WireRow]) -> Iterator[pd.DataFrame]:
    """The rows as pandas frames, each of at most WIRE_ROWS rows and about `FRAME_BYTES`."""
    return map(_wire_frame, _batched(rows, FRAME_BYTES))


def _batched(rows: Iterable[WireRow], limit: int) -> Iterator[list[WireRow]]:
    buffer: list[WireRow] = []
    size = 0
    for row in rows:
        buffer.append(row)
        size += len(row[2])
        if size >= limit or len(buffer) == WIRE_ROWS:
            yield buffer
            buffer, size = [], 0
    if buffer:
        yield buffer


def _wire_batch(rows: Sequence[WireRow]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), WIRE_ARROW, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in columns], schema=WIRE_ARROW
    )


def _wire_frame(rows: Sequence[WireRow]) -> pd.DataFrame:
    import pandas as pd  # only a level needs it, and it takes a fifth of the time of `import watersmeet`

    label, port, content = zip(*rows, strict=True)
    numbers = {"label": np.array(label, dtype=np.int32), "port": np.array(port, dtype=np.int32)}
    return pd.DataFrame({**numbers, "blob": pd.Series(content, dtype=object)})


def wide_schema_names(slots: int, *, visible: bool) -> tuple[str, ...]:
    names = (*position_columns(slots), "ts")
    return (*names, *visible_columns(slots)) if visible else names


# The steps of a level on results that do not leave it: it makes the stage's columns, and packs the rows.
#
# Law 4: where a function is evaluated changes speed, never a result.


@dataclass(frozen=True)
class StageColumns:
    """The columns that a stage's functions begin with."""

    operator: int  # number of the results' operator
    renamed: tuple[tuple[str, str], ...]  # (name of the result column, name in the stage)
    schema: pa.Schema  # names and types in the stage; what results have not is null

    def of(self, results: pa.Table) -> pa.Table:
        """The results in these columns, beside those of their positions."""
        names = dict(self.renamed)
        rows = results.rename_columns([names.get(name, name) for name in results.column_names])
        present = set(rows.column_names)
        for target in self.schema:
            if target.name not in present:
                rows = rows.append_column(target.name, fitted_column(None, target.type, len(rows)))
        rows = rows.append_column("root", pa.array(np.full(len(rows), self.operator, dtype=np.int32)))
        rows = rows.append_column(f"root:{self.operator}", pa.array(np.ones(len(rows), dtype=np.bool_)))
        return loosened(rows)


@dataclass(frozen=True)
class Fused:
    """How an operator's results go on without leaving its level."""

    outlets: tuple[Outlet, ...]  # where they go
    # columns, program: what the stage makes of them; None where they go as they are
    columns: StageColumns | None = None
    program: Program = field(default_factory=Program)
    peeks: tuple[PeekCall, ...] = ()  # functions to be shown rows
    # of the results' columns that are structs, the numbers of the fields that this reads
    fields: Fields = field(default_factory=dict)
    tolerates_errors: bool = False  # whether a row for which a function raises ends, and does not fail the query

    @property
    def broadcasts_bounds(self) -> bool:
        """Whether every shard gets the time bounds of results."""
        return any(outlet.route.bounds_port is not None for outlet in self.outlets)

    def rows(self, results: pa.Table, node: str, drops: DeadLetterWriter) -> pa.Table:
        """The results with all that functions make of them.

        Parameters
        ----------
        node, drops : the node of the results, and the writer of rows that end.
        """
        if self.columns is None:
            return results
        inputs = self.columns.of(results)
        try:
            rows = self.program(inputs)
        except EvaluationError:
            if not self.tolerates_errors:
                raise
            failed = self.program.failing(inputs)
            drops.fail_rows(node, results, failed, f"In a function behind {node}.")
            results = without(results, failed)
            inputs = without(inputs, failed)
            rows = self.program(inputs)
        raised: dict[int, Exception] = {}
        show(rows, self.peeks, node, raised if self.tolerates_errors else None)
        if raised:
            raised = self.program.given(rows, raised)
            errors = {row: of_peek(error) for row, error in raised.items()}
            drops.fail_rows(node, results, errors, f"Behind {node}.")
            rows = self.program(without(inputs, raised))
        return rows


# Results of many shards of one operator, packed together: the fixed cost of packing is a task's, not a shard's.
#
# A shard alone would send one blob to each shard of the next operator: with as many shards on both sides their square,
# of a row or two each. Held together until the task's end, or until they are large (law 9), they are as many as a stage
# would make that packs a task's rows. Nothing depends on it but speed: a shard's rows stay in order.

GATHERED_BYTES = 16 << 20
"""Of one operator's results, held together at most."""
SMALL = 256 << 10
"""Bytes of results that are held at most: larger ones gain nothing, and are views of what else would be let go."""


class Gathered:
    """The results that one task holds."""

    def __init__(self) -> None:
        self._pending: dict[int, list[pa.Table]] = {}
        self._sizes: dict[int, int] = {}

    def add(self, target: int, results: pa.Table) -> pa.Table | None:
        """Results of an operator; what is to be packed now, None: nothing yet."""
        size = results.nbytes
        tables = self._pending.setdefault(target, [])
        tables.append(results)
        self._sizes[target] = self._sizes.get(target, 0) + size
        if size <= SMALL and self._sizes[target] < GATHERED_BYTES:
            return None
        return self._take(target)

    def rest(self) -> Iterator[tuple[int, pa.Table]]:
        """All that is still held, operator by operator, which is held no more."""
        for target in list(self._pending):
            yield target, self._take(target)

    def __bool__(self) -> bool:
        return bool(self._pending)

    def _take(self, target: int) -> pa.Table:
        del self._sizes[target]
        parts = self._pending.pop(target)
        return parts[0] if len(parts) == 1 else stacked(parts).combine_chunks()
