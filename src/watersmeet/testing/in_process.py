"""A run of a topology in this process: what Spark's workers do with piped records, without a job of Spark's.

Where all functions are expressions, Spark has nothing to do with rows: the same packing, levels and exits as in
production run one after the other here, over state in memory. Spark is asked for its plan of the functions alone, once
for a topology. A run takes in what was piped since the last one (law 1: results do not depend on batches).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from watersmeet._engine.exchange.clock import Clock
from watersmeet._engine.exchange.routing import Drops
from watersmeet._engine.exchange.shards import ShardCounts
from watersmeet._engine.exchange.watermark import clock_batches
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import AT_FIRST, held_keys, ints, position_columns, stacked
from watersmeet._engine.rows.position import position_tuples
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.store import MemoryChunkStore, StoreSnapshot
from watersmeet._plan.physical import Physical
from watersmeet._spark.analysis.analysed_plan import special
from watersmeet._spark.dataflow.compile import context_of
from watersmeet._spark.dataflow.function_engines import started_engines
from watersmeet._spark.dataflow.fusion import Fusion
from watersmeet._spark.dataflow.processor import LevelOperators, LevelProcessor
from watersmeet._spark.dataflow.roots import packed_stage, roots_of
from watersmeet._spark.query.failures import raised
from watersmeet._spark.session import settings
from watersmeet._spark.session.counting import add
from watersmeet._spark.sources.extracted import extractors_of
from watersmeet._worker.packing.extracted import Extraction
from watersmeet._worker.packing.packing import Pack, wire_rows
from watersmeet._worker.wire.common import Common
from watersmeet._worker.wire.dead_letters import DeadLetterWriter, dead_letter_routes, outliving
from watersmeet._worker.wire.encoding import encodings_of
from watersmeet._worker.wire.measures import WireRow
from watersmeet._worker.wire.wire import Exits, Labels, metric_names, target_count
from watersmeet.testing.piped import Header, Piped
from watersmeet.testing.records import Collected, PipedFrame, headers_of
from watersmeet.testing.stores import Entry, StoredTable, stores_of
from watersmeet.testing.values import python_rows

_Found: TypeAlias = dict[tuple[int, str], list[Collected]]
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
    with settings.overridden(spark, settings.AT_START):
        return _local(spark, physical, PipedFrame(physical, headers), Labels(shards, target_count(physical)))


def _local(spark: SparkSession, physical: Physical, form: PipedFrame, labels: Labels) -> Local | NotInProcess:
    fusion = Fusion(spark, physical, direct_sinks=True, asks=True)
    names = frozenset(source.name for source in physical.plan.sources)
    packed = fusion.of_sources(names, form.schema, decodes=True)
    ready = physical.ordered_exit or fusion.exit
    fused = {o.id: found for o in physical.operators if (found := fusion.fused(o)) is not None}
    if packed is None or not ready or len(fused) < len(physical.operators):
        lines = _by_spark(physical, fusion)
        reasons = [found.why for found in fusion.at_sources.values() if found is not None]
        return NotInProcess("; ".join(lines or reasons))
    stage, encodings = packed.stage, encodings_of(physical, physical.plan.sinks, ships=False)
    common = Common(labels, metric_names(physical), None, dead_letter_routes(physical, piped=True), encodings)
    pack = Pack(
        stage=packed_stage(physical, stage, 0, exits=physical.ordered_exit),
        common=common,
        sources=True,
        program=packed.program,
        outliving=outliving(physical, roots_of(stage)),
        extraction=Extraction(extractors_of(physical.plan, names), packed.timing),
    )
    contexts = {o.id: context_of(physical, o, fused.get(o.id), headers=form.headers) for o in physical.operators}
    levels = []
    for level in range(1, physical.levels + 1):
        mine = {o.id: contexts[o.id] for o in physical.operators if o.level == level}
        levels.append(LevelProcessor(LevelOperators(mine, physical.side_of, fused, physical.borrowers), common))
    asked = "; ".join(_by_spark(physical, fusion))
    return Local(physical, form, pack, tuple(levels), stores_of(contexts.values()), asked)


def _by_spark(physical: Physical, fusion: Fusion) -> list[str]:
    return [line for line in started_engines(physical, fusion) if ": by Spark" in line or "; by Spark" in line]


def _unlike(physical: Physical) -> NotInProcess | None:
    """Types with values that only Spark makes."""
    for node in (*physical.plan.sources, *physical.plan.sinks):
        for kind in (node.shape.key, node.shape.value):
            why = special(kind)
            if why is not None:
                return NotInProcess(f"{node.name} has {why}")
    return None


class LocalRun:
    """Runs of one topology in this process, each from the state that the one before has left.

    Parameters
    ----------
    topology : the topology.

    Attributes
    ----------
    drops : records dropped so far, by (operator, reason).
    """

    def __init__(self, topology: Local) -> None:
        self.topology = topology
        self.drops: dict[tuple[str, str], int] = {}
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

    def show_wall_clock(self, wall: int) -> dict[tuple[int, str], list[Collected]]:
        """All results so far, when the wall clock has come to show this."""
        before, self._wall = self._wall, wall
        try:
            self._advance(lambda drops: self._through(list(self._clock_rows()), drops), self._ran)
        except BaseException:
            self._wall = before
            raise
        return self._results

    def _advance(self, run: Callable[[DeadLetterWriter], _Found], ran: Sequence[int]) -> None:
        """Run a batch, or leave everything as it was.

        Raises
        ------
        FunctionError : a function raises for a record, as the query would end with it.
        """
        before = {label: store.snapshot() for label, store in self.stores.items()}
        try:
            drops = DeadLetterWriter(self.topology.pack.common.dead_letters)
            found = run(drops)
        except EvaluationError as error:
            self._restore(before)
            raise raised(str(error)) from error
        except BaseException:
            self._restore(before)
            raise
        for (case, sink), records in found.items():
            self._results[case, sink] += [self._behind(record, ran[case]) for record in records]
        self._batches += 1
        add(self.drops, drops)

    def _behind(self, record: Collected, ran: int) -> Collected:
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

    def entries(self, store: StoredTable, case: int, only: bytes | None = None) -> list[Entry]:
        """The rows of a store, as the last run has left them; see `StoredTable.entries`."""
        labels = self.topology.pack.common.labels
        target = self.topology.physical.host(store.context.operator.id)
        shards = range(case * labels.shards, (case + 1) * labels.shards)
        return store.entries((self._state(labels.label(target, shard)) for shard in shards), only)

    def _restore(self, before: dict[int, StoreSnapshot]) -> None:
        self.stores = defaultdict(MemoryChunkStore, {label: self.stores[label] for label in before})
        for label, snapshot in before.items():
            self.stores[label].restore(snapshot)

    def _run(self, new: Sequence[Sequence[Piped]], drops: DeadLetterWriter) -> _Found:
        return self._packed(self.topology.form.frame(new), drops)

    def _packed(self, frame: pa.Table, drops: DeadLetterWriter) -> _Found:
        wire = self._counted(self.topology.pack.packed(frame, Clock(), drops), drops)
        return self._through([*self._clock_rows(), *wire], drops)

    def _through(self, wire: list[WireRow], drops: DeadLetterWriter) -> _Found:
        for level in self.topology.levels:
            rows: list[WireRow] = []
            for label, blobs in by_label(wire).items():
                self._arrives(label, blobs)
                rows += self._counted(level.ran(label, iter(blobs), partial(self._state, label)), drops)
            wire = rows
        return dict(self._collected(wire))

    def _arrives(self, label: int, blobs: Sequence[tuple[int, bytes]]) -> None:
        """Called with the blobs of a label before its operator runs."""

    def _state(self, label: int) -> State:
        return State(self.stores[label], None)

    def _counted(self, rows: Iterator[WireRow], drops: Drops) -> list[WireRow]:
        """The rows without counts, which are added up."""
        kept: list[WireRow] = []
        for row in rows:
            if row[2] is None:
                drops[self.topology.pack.common.metrics[row[1]]] += row[3]
            else:
                kept.append(row)
        return kept

    def _collected(self, wire: list[WireRow]) -> Iterator[tuple[tuple[int, str], list[Collected]]]:
        tables: dict[tuple[int, str], list[pa.Table]] = defaultdict(list)
        for label, port, content, _ in wire:
            case = self._exits.labels.place(label)[1] // self._exits.labels.shards
            tables[(case, self._exits.names[self._exits.ports[port]])].append(blob.decode(content or b""))
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
            given = rows.column("headers").to_pylist()
            headers = [headers_of(some) for some in given]
        made = zip(pairs, columns["ts"].tolist(), headers, steps, places, strict=True)
        results = [Collected(key, value, ts, told_of, step, at) for (key, value), ts, told_of, step, at in made]
        return sorted(results, key=lambda result: result.position)


def by_label(wire: Sequence[WireRow]) -> dict[int, list[tuple[int, bytes]]]:
    """The blobs of wire rows, with their ports, by label."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for label, port, content, _ in wire:
        found[label].append((port, content or b""))
    return found
