"""One level in Spark: a StatefulProcessor that hosts all operators of a level, keyed by label.

Each (operator, shard) is handled once per batch: its blobs are decoded, the engine's operator runs over
them, results go out as blobs. Blobs for later levels pass untouched. Rows come and go as frames of pandas: of Spark's
two ways this is the one that hands results on while there are more to come; the other gathers all of a label's (law 9).
"""

from __future__ import annotations

import getpass
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import RoutedBatch
from watersmeet._engine.expressions.program import TooManyRows
from watersmeet._engine.matching import with_rows_of_owner
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.operators import run_operator
from watersmeet._engine.row_sizes import RESULT_BYTES
from watersmeet._engine.rows import stacked
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.runs import State
from watersmeet._worker.counts import MEMORY, Counts, Measure, counting_results, note_state
from watersmeet._worker.ended_rows import DeadLetterWriter
from watersmeet._worker.pack import Fused, Gathered, wire_frames, wire_rows
from watersmeet._worker.process import CACHE, freeze_imports, give_back, own_bytes, say
from watersmeet._worker.spark_worker import CHUNKS, MANIFEST, MAP, VALUE, SparkChunkStore, StateCalls, Wire
from watersmeet._worker.spill import LabelInputs, WaitingBlobs
from watersmeet._worker.task_reports import BatchRequest, ShardChanges, TaskReport
from watersmeet._worker.wire import END, WireRow, WireSettings, counting_bytes, encode_and_route, output_port
from watersmeet.errors import WatersmeetError

if TYPE_CHECKING:
    import pandas as pd


DRIVING = 0
"""The side of a lookup that gives results."""
DEFAULT_CACHE = ""
"""Stands for the folder that each machine chooses: neither its users nor its folders need be those of the driver."""


@dataclass(frozen=True)
class LevelOperators:
    """The operators of one level, and the steps on their results."""

    settings: Mapping[int, OperatorContext]  # operators of the level, by number
    ports: Mapping[int, tuple[int, int]]  # operator and side of each port
    fused: Mapping[int, Fused]  # of operators with results that are packed here; those of the others go to `Unpack`
    level: int = 1  # number of the level

    def inputs(self, target: int, blobs: Iterator[tuple[int, bytes]]) -> dict[int, dict[int, pa.Table]]:
        """The rows of each operator in a label, by side."""
        rows = LabelInputs(self.ports)
        for port, content in blobs:
            rows.add(port, content)
        inputs: dict[int, dict[int, pa.Table]] = {}
        for (number, side), table in rows.tables().items():
            inputs.setdefault(number, {})[side] = table
        for number in inputs:
            reader = self.settings[number].reader
            if reader is not None:
                inputs[number] = with_rows_of_owner(reader, inputs[number], inputs.get(target, {}))
        return inputs

    def in_turn(self, target: int) -> list[int]:
        """The operators of a label: readers of a store see it before its owner changes it; lookups in a row go last."""
        readers = [n for n, context in self.settings.items() if context.reader is not None]
        chained = sorted(n for n, context in self.settings.items() if context.operator.head == target)
        return [*readers, target, *chained]

    @cached_property
    def inner_ports(self) -> frozenset[int]:
        """Ports of the rows that one lookup of a chain gives the next: they stay in their label."""
        chained = {number for number, context in self.settings.items() if context.operator.head is not None}
        return frozenset(port for port, (number, side) in self.ports.items() if number in chained and side == DRIVING)


class LevelProcessor(StatefulProcessor):
    """Runs the operators of one level.

    Parameters
    ----------
    operators : the operators of the level.
    common : the settings that all levels share.
    cache_root : folder of a machine's run cache, or `DEFAULT_CACHE`; None: no cache.
    gathers : whether results that are packed here are held together until the ends come (`Gathered`).
    """

    takes_wire = True

    def __init__(
        self,
        operators: LevelOperators,
        common: WireSettings,
        *,
        cache_root: str | None = None,
        gathers: bool = False,
    ) -> None:
        self._common = common
        self._operators = operators
        self._cache_root = cache_root
        self._store: SparkChunkStore | None = None
        self._started = False
        self._gathered = Gathered() if gathers else None
        # by lookup of a chain, the rows that the one before has given it in the label at hand
        self._inner: dict[int, LabelInputs[tuple[int, int]]] = {}
        self._report: TaskReport
        # takes what ends behind the operators, for all shards of the task; it does not come through a pickle
        self._drops: DeadLetterWriter

    def init(self, handle: Any) -> None:
        """Declare the state variables; Spark calls this on the driver as well."""
        self._store = SparkChunkStore(handle)
        self.begin_task()

    def begin_task(self) -> None:
        """Count from nothing."""
        self._report, self._drops = TaskReport(), DeadLetterWriter(self._common.dead_letters)

    def handleInputRows(self, key: Any, rows: Iterator[Any] | Wire, timerValues: Any) -> Iterator[Any]:
        """Run the label's operator over its blobs: frames for frames, and rows as they are for a `Wire`."""
        label = int(key[0])
        if isinstance(rows, Wire):
            yield from self.run_label(label, iter(rows), rows.calls)
        else:
            yield from wire_frames(self.run_label(label, _blobs(rows), None))

    def run_label(self, label: int, blobs: Iterator[tuple[int, bytes]], calls: StateCalls | None) -> Iterator[WireRow]:
        """The results of a label's rows, see `ran`, upon Spark's state, which is that of the label."""
        freeze_imports()
        BatchRequest.of_task().take_topics()
        return self.ran(label, blobs, partial(self._state, label, calls))

    def keeps_state(self, label: int) -> bool:
        return self._common.labels.place(label)[0] in self._operators.settings

    def close(self) -> None:
        """The task ends: what it reports goes to the driver, and what its labels have needed back."""
        self.counts.drops.update(self._drops)
        self.counts.note_largest(Measure(MEMORY), own_bytes())
        self._report.send(self._common.reports, f"level {self._operators.level}")
        give_back()
        if self._gathered:
            raise WatersmeetError(
                "A task of a level has ended before its end label arrived, and results are left.",
                hint="This is a fault of watersmeet's: please report it. The batch is not committed.",
            )

    @property
    def counts(self) -> Counts:
        return self._report.counts

    def ran(self, label: int, blobs: Iterator[tuple[int, bytes]], state_of: Callable[[], State]) -> Iterator[WireRow]:
        """The results of the label's rows: those of its operator, or the rows as they are, if it has none here.

        Parameters
        ----------
        blobs : port and blob of each row.
        state_of : opens the label's state.
        """
        target, shard = self._common.labels.place(label)
        context = self._operators.settings.get(target)
        if context is None:
            if label in self._common.labels.ends:
                yield from self._flush()
            yield from passed_on(label, blobs)
            return
        drops, state = DeadLetterWriter(self._common.dead_letters, shard // self._common.labels.shards), state_of()
        inputs, changes = self._operators.inputs(target, blobs), ShardChanges.begun(label, state)
        for number in self._operators.in_turn(target):
            rows = inputs.pop(number, {})
            if number in self._inner:
                rows |= {side: table for (_, side), table in self._inner.pop(number).tables().items()}
            if not rows:
                continue
            running = self._operators.settings[number]
            self._common.measures.processed(running.operator, shard, rows, self.counts)
            results = run_operator(running, rows, state, drops)
            # the operator lets them go when it has read them
            del rows
            yield from self._handed_on(results, label, running, drops)
            if number != target and running.reader is None:
                note_state(running.operator, shard, label, state, self.counts)
        if changes is not None:
            self._report.served += changes.end(state)
        yield from self._written(drops.routed(self._common.labels.counts))
        self.counts.drops.update(drops)
        self.counts.note_numbers(drops.numbers)
        note_state(context.operator, shard, label, state, self.counts)

    def _handed_on(
        self, results: Iterator[pa.Table], label: int, context: OperatorContext, drops: DeadLetterWriter
    ) -> Iterator[WireRow]:
        target, (_, shard) = context.operator.id, self._common.labels.place(label)
        fused = self._operators.fused.get(target)
        results = counting_results(context.operator, results, self.counts)
        if fused is None:
            yield from counting_bytes(in_blobs(results, label, output_port(target)), self.counts)
        elif self._gathered is not None and not self._goes_on_inside(fused):
            for table in results:
                gathered = self._gathered.add(target, table)
                if gathered is not None:
                    yield from self._fused_rows(gathered, fused, 0, context, self._drops)
        else:
            for table in _in_one(results) if fused.broadcasts_bounds else results:
                yield from self._fused_rows(table, fused, shard, context, drops)

    def _goes_on_inside(self, fused: Fused) -> bool:
        """Whether rows go to the next lookup of a chain, which has them in their own label."""
        return any(outlet.port in self._operators.inner_ports for outlet in fused.outlets)

    def _flush(self) -> Iterator[WireRow]:
        """The rows that the task has held together until now."""
        if self._gathered is None:
            return
        for target, table in self._gathered.rest():
            yield from self._fused_rows(
                table, self._operators.fused[target], 0, self._operators.settings[target], self._drops
            )
        yield from self._written(self._drops.routed(self._common.labels.counts))

    def _state(self, label: int, calls: StateCalls | None = None) -> State:
        assert self._store is not None
        self._store.begin(label, calls)
        return State(self._store, self._cache())

    def _cache(self) -> RunCache | None:
        run_cache = _cache(self._cache_root)
        if run_cache is not None and not self._started:
            # once in a task: tasks elsewhere have retired runs that this process knows
            self._started = True
            run_cache.let_go()
        return run_cache

    def _fused_rows(
        self, results: pa.Table, fused: Fused, shard: int, context: OperatorContext, drops: DeadLetterWriter
    ) -> Iterator[WireRow]:
        """The results, packed here."""
        try:
            rows = fused.rows(results, context.operator.node, drops)
        except TooManyRows as many:
            for part in many.slices(results):
                yield from self._fused_rows(part, fused, shard, context, drops)
            return
        rows = rows.append_column(
            "case", pa.array(np.full(len(rows), shard // self._common.labels.shards, dtype=np.int64))
        )
        live = encode_and_route(
            rows, fused.outlets, self._common.labels.counts, context.slots, drops, self._common.encodings
        )
        yield from self._written(live)

    def _written(self, routed: Iterator[RoutedBatch]) -> Iterator[WireRow]:
        routed = self._common.measures.produced(self._leaving(routed), self.counts)
        yield from counting_bytes(wire_rows(routed, self._common.labels), self.counts)

    def _leaving(self, routed: Iterator[RoutedBatch]) -> Iterator[RoutedBatch]:
        """The rows that leave the label; those for the next lookup of a chain are kept for it."""
        ports = self._operators.ports
        for batch in routed:
            if batch.port in self._operators.inner_ports:
                place = ports[batch.port]
                self._inner.setdefault(place[0], LabelInputs(ports)).put(place, batch.rows)
            else:
                yield batch


class LevelGroup(StatefulProcessor):
    """Runs several levels behind one another, where one task has all their shards.

    Rows for a later level of the group wait here until the end has come, which stands behind all rows that Spark has
    sorted by label: then each level has all its rows when it begins.

    Parameters
    ----------
    levels : the levels, in order.
    """

    takes_wire = True

    def __init__(self, levels: Sequence[LevelProcessor]) -> None:
        self._levels = levels
        self._client: Any = None
        self._waiting: list[WaitingBlobs] = []

    def init(self, handle: Any) -> None:
        """Declare the state variables, which all levels share: each label has its own of them."""
        self._client = handle._statefulProcessorApiClient
        self._waiting = [WaitingBlobs() for _ in self._levels]
        for level in self._levels:
            level.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any] | Wire, timerValues: Any) -> Iterator[Any]:
        """Run the label's operator if it is of the first level; all others when the end has come."""
        first, label = self._levels[0], int(key[0])
        if isinstance(rows, Wire):
            yield from self._sent_on(0, first.run_label(label, iter(rows), rows.calls), rows.calls)
        else:
            yield from wire_frames(self._sent_on(0, first.run_label(label, _blobs(rows), None), None))

    def keeps_state(self, label: int) -> bool:
        return any(level.keeps_state(label) for level in self._levels)

    def close(self) -> None:
        """The task ends, and so do its levels."""
        for level in self._levels:
            level.close()

    def _sent_on(self, at: int, rows: Iterator[WireRow], calls: StateCalls | None) -> Iterator[WireRow]:
        """The rows that leave the group, of those that the level at this place sends."""
        next_levels = range(at + 1, len(self._levels))
        end: WireRow | None = None
        for row in rows:
            label, port, content = row
            target = next((number for number in next_levels if self._levels[number].keeps_state(label)), None)
            if target is not None:
                self._waiting[target].add(label, port, content)
            elif port == END:
                end = row
            else:
                yield row
        if end is not None:
            yield from [end] if not next_levels else self._sent_on(at + 1, self._ran(at + 1, end, calls), calls)

    def _ran(self, at: int, end: WireRow, calls: StateCalls | None) -> Iterator[WireRow]:
        """The rows that the level at this place sends, which has all its own."""
        level, waiting = self._levels[at], self._waiting[at]
        labels = waiting.labels()
        if calls is not None:
            calls.coming(labels)
        for label in labels:
            self._turn_to(label, calls)
            yield from level.run_label(label, waiting.take(label), calls)
        yield from level.run_label(end[0], iter([end[1:]]), calls)

    def _turn_to(self, label: int, calls: StateCalls | None) -> None:
        """Have Spark's state be that of a label, as Spark does for the labels that it gives."""
        if calls is None:
            self._client.set_implicit_key((label,))
        else:
            calls.fetch_ahead(label)
            calls.late(self._client.set_implicit_key, (label,))


def in_blobs(tables: Iterator[pa.Table], label: int, port: int) -> Iterator[WireRow]:
    for table in tables:
        for piece in row_sizes.pieces(table):
            yield label, port, row_sizes.encode(piece)


def _blobs(frames: Iterator[pd.DataFrame]) -> Iterator[tuple[int, bytes]]:
    for frame in frames:
        yield from zip(frame["port"].tolist(), frame["blob"].tolist(), strict=True)


def passed_on(label: int, blobs: Iterator[tuple[int, bytes]]) -> Iterator[WireRow]:
    """Rows of a label that has no operator here, as they are."""
    for port, content in blobs:
        yield label, port, content
        if port == END:
            # one says as much as one from each task of the first stage
            return


def _in_one(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Rows together, as far as memory allows, so that every shard gets their time bounds once."""
    group: list[pa.Table] = []
    for table in tables:
        group.append(table)
        if sum(rows.nbytes for rows in group) >= RESULT_BYTES:
            yield stacked(group)
            group = []
    if group:
        yield stacked(group)


@cache
def _cache(root: str | None) -> RunCache | None:
    """One cache per worker process, so that opened maps outlive a batch."""
    if root is None:
        return None
    run_cache = RunCache(default_cache() if root == DEFAULT_CACHE else root, say=partial(say, CACHE))
    run_cache.watch()
    return run_cache


def default_cache() -> str:
    """This machine's folder, below the one for temporary files."""
    # a container's user may have a number alone
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    return os.path.join(tempfile.gettempdir(), f"watersmeet-{user}")


# A level as Spark gets it: what a process only asks for its state variables needs nothing of watersmeet's.
#
# When a query starts Spark asks each level for its variables, one level after the other, each time in a Python process
# of its own that no daemon has prepared. To import watersmeet there, with numpy, pyarrow and pandas, took as long as
# all the rest. So the class that Spark sees is pickled by its value, as one that is made in a function is, and the
# level within it stays bytes until there are rows.


def pickled_small(level: StatefulProcessor) -> StatefulProcessor:
    """The level, unpickled when its first rows come; it keeps its state in the variables of a `SparkChunkStore`."""

    class Level(StatefulProcessor):
        """Declares the variables, and hands everything else to the level."""

        def __init__(self, content: bytes, takes_wire: bool) -> None:
            self._content = content
            # `spark_worker.TAKES_WIRE`, by its value: nothing of watersmeet's is imported for the variables
            self.takes_wire = takes_wire
            self._level: Any = None
            self._variables: dict[str, Any] = {}
            self._statefulProcessorApiClient: Any = None

        def init(self, handle: Any) -> None:
            self._level = None
            self._statefulProcessorApiClient = getattr(handle, "_statefulProcessorApiClient", None)
            self._variables = {MANIFEST: handle.getValueState(*VALUE), CHUNKS: handle.getMapState(*MAP)}

        def getValueState(self, name: str, *_: Any) -> Any:
            """As a handle: what is declared already."""
            return self._variables[name]

        getMapState = getValueState

        def keeps_state(self, label: int) -> bool:
            """Whether a label has state that is read; not known before the first rows."""
            return self._level is not None and self._level.keeps_state(label)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Any:
            if self._level is None:
                self._level = pickle.loads(zlib.decompress(self._content))
                self._level.init(self)
            return self._level.handleInputRows(key, rows, timerValues)

        def close(self) -> None:
            if self._level is not None:
                self._level.close()

    # what is larger than 1 MB Spark broadcasts, and then it cannot ask for the variables: functions of many conditions
    # are large, and much alike
    content = zlib.compress(CloudPickleSerializer().dumps(level), 1)  # type: ignore[no-untyped-call]
    return Level(content, getattr(level, "takes_wire", False))
