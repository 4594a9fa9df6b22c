"""The records of a journal, in the order in which the query has processed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange.clock import SNAPSHOT, Clock
from watersmeet._engine.rows.columns import PARTITION_BITS, ints
from watersmeet._plan.logical import Plan
from watersmeet._spark.journal.read import Journal
from watersmeet._worker.formats.arrow_types import loosened
from watersmeet._worker.formats.deserializers import RAW
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet.testing.in_process import Local
from watersmeet.testing.piped import Header, Inlet, Piped
from watersmeet.testing.records import headers_of
from watersmeet.testing.values import arrow_rows, python_rows

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


def in_sequence(journal: Journal, topology: Local, inlets: Sequence[Inlet]) -> list[JournaledRecord]:
    """All records, in order; the first has the step 0."""
    found: list[JournaledRecord] = []
    for batch in journal.batches:
        read = [each for frame, snapshot in batch.frames() for each in _read(frame, snapshot, batch.number, inlets)]
        found += _in_order(read, topology)
    return [replace(each, piped=replace(each.piped, step=step)) for step, each in enumerate(found)]


@dataclass(frozen=True)
class _RecordOfBatch:
    """A record of a batch, and whether it is of a snapshot."""

    record: InputRecord
    piped: Piped
    snapshot: bool


def _read(frame: pa.Table, snapshot: bool, batch: int, inlets: Sequence[Inlet]) -> Iterator[_RecordOfBatch]:
    root = ints(frame, "root")
    for inlet in inlets:
        mine = frame.filter(pa.array(root == inlet.number))
        if not len(mine):
            continue
        numbers = zip(*(ints(mine, name).tolist() for name in ("partition", "offset", "ts")), strict=True)
        headers = mine.column("headers").to_pylist() if "headers" in mine.column_names else [None] * len(mine)
        for (partition, offset, ts), (key, value), told in zip(numbers, _pairs(mine, inlet), headers, strict=True):
            yield _one(inlet, batch, (partition, offset, ts), (key, value), headers_of(told), snapshot)


def _one(
    inlet: Inlet,
    batch: int,
    place: tuple[int, int, int],
    given: tuple[Any, Any],
    headers: tuple[Header, ...],
    snapshot: bool,
) -> _RecordOfBatch:
    partition, offset, ts = place
    piped = inlet.record(*given, ts, headers, 0)
    topic = inlet.source.origin.topic
    # what cannot be decoded is shown as it came
    shown = (piped.key, piped.value) if piped.source == inlet.number and not piped.reason else given
    return _RecordOfBatch(
        InputRecord(inlet.source.input, topic, partition, offset, batch, piped.ts, *shown), piped, snapshot
    )


def _pairs(rows: pa.Table, inlet: Inlet) -> list[tuple[Any, ...]]:
    """Keys and values: bytes as they came, else values."""
    if RAW["key"] in rows.column_names:
        return list(zip(*(rows.column(name).to_pylist() for name in RAW.values()), strict=True))
    shape = inlet.source.shape
    columns = [(f"s{inlet.number}_{part}", getattr(shape, part)) for part in ("key", "value")]
    return python_rows(rows, columns)


def _in_order(read: Sequence[_RecordOfBatch], topology: Local) -> list[JournaledRecord]:
    """The records of a batch in the order of their positions (law 2)."""
    if not read:
        return []
    srcpart = np.array([each.piped.source << PARTITION_BITS | each.record.partition for each in read])
    offset = np.array([each.record.offset for each in read])
    by_log = np.lexsort((offset, srcpart))
    moves = _moves([read[at].piped for at in by_log], topology)
    order_ts = np.empty(len(read), dtype=np.int64)
    order_ts[by_log] = Clock().stamp(srcpart[by_log], moves, moves > _NO_TIME)
    order_ts[np.array([each.snapshot for each in read])] = SNAPSHOT
    order_ts[np.isin([each.piped.source for each in read], topology.pack.stage.first)] = _NO_TIME
    places = np.lexsort((offset, srcpart, order_ts))
    return [JournaledRecord(read[at].record, read[at].piped) for at in places]


def _moves(piped: Sequence[Piped], topology: Local) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The time that each record moves its partition to; the lowest number where it moves none."""
    numbered = [replace(each, step=step) for step, each in enumerate(piped)]
    form = topology.form
    frame = arrow_rows(form.rows([numbered]), [(each.name, each.dataType) for each in form.schema])
    stamped = topology.pack._prepared(loosened(frame), Clock(), DeadLetterWriter(topology.pack.common.dead_letters))
    found = np.full(len(piped), _NO_TIME)
    found[ints(stamped, "offset")] = ints(stamped, "time")
    return found


def inlets_of(plan: Plan) -> list[Inlet]:
    """The inputs of a topology."""
    return [Inlet(number, source) for number, source in enumerate(plan.sources) if source.dead_letters_of is None]
