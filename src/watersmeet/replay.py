"""Replays of records through a topology that has not started: comparisons of rows, and the way of a record.

The records run through the topology in this process, as `provenance` reads them. Nothing is written, and the query may
run meanwhile.
"""

from __future__ import annotations

import base64
import html
import re
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from watersmeet._engine import row_sizes
from watersmeet._engine.rows import Int64s, ints, position_columns
from watersmeet._plan.logical import Plan, without_dead_letters
from watersmeet._plan.nodes import SinkNode, SourceNode
from watersmeet._plan.physical import Physical
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import Checkpoint, started_in
from watersmeet._spark.checkpoint.spark_logs import last_committed_batch
from watersmeet._spark.journal import Journal, JournalBatch, journaled_name
from watersmeet._spark.local import Collected, Header, Local, LocalRun, StoredTable
from watersmeet._spark.session import check_session
from watersmeet._spark.stores.comparison import LISTED_ROWS, Comparison, RowDifference, plain, text_of
from watersmeet._spark.stores.read import read_state
from watersmeet.errors import ConfigError
from watersmeet.hints import answering_as, refusing
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import ForeachBatch
from watersmeet.provenance import (
    InputRecord,
    JournaledRecord,
    JournaledRows,
    WatchedRun,
    in_sequence,
    inlets_of,
    replayable,
    topics_of,
)

# Rows of two topologies, compared.

_RUN_RECORDS = 50_000
"""Records that run at a time: what they give is put together before the next run."""


@dataclass(frozen=True)
class _TableRow:
    """A row of either side."""

    key: Any
    times: tuple[int, ...]
    value: Any


_Rows = Mapping[Hashable, _TableRow]


def compare(name: str, old_rows: _Rows, new_rows: _Rows, limit: int) -> Comparison:
    """The difference of two sets of rows by their identities.

    Parameters
    ----------
    limit : number of rows that are listed.
    """
    counts, rows = Counter[str](), list[RowDifference]()
    for identity in chain(new_rows, (identity for identity in old_rows if identity not in new_rows)):
        old, new = old_rows.get(identity), new_rows.get(identity)
        if old is not None and new is not None and repr(old.value) == repr(new.value):
            counts["equal"] += 1
            continue
        kind = "added" if old is None else "removed" if new is None else "changed"
        counts[kind] += 1
        if len(rows) < limit:
            row = new or old
            assert row is not None
            values = (None if old is None else old.value, None if new is None else new.value)
            rows.append(RowDifference(row.key, row.times, *values, kind))
    return Comparison(name, counts["equal"], counts["added"], counts["changed"], counts["removed"], tuple(rows))


# Records of a journal as those of a topology that numbers its inputs otherwise.


@dataclass(frozen=True)
class _RenumberedBatch:
    """A batch of a journal with the numbers that another topology gives its inputs."""

    batch: JournalBatch
    names: tuple[str, ...]

    @property
    def number(self) -> int:
        return self.batch.number

    def frames(self) -> Iterator[tuple[pa.Table, bool]]:
        """See `JournalBatch.frames`; rows of inputs that this topology does not read are left out."""
        sources = self.batch.sources()
        numbers = np.array([self.names.index(name) if name in self.names else -1 for name in sources], dtype=np.int64)
        columns = {
            f"s{old}_{part}": f"s{new}_{part}" if new >= 0 else f"unread{old}_{part}"
            for old, new in enumerate(numbers)
            for part in ("key", "value")
        }
        for rows, snapshot in self.batch.frames():
            roots = numbers[ints(rows, "root")]
            rows = rows.set_column(rows.schema.get_field_index("root"), "root", pa.array(roots))
            rows = rows.filter(pa.array(roots >= 0))
            yield rows.rename_columns([columns.get(name, name) for name in rows.column_names]), snapshot


def journaled_rows(journal: Journal, ready: Local, topics: Mapping[str, Sequence[str]]) -> JournaledRows:
    """All records of a journal in order, as those of a topology that may number its inputs in another way."""
    plan = ready.physical.plan
    names = tuple(map(journaled_name, plan.sources))
    batches = (_RenumberedBatch(batch, names) for batch in journal.batches)
    return in_sequence(batches, ready, inlets_of(plan, topics))


# The rows that a topology comes to.


@dataclass
class _Contents:
    """The rows of outputs and stores after a run of all records."""

    outputs: dict[str, dict[Hashable, _TableRow]]
    stores: dict[str, dict[Hashable, _TableRow]]


def _contents(ready: Local, history: JournaledRows) -> _Contents:
    run, plan = LocalRun(ready), without_dead_letters(ready.physical.plan)
    sinks = {sink.name: sink for sink in plan.sinks}
    outputs: dict[str, dict[Hashable, _TableRow]] = {sink.output: {} for sink in plan.sinks}
    counts = {sink.output: Counter[Hashable]() for sink in plan.sinks}
    for first in range(0, len(history), _RUN_RECORDS):
        results = run.take(history.frame(np.arange(first, min(first + _RUN_RECORDS, len(history)))))
        for (_, name), records in results.items():
            if name in sinks:
                output = sinks[name].output
                _put(outputs[output], records, None if _is_changelog(plan, sinks[name]) else counts[output])
        results.clear()
    stores = {name: _stored_rows(run, store) for name, store in ready.stores.items()}
    return _Contents(outputs, stores)


def _is_changelog(plan: Plan, sink: SinkNode) -> bool:
    """Whether an output's records are the rows of a table, each under its key."""
    node = plan.by_name[sink.inputs[0]]
    while node.stem == "to_stream" and node.keyed_by:
        node = plan.by_name[node.inputs[0]]
    return bool(node.shape.kind == "table")


def _put(rows: dict[Hashable, _TableRow], records: Iterable[Collected], counts: Counter[Hashable] | None) -> None:
    """Put the results of an output into its rows: of a changelog the last of each key, of a stream each.

    Parameters
    ----------
    counts : equal records of the stream so far; None: a changelog.
    """
    for record in records:
        if counts is not None:
            identity = (repr(record.key), record.ts, repr(record.value))
            counts[identity] += 1
            rows[(*identity, counts[identity])] = _TableRow(record.key, (record.ts,), record.value)
        elif record.value is None:
            rows.pop(repr(record.key), None)
        else:
            rows[repr(record.key)] = _TableRow(record.key, (), record.value)


def _stored_rows(run: LocalRun, store: StoredTable) -> dict[Hashable, _TableRow]:
    (entries,) = run.entries(store, [0])
    return {(repr(e.key), e.times): _TableRow(e.key, e.times, e.value) for e in entries if e.value is not None}


def _checkpoint_rows(spark: SparkSession, checkpoint: str, store: StoredTable, batch: int) -> dict[Hashable, _TableRow]:
    frame = read_state(spark, checkpoint, store.name, batch=batch)
    columns = {"start": "window.start", "end": "window.end", "ts": "timestamp"}
    times = [F.unix_millis(columns[name]).alias(f"t{n}") for n, name in enumerate(store.times) if name in columns]
    rows = frame.select("key", "value", *times).where("value IS NOT NULL").collect()
    table_rows = (_TableRow(row["key"], tuple(row[2:]), row["value"]) for row in rows)
    return {(repr(row.key), row.times): row for row in table_rows}


# The answer of `Topology.replay`.


@refusing("[...]", "loop", "len")
@answering_as(None)
@dataclass(frozen=True)
class Replay:
    """The rows of a replay beside those of the topology so far; `print` shows it.

    Parameters
    ----------
    records : number of input records that were replayed.
    batches : the first and the last batch of the journal; of the inputs, where there is none, from 0 on.
    comparisons : one for each output and each store that can be compared.
    notes : what could not be compared, and why; empty where everything was.
    """

    records: int
    batches: tuple[int, int]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether no row that was compared differs."""
        return all(comparison.is_empty for comparison in self.comparisons)

    def __str__(self) -> str:
        first = f"Replayed {self.records} records of the batches {self.batches[0]} to {self.batches[1]}."
        return "\n".join([first, *map(str, self.comparisons), *(f"Note: {note}" for note in self.notes)])

    def as_dict(self) -> dict[str, Any]:
        """Its content as dicts, lists and values that JSON has."""
        return {
            "records": self.records,
            "batches": list(self.batches),
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "notes": list(self.notes),
        }


def replay(
    spark: SparkSession,
    checkpoint: str | None,
    physical: Physical,
    previous: Physical | None,
    limit: int = LISTED_ROWS,
    kafka: Kafka | None = None,
) -> Replay:
    """The replay of a checkpoint's journal, or of the inputs; see `Topology.replay`.

    Raises
    ------
    ConfigError : there is no journal, there are no records, an option is missing or has no effect, or a topology cannot
        be replayed in this process.
    """
    if checkpoint is None:
        return _replay_of_inputs(spark, physical, previous, limit, kafka)
    if kafka is not None:
        raise ConfigError(
            f"kafka={kafka!r:.120} has no effect: the journal of checkpoint={checkpoint!r:.120} is replayed.",
            hint="Leave kafka= out; or leave checkpoint= out, to replay what the topics have now.",
        )
    check_session(spark, "topology.replay(spark, checkpoint=...)")
    start = started_in(Folder(spark, checkpoint))
    journal = Journal.of(start.spark_folder)
    topics = topics_of(start, physical.plan)
    ready = replayable(spark, physical, _CURE)
    history = journaled_rows(journal, ready, topics)
    contents, last = _contents(ready, history), journal.batches[-1].number
    notes, comparisons = list(_input_notes(journal, physical.plan)), list[Comparison]()
    if previous is not None:
        ready_previous = replayable(spark, previous, _CURE)
        old = _contents(ready_previous, journaled_rows(journal, ready_previous, topics))
        for kind, olds, news in (("output", old.outputs, contents.outputs), ("store", old.stores, contents.stores)):
            comparisons += [compare(f"{kind} {name}", olds[name], news[name], limit) for name in news if name in olds]
            notes += [f"The {kind} {name} is new: nothing to compare it with." for name in news if name not in olds]
    else:
        notes += _gaps(journal)
        stores = {name: (ready.stores[name], rows) for name, rows in contents.stores.items()}
        comparisons, reasons = _with_checkpoint(spark, checkpoint, start, stores, last, limit)
        names = ", ".join(contents.outputs)
        notes += [*reasons, f"Outputs are not compared without the previous topology ({names}): give previous=."]
    return Replay(len(history), (journal.batches[0].number, last), tuple(comparisons), tuple(notes))


def _with_checkpoint(
    spark: SparkSession,
    checkpoint: str,
    start: Checkpoint,
    stores: Mapping[str, tuple[StoredTable, _Rows]],
    batch: int,
    limit: int,
) -> tuple[list[Comparison], list[str]]:
    """Stores beside those of a checkpoint after a batch, and why some are not compared."""
    comparisons, reasons = list[Comparison](), list[str]()
    for name, (store, rows) in stores.items():
        reason = _incomparable(start, store)
        if reason:
            reasons.append(f"The store {name} is not compared: {reason}.")
        else:
            old_rows = _checkpoint_rows(spark, checkpoint, store, batch)
            comparisons.append(compare(f"store {name}", old_rows, rows, limit))
    return comparisons, reasons


def _replay_of_inputs(
    spark: SparkSession, physical: Physical, previous: Physical | None, limit: int, kafka: Kafka | None
) -> Replay:
    if previous is None:
        raise ConfigError(
            "checkpoint= and previous= are left out: there is nothing to compare with.",
            hint="topology.replay(spark, previous=the_topology_so_far, kafka=wm.Kafka('host:9092')).",
        )
    for topology in (physical, previous):  # before anything is read
        replayable(spark, topology, _CURE)
    with _journal_of_inputs(spark, previous, kafka) as checkpoint:
        if last_committed_batch(Folder(spark, checkpoint)) < 0:
            names = ", ".join(journaled_name(source) for source in without_dead_letters(previous.plan).sources)
            raise ConfigError(
                f"The inputs have no records to replay: {names:.200}.",
                hint='starting_offsets="earliest" of a topic begins with the first record that it has.',
            )
        return replay(spark, checkpoint, physical, previous, limit)


@contextmanager
def _journal_of_inputs(spark: SparkSession, previous: Physical, kafka: Kafka | None) -> Iterator[str]:
    """A checkpoint with the journal of all that a topology's inputs have now; it is removed at the end.

    The topology runs as a query with outputs that write nothing, so that it reads what the real one reads.
    """
    from watersmeet._spark.query.start import StartOptions, start

    plan = previous.plan
    silent = rewrite(plan.with_nodes(replace(sink, target=ForeachBatch(_write_nothing)) for sink in plan.sinks))
    with tempfile.TemporaryDirectory(prefix="watersmeet-replay-") as folder:
        options = StartOptions(kafka=kafka, available_now=True, explain=True)
        start(silent, spark, folder, options).awaitTermination()
        yield folder


def _write_nothing(frame: Any, batch: int) -> None:
    """An output of a replay."""


_CURE = "Start the changed topology upon a copy of the checkpoint"


def _input_notes(journal: Journal, plan: Plan) -> Iterator[str]:
    """Inputs that only one side reads."""
    journaled, names = journal.batches[-1].sources(), tuple(map(journaled_name, plan.sources))
    for name in names:
        if name not in journaled:
            yield f"The journal has no records of the input {name}: it is new."
    for name in journaled:
        if name not in names:
            yield f"The records of the input {name} are left out: the topology does not read it."


def _gaps(journal: Journal) -> Iterator[str]:
    first, last = journal.batches[0].number, journal.batches[-1].number
    if first > 0:
        yield f"The journal begins with batch {first}: rows of earlier records are missing from the replay."
    if last < journal.committed:
        yield f"The journal ends with batch {last}; the checkpoint has come to batch {journal.committed}."


def _incomparable(start: Checkpoint, store: StoredTable) -> str:
    """Why a store of the checkpoint cannot be compared; empty: it can."""
    recorded = start.facts.stores.get(store.name)
    if recorded is None:
        return "the checkpoint does not have it"
    names = StructType.fromJson(recorded["schema"]).names
    if "value" not in names or (store.times and store.times != ("ts",) and "window" not in names):
        return "the checkpoint keeps it under other columns"
    return ""


# The way of one record through the operators, and a test that repeats it.

_NAMED = "topologies:topology"
"""The module and name of the topology in a saved test; the user puts in their own."""


@dataclass(frozen=True)
class TraceStep:
    """An operator to which a record came, itself or by what it caused.

    Parameters
    ----------
    node : the operator's name.
    operator : what it does, as "foreign key".
    rows : the rows that came to it, as JSON.
    drops : reasons for which it dropped rows.
    stores : what changed in its stores.
    """

    node: str
    operator: str
    rows: tuple[str, ...]
    drops: tuple[str, ...]
    stores: tuple[Comparison, ...]

    def __str__(self) -> str:
        lines = [f"{self.node} ({self.operator})", *(f"  gets {row}" for row in self.rows)]
        lines += [f"  drops a row: {reason}" for reason in self.drops]
        return "\n".join([*lines, *(f"  {store.name}: {row}" for store in self.stores for row in store.rows)])


@refusing("[...]", "loop", "len")
@answering_as(None)
@dataclass(frozen=True)
class Trace:
    """The way of one input record through a topology; `print` shows it.

    Parameters
    ----------
    record : the record.
    steps : the operators to which it came, in order, with their stores before and after.
    outputs : by the name of each output the records that it caused, as (key, value, timestamp in ms).
    """

    record: InputRecord
    steps: tuple[TraceStep, ...]
    outputs: Mapping[str, tuple[tuple[Any, Any, int], ...]]
    _inputs: tuple[_Pipe, ...]

    def __str__(self) -> str:
        record = f"{text_of(self.record.key)}: {text_of(self.record.value)}"
        lines = [f"{self.record.place}  {record}", *map(str, self.steps)]
        for name, records in self.outputs.items():
            lines += [f"output {name}: {text_of(key)}: {text_of(value)}, {ts} ms" for key, value, ts in records]
        return "\n".join(lines if len(lines) > 1 else [*lines, "It changed nothing."])

    def _repr_html_(self) -> str:
        test = base64.b64encode(self.to_test(_NAMED).encode()).decode()
        link = f'<a download="{self._test_name}.py" href="data:text/x-python;base64,{test}">Save as a test</a>'
        return f"<pre>{html.escape(str(self))}</pre>{link}"

    def as_dict(self) -> dict[str, Any]:
        """Its content as dicts, lists and values that JSON has."""
        fields = ("key", "value", "timestamp")
        return {
            "record": {"place": self.record.place, **plain(vars(self.record))},
            "steps": [{**vars(step), "stores": [store.as_dict() for store in step.stores]} for step in self.steps],
            "outputs": {
                name: [dict(zip(fields, plain(record), strict=True)) for record in records]
                for name, records in self.outputs.items()
            },
        }

    @property
    def _test_name(self) -> str:
        return f"test_{re.sub(r'[^0-9A-Za-z]+', '_', self.record.place).strip('_').lower()}"

    def to_test(self, topology: str) -> str:
        """A test that pipes the record, behind those before it that matter to it, and expects what it caused.

        Parameters
        ----------
        topology : where the topology is found, as `module:name`.

        Returns
        -------
        str : a module of Python for pytest.

        Raises
        ------
        ConfigError : `topology` names none.
        """
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", topology):
            raise ConfigError(f"topology={topology!r:.80} names no topology.", hint=f"to_test({_NAMED!r})")
        module, _, name = topology.partition(":")
        *earlier, pipe = self._inputs
        lines = [
            "import datetime",
            "from decimal import Decimal",
            "",
            "from pyspark.sql import Row",
            "",
            f"from {module} import {name}",
            "from watersmeet.testing import TopologyTestDriver",
            "",
            "",
            f"def {self._test_name}():",
            f"    driver = TopologyTestDriver({name})",
            *(f"    {earlier_pipe.call()}" for earlier_pipe in earlier),
            *(f"    driver.read({output!r})" for output in self.outputs),
            f"    {pipe.call()}",
        ]
        for output, records in self.outputs.items():
            results = f"[(record.key, record.value, record.ts) for record in driver.read({output!r})]"
            # a NaN equals nothing, and is shown as one
            same = "repr({}) == repr({})" if "nan" in repr(records) else "{} == {}"
            lines.append(f"    assert {same.format(results, repr(list(records)))}")
        if re.search(r"\b(nan|inf)\b", "\n".join(lines)):
            lines.insert(2, "from math import inf, nan")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Pipe:
    """A call of the test driver."""

    input: str
    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...]

    @classmethod
    def of(cls, entry: JournaledRecord, sources: Mapping[str, SourceNode]) -> _Pipe:
        record = entry.record
        shape = sources[record.input].shape
        pair = (_zoned(record.key, shape.key), _zoned(record.value, shape.value))
        name = record.input if sources[record.input].origin.pattern is None else record.topic or record.input
        return cls(name, *pair, record.ts, tuple(entry.piped.headers))

    def call(self) -> str:
        """As a line of Python."""
        headers = f", headers={list(self.headers)!r}" if self.headers else ""
        return f"driver.pipe({self.input!r}, key={self.key!r}, value={self.value!r}, ts={self.ts}{headers})"


def _zoned(value: Any, kind: DataType) -> Any:
    """A value with a zone at each timestamp, as the test driver takes them."""
    if value is None or isinstance(value, bytes | bytearray):
        return value
    if isinstance(kind, TimestampType):
        return value.astimezone(UTC)
    if isinstance(kind, StructType):
        return {field.name: _zoned(value[field.name], field.dataType) for field in kind}
    if isinstance(kind, ArrayType):
        return [_zoned(item, kind.elementType) for item in value]
    if isinstance(kind, MapType):
        return {_zoned(name, kind.keyType): _zoned(item, kind.valueType) for name, item in value.items()}
    return value


class _TracedRun(WatchedRun):
    """A run that also notes the rows of each operator as text, and has the results of outputs."""

    _collected = LocalRun._collected

    def __init__(self, topology: Local) -> None:
        super().__init__(topology)
        self._hidden = frozenset((*position_columns(topology.physical.slots), "hash"))
        self._targets = {edge.id: edge.target for edge in topology.physical.edges}
        self.rows: dict[int, list[str]] | None = None

    def store_rows(self) -> dict[str, dict[Hashable, _TableRow]]:
        """The rows of all stores."""
        return {name: _stored_rows(self, store) for name, store in self.topology.stores.items()}

    def _note(self, label: int, blobs: Sequence[tuple[int, bytes]]) -> None:
        super()._note(label, blobs)
        for port, content in blobs:
            if self.rows is not None and port in self._targets:
                table = row_sizes.decode(content)
                table = table.select([name for name in table.column_names if name not in self._hidden])
                self.rows.setdefault(self._targets[port], []).extend(map(text_of, table.to_pylist()))


def trace(spark: SparkSession, checkpoint: str, physical: Physical, place: str) -> Trace:
    """The way of a record of a checkpoint's journal; see `Topology.trace`.

    Raises
    ------
    ConfigError : there is no journal, the record is not in it, or the topology cannot be replayed in this process.
    """
    check_session(spark, "topology.trace(spark, checkpoint=..., record=...)")
    start = started_in(Folder(spark, checkpoint))
    journal = Journal.of(start.spark_folder)
    ready = replayable(spark, physical, _CURE)
    history = journaled_rows(journal, ready, topics_of(start, physical.plan))
    step = _step_of(history, place, journal)
    steps, outputs, related = _traced(ready, history, np.arange(step + 1))
    related_steps, related_outputs, _ = _traced(ready, history, related)
    if list(map(str, related_steps)) != list(map(str, steps)) or repr(related_outputs) != repr(outputs):
        related = np.arange(step + 1)
    sources = {source.input: source for source in physical.plan.sources}
    entries = history.records(related.tolist())
    return Trace(entries[-1].record, steps, outputs, tuple(_Pipe.of(entry, sources) for entry in entries))


def _step_of(history: JournaledRows, place: str, journal: Journal) -> int:
    """The number of the record at a place.

    Raises
    ------
    ConfigError : the journal does not have it.
    """
    offset = int((re.findall(r"\d+$", place) or ["-1"])[0])
    for at, frame in enumerate(history.frames):
        for row in np.flatnonzero(ints(frame.rows, "offset") == offset).tolist():
            if frame.record(row).record.place == place:
                return int(np.flatnonzero((history.order[0] == at) & (history.order[1] == row))[0])
    batches = f"{journal.batches[0].number} to {journal.batches[-1].number}"
    example = history.records([0])[0].record.place if len(history) else "orders-0@812"
    raise ConfigError(
        f"The journal has no record {place!r} in its batches {batches}.",
        hint=f"Name a record as `why` shows it: record={example!r}.",
    )


def _traced(
    ready: Local, history: JournaledRows, numbers: Int64s
) -> tuple[tuple[TraceStep, ...], dict[str, tuple[tuple[Any, Any, int], ...]], Int64s]:
    """The way of the last of some records, what it gives, and the records that came to operators under its keys."""
    run, plan, last = _TracedRun(ready), without_dead_letters(ready.physical.plan), int(numbers[-1])
    run.take(history.frame(numbers[:-1])).clear()
    stores, drops, run.rows = run.store_rows(), Counter(run.drops), {}
    results = run.take(history.frame(numbers[-1:]))
    changed_stores, drops = run.store_rows(), run.drops - drops
    steps, related = list[TraceStep](), [numbers[-1:]]
    for operator in sorted(ready.physical.operators, key=attrgetter("level", "id")):
        arrivals = run.arrivals(operator.id)
        keys = set(arrivals.keys.filter(pa.array(arrivals.steps == last)).to_pylist())
        related.append(arrivals.of_keys(keys))
        names = [name for name, store in ready.stores.items() if store.context.operator.id == operator.id]
        changes = (compare(f"store {name}", stores[name], changed_stores[name], LISTED_ROWS) for name in names)
        changed = tuple(change for change in changes if not change.is_empty)
        rows, reasons = (
            run.rows.get(operator.id, []),
            [reason for node, reason in drops if node == operator.node],
        )
        if rows or changed or reasons:
            stem = plan.by_name[operator.node].stem.replace("_", " ")
            steps.append(TraceStep(operator.node, stem, tuple(rows), tuple(reasons), changed))
    outputs: dict[str, tuple[tuple[Any, Any, int], ...]] = {}
    for sink in plan.sinks:
        records = tuple((record.key, record.value, record.ts) for record in results.get((0, sink.name), []))
        outputs[sink.output] = outputs.get(sink.output, ()) + records
    return tuple(steps), outputs, np.unique(np.concatenate(related))
