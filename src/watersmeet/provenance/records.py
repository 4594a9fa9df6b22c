"""The records of a journal, in the order in which the query has processed them.

They stay columns, as the tasks have written them: only the few that an answer is about become records of Python's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.clock import SNAPSHOT, Clock
from watersmeet._engine.rows.columns import PARTITION_BITS, array, ints
from watersmeet._engine.rows.topic_slots import TOPIC, numbered
from watersmeet._plan.logical import Plan
from watersmeet._spark.journal.read import Journal
from watersmeet._worker.formats.arrow_types import arrow_schema, loosened
from watersmeet._worker.formats.deserializers import RAW
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet.provenance.piped_frames import piped_frame
from watersmeet.testing.in_process import Local
from watersmeet.testing.piped import Inlet, Piped
from watersmeet.testing.records import PipedFrame, headers_of
from watersmeet.testing.values import python_rows

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


class History(Protocol):
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
        """See `History`."""
        starts = np.cumsum([0, *(len(each.piped) for each in self.frames)])[:-1]
        found = [np.where(ints(f.piped, "reason") == 0, ints(f.piped, "ts"), _NO_TIME) for f in self.frames]
        at: Int64s = starts[self.order[0]] + self.order[1] if len(self) else self.order[1]
        return np.concatenate(found)[at] if found else np.zeros(0, dtype=np.int64)

    def frame(self, steps: Int64s) -> pa.Table:
        """See `History`."""
        parts, places = list[pa.Table](), list[Int64s]()
        for number in np.unique(self.order[0][steps]).tolist():
            mine = steps[self.order[0][steps] == number]
            parts.append(self.frames[number].piped.take(pa.array(self.order[1][mine])))
            places.append(mine)
        if not parts:
            return arrow_schema(self.form.schema).empty_table()
        at = np.concatenate(places)
        found = pa.concat_tables(parts).take(pa.array(np.argsort(at)))
        return numbered_steps(found, np.sort(at))

    def records(self, steps: Sequence[int]) -> list[JournaledRecord]:
        """See `History`."""
        return [self._record(step) for step in steps]

    def _record(self, step: int) -> JournaledRecord:
        found = self.frames[int(self.order[0][step])].record(int(self.order[1][step]))
        return replace(found, piped=replace(found.piped, step=step))


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
            partition = partition | np.vectorize(numbered, otypes=[np.int64])(ints(pa.table([number], ["n"]), "n"))
        return self.inlet.number << PARTITION_BITS | partition, ints(self.rows, "offset")

    def record(self, row: int) -> JournaledRecord:
        """One of them."""
        mine = self.rows.slice(row, 1)
        partition, offset, ts = (int(ints(mine, name)[0]) for name in ("partition", "offset", "ts"))
        ((key, value),) = _pairs(mine, self.inlet)
        headers = headers_of(mine.column("headers")[0].as_py() if "headers" in mine.column_names else None)
        piped = self.inlet.record(key, value, ts, headers, 0)
        topic = self.inlet.source.origin.topic
        if self.inlet.source.origin.pattern is not None:
            topic = mine.column(TOPIC)[0].as_py()
            piped = self.inlet.of_topic(topic, piped)
        # what cannot be decoded is shown as it came
        shown = (key, value) if piped.reason else (piped.key, piped.value)
        at = (partition, offset, self.batch, piped.ts)
        return JournaledRecord(InputRecord(self.inlet.source.input, topic, *at, *shown), piped)


def in_sequence(journal: Journal, topology: Local, inlets: Sequence[Inlet]) -> JournaledRows:
    """All records of a journal, in order."""
    frames, order = list[JournalFrame](), list[tuple[Int64s, Int64s]]()
    for batch in journal.batches:
        read = [
            each
            for rows, snapshot in batch.frames()
            for each in _frames(rows, (batch.number, snapshot), inlets, topology.form)
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
    rows: pa.Table, told: tuple[int, bool], inlets: Sequence[Inlet], form: PipedFrame
) -> Iterator[JournalFrame]:
    root = ints(rows, "root")
    for inlet in inlets:
        mine = rows.filter(pa.array(root == inlet.number)).combine_chunks()
        if len(mine):
            yield JournalFrame(inlet, *told, mine, piped_frame(mine, inlet, form))


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
    lengths = [len(each.rows) for each in read]
    numbers = np.repeat(np.arange(len(read)), lengths)
    rows = np.concatenate([np.arange(length) for length in lengths])
    srcpart, offset = (np.concatenate([each.positions[at] for each in read]) for at in (0, 1))
    sources = srcpart >> PARTITION_BITS
    by_log = np.lexsort((offset, srcpart))
    moves = _moves(pa.concat_tables([each.piped for each in read]).take(pa.array(by_log)), topology)
    order_ts = np.empty(len(numbers), dtype=np.int64)
    order_ts[by_log] = Clock().stamp(srcpart[by_log], moves, moves > _NO_TIME)
    order_ts[np.repeat([each.snapshot for each in read], lengths)] = SNAPSHOT
    order_ts[np.isin(sources, topology.pack.stage.first)] = _NO_TIME
    places = np.lexsort((offset, srcpart, order_ts))
    return numbers[places], rows[places]


def _moves(frame: pa.Table, topology: Local) -> Int64s:
    """The time that each record moves its partition to; the lowest number where it moves none."""
    frame = numbered_steps(frame, np.arange(len(frame)))
    stamped = topology.pack._prepared(loosened(frame), Clock(), DeadLetterWriter(topology.pack.common.dead_letters))
    found = np.full(len(frame), _NO_TIME)
    found[ints(stamped, "offset")] = ints(stamped, "time")
    return found


def inlets_of(plan: Plan, topics: Mapping[str, Sequence[str]] | None = None) -> list[Inlet]:
    """The inputs of a topology.

    Parameters
    ----------
    topics : of inputs with a pattern their topics, in the order of the numbers that the checkpoint gives them.
    """
    known = topics or {}
    return [
        Inlet(number, source, topics=list(known.get(source.name, ())))
        for number, source in enumerate(plan.sources)
        if source.dead_letters_of is None
    ]
