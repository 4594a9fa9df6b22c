"""The changes of a batch in the tables that are served, as a level hands them back to the driver.

The driver asks with a property of the job, so that a query that serves nothing does nothing. The changes come back by
an accumulator of Spark's: with the result of the task, and only of a task that has succeeded. They are plain Arrow
bytes (law 5); a shard that is run again hands back the same once more.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from watersmeet._engine import row_sizes
from watersmeet._engine.state.runs import State, Table
from watersmeet._worker.process import job_property

PROPERTY = "watersmeet.served"
"""The job's property that says what is to be handed back."""
MOST_BYTES = 64 << 20
"""Of a shard's changes of a table in a batch; where there are more, the driver reads the table from the checkpoint."""


class ServedChange(NamedTuple):
    """The changes of a batch in a shard of a table."""

    batch: int  # its number
    store: str  # name of the table
    label: int  # the shard's
    # the changed rows as runs have them, tombstones included; None: there are too many
    rows: tuple[bytes, ...] | None
    floors: Mapping[int, int] | None  # of the table's time domains; None: as they were


@dataclass(frozen=True)
class AskedChanges:
    """The question of the driver."""

    batch: int  # number of the batch
    labels: Mapping[str, frozenset[int]]  # of each served table those of its shards
    accumulator: str  # where changes go, as text

    @staticmethod
    def text(batch: int, labels: Mapping[str, list[int]], to: Any) -> str:
        """The property that `of_job` reads."""
        place = base64.b64encode(pickle.dumps(to)).decode("ascii")
        return json.dumps({"batch": batch, "labels": labels, "accumulator": place})

    @classmethod
    def of_job(cls) -> AskedChanges | None:
        """The question to this task; None: nothing is asked."""
        text = job_property(PROPERTY)
        if not text:
            return None
        request = json.loads(text)
        return cls(
            request["batch"],
            {name: frozenset(labels) for name, labels in request["labels"].items()},
            request["accumulator"],
        )

    def hand_back(self, changes: list[ServedChange]) -> None:
        """Give changes to the driver, when the task has succeeded."""
        to: Any = pickle.loads(base64.b64decode(self.accumulator))
        to.add(changes)


@dataclass
class HandedBack:
    """Collects the changes of a shard's served tables."""

    label: int  # the shard's
    asked: AskedChanges  # what the driver asks for
    _rows: dict[str, list[bytes]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begun(cls, label: int, state: State) -> HandedBack | None:
        """A watch of a shard's state until `end`; None where none of its tables is served."""
        request = AskedChanges.of_job()
        if request is None or not any(label in labels for labels in request.labels.values()):
            return None
        watch = cls(label, request)
        state.watch = watch._take
        return watch

    @cached_property
    def _served(self) -> frozenset[str]:
        return frozenset(name for name, labels in self.asked.labels.items() if self.label in labels)

    def _take(self, table: Table, rows: pa.RecordBatch) -> None:
        if table.name not in self._served:
            return
        size = self._sizes[table.name] = self._sizes.get(table.name, 0) + rows.nbytes
        if size > MOST_BYTES:
            self._rows[table.name] = []
        else:
            tagged = rows.replace_schema_metadata(table.layout.stored.metadata)
            self._rows.setdefault(table.name, []).append(row_sizes.encode(tagged))

    def end(self, state: State) -> None:
        """The shard's state is committed: hand back what was collected."""
        state.watch = None
        changes = []
        for name in sorted(self._served):
            table = state.opened(name)
            floors = dict(table.floors) if table is not None and table.floors else None
            if name in self._sizes or floors is not None:
                rows = None if self._sizes.get(name, 0) > MOST_BYTES else tuple(self._rows.get(name, ()))
                changes.append(ServedChange(self.asked.batch, name, self.label, rows, floors))
        if changes:
            self.asked.hand_back(changes)
