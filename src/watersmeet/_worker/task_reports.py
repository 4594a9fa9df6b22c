"""The channel between the driver and the tasks of a batch: a request one way, reports the other.

The request is one property of the batch's jobs, JSON; the settings with secrets have properties of their own
(`process`). A report comes back by an accumulator of Spark's: with the result of its task, and only of one that has
succeeded. It bears the number of the batch and the place in the plan that it is from, so that a task that runs again,
or twice at a time, takes the place of its own first report: everything counts once (law 6).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from watersmeet._engine import row_sizes
from watersmeet._engine.rows import TOPICS
from watersmeet._engine.state.runs import State, Table
from watersmeet._worker.counts import Counts
from watersmeet._worker.process import batch_number, job_property, partition

PROPERTY = "watersmeet.batch"
"""The job's property with the request."""


@dataclass
class BatchRequest:
    """The request of the driver to the tasks of a batch; a default asks for nothing."""

    batch: int = -1  # its number; -1: it is no query's
    begun_ms: int | None = None  # when it began, in ms since 1970
    live_ms: int = 0  # when the query was started: older records waited for the query, or are read again
    absent: bool = False  # whether tasks report the columns of formats that no record has
    topics: Mapping[int, Sequence[str]] | None = None  # of patterns, by the number of the source: others may join
    served: Mapping[str, Sequence[int]] = field(default_factory=dict)  # labels by table, whose changes are to come back
    journal: str | None = None  # the folder into which input records are written

    @classmethod
    def of_task(cls) -> BatchRequest:
        return _request(job_property(PROPERTY) or "{}")

    def to_json(self) -> str:
        """The property that `of_task` reads."""
        return json.dumps(asdict(self))

    def take_topics(self) -> None:
        """Know the topics of patterns in this process."""
        if self.topics is not None:
            TOPICS.set({int(source): names for source, names in self.topics.items()})


@lru_cache(1)
def _request(text: str) -> BatchRequest:
    return BatchRequest(**json.loads(text))


class ServedChange(NamedTuple):
    """The changes of a batch in a shard of a table."""

    store: str  # name of the table
    label: int  # the shard's
    # the changed rows as runs have them, tombstones included; None: there are too many
    rows: tuple[bytes, ...] | None
    floors: Mapping[int, int] | None  # of the table's time domains; None: as they were


@dataclass
class TaskReport:
    """The report of a task of one step of the plan."""

    counts: Counts = field(default_factory=Counts)  # all that it has counted
    served: list[ServedChange] = field(default_factory=list)  # the changes of served tables

    def send(self, to: Reports | None, step: str) -> None:
        """Give it to the driver, when the task has succeeded.

        Parameters
        ----------
        to : takes it; None: nobody does.
        step : name of the step: several may run in one task of Spark's.
        """
        if to is not None:
            to.add({(batch_number(), step, partition()): self})


ReportKey = tuple[int | None, str, int]
"""Number of the batch, None: the one under way; name of the step; number of the task's partition."""
_Reports = dict[ReportKey, TaskReport]
Reports = Accumulator[_Reports]


class LatestReports(AccumulatorParam[_Reports]):
    """Adds reports up: the latest from each place."""

    def zero(self, value: _Reports) -> _Reports:
        return {}

    def addInPlace(self, value1: _Reports, value2: _Reports) -> _Reports:
        value1.update(value2)
        return value1


MOST_BYTES = 64 << 20
"""Of a shard's changes of a table in a batch; where there are more, the driver reads the table from the checkpoint."""


@dataclass
class ShardChanges:
    """Collects the changes of a shard's served tables, as plain Arrow bytes (law 5)."""

    label: int  # the shard's
    tables: frozenset[str]  # names of those that are served
    _rows: dict[str, list[bytes]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begun(cls, label: int, state: State) -> ShardChanges | None:
        """A watch of a shard's state until `end`; None where none of its tables is served."""
        tables = frozenset(name for name, labels in BatchRequest.of_task().served.items() if label in labels)
        if not tables:
            return None
        watch = cls(label, tables)
        state.watch = watch._take
        return watch

    def _take(self, table: Table, rows: pa.RecordBatch) -> None:
        if table.name not in self.tables:
            return
        size = self._sizes[table.name] = self._sizes.get(table.name, 0) + rows.nbytes
        if size > MOST_BYTES:
            self._rows[table.name] = []
        else:
            tagged = rows.replace_schema_metadata(table.layout.stored.metadata)
            self._rows.setdefault(table.name, []).append(row_sizes.encode(tagged))

    def end(self, state: State) -> list[ServedChange]:
        """The collected changes; the shard's state is committed."""
        state.watch = None
        changes = []
        for name in sorted(self.tables):
            table = state.opened(name)
            floors = dict(table.floors) if table is not None and table.floors else None
            if name in self._sizes or floors is not None:
                rows = None if self._sizes.get(name, 0) > MOST_BYTES else tuple(self._rows.get(name, ()))
                changes.append(ServedChange(name, self.label, rows, floors))
        return changes
