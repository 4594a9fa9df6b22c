"""Why a result is as it is: the records of a journal, processed again, and those that the result depends on.

They stay columns, as the tasks have written them: only the few that an answer is about become records of Python's.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DataType, StructType

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import SNAPSHOT, Clock
from watersmeet._engine.keys import encode_keys, hash_keys
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import PARTITION_BITS, TOPIC, Bools, Int64s, array, ints, pattern_partition, stacked
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.explain import explain
from watersmeet._plan.logical import Plan, without_dead_letters
from watersmeet._plan.nodes import Node
from watersmeet._plan.physical import Edge, Operator, Physical, with_stores
from watersmeet._plan.pictures import Arrow, Box, Picture, mermaid, svg
from watersmeet._plan.reasons import IGNORED, NEGATIVE_TIMESTAMP, UNDECODABLE
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.pattern_topics import KnownTopics
from watersmeet._spark.checkpoint.record import Checkpoint, started_in
from watersmeet._spark.dataflow.level import LevelProcessor
from watersmeet._spark.journal import Journal
from watersmeet._spark.local import (
    Collected,
    Inlet,
    Local,
    LocalRun,
    NotInProcess,
    Piped,
    PipedFrame,
    StoredTable,
    arrow_rows,
    by_label,
    headers_of,
    local,
    python_rows,
)
from watersmeet._spark.session import check_session
from watersmeet._spark.stores.read import read_state
from watersmeet._worker.counts import Counts
from watersmeet._worker.ended_rows import DeadLetterWriter
from watersmeet._worker.formats import guard
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type, loosened
from watersmeet._worker.formats.decode import RAW
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.json import encoded
from watersmeet._worker.wire import WireRow
from watersmeet.errors import ConfigError
from watersmeet.hints import answering_as, refusing

# The records of a journal's file as the frame that a replay takes, a column at a time.
#
# Bytes go through the decoder of production; what it does not read ends in the replay as it has ended in the query.


def piped_frame(rows: pa.Table, inlet: Inlet, form: PipedFrame) -> pa.Table:
    """The records as a replay takes them, all with the step 0.

    Parameters
    ----------
    rows : those of one input, as a file of the journal has them.
    inlet : the input.
    form : the columns of the replay.
    """
    ts, reason = ints(rows, "ts"), np.zeros(len(rows), dtype=np.int8)
    arrays = {}
    if RAW["key"] in rows.column_names:
        parts = {part: _Part.of(array(rows, name), inlet, part) for part, name in RAW.items()}
        arrays = {f"s{inlet.number}_{part}": content.values for part, content in parts.items()}
        ts = parts["key"].time(parts["value"].time(ts))
        for code, member in ((IGNORED.code, "ignored"), (UNDECODABLE.code, "bad")):
            reason[np.logical_or(*(getattr(content, member) for content in parts.values()))] = code
    else:
        arrays = {name: array(rows, name) for name in (f"s{inlet.number}_key", f"s{inlet.number}_value")}
    passes = pa.array(reason == 0)
    arrays = {
        name: values if pc.all(passes).as_py() else pc.if_else(passes, values, None) for name, values in arrays.items()
    }
    reason[(reason == 0) & (ts < 0)] = NEGATIVE_TIMESTAMP.code
    arrays |= {"root": _constant(inlet.number, rows), "ts": pa.array(ts), "reason": pa.array(reason)}
    if "headers" in rows.column_names:
        arrays["headers"] = array(rows, "headers")
    if inlet.source.origin.pattern is not None:
        arrays |= {TOPIC: array(rows, TOPIC), "srcpart": _of_topics(rows, inlet)}
    zero = _constant(0, rows)
    schema = arrow_schema(form.schema)
    nulls = {TOPIC, "headers", *(name for name in schema.names if name.startswith("s") and name[1:2].isdigit())}
    columns = [arrays[n] if n in arrays else pa.nulls(len(rows)) if n in nulls else zero for n in schema.names]
    return pa.table([column.cast(member.type) for column, member in zip(columns, schema, strict=True)], schema=schema)


def _constant(number: int, rows: pa.Table) -> pa.Array:
    return pa.array(np.full(len(rows), number, dtype=np.int64))


def _of_topics(rows: pa.Table, inlet: Inlet) -> pa.Array:
    """The numbers of source and topic, as `Inlet.of_topic` has them."""
    places = [inlet.number << PARTITION_BITS | pattern_partition(at) for at in range(len(inlet.topics))]
    return pa.array(places, pa.int64()).take(pc.index_in(array(rows, TOPIC), pa.array(inlet.topics, pa.string())))


class _Part:
    """The keys, or the values, of some records: decoded, and which of them do not pass."""

    def __init__(self, values: pa.Array, bad: Bools, ignored: Bools, ts: pa.Array | None) -> None:
        self.values, self.bad, self.ignored, self._ts = values, bad, ignored, ts

    @classmethod
    def of(cls, raw: pa.Array, inlet: Inlet, part: str) -> _Part:
        """The part of these bytes."""
        kind, form = getattr(inlet.source.shape, part), inlet.source.origin.formats.get(part)
        none = np.zeros(len(raw), dtype=np.bool_)
        if form is None or isinstance(kind, BinaryType):
            return cls(raw.cast(arrow_type(kind)), none, none, None)
        reading = guard.read_guard(serde_of(form), raw.cast(pa.binary()))
        ignored = none if reading.ignored is None else reading.ignored
        try:
            values = reading.values.cast(arrow_type(kind))
        except pa.ArrowException:
            # a type that Arrow does not convert by itself
            pairs = [(value,) for value in reading.values.to_pylist(maps_as_pydicts="strict")]
            values = array(arrow_rows(pairs, [(part, kind)]), part)
        return cls(values, reading.bad, ignored, reading.ts)

    def time(self, otherwise: Int64s) -> Int64s:
        """The times that the bytes tell, else these."""
        if self._ts is None:
            return otherwise
        times: Int64s = pc.coalesce(self._ts.cast(pa.int64()), pa.array(otherwise)).to_numpy(zero_copy_only=False)
        return times


_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class InputRecord:
    """A record that a query has read.

    Parameters
    ----------
    input : name of the input.
    topic : its topic; None: it is a DataFrame.
    partition, offset : its place in the topic; of a DataFrame the offset is the number of the row in its batch.
    batch : the batch that has read it.
    ts : its timestamp, in ms since 1970.
    key, value : as Spark has them; None for null.
    """

    input: str
    topic: str | None
    partition: int
    offset: int
    batch: int
    ts: int
    key: Any
    value: Any

    @property
    def place(self) -> str:
        """Where it lies, as text."""
        if self.topic is None:
            return f"{self.input}, batch {self.batch}, row {self.offset}"
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True)
class JournaledRecord:
    """A record of the journal, and the same as it is piped into a replay."""

    record: InputRecord
    piped: Piped


class RecordHistory(Protocol):
    """Records in order; the number of a record is its step."""

    def __len__(self) -> int: ...

    def ts(self) -> Int64s:
        """The timestamps; the lowest number for those that do not pass."""
        ...

    def frame(self, steps: Int64s) -> pa.Table:
        """Some of the records as a replay takes them, with their steps as offsets."""
        ...

    def records(self, steps: Sequence[int]) -> list[JournaledRecord]:
        """Some of the records."""
        ...


@dataclass(frozen=True)
class JournaledRows:
    """The records of a journal.

    Parameters
    ----------
    frames : the records of an input in a file, as a replay takes them but for their steps, and as the file has them.
    order : the number of the frame, and of the row in it, of each record in order.
    form : the columns of a replay.
    """

    frames: tuple[JournalFrame, ...]
    order: tuple[Int64s, Int64s]
    form: PipedFrame

    def __len__(self) -> int:
        return len(self.order[0])

    def ts(self) -> Int64s:
        """See `RecordHistory`."""
        starts = np.cumsum([0, *(len(frame.piped) for frame in self.frames)])[:-1]
        times = [np.where(ints(f.piped, "reason") == 0, ints(f.piped, "ts"), _NO_TIME) for f in self.frames]
        at: Int64s = starts[self.order[0]] + self.order[1] if len(self) else self.order[1]
        return np.concatenate(times)[at] if times else np.zeros(0, dtype=np.int64)

    def frame(self, steps: Int64s) -> pa.Table:
        """See `RecordHistory`."""
        parts, places = list[pa.Table](), list[Int64s]()
        for number in np.unique(self.order[0][steps]).tolist():
            subset = steps[self.order[0][steps] == number]
            parts.append(self.frames[number].piped.take(pa.array(self.order[1][subset])))
            places.append(subset)
        if not parts:
            return arrow_schema(self.form.schema).empty_table()
        at = np.concatenate(places)
        table = pa.concat_tables(parts).take(pa.array(np.argsort(at)))
        return numbered_steps(table, np.sort(at))

    def records(self, steps: Sequence[int]) -> list[JournaledRecord]:
        """See `RecordHistory`."""
        return [self._record(step) for step in steps]

    def _record(self, step: int) -> JournaledRecord:
        record = self.frames[int(self.order[0][step])].record(int(self.order[1][step]))
        return replace(record, piped=replace(record.piped, step=step))


@dataclass(frozen=True)
class JournalFrame:
    """The records of one input in one file of the journal.

    Parameters
    ----------
    inlet : the input.
    batch : the batch that has read them.
    snapshot : whether they are a table's snapshot.
    rows : as the file has them.
    piped : as a replay takes them, all with the step 0.
    """

    inlet: Inlet
    batch: int
    snapshot: bool
    rows: pa.Table
    piped: pa.Table

    @property
    def positions(self) -> tuple[Int64s, Int64s]:
        """Source and partition, and the offset, of each record, as its position has them."""
        partition = ints(self.rows, "partition")
        if self.inlet.source.origin.pattern is not None:
            number = pc.index_in(array(self.rows, TOPIC), pa.array(self.inlet.topics, pa.string()))
            partition = partition | np.vectorize(pattern_partition, otypes=[np.int64])(
                ints(pa.table([number], ["n"]), "n")
            )
        return self.inlet.number << PARTITION_BITS | partition, ints(self.rows, "offset")

    def record(self, row: int) -> JournaledRecord:
        """One of them."""
        rows = self.rows.slice(row, 1)
        partition, offset, ts = (int(ints(rows, name)[0]) for name in ("partition", "offset", "ts"))
        ((key, value),) = _pairs(rows, self.inlet)
        headers = headers_of(rows.column("headers")[0].as_py() if "headers" in rows.column_names else None)
        piped = self.inlet.record(key, value, ts, headers, 0)
        topic = self.inlet.source.origin.topic
        if self.inlet.source.origin.pattern is not None:
            topic = rows.column(TOPIC)[0].as_py()
            piped = self.inlet.of_topic(topic, piped)
        # what cannot be decoded is shown as it came
        pair = (key, value) if piped.reason else (piped.key, piped.value)
        at = (partition, offset, self.batch, piped.ts)
        return JournaledRecord(InputRecord(self.inlet.source.input, topic, *at, *pair), piped)


class BatchFrames(Protocol):
    """The records of a batch, as a journal has them."""

    @property
    def number(self) -> int:
        """The batch's."""
        ...

    def frames(self) -> Iterator[tuple[pa.Table, bool]]:
        """The rows of each task, and whether they are a table's snapshot."""
        ...


def in_sequence(batches: Iterable[BatchFrames], topology: Local, inlets: Sequence[Inlet]) -> JournaledRows:
    """All records of some batches, in order."""
    frames, order = list[JournalFrame](), list[tuple[Int64s, Int64s]]()
    for batch in batches:
        read = [
            frame
            for rows, snapshot in batch.frames()
            for frame in _frames(rows, (batch.number, snapshot), inlets, topology.form)
        ]
        numbers, rows = _in_order(read, topology)
        order.append((numbers + len(frames), rows))
        frames += read
    none = np.zeros(0, dtype=np.int64)
    joined = [np.concatenate([none, *parts]) for parts in (zip(*order, strict=True) if order else ((), ()))]
    return JournaledRows(tuple(frames), (joined[0], joined[1]), topology.form)


def numbered_steps(frame: pa.Table, steps: Int64s) -> pa.Table:
    """The frame of a replay with these steps."""
    for name in ("order_ts", "offset"):
        frame = frame.set_column(frame.schema.get_field_index(name), name, pa.array(steps))
    return frame


def _frames(
    rows: pa.Table, origin: tuple[int, bool], inlets: Sequence[Inlet], form: PipedFrame
) -> Iterator[JournalFrame]:
    root = ints(rows, "root")
    for inlet in inlets:
        subset = rows.filter(pa.array(root == inlet.number)).combine_chunks()
        if len(subset):
            yield JournalFrame(inlet, *origin, subset, piped_frame(subset, inlet, form))


def _pairs(rows: pa.Table, inlet: Inlet) -> list[tuple[Any, ...]]:
    """Keys and values: bytes as they came, else values."""
    if RAW["key"] in rows.column_names:
        return list(zip(*(rows.column(name).to_pylist() for name in RAW.values()), strict=True))
    shape = inlet.source.shape
    columns = [(f"s{inlet.number}_{part}", getattr(shape, part)) for part in ("key", "value")]
    return python_rows(rows, columns)


def _in_order(read: Sequence[JournalFrame], topology: Local) -> tuple[Int64s, Int64s]:
    """The records of a batch in the order of their positions (law 2): frames and rows."""
    if not read:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    lengths = [len(frame.rows) for frame in read]
    numbers = np.repeat(np.arange(len(read)), lengths)
    rows = np.concatenate([np.arange(length) for length in lengths])
    srcpart, offset = (np.concatenate([frame.positions[at] for frame in read]) for at in (0, 1))
    sources = srcpart >> PARTITION_BITS
    by_log = np.lexsort((offset, srcpart))
    moves = _moves(pa.concat_tables([frame.piped for frame in read]).take(pa.array(by_log)), topology)
    order_ts = np.empty(len(numbers), dtype=np.int64)
    order_ts[by_log] = Clock().stamp(srcpart[by_log], moves, moves > _NO_TIME)
    order_ts[np.repeat([frame.snapshot for frame in read], lengths)] = SNAPSHOT
    order_ts[np.isin(sources, topology.pack.stage.first)] = _NO_TIME
    places = np.lexsort((offset, srcpart, order_ts))
    return numbers[places], rows[places]


def _moves(frame: pa.Table, topology: Local) -> Int64s:
    """The time that each record moves its partition to; the lowest number where it moves none."""
    frame = numbered_steps(frame, np.arange(len(frame)))
    stamped = topology.pack._prepared(loosened(frame), Clock(), Counts())
    times = np.full(len(frame), _NO_TIME)
    times[ints(stamped, "offset")] = ints(stamped, "time")
    return times


def inlets_of(plan: Plan, topics: Mapping[str, Sequence[str]] | None = None) -> list[Inlet]:
    """The inputs of a topology.

    Parameters
    ----------
    topics : of inputs with a pattern their topics, in the order of the numbers that the checkpoint gives them.
    """
    by_source = topics or {}
    return [
        Inlet(number, source, topics=list(by_source.get(source.name, ())))
        for number, source in enumerate(plan.sources)
        if source.dead_letters_of is None
    ]


# The records of a journal, run once more through the topology in this process.
#
# Law 1: results do not depend on batches, so records run in the order in which the query has processed them, all at
# once or one after the other, with the same results.

TableRow = tuple[tuple[tuple[Any, ...], Any], ...]
"""What a table has of a key: the times of its windows or versions, and the value of each."""
_CASE_ROWS = 20_000
"""Records that run at a time, over all cases."""
_HASH_STEP = np.int64(-7046029254386353131)
"""Between the hashes of a key in one history and in the next: odd, so that they are far apart, and never the same."""


@dataclass(frozen=True)
class AskedRow:
    """A key of a table.

    Parameters
    ----------
    table : the table.
    order : the key as bytes.
    """

    table: StoredTable
    order: bytes

    @property
    def kind(self) -> pa.DataType:
        """Type of the table's keys."""
        return dict(self.table.schema.columns)["key"]

    def of(self, run: LocalRun, cases: int = 1) -> list[TableRow]:
        """The row as a run has left it in each of its cases."""
        by_case = run.entries(self.table, range(cases), self.order)
        return [tuple((entry.times, entry.value) for entry in entries) for entries in by_case]

    def is_of_one_key(self, physical: Physical) -> bool:
        """Whether its operator makes it of the rows of its key alone, without time, and keeps it for nobody else."""
        operator, schema = self.table.context.operator, self.table.schema
        says, stores = operator.declaration, [store for store in physical.stores if store.owner == operator.id]
        is_own = len(stores) == len(operator.tables) and not any(store.readers for store in stores)
        by_key = says.by_key and not (says.mixes_keys or any(table.everywhere for table in operator.tables))
        return by_key and not says.messages and is_own and operator.time is None and schema.identity == ("key",)


@dataclass(frozen=True)
class Outcome:
    """The end of a history: the row, and the drops of operators, by (operator, reason)."""

    row: TableRow
    drops: Counter[tuple[str, str]]


def outcomes_of(
    topology: Local, target: AskedRow, frame: pa.Table, cases: Sequence[Int64s], *, without_drops: bool = False
) -> Iterator[Outcome]:
    """The outcome of each of several histories.

    Parameters
    ----------
    frame : records as a replay takes them, in order.
    cases : of each history the numbers of its records.
    without_drops : whether no operator drops anything: the row's own operator may then run once for all histories.
    """
    for batch in _batch_cases(cases):
        merges = without_drops and target.is_of_one_key(topology.physical)
        run = MergedCasesRun(topology, target) if merges else CasesRun(topology, target)
        run.take_cases(frame, batch)
        yield from (Outcome(row, run.drops_by_case[case]) for case, row in enumerate(run.rows()))


def _batch_cases(cases: Sequence[Int64s]) -> Iterator[list[Int64s]]:
    batch: list[Int64s] = []
    for case in cases:
        if batch and sum(map(len, batch)) + len(case) > _CASE_ROWS:
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


@dataclass(frozen=True)
class Arrivals:
    """The rows that an operator has got: the steps of the records that caused them, and their keys as bytes.

    Parameters
    ----------
    steps : in the order of arrival.
    keys : of each.
    kinds : types of the keys.
    """

    steps: Int64s
    keys: pa.Array
    kinds: frozenset[pa.DataType]

    def of_keys(self, orders: Collection[bytes]) -> Int64s:
        """The steps of the records that have sent a row of one of these keys."""
        mask = pc.is_in(self.keys, value_set=pa.array(list(orders), self.keys.type)).to_numpy(zero_copy_only=False)
        return np.unique(self.steps[mask.astype(np.bool_)])

    def of_key(self, order: bytes) -> frozenset[int]:
        """The same of one key."""
        return frozenset(self.of_keys([order]).tolist())

    @cached_property
    def all(self) -> frozenset[int]:
        """The steps of all records that have sent a row."""
        return frozenset(self.steps.tolist())


class QuietRun(LocalRun):
    """A run of which the tables alone are looked at: results for outputs are left as they are."""

    def _collected(self, wire: list[WireRow]) -> Iterator[tuple[tuple[int, str], list[Collected]]]:
        yield from ()


class CasesRun(QuietRun):
    """A run of several histories at once, all of some records.

    Attributes
    ----------
    target : the row that is looked at.
    drops_by_case : drops of operators, by the number of the history.
    """

    def __init__(self, topology: Local, target: AskedRow) -> None:
        super().__init__(topology)
        self.target = target
        self.drops_by_case: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)

    def rows(self) -> list[TableRow]:
        """The asked row after each of the histories."""
        return self.target.of(self, len(self._ran))

    def take_cases(self, frame: pa.Table, cases: Sequence[Int64s]) -> None:
        """Run the histories; see `outcomes_of`."""
        lengths = [len(case) for case in cases]
        rows = frame.take(pa.array(np.concatenate(cases)))
        number = pa.array(np.repeat(np.arange(len(cases)), lengths))
        rows = rows.set_column(rows.schema.get_field_index("case"), "case", number)
        if len(rows):
            self._advance(partial(self._packed, rows), lengths)
        self._ran = lengths

    def _rows_of(self, level: LevelProcessor, label: int, blobs: Sequence[tuple[int, bytes]]) -> Iterator[WireRow]:
        labels, previous = self.topology.pack.common.labels, Counter(level.counts.drops)
        yield from super()._rows_of(level, label, blobs)
        self.drops_by_case[labels.place(label)[1] // labels.shards].update(level.counts.drops - previous)


class MergedCasesRun(CasesRun):
    """The same, where the asked row's operator goes by key alone: it runs once, over the rows of all histories.

    The hash tells the keys of a history from those of the others: rows are one group, and one row of a table, if hash
    and key are equal.
    """

    def __init__(self, topology: Local, target: AskedRow) -> None:
        super().__init__(topology, target)
        self._sides: dict[int, list[pa.Table]] = defaultdict(list)
        self._store = MemoryChunkStore()

    def take_cases(self, frame: pa.Table, cases: Sequence[Int64s]) -> None:
        """See `CasesRun.take_cases`."""
        super().take_cases(frame, cases)
        inputs = {side: stacked(parts) for side, parts in self._sides.items()}
        if inputs:
            self._advance(partial(self._merged, inputs), self._ran)

    def _merged(self, inputs: dict[int, pa.Table], drops: DeadLetterWriter) -> dict[tuple[int, str], list[Collected]]:
        deque(run_operator(self.target.table.context, inputs, State(self._store, None), drops), maxlen=0)
        return {}

    def rows(self) -> list[TableRow]:
        """See `CasesRun.rows`."""
        table, cases = self.target.table, np.arange(len(self._ran))
        keys = [array(rows, "key") for parts in self._sides.values() for rows in parts]
        arrived = (rows.filter(pc.equal(encode_keys(rows).cast(pa.binary()), self.target.order)) for rows in keys)
        key = next((rows for rows in arrived if len(rows)), None)
        if key is None:
            return [()] * len(cases)
        queries = key.take(pa.array(np.zeros_like(cases)))
        lookup = State(self._store, None).table(table.schema).point(_hash_of_case(hash_keys(queries), cases), queries)
        values = [value for _, value in table.pairs(lookup.rows)]
        return [() if at < 0 else (((), values[at]),) for at in lookup.index.tolist()]

    def _rows_of(self, level: LevelProcessor, label: int, blobs: Sequence[tuple[int, bytes]]) -> Iterator[WireRow]:
        labels, operator = self.topology.pack.common.labels, self.target.table.context.operator.id
        number, shard = labels.place(label)
        if number != operator:
            yield from super()._rows_of(level, label, blobs)
            return
        for side, rows in level._operators.inputs(number, iter(blobs))[number].items():
            hashes = _hash_of_case(ints(rows, "hash"), np.full(len(rows), shard // labels.shards))
            self._sides[side].append(rows.set_column(rows.schema.get_field_index("hash"), "hash", pa.array(hashes)))


def _hash_of_case(hashes: Int64s, cases: Int64s) -> Int64s:
    """Hashes of keys in histories: one key has another in each."""
    return np.asarray(hashes + cases * _HASH_STEP, dtype=np.int64)


class WatchedRun(QuietRun):
    """A run of one history that notes which rows each operator gets."""

    def __init__(self, topology: Local) -> None:
        super().__init__(topology)
        self._arrived: dict[int, list[Arrivals]] = defaultdict(list)
        self._edges = {edge.id for edge in topology.physical.edges}

    def take_directly(self, frame: pa.Table) -> None:
        """Note the rows that come to operators from the sources, and run no operator."""
        drops = DeadLetterWriter(self.topology.pack.common.dead_letters)
        wire = self.topology.pack.pack(frame, Clock(), drops, Counts())
        for label, blobs in by_label(list(wire)).items():
            self._note(label, blobs)

    def arrivals(self, operator: int) -> Arrivals:
        """The rows of an operator."""
        batches = self._arrived.get(operator)
        if not batches:
            return Arrivals(np.zeros(0, dtype=np.int64), pa.array([], pa.binary()), frozenset())
        keys = pa.chunked_array([batch.keys for batch in batches]).combine_chunks()
        kinds = frozenset().union(*(batch.kinds for batch in batches))
        return Arrivals(np.concatenate([batch.steps for batch in batches]), keys, kinds)

    def _rows_of(self, level: LevelProcessor, label: int, blobs: Sequence[tuple[int, bytes]]) -> Iterator[WireRow]:
        self._note(label, blobs)
        return super()._rows_of(level, label, blobs)

    def _note(self, label: int, blobs: Sequence[tuple[int, bytes]]) -> None:
        target = self.topology.pack.common.labels.place(label)[0]
        for port, content in blobs:
            if port in self._edges:
                rows = row_sizes.decode(content)
                column = array(rows, "key")
                keys = encode_keys(column).cast(pa.binary())
                self._arrived[target].append(Arrivals(ints(rows, "offset"), keys, frozenset({column.type})))


def keeps_key(physical: Physical, edge: Edge) -> bool:
    """Whether rows come to an operator with the key that the operator before, or none, has given them."""
    above = operator_above(physical, edge)
    return steps_keep_key(physical, edge) and (
        above is None or not (above.declaration.messages == "received" or above.declaration.fans_out)
    )


def steps_keep_key(physical: Physical, edge: Edge) -> bool:
    """Whether no step on the way of an edge gives rows another key."""
    flow = physical.flows[edge.flow]
    while flow.parent is not None:
        node = physical.plan.by_name[flow.node]
        if not node.keyed_by or node.fans_out:
            return False
        flow = physical.flows[flow.parent]
    return True


def edges_above(physical: Physical, operator: Operator) -> Iterator[tuple[Edge, Operator | None]]:
    """The ways into an operator, and the operators that they come from; None: a source."""
    for edge in physical.edges:
        if edge.target == operator.id:
            yield edge, operator_above(physical, edge)


def operator_above(physical: Physical, edge: Edge) -> Operator | None:
    """The operator that a way comes from; None: a source."""
    root = physical.flows[physical.flows[edge.flow].root]
    return None if root.operator is None else physical.operators[root.operator]


# Which records a row comes from: those without which it would be another one.
#
# Two steps. The plan says which records may reach the row at all, by their keys where an operator works key by key, and
# else all. Then each of these is left out once. The records that moved time, so that one of the row's was late or a
# window was closed, are among those that are tried.

MOST_TRIED = 256
"""Records that are left out one by one; of more, all that may reach the row are named."""


@dataclass(frozen=True)
class Cause:
    """A record, and what it has to do with a row.

    Parameters
    ----------
    record : the record.
    role : "made": without it the row would be another one. "time": so it would, as the record has moved time.
        "replaced": it came to the row, and has no part in it any more. "dropped": it ended before. "may": it may
        have a part in it; there are too many to leave out each.
    drops : where and why it ended, as (operator, reason).
    waited_for : the record that was waited for until this one had an effect; None: nothing was.
    """

    record: InputRecord
    role: str
    drops: tuple[tuple[str, str], ...] = ()
    waited_for: InputRecord | None = None


@dataclass(frozen=True)
class Explanation:
    """A row as the records of a journal leave it, and its causes.

    Parameters
    ----------
    row : as they leave it.
    causes : in the order in which the query has processed them.
    one_by_one : whether each record that may reach the row was left out once.
    tried : how many may.
    """

    row: TableRow
    causes: tuple[Cause, ...]
    one_by_one: bool
    tried: int


def causes_of(topology: Local, target: AskedRow, history: RecordHistory, steps: Int64s | None = None) -> Explanation:
    """The records that a row comes from.

    Parameters
    ----------
    history : all records of the journal.
    steps : those that can have a part in the row, but for time (`selection`); None: all.
    """
    movers = _Movers(history.ts(), is_timed(topology.physical, target.table.context.operator))
    replayed = np.arange(len(history)) if steps is None else np.union1d(steps, movers.before(steps))
    run = WatchedRun(topology)
    run.take(history.frame(replayed))
    (row,), operator = target.of(run), target.table.context.operator
    reaching = _Reaching(topology, run, target)
    came, related = reaching.by_its_key(operator), reaching.through(operator, by_key=True)
    related_steps = np.array(sorted(related), dtype=np.int64)
    tried = np.union1d(related_steps, movers.before(related_steps))
    frame = history.frame(tried)
    (all_tried,) = outcomes_of(topology, target, frame, [np.arange(len(tried))])
    # a history up to a record drops nothing that all of it does not drop
    without_drops = all_tried.row == row and not +all_tried.drops
    if all_tried.row != row:
        # something has come by another way than keys say
        tried, frame, related = replayed, history.frame(replayed), frozenset(replayed.tolist())
    records = history.records(tried.tolist())
    if len(records) > MOST_TRIED:
        return Explanation(
            row, tuple(Cause(entry.record, "may") for entry in records), one_by_one=False, tried=len(records)
        )
    without, first = _outcomes_by_record(topology, target, frame, without_drops=without_drops)
    needed = [outcome.row != row for outcome in without]
    effects = _step_by_step(topology, frame, first, records)
    causes = (
        _cause(entry, step, needs, entry.piped.step in related)
        for entry, needs, step in zip(records, needed, effects, strict=True)
        if needs or entry.piped.step in came
    )
    return Explanation(row, tuple(causes), one_by_one=True, tried=len(records))


def is_timed(physical: Physical, operator: Operator) -> bool:
    """Whether the operator, or one above, goes by time."""
    above = (upstream for _, upstream in edges_above(physical, operator) if upstream is not None)
    return operator.time is not None or any(is_timed(physical, upstream) for upstream in above)


@dataclass(frozen=True)
class _Movers:
    """The records that have moved time.

    Parameters
    ----------
    ts : of all records; the lowest number for those that do not pass.
    matters : whether anything goes by time.
    """

    ts: Int64s
    matters: bool

    @cached_property
    def _last(self) -> Int64s:
        """By step the last record up to it that has moved time; -1: none."""
        previous = np.concatenate([[_NO_TIME], np.maximum.accumulate(self.ts)[:-1]])
        steps: Int64s = np.maximum.accumulate(np.where(self.ts > previous, np.arange(len(self.ts)), -1))
        return steps

    def before(self, steps: Int64s) -> Int64s:
        """For each of these records the one that had moved time last when it came, and the last one of all."""
        if not self.matters or not len(self.ts):
            return np.zeros(0, dtype=np.int64)
        movers = np.append(self._last[steps[steps > 0] - 1], self._last[-1])
        return np.unique(movers[movers >= 0])


@dataclass(frozen=True)
class _Reaching:
    """The ways of records to a row, as a run has shown them."""

    topology: Local
    run: WatchedRun
    asked: AskedRow

    def by_its_key(self, operator: Operator) -> frozenset[int]:
        """The steps of the records with rows of the asked key here, or above if the key is the same there."""
        physical, arrived = self.topology.physical, self.run.arrivals(operator.id)
        if not arrived.kinds <= {self.asked.kind}:
            return frozenset()
        ways = [self.by_its_key(above) for edge, above in self._above(operator) if keeps_key(physical, edge)]
        return arrived.of_key(self.asked.order).union(*ways)

    def through(self, operator: Operator, *, by_key: bool) -> frozenset[int]:
        """The steps of the records that may decide over the row at this operator, and at those above.

        Parameters
        ----------
        by_key : whether only rows of the asked key do.
        """
        physical, arrived = self.topology.physical, self.run.arrivals(operator.id)
        everywhere = any(table.everywhere for table in operator.tables)
        by_key = by_key and not (operator.declaration.mixes_keys or everywhere) and arrived.kinds <= {self.asked.kind}
        steps = set(arrived.of_key(self.asked.order) if by_key else arrived.all)
        for edge, above in self._above(operator):
            steps |= self.through(above, by_key=by_key and keeps_key(physical, edge))
        return frozenset(steps)

    def _above(self, operator: Operator) -> Iterator[tuple[Edge, Operator]]:
        edges = edges_above(self.topology.physical, operator)
        return ((edge, above) for edge, above in edges if above is not None)


def _outcomes_by_record(
    topology: Local, target: AskedRow, frame: pa.Table, *, without_drops: bool
) -> tuple[list[Outcome], list[Outcome]]:
    """Of each record the outcome of the history without it, and of the history up to it."""
    steps = np.arange(len(frame))
    cases = [*(np.delete(steps, step) for step in steps), *(steps[:end] for end in steps + 1)]
    outcomes = list(outcomes_of(topology, target, frame, cases, without_drops=without_drops))
    return outcomes[: len(steps)], outcomes[len(steps) :]


@dataclass(frozen=True)
class _Step:
    """The effect of a record when it came.

    Parameters
    ----------
    changed : whether the row has changed.
    drops : where and why something ended.
    next : the next record with which the row has changed; None: there was none.
    """

    changed: bool
    drops: tuple[tuple[str, str], ...]
    next: InputRecord | None = None


def _step_by_step(
    topology: Local, frame: pa.Table, outcomes: Sequence[Outcome], records: Sequence[JournaledRecord]
) -> list[_Step]:
    """The effect of each record, by the outcomes of the history up to it."""
    previous, steps, order = Outcome((), Counter()), list[_Step](), dict[tuple[str, str], None]()
    for outcome, at_source in zip(outcomes, _drops_at_sources(topology, frame), strict=True):
        ended = at_source + (outcome.drops - previous.drops)
        order |= dict.fromkeys(ended)
        steps.append(_Step(outcome.row != previous.row, tuple(reason for reason in order if reason in ended)))
        previous = outcome
    later: InputRecord | None = None
    for at in reversed(range(len(steps))):
        steps[at] = replace(steps[at], next=later)
        later = records[at].record if steps[at].changed else later
    return steps


def _drops_at_sources(topology: Local, frame: pa.Table) -> list[Counter[tuple[str, str]]]:
    """The drops of each record before the first operator, by (node, reason)."""
    none = [Counter[tuple[str, str]]() for _ in range(len(frame))]
    if not _dropped_at_sources(topology, frame):
        return none
    return [_dropped_at_sources(topology, frame.slice(step, 1)) for step in range(len(frame))]


def _dropped_at_sources(topology: Local, frame: pa.Table) -> Counter[tuple[str, str]]:
    drops = DeadLetterWriter(topology.pack.common.dead_letters)
    deque(topology.pack.pack(frame, Clock(), drops, Counts()), maxlen=0)
    return Counter(drops)


def _cause(entry: JournaledRecord, step: _Step, needed: bool, related: bool) -> Cause:
    if not needed:
        return Cause(entry.record, "dropped" if step.drops else "replaced", step.drops)
    if not related:
        return Cause(entry.record, "time")
    return Cause(entry.record, "made", step.drops, None if step.changed else step.next)


# The answer of `Topology.why`: a row, the records that it comes from, and what the journal does not know.

_SHOWN = 120
_ROLES = {
    "made": "made it",
    "time": "moved time for it",
    "replaced": "has no part in it any more",
    "dropped": "was dropped",
    "may": "may have a part in it",
}


@refusing("[...]", "loop", "len")
@answering_as(None)
@dataclass(frozen=True)
class Why:
    """The row of a key in a table, and the input records that it comes from; `print` shows it as a tree.

    Parameters
    ----------
    table : name of the table.
    key : the key.
    batch : the batch that has left the row so.
    rows : what the table has of the key: value and timestamp, and the window where it has windows. Empty: nothing.
    causes : the records, in the order in which the query has processed them.
    since_batch : the first batch of the journal.
    since_ms : when that batch was written, in ms since 1970.
    notes : what the journal does not know about the row; empty where it knows all.
    schema : the columns of the table.
    """

    table: str
    key: Any
    batch: int
    rows: tuple[Mapping[str, Any], ...]
    causes: tuple[Cause, ...]
    since_batch: int
    since_ms: int
    notes: tuple[str, ...]
    schema: StructType
    _plan: Plan
    _node: str

    @property
    def records(self) -> tuple[InputRecord, ...]:
        """The records without which the row would be another one."""
        return tuple(cause.record for cause in self.causes if cause.role in ("made", "time", "may"))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.table} {_short(self._key)}, batch {self.batch}"
        for row in self._rows or ("nothing",):
            yield f"  = {_short(row)}"
        yield from _drawn([self._branch(self._node)], "")
        yield from (f"Note: {note}" for note in self.notes)

    def as_json(self) -> str:
        """The answer as JSON; rows, keys and values are written as topics and served tables have them."""
        members = {
            "table": json.dumps(self.table),
            "key": self._key,
            "batch": str(self.batch),
            "rows": f"[{', '.join(self._rows)}]",
            "causes": f"[{', '.join(map(self._cause, self.causes))}]",
            "journal_since": json.dumps({"batch": self.since_batch, "ms": self.since_ms}),
            "notes": json.dumps(self.notes),
        }
        return _object(members)

    def as_dict(self) -> dict[str, Any]:
        """The same as values of Python."""
        document: dict[str, Any] = json.loads(self.as_json())
        return document

    @cached_property
    def _key(self) -> str:
        (text,) = json_texts(self.schema["key"].dataType, [self.key])
        return text

    @cached_property
    def _rows(self) -> tuple[str, ...]:
        fields = [field for field in self.schema.fields if field.name != "key"]
        values = [tuple(row.get(field.name) for field in fields) for row in self.rows]
        return tuple(json_texts(StructType(fields), values))

    @cached_property
    def _pairs(self) -> Mapping[str, tuple[str, str]]:
        """The JSON of the key and the value of each record, by its place."""
        records = [record for cause in self.causes for record in (cause.record, cause.waited_for) if record is not None]
        pairs: dict[str, tuple[str, str]] = {}
        for source in self._plan.sources:
            source_records = [record for record in records if record.input == source.input]
            keys = json_texts(source.shape.key, [record.key for record in source_records])
            values = json_texts(source.shape.value, [record.value for record in source_records])
            pairs |= {record.place: pair for record, *pair in zip(source_records, keys, values, strict=True)}  # type: ignore[misc]
        return pairs

    def _cause(self, cause: Cause) -> str:
        waited = "null" if cause.waited_for is None else self._record(cause.waited_for, {})
        drops = [{"operator": operator, "reason": reason} for operator, reason in cause.drops]
        members = {"role": json.dumps(cause.role), "drops": json.dumps(drops), "waited_for": waited}
        return self._record(cause.record, members)

    def _record(self, record: InputRecord, members: Mapping[str, str]) -> str:
        plain = {name: json.dumps(item) for name, item in vars(record).items() if name not in ("key", "value")}
        key, value = self._pairs[record.place]
        return _object({**plain, "place": json.dumps(record.place), "key": key, "value": value, **members})

    def _pair(self, record: InputRecord) -> str:
        return ": ".join(map(_short, self._pairs[record.place]))

    def to_mermaid(self) -> str:
        """The answer as a Mermaid flowchart: records, the operators behind them, and the row."""
        return mermaid(self._picture())

    def to_svg(self) -> str:
        """The answer as a picture: the text of an SVG file."""
        return svg(self._picture())

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self.to_svg()}</div>'

    def _picture(self) -> Picture:
        labels = [f"{self._pair(c.record)}; {_role(c)}"[:_SHOWN] for c in self.causes]
        records = zip(self.causes, labels, strict=True)
        boxes = [Box(cause.record.place, "input", about, "") for cause, about in records]
        arrows, number = list[Arrow](), dict[str, int]()
        for node in self._nodes():
            number[node.name] = len(boxes)
            sources = [
                at for at, cause in enumerate(self.causes) if not node.inputs and cause.record.input == _input(node)
            ]
            tails = [*(number[name] for name in node.inputs if name in number), *sources]
            arrows += [Arrow(tail, len(boxes)) for tail in tails]
            boxes.append(Box(node.name, "operator" if node.inputs else "step", node.stem.replace("_", " "), ""))
        about = "; ".join(map(_short, self._rows)) or "nothing"
        title = f"{self.table} {_short(self._key)}"
        arrows.append(Arrow(number[self._node], len(boxes)))
        boxes.append(Box(title, "output", about[:_SHOWN], ""))
        return Picture(f"Why {title}", tuple(boxes), tuple(arrows), (None,) * len(boxes))

    def _nodes(self) -> list[Node]:
        """The nodes that lead to the table, without inputs of which no record is shown."""
        inputs, names = {cause.record.input for cause in self.causes}, {self._node}
        for node in reversed(self._plan.nodes):
            if node.name in names:
                names.update(node.inputs)
        nodes = [node for node in self._plan.nodes if node.name in names]
        return [node for node in nodes if node.inputs or node.name == self._node or _input(node) in inputs]

    def _branch(self, name: str) -> _Branch:
        """A node, and below it the nodes that it reads, down to the records; ways without records are left out."""
        plan, node = self._plan, self._plan.by_name[name]
        if not node.inputs:
            causes = (cause for cause in self.causes if cause.record.input == _input(node))
            return _Branch(name, tuple(_Branch(self._line(cause)) for cause in causes))
        inputs = {cause.record.input for cause in self.causes}
        # the old and the new half of a change come by the same way
        ways = {(plan.by_name[parent].stem, plan.ancestors[parent]): parent for parent in node.inputs}
        below = [
            parent for parent in ways.values() if inputs & {_input(plan.by_name[at]) for at in plan.ancestors[parent]}
        ]
        return _Branch(f"{name} ({node.stem.replace('_', ' ')})", tuple(map(self._branch, below)))

    def _line(self, cause: Cause) -> str:
        record = cause.record
        return f"{record.place}  {_moment(record.ts)}  {self._pair(record)}  {_role(cause)}"


@dataclass(frozen=True)
class _Branch:
    """A line of the tree, and those below it."""

    text: str
    below: tuple[_Branch, ...] = ()


def _drawn(branches: Sequence[_Branch], indent: str) -> Iterator[str]:
    for number, branch in enumerate(branches, 1):
        is_last = number == len(branches)
        yield f"{indent}{'└─' if is_last else '├─'} {branch.text}"
        yield from _drawn(branch.below, indent + ("   " if is_last else "│  "))


def _input(node: Any) -> str:
    return str(getattr(node, "input", node.name))


def _role(cause: Cause) -> str:
    text = _ROLES[cause.role]
    for operator, reason in cause.drops:
        text += f", {reason} at {operator}"
    return text if cause.waited_for is None else f"{text}, waited for {cause.waited_for.place}"


def _moment(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def json_texts(kind: DataType, values: Sequence[Any]) -> list[str]:
    """The JSON of values of a type, as topics have it; bytes that could not be read as the type are written as bytes.

    >>> from pyspark.sql.types import LongType
    >>> json_texts(LongType(), [7, None, b"no number"])
    ['7', 'null', '"bm8gbnVtYmVy"']
    """
    is_raw = [isinstance(value, bytes | bytearray) and not isinstance(kind, BinaryType) for value in values]
    texts = ["null"] * len(values)
    for of, raw in ((kind, False), (BinaryType(), True)):
        at = [n for n, value in enumerate(values) if is_raw[n] == raw and value is not None]
        if at:
            column = array(arrow_rows([(values[n],) for n in at], [("value", of)]), "value")
            for n, text in zip(at, encoded(column, of).to_pylist(), strict=True):
                texts[n] = text.decode()
    return texts


def _object(members: Mapping[str, str]) -> str:
    """An object, of the JSON of its values."""
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# The records of a journal that can have a part in a row, by their keys: a replay needs no others.
#
# All records pass the stateless steps, a column at a time, which says under which key each comes to an operator. From
# the table's operator upwards those of the row's key matter. Behind a join by a foreign key these are records of the
# keys that the row's records refer to: a replay of what was found so far says which, until nothing is added.

MOST_SELECTED = 20_000
"""Records; where more are found, the whole journal is replayed."""


def selected(topology: Local, target: AskedRow, history: RecordHistory) -> Int64s | None:
    """The steps of the records that can have a part in a row, in order; None: all may.

    Time is left out: who has moved it when one of these came may have a part in the row, too.
    """
    ways = _operators_above(topology.physical, target)
    if ways is None:
        return None
    first = WatchedRun(topology)
    first.take_directly(history.frame(np.arange(len(history))))
    arrived = {
        number: first.arrivals(number) for number in (*ways.by_key, *(n for group in ways.referred for n in group))
    }
    if any(not arrived[number].kinds <= {target.kind} for number in ways.by_key):
        return None
    selection = _joined(arrived[number].of_keys([target.order]) for number in ways.by_key)
    while len(selection) <= MOST_SELECTED:
        run = WatchedRun(topology)
        run.take(history.frame(selection))
        parts = [selection]
        for referred, *above in ways.referred:
            keys = set(run.arrivals(referred).keys.to_pylist()) - {None}
            parts += [arrived[number].of_keys(keys) for number in (referred, *above)]
        steps = _joined(parts)
        if len(steps) == len(selection):
            return selection
        selection = steps
    return None


def _joined(parts: Iterable[Int64s]) -> Int64s:
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))


@dataclass
class _OperatorsAbove:
    """The operators above a row, by their numbers.

    Attributes
    ----------
    by_key : those of which the rows of the asked key matter.
    referred : of each join by a foreign key the operator of the keys that are referred to, and those above it that have
        rows of the same keys.
    """

    by_key: list[int] = field(default_factory=list)
    referred: list[list[int]] = field(default_factory=list)


def _operators_above(physical: Physical, target: AskedRow) -> _OperatorsAbove | None:
    """The ways to a row; None where keys do not say what matters."""
    ways = _OperatorsAbove()
    return ways if _goes_up(physical, target.table.context.operator, ways.by_key, ways) else None


def _goes_up(physical: Physical, operator: Operator, group: list[int], ways: _OperatorsAbove) -> bool:
    """Note an operator and those above it in a group with the same keys; False where keys do not say what matters."""
    if operator.id in group:
        return True
    if operator.declaration.mixes_keys or any(table.everywhere for table in operator.tables):
        return False
    group.append(operator.id)
    if operator.declaration.messages == "received":
        # the asked table may be one of the operator's own: then the group is that of the keys that are referred to
        return _refers(physical, operator, group, ways)
    return all(_follows(physical, edge, above, group, ways) for edge, above in edges_above(physical, operator))


def _follows(physical: Physical, edge: Edge, above: Operator | None, group: list[int], ways: _OperatorsAbove) -> bool:
    if above is None or keeps_key(physical, edge):
        return above is None or _goes_up(physical, above, group, ways)
    if above.declaration.messages != "received" or not steps_keep_key(physical, edge):
        return False
    referred: list[int] = []
    ways.referred.append(referred)
    upstream = (operator for _, operator in edges_above(physical, above) if operator is not None)
    sends = [operator for operator in upstream if operator.declaration.messages == "sent"]
    # its results have the keys of the rows that refer
    return all(_goes_up(physical, send, group, ways) for send in sends) and _goes_up(physical, above, referred, ways)


def _refers(physical: Physical, operator: Operator, group: list[int], ways: _OperatorsAbove) -> bool:
    """The operators above the rows that are referred to; those of the rows that refer are noted by their results."""
    is_asked = group is ways.by_key
    edges = edges_above(physical, operator)
    edges = ((edge, above) for edge, above in edges if above is None or above.declaration.messages != "sent")
    return not is_asked and all(_follows(physical, edge, above, group, ways) for edge, above in edges)


# Why a row is as it is: the question, checked, and answered from a checkpoint and its journal.

_HINT = "Ask the topology that the query was started with."


def why(spark: SparkSession, checkpoint: str, physical: Physical, table: str, key: Any) -> Why:
    """The input records that a table's row comes from; see `Topology.why`.

    Raises
    ------
    ConfigError : there is no journal, no such table, the key is of another type, or the topology is another one.
    """
    check_session(spark, "topology.why(spark, checkpoint=...)")
    start = started_in(Folder(spark, checkpoint))
    written = rewrite(without_dead_letters(physical.plan))
    if not start.facts.topology.startswith(explain(written)):
        raise ConfigError("The checkpoint belongs to another topology.", given=checkpoint, hint=_HINT)
    journal = Journal.of(start.spark_folder)
    # Spark reads the row of the same batch, while the query runs, beside the replay
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_stored_row, spark, checkpoint, table, journal.committed, key)
        try:
            store, row, history, ready = _asked(spark, start, journal, physical, table, key)
            steps = selected(ready, row, history)
            explanation = causes_of(ready, row, history, steps)
        finally:
            # an unknown table and a key of another type are told by Spark's reader, before what the replay says
            schema, rows = reading.result()
    if steps is not None and not _is_same(explanation, rows):
        explanation = causes_of(ready, row, history)
    first = journal.batches[0]
    notes = tuple(_notes(journal, explanation, rows))
    answer = (table, key, journal.committed, rows, explanation.causes, first.number, first.ended_ms, notes)
    return Why(*answer, schema, physical.plan, store.context.operator.node)


def _stored_row(
    spark: SparkSession, checkpoint: str, table: str, batch: int, key: Any
) -> tuple[StructType, tuple[dict[str, Any], ...]]:
    """The table's columns, and its rows of a key, less the key."""
    frame = read_state(spark, checkpoint, table, batch=batch, keys=[key])
    rows = (row.asDict() for row in frame.collect())
    return frame.schema, tuple({name: value for name, value in row.items() if name != "key"} for row in rows)


def _asked(
    spark: SparkSession, start: Checkpoint, journal: Journal, physical: Physical, table: str, key: Any
) -> tuple[StoredTable, AskedRow, JournaledRows, Local]:
    """The table, its row that is asked for, the records of the journal, and what they run through.

    Raises
    ------
    ConfigError : the topology cannot be replayed, or the table not be explained.
    """
    ready = replayable(spark, physical)
    if table not in ready.stores:
        raise ConfigError(
            f"The table {table!r} cannot be explained: it is no table by key or window.",
            hint=f"Tables: {', '.join(sorted(ready.stores)) or 'none'}.",
        )
    store = ready.stores[table]
    history = in_sequence(journal.batches, ready, inlets_of(physical.plan, topics_of(start, physical.plan)))
    return store, AskedRow(store, store.order_of(key)), history, ready


def topics_of(start: Checkpoint, plan: Plan) -> Mapping[str, Sequence[str]]:
    """The topics of each input with a pattern, in the order of the numbers that the checkpoint gives them."""
    return KnownTopics.read(start).topics if plan.patterns else {}


def replayable(spark: SparkSession, physical: Physical, cure: str = "Leave explain= out") -> Local:
    """The topology, ready for a replay.

    Parameters
    ----------
    cure : what a hint says first.

    Raises
    ------
    ConfigError : it cannot be replayed in this process.
    """
    check_session(spark, "topology.start(spark, checkpoint=...)")
    if physical.by_wall:
        raise ConfigError(
            "A topology with timers of the wall clock cannot be explained: a replay has another clock.",
            hint=f"{cure}, or use timers by event time.",
        )
    # each operator gets all its rows, as what is asked goes by the operators above a table
    places = {(o.node, table.name): o.id for o in physical.operators for table in o.tables}
    split_plan = with_stores(physical.with_one_domain(), places)
    ready = local(spark, split_plan, shards=1, headers=physical.plan.headers)
    if isinstance(ready, NotInProcess):
        raise ConfigError(
            f"The topology cannot be explained: it does not run in this process, since {ready.why}.",
            hint=f"{cure}. docs/functions.md says which functions run without Spark.",
        )
    return ready


def _notes(journal: Journal, explanation: Explanation, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The gaps of the journal that matter for the row, as text."""
    first, last = journal.batches[0].number, journal.batches[-1].number
    is_same = _is_same(explanation, rows)
    outcome = f"{'; '.join(repr(value) for _, value in explanation.row) or 'nothing':.200}"
    if last < journal.committed:
        yield f"The journal ends with batch {last}; the row is of batch {journal.committed}."
    if first > 0 and not explanation.tried:
        yield f"No record of the journal came to the row: it stood so before the journal began, with batch {first}."
    elif first > 0 and not is_same:
        yield (
            f"The row stood so before the journal began, with batch {first}, or earlier records have a part in it: "
            f"those of the journal alone make {outcome}."
        )
    elif first > 0:
        yield f"The journal begins with batch {first}: earlier records are not named."
    elif journal.is_complete and not is_same:
        yield (
            f"The replay makes another row: {outcome}. It has one time for all partitions of the inputs, "
            f"or its functions "
            "have changed."
        )
    if not explanation.one_by_one:
        yield (
            f"More than {MOST_TRIED} records may have a part in the row: all are named, and none was left out to see "
            "whether it has."
        )


def _is_same(explanation: Explanation, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a replay makes the rows that the table has."""
    return _values(rows) == sorted(repr(value) for _, value in explanation.row)


def _values(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(row["value"]) for row in rows)
