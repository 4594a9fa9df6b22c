"""A run of a topology in this process: what Spark's workers do with piped records, without a job of Spark's.

Where all functions are expressions, Spark has nothing to do with rows: the same packing, levels and exits as in
production run one after the other here, over state in memory. Spark is asked for its plan of the functions alone, once
for a topology. A run takes in what was piped since the last one (law 1: results do not depend on batches).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import BinaryType, ByteType, DataType, IntegerType, LongType, StringType, StructField, StructType

from watersmeet._engine import row_sizes
from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.exchange import PARTITION, Clock, ShardCounts, clock_batches
from watersmeet._engine.keys import encode_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.operators.process_state import lasting
from watersmeet._engine.rows import (
    AT_FIRST,
    HELD_KEY,
    PARTITION_BITS,
    TOPIC,
    TOPICS,
    array,
    held_keys,
    ints,
    pattern_partition,
    position_columns,
    position_tuples,
    stacked,
)
from watersmeet._engine.state.runs import MemoryChunkStore, State, StoreSnapshot
from watersmeet._engine.time import REACH
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.logical import BEHIND_INPUTS
from watersmeet._plan.nodes import SourceNode
from watersmeet._plan.operators.aggregates import AggregateParams
from watersmeet._plan.operators.joins import AsOfParams
from watersmeet._plan.operators.tables import VersionedParams
from watersmeet._plan.physical import Physical
from watersmeet._plan.reasons import IGNORED, NEGATIVE_TIMESTAMP, UNDECODABLE
from watersmeet._spark import session
from watersmeet._spark.columns import special
from watersmeet._spark.dataflow.compile import CompiledFrame, SparkLayout, compile_plan, context_of
from watersmeet._spark.dataflow.fusion import Fusion, started_engines
from watersmeet._spark.dataflow.level import LevelOperators, LevelProcessor
from watersmeet._spark.dataflow.stage import extractors_of, packed_stage, roots_of
from watersmeet._spark.formats import Unfit, check_zones, fitted
from watersmeet._spark.metrics.lifetime import BatchReports
from watersmeet._spark.query.failures import of_run
from watersmeet._spark.sources.rows import Scan
from watersmeet._worker.counts import Counts, Measures
from watersmeet._worker.ended_rows import (
    HEADERS,
    BadRecordOrigin,
    DeadLetterWriter,
    column,
    complaint,
    dead_letter_routes,
    error_policies,
)
from watersmeet._worker.formats import guard
from watersmeet._worker.formats.arrow_types import arrow_schema, spark_type
from watersmeet._worker.formats.connect import AbsentColumns
from watersmeet._worker.formats.decode import Deserializer
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.pack import Extraction, Pack, wire_rows
from watersmeet._worker.task_reports import PROPERTY, BatchRequest
from watersmeet._worker.wire import Exits, Labels, WireRow, WireSettings, encodings_of, target_count
from watersmeet.errors import SourceError, TopologyError

# Python values as Arrow's columns and back, as Spark takes and collects them.

Columns = Sequence[tuple[str, DataType]]
"""Names and types."""


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: Columns) -> pa.Table:
    """The rows as columns, of the types of the workers."""
    schema = _schema(columns)
    return LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema))


def python_rows(rows: pa.Table, columns: Columns) -> list[tuple[Any, ...]]:
    """The columns' values as Spark collects them, row by row."""
    schema = _schema(columns)
    table = rows.select(schema.names).cast(arrow_schema(schema))
    return [tuple(row) for row in ArrowTableToRowsConversion.convert(table, schema)]


def _schema(columns: Columns) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in columns])


_KINDS = {
    ("key",): (),
    ("key", "start"): ("start",),
    ("key", "end"): ("start", "end"),
    ("key", "ts"): ("ts",),
    ("key", "until", "domain"): (),
    ("key", "entry"): ("entry",),
    ("key", "entry", "until", "domain"): ("entry",),
}
"""Columns that tell a key's rows apart, by the identity of tables that are stores: times, or entries of a processor."""


@dataclass(frozen=True)
class Entry:
    """A row of a store.

    Parameters
    ----------
    order : its key as bytes, then its times.
    key, value : as Spark collects them.
    times : of its window: the start; of a session start and end; of a version its timestamp. Of a store by key none; of
        a processor's map or list the entry.
    known_from : of versions, the time from which on the past is known.
    headers : of the record that it is of; None: the store keeps none.
    """

    order: tuple[Any, ...]
    key: Any
    times: tuple[Any, ...]
    value: Any
    known_from: int = 0
    headers: tuple[tuple[str, bytes | None], ...] | None = None


@dataclass(frozen=True)
class StoredTable:
    """A table that is a store.

    Parameters
    ----------
    name : under which it is found.
    context : of the operator that keeps the table.
    schema : the table, as its store has it.
    """

    name: str
    context: OperatorContext
    schema: TableSchema

    @property
    def times(self) -> tuple[str, ...]:
        """The columns with its rows' times."""
        return _KINDS[self.schema.identity]

    @property
    def key(self) -> DataType:
        """Type of its keys."""
        return spark_type(dict(self.schema.columns)["key"])

    @property
    def has_headers(self) -> bool:
        """Whether its rows have headers."""
        return "headers" in dict(self.schema.columns)

    @property
    def of_entries(self) -> bool:
        """Whether a key has entries, which are no times: in a processor's map or list."""
        return "entry" in self.times

    @property
    def versioned(self) -> bool:
        """Whether it has the past of its keys, too."""
        return "ts" in self.times

    def _known_from(self, states: Iterable[State]) -> int:
        params = self.context.operator.params
        if not isinstance(params, VersionedParams | AsOfParams):
            return 0
        reached = (reach for state in states for reach in state.get_scalar(REACH, [{}])[-1].values())
        return max(reached, default=0) - params.history_ms

    def entries(self, cases: Sequence[Iterable[State]], only: bytes | None = None) -> list[list[Entry]]:
        """The rows of each of several cases, in order.

        Parameters
        ----------
        cases : of each the states of its shards.
        only : the bytes of a key; None: the rows of all keys.
        """
        shards = [list(states)[: 1 if self.schema.everywhere else None] for states in cases]
        pairs = [(case, state) for case, states in enumerate(shards) for state in states]
        parts = [(case, lasting(state, part)) for case, state in pairs for part in state.table(self.schema).scan()]
        entries: list[list[Entry]] = [[] for _ in shards]
        if not parts:
            return entries
        table = stacked([part for _, part in parts]).combine_chunks()
        orders = encode_keys(table.column("key")).cast(pa.binary())
        numbers = np.repeat([case for case, _ in parts], [len(part) for _, part in parts])
        if only is not None:
            mask = pc.equal(orders, only)
            table, orders, numbers = (
                table.filter(mask).combine_chunks(),
                orders.filter(mask),
                numbers[mask.to_numpy(False)],
            )
        if not len(table):
            return entries
        rows = self.pairs(table)
        times = list(zip(*(table.column(name).to_pylist() for name in self.times), strict=True)) or [()] * len(rows)
        known_from = [self._known_from(states) for states in shards]
        headers = map(headers_of, table.column("headers").to_pylist()) if self.has_headers else [None] * len(rows)
        columns = numbers.tolist(), orders.to_pylist(), times, rows, headers
        for case, at, when, (key, value), of_record in zip(*columns, strict=True):
            entries[case].append(Entry((at, *when), key, when, value, known_from[case], of_record))
        return [sorted(of_case, key=lambda entry: entry.order) for of_case in entries]

    def pairs(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Key and value of rows, as Spark collects them."""
        values, params = rows.column("value"), self.context.operator.params
        if isinstance(params, AggregateParams):
            values = fold_of(params.fold).finish(values.combine_chunks())
        columns = (("key", self.key), ("value", spark_type(values.type)))
        return python_rows(pa.table({"key": rows.column("key"), "value": values}), columns)

    def order_of(self, key: Any) -> bytes:
        """The bytes of a key that was given.

        Raises
        ------
        TopologyError : it is not of the keys' type.
        """
        try:
            value = fitted(key, self.key, "key", nullable=False)
        except Unfit as error:
            raise TopologyError(
                f"A key of the store {self.name!r} has another type.",
                given=error.fault,
                hint=f"Its keys are of the type {self.key.simpleString():.200}.",
            ) from None
        column = arrow_rows([(value,)], (("key", self.key),)).column("key")
        return bytes(encode_keys(column)[0].as_py())


def stores_of(physical: Physical, contexts: Mapping[int, OperatorContext]) -> dict[str, StoredTable]:
    """The stores of a topology, by name."""
    stores: dict[str, StoredTable] = {}
    for number, context in contexts.items():
        for (name, _), schema in zip(physical.stores_of(number), context.kept, strict=True):
            if schema.shown and schema.identity in _KINDS and "value" in dict(schema.columns):
                stores.setdefault(name, StoredTable(name, context, schema))
    return stores


# Records that are piped into a test driver: looked at, and decoded where they are bytes, before they are kept.
#
# Law 6: what is not of its input's types is an error on the line that pipes it, with the record named; bytes go through
# the decoder of production, under the input's own policy.

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Piped:
    """One input record: source number, its place in its case, which is its order_ts, and why it does not pass.

    `raw` is the bytes of its key and value, where it may still become a dead letter. Of a topic that a pattern matches,
    `topic` is its name, and `place` the number of source and topic in its position.
    """

    source: int
    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...]
    step: int
    reason: int = 0
    raw: tuple[bytes | None, bytes | None] | None = None
    topic: str | None = None
    place: int = 0


@dataclass(frozen=True)
class Inlet:
    """One of a topology's inputs: makes records of what is piped.

    Parameters
    ----------
    number : the source's.
    source : its node.
    dead_letter_source : number of the source of its dead letters, where it has any.
    keeps : whether records are kept as they came, since they may end later.
    topics : of an input with a pattern, the topics that were piped into, in order.
    absent : by part, key or value, the columns that none of the bytes has had.
    """

    number: int
    source: SourceNode
    dead_letter_source: int | None = None
    keeps: bool = False
    topics: list[str] = field(default_factory=list)
    absent: dict[str, AbsentColumns] = field(default_factory=dict)

    def warn(self) -> None:
        """Warn of columns that no record has."""
        for part, absent in self.absent.items():
            warning = absent.warning(self.source.name, part)
            if warning is not None:
                session.warn(*warning)

    def of_topic(self, topic: str, record: Piped) -> Piped:
        """The record as one of a topic that the input's pattern matches."""
        if self.source.origin.pattern is None:
            return record
        if topic not in self.topics:
            self.topics.append(topic)
        place = self.number << PARTITION_BITS | pattern_partition(self.topics.index(topic))
        return replace(record, topic=topic, place=place)

    def record(
        self,
        key: Any,
        value: Any,
        ts: int,
        headers: Sequence[Header],
        step: int,
        topic: str | None = None,
        *,
        zoned: bool = True,
    ) -> Piped:
        """The record, with everything of its types.

        Parameters
        ----------
        zoned : whether timestamps need a zone; else they are in the machine's, as results have them.

        Raises
        ------
        TopologyError : something is not.
        SourceError : bytes are not of the topic's format, and such a record is to fail the query.
        """
        values = {"key": key, "value": value}
        try:
            at = fitted(ts, LongType(), "ts", nullable=False)
            parts = [self._part(part, values[part], step) for part in values]
            for part, each in zip(values, parts, strict=True) if zoned else ():
                check_zones(each.value, getattr(self.source.shape, part), part)
            header_pairs = tuple(fitted(list(headers), HEADERS, "headers"))
        except Unfit as error:
            raise TopologyError(
                f"A piped record does not have the types of its input {self.source.input!r}: {error.place}: "
                f"{error.fault}.",
                given=f"record {step}: key={key!r:.80}, value={value!r:.200}",
                hint=f"ts: ms since 1970; key: {self.source.shape.key.simpleString():.120}; "
                f"value: {self.source.shape.value.simpleString():.200}.{_of_times(error)}",
            ) from None
        at = next((part.ts for part in parts if part.ts is not None), at)
        worst = next((part.error for part in reversed(parts) if part.error is not None), None)
        if worst is not None and self.dead_letter_source is not None:
            # of a record of which neither can be read, the value is complained of
            raw = self._raws(values)
            place = BadRecordOrigin(topic or self.source.origin.topic, 0, step, at, self.source.name, UNDECODABLE)
            headers_of_letter = (*header_pairs, *place.headers(type(worst), complaint(worst)))
            return Piped(self.dead_letter_source, raw[0], raw[1], max(at, 0), headers_of_letter, step)
        reasons = {part.reason for part in parts if part.reason}
        if reasons:
            dropped = (UNDECODABLE if UNDECODABLE.code in reasons else IGNORED).code
            return Piped(self.number, None, None, at, header_pairs, step, dropped)
        original = self._raws(values) if self.source.origin.formats and self.keeps else None
        return Piped(self.number, parts[0].value, parts[1].value, at, header_pairs, step, raw=original)

    def _part(self, part: str, content: Any, step: int) -> _PipedPart:
        """The key or the value: bytes of a topic are decoded."""
        kind = getattr(self.source.shape, part)
        origin = self.source.origin
        raw = isinstance(content, bytes | bytearray) and not isinstance(kind, BinaryType)
        form = origin.formats.get(part)
        if form is None or (content is not None and not raw):
            return _PipedPart(fitted(content, kind, part))
        serde, texts = serde_of(form), pa.array([bytes(content) if raw else None], pa.binary())
        reading = guard.read_guard(serde, texts)
        report = serde.absent(reading.values, texts) if hasattr(serde, "absent") else None
        if report is not None:
            self.absent.setdefault(part, AbsentColumns()).add(report)
        if reading.ignored is not None and reading.ignored[0]:
            return _PipedPart(None, IGNORED.code)
        if not reading.bad[0]:
            value = reading.values.to_pylist(maps_as_pydicts="strict")[0]
            return _PipedPart(fitted(value, kind, part), ts=None if reading.ts is None else reading.ts[0].as_py())
        decoder = Deserializer(self.number, part, part, form.kind, origin.topic, origin.policies.fails, serde)
        error = decoder.refused(bytes(content), origin.topic, 0, step)
        if decoder.fails:
            raise error
        return _PipedPart(None, UNDECODABLE.code, error=error)

    def _raws(self, values: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
        return self._raw("key", values["key"]), self._raw("value", values["value"])

    def _raw(self, part: str, value: Any) -> bytes | None:
        """The bytes that the topic would have had."""
        if value is None or isinstance(value, bytes | bytearray):
            return None if value is None else bytes(value)
        kind = getattr(self.source.shape, part)
        values = array(arrow_rows([(fitted(value, kind, part),)], [(part, kind)]), part)
        return bytes(serde_of(self.source.origin.formats[part]).write(values)[0].as_py())


@dataclass(frozen=True)
class _PipedPart:
    """A key or a value, why its record does not pass (0: it does), and the time in ms that it tells.

    `error` is what a record would be refused with that cannot be decoded.
    """

    value: Any
    reason: int = 0
    ts: int | None = None
    error: SourceError | None = None


def _of_times(error: Unfit) -> str:
    """How a time is given, if something else was."""
    if not error.fault.endswith((", not timestamp", ", not date")):
        return ""
    return " A timestamp is a datetime: datetime(2026, 1, 31, 12, tzinfo=timezone.utc), a date date(2026, 1, 31)."


# Input and output of a run of piped records, in any driver: rows of one frame, and results.


@dataclass(frozen=True)
class Collected:
    """One result: the record, the step that caused it, and its position."""

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None
    step: int
    position: tuple[int | bytes, ...]
    partition: int | None = None


def headers_of(headers: Iterable[Any] | None) -> tuple[Header, ...]:
    """A record's headers as a test sees them."""
    pairs = ((header["key"], header["value"]) for header in headers or ())
    return tuple((name, None if value is None else bytes(value)) for name, value in pairs)


@dataclass(frozen=True)
class PipedFrame:
    """The frame of piped records of all cases: one source partition, in the order in which they were piped.

    Parameters
    ----------
    physical : the plan.
    headers : whether records carry headers.
    """

    physical: Physical
    headers: bool

    @property
    def schema(self) -> StructType:
        """Names and types of its columns."""
        position = position_columns(self.physical.slots)
        fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("case", LongType())]
        fields += [(name, LongType()) for name in (*position, "ts")] + [("reason", ByteType())]
        fields += [("headers", HEADERS)] if self.headers else []
        fields += [(TOPIC, StringType())] if self.physical.plan.patterns else []
        for number, source in enumerate(self.physical.plan.sources):
            fields += [(f"s{number}_key", source.shape.key), (f"s{number}_value", source.shape.value)]
            fields += [(column(number, "headers"), HEADERS)] if source.dead_letters_of is not None else []
        return StructType([StructField(name, kind, True) for name, kind in fields])

    def frame(self, cases: Sequence[Sequence[Piped]]) -> pa.Table:
        """The rows as columns, case by case."""
        return arrow_rows(self.rows(cases), [(member.name, member.dataType) for member in self.schema])

    def rows(self, cases: Sequence[Sequence[Piped]]) -> list[tuple[Any, ...]]:
        """The rows, case by case."""
        return [self._row(piped, case) for case, records in enumerate(cases) for piped in records]

    def _row(self, piped: Piped, case: int) -> tuple[Any, ...]:
        reason = piped.reason or (NEGATIVE_TIMESTAMP.code if piped.ts < 0 else 0)
        paths = [0] * self.physical.slots
        row: list[Any] = [piped.source, case, piped.step, piped.place, piped.step, *paths, piped.ts, reason]
        row += [list(piped.headers)] if self.headers else []
        row += [piped.topic] if self.physical.plan.patterns else []
        for number, source in enumerate(self.physical.plan.sources):
            of, headers = source.dead_letters_of, list(piped.headers)
            parts = [piped.key, piped.value, *([headers] if of is not None else [])]
            if number == piped.source:
                row += parts
            elif piped.raw is not None and of in (BEHIND_INPUTS, self.physical.plan.sources[piped.source].name):
                row += [*piped.raw, headers]
            else:
                row += [None] * len(parts)
        return tuple(row)


_Results: TypeAlias = dict[tuple[int, str], list[Collected]]
"""Results by case and sink name."""


@dataclass(frozen=True)
class NotInProcess:
    """Why a topology does not run in this process.

    Parameters
    ----------
    why : as text.
    """

    why: str


@dataclass(frozen=True)
class Local:
    """A topology, made ready to run in this process.

    Parameters
    ----------
    physical : the plan.
    form : the frame of piped records.
    pack : what brings them to the first level, or to the sinks.
    levels : of the operators, in order.
    stores : by name.
    asked : what Spark is asked for between, as text.
    """

    physical: Physical
    form: PipedFrame
    pack: Pack
    levels: tuple[LevelProcessor, ...]
    stores: Mapping[str, StoredTable]
    asked: str


def local(spark: SparkSession, physical: Physical, *, shards: int, headers: bool) -> Local | NotInProcess:
    """The topology, ready to run here; or why it cannot.

    Parameters
    ----------
    spark : the session, which is asked for its plan of the functions.
    physical : the plan.
    shards : shards of each operator.
    headers : whether records carry headers.
    """
    unlike = _unlike(physical)
    if unlike is not None:
        return unlike
    with session.overridden(spark, session.AT_START):
        return _local(spark, physical, PipedFrame(physical, headers), Labels(shards, target_count(physical)))


def _local(spark: SparkSession, physical: Physical, form: PipedFrame, labels: Labels) -> Local | NotInProcess:
    fusion = Fusion(spark, physical, asks=True, ships=False)
    names = frozenset(source.name for source in physical.plan.sources)
    packed = fusion.of_sources(names, form.schema, decodes=True)
    fused = {o.id: program for o in physical.operators if (program := fusion.fused(o)) is not None}
    if packed is None or len(fused) < len(physical.operators):
        lines = _by_spark(physical, fusion)
        reasons = [refusal.why for refusal in fusion.at_sources.values() if refusal is not None]
        return NotInProcess("; ".join(lines or reasons))
    stage, encodings = packed.stage, encodings_of(physical, physical.plan.sinks, ships=False)
    routes = dead_letter_routes(physical, piped=True)
    common = WireSettings(labels, Measures.of(physical), dead_letters=routes, encodings=encodings)
    pack = Pack(
        stage=packed_stage(physical, stage, 0),
        common=common,
        sources=True,
        program=packed.program,
        error_policies=error_policies(physical, roots_of(stage)),
        extraction=Extraction(extractors_of(physical.plan, names), packed.timing),
    )
    contexts = {o.id: context_of(physical, o, fused.get(o.id), headers=form.headers) for o in physical.operators}
    levels = []
    for level in range(1, physical.levels + 1):
        level_contexts = {o.id: contexts[o.id] for o in physical.operators if o.level == level}
        levels.append(LevelProcessor(LevelOperators(level_contexts, physical.ports, fused), common))
    spark_lines = "; ".join(_by_spark(physical, fusion))
    return Local(physical, form, pack, tuple(levels), stores_of(physical, contexts), spark_lines)


def _by_spark(physical: Physical, fusion: Fusion) -> list[str]:
    return [line for line in started_engines(physical, fusion) if ": by Spark" in line or "; by Spark" in line]


def _unlike(physical: Physical) -> NotInProcess | None:
    """Types with values that only Spark makes."""
    for node in (*physical.plan.sources, *physical.plan.sinks):
        for kind in (node.shape.key, node.shape.value):
            reason = special(kind)
            if reason is not None:
                return NotInProcess(f"{node.name} has {reason}")
    return None


class LocalRun:
    """Runs of one topology in this process, each from the state that the one before has left.

    Parameters
    ----------
    topology : the topology.

    Attributes
    ----------
    drops : records dropped so far, by (operator, reason).
    counts : what processors have counted themselves so far.
    """

    def __init__(self, topology: Local) -> None:
        self.topology = topology
        self.drops = Counter[tuple[str, str]]()
        self.counts = Counts()
        self.stores: dict[int, MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self._ran: list[int] = []
        self._batches = 0
        self._wall: int | None = None
        self._results: dict[tuple[int, str], list[Collected]] = defaultdict(list)
        self._exits = Exits.of(topology.physical, topology.pack.common.labels)
        self._position = position_columns(topology.physical.slots)

    def run(self, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        """All results so far by (case, sink name), in order; what is in `cases` beyond the last run is new."""
        self._ran += [0] * (len(cases) - len(self._ran))
        new = [records[ran:] for records, ran in zip(cases, self._ran, strict=True)]
        if not any(new):
            return self._results
        self._advance(partial(self._run, new), self._ran)
        self._ran = [len(records) for records in cases]
        return self._results

    def take(self, frame: pa.Table) -> dict[tuple[int, str], list[Collected]]:
        """All results so far by (case, sink name), when the records of a frame have run behind those before.

        Parameters
        ----------
        frame : records of one case, as `PipedFrame` has them, with their steps as offsets.
        """
        ran = [sum(self._ran)]
        if len(frame):
            self._advance(partial(self._packed, frame), ran)
        self._ran = [ran[0] + len(frame)]
        return self._results

    def show_wall_clock(self, wall: int) -> dict[tuple[int, str], list[Collected]]:
        """All results so far, when the wall clock has come to show this."""
        previous, self._wall = self._wall, wall
        try:
            self._advance(lambda drops: self._through(list(self._clock_rows()), drops), self._ran)
        except BaseException:
            self._wall = previous
            raise
        return self._results

    def _advance(self, run: Callable[[DeadLetterWriter], _Results], ran: Sequence[int]) -> None:
        """Run a batch, or leave everything as it was.

        Raises
        ------
        FunctionError : a function raises for a record, as the query would end with it.
        """
        snapshots = {label: store.snapshot() for label, store in self.stores.items()}
        try:
            drops = DeadLetterWriter(self.topology.pack.common.dead_letters)
            results = run(drops)
        except BaseException as error:
            self._restore(snapshots)
            raise of_run(error) if isinstance(error, Exception) else error from None
        for (case, sink), records in results.items():
            self._results[case, sink] += [self._reposition(record, ran[case]) for record in records]
        self._batches += 1
        self.drops.update(+drops)
        self.counts.note_numbers(drops.numbers)

    def _reposition(self, record: Collected, ran: int) -> Collected:
        """A result behind those of the batches before; what the wall clock let go is of the last record before it."""
        step = ran - 1 if record.position[0] == AT_FIRST else record.step
        return replace(record, step=step, position=(self._batches, *record.position))

    def _clock_rows(self) -> Iterator[WireRow]:
        """Rows that bring the wall clock to all shards that use it, at the beginning of a batch."""
        physical, labels = self.topology.physical, self.topology.pack.common.labels
        for operator, time in physical.timed:
            if time.by_wall and self._wall is not None:
                shards = ShardCounts(labels.shards * len(self._ran))
                yield from wire_rows(
                    clock_batches(operator.id, physical.time_port(operator), self._wall, shards, piped=True), labels
                )

    def entries(self, store: StoredTable, cases: Iterable[int], only: bytes | None = None) -> list[list[Entry]]:
        """The rows of a store in each of some cases, as the last run has left them; see `StoredTable.entries`."""
        labels = self.topology.pack.common.labels
        target = self.topology.physical.host(store.context.operator.id)
        shards = [range(case * labels.shards, (case + 1) * labels.shards) for case in cases]
        return store.entries([[self._state(labels.label(target, shard)) for shard in each] for each in shards], only)

    def _restore(self, snapshots: dict[int, StoreSnapshot]) -> None:
        self.stores = defaultdict(MemoryChunkStore, {label: self.stores[label] for label in snapshots})
        for label, snapshot in snapshots.items():
            self.stores[label].restore(snapshot)

    def _run(self, new: Sequence[Sequence[Piped]], drops: DeadLetterWriter) -> _Results:
        return self._packed(self.topology.form.frame(new), drops)

    def _packed(self, frame: pa.Table, drops: DeadLetterWriter) -> _Results:
        wire = self.topology.pack.pack(frame, Clock(), drops, Counts())
        return self._through([*self._clock_rows(), *wire], drops)

    def _through(self, wire: list[WireRow], drops: DeadLetterWriter) -> _Results:
        for level in self.topology.levels:
            rows: list[WireRow] = []
            level.begin_task()
            for label, blobs in by_label(wire).items():
                rows += self._rows_of(level, label, blobs)
            drops.update(level.counts.drops)
            drops.numbers.update(level.counts.processor_numbers())
            wire = rows
        return dict(self._collected(wire))

    def _rows_of(self, level: LevelProcessor, label: int, blobs: Sequence[tuple[int, bytes]]) -> Iterator[WireRow]:
        yield from level.ran(label, iter(blobs), partial(self._state, label))

    def _state(self, label: int) -> State:
        return State(self.stores[label], None)

    def _collected(self, wire: list[WireRow]) -> Iterator[tuple[tuple[int, str], list[Collected]]]:
        tables: dict[tuple[int, str], list[pa.Table]] = defaultdict(list)
        for label, port, content in wire:
            case = self._exits.labels.place(label)[1] // self._exits.labels.shards
            tables[(case, self._exits.names[self._exits.ports[port]])].append(row_sizes.decode(content))
        for (case, sink), parts in tables.items():
            yield (case, sink), self._results_of(sink, stacked(parts))

    def _results_of(self, sink: str, rows: pa.Table) -> list[Collected]:
        shape = self.topology.physical.plan.by_name[sink].shape
        pairs = python_rows(rows, (("key", shape.key), ("value", shape.value)))
        columns = {name: ints(rows, name) for name in (*self._position, "ts")}
        places = position_tuples([columns[name] for name in self._position], held_keys(rows))
        steps = columns["offset"].tolist()
        headers: list[tuple[Header, ...] | None] = [None] * len(rows)
        if "headers" in rows.column_names:
            raw_headers = rows.column("headers").to_pylist()
            headers = [headers_of(raw) for raw in raw_headers]
        partitions = rows.column(PARTITION).to_pylist() if PARTITION in rows.column_names else [None] * len(rows)
        records = zip(pairs, columns["ts"].tolist(), headers, steps, places, partitions, strict=True)
        results = [Collected(*pair, *facts) for pair, *facts in records]
        return sorted(results, key=lambda result: result.position)


def by_label(wire: Sequence[WireRow]) -> dict[int, list[tuple[int, bytes]]]:
    """The blobs of wire rows, with their ports, by label."""
    blobs: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for label, port, content in wire:
        blobs[label].append((port, content))
    return blobs


# A bounded run of a topology: piped records as one frame, every case and output collected.
#
# What `watersmeet.testing.driver` runs on. All inputs of a case form one source partition; the case number
# travels beside the position and gives each case shards of its own, so hundreds of cases share one run.

# looking at a stage's sizes before the next is planned takes longer than the stages do
SETTINGS = {"spark.sql.adaptive.enabled": "false"}
"""What a run sets, besides its tasks and what a query does."""
END_LABEL = (1 << 31) - 1


@dataclass
class BoundedRun:
    """Runs of one topology over given records.

    Parameters
    ----------
    spark : the session.
    physical : the plan.
    shards : shards of each operator.
    headers : whether records carry headers.
    tasks : how many a level has; with one, levels may be grouped, and ends stand behind all rows.
    """

    spark: SparkSession
    physical: Physical
    shards: int
    headers: bool
    tasks: int = 2
    drops: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    def run(self, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        """Results by (case, sink name), in order; `drops` counts what was dropped."""
        # a session's own 200 tasks an exchange take minutes over a handful of records
        tasks = {"spark.sql.shuffle.partitions": str(self.tasks)}
        with session.overridden(self.spark, {**session.AT_START, **SETTINGS, **tasks}):
            try:
                return self._run(cases)
            except Exception as error:
                raise of_run(error) from None

    def _run(self, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        self.drops = {}
        if TOPICS.get():
            self.spark.sparkContext.setLocalProperty(PROPERTY, BatchRequest(topics=TOPICS.get()).to_json())
        # In Spark 4.1 a bounded stateful query finds its state coordinator only after this was touched.
        _ = self.spark.streams.active
        reports = BatchReports(self.spark)
        # as many as shards, so that results are not gathered, which would lose their case
        ends = tuple(END_LABEL - number for number in range(self.shards)) if self.tasks == 1 else ()
        layout = SparkLayout(
            labels=Labels(self.shards, target_count(self.physical), ends=ends),
            tasks=self.tasks,
            cache_root=None,
            headers=self.headers,
            cases=True,
            reports=reports.accumulator,
        )
        names = tuple(source.name for source in self.physical.plan.sources)
        form = PipedFrame(self.physical, self.headers)
        frame = self.spark.createDataFrame(form.rows(cases), form.schema).coalesce(1)
        compiled = compile_plan(self.physical, [Scan(frame, names)], layout)
        results = self._collect(compiled, cases)
        self.counts = reports.counts(None)
        self.drops.update(self.counts.drops)
        return results

    def _collect(
        self, compiled: CompiledFrame, cases: Sequence[Sequence[Piped]]
    ) -> dict[tuple[int, str], list[Collected]]:
        results: dict[tuple[int, str], list[Collected]] = defaultdict(list)
        frame, position = compiled.frame.persist(), position_columns(self.physical.slots)
        compiled = replace(compiled, frame=frame)
        fields: list[tuple[str, DataType]] = [(name, LongType()) for name in ("case", *position, "ts")]
        fields += [(HELD_KEY, BinaryType())] if self.physical.holds_back else []
        for sink in self.physical.sinks:
            has_partitions = self.physical.plan.by_name[sink].place.is_placed
            columns = [*fields, *([(PARTITION, LongType())] if has_partitions else [])]
            rows = compiled.rows(sink, compiled.schema(sink, columns)).collect()
            places = _position_tuples(rows, position)
            # A task emits each case's rows in order; cases and shards may come from several tasks.
            for at in sorted(range(len(rows)), key=lambda at: (rows[at]["case"], places[at])):
                case = rows[at]["case"]
                results[(case, sink)].append(_collected(rows[at], places[at]))
        frame.unpersist()
        return results


def _position_tuples(rows: Sequence[Row], position: Sequence[str]) -> list[tuple[int | bytes, ...]]:
    columns = [np.array([row[name] for row in rows], dtype=np.int64) for name in position]
    keys = [row[HELD_KEY] for row in rows] if rows and HELD_KEY in rows[0] else None
    return position_tuples(columns, None if keys is None else pa.array(keys, pa.binary()))


def _collected(row: Row, place: tuple[int | bytes, ...]) -> Collected:
    headers = None
    if "headers" in row:
        headers = headers_of(row["headers"])
    partition = row[PARTITION] if PARTITION in row else None  # noqa: SIM401  a row of Spark's has no `get`
    return Collected(row["key"], row["value"], row["ts"], headers, row["offset"], place, partition)
